//! The multi-class logistic loss.

use super::constant::share;
use super::crammer_singer::project_shifted_simplex;
use super::{finite_within, logistic, p_log_p, Conjugate, Domain, Loss, Probabilities, DOMAIN_TOLERANCE};
use crate::error::Result;

/// Softmax loss ℓ(u, y) = log Σ_c e^{u_c} − u_y; the target y is a class index.
///
/// ∇ℓ = p − e_y with p = softmax(u); ∇²ℓ = diag(p) − ppᵀ ≤ ½ (see [`Loss::local_curvature`]);
/// ℓ*(a) = Σ_c p_c log p_c with p = a + e_y in the simplex; ∇ℓ* = log p, up to a constant, where p is
/// clipped to at least 10⁻⁶ to stay finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// Number C ≥ 2 of classes.
    pub classes: usize,
}

/// [`Logistic`](super::Logistic) for two classes, the same model with half the outputs.
pub(super) fn build(units: &[f64]) -> Result<Box<dyn Loss>> {
    match units.len() {
        2 => logistic::build(units),
        classes => Ok(Box::new(Softmax { classes })),
    }
}

/// The largest output.
fn largest(u: &[f32]) -> f32 {
    u.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Σ_c e^{u_c − top} − 1: the mass of all classes but the likeliest, relative to it.
fn rest(u: &[f32], top: f32) -> f64 {
    u.iter().map(|&v| f64::from((v - top).exp())).sum::<f64>() - 1.0
}

/// Replaces u by scale · softmax(u).
pub(super) fn softmax_in_place(row: &mut [f32], scale: f32) {
    let (top, mut sum) = (largest(row), 0.0);
    for p in row.iter_mut() {
        *p = (*p - top).exp();
        sum += *p;
    }
    let scale = scale / sum;
    row.iter_mut().for_each(|p| *p *= scale);
}

/// softmax(u) in double precision.
pub(crate) fn softmax_into(u: impl Iterator<Item = f64> + Clone, out: &mut [f64]) {
    let top = u.clone().fold(f64::NEG_INFINITY, f64::max);
    out.iter_mut().zip(u).for_each(|(p, u)| *p = (u - top).exp());
    let sum: f64 = out.iter().sum();
    out.iter_mut().for_each(|p| *p /= sum);
}

/// scale · (softmax(u) − e_y).
fn scaled_derivative(u: &[f32], y: f32, scale: f32, out: &mut [f32]) {
    out.copy_from_slice(u);
    softmax_in_place(out, scale);
    out[y as usize] -= scale;
}

/// The coordinates of p = a + e_y.
fn probabilities<'a>(a: &'a [f32], y: &'a [f32]) -> impl Iterator<Item = f64> + 'a {
    let label = y[0] as usize;
    a.iter().enumerate().map(move |(c, &a)| f64::from(a) + f64::from(u8::from(c == label)))
}

impl Loss for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn outputs(&self) -> usize {
        self.classes
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let top = largest(u);
        rest(u, top).ln_1p() + (f64::from(top) - f64::from(u[y[0] as usize]))
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        scaled_derivative(u, y[0], 1.0, out);
    }

    fn curvature(&self) -> Option<f32> {
        Some(0.5)
    }

    /// Gershgorin's bound max_c 2 p_c (1 − p_c) of diag(p) − ppᵀ. The likeliest class attains the maximum:
    /// every other p_c ≤ min(p_top, 1 − p_top) ≤ ½, where t(1 − t) increases.
    fn local_curvature(&self, u: &[f32], _y: &[f32]) -> f32 {
        let rest = rest(u, largest(u));
        (2.0 * rest / ((1.0 + rest) * (1.0 + rest))) as f32
    }

    fn residuals(&self, u: &[f32], y: &[f32], weights: &[f32], out: &mut [f32]) {
        let rows = out.chunks_exact_mut(self.classes).zip(u.chunks_exact(self.classes));
        for ((r, u), (&y, &w)) in rows.zip(y.iter().zip(weights)) {
            scaled_derivative(u, y, -w, r);
        }
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        Domain::Class
    }

    /// log p.
    fn start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        (0..self.classes).map(|k| share(k as f32, targets, weights).ln() as f32).collect()
    }

    fn probabilities(&self) -> Option<Probabilities> {
        Some(|u, out| softmax_into(u.iter().map(|&u| f64::from(u)), out))
    }

    fn damping(&self, _start: &[f32]) -> f64 {
        0.01
    }
}

impl Conjugate for Softmax {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let mass: f64 = probabilities(a, y).sum();
        let inside = (mass - 1.0).abs() <= DOMAIN_TOLERANCE * a.len() as f64
            && probabilities(a, y).all(|p| p >= -DOMAIN_TOLERANCE);
        finite_within(inside, probabilities(a, y).map(p_log_p).sum())
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        for (u, p) in out.iter_mut().zip(probabilities(a, y)) {
            *u = p.max(DOMAIN_TOLERANCE).ln() as f32;
        }
    }

    fn project(&self, a: &mut [f32], y: &[f32]) {
        project_shifted_simplex(a, y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_curvature_is_attained_between_two_equal_classes() {
        let (loss, step) = (Softmax { classes: 3 }, 1.0 / 256.0);
        let (mut ahead, mut behind) = ([0.0; 3], [0.0; 3]);
        loss.derivative(&[step, -step, -40.0], &[0.0], &mut ahead);
        loss.derivative(&[-step, step, -40.0], &[0.0], &mut behind);
        let second = (ahead[0] - behind[0] - ahead[1] + behind[1]) / (4.0 * step);
        assert!((second - 0.5).abs() < 1e-4, "{second}");
        assert!((loss.local_curvature(&[0.0, 0.0, -40.0], &[0.0]) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn local_curvature_is_gershgorins_bound() {
        for u in [[0.3, -1.0, 0.1, 2.0], [0.0; 4], [5.0, 4.9, -3.0, 0.0]] {
            let mut p = u;
            softmax_in_place(&mut p, 1.0);
            let bound = p.iter().map(|p| 2.0 * p * (1.0 - p)).fold(0.0, f32::max);
            assert!((Softmax { classes: 4 }.local_curvature(&u, &[0.0]) - bound).abs() < 1e-6);
        }
    }

    #[test]
    fn a_confident_row_keeps_its_small_loss() {
        let value = Softmax { classes: 2 }.value(&[15.0, 0.0], &[0.0]);
        assert!((value / (-15f64).exp() - 1.0).abs() < 1e-5, "{value}");
    }

    #[test]
    fn conjugate_is_infinite_off_the_simplex() {
        let loss = Softmax { classes: 3 };
        assert_eq!(loss.conjugate(&[-0.5, 0.2, 0.2], &[0.0]), f64::INFINITY);
        assert_eq!(loss.conjugate(&[-0.5, 0.6, -0.1], &[0.0]), f64::INFINITY);
        assert!(loss.conjugate(&[-0.5, 0.3, 0.2], &[0.0]).is_finite());
    }
}
