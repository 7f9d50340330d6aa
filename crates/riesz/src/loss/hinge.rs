//! The hinge loss.

use super::separable::each_class;
use super::{finite_within, Conjugate, Domain, Loss, Shortfall, DOMAIN_TOLERANCE};
use crate::error::Result;

/// Hinge loss ℓ(u, y) = max(0, 1 − yu), y = ±1.
///
/// ℓ' = −y 1{yu < 1}; no curvature bound (see [`Smoothed`](super::Smoothed)); ℓ*(a) = ay on −1 ≤ ay ≤ 0; ∇ℓ* = y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hinge;

/// One loss for two classes, one versus rest for more.
pub(super) fn build(units: &[f64]) -> Result<Box<dyn Loss>> {
    Ok(each_class(Hinge, units.len()))
}

impl Shortfall for Hinge {
    const NAME: &'static str = "hinge";
    const DOMAIN: Domain = Domain::Sign;

    fn shortfall(&self, u: f64, y: &[f32]) -> f64 {
        1.0 - f64::from(y[0]) * u
    }

    fn direction(&self, _u: f64, y: &[f32]) -> f32 {
        -y[0]
    }
}

impl Conjugate for Hinge {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let slope = f64::from(a[0] * y[0]);
        finite_within((-1.0 - DOMAIN_TOLERANCE..=DOMAIN_TOLERANCE).contains(&slope), slope)
    }

    fn conjugate_derivative(&self, _a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = y[0];
    }

    fn project(&self, a: &mut [f32], y: &[f32]) {
        a[0] = y[0] * (a[0] * y[0]).clamp(-1.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Smoothed;
    use super::*;

    #[test]
    fn conjugates_are_infinite_outside_their_domain() {
        for a in [-0.1, 1.1] {
            assert_eq!(Hinge.conjugate(&[a], &[-1.0]), f64::INFINITY);
            assert_eq!(Smoothed { loss: Hinge, width: 0.5 }.conjugate(&[a], &[-1.0]), f64::INFINITY);
        }
    }
}
