//! Sums of kernels at many queries.

use super::centres::{points, Centres};
use super::order::{order, Extent, Leaf, Leaves};
use super::tile::Tile;
use crate::compute::{check_length, Device, QUERIES};
use crate::error::Result;
use rayon::prelude::*;

/// Queries of an ordinary tile, at most, up to three dimensions and beyond: there tiles are wide however few they hold.
const TILE_QUERIES: [usize; 2] = [128, 256];
/// Queries of a tile of small extent, at most: they share one polynomial.
const POLYNOMIAL_QUERIES: usize = 4_096;
/// Tiles between two questions whether to go on.
const WAVE: usize = 32;
/// Beyond this radius single precision is felt, and tiles of up to three dimensions are divided further.
const NEAR: f64 = 8.0;

/// How much of a sum may be left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Relative to the sum itself. From 5·10⁻⁷ up, sums of pairs are in single precision (their own error is near 10⁻⁶),
    /// below that in double precision.
    pub relative: f64,
    /// Logarithm of what may be left out however small the sum; −∞ for nothing.
    pub log_absolute: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { relative: 1e-6, log_absolute: f64::NEG_INFINITY }
    }
}

impl Tolerance {
    /// Whether sums of pairs are computed in double precision.
    pub(super) fn is_exact(&self) -> bool {
        self.relative < 5e-7
    }

    /// Logarithm of what may be left out of a sum whose logarithm is `log_sum`.
    pub(super) fn log_allowed(&self, log_sum: f64) -> f64 {
        (self.relative.max(1e-16).ln() + log_sum).max(self.log_absolute)
    }

    /// Half the widest side of a tile on which a polynomial of degree fifteen is good enough: its error grows with the
    /// sixteenth power.
    pub(super) fn polynomial_width(&self) -> f64 {
        (0.75 * (self.relative / 1e-6).powf(0.0625)).clamp(0.2, 1.5)
    }
}

/// out_i = log Σ_j exp(log w_j − ½‖q_i − c_j‖²) for m queries and n centres of d finite coordinates, row-major.
///
/// Inputs are in units of the bandwidth. The absolute error is at most about 10⁻⁵ plus the rounding of the result,
/// however far the queries are from the centres and the centres from each other. log w_j = −∞ leaves a centre out;
/// without centres the result is −∞. It depends neither on the number of threads nor on other calls. Use [`Centres`] and
/// [`log_sums`] where the same centres meet queries more than once.
pub fn log_kernel_sums(
    queries: &[f64],
    centres: &[f64],
    log_weights: &[f64],
    d: usize,
    out: &mut [f64],
) -> Result<()> {
    let centres = Centres::new(centres, log_weights, d)?;
    log_sums(Device::default(), &centres, queries, Tolerance::default(), out)
}

/// [`log_kernel_sums`] of arrays that fit each other.
pub(crate) fn fitting_log_kernel_sums(
    queries: &[f64],
    centres: &[f64],
    log_weights: &[f64],
    d: usize,
    out: &mut [f64],
) {
    let centres = Centres::of(centres, log_weights, d);
    log_sums_while(Device::default(), &centres, queries, Tolerance::default(), out, &mut || true);
}

/// The sums of [`log_kernel_sums`] for centres in blocks, to a tolerance.
///
/// Queries come in tiles of neighbours. A tile meets the blocks of centres in the order of what they could contribute and
/// stops where the rest is below the tolerance; what that is follows from the boxes around both.
pub fn log_sums(
    device: Device,
    centres: &Centres,
    queries: &[f64],
    tolerance: Tolerance,
    out: &mut [f64],
) -> Result<()> {
    let rows = points("queries", queries, centres.columns())?;
    check_length("the array for the sums", rows.len(), out.len())?;
    log_sums_while(device, centres, queries, tolerance, out, &mut || true);
    Ok(())
}

/// [`log_sums`], for as long as `go_on` says so; whether it went to the end.
pub(super) fn log_sums_while(
    device: Device,
    centres: &Centres,
    queries: &[f64],
    tolerance: Tolerance,
    out: &mut [f64],
    go_on: &mut dyn FnMut() -> bool,
) -> bool {
    let d = centres.columns();
    if centres.blocks.is_empty() || out.is_empty() {
        out.fill(f64::NEG_INFINITY);
        return true;
    }
    let (indices, leaves) = order(queries, d, &Tiles::new(out.len(), d, tolerance));
    let of = |leaf: &Leaf| {
        let rows = indices[leaf.range.clone()].iter().map(|&i| i as usize * d..(i as usize + 1) * d);
        let values: Vec<f64> = rows.flat_map(|row| &queries[row]).copied().collect();
        Tile { device, centres, queries: &values, extent: &leaf.extent, tolerance }.log_sums()
    };
    for leaves in leaves.chunks(WAVE) {
        if !go_on() {
            return false;
        }
        let found: Vec<Vec<f64>> = leaves.par_iter().with_max_len(1).map(of).collect();
        for (leaf, found) in leaves.iter().zip(found) {
            for (&i, value) in indices[leaf.range.clone()].iter().zip(found) {
                out[i as usize] = value;
            }
        }
    }
    true
}

/// When queries are a tile.
struct Tiles {
    most: usize,
    radius: f64,
    polynomial_width: Option<f64>,
}

impl Tiles {
    fn new(queries: usize, columns: usize, tolerance: Tolerance) -> Self {
        // Few queries are divided among threads all the same, by their number alone.
        let most =
            (queries / 16).next_multiple_of(QUERIES).clamp(QUERIES, TILE_QUERIES[usize::from(columns > 3)]);
        let radius = if columns > 3 { f64::INFINITY } else { NEAR };
        let polynomial_width = (columns <= 2 && !tolerance.is_exact()).then(|| tolerance.polynomial_width());
        Self { most, radius, polynomial_width }
    }
}

impl Leaves for Tiles {
    fn is_leaf(&self, count: usize, extent: &Extent) -> bool {
        let close = self.polynomial_width.is_some_and(|width| extent.widest().1 <= width);
        count <= QUERIES
            || count <= self.most && extent.radius() <= self.radius
            || count <= POLYNOMIAL_QUERIES && close
    }

    fn multiple(&self) -> usize {
        QUERIES
    }
}
