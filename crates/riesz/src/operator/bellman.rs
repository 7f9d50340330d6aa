//! (T V)(x, r, x') = r + γ V(x') − V(x).

use super::{Factors, Operator, Points};
use crate::data::Rows;
use crate::error::{in_range, same_columns, same_rows, Error, Result};

/// A discount γ in [0, 1].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Discount(f32);

impl TryFrom<f64> for Discount {
    type Error = Error;

    fn try_from(value: f64) -> Result<Self> {
        in_range("discount", value, (0.0..=1.0).contains(&value), "[0, 1]").map(|value| Self(value as f32))
    }
}

/// Transitions (x, r, x') of a chain, n of each.
#[derive(Clone, Copy, Debug)]
pub struct Transitions<'a> {
    states: Rows<'a>,
    rewards: &'a [f32],
    next_states: Rows<'a>,
    terminal: &'a [bool],
}

impl<'a> Transitions<'a> {
    /// Transitions from x to x' with n×C rewards. A terminal transition ends in a state of value zero, whatever x' says; one
    /// that was merely cut short is not terminal.
    pub fn new(
        states: Rows<'a>,
        rewards: &'a [f32],
        next_states: Rows<'a>,
        terminal: &'a [bool],
    ) -> Result<Self> {
        let n = states.len();
        same_rows("next_states", n, next_states.len())?;
        same_rows("terminal", n, terminal.len())?;
        if n == 0 || rewards.is_empty() || !rewards.len().is_multiple_of(n) {
            return Err(Error::RowCount { what: "rewards", expected: n, found: rewards.len() });
        }
        same_columns(states.columns(), next_states.columns())?;
        Ok(Self { states, rewards, next_states, terminal })
    }
}

/// The Bellman residual of a value function: (T V)(x, r, x') = r + γ V(x') − V(x), without the middle term where x' is
/// terminal (thesis chapter 5). V is right where its expectation given x is zero for every x.
///
/// A sample has one x', so this estimates E[r + γ V(x') | x] − V(x) and is not [`super::Exact`]:
///
/// ```compile_fail,E0277
/// use riesz::loss::Square;
/// use riesz::operator::{Bellman, Discount};
/// use riesz::solver::{FunctionalSgd, FunctionalSgdConfig, Schedule};
/// use riesz::space::Dictionary;
///
/// let config = FunctionalSgdConfig { schedule: Schedule::Constant { step: 0.1 }, ridge: 0.0 };
/// let operator = Bellman { discount: Discount::try_from(0.9).unwrap() };
/// let solver: FunctionalSgd<Bellman, Dictionary> = config.build(operator, &Square { outputs: 1 }).unwrap();
/// ```
///
/// Where every state has one successor, say so: [`super::Deterministic`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bellman {
    /// γ.
    pub discount: Discount,
}

impl Operator for Bellman {
    type Batch<'a> = Transitions<'a>;

    fn points<'a>(&self, batch: Self::Batch<'a>) -> Vec<Points<'a>> {
        let going_on = batch.terminal.iter().map(|&end| if end { 0.0 } else { self.discount.0 }).collect();
        vec![
            Points { rows: batch.states, factors: Factors::Constant(-1.0) },
            Points { rows: batch.next_states, factors: Factors::Each(going_on) },
        ]
    }

    fn add_constant(&self, batch: Transitions<'_>, values: &mut [f32]) {
        values.iter_mut().zip(batch.rewards).for_each(|(value, reward)| *value += reward);
    }
}
