//! (T V)(x, r, x') = r + γ V(x') − V(x).

use super::{Conditional, Factors, Operator, Points};
use crate::data::Rows;
use crate::error::{finite, in_range, same_columns, same_rows, Error, Result};
use std::borrow::Cow;

/// A discount γ in [0, 1].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Discount(f32);

impl TryFrom<f64> for Discount {
    type Error = Error;

    fn try_from(value: f64) -> Result<Self> {
        in_range("discount", value, (0.0..=1.0).contains(&value), "[0, 1]").map(|value| Self(value as f32))
    }
}

/// One of several points that may follow, and how probable it is after each transition: with actions that are finitely many,
/// (s', a) and π(a | s').
#[derive(Clone, Copy, Debug)]
pub struct Likely<'a> {
    /// The points, a row for every transition.
    pub rows: Rows<'a>,
    /// Their probabilities.
    pub probabilities: &'a [f32],
}

/// Transitions (x, r, x') of a chain, n of each.
#[derive(Clone, Copy, Debug)]
pub struct Transitions<'a> {
    states: Rows<'a>,
    rewards: &'a [f32],
    next: Next<'a>,
    terminal: &'a [bool],
    discounts: Option<&'a [f32]>,
    ratios: Option<&'a [f32]>,
}

#[derive(Clone, Copy, Debug)]
enum Next<'a> {
    One(Rows<'a>),
    OneOf(&'a [Likely<'a>]),
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
        same_rows("next_states", states.len(), next_states.len())?;
        same_columns(states.columns(), next_states.columns())?;
        Self { states, rewards, next: Next::One(next_states), terminal, discounts: None, ratios: None }
            .checked()
    }

    /// The same where x' is one of several points with known probabilities, over which the value is averaged exactly.
    pub fn expected(
        states: Rows<'a>,
        rewards: &'a [f32],
        next: &'a [Likely<'a>],
        terminal: &'a [bool],
    ) -> Result<Self> {
        for Likely { rows, probabilities } in next {
            same_rows("next_states", states.len(), rows.len())?;
            same_columns(states.columns(), rows.columns())?;
            same_rows("next_action_probabilities", states.len(), probabilities.len())?;
        }
        Self { states, rewards, next: Next::OneOf(next), terminal, discounts: None, ratios: None }.checked()
    }

    /// The same with a discount for each transition, which multiplies γ: e^{−q(s)} for the desirability of linearly solvable control,
    /// Z(s) = e^{−q(s)} E[Z(s')] (thesis 5.5), where the reward of a terminal transition is e^{−q(s)} Z(s') and that of others zero.
    pub fn discounted(self, discounts: &'a [f32]) -> Result<Self> {
        same_rows("discounts", self.states.len(), discounts.len())?;
        finite("discounts", discounts, 1)?;
        Ok(Self { discounts: Some(discounts), ..self })
    }

    /// Transitions under another policy than the one whose value is asked for: ratios ρ = π(a | s)/π_b(a | s), which multiply
    /// the residual. Their mean given s is one.
    pub fn weighted(self, ratios: &'a [f32]) -> Result<Self> {
        same_rows("weights", self.states.len(), ratios.len())?;
        finite("weights", ratios, 1)?;
        if let Some(&value) = ratios.iter().find(|&&ratio| ratio < 0.0) {
            return Err(Error::OutOfRange { name: "weights", value: f64::from(value), range: "[0, inf)" });
        }
        Ok(Self { ratios: Some(ratios), ..self })
    }

    fn checked(self) -> Result<Self> {
        let n = self.states.len();
        same_rows("terminals", n, self.terminal.len())?;
        if n == 0 || self.rewards.is_empty() || !self.rewards.len().is_multiple_of(n) {
            return Err(Error::RowCount { what: "rewards", expected: n, found: self.rewards.len() });
        }
        Ok(self)
    }

    /// A factor for each transition, times its ratio.
    fn factors(&self, factor: impl Fn(usize) -> f32) -> Factors<'a> {
        let ratio = |i: usize| self.ratios.map_or(1.0, |ratios| ratios[i]);
        Factors::Each(Cow::Owned((0..self.states.len()).map(|i| ratio(i) * factor(i)).collect()))
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
        let own_discount = |i: usize| batch.discounts.map_or(1.0, |discounts| discounts[i]);
        let going_on = |i: usize| if batch.terminal[i] { 0.0 } else { self.discount.0 * own_discount(i) };
        let own = match batch.ratios {
            None => Factors::Constant(-1.0),
            Some(_) => batch.factors(|_| -1.0),
        };
        let mut points = vec![Points { rows: batch.states, factors: own }];
        match batch.next {
            Next::One(rows) => points.push(Points { rows, factors: batch.factors(going_on) }),
            Next::OneOf(several) => points.extend(several.iter().map(|&Likely { rows, probabilities }| {
                Points { rows, factors: batch.factors(|i| going_on(i) * probabilities[i]) }
            })),
        }
        points
    }

    fn add_constant(&self, batch: Transitions<'_>, values: &mut [f32]) {
        let c = batch.rewards.len() / batch.states.len();
        for (i, (value, reward)) in values.iter_mut().zip(batch.rewards).enumerate() {
            *value += batch.ratios.map_or(1.0, |ratios| ratios[i / c]) * reward;
        }
    }
}

impl Conditional for Bellman {
    fn given<'a>(&self, batch: Self::Batch<'a>) -> Rows<'a> {
        batch.states
    }
}
