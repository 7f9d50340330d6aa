//! The Kullback–Leibler loss of a density ratio.

use super::constant::share;
use super::exponential::{exponential, slope};
use super::{finite_within, p_log_p, Conjugate, Domain, Loss, DOMAIN_TOLERANCE};

/// Density-ratio loss, Kullback–Leibler: ℓ(u) = −u for a row of the numerator p (target +1), e^u for a row of the
/// denominator q (target −1). The minimiser of E_q e^f − E_p f is f = log p/q.
///
/// Numerator: ℓ' = −1, ℓ'' = 0; ℓ* = 0 at a = −1 alone, where any u is a subgradient (0 is returned).
/// Denominator: ℓ' = ℓ'' = e^u, without bound; ℓ*(a) = a log a − a on a ≥ 0; ∇ℓ* = log a, where a is clipped to at
/// least 10⁻⁶. Beyond u = 80 the exponential is continued by its tangent, so that nothing overflows.
/// In a Newton step numerator rows weigh 1, not 0: at the minimiser E_p φφᵀ = E_q e^f φφᵀ, so the two samples estimate the
/// same curvature, and where there are rows of p alone f cannot leap.
/// If rows of both kinds come with probability ½ each, both terms carry the factor 2: sample weights do that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DensityRatioKl;

/// Whether a row is from the numerator.
pub(super) fn is_numerator(y: &[f32]) -> bool {
    y[0] > 0.0
}

/// The conjugate of −u: 0 at a = −1, +∞ elsewhere.
pub(super) fn numerator_conjugate(a: &[f32]) -> f64 {
    finite_within((f64::from(a[0]) + 1.0).abs() <= DOMAIN_TOLERANCE, 0.0)
}

impl Loss for DensityRatioKl {
    fn name(&self) -> &'static str {
        "density_ratio_kl"
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        if is_numerator(y) {
            -f64::from(u[0])
        } else {
            exponential(u[0])
        }
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = if is_numerator(y) { -1.0 } else { slope(u[0]) };
    }

    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        if is_numerator(y) {
            1.0
        } else {
            slope(u[0])
        }
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        Domain::Sign
    }

    /// The logarithm of the weight of p over that of q.
    fn start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        let p = share(1.0, targets, weights);
        vec![(p / (1.0 - p)).ln() as f32]
    }
}

impl Conjugate for DensityRatioKl {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        if is_numerator(y) {
            return numerator_conjugate(a);
        }
        let a = f64::from(a[0]);
        finite_within(a >= -DOMAIN_TOLERANCE, p_log_p(a) - a)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = if is_numerator(y) { 0.0 } else { f64::from(a[0]).max(DOMAIN_TOLERANCE).ln() as f32 };
    }

    fn project(&self, a: &mut [f32], y: &[f32]) {
        a[0] = if is_numerator(y) { -1.0 } else { a[0].max(0.0) };
    }
}
