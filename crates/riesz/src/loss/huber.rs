//! The Huber loss.

use super::rounded::{Rounded, Rounding};
use super::Loss;
use crate::error::Result;

/// Huber loss ℓ(u, y) = ½r² if |r| ≤ δ, else δ|r| − ½δ²; r = u − y.
///
/// ℓ' = clip(r, −δ, δ); ℓ'' ≤ 1; ℓ*(a) = ay + ½a² on |a| ≤ δ; ∇ℓ* = y + a.
pub type Huber = Rounded<Parabola>;

/// φ(x) = ½x² for |x| ≤ 1, |x| − ½ beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parabola;

/// One loss for each target.
pub(super) fn build(units: &[f64], delta: &f64) -> Result<Box<dyn Loss>> {
    Huber::for_each(units, *delta)
}

impl Rounding for Parabola {
    const NAME: &'static str = "huber";

    fn value(x: f64) -> f64 {
        if x > 1.0 {
            x - 0.5
        } else {
            0.5 * x * x
        }
    }

    fn slope(x: f64) -> f64 {
        x.clamp(-1.0, 1.0)
    }

    fn conjugate(t: f64) -> f64 {
        0.5 * t * t
    }

    fn conjugate_slope(t: f64) -> f64 {
        t
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
