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
mod inner_products;
mod kernel_sums;
mod lanes;
mod mixed;
mod path;
mod products;
mod radial;
mod structured;
mod symmetric;
mod topics;

pub(crate) use buffer::Buffer;
pub use dense::{Activation, DenseBlock, Input};
pub use device::{Device, Processor};
pub use explicit::ExplicitBlock;
pub(crate) use exponential::{
    gaussian_points, gaussian_row, gaussian_values, logistic_rows, squared_distance, Real,
};
pub use gram::{Gram, GramSample, GramScratch};
pub(crate) use kernel_sums::{
    exact_log_sum, polynomial, squared_distances, CentreBlock, PackedBlock, CENTRES, POWERS, QUERIES,
};
pub(crate) use lanes::to_bf16;
pub(crate) use mixed::{mixed_add, mixed_dot, Triangle};
pub use path::Path;
pub(crate) use radial::{absolute_distances, add_radial_sums, radial_slopes, radial_values, Pairs, Radial};
pub use structured::StructuredBlock;
pub(crate) use symmetric::{packed, symmetric_product, symmetric_update};
pub(crate) use topics::{add_responsibilities, padded, Document, Exclusion, Likelihoods};

use crate::data::{tiles, Rows, TILE};
use crate::error::{in_range, positive, same_columns, Error, Result};
use gram::Equations;
use lanes::on_device;
use products::{Adjoint, Apply, Materialise, Sink};
use rayon::prelude::*;

/// A block of m random features, ready to be evaluated. It is built from a [`DenseBlock`], a [`StructuredBlock`] or by
/// [`ExplicitBlock`], which check that their parts fit each other: what is in here is never checked again.
#[derive(Clone, Debug)]
pub struct FeatureBlock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Dense(DenseBlock),
    Structured(StructuredBlock),
    Explicit(ExplicitBlock),
}

/// Block sizes are multiples of this.
pub const FEATURE_MULTIPLE: usize = 32;

impl FeatureBlock {
    /// Number m of features.
    pub fn features(&self) -> usize {
        match &self.0 {
            Kind::Dense(block) => block.phase.len(),
            Kind::Structured(block) => block.phase.len(),
            Kind::Explicit(block) => block.features,
        }
    }

    /// Number d of input columns.
    pub fn columns(&self) -> usize {
        match &self.0 {
            Kind::Dense(block) => block.shift.len(),
            Kind::Structured(block) => block.shift.len(),
            Kind::Explicit(block) => block.columns,
        }
    }

    /// The features of some rows times `scale`, one thread, row i of them from i·`stride` on.
    pub(crate) fn fill_scaled(
        &self,
        device: Device,
        x: &[f32],
        (out, stride): (&mut [f32], usize),
        scale: f32,
    ) -> Result<()> {
        let m = self.features();
        match &self.0 {
            Kind::Dense(block) if dense::Rowwise::suits(block) => {
                on_device(device, dense::Rowwise { block, x, out, stride, scale });
                return Ok(());
            }
            _ => {}
        }
        let mut own = vec![0.0; x.len() / self.columns() * m];
        self.fill(device, x, &mut own)?;
        for (own, out) in own.chunks_exact(m).zip(out.chunks_exact_mut(stride)) {
            out.iter_mut().zip(own).for_each(|(out, own)| *out = scale * own);
        }
        Ok(())
    }

    /// The features of some rows, one thread, row-major.
    pub(crate) fn fill(&self, device: Device, x: &[f32], out: &mut [f32]) -> Result<()> {
        let (d, m) = (self.columns(), self.features());
        let mut tiles = x.chunks(TILE * d).zip(out.chunks_mut(TILE * m));
        tiles.try_for_each(|(x, out)| self.stream(device, x, Materialise::new(m, out)))
    }

    fn stream<S: Sink>(&self, device: Device, x: &[f32], sink: S) -> Result<()> {
        if x.is_empty() {
            return Ok(());
        }
        match &self.0 {
            Kind::Dense(block) => on_device(device, dense::Stream { block, x, sink }),
            Kind::Structured(block) => on_device(device, structured::Stream { block, x, sink }),
            Kind::Explicit(block) => return on_device(device, explicit::Stream { device, block, x, sink }),
        }
        Ok(())
    }
}

/// Checks that an array has the length that the others it is computed with ask for.
pub(crate) fn check_length(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Length { what, expected: expected.to_string(), found })
}

/// Checks the numbers of a block of m features: one phase per feature, as many frequencies or half as many, m a
/// multiple of [`FEATURE_MULTIPLE`], at least one column.
fn check_block(columns: usize, frequencies: usize, features: usize) -> Result<()> {
    if columns == 0 {
        return Err(Error::Empty { what: "a block of features", needed: "one column" });
    }
    let possible = features > 0 && features.is_multiple_of(FEATURE_MULTIPLE);
    in_range("features of a block", features as f64, possible, "positive multiples of 32")?;
    match frequencies == features || 2 * frequencies == features {
        true => Ok(()),
        false => Err(Error::Length {
            what: "phase",
            expected: format!("{frequencies} or {}, once or twice the frequencies", 2 * frequencies),
            found: features,
        }),
    }
}

/// Φ, row-major n×m.
pub fn features(device: Device, block: &FeatureBlock, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
    let m = block.features();
    same_columns(block.columns(), rows.columns())?;
    check_length("the array for the features", rows.len() * m, out.len())?;
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
    positive("outputs", outputs as f64)?;
    check_length("the array for the values", rows.len() * outputs, out.len())?;
    for (block, coefficients) in blocks {
        same_columns(block.columns(), rows.columns())?;
        check_length("the coefficients of a block", block.features() * outputs, coefficients.len())?;
    }
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
    (gram, scratch): (&mut Gram, &mut GramScratch),
) -> Result<Vec<f64>> {
    let (m, n) = (block.features(), rows.len());
    let outputs = residual.len() / n.max(1);
    same_columns(block.columns(), rows.columns())?;
    check_length("the weights", n, weights.len())?;
    check_length("the residuals", n * outputs.max(1), residual.len())?;
    gram.reset(device, m);
    let mut gradient = vec![0.0; outputs * m];
    let equations = Equations { rows, weights, residual, sample };
    let together = (chunk / sample.rows_per_tile()).max(1);
    gram.add_rows(device, block, equations, together, scratch, &mut gradient)?;
    Ok(gradient)
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
    positive("outputs", outputs as f64)?;
    same_columns(block.columns(), rows.columns())?;
    check_length("the residuals", rows.len() * outputs, residual.len())?;
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

/// sum ← sum + Σ partials, one after the other.
pub(crate) fn add_in_order(sum: &mut [f64], partials: &[Vec<f32>]) {
    for partial in partials {
        sum.iter_mut().zip(partial).for_each(|(s, &p)| *s += f64::from(p));
    }
}
