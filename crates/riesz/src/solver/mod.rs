//! Solvers: how we move. Each is settings, a state and one step; the loop around them is in [`crate::driver`].

mod block_descent;
mod feature_matrix;
mod functional_sgd;
mod one_class;
mod preconditioned_sgd;
mod ridge;
mod schedule;

pub(crate) use block_descent::weighted_loss;
pub use block_descent::{BlockDescent, BlockDescentConfig, BlockInfo, BlockState, Problem, Shard, Sums};
pub(crate) use feature_matrix::RidgePath;
pub use functional_sgd::{FunctionalSgd, FunctionalSgdConfig, Samples, SgdInfo, SgdState};
pub use one_class::{OneClass, OneClassConfig, OneClassInfo, OneClassState};
pub use preconditioned_sgd::{PreconditionedSgd, PreconditionedState, StreamRidge};
pub use ridge::{Ridge, RidgeConfig, RidgeInfo};
pub use schedule::Schedule;

use crate::compute::{Buffer, Gram};
use crate::error::Result;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::cholesky::llt::solve::{solve_in_place, solve_in_place_scratch};
use faer::{Mat, MatMut};
use rayon::prelude::*;

/// A way to move: settings, which `self` holds and which never change, a state, and one step.
///
/// Equal states and batches give equal results; the loop around the step is [`crate::driver::run`].
pub trait Solver {
    /// What a step looks at.
    type Batch<'a>;
    /// All that changes from step to step.
    type State;
    /// Facts about one step that the next does not need.
    type Info;

    /// One step.
    fn step(&self, state: &mut Self::State, batch: Self::Batch<'_>) -> Result<Self::Info>;
}

/// Systems up to this size are factorised by one thread.
const LARGEST_SEQUENTIAL: usize = 2_048;

/// Solves (scale·G + ridge·I) X = B in double precision: `right` holds the right-hand sides, C×m.
/// Returns X as m×C row-major, or `None` where the matrix is not positive definite; `system` is scratch memory.
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
    // A small factorisation is many short parallel regions: waking the other threads costs more than they bring.
    let sequential = m <= LARGEST_SEQUENTIAL;
    // Column j of the upper triangle is row j of the lower one.
    system.par_chunks_mut(m).with_min_len(if sequential { m } else { 1 }).enumerate().for_each_init(
        || vec![0.0; m],
        |row, (j, column)| {
            gram.row(j, row);
            column[..=j].iter_mut().zip(&*row).for_each(|(out, &g)| *out = scale * f64::from(g));
            column[j] += ridge;
        },
    );
    // The upper triangle of a column-major matrix is the lower one of its transpose.
    let mut matrix = MatMut::from_row_major_slice_mut(system, m, m);
    let par = if sequential { faer::Par::Seq } else { faer::get_global_parallelism() };
    let mut memory = MemBuffer::new(cholesky_in_place_scratch::<f64>(m, par, Default::default()));
    let stack = MemStack::new(&mut memory);
    cholesky_in_place(matrix.as_mut(), Default::default(), par, stack, Default::default()).ok()?;
    let mut x = Mat::from_fn(m, outputs, |i, c| right[c * m + i]);
    let mut memory = MemBuffer::new(solve_in_place_scratch::<f64>(m, outputs, par));
    solve_in_place(matrix.as_ref(), x.as_mut(), par, MemStack::new(&mut memory));
    Some((0..m * outputs).map(|i| x[(i / outputs, i % outputs)]).collect())
}

/// A checked, not negative ridge.
fn check_ridge(ridge: f64) -> Result<f64> {
    crate::error::non_negative("ridge", ridge)
}
