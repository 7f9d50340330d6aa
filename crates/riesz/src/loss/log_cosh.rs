//! The log-cosh loss.

use super::absolute::residual;
use super::separable::each_target;
use super::{finite_within, p_log_p, Conjugate, Loss, DOMAIN_TOLERANCE};
use crate::error::{positive, Result};

/// Log-cosh loss ℓ(u, y) = δ² log cosh(r/δ), r = u − y: ½r² near 0, δ|r| − δ² log 2 far out, and smooth between.
///
/// ℓ' = δ tanh(r/δ); ℓ'' = 1 − tanh²(r/δ) ≤ 1; with t = a/δ, ℓ*(a) = ay + ½δ²((1+t) log(1+t) + (1−t) log(1−t)) on |t| ≤ 1;
/// ∇ℓ* = y + δ artanh t, where |t| is clipped to 1 − 10⁻⁶ to stay finite.
/// It is s|r| with slope s = δ and its kink rounded over w = δ, like [`Huber`](super::Huber): a wider w makes it smoother,
/// and s = 1 for small δ makes several targets comparable. In general ℓ = sw log cosh(r/w), ℓ'' ≤ s/w.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogCosh {
    slope: f32,
    width: f32,
}

impl LogCosh {
    /// The loss that turns from quadratic to linear about |r| = `delta` > 0.
    pub fn new(delta: f32) -> Self {
        Self { slope: delta, width: delta }
    }

    /// The same over min(δ, 1): its linear part is never flatter than the absolute loss.
    pub fn scaled(delta: f32) -> Self {
        Self { slope: delta.max(1.0), width: delta }
    }

    /// s and w.
    fn lengths(&self) -> (f64, f64) {
        (f64::from(self.slope), f64::from(self.width))
    }
}

/// One loss for each target; `delta` is in the units of the targets as they were.
pub(super) fn build(units: &[f64], delta: &f64) -> Result<Box<dyn Loss>> {
    positive("delta", *delta)?;
    let part = |unit| LogCosh::scaled(((delta / unit) as f32).max(f32::MIN_POSITIVE));
    Ok(each_target(units.iter().map(part).collect()))
}

impl Loss for LogCosh {
    fn name(&self) -> &'static str {
        "log_cosh"
    }

    fn outputs(&self) -> usize {
        1
    }

    /// log cosh x = |x| + log(1 + e^{−2|x|}) − log 2, which no x makes overflow.
    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let ((slope, width), r) = (self.lengths(), residual(f64::from(u[0]), y).abs());
        slope * (r + width * ((-2.0 * r / width).exp().ln_1p() - std::f64::consts::LN_2))
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        let (slope, width) = self.lengths();
        out[0] = (slope * (residual(f64::from(u[0]), y) / width).tanh()) as f32;
    }

    fn curvature(&self) -> Option<f32> {
        Some(self.slope / self.width)
    }

    /// The half-quadratic weight ℓ'(r)/r: that parabola touches ℓ at u and lies above it everywhere.
    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        let ((slope, width), r) = (self.lengths(), residual(f64::from(u[0]), y));
        let x = r / width;
        (slope / width * if x.abs() < 1e-6 { 1.0 } else { x.tanh() / x }) as f32
    }

    fn smoothed(&self, width: f32) -> Option<Box<dyn Loss>> {
        (width.is_finite() && width > self.width).then(|| Box::new(Self { width, ..*self }) as Box<dyn Loss>)
    }

    fn residual_share(&self) -> Option<f32> {
        Some(self.slope.min(1.0))
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }
}

impl Conjugate for LogCosh {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let ((slope, width), a) = (self.lengths(), f64::from(a[0]));
        let t = a / slope;
        let entropy = 0.5 * (p_log_p(1.0 + t) + p_log_p(1.0 - t));
        finite_within(t.abs() <= 1.0 + DOMAIN_TOLERANCE, a * f64::from(y[0]) + slope * width * entropy)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        let (slope, width) = self.lengths();
        let t = (f64::from(a[0]) / slope).clamp(DOMAIN_TOLERANCE - 1.0, 1.0 - DOMAIN_TOLERANCE);
        out[0] = (f64::from(y[0]) + width * t.atanh()) as f32;
    }
}

#[cfg(test)]
mod tests {
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
