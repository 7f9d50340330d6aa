//! Laws of all environments.

use super::*;
use crate::driver::quietly;

fn all() -> [Box<dyn Environment>; 3] {
    ["navigation", "cart_pole_swing_up", "puma560"].map(|name| named(name).unwrap())
}

fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

const SEED: Seed = Seed(11);

#[test]
fn names_and_shapes() {
    for (environment, (d, p)) in all().iter().zip([(2, 2), (4, 1), (12, 6)]) {
        assert_eq!((environment.state_columns(), environment.action_columns()), (d, p));
        assert!(NAMES.split(", ").any(|name| name == environment.name()));
        for law in [environment.start(), environment.sampling()] {
            assert_eq!((law.center.len(), law.deviation.len()), (d, d));
        }
        assert!(d <= MOST && p <= MOST);
    }
    let error = named("cartpole").err().unwrap().to_string();
    assert!(error.contains("\"cartpole\"") && error.contains("cart_pole_swing_up"), "{error}");
}

#[test]
fn the_same_bits_on_any_number_of_threads_and_others_for_another_seed() {
    for environment in &all() {
        let work = |seed| {
            let seen = environment.transitions(257, seed).unwrap();
            let more = environment.next_states(&seen.states, 3, seed).unwrap();
            let rollouts = Rollouts { rollouts: 3, steps: 4, discount: 0.9, seed };
            let values = quietly(|control| environment.values(&seen.states, &rollouts, control)).unwrap();
            (environment.reset(257, seed, 0).unwrap(), seen, more, values)
        };
        let one = with_threads(1, || work(SEED));
        assert_eq!(one, with_threads(3, || work(SEED)));
        let other = work(Seed(12));
        assert!(one.0 != other.0 && one.1.states != other.1.states && one.3 != other.3);
        assert_ne!(one.0, environment.reset(257, SEED, 1).unwrap());
    }
}

#[test]
fn a_batch_is_its_rows_one_by_one() {
    for environment in &all() {
        let (d, p) = (environment.state_columns(), environment.action_columns());
        let seen = environment.transitions(40, SEED).unwrap();
        let step = environment.step(&seen.states, &seen.actions, SEED, 5).unwrap();
        for i in 0..40 {
            let (state, action) = (&seen.states[i * d..][..d], &seen.actions[i * p..][..p]);
            assert_eq!(environment.actions(state).unwrap(), action);
            assert_eq!(environment.reward(state, action), step.rewards[i]);
            let mut next = vec![0.0; d];
            environment.mean(state, action, &mut next);
            let address = Address::new(SEED, Stream::Transition, BlockIndex(5), i as u32);
            disturb(&**environment, address, &mut next);
            assert_eq!(next, step.next_states[i * d..][..d]);
        }
    }
}

/// The mean of n draws lies within 5σ/√n of its own, their variance within 5σ²√(2/n): 1 in 10⁶ draws does not.
fn obeys(samples: &[f64], center: &[f64], deviation: &[f64], what: &str) {
    let d = center.len();
    let n = (samples.len() / d) as f64;
    for j in 0..d {
        let column = || samples.iter().skip(j).step_by(d);
        let mean = column().sum::<f64>() / n;
        let variance = column().map(|x| (x - center[j]).powi(2)).sum::<f64>() / n;
        let sigma = deviation[j];
        assert!((mean - center[j]).abs() <= 5.0 * sigma / n.sqrt(), "{what} {j}: mean {mean}");
        let bound = 5.0 * sigma * sigma * (2.0 / n).sqrt();
        assert!((variance - sigma * sigma).abs() <= bound, "{what} {j}: variance {variance}");
    }
}

#[test]
fn states_and_next_states_follow_their_laws() {
    for environment in &all() {
        let (start, sampling) = (environment.start(), environment.sampling());
        obeys(&environment.reset(20_000, SEED, 2).unwrap(), start.center, start.deviation, "first");
        obeys(&environment.sample(20_000, SEED).unwrap(), sampling.center, sampling.deviation, "sampled");
        let state = environment.sample(1, Seed(5)).unwrap();
        let mut mean = vec![0.0; state.len()];
        environment.mean(&state, &environment.actions(&state).unwrap(), &mut mean);
        let next = environment.next_states(&state, 20_000, SEED).unwrap();
        obeys(&next, &mean, environment.noise(), environment.name());
    }
}

/// The numbers of the text: variances 0.2 and 0.1, a = −0.2 s R(s), R = exp(−100 ‖s‖²).
#[test]
fn navigation_is_that_of_the_text() {
    let s = [0.06, -0.08];
    let reward = (-1.0_f64).exp();
    let action = Navigation.actions(&s).unwrap();
    assert!((Navigation.reward(&s, &action) - reward).abs() < 1e-15);
    assert!((action[0] + 0.012 * reward).abs() < 1e-15 && (action[1] - 0.016 * reward).abs() < 1e-15);
    let next = Navigation.next_states(&s, 40_000, SEED).unwrap();
    let mean = [s[0] + action[0], s[1] + action[1]];
    obeys(&next, &mean, &[0.1_f64.sqrt(); 2], "s'");
    obeys(&Navigation.sample(40_000, SEED).unwrap(), &[0.0; 2], &[0.2_f64.sqrt(); 2], "s");
}

#[test]
fn draws_of_different_methods_are_independent() {
    for environment in &all() {
        let seen = environment.transitions(1, SEED).unwrap();
        let next = environment.next_states(&seen.states, 1, SEED).unwrap();
        assert_ne!(seen.step.next_states, next);
        assert_ne!(environment.reset(1, SEED, 0).unwrap(), seen.states);
    }
}

#[test]
fn actions_are_cut_off_at_their_limits() {
    for environment in &all() {
        let limits = environment.action_limits().to_vec();
        let state = environment.sample(1, SEED).unwrap();
        let beyond: Vec<f64> = limits.iter().map(|limit| 1e3 * limit).collect();
        let step = |actions: &[f64]| environment.step(&state, actions, SEED, 0).unwrap();
        assert_eq!(step(&beyond), step(&limits));
        let within: Vec<f64> = limits.iter().map(|limit| 0.5 * limit).collect();
        assert_ne!(step(&within), step(&limits));
        let far: Vec<f64> = state.iter().map(|s| 1e3 * s).collect();
        let taken = environment.actions(&far).unwrap();
        assert!(taken.iter().zip(&limits).all(|(a, limit)| a.abs() <= *limit));
    }
}

/// s' = s + 1 + ε from s, a reward of 1 a step, terminal beyond 10: a task with an end whose values are known.
struct Walk;

impl Environment for Walk {
    fn name(&self) -> &'static str {
        "walk"
    }
    fn discount(&self) -> f64 {
        0.5
    }
    fn action_limits(&self) -> &[f64] {
        &[1.0]
    }
    fn start(&self) -> Normal<'_> {
        Normal { center: &[0.0], deviation: &[0.0] }
    }
    fn sampling(&self) -> Normal<'_> {
        self.start()
    }
    fn noise(&self) -> &[f64] {
        &[0.01]
    }
    fn policy(&self, _state: &[f64], action: &mut [f64]) {
        action[0] = 1.0;
    }
    fn reward(&self, _state: &[f64], _action: &[f64]) -> f64 {
        1.0
    }
    fn mean(&self, state: &[f64], action: &[f64], next: &mut [f64]) {
        next[0] = state[0] + action[0];
    }
    fn terminal(&self, state: &[f64]) -> bool {
        state[0] > 10.0
    }
}

#[test]
fn returns_end_where_a_state_is_terminal_and_at_the_last_step() {
    let rollouts = |steps| Rollouts { rollouts: 2, steps, discount: 0.5, seed: SEED };
    let values =
        |state, steps| quietly(|control| Walk.values(&[state], &rollouts(steps), control)).unwrap().values[0];
    // From 7.5 three steps lead beyond 10: 1 + ½ + ¼. Nothing is earned in a terminal state.
    assert_eq!(values(7.5, 50), 1.75);
    assert_eq!(values(7.5, 2), 1.5);
    assert_eq!(values(10.5, 50), 0.0);
    let step = Walk.step(&[7.5, 9.5], &[1.0, 1.0], SEED, 0).unwrap();
    assert_eq!(step.terminated, [false, true]);
}

/// V = R + γ E[V(s')] holds for simulated values within their standard errors, and those shrink like 1/√rollouts.
#[test]
fn values_solve_the_equation_of_bellman() {
    let states = Navigation.sample(30, SEED).unwrap();
    let states: Vec<f64> = states.iter().map(|s| 0.5 * s).collect();
    let values = |states: &[f64], rollouts, steps, seed| {
        let rollouts = Rollouts { rollouts, steps, discount: 0.9, seed };
        quietly(|control| Navigation.values(states, &rollouts, control)).unwrap()
    };
    let left = values(&states, 4_000, 60, SEED);
    // One rollout or more of each of 2,000 next states, one step less.
    let next = Navigation.next_states(&states, 2_000, Seed(3)).unwrap();
    let after = values(&next, 2, 59, Seed(4));
    for (i, state) in states.chunks(2).enumerate() {
        let ahead = &after.values[2_000 * i..][..2_000];
        let mean = ahead.iter().sum::<f64>() / 2_000.0;
        let variance = ahead.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 2_000.0;
        let right = Navigation.reward(state, &[]) + 0.9 * mean;
        let error = (left.standard_errors[i].powi(2) + 0.81 * variance / 2_000.0).sqrt();
        assert!((left.values[i] - right).abs() < 5.0 * error, "{} and {right}, ±{error}", left.values[i]);
    }
    let total = |e: &Estimate| e.standard_errors.iter().sum::<f64>();
    let ratio = total(&values(&states, 250, 60, Seed(9))) / total(&left);
    assert!((3.5..4.5).contains(&ratio), "{ratio}");
}

#[test]
fn bad_input_is_refused() {
    let says = |error: Error, words: &str| assert!(error.to_string().contains(words), "{error}");
    says(Navigation.actions(&[1.0, 2.0, 3.0]).unwrap_err(), "states has 3 numbers, expected a multiple of 2");
    says(Navigation.step(&[1.0, 2.0], &[0.1], SEED, 0).unwrap_err(), "actions has 1 numbers");
    says(Navigation.step(&[1.0, 2.0], &[0.1; 4], SEED, 0).unwrap_err(), "actions has 2 rows, expected 1");
    says(
        Navigation.step(&[1.0, 2.0], &[0.1, f64::NAN], SEED, 0).unwrap_err(),
        "actions contains NaN at row 0",
    );
    says(Navigation.step(&[1.0, f64::INFINITY], &[0.1; 2], SEED, 0).unwrap_err(), "states contains inf");
    says(Navigation.next_states(&[0.0, 0.0], 0, SEED).unwrap_err(), "the number of samples = 0");
    says(
        CartPoleSwingUp.step(&[0.0, 0.0, 1e300, 1.0], &[0.0], SEED, 0).unwrap_err(),
        "the next states contains",
    );
    let rollouts = Rollouts { rollouts: 2, steps: 3, discount: 0.9, seed: SEED };
    let values = |rollouts: Rollouts| {
        quietly(|control| Navigation.values(&[0.0, 0.0], &rollouts, control)).unwrap_err()
    };
    says(values(Rollouts { rollouts: 1, ..rollouts }), "rollouts = 1");
    says(values(Rollouts { steps: 0, ..rollouts }), "steps = 0");
    says(values(Rollouts { discount: 1.5, ..rollouts }), "discount = 1.5");
    says(values(Rollouts { discount: f64::NAN, ..rollouts }), "discount = NaN");
    says(steps_until(1.0, 1e-3).unwrap_err(), "discount = 1");
    let stopped = Navigation.values(&[0.0, 0.0], &rollouts, &mut Control::new(&mut || true, &mut |_| {}));
    assert!(matches!(stopped, Err(Error::Cancelled { .. })));
}

#[test]
fn no_rows_are_no_rows() {
    assert!(Navigation.transitions(0, SEED).unwrap().states.is_empty());
    assert!(Navigation.next_states(&[], 3, SEED).unwrap().is_empty());
    let error = Navigation.sample(usize::MAX, SEED).unwrap_err().to_string();
    assert!(error.contains("the number of rows"), "{error}");
}
