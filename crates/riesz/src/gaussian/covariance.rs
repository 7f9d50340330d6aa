//! The Gaussian kernel with one length scale per column.

use crate::compute::{gaussian_values, Device};
use crate::error::{in_range, positive, same_rows, Result};
use crate::linalg::cholesky::add_product;
use faer::{Mat, MatRef};
use rayon::prelude::*;

/// s², σ² and ℓ of
///
/// ```text
/// y = f(x) + ε,   f ~ GP(0, k),   k(x, x') = s² exp(−½ Σ_c (x_c − x'_c)²/ℓ_c²),   ε ~ N(0, σ²),
/// ```
///
/// all positive; an infinite ℓ_c leaves column c out.
#[derive(Clone, Debug, PartialEq)]
pub struct Hyperparameters {
    /// s², in squared units of the targets.
    pub signal: f64,
    /// σ², in squared units of the targets.
    pub noise: f64,
    /// ℓ, in the units of the columns.
    pub length_scales: Vec<f64>,
}

impl Hyperparameters {
    /// Refuses what is not positive, and scales that are not one per column.
    pub fn check(&self, columns: usize) -> Result<()> {
        positive("signal", self.signal)?;
        positive("noise", self.noise)?;
        same_rows("length_scales", columns, self.length_scales.len())?;
        let check = |&scale: &f64| in_range("length_scales", scale, scale > 0.0, "(0, inf]").map(drop);
        self.length_scales.iter().try_for_each(check)
    }
}

/// Rows in units of the length scales, so that k(x, x') = s² exp(−½‖x − x'‖²).
#[derive(Clone, Debug)]
pub(crate) struct Points {
    columns: usize,
    values: Vec<f64>,
    squares: Vec<f64>,
}

impl Points {
    /// Rows (x − shift)/ℓ.
    pub(crate) fn new(rows: &[f64], shift: &[f64], length_scales: &[f64]) -> Self {
        let scaled = rows.iter().enumerate().map(|(i, x)| {
            let c = i % shift.len();
            (x - shift[c]) / length_scales[c]
        });
        Self::of(scaled.collect(), shift.len())
    }

    fn of(values: Vec<f64>, columns: usize) -> Self {
        let squares = values.chunks_exact(columns).map(|x| x.iter().map(|v| v * v).sum()).collect();
        Self { columns, values, squares }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.squares.len()
    }

    /// Numbers per row.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// One row.
    pub(crate) fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.columns..(i + 1) * self.columns]
    }

    /// The rows `indices`.
    pub(crate) fn select(&self, indices: impl Iterator<Item = usize>) -> Self {
        Self::of(indices.flat_map(|i| self.row(i)).copied().collect(), self.columns)
    }

    /// These rows, then those of `other`.
    pub(crate) fn followed_by(&self, other: &Self) -> Self {
        Self::of([&*self.values, &*other.values].concat(), self.columns)
    }

    /// The transpose: one column per row.
    pub(crate) fn matrix(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.values, self.columns, self.len())
    }

    /// ‖x‖² of every row.
    pub(crate) fn squares(&self) -> &[f64] {
        &self.squares
    }
}

/// K_ij = s² exp(−½‖a_i − b_j‖²), |a|×|b|, with the distances from one product: ‖a‖² + ‖b‖² − 2aᵀb.
pub(crate) fn kernel_matrix(signal: f64, a: &Points, b: &Points) -> Mat<f64> {
    let (device, mut k) = (Device::default(), Mat::zeros(a.len(), b.len()));
    add_product(&mut k, 1.0, a.matrix().transpose(), b.matrix());
    k.par_col_iter_mut().zip(&b.squares).for_each(|(column, b)| {
        if let Some(column) = column.try_as_col_major_mut() {
            gaussian_values(device, column.as_slice_mut(), &a.squares, *b, signal);
        }
    });
    k
}

/// exp(−½‖a − b‖²).
pub(crate) fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let square: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    (-0.5 * square).exp()
}

/// Adds σ² to the diagonal.
pub(crate) fn add_noise(k: &mut Mat<f64>, noise: f64) {
    (0..k.nrows()).for_each(|i| k[(i, i)] += noise);
}
