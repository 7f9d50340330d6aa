//! The Huber loss.

use super::absolute::residual;
use super::kink::Ramp;
use super::separable::each_target;
use super::{finite_within, Conjugate, Loss, DOMAIN_TOLERANCE};
use crate::error::{positive, Result};

/// Huber loss ℓ(u, y) = ½r² if |r| ≤ δ, else δ|r| − ½δ²; r = u − y.
///
/// ℓ' = clip(r, −δ, δ); ℓ'' ≤ 1; ℓ*(a) = ay + ½a² on |a| ≤ δ; ∇ℓ* = y + a.
/// It is s|r| with slope s = δ and its kink rounded over w = δ. A wider w makes it smoother ([`Loss::smoothed`]), and
/// s = 1 for small δ makes several targets comparable ([`Huber::scaled`]). In general
/// ℓ'' ≤ s/w, ℓ*(a) = ay + (w/2s)a² on |a| ≤ s, ∇ℓ* = y + (w/s)a.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Huber {
    slope: f32,
    width: f32,
}

impl Huber {
    /// The loss that turns from quadratic to linear at |r| = `delta` > 0.
    pub fn new(delta: f32) -> Self {
        Self { slope: delta, width: delta }
    }

    /// The same over min(δ, 1): its linear part is never flatter than the absolute loss.
    pub fn scaled(delta: f32) -> Self {
        Self { slope: delta.max(1.0), width: delta }
    }
}

/// One loss for each target; `delta` is in the units of the targets as they were. A length that leaves single precision
/// is as good as the smallest that does not.
pub(super) fn build(units: &[f64], delta: &f64) -> Result<Box<dyn Loss>> {
    positive("delta", *delta)?;
    let part = |unit| Huber::scaled(((delta / unit) as f32).max(f32::MIN_POSITIVE));
    Ok(each_target(units.iter().map(part).collect()))
}

impl Loss for Huber {
    fn name(&self) -> &'static str {
        "huber"
    }

    fn outputs(&self) -> usize {
        1
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        f64::from(self.slope) * Ramp::new(self.width).value(residual(f64::from(u[0]), y).abs())
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        let r = residual(f64::from(u[0]), y);
        out[0] = self.slope * Ramp::new(self.width).slope(r.abs()) * r.signum() as f32;
    }

    fn curvature(&self) -> Option<f32> {
        Some(self.slope / self.width)
    }

    /// The half-quadratic weight s/max(|r|, w): that parabola touches ℓ at u and lies above it everywhere.
    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        let r = residual(f64::from(u[0]), y).abs();
        (f64::from(self.slope) / r.max(f64::from(self.width))) as f32
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

impl Conjugate for Huber {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let (a, slope) = (f64::from(a[0]), f64::from(self.slope));
        let value = a * f64::from(y[0]) + 0.5 * f64::from(self.width) / slope * a * a;
        finite_within(a.abs() <= slope * (1.0 + DOMAIN_TOLERANCE), value)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = y[0] + self.width / self.slope * a[0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_quadratic_then_linear() {
        let loss = Huber::new(1.5);
        for (r, value) in [(0.5, 0.125), (1.5, 1.125), (4.0, 4.875), (-4.0, 4.875)] {
            assert!((loss.value(&[2.0 + r], &[2.0]) - value).abs() < 1e-9, "{r}");
        }
    }

    #[test]
    fn only_a_width_beyond_delta_makes_it_smoother() {
        let loss = Huber::new(0.5);
        assert!(loss.smoothed(0.5).is_none() && loss.smoothed(f32::NAN).is_none());
        assert_eq!(loss.smoothed(1.0).and_then(|smoothed| smoothed.curvature()), Some(0.5));
    }

    #[test]
    fn scaling_is_by_a_factor() {
        for (delta, factor) in [(0.5, 2.0), (4.0, 1.0)] {
            for u in [0.1, 0.7, -9.0] {
                let [plain, scaled] =
                    [Huber::new(delta), Huber::scaled(delta)].map(|l| l.value(&[u], &[0.0]));
                assert!((scaled - factor * plain).abs() < 1e-6, "{delta}, {u}");
            }
        }
    }
}
