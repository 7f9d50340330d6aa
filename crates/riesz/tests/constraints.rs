//! Learning under constraints: the textbook recursion, rates, feasibility, units, files, errors.

#![allow(clippy::unwrap_used, clippy::panic)]

use riesz::constraint::{
    Chance, Constraint, ConstraintSpec, Cvar, Generator, Mean, Quantity, QuantitySpec, UserQuantity,
};
use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::functions::{Bandwidth, ColumnScaling, Memory, OnlineMachine, OnlineOptions, Task, Training};
use riesz::kernel::{ClosedForm, KernelSpec, Scaling};
use riesz::loss::LossSpec;
use riesz::model::Stored;
use riesz::operator::Evaluation;
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::solver::{
    FunctionalSgdConfig, PrimalDualConfig, PrimalDualState, Samples, Schedule, SgdState, Solver,
};
use riesz::space::{Budget, Dictionary, Function, Parsimony};
use riesz::{Error, Result};

/// Two uniform numbers and a normal one.
fn draw(seed: u64, i: usize) -> ([f64; 2], f64) {
    let words = Address::new(Seed(seed), Stream::Synthetic, BlockIndex(0), i as u32).words(0);
    ([uniform_open(words[0]), uniform_open(words[1])], normal_pair(words[2], words[3])[0])
}

fn dictionary(budget: Budget) -> Dictionary {
    let kernel = ClosedForm::new(KernelSpec::Gaussian, 0.5, Scaling::identity(1)).unwrap();
    Dictionary::new(kernel, vec![0.0], budget)
}

/// g(u, y) = u − c.
struct Above(f64);

impl Quantity for Above {
    fn value(&self, u: &[f32], _: &[f32], slope: &mut [f32]) -> Result<f64> {
        slope[0] = 1.0;
        Ok(f64::from(u[0]) - self.0)
    }
}

/// f, z, t, μ of the recursion as published, by plain sums in double precision, for the square loss under CVaR₀.₈ ≤ 0.4 and
/// P(u > 0.6) ≤ 0.3 with the exponential generator.
struct Textbook {
    atoms: Vec<(f64, f64)>,
    z: f64,
    t: f64,
    multipliers: [f64; 2],
}

impl Textbook {
    fn value(&self, x: f64) -> f64 {
        self.atoms.iter().map(|(a, w)| w * (-(x - a).powi(2) / (2.0 * 0.25)).exp()).sum()
    }

    fn step(&mut self, x: f64, y: f64, eta: f64, ridge: f64, delta: f64) {
        let u = self.value(x);
        let (loss, slope) = (0.5 * (u - y).powi(2), u - y);
        let tail = if loss > self.z { 5.0 } else { 0.0 };
        let s = (u - 0.6) / self.t;
        let g = [self.z + (loss - self.z).max(0.0) * 5.0 - 0.4, self.t * s.exp() - 0.3 * self.t];
        let [m, n] = self.multipliers;
        self.atoms.iter_mut().for_each(|(_, w)| *w *= 1.0 - eta * ridge);
        self.atoms.push((x, -eta * (slope * (1.0 + m * tail) + n * s.exp())));
        self.z -= eta * m * (1.0 - tail);
        self.t = (self.t - eta * n * (s.exp() * (1.0 - s) - 0.3)).max(1e-3);
        for (multiplier, g) in self.multipliers.iter_mut().zip(g) {
            *multiplier = ((1.0 - eta * eta * delta) * *multiplier + eta * g).max(0.0);
        }
    }
}

#[test]
fn the_published_recursion_is_that_of_the_text() {
    // At larger steps the recursion diverges, here as there.
    let (eta, ridge, delta) = (0.01, 0.01, 0.5);
    let loss = LossSpec::Square.build(1).unwrap();
    let constraints: Vec<Box<dyn Constraint>> = vec![
        Box::new(Cvar::new(LossSpec::Square.build(1).unwrap(), 0.8, 0.4).unwrap()),
        Box::new(Chance::new(Above(0.6), 0.3, Generator::Exponential).unwrap()),
    ];
    let config = PrimalDualConfig::published(Schedule::Constant { step: eta }, ridge, delta);
    let solver = config.build(Evaluation, &*loss, &constraints).unwrap();
    let mut state = PrimalDualState::new(dictionary(Budget::Unlimited), &constraints, None);
    let mut text = Textbook { atoms: Vec::new(), z: 0.4, t: 1.0, multipliers: [0.0; 2] };
    for i in 0..300 {
        let ([x, _], noise) = draw(1, i);
        let (x, y) = (x as f32, (1.0 + 0.5 * noise) as f32);
        let rows = Rows::single(std::slice::from_ref(&x), 1).unwrap();
        solver.step(&mut state, Samples { batch: rows, targets: &[y], weights: &[1.0] }).unwrap();
        text.step(f64::from(x), f64::from(y), eta, ridge, delta);
    }
    assert!(text.multipliers.iter().all(|m| *m > 0.1), "{:?}: no test", text.multipliers);
    for (dual, (multiplier, auxiliary)) in
        state.duals.iter().zip(text.multipliers.into_iter().zip([text.z, text.t]))
    {
        assert!((dual.multiplier / multiplier - 1.0).abs() < 1e-4, "{dual:?} {multiplier}");
        assert!((dual.auxiliary - auxiliary).abs() < 1e-4, "{dual:?} {auxiliary}");
    }
    for i in 0..10 {
        let (x, mut value) = (i as f32 / 10.0, [0.0]);
        state.f.evaluate(Rows::single(&[x], 1).unwrap(), &mut value).unwrap();
        let expected = text.value(f64::from(x));
        assert!((f64::from(value[0]) - expected).abs() < 1e-4, "{value:?} {expected}");
    }
}

/// Without constraints it is functional SGD, to the bit.
#[test]
fn without_constraints_it_is_functional_sgd() {
    let schedule = Schedule::InverseRoot { step: 0.5, delay: 1.0, horizon: 50.0 };
    for loss in [LossSpec::Square, LossSpec::Absolute] {
        let loss = loss.build(1).unwrap();
        let budget = Budget::Komp { error: Parsimony::Square(0.5), most: 40 };
        let plain = FunctionalSgdConfig { schedule, ridge: 0.01 }.build(Evaluation, &*loss).unwrap();
        let config = PrimalDualConfig::published(schedule, 0.01, 0.3);
        let saddle = config.build(Evaluation, &*loss, &[]).unwrap();
        let mut one = SgdState::new(dictionary(budget));
        let mut two = PrimalDualState::new(dictionary(budget), &[], None);
        for i in 0..200 {
            let ([x, w], noise) = draw(2, i);
            let (x, y, w) = ([x as f32], [noise as f32], [w as f32]);
            let samples = || Samples { batch: Rows::single(&x, 1).unwrap(), targets: &y, weights: &w };
            plain.step(&mut one, samples()).unwrap();
            saddle.step(&mut two, samples()).unwrap();
        }
        assert_eq!((one.f.weights(), one.f.points()), (two.f.weights(), two.f.points()));
        assert!(one.f.len() < 40, "{} atoms: KOMP took no part", one.f.len());
    }
}

// ---- rates -------------------------------------------------------------------------------------------------------------

/// Five points, targets m_i plus noise, the mean of f at most c: min ½Σ(f_i − m_i)²/5 + (λ/2)‖f‖² subject to Σf_i/5 ≤ c.
const PLACES: [f64; 5] = [0.0, 0.3, 0.6, 0.9, 1.2];
const MEANS: [f64; 5] = [1.0, 0.4, -0.2, 0.8, 1.5];
const MOST: f64 = 0.3;
const RIDGE: f64 = 0.01;

fn gram() -> [[f64; 5]; 5] {
    PLACES.map(|x| PLACES.map(|a| (-(x - a) * (x - a) / (2.0 * 0.25)).exp()))
}

fn times(k: &[[f64; 5]; 5], w: &[f64; 5]) -> [f64; 5] {
    k.map(|row| row.iter().zip(w).map(|(k, w)| k * w).sum())
}

/// ½Σ(f_i − m_i)²/5 + (λ/2)‖f‖² and Σf_i/5 − c of f = Σ w_i k(x_i, ·).
fn objective(w: &[f64; 5]) -> (f64, f64) {
    let f = times(&gram(), w);
    let fit: f64 = f.iter().zip(&MEANS).map(|(f, m)| (f - m).powi(2)).sum::<f64>() / 10.0;
    let norm: f64 = f.iter().zip(w).map(|(f, w)| f * w).sum();
    (fit + 0.5 * RIDGE * norm, f.iter().sum::<f64>() / 5.0 - MOST)
}

/// The optimum: K((K/5 + λ)w − m/5 + μ/5) = 0, with the μ at which the constraint is tight, by bisection; the system by
/// Jacobi-preconditioned Richardson steps, which converge since K/5 + λ is positive definite.
fn optimum() -> (f64, f64) {
    let solve = |multiplier: f64| {
        let mut w = [0.0; 5];
        for _ in 0..200_000 {
            let f = times(&gram(), &w);
            for i in 0..5 {
                w[i] -= 0.5 * ((f[i] - MEANS[i] + multiplier) / 5.0 + RIDGE * w[i]);
            }
        }
        w
    };
    let (mut low, mut high) = (0.0, 4.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if objective(&solve(middle)).1 > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (objective(&solve(high)).0, high)
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<_> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (x, y) = (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let covariance: f64 = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    covariance / logs.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

/// Accumulated regret and violation of a run of T steps with η = 1/√T, ε = η², as published.
fn accumulated(steps: usize, seed: u64, best: f64) -> (f64, f64) {
    let eta = 1.0 / (steps as f64).sqrt();
    let loss = LossSpec::Square.build(1).unwrap();
    let constraints: Vec<Box<dyn Constraint>> = vec![Box::new(Mean(Above(MOST)))];
    let config = PrimalDualConfig::published(Schedule::Constant { step: eta }, RIDGE, 0.1);
    let solver = config.build(Evaluation, &*loss, &constraints).unwrap();
    let space = dictionary(Budget::Komp { error: Parsimony::Square(1.0), most: usize::MAX });
    let mut state = PrimalDualState::new(space, &constraints, None);
    let (mut regret, mut violation) = (0.0, 0.0);
    for i in 0..steps {
        let mut w = [0.0; 5];
        for (x, weight) in state.f.points().iter().zip(state.f.weights()) {
            let place = PLACES.iter().position(|p| (p / 0.5 - f64::from(*x)).abs() < 1e-5).unwrap();
            w[place] += weight;
        }
        let (value, above) = objective(&w);
        regret += value - best;
        violation += above;
        let ([u, _], noise) = draw(seed, i);
        let place = ((5.0 * u) as usize).min(4);
        let (x, y) = ([PLACES[place] as f32], [(MEANS[place] + 0.3 * noise) as f32]);
        let rows = Rows::single(&x, 1).unwrap();
        solver.step(&mut state, Samples { batch: rows, targets: &y, weights: &[1.0] }).unwrap();
    }
    (regret, violation)
}

/// η = 1/√T: regret O(√T), accumulated violation O(T^¾); the mean of six streams.
#[test]
fn regret_and_violation_grow_as_the_theorem_says() {
    let (best, multiplier) = optimum();
    assert!(multiplier > 0.1, "{multiplier}: the constraint is not tight");
    let mean = |steps: usize| {
        let runs: Vec<_> = (0..6).map(|seed| accumulated(steps, seed, best)).collect();
        let of = |part: fn(&(f64, f64)) -> f64| runs.iter().map(part).sum::<f64>() / 6.0;
        (of(|run| run.0), of(|run| run.1))
    };
    let times = [1_024, 2_048, 4_096, 8_192, 16_384];
    let runs: Vec<_> = times.iter().map(|&t| (t as f64, mean(t))).collect();
    let regret = slope(&runs.iter().map(|(t, run)| (*t, run.0)).collect::<Vec<_>>());
    let violation = slope(&runs.iter().map(|(t, run)| (*t, run.1)).collect::<Vec<_>>());
    assert!(runs.iter().all(|(_, run)| run.0 > 0.0 && run.1 > 0.0), "{runs:?}");
    assert!(regret <= 0.6, "regret T^{regret:.2}: {runs:?}");
    assert!(violation <= 0.85, "violation T^{violation:.2}: {runs:?}");
}

// ---- machines ----------------------------------------------------------------------------------------------------------

/// y = sin 3x + noise whose size grows with x.
fn stream(n: usize) -> (Vec<f32>, Vec<f32>) {
    let row = |i: usize| {
        let ([x, _], noise) = draw(9, i);
        let x = 2.0 * x - 1.0;
        (x as f32, ((3.0 * x).sin() + 0.3 * (1.0 + x) * noise) as f32)
    };
    (0..n).map(row).unzip()
}

fn options(constraints: Vec<ConstraintSpec>) -> OnlineOptions {
    OnlineOptions {
        bandwidth: Bandwidth::Value(0.3),
        scaling: ColumnScaling::None,
        ridge: 1e-4,
        learning_rate: Some(0.05),
        memory: Memory::Dictionary(Budget::Komp { error: Parsimony::Square(2.0), most: 500 }),
        constraints,
        ..OnlineOptions::new(Task::Regression(1), Seed(1))
    }
}

fn learn(options: &OnlineOptions, x: &[f32], y: &[f32]) -> Result<OnlineMachine> {
    let data = Training { rows: Rows::single(x, 1)?, targets: y, weights: None };
    quietly(|control| OnlineMachine::begin(options, &data, control))
}

/// E f(x) ≤ ¼E y, an asymmetric wish of a user.
fn user() -> ConstraintSpec {
    let function = |u: &[f32], _: &[f32], slope: &mut [f32]| {
        slope[0] = 1.0;
        Ok(f64::from(u[0]) + 0.2)
    };
    ConstraintSpec::Mean { quantity: QuantitySpec::User(UserQuantity::new("low", function)) }
}

/// A user's constraint holds at the end, several at once are accepted, and all that changes is that it holds.
#[test]
fn constraints_hold_and_the_rest_is_learnt() {
    let (x, y) = stream(20_000);
    let mean = |machine: &OnlineMachine| {
        let values = machine.predict(Rows::single(&x, 1).unwrap()).unwrap();
        values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64
    };
    let free = learn(&options(Vec::new()), &x, &y).unwrap();
    assert!(mean(&free) > -0.1, "{}", mean(&free));
    let chance = ConstraintSpec::Chance {
        quantity: QuantitySpec::LossAbove { threshold: 3.0, loss: None },
        probability: 0.2,
        generator: Generator::Hinge,
    };
    let bound = learn(&options(vec![user(), chance]), &x, &y).unwrap();
    assert!((mean(&bound) + 0.2).abs() < 0.05, "{}", mean(&bound));
    let [low, rare] = bound.constraints().unwrap()[..] else { panic!("two constraints") };
    assert!(low.multiplier > 0.05 && rare.multiplier < 0.05, "{low:?} {rare:?}");
}

/// A bound in the units of the targets: a thousand times the targets and a million times the bound on their squares is the
/// same machine.
#[test]
fn bounds_are_in_the_units_of_the_targets() {
    let (x, y) = stream(3_000);
    let at = |factor: f32, bound: f64| {
        let y: Vec<f32> = y.iter().map(|y| factor * y).collect();
        let cvar = ConstraintSpec::Cvar { level: 0.9, bound, loss: None };
        let machine = learn(&options(vec![cvar]), &x, &y).unwrap();
        let values = machine.predict(Rows::single(&x[..50], 1).unwrap()).unwrap();
        (values, machine.constraints().unwrap()[0])
    };
    let ((small, one), (large, two)) = (at(1.0, 0.3), at(1_024.0, 0.3 * 1_048_576.0));
    assert!(one.multiplier > 0.0, "{one:?}: no test");
    for (a, b) in small.iter().zip(&large) {
        assert!((a - b / 1_024.0).abs() < 1e-3, "{a} {b}");
    }
    assert!(
        (one.value - two.value / 1_048_576.0).abs() < 1e-3 && (one.multiplier - two.multiplier).abs() < 1e-3
    );
}

/// Files in mid-stream change no bit, with the inverse Gram matrix and the multipliers in them; functions are given again.
#[test]
fn a_file_in_the_middle_changes_nothing() {
    let (x, y) = stream(3_000);
    let cvar = ConstraintSpec::Cvar { level: 0.9, bound: 0.3, loss: None };
    for constraints in [vec![], vec![cvar], vec![user()]] {
        let options = options(constraints.clone());
        let first = learn(&options, &x[..1_500], &y[..1_500]).unwrap();
        let mut again = OnlineMachine::from_bytes(&first.to_bytes().unwrap()).unwrap();
        let mut straight = first.clone();
        let rest =
            Training { rows: Rows::single(&x[1_500..], 1).unwrap(), targets: &y[1_500..], weights: None };
        if constraints == [user()] {
            let error = quietly(|control| again.learn(&rest, control)).unwrap_err();
            assert!(matches!(error, Error::ConstraintMissing { .. }), "{error}");
            again = OnlineMachine::from_bytes(&first.to_bytes().unwrap()).unwrap();
            again.set_constraints(constraints).unwrap();
        }
        for machine in [&mut again, &mut straight] {
            quietly(|control| machine.learn(&rest, control)).unwrap();
        }
        assert_eq!(again.to_bytes().unwrap(), straight.to_bytes().unwrap());
    }
}

/// A row of weight two is one step twice as long, with constraints and without.
#[test]
fn weights_are_the_lengths_of_steps() {
    let (x, y) = stream(600);
    let cvar = ConstraintSpec::Cvar { level: 0.9, bound: 0.3, loss: None };
    for constraints in [vec![], vec![cvar]] {
        let at = |rate: f64, weight: f32| {
            let weights = vec![weight; x.len()];
            let data = Training { rows: Rows::single(&x, 1).unwrap(), targets: &y, weights: Some(&weights) };
            let options = OnlineOptions { learning_rate: Some(rate), ..options(constraints.clone()) };
            let machine = quietly(|control| OnlineMachine::begin(&options, &data, control)).unwrap();
            machine.predict(Rows::single(&x, 1).unwrap()).unwrap()
        };
        assert_eq!(at(0.0625, 2.0), at(0.125, 1.0));
        assert_ne!(at(0.0625, 2.0), at(0.0625, 1.0));
    }
}

/// A bound that no f can keep ends with an error that says so; settings outside their domain are refused by name.
#[test]
fn what_cannot_be_met_is_said() {
    let (x, y) = stream(20_000);
    let impossible = ConstraintSpec::Cvar { level: 0.9, bound: 1e-3, loss: None };
    let low = OnlineOptions { multiplier_limit: 2.0, ..options(vec![impossible.clone()]) };
    let error = learn(&low, &x, &y).unwrap_err();
    assert!(matches!(error, Error::Multiplier { constraint: 1, .. }), "{error}");
    assert!(error.to_string().contains("raise the bound"), "{error}");
    let message = |change: &dyn Fn(&mut OnlineOptions)| {
        let mut options = options(vec![impossible.clone()]);
        change(&mut options);
        learn(&options, &x[..50], &y[..50]).unwrap_err().to_string()
    };
    assert!(message(&|o| o.learning_rate = Some(0.0)).contains("learning_rate"));
    assert!(message(&|o| o.penalty = Some(-1.0)).contains("penalty"));
    assert!(message(&|o| o.multiplier_limit = 0.0).contains("multiplier_limit"));
    let negative = Budget::Komp { error: Parsimony::Share(-1.0), most: 5 };
    assert!(message(&|o| o.memory = Memory::Dictionary(negative)).contains("parsimony"));
    let other = ConstraintSpec::Cvar { level: 0.9, bound: 1.0, loss: Some(LossSpec::Hinge) };
    assert!(message(&|o| o.constraints = vec![other.clone()]).contains("hinge"));
    let level = ConstraintSpec::Cvar { level: 1.5, bound: 1.0, loss: None };
    assert!(message(&|o| o.constraints = vec![level.clone()]).contains("level"));
    let bad = UserQuantity::new("bad", |_: &[f32], _: &[f32], _: &mut [f32]| Ok(f64::NAN));
    let mean = ConstraintSpec::Mean { quantity: QuantitySpec::User(bad) };
    assert!(message(&|o| o.constraints = vec![mean.clone()]).contains("bad"));
}

/// The penalty method has the multiplier it was given, whether the constraint holds or not.
#[test]
fn a_penalty_stays_as_it_is() {
    let (x, y) = stream(2_000);
    let cvar = ConstraintSpec::Cvar { level: 0.9, bound: 0.3, loss: None };
    let machine = learn(&OnlineOptions { penalty: Some(0.25), ..options(vec![cvar]) }, &x, &y).unwrap();
    assert_eq!(machine.constraints().unwrap()[0].multiplier, 0.25);
}
