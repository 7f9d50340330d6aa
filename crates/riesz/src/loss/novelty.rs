//! The loss of novelty detection.

use super::{finite_within, Conjugate, Shortfall, DOMAIN_TOLERANCE};

/// Novelty loss ℓ(u) = max(0, τ − u): a row whose value falls short of the level τ is novel. There is no target.
///
/// ℓ' = −1{u < τ}; no curvature bound (see [`Smoothed`](super::Smoothed)); ℓ*(a) = aτ on −1 ≤ a ≤ 0; ∇ℓ* = τ.
/// Beside −ντ, which lifts the level, a share ν of the rows ends up below it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Novelty {
    /// The level τ.
    pub level: f32,
}

impl Shortfall for Novelty {
    const NAME: &'static str = "novelty";
    const TARGETS: usize = 0;

    fn shortfall(&self, u: f64, _y: &[f32]) -> f64 {
        f64::from(self.level) - u
    }

    fn direction(&self, _u: f64, _y: &[f32]) -> f32 {
        -1.0
    }
}

impl Conjugate for Novelty {
    fn conjugate(&self, a: &[f32], _y: &[f32]) -> f64 {
        let a = f64::from(a[0]);
        finite_within((-1.0 - DOMAIN_TOLERANCE..=DOMAIN_TOLERANCE).contains(&a), a * f64::from(self.level))
    }

    fn conjugate_derivative(&self, _a: &[f32], _y: &[f32], out: &mut [f32]) {
        out[0] = self.level;
    }
}
