//! The Poisson loss.

use super::exponential::{exponential, slope};
use super::{finite_within, p_log_p, Conjugate, Loss, DOMAIN_TOLERANCE};

/// Poisson loss ℓ(u, y) = e^u − yu + (y log y − y), y ≥ 0: half the deviance of the rate e^u.
///
/// ℓ' = e^u − y; ℓ'' = e^u, without bound: solvers use it where they stand, and cut steps that raise the loss.
/// ℓ*(a) = q log q − q − (y log y − y) with q = a + y ≥ 0; ∇ℓ* = log q, where q is clipped to at least 10⁻⁶ to stay
/// finite. Beyond u = 80 the exponential is continued by its tangent, so that nothing overflows.
/// Departure: the constant y log y − y, which most texts drop, makes ℓ ≥ 0 with equality at e^u = y; relative
/// progress means something then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poisson;

/// y log y − y, which is −min_u e^u − yu.
fn entropy(y: f64) -> f64 {
    p_log_p(y) - y
}

impl Loss for Poisson {
    fn name(&self) -> &'static str {
        "poisson"
    }

    fn outputs(&self) -> usize {
        1
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let target = f64::from(y[0]);
        exponential(u[0]) - target * f64::from(u[0]) + entropy(target)
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = slope(u[0]) - y[0];
    }

    fn curvature(&self) -> Option<f32> {
        None
    }

    fn local_curvature(&self, u: &[f32], _y: &[f32]) -> f32 {
        slope(u[0])
    }
}

impl Conjugate for Poisson {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let y = f64::from(y[0]);
        let q = f64::from(a[0]) + y;
        finite_within(q >= -DOMAIN_TOLERANCE * (1.0 + y), entropy(q.max(0.0)) - entropy(y))
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        let q = f64::from(a[0]) + f64::from(y[0]);
        out[0] = q.max(DOMAIN_TOLERANCE).ln() as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_loss_is_zero_at_the_rate() {
        for y in [0.5f32, 1.0, 7.0, 1e4] {
            assert!(Poisson.value(&[y.ln()], &[y]).abs() < 1e-6 * f64::from(y));
        }
        assert!(Poisson.value(&[-90.0], &[0.0]) < 1e-30);
    }

    #[test]
    fn conjugate_is_infinite_outside_its_domain() {
        assert_eq!(Poisson.conjugate(&[-2.1], &[2.0]), f64::INFINITY);
        assert!(Poisson.conjugate(&[-2.0], &[2.0]).is_finite());
    }
}
