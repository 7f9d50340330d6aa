//! The Cholesky factorisation and what is done with it, in double precision and with bits that do not depend on the number
//! of threads: every product is one of fixed blocks by one thread, and sums run in the order of the blocks.

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
/// Matrices up to this size are factorised as one panel: waking other threads would cost more than they bring.
const SMALL: usize = 512;
/// Columns factorised, and columns of an inverse computed, at a time.
pub(crate) const PANEL: usize = 128;

/// Rounding of entries that were summed in single precision, relative to the mean of the diagonal.
pub(crate) const SINGLE: f64 = f32::EPSILON as f64;
/// The same in double precision.
pub(crate) const DOUBLE: f64 = f64::EPSILON;
/// Most that is ever added to a diagonal, as a share of its mean: what needs more is not positive definite.
const MOST: f64 = 1e-2;
/// Pivots that are this many roundings of their diagonal entry or fewer are nothing but rounding.
const ROUNDINGS: f64 = 4.0;

/// The lower triangle L of A + εI = L Lᵀ. What is above the diagonal is not part of it.
#[derive(Clone, Debug)]
pub(crate) struct Cholesky {
    lower: Mat<f64>,
    /// ε; see [`with_jitter`].
    added: f64,
}

/// What `attempt` makes of a share ε/ā of the mean ā of the diagonal: of 0 and, where that is `None` because rounding has
/// made a matrix indefinite that is not, of r, 10r, 100r, … up to a hundredth, with r the `rounding` of its entries.
///
/// This is the only place where anything is added to a diagonal because a factorisation failed.
pub(crate) fn with_jitter<T>(
    rounding: f64,
    mut attempt: impl FnMut(f64) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut share = 0.0;
    while share <= MOST {
        let outcome = attempt(share)?;
        if outcome.is_some() {
            return Ok(outcome);
        }
        share = if share == 0.0 { rounding } else { 10.0 * share };
    }
    Ok(None)
}

/// Factorises the lower triangle of A + εI in place, ε = `share` of the mean of the diagonal, and returns ε; `None` where
/// it is not positive definite to rounding. `check` is asked between panels whether to go on.
///
/// Panel by panel, from the left: A_pp = L_pp L_ppᵀ, L_qp = A_qp L_pp⁻ᵀ, then A_qq ← A_qq − L_qp L_qpᵀ.
pub(crate) fn factorise(
    mut a: MatMut<'_, f64>,
    share: f64,
    check: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<f64>> {
    let n = a.nrows();
    let added = share * (0..n).map(|i| a[(i, i)]).sum::<f64>() / n.max(1) as f64;
    (0..n).for_each(|i| a[(i, i)] += added);
    let diagonal: Vec<f64> = (0..n).map(|i| a[(i, i)]).collect();
    let panel = if n <= SMALL { SMALL } else { PANEL };
    for start in (0..n).step_by(panel) {
        check()?;
        let width = panel.min(n - start);
        let (left, mut right) = a.as_mut().get_mut(start.., start..).split_at_col_mut(width);
        let (mut corner, mut below) = left.split_at_row_mut(width);
        if !factorise_corner(corner.as_mut()) {
            return Ok(None);
        }
        let corner = corner.as_ref();
        below.as_mut().par_row_chunks_mut(PANEL).for_each(|rows| {
            solve_lower_triangular_in_place(corner, rows.transpose_mut(), Par::Seq);
        });
        add_square_of(right.as_mut().subrows_mut(width, n - start - width), -1.0, below.as_ref());
    }
    // Nor is a pivot that overflowed or was NaN one of a factor.
    let sound = |i: usize| a[(i, i)].is_finite() && a[(i, i)].powi(2) > ROUNDINGS * DOUBLE * diagonal[i];
    Ok((0..n).all(sound).then_some(added))
}

impl Cholesky {
    /// The factor of `a` as it is; `None` where it is not positive definite to rounding.
    pub(crate) fn new(mut a: Mat<f64>) -> Option<Self> {
        let added = factorise(a.as_mut(), 0.0, &mut || Ok(())).ok()??;
        Some(Self { lower: a, added })
    }

    /// The factor of the covariance that `make` gives, once for every attempt of [`with_jitter`].
    pub(crate) fn of_covariance(
        mut make: impl FnMut() -> Mat<f64>,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Self> {
        Self::of(DOUBLE, "noise", || Ok(make()), check)
    }

    /// The factor of what `make` gives, whose entries have the `rounding` given; `raise` is the setting that would help where
    /// there is none.
    pub(crate) fn of(
        rounding: f64,
        raise: &'static str,
        mut make: impl FnMut() -> Result<Mat<f64>>,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Self> {
        let mut size = 0;
        let factor = with_jitter(rounding, |share| {
            let mut lower = make()?;
            size = lower.nrows();
            Ok(factorise(lower.as_mut(), share, check)?.map(|added| Self { lower, added }))
        })?;
        factor.ok_or(Error::NotPositiveDefinite { block: 0, size, raise })
    }

    /// ε, zero unless rounding had made the matrix indefinite.
    pub(crate) fn added(&self) -> f64 {
        self.added
    }

    /// A factor put together from parts.
    pub(crate) fn from_lower(lower: Mat<f64>, added: f64) -> Self {
        Self { lower, added }
    }

    /// What the factor is kept in.
    pub(crate) fn into_inner(self) -> Mat<f64> {
        self.lower
    }

    /// L.
    pub(crate) fn lower(&self) -> MatRef<'_, f64> {
        self.lower.as_ref()
    }

    /// L⁻¹ B, in place.
    pub(crate) fn forward(&self, b: MatMut<'_, f64>) {
        forward(self.lower(), b);
    }

    /// L⁻ᵀ B, in place.
    pub(crate) fn backward(&self, b: MatMut<'_, f64>) {
        backward(self.lower(), b);
    }

    /// A⁻¹ b.
    pub(crate) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = Mat::from_fn(b.len(), 1, |i, _| b[i]);
        solve_in_place(self.lower(), x.as_mut());
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
        (0..self.lower.nrows()).map(|i| 2.0 * self.lower[(i, i)].ln()).sum()
    }

    /// L⁻¹ B, in place and by one thread, of columns that are zero above the row `from`, which is the first of `b`.
    fn forward_from(&self, from: usize, b: MatMut<'_, f64>) {
        solve_lower_triangular_in_place(self.lower().get(from.., from..), b, Par::Seq);
    }

    /// (A⁻¹)_ii = Σ_k X_ki², X = L⁻¹, without the rest of A⁻¹.
    pub(crate) fn inverse_diagonal(&self) -> Vec<f64> {
        let n = self.lower.nrows();
        let panels: Vec<usize> = (0..n).step_by(PANEL).collect();
        let squares = |x: &mut Mat<f64>, from: usize| -> Vec<f64> {
            let mut x = x.get_mut(..n - from, ..PANEL.min(n - from));
            x.fill(0.0);
            x.as_mut().diagonal_mut().fill(1.0);
            self.forward_from(from, x.as_mut());
            x.col_iter().map(|column| column.squared_norm_l2()).collect()
        };
        let columns = || Mat::<f64>::zeros(n, PANEL.min(n));
        panels.into_par_iter().map_init(columns, squares).flatten_iter().collect()
    }

    /// What `work` makes of the columns of A⁻¹ from their diagonal on, a panel at a time and in order.
    ///
    /// With X = L⁻¹, which is lower triangular, (A⁻¹)_ij = Σ_{k ≥ i} X_ki X_kj for i ≥ j; entries above the diagonal of
    /// A⁻¹ that a panel holds are right as well.
    pub(crate) fn map_inverse<T: Send>(&self, work: impl Fn(Range<usize>, Mat<f64>) -> T + Sync) -> Vec<T> {
        let n = self.lower.nrows();
        let mut x = Mat::<f64>::identity(n, n);
        x.par_col_chunks_mut(PANEL).enumerate().for_each(|(panel, columns)| {
            let from = panel * PANEL;
            self.forward_from(from, columns.subrows_mut(from, n - from));
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

fn forward(lower: MatRef<'_, f64>, b: MatMut<'_, f64>) {
    b.par_col_chunks_mut(COLUMNS).for_each(|b| solve_lower_triangular_in_place(lower, b, Par::Seq));
}

fn backward(lower: MatRef<'_, f64>, b: MatMut<'_, f64>) {
    let upper = lower.transpose();
    b.par_col_chunks_mut(COLUMNS).for_each(|b| solve_upper_triangular_in_place(upper, b, Par::Seq));
}

/// (L Lᵀ)⁻¹ B, in place.
pub(crate) fn solve_in_place(lower: MatRef<'_, f64>, mut b: MatMut<'_, f64>) {
    forward(lower, b.as_mut());
    backward(lower, b);
}

/// L of a small matrix, in place; false where there is none.
fn factorise_corner(a: MatMut<'_, f64>) -> bool {
    let scratch = cholesky_in_place_scratch::<f64>(a.nrows(), Par::Seq, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let stack = MemStack::new(&mut memory);
    cholesky_in_place(a, Default::default(), Par::Seq, stack, Default::default()).is_ok()
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
        for n in [1, 5, PANEL - 1, PANEL, PANEL + 1, 2 * PANEL + 37, SMALL, SMALL + 1] {
            let entry = |i: usize, j: usize| (-0.1 * (i as f64 - j as f64).powi(2)).exp();
            let a = Mat::from_fn(n, n, |i, j| entry(i, j) + f64::from(i == j));
            let factor = Cholesky::new(a.clone()).unwrap();
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
            let diagonal = factor.inverse_diagonal();
            let panels =
                inverse.iter().flat_map(|(columns, panel)| (0..columns.len()).map(|j| panel[(j, j)]));
            panels
                .zip(&diagonal)
                .for_each(|(a, b)| assert!((a - b).abs() < 1e-13 * n as f64, "{n}: {a} {b}"));
            assert_eq!(diagonal.len(), n);
            let product = |i: usize, j: usize| {
                (0..=i.min(j)).map(|k| factor.lower[(i, k)] * factor.lower[(j, k)]).sum::<f64>()
            };
            for (i, j) in (0..n).flat_map(|i| [(i, i / 2), (i, i)]) {
                assert!((product(i, j) - a[(i, j)]).abs() < 1e-13, "{n}: ({i}, {j})");
            }
        }
    }

    #[test]
    fn an_indefinite_matrix_has_no_factor() {
        for n in [2, SMALL + 3] {
            let mut a = Mat::<f64>::identity(n, n);
            a[(n - 1, n - 1)] = -1.0;
            assert!(Cholesky::new(a).is_none());
        }
    }

    /// exp(−|i − j|/n) of points far closer than rounding tells apart, so that the least eigenvalues are rounding alone.
    fn nearly_singular(n: usize, rounding: f64) -> Mat<f64> {
        let noise = |i: usize, j: usize| rounding * (((i * 37 + j * 101) % 19) as f64 / 9.0 - 1.0);
        Mat::from_fn(n, n, |i, j| (-1e-9 * (i as f64 - j as f64).powi(2)).exp() + noise(i.max(j), i.min(j)))
    }

    /// As much is added as the noise of the entries is worth, its norm being at most n roundings, and not more than ten
    /// times that; what is well conditioned is left as it is.
    #[test]
    fn rounding_is_made_up_for_and_no_more() {
        for (n, rounding) in [(20, SINGLE), (SMALL + 9, SINGLE), (20, 1e-12)] {
            let a = nearly_singular(n, rounding);
            assert!(Cholesky::new(a.clone()).is_none(), "{n}");
            let attempt = |share| {
                let mut a = a.clone();
                factorise(a.as_mut(), share, &mut || Ok(()))
            };
            let added = with_jitter(rounding, attempt).unwrap().unwrap();
            assert!(added >= rounding && added <= 10.0 * n as f64 * rounding, "{n}: {added:e}");
        }
        let good = || Mat::from_fn(9, 9, |i, j| f64::from(i == j) + 0.1);
        assert_eq!(Cholesky::of_covariance(good, &mut || Ok(())).unwrap().added(), 0.0);
    }

    #[test]
    fn what_is_indefinite_or_not_finite_stays_without_a_factor() {
        for worst in [-0.1, f64::NAN, f64::INFINITY] {
            let bad = || {
                Mat::from_fn(4, 4, |i, j| {
                    if i == j {
                        if i == 3 {
                            worst
                        } else {
                            1.0
                        }
                    } else {
                        0.0
                    }
                })
            };
            let error = Cholesky::of_covariance(bad, &mut || Ok(())).unwrap_err();
            assert!(matches!(error, Error::NotPositiveDefinite { size: 4, .. }), "{worst}: {error}");
        }
        let good = || Mat::<f64>::identity(3, 3);
        let error = Cholesky::of_covariance(good, &mut || Err(Error::Cancelled { blocks: 7 })).unwrap_err();
        assert!(matches!(error, Error::Cancelled { blocks: 7 }));
    }

    /// Above 2,048, where faer's own parallelism gives other bits for other numbers of threads.
    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let n = 2_100;
        let factor = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let entry = |i: usize, j: usize| (-1e-3 * (i as f64 - j as f64).powi(2)).exp();
            let a = Mat::from_fn(n, n, |i, j| entry(i, j) + f64::from(i == j));
            pool.install(|| {
                let factor = Cholesky::new(a).unwrap();
                let solution = factor.solve(&(0..n).map(|i| (i as f64).sin()).collect::<Vec<_>>());
                (factor, solution)
            })
        };
        let (one, solution) = factor(1);
        for threads in [2, 3] {
            let (other, again) = factor(threads);
            assert_eq!(solution, again, "{threads} threads");
            for j in 0..n {
                let [a, b] = [&one, &other].map(|factor| &factor.lower.col_as_slice(j)[j..]);
                assert_eq!(a, b, "{threads} threads, column {j}");
            }
        }
    }
}
