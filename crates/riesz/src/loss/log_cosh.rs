//! The log-cosh loss.

use super::rounded::{Rounded, Rounding};
use super::{p_log_p, Loss, DOMAIN_TOLERANCE};
use crate::error::Result;

/// Log-cosh loss ℓ(u, y) = δ² log cosh(r/δ), r = u − y: ½r² near 0, δ|r| − δ² log 2 far out, and smooth between.
///
/// ℓ' = δ tanh(r/δ); ℓ'' = 1 − tanh²(r/δ) ≤ 1; with t = a/δ, ℓ*(a) = ay + ½δ²((1+t) log(1+t) + (1−t) log(1−t)) on |t| ≤ 1;
/// ∇ℓ* = y + δ artanh t, where |t| is clipped to 1 − 10⁻⁶ to stay finite.
pub type LogCosh = Rounded<Cosh>;

/// φ(x) = log cosh x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cosh;

/// One loss for each target.
pub(super) fn build(units: &[f64], delta: &f64) -> Result<Box<dyn Loss>> {
    LogCosh::for_each(units, *delta)
}

impl Rounding for Cosh {
    const NAME: &'static str = "log_cosh";

    /// x + log(1 + e^{−2x}) − log 2, which no x makes overflow.
    fn value(x: f64) -> f64 {
        x + (-2.0 * x).exp().ln_1p() - std::f64::consts::LN_2
    }

    fn slope(x: f64) -> f64 {
        x.tanh()
    }

    fn conjugate(t: f64) -> f64 {
        0.5 * (p_log_p(1.0 + t) + p_log_p(1.0 - t))
    }

    fn conjugate_slope(t: f64) -> f64 {
        t.clamp(DOMAIN_TOLERANCE - 1.0, 1.0 - DOMAIN_TOLERANCE).atanh()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Conjugate;
    use super::*;

    #[test]
    fn is_a_square_near_zero_and_a_line_far_out() {
        let loss = LogCosh::new(2.0);
        assert!((loss.value(&[1e-2], &[0.0]) / 0.5e-4 - 1.0).abs() < 1e-4);
        for r in [50.0, -50.0, 1e30] {
            let line = 2.0 * f64::from(r).abs() - 4.0 * std::f64::consts::LN_2;
            assert!((loss.value(&[r], &[0.0]) / line - 1.0).abs() < 1e-12, "{r}");
        }
        assert_eq!(loss.conjugate(&[2.1], &[0.0]), f64::INFINITY);
    }

    /// δ² log cosh(r/δ) itself, where that can be computed.
    #[test]
    fn is_its_formula() {
        for (delta, r) in [(0.5f32, 0.3f32), (1.35, -2.0), (3.0, 10.0)] {
            let d = f64::from(delta);
            let formula = d * d * (f64::from(r) / d).cosh().ln();
            assert!((LogCosh::new(delta).value(&[r], &[0.0]) - formula).abs() < 1e-6, "{delta}, {r}");
        }
    }
}
