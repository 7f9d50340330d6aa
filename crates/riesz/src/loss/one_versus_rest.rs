//! Many classes by a binary loss.

use super::{Conjugate, Loss};
use std::slice::from_ref;

/// One versus rest: ℓ(u, y) = Σ_c ℓ₂(u_c, ±1), the sign + for c = y; the target y is a class index.
///
/// ℓ₂ is a binary loss with one output. The Hessian is diagonal, so curvatures are the largest of the
/// classes'; the conjugate is the sum of conjugates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneVersusRest<L> {
    /// The binary loss ℓ₂.
    pub loss: L,
    /// Number C ≥ 2 of classes.
    pub classes: usize,
}

/// The binary target of class `class`.
#[inline]
fn sign(class: usize, y: &[f32]) -> [f32; 1] {
    [if class == y[0] as usize { 1.0 } else { -1.0 }]
}

impl<L: Loss> Loss for OneVersusRest<L> {
    fn name(&self) -> &'static str {
        self.loss.name()
    }

    fn outputs(&self) -> usize {
        self.classes
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        u.iter().enumerate().map(|(c, u)| self.loss.value(from_ref(u), &sign(c, y))).sum()
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        for (c, (u, d)) in u.iter().zip(out.chunks_exact_mut(1)).enumerate() {
            self.loss.derivative(from_ref(u), &sign(c, y), d);
        }
    }

    fn curvature(&self) -> Option<f32> {
        self.loss.curvature()
    }

    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        let class = |(c, u)| self.loss.local_curvature(from_ref(u), &sign(c, y));
        u.iter().enumerate().map(class).fold(0.0, f32::max)
    }

    fn smoothed(&self, width: f32) -> Option<Box<dyn Loss>> {
        let loss = Boxed(self.loss.smoothed(width)?);
        Some(Box::new(OneVersusRest { loss, classes: self.classes }))
    }
}

impl<L: Conjugate> Conjugate for OneVersusRest<L> {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        a.iter().enumerate().map(|(c, a)| self.loss.conjugate(from_ref(a), &sign(c, y))).sum()
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        for (c, (a, u)) in a.iter().zip(out.chunks_exact_mut(1)).enumerate() {
            self.loss.conjugate_derivative(from_ref(a), &sign(c, y), u);
        }
    }
}

/// The smoothed binary loss, whose type is not known here.
struct Boxed(Box<dyn Loss>);

impl Loss for Boxed {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn outputs(&self) -> usize {
        self.0.outputs()
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        self.0.value(u, y)
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        self.0.derivative(u, y, out);
    }

    fn curvature(&self) -> Option<f32> {
        self.0.curvature()
    }

    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        self.0.local_curvature(u, y)
    }

    fn smoothed(&self, width: f32) -> Option<Box<dyn Loss>> {
        self.0.smoothed(width)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Hinge, Logistic, SmoothedHinge};
    use super::*;

    #[test]
    fn smoothing_the_sum_is_summing_the_smoothed() {
        let smoothed = OneVersusRest { loss: Hinge, classes: 3 }.smoothed(0.5).expect("positive width");
        let expected = OneVersusRest { loss: SmoothedHinge { width: 0.5 }, classes: 3 };
        let (u, y) = ([0.7, -0.8, 2.0], [1.0]);
        let (mut found, mut wanted) = ([0.0; 3], [1.0; 3]);
        smoothed.derivative(&u, &y, &mut found);
        expected.derivative(&u, &y, &mut wanted);
        assert_eq!(found, wanted);
        assert_eq!(smoothed.value(&u, &y), expected.value(&u, &y));
        assert_eq!(smoothed.curvature(), expected.curvature());
        assert_eq!(smoothed.local_curvature(&u, &y), expected.local_curvature(&u, &y));
        assert_eq!((smoothed.outputs(), smoothed.targets()), (3, 1));
    }

    #[test]
    fn nothing_to_smooth_in_a_smooth_loss() {
        assert!(OneVersusRest { loss: Logistic, classes: 3 }.smoothed(0.5).is_none());
    }

    #[test]
    fn the_label_alone_is_positive() {
        let mut slope = [0.0; 3];
        OneVersusRest { loss: Hinge, classes: 3 }.derivative(&[0.0; 3], &[2.0], &mut slope);
        assert_eq!(slope, [1.0, 1.0, -1.0]);
    }
}
