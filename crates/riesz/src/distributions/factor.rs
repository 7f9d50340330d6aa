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
    /// The factor of `covariance` + εD², D² its diagonal and ε zero wherever that is possible ([`with_jitter`]): that of the
    /// correlations with its rows scaled, so that no unit of a coordinate matters. A coordinate without variance has the
    /// smallest that can be divided by.
    pub(super) fn of(covariance: &[f64], dimension: usize) -> Self {
        let d = dimension;
        let deviation = |i: usize| {
            let variance = covariance[i * (d + 1)];
            if variance.is_finite() && variance > f64::MIN_POSITIVE / FLOOR {
                variance.sqrt()
            } else {
                1e-150
            }
        };
        let deviations: Vec<f64> = (0..d).map(deviation).collect();
        let correlation = |i: usize, j: usize| match covariance[i * d + j] / deviations[i] / deviations[j] {
            _ if i == j => 1.0,
            value if value.is_finite() => value.clamp(-1.0, 1.0),
            _ => 0.0,
        };
        let factor = with_jitter(FLOOR, |share| {
            let mut a = Mat::from_fn(d, d, correlation);
            Ok(factorise(a.as_mut(), share, &mut || Ok(()))?.map(|_| a))
        });
        let entry = |k: usize| match &factor {
            Ok(Some(factor)) if k % d <= k / d => deviations[k / d] * factor[(k / d, k % d)],
            Ok(None) | Err(_) if k.is_multiple_of(d + 1) => deviations[k / d],
            _ => 0.0,
        };
        Self { dimension, lower: (0..d * d).map(entry).collect() }
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

/// Mean and covariance of weighted rows, the weights summing to one but for rounding, which rows far from zero and close to
/// each other would take for a distance: a second pass takes it out of the mean.
pub(super) fn moments(positions: &[f64], weights: &[f64], d: usize) -> (Vec<f64>, Vec<f64>) {
    let mut mean = vec![0.0; d];
    for (theta, w) in positions.chunks_exact(d).zip(weights) {
        mean.iter_mut().zip(theta).for_each(|(mean, x)| *mean += w * x);
    }
    let mut rest = vec![0.0; d];
    for (theta, w) in positions.chunks_exact(d).zip(weights) {
        rest.iter_mut().zip(theta).zip(&mean).for_each(|((rest, x), mean)| *rest += w * (x - mean));
    }
    mean.iter_mut().zip(&rest).for_each(|(mean, rest)| *mean += rest);
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

    /// Coordinates in other units have the same factor in those units.
    #[test]
    fn units_do_not_matter() {
        let covariance = [4.0, 1.0, 0.5, 1.0, 3.0, -0.2, 0.5, -0.2, 2.0];
        let units = [1e-9, 1.0, 1e12];
        let scaled: Vec<f64> = (0..9).map(|k| covariance[k] * units[k / 3] * units[k % 3]).collect();
        let (own, other) = (Factor::of(&covariance, 3), Factor::of(&scaled, 3));
        let ratio = |k: usize| other.lower[k] / units[k / 3] - own.lower[k];
        assert!((0..9).all(|k| ratio(k).abs() < 1e-12));
    }

    #[test]
    fn rows_far_from_zero_have_the_moments_of_those_near() {
        let near: Vec<f64> = (0..1_000).map(|i| f64::from(i % 17) / 16.0 - 0.5).collect();
        let far: Vec<f64> = near.iter().map(|x| 1e6 + 1e-6 * x).collect();
        // Weights that add up to one but for rounding.
        let weights = vec![1e-3 * (1.0 + 1e-13); 1_000];
        let ((mean, variance), (centre, spread)) = (moments(&near, &weights, 1), moments(&far, &weights, 1));
        // Next to 1e6 the numbers are 1.2e-10 apart.
        assert!((centre[0] - 1e6 - 1e-6 * mean[0]).abs() < 3e-10);
        assert!((1e12 * spread[0] / variance[0] - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_covariance_of_low_rank_still_has_a_factor() {
        for covariance in [[1.0, 1.0, 1.0, 1.0], [0.0; 4], [f64::NAN; 4]] {
            assert!(Factor::of(&covariance, 2).log_determinant().is_finite());
        }
    }
}
