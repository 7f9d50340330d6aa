//! Independent Gaussian priors.

use crate::distributions::model::Particles;
use crate::random::{normals, Address};

/// θ ~ Π_j N(0, s_j²).
#[derive(Clone, Debug)]
pub(super) struct GaussianPrior(pub(super) Vec<f64>);

impl GaussianPrior {
    pub(super) fn draw(&self, address: Address, theta: &mut [f64]) {
        normals(address, theta);
        theta.iter_mut().zip(&self.0).for_each(|(z, s)| *z *= s);
    }

    pub(super) fn log_density(&self, particles: Particles<'_>, out: &mut [f64]) {
        let normaliser: f64 = self.0.iter().map(|s| s.ln() + 0.5 * std::f64::consts::TAU.ln()).sum();
        for (theta, out) in particles.iter().zip(out) {
            let squares: f64 = theta.iter().zip(&self.0).map(|(x, s)| (x / s).powi(2)).sum();
            *out = -0.5 * squares - normaliser;
        }
    }
}
