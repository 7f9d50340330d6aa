//! Values by simulation.

use super::{act, disturb, rows, Environment, MOST, SOME};
use crate::driver::Control;
use crate::error::{in_range, Result};
use crate::random::{Address, BlockIndex, Seed, Stream};
use rayon::prelude::*;

/// States whose rollouts run beside each other.
const TOGETHER: usize = 4_096;

/// How values are simulated: the mean over `rollouts` of Σ_{t<steps} γᵗ r_t.
#[derive(Clone, Copy, Debug)]
pub struct Rollouts {
    /// Rollouts of each state, at least two.
    pub rollouts: usize,
    /// The steps of each, unless it terminates before. What comes later is worth γ^steps V(s_steps); see [`steps_until`].
    pub steps: usize,
    /// γ in [0, 1].
    pub discount: f64,
    /// Rollout j of row i depends on the seed, i, j and the number of steps.
    pub seed: Seed,
}

/// Values, and how well they are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Mean returns.
    pub values: Vec<f64>,
    /// Their standard errors.
    pub standard_errors: Vec<f64>,
}

/// The first t with γᵗ ≤ `rest`.
///
/// ```
/// assert_eq!(riesz::dynamics::environment::steps_until(0.9, 1e-4)?, 88);
/// # Ok::<(), riesz::Error>(())
/// ```
pub fn steps_until(discount: f64, rest: f64) -> Result<usize> {
    in_range("discount", discount, (0.0..1.0).contains(&discount), "[0, 1)")?;
    in_range("the rest", rest, rest > 0.0 && rest < 1.0, "(0, 1)")?;
    Ok(if discount == 0.0 { 1 } else { (rest.ln() / discount.ln()).ceil() as usize })
}

/// Running mean and sum of squared deviations (Welford).
#[derive(Clone, Copy, Default)]
struct Moments {
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Adds the `count`-th number, counted from one.
    fn add(&mut self, value: f64, count: usize) {
        let before = value - self.mean;
        self.mean += before / count as f64;
        self.squares += before * (value - self.mean);
    }
}

impl Rollouts {
    fn check(&self) -> Result<()> {
        let (rollouts, steps) = (self.rollouts, self.steps);
        in_range("discount", self.discount, (0.0..=1.0).contains(&self.discount), "[0, 1]")?;
        in_range("steps", steps as f64, (1..=1 << 20).contains(&steps), "[1, 1048576]")?;
        let possible = (2..=u32::MAX as usize).contains(&rollouts);
        in_range("rollouts", rollouts as f64, possible, "[2, 4294967295]").map(drop)
    }

    /// Values of states; asks after each rollout of some thousand states whether to go on.
    pub(super) fn values<E: Environment + ?Sized>(
        &self,
        environment: &E,
        states: &[f64],
        control: &mut Control<'_>,
    ) -> Result<Estimate> {
        self.check()?;
        let d = environment.state_columns();
        let n = rows("states", states, d)?;
        let mut moments = vec![Moments::default(); n];
        let parts = moments.chunks_mut(TOGETHER).zip(states.chunks(TOGETHER * d)).enumerate();
        for (part, (moments, states)) in parts {
            for rollout in 0..self.rollouts {
                control.check(part * self.rollouts + rollout)?;
                let each = moments.par_iter_mut().zip(states.par_chunks_exact(d)).enumerate();
                each.with_min_len(SOME).for_each(|(row, (moments, state))| {
                    let value = self.returned(environment, state, part * TOGETHER + row, rollout);
                    moments.add(value, rollout + 1);
                });
            }
        }
        let count = self.rollouts as f64;
        let error = |m: &Moments| (m.squares / (count * (count - 1.0))).sqrt();
        let values: Vec<f64> = moments.iter().map(|m| m.mean).collect();
        crate::error::finite("the values", &values, 1)?;
        Ok(Estimate { values, standard_errors: moments.iter().map(error).collect() })
    }

    /// Σ_t γᵗ r_t of one rollout.
    fn returned<E: Environment + ?Sized>(
        &self,
        environment: &E,
        state: &[f64],
        row: usize,
        rollout: usize,
    ) -> f64 {
        let (mut now, mut next, mut action) = ([0.0; MOST], [0.0; MOST], [0.0; MOST]);
        let (now, next) = (&mut now[..state.len()], &mut next[..state.len()]);
        let action = &mut action[..environment.action_columns()];
        now.copy_from_slice(state);
        let (mut sum, mut factor) = (0.0, 1.0);
        for step in 0..self.steps {
            if environment.terminal(now) {
                break;
            }
            act(environment, now, action);
            sum += factor * environment.reward(now, action);
            factor *= self.discount;
            environment.mean(now, action, next);
            let block = BlockIndex((row * self.steps + step) as u64);
            disturb(environment, Address::new(self.seed, Stream::Rollout, block, rollout as u32), next);
            now.copy_from_slice(next);
        }
        sum
    }
}
