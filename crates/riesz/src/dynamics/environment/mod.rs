//! Environments: Markov decision processes with continuous states and actions, simulated many rows at a time.
//!
//! ```text
//! a = π(s),   r = R(s, a),   s' = m(s, a) + σ ∘ ε,   ε ~ N(0, I)
//! ```
//!
//! An [`Environment`] says what m, R, σ, a policy π and two laws of states are; resets, steps, transitions, next states
//! and Monte-Carlo values of many states are written once, in its provided methods. Constants are those of
//! `docs/environments.md`.
//!
//! Every draw has an address (seed, purpose, …, row), rows are computed beside each other and each by itself: neither the
//! number of threads nor the other rows change a bit. Draws of different methods are independent, also under one seed.

mod cart_pole_swing_up;
mod navigation;
mod puma560;
mod rollout;
mod runge_kutta;
mod serial_arm;
#[cfg(test)]
mod tests;

pub use cart_pole_swing_up::CartPoleSwingUp;
pub use navigation::Navigation;
pub use puma560::Puma560;
pub use rollout::{steps_until, Estimate, Rollouts};

use crate::driver::Control;
use crate::error::{finite, Error, Result};
use crate::memory::room;
use crate::random::{normals, Address, BlockIndex, Seed, Stream};
use rayon::prelude::*;

/// Rows that one thread takes at least.
const SOME: usize = 16;
/// The most columns a state has.
const MOST: usize = 64;

/// Independent normal variables, N(center, diag(deviation²)).
#[derive(Clone, Copy, Debug)]
pub struct Normal<'a> {
    /// Means.
    pub center: &'a [f64],
    /// Standard deviations.
    pub deviation: &'a [f64],
}

impl Normal<'_> {
    /// Writes the draw at an address.
    fn draw(&self, address: Address, out: &mut [f64]) {
        normals(address, out);
        let laws = self.center.iter().zip(self.deviation);
        out.iter_mut().zip(laws).for_each(|(z, (center, deviation))| *z = center + deviation * *z);
    }
}

/// What a step leads to, a row for each state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// s', n×d.
    pub next_states: Vec<f64>,
    /// R(s, a).
    pub rewards: Vec<f64>,
    /// Whether s' is terminal: nothing is earned from there on. A time limit is no termination.
    pub terminated: Vec<bool>,
}

/// Independent transitions (s, a, r, s') under the policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transitions {
    /// s, n×d.
    pub states: Vec<f64>,
    /// a = π(s), n×p.
    pub actions: Vec<f64>,
    /// What they lead to.
    pub step: Step,
}

/// A Markov decision process, and a policy of it.
///
/// Implementations say what one row does; a state has at most 64 columns. Methods for batches take and return row-major
/// arrays and refuse arrays of another shape, NaN and infinities.
///
/// ```
/// use riesz::dynamics::environment::{Environment, Navigation};
/// use riesz::random::Seed;
///
/// fn main() -> riesz::Result<()> {
///     let seen = Navigation.transitions(1_000, Seed(1))?;
///     assert_eq!(seen.states.len(), 2_000);
///     let again = Navigation.step(&seen.states, &seen.actions, Seed(1), 0)?;
///     assert_eq!(again, seen.step);
///     Ok(())
/// }
/// ```
pub trait Environment: Send + Sync {
    /// The name by which [`named`] knows it.
    fn name(&self) -> &'static str;

    /// γ of the text.
    fn discount(&self) -> f64;

    /// The largest size of each action: what goes beyond is cut off, as an actuator does.
    fn action_limits(&self) -> &[f64];

    /// The law of the first state of an episode.
    fn start(&self) -> Normal<'_>;

    /// The law of the states of [`transitions`](Environment::transitions).
    fn sampling(&self) -> Normal<'_>;

    /// σ, standard deviations of the noise of a step.
    fn noise(&self) -> &[f64];

    /// Writes π(s), before anything is cut off.
    fn policy(&self, state: &[f64], action: &mut [f64]);

    /// R(s, a).
    fn reward(&self, state: &[f64], action: &[f64]) -> f64;

    /// Writes m(s, a), the mean of s'.
    fn mean(&self, state: &[f64], action: &[f64], next: &mut [f64]);

    /// Whether a state is terminal. Tasks without an end keep the default.
    fn terminal(&self, _state: &[f64]) -> bool {
        false
    }

    /// d, the columns of a state.
    fn state_columns(&self) -> usize {
        self.noise().len()
    }

    /// p, the columns of an action.
    fn action_columns(&self) -> usize {
        self.action_limits().len()
    }

    /// First states of the `episode`-th episodes of `n` rows, n×d.
    fn reset(&self, n: usize, seed: Seed, episode: u64) -> Result<Vec<f64>> {
        draws(self.start(), n, |row| Address::new(seed, Stream::StartState, BlockIndex(episode), row))
    }

    /// Independent states of the sampling law, n×d.
    fn sample(&self, n: usize, seed: Seed) -> Result<Vec<f64>> {
        draws(self.sampling(), n, |row| Address::new(seed, Stream::SampledState, BlockIndex(0), row))
    }

    /// Actions of the policy, cut off at their limits, n×p.
    fn actions(&self, states: &[f64]) -> Result<Vec<f64>> {
        let (d, p) = (self.state_columns(), self.action_columns());
        let n = rows("states", states, d)?;
        let mut actions = vec![0.0; n * p];
        let each = actions.par_chunks_exact_mut(p).with_min_len(SOME).zip(states.par_chunks_exact(d));
        each.for_each(|(action, state)| act(self, state, action));
        Ok(actions)
    }

    /// The `step`-th step of n rows. Actions beyond their limits are cut off.
    fn step(&self, states: &[f64], actions: &[f64], seed: Seed, step: u64) -> Result<Step> {
        let (d, p) = (self.state_columns(), self.action_columns());
        let n = rows("states", states, d)?;
        crate::error::same_rows("actions", n, rows("actions", actions, p)?)?;
        let mut taken = actions.to_vec();
        taken.chunks_exact_mut(p).for_each(|action| cut_off(self, action));
        let (mut next_states, mut rewards, mut terminated) = (vec![0.0; n * d], vec![0.0; n], vec![false; n]);
        let answers = next_states.par_chunks_exact_mut(d).zip(&mut rewards).zip(&mut terminated);
        let asked = states.par_chunks_exact(d).zip(taken.par_chunks_exact(p)).enumerate();
        answers.zip(asked).with_min_len(SOME).for_each(
            |(((next, reward), terminal), (row, (state, action)))| {
                let address = Address::new(seed, Stream::Transition, BlockIndex(step), row as u32);
                *reward = self.reward(state, action);
                self.mean(state, action, next);
                disturb(self, address, next);
                *terminal = self.terminal(next);
            },
        );
        finite("the next states", &next_states, d)?;
        Ok(Step { next_states, rewards, terminated })
    }

    /// `n` independent transitions: s from the sampling law, a = π(s), and step 0 of that seed.
    fn transitions(&self, n: usize, seed: Seed) -> Result<Transitions> {
        let states = self.sample(n, seed)?;
        let actions = self.actions(&states)?;
        let step = self.step(&states, &actions, seed, 0)?;
        Ok(Transitions { states, actions, step })
    }

    /// `k` independent next states of each of n states under the policy, n×k×d: for expectations over s' given s.
    fn next_states(&self, states: &[f64], k: usize, seed: Seed) -> Result<Vec<f64>> {
        let (d, p) = (self.state_columns(), self.action_columns());
        let n = rows("states", states, d)?;
        crate::error::in_range("the number of samples", k as f64, k > 0, "[1, inf)")?;
        room("next states", "the number of samples", &[n, k, d], 8)?;
        let mut next_states = vec![0.0; n * k * d];
        let each = next_states.par_chunks_exact_mut(k * d).zip(states.par_chunks_exact(d)).enumerate();
        each.for_each(|(row, (samples, state))| {
            let (mut action, mut mean) = ([0.0; MOST], [0.0; MOST]);
            let (action, mean) = (&mut action[..p], &mut mean[..d]);
            act(self, state, action);
            self.mean(state, action, mean);
            for (j, sample) in samples.chunks_exact_mut(d).enumerate() {
                sample.copy_from_slice(mean);
                let address = Address::new(seed, Stream::NextState, BlockIndex(row as u64), j as u32);
                disturb(self, address, sample);
            }
        });
        finite("the next states", &next_states, d)?;
        Ok(next_states)
    }

    /// V(s) = E[Σ_t γᵗ r_t] of states under the policy, by simulation.
    fn values(&self, states: &[f64], rollouts: &Rollouts, control: &mut Control<'_>) -> Result<Estimate> {
        rollouts.values(self, states, control)
    }
}

/// The names of [`named`].
pub const NAMES: &str = "navigation, cart_pole_swing_up, puma560";

/// The environment of a name.
pub fn named(name: &str) -> Result<Box<dyn Environment>> {
    match name {
        "navigation" => Ok(Box::new(Navigation)),
        "cart_pole_swing_up" => Ok(Box::new(CartPoleSwingUp)),
        "puma560" => Ok(Box::new(Puma560::default())),
        _ => Err(Error::Unknown { name: "environment", value: name.into(), expected: NAMES }),
    }
}

/// Independent draws, n×d, the `row`-th at its address.
fn draws(law: Normal<'_>, n: usize, address: impl Fn(u32) -> Address + Sync) -> Result<Vec<f64>> {
    let d = law.center.len();
    crate::error::in_range("the number of rows", n as f64, n <= u32::MAX as usize, "[0, 4294967295]")?;
    room("states", "the number of rows", &[n, d], 8)?;
    let mut states = vec![0.0; n * d];
    let each = states.par_chunks_exact_mut(d).with_min_len(SOME).enumerate();
    each.for_each(|(row, state)| law.draw(address(row as u32), state));
    Ok(states)
}

/// Rows of an array of `columns` columns, whose numbers are finite.
fn rows(what: &'static str, values: &[f64], columns: usize) -> Result<usize> {
    if !values.len().is_multiple_of(columns) {
        let expected = format!("a multiple of {columns}");
        return Err(Error::Length { what, expected, found: values.len() });
    }
    finite(what, values, columns)?;
    Ok(values.len() / columns)
}

/// Brings an action into its limits.
fn cut_off<E: Environment + ?Sized>(environment: &E, action: &mut [f64]) {
    let limits = environment.action_limits();
    action.iter_mut().zip(limits).for_each(|(a, limit)| *a = a.clamp(-limit, *limit));
}

/// Writes the action of the policy, cut off at its limits.
fn act<E: Environment + ?Sized>(environment: &E, state: &[f64], action: &mut [f64]) {
    environment.policy(state, action);
    cut_off(environment, action);
}

/// Adds the noise at an address.
fn disturb<E: Environment + ?Sized>(environment: &E, address: Address, next: &mut [f64]) {
    let mut z = [0.0; MOST];
    let z = &mut z[..next.len()];
    normals(address, z);
    next.iter_mut().zip(environment.noise()).zip(z).for_each(|((s, deviation), z)| *s += deviation * *z);
}

/// The first N numbers of a row.
fn array<const N: usize>(row: &[f64]) -> [f64; N] {
    std::array::from_fn(|i| row[i])
}
