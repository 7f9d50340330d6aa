//! The absolute loss with its kink rounded off.

use super::absolute::residual;
use super::separable::each_target;
use super::{finite_within, Conjugate, Loss, DOMAIN_TOLERANCE};
use crate::error::{positive, Result};
use std::marker::PhantomData;

/// An even, convex φ(x) that is ½x² near 0 and |x| far out, up to a constant.
pub trait Rounding: Copy + Send + Sync + 'static {
    /// The name of the loss.
    const NAME: &'static str;

    /// φ(x) for x ≥ 0.
    fn value(x: f64) -> f64;

    /// φ'(x).
    fn slope(x: f64) -> f64;

    /// φ*(t), |t| ≤ 1.
    fn conjugate(t: f64) -> f64;

    /// φ*'(t), |t| ≤ 1, finite.
    fn conjugate_slope(t: f64) -> f64;
}

/// ℓ(u, y) = sw φ(r/w), r = u − y: the loss s|r| with its kink rounded over w.
///
/// ℓ' = s φ'(r/w); ℓ'' ≤ s/w; ℓ*(a) = ay + sw φ*(a/s) on |a| ≤ s; ∇ℓ* = y + w φ*'(a/s). A wider w makes it smoother
/// ([`Loss::smoothed`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounded<P> {
    slope: f32,
    width: f32,
    rounding: PhantomData<P>,
}

impl<P: Rounding> Rounded<P> {
    /// s = w = δ > 0: the loss that turns from quadratic to linear about |r| = `delta`.
    pub fn new(delta: f32) -> Self {
        Self { slope: delta, width: delta, rounding: PhantomData }
    }

    /// The same over min(δ, 1): its linear part is never flatter than the absolute loss, so that several targets are
    /// comparable.
    pub fn scaled(delta: f32) -> Self {
        Self { slope: delta.max(1.0), ..Self::new(delta) }
    }

    /// One loss for each target; `delta` is in the units of the targets as they were. A length that leaves single precision is
    /// as good as the smallest that does not.
    pub(super) fn for_each(units: &[f64], delta: f64) -> Result<Box<dyn Loss>> {
        positive("delta", delta)?;
        let part = |unit| Self::scaled(((delta / unit) as f32).max(f32::MIN_POSITIVE));
        Ok(each_target(units.iter().map(part).collect()))
    }

    /// s, w and r/w.
    fn terms(&self, u: &[f32], y: &[f32]) -> (f64, f64, f64) {
        let width = f64::from(self.width);
        (f64::from(self.slope), width, residual(f64::from(u[0]), y) / width)
    }
}

impl<P: Rounding> Loss for Rounded<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let (slope, width, x) = self.terms(u, y);
        slope * width * P::value(x.abs())
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        let (slope, _, x) = self.terms(u, y);
        out[0] = (slope * P::slope(x)) as f32;
    }

    fn curvature(&self) -> Option<f32> {
        Some(self.slope / self.width)
    }

    /// The half-quadratic weight ℓ'(r)/r: that parabola touches ℓ at u and lies above it everywhere.
    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        let (slope, width, x) = self.terms(u, y);
        (slope / width * if x.abs() < 1e-6 { 1.0 } else { P::slope(x) / x }) as f32
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

impl<P: Rounding> Conjugate for Rounded<P> {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let (slope, width, a) = (f64::from(self.slope), f64::from(self.width), f64::from(a[0]));
        let value = a * f64::from(y[0]) + slope * width * P::conjugate(a / slope);
        finite_within((a / slope).abs() <= 1.0 + DOMAIN_TOLERANCE, value)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        let t = f64::from(a[0]) / f64::from(self.slope);
        out[0] = (f64::from(y[0]) + f64::from(self.width) * P::conjugate_slope(t)) as f32;
    }

    fn project(&self, a: &mut [f32], _y: &[f32]) {
        a[0] = a[0].clamp(-self.slope, self.slope);
    }
}
