//! The objective of SBEED and its derivatives.

use super::Windows;
use crate::error::{in_range, non_negative, Result};
use serde::{Deserialize, Serialize};

/// λ and η.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Smoothing {
    /// λ, the weight of the entropy.
    pub temperature: f64,
    /// η in [0, 1], the share of the variance of δ that the dual function takes away: one is the exact dual embedding, zero
    /// path consistency learning, which is biased where transitions are random.
    pub dual_weight: f64,
}

impl Smoothing {
    /// Refuses a negative temperature and a weight outside [0, 1].
    pub fn check(self) -> Result<Self> {
        non_negative("temperature", self.temperature)?;
        in_range("dual_weight", self.dual_weight, (0.0..=1.0).contains(&self.dual_weight), "[0, 1]")?;
        Ok(self)
    }

    /// R − λ log π(a|s) of each step.
    pub fn gains(self, rewards: &[f64], log_probabilities: &[f64]) -> Vec<f64> {
        rewards.iter().zip(log_probabilities).map(|(r, log)| r - self.temperature * log).collect()
    }

    /// (1 − η)δ + ηρ(s, a) − V(s), by which a policy is improved.
    pub fn advantages(self, sample: &Sample<'_>) -> Vec<f64> {
        let eta = self.dual_weight;
        sample.rows().map(|(delta, v, rho)| (1.0 - eta) * delta + eta * rho - v).collect()
    }

    /// L = E[(δ − V(s))²] − ηE[(δ − ρ(s, a))²] (thesis 6.10), over the steps of a sample.
    pub fn value(self, sample: &Sample<'_>) -> f64 {
        let one =
            |(delta, v, rho): (f64, f64, f64)| (delta - v).powi(2) - self.dual_weight * (delta - rho).powi(2);
        sample.rows().map(one).sum::<f64>() / sample.delta.len().max(1) as f64
    }

    /// The derivatives of L (thesis Theorem 27 and D.3, D.5), each by what it is the derivative of:
    ///
    /// ```text
    /// ∇_V L = 2E[ (δ − V)(∂δ/∂V − ∇V(s)) ] − 2ηE[ (δ − ρ) ∂δ/∂V ]
    /// ∇_π L = −2λE[ ((1 − η)δ + ηρ − V) Σ_{t<K} (ζγ)^t ∇log π(a_t|s_t) ]
    /// ∇_ρ L = 2ηE[ δ − ρ ]
    /// ```
    pub fn gradients(self, windows: &Windows, sample: &Sample<'_>) -> Gradients {
        let factor = 2.0 / sample.delta.len().max(1) as f64;
        let by_delta: Vec<f64> = self.advantages(sample).iter().map(|a| factor * a).collect();
        let (gains, next) = windows.adjoint(&by_delta);
        Gradients {
            values: sample.rows().map(|(delta, v, _)| -factor * (delta - v)).collect(),
            next,
            log_probabilities: gains.iter().map(|gain| -self.temperature * gain).collect(),
            dual: sample.rows().map(|(delta, _, rho)| factor * self.dual_weight * (delta - rho)).collect(),
        }
    }
}

/// δ, V(s) and ρ(s, a) of the same steps.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// δ.
    pub delta: &'a [f64],
    /// V(s).
    pub values: &'a [f64],
    /// ρ(s, a).
    pub dual: &'a [f64],
}

impl Sample<'_> {
    fn rows(&self) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        self.delta.iter().zip(self.values).zip(self.dual).map(|((delta, v), rho)| (*delta, *v, *rho))
    }
}

/// Derivatives of L, one number for each step.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// By V(s).
    pub values: Vec<f64>,
    /// By V of the state that follows.
    pub next: Vec<f64>,
    /// By log π(a|s).
    pub log_probabilities: Vec<f64>,
    /// By ρ(s, a).
    pub dual: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::super::{After, Head, Horizon};
    use super::*;

    const N: usize = 24;
    const STATES: usize = 4;
    const ACTIONS: usize = 3;

    /// Steps of two episodes among four states, a linear V and linear logits on three features, ρ linear in five.
    struct Toy {
        windows: Windows,
        states: Vec<usize>,
        actions: Vec<f64>,
        rewards: Vec<f64>,
    }

    fn feature(s: usize, j: usize) -> f64 {
        (1.0 + s as f64 * 1.3 + j as f64 * 0.7).sin()
    }

    impl Toy {
        fn new(horizon: Horizon) -> Self {
            let ends = |t: usize| match t {
                9 => After::End,
                _ if t + 1 == N => After::Unseen,
                _ => After::Step,
            };
            let wave = |f: f64| (0..N).map(move |t| ((t as f64 * f).sin() * 10.0).abs());
            Self {
                windows: Windows::new(horizon, (0..N).map(ends).collect()).unwrap(),
                states: wave(2.3).map(|v| v as usize % STATES).collect(),
                actions: wave(4.1).map(|v| f64::from(v as u8 % ACTIONS as u8)).collect(),
                rewards: wave(1.1).map(|v| v / 5.0 - 1.0).collect(),
            }
        }

        fn v(&self, w: &[f64], s: usize) -> f64 {
            (0..3).map(|j| w[j] * feature(s, j)).sum()
        }

        fn follower(&self, t: usize) -> usize {
            self.states.get(t + 1).copied().unwrap_or(1)
        }

        fn logits(&self, theta: &[f64]) -> Vec<f64> {
            let logit = |s: usize, a: usize| (0..3).map(|j| theta[3 * a + j] * feature(s, j)).sum();
            self.states.iter().flat_map(|&s| (0..ACTIONS).map(move |a| logit(s, a))).collect()
        }

        fn dual(&self, u: &[f64]) -> Vec<f64> {
            let one = |(&s, &a): (&usize, &f64)| (0..5).map(|j| u[j] * feature(s + 2 * a as usize, j)).sum();
            self.states.iter().zip(&self.actions).map(one).collect()
        }

        /// L and its derivatives by w, θ and u.
        fn objective(&self, smoothing: Smoothing, x: &[f64]) -> (f64, Vec<f64>) {
            let (w, rest) = x.split_at(3);
            let (theta, u) = rest.split_at(3 * ACTIONS);
            let (logits, dual) = (self.logits(theta), self.dual(u));
            let log = Head::Softmax.log_probabilities(ACTIONS, &logits, &self.actions);
            let ended = |t: usize| self.windows.after()[t] == After::End;
            let next: Vec<f64> =
                (0..N).map(|t| if ended(t) { 0.0 } else { self.v(w, self.follower(t)) }).collect();
            let values: Vec<f64> = self.states.iter().map(|&s| self.v(w, s)).collect();
            let delta = self.windows.delta(&smoothing.gains(&self.rewards, &log), &next);
            let sample = Sample { delta: &delta, values: &values, dual: &dual };
            let g = smoothing.gradients(&self.windows, &sample);
            let (scores, _) = Head::Softmax.scores(ACTIONS, &logits, &self.actions, &g.log_probabilities);
            let mut gradient = vec![0.0; x.len()];
            for t in 0..N {
                let s = self.states[t];
                for j in 0..3 {
                    gradient[j] += g.values[t] * feature(s, j) + g.next[t] * feature(self.follower(t), j);
                    for a in 0..ACTIONS {
                        gradient[3 + 3 * a + j] += scores[t * ACTIONS + a] * feature(s, j);
                    }
                }
                for j in 0..5 {
                    gradient[3 + 3 * ACTIONS + j] += g.dual[t] * feature(s + 2 * self.actions[t] as usize, j);
                }
            }
            (smoothing.value(&sample), gradient)
        }
    }

    /// Theorem 27, K steps and traces, against central differences in double precision: within 10⁻⁸.
    #[test]
    fn gradients_are_derivatives() {
        let h = 1e-5;
        for (steps, trace) in [(1, 1.0), (3, 1.0), (4, 0.6), (50, 0.9)] {
            for dual_weight in [0.0, 0.3, 1.0] {
                let toy = Toy::new(Horizon { discount: 0.9, steps, trace });
                let smoothing = Smoothing { temperature: 0.2, dual_weight };
                let x: Vec<f64> = (0..3 + 3 * ACTIONS + 5).map(|i| (i as f64 * 0.9).cos()).collect();
                let (_, gradient) = toy.objective(smoothing, &x);
                for i in 0..x.len() {
                    let shifted = |by: f64| {
                        let mut x = x.clone();
                        x[i] += by;
                        toy.objective(smoothing, &x).0
                    };
                    let expected = (shifted(h) - shifted(-h)) / (2.0 * h);
                    assert!((gradient[i] - expected).abs() < 1e-8, "K = {steps}, η = {dual_weight}, {i}");
                }
            }
        }
    }
}
