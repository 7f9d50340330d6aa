//! Covariances of particles and what stands for their square roots, for dimensions up to some hundred.

use crate::functions::gaussian_process::factor::Factor as Cholesky;
use faer::Mat;

/// Smallest eigenvalue that is told from zero, as a share of the mean one.
const FLOOR: f64 = 1e-12;

/// Σ = L Lᵀ with L lower triangular.
#[derive(Clone, Debug)]
pub(super) struct Factor {
    dimension: usize,
    lower: Vec<f64>,
}

impl Factor {
    /// The factor of `covariance` + εI, with the least ε = 0, 1e-12, 1e-11, … of the mean variance for which there is
    /// one; a covariance of zero or without numbers becomes the smallest multiple of I that can be inverted.
    pub(super) fn of(covariance: &[f64], dimension: usize) -> Self {
        let mean = (0..dimension).map(|i| covariance[i * (dimension + 1)]).sum::<f64>() / dimension as f64;
        let mut ridge = 0.0;
        if mean.is_finite() && mean > f64::MIN_POSITIVE / FLOOR {
            for _ in 0..14 {
                if let Some(lower) = cholesky(covariance, dimension, ridge * mean) {
                    return Self { dimension, lower };
                }
                ridge = if ridge == 0.0 { FLOOR } else { 10.0 * ridge };
            }
        }
        let scale = if mean.is_finite() && mean > 0.0 { mean.sqrt() } else { 1e-150 };
        let lower = (0..dimension * dimension).map(|i| if i % (dimension + 1) == 0 { scale } else { 0.0 });
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

/// The lower factor of A + εI, or `None` where it has none or a pivot is below a few roundings of the variance itself.
fn cholesky(a: &[f64], d: usize, ridge: f64) -> Option<Vec<f64>> {
    let raised = Mat::from_fn(d, d, |i, j| a[i * d + j] + if i == j { ridge } else { 0.0 });
    let factor = Cholesky::new(raised)?;
    let lower = factor.lower();
    let noise = |i: usize| lower[(i, i)].powi(2) <= 4.0 * f64::EPSILON * a[i * (d + 1)].abs();
    let entry = |k: usize| if k % d <= k / d { lower[(k / d, k % d)] } else { 0.0 };
    (!(0..d).any(noise)).then(|| (0..d * d).map(entry).collect())
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
