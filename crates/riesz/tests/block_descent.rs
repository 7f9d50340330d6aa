//! Block functional descent: what must hold for every loss.
#![allow(clippy::unwrap_used)]

use riesz::compute;
use riesz::data::Rows;
use riesz::kernel::{FeatureMap, KernelSpec, Scaling};
use riesz::loss::{Loss, LossSpec};
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::solver::{BlockDescentConfig, BlockInfo, BlockState, Problem, RidgeConfig, Shard};
use riesz::space::{FeatureExpansion, Function};
use std::f64::consts::PI;

/// (normal, normal, uniform) of row i.
fn draws(seed: u64, i: usize) -> ([f64; 2], f64) {
    let [a, b, c, _] = Address::new(Seed(seed), Stream::Synthetic, BlockIndex(0), i as u32).words(0);
    (normal_pair(a, b), uniform_open(c))
}

/// Two interleaved half circles of noisy points: rows of two columns, labels 0 and 1.
fn moons(seed: u64, n: usize) -> (Vec<f32>, Vec<usize>) {
    let (mut x, mut labels) = (Vec::new(), Vec::new());
    for i in 0..n {
        let (noise, u) = draws(seed, i);
        let (sin, cos) = (PI * u).sin_cos();
        let (a, b) = if i % 2 == 0 { (cos, sin) } else { (1.0 - cos, 0.5 - sin) };
        x.extend([(a + 0.15 * noise[0]) as f32, (b + 0.15 * noise[1]) as f32]);
        labels.push(i % 2);
    }
    (x, labels)
}

/// Classes by sector of the plane, a tenth of them wrong: `classes` rows of two columns and labels.
fn sectors(seed: u64, n: usize, classes: usize) -> (Vec<f32>, Vec<usize>) {
    let (mut x, mut labels) = (Vec::new(), Vec::new());
    for i in 0..n {
        let (z, u) = draws(seed, i);
        let sector = ((z[1].atan2(z[0]) / PI + 1.0) / 2.0 * classes as f64) as usize;
        x.extend(z.map(|v| v as f32));
        labels.push((sector.min(classes - 1) + usize::from(u < 0.1)) % classes);
    }
    (x, labels)
}

/// Data and everything a problem borrows.
struct Task {
    x: Vec<f32>,
    targets: Vec<f32>,
    weights: Vec<f32>,
    loss: Box<dyn Loss>,
}

impl Task {
    fn classification(spec: &LossSpec, classes: usize, (x, labels): (Vec<f32>, Vec<usize>)) -> Self {
        let targets = labels.iter().map(|&label| spec.encode(classes, label)).collect();
        let weights = (0..labels.len()).map(|i| 0.5 + (i % 3) as f32).collect();
        Self { x, targets, weights, loss: spec.build(classes).unwrap() }
    }

    /// y_c = sin((c + 1) x₀) cos x₁ + noise.
    fn regression(n: usize, outputs: usize) -> Self {
        let (mut x, mut targets) = (Vec::new(), Vec::new());
        for i in 0..n {
            let (z, u) = draws(5, i);
            x.extend(z.map(|v| v as f32));
            targets.extend(
                (0..outputs).map(|c| ((((c + 1) as f64 * z[0]).sin() + 0.3 * u) * z[1].cos()) as f32),
            );
        }
        let weights = (0..n).map(|i| 0.5 + (i % 3) as f32).collect();
        Self { x, targets, weights, loss: LossSpec::Square.build(outputs).unwrap() }
    }

    /// Rates e^{2 sin 2x₀ + x₁}, and none at all for a tenth of the rows.
    fn rates(n: usize) -> Self {
        let (mut x, mut targets) = (Vec::new(), Vec::new());
        for i in 0..n {
            let (z, u) = draws(6, i);
            x.extend(z.map(|v| v as f32));
            targets.push(if u < 0.1 { 0.0 } else { (2.0 * (2.0 * z[0]).sin() + z[1]).exp() as f32 });
        }
        let weights = (0..n).map(|i| 0.5 + (i % 3) as f32).collect();
        Self { x, targets, weights, loss: LossSpec::Poisson.build(1).unwrap() }
    }

    fn problem(&self) -> Problem<'_> {
        let rows = Rows::single(&self.x, 2).unwrap();
        Problem { rows, targets: &self.targets, weights: &self.weights, loss: &*self.loss }
    }

    /// The zero function with blocks of `m` features.
    fn start(&self, config: BlockDescentConfig, m: usize) -> BlockState {
        let map = FeatureMap::new(KernelSpec::Gaussian, 0.7, m, Seed(7), Scaling::identity(2)).unwrap();
        let f = FeatureExpansion::new(map, vec![0.0; self.loss.outputs()]);
        config.build().unwrap().init(f, self.problem().rows).unwrap()
    }

    /// The state after `blocks` blocks, and the loss before the first and after each.
    fn descend(&self, config: BlockDescentConfig, m: usize, blocks: usize) -> (BlockState, Vec<f64>) {
        let (mut state, solver) = (self.start(config, m), config.build().unwrap());
        let mut losses = vec![self.mean_loss(&state.predictions)];
        for _ in 0..blocks {
            losses.push(solver.step(&mut state, &self.problem()).unwrap().loss);
        }
        (state, losses)
    }

    /// Σ w ℓ / Σ w by the textbook loop.
    fn mean_loss(&self, predictions: &[f32]) -> f64 {
        let (c, t) = (self.loss.outputs(), self.loss.targets());
        let (mut sum, mut mass) = (0.0, 0.0);
        for (i, &w) in self.weights.iter().enumerate() {
            sum += f64::from(w) * self.loss.value(&predictions[i * c..][..c], &self.targets[i * t..][..t]);
            mass += f64::from(w);
        }
        sum / mass
    }

    /// Share of rows classified wrongly, for labels encoded as ±1 or as indices.
    fn error(&self, f: &FeatureExpansion, (x, labels): &(Vec<f32>, Vec<usize>)) -> f64 {
        let c = self.loss.outputs();
        let mut u = vec![0.0; labels.len() * c];
        f.evaluate(Rows::single(x, 2).unwrap(), &mut u).unwrap();
        let class = |u: &[f32]| match u {
            &[u] => usize::from(u > 0.0),
            _ => (1..c).fold(0, |best, k| if u[k] > u[best] { k } else { best }),
        };
        let wrong = u.chunks_exact(c).zip(labels).filter(|(u, label)| class(u) != **label).count();
        wrong as f64 / labels.len() as f64
    }
}

/// Losses with a curvature bound, with two and with more outputs, and one with a curvature but no bound; two tiles of
/// rows, the last one ragged.
fn smooth_tasks() -> Vec<(String, Task)> {
    let mut tasks =
        vec![("square".to_owned(), Task::regression(1_500, 3)), ("poisson".to_owned(), Task::rates(1_500))];
    for spec in [LossSpec::Softmax, LossSpec::Logistic, LossSpec::SquaredHinge] {
        for classes in [2, 5] {
            let task = Task::classification(&spec, classes, sectors(1, 1_500, classes));
            tasks.push((format!("{spec}, {classes} classes"), task));
        }
    }
    tasks
}

/// The loss reported is the loss, and never rises: not by subsampled systems, nor by small damping, nor by a step of
/// three, beyond twice the curvature of the square loss, where the descent has to cut steps.
#[test]
fn the_training_loss_never_rises() {
    let standard = BlockDescentConfig::default();
    let sampled = BlockDescentConfig { damping: 1e-3, gram_rows_per_feature: 8, ..standard };
    let global = BlockDescentConfig { local_curvature: false, damping: 1e-2, ..standard };
    let bold = BlockDescentConfig { step: 3.0, damping: 1e-3, ..standard };
    for (name, task) in smooth_tasks() {
        for config in [standard, sampled, global, bold] {
            let (state, losses) = task.descend(config, 64, 12);
            for (b, pair) in losses.windows(2).enumerate() {
                assert!(pair[1] <= pair[0] * (1.0 + 2e-7), "{name}, {config:?}, block {b}: {pair:?}");
            }
            assert!(losses[12] < 0.9 * losses[0], "{name}, {config:?}: {losses:?}");
            let independent = task.mean_loss(&state.predictions);
            assert!(
                (losses[12] - independent).abs() < 1e-9 * independent,
                "{name}: {losses:?} vs {independent}"
            );
        }
    }
}

/// A block takes η with η(1 − ηh'/2h) < 0 only after halving.
#[test]
fn a_step_that_raises_the_loss_is_cut() {
    let task = Task::regression(1_500, 1);
    let config = BlockDescentConfig { step: 3.0, damping: 1e-3, ..Default::default() };
    let mut state = task.start(config, 64);
    let info = config.build().unwrap().step(&mut state, &task.problem()).unwrap();
    assert!(info.taken > 0.0 && info.taken < 1.0, "{info:?}");
    assert_consistent(&task, &state);
}

/// The predictions carried along are the values of f: both are sums of the same products, in another order.
fn assert_consistent(task: &Task, state: &BlockState) {
    let mut values = vec![0.0; state.predictions.len()];
    state.f.evaluate(task.problem().rows, &mut values).unwrap();
    let scale = values.iter().fold(1.0_f32, |a, v| a.max(v.abs()));
    for (p, v) in state.predictions.iter().zip(&values) {
        assert!((p - v).abs() < 1e-4 * scale, "{p} vs {v}");
    }
}

#[test]
fn predictions_carried_along_are_the_values_of_the_function() {
    for (_, task) in smooth_tasks() {
        let config = BlockDescentConfig::default();
        let (mut state, _) = task.descend(config, 64, 6);
        assert_consistent(&task, &state);
        config.build().unwrap().revisit(&mut state, &task.problem(), 2).unwrap();
        assert_consistent(&task, &state);
    }
}

/// The hinge loss is approached through smoothings whose width ends at 1/16: a hundred blocks come within 5 % of four
/// hundred, and below what the squared hinge, a loss of its own, leaves of it with as many.
#[test]
fn the_hinge_loss_comes_down_too() {
    for classes in [2, 3] {
        let config = BlockDescentConfig::default();
        let task = Task::classification(&LossSpec::Hinge, classes, sectors(2, 1_200, classes));
        let (state, losses) = task.descend(config, 128, 400);
        let independent = task.mean_loss(&state.predictions);
        assert!((losses[400] - independent).abs() < 1e-9, "{} vs {independent}", losses[400]);
        let squared = Task::classification(&LossSpec::SquaredHinge, classes, sectors(2, 1_200, classes));
        let other = task.mean_loss(&squared.descend(config, 128, 100).0.predictions);
        println!("{classes} classes: {} -> {} -> {}; {other}", losses[0], losses[100], losses[400]);
        assert!(losses[100] < 1.05 * losses[400], "{} then {}", losses[100], losses[400]);
        assert!(losses[100] < other && other < 0.5 * losses[0], "{} vs {other}", losses[100]);
    }
}

/// The moons cannot be told apart by a line: least squares on (1, x) leaves an eighth of them wrong, their own noise
/// (0.15 at a distance of at least 0.5 − 2·0.15) some percent.
#[test]
fn two_moons_are_learnt_by_every_classification_loss() {
    let fresh = moons(11, 2_000);
    for spec in [LossSpec::Softmax, LossSpec::Logistic, LossSpec::SquaredHinge, LossSpec::Hinge] {
        let task = Task::classification(&spec, 2, moons(3, 600));
        let (state, _) = task.descend(BlockDescentConfig::default(), 64, 20);
        let error = task.error(&state.f, &fresh);
        println!("{spec}: {error}");
        assert!(error < 0.03, "{spec}: {error}");
    }
}

/// Points on both sides of a line, none within 0.1 of it: nothing is left wrong on the training rows, and on fresh
/// rows at most what falls where the training rows are sparse.
#[test]
fn a_separable_problem_is_separated() {
    let separable = |seed| {
        let (mut x, mut labels) = (Vec::new(), Vec::new());
        for i in 0..800 {
            let (z, _) = draws(seed, i);
            let side = z[0] + 0.5 * z[1];
            x.extend([(z[0] + 0.1 * side.signum()) as f32, (z[1] + 0.05 * side.signum()) as f32]);
            labels.push(usize::from(side > 0.0));
        }
        (x, labels)
    };
    let (seen, fresh) = (separable(1), separable(2));
    for spec in [LossSpec::Softmax, LossSpec::Logistic, LossSpec::SquaredHinge, LossSpec::Hinge] {
        let task = Task::classification(&spec, 2, separable(1));
        let (state, _) = task.descend(BlockDescentConfig { damping: 0.01, ..Default::default() }, 64, 40);
        let errors = [task.error(&state.f, &seen), task.error(&state.f, &fresh)];
        println!("{spec}: {errors:?}");
        assert!(errors[0] == 0.0 && errors[1] < 0.01, "{spec}: {errors:?}");
    }
}

/// Coefficients of all blocks.
fn coefficients(f: &FeatureExpansion) -> Vec<f32> {
    (0..f.len()).flat_map(|b| f.coefficients(b).into_owned()).collect()
}

/// Neither the target nor the place of a row of weight zero changes a bit of the function.
#[test]
fn rows_of_weight_zero_are_not_learnt_from() {
    for (name, mut task) in smooth_tasks() {
        let n = task.weights.len();
        (0..n).filter(|i| i % 4 == 1).for_each(|i| task.weights[i] = 0.0);
        let (state, losses) = task.descend(BlockDescentConfig::default(), 64, 4);
        let t = task.loss.targets();
        for i in (0..n).filter(|i| i % 4 == 1) {
            task.x[2 * i] = 2.0 - task.x[2 * i];
            let other = task.targets[(i + 3) % n * t..][..t].to_vec();
            task.targets[i * t..][..t].copy_from_slice(&other);
        }
        let (changed, again) = task.descend(BlockDescentConfig::default(), 64, 4);
        assert!(coefficients(&state.f) == coefficients(&changed.f), "{name}");
        assert_eq!(losses, again, "{name}");
        // They are predicted all the same.
        assert_consistent(&task, &changed);
    }
}

/// Rows of weight k are k rows: same system, same gradient, to the rounding of the Gram matrix (bfloat16 on AMX,
/// where √w φ rounds otherwise than φ: 2⁻⁸ per factor, averaged over hundreds of rows).
#[test]
fn weights_are_repetitions_to_rounding() {
    let mut task = Task::regression(300, 1);
    task.weights = (0..300).map(|i| 1.0 + (i % 3) as f32).collect();
    let repeat = |i: usize| std::iter::repeat_n(i, 1 + i % 3);
    let order: Vec<usize> = (0..300).flat_map(repeat).collect();
    let repeated = Task {
        x: order.iter().flat_map(|&i| task.x[2 * i..2 * i + 2].iter().copied()).collect(),
        targets: order.iter().map(|&i| task.targets[i]).collect(),
        weights: vec![1.0; order.len()],
        loss: LossSpec::Square.build(1).unwrap(),
    };
    let (_, weighted) = task.descend(BlockDescentConfig::default(), 64, 10);
    let (_, copies) = repeated.descend(BlockDescentConfig::default(), 64, 10);
    for (a, b) in weighted.iter().zip(&copies) {
        assert!((a - b).abs() < 2e-2 * b, "{weighted:?} vs {copies:?}");
    }
}

/// A second and third sweep over the same blocks never raises the loss and lowers it for good.
#[test]
fn sweeps_lower_the_loss_at_fixed_size() {
    for (name, task) in smooth_tasks() {
        let config = BlockDescentConfig::default();
        let solver = config.build().unwrap();
        let (mut state, losses) = task.descend(config, 64, 6);
        let mut last = losses[6];
        for b in (0..6).chain(0..6) {
            let info = solver.revisit(&mut state, &task.problem(), b).unwrap();
            assert!(info.loss <= last * (1.0 + 2e-7), "{name}, block {b}: {} after {last}", info.loss);
            last = info.loss;
        }
        assert_eq!(state.f.len(), 6);
        println!("{name}: {} -> {last}", losses[6]);
        assert!(last < 0.99 * losses[6], "{name}: {last} after {}", losses[6]);
    }
}

/// Sweeps with a ridge converge to the minimiser of (1/2n) Σ (f − y)² + (ν/2)‖f‖² on the features at hand, where
/// ‖f‖² = mB Σ_b ‖α_b‖²: its gradient Φᵀ(y − f)/n − νmBα vanishes there.
#[test]
fn sweeps_with_a_ridge_reach_the_regularised_optimum() {
    let (task, m, ridge) = (Task::regression(700, 1), 64, 1e-3);
    let config = BlockDescentConfig { ridge, damping: 0.02, ..Default::default() };
    let solver = config.build().unwrap();
    let (mut state, _) = task.descend(config, m, 3);
    let gradient = |state: &BlockState| {
        let rows = task.problem().rows;
        let mass: f32 = task.weights.iter().sum();
        let residual: Vec<f32> =
            (0..700).map(|i| task.weights[i] / mass * (task.targets[i] - state.predictions[i])).collect();
        let part = |b: usize| {
            let block = state.f.map().draw(BlockIndex(b as u64)).unwrap();
            let g = compute::adjoint(state.f.device(), &block, rows, &residual, 1).unwrap();
            let pull = state
                .f
                .coefficients(b)
                .into_owned()
                .into_iter()
                .map(move |a| (ridge * 3.0) as f32 * m as f32 * a);
            g.into_iter().zip(pull).map(|(g, p)| f64::from(g - p).powi(2)).sum::<f64>()
        };
        (0..3).map(part).sum::<f64>().sqrt()
    };
    let before = gradient(&state);
    for b in (0..60).flat_map(|_| 0..3) {
        solver.revisit(&mut state, &task.problem(), b).unwrap();
    }
    let after = gradient(&state);
    println!("gradient {before} -> {after}");
    // Directions in which the blocks trade off against each other are held by νmB = 0.19 alone against a curvature of
    // tens: block Gauss–Seidel needs thousands of sweeps there, so sixty need not do more than halve the gradient.
    assert!(after < 0.5 * before, "gradient {before} before and {after} after the sweeps");
}

/// Spec 2.4: a subsample below 8 m rows with ρ ≤ 0.01 is unstable and must not be allowed silently.
#[test]
fn small_damping_on_a_small_subsample_is_refused() {
    let build = |damping, rows| {
        BlockDescentConfig { damping, gram_rows_per_feature: rows, ..Default::default() }.build()
    };
    assert!(build(0.01, 7).unwrap_err().to_string().contains("gram_rows_per_feature = 7"));
    assert!(build(0.01, 8).is_ok() && build(0.011, 7).is_ok());
    assert!(build(0.1, 3).is_err());
    for damping in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(build(damping, 16).unwrap_err().to_string().contains("damping"), "{damping}");
    }
    let with = |change: fn(&mut BlockDescentConfig)| {
        let mut config = BlockDescentConfig::default();
        change(&mut config);
        config.build().unwrap_err().to_string()
    };
    assert!(with(|c| c.step = 0.0).contains("step"));
    assert!(with(|c| c.ridge = -1.0).contains("ridge"));
}

/// The square loss does not couple its outputs: H is the same for all of them.
#[test]
fn many_outputs_of_the_square_loss_are_separate_fits() {
    let task = Task::regression(1_500, 7);
    let config = BlockDescentConfig::default();
    let (joint, _) = task.descend(config, 64, 5);
    for k in 0..7 {
        let single = Task {
            x: task.x.clone(),
            targets: task.targets.iter().skip(k).step_by(7).copied().collect(),
            weights: task.weights.clone(),
            loss: LossSpec::Square.build(1).unwrap(),
        };
        let (state, _) = single.descend(config, 64, 5);
        let largest = state.predictions.iter().fold(0.0_f32, |a, v| a.max(v.abs()));
        for (i, value) in state.predictions.iter().enumerate() {
            // Five blocks of sums of 64 and 1,500 products in single precision, and one division of rounding by ρ.
            assert!((joint.predictions[i * 7 + k] - value).abs() < 1e-5 * largest, "output {k}, row {i}");
        }
    }
}

/// One `ridge` for both solvers: sweeps over the blocks converge to the function that the ridge solver computes on the
/// same features, also where rows have weights and there are several outputs.
#[test]
fn block_descent_with_sweeps_and_ridge_regression_are_one_function() {
    let (task, m, blocks, ridge) = (Task::regression(400, 2), 128, 4, 1e-2);
    let config = BlockDescentConfig { ridge, damping: 1e-3, ..Default::default() };
    let (mut state, _) = task.descend(config, m, blocks);
    let solver = config.build().unwrap();
    for b in (0..60).flat_map(|_| 0..blocks) {
        solver.revisit(&mut state, &task.problem(), b).unwrap();
    }
    let f = FeatureExpansion::new(state.f.map().clone(), vec![0.0; 2]);
    let direct = RidgeConfig { ridge, blocks, tolerance: 1e-7, max_iterations: 1 }.build().unwrap();
    let (exact, _) = direct.fit(f, task.problem().rows, &task.targets, &task.weights, |_, _| Ok(())).unwrap();
    let fresh = Task::regression(500, 2);
    let values = |f: &FeatureExpansion| {
        let mut out = vec![0.0; 1_000];
        f.evaluate(fresh.problem().rows, &mut out).unwrap();
        out
    };
    let (found, expected) = (values(&state.f), values(&exact));
    let size = expected.iter().map(|v| v * v).sum::<f32>().sqrt();
    let gap = found.iter().zip(&expected).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt() / size;
    println!("relative distance {gap:e}");
    assert!(gap < 2e-3, "{gap}");
    // A ridge of another norm, that of B·k, is another function.
    let other = RidgeConfig { ridge: ridge / blocks as f64, blocks, tolerance: 1e-7, max_iterations: 1 };
    let f = FeatureExpansion::new(state.f.map().clone(), vec![0.0; 2]);
    let (other, _) = other
        .build()
        .unwrap()
        .fit(f, task.problem().rows, &task.targets, &task.weights, |_, _| Ok(()))
        .unwrap();
    let other = values(&other);
    let gap = found.iter().zip(&other).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt() / size;
    assert!(gap > 0.02, "{gap}");
}

/// Everything of three fresh blocks and two revisits, as bits.
fn bits(f: &FeatureExpansion, predictions: &[f32], infos: &[BlockInfo]) -> Vec<u64> {
    let numbers =
        coefficients(f).into_iter().chain(predictions.iter().copied()).map(|v| u64::from(v.to_bits()));
    numbers.chain(infos.iter().flat_map(|info| [info.loss.to_bits(), info.taken.to_bits()])).collect()
}

/// The rows of a task with so many columns, shared out at these rows.
fn on_shards(task: &Task, columns: usize, config: BlockDescentConfig, cuts: &[usize]) -> Vec<u64> {
    let (n, solver) = (task.weights.len(), config.build().unwrap());
    let rows = Rows::single(&task.x, columns).unwrap();
    let (c, t) = (task.loss.outputs(), task.loss.targets());
    // k(x, x) of the second is not one, so that its mean over the rows matters too.
    let kernel = if columns > 2 { "gaussian" } else { "arc_cosine(1)" };
    let bandwidth = (columns as f64).sqrt();
    let map = FeatureMap::new(kernel.parse().unwrap(), bandwidth, 64, Seed(7), Scaling::identity(columns));
    let f = FeatureExpansion::new(map.unwrap(), vec![0.1; c]);
    let ends: Vec<usize> = cuts.iter().copied().chain([n]).collect();
    let starts = [0].into_iter().chain(cuts.iter().copied());
    let shards: Vec<Shard<'_>> = starts
        .zip(&ends)
        .map(|(start, &end)| {
            let (targets, weights) = (&task.targets[start * t..end * t], &task.weights[start..end]);
            let problem = Problem { rows: rows.slice(start..end), targets, weights, loss: &*task.loss };
            Shard { problem, first: start, rows: n }
        })
        .collect();
    let mut states: Vec<BlockState> =
        shards.iter().map(|shard| solver.init(f.clone(), shard.problem.rows).unwrap()).collect();
    let infos: Vec<BlockInfo> = [0, 1, 2, 1, 0]
        .into_iter()
        .map(|b| {
            let mut parts: Vec<_> = states.iter_mut().zip(shards.iter().copied()).collect();
            solver.descend(&mut parts, b).unwrap()
        })
        .collect();
    assert!(states.iter().all(|state| coefficients(&state.f) == coefficients(&states[0].f)));
    let predictions: Vec<f32> = states.iter().flat_map(|state| state.predictions.clone()).collect();
    bits(&states[0].f, &predictions, &infos)
}

/// n rows of so many columns: those of a task of two columns, and further ones made from them.
fn widened(mut task: Task, columns: usize) -> Task {
    task.x = task
        .x
        .chunks_exact(2)
        .flat_map(|x| (0..columns).map(|j| if j < 2 { x[j] } else { (x[0] * j as f32 + x[1]).sin() }))
        .collect();
    task
}

/// Losses of every kind: one system or one per output, smooth, or with a kink whose stand-in depends on all residuals.
fn tasks(n: usize) -> Vec<Task> {
    let absolute: LossSpec = "absolute".parse().unwrap();
    vec![
        Task::regression(n, 3),
        Task { loss: absolute.build(2).unwrap(), ..Task::regression(n, 2) },
        Task::classification(&LossSpec::Softmax, 3, sectors(4, n, 3)),
        Task::classification(&LossSpec::Hinge, 2, moons(3, n)),
        Task::rates(n),
    ]
}

/// One shard, two or three, of very different sizes: the same bytes, dense and structured, with all rows in H or some.
#[test]
fn shards_do_not_change_a_bit() {
    for (n, per_feature, leaf) in [(18_500, 1_000, 8_192), (34_000, 256, 16_384)] {
        let config =
            BlockDescentConfig { gram_rows_per_feature: per_feature, ridge: 1e-4, ..Default::default() };
        for (k, task) in tasks(n).into_iter().enumerate() {
            for columns in [2, 40] {
                let task = if columns == 2 { &task } else { &widened(tasks(n).swap_remove(k), columns) };
                let whole = on_shards(task, columns, config, &[]);
                for cuts in [&[2 * leaf][..], &[leaf, 2 * leaf]] {
                    let chunked = BlockDescentConfig { chunk: 2_048, ..config };
                    assert!(
                        on_shards(task, columns, chunked, cuts) == whole,
                        "loss {k}, {columns} columns, shards at {cuts:?} of {n}"
                    );
                }
            }
        }
    }
}

/// The composed step is what `step` and `revisit` do on rows in memory.
#[test]
fn a_step_is_its_four_parts() {
    let task = Task::regression(3_000, 1);
    let config = BlockDescentConfig::default();
    let solver = config.build().unwrap();
    let (mut one, _) = task.descend(config, 64, 0);
    let (mut other, problem) = (one.clone(), task.problem());
    for b in [0, 1, 0] {
        let info = if b == one.f.len() {
            solver.step(&mut one, &problem).unwrap()
        } else {
            solver.revisit(&mut one, &problem, b).unwrap()
        };
        let composed = solver.descend(&mut [(&mut other, Shard::whole(problem))], b).unwrap();
        assert_eq!(bits(&one.f, &one.predictions, &[info]), bits(&other.f, &other.predictions, &[composed]));
    }
}

#[test]
fn shards_that_cut_a_leaf_or_leave_rows_out_are_refused() {
    let task = Task::regression(20_000, 1);
    let config = BlockDescentConfig { gram_rows_per_feature: 1_000, ..Default::default() };
    let solver = config.build().unwrap();
    let state = task.start(config, 64);
    let n = 20_000;
    let leaf = solver.leaf_rows(&state.f, n);
    assert_eq!(leaf, 8_192);
    let part = |start: usize, end: usize| {
        let rows = task.problem().rows.slice(start..end);
        let (targets, weights) = (&task.targets[start..end], &task.weights[start..end]);
        let mut part = state.clone();
        part.predictions = state.predictions[start..end].to_vec();
        let state = part;
        (
            state,
            Shard { problem: Problem { rows, targets, weights, loss: &*task.loss }, first: start, rows: n },
        )
    };
    let refused = |ranges: &[(usize, usize)]| {
        let mut held: Vec<_> = ranges.iter().map(|&(start, end)| part(start, end)).collect();
        let mut parts: Vec<_> = held.iter_mut().map(|(state, shard)| (state, *shard)).collect();
        solver.descend(&mut parts, 0).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refused(&[(0, leaf), (leaf, n)]), "");
    assert!(refused(&[(0, 1_024), (1_024, n)]).contains("multiples of 8192 rows"));
    assert!(refused(&[(0, leaf)]).contains("leaf 1 of 3"));
    assert!(refused(&[(0, leaf), (0, leaf), (leaf, n)]).contains("leaf"));
    assert!(refused(&[]).contains("shards"));
    let mut one = part(0, n);
    one.0.predictions.pop();
    let error = solver.step(&mut one.0, &task.problem()).unwrap_err().to_string();
    assert!(error.contains("predictions has 19999 numbers"), "{error}");
}

/// 72 rows of 64 smooth features: the Gram matrix is singular but for its rounding. A damping far below that rounding is
/// what data with large weights ask for; the step is then as long as single precision allows.
#[test]
fn a_damping_below_the_rounding_of_the_gram_matrix_is_no_failure() {
    let absolute: LossSpec = "absolute".parse().unwrap();
    for task in
        [Task::regression(72, 1), Task { loss: absolute.build(1).unwrap(), ..Task::regression(72, 1) }]
    {
        let (_, losses) = task.descend(BlockDescentConfig { damping: 1e-14, ..Default::default() }, 64, 6);
        println!("{losses:?}");
        assert!(losses.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-6)), "{losses:?}");
        assert!(losses[6] < 0.5 * losses[0], "{losses:?}");
    }
}
