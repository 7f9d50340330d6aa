//! The Gaussian kernel.

use super::Spectral;
use crate::random::{normals, Address};

/// k(x, x') = exp(−‖x − x'‖²/2σ²); ω ~ N(0, σ⁻² I) (spec 2.1, row 1).
pub struct Gaussian;

impl Spectral for Gaussian {
    fn evaluate(&self, difference: &[f64]) -> f64 {
        (-0.5 * difference.iter().map(|v| v * v).sum::<f64>()).exp()
    }

    fn frequency(&self, address: Address, out: &mut [f64]) {
        normals(address, out);
    }

    fn is_isotropic(&self) -> bool {
        true
    }
}
