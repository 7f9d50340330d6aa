//! Gaussian processes against their closed forms.
#![allow(clippy::unwrap_used)]

use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, Side};
use riesz::data::Rows;
use riesz::driver::{quietly, Control, Phase, Progress};
use riesz::functions::{
    operator_variances, ridge_variances, Approximation, GaussianProcess, GaussianProcessOptions,
    Hyperparameters, PosteriorOperatorConfig, Sampling,
};
use riesz::kernel::{FeatureForm, FeatureMap, KernelSpec, Scaling};
use riesz::model::{Container, Stored};
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::solver::{RidgeConfig, Schedule};
use riesz::space::{FeatureExpansion, Function};
use riesz::Error;

const COLUMNS: usize = 2;

/// Rows uniform on [−2, 2]², in single precision so that every route sees the same numbers.
fn rows(purpose: u64, n: usize) -> Vec<f32> {
    let words = |i: usize| Address::new(Seed(5), Stream::Synthetic, BlockIndex(purpose), i as u32).words(0);
    (0..n).flat_map(|i| [words(i)[0], words(i)[1]].map(|w| (4.0 * uniform_open(w) - 2.0) as f32)).collect()
}

/// sin(2x) + xy and noise of deviation 0.3; the mean is far from zero.
fn targets(x: &[f32], purpose: u64) -> Vec<f64> {
    let noise = |i: usize| {
        let words = Address::new(Seed(6), Stream::Synthetic, BlockIndex(purpose), i as u32).words(0);
        normal_pair(words[0], words[1])[0]
    };
    let truth = |p: &[f32]| (2.0 * f64::from(p[0])).sin() + f64::from(p[0] * p[1]);
    x.chunks_exact(COLUMNS).enumerate().map(|(i, p)| 7.0 + truth(p) + 0.3 * noise(i)).collect()
}

fn hyper() -> Hyperparameters {
    Hyperparameters { signal: 1.8, noise: 0.09, length_scales: vec![0.8, 1.7] }
}

fn settled(approximation: Approximation) -> GaussianProcessOptions {
    let Hyperparameters { signal, noise, length_scales } = hyper();
    GaussianProcessOptions {
        signal: Some(signal),
        noise: Some(noise),
        length_scales: Some(length_scales),
        approximation,
        ..GaussianProcessOptions::new(Seed(3))
    }
}

fn fit(options: &GaussianProcessOptions, x: &[f32], y: &[f64]) -> GaussianProcess {
    quietly(|control| GaussianProcess::fit(options, Rows::single(x, COLUMNS).unwrap(), y, control)).unwrap()
}

fn kernel(a: &[f32], b: &[f32]) -> Mat<f64> {
    let h = hyper();
    Mat::from_fn(a.len() / COLUMNS, b.len() / COLUMNS, |i, j| {
        let square = |c: usize| {
            let difference = f64::from(a[i * COLUMNS + c]) - f64::from(b[j * COLUMNS + c]);
            (difference / h.length_scales[c]).powi(2)
        };
        h.signal * (-0.5 * (square(0) + square(1))).exp()
    })
}

/// k*ᵀ(K + σ²I)⁻¹y and k** − k*ᵀ(K + σ²I)⁻¹k*.
fn closed_form(x: &[f32], y: &[f64], test: &[f32]) -> (Vec<f64>, Mat<f64>) {
    let n = y.len();
    let mean = y.iter().sum::<f64>() / n as f64;
    let mut k = kernel(x, x);
    (0..n).for_each(|i| k[(i, i)] += hyper().noise);
    let factor = Llt::new(k.as_ref(), Side::Lower).unwrap();
    let across = kernel(x, test);
    let solved = factor.solve(&across);
    let centred = Mat::from_fn(n, 1, |i, _| y[i] - mean);
    let means = solved.transpose() * &centred;
    let covariance = kernel(test, test) - across.transpose() * &solved;
    ((0..test.len() / COLUMNS).map(|i| mean + means[(i, 0)]).collect(), covariance)
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "{i}: {a} vs {b}");
    }
}

/// Root of the mean square of the differences.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    (a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / a.len() as f64).sqrt()
}

#[test]
fn the_exact_posterior_is_the_closed_form() {
    let (x, test) = (rows(0, 150), rows(1, 40));
    let y = targets(&x, 0);
    let (mean, covariance) = closed_form(&x, &y, &test);
    let process = fit(&settled(Approximation::Auto), &x, &y);
    assert!(process.is_exact());
    let at = Rows::single(&test, COLUMNS).unwrap();
    assert_close(&process.mean(at).unwrap(), &mean, 1e-10);
    let (means, variances) = process.marginals(at).unwrap();
    assert_close(&means, &mean, 1e-10);
    let diagonal: Vec<f64> = (0..40).map(|i| covariance[(i, i)]).collect();
    assert_close(&variances, &diagonal, 1e-10);
    let (means, joint) = process.joint(at).unwrap();
    assert_close(&means, &mean, 1e-10);
    (0..40).for_each(|j| assert_close(joint.col_as_slice(j), covariance.col_as_slice(j), 1e-10));
}

/// Features are in single precision, hence the tolerance.
#[test]
fn inducing_points_are_exact_in_both_limits() {
    let (x, test) = (rows(0, 300), rows(1, 50));
    let y = targets(&x, 0);
    let at = Rows::single(&test, COLUMNS).unwrap();
    let exact = fit(&settled(Approximation::Exact), &x, &y);
    let (mean, covariance) = exact.joint(at).unwrap();
    for (inducing, neighbours) in [(300, 0), (20, 300), (300, 10)] {
        let options = GaussianProcessOptions { inducing, neighbours, ..settled(Approximation::Inducing) };
        let process = fit(&options, &x, &y);
        assert!(!process.is_exact());
        let (means, variances) = process.marginals(at).unwrap();
        assert_close(&means, &mean, 2e-4);
        let (means, joint) = process.joint(at).unwrap();
        assert_close(&means, &mean, 2e-4);
        for j in 0..50 {
            assert!((variances[j] - covariance[(j, j)]).abs() < 2e-4);
            assert_close(joint.col_as_slice(j), covariance.col_as_slice(j), 2e-4);
        }
        let (a, b) = (process.log_marginal_likelihood(), exact.log_marginal_likelihood());
        assert!((a - b).abs() < 1e-3 * b.abs(), "{inducing}, {neighbours}: {a} vs {b}");
    }
}

/// With few of both the approximation is no longer exact, and more of either is better.
#[test]
fn more_inducing_points_and_more_neighbours_are_better() {
    let (x, test) = (rows(0, 1_000), rows(1, 100));
    let y = targets(&x, 0);
    let at = Rows::single(&test, COLUMNS).unwrap();
    let (mean, variance) = fit(&settled(Approximation::Exact), &x, &y).marginals(at).unwrap();
    let error = |inducing, neighbours| {
        let options = GaussianProcessOptions { inducing, neighbours, ..settled(Approximation::Inducing) };
        let (m, v) = fit(&options, &x, &y).marginals(at).unwrap();
        distance(&m, &mean) + distance(&v, &variance)
    };
    let [few, more, near, both] = [error(5, 0), error(40, 0), error(5, 20), error(40, 20)];
    assert!(more < 0.5 * few && near < 0.5 * few && both < near.min(more), "{few} {more} {near} {both}");
}

#[test]
fn joint_variances_are_the_marginal_ones() {
    let (x, test) = (rows(0, 600), rows(1, 30));
    let options = GaussianProcessOptions { inducing: 10, neighbours: 5, ..settled(Approximation::Inducing) };
    let process = fit(&options, &x, &targets(&x, 0));
    let at = Rows::single(&test, COLUMNS).unwrap();
    let (variances, joint) = (process.marginals(at).unwrap().1, process.joint(at).unwrap().1);
    let diagonal: Vec<f64> = (0..30).map(|i| joint[(i, i)]).collect();
    assert_close(&variances, &diagonal, 1e-5);
}

/// Both parts have mean zero, so that the constant is the same for the part and for the whole.
#[test]
fn rows_that_come_later_count_the_same() {
    let (x, test) = (rows(0, 200), rows(1, 20));
    let at = Rows::single(&test, COLUMNS).unwrap();
    let mut y = targets(&x, 0);
    for part in y.chunks_mut(100) {
        let mean = part.iter().sum::<f64>() / 100.0;
        part.iter_mut().for_each(|v| *v -= mean);
    }
    for (approximation, tolerance) in [(Approximation::Exact, 1e-10), (Approximation::Inducing, 1e-3)] {
        let options = settled(approximation);
        let (mean, variance) = fit(&options, &x, &y).marginals(at).unwrap();
        let mut part = fit(&options, &x[..200], &y[..100]);
        for from in [100, 150] {
            let rest = Rows::single(&x[2 * from..2 * from + 100], COLUMNS).unwrap();
            quietly(|control| part.extend(rest, &y[from..from + 50], control)).unwrap();
        }
        assert_eq!(part.len(), 200);
        let (means, variances) = part.marginals(at).unwrap();
        assert_close(&means, &mean, tolerance);
        assert_close(&variances, &variance, tolerance);
    }
}

#[test]
fn a_process_survives_its_file() {
    let (x, test) = (rows(0, 120), rows(1, 20));
    let at = Rows::single(&test, COLUMNS).unwrap();
    for approximation in [Approximation::Exact, Approximation::Inducing] {
        let process = fit(&settled(approximation), &x, &targets(&x, 0));
        let bytes = process.to_bytes().unwrap();
        let again = GaussianProcess::from_bytes(&bytes).unwrap();
        assert_eq!(again.marginals(at).unwrap(), process.marginals(at).unwrap());
        assert_eq!(again.to_bytes().unwrap(), bytes);
        let mut damaged = Container::from_bytes(&bytes).unwrap();
        damaged.insert("targets", vec![1], vec![0.0_f64]).unwrap();
        assert!(matches!(GaussianProcess::from_container(damaged), Err(Error::Format(_))));
    }
}

/// Data drawn from a process are explained by hyper-parameters close to its own. The standard errors at 600 rows are
/// about 6 % for the noise (√(2/600)) and 10 % for the length scales; three of them are allowed.
#[test]
fn hyperparameters_are_found() {
    let n = 600;
    let x: Vec<f32> = rows(0, n).chunks(2).flat_map(|p| [p[0], p[1], (p[0] * 977.0).sin()]).collect();
    let truth: Vec<f32> = x.chunks(3).flat_map(|p| [p[0], p[1]]).collect();
    let prior = fit(&settled(Approximation::Exact), &[90.0, 90.0], &[0.0]);
    let y = prior.sample(Rows::single(&truth, 2).unwrap(), 1, Sampling::Joint, Seed(4), true).unwrap();
    let options = GaussianProcessOptions::new(Seed(1));
    let process = quietly(|control| {
        GaussianProcess::fit(&options, Rows::single(&x, 3).unwrap(), y.col_as_slice(0), control)
    })
    .unwrap();
    let (found, expected) = (process.hyperparameters(), hyper());
    assert!((found.noise / expected.noise).ln().abs() < 0.2, "{found:?}");
    for c in 0..2 {
        assert!((found.length_scales[c] / expected.length_scales[c]).ln().abs() < 0.3, "{found:?}");
    }
    // The third column says nothing.
    assert!(found.length_scales[2] > 3.0, "{found:?}");
    let given = GaussianProcessOptions {
        signal: Some(1.8),
        noise: Some(0.09),
        length_scales: Some(vec![0.8, 1.7, 1e3]),
        ..options
    };
    let truth = quietly(|control| {
        GaussianProcess::fit(&given, Rows::single(&x, 3).unwrap(), y.col_as_slice(0), control)
    })
    .unwrap();
    assert!(process.log_marginal_likelihood() > truth.log_marginal_likelihood() - 0.1);
}

/// Not a bit of what is learnt, predicted or drawn depends on the number of threads.
#[test]
fn threads_change_nothing() {
    let (x, test) = (rows(0, 700), rows(1, 150));
    let y = targets(&x, 0);
    let at = Rows::single(&test, COLUMNS).unwrap();
    for approximation in [Approximation::Exact, Approximation::Inducing] {
        let options = GaussianProcessOptions {
            approximation,
            learning_rows: 450,
            inducing: 200,
            ..GaussianProcessOptions::new(Seed(2))
        };
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let process = fit(&options, &x, &y);
                let samples = [Sampling::Joint, Sampling::Functions]
                    .map(|how| process.sample(at, 3, how, Seed(1), true).unwrap());
                (process.hyperparameters().clone(), process.marginals(at).unwrap(), samples)
            })
        };
        let one = on(1);
        assert!(on(2) == one && on(3) == one, "{approximation:?}");
    }
}

/// Of `count` samples the standard error of a mean is σ/√count (1.6 % of the deviation for 4,000), of a covariance about
/// √2 times that; 4.5 of them are allowed.
#[test]
fn samples_have_the_moments_of_the_posterior() {
    let (x, test) = (rows(0, 100), rows(1, 8));
    let at = Rows::single(&test, COLUMNS).unwrap();
    // With few inducing points and neighbours all terms of the approximation count.
    let few = GaussianProcessOptions { inducing: 12, neighbours: 6, ..settled(Approximation::Inducing) };
    for options in [settled(Approximation::Exact), settled(Approximation::Inducing), few] {
        let process = fit(&options, &x, &targets(&x, 0));
        for (how, noisy) in [Sampling::Joint, Sampling::Functions].into_iter().zip([true, false]) {
            let (mean, mut covariance) = process.joint(at).unwrap();
            (0..8).for_each(|i| covariance[(i, i)] += if noisy { hyper().noise } else { 0.0 });
            let count = if how == Sampling::Joint { 4_000 } else { 1_500 };
            let samples = process.sample(at, count, how, Seed(9), noisy).unwrap();
            let centred = Mat::from_fn(8, count, |i, s| samples[(i, s)] - mean[i]);
            for i in 0..8 {
                let average = (0..count).map(|s| centred[(i, s)]).sum::<f64>() / count as f64;
                assert!(average.abs() < 4.5 * (covariance[(i, i)] / count as f64).sqrt(), "{i}: {average}");
                for j in 0..8 {
                    let found =
                        (0..count).map(|s| centred[(i, s)] * centred[(j, s)]).sum::<f64>() / count as f64;
                    let spread = covariance[(i, i)] * covariance[(j, j)] + covariance[(i, j)].powi(2);
                    let error = (found - covariance[(i, j)]).abs();
                    assert!(error < 4.5 * (spread / count as f64).sqrt(), "{how:?} ({i}, {j}): {error}");
                }
            }
        }
    }
}

/// A sample is a function: its values do not depend on where else it is asked for, nor on how many others are drawn.
#[test]
fn a_seed_is_a_function() {
    let (x, test) = (rows(0, 300), rows(1, 2_500));
    for approximation in [Approximation::Exact, Approximation::Inducing] {
        let process = fit(&settled(approximation), &x, &targets(&x, 0));
        let draw = |points: &[f32], count: usize, how: Sampling| {
            process.sample(Rows::single(points, COLUMNS).unwrap(), count, how, Seed(4), false).unwrap()
        };
        let all = draw(&test, 3, Sampling::Auto);
        assert_eq!(all, draw(&test, 3, Sampling::Functions));
        let some = draw(&test[4_000..4_100], 2, Sampling::Functions);
        for s in 0..2 {
            // Products of other shapes round differently.
            assert_close(some.col_as_slice(s), &all.col_as_slice(s)[2_000..2_050], 1e-10);
        }
        assert!((0..50).any(|i| (all[(i, 0)] - all[(i, 1)]).abs() > 0.05));
    }
}

/// The features of the kernel of [`hyper`] without its s².
fn map(block_size: usize, seed: u64) -> FeatureMap {
    let scale = hyper().length_scales.iter().map(|l| (1.0 / l) as f32).collect();
    let scaling = Scaling { shift: vec![0.0; COLUMNS], scale };
    let mut map = FeatureMap::new(KernelSpec::Gaussian, 1.0, block_size, Seed(seed), scaling).unwrap();
    map.form = FeatureForm::Paired;
    map
}

/// The mean is ridge regression with ν = σ²/(n s²), and the variance one such regression per test point. On M features
/// the error of both falls like 1/√M: over a factor of 16 the exponent is −½ within ±0.2 of Monte-Carlo error.
#[test]
fn mean_and_variance_are_ridge_regressions() {
    let (n, t) = (150, 20);
    let (x, test) = (rows(0, n), rows(1, t));
    let y = targets(&x, 0);
    let (mean, covariance) = closed_form(&x, &y, &test);
    let variance: Vec<f64> = (0..t).map(|i| covariance[(i, i)]).collect();
    let offset = y.iter().sum::<f64>() / n as f64;
    let single: Vec<f32> = y.iter().map(|&v| v as f32).collect();
    let (x, test) = (Rows::single(&x, COLUMNS).unwrap(), Rows::single(&test, COLUMNS).unwrap());
    let h = hyper();
    let errors = |blocks: usize| -> [f64; 2] {
        let each = |seed: u64| {
            let found = ridge_variances(&map(256, seed), blocks, x, test, h.noise / h.signal).unwrap();
            let found: Vec<f64> = found.iter().map(|v| h.signal * v).collect();
            let ridge = h.noise / h.signal / n as f64;
            let config = RidgeConfig { ridge, blocks, tolerance: 1e-6, max_iterations: 100 };
            let f = FeatureExpansion::new(map(256, seed), vec![offset as f32]);
            let (f, _) = config.build().unwrap().fit(f, x, &single, &vec![1.0; n], |_, _| Ok(())).unwrap();
            let mut values = vec![0.0; t];
            f.evaluate(test, &mut values).unwrap();
            let values: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
            [distance(&values, &mean), distance(&found, &variance)]
        };
        let runs: Vec<[f64; 2]> = (0..6).map(each).collect();
        [0, 1].map(|k| runs.iter().map(|run| run[k]).sum::<f64>() / 6.0)
    };
    let (few, many) = (errors(2), errors(32));
    for (what, (few, many)) in ["mean", "variance"].iter().zip(few.into_iter().zip(many)) {
        let slope = (many / few).ln() / 16_f64.ln();
        assert!((-0.7..-0.3).contains(&slope), "{what}: {few:.2e} → {many:.2e}, slope {slope:.2}");
    }
}

/// Route 1 on twenty points: from 16 to 64 steps of blocks and batches of 64 the error falls about like 1/√t (an exponent
/// of −0.45 was measured), and it ends small against the variances, which are between 0.1 and 0.9 of s².
#[test]
fn the_recursion_of_the_operator_converges() {
    let (n, t) = (20, 10);
    let (x, test) = (rows(0, n), rows(1, t));
    let (h, y) = (hyper(), vec![0.0; n]);
    let (_, covariance) = closed_form(&x, &y, &test);
    let exact: Vec<f64> = (0..t).map(|i| covariance[(i, i)] / h.signal).collect();
    let at = Rows::single(&test, COLUMNS).unwrap();
    let ridge = h.noise / h.signal / n as f64;
    let errors = |seed: u64| {
        let schedule = Schedule::Inverse { theta: 60.0, delay: 20.0 };
        let mut operator = PosteriorOperatorConfig { map: map(64, seed), ridge, schedule }.build().unwrap();
        let mut out = Vec::new();
        for step in 1..=64_u64 {
            let word = |i: u32| Address::new(Seed(seed), Stream::Shuffle, BlockIndex(step), i).words(0)[0];
            let picks: Vec<usize> = (0..64).map(|i| word(i) as usize % n).collect();
            let batch: Vec<f32> =
                picks.iter().flat_map(|&i| x[i * COLUMNS..(i + 1) * COLUMNS].iter().copied()).collect();
            operator.step(Rows::single(&batch, COLUMNS).unwrap()).unwrap();
            if [16, 64].contains(&step) {
                out.push(distance(&operator.variances(at).unwrap(), &exact));
            }
        }
        let joint = operator.covariance(at).unwrap();
        let diagonal: Vec<f64> = (0..t).map(|i| joint[(i, i)]).collect();
        assert_close(&diagonal, &operator.variances(at).unwrap(), 1e-5);
        assert!((0..t).all(|i| (0..t).all(|j| joint[(i, j)] == joint[(j, i)])));
        out
    };
    let runs: Vec<Vec<f64>> = (0..3).map(errors).collect();
    let [early, late] = [0, 1].map(|k| runs.iter().map(|run| run[k]).sum::<f64>() / 3.0);
    let slope = (late / early).ln() / 4_f64.ln();
    assert!((-1.2..-0.3).contains(&slope) && late < 0.06, "{early} → {late}, slope {slope:.2}");
}

/// k(x, x) − k*ᵀ(K + σ²I)⁻¹k* of any kernel.
fn variances_of(kernel: &KernelSpec, x: &[f32], test: &[f32], noise: f64) -> Vec<f64> {
    let k = |a: &[f32], b: &[f32]| {
        let row = |rows: &[f32], i: usize| [rows[i * COLUMNS], rows[i * COLUMNS + 1]];
        Mat::from_fn(a.len() / COLUMNS, b.len() / COLUMNS, |i, j| {
            kernel.evaluate(&row(a, i), &row(b, j), 1.0).unwrap()
        })
    };
    let mut system = k(x, x);
    (0..system.nrows()).for_each(|i| system[(i, i)] += noise);
    let across = k(x, test);
    let explained = across.transpose() * Llt::new(system.as_ref(), Side::Lower).unwrap().solve(&across);
    let own = k(test, test);
    (0..own.nrows()).map(|i| own[(i, i)] - explained[(i, i)]).collect()
}

/// Kernels that are not one at equal rows. Both routes converge to the closed form as they have more features; errors are
/// relative to the largest variance before there were data; over a factor of 32 in M that of ridge falls by more than two.
#[test]
fn variances_of_kernels_that_are_not_one_at_equal_rows() {
    let (n, t) = (20, 10);
    let (x, test) = (rows(0, n), rows(1, t));
    let (seen, at) = (Rows::single(&x, COLUMNS).unwrap(), Rows::single(&test, COLUMNS).unwrap());
    for name in ["polynomial(2, 1)", "arc_cosine(1)", "2.5 * gaussian", "gaussian + 0.5 * polynomial(2, 1)"] {
        let kernel: KernelSpec = name.parse().unwrap();
        let map = |m| FeatureMap::new(kernel.clone(), 1.0, m, Seed(3), Scaling::identity(COLUMNS)).unwrap();
        let square = map(128).mean_square(seen).unwrap();
        let noise = 0.1 * square;
        let exact = variances_of(&kernel, &x, &test, noise);
        let before = variances_of(&kernel, &x, &test, 1e12 * square);
        let size = before.iter().copied().fold(0.0, f64::max);
        let ridge = |blocks| distance(&ridge_variances(&map(512), blocks, seen, at, noise).unwrap(), &exact);
        let (few, many) = (ridge(2) / size, ridge(64) / size);
        // The sketch of a polynomial of three numbers is exact where none of them share a bucket, as in most blocks.
        assert!(many < 0.04 && many < (0.5 * few).max(1e-3), "{name}: {few} → {many}");
        let schedule = Schedule::Inverse { theta: 60.0 / square, delay: 20.0 };
        let config = PosteriorOperatorConfig { map: map(128), ridge: noise / n as f64, schedule };
        let found = operator_variances(config, 64, 64, seen, at).unwrap();
        let error = distance(&found, &exact) / size;
        assert!(error < 0.1, "{name}: operator {error}");
    }
}

/// However little time there is, one start is looked at, and all rows are conditioned on.
#[test]
fn the_time_for_hyperparameters_is_kept() {
    let x = rows(0, 600);
    let y = targets(&x, 0);
    let looked = |max_time: Option<f64>| {
        let options = GaussianProcessOptions { max_time, ..GaussianProcessOptions::new(Seed(3)) };
        let (mut phases, mut go_on) = ((0, 0), || false);
        let mut observe = |p: &Progress| match p.phase {
            Phase::Hyperparameters => phases.0 += 1,
            _ => phases.1 += 1,
        };
        let mut control = Control::new(&mut go_on, &mut observe);
        let process = GaussianProcess::fit(&options, Rows::single(&x, COLUMNS).unwrap(), &y, &mut control);
        assert_eq!(process.unwrap().len(), 600);
        phases
    };
    assert_eq!(looked(Some(1e-9)).0, 1);
    let (steps, panels) = looked(None);
    assert!(steps > 20 && panels > 2, "{steps} {panels}");
}

#[test]
fn a_fit_can_be_cancelled_while_it_learns_and_while_it_conditions() {
    let x = rows(0, 600);
    let y = targets(&x, 0);
    for options in [
        GaussianProcessOptions::new(Seed(3)),
        settled(Approximation::Exact),
        settled(Approximation::Inducing),
    ] {
        let mut asked = 0;
        let mut cancelled = || {
            asked += 1;
            asked > 2
        };
        let mut ignore = |_: &Progress| {};
        let mut control = Control::new(&mut cancelled, &mut ignore);
        let fit = GaussianProcess::fit(&options, Rows::single(&x, COLUMNS).unwrap(), &y, &mut control);
        assert!(matches!(fit, Err(Error::Cancelled { .. })));
    }
}

/// Equal rows and a noise below the rounding of s²: the posterior says by how much the noise was raised.
#[test]
fn a_covariance_singular_to_rounding_is_no_error() {
    let x = vec![0.5_f32; 60 * COLUMNS];
    let options = GaussianProcessOptions { noise: Some(1e-18), ..settled(Approximation::Exact) };
    let process = fit(&options, &x, &vec![7.0; 60]);
    assert!(process.jitter() > 0.0 && process.jitter() < 1e-12, "{}", process.jitter());
    let at = Rows::single(&x[..COLUMNS], COLUMNS).unwrap();
    assert_close(&process.mean(at).unwrap(), &[7.0], 1e-9);
    assert_eq!(fit(&settled(Approximation::Exact), &rows(0, 60), &vec![0.0; 60]).jitter(), 0.0);
}

#[test]
fn bad_input_is_named() {
    let good = settled(Approximation::Auto);
    let try_fit = |options: &GaussianProcessOptions, x: &[f32], y: &[f64]| {
        quietly(|control| GaussianProcess::fit(options, Rows::single(x, 2)?, y, control))
            .unwrap_err()
            .to_string()
    };
    let (x, y) = (rows(0, 4), [0.0; 4]);
    assert!(try_fit(&good, &x, &y[..3]).contains("y has 3 rows, expected 4"));
    assert!(try_fit(&good, &x, &[0.0, f64::NAN, 0.0, 0.0]).contains("y contains NaN at row 1"));
    assert!(try_fit(&good, &[], &[]).contains("X is empty"));
    let bad = GaussianProcessOptions { noise: Some(0.0), ..good.clone() };
    assert!(try_fit(&bad, &x, &y).contains("noise = 0"));
    let bad = GaussianProcessOptions { length_scales: Some(vec![1.0]), ..good.clone() };
    assert!(try_fit(&bad, &x, &y).contains("length_scales has 1 rows, expected 2"));
    let process = fit(&good, &x, &y);
    let wide = Rows::single(&[0.0; 3], 3).unwrap();
    assert!(matches!(process.mean(wide), Err(Error::Columns { expected: 2, found: 3 })));
}

/// One row, and a constant target: nothing to learn, nothing to fail.
#[test]
fn degenerate_data_are_fitted() {
    let options = GaussianProcessOptions::new(Seed(0));
    let one = fit(&options, &[1.0, 2.0], &[3.0]);
    assert_eq!(one.mean(Rows::single(&[1.0, 2.0], 2).unwrap()).unwrap(), [3.0]);
    let x = rows(0, 50);
    let constant = fit(&options, &x, &[2.5; 50]);
    assert_close(&constant.mean(Rows::single(&x, 2).unwrap()).unwrap(), &[2.5; 50], 1e-9);
    // A column that never changes is left out.
    let flat: Vec<f32> = x.chunks(2).flat_map(|p| [p[0], 4.0]).collect();
    let process = fit(&options, &flat, &targets(&x, 0));
    assert_eq!(process.hyperparameters().length_scales[1], f64::INFINITY);
}
