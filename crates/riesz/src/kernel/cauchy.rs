//! The Cauchy kernel.

use super::Spectral;
use crate::random::{uniform_open, Address};

/// k(x, x') = Π 1/(1 + (x_i − x'_i)²/σ²); the coordinates of ω are independent Laplace(0, 1/σ) (spec 2.1, row 3).
pub struct Cauchy;

impl Spectral for Cauchy {
    fn evaluate(&self, difference: &[f64]) -> f64 {
        difference.iter().map(|v| 1.0 / (1.0 + v * v)).product()
    }

    fn frequency(&self, address: Address, out: &mut [f64]) {
        for (out, word) in out.iter_mut().zip(address.sequence()) {
            let u = uniform_open(word) - 0.5;
            *out = -u.signum() * (1.0 - 2.0 * u.abs()).ln();
        }
    }
}
