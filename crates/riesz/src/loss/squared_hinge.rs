//! The squared hinge loss.

use super::separable::each_class;
use super::{finite_within, Conjugate, Domain, Loss, DOMAIN_TOLERANCE};
use crate::error::Result;

/// Squared hinge loss ℓ(u, y) = ½ max(0, 1 − yu)², y = ±1.
///
/// ℓ' = (u − y) 1{yu < 1}; ℓ'' = 1{yu < 1} ≤ 1; ℓ*(a) = ay + ½a² on ay ≤ 0; ∇ℓ* = y + a.
/// Departure: the factor ½, absent from many libraries, makes the curvature bound 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SquaredHinge;

/// One loss for two classes, one versus rest for more.
pub(super) fn build(units: &[f64]) -> Result<Box<dyn Loss>> {
    Ok(each_class(SquaredHinge, units.len()))
}

impl Loss for SquaredHinge {
    fn name(&self) -> &'static str {
        "squared_hinge"
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        0.5 * (1.0 - f64::from(y[0] * u[0])).max(0.0).powi(2)
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = -y[0] * (1.0 - y[0] * u[0]).max(0.0);
    }

    fn curvature(&self) -> Option<f32> {
        Some(1.0)
    }

    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        f32::from(u8::from(y[0] * u[0] < 1.0))
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        Domain::Sign
    }
}

impl Conjugate for SquaredHinge {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let slope = f64::from(a[0] * y[0]);
        finite_within(slope <= DOMAIN_TOLERANCE, slope + 0.5 * slope * slope)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = y[0] + a[0];
    }

    fn project(&self, a: &mut [f32], y: &[f32]) {
        a[0] = y[0] * (a[0] * y[0]).min(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conjugate_is_infinite_outside_its_domain() {
        assert_eq!(SquaredHinge.conjugate(&[0.1], &[1.0]), f64::INFINITY);
        assert_eq!(SquaredHinge.conjugate(&[-9.0], &[1.0]), -9.0 + 40.5);
    }
}
