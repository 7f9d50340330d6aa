//! The multi-class hinge loss.

use super::kink::is_width;
use super::{finite_within, hinge, Conjugate, Domain, Loss, DOMAIN_TOLERANCE};
use crate::error::Result;

/// Crammer–Singer loss ℓ(u, y) = max_c(u_c + 1{c ≠ y}) − u_y; the target y is a class index.
///
/// ∇ℓ = e_ĉ − e_y with ĉ the class of the maximum; no curvature bound (see [`SmoothedCrammerSinger`]);
/// ℓ*(a) = a_y where p = a + e_y is in the simplex; ∇ℓ* = −1{c ≠ y}, up to a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrammerSinger {
    /// Number C ≥ 2 of classes.
    pub classes: usize,
}

/// [`Hinge`](super::Hinge) for two classes, the same model with half the outputs.
pub(super) fn build(units: &[f64]) -> Result<Box<dyn Loss>> {
    match units.len() {
        2 => hinge::build(units),
        classes => Ok(Box::new(CrammerSinger { classes })),
    }
}

/// Crammer–Singer loss with its kinks rounded over a width w > 0: ℓ(u, y) = max_p ⟨p, z⟩ − (w/4)‖p − e_y‖² over p in
/// the simplex, where z_c = u_c − u_y + 1{c ≠ y}; at most w/2 below the loss, and the smoothed hinge for two classes.
///
/// ∇ℓ = p − e_y with p the projection of 2z/w + e_y onto the simplex; curvature ≤ 2/w; ℓ*(a) = a_y + (w/4)‖a‖² on
/// the same domain; ∇ℓ* = −1{c ≠ y} + (w/2)a, up to a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmoothedCrammerSinger {
    /// Number C ≥ 2 of classes.
    pub classes: usize,
    /// The width w > 0.
    pub width: f32,
}

/// z_c = u_c − u_y + 1{c ≠ y}, class by class: by how much class c exceeds what it may; 0 for y itself.
fn excess<'a>(u: &'a [f32], y: &'a [f32]) -> impl Iterator<Item = f64> + Clone + 'a {
    let label = y[0] as usize;
    let own = f64::from(u[label]);
    u.iter().enumerate().map(move |(c, &u)| f64::from(u) - own + f64::from(u8::from(c != label)))
}

/// 1{c = y}.
fn indicator(c: usize, y: &[f32]) -> f64 {
    f64::from(u8::from(c == y[0] as usize))
}

/// The first of the largest numbers, and the largest of the others.
fn two_largest(values: impl Iterator<Item = f64>) -> (usize, f64, f64) {
    let start = (0, f64::NEG_INFINITY, f64::NEG_INFINITY);
    let next = |(top, first, second): (usize, f64, f64), (c, v): (usize, f64)| match v > first {
        true => (c, v, first),
        false => (top, first, second.max(v)),
    };
    values.enumerate().fold(start, next)
}

/// The t at which Σ max(0, v_c − t) = 1, so that max(0, v − t) is the projection of v onto the simplex: starting with
/// all classes, those below the threshold are left out until none is (Michelot).
fn threshold(v: impl Iterator<Item = f64> + Clone) -> f64 {
    let mut t = f64::NEG_INFINITY;
    loop {
        let (sum, count) = v.clone().filter(|&v| v > t).fold((0.0, 0.0), |(s, n), v| (s + v, n + 1.0));
        let next = (sum - 1.0) / count;
        if next <= t {
            return t;
        }
        t = next;
    }
}

/// The nearest a for which a + e_y is a distribution.
pub(super) fn project_shifted_simplex(a: &mut [f32], y: &[f32]) {
    let p = a.iter().enumerate().map(|(c, &a)| f64::from(a) + indicator(c, y));
    let t = threshold(p);
    for (c, a) in a.iter_mut().enumerate() {
        *a = ((f64::from(*a) + indicator(c, y) - t).max(0.0) - indicator(c, y)) as f32;
    }
}

/// Σ_c p_c = 1 and p ≥ 0 for p = a + e_y.
fn in_domain(a: &[f32], y: &[f32]) -> bool {
    let p = || a.iter().enumerate().map(move |(c, &a)| f64::from(a) + indicator(c, y));
    (p().sum::<f64>() - 1.0).abs() <= DOMAIN_TOLERANCE * a.len() as f64 && p().all(|p| p >= -DOMAIN_TOLERANCE)
}

impl Loss for CrammerSinger {
    fn name(&self) -> &'static str {
        "crammer_singer"
    }

    fn outputs(&self) -> usize {
        self.classes
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        two_largest(excess(u, y)).1
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out.fill(0.0);
        let (top, largest, _) = two_largest(excess(u, y));
        if largest > 0.0 {
            out[top] = 1.0;
            out[y[0] as usize] = -1.0;
        }
    }

    fn local_curvature(&self, _u: &[f32], _y: &[f32]) -> f32 {
        0.0
    }

    fn smoothed(&self, width: f32) -> Option<Box<dyn Loss>> {
        let classes = self.classes;
        is_width(width).then(|| Box::new(SmoothedCrammerSinger { classes, width }) as Box<dyn Loss>)
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        Domain::Class
    }
}

impl Conjugate for CrammerSinger {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        finite_within(in_domain(a, y), f64::from(a[y[0] as usize]))
    }

    fn conjugate_derivative(&self, _a: &[f32], y: &[f32], out: &mut [f32]) {
        out.fill(-1.0);
        out[y[0] as usize] = 0.0;
    }

    fn project(&self, a: &mut [f32], y: &[f32]) {
        project_shifted_simplex(a, y);
    }
}

impl SmoothedCrammerSinger {
    /// 2z/w + e_y.
    fn scaled<'a>(&self, u: &'a [f32], y: &'a [f32]) -> impl Iterator<Item = f64> + Clone + 'a {
        let factor = 2.0 / f64::from(self.width);
        excess(u, y).enumerate().map(move |(c, z)| factor * z + indicator(c, y))
    }
}

impl Loss for SmoothedCrammerSinger {
    fn name(&self) -> &'static str {
        "crammer_singer"
    }

    fn outputs(&self) -> usize {
        self.classes
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let t = threshold(self.scaled(u, y));
        let quarter = 0.25 * f64::from(self.width);
        let term = |(c, (v, z)): (usize, (f64, f64))| {
            let p = (v - t).max(0.0);
            p * z - quarter * (p - indicator(c, y)).powi(2)
        };
        self.scaled(u, y).zip(excess(u, y)).enumerate().map(term).sum()
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        let t = threshold(self.scaled(u, y));
        for (c, (d, v)) in out.iter_mut().zip(self.scaled(u, y)).enumerate() {
            *d = ((v - t).max(0.0) - indicator(c, y)) as f32;
        }
    }

    fn curvature(&self) -> Option<f32> {
        Some(2.0 / self.width)
    }

    /// The half-quadratic weight 2/max(g, w) where the loss is positive, g the distance of its two largest classes;
    /// 0 where it is not, which drops the row. For two classes that is the weight of the smoothed hinge.
    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        let (_, first, second) = two_largest(excess(u, y));
        if first > 0.0 {
            (2.0 / (first - second).max(f64::from(self.width))) as f32
        } else {
            0.0
        }
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    fn domain(&self) -> Domain {
        Domain::Class
    }
}

impl Conjugate for SmoothedCrammerSinger {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let square: f64 = a.iter().map(|&a| f64::from(a).powi(2)).sum();
        finite_within(in_domain(a, y), f64::from(a[y[0] as usize]) + 0.25 * f64::from(self.width) * square)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        for (c, (u, &a)) in out.iter_mut().zip(a).enumerate() {
            *u = indicator(c, y) as f32 - 1.0 + 0.5 * self.width * a;
        }
    }

    fn project(&self, a: &mut [f32], y: &[f32]) {
        project_shifted_simplex(a, y);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Hinge, Smoothed};
    use super::*;

    #[test]
    fn two_classes_are_the_hinge_of_their_difference() {
        let smoothed = SmoothedCrammerSinger { classes: 2, width: 0.5 };
        for margin in [-2.0f32, 0.1, 0.4, 0.7, 0.9, 1.0, 3.0] {
            let (u, y) = ([0.5 * margin + 0.25, 0.25 - 0.5 * margin], [0.0]);
            let exact = CrammerSinger { classes: 2 }.value(&u, &y);
            assert!((exact - Hinge.value(&[margin], &[1.0])).abs() < 1e-6, "{margin}");
            let hinge = Smoothed { loss: Hinge, width: 0.5 };
            assert!((smoothed.value(&u, &y) - hinge.value(&[margin], &[1.0])).abs() < 1e-6, "{margin}");
            let weight = 2.0 * hinge.local_curvature(&[margin], &[1.0]);
            assert!((smoothed.local_curvature(&u, &y) - weight).abs() < 1e-5, "{margin}");
        }
    }

    #[test]
    fn smoothing_is_at_most_half_the_width_below() {
        let (loss, width) = (CrammerSinger { classes: 4 }, 0.5);
        let smoothed = loss.smoothed(width).expect("positive width");
        assert!(loss.smoothed(0.0).is_none());
        for i in 0..400 {
            let u: Vec<f32> = (0..4).map(|c| ((i * 37 + c * 101) % 89) as f32 / 40.0).collect();
            let gap = loss.value(&u, &[1.0]) - smoothed.value(&u, &[1.0]);
            assert!((-1e-9..=0.5 * f64::from(width) + 1e-9).contains(&gap), "{u:?}: {gap}");
        }
    }

    #[test]
    fn the_projection_is_on_the_simplex_and_nearest() {
        for v in [vec![0.2, 0.3, 0.5], vec![5.0, 4.9, -3.0], vec![-1.0, -1.0, -1.0], vec![0.9, 0.0, 0.4]] {
            let t = threshold(v.iter().copied());
            let p: Vec<f64> = v.iter().map(|v| (v - t).max(0.0)).collect();
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{v:?}");
            // Optimality: v − p is the same on the support and not larger off it.
            assert!(v.iter().zip(&p).all(|(v, p)| v - p <= t + 1e-12), "{v:?}");
        }
    }
}
