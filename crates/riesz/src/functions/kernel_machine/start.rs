//! Targets in the units that their loss wants, and the way back.

use super::options::Task;
use crate::error::Result;
use crate::loss::{column, Loss, LossSpec, Unit};
use crate::space::{FeatureExpansion, Function};

/// Targets in their units, which are one per target.
pub(crate) fn standardise(loss: &dyn Loss, targets: &[f32], weights: &[f32]) -> (Vec<f32>, Vec<Unit>) {
    let t = loss.targets();
    let units: Vec<Unit> = (0..t).map(|k| loss.unit(&column(targets, weights, k, t))).collect();
    (targets.iter().enumerate().map(|(i, &y)| units[i % t].scaled(y)).collect(), units)
}

/// The loss of targets in `units`.
pub(crate) fn loss_in(spec: &LossSpec, task: Task, units: &[Unit]) -> Result<Box<dyn Loss>> {
    match task {
        Task::Regression(_) => spec.build_in(&units.iter().map(|unit| unit.scale).collect::<Vec<_>>()),
        Task::Classification(classes) => spec.build(classes),
    }
}

/// The function of targets as they were, from that of targets in `units`; `shifts` are added first, one per output. Several
/// outputs of one target, as of quantiles, share its unit.
pub(crate) fn in_units(f: FeatureExpansion, units: &[Unit], shifts: Option<&[f32]>) -> FeatureExpansion {
    if units.iter().all(|unit| *unit == Unit::IDENTITY) {
        return f;
    }
    let c = f.outputs();
    let unit = |i: usize| units[i % c % units.len()];
    let shift = |i: usize| shifts.map_or(0.0, |shifts| f64::from(shifts[i]));
    let shifted = |(i, u): (usize, &f32)| unit(i).output(f64::from(*u) + shift(i)) as f32;
    let offset = f.offset().iter().enumerate().map(shifted).collect();
    let mut out = FeatureExpansion::new(f.map().clone(), offset);
    for b in 0..f.len() {
        let scaled = |(i, a): (usize, &f32)| (f64::from(*a) * unit(i).factor) as f32;
        out.push(f.coefficients(b).iter().enumerate().map(scaled).collect());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::kernel_machine::training::effective_rows;

    #[test]
    fn standardised_targets_come_back_in_their_units() {
        let targets: Vec<f32> =
            (0..60).map(|i| if i % 2 == 0 { 1e3 + (i % 7) as f32 } else { -5.0 }).collect();
        let weights: Vec<f32> = (0..30).map(|i| (i % 3) as f32).collect();
        let (scaled, units) = standardise(&*LossSpec::Square.build(2).unwrap(), &targets, &weights);
        let mean_of = |k: usize, p: i32| {
            (0..30).map(|i| f64::from(weights[i]) * f64::from(scaled[2 * i + k]).powi(p)).sum::<f64>()
                / effective_rows(&weights)
        };
        assert!(mean_of(0, 1).abs() < 1e-6 && (mean_of(0, 2) - 1.0).abs() < 1e-6);
        // A constant target stays at zero, not at 0/0.
        assert!(scaled.iter().skip(1).step_by(2).all(|&y| y == 0.0));
        for (i, y) in targets.iter().enumerate() {
            assert!((units[i % 2].output(f64::from(scaled[i])) - f64::from(*y)).abs() < 1e-3);
        }
    }

    #[test]
    fn classes_have_no_units() {
        for (classes, targets) in [(2, [-1.0, 1.0, 1.0]), (3, [0.0, 2.0, 1.0])] {
            let loss = LossSpec::Hinge.build(classes).unwrap();
            assert_eq!(standardise(&*loss, &targets, &[1.0; 3]), (targets.to_vec(), vec![Unit::IDENTITY]));
        }
    }
}
