//! Covariances of particles and what stands for their square roots, for dimensions up to some hundred.

use crate::linalg::cholesky::{factorise, with_jitter};
use faer::Mat;

/// Rounding of the entries of a covariance: smallest eigenvalue that is told from zero, as a share of the mean one.
const FLOOR: f64 = 1e-12;

/// Σ = L Lᵀ with L lower triangular.
#[derive(Clone, Debug)]
pub(super) struct Factor {
    dimension: usize,
    lower: Vec<f64>,
}

impl Factor {
    /// The factor of `covariance` + εI, ε zero wherever that is possible ([`with_jitter`]); a covariance of zero or without
    /// numbers becomes the smallest multiple of I that can be inverted.
    pub(super) fn of(covariance: &[f64], dimension: usize) -> Self {
        let d = dimension;
        let mean = (0..d).map(|i| covariance[i * (d + 1)]).sum::<f64>() / d as f64;
        if mean.is_finite() && mean > f64::MIN_POSITIVE / FLOOR {
            let factor = with_jitter(FLOOR, |share| {
                let mut a = Mat::from_fn(d, d, |i, j| covariance[i * d + j]);
                Ok(factorise(a.as_mut(), share, &mut || Ok(()))?.map(|_| a))
            });
            if let Ok(Some(factor)) = factor {
                let entry = |k: usize| if k % d <= k / d { factor[(k / d, k % d)] } else { 0.0 };
                return Self { dimension, lower: (0..d * d).map(entry).collect() };
            }
        }
        let scale = if mean.is_finite() && mean > 0.0 { mean.sqrt() } else { 1e-150 };
        let lower = (0..d * d).map(|i| if i % (d + 1) == 0 { scale } else { 0.0 });
        Self { dimension, lower: lower.collect() }
    }

    /// L Lᵀ.
    pub(super) fn covariance(&self) -> Vec<f64> {
        let row = |i: usize| &self.lower[i * self.dimension..][..self.dimension];
        let entry = |i: usize, j: usize| row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum();
        (0..self.dimension * self.dimension).map(|k| entry(k / self.dimension, k % self.dimension)).collect()
    }

    /// log det L = ½ log det Σ.
    pub(super) fn log_determinant(&self) -> f64 {
        (0..self.dimension).map(|i| self.lower[i * (self.dimension + 1)].ln()).sum()
    }

    /// z = L⁻¹ (point − centre).
    pub(super) fn whiten(&self, point: &[f64], centre: &[f64], z: &mut [f64]) {
        for i in 0..self.dimension {
            let row = &self.lower[i * self.dimension..][..=i];
            let known: f64 = row[..i].iter().zip(&*z).map(|(l, z)| l * z).sum();
            z[i] = (point[i] - centre[i] - known) / row[i];
        }
    }

    /// [`Factor::whiten`] for rows.
    pub(super) fn whiten_rows(&self, points: &[f64], centre: &[f64]) -> Vec<f64> {
        let mut white = vec![0.0; points.len()];
        let rows = points.chunks_exact(self.dimension).zip(white.chunks_exact_mut(self.dimension));
        rows.for_each(|(point, z)| self.whiten(point, centre, z));
        white
    }

    /// centre + L z.
    pub(super) fn colour(&self, z: &[f64], centre: &[f64], point: &mut [f64]) {
        for i in 0..self.dimension {
            let row = &self.lower[i * self.dimension..][..=i];
            point[i] = centre[i] + row.iter().zip(z).map(|(l, z)| l * z).sum::<f64>();
        }
    }
}

/// Mean and covariance of weighted rows, the weights summing to one.
pub(super) fn moments(positions: &[f64], weights: &[f64], d: usize) -> (Vec<f64>, Vec<f64>) {
    let mut mean = vec![0.0; d];
    for (theta, w) in positions.chunks_exact(d).zip(weights) {
        mean.iter_mut().zip(theta).for_each(|(mean, x)| *mean += w * x);
    }
    let mut covariance = vec![0.0; d * d];
    let mut centred = vec![0.0; d];
    for (theta, w) in positions.chunks_exact(d).zip(weights) {
        centred.iter_mut().zip(theta).zip(&mean).for_each(|((z, x), mean)| *z = x - mean);
        for i in 0..d {
            let scaled = w * centred[i];
            let row = &mut covariance[i * d..][..=i];
            row.iter_mut().zip(&centred).for_each(|(c, z)| *c += scaled * z);
        }
    }
    for i in 0..d {
        for j in 0..i {
            covariance[j * d + i] = covariance[i * d + j];
        }
    }
    (mean, covariance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitening_undoes_colouring() {
        let covariance = [4.0, 1.0, 0.5, 1.0, 3.0, -0.2, 0.5, -0.2, 2.0];
        let factor = Factor::of(&covariance, 3);
        let (z, centre) = ([0.3, -1.2, 2.0], [1.0, 2.0, 3.0]);
        let (mut point, mut back) = ([0.0; 3], [0.0; 3]);
        factor.colour(&z, &centre, &mut point);
        factor.whiten(&point, &centre, &mut back);
        assert!(z.iter().zip(back).all(|(a, b)| (a - b).abs() < 1e-12));
        // det by the rule of Sarrus.
        let det: f64 = 4.0 * (6.0 - 0.04) - (2.0 + 0.1) + 0.5 * (-0.2 - 1.5);
        assert!((2.0 * factor.log_determinant() - det.ln()).abs() < 1e-12);
    }

    #[test]
    fn a_covariance_of_low_rank_still_has_a_factor() {
        for covariance in [[1.0, 1.0, 1.0, 1.0], [0.0; 4], [f64::NAN; 4]] {
            assert!(Factor::of(&covariance, 2).log_determinant().is_finite());
        }
    }
}
