//! Navigation in an unbounded room.

use super::{Environment, Normal};

/// A point in the plane that is rewarded for being near the origin (thesis 5.6.2):
///
/// ```text
/// R(s) = exp(−100 ‖s‖²),   π(s) = −0.2 s R(s),   s' ~ N(s + a, 0.1 I),   s ~ N(0, 0.2 I),   γ = 0.9
/// ```
///
/// Departures: 0.1 and 0.2 are read as variances. Actions have a limit of 1 per coordinate, which the policy, of
/// at most 0.0086, never meets; episodes start by the sampling law.
#[derive(Clone, Copy, Debug)]
pub struct Navigation;

/// √0.2, the standard deviation of states.
const SPREAD: f64 = 0.447_213_595_499_957_9;
/// √0.1, the standard deviation of a step.
const NOISE: f64 = 0.316_227_766_016_837_94;

impl Environment for Navigation {
    fn name(&self) -> &'static str {
        "navigation"
    }

    fn discount(&self) -> f64 {
        0.9
    }

    fn action_limits(&self) -> &[f64] {
        &[1.0; 2]
    }

    fn start(&self) -> Normal<'_> {
        self.sampling()
    }

    fn sampling(&self) -> Normal<'_> {
        Normal { center: &[0.0; 2], deviation: &[SPREAD; 2] }
    }

    fn noise(&self) -> &[f64] {
        &[NOISE; 2]
    }

    fn policy(&self, state: &[f64], action: &mut [f64]) {
        let reward = self.reward(state, action);
        action.iter_mut().zip(state).for_each(|(a, s)| *a = -0.2 * s * reward);
    }

    fn reward(&self, state: &[f64], _action: &[f64]) -> f64 {
        (-100.0 * (state[0] * state[0] + state[1] * state[1])).exp()
    }

    fn mean(&self, state: &[f64], action: &[f64], next: &mut [f64]) {
        next.iter_mut().zip(state.iter().zip(action)).for_each(|(n, (s, a))| *n = s + a);
    }
}
