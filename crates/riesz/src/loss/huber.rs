//! The Huber loss.

use super::absolute::residual;
use super::kink::Ramp;
use super::{finite_within, Conjugate, Loss, DOMAIN_TOLERANCE};

/// Huber loss ℓ(u, y) = ½r² if |r| ≤ δ, else δ|r| − ½δ²; r = u − y.
///
/// ℓ' = clip(r, −δ, δ); ℓ'' ≤ 1; ℓ*(a) = ay + ½a² on |a| ≤ δ; ∇ℓ* = y + a.
/// It is δ|r| with its kink rounded over w = δ. A wider w ≥ δ makes it smoother ([`Loss::smoothed`]):
/// ℓ'' ≤ δ/w, ℓ*(a) = ay + (w/2δ)a², ∇ℓ* = y + (w/δ)a.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Huber {
    delta: f32,
    width: f32,
}

impl Huber {
    /// The loss that turns from quadratic to linear at |r| = `delta` > 0.
    pub fn new(delta: f32) -> Self {
        Self { delta, width: delta }
    }
}

impl Loss for Huber {
    fn name(&self) -> &'static str {
        "huber"
    }

    fn outputs(&self) -> usize {
        1
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        f64::from(self.delta) * Ramp::new(self.width).value(residual(f64::from(u[0]), y).abs())
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        let r = residual(f64::from(u[0]), y);
        out[0] = self.delta * Ramp::new(self.width).slope(r.abs()) * r.signum() as f32;
    }

    fn curvature(&self) -> Option<f32> {
        Some(self.delta / self.width)
    }

    /// The half-quadratic weight δ/max(|r|, w): that parabola touches ℓ at u and lies above it everywhere.
    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        let r = residual(f64::from(u[0]), y).abs();
        (f64::from(self.delta) / r.max(f64::from(self.width))) as f32
    }

    fn smoothed(&self, width: f32) -> Option<Box<dyn Loss>> {
        (width.is_finite() && width > self.delta).then(|| Box::new(Self { width, ..*self }) as Box<dyn Loss>)
    }

    fn residual_share(&self) -> Option<f32> {
        Some(self.delta.min(1.0))
    }
}

impl Conjugate for Huber {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let (a, delta) = (f64::from(a[0]), f64::from(self.delta));
        let value = a * f64::from(y[0]) + 0.5 * f64::from(self.width) / delta * a * a;
        finite_within(a.abs() <= delta * (1.0 + DOMAIN_TOLERANCE), value)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = y[0] + self.width / self.delta * a[0];
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
}
