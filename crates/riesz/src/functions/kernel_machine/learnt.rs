//! What a machine has learnt: features, or kernel atoms at all rows.

use super::options::Options;
use super::start::in_units;
use super::training::SMALL;
use crate::compute::{self, Device};
use crate::data::{tiles, Rows, TILE};
use crate::error::{same_columns, Error, Result};
use crate::functions::geometry::median_distance;
use crate::functions::stored::insert_expansion;
use crate::kernel::{ClosedForm, KernelSpec, Scaling};
use crate::loss::Unit;
use crate::model::Container;
use crate::solver::RidgeConfig;
use crate::space::{Budget, Dictionary, FeatureExpansion, Function, Raw};

/// A function on random features, or an expansion over the rows it was learnt from.
#[derive(Clone, Debug)]
pub(crate) enum Learnt {
    Features(FeatureExpansion),
    Atoms(Dictionary),
}

/// Features per block, blocks and ridge of the features that take the place of atoms.
const STAND_IN: (usize, usize, f64) = (512, 8, 1e-6);
/// Largest bandwidth of these, in median distances of the atoms. Steps along a wider kernel change f everywhere at once and unlearn what a fit
/// has learnt by coefficients that cancel.
const WIDEST_STAND_IN: f64 = 1.5;

impl Learnt {
    /// The kernel.
    pub(super) fn kernel(&self) -> &KernelSpec {
        match self {
            Self::Features(f) => &f.map().kernel,
            Self::Atoms(f) => f.kernel().kernel(),
        }
    }

    /// σ.
    pub(super) fn bandwidth(&self) -> f64 {
        match self {
            Self::Features(f) => f.map().bandwidth,
            Self::Atoms(f) => f.kernel().bandwidth(),
        }
    }

    /// Whether the kernel rounds what it looks at ([`ClosedForm::rounded`]).
    pub(super) fn is_rounded(&self) -> bool {
        matches!(self, Self::Atoms(f) if f.kernel().is_rounded())
    }

    /// Blocks and features, or atoms, of each.
    pub(super) fn shape(&self) -> (usize, usize) {
        match self {
            Self::Features(f) => (f.len(), f.map().block_size),
            Self::Atoms(f) => (1, f.len()),
        }
    }

    /// Instructions that predictions take.
    pub(super) fn path(&self) -> compute::Path {
        match self {
            Self::Features(f) => f.device().path(),
            Self::Atoms(_) => Device::default().path(),
        }
    }

    /// The function of targets as they were, from that of targets in `units`; `shifts` are added first, one per output.
    pub(super) fn in_units(self, units: &[Unit], shifts: Option<&[f32]>) -> Result<Self> {
        let f = match self {
            Self::Features(f) => return Ok(Self::Features(in_units(f, units, shifts))),
            Self::Atoms(f) => f,
        };
        let c = f.outputs();
        let unit = |i: usize| units[i % c % units.len()];
        let shift = |i: usize| shifts.map_or(0.0, |shifts| f64::from(shifts[i]));
        let shifted = |(i, u): (usize, &f32)| unit(i).output(f64::from(*u) + shift(i)) as f32;
        let offset = f.offset().iter().enumerate().map(shifted).collect();
        let weights = f.weights().iter().enumerate().map(|(i, w)| w * unit(i).factor).collect();
        let raw = Raw { weights, scale: 1.0, inverse: None };
        let (kernel, points) = (f.kernel().clone(), f.points().to_vec());
        Ok(Self::Atoms(Dictionary::from_raw(kernel, offset, f.budget(), points, raw)?))
    }

    /// A function on random features to go on from in a stream: of atoms, the ridge regression of their values at their points, by a kernel
    /// that is not wide.
    pub(super) fn expansion(&self, options: &Options) -> Result<FeatureExpansion> {
        let f = match self {
            Self::Features(f) => return Ok(f.clone()),
            Self::Atoms(f) => f,
        };
        let (block_size, blocks, ridge) = STAND_IN;
        let kernel = f.kernel();
        let scaling = kernel.scaling();
        let unit = if kernel.kernel().has_bandwidth() { kernel.bandwidth() } else { 1.0 };
        let d = f.columns();
        // A column of scale zero is not looked at.
        let plain = |(i, z): (usize, &f32)| match scaling.scale[i % d] {
            0.0 => scaling.shift[i % d],
            scale => (f64::from(*z) * unit / f64::from(scale)) as f32 + scaling.shift[i % d],
        };
        let x: Vec<f32> = f.points().iter().enumerate().map(plain).collect();
        let rows = Rows::single(&x, d)?;
        let mut values = vec![0.0; rows.len() * f.outputs()];
        f.evaluate(rows, &mut values)?;
        let options = Options { kernel: Some(kernel.kernel().clone()), ..options.clone() };
        let bandwidth = match kernel.kernel().has_bandwidth() {
            true => {
                let weights = vec![1.0; rows.len()];
                let median = median_distance(rows, &weights, scaling, kernel.kernel(), options.seed);
                kernel.bandwidth().min(WIDEST_STAND_IN * median)
            }
            false => kernel.bandwidth(),
        };
        let map = options.feature_map(bandwidth, block_size, scaling.clone())?;
        let start = FeatureExpansion::new(map, f.offset().to_vec());
        let ridge = RidgeConfig { ridge, blocks, tolerance: 1e-5, max_iterations: 1_000 }.build()?;
        Ok(ridge.fit(start, rows, &values, &vec![1.0; rows.len()], |_, _| Ok(()))?.0)
    }

    pub(super) fn store(&self, container: &mut Container) -> Result<()> {
        let f = match self {
            Self::Features(f) => return insert_expansion(container, f),
            Self::Atoms(f) => f,
        };
        let Scaling { shift, scale } = f.kernel().scaling().clone();
        container.insert("shift", vec![shift.len()], shift)?;
        container.insert("scale", vec![scale.len()], scale)?;
        container.insert("offset", vec![f.outputs()], f.offset().to_vec())?;
        container.insert("points", vec![f.len(), f.columns()], f.points().to_vec())?;
        container.insert("weights", vec![f.len(), f.outputs()], f.weights())
    }

    /// Takes atoms out of a file, for C outputs; `rounded` where their kernel rounds what it looks at.
    pub(super) fn restore_atoms(
        container: &mut Container,
        kernel: KernelSpec,
        (bandwidth, rounded): (f64, bool),
        outputs: usize,
    ) -> Result<Self> {
        let columns = container.f32s("shift")?.1.len();
        let atoms = container.f32s("points")?.0.first().copied().unwrap_or(0);
        if columns == 0 || outputs == 0 || atoms == 0 {
            return Err(Error::Format("a model needs at least one column, one output and one atom".into()));
        }
        let shift = container.take_f32s("shift", &[columns])?;
        let scale = container.take_f32s("scale", &[columns])?;
        let mut kernel = ClosedForm::new(kernel, bandwidth, Scaling { shift, scale })?;
        let offset = container.take_f32s("offset", &[outputs])?;
        let mut points = container.take_f32s("points", &[atoms, columns])?;
        if rounded {
            kernel = kernel.rounded();
            // Those of a file of ours are rounded already.
            points.iter_mut().for_each(|v| *v = compute::to_bf16(*v));
        }
        let weights = container.take_f64s("weights", &[atoms, outputs])?;
        let raw = Raw { weights, scale: 1.0, inverse: None };
        let f = Dictionary::from_raw(kernel, offset, Budget::Unlimited, points, raw)?;
        Ok(Self::Atoms(f))
    }
}

impl Function for Learnt {
    fn columns(&self) -> usize {
        match self {
            Self::Features(f) => f.columns(),
            Self::Atoms(f) => f.columns(),
        }
    }

    fn outputs(&self) -> usize {
        match self {
            Self::Features(f) => f.outputs(),
            Self::Atoms(f) => f.outputs(),
        }
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        match self {
            Self::Features(f) => f.evaluate(rows, out),
            // Small data may have large weights that cancel: there the last digit of a kernel counts.
            Self::Atoms(f) if f.len() < SMALL => f.evaluate(rows, out),
            Self::Atoms(f) => evaluate_atoms(f, rows, out),
        }
    }
}

/// Tiles of rows that are evaluated together, and the numbers of outputs of all of them beyond which they are fewer.
const TOGETHER: usize = 8;
const MOST_OUTPUTS: usize = 128;

/// f at rows, sixteen side by side: a dictionary of its own accord takes them one by one, as they come in a stream.
fn evaluate_atoms(f: &Dictionary, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
    same_columns(f.columns(), rows.columns())?;
    let weights = f.weights();
    let (mut buffer, mut inputs) = (Vec::new(), Vec::new());
    let all: Vec<_> = tiles(rows.len()).collect();
    let together = (MOST_OUTPUTS / f.outputs().max(1)).clamp(1, TOGETHER);
    for (tiles, out) in all.chunks(together).zip(out.chunks_mut(together * TILE * f.outputs())) {
        inputs.clear();
        for tile in tiles {
            f.kernel().input(rows.tile(tile.clone(), &mut buffer), &mut inputs);
        }
        out.copy_from_slice(&f.kernel().expansion(&inputs, f.points(), &weights, f.offset())?);
    }
    Ok(())
}
