//! The square loss of classes.

use super::separable::each_class;
use super::{Conjugate, Domain, Loss};
use crate::error::Result;

/// Least squares ℓ(u, y) = ½(u − y)², y = ±1: the square loss of the sign of a class.
///
/// ℓ' = u − y; ℓ'' = 1; ℓ*(a) = ay + ½a²; ∇ℓ* = y + a. Scores become probabilities by calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastSquares;

/// One loss for two classes, one versus rest for more.
pub(super) fn build(units: &[f64]) -> Result<Box<dyn Loss>> {
    Ok(each_class(LeastSquares, units.len()))
}

impl Loss for LeastSquares {
    fn name(&self) -> &'static str {
        "least_squares"
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        0.5 * (f64::from(u[0]) - f64::from(y[0])).powi(2)
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = u[0] - y[0];
    }

    fn curvature(&self) -> Option<f32> {
        Some(1.0)
    }

    fn local_curvature(&self, _u: &[f32], _y: &[f32]) -> f32 {
        1.0
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        Domain::Sign
    }

    fn nominal_curvature(&self, _start: &[f32], _noise: f64) -> f64 {
        1.0
    }
}

impl Conjugate for LeastSquares {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        f64::from(a[0] * y[0]) + 0.5 * f64::from(a[0]).powi(2)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = y[0] + a[0];
    }

    fn project(&self, _a: &mut [f32], _y: &[f32]) {}
}
