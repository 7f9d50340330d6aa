//! Two Gaussians whose means are tied: the posterior has two modes.

use super::gaussian_prior::GaussianPrior;
use crate::distributions::model::{Model, Particles};
use crate::error::{finite, in_range, positive, Result};
use crate::random::Address;

/// x ~ p N(θ₁, σ²) + (1 − p) N(θ₁ + θ₂, σ²), θ₁ ~ N(0, σ₁²), θ₂ ~ N(0, σ₂²)  (thesis 4.5, spec 4, model 1).
///
/// With p = ½ the parameters (θ₁, θ₂) and (θ₁ + θ₂, −θ₂) have the same likelihood.
#[derive(Clone, Debug)]
pub struct TiedMixture {
    observations: Vec<f64>,
    share: f64,
    deviation: f64,
    prior: GaussianPrior,
}

impl TiedMixture {
    /// The model of the text: p = ½, σ = 2.5, σ₁ = σ₂ = 1.
    pub fn new(observations: Vec<f64>) -> Result<Self> {
        Self::with(observations, 0.5, 2.5, [1.0, 1.0])
    }

    /// The model with share p, deviation σ and prior deviations σ₁, σ₂.
    pub fn with(observations: Vec<f64>, share: f64, deviation: f64, prior: [f64; 2]) -> Result<Self> {
        finite("X", &observations, 1)?;
        in_range("share", share, (0.0..=1.0).contains(&share), "[0, 1]")?;
        for value in [deviation, prior[0], prior[1]] {
            positive("deviation", value)?;
        }
        Ok(Self { observations, share, deviation, prior: GaussianPrior(prior.to_vec()) })
    }
}

impl Model for TiedMixture {
    fn dimension(&self) -> usize {
        2
    }

    fn observations(&self) -> usize {
        self.observations.len()
    }

    fn draw_prior(&self, address: Address, theta: &mut [f64]) -> Result<()> {
        self.prior.draw(address, theta);
        Ok(())
    }

    fn log_prior(&self, particles: Particles<'_>, out: &mut [f64]) -> Result<()> {
        self.prior.log_density(particles, out);
        Ok(())
    }

    /// With a = (x − θ₁)/σ, b = a − θ₂/σ: log p(x∣θ) = −½a² + log(p + (1 − p) e^{(a² − b²)/2}) − log σ√2π, the larger
    /// exponent taken out.
    fn log_likelihood(&self, particles: Particles<'_>, batch: &[u32], out: &mut [f64]) -> Result<()> {
        let normaliser = self.deviation.ln() + 0.5 * std::f64::consts::TAU.ln();
        for (theta, out) in particles.iter().zip(out) {
            let (first, second) = (theta[0] / self.deviation, (theta[0] + theta[1]) / self.deviation);
            let each = batch.iter().map(|&n| {
                let x = self.observations[n as usize] / self.deviation;
                let (a, b) = (-0.5 * (x - first).powi(2), -0.5 * (x - second).powi(2));
                let most = a.max(b);
                most + (self.share * (a - most).exp() + (1.0 - self.share) * (b - most).exp()).ln()
            });
            *out = each.sum::<f64>() - batch.len() as f64 * normaliser;
        }
        Ok(())
    }
}
