//! Averages of iterates.

use super::Space;
use crate::error::{Error, Result};
use crate::model::Container;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How the iterates f_1, f_2, … are averaged: f̄_t = Σ_s w_s f_s / Σ_s w_s over the iterates s ≤ t that a rule keeps, by
/// f̄_t = f̄_{t−1} + ρ_t (f_t − f̄_{t−1}).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Averaging {
    /// ρ_t = (1 + c)/(t + c), c ≥ 0. c = 0 weighs all iterates alike; c > 0 weighs f_t about like t^c, so that what was
    /// learnt with few samples is forgotten (Shamir and Zhang 2013).
    Power(f64),
    /// w_t = γ_t, the size of the step that led to f_t: ρ_t = γ_t/Σ_{s≤t} γ_s (thesis Algorithm 4, where γ_t = γ/√t).
    StepSize,
    /// Alike, the last half or more, where the number of steps is not known before: at step t in [2^k, 2^{k+1}) the iterates
    /// from 2^{k−1} on (all for t < 4). These are (t + 1 − 2^{k−1})/t of them, more than ½ and at most ¾ (t + 1)/t.
    ///
    /// Two averages are kept, from 2^{k−1} and from 2^k on: the second takes the place of the first when t reaches
    /// 2^{k+1}.
    Tail,
    /// Alike, the iterates from ⌈T/2⌉ on, for a number T of steps that is known before; until then the last one.
    LastHalf(u64),
}

impl Averaging {
    /// The first iterate that the average at step t = 1, 2, … is made of.
    pub fn first(self, t: u64) -> u64 {
        match self {
            Self::Power(_) | Self::StepSize => 1,
            Self::Tail => 1 << t.max(1).ilog2().saturating_sub(1),
            Self::LastHalf(steps) => steps.div_ceil(2).clamp(1, t.max(1)),
        }
    }

    /// How many averages it keeps.
    pub(crate) fn kept(self) -> usize {
        if self == Self::Tail {
            2
        } else {
            1
        }
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
    /// Iterates taken.
    pub steps: u64,
    /// Σ γ_s, where steps are weighed by their size; else zero.
    pub step_sizes: f64,
    pub values: Vec<Vec<f64>>,
    /// The average from 2^k on of [`Averaging::Tail`].
    recent: Vec<Vec<f64>>,
}

impl RunningAverage {
    pub(crate) fn new(rule: Averaging) -> Self {
        Self { rule, steps: 0, step_sizes: 0.0, values: Vec::new(), recent: Vec::new() }
    }

    /// Takes the iterate with coefficients scale·`parts` that a step of `size` γ led to; coefficients that are new were zero
    /// before.
    pub(crate) fn take<'a, A: Copy + Into<f64> + 'a>(
        &mut self,
        size: f64,
        scale: f64,
        parts: impl ExactSizeIterator<Item = &'a [A]> + Clone,
    ) {
        self.steps += 1;
        let t = self.steps;
        if self.rule == Averaging::Tail {
            if t.is_power_of_two() {
                self.values = std::mem::take(&mut self.recent);
            }
            let half = 1 << t.max(1).ilog2();
            mix(&mut self.recent, alike(half, t), scale, parts.clone());
        }
        let share = match self.rule {
            Averaging::Power(c) => (1.0 + c) / (t as f64 + c),
            Averaging::StepSize => {
                self.step_sizes += size;
                if self.step_sizes > 0.0 {
                    size / self.step_sizes
                } else {
                    1.0
                }
            }
            rule => alike(rule.first(t), t),
        };
        mix(&mut self.values, share, scale, parts);
    }

    /// Forgets some coefficients of the first vector.
    pub(crate) fn remove(&mut self, range: Range<usize>) {
        for values in self.values.iter_mut().take(1).chain(self.recent.iter_mut().take(1)) {
            values.drain(range.start.min(values.len())..range.end.min(values.len()));
        }
    }

    /// All coefficients, one after the other: what a file holds beside rule, steps and their sizes.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        self.values.iter().chain(&self.recent).flatten().copied().collect()
    }

    /// The average with these [`RunningAverage::numbers`], of vectors of length `size`.
    pub(crate) fn from_numbers(
        (rule, steps): (Averaging, u64),
        step_sizes: f64,
        numbers: &[f64],
        size: usize,
    ) -> Self {
        let mut values: Vec<_> = numbers.chunks(size).map(<[f64]>::to_vec).collect();
        let recent = values.split_off(values.len() / rule.kept());
        Self { rule, steps, step_sizes, values, recent }
    }

    /// Adds the average to a container under `name`, with nothing where there is none.
    pub(super) fn store(of: Option<&Self>, container: &mut Container, name: &str) -> Result<()> {
        container.set_field(name, &of.map(|own| (own.rule, own.steps, own.step_sizes)))?;
        let numbers = of.map_or_else(Vec::new, Self::numbers);
        container.insert(name, vec![numbers.len()], numbers)
    }

    /// Takes it out again, of vectors of length `size`.
    pub(super) fn restore(container: &mut Container, name: &str, size: usize) -> Result<Option<Self>> {
        let rule: Option<(Averaging, u64, f64)> = container.field(name)?;
        let count = container.f64s(name)?.1.len();
        let numbers = container.take_f64s(name, &[count])?;
        let Some((rule, steps, step_sizes)) = rule else { return Ok(None) };
        if !count.is_multiple_of(size * rule.kept()) || (count == 0) != (steps == 0) {
            return Err(Error::Format("an average of iterates has another length than they have".into()));
        }
        Ok(Some(Self::from_numbers((rule, steps), step_sizes, &numbers, size)))
    }

    /// The average in single precision.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Vec<f32>> + '_ {
        self.values.iter().map(|part| part.iter().map(|&v| v as f32).collect())
    }
}

/// Whether no sizes of steps were added up: files leave them out then.
pub(super) fn is_zero(step_sizes: &f64) -> bool {
    *step_sizes == 0.0
}

/// The share of iterate t among the iterates from `first` on.
fn alike(first: u64, t: u64) -> f64 {
    1.0 / (t.saturating_sub(first) as f64 + 1.0)
}

/// mean ← mean + share·(scale·part − mean) for each of `parts`.
fn mix<'a, A: Copy + Into<f64> + 'a>(
    values: &mut Vec<Vec<f64>>,
    share: f64,
    scale: f64,
    parts: impl ExactSizeIterator<Item = &'a [A]>,
) {
    values.resize(parts.len(), Vec::new());
    for (mean, part) in values.iter_mut().zip(parts) {
        mean.resize(part.len(), 0.0);
        mean.iter_mut().zip(part).for_each(|(mean, &a)| *mean += share * (scale * a.into() - *mean));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: u64 = 70;

    fn rules() -> [Averaging; 7] {
        let powers = [0.0, 2.0].map(Averaging::Power);
        let halves = [0, STEPS, STEPS - 3].map(Averaging::LastHalf);
        [powers[0], powers[1], Averaging::StepSize, Averaging::Tail, halves[0], halves[1], halves[2]]
    }

    fn iterate(t: u64) -> [f32; 2] {
        [(t as f32 * 0.7).sin(), t as f32]
    }

    /// γ/√t.
    fn size(t: u64) -> f64 {
        0.3 / (t as f64).sqrt()
    }

    fn take(average: &mut RunningAverage, t: u64) {
        average.take(size(t), 0.5, std::iter::once(&iterate(t)[..]));
    }

    /// w_s in the average at step t, from the text of each rule: for c = 2 it is in proportion to s(s + 1).
    fn weight(rule: Averaging, s: u64, t: u64) -> f64 {
        let power_of_two = (0..).map(|k| 1_u64 << k).take_while(|p| *p <= t).last().unwrap();
        let from = |first: u64| if s >= first { 1.0 } else { 0.0 };
        match rule {
            Averaging::Power(0.0) => 1.0,
            Averaging::Power(_) => (s * (s + 1)) as f64,
            Averaging::StepSize => 1.0 / (s as f64).sqrt(),
            Averaging::Tail => from(power_of_two / 2),
            Averaging::LastHalf(STEPS) => from(t.min(35)),
            Averaging::LastHalf(0) => 1.0,
            // ⌈67/2⌉.
            Averaging::LastHalf(_) => from(t.min(34)),
        }
    }

    #[test]
    fn iterates_are_weighed_as_stated() {
        for rule in rules() {
            let mut average = RunningAverage::new(rule);
            for t in 1..=STEPS {
                take(&mut average, t);
                let total: f64 = (1..=t).map(|s| weight(rule, s, t)).sum();
                for k in 0..2 {
                    let sum: f64 = (1..=t).map(|s| weight(rule, s, t) * 0.5 * f64::from(iterate(s)[k])).sum();
                    // Some hundred roundings of numbers up to 35.
                    let error = (average.values[0][k] - sum / total).abs();
                    assert!(error < 1e-12, "{rule:?}, step {t}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_tail_is_half_of_the_iterates_or_more() {
        for t in 1..=4_096_u64 {
            let kept = t + 1 - Averaging::Tail.first(t);
            assert!(2 * kept > t && 4 * kept <= 3 * (t + 1) || t < 4 && kept == t, "{t}: {kept}");
            let kept = t + 1 - Averaging::LastHalf(t).first(t);
            assert_eq!(kept, t / 2 + 1);
        }
        assert_eq!([4, 7, 8, 15, 16].map(|t| Averaging::Tail.first(t)), [2, 2, 4, 4, 8]);
    }

    /// A coefficient that is born at step t was zero before it.
    #[test]
    fn new_coefficients_were_zero_before() {
        for rule in [Averaging::Power(0.0), Averaging::Tail] {
            let mut average = RunningAverage::new(rule);
            average.take(1.0, 1.0, [&[4.0_f32][..]].into_iter());
            average.take(1.0, 1.0, [&[4.0_f32, 1.0][..], &[3.0]].into_iter());
            assert_eq!(average.values, [vec![4.0, 0.5], vec![1.5]]);
        }
    }

    /// Coefficients that are removed are removed for good, and the others keep their place.
    #[test]
    fn removed_coefficients_take_no_part() {
        for rule in rules() {
            let (mut both, mut one) = (RunningAverage::new(rule), RunningAverage::new(rule));
            for t in 1..=STEPS {
                let all = iterate(t);
                let left = if t > 40 { &all[1..] } else { &all[..] };
                both.take(size(t), 1.0, std::iter::once(left));
                one.take(size(t), 1.0, std::iter::once(&all[1..]));
                if t == 40 {
                    both.remove(0..1);
                }
            }
            assert_eq!(both, one, "{rule:?}");
        }
    }

    /// What a file holds goes on to the same bits, at whatever step it was written.
    #[test]
    fn an_average_goes_on_from_its_numbers() {
        for rule in rules() {
            let mut average = RunningAverage::new(rule);
            for t in 1..=STEPS {
                let (of, numbers) = ((rule, average.steps), average.numbers());
                assert_eq!(numbers.len(), if t == 1 { 0 } else { 2 * rule.kept() });
                let mut copy = RunningAverage::from_numbers(of, average.step_sizes, &numbers, 2);
                assert_eq!(copy, average);
                take(&mut average, t);
                take(&mut copy, t);
                assert_eq!(copy, average, "{rule:?}, step {t}");
            }
        }
    }

    /// The names in files: the first is as old as averages are.
    #[test]
    fn names_in_files_stay() {
        let names = [
            (Averaging::Power(3.0), r#"{"power":3.0}"#),
            (Averaging::StepSize, r#""step_size""#),
            (Averaging::Tail, r#""tail""#),
            (Averaging::LastHalf(9), r#"{"last_half":9}"#),
        ];
        for (rule, name) in names {
            assert_eq!(serde_json::to_string(&rule).unwrap(), name);
            assert_eq!(serde_json::from_str::<Averaging>(name).unwrap(), rule);
        }
    }
}
