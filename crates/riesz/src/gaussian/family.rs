//! Radial kernels with one length scale per column.

use super::covariance::{add_noise, Points};
use crate::compute::{gaussian_values, Device};
use crate::error::{Error, Result};
use crate::linalg::cholesky::COLUMNS;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, Par};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// k(x, x') = s² κ(r) with r² = Σ_c (x_c − x'_c)²/ℓ_c².
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// κ = exp(−½r²).
    #[default]
    Gaussian,
    /// κ = exp(−r), Matérn with ν = ½.
    Matern12,
    /// κ = (1 + √3 r) exp(−√3 r), ν = 3/2.
    Matern32,
    /// κ = (1 + √5 r + 5r²/3) exp(−√5 r), ν = 5/2.
    Matern52,
}

impl std::str::FromStr for Family {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "gaussian" => Ok(Self::Gaussian),
            "matern(0.5)" => Ok(Self::Matern12),
            "matern(1.5)" => Ok(Self::Matern32),
            "matern(2.5)" | "matern" => Ok(Self::Matern52),
            _ => Err(Error::Unknown {
                name: "kernel",
                value: name.into(),
                expected: "gaussian, matern(0.5), matern(1.5), matern(2.5)",
            }),
        }
    }
}

/// Least r in what divides by it.
const LEAST: f64 = 1e-12;

impl Family {
    /// √(2ν), the rate of the exponential of a Matérn kernel.
    fn rate(self) -> f64 {
        match self {
            Self::Gaussian | Self::Matern12 => 1.0,
            Self::Matern32 => 3_f64.sqrt(),
            Self::Matern52 => 5_f64.sqrt(),
        }
    }

    /// k_i ← s² κ(r_i) where k holds inner products: r² = squares_i + own − 2k_i.
    pub(crate) fn values(self, device: Device, k: &mut [f64], squares: &[f64], own: f64, signal: f64) {
        if self == Self::Gaussian {
            return gaussian_values(device, k, squares, own, signal);
        }
        self.matern(device, k, squares, own, signal, |z| match self {
            Self::Matern32 => 1.0 + z,
            Self::Matern52 => 1.0 + z + z * z / 3.0,
            _ => 1.0,
        });
    }

    /// k_i ← −s² κ'(r_i)/r_i, what the derivative in log ℓ_c has in front of (z_c − z'_c)²: that of the Gaussian is κ.
    pub(crate) fn slopes(self, device: Device, k: &mut [f64], squares: &[f64], own: f64, signal: f64) {
        if self == Self::Gaussian {
            return gaussian_values(device, k, squares, own, signal);
        }
        self.matern(device, k, squares, own, signal, |z| match self {
            Self::Matern32 => 3.0,
            Self::Matern52 => 5.0 / 3.0 * (1.0 + z),
            _ => 1.0 / z.max(LEAST),
        });
    }

    /// k_i ← s² p(z_i) exp(−z_i) with z = √(2ν) r.
    fn matern(
        self,
        device: Device,
        k: &mut [f64],
        squares: &[f64],
        own: f64,
        signal: f64,
        polynomial: impl Fn(f64) -> f64,
    ) {
        let rate = self.rate();
        let factors: Vec<f64> = k
            .iter_mut()
            .zip(squares)
            .map(|(k, square)| {
                let z = rate * (square + own - 2.0 * *k).max(0.0).sqrt();
                *k = -z;
                signal * polynomial(z)
            })
            .collect();
        gaussian_values(device, k, &vec![0.0; squares.len()], 0.0, 1.0);
        k.iter_mut().zip(&factors).for_each(|(k, factor)| *k *= factor);
    }

    /// k(a, b), |a|×|b|, by one thread.
    pub(crate) fn block(self, signal: f64, a: &Points, b: &Points) -> Mat<f64> {
        let (device, mut k) = (Device::default(), Mat::zeros(a.len(), b.len()));
        matmul(k.as_mut(), Accum::Replace, a.matrix().transpose(), b.matrix(), 1.0, Par::Seq);
        for (j, square) in b.squares().iter().enumerate() {
            self.values(device, k.col_as_slice_mut(j), a.squares(), *square, signal);
        }
        k
    }

    /// The lower triangle of k(a, a) + σ²I; above it there are only some of its entries.
    pub(crate) fn covariance(self, signal: f64, a: &Points, noise: f64) -> Mat<f64> {
        let mut k = self.symmetric(signal, a, false);
        add_noise(&mut k, noise);
        k
    }

    /// The lower triangle of k(a, a) or, where `slope`, of its slopes; above it there are only some of their entries.
    pub(crate) fn symmetric(self, signal: f64, a: &Points, slope: bool) -> Mat<f64> {
        let n = a.len();
        let (device, mut k) = (Device::default(), Mat::zeros(n, n));
        k.par_col_chunks_mut(COLUMNS).enumerate().for_each(|(i, k): (usize, MatMut<'_, f64>)| {
            let (from, width) = (i * COLUMNS, k.ncols());
            let mut k = k.subrows_mut(from, n - from);
            let points = a.matrix().subcols(from, n - from);
            matmul(k.as_mut(), Accum::Replace, points.transpose(), points.subcols(0, width), 1.0, Par::Seq);
            let squares = &a.squares()[from..];
            for (j, column) in k.col_iter_mut().enumerate() {
                let Some(column) = column.try_as_col_major_mut() else { continue };
                let column = &mut column.as_slice_mut()[j..];
                if slope {
                    self.slopes(device, column, &squares[j..], squares[j], signal);
                } else {
                    self.values(device, column, &squares[j..], squares[j], signal);
                }
            }
        });
        k
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Matern, Spectral};

    /// The Matérn kernels of `kernel/` are the reference; distances from products lose a few digits near zero.
    #[test]
    fn values_are_those_of_the_closed_forms() {
        let rows: Vec<f64> = (0..24).map(|i| (f64::from(i) * 0.7).sin()).collect();
        let points = Points::new(&rows, &[0.0; 3], &[1.0, 2.0, 0.5]);
        for (family, nu) in [(Family::Matern12, 0.5), (Family::Matern32, 1.5), (Family::Matern52, 2.5)] {
            let (block, lower) = (family.block(1.7, &points, &points), family.symmetric(1.7, &points, false));
            for i in 0..points.len() {
                for j in 0..=i {
                    let gap: Vec<f64> = points.row(i).iter().zip(points.row(j)).map(|(a, b)| a - b).collect();
                    let expected = 1.7 * Matern { smoothness: nu }.evaluate(&gap);
                    assert!((block[(i, j)] - expected).abs() < 1e-7, "{family:?} ({i}, {j})");
                    assert_eq!(block[(i, j)], lower[(i, j)]);
                }
            }
        }
    }
}
