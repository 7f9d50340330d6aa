//! The Laplacian kernel.

use super::Spectral;
use crate::random::{cauchy_pair, fill_pairs, Address};

/// k(x, x') = exp(−‖x − x'‖₁/σ); the coordinates of ω are independent Cauchy(0, 1/σ) (spec 2.1, row 2).
pub struct Laplacian;

impl Spectral for Laplacian {
    fn evaluate(&self, difference: &[f64]) -> f64 {
        (-difference.iter().map(|v| v.abs()).sum::<f64>()).exp()
    }

    fn frequency(&self, address: Address, out: &mut [f64]) {
        fill_pairs(address, out, cauchy_pair);
    }
}
