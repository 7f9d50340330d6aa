//! The logistic loss.

use super::{finite_within, p_log_p, Conjugate, Loss, DOMAIN_TOLERANCE};

/// Logistic loss ℓ(u, y) = log(1 + e^{−yu}), y = ±1.
///
/// ℓ' = −y σ(−yu); ℓ'' = σ(u) σ(−u) ≤ ¼; ℓ*(a) = p log p + (1 − p) log(1 − p) with p = −ay ∈ [0, 1];
/// ∇ℓ* = −y log(p / (1 − p)), where p is clipped to [10⁻⁶, 1 − 10⁻⁶] to stay finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logistic;

/// σ(z) = 1 / (1 + e^{−z}); an overflowing exponential gives the right limit 0.
#[inline]
pub(super) fn sigmoid(z: f32) -> f32 {
    1.0 / (1.0 + (-z).exp())
}

/// log σ(z) = min(z, 0) − log(1 + e^{−|z|}), exact to rounding for every finite z.
#[inline]
pub(super) fn log_sigmoid(z: f32) -> f32 {
    z.min(0.0) - (-z.abs()).exp().ln_1p()
}

/// p = −ay.
fn probability(a: &[f32], y: &[f32]) -> f64 {
    f64::from(-a[0] * y[0])
}

impl Loss for Logistic {
    fn name(&self) -> &'static str {
        "logistic"
    }

    fn outputs(&self) -> usize {
        1
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let margin = f64::from(y[0] * u[0]);
        (-margin).max(0.0) + (-margin.abs()).exp().ln_1p()
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = -y[0] * sigmoid(-y[0] * u[0]);
    }

    fn curvature(&self) -> Option<f32> {
        Some(0.25)
    }

    fn local_curvature(&self, u: &[f32], _y: &[f32]) -> f32 {
        let e = (-u[0].abs()).exp();
        e / ((1.0 + e) * (1.0 + e))
    }
}

impl Conjugate for Logistic {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let p = probability(a, y);
        let inside = (-DOMAIN_TOLERANCE..=1.0 + DOMAIN_TOLERANCE).contains(&p);
        finite_within(inside, p_log_p(p) + p_log_p(1.0 - p))
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        let p = probability(a, y).clamp(DOMAIN_TOLERANCE, 1.0 - DOMAIN_TOLERANCE);
        out[0] = -y[0] * (p / (1.0 - p)).ln() as f32;
    }
}
