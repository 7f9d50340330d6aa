//! Cholesky factors in double precision, with bits that do not depend on the number of threads: every product is one of
//! fixed blocks by one thread, and sums run in the order of the blocks.

use crate::error::{Error, Result};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;
use std::ops::Range;

/// Columns one thread works on at a time.
pub(crate) const COLUMNS: usize = 64;
/// Columns factorised, and columns of an inverse computed, at a time.
const PANEL: usize = 128;

/// The lower triangle L of A = L Lᵀ. What is above the diagonal is not part of it.
#[derive(Clone, Debug)]
pub(crate) struct Factor(Mat<f64>);

impl Factor {
    /// Factorises the lower triangle of `a` in place; `None` where it is not positive definite.
    ///
    /// Panel by panel, from the left: A_pp = L_pp L_ppᵀ, L_qp = A_qp L_pp⁻ᵀ, then A_qq ← A_qq − L_qp L_qpᵀ.
    pub(crate) fn new(mut a: Mat<f64>) -> Option<Self> {
        let n = a.nrows();
        for start in (0..n).step_by(PANEL) {
            let width = PANEL.min(n - start);
            let (left, mut right) = a.as_mut().get_mut(start.., start..).split_at_col_mut(width);
            let (mut corner, mut below) = left.split_at_row_mut(width);
            factorise(corner.as_mut())?;
            let corner = corner.as_ref();
            below.as_mut().par_row_chunks_mut(PANEL).for_each(|rows| {
                solve_lower_triangular_in_place(corner, rows.transpose_mut(), Par::Seq);
            });
            add_square_of(right.as_mut().subrows_mut(width, n - start - width), -1.0, below.as_ref());
        }
        // A pivot that overflowed or was NaN is no factor either.
        (0..n).all(|i| a[(i, i)].is_finite()).then_some(Self(a))
    }

    /// As [`Factor::new`], with the error of a covariance that noise would make regular.
    pub(crate) fn of_covariance(a: Mat<f64>) -> Result<Self> {
        let size = a.nrows();
        Self::new(a).ok_or(Error::NotPositiveDefinite { block: 0, size, raise: "noise" })
    }

    /// A factor put together from parts.
    pub(crate) fn from_lower(lower: Mat<f64>) -> Self {
        Self(lower)
    }

    /// L.
    pub(crate) fn lower(&self) -> MatRef<'_, f64> {
        self.0.as_ref()
    }

    /// L⁻¹ B, in place.
    pub(crate) fn forward(&self, b: MatMut<'_, f64>) {
        b.par_col_chunks_mut(COLUMNS)
            .for_each(|b| solve_lower_triangular_in_place(self.lower(), b, Par::Seq));
    }

    /// L⁻ᵀ B, in place.
    pub(crate) fn backward(&self, b: MatMut<'_, f64>) {
        b.par_col_chunks_mut(COLUMNS)
            .for_each(|b| solve_upper_triangular_in_place(self.lower().transpose(), b, Par::Seq));
    }

    /// A⁻¹ b.
    pub(crate) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = Mat::from_fn(b.len(), 1, |i, _| b[i]);
        self.forward(x.as_mut());
        self.backward(x.as_mut());
        x.col_as_slice(0).to_vec()
    }

    /// C ← C + L B, by columns.
    pub(crate) fn add_product(&self, c: &mut Mat<f64>, b: MatRef<'_, f64>) {
        c.par_col_chunks_mut(COLUMNS).enumerate().for_each(|(i, c)| {
            let b = b.subcols(i * COLUMNS, c.ncols());
            let [lower, full] = [BlockStructure::TriangularLower, BlockStructure::Rectangular];
            triangular::matmul(c, full, Accum::Add, self.lower(), lower, b, full, 1.0, Par::Seq);
        });
    }

    /// log det A.
    pub(crate) fn log_det(&self) -> f64 {
        (0..self.0.nrows()).map(|i| 2.0 * self.0[(i, i)].ln()).sum()
    }

    /// What `work` makes of the columns of A⁻¹ from their diagonal on, a panel at a time and in order.
    ///
    /// With X = L⁻¹, which is lower triangular, (A⁻¹)_ij = Σ_{k ≥ i} X_ki X_kj for i ≥ j; entries above the diagonal of
    /// A⁻¹ that a panel holds are right as well.
    pub(crate) fn map_inverse<T: Send>(&self, work: impl Fn(Range<usize>, Mat<f64>) -> T + Sync) -> Vec<T> {
        let n = self.0.nrows();
        let mut x = Mat::<f64>::identity(n, n);
        x.par_col_chunks_mut(PANEL).enumerate().for_each(|(panel, columns)| {
            let from = panel * PANEL;
            let columns = columns.subrows_mut(from, n - from);
            solve_lower_triangular_in_place(self.lower().get(from.., from..), columns, Par::Seq);
        });
        let panels: Vec<usize> = (0..n).step_by(PANEL).collect();
        let invert = |from: usize| {
            let width = PANEL.min(n - from);
            let mut out = Mat::<f64>::zeros(n - from, width);
            for row in (from..n).step_by(PANEL) {
                let height = PANEL.min(n - row);
                let [left, right] = [(row, height), (from, width)].map(|(c, w)| x.get(row.., c..c + w));
                let out = out.as_mut().subrows_mut(row - from, height);
                matmul(out, Accum::Replace, left.transpose(), right, 1.0, Par::Seq);
            }
            work(from..from + width, out)
        };
        panels.into_par_iter().map(invert).collect()
    }
}

/// L of a small matrix, in place.
fn factorise(a: MatMut<'_, f64>) -> Option<()> {
    let scratch = cholesky_in_place_scratch::<f64>(a.nrows(), Par::Seq, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let stack = MemStack::new(&mut memory);
    cholesky_in_place(a, Default::default(), Par::Seq, stack, Default::default()).ok().map(|_| ())
}

/// Σ a_i b_i.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// C ← C + factor·A B, by columns.
pub(crate) fn add_product(c: &mut Mat<f64>, factor: f64, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    c.par_col_chunks_mut(COLUMNS).enumerate().for_each(|(i, c)| {
        let b = b.subcols(i * COLUMNS, c.ncols());
        matmul(c, Accum::Add, a, b, factor, Par::Seq);
    });
}

/// The lower triangle of C ← C + A Aᵀ, by columns.
pub(crate) fn add_square(c: &mut Mat<f64>, a: MatRef<'_, f64>) {
    add_square_of(c.as_mut(), 1.0, a);
}

/// The lower triangle of C ← C + factor·A Aᵀ, by columns.
fn add_square_of(c: MatMut<'_, f64>, factor: f64, a: MatRef<'_, f64>) {
    c.par_col_chunks_mut(COLUMNS).enumerate().for_each(|(i, c)| {
        let (first, columns) = (i * COLUMNS, c.ncols());
        let below = a.nrows() - first;
        let c = c.subrows_mut(first, below);
        matmul(
            c,
            Accum::Add,
            a.subrows(first, below),
            a.subrows(first, columns).transpose(),
            factor,
            Par::Seq,
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes around the panels' borders; the condition number is at most n + 1.
    #[test]
    fn factors_and_inverses_are_those_of_their_matrix() {
        for n in [1, 5, PANEL - 1, PANEL, PANEL + 1, 2 * PANEL + 37] {
            let entry = |i: usize, j: usize| (-0.1 * (i as f64 - j as f64).powi(2)).exp();
            let a = Mat::from_fn(n, n, |i, j| entry(i, j) + f64::from(i == j));
            let factor = Factor::new(a.clone()).unwrap();
            let inverse = factor.map_inverse(|columns, panel| (columns, panel));
            assert_eq!(inverse.iter().map(|(columns, _)| columns.len()).sum::<usize>(), n);
            for (columns, panel) in &inverse {
                for j in columns.clone() {
                    let expected = factor.solve(&(0..n).map(|i| f64::from(i == j)).collect::<Vec<_>>());
                    for i in columns.start..n {
                        let found = panel[(i - columns.start, j - columns.start)];
                        assert!((found - expected[i]).abs() < 1e-13 * n as f64, "{n}: ({i}, {j})");
                    }
                }
            }
            let product =
                |i: usize, j: usize| (0..=i.min(j)).map(|k| factor.0[(i, k)] * factor.0[(j, k)]).sum::<f64>();
            for (i, j) in (0..n).flat_map(|i| [(i, i / 2), (i, i)]) {
                assert!((product(i, j) - a[(i, j)]).abs() < 1e-13, "{n}: ({i}, {j})");
            }
        }
    }

    #[test]
    fn an_indefinite_matrix_has_no_factor() {
        for n in [2, PANEL + 3] {
            let mut a = Mat::<f64>::identity(n, n);
            a[(n - 1, n - 1)] = -1.0;
            assert!(Factor::new(a).is_none());
        }
    }
}
