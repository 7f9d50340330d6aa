//! Square systems that are not symmetric, by one thread: the bits do not depend on how many there are.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::linalg::lu::partial_pivoting::solve::{solve_in_place, solve_in_place_scratch};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};

/// A⁻¹B, by LU factors with pivots. Where A is singular the result has entries that are not finite.
pub(crate) fn solve(mut a: Mat<f64>, b: Mat<f64>) -> Mat<f64> {
    let (n, mut x) = (a.nrows(), b);
    let (mut order, mut inverse) = (vec![0_usize; n], vec![0_usize; n]);
    let scratch = lu_in_place_scratch::<usize, f64>(n, n, Par::Seq, Default::default())
        .or(solve_in_place_scratch::<usize, f64>(n, x.ncols(), Par::Seq));
    let mut memory = MemBuffer::new(scratch);
    let stack = MemStack::new(&mut memory);
    let (_, order) = lu_in_place(a.as_mut(), &mut order, &mut inverse, Par::Seq, stack, Default::default());
    solve_in_place(a.as_ref(), a.as_ref(), order, x.as_mut(), Par::Seq, stack);
    x
}

/// AB, by one thread.
pub(crate) fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    matmul(out.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A·A⁻¹B = B for a matrix that needs pivots, and infinities for one that is singular.
    #[test]
    fn systems_are_solved() {
        let entry = |i: usize, j: usize| ((37 * i + 91 * j + i * j) % 101) as f64 / 50.0 - 1.0;
        let a = Mat::from_fn(40, 40, |i, j| if i == 39 - j { 0.0 } else { entry(i, j) });
        let b = Mat::from_fn(40, 3, |i, j| (i + j) as f64);
        let x = solve(a.clone(), b.clone());
        let again = product(a.as_ref(), x.as_ref());
        assert!((&again - &b).norm_max() < 1e-8);
        let singular = solve(Mat::zeros(2, 2), Mat::from_fn(2, 1, |_, _| 1.0));
        assert!(!singular[(0, 0)].is_finite());
    }
}
