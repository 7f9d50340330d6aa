//! Expansions in model files.

use crate::error::{Error, Result};
use crate::kernel::{FeatureMap, Scaling};
use crate::model::Container;
use crate::space::{FeatureExpansion, Function, Iterate};

/// Adds what f is made of: coefficients (blocks×m×C), offset (C), shift and scale of the columns.
pub(crate) fn insert_expansion(container: &mut Container, f: &FeatureExpansion) -> Result<()> {
    let (map, c) = (f.map(), f.outputs());
    let coefficients: Vec<f32> = (0..f.len()).flat_map(|b| f.coefficients(b).into_owned()).collect();
    container.insert("coefficients", vec![f.len(), map.block_size, c], coefficients)?;
    container.insert("offset", vec![c], f.offset().to_vec())?;
    container.insert("shift", vec![map.columns()], map.scaling.shift.clone())?;
    container.insert("scale", vec![map.columns()], map.scaling.scale.clone())
}

/// Takes out what [`insert_expansion`] added, for C outputs; `map` completes the scaling.
pub(crate) fn take_expansion(
    container: &mut Container,
    outputs: usize,
    map: impl FnOnce(Scaling) -> FeatureMap,
) -> Result<FeatureExpansion> {
    let columns = container.f32s("shift")?.0.first().copied().unwrap_or(0);
    if columns == 0 || outputs == 0 {
        return Err(Error::Format("a model needs at least one column and one output".into()));
    }
    let shift = container.take_f32s("shift", &[columns])?;
    let scale = container.take_f32s("scale", &[columns])?;
    let map = map(Scaling { shift, scale });
    map.check().map_err(|e| Error::Format(e.to_string()))?;
    let block = map.block_size * outputs;
    let blocks = container.f32s("coefficients")?.0.first().copied().unwrap_or(0);
    let coefficients = container.take_f32s("coefficients", &[blocks, map.block_size, outputs])?;
    let mut f = FeatureExpansion::new(map, container.take_f32s("offset", &[outputs])?);
    coefficients.chunks_exact(block).for_each(|block| f.push(block.to_vec()));
    Ok(f)
}

/// Adds an iterate that a stream goes on from, and its average, to a container that has the expansion it is of.
pub(crate) fn insert_iterate(container: &mut Container, f: &FeatureExpansion) -> Result<()> {
    let iterate = f.iterate();
    let [last, mean] = [iterate.coefficients.len(), iterate.average.len()];
    container.set_field("iterate", &iterate)?;
    container.insert("iterate.offset", vec![f.outputs()], f.offset().to_vec())?;
    container.insert("iterate.coefficients", vec![last], iterate.coefficients)?;
    container.insert("iterate.average", vec![mean], iterate.average)
}

/// Takes out what [`insert_iterate`] added: an iterate on the features of `map` with C outputs.
pub(crate) fn take_iterate(
    container: &mut Container,
    map: FeatureMap,
    outputs: usize,
) -> Result<FeatureExpansion> {
    let mut iterate: Iterate = container.field("iterate")?;
    let offset = container.take_f32s("iterate.offset", &[outputs])?;
    let [last, mean] = ["iterate.coefficients", "iterate.average"];
    let count = container.f32s(last)?.1.len();
    let averages = container.f64s(mean)?.1.len();
    let kept = iterate.averaging.map_or(1, |(rule, _)| rule.kept());
    if !count.is_multiple_of(map.block_size * outputs) || averages != 0 && averages != kept * count {
        return Err(Error::Format("the iterate of the stream does not fit its features".into()));
    }
    iterate.coefficients = container.take_f32s(last, &[count])?;
    iterate.average = container.take_f64s(mean, &[averages])?;
    Ok(FeatureExpansion::from_iterate(map, offset, iterate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rows;
    use crate::kernel::KernelSpec;
    use crate::random::Seed;
    use crate::space::{Averaged, Averaging, Space, Terms};

    /// An iterate goes on from a file by every rule of averaging, and the number of its averages is that of its rule.
    #[test]
    fn averages_go_on_from_a_file() {
        let map = FeatureMap::new(KernelSpec::Gaussian, 1.0, 64, Seed(1), Scaling::identity(2)).unwrap();
        let step = |f: &mut FeatureExpansion, t: i32| {
            let x = [0.3 * t as f32, -0.5];
            let terms = Terms::new(Rows::single(&x, 2).unwrap(), &[1.0]);
            f.step(1.0 / f64::from(t), 0.1, &[terms]).unwrap();
        };
        for rule in [Averaging::Power(3.0), Averaging::StepSize, Averaging::Tail, Averaging::LastHalf(6)] {
            let mut f = FeatureExpansion::new(map.clone(), vec![0.0]).limited_to(4).averaging(rule);
            for t in 1..7 {
                let mut container = Container::new("model");
                insert_iterate(&mut container, &f).unwrap();
                let mut read = take_iterate(&mut container, map.clone(), 1).unwrap();
                step(&mut f, t);
                step(&mut read, t);
                assert_eq!(read.iterate(), f.iterate(), "{rule:?}, step {t}");
            }
            let mut container = Container::new("model");
            insert_iterate(&mut container, &f).unwrap();
            let other = if rule == Averaging::Tail { Averaging::StepSize } else { Averaging::Tail };
            container.header["iterate"]["averaging"][0] = serde_json::to_value(other).unwrap();
            let error = take_iterate(&mut container, map.clone(), 1).unwrap_err().to_string();
            assert!(error.contains("does not fit its features"), "{error}");
        }
    }
}
