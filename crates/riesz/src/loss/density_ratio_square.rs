//! The least-squares loss of a density ratio.

use super::constant::share;
use super::density_ratio_kl::{is_numerator, numerator_conjugate};
use super::{Conjugate, Domain, Loss};

/// Density-ratio loss, least squares: ℓ(u) = −u for a row of the numerator p (target +1), ½u² for a row of the
/// denominator q (target −1). The minimiser of ½E_q f² − E_p f is f = p/q.
///
/// Numerator: ℓ' = −1, ℓ'' = 0; ℓ* = 0 at a = −1 alone, where any u is a subgradient (0 is returned).
/// Denominator: ℓ' = u; ℓ'' = 1; ℓ*(a) = ½a²; ∇ℓ* = a.
/// In a Newton step numerator rows weigh 1/max(u, 1), not 0: at the minimiser E_p φφᵀ/f = E_q φφᵀ, so the two samples
/// estimate the same curvature, and where there are rows of p alone f can no more than double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DensityRatioSquare;

impl Loss for DensityRatioSquare {
    fn name(&self) -> &'static str {
        "density_ratio_square"
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let u = f64::from(u[0]);
        if is_numerator(y) {
            -u
        } else {
            0.5 * u * u
        }
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = if is_numerator(y) { -1.0 } else { u[0] };
    }

    fn curvature(&self) -> Option<f32> {
        Some(1.0)
    }

    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        if is_numerator(y) {
            1.0 / u[0].max(1.0)
        } else {
            1.0
        }
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        Domain::Sign
    }

    /// The weight of p over that of q.
    fn start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        let p = share(1.0, targets, weights);
        vec![(p / (1.0 - p)) as f32]
    }

    /// The ratio of p = q.
    fn stream_start(&self, _targets: &[f32], _weights: &[f32]) -> Vec<f32> {
        vec![1.0]
    }
}

impl Conjugate for DensityRatioSquare {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        if is_numerator(y) {
            numerator_conjugate(a)
        } else {
            0.5 * f64::from(a[0]).powi(2)
        }
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = if is_numerator(y) { 0.0 } else { a[0] };
    }

    fn project(&self, a: &mut [f32], y: &[f32]) {
        a[0] = if is_numerator(y) { -1.0 } else { a[0] };
    }
}
