//! The hot kernels behind one small boundary.
//!
//! Everything a solver does with a block of m random features φ on n rows is one of four products: the features
//! themselves, Φ A ([`apply`]), Φᵀ R and Φᵀ W Φ together ([`normal_equations`]). Features live for the duration of
//! a cache line: sixteen rows are transformed, activated and consumed before the next sixteen are touched.
//! They fail only where features are a user's function and that fails.
//!
//! `unsafe` is confined to this module.
#![allow(unsafe_code)]

mod amx;
mod buffer;
mod dense;
mod device;
mod explicit;
mod exponential;
mod gram;
mod hadamard;
mod kernel_sums;
mod lanes;
mod path;
mod products;
mod structured;
mod topics;

pub(crate) use buffer::Buffer;
pub use dense::{Activation, DenseBlock, Input};
pub use device::{Device, Processor};
pub use explicit::ExplicitBlock;
pub(crate) use exponential::gaussian_values;
pub use gram::{Gram, GramSample};
pub(crate) use kernel_sums::{
    exact_log_sum, polynomial, squared_distances, CentreBlock, PackedBlock, CENTRES, POWERS, QUERIES,
};
pub use path::Path;
pub use structured::StructuredBlock;
pub(crate) use topics::{add_responsibilities, padded, Document, Exclusion, Likelihoods};

use crate::data::{tiles, Rows, TILE};
use crate::error::Result;
use gram::Equations;
use lanes::on_device;
use products::{Adjoint, Apply, Materialise, Sink};
use rayon::prelude::*;

/// A block of m random features, ready to be evaluated. m is a multiple of [`FEATURE_MULTIPLE`].
#[derive(Clone, Debug)]
pub enum FeatureBlock {
    /// Independent frequencies.
    Dense(DenseBlock),
    /// Structured orthogonal frequencies.
    Structured(StructuredBlock),
    /// Anything else.
    Explicit(ExplicitBlock),
}

/// Block sizes are multiples of this.
pub const FEATURE_MULTIPLE: usize = 32;

impl FeatureBlock {
    /// Number m of features.
    pub fn features(&self) -> usize {
        match self {
            Self::Dense(block) => block.phase.len(),
            Self::Structured(block) => block.phase.len(),
            Self::Explicit(block) => block.features,
        }
    }

    /// Number d of input columns.
    pub fn columns(&self) -> usize {
        match self {
            Self::Dense(block) => block.shift.len(),
            Self::Structured(block) => block.shift.len(),
            Self::Explicit(block) => block.columns,
        }
    }

    /// The features of some rows, one thread, row-major.
    pub(crate) fn fill(&self, device: Device, x: &[f32], out: &mut [f32]) -> Result<()> {
        self.stream(device, x, Materialise::new(self.features(), out))
    }

    fn stream<S: Sink>(&self, device: Device, x: &[f32], sink: S) -> Result<()> {
        if x.is_empty() {
            return Ok(());
        }
        match self {
            Self::Dense(block) => on_device(device, dense::Stream { block, x, sink }),
            Self::Structured(block) => on_device(device, structured::Stream { block, x, sink }),
            Self::Explicit(block) => return on_device(device, explicit::Stream { device, block, x, sink }),
        }
        Ok(())
    }
}

/// Φ, row-major n×m.
pub fn features(device: Device, block: &FeatureBlock, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
    let m = block.features();
    let parts: Vec<_> = tiles(rows.len()).zip(out.chunks_mut(TILE * m)).collect();
    parts.into_par_iter().try_for_each_init(Vec::new, |buffer, (tile, out)| {
        let x = rows.tile(tile, buffer);
        block.fill(device, x, out)
    })
}

/// out += Σ_b Φ_b A_b: `blocks` yields a block and its m×C row-major coefficients; `out` is n×C row-major.
///
/// Rows in parallel, blocks in order.
pub fn apply(
    device: Device,
    blocks: &[(&FeatureBlock, &[f32])],
    rows: Rows<'_>,
    outputs: usize,
    out: &mut [f32],
) -> Result<()> {
    let parts: Vec<_> = tiles(rows.len()).zip(out.chunks_mut(TILE * outputs)).collect();
    parts.into_par_iter().with_max_len(1).try_for_each_init(Vec::new, |buffer, (tile, out)| {
        let x = rows.tile(tile, buffer);
        blocks.iter().try_for_each(|(block, coefficients)| {
            block.stream(device, x, Apply::new(coefficients, outputs, &mut *out))
        })
    })
}

/// Which rows enter a Gram matrix, and how.
#[derive(Clone, Copy, Debug)]
pub struct GramRows<'a> {
    /// The weight w of each row.
    pub weights: &'a [f32],
    /// Which rows.
    pub sample: GramSample,
    /// Sampled rows whose features are held in memory at a time; the result does not depend on it.
    pub chunk: usize,
}

/// Φᵀ R and Φᵀ W Φ from one pass over the rows: Φᵀ R for the n×C row-major `residual` is returned as C×m (one run of m
/// numbers per output), Φᵀ W Φ on the sampled rows is left in `gram`.
///
/// Rows that have neither weight nor residual are passed over. The result depends neither on the chunk nor on the number
/// of threads.
pub fn normal_equations(
    device: Device,
    block: &FeatureBlock,
    rows: Rows<'_>,
    residual: &[f32],
    GramRows { weights, sample, chunk }: GramRows<'_>,
    gram: &mut Gram,
) -> Result<Vec<f32>> {
    let (m, n) = (block.features(), rows.len());
    let outputs = residual.len() / n.max(1);
    let per_chunk = (chunk / sample.rows_per_tile()).clamp(1, tiles(n).len().max(1));
    gram.reset(device, m, per_chunk, sample.rows_per_tile());
    let mut gradient = vec![0.0_f64; outputs * m];
    let all: Vec<_> = tiles(n).collect();
    let equations = Equations { rows, weights, residual, sample };
    for some in all.chunks(per_chunk) {
        let mut partials = vec![vec![0.0; outputs * m]; some.len()];
        gram.add(device, block, equations, some, &mut partials)?;
        add_in_order(&mut gradient, &partials);
    }
    Ok(gradient.into_iter().map(|g| g as f32).collect())
}

/// Φᵀ R, C×m.
pub fn adjoint(
    device: Device,
    block: &FeatureBlock,
    rows: Rows<'_>,
    residual: &[f32],
    outputs: usize,
) -> Result<Vec<f32>> {
    let m = block.features();
    let mut gradient = vec![0.0_f64; outputs * m];
    // A bounded number of partial sums at a time, added in tile order.
    let wave = 8 * rayon::current_num_threads().max(1);
    let all: Vec<_> = tiles(rows.len()).collect();
    for some in all.chunks(wave) {
        let partials: Vec<Vec<f32>> = some
            .par_iter()
            .with_max_len(1)
            .map_init(Vec::new, |buffer, tile| {
                let mut out = vec![0.0; outputs * m];
                let r = &residual[tile.start * outputs..tile.end * outputs];
                let x = rows.tile(tile.clone(), buffer);
                block.stream(device, x, Adjoint::new(r, outputs, m, &mut out))?;
                Ok(out)
            })
            .collect::<Result<_>>()?;
        add_in_order(&mut gradient, &partials);
    }
    Ok(gradient.into_iter().map(|g| g as f32).collect())
}

fn add_in_order(sum: &mut [f64], partials: &[Vec<f32>]) {
    for partial in partials {
        sum.iter_mut().zip(partial).for_each(|(s, &p)| *s += f64::from(p));
    }
}
