//! The absolute loss.

use super::separable::each_target;
use super::{finite_within, Conjugate, Loss, Shortfall, DOMAIN_TOLERANCE};
use crate::error::Result;

/// Absolute loss ℓ(u, y) = |r|, r = u − y; its minimiser is the median.
///
/// ℓ' = sign r; no curvature bound (see [`Smoothed`](super::Smoothed)); ℓ*(a) = ay on |a| ≤ 1; ∇ℓ* = y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absolute;

/// One loss for each target.
pub(super) fn build(units: &[f64]) -> Result<Box<dyn Loss>> {
    Ok(each_target(vec![Absolute; units.len()]))
}

/// r = u − y.
pub(super) fn residual(u: f64, y: &[f32]) -> f64 {
    u - f64::from(y[0])
}

impl Shortfall for Absolute {
    const NAME: &'static str = "absolute";

    fn shortfall(&self, u: f64, y: &[f32]) -> f64 {
        residual(u, y).abs()
    }

    fn direction(&self, u: f64, y: &[f32]) -> f32 {
        residual(u, y).signum() as f32
    }

    fn share(&self) -> Option<f32> {
        Some(1.0)
    }
}

impl Conjugate for Absolute {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let a = f64::from(a[0]);
        finite_within(a.abs() <= 1.0 + DOMAIN_TOLERANCE, a * f64::from(y[0]))
    }

    fn conjugate_derivative(&self, _a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = y[0];
    }

    fn project(&self, a: &mut [f32], _y: &[f32]) {
        a[0] = a[0].clamp(-1.0, 1.0);
    }
}
