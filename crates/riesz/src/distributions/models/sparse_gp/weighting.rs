//! Which particles are listened to where.

use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Exponents tried: 0 is the plain average, the last nearly the least variance alone.
const EXPONENTS: [f64; 11] = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 24.0];
/// Factors on the variance tried.
const SCALES: [f64; 13] = [0.25, 0.35, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0, 2.8, 4.0, 8.0];

/// What a factor other than one must gain in log density, in nats, to be more than chance.
const WORTH: f64 = 3.0;

/// The share of particle j in a prediction at x, and the prediction:
///
/// ```text
/// q_j(x) ∝ w_j v_j(x)^{−a},   μ = Σ q_j μ_j,   v = ς Σ q_j v_j + Σ q_j (μ_j − μ)²     (the last sum of a mixture alone)
/// ```
///
/// with μ_j, v_j the mean and variance of f(x) given particle j. A mixture has a = 0 and ς = 1: it is the posterior over
/// sets. Else w is equal, and a set is listened to where its inducing inputs are near; what separates it from the others
/// there is what they do not know, and their variances have said so already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weighting {
    /// a ≥ 0.
    pub exponent: f64,
    /// ς > 0.
    pub scale: f64,
    /// log w_j, up to a constant.
    pub log_weights: Vec<f64>,
    /// Whether this is a mixture.
    pub mixture: bool,
}

/// Mean and variance of f at some rows given one particle.
pub(super) type Marginals = [Vec<f64>; 2];

impl Weighting {
    /// q_j(x) from v_j(x), in place of them.
    pub(super) fn shares(&self, variances: &mut [f64]) {
        for (v, w) in variances.iter_mut().zip(&self.log_weights) {
            *v = w - if self.exponent > 0.0 { self.exponent * v.ln() } else { 0.0 };
        }
        let most = variances.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        variances.iter_mut().for_each(|v| *v = (*v - most).exp());
        let sum: f64 = variances.iter().sum();
        variances.iter_mut().for_each(|v| *v /= sum);
    }

    /// Mean and variance of f at one row, from those given each particle.
    fn combine(&self, means: &[f64], variances: &[f64]) -> (f64, f64) {
        let mut shares = variances.to_vec();
        self.shares(&mut shares);
        let mean: f64 = shares.iter().zip(means).map(|(q, m)| q * m).sum();
        let mut variance: f64 = self.scale * shares.iter().zip(variances).map(|(q, v)| q * v).sum::<f64>();
        if self.mixture {
            variance += shares.iter().zip(means).map(|(q, m)| q * (m - mean) * (m - mean)).sum::<f64>();
        }
        (mean, variance)
    }

    /// Mean and variance of f at all rows.
    pub(super) fn marginals(&self, particles: &[Marginals]) -> (Vec<f64>, Vec<f64>) {
        let n = particles.first().map_or(0, |particle| particle[0].len());
        let of = |i: usize| {
            let at = |k: usize| particles.iter().map(|particle| particle[k][i]).collect::<Vec<f64>>();
            self.combine(&at(0), &at(1))
        };
        (0..n).map(of).unzip()
    }

    /// The exponent and the factor for which the sum of two log densities of targets that were not learnt from is largest:
    /// that of the predictions, and that of their means with one variance for all rows, −(n/2) log of the mean square error.
    /// The first alone may prefer variances that fit to means that do. `noise` is that of every row. Equal weights.
    pub(super) fn choose(particles: &[Marginals], targets: &[f64], noise: &[f64]) -> Self {
        let mut best = (f64::NEG_INFINITY, Self::equal(particles.len(), EXPONENTS[0]));
        for exponent in EXPONENTS {
            let weighting = Self::equal(particles.len(), exponent);
            let (mean, variance) = weighting.marginals(particles);
            let n = targets.len() as f64;
            let square = targets.iter().zip(&mean).map(|(y, m)| (y - m).powi(2)).sum::<f64>() / n;
            let common = -0.5 * n * square.max(f64::MIN_POSITIVE).ln();
            for scale in SCALES {
                let density = |i: usize| {
                    let v = scale * variance[i] + noise[i];
                    -0.5 * ((targets[i] - mean[i]).powi(2) / v + (TAU * v).ln())
                };
                let price = if scale == 1.0 { 0.0 } else { WORTH };
                let total: f64 = (0..targets.len()).map(density).sum::<f64>() + common - price;
                if total > best.0 {
                    best = (total, Self { scale, ..weighting.clone() });
                }
            }
        }
        best.1
    }

    /// Equal weights.
    pub(super) fn equal(particles: usize, exponent: f64) -> Self {
        Self { exponent, scale: 1.0, log_weights: vec![0.0; particles], mixture: false }
    }

    /// The mixture with weights still to come.
    pub(super) fn mixture(particles: usize) -> Self {
        Self { mixture: true, ..Self::equal(particles, 0.0) }
    }
}
