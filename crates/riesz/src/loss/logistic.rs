//! The logistic loss.

use super::constant::share;
use super::separable::each_class;
use super::softmax::softmax_into;
use super::{finite_within, p_log_p, Conjugate, Domain, Loss, Probabilities, DOMAIN_TOLERANCE};
use crate::error::Result;

/// Logistic loss ℓ(u, y) = log(1 + e^{−yu}), y = ±1.
///
/// ℓ' = −y σ(−yu); ℓ'' = σ(u) σ(−u) ≤ ¼; ℓ*(a) = p log p + (1 − p) log(1 − p) with p = −ay ∈ [0, 1];
/// ∇ℓ* = −y log(p / (1 − p)), where p is clipped to [10⁻⁶, 1 − 10⁻⁶] to stay finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logistic;

/// One loss for two classes, one versus rest for more.
pub(super) fn build(units: &[f64]) -> Result<Box<dyn Loss>> {
    Ok(each_class(Logistic, units.len()))
}

/// σ(z) = 1 / (1 + e^{−z}); an overflowing exponential gives the right limit 0.
#[inline]
pub(super) fn sigmoid(z: f32) -> f32 {
    1.0 / (1.0 + (-z).exp())
}

/// log σ(z) = min(z, 0) − log(1 + e^{−|z|}), exact to rounding for every finite z.
#[inline]
fn log_sigmoid(z: f64) -> f64 {
    z.min(0.0) - (-z.abs()).exp().ln_1p()
}

/// (σ(−u), σ(u)) for one output; for one versus rest σ(u_c) / Σ σ(u), as the softmax of log σ so that very negative rows do
/// not become 0/0.
fn probabilities(u: &[f32], out: &mut [f64]) {
    if let [u] = u {
        return two_probabilities(f64::from(*u), out);
    }
    softmax_into(u.iter().map(|&u| log_sigmoid(f64::from(u))), out);
}

/// (σ(−u), σ(u)).
pub(crate) fn two_probabilities(u: f64, out: &mut [f64]) {
    let sigmoid = |u: f64| 1.0 / (1.0 + (-u).exp());
    out.copy_from_slice(&[sigmoid(-u), sigmoid(u)]);
}

/// p = −ay.
fn probability(a: &[f32], y: &[f32]) -> f64 {
    f64::from(-a[0] * y[0])
}

impl Loss for Logistic {
    fn name(&self) -> &'static str {
        "logistic"
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

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        Domain::Sign
    }

    /// log p/(1 − p).
    fn start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        let p = share(1.0, targets, weights);
        vec![(p / (1.0 - p)).ln() as f32]
    }

    fn probabilities(&self) -> Option<Probabilities> {
        Some(probabilities)
    }

    fn damping(&self, _start: &[f32]) -> f64 {
        0.01
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

    fn project(&self, a: &mut [f32], y: &[f32]) {
        a[0] = y[0] * (a[0] * y[0]).clamp(-1.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sigmoids_are_normalized() {
        let (u, mut p) = ([0.5, -1.0, 2.0], [0.0; 3]);
        probabilities(&u, &mut p);
        let sum: f32 = u.iter().map(|&u| sigmoid(u)).sum();
        assert!(u.iter().zip(p).all(|(&u, p)| (f64::from(sigmoid(u) / sum) - p).abs() < 1e-6));
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-15);
    }
}
