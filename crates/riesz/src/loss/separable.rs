//! Sums of losses of one output.

use super::{Conjugate, Domain, Loss, Probabilities, Unit};
use std::slice::from_ref;
use std::sync::Arc;

/// A sum over outputs: ℓ(u, y) = Σ_c ℓ_c(u_c, t_c), each ℓ_c a loss of one output and t_c its target.
///
/// The Hessian is diagonal, so curvatures are the largest of the parts'; the conjugate is the sum of conjugates.
#[derive(Clone, Debug, PartialEq)]
pub struct Separable<L> {
    parts: Vec<L>,
    reading: Reading,
}

/// What the target t_c of output c is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// y_c.
    Each,
    /// y, the same for all.
    Shared,
    /// +1 if c is the class y, else −1.
    Class,
}

/// The loss of a single target itself, one for each of several.
pub(super) fn each_target<L: Loss + Clone + 'static>(losses: Vec<L>) -> Box<dyn Loss> {
    if let [loss] = &losses[..] {
        return Box::new(loss.clone());
    }
    Box::new(Separable::each(losses))
}

/// `loss` itself for two classes, one versus rest for more.
pub(super) fn each_class<L: Loss + Clone + 'static>(loss: L, classes: usize) -> Box<dyn Loss> {
    match classes {
        2 => Box::new(loss),
        _ => Box::new(Separable::one_versus_rest(loss, classes)),
    }
}

impl<L: Clone> Separable<L> {
    /// One versus rest: the binary `loss` for each of `classes` ≥ 2 classes; the target is a class index.
    pub fn one_versus_rest(loss: L, classes: usize) -> Self {
        Self { parts: vec![loss; classes], reading: Reading::Class }
    }

    /// As many targets as losses: each output has its own.
    pub fn each(parts: Vec<L>) -> Self {
        Self { parts, reading: Reading::Each }
    }

    /// One target, seen by every loss.
    pub fn shared(parts: Vec<L>) -> Self {
        Self { parts, reading: Reading::Shared }
    }
}

impl Reading {
    #[inline]
    fn target(self, c: usize, y: &[f32]) -> f32 {
        match self {
            Self::Each => y[c],
            Self::Shared => y[0],
            Self::Class if c == y[0] as usize => 1.0,
            Self::Class => -1.0,
        }
    }
}

impl<L: Loss> Separable<L> {
    /// Starts of the parts, each from its own targets.
    fn starts(&self, targets: &[f32], part: impl Fn(&L, &[f32]) -> Vec<f32>) -> Vec<f32> {
        let t = if self.reading == Reading::Each { self.parts.len() } else { 1 };
        let start = |(c, loss): (usize, &L)| {
            let own: Vec<f32> = targets.chunks_exact(t).map(|y| self.reading.target(c, y)).collect();
            part(loss, &own)
        };
        self.parts.iter().enumerate().flat_map(start).collect()
    }

    /// The mean over the parts, exact where all are equal.
    fn mean(&self, start: &[f32], number: impl Fn(&L, &[f32]) -> f64) -> f64 {
        let each = || self.parts.iter().zip(start).map(|(part, u)| number(part, from_ref(u)));
        let first = each().next().unwrap_or(0.0);
        first + each().map(|value| value - first).sum::<f64>() / self.parts.len() as f64
    }
}

impl<L: Loss + Clone + 'static> Loss for Separable<L> {
    fn name(&self) -> &'static str {
        self.parts.first().map_or("", L::name)
    }

    fn outputs(&self) -> usize {
        self.parts.len()
    }

    fn targets(&self) -> usize {
        match self.reading {
            Reading::Each => self.parts.len(),
            Reading::Shared | Reading::Class => 1,
        }
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let term = |(c, (part, u))| L::value(part, from_ref(u), &[self.reading.target(c, y)]);
        self.parts.iter().zip(u).enumerate().map(term).sum()
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        for (c, ((part, u), d)) in self.parts.iter().zip(u).zip(out.chunks_exact_mut(1)).enumerate() {
            part.derivative(from_ref(u), &[self.reading.target(c, y)], d);
        }
    }

    fn curvature(&self) -> Option<f32> {
        self.parts.iter().map(L::curvature).try_fold(0.0, |most, bound| Some(bound?.max(most)))
    }

    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        let part = |(c, (part, u))| L::local_curvature(part, from_ref(u), &[self.reading.target(c, y)]);
        self.parts.iter().zip(u).enumerate().map(part).fold(0.0, f32::max)
    }

    /// Outputs of regression are strangers to each other: a row close to its target in one may be far in another.
    fn has_separate_curvatures(&self) -> bool {
        self.reading != Reading::Class && self.parts.len() > 1
    }

    fn output_curvatures(&self, output: usize, u: &[f32], y: &[f32], weights: &[f32], out: &mut [f32]) {
        let (c, t, part) = (self.outputs(), self.targets(), &self.parts[output]);
        for (i, h) in out.iter_mut().enumerate() {
            let target = self.reading.target(output, &y[i * t..][..t]);
            *h = weights[i] * part.local_curvature(&[u[i * c + output]], &[target]);
        }
    }

    /// The parts smoothed, those that need no smoothing as they are; `None` where none needs it.
    fn smoothed(&self, width: f32) -> Option<Box<dyn Loss>> {
        let smoothed: Vec<_> = self.parts.iter().map(|part| part.smoothed(width)).collect();
        if smoothed.iter().all(Option::is_none) {
            return None;
        }
        let part = |(part, smoothed): (&L, Option<Box<dyn Loss>>)| match smoothed {
            Some(smoothed) => Erased(Arc::from(smoothed)),
            None => Erased(Arc::new(part.clone())),
        };
        let parts = self.parts.iter().zip(smoothed).map(part).collect();
        Some(Box::new(Separable { parts, reading: self.reading }))
    }

    fn residual_share(&self) -> Option<f32> {
        self.parts.iter().map(L::residual_share).sum()
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        self.parts.iter().all(|part| part.as_conjugate().is_some()).then_some(self)
    }

    fn domain(&self) -> Domain {
        match self.reading {
            Reading::Class => Domain::Class,
            _ => self.parts.first().map_or(Domain::Nothing, L::domain),
        }
    }

    fn unit(&self, column: &[(f32, f32)]) -> Unit {
        self.parts.first().map_or(Unit::IDENTITY, |part| part.unit(column))
    }

    fn start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        self.starts(targets, |part, own| part.start(own, weights))
    }

    fn stream_start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        self.starts(targets, |part, own| part.stream_start(own, weights))
    }

    fn square_target(&self, y: f32) -> f64 {
        self.parts.first().map_or(f64::from(y), |part| part.square_target(y))
    }

    fn predict(&self, u: &mut [f32]) {
        if let Some(part) = self.parts.first() {
            part.predict(u);
        }
    }

    fn probabilities(&self) -> Option<Probabilities> {
        self.parts.first().and_then(L::probabilities)
    }

    fn levels(&self) -> Vec<f64> {
        self.parts.iter().flat_map(L::levels).collect()
    }

    fn damping(&self, start: &[f32]) -> f64 {
        self.mean(start, L::damping)
    }

    fn nominal_curvature(&self, start: &[f32], noise: f64) -> f64 {
        self.mean(start, |part, u| part.nominal_curvature(u, noise))
    }

    fn step_curvature(&self, start: &[f32], width: f32) -> f32 {
        let part = |(part, u)| L::step_curvature(part, from_ref(u), width);
        self.parts.iter().zip(start).map(part).fold(0.0, f32::max)
    }

    fn stopping_tolerance(&self) -> f64 {
        self.parts.first().map_or(0.0, L::stopping_tolerance)
    }
}

/// Where a part has no conjugate the domain of the sum of conjugates is empty; [`Loss::as_conjugate`] says so.
impl<L: Loss + Clone + 'static> Conjugate for Separable<L> {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let term = |(c, (part, a)): (usize, (&L, &f32))| {
            let value = |part: &dyn Conjugate| part.conjugate(from_ref(a), &[self.reading.target(c, y)]);
            part.as_conjugate().map_or(f64::INFINITY, value)
        };
        self.parts.iter().zip(a).enumerate().map(term).sum()
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        for (c, ((part, a), u)) in self.parts.iter().zip(a).zip(out.chunks_exact_mut(1)).enumerate() {
            if let Some(part) = part.as_conjugate() {
                part.conjugate_derivative(from_ref(a), &[self.reading.target(c, y)], u);
            }
        }
    }

    fn project(&self, a: &mut [f32], y: &[f32]) {
        for (c, (part, a)) in self.parts.iter().zip(a.chunks_exact_mut(1)).enumerate() {
            if let Some(part) = part.as_conjugate() {
                part.project(a, &[self.reading.target(c, y)]);
            }
        }
    }
}

/// A smoothed part, whose type is not known here.
#[derive(Clone)]
struct Erased(Arc<dyn Loss>);

impl Loss for Erased {
    fn name(&self) -> &'static str {
        self.0.name()
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

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        self.0.as_conjugate()
    }

    fn domain(&self) -> Domain {
        self.0.domain()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Hinge, Huber, Logistic, Quantile, Smoothed, SmoothedQuantile};
    use super::*;

    #[test]
    fn smoothing_the_sum_is_summing_the_smoothed() {
        let smoothed = Separable::one_versus_rest(Hinge, 3).smoothed(0.5).expect("positive width");
        let expected = Separable::one_versus_rest(Smoothed { loss: Hinge, width: 0.5 }, 3);
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
        assert!(Separable::one_versus_rest(Logistic, 3).smoothed(0.5).is_none());
    }

    /// A part that needs no smoothing at this width is taken as it is, beside one that does.
    #[test]
    fn parts_are_smoothed_each_as_it_needs() {
        let loss = Separable::each(vec![Huber::new(2.0), Huber::new(0.25)]);
        assert!(loss.smoothed(0.1).is_none());
        let smoothed = loss.smoothed(0.5).expect("the second part needs it");
        assert_eq!((smoothed.curvature(), smoothed.targets()), (Some(1.0), 2));
        let (mut slope, y) = ([0.0; 2], [0.0, 0.0]);
        smoothed.derivative(&[0.5, 0.25], &y, &mut slope);
        assert_eq!(slope, [0.5, 0.125]);
    }

    #[test]
    fn the_label_alone_is_positive() {
        let mut slope = [0.0; 3];
        Separable::one_versus_rest(Hinge, 3).derivative(&[0.0; 3], &[2.0], &mut slope);
        assert_eq!(slope, [1.0, 1.0, -1.0]);
    }

    /// The curvature of a row is the largest of its outputs'.
    #[test]
    fn separate_curvatures_are_those_of_the_parts() {
        let loss =
            Separable::shared([0.25, 0.5].map(|level| SmoothedQuantile { level, width: 0.5 }).to_vec());
        assert!(loss.has_separate_curvatures());
        assert!(!Separable::one_versus_rest(Hinge, 3).has_separate_curvatures());
        let (u, y, weights) = ([1.0, 3.0, 2.0, 0.5], [2.0, 1.0], [1.0, 2.0]);
        let mut found = [[0.0; 2]; 3];
        (0..2).for_each(|output| loss.output_curvatures(output, &u, &y, &weights, &mut found[output]));
        loss.curvatures(&u, &y, &weights, &mut found[2]);
        assert_eq!(found[..2], [[0.5, 1.0], [0.5, 2.0]]);
        assert_eq!(found[2], [0.5, 2.0]);
    }

    #[test]
    fn every_level_sees_the_same_target() {
        let loss = Separable::shared([0.25, 0.5].map(|level| Quantile { level }).to_vec());
        let mut slope = [0.0; 2];
        loss.derivative(&[1.0, 3.0], &[2.0], &mut slope);
        assert_eq!((slope, loss.targets(), loss.outputs()), ([-0.25, 0.5], 1, 2));
    }
}
