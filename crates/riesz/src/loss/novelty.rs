//! The loss of novelty detection.

use super::{finite_within, Conjugate, Domain, Shortfall, DOMAIN_TOLERANCE};

/// Novelty loss ℓ(u) = max(0, τ − u): a row whose value falls short of the level τ is novel. There is no target.
///
/// ℓ' = −1{u < τ}; no curvature bound (see [`Smoothed`](super::Smoothed)); ℓ*(a) = aτ on −1 ≤ a ≤ 0; ∇ℓ* = τ.
/// Beside −ντ, which lifts the level, a share ν of the rows ends up below it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Novelty {
    /// The level τ.
    pub level: f32,
}

impl Novelty {
    /// The level after a step of size γ on a batch of values u: τ + γν, less γ for the share of the weight that lies below
    /// τ. That is the stochastic gradient of E max(0, τ − u) − ντ; at rest, a share ν lies below.
    pub fn moved(&self, u: &[f32], weights: &[f32], step_size: f64, nu: f64) -> Self {
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let below = u.iter().zip(weights).filter(|(u, _)| **u < self.level);
        let share = below.map(|(_, &w)| f64::from(w)).sum::<f64>() / total;
        Self { level: (f64::from(self.level) + step_size * (nu - share)) as f32 }
    }
}

impl Shortfall for Novelty {
    const NAME: &'static str = "novelty";
    const DOMAIN: Domain = Domain::Nothing;

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

    fn project(&self, a: &mut [f32], _y: &[f32]) {
        a[0] = a[0].clamp(-1.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_rests_where_the_share_below_is_nu() {
        let novelty = Novelty { level: 2.0 };
        let moved = |u: &[f32], weights: &[f32]| novelty.moved(u, weights, 0.5, 0.2).level;
        assert_eq!((moved(&[3.0], &[1.0]), moved(&[1.0], &[1.0])), (2.1, 1.6));
        assert_eq!(moved(&[1.0, 3.0, 2.0], &[1.0, 3.0, 1.0]), 2.0);
    }
}
