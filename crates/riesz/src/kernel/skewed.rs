//! Skewed multiplicative histogram kernels: shift-invariant in log(x + c).

use super::Spectral;
use crate::random::{fill_pairs, sech, uniform_open, Address};

/// k(x, x') = 2ᵈ Π √(x_i + c) √(x'_i + c)/(x_i + x'_i + 2c) = Π sech((u_i − u'_i)/2) with u = log(x + c); the
/// coordinates of ω are independent of density sech(πω). Domain: x_i > −c.
pub struct SkewedChiSquared;

impl Spectral for SkewedChiSquared {
    fn evaluate(&self, difference: &[f64]) -> f64 {
        difference.iter().map(|v| 1.0 / (0.5 * v).cosh()).product()
    }

    fn frequency(&self, address: Address, out: &mut [f64]) {
        fill_pairs(address, out, |u, v| [sech(u), sech(v)]);
    }
}

/// k(x, x') = Π min(√((x_i + c)/(x'_i + c)), its inverse) = Π exp(−|u_i − u'_i|/2) with u = log(x + c); the coordinates
/// of ω are independent Cauchy variables of scale ½. Domain: x_i > −c.
pub struct SkewedIntersection;

impl Spectral for SkewedIntersection {
    fn evaluate(&self, difference: &[f64]) -> f64 {
        (-0.5 * difference.iter().map(|v| v.abs()).sum::<f64>()).exp()
    }

    fn frequency(&self, address: Address, out: &mut [f64]) {
        fill_pairs(address, out, |u, v| [half_cauchy_scale(u), half_cauchy_scale(v)]);
    }
}

/// A Cauchy variable of scale ½ from one word: ½ tan π(u − ½).
pub(super) fn half_cauchy_scale(word: u32) -> f64 {
    0.5 * (std::f64::consts::PI * (uniform_open(word) - 0.5)).tan()
}
