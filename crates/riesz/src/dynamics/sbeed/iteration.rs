//! One iteration: V, ρ, and a step of the policy.

use super::approximator::{Approximator, Inputs, Regression};
use super::metric::Metric;
use super::saddle::Saddle;
use super::{After, Critic, Options, Policy, PolicyStep, Sample, Score, Target, Windows};
use crate::driver::{Again, Batches};
use crate::error::{Error, Result};
use crate::solver::{Solver, StepInfo};

/// What is learnt.
#[derive(Clone, Debug)]
pub struct Learned {
    /// π.
    pub policy: Policy,
    /// V.
    pub value: Approximator,
    /// ξ = ρ − V: how much more an action brings than the state alone says.
    pub dual: Approximator,
    /// What each damping that is tried would have gained so far; none where one is given.
    pub gains: Vec<f64>,
}

/// Steps that are looked at again and again, with the features of their states.
pub(super) struct Experience {
    pub(super) windows: Windows,
    pub(super) rewards: Vec<f64>,
    pub(super) actions: Vec<f64>,
    /// log β(a|s), NaN where it is not known.
    pub(super) log_behaviour: Vec<f64>,
    /// The states s.
    pub(super) states: Inputs,
    /// E[φφᵀ] + νI of the features of the policy, factorised.
    pub(super) metric: Option<Metric>,
    /// Where the states that follow stand among those V takes.
    pub(super) followers: Vec<Option<usize>>,
    /// The states s as V takes them, and after them those that follow unseen ends.
    pub(super) value_states: Inputs,
    pub(super) value_fit: ValueFit,
    /// States and actions, as ρ takes them; `None` where η is zero.
    pub(super) pairs: Option<(Inputs, Option<Regression>)>,
}

/// What V is fitted with, as far as it does not change from iteration to iteration.
pub(super) enum ValueFit {
    /// A regression on δ.
    Regression(Regression),
    /// The saddle point.
    Saddle(Box<Saddle>),
    /// Nothing: steps of an optimiser.
    Steps,
}

impl Experience {
    /// V of the states that follow, from V of the states there are.
    fn next(&self, values: &[f64]) -> Vec<f64> {
        self.followers.iter().map(|place| place.map_or(0.0, |place| values[place])).collect()
    }
}

/// Where the state that follows each step stands among the states of all steps and, after them, those that follow unseen
/// ends; nowhere after the end of a task.
pub(super) fn followers(after: &[After]) -> Vec<Option<usize>> {
    let (mut beyond, n) = (after.len(), after.len());
    let one = |(t, after): (usize, &After)| match after {
        After::End => None,
        After::Step => Some((t + 1).min(n - 1)),
        After::Unseen => {
            beyond += 1;
            Some(beyond - 1)
        }
    };
    after.iter().enumerate().map(one).collect()
}

/// Facts about an iteration.
#[derive(Clone, Copy, Debug)]
pub struct Progressed {
    /// L before the policy moved.
    pub objective: f64,
    /// E[(δ − V)²]/Var δ.
    pub unexplained: f64,
    /// KL(π‖π') of the step.
    pub divergence: f64,
    /// Size of the step, in natural gradients; zero where none was found that helps.
    pub size: f64,
    /// −E log π of the actions that were taken.
    pub entropy: f64,
}

impl StepInfo for Progressed {
    fn loss(&self) -> f64 {
        self.objective
    }
}

/// An iteration of SBEED (thesis Algorithm 5): V and ρ are fitted to δ, then the policy takes a step of natural gradient.
///
/// ```text
/// V ← argmin E[(δ − V(s))²] + ν‖V‖²    with V(s') in δ as it was, several times;   or Adam's steps along −∇_V L;   or the
///                                      V of the saddle point
/// ξ ← argmin E[(δ − V(s) − ξ(s, a))²] + ν‖ξ‖²,   ρ = V + ξ
/// A = (1 − η)δ + ηρ − V, centred;   w_j = min(π/β, r) A_j,   or   min(π/β, r) Σ_{t ≤ j < t+K} (ζγ)^{j−t} A_t
/// θ ← θ + h F⁻¹ E[ w ∇log π(a|s) ],   h = min(√(2ε/q), 1/(λ Σ_{j<K} (ζγ)^j)), halved until KL ≤ 1.5ε and L does not rise
/// ```
pub(super) struct Iteration<'a> {
    pub(super) options: &'a Options,
    /// How much of the learning is behind, in [0, 1].
    pub(super) behind: f64,
}

/// Added to the Fisher information of a policy that has no closed form, unless another number is given.
const DAMPING: f64 = 1e-3;
/// Most halvings of a step.
const HALVINGS: usize = 12;
/// How far KL may exceed its bound.
const BEYOND: f64 = 1.5;

impl Solver for Iteration<'_> {
    type Batch<'b> = &'b Experience;
    type State = Learned;
    type Info = Progressed;

    fn step(&self, state: &mut Learned, seen: &Experience) -> Result<Progressed> {
        let smoothing = self.options.smoothing;
        state.policy.head = state.policy.head.bounded(self.options.bounds(self.behind));
        let outputs = state.policy.evaluate(&seen.states)?;
        let log = state.policy.log_probabilities(&outputs, &seen.actions);
        let gains = smoothing.gains(&seen.rewards, &log);
        let all = self.fit_value(state, seen, &gains)?;
        let (values, next) = (&all[..seen.windows.len()], seen.next(&all));
        let delta = seen.windows.delta(&gains, &next);
        let dual = self.fit_dual(state, seen, &delta, values)?;
        let sample = Sample { delta: &delta, values, dual: &dual };
        let objective = smoothing.value(&sample);
        if !objective.is_finite() {
            let lower = "the size of its steps (divergence, learning_rate) or the scale of the rewards";
            return Err(Error::Diverged { step: 0, objective, lower });
        }
        let weights = self.weights(seen, &log, &sample);
        let (divergence, size) = self.move_policy(state, seen, (&outputs, &weights), &next, &sample)?;
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / delta.len() as f64;
        let centre = mean(&mut delta.iter().copied());
        let variance = mean(&mut delta.iter().map(|d| (d - centre).powi(2)));
        let left = mean(&mut delta.iter().zip(values).map(|(d, v)| (d - v).powi(2)));
        let entropy = -mean(&mut log.iter().copied());
        Ok(Progressed {
            objective,
            unexplained: left / variance.max(f64::MIN_POSITIVE),
            divergence,
            size,
            entropy,
        })
    }
}

impl Iteration<'_> {
    /// Fits V; gives V of all its states.
    fn fit_value(&self, state: &mut Learned, seen: &Experience, gains: &[f64]) -> Result<Vec<f64>> {
        let (critic, inputs) = (&self.options.value, &seen.value_states);
        if let ValueFit::Saddle(saddle) = &seen.value_fit {
            state.value.replace(saddle.solve(&seen.windows, gains))?;
            return state.value.values(inputs);
        }
        let regression = match &seen.value_fit {
            ValueFit::Regression(regression) => Some(regression),
            _ => None,
        };
        let mut all = state.value.values(inputs)?;
        for _ in 0..critic.sweeps {
            match self.options.target {
                Target::Moving => self.descend(state, seen, gains)?,
                Target::Frozen | Target::Saddle => {
                    let delta = seen.windows.delta(gains, &seen.next(&all));
                    regress(&mut state.value, critic, inputs, regression, &delta)?;
                }
            }
            all = state.value.values(inputs)?;
        }
        Ok(all)
    }

    /// Steps of V along −∇_V L, with ρ as it is.
    fn descend(&self, state: &mut Learned, seen: &Experience, gains: &[f64]) -> Result<()> {
        let (steps, size) = self.options.value.descent;
        let n = seen.windows.len();
        let extra = match &seen.pairs {
            Some((pairs, _)) => state.dual.values(pairs)?,
            None => vec![0.0; n],
        };
        let first = state.value.values(&seen.value_states)?;
        let dual: Vec<f64> = first.iter().zip(&extra).map(|(v, xi)| v + xi).collect();
        for _ in 0..steps {
            let all = state.value.values(&seen.value_states)?;
            let delta = seen.windows.delta(gains, &seen.next(&all));
            let sample = Sample { delta: &delta, values: &all[..n], dual: &dual };
            let gradients = self.options.smoothing.gradients(&seen.windows, &sample);
            let mut weights = vec![0.0; all.len()];
            weights.iter_mut().zip(&gradients.values).for_each(|(w, g)| *w -= g);
            for (place, g) in seen.followers.iter().zip(&gradients.next) {
                place.iter().for_each(|&place| weights[place] -= g);
            }
            state.value.step(size, &[(&seen.value_states, &weights)])?;
        }
        Ok(())
    }

    /// Fits ξ; gives ρ = V + ξ.
    fn fit_dual(
        &self,
        state: &mut Learned,
        seen: &Experience,
        delta: &[f64],
        values: &[f64],
    ) -> Result<Vec<f64>> {
        let Some((pairs, regression)) = &seen.pairs else { return Ok(values.to_vec()) };
        let rest: Vec<f64> = delta.iter().zip(values).map(|(delta, v)| delta - v).collect();
        regress(&mut state.dual, &self.options.dual, pairs, regression.as_ref(), &rest)?;
        Ok(state.dual.values(pairs)?.iter().zip(values).map(|(xi, v)| v + xi).collect())
    }

    /// The weight of each step in the gradient of the policy.
    fn weights(&self, seen: &Experience, log: &[f64], sample: &Sample<'_>) -> Vec<f64> {
        let mut advantages = self.options.smoothing.advantages(sample);
        let mean = advantages.iter().sum::<f64>() / advantages.len() as f64;
        advantages.iter_mut().for_each(|a| *a -= mean);
        let sums = match self.options.score {
            Score::First => advantages,
            Score::Window => seen.windows.adjoint(&advantages).0,
        };
        let ratio = |i: usize| match (self.options.most_ratio, seen.log_behaviour[i]) {
            (Some(most), behaviour) if !behaviour.is_nan() => (log[i] - behaviour).exp().min(most),
            _ => 1.0,
        };
        sums.iter().enumerate().map(|(i, sum)| ratio(i) * sum).collect()
    }

    /// Moves the policy; gives KL(π‖π') and the size of the step.
    fn move_policy(
        &self,
        state: &mut Learned,
        seen: &Experience,
        (outputs, weights): (&[f64], &[f64]),
        next: &[f64],
        sample: &Sample<'_>,
    ) -> Result<(f64, f64)> {
        let options = self.options;
        let metric = (options.damping.unwrap_or(DAMPING) / options.policy.unit(), seen.metric.as_ref());
        let asked = (outputs, &seen.actions[..]);
        let Learned { policy, gains, .. } = state;
        let direction = policy.natural_gradient(&seen.states, asked, weights, metric, gains)?;
        if !(direction.square.is_finite() && direction.square > 0.0) {
            return Ok((0.0, 0.0));
        }
        let (mut size, bound) = match options.step {
            PolicyStep::Fixed(size) => (size, f64::INFINITY),
            PolicyStep::Divergence(first, last) => {
                let bound = first + (last - first) * self.behind.clamp(0.0, 1.0);
                let longest = options.smoothing.temperature * options.horizon.reach();
                ((2.0 * bound / direction.square).sqrt().min(1.0 / longest.max(f64::MIN_POSITIVE)), bound)
            }
        };
        let before = options.smoothing.value(sample);
        let unchecked = matches!(options.step, PolicyStep::Fixed(_));
        for _ in 0..HALVINGS {
            let moved = state.policy.moved(size, &direction)?;
            let others = moved.evaluate(&seen.states)?;
            let divergence = state.policy.divergence(outputs, &moved, &others);
            let falls = || {
                let log = moved.log_probabilities(&others, &seen.actions);
                let delta = seen.windows.delta(&options.smoothing.gains(&seen.rewards, &log), next);
                options.smoothing.value(&Sample { delta: &delta, ..*sample }) <= before
            };
            if divergence <= BEYOND * bound && (unchecked || falls()) {
                state.policy = moved;
                return Ok((divergence, size));
            }
            size *= 0.5;
        }
        Ok((0.0, 0.0))
    }
}

/// f ← its regression on targets of the first rows: solved, or by steps of the optimiser.
fn regress(
    f: &mut Approximator,
    critic: &Critic,
    inputs: &Inputs,
    regression: Option<&Regression>,
    targets: &[f64],
) -> Result<()> {
    if let (Some(regression), Some(phi)) = (regression, inputs.features()) {
        let theta = regression.solve(phi, targets, 1);
        return f.replace(theta);
    }
    let n = targets.len();
    for _ in 0..critic.descent.0 {
        let values = f.values(inputs)?;
        let mut weights = vec![0.0; values.len()];
        let rest = targets.iter().zip(&values).map(|(y, v)| 2.0 * (y - v) / n as f64);
        weights.iter_mut().zip(rest).for_each(|(w, r)| *w = r);
        f.step(critic.descent.1, &[(inputs, &weights)])?;
    }
    Ok(())
}

impl<'a> Batches<Iteration<'a>> for Again<&Experience> {
    fn next(&mut self) -> Result<Option<&Experience>> {
        Ok(Some(self.0))
    }

    fn rewind(&mut self) -> Result<()> {
        Ok(())
    }
}
