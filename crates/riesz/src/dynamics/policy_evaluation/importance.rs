//! Estimates from whole episodes: importance sampling and its doubly robust form.

use super::log::Log;
use super::options::Method;
use crate::error::{Error, Result};
use std::ops::Range;

/// What one step of an episode adds, before any average over episodes.
struct Step {
    /// γ^t.
    discount: f64,
    /// ρ_0 ⋯ ρ_t, and the product before t.
    product: f64,
    before: f64,
    reward: f64,
}

/// The estimate of an episode, or of several that are weighed.
pub(super) struct Episodes {
    method: Method,
    steps: Vec<Vec<Step>>,
    /// Values that a doubly robust estimate corrects: at each transition Q(s, a) or V(s), and V(s'), zero after the end.
    values: Option<Vec<Vec<[f64; 2]>>>,
    /// Whether the first of these values is that of the action.
    of_actions: bool,
}

impl Episodes {
    /// The steps of a log. Without ratios it is one of the policy itself: they are one.
    pub(super) fn new(
        method: Method,
        log: &Log<'_>,
        discount: f64,
        episodes: &[Range<usize>],
        values: Option<(&[[f64; 2]], bool)>,
    ) -> Result<Self> {
        let mut steps = Vec::with_capacity(episodes.len());
        for (e, episode) in episodes.iter().enumerate() {
            let (mut product, mut power, mut own) = (1.0, 1.0, Vec::with_capacity(episode.len()));
            for i in episode.clone() {
                let before = product;
                product *= log.ratios.map_or(1.0, |ratios| f64::from(ratios[i]));
                if !product.is_finite() {
                    return Err(Error::Conflict(format!(
                        "the weights of episode {e} multiply to infinity; use a method that learns a function, such as dual_embedding"
                    )));
                }
                own.push(Step { discount: power, product, before, reward: f64::from(log.rewards[i]) });
                power *= discount;
            }
            steps.push(own);
        }
        let of_actions = values.is_some_and(|(_, of_actions)| of_actions);
        let values = values
            .map(|(values, _)| episodes.iter().map(|episode| values[episode.clone()].to_vec()).collect());
        Ok(Self { method, steps, values, of_actions })
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The estimate where episode e counts `counts[e]` times.
    pub(super) fn estimate(&self, counts: &[u32], discount: f64) -> f64 {
        let total: f64 = counts.iter().map(|&count| f64::from(count)).sum();
        let counted = || self.steps.iter().zip(counts).filter(|(_, &count)| count > 0);
        match self.method {
            Method::WeightedPerDecision => {
                let longest = self.steps.iter().map(Vec::len).max().unwrap_or(0);
                let (mut sums, mut masses) = (vec![0.0; longest], vec![0.0; longest]);
                for (steps, &count) in counted() {
                    let mut last = 1.0;
                    for t in 0..longest {
                        // An episode that is over earns nothing, with the ratio it ended with.
                        if let Some(step) = steps.get(t) {
                            sums[t] += f64::from(count) * step.discount * step.product * step.reward;
                            last = step.product;
                        }
                        masses[t] += f64::from(count) * last;
                    }
                }
                sums.iter().zip(&masses).map(|(sum, mass)| if *mass > 0.0 { sum / mass } else { 0.0 }).sum()
            }
            Method::ImportanceSampling => {
                let one = |steps: &[Step]| {
                    let gain: f64 = steps.iter().map(|step| step.discount * step.reward).sum();
                    steps.last().map_or(0.0, |last| last.product * gain)
                };
                counted().map(|(steps, &count)| f64::from(count) * one(steps)).sum::<f64>() / total
            }
            _ => {
                let all = self.steps.iter().enumerate().zip(counts).filter(|(_, &count)| count > 0);
                all.map(|((e, _), &count)| f64::from(count) * self.one(e, discount)).sum::<f64>() / total
            }
        }
    }

    /// Per decision: Σ_t γ^t ρ_{0:t} r_t. Doubly robust: V(s_0) + Σ_t γ^t ρ_{0:t} (r_t + γV(s_{t+1}) − Q(s_t, a_t)), or, where V alone is
    /// known, V(s_0) + Σ_t γ^t ( ρ_{0:t} (r_t + γV(s_{t+1})) − ρ_{0:t−1} V(s_t) ). What the policy does at s_0 is not logged:
    /// ρ_0 Q(s_0, a_0), whose mean it is, stands for V(s_0) in the first.
    fn one(&self, e: usize, discount: f64) -> f64 {
        let steps = &self.steps[e];
        let Some(values) = self.values.as_ref().map(|values| &values[e]) else {
            return steps.iter().map(|step| step.discount * step.product * step.reward).sum();
        };
        let weight = |step: &Step| if self.of_actions { step.product } else { step.before };
        let correction = |(step, [own, next]): (&Step, &[f64; 2])| {
            step.discount * (step.product * (step.reward + discount * next) - weight(step) * own)
        };
        let first = steps.first().zip(values.first()).map_or(0.0, |(step, [own, _])| weight(step) * own);
        first + steps.iter().zip(values).map(correction).sum::<f64>()
    }
}
