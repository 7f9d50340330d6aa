//! Rows of many columns in fewer directions.
//!
//! Squared distances of rows are sums over the principal directions of the rows, of which a few make up most: the others are left out where a
//! function of those that are kept predicts as well. What costs a product of two numbers for every column of every pair of rows then costs one for
//! each direction.

use super::halves::Halves;
use super::sample::Sample;
use super::search::{Candidate, Grid};
use crate::linalg::cholesky::add_product;
use crate::linalg::Eigen;
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use faer::Mat;

/// Shares of the variance that are tried, the fewest directions first.
const SHARES: [f64; 4] = [0.9, 0.95, 0.98, 0.995];
/// Directions come in multiples of this many, half of the columns at most.
const MULTIPLE: usize = 8;
/// Rows of the half that learns and of the half that judges.
const ROWS: usize = 1_024;
/// Loss, as a multiple of that with all columns, at which directions predict as well as these.
const AS_WELL: f64 = 1.02;

/// Leading principal directions of the rows, d×r with orthonormal columns; `None` where all columns are needed.
pub(super) fn leading(sample: &Sample, start: &Candidate, grid: &Grid, seed: Seed) -> Option<Mat<f64>> {
    let d = sample.x.ncols();
    let order = Permutation::new(seed, Stream::Race, BlockIndex(1), sample.len());
    let order: Vec<usize> = order.indices().iter().map(|&i| i as usize).collect();
    let halves = Halves::of(sample, &order, ROWS);
    let at = (&start.kernel, start.factor, start.damping);
    let whole = halves.judged(&halves.distances(None, &grid.spare), grid, at)?;
    let eigen = Eigen::of(covariance(sample).as_ref())?;
    let total: f64 = eigen.values.iter().map(|v| v.max(0.0)).sum();
    SHARES.into_iter().find_map(|share| {
        // Eigenvalues increase: as many of the smallest are left out as hold no more than the rest.
        let mut dropped = 0.0;
        let few = eigen.values.iter().take_while(|v| {
            dropped += v.max(0.0);
            dropped <= (1.0 - share) * total
        });
        let r = (d - few.count()).next_multiple_of(MULTIPLE);
        if r == 0 || 2 * r > d {
            return None;
        }
        let directions = Mat::from_fn(d, r, |i, k| eigen.vectors[(i, d - r + k)]);
        let found = halves.judged(&halves.distances(Some(&directions), &grid.spare), grid, at)?;
        (found.risk <= AS_WELL * whole.risk).then_some(directions)
    })
}

/// Σ w (x − x̄)(x − x̄)ᵀ/Σ w.
fn covariance(sample: &Sample) -> Mat<f64> {
    let (n, d) = (sample.x.nrows(), sample.x.ncols());
    let mean: Vec<f64> = (0..d).map(|j| sample.mean_of(sample.x.col(j).iter().copied())).collect();
    let total: f64 = sample.weights.iter().sum();
    let scaled = Mat::from_fn(n, d, |i, j| (sample.weights[i] / total).sqrt() * (sample.x[(i, j)] - mean[j]));
    let mut sum = Mat::zeros(d, d);
    add_product(&mut sum, 1.0, scaled.transpose(), scaled.as_ref());
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KernelSpec;
    use crate::linalg::lu::product;
    use crate::random::{normals, Address};

    /// 600 rows of 64 columns of which four directions have the variance one and the others 10⁻²: the target is a function of one of the former,
    /// or of the latter.
    fn sample(of: usize) -> Sample {
        let (n, d) = (600, 64);
        let mut x = Mat::<f64>::zeros(n, d);
        for i in 0..n {
            let mut z = vec![0.0; d];
            normals(Address::new(Seed(5), Stream::Synthetic, BlockIndex(0), i as u32), &mut z);
            // A rotation in each pair of columns (j, j + 32), so that no column is a direction.
            for j in 0..32 {
                let (a, b) = (if j < 4 { z[j] } else { 0.1 * z[j] }, 0.1 * z[j + 32]);
                (x[(i, j)], x[(i, j + 32)]) = (0.6 * a - 0.8 * b, 0.8 * a + 0.6 * b);
            }
        }
        let target = |i: usize| match of {
            0 => (2.0 * (0.6 * x[(i, 0)] + 0.8 * x[(i, 32)])).sin(),
            _ => 30.0 * (0.6 * x[(i, 32)] - 0.8 * x[(i, 0)]),
        };
        let y = Mat::from_fn(n, 1, |i, _| target(i));
        let ones = vec![1.0; n];
        Sample { x, y, weights: ones.clone(), shares: ones, labels: Vec::new(), mean: vec![0.0] }
    }

    #[test]
    fn directions_are_left_out_only_where_nothing_depends_on_them() {
        let grid = Grid {
            kernels: vec![KernelSpec::Gaussian],
            factors: vec![1.0],
            bandwidth: None,
            dampings: vec![0.01],
            damping: 0.01,
            spare: std::sync::Arc::default(),
        };
        let start = |sample: &Sample| grid.best(sample, &sample.x).unwrap().unwrap();
        let own = sample(0);
        let found = leading(&own, &start(&own), &grid, Seed(1)).unwrap();
        assert!(found.nrows() == 64 && found.ncols() <= 32, "{}", found.ncols());
        // Orthonormal, and the direction that matters is among them.
        let products = product(found.transpose(), found.as_ref());
        assert!((0..found.ncols()).all(|k| (products[(k, k)] - 1.0).abs() < 1e-9));
        let kept: f64 =
            (0..found.ncols()).map(|k| (0.6 * found[(0, k)] + 0.8 * found[(32, k)]).powi(2)).sum();
        assert!(kept > 0.9, "{kept}");
        let other = sample(1);
        let lost = leading(&other, &start(&other), &grid, Seed(1));
        let kept = |found: Mat<f64>| -> f64 {
            (0..found.ncols()).map(|k| (0.6 * found[(32, k)] - 0.8 * found[(0, k)]).powi(2)).sum()
        };
        assert!(lost.is_none_or(|found| kept(found) > 0.5));
    }
}
