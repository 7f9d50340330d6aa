//! Square systems that are not symmetric, with bits that do not depend on the number of threads.

use super::cholesky::COLUMNS;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::linalg::lu::partial_pivoting::solve::{solve_in_place, solve_in_place_scratch};
use faer::{Mat, Par};
use rayon::prelude::*;

/// A⁻¹ B. One thread factorises, and each solves for some columns; where A is singular there are entries that are not finite, or
/// very large ones.
pub(crate) fn solved(mut a: Mat<f64>, mut b: Mat<f64>) -> Mat<f64> {
    let n = a.nrows();
    let (mut forward, mut backward) = (vec![0_usize; n], vec![0_usize; n]);
    let scratch = lu_in_place_scratch::<usize, f64>(n, n, Par::Seq, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let stack = MemStack::new(&mut memory);
    let (_, order) =
        lu_in_place(a.as_mut(), &mut forward, &mut backward, Par::Seq, stack, Default::default());
    b.par_col_chunks_mut(COLUMNS).for_each(|b| {
        let scratch = solve_in_place_scratch::<usize, f64>(n, b.ncols(), Par::Seq);
        let mut memory = MemBuffer::new(scratch);
        solve_in_place(a.as_ref(), a.as_ref(), order, b, Par::Seq, MemStack::new(&mut memory));
    });
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solutions_solve() {
        let n = 200;
        let a = Mat::from_fn(n, n, |i, j| ((i * 7 + j * 13) % 17) as f64 - if i == j { 50.0 } else { 8.0 });
        let x = Mat::from_fn(n, 3, |i, j| ((i + 5 * j) % 11) as f64 - 5.0);
        let b = &a * &x;
        let found = solved(a, b);
        assert!((found - x).norm_max() < 1e-9);
    }
}
