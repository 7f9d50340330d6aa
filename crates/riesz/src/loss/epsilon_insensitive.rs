//! The ε-insensitive loss.

use super::absolute::residual;
use super::separable::each_target;
use super::{finite_within, Conjugate, Loss, Shortfall, DOMAIN_TOLERANCE};
use crate::error::{non_negative, Result};

/// ε-insensitive loss ℓ(u, y) = max(0, |r| − ε), r = u − y, ε ≥ 0: residuals within the tube cost nothing.
///
/// ℓ' = sign(r) 1{|r| > ε}; no curvature bound (see [`Smoothed`](super::Smoothed)); ℓ*(a) = ay + ε|a| on |a| ≤ 1;
/// ∇ℓ* = y + ε sign a.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpsilonInsensitive {
    /// Half the width ε of the tube.
    pub epsilon: f32,
}

/// One loss for each target; `epsilon` is in the units of the targets as they were.
pub(super) fn build(units: &[f64], epsilon: &f64) -> Result<Box<dyn Loss>> {
    non_negative("epsilon", *epsilon)?;
    let part = |unit| EpsilonInsensitive { epsilon: (epsilon / unit) as f32 };
    Ok(each_target(units.iter().map(part).collect()))
}

impl Shortfall for EpsilonInsensitive {
    const NAME: &'static str = "epsilon_insensitive";

    fn shortfall(&self, u: f64, y: &[f32]) -> f64 {
        residual(u, y).abs() - f64::from(self.epsilon)
    }

    fn direction(&self, u: f64, y: &[f32]) -> f32 {
        residual(u, y).signum() as f32
    }

    fn share(&self) -> Option<f32> {
        Some(1.0)
    }
}

impl Conjugate for EpsilonInsensitive {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let a = f64::from(a[0]);
        let value = a * f64::from(y[0]) + f64::from(self.epsilon) * a.abs();
        finite_within(a.abs() <= 1.0 + DOMAIN_TOLERANCE, value)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        let side = if a[0] == 0.0 { 0.0 } else { a[0].signum() };
        out[0] = y[0] + self.epsilon * side;
    }

    fn project(&self, a: &mut [f32], _y: &[f32]) {
        a[0] = a[0].clamp(-1.0, 1.0);
    }
}
