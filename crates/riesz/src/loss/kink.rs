//! Losses with a kink, and the kink rounded off.

use super::{Conjugate, Domain, Loss};

/// A loss ℓ(u, y) = max(0, s) of one output, where the shortfall s(u, y) is convex in u with slopes ±1: all that a
/// loss with a kink has to say, the rest follows.
///
/// ℓ' = s' 1{s > 0}; no curvature bound (ℓ'' = 0 off the kink, see [`Smoothed`]).
pub trait Shortfall: Conjugate + Clone + 'static {
    /// The name users type.
    const NAME: &'static str;
    /// What the targets are.
    const DOMAIN: Domain = Domain::Real;

    /// s(u, y).
    fn shortfall(&self, u: f64, y: &[f32]) -> f64;

    /// s'(u, y) = ±1.
    fn direction(&self, u: f64, y: &[f32]) -> f32;

    /// What [`Loss::residual_share`] is to return.
    fn share(&self) -> Option<f32> {
        None
    }
}

impl<L: Shortfall> Loss for L {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn targets(&self) -> usize {
        usize::from(L::DOMAIN != Domain::Nothing)
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        self.shortfall(f64::from(u[0]), y).max(0.0)
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        let u = f64::from(u[0]);
        out[0] = if self.shortfall(u, y) > 0.0 { self.direction(u, y) } else { 0.0 };
    }

    fn local_curvature(&self, _u: &[f32], _y: &[f32]) -> f32 {
        0.0
    }

    fn smoothed(&self, width: f32) -> Option<Box<dyn Loss>> {
        is_width(width).then(|| Box::new(Smoothed { loss: self.clone(), width }) as Box<dyn Loss>)
    }

    fn residual_share(&self) -> Option<f32> {
        self.share()
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        L::DOMAIN
    }
}

/// Whether a kink can be rounded over `width`.
pub(super) fn is_width(width: f32) -> bool {
    width.is_finite() && width > 0.0
}

/// A loss max(0, s) with its kink rounded over a width w > 0:
/// ℓ(u, y) = 0 if s ≤ 0, s²/2w if 0 ≤ s ≤ w, s − w/2 if s > w; at most w/2 below the loss itself.
///
/// ℓ' = s' min(max(s, 0)/w, 1); ℓ'' ≤ 1/w; the conjugate of the loss itself gains (w/2)a², its derivative wa.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Smoothed<L> {
    /// The loss with the kink.
    pub loss: L,
    /// The width w > 0.
    pub width: f32,
}

/// max(0, s) with its kink rounded over a width w > 0, as in [`Smoothed`].
#[derive(Clone, Copy)]
pub(super) struct Ramp {
    pub width: f64,
}

impl Ramp {
    pub(super) fn new(width: f32) -> Self {
        Self { width: f64::from(width) }
    }

    pub(super) fn value(self, s: f64) -> f64 {
        let (s, w) = (s.max(0.0), self.width);
        if s > w {
            s - 0.5 * w
        } else {
            0.5 * s * s / w
        }
    }

    pub(super) fn slope(self, s: f64) -> f32 {
        (s / self.width).clamp(0.0, 1.0) as f32
    }

    /// The half-quadratic weight 1/max(s, w) where s > 0: that parabola touches the ramp at s and lies above it
    /// everywhere. Where s ≤ 0 it is the second derivative 0, which drops the row; the smallest weight whose
    /// parabola lies above the ramp everywhere would be 1/(w − 2s).
    pub(super) fn weight(self, s: f64) -> f32 {
        if s > 0.0 {
            (1.0 / s.max(self.width)) as f32
        } else {
            0.0
        }
    }
}

impl<L: Shortfall> Loss for Smoothed<L> {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn targets(&self) -> usize {
        self.loss.targets()
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        Ramp::new(self.width).value(self.loss.shortfall(f64::from(u[0]), y))
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        let u = f64::from(u[0]);
        let slope = Ramp::new(self.width).slope(self.loss.shortfall(u, y));
        out[0] = slope * self.loss.direction(u, y);
    }

    fn curvature(&self) -> Option<f32> {
        Some(1.0 / self.width)
    }

    /// The half-quadratic weight 1/max(s, w) where s > 0, else 0.
    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        Ramp::new(self.width).weight(self.loss.shortfall(f64::from(u[0]), y))
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        L::DOMAIN
    }
}

impl<L: Shortfall> Conjugate for Smoothed<L> {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        self.loss.conjugate(a, y) + 0.5 * f64::from(self.width) * f64::from(a[0]).powi(2)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        self.loss.conjugate_derivative(a, y, out);
        out[0] += self.width * a[0];
    }

    fn project(&self, a: &mut [f32], y: &[f32]) {
        self.loss.project(a, y);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Absolute, EpsilonInsensitive, Hinge, Novelty};
    use super::*;
    use proptest::prelude::*;

    /// ℓ(u) + ℓ'(u)(v − u) + ½ h (v − u)² − ℓ(v): how far a parabola touching ℓ at u is above it at v.
    fn clearance(loss: &dyn Loss, u: f32, v: f32, h: f32) -> f64 {
        let (mut slope, step) = ([0.0], f64::from(v) - f64::from(u));
        loss.derivative(&[u], &[1.0], &mut slope);
        let parabola = f64::from(slope[0]) * step + 0.5 * f64::from(h) * step * step;
        loss.value(&[u], &[1.0]) + parabola - loss.value(&[v], &[1.0])
    }

    fn kinked() -> [Box<dyn Loss>; 4] {
        let (tube, novelty) = (EpsilonInsensitive { epsilon: 0.4 }, Novelty { level: 0.5 });
        [Box::new(Hinge), Box::new(Absolute), Box::new(tube), Box::new(novelty)]
    }

    proptest! {
        #[test]
        fn half_quadratic_weight_majorises(u in -8.0f32..8.0, v in -9.0f32..9.0, width in 0.01f32..3.0) {
            for loss in kinked() {
                let smoothed = loss.smoothed(width).expect("positive width");
                let h = smoothed.local_curvature(&[u], &[1.0]);
                let scale = 1.0 + f64::from(h) * f64::from(v - u).powi(2);
                prop_assert!(h == 0.0 || clearance(&*smoothed, u, v, h) >= -1e-6 * scale, "{}", loss.name());
            }
        }

        #[test]
        fn beyond_the_margin_the_documented_weight_majorises(
            s in -8.0f32..0.0, v in -9.0f32..9.0, width in 0.01f32..3.0,
        ) {
            let (loss, u) = (Smoothed { loss: Hinge, width }, 1.0 - s);
            prop_assert!(loss.local_curvature(&[u], &[1.0]) == 0.0);
            prop_assert!(clearance(&loss, u, v, 1.0 / (width - 2.0 * s)) >= -1e-5);
        }

        #[test]
        fn smoothing_is_at_most_half_the_width_below(u in -5.0f32..5.0, width in 0.01f32..3.0) {
            for loss in kinked() {
                let smoothed = loss.smoothed(width).expect("positive width");
                let gap = loss.value(&[u], &[-1.0]) - smoothed.value(&[u], &[-1.0]);
                prop_assert!((-1e-9..=0.5 * f64::from(width) + 1e-9).contains(&gap), "{}: {gap}", loss.name());
            }
        }
    }

    #[test]
    fn the_documented_weight_is_the_smallest() {
        let (loss, s) = (Smoothed { loss: Hinge, width: 0.5 }, -1.0);
        let touching = 1.0 - (0.5 - s);
        assert!(clearance(&loss, 1.0 - s, touching, 1.0 / (0.5 - 2.0 * s)).abs() < 1e-6);
    }

    #[test]
    fn no_smoothing_without_a_positive_width() {
        for loss in kinked() {
            for width in [0.0, -1.0, f32::NAN, f32::INFINITY] {
                assert!(loss.smoothed(width).is_none(), "{}", loss.name());
            }
            assert_eq!(loss.curvature(), None);
            assert_eq!(loss.smoothed(0.25).and_then(|smoothed| smoothed.curvature()), Some(4.0));
        }
    }
}
