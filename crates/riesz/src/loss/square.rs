//! The square loss.

use super::constant::column;
use super::unit::moments;
use super::{Conjugate, Loss};
use crate::error::Result;

/// Square loss ℓ(u, y) = ½‖u − y‖² on ℝᶜ.
///
/// ∇ℓ = u − y; ∇²ℓ = I; ℓ*(a) = ⟨a, y⟩ + ½‖a‖² everywhere; ∇ℓ* = y + a.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Square {
    /// Number C ≥ 1 of outputs and of targets.
    pub outputs: usize,
}

/// One loss for all targets.
pub(super) fn build(units: &[f64]) -> Result<Box<dyn Loss>> {
    Ok(Box::new(Square { outputs: units.len() }))
}

impl Loss for Square {
    fn name(&self) -> &'static str {
        "square"
    }

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn targets(&self) -> usize {
        self.outputs
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        u.iter().zip(y).map(|(&u, &y)| 0.5 * (f64::from(u) - f64::from(y)).powi(2)).sum()
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        for ((d, &u), &y) in out.iter_mut().zip(u).zip(y) {
            *d = u - y;
        }
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

    /// The mean.
    fn start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        (0..self.outputs).map(|k| moments(&column(targets, weights, k, self.outputs)).0 as f32).collect()
    }
}

impl Conjugate for Square {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let term = |(&a, &y): (&f32, &f32)| f64::from(a) * f64::from(y) + 0.5 * f64::from(a).powi(2);
        a.iter().zip(y).map(term).sum()
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        for ((u, &a), &y) in out.iter_mut().zip(a).zip(y) {
            *u = y + a;
        }
    }

    fn project(&self, _a: &mut [f32], _y: &[f32]) {}
}
