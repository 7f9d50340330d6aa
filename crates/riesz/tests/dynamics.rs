//! Saddle points over conditional expectations: agreement with linear algebra on finite chains and decision processes, with GTD2,
//! and the published rate.
#![allow(clippy::unwrap_used, clippy::panic)]

use faer::linalg::solvers::Solve;
use faer::Mat;
use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::dynamics::hitting_time::HittingTime;
use riesz::dynamics::policy_evaluation::{
    EvaluationOptions, Functions, Improvement, Log, Method, PolicyEvaluation, Successors,
};
use riesz::loss::{Hinge, Logistic, Loss, Square};
use riesz::model::Stored;
use riesz::operator::{Bellman, Conditional, ConditionalMean, Discount, Operator, Sampled, Transitions};
use riesz::random::Seed;
use riesz::solver::{
    DualForm, EmbeddingSgdConfig, Ridges, SaddleClosedForm, SaddleState, Samples, Schedule, Solver,
};
use riesz::space::{Averaged, Averaging, Basis, Function, Linear};

/// SplitMix64, uniform on [0, 1).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of 0, 1, … with these probabilities.
    fn of(&mut self, p: &[f64]) -> usize {
        let mut left = self.next();
        p.iter()
            .position(|p| {
                left -= p;
                left <= 0.0
            })
            .unwrap_or(p.len() - 1)
    }

    /// Exponentials over their sum, to this power first.
    fn distribution(&mut self, n: usize, power: f64) -> Vec<f64> {
        let e: Vec<f64> = (0..n).map(|_| (-(1.0 - self.next()).ln()).powf(power)).collect();
        let sum: f64 = e.iter().sum();
        e.iter().map(|e| e / sum).collect()
    }
}

/// A decision process with S states and A actions.
struct Process {
    states: usize,
    actions: usize,
    /// P(s' | s, a).
    next: Vec<Vec<f64>>,
    /// R(s, a).
    rewards: Vec<f64>,
    /// π and π_b, S×A.
    policy: Vec<Vec<f64>>,
    logged: Vec<Vec<f64>>,
    discount: f64,
}

impl Process {
    fn new(states: usize, actions: usize, discount: f64, dice: &mut Dice) -> Self {
        let next = (0..states * actions).map(|_| dice.distribution(states, 3.0)).collect();
        let rewards = (0..states * actions).map(|_| dice.next()).collect();
        let policy = (0..states).map(|_| dice.distribution(actions, 1.0)).collect();
        let half = |p: Vec<f64>| p.iter().map(|p| 0.5 * p + 0.5 / actions as f64).collect();
        let logged = (0..states).map(|_| half(dice.distribution(actions, 1.0))).collect();
        Self { states, actions, next, rewards, policy, logged, discount }
    }

    /// V of the policy, by linear algebra.
    fn exact(&self) -> Vec<f64> {
        let (s, a) = (self.states, self.actions);
        let mean = |i: usize, of: &dyn Fn(usize) -> f64| {
            (0..a).map(|k| self.policy[i][k] * of(i * a + k)).sum::<f64>()
        };
        let system = Mat::from_fn(s, s, |i, j| {
            f64::from(u8::from(i == j)) - self.discount * mean(i, &|k| self.next[k][j])
        });
        let right = Mat::from_fn(s, 1, |i, _| mean(i, &|k| self.rewards[k]));
        let v = system.partial_piv_lu().solve(&right);
        (0..s).map(|i| v[(i, 0)]).collect()
    }

    fn action_values(&self) -> Vec<f64> {
        let v = self.exact();
        let value = |k: usize| {
            self.rewards[k] + self.discount * self.next[k].iter().zip(&v).map(|(p, v)| p * v).sum::<f64>()
        };
        (0..self.states * self.actions).map(value).collect()
    }

    /// n logged transitions from states drawn at random.
    fn log(&self, n: usize, dice: &mut Dice) -> Logged {
        let mut log = Logged::default();
        for _ in 0..n {
            let s = ((dice.next() * self.states as f64) as usize).min(self.states - 1);
            let a = dice.of(&self.logged[s]);
            let next = dice.of(&self.next[s * self.actions + a]);
            log.states.push(s as f32);
            log.actions.push(a as f32);
            log.rewards.push(self.rewards[s * self.actions + a] as f32);
            log.next.push(next as f32);
            log.ratios.push((self.policy[s][a] / self.logged[s][a]) as f32);
            log.probabilities.extend(self.policy[next].iter().map(|&p| p as f32));
        }
        log.ends = vec![false; n];
        log
    }
}

#[derive(Default)]
struct Logged {
    states: Vec<f32>,
    actions: Vec<f32>,
    rewards: Vec<f32>,
    next: Vec<f32>,
    ends: Vec<bool>,
    ratios: Vec<f32>,
    probabilities: Vec<f32>,
}

impl Logged {
    fn log(&self) -> Log<'_> {
        Log {
            states: Rows::single(&self.states, 1).unwrap(),
            actions: Some(Rows::single(&self.actions, 1).unwrap()),
            rewards: &self.rewards,
            next_states: Rows::single(&self.next, 1).unwrap(),
            terminals: &self.ends,
            truncations: None,
            discounts: None,
            ratios: Some(&self.ratios),
            successors: Successors::Unknown,
        }
    }
}

fn table(method: Method, discount: f64) -> EvaluationOptions {
    EvaluationOptions { method, features: Functions::Table, ..EvaluationOptions::new(discount, Seed(1)) }
}

/// The largest error as a share of the largest value.
fn relative(found: &[f64], exact: &[f64]) -> f64 {
    let size = exact.iter().fold(0.0_f64, |a, v| a.max(v.abs()));
    found.iter().zip(exact).fold(0.0_f64, |a, (f, e)| a.max((f - e).abs())) / size
}

/// V and Q of a random process with 100 states from the log of another policy, within one per cent, by every method that solves
/// equations; half a million transitions have errors of a third of that (deviation of a residual about 0.5, 5,000 of each state).
#[test]
fn values_of_a_finite_process_off_policy() {
    let mut dice = Dice(5);
    let process = Process::new(100, 3, 0.9, &mut dice);
    let logged = process.log(500_000, &mut dice);
    let all: Vec<f32> = (0..100).map(|s| s as f32).collect();
    let states = Rows::single(&all, 1).unwrap();
    for method in [Method::DualEmbedding, Method::Lstd, Method::FittedQ, Method::KernelMdp] {
        let v =
            quietly(|control| PolicyEvaluation::fit(&table(method, 0.9), &logged.log(), control)).unwrap();
        let found = v.value(states, Successors::Unknown).unwrap();
        let error = relative(&found, &process.exact());
        assert!(error < 0.01, "{method:?}: V {error}");
        let log = Log { successors: Successors::Probabilities(&logged.probabilities, 3), ..logged.log() };
        let q = quietly(|control| PolicyEvaluation::fit(&table(method, 0.9), &log, control)).unwrap();
        let exact = process.action_values();
        for a in 0..3 {
            let actions = vec![a as f32; 100];
            let taken = Successors::Actions(Rows::single(&actions, 1).unwrap());
            let found = q.value(states, taken).unwrap();
            let expected: Vec<f64> = exact.iter().skip(a).step_by(3).copied().collect();
            let error = relative(&found, &expected);
            assert!(error < 0.01, "{method:?}: Q {error}");
        }
        let again = PolicyEvaluation::from_bytes(&q.to_bytes().unwrap()).unwrap();
        assert_eq!(again.to_bytes().unwrap(), q.to_bytes().unwrap());
    }
}

/// Policy iteration from a log (Algorithm 9) finds a policy whose value is within one per cent of the best, which exact policy iteration
/// finds on the process itself; the same policy comes out of the file.
#[test]
fn policy_iteration_finds_the_best_policy() {
    let mut dice = Dice(5);
    let mut process = Process::new(30, 3, 0.9, &mut dice);
    let logged = process.log(300_000, &mut dice);
    let log = Log { ratios: None, ..logged.log() };
    let improvement = Improvement { actions: 3, exploration: 0.0, rounds: 20, tolerance: 0.0 };
    let found = quietly(|control| {
        PolicyEvaluation::improve(&table(Method::DualEmbedding, 0.9), improvement, &log, control)
    })
    .unwrap();
    let changes = found.summary().changes;
    assert!(changes.len() < 20 && changes[0] == 1.0 && changes.last() == Some(&0.0), "{changes:?}");
    let all: Vec<f32> = (0..30).map(|s| s as f32).collect();
    let all = Rows::single(&all, 1).unwrap();
    let again = PolicyEvaluation::from_bytes(&found.to_bytes().unwrap()).unwrap();
    assert_eq!(again.best_actions(all).unwrap(), found.best_actions(all).unwrap());
    let certain = |best: &[usize]| -> Vec<Vec<f64>> {
        best.iter().map(|&best| (0..3).map(|a| f64::from(u8::from(a == best))).collect()).collect()
    };
    process.policy = certain(&found.best_actions(all).unwrap());
    let value = process.exact();
    for _ in 0..30 {
        let q = process.action_values();
        let best = |q: &[f64]| (0..3).reduce(|a, b| if q[b] > q[a] { b } else { a }).unwrap();
        process.policy = certain(&q.chunks(3).map(best).collect::<Vec<_>>());
    }
    let optimum = process.exact();
    assert!(relative(&value, &optimum) < 0.01, "{}", relative(&value, &optimum));
    // Exploration shares ε among the actions, and an action that was never tried is never taken.
    let two =
        Logged { actions: logged.actions.iter().map(|a| a.min(1.0)).collect(), ..process.log(0, &mut dice) };
    let actions = Rows::single(&two.actions, 1).unwrap();
    let log = Log { actions: Some(actions), ..log };
    let improvement = Improvement { exploration: 0.2, rounds: 2, ..improvement };
    let found =
        quietly(|control| PolicyEvaluation::improve(&table(Method::Lstd, 0.9), improvement, &log, control))
            .unwrap();
    for p in found.improved_policy(all).unwrap().chunks(3) {
        let (least, most) = (p[0].min(p[1]), p[0].max(p[1]));
        assert!((least - 0.1).abs() < 1e-6 && (most - 0.9).abs() < 1e-6 && p[2] == 0.0, "{p:?}");
    }
}

/// Standard errors are those of independent logs: the deviation of V over 60 logs, within what 60 of them can tell (9 % each,
/// five deviations).
#[test]
fn standard_errors_are_the_deviations_of_logs() {
    let mut dice = Dice(8);
    let process = Process::new(6, 2, 0.8, &mut dice);
    let all: Vec<f32> = (0..6).map(|s| s as f32).collect();
    let states = Rows::single(&all, 1).unwrap();
    let (mut values, mut errors) = (Vec::new(), vec![0.0; 6]);
    for _ in 0..60 {
        let logged = process.log(3_000, &mut dice);
        let v = quietly(|control| PolicyEvaluation::fit(&table(Method::Lstd, 0.8), &logged.log(), control))
            .unwrap();
        values.push(v.value(states, Successors::Unknown).unwrap());
        let own = v.standard_errors(states, Successors::Unknown).unwrap();
        errors.iter_mut().zip(own).for_each(|(sum, error)| *sum += error / 60.0);
    }
    for s in 0..6 {
        let mean = values.iter().map(|v| v[s]).sum::<f64>() / 60.0;
        let deviation = (values.iter().map(|v| (v[s] - mean).powi(2)).sum::<f64>() / 59.0).sqrt();
        assert!((errors[s] / deviation - 1.0).abs() < 0.46, "state {s}: {} for {deviation}", errors[s]);
    }
}

/// GTD2, as it is written (Sutton et al. 2009, on their two step sizes):
/// w ← w + β (δ − φᵀw) φ,  θ ← θ + α (φ − γφ') (φᵀw), with δ = r + γθᵀφ' − θᵀφ. Values are rounded to single precision where the
/// library's functions round theirs.
#[test]
fn one_basis_for_both_functions_is_gtd2() {
    let (m, gamma, alpha, beta) = (5, 0.9_f32, 0.2, 0.4);
    let mut dice = Dice(2);
    let solver = EmbeddingSgdConfig {
        primal: Schedule::Constant { step: alpha },
        dual: Schedule::Constant { step: beta },
        primal_ridge: 0.0,
        dual_ridge: 0.0,
        form: DualForm::Free,
    }
    .build(Bellman { discount: Discount::try_from(f64::from(gamma)).unwrap() }, &Square { outputs: 1 })
    .unwrap();
    let zero = || Linear::new(Basis::columns_of(m).unwrap(), 1);
    let mut state = SaddleState::new(zero(), zero());
    let (mut theta, mut w) = (vec![0.0_f64; m], vec![0.0_f64; m]);
    let dot = |a: &[f64], x: &[f32]| a.iter().zip(x).map(|(a, x)| a * f64::from(*x)).sum::<f64>() as f32;
    for _ in 0..2_000 {
        let [x, next] = [0, 1].map(|_| (0..m).map(|_| dice.next() as f32 - 0.5).collect::<Vec<f32>>());
        let r = [dice.next() as f32];
        let rows = |x| Rows::single(x, m).unwrap();
        let batch = Transitions::new(rows(&x), &r, rows(&next), &[false]).unwrap();
        solver.step(&mut state, Samples { batch, targets: &[0.0], weights: &[1.0] }).unwrap();
        let delta = -dot(&theta, &x) + gamma * dot(&theta, &next) + r[0];
        let u = dot(&w, &x);
        for j in 0..m {
            theta[j] +=
                alpha * f64::from(u) * f64::from(x[j]) - alpha * f64::from(gamma * u) * f64::from(next[j]);
            w[j] += beta * f64::from((f64::from(delta) - f64::from(u)) as f32) * f64::from(x[j]);
        }
    }
    let largest = theta.iter().fold(0.0_f64, |a, t| a.max(t.abs()));
    assert!(largest > 0.1);
    for (found, expected) in state.f.coefficients().iter().zip(&theta) {
        assert!((found - expected).abs() < 1e-12 * largest, "{found} {expected}");
    }
}

/// Samples of a small problem with a known answer: x one of four, z one of four given x, y a number.
struct Small {
    x: Vec<f32>,
    z: Vec<f32>,
    y: Vec<f32>,
}

impl Small {
    /// Every pair (x, z) in proportion to p(z | x), a hundred rows for each x.
    fn whole(target: impl Fn(usize) -> f32) -> Self {
        let share =
            |x: usize, z: usize| [[70, 10, 10, 10], [20, 60, 10, 10], [5, 5, 80, 10], [10, 20, 30, 40]][x][z];
        let (mut xs, mut zs, mut ys) = (Vec::new(), Vec::new(), Vec::new());
        for x in 0..4 {
            for z in 0..4 {
                for _ in 0..share(x, z) {
                    xs.push(x as f32);
                    zs.push(z as f32);
                    ys.push(target(x));
                }
            }
        }
        Self { x: xs, z: zs, y: ys }
    }
}

/// The closed forms agree with steps on the whole distribution, which are then no longer stochastic, for both duals.
#[test]
fn closed_forms_are_where_the_steps_lead() {
    let small = Small::whole(|x| [1.0, -0.5, 0.25, 2.0][x]);
    let rows = |x| Rows::single(x, 1).unwrap();
    let samples = [rows(&small.z)];
    let batch = Sampled::new(rows(&small.x), &samples).unwrap();
    let table = Basis::table(4).unwrap();
    let weights = vec![1.0; small.x.len()];
    for (form, primal, dual) in [(DualForm::Free, 0.02, 0.05), (DualForm::Shifted, 0.02, 0.0)] {
        let saddle =
            SaddleClosedForm { operator: ConditionalMean, primal: table.clone(), dual: table.clone() };
        let moments = saddle.moments(batch, &small.y).unwrap();
        // In units of the mean of a diagonal: a quarter, and that of BᵀG⁻¹B, which is found from a solution without ridge.
        let relative = Ridges { primal, dual };
        let closed = moments.solve(form, relative).unwrap().coefficients();
        let (own, mean) = mean_diagonal(dual);
        let solver = EmbeddingSgdConfig {
            primal: Schedule::Constant { step: 0.5 },
            dual: Schedule::Constant { step: 1.0 },
            primal_ridge: primal * mean,
            dual_ridge: dual * own,
            form,
        }
        .build(ConditionalMean, &Square { outputs: 1 })
        .unwrap();
        let zero = || Linear::new(table.clone(), 1);
        let mut state = SaddleState::new(zero(), zero());
        for _ in 0..20_000 {
            solver.step(&mut state, Samples { batch, targets: &small.y, weights: &weights }).unwrap();
        }
        for (found, closed) in state.f.coefficients().iter().zip(&closed) {
            assert!((found - closed).abs() < 1e-4, "{form:?}: {found} {closed}");
        }
    }
}

/// The means of the diagonals of E[φφᵀ] and of BᵀG⁻¹B in [`Small`].
fn mean_diagonal(dual: f64) -> (f64, f64) {
    let share = [[70, 10, 10, 10], [20, 60, 10, 10], [5, 5, 80, 10], [10, 20, 30, 40]];
    let g = 0.25 * (1.0 + dual);
    let square: f64 = share.iter().flatten().map(|&p| (f64::from(p) / 400.0).powi(2) / g).sum();
    (0.25, square / 4.0)
}

/// The dual of the logistic loss lives on (x, y) and stays in its domain: f learnt with one z per x minimises
/// E log(1 + e^{−y E[f(z)|x]}), whose minimiser has E[f(z) | x] = log p/(1 − p) exactly.
#[test]
fn the_logistic_loss_has_a_dual_on_inputs_and_labels() {
    let p = [0.8, 0.3, 0.6, 0.5];
    let (mut x, mut z, mut y) = (Vec::new(), Vec::new(), Vec::new());
    let share = [[7, 1, 1, 1], [2, 6, 1, 1], [1, 1, 7, 1], [1, 2, 3, 4]];
    for (s, row) in share.iter().enumerate() {
        for (next, &count) in row.iter().enumerate() {
            for _ in 0..count {
                for label in 0..10 {
                    let positive = f64::from(label) < 10.0 * p[s] - 0.5;
                    x.extend([s as f32, f32::from(u8::from(positive))]);
                    z.push(next as f32);
                    y.push(if positive { 1.0 } else { -1.0 });
                }
            }
        }
    }
    let given = Rows::single(&x, 2).unwrap();
    let samples = [Rows::single(&z, 1).unwrap()];
    let batch = Sampled::new(given, &samples).unwrap();
    let config = EmbeddingSgdConfig {
        primal: Schedule::Constant { step: 0.5 },
        dual: Schedule::Constant { step: 0.5 },
        primal_ridge: 0.0,
        dual_ridge: 0.0,
        form: DualForm::Free,
    };
    let solver = config.build(ConditionalMean, &Logistic).unwrap();
    let dual = Linear::new(Basis::table(4).unwrap().per_action(2).unwrap(), 1);
    let mut state = SaddleState::new(Linear::new(Basis::table(4).unwrap(), 1), dual);
    let weights = vec![1.0; y.len()];
    for _ in 0..60_000 {
        solver.step(&mut state, Samples { batch, targets: &y, weights: &weights }).unwrap();
    }
    let f = state.f.coefficients();
    for (s, row) in share.iter().enumerate() {
        let mean: f64 = row.iter().zip(f).map(|(&count, f)| f64::from(count) / 10.0 * f).sum();
        let expected = (p[s] / (1.0 - p[s])).ln();
        assert!((mean - expected).abs() < 0.02, "{s}: {mean} {expected}");
    }
    // u = ∇ℓ_y(v(x)) needs the inputs alone, and leads there sooner.
    let states: Vec<f32> = x.iter().step_by(2).copied().collect();
    let batch = Sampled::new(Rows::single(&states, 1).unwrap(), &samples).unwrap();
    let shifted = EmbeddingSgdConfig { form: DualForm::Shifted, ..config };
    let solver = shifted.build(ConditionalMean, &Logistic).unwrap();
    let zero = || Linear::new(Basis::table(4).unwrap(), 1);
    let mut state = SaddleState::new(zero(), zero());
    for _ in 0..20_000 {
        solver.step(&mut state, Samples { batch, targets: &y, weights: &weights }).unwrap();
    }
    for (s, row) in share.iter().enumerate() {
        let mean: f64 =
            row.iter().zip(state.f.coefficients()).map(|(&count, f)| f64::from(count) / 10.0 * f).sum();
        let expected = (p[s] / (1.0 - p[s])).ln();
        assert!((mean - expected).abs() < 0.01, "{s}: {mean} {expected}");
    }
    let error = shifted.build::<_, Linear, Linear>(ConditionalMean, &Hinge).err().unwrap().to_string();
    assert!(error.contains("smooth loss; the hinge loss needs a free dual"), "{error}");
}

/// Theorem of Algorithm 4: the gap of the average falls like 1/√t. On the problem of [`Small`] with its targets in the range of the
/// operator the saddle point has value zero, and the gap of (f̄, ū) on balls of radius R is
/// max_u φ(f̄, u) − min_f φ(f, ū), both of which are linear algebra on tables.
#[test]
fn the_gap_falls_like_one_over_the_root_of_steps() {
    let whole = Small::whole(|_| 0.0);
    let share = [[70, 10, 10, 10], [20, 60, 10, 10], [5, 5, 80, 10], [10, 20, 30, 40]];
    // Targets with noise, E[y | x] = E[f*(z) | x].
    let star = [0.5, -1.0, 0.8, 0.2];
    let target = |x: usize| share[x].iter().zip(star).map(|(&p, f)| f64::from(p) / 100.0 * f).sum::<f64>();
    let gap = |f: &[f64], u: &[f64]| {
        // φ(f, u) = ¼ Σ_x u_x (Pf − y)_x − ½ u_x²: best u_x = (Pf − y)_x; least over ‖f‖ ≤ 3 is −3 ‖Pᵀu/4‖ + ….
        let residual = |x: usize| {
            share[x].iter().zip(f).map(|(&p, f)| f64::from(p) / 100.0 * f).sum::<f64>() - target(x)
        };
        let best: f64 = (0..4).map(|x| 0.125 * residual(x).powi(2)).sum();
        let slope = |z: usize| (0..4).map(|x| 0.25 * u[x] * f64::from(share[x][z]) / 100.0).sum::<f64>();
        let least = -3.0 * (0..4).map(|z| slope(z).powi(2)).sum::<f64>().sqrt()
            - (0..4).map(|x| 0.25 * (u[x] * target(x) + 0.5 * u[x] * u[x])).sum::<f64>();
        best - least
    };
    let lengths = [250_u64, 1_000, 4_000, 16_000];
    let mut means = [0.0; 4];
    let runs = 24;
    for run in 0..runs {
        let mut dice = Dice(100 + run);
        let solver =
            EmbeddingSgdConfig::published(1.0).build(ConditionalMean, &Square { outputs: 1 }).unwrap();
        let zero = || Linear::new(Basis::table(4).unwrap(), 1).averaging(Averaging::StepSize);
        let mut state = SaddleState::new(zero(), zero());
        for t in 1..=lengths[3] {
            let i = (dice.next() * whole.x.len() as f64) as usize;
            let y = [(target(whole.x[i] as usize) + dice.next() - 0.5) as f32];
            let samples = [Rows::single(&whole.z[i..i + 1], 1).unwrap()];
            let batch = Sampled::new(Rows::single(&whole.x[i..i + 1], 1).unwrap(), &samples).unwrap();
            solver.step(&mut state, Samples { batch, targets: &y, weights: &[1.0] }).unwrap();
            if let Some(k) = lengths.iter().position(|&length| length == t) {
                let (f, u) = (state.f.average(), state.dual.average());
                means[k] += gap(f.coefficients(), u.coefficients()) / f64::from(runs as u32);
            }
        }
    }
    let (mut top, mut bottom) = (0.0, 0.0);
    let centre = lengths.iter().map(|&t| (t as f64).ln()).sum::<f64>() / 4.0;
    for (t, gap) in lengths.iter().zip(means) {
        let x = (*t as f64).ln() - centre;
        top += x * gap.ln();
        bottom += x * x;
    }
    let slope = top / bottom;
    assert!((slope + 0.5).abs() < 0.15, "slope {slope}, gaps {means:?}");
}

/// The same sums on any number of threads and however the rows are shared out.
#[test]
fn sums_do_not_depend_on_threads_or_shards() {
    let n = 20_000;
    let mut dice = Dice(3);
    let [x, next] = [0, 1].map(|_| (0..2 * n).map(|_| dice.next() as f32).collect::<Vec<f32>>());
    let rewards: Vec<f32> = (0..n).map(|_| dice.next() as f32).collect();
    let (ends, zeros) = (vec![false; n], vec![0.0; n]);
    let map = riesz::kernel::FeatureMap::new(
        riesz::kernel::KernelSpec::Gaussian,
        0.3,
        64,
        Seed(1),
        riesz::kernel::Scaling::identity(2),
    )
    .unwrap();
    let basis = Basis::features(map).unwrap();
    let saddle = SaddleClosedForm {
        operator: Bellman { discount: Discount::try_from(0.9).unwrap() },
        primal: basis.clone(),
        dual: basis,
    };
    let part = |range: std::ops::Range<usize>| {
        let rows = |x: &[f32]| Rows::single(&x[2 * range.start..2 * range.end], 2).map(|rows| rows.len());
        assert_eq!(rows(&x).unwrap(), range.len());
        let of = |x| Rows::single(x, 2).unwrap();
        let (a, b) = (&x[2 * range.start..2 * range.end], &next[2 * range.start..2 * range.end]);
        let batch = Transitions::new(of(a), &rewards[range.clone()], of(b), &ends[range.clone()]).unwrap();
        saddle.observe(batch, &zeros[range.clone()], range.start, n).unwrap()
    };
    let ridges = Ridges { primal: 1e-6, dual: 1e-6 };
    let solve = |sums: riesz::solver::Sums<riesz::solver::Moments>| {
        sums.total(&mut Vec::new()).unwrap().solve(DualForm::Free, ridges).unwrap().coefficients()
    };
    let whole = solve(part(0..n));
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(|| solve(part(0..n))), whole);
    }
    let mut sums = part(8_192..n);
    sums.add(part(0..8_192));
    assert_eq!(solve(sums), whole);
}

/// Operators and adjoints belong together: ⟨w, Tf − c⟩ = ⟨T*w, f⟩ for the Bellman residual with ratios, discounts and several
/// successors.
#[test]
fn points_and_constants_of_weighted_transitions() {
    let x = [0.0, 1.0, 2.0];
    let rows = |x| Rows::single(x, 1).unwrap();
    let next = [
        riesz::operator::Likely { rows: rows(&[1.0, 2.0, 0.0]), probabilities: &[0.25, 1.0, 0.5] },
        riesz::operator::Likely { rows: rows(&[2.0, 0.0, 1.0]), probabilities: &[0.75, 0.0, 0.5] },
    ];
    let ends = [false, false, true];
    let batch = Transitions::expected(rows(&x), &[1.0, 2.0, 3.0], &next, &ends)
        .unwrap()
        .weighted(&[2.0, 0.5, 1.0])
        .unwrap()
        .discounted(&[1.0, 0.5, 1.0])
        .unwrap();
    let operator = Bellman { discount: Discount::try_from(0.5).unwrap() };
    let f = Linear::with_coefficients(Basis::table(3).unwrap(), vec![1.0, 10.0, 100.0]).unwrap();
    let mut out = [0.0; 3];
    riesz::operator::apply(&operator, &f, batch, &mut out).unwrap();
    assert_eq!(
        out,
        [
            2.0 * (1.0 - 1.0 + 0.5 * (0.25 * 10.0 + 0.75 * 100.0)),
            0.5 * (2.0 - 10.0 + 0.25 * 100.0),
            3.0 - 100.0
        ]
    );
    assert_eq!(operator.given(batch).len(), 3);
    assert_eq!(operator.points(batch).len(), 3);
}

/// Four million transitions of a chain with a hundred states: hitting times and the stationary distribution within one per cent
/// on average, as the text's own figure is; and for a short log of a small chain exactly those of the observed shares.
#[test]
fn hitting_times_of_a_chain() {
    let mut dice = Dice(4);
    let count = 100;
    let p: Vec<Vec<f64>> = (0..count).map(|_| dice.distribution(count, 1.5)).collect();
    let n = 4_000_000;
    let mut states = Vec::with_capacity(n + 1);
    states.push(0);
    for i in 0..n {
        states.push(dice.of(&p[states[i]]));
    }
    let states: Vec<u32> = states.iter().map(|&s| s as u32).collect();
    let found = HittingTime::fit(&states[..n], &states[1..]).unwrap();
    // h(·, t) solves (I − P_t) h = 1, P_t without what leads to t.
    let mut errors = Vec::new();
    for t in 0..count {
        let system = Mat::from_fn(count, count, |i, j| {
            f64::from(u8::from(i == j)) - if j == t { 0.0 } else { p[i][j] }
        });
        let h = system.partial_piv_lu().solve(Mat::from_fn(count, 1, |_, _| 1.0));
        errors.extend(
            (0..count).map(|s| (found.expected(s as u32, t as u32).unwrap() / h[(s, 0)] - 1.0).abs()),
        );
        assert!((found.stationary()[t] * h[(t, 0)] - 1.0).abs() < 0.03);
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(mean < 0.01, "{mean}");
    assert!((found.stationary().iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let again = HittingTime::from_bytes(&found.to_bytes().unwrap()).unwrap();
    assert_eq!(again, found);
}

/// The times for all targets at once are the saddle points of every target, one by one.
#[test]
fn hitting_times_are_saddle_points() {
    let chain: Vec<u32> = (0..400_u32).map(|i| (i * i + i / 7) % 5).collect();
    let (from, to) = (&chain[..399], &chain[1..]);
    let found = HittingTime::fit(from, to).unwrap();
    let single = |states: &[u32]| -> Vec<f32> { states.iter().map(|&s| s as f32).collect() };
    let (x, next, ones, zeros) = (single(from), single(to), vec![1.0; 399], vec![0.0; 399]);
    for t in 0..5 {
        let arrived: Vec<bool> = to.iter().map(|&s| s == t).collect();
        let batch =
            Transitions::new(Rows::single(&x, 1).unwrap(), &ones, Rows::single(&next, 1).unwrap(), &arrived);
        let table = Basis::table(5).unwrap();
        let saddle = SaddleClosedForm {
            operator: Bellman { discount: Discount::try_from(1.0).unwrap() },
            primal: table.clone(),
            dual: table,
        };
        let moments = saddle.moments(batch.unwrap(), &zeros).unwrap();
        let h = moments.solve(DualForm::Free, Ridges { primal: 0.0, dual: 0.0 }).unwrap().coefficients();
        for (s, h) in h.iter().enumerate() {
            let found = found.expected(s as u32, t).unwrap();
            assert!((found / h - 1.0).abs() < 1e-4, "{s} to {t}: {found} {h}");
        }
    }
}

#[test]
fn chains_that_are_not_irreducible_are_refused() {
    let refused = |from: &[u32], to: &[u32]| HittingTime::fit(from, to).unwrap_err().to_string();
    assert!(refused(&[0, 1], &[1, 2]).contains("no transition leaves state 2"));
    assert!(refused(&[0, 1, 2], &[1, 0, 2]).contains("not irreducible"));
    assert!(refused(&[0, 0, 1], &[0, 1, 1]).contains("from state 1 to state 0"));
    assert!(refused(&[0], &[]).contains("next_states"));
    assert!(refused(&[], &[]).contains("empty"));
}

/// Desirability: V = −log Z of a small chain with an absorbing end, against linear algebra, within one per cent.
#[test]
fn desirability_of_linearly_solvable_control() {
    let mut dice = Dice(6);
    // One transition in 21 ends: 143,000, which is 0.26 % of noise in what every state has in common.
    let (count, n) = (20, 3_000_000);
    let p: Vec<Vec<f64>> = (0..count).map(|_| dice.distribution(count + 1, 1.5)).collect();
    let cost: Vec<f64> = (0..count).map(|_| 0.5 * dice.next()).collect();
    let last = 0.3_f64;
    let (mut x, mut next, mut rewards, mut discounts, mut ends) = (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..n {
        let s = ((dice.next() * count as f64) as usize).min(count - 1);
        let t = dice.of(&p[s]);
        let end = t == count;
        x.push(s as f32);
        next.push(if end { 0.0 } else { t as f32 });
        rewards.push(if end { (-cost[s] - last).exp() as f32 } else { 0.0 });
        discounts.push((-cost[s]).exp() as f32);
        ends.push(end);
    }
    let log = Log {
        states: Rows::single(&x, 1).unwrap(),
        actions: None,
        rewards: &rewards,
        next_states: Rows::single(&next, 1).unwrap(),
        terminals: &ends,
        truncations: None,
        discounts: Some(&discounts),
        ratios: None,
        successors: Successors::Unknown,
    };
    let z =
        quietly(|control| PolicyEvaluation::fit(&table(Method::DualEmbedding, 1.0), &log, control)).unwrap();
    let all: Vec<f32> = (0..count).map(|s| s as f32).collect();
    let found = z.value(Rows::single(&all, 1).unwrap(), Successors::Unknown).unwrap();
    let system = Mat::from_fn(count, count, |i, j| f64::from(u8::from(i == j)) - (-cost[i]).exp() * p[i][j]);
    let right = Mat::from_fn(count, 1, |i, _| (-cost[i] - last).exp() * p[i][count]);
    let exact = system.partial_piv_lu().solve(&right);
    for s in 0..count {
        assert!((found[s] / exact[(s, 0)] - 1.0).abs() < 0.01, "{s}: {} {}", found[s], exact[(s, 0)]);
        // The Bellman equation of the control problem, where the best control is p·Z.
        let v = |t: usize| if t == count { last } else { -exact[(t, 0)].ln() };
        let mass: f64 = (0..=count).map(|t| p[s][t] * (-v(t)).exp()).sum();
        let control = |t: usize| p[s][t] * (-v(t)).exp() / mass;
        let total: f64 = (0..=count).map(|t| control(t) * ((control(t) / p[s][t]).ln() + v(t))).sum();
        assert!((cost[s] + total - v(s)).abs() < 1e-9);
    }
}

#[test]
fn bad_logs_are_refused_by_name() {
    let mut dice = Dice(1);
    let logged = Process::new(4, 2, 0.9, &mut dice).log(40, &mut dice);
    let fit = |options: EvaluationOptions, log: Log<'_>| {
        quietly(|control| PolicyEvaluation::fit(&options, &log, control)).map(|_| ()).unwrap_err().to_string()
    };
    let plain = || table(Method::DualEmbedding, 0.9);
    assert!(fit(table(Method::DualEmbedding, 1.0), logged.log()).contains("discount = 1"));
    assert!(fit(table(Method::DualEmbedding, 1.5), logged.log()).contains("discount"));
    assert!(
        fit(plain(), Log { rewards: &logged.rewards[1..], ..logged.log() }).contains("rewards has 39 rows")
    );
    let mut ratios = logged.ratios.clone();
    ratios[7] = f32::INFINITY;
    assert!(fit(plain(), Log { ratios: Some(&ratios), ..logged.log() }).contains("row 7"));
    let mut states = logged.states.clone();
    states[3] = 0.5;
    let halves = Rows::single(&states, 1).unwrap();
    assert!(fit(plain(), Log { states: halves, ..logged.log() }).contains("states = 0.5"));
    assert!(fit(table(Method::PerDecision, 0.9), logged.log()).contains("episodes"));
    let p = vec![0.5; 80];
    assert!(fit(plain(), Log { successors: Successors::Probabilities(&p[..60], 2), ..logged.log() })
        .contains("probabilities"));
    let off = vec![0.7; 80];
    assert!(fit(plain(), Log { successors: Successors::Probabilities(&off, 2), ..logged.log() })
        .contains("no distribution"));
    let evaluation = quietly(|control| PolicyEvaluation::fit(&plain(), &logged.log(), control)).unwrap();
    let actions = Successors::Actions(Rows::single(&[0.0], 1).unwrap());
    let error = evaluation.value(Rows::single(&[0.0], 1).unwrap(), actions).unwrap_err().to_string();
    assert!(error.contains("no actions"), "{error}");
    assert!(Square { outputs: 1 }.as_conjugate().is_some());
    assert_eq!(Linear::new(Basis::table(2).unwrap(), 1).outputs(), 1);
}
