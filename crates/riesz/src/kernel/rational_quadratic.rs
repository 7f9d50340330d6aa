//! The rational quadratic kernel.

use super::{scaled_normals, Spectral};
use crate::random::{gamma, Address};

/// k(x, x') = (1 + ‖x − x'‖²/(2ασ²))^{−α}; ω ~ N(0, τI) with τ ~ Gamma(shape α, rate ασ²) (spec 2.1, row 5).
pub struct RationalQuadratic {
    /// α > 0.
    pub alpha: f64,
}

impl Spectral for RationalQuadratic {
    fn evaluate(&self, difference: &[f64]) -> f64 {
        let square: f64 = difference.iter().map(|v| v * v).sum();
        match self.alpha {
            1.0 => 1.0 / (1.0 + 0.5 * square),
            alpha => (-alpha * (square / (2.0 * alpha)).ln_1p()).exp(),
        }
    }

    fn frequency(&self, address: Address, out: &mut [f64]) {
        scaled_normals(self, address, out);
    }

    fn is_isotropic(&self) -> bool {
        true
    }

    fn mixing(&self, words: &mut dyn Iterator<Item = u32>) -> f64 {
        (gamma(&mut { words }, self.alpha) / self.alpha).sqrt()
    }
}
