//! Cholesky factors in double precision.

use crate::error::{Error, Result};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::cholesky::llt::inverse::{inverse, inverse_scratch};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;

/// Systems up to this size are factorised by one thread: the others cost more to wake than they bring, and the bits
/// do not depend on their number.
const LARGEST_SEQUENTIAL: usize = 2_048;
/// Columns one thread works on at a time; the bits do not depend on the number of threads.
const COLUMNS: usize = 64;

/// The lower triangle L of A = L Lᵀ. What is above the diagonal is not part of it.
#[derive(Clone, Debug)]
pub(super) struct Factor(Mat<f64>);

impl Factor {
    /// Factorises the lower triangle of `a` in place; `None` where it is not positive definite.
    pub(super) fn new(mut a: Mat<f64>) -> Option<Self> {
        let n = a.nrows();
        let par = parallelism(n);
        let mut memory = MemBuffer::new(cholesky_in_place_scratch::<f64>(n, par, Default::default()));
        let stack = MemStack::new(&mut memory);
        cholesky_in_place(a.as_mut(), Default::default(), par, stack, Default::default()).ok()?;
        // A pivot that overflowed or was NaN is no factor either.
        (0..n).all(|i| a[(i, i)].is_finite()).then_some(Self(a))
    }

    /// As [`Factor::new`], with the error of a covariance that noise would make regular.
    pub(super) fn of_covariance(a: Mat<f64>) -> Result<Self> {
        let size = a.nrows();
        Self::new(a).ok_or(Error::NotPositiveDefinite { block: 0, size, raise: "noise" })
    }

    /// A factor put together from parts.
    pub(super) fn from_lower(lower: Mat<f64>) -> Self {
        Self(lower)
    }

    /// L.
    pub(super) fn lower(&self) -> MatRef<'_, f64> {
        self.0.as_ref()
    }

    /// L⁻¹ B, in place.
    pub(super) fn forward(&self, b: MatMut<'_, f64>) {
        b.par_col_chunks_mut(COLUMNS)
            .for_each(|b| solve_lower_triangular_in_place(self.lower(), b, Par::Seq));
    }

    /// L⁻ᵀ B, in place.
    pub(super) fn backward(&self, b: MatMut<'_, f64>) {
        b.par_col_chunks_mut(COLUMNS)
            .for_each(|b| solve_upper_triangular_in_place(self.lower().transpose(), b, Par::Seq));
    }

    /// A⁻¹ b.
    pub(super) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = Mat::from_fn(b.len(), 1, |i, _| b[i]);
        self.forward(x.as_mut());
        self.backward(x.as_mut());
        x.col_as_slice(0).to_vec()
    }

    /// log det A.
    pub(super) fn log_det(&self) -> f64 {
        (0..self.0.nrows()).map(|i| 2.0 * self.0[(i, i)].ln()).sum()
    }

    /// A⁻¹, of which only the lower triangle is written.
    pub(super) fn inverse(&self) -> Mat<f64> {
        let n = self.0.nrows();
        let par = parallelism(n);
        let mut out = Mat::zeros(n, n);
        let mut memory = MemBuffer::new(inverse_scratch::<f64>(n, par));
        inverse(out.as_mut(), self.lower(), par, MemStack::new(&mut memory));
        out
    }
}

/// Σ a_i b_i.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// C ← C + factor·A B, by columns.
pub(super) fn add_product(c: &mut Mat<f64>, factor: f64, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    c.par_col_chunks_mut(COLUMNS).enumerate().for_each(|(i, c)| {
        let b = b.subcols(i * COLUMNS, c.ncols());
        matmul(c, Accum::Add, a, b, factor, Par::Seq);
    });
}

/// The lower triangle of C ← C + A Aᵀ, by columns.
pub(super) fn add_square(c: &mut Mat<f64>, a: MatRef<'_, f64>) {
    c.par_col_chunks_mut(COLUMNS).enumerate().for_each(|(i, c)| {
        let (first, columns) = (i * COLUMNS, c.ncols());
        let below = a.nrows() - first;
        let c = c.subrows_mut(first, below);
        matmul(c, Accum::Add, a.subrows(first, below), a.subrows(first, columns).transpose(), 1.0, Par::Seq);
    });
}

fn parallelism(size: usize) -> Par {
    if size <= LARGEST_SEQUENTIAL {
        Par::Seq
    } else {
        faer::get_global_parallelism()
    }
}
