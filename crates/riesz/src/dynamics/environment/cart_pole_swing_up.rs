//! The swing-up of a pole on a cart.

use super::runge_kutta::runge_kutta;
use super::{array, Environment, Normal};
use std::f64::consts::PI;

/// A uniform rod that hangs from a cart, with a force on the cart alone. The state is (x, ẋ, θ̇, θ), θ = 0 where the rod
/// hangs and π where it stands, not wrapped (thesis 5.6.2; constants of Deisenroth and Rasmussen's PILCO, 2011):
///
/// ```text
/// R(s) = −(x² + ẋ² + θ̇² + 5 (θ − π)²),   γ = 0.96
/// ẍ = [2 m l θ̇² sin θ + 3 m g sin θ cos θ + 4 (a − b ẋ)] / [4 (M + m) − 3 m cos² θ]
/// θ̈ = [−3 m l θ̇² sin θ cos θ − 6 (M + m) g sin θ − 6 (a − b ẋ) cos θ] / [4 l (M + m) − 3 m l cos² θ]
/// ```
///
/// The force is held for 0.1 s. Departures: the text lost the sign of R, and has neither constants nor a policy; see
/// `docs/environments.md` for how that one, a = A s + c, was chosen.
#[derive(Clone, Copy, Debug)]
pub struct CartPoleSwingUp;

/// M, the mass of the cart in kg.
const CART: f64 = 0.5;
/// m, the mass of the rod in kg.
const POLE: f64 = 0.5;
/// l, the length of the rod in m.
const LENGTH: f64 = 0.6;
/// b, the friction of the cart in N s/m.
const FRICTION: f64 = 0.1;
/// g in m/s².
const GRAVITY: f64 = 9.82;
/// Seconds that a force is held, and into how many parts they are divided.
const STEP: f64 = 0.1;
const PARTS: usize = 2;
/// A and c of the policy, in N per unit of (x, ẋ, θ̇, θ) and in N.
const GAINS: [f64; 4] = [-2.4, -2.9, 1.0, 0.2];
const OFFSET: f64 = -0.2 * PI;

/// ds/dt under a force.
fn derivative([_, velocity, rate, angle]: [f64; 4], force: f64) -> [f64; 4] {
    let (sin, cos) = angle.sin_cos();
    let push = force - FRICTION * velocity;
    let spin = POLE * LENGTH * rate * rate * sin;
    let below = 4.0 * (CART + POLE) - 3.0 * POLE * cos * cos;
    let acceleration = (2.0 * spin + 3.0 * POLE * GRAVITY * sin * cos + 4.0 * push) / below;
    let fall = 6.0 * (CART + POLE) * GRAVITY * sin;
    let turn = -(3.0 * spin * cos + fall + 6.0 * push * cos) / (LENGTH * below);
    [velocity, acceleration, turn, rate]
}

impl Environment for CartPoleSwingUp {
    fn name(&self) -> &'static str {
        "cart_pole_swing_up"
    }

    fn discount(&self) -> f64 {
        0.96
    }

    fn action_limits(&self) -> &[f64] {
        &[10.0]
    }

    fn start(&self) -> Normal<'_> {
        Normal { center: &[0.0; 4], deviation: &[0.1; 4] }
    }

    fn sampling(&self) -> Normal<'_> {
        Normal { center: &[0.0, 0.0, 0.0, PI], deviation: &[0.5, 0.5, 1.0, 1.0] }
    }

    fn noise(&self) -> &[f64] {
        &[0.01, 0.1, 0.1, 0.01]
    }

    fn policy(&self, state: &[f64], action: &mut [f64]) {
        action[0] = OFFSET + GAINS.iter().zip(state).map(|(gain, s)| gain * s).sum::<f64>();
    }

    fn reward(&self, state: &[f64], _action: &[f64]) -> f64 {
        let [x, velocity, rate, angle] = array(state);
        -(x * x + velocity * velocity + rate * rate + 5.0 * (angle - PI).powi(2))
    }

    fn mean(&self, state: &[f64], action: &[f64], next: &mut [f64]) {
        let after = runge_kutta(array(state), STEP, PARTS, |s| derivative(s, action[0]));
        next.copy_from_slice(&after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without friction and force, ½(M + m)ẋ² + ½ m l ẋ θ̇ cos θ + ⅙ m l² θ̇² − ½ m g l cos θ stays what it is. Friction takes
    /// b ẋ² of it a second, so a force of b ẋ makes up for it.
    fn energy([_, v, w, angle]: [f64; 4]) -> f64 {
        0.5 * (CART + POLE) * v * v
            + 0.5 * POLE * LENGTH * v * w * angle.cos()
            + POLE * LENGTH * LENGTH * w * w / 6.0
            - 0.5 * POLE * GRAVITY * LENGTH * angle.cos()
    }

    #[test]
    fn energy_is_kept_without_friction_and_force() {
        for start in [[0.0, 0.3, 1.0, 2.0], [0.5, -1.0, -4.0, 3.0], [0.0, 0.0, 9.0, 0.1]] {
            let free = |s: [f64; 4]| derivative(s, FRICTION * s[1]);
            let (drift, finer) = [100, 200]
                .map(|parts| (energy(runge_kutta(start, 1.0, parts, free)) - energy(start)).abs())
                .into();
            assert!(drift < 1e-4, "{drift}");
            assert!(finer < drift / 12.0 || finer < 1e-10, "{finer} after {drift}: not of fourth order");
        }
    }

    #[test]
    fn a_rod_at_rest_stays_at_rest() {
        for angle in [0.0, PI] {
            let mut next = [0.0; 4];
            CartPoleSwingUp.mean(&[1.0, 0.0, 0.0, angle], &[0.0], &mut next);
            let moved =
                next.iter().zip([1.0, 0.0, 0.0, angle]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(moved < 1e-14, "{next:?}");
        }
        assert_eq!(CartPoleSwingUp.reward(&[0.0, 0.0, 0.0, PI], &[0.0]), 0.0);
        assert_eq!(CartPoleSwingUp.reward(&[1.0, 2.0, 3.0, PI + 1.0], &[0.0]), -19.0);
    }
}
