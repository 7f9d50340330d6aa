//! Solvers: how we move. Each is settings, a state and one step; the loop around them is in [`crate::driver`].

mod block_descent;
mod embedding_sgd;
mod feature_matrix;
mod functional_sgd;
mod gauss_seidel;
mod kernel_newton;
mod one_class;
mod preconditioned_sgd;
mod primal_dual;
mod ridge;
mod saddle_closed_form;
mod schedule;
mod sums;
mod temporal_difference;

pub(crate) use block_descent::weighted_loss;
pub use block_descent::{
    BlockDescent, BlockDescentConfig, BlockInfo, BlockState, Part, Problem, Shard, Sweep,
};
pub use embedding_sgd::{DualForm, EmbeddingSgd, EmbeddingSgdConfig, SaddleInfo, SaddleState};
pub(crate) use feature_matrix::{solve, FeatureMatrix, RidgePath};
pub use functional_sgd::{FunctionalSgd, FunctionalSgdConfig, Samples, SgdInfo, SgdState};
pub(crate) use gauss_seidel::{GaussSeidel, KernelProblem, SweepInfo, SweepState};
pub(crate) use kernel_newton::{Expansion, KernelNewton};
pub use one_class::{OneClass, OneClassConfig, OneClassInfo, OneClassState};
pub use preconditioned_sgd::{PreconditionedSgd, PreconditionedState, StreamRidge};
pub use primal_dual::{Dual, PrimalDual, PrimalDualConfig, PrimalDualInfo, PrimalDualState};
pub use ridge::{Ridge, RidgeConfig, RidgeInfo};
pub use saddle_closed_form::{
    choose_ridge, choose_ridges, Moments, Ridges, SaddleClosedForm, Solution, PARTS,
};
pub use schedule::Schedule;
pub use sums::{Addend, Sums};
pub use temporal_difference::TemporalDifference;

use crate::compute::{Buffer, Gram};
use crate::error::Result;
use crate::linalg::cholesky::{factorise, solve_in_place, with_jitter, SINGLE};
use faer::{Mat, MatMut, MatRef};
use rayon::prelude::*;

/// Facts about one step that everyone who watches wants to know.
pub trait StepInfo {
    /// The mean loss that the step saw, or left.
    fn loss(&self) -> f64;
}

/// A way to move: settings, which `self` holds and which never change, a state, and one step.
///
/// Equal states and batches give equal results; the loop around the step is [`crate::driver::run`].
pub trait Solver {
    /// What a step looks at.
    type Batch<'a>;
    /// All that changes from step to step.
    type State;
    /// Facts about one step that the next does not need.
    type Info: StepInfo;

    /// One step.
    fn step(&self, state: &mut Self::State, batch: Self::Batch<'_>) -> Result<Self::Info>;
}

/// Solves (scale·G + ridge·I) X = B in double precision: `right` holds the right-hand sides, C×m.
/// Returns X as m×C row-major; `system` is scratch memory. G has the rounding of sums in single precision, which may make
/// the matrix indefinite: then as little as is enough is added to its diagonal ([`with_jitter`]). `None` where a
/// hundredth of the mean of the diagonal is not enough, as where G is not finite.
fn solve_regularised(
    system: &mut Buffer<f64>,
    gram: &Gram,
    scale: f64,
    ridge: f64,
    right: &[f64],
) -> Option<Vec<f64>> {
    let m = gram.features();
    let outputs = right.len() / m;
    system.resize(m * m);
    let fill = |system: &mut [f64]| {
        system.par_chunks_mut(m).enumerate().for_each_init(
            || vec![0.0; m],
            |row, (j, out)| {
                gram.row(j, row);
                out[..=j].iter_mut().zip(&*row).for_each(|(out, &g)| *out = scale * f64::from(g));
                out[j] += ridge;
            },
        );
    };
    with_jitter(SINGLE, |share| {
        fill(system);
        factorise(MatMut::from_row_major_slice_mut(system, m, m), share, &mut || Ok(()))
    })
    .ok()??;
    let lower = MatRef::from_row_major_slice(system, m, m);
    let mut x = Mat::from_fn(m, outputs, |i, c| right[c * m + i]);
    solve_in_place(lower, x.as_mut());
    Some((0..m * outputs).map(|i| x[(i / outputs, i % outputs)]).collect())
}

/// A checked, not negative ridge.
fn check_ridge(ridge: f64) -> Result<f64> {
    crate::error::non_negative("ridge", ridge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::{normal_equations, Device, GramRows, GramSample, GramScratch};
    use crate::data::Rows;
    use crate::kernel::{FeatureMap, KernelSpec, Scaling};
    use crate::random::{BlockIndex, Seed};

    /// ΦᵀΦ of m features of a kernel so wide that few of them differ, on 200 rows.
    fn gram(m: usize, bandwidth: f64) -> Gram {
        let (n, seed) = (200, Seed(4));
        let x: Vec<f32> = (0..n).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
        let map = FeatureMap::new(KernelSpec::Gaussian, bandwidth, m, seed, Scaling::identity(1)).unwrap();
        let sample = GramSample::new(n, n, seed, BlockIndex(0));
        let weights = vec![1.0; n];
        let gram_rows = GramRows { weights: &weights, sample, chunk: 1_024 };
        let (block, rows) = (map.draw(BlockIndex(0)).unwrap(), Rows::single(&x, 1).unwrap());
        let (mut gram, mut scratch) = (Gram::default(), GramScratch::default());
        let into = (&mut gram, &mut scratch);
        normal_equations(Device::default(), &block, rows, &weights, gram_rows, into).unwrap();
        gram
    }

    /// A ridge far below the rounding of single-precision sums is no reason to fail, and the solution fits: for b = Gv the
    /// system A x = b holds to the roundings that were added.
    #[test]
    fn a_ridge_below_rounding_still_has_a_solution() {
        let (m, ridge) = (256, 1e-14);
        let gram = gram(m, 40.0);
        let row = |i: usize| {
            let mut out = vec![0.0; m];
            gram.row(i, &mut out);
            out
        };
        let lower: Vec<Vec<f32>> = (0..m).map(row).collect();
        let product = |x: &[f64]| -> Vec<f64> {
            let entry = |i: usize, j: usize| f64::from(lower[i.max(j)][i.min(j)]);
            (0..m).map(|i| (0..m).map(|j| entry(i, j) * x[j]).sum()).collect()
        };
        let right = product(&vec![1.0; m]);
        let x = solve_regularised(&mut Buffer::default(), &gram, 1.0, ridge, &right).unwrap();
        let size = right.iter().fold(0.0_f64, |a, v| a.max(v.abs()));
        for (found, wanted) in product(&x).iter().zip(&right) {
            assert!((found - wanted).abs() < 1e-4 * size, "{found} {wanted}");
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let m = 2_112;
        let gram = gram(m, 0.5);
        let right: Vec<f64> = (0..2 * m).map(|i| (i as f64).sin()).collect();
        let solve = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| solve_regularised(&mut Buffer::default(), &gram, 0.1, 0.1, &right)).unwrap()
        };
        let one = solve(1);
        for threads in [2, 3] {
            assert_eq!(one, solve(threads), "{threads} threads");
        }
    }
}
