//! Distances of rows in double precision: squares by products of matrices, and sums of absolute differences.

use super::cholesky::add_product;
use super::Spare;
use crate::compute::{absolute_distances, Device};
use faer::{Mat, MatRef};
use rayon::prelude::*;

/// ‖x_i − x_j‖², n×n.
pub(crate) fn squared_distances(x: MatRef<'_, f64>, spare: &Spare) -> Mat<f64> {
    let mut squares = cross_squares(x, x, spare);
    (0..x.nrows()).for_each(|i| squares[(i, i)] = 0.0);
    squares
}

/// Squared distances that are a smaller share of the squared norms are rounding: the rows are equal.
const ROUNDING: f64 = 1e-13;

/// ‖x_i − a_j‖², n×m.
pub(crate) fn cross_squares(x: MatRef<'_, f64>, a: MatRef<'_, f64>, spare: &Spare) -> Mat<f64> {
    let norms = |x: MatRef<'_, f64>| -> Vec<f64> { x.row_iter().map(|row| row.squared_norm_l2()).collect() };
    let (left, right) = (norms(x), norms(a));
    let mut squares = spare.take(x.nrows(), a.nrows());
    squares.par_col_iter_mut().for_each(|mut column| column.fill(0.0));
    add_product(&mut squares, -2.0, x, a.transpose());
    squares.par_col_iter_mut().enumerate().for_each(|(j, column)| {
        column.iter_mut().zip(&left).for_each(|(s, own)| {
            let (norms, square) = (own + right[j], *s + own + right[j]);
            *s = if square > ROUNDING * norms { square } else { 0.0 };
        });
    });
    squares
}

/// ‖x_i − a_j‖₁, n×m.
pub(crate) fn cross_sums(x: &Mat<f64>, a: &Mat<f64>, spare: &Spare) -> Mat<f64> {
    let mut sums = spare.take(x.nrows(), a.nrows());
    sums.par_col_iter_mut().enumerate().for_each(|(j, column)| {
        let point: Vec<f64> = a.row(j).iter().copied().collect();
        if let Some(column) = column.try_as_col_major_mut() {
            absolute_distances(Device::default(), |k| x.col_as_slice(k), &point, column.as_slice_mut());
        }
    });
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of the differences; of equal rows, zero.
    #[test]
    fn distances_are_those_of_the_differences() {
        let (n, d) = (23, 5);
        let x = Mat::from_fn(n, d, |i, j| 1e3 + ((i * 37 + j * 11) % 17) as f64 / 7.0);
        let spare = Spare::default();
        let (own, cross) =
            (squared_distances(x.as_ref(), &spare), cross_squares(x.as_ref(), x.as_ref(), &spare));
        let sums = cross_sums(&x, &x, &spare);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let expected: f64 = (0..d).map(|k| (x[(i, k)] - x[(j, k)]).powi(2)).sum();
            for found in [own[(i, j)], cross[(i, j)]] {
                assert!((found - expected).abs() < 1e-8, "{i}, {j}: {found} {expected}");
            }
            assert!(expected > 0.0 || cross[(i, j)] == 0.0);
            let expected: f64 = (0..d).map(|k| (x[(i, k)] - x[(j, k)]).abs()).sum();
            assert!((sums[(i, j)] - expected).abs() < 1e-10, "{i}, {j}");
        }
    }
}
