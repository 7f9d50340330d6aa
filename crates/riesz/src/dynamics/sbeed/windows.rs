//! δ over windows of steps, and its adjoint.

use crate::error::{in_range, positive, Result};
use serde::{Deserialize, Serialize};

/// What comes after a step.
///
/// A task that ends and an observer who stops looking are two things: nothing is earned after the one, and V of the state
/// that follows stands for what is earned after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// The next step of the same episode.
    Step,
    /// Nothing: the state that follows is terminal, and its V is zero.
    End,
    /// Steps that were not seen: a time limit, or the last step there is.
    Unseen,
}

/// How δ looks ahead: windows of K steps, and within them traces of weight ζ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Horizon {
    /// γ in [0, 1).
    pub discount: f64,
    /// K.
    pub steps: usize,
    /// ζ in [0, 1]; at one δ is the K-step form (thesis D.3).
    pub trace: f64,
}

impl Horizon {
    /// Refuses a window of no step, and a discount or trace outside its interval.
    pub fn check(self) -> Result<Self> {
        in_range("discount", self.discount, (0.0..1.0).contains(&self.discount), "[0, 1)")?;
        positive("steps", self.steps as f64)?;
        in_range("trace", self.trace, (0.0..=1.0).contains(&self.trace), "[0, 1]")?;
        Ok(self)
    }

    /// Σ_{j<K} (ζγ)^j, the steps that a window counts for.
    pub fn reach(self) -> f64 {
        let decay = self.trace * self.discount;
        (1.0 - decay.powf(self.steps as f64)) / (1.0 - decay)
    }
}

/// The windows of some episodes, whose steps stand one after the other.
///
/// With the gain c_t = R_t − λ log π(a_t|s_t) of a step and V_{t+1} = V(s_{t+1}) of the state it leads to, zero where that is
/// terminal,
///
/// ```text
/// δ_t = Σ_{j<K} (ζγ)^j [ c_{t+j} + γ(1 − ζ) V_{t+j+1} ] + (ζγ)^K V_{t+K}
/// ```
///
/// which is δ^ζ_t = c_t + γ[(1 − ζ) V_{t+1} + ζ δ^ζ_{t+1}] (thesis D.5), cut off after K steps, and the K-step form
/// Σ_{j<K} γ^j c_{t+j} + γ^K V_{t+K} (D.3) at ζ = 1. A window that meets the end of its episode ends there, on V of the state
/// that follows. Both directions take O(N) for any K.
#[derive(Clone, Debug)]
pub struct Windows {
    horizon: Horizon,
    after: Vec<After>,
    /// Steps from each to the end of its episode, itself included.
    left: Vec<usize>,
}

impl Windows {
    /// Windows over steps, of which `after` says what follows.
    pub fn new(horizon: Horizon, after: Vec<After>) -> Result<Self> {
        let mut left = vec![1; after.len()];
        for t in (0..after.len().saturating_sub(1)).rev() {
            if after[t] == After::Step {
                left[t] += left[t + 1];
            }
        }
        Ok(Self { horizon: horizon.check()?, after, left })
    }

    /// Number N of steps.
    pub fn len(&self) -> usize {
        self.after.len()
    }

    /// Whether there is no step.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// What follows each step.
    pub fn after(&self) -> &[After] {
        &self.after
    }

    /// Whether the step after t is one of these, and of the same episode.
    fn goes_on(&self, t: usize) -> bool {
        self.left[t] > 1
    }

    /// Whether the window of t ends within its episode.
    fn is_full(&self, t: usize) -> bool {
        self.left[t] > self.horizon.steps
    }

    /// ζγ and (ζγ)^K.
    fn decays(&self) -> (f64, f64) {
        let decay = self.horizon.trace * self.horizon.discount;
        (decay, decay.powf(self.horizon.steps as f64))
    }

    /// The factor of V_{t+1} in the term of step t.
    fn share(&self, t: usize) -> f64 {
        self.horizon.discount * if self.goes_on(t) { 1.0 - self.horizon.trace } else { 1.0 }
    }

    /// δ from the gains c_t and the values V_{t+1} of the states that follow.
    ///
    /// With G_t = c_t + γ(1 − ζ) V_{t+1} + ζγ G_{t+1}, which goes on to the end of the episode,
    /// δ_t = G_t + (ζγ)^K (V_{t+K} − G_{t+K}).
    pub fn delta(&self, gains: &[f64], next: &[f64]) -> Vec<f64> {
        let (n, k) = (self.len(), self.horizon.steps);
        let (decay, last) = self.decays();
        let mut sums = vec![0.0; n];
        for t in (0..n).rev() {
            let rest = if self.goes_on(t) { decay * sums[t + 1] } else { 0.0 };
            sums[t] = gains[t] + self.share(t) * next[t] + rest;
        }
        let cut = |t: usize| if self.is_full(t) { last * (next[t + k - 1] - sums[t + k]) } else { 0.0 };
        (0..n).map(|t| sums[t] + cut(t)).collect()
    }

    /// What weights g_t of δ_t are for the gains and for the values that follow: Σ_t g_t δ_t = ⟨first, c⟩ + ⟨second, V⟩.
    ///
    /// The gain of step j has C_j = Σ_{t ≤ j < t+K} (ζγ)^{j−t} g_t, by C_j = g_j + ζγ C_{j−1} − (ζγ)^K g_{j−K}.
    pub fn adjoint(&self, weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (n, k) = (self.len(), self.horizon.steps);
        let (decay, last) = self.decays();
        let begun = |j: usize, steps: usize| j.checked_sub(steps).filter(|&t| self.is_full(t));
        let mut gains = vec![0.0; n];
        for j in 0..n {
            let before = j.checked_sub(1).filter(|&t| self.goes_on(t)).map_or(0.0, |t| decay * gains[t]);
            gains[j] = weights[j] + before - begun(j, k).map_or(0.0, |t| last * weights[t]);
        }
        let next = |j: usize| self.share(j) * gains[j] + begun(j, k - 1).map_or(0.0, |t| last * weights[t]);
        let next = (0..n).map(|j| if self.after[j] == After::End { 0.0 } else { next(j) }).collect();
        (gains, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: [(usize, f64); 7] = [(1, 1.0), (1, 0.3), (2, 1.0), (3, 0.7), (5, 0.0), (4, 1.0), (100, 0.9)];

    fn after() -> Vec<After> {
        let ends =
            [(4, After::End), (5, After::Unseen), (11, After::Unseen), (19, After::End), (29, After::Unseen)];
        let kind = |t: usize| ends.iter().find(|(end, _)| *end == t).map_or(After::Step, |(_, kind)| *kind);
        (0..30).map(kind).collect()
    }

    fn wave(seed: f64) -> Vec<f64> {
        (0..30).map(|t| (seed + 1.7 * f64::from(t)).sin()).collect()
    }

    fn windows(steps: usize, trace: f64) -> Windows {
        Windows::new(Horizon { discount: 0.9, steps, trace }, after()).unwrap()
    }

    /// The definition, step by step: (1 − ζ) V + ζ δ of one step less, and V alone where a window ends.
    fn by_definition(w: &Windows, t: usize, steps: usize, gains: &[f64], next: &[f64]) -> f64 {
        let zeta = w.horizon.trace;
        let ahead = match (w.after[t], steps) {
            (After::End, _) => 0.0,
            (After::Unseen, _) | (After::Step, 1) => next[t],
            (After::Step, _) => {
                (1.0 - zeta) * next[t] + zeta * by_definition(w, t + 1, steps - 1, gains, next)
            }
        };
        gains[t] + 0.9 * ahead
    }

    #[test]
    fn delta_is_its_definition() {
        for (steps, trace) in CASES {
            let w = windows(steps, trace);
            let (gains, mut next) = (wave(0.3), wave(2.0));
            (0..30).filter(|&t| w.after[t] == After::End).for_each(|t| next[t] = 0.0);
            for (t, delta) in w.delta(&gains, &next).into_iter().enumerate() {
                let expected = by_definition(&w, t, steps, &gains, &next);
                assert!(
                    (delta - expected).abs() < 1e-12,
                    "K = {steps}, ζ = {trace}, step {t}: {delta} {expected}"
                );
            }
        }
    }

    /// ⟨g, δ⟩ = ⟨C, c⟩ + ⟨N, V⟩, to rounding.
    #[test]
    fn delta_and_adjoint_belong_together() {
        for (steps, trace) in CASES {
            let w = windows(steps, trace);
            let (gains, mut next, g) = (wave(0.3), wave(2.0), wave(5.0));
            (0..30).filter(|&t| w.after[t] == After::End).for_each(|t| next[t] = 0.0);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let (of_gains, of_next) = w.adjoint(&g);
            let (left, right) =
                (dot(&g, &w.delta(&gains, &next)), dot(&of_gains, &gains) + dot(&of_next, &next));
            assert!((left - right).abs() < 1e-12, "K = {steps}, ζ = {trace}: {left} {right}");
        }
    }

    #[test]
    fn windows_without_a_step_and_traces_beyond_one_are_refused() {
        let cases = [
            (0.9, 0, 1.0, "steps"),
            (0.9, 3, 1.5, "trace"),
            (0.9, 3, f64::NAN, "trace"),
            (1.0, 3, 1.0, "discount"),
        ];
        for (discount, steps, trace, name) in cases {
            let error = Horizon { discount, steps, trace }.check().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
