//! The PUMA 560 arm.

use super::runge_kutta::runge_kutta;
use super::serial_arm::{Link, Pose};
use super::{array, Environment, Normal};
use std::f64::consts::FRAC_PI_4;

/// The PUMA 560 arm, six joints with a motor each, which is to come to rest in a pose. The state is (q, q̇), twelve numbers,
/// the action six torques at the joints (thesis 5.6.2):
///
/// ```text
/// R(s) = −½ [Σ_{i≤4} (q_i − π/4)² + Σ_{i=5,6} (q_i + π/4)² + ‖q̇‖²],   γ = 0.9
/// M(q) q̈ + C(q, q̇) q̇ + g(q) + F q̇ = a,   π(s) = −K_p (q − q*) − K_d q̇ + g(q*)
/// ```
///
/// Torques are held for 0.05 s. Parameters of the links and motors are those of Corke and Armstrong-Hélouvry (1994), limits of
/// the torques those of Armstrong, Khatib and Burdick (1986). Departures: the text lost the sign of R, and has neither
/// constants nor a policy; dry friction and the ends of the joints' ranges are left out.
#[derive(Clone, Debug)]
pub struct Puma560 {
    /// g(q*), what holds the arm at the goal.
    holding: [f64; 6],
}

/// Joints.
const N: usize = 6;
/// Seconds that torques are held, and into how many parts they are divided.
const STEP: f64 = 0.05;
const PARTS: usize = 2;
/// g in m/s².
const GRAVITY: f64 = 9.81;
/// q*.
const GOAL: [f64; N] = [FRAC_PI_4, FRAC_PI_4, FRAC_PI_4, FRAC_PI_4, -FRAC_PI_4, -FRAC_PI_4];
/// q* at rest.
const GOAL_STATE: [f64; 2 * N] = {
    let mut state = [0.0; 2 * N];
    let mut i = 0;
    while i < N {
        state[i] = GOAL[i];
        i += 1;
    }
    state
};
/// The diagonals of K_p in N m/rad and K_d in N m s/rad: joints about critically damped at 4 rad/s.
const STIFFNESS: [f64; N] = [60.0, 70.0, 15.0, 3.0, 3.0, 3.0];
const DAMPING: [f64; N] = [24.0, 26.0, 4.0, 1.0, 1.0, 1.0];
/// The largest torques, in N m.
const LIMITS: [f64; N] = [97.6, 186.4, 89.4, 24.2, 20.1, 21.3];
/// Standard deviations of the noise: 0.01 rad and 0.1 rad/s.
const NOISE: [f64; 2 * N] = halves(0.01, 0.1);
/// The diagonal of F, viscous friction G² B of the motors at the joints, in N m s/rad.
const FRICTION: [f64; N] = {
    let viscous = [1.48e-3, 0.817e-3, 1.38e-3, 71.2e-6, 82.6e-6, 36.7e-6];
    let mut friction = [0.0; N];
    let mut i = 0;
    while i < N {
        friction[i] = GEARS[i] * GEARS[i] * viscous[i];
        i += 1;
    }
    friction
};
/// G, the ratios of the gears.
const GEARS: [f64; N] = [-62.6111, 107.815, -53.7063, 76.0364, 71.923, 76.686];
/// cos α and sin α of α = π/2, 0 and −π/2.
const UP: [f64; 2] = [0.0, 1.0];
const FLAT: [f64; 2] = [1.0, 0.0];
const DOWN: [f64; 2] = [0.0, -1.0];

/// Angles of one value and velocities of another.
const fn halves(angle: f64, velocity: f64) -> [f64; 2 * N] {
    let mut state = [velocity; 2 * N];
    let mut i = 0;
    while i < N {
        state[i] = angle;
        i += 1;
    }
    state
}

/// A link from its numbers; the motor has the inertia J_m G².
const fn link(
    [length, offset]: [f64; 2],
    twist: [f64; 2],
    mass: f64,
    center: [f64; 3],
    inertia: [f64; 3],
    [rotor, gear]: [f64; 2],
) -> Link {
    Link { length, offset, twist, mass, center, inertia, motor: rotor * gear * gear }
}

/// The links in the frames of Corke and Armstrong-Hélouvry; the mass of the first does not matter, as it turns about an axis
/// through its origin.
#[rustfmt::skip]
const LINKS: [Link; N] = [
    link([0.0,    0.0],     UP,    0.0,  [0.0,     0.0,     0.0],    [0.0,     0.35,   0.0],     [200e-6, GEARS[0]]),
    link([0.4318, 0.0],     FLAT, 17.4,  [-0.3638, 0.006,   0.2275], [0.13,    0.524,  0.539],   [200e-6, GEARS[1]]),
    link([0.0203, 0.15005], DOWN,  4.8,  [-0.0203, -0.0141, 0.070],  [0.066,   0.086,  0.0125],  [200e-6, GEARS[2]]),
    link([0.0,    0.4318],  UP,    0.82, [0.0,     0.019,   0.0],    [1.8e-3,  1.3e-3, 1.8e-3],  [33e-6,  GEARS[3]]),
    link([0.0,    0.0],     DOWN,  0.34, [0.0,     0.0,     0.0],    [0.3e-3,  0.4e-3, 0.3e-3],  [33e-6,  GEARS[4]]),
    link([0.0,    0.0],     FLAT,  0.09, [0.0,     0.0,     0.032],  [0.15e-3, 0.15e-3, 0.04e-3], [33e-6, GEARS[5]]),
];

impl Default for Puma560 {
    fn default() -> Self {
        Self { holding: Pose::new(&LINKS, GOAL).torques([0.0; N], [0.0; N], GRAVITY) }
    }
}

/// ds/dt under torques at the joints, friction included.
fn derivative(state: [f64; 2 * N], torques: [f64; N]) -> [f64; 2 * N] {
    let (angles, velocities): ([f64; N], [f64; N]) = (array(&state), array(&state[N..]));
    let net = std::array::from_fn(|i| torques[i] - FRICTION[i] * velocities[i]);
    let accelerations = Pose::new(&LINKS, angles).accelerations(velocities, net, GRAVITY);
    std::array::from_fn(|i| if i < N { velocities[i] } else { accelerations[i - N] })
}

impl Environment for Puma560 {
    fn name(&self) -> &'static str {
        "puma560"
    }

    fn discount(&self) -> f64 {
        0.9
    }

    fn action_limits(&self) -> &[f64] {
        &LIMITS
    }

    fn start(&self) -> Normal<'_> {
        Normal { center: &[0.0; 2 * N], deviation: &const { halves(0.1, 0.0) } }
    }

    fn sampling(&self) -> Normal<'_> {
        Normal { center: &GOAL_STATE, deviation: &[0.5; 2 * N] }
    }

    fn noise(&self) -> &[f64] {
        &NOISE
    }

    fn policy(&self, state: &[f64], action: &mut [f64]) {
        for (i, a) in action.iter_mut().enumerate() {
            *a = self.holding[i] - STIFFNESS[i] * (state[i] - GOAL[i]) - DAMPING[i] * state[N + i];
        }
    }

    fn reward(&self, state: &[f64], _action: &[f64]) -> f64 {
        -0.5 * state.iter().zip(GOAL_STATE).map(|(s, goal)| (s - goal).powi(2)).sum::<f64>()
    }

    fn mean(&self, state: &[f64], action: &[f64], next: &mut [f64]) {
        let torques = array(action);
        next.copy_from_slice(&runge_kutta(array(state), STEP, PARTS, |s| derivative(s, torques)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    /// Nominal poses of the literature: zero, ready, stretched, over a table; and some without a name.
    fn poses() -> Vec<[f64; N]> {
        use std::f64::consts::{FRAC_PI_2, PI};
        let mut poses = vec![
            [0.0; N],
            [0.0, FRAC_PI_2, -FRAC_PI_2, 0.0, 0.0, 0.0],
            [0.0, 0.0, -FRAC_PI_2, 0.0, 0.0, 0.0],
            [0.0, FRAC_PI_4, PI, 0.0, FRAC_PI_4, 0.0],
            GOAL,
        ];
        let states = Puma560::default().sample(20, Seed(3)).unwrap();
        poses.extend(states.chunks(2 * N).map(|state| array::<N>(state).map(|q| 2.0 * q)));
        poses
    }

    /// U(q) = Σ m g z of the centers of mass, by products of homogeneous transformations.
    fn potential(angles: [f64; N]) -> f64 {
        let mut frame = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
        let mut energy = 0.0;
        for (link, angle) in LINKS.iter().zip(angles) {
            let ((s, c), [tc, ts]) = (angle.sin_cos(), link.twist);
            let local = [
                [c, -s * tc, s * ts, link.length * c],
                [s, c * tc, -c * ts, link.length * s],
                [0.0, ts, tc, link.offset],
                [0.0, 0.0, 0.0, 1.0],
            ];
            frame =
                frame.map(|row| std::array::from_fn(|j| (0..4).map(|k| row[k] * local[k][j]).sum::<f64>()));
            let height = frame[2][3] + (0..3).map(|k| frame[2][k] * link.center[k]).sum::<f64>();
            energy += link.mass * GRAVITY * height;
        }
        energy
    }

    fn kinetic(angles: [f64; N], velocities: [f64; N]) -> f64 {
        let inertia = Pose::new(&LINKS, angles).inertia();
        let along = |row: [f64; N]| row.iter().zip(velocities).map(|(m, v)| m * v).sum::<f64>();
        0.5 * inertia.iter().zip(velocities).map(|(row, v)| v * along(*row)).sum::<f64>()
    }

    #[test]
    fn gravity_is_the_derivative_of_the_potential() {
        for pose in poses() {
            let load = Pose::new(&LINKS, pose).torques([0.0; N], [0.0; N], GRAVITY);
            for (i, load) in load.into_iter().enumerate() {
                let at = |h: f64| potential(std::array::from_fn(|j| pose[j] + if i == j { h } else { 0.0 }));
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((load - slope).abs() < 1e-7, "joint {i} at {pose:?}: {load} and {slope}");
            }
        }
    }

    /// Corke, *Robotics, Vision and Control* (2011), section 9.1: loads and inertia at the nominal pose over a table.
    #[test]
    fn published_loads_and_inertia() {
        let pose = Pose::new(&LINKS, poses()[3]);
        let load = pose.torques([0.0; N], [0.0; N], GRAVITY);
        for (found, published) in load.iter().zip([0.0, 31.6399, 6.0351, 0.0, 0.0283, 0.0]) {
            assert!((found - published).abs() < 6e-5, "{load:?}");
        }
        let diagonal: [f64; N] = std::array::from_fn(|i| pose.inertia()[i][i]);
        for (found, published) in diagonal.iter().zip([3.6594, 4.4137, 0.9378, 0.1925, 0.1713, 0.1941]) {
            assert!((found - published).abs() < 6e-5, "{diagonal:?}");
        }
    }

    #[test]
    fn inertia_is_symmetric_and_positive_definite() {
        for pose in poses() {
            let inertia = Pose::new(&LINKS, pose).inertia();
            for (i, row) in inertia.iter().enumerate() {
                for j in 0..i {
                    assert!((row[j] - inertia[j][i]).abs() < 1e-14);
                }
            }
            // Sylvester: pivots of an elimination are ratios of leading minors.
            let mut a = inertia;
            for k in 0..N {
                assert!(a[k][k] > 0.1, "pivot {k} at {pose:?}: {}", a[k][k]);
                let pivot = a[k];
                for row in &mut a[k + 1..] {
                    let factor = row[k] / pivot[k];
                    row.iter_mut().zip(pivot).for_each(|(r, p)| *r -= factor * p);
                }
            }
        }
    }

    /// Forward dynamics undo inverse dynamics.
    #[test]
    fn accelerations_and_torques_belong_together() {
        for (i, pose) in poses().into_iter().enumerate() {
            let velocities: [f64; N] = std::array::from_fn(|j| ((3 * i + j) as f64).sin());
            let accelerations: [f64; N] = std::array::from_fn(|j| 5.0 * ((i + 7 * j) as f64).cos());
            let pose = Pose::new(&LINKS, pose);
            let again =
                pose.accelerations(velocities, pose.torques(velocities, accelerations, GRAVITY), GRAVITY);
            for (found, expected) in again.iter().zip(accelerations) {
                assert!((found - expected).abs() < 1e-11, "{found} for {expected}");
            }
        }
    }

    /// Without friction and torques energy is kept, up to the error of an integrator of fourth order.
    #[test]
    fn energy_is_kept_without_friction_and_torques() {
        let fall = |s: [f64; 2 * N]| {
            let v: [f64; N] = array(&s[N..]);
            derivative(s, std::array::from_fn(|i| FRICTION[i] * v[i]))
        };
        let total = |s: [f64; 2 * N]| potential(array(&s)) + kinetic(array(&s), array(&s[N..]));
        for (i, pose) in poses().into_iter().take(5).enumerate() {
            let start: [f64; 2 * N] =
                std::array::from_fn(|j| if j < N { pose[j] } else { ((i + j) as f64).sin() });
            let drift = |parts| (total(runge_kutta(start, 1.0, parts, fall)) - total(start)).abs();
            let (coarse, fine) = (drift(100), drift(200));
            assert!(coarse < 1e-3, "{coarse} J");
            assert!(fine < coarse / 10.0 || fine < 1e-9, "{fine} J after {coarse} J");
        }
    }

    #[test]
    fn the_policy_brings_the_arm_to_the_goal() {
        let arm = Puma560::default();
        let mut state = [0.0; 2 * N];
        for _ in 0..200 {
            let (mut action, now) = ([0.0; N], state);
            super::super::act(&arm, &now, &mut action);
            arm.mean(&now, &action, &mut state);
        }
        assert!(arm.reward(&state, &[]) > -1e-6, "{state:?}");
    }

    /// The largest torques of any sign, held for ten seconds, neither break the integrator nor exceed what friction allows.
    #[test]
    fn the_largest_torques_leave_finite_states() {
        let arm = Puma560::default();
        for signs in 0..64 {
            let action = std::array::from_fn::<_, N, _>(|i| LIMITS[i] * f64::from(2 * (signs >> i & 1) - 1));
            let mut state = GOAL_STATE;
            for _ in 0..200 {
                let now = state;
                arm.mean(&now, &action, &mut state);
            }
            assert!(
                state.iter().all(|s| s.is_finite()) && state[N..].iter().all(|v| v.abs() < 200.0),
                "{state:?}"
            );
        }
    }
}
