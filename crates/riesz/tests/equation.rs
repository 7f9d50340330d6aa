//! min E J((T f)(s)) + (ν/2)‖f‖²: one step for every space, operator and loss, against a textbook in double precision.

#![allow(clippy::unwrap_used, clippy::panic)]

use riesz::compute::{features, Device};
use riesz::data::Rows;
use riesz::driver::{quietly, run, Control, Ended, Minibatches, Monitor, Phase, Progress};
use riesz::kernel::{ClosedForm, FeatureMap, KernelSpec, Scaling};
use riesz::loss::{Loss, LossSpec, Square};
use riesz::operator::{
    adjoint, apply, Bellman, Deterministic, Discount, Evaluation, Exact, Operator, Transitions,
};
use riesz::random::{BlockIndex, Seed};
use riesz::solver::{FunctionalSgdConfig, Samples, Schedule, SgdInfo, SgdState, Solver};
use riesz::space::{
    Averaged, Averaging, Budget, Dictionary, FeatureExpansion, FixedFeatures, Function, Network,
    NetworkConfig, NetworkParts, Nonlinearity, Optimiser, Space, Terms,
};
use riesz::Error;
use std::time::Duration;

/// States and next states, six of each, in two columns.
const POINTS: usize = 12;
const SAMPLES: usize = 6;
const BLOCK: usize = 64;
const BLOCKS: usize = 3;
const WEIGHTS: [f32; SAMPLES] = [1.0, 2.0, 0.0, 0.5, 1.0, 0.25];
const TERMINAL: [bool; SAMPLES] = [false, true, false, false, true, false];
const DISCOUNT: f64 = 0.75;

fn points() -> Vec<f32> {
    (0..2 * POINTS).map(|i| ((i * 37 % 101) as f32 / 50.0 - 1.0) * 1.3).collect()
}

fn map() -> FeatureMap {
    FeatureMap::new(KernelSpec::Gaussian, 0.9, BLOCK, Seed(3), Scaling::identity(2)).unwrap()
}

fn closed_form() -> ClosedForm {
    ClosedForm::new(KernelSpec::Gaussian, 0.9, Scaling::identity(2)).unwrap()
}

/// (1/m) Φ Φᵀ of one block at all points.
fn block_kernel(b: u64) -> Vec<f64> {
    let x = points();
    let mut phi = vec![0.0; POINTS * BLOCK];
    features(Device::default(), &map().draw(BlockIndex(b)).unwrap(), Rows::single(&x, 2).unwrap(), &mut phi)
        .unwrap();
    let dot = |i: usize, j: usize| -> f64 {
        (0..BLOCK).map(|k| f64::from(phi[i * BLOCK + k]) * f64::from(phi[j * BLOCK + k])).sum()
    };
    (0..POINTS * POINTS).map(|i| dot(i / POINTS, i % POINTS) / BLOCK as f64).collect()
}

fn mean_kernel(blocks: u64) -> Vec<f64> {
    let all: Vec<_> = (0..blocks).map(block_kernel).collect();
    (0..POINTS * POINTS).map(|i| all.iter().map(|k| k[i]).sum::<f64>() / blocks as f64).collect()
}

fn exact_kernel() -> Vec<f64> {
    let x = points();
    let distance = |i: usize, j: usize| -> f64 {
        (0..2).map(|k| (f64::from(x[2 * i + k]) - f64::from(x[2 * j + k])).powi(2)).sum()
    };
    (0..POINTS * POINTS).map(|i| (-distance(i / POINTS, i % POINTS) / (2.0 * 0.81)).exp()).collect()
}

/// The spaces, each with the kernel its step t goes along.
struct Spaces;

impl Spaces {
    fn growing(offset: &[f32]) -> FeatureExpansion {
        FeatureExpansion::new(map(), offset.to_vec())
    }

    /// Grows for `BLOCKS` steps, then refines.
    fn limited(offset: &[f32]) -> FeatureExpansion {
        Self::growing(offset).limited_to(BLOCKS)
    }

    fn fixed(offset: &[f32]) -> FixedFeatures {
        FixedFeatures::new(map(), offset.to_vec(), BLOCKS)
    }

    fn dictionary(offset: &[f32]) -> Dictionary {
        Dictionary::new(closed_form(), offset.to_vec(), Budget::Unlimited)
    }

    /// A network without hidden layers is linear in its parameters, and a plain step goes along k = 1 + ⟨x̃, x̃'⟩.
    fn affine(offset: &[f32]) -> Network {
        let config =
            NetworkConfig { hidden: vec![], nonlinearity: Nonlinearity::Tanh, optimiser: Optimiser::Sgd };
        let parts = NetworkParts {
            config,
            steps: 0,
            averaging: None,
            step_sizes: 0.0,
            parameters: vec![0.0; 3 * offset.len()],
            moments: vec![],
            average: vec![],
        };
        Network::from_parts(halved(), offset.to_vec(), parts).unwrap()
    }
}

fn halved() -> Scaling {
    Scaling { shift: vec![0.25, -0.5], scale: vec![0.5; 2] }
}

fn affine_kernel() -> Vec<f64> {
    let (x, Scaling { shift, scale }) = (points(), halved());
    let at = |i: usize, k: usize| f64::from(x[2 * i + k] - shift[k]) * f64::from(scale[k]);
    let dot = |i: usize, j: usize| 1.0 + (0..2).map(|k| at(i, k) * at(j, k)).sum::<f64>();
    (0..POINTS * POINTS).map(|i| dot(i / POINTS, i % POINTS)).collect()
}

fn limited_kernel(t: usize) -> Vec<f64> {
    if t < BLOCKS {
        block_kernel(t as u64)
    } else {
        mean_kernel(BLOCKS as u64)
    }
}

/// What an operator does to the values of f at all points: constant and (point, factor) of each sample.
struct Observation {
    constants: Vec<f64>,
    points: Vec<Vec<(usize, f64)>>,
}

fn offset(outputs: usize) -> Vec<f32> {
    (0..outputs).map(|c| 0.3 - 0.2 * c as f32).collect()
}

/// All iterates at all points, P×C: f ← offset + (1 − γν)(f − offset) + γ Σ_s r_s Σ_p a_p k(x_p, ·).
fn textbook(
    loss: &dyn Loss,
    config: FunctionalSgdConfig,
    steps: usize,
    targets: &[f32],
    observation: &Observation,
    kernel: &dyn Fn(usize) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    let (c, t) = (loss.outputs(), loss.targets());
    let offset: Vec<f64> = offset(c).iter().map(|&v| f64::from(v)).collect();
    let total: f64 = WEIGHTS.iter().map(|&w| f64::from(w)).sum();
    let mut f: Vec<f64> = offset.repeat(POINTS);
    let mut iterates = Vec::new();
    for step in 0..steps {
        let gamma = config.schedule.at(step as u64 + 1);
        let kernel = kernel(step);
        let mut new: Vec<f64> = (0..POINTS * c)
            .map(|i| offset[i % c] + (1.0 - gamma * config.ridge) * (f[i] - offset[i % c]))
            .collect();
        for (s, seen) in observation.points.iter().enumerate() {
            let value = |k: usize| -> f64 {
                observation.constants[s * c + k] + seen.iter().map(|(p, a)| a * f[p * c + k]).sum::<f64>()
            };
            let u: Vec<f32> = (0..c).map(|k| value(k) as f32).collect();
            let mut slope = vec![0.0; c];
            loss.derivative(&u, &targets[s * t..(s + 1) * t], &mut slope);
            for (i, new) in new.iter_mut().enumerate() {
                let pull = -f64::from(WEIGHTS[s]) * f64::from(slope[i % c]) / total;
                let section: f64 = seen.iter().map(|(p, a)| a * kernel[i / c * POINTS + p]).sum();
                *new += gamma * pull * section;
            }
        }
        f = new;
        iterates.push(f.clone());
    }
    iterates
}

fn targets(spec: &LossSpec, loss: &dyn Loss) -> Vec<f32> {
    let classes = if loss.outputs() == 1 { 2 } else { loss.outputs() };
    let label = |s: usize| spec.encode(classes, s % classes);
    let number = |i: usize| (i * 29 % 17) as f32 / 8.0;
    match spec.is_classification() {
        true => (0..SAMPLES).map(label).collect(),
        false => (0..SAMPLES * loss.targets()).map(number).collect(),
    }
}

fn assert_close(f: &dyn Function, expected: &[f64], what: &str) {
    let x = points();
    let mut values = vec![0.0; expected.len()];
    f.evaluate(Rows::single(&x, 2).unwrap(), &mut values).unwrap();
    let size = expected.iter().fold(1.0_f64, |a, v| a.max(v.abs()));
    for (value, expected) in values.iter().zip(expected) {
        // Some hundred additions in single precision of numbers around `size`.
        assert!((f64::from(*value) - expected).abs() < 5e-5 * size, "{what}: {value} vs {expected}");
    }
}

/// Runs the solver beside the textbook; compares the last iterate and all averages.
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
fn compare<'a, T: Exact + Copy, F: Averaged>(
    what: &str,
    operator: T,
    (batch, targets): (T::Batch<'a>, &'a [f32]),
    observation: &Observation,
    spec: &LossSpec,
    config: FunctionalSgdConfig,
    steps: usize,
    (start, kernel): (fn(&[f32]) -> F, &dyn Fn(usize) -> Vec<f64>),
) {
    let loss = spec.build(if spec.is_classification() { 3 } else { 2 }).unwrap();
    let solver = config.build::<T, F>(operator, &*loss).unwrap();
    let iterates = textbook(&*loss, config, steps, targets, observation, kernel);
    for (rule, weight) in averages(config.schedule, steps) {
        let mut state = SgdState::new(start(&offset(loss.outputs())).averaging(rule));
        for _ in 0..steps {
            solver.step(&mut state, Samples { batch, targets, weights: &WEIGHTS }).unwrap();
        }
        assert_close(&state.f, &iterates[steps - 1], &format!("{what}, {spec}, last"));
        let total: f64 = weight.iter().sum();
        let mean = |i: usize| iterates.iter().zip(&weight).map(|(f, w)| w * f[i]).sum::<f64>() / total;
        let mean: Vec<f64> = (0..iterates[0].len()).map(mean).collect();
        assert_close(&state.f.average(), &mean, &format!("{what}, {spec}, {rule:?}"));
    }
}

/// Rules of averaging, and the weights they give to all iterates.
fn averages(schedule: Schedule, steps: usize) -> [(Averaging, Vec<f64>); 4] {
    let of = |weight: &dyn Fn(usize) -> f64| (1..=steps).map(weight).collect::<Vec<_>>();
    let from = |first: usize| of(&|t| f64::from(u8::from(t >= first)));
    [
        (Averaging::Power(0.0), of(&|_| 1.0)),
        (Averaging::StepSize, of(&|t| schedule.at(t as u64))),
        (Averaging::Tail, from((steps + 1).next_power_of_two() / 4)),
        (Averaging::LastHalf(steps as u64), from(steps.div_ceil(2))),
    ]
}

/// Every space with one operator.
fn over_spaces<'a, T: Exact + Copy>(
    operator: T,
    batch: (T::Batch<'a>, &'a [f32]),
    observation: &Observation,
    spec: &LossSpec,
    config: FunctionalSgdConfig,
    steps: usize,
) {
    let growing = |t: usize| block_kernel(t as u64);
    let fixed = mean_kernel(BLOCKS as u64);
    let (exact, affine) = (exact_kernel(), affine_kernel());
    let o = observation;
    compare("growing", operator, batch, o, spec, config, steps, (Spaces::growing, &growing));
    compare("limited", operator, batch, o, spec, config, steps, (Spaces::limited, &limited_kernel));
    compare("fixed", operator, batch, o, spec, config, steps, (Spaces::fixed, &|_| fixed.clone()));
    compare("dictionary", operator, batch, o, spec, config, steps, (Spaces::dictionary, &|_| exact.clone()));
    compare("affine", operator, batch, o, spec, config, steps, (Spaces::affine, &|_| affine.clone()));
}

fn rewards(outputs: usize) -> Vec<f32> {
    (0..SAMPLES * outputs).map(|i| (i * 13 % 7) as f32 / 5.0).collect()
}

fn bellman() -> Bellman {
    Bellman { discount: Discount::try_from(DISCOUNT).unwrap() }
}

/// Each combination with one configuration.
fn over_operators(spec: &LossSpec, config: FunctionalSgdConfig, steps: usize) {
    let x = points();
    let (states, next) = x.split_at(2 * SAMPLES);
    let (states, next) = (Rows::single(states, 2).unwrap(), Rows::single(next, 2).unwrap());
    let loss = spec.build(if spec.is_classification() { 3 } else { 2 }).unwrap();
    let (c, targets) = (loss.outputs(), targets(spec, &*loss));
    let plain = Observation {
        constants: vec![0.0; SAMPLES * c],
        points: (0..SAMPLES).map(|s| vec![(s, 1.0)]).collect(),
    };
    over_spaces(Evaluation, (states, &targets), &plain, spec, config, steps);
    let rewards = rewards(c);
    let going_on = |s: usize| if TERMINAL[s] { 0.0 } else { DISCOUNT };
    let residual = Observation {
        constants: rewards.iter().map(|&r| f64::from(r)).collect(),
        points: (0..SAMPLES).map(|s| vec![(s, -1.0), (SAMPLES + s, going_on(s))]).collect(),
    };
    let batch = Transitions::new(states, &rewards, next, &TERMINAL).unwrap();
    over_spaces(Deterministic(bellman()), (batch, &targets), &residual, spec, config, steps);
}

#[test]
fn every_space_operator_and_loss_takes_the_textbook_step() {
    let config = FunctionalSgdConfig { schedule: Schedule::Inverse { theta: 3.0, delay: 4.0 }, ridge: 0.2 };
    for name in LossSpec::NAMES.split(", ") {
        over_operators(&name.parse().unwrap(), config, 7);
    }
}

/// The running scalar is the decay of all coefficients, also where it vanishes (θν = 1 and 2 without delay) and where it is
/// multiplied into the coefficients (2⁻⁶⁰).
#[test]
fn every_schedule_takes_the_textbook_step() {
    let cases = [
        (Schedule::Inverse { theta: 2.0, delay: 0.0 }, 0.5, 12),
        (Schedule::Inverse { theta: 2.0, delay: 0.0 }, 1.0, 12),
        (Schedule::InverseRoot { step: 0.7, delay: 1.0, horizon: 8.0 }, 0.1, 12),
        (Schedule::Constant { step: 0.5 }, 1.0, 60),
        (Schedule::Constant { step: 0.3 }, 0.0, 20),
    ];
    for (schedule, ridge, steps) in cases {
        over_operators(&LossSpec::Square, FunctionalSgdConfig { schedule, ridge }, steps);
    }
}

/// ⟨w, T f − c⟩ = ⟨T* w, f⟩ = Σ_i w_i f(x_i) over the terms.
fn dot_test<T: Operator>(operator: &T, batch: T::Batch<'_>, constants: &[f32]) {
    let x = points();
    let mut f = Spaces::dictionary(&[0.0, 0.0]);
    let weights: Vec<f32> = (0..2 * POINTS).map(|i| (i as f32 * 0.7).sin()).collect();
    f.step(1.0, 0.0, &[Terms::new(Rows::single(&x, 2).unwrap(), &weights)]).unwrap();
    let w: Vec<f32> = (0..2 * SAMPLES).map(|i| (i as f32 * 1.3).cos()).collect();
    let mut seen = vec![0.0; 2 * SAMPLES];
    apply(operator, &f, batch, &mut seen).unwrap();
    let left: f64 = (0..w.len()).map(|i| f64::from(w[i]) * f64::from(seen[i] - constants[i])).sum();
    let mut right = 0.0;
    for Terms { rows, weights } in adjoint(operator, batch, &w) {
        let mut values = vec![0.0; weights.len()];
        f.evaluate(rows, &mut values).unwrap();
        right += weights.iter().zip(values).map(|(w, v)| f64::from(*w) * f64::from(v)).sum::<f64>();
    }
    assert!((left - right).abs() < 1e-5 * left.abs().max(1.0), "{left} vs {right}");
}

#[test]
fn operators_and_adjoints_belong_together() {
    let x = points();
    let (states, next) = x.split_at(2 * SAMPLES);
    let (states, next) = (Rows::single(states, 2).unwrap(), Rows::single(next, 2).unwrap());
    dot_test(&Evaluation, states, &[0.0; 2 * SAMPLES]);
    let rewards = rewards(2);
    dot_test(&bellman(), Transitions::new(states, &rewards, next, &TERMINAL).unwrap(), &rewards);
}

#[test]
fn transitions_of_unequal_length_and_discounts_outside_their_range_are_refused() {
    let x = points();
    let states = Rows::single(&x, 2).unwrap();
    let next = states.slice(0..POINTS - 1);
    let error = Transitions::new(states, &[0.0; POINTS], next, &[false; POINTS]).unwrap_err();
    assert!(matches!(error, Error::RowCount { what: "next_states", expected: POINTS, .. }), "{error}");
    let error = Transitions::new(states, &[0.0; 5], states, &[false; POINTS]).unwrap_err();
    assert!(matches!(error, Error::RowCount { what: "rewards", .. }), "{error}");
    let error = Transitions::new(states, &[0.0; POINTS], states, &[false; 3]).unwrap_err();
    assert!(matches!(error, Error::RowCount { what: "terminals", found: 3, .. }), "{error}");
    for value in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(Discount::try_from(value), Err(Error::OutOfRange { name: "discount", .. })));
    }
}

#[test]
fn settings_are_checked_and_divergence_is_reported() {
    let loss = Square { outputs: 1 };
    let build = |schedule, ridge| {
        FunctionalSgdConfig { schedule, ridge }.build::<_, Dictionary>(Evaluation, &loss).map(drop)
    };
    assert!(build(Schedule::Inverse { theta: 0.0, delay: 0.0 }, 0.1).is_err());
    assert!(build(Schedule::Inverse { theta: 1.0, delay: -1.0 }, 0.1).is_err());
    assert!(build(Schedule::InverseRoot { step: -1.0, delay: 0.0, horizon: f64::INFINITY }, 0.1).is_err());
    assert!(build(Schedule::Constant { step: f64::NAN }, 0.1).is_err());
    assert!(build(Schedule::Constant { step: 1.0 }, -0.1).is_err());
    let config = FunctionalSgdConfig { schedule: Schedule::Constant { step: 1e6 }, ridge: 0.0 };
    let solver = config.build(Evaluation, &loss).unwrap();
    let x = points();
    let samples =
        Samples { batch: Rows::single(&x, 2).unwrap(), targets: &[1.0; POINTS], weights: &[1.0; POINTS] };
    let mut state = SgdState::new(Spaces::growing(&[0.0]));
    let error = (0..60).find_map(|_| solver.step(&mut state, samples).err());
    assert!(matches!(error, Some(Error::Diverged { .. })), "{error:?}");
}

// ---- dictionaries ----------------------------------------------------------------------------------------------------

/// The budget is never exceeded; the oldest go, or those whose terms are smallest.
#[test]
fn budgets_are_kept_and_drop_what_they_say() {
    let x = points();
    let weights: Vec<f32> = (0..POINTS).map(|i| if i % 3 == 0 { 0.01 } else { 1.0 + i as f32 }).collect();
    let kept = |budget| {
        let mut f = Dictionary::new(closed_form(), vec![0.0], budget);
        for i in 0..POINTS {
            let rows = Rows::single(&x[2 * i..2 * i + 2], 2).unwrap();
            f.step(1.0, 0.0, &[Terms::new(rows, &weights[i..=i])]).unwrap();
            assert!(f.len() <= budget.most());
        }
        f.weights().iter().map(|&w| w as f32).collect::<Vec<_>>()
    };
    assert_eq!(kept(Budget::Oldest(5)), weights[POINTS - 5..]);
    let large: Vec<f32> = weights.iter().copied().filter(|w| *w > 0.5).collect();
    assert_eq!(kept(Budget::Smallest(8)), large);
    assert_eq!(kept(Budget::Unlimited), weights);
    // A weight of zero is no atom.
    let mut f = Spaces::dictionary(&[0.0]);
    f.step(1.0, 0.0, &[Terms::new(Rows::single(&x, 2).unwrap(), &[0.0; POINTS])]).unwrap();
    assert!(f.is_empty());
}

/// ‖f‖² = wᵀKw.
#[test]
fn the_norm_of_a_dictionary_is_that_of_its_gram_matrix() {
    let x = points();
    let mut f = Spaces::dictionary(&[0.5]);
    let weights: Vec<f32> = (0..POINTS).map(|i| (i as f32).cos()).collect();
    f.step(2.0, 0.0, &[Terms::new(Rows::single(&x, 2).unwrap(), &weights)]).unwrap();
    f.step(1.0, 0.25, &[]).unwrap();
    let k = exact_kernel();
    let w: Vec<f64> = weights.iter().map(|&w| 1.5 * f64::from(w)).collect();
    let expected: f64 = (0..POINTS * POINTS).map(|i| w[i / POINTS] * k[i] * w[i % POINTS]).sum();
    assert!((f.squared_norm().unwrap() - expected).abs() < 1e-5 * expected, "{expected}");
}

#[test]
fn a_users_kernel_has_no_closed_form() {
    let kernel = riesz::kernel::UserKernel::new("mine", |_, _| Ok(()));
    let error = ClosedForm::new(KernelSpec::User(kernel), 1.0, Scaling::identity(2)).unwrap_err();
    assert!(error.to_string().contains("known by its features alone"), "{error}");
}

// ---- networks --------------------------------------------------------------------------------------------------------

/// sin 3x on [−1, 1], in steps of 64 of 512 rows: root mean square error of the average parameters.
fn error_of_a_sine(nonlinearity: Nonlinearity, seed: u64) -> f64 {
    const ROWS: usize = 512;
    let x: Vec<f32> = (0..ROWS).map(|i| i as f32 / 255.5 - 1.0).collect();
    let y: Vec<f32> = x.iter().map(|x| (3.0 * x).sin()).collect();
    let settings = NetworkConfig { hidden: vec![32, 32], nonlinearity, optimiser: Optimiser::ADAM };
    let f = settings.build(Scaling::identity(1), vec![0.0], Seed(seed)).unwrap();
    let mut state = SgdState::new(f.averaging(Averaging::Power(3.0)));
    let config = FunctionalSgdConfig { schedule: Schedule::Constant { step: 0.01 }, ridge: 0.0 };
    let loss = Square { outputs: 1 };
    let solver = config.build(Evaluation, &loss).unwrap();
    for t in 0..1_500 {
        let rows: Vec<usize> = (0..64).map(|i| (64 * t + i) * 37 % ROWS).collect();
        let (x, y): (Vec<f32>, Vec<f32>) = rows.iter().map(|&i| (x[i], y[i])).unzip();
        let batch = Rows::single(&x, 1).unwrap();
        solver.step(&mut state, Samples { batch, targets: &y, weights: &[1.0; 64] }).unwrap();
    }
    let mut values = vec![0.0; ROWS];
    state.f.average().evaluate(Rows::single(&x, 1).unwrap(), &mut values).unwrap();
    let squares = values.iter().zip(&y).map(|(f, y)| f64::from(f - y).powi(2));
    (squares.sum::<f64>() / ROWS as f64).sqrt()
}

#[test]
fn a_network_learns_a_sine() {
    for (nonlinearity, most) in [(Nonlinearity::Tanh, 0.03), (Nonlinearity::Relu, 0.01)] {
        for seed in 0..3 {
            let error = error_of_a_sine(nonlinearity, seed);
            println!("{nonlinearity:?}, seed {seed}: {error:.4}");
            assert!(error < most, "{nonlinearity:?}, seed {seed}: {error}");
        }
    }
}

// ---- the loop --------------------------------------------------------------------------------------------------------

/// Counts steps; ends after `most`.
struct Count {
    most: usize,
    passes: usize,
    seen: Vec<f64>,
}

impl<S: Solver<State = SgdState<Dictionary>, Info = SgdInfo>> Monitor<S> for Count {
    fn finished(&mut self, state: &SgdState<Dictionary>) -> bool {
        state.step as usize >= self.most
    }

    fn observe(&mut self, state: &SgdState<Dictionary>, info: SgdInfo) -> riesz::Result<Progress> {
        self.seen.push(info.weight);
        Ok(Progress {
            phase: Phase::Stream,
            done: state.step as usize,
            most: self.most,
            loss: info.loss,
            held_out_loss: None,
            held_out_error: None,
            elapsed: Duration::ZERO,
        })
    }

    fn begins_another_pass(&mut self, _: &SgdState<Dictionary>) -> bool {
        self.passes -= 1;
        self.passes > 0
    }
}

fn count(most: usize, passes: usize, size: usize, shuffle: Option<Seed>) -> (Ended, Count) {
    let (x, loss) = (points(), Square { outputs: 1 });
    let config = FunctionalSgdConfig { schedule: Schedule::Constant { step: 0.1 }, ridge: 0.1 };
    let solver = config.build(Evaluation, &loss).unwrap();
    let weights: Vec<f32> = (0..POINTS).map(|i| (1 << i) as f32).collect();
    let targets = [1.0; POINTS];
    let rows = Rows::single(&x, 2).unwrap();
    let mut batches = Minibatches::new(rows, &targets, &weights, size, shuffle);
    let mut state = SgdState::new(Spaces::dictionary(&[0.0]));
    let mut monitor = Count { most, passes, seen: Vec::new() };
    let ended = quietly(|control| run(&solver, &mut state, &mut batches, &mut monitor, control)).unwrap();
    (ended, monitor)
}

/// Weights are powers of two, so a sum of them tells which rows a batch had.
#[test]
fn the_loop_ends_for_the_stated_reason_and_sees_every_row_once_a_pass() {
    let total = f64::from((1 << POINTS) - 1);
    let (ended, monitor) = count(usize::MAX, 2, 5, None);
    assert_eq!((ended, monitor.seen.len()), (Ended::Exhausted, 6));
    assert_eq!(monitor.seen[..3], [31.0, 992.0, 3_072.0]);
    assert_eq!(monitor.seen[..3], monitor.seen[3..]);
    let (_, shuffled) = count(usize::MAX, 2, 5, Some(Seed(1)));
    assert_eq!(shuffled.seen[..3].iter().sum::<f64>(), total);
    assert_eq!(shuffled.seen[3..].iter().sum::<f64>(), total);
    assert!(shuffled.seen[..3] != shuffled.seen[3..], "every pass has an order of its own");
    let (ended, monitor) = count(4, 9, 5, None);
    assert_eq!((ended, monitor.seen.len()), (Ended::Finished, 4));
}

#[test]
fn a_cancelled_run_says_how_far_it_came() {
    let (x, loss) = (points(), Square { outputs: 1 });
    let config = FunctionalSgdConfig { schedule: Schedule::Constant { step: 0.1 }, ridge: 0.1 };
    let solver = config.build(Evaluation, &loss).unwrap();
    let (rows, ones) = (Rows::single(&x, 2).unwrap(), [1.0; POINTS]);
    let mut batches = Minibatches::new(rows, &ones, &ones, 1, None);
    let mut state = SgdState::new(Spaces::dictionary(&[0.0]));
    let mut monitor = Count { most: usize::MAX, passes: 1, seen: Vec::new() };
    let mut asked = 0;
    let mut cancelled = || {
        asked += 1;
        asked == 3
    };
    let mut observe = |_: &Progress| {};
    let mut control = Control::new(&mut cancelled, &mut observe);
    let error = run(&solver, &mut state, &mut batches, &mut monitor, &mut control).unwrap_err();
    assert!(matches!(error, Error::Cancelled { blocks: 3 }), "{error}");
}
