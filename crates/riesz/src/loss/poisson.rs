//! The Poisson loss.

use super::exponential::{exponential, slope};
use super::separable::each_target;
use super::unit::moments;
use super::{finite_within, p_log_p, Conjugate, Domain, Loss, Unit, DOMAIN_TOLERANCE};
use crate::error::Result;

/// Poisson loss ℓ(u, y) = e^u − yu + (y log y − y), y ≥ 0: half the deviance of the rate e^u.
///
/// ℓ' = e^u − y; ℓ'' = e^u, without bound: solvers use it where they stand, and cut steps that raise the loss.
/// ℓ*(a) = q log q − q − (y log y − y) with q = a + y ≥ 0; ∇ℓ* = log q, where q is clipped to at least 10⁻⁶ to stay
/// finite. Beyond u = 80 the exponential is continued by its tangent, so that nothing overflows.
/// Departure: the constant y log y − y, which most texts drop, makes ℓ ≥ 0 with equality at e^u = y; relative
/// progress means something then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poisson;

/// One loss for each target.
pub(super) fn build(units: &[f64]) -> Result<Box<dyn Loss>> {
    Ok(each_target(vec![Poisson; units.len()]))
}

/// log of the weighted mean; `None` where nothing was counted.
fn log_mean(targets: &[f32], weights: &[f32]) -> Option<f64> {
    let column: Vec<_> = targets.iter().copied().zip(weights.iter().copied()).collect();
    Some(moments(&column).0).filter(|mean| *mean > 0.0).map(f64::ln)
}

/// y log y − y, which is −min_u e^u − yu.
fn entropy(y: f64) -> f64 {
    p_log_p(y) - y
}

impl Loss for Poisson {
    fn name(&self) -> &'static str {
        "poisson"
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let target = f64::from(y[0]);
        exponential(u[0]) - target * f64::from(u[0]) + entropy(target)
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = slope(u[0]) - y[0];
    }

    fn local_curvature(&self, u: &[f32], _y: &[f32]) -> f32 {
        slope(u[0])
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        Domain::NonNegative
    }

    /// The mean rate, with outputs shifted by its logarithm; none where nothing was counted.
    fn unit(&self, column: &[(f32, f32)]) -> Unit {
        match moments(column).0 {
            mean if mean > 0.0 => Unit { centre: 0.0, scale: mean, offset: mean.ln(), factor: 1.0 },
            _ => Unit::IDENTITY,
        }
    }

    /// The logarithm of the mean; of 10⁻⁶ where nothing was counted.
    fn start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        vec![log_mean(targets, weights).unwrap_or(-6.0 * std::f64::consts::LN_10) as f32]
    }

    /// The same; where nothing was counted yet, as if the next row would be the first to count one.
    fn stream_start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        let rows: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        vec![log_mean(targets, weights).unwrap_or(-rows.max(1.0).ln()) as f32]
    }

    /// Roots of counts have about the same variance at every rate.
    fn square_target(&self, y: f32) -> f64 {
        f64::from(y).sqrt()
    }

    /// The mean is e^u.
    fn predict(&self, u: &mut [f32]) {
        u.iter_mut().for_each(|u| *u = slope(*u));
    }

    fn damping(&self, start: &[f32]) -> f64 {
        0.1 * self.nominal_curvature(start, 1.0)
    }

    /// The rate.
    fn nominal_curvature(&self, start: &[f32], _noise: f64) -> f64 {
        f64::from(start[0]).exp()
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

    fn project(&self, a: &mut [f32], y: &[f32]) {
        a[0] = a[0].max(-y[0]);
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
