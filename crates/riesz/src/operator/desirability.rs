//! (T Z)(x, x') = e^{−q(x)} Z(x') − Z(x).

use super::{Conditional, Factors, Operator, Points};
use crate::data::Rows;
use crate::error::{finite, same_columns, same_rows, Error, Result};

/// Transitions x → x' of the passive dynamics, the cost q(x) of each, and what x' costs where the transition ends there.
#[derive(Clone, Copy, Debug)]
pub struct PassiveTransitions<'a> {
    states: Rows<'a>,
    costs: &'a [f32],
    next_states: Rows<'a>,
    terminal: &'a [bool],
    final_costs: &'a [f32],
}

impl<'a> PassiveTransitions<'a> {
    /// Transitions from x to x'. Where one is terminal, Z(x') = e^{−final cost} is known; elsewhere the final cost is not
    /// looked at. At least one must be terminal: without, Z = 0 solves the equation.
    pub fn new(
        states: Rows<'a>,
        costs: &'a [f32],
        next_states: Rows<'a>,
        terminal: &'a [bool],
        final_costs: &'a [f32],
    ) -> Result<Self> {
        let n = states.len();
        same_rows("costs", n, costs.len())?;
        same_rows("next_states", n, next_states.len())?;
        same_rows("terminals", n, terminal.len())?;
        same_rows("final_costs", n, final_costs.len())?;
        same_columns(states.columns(), next_states.columns())?;
        finite("costs", costs, 1)?;
        finite("final_costs", final_costs, 1)?;
        if !terminal.contains(&true) {
            return Err(Error::Empty { what: "terminals", needed: "one transition that ends" });
        }
        Ok(Self { states, costs, next_states, terminal, final_costs })
    }
}

/// The residual of the desirability Z = e^{−V} of linearly solvable control (thesis 5.5): (T Z)(x, x') = e^{−q(x)} Z(x') − Z(x),
/// with Z(x') = e^{−final cost} where x' is terminal. Z is right where its expectation given x is zero, and then
/// V = −log Z solves V = q + min_u { KL(u ‖ p) + E_u V }; the best control moves to x' with density ∝ p(x' | x) Z(x').
///
/// q is a cost, where the reward of [`super::Bellman`] is one to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desirability;

impl Operator for Desirability {
    type Batch<'a> = PassiveTransitions<'a>;

    fn points<'a>(&self, batch: Self::Batch<'a>) -> Vec<Points<'a>> {
        let going_on = batch.terminal.iter().zip(batch.costs);
        let factors = going_on.map(|(&end, cost)| if end { 0.0 } else { (-cost).exp() }).collect();
        vec![
            Points { rows: batch.states, factors: Factors::Constant(-1.0) },
            Points { rows: batch.next_states, factors: Factors::Each(factors) },
        ]
    }

    fn add_constant(&self, batch: PassiveTransitions<'_>, values: &mut [f32]) {
        let costs = batch.costs.iter().zip(batch.final_costs).zip(batch.terminal);
        for (value, ((cost, last), _)) in values.iter_mut().zip(costs).filter(|(_, (_, &end))| end) {
            *value += (-cost - last).exp();
        }
    }
}

impl Conditional for Desirability {
    fn given<'a>(&self, batch: Self::Batch<'a>) -> Rows<'a> {
        batch.states
    }
}
