//! The hinge loss and its smoothing.

use super::{finite_within, Conjugate, Loss, DOMAIN_TOLERANCE};

/// Hinge loss ℓ(u, y) = max(0, 1 − yu), y = ±1.
///
/// ℓ' = −y 1{yu < 1}; no curvature bound (ℓ'' = 0 off the kink, see [`SmoothedHinge`]);
/// ℓ*(a) = ay on −1 ≤ ay ≤ 0; ∇ℓ* = y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hinge;

/// Hinge loss with its kink rounded over a width w > 0: with r = 1 − yu,
/// ℓ(u, y) = 0 if r ≤ 0, r²/2w if 0 ≤ r ≤ w, r − w/2 if r > w; at most w/2 below the hinge.
///
/// ℓ' = −y min(max(r, 0)/w, 1); ℓ'' ≤ 1/w; ℓ*(a) = ay + (w/2)a² on −1 ≤ ay ≤ 0; ∇ℓ* = y + wa.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmoothedHinge {
    /// The width w > 0.
    pub width: f32,
}

/// r = 1 − yu, the shortfall of the margin.
#[inline]
fn shortfall(u: &[f32], y: &[f32]) -> f32 {
    1.0 - y[0] * u[0]
}

/// −1 ≤ ay ≤ 0.
fn in_domain(a: &[f32], y: &[f32]) -> bool {
    (-1.0 - DOMAIN_TOLERANCE..=DOMAIN_TOLERANCE).contains(&f64::from(a[0] * y[0]))
}

impl Loss for Hinge {
    fn name(&self) -> &'static str {
        "hinge"
    }

    fn outputs(&self) -> usize {
        1
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        (1.0 - f64::from(y[0] * u[0])).max(0.0)
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = if shortfall(u, y) > 0.0 { -y[0] } else { 0.0 };
    }

    fn curvature(&self) -> Option<f32> {
        None
    }

    fn local_curvature(&self, _u: &[f32], _y: &[f32]) -> f32 {
        0.0
    }

    fn smoothed(&self, width: f32) -> Option<Box<dyn Loss>> {
        (width.is_finite() && width > 0.0).then(|| Box::new(SmoothedHinge { width }) as Box<dyn Loss>)
    }
}

impl Conjugate for Hinge {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        finite_within(in_domain(a, y), f64::from(a[0] * y[0]))
    }

    fn conjugate_derivative(&self, _a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = y[0];
    }
}

impl Loss for SmoothedHinge {
    fn name(&self) -> &'static str {
        "hinge"
    }

    fn outputs(&self) -> usize {
        1
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let (r, w) = ((1.0 - f64::from(y[0] * u[0])).max(0.0), f64::from(self.width));
        if r > w {
            r - 0.5 * w
        } else {
            0.5 * r * r / w
        }
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = -y[0] * (shortfall(u, y) / self.width).clamp(0.0, 1.0);
    }

    fn curvature(&self) -> Option<f32> {
        Some(1.0 / self.width)
    }

    /// The half-quadratic weight 1/max(r, w) where r > 0: that parabola touches ℓ at u and lies above it
    /// everywhere. Where r ≤ 0 it is ℓ'' = 0, which drops the row; the smallest weight whose parabola
    /// lies above ℓ everywhere would be 1/(w − 2r).
    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        let r = shortfall(u, y);
        if r > 0.0 {
            1.0 / r.max(self.width)
        } else {
            0.0
        }
    }
}

impl Conjugate for SmoothedHinge {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let quadratic = 0.5 * f64::from(self.width) * f64::from(a[0]).powi(2);
        finite_within(in_domain(a, y), f64::from(a[0] * y[0]) + quadratic)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = y[0] + self.width * a[0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// ℓ(u) + ℓ'(u)(v − u) + ½ h (v − u)² − ℓ(v): how far a parabola touching ℓ at u is above it at v.
    fn clearance(loss: &SmoothedHinge, u: f32, v: f32, h: f32) -> f64 {
        let (mut slope, step) = ([0.0], f64::from(v) - f64::from(u));
        loss.derivative(&[u], &[1.0], &mut slope);
        let parabola = f64::from(slope[0]) * step + 0.5 * f64::from(h) * step * step;
        loss.value(&[u], &[1.0]) + parabola - loss.value(&[v], &[1.0])
    }

    proptest! {
        #[test]
        fn half_quadratic_weight_majorises(r in 1e-4f32..8.0, v in -9.0f32..9.0, width in 0.01f32..3.0) {
            let (loss, u) = (SmoothedHinge { width }, 1.0 - r);
            let h = loss.local_curvature(&[u], &[1.0]);
            let scale = 1.0 + f64::from(h) * f64::from(v - u).powi(2);
            prop_assert!(clearance(&loss, u, v, h) >= -1e-6 * scale);
        }

        #[test]
        fn beyond_the_margin_the_documented_weight_majorises(
            r in -8.0f32..0.0, v in -9.0f32..9.0, width in 0.01f32..3.0,
        ) {
            let (loss, u) = (SmoothedHinge { width }, 1.0 - r);
            prop_assert!(loss.local_curvature(&[u], &[1.0]) == 0.0);
            prop_assert!(clearance(&loss, u, v, 1.0 / (width - 2.0 * r)) >= -1e-5);
        }

        #[test]
        fn smoothing_is_at_most_half_the_width_below(u in -5.0f32..5.0, width in 0.01f32..3.0) {
            let smoothed = Hinge.smoothed(width).expect("positive width");
            let gap = Hinge.value(&[u], &[-1.0]) - smoothed.value(&[u], &[-1.0]);
            prop_assert!((-1e-9..=0.5 * f64::from(width) + 1e-9).contains(&gap), "{gap}");
        }
    }

    #[test]
    fn the_documented_weight_is_the_smallest() {
        let (loss, r) = (SmoothedHinge { width: 0.5 }, -1.0);
        let touching = 1.0 - (0.5 - r);
        assert!(clearance(&loss, 1.0 - r, touching, 1.0 / (0.5 - 2.0 * r)).abs() < 1e-6);
    }

    #[test]
    fn no_smoothing_without_a_positive_width() {
        for width in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(Hinge.smoothed(width).is_none());
        }
        assert_eq!(Hinge.curvature(), None);
        assert_eq!(Hinge.smoothed(0.25).and_then(|loss| loss.curvature()), Some(4.0));
    }

    #[test]
    fn conjugates_are_infinite_outside_their_domain() {
        for a in [-0.1, 1.1] {
            assert_eq!(Hinge.conjugate(&[a], &[-1.0]), f64::INFINITY);
            assert_eq!(SmoothedHinge { width: 0.5 }.conjugate(&[a], &[-1.0]), f64::INFINITY);
        }
    }
}
