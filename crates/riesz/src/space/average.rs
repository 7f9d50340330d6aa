//! Averages of iterates.

use super::Space;
use serde::{Deserialize, Serialize};

/// How the iterates f_1, f_2, … are averaged: f̄_t = f̄_{t−1} + ρ_t (f_t − f̄_{t−1}) with ρ_t = (1 + c)/(t + c).
///
/// c = 0 weighs all iterates alike; c > 0 weighs f_t about like t^c, so that what was learnt with few samples is
/// forgotten (Shamir and Zhang 2013).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Averaging {
    /// c ≥ 0.
    pub power: f64,
}

impl Averaging {
    /// ρ_t for t = 1, 2, …
    pub fn share(self, t: u64) -> f64 {
        (1.0 + self.power) / (t as f64 + self.power)
    }
}

/// A space that keeps the average of its iterates beside the last one.
pub trait Averaged: Space + Sized {
    /// Begins to average from the next step on.
    fn averaging(self, rule: Averaging) -> Self;

    /// The average so far as a function of its own; f itself where none is kept or no step was taken.
    fn average(&self) -> Self;
}

/// A running average of vectors of coefficients that may grow in number and length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunningAverage {
    pub rule: Averaging,
    /// Iterates averaged.
    pub steps: u64,
    pub values: Vec<Vec<f64>>,
}

impl RunningAverage {
    pub(crate) fn new(rule: Averaging) -> Self {
        Self { rule, steps: 0, values: Vec::new() }
    }

    /// Takes the iterate with coefficients scale·`parts`; coefficients that are new were zero before.
    pub(crate) fn take<'a>(&mut self, scale: f64, parts: impl ExactSizeIterator<Item = &'a [f32]>) {
        self.steps += 1;
        let share = self.rule.share(self.steps);
        self.values.resize(parts.len(), Vec::new());
        for (mean, part) in self.values.iter_mut().zip(parts) {
            mean.resize(part.len(), 0.0);
            mean.iter_mut().zip(part).for_each(|(mean, &a)| *mean += share * (scale * f64::from(a) - *mean));
        }
    }

    /// The average in single precision.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Vec<f32>> + '_ {
        self.values.iter().map(|part| part.iter().map(|&v| v as f32).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weights of the iterates: equal for c = 0; for c = 2 that of f_t is in proportion to t(t + 1).
    #[test]
    fn iterates_are_weighed_as_stated() {
        for (power, weight) in [(0.0, (|_| 1.0) as fn(f64) -> f64), (2.0, |t| t * (t + 1.0))] {
            let mut average = RunningAverage::new(Averaging { power });
            let iterate = |t: f64| [(t * 0.7).sin() as f32, t as f32];
            (1..=40).for_each(|t| average.take(0.5, std::iter::once(&iterate(f64::from(t))[..])));
            let total: f64 = (1..=40).map(|t| weight(f64::from(t))).sum();
            for k in 0..2 {
                let expected: f64 = (1..=40)
                    .map(|t| weight(f64::from(t)) * 0.5 * f64::from(iterate(f64::from(t))[k]))
                    .sum::<f64>()
                    / total;
                assert!((average.values[0][k] - expected).abs() < 1e-12 * total, "{power} {k}");
            }
        }
    }

    /// A coefficient that is born at step t was zero before it.
    #[test]
    fn new_coefficients_were_zero_before() {
        let mut average = RunningAverage::new(Averaging { power: 0.0 });
        average.take(1.0, [&[4.0_f32][..]].into_iter());
        average.take(1.0, [&[4.0_f32, 1.0][..], &[3.0]].into_iter());
        assert_eq!(average.values, [vec![4.0, 0.5], vec![1.5]]);
    }
}
