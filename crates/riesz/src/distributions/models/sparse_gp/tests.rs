//! Laws of the recursion, against the formulas of spec 4 in the coordinates of u, with explicit inverses.

use super::accumulate::{add, Batch, Entry};
use super::inducing::Ball;
use super::options::{Mode, SparseProcessOptions};
use super::particle::{Particle, Precision, Setting};
use super::process::SparseProcess;
use crate::data::Rows;
use crate::distributions::special::log_sum_exp;
use crate::driver::quietly;
use crate::functions::{Family, GaussianProcess, GaussianProcessOptions, Hyperparameters};
use crate::model::Stored;
use crate::random::Seed;
use crate::solver::Schedule;
use faer::linalg::solvers::DenseSolveCore;
use faer::Mat;
use std::f64::consts::TAU;

const JITTER: f64 = 1e-8;

/// Two columns, targets around zero.
fn problem(n: usize) -> (Vec<f64>, Vec<f64>) {
    let x: Vec<f64> = (0..2 * n).map(|i| 2.0 * (i as f64 * 0.77 + (i as f64).sqrt()).sin()).collect();
    let y =
        (0..n).map(|i| (x[2 * i] - 0.3).sin() + 0.3 * x[2 * i + 1] + 0.2 * (i as f64 * 1.3).cos()).collect();
    (x, y)
}

fn hyper() -> Hyperparameters {
    Hyperparameters { signal: 1.3, noise: 0.05, length_scales: vec![0.9, 1.4] }
}

fn options(mode: Mode, inducing: usize, particles: usize, batch_size: usize) -> SparseProcessOptions {
    let Hyperparameters { signal, noise, length_scales } = hyper();
    let (signal, noise, length_scales) = (Some(signal), Some(noise), Some(length_scales));
    let base = SparseProcessOptions::new(Seed(3));
    SparseProcessOptions { mode, inducing, particles, batch_size, signal, noise, length_scales, ..base }
}

fn fit(options: &SparseProcessOptions, x: &[f64], y: &[f64]) -> SparseProcess {
    quietly(|control| SparseProcess::fit(options, Rows::double(x, 2).unwrap(), y, None, control)).unwrap()
}

fn setting() -> Setting {
    Setting { kernel: Family::Gaussian, hyper: hyper(), shift: vec![0.0; 2] }
}

fn kernel(a: &[f64], b: &[f64]) -> Mat<f64> {
    let h = hyper();
    let value = |p: &[f64], q: &[f64]| {
        let square: f64 = (0..2).map(|c| ((p[c] - q[c]) / h.length_scales[c]).powi(2)).sum();
        h.signal * (-0.5 * square).exp()
    };
    Mat::from_fn(a.len() / 2, b.len() / 2, |i, j| value(&a[2 * i..2 * i + 2], &b[2 * j..2 * j + 2]))
}

fn prior(z: &[f64]) -> Mat<f64> {
    raised(z, JITTER)
}

/// K_mm with the given share of the signal added to its diagonal.
fn raised(z: &[f64], jitter: f64) -> Mat<f64> {
    let mut k = kernel(z, z);
    (0..k.nrows()).for_each(|i| k[(i, i)] += jitter * hyper().signal);
    k
}

fn inverse(a: &Mat<f64>) -> Mat<f64> {
    a.partial_piv_lu().inverse()
}

fn log_det(a: &Mat<f64>) -> f64 {
    let lower = a.llt(faer::Side::Lower).unwrap();
    (0..a.nrows()).map(|i| 2.0 * lower.L()[(i, i)].ln()).sum()
}

fn column(y: &[f64]) -> Mat<f64> {
    Mat::from_fn(y.len(), 1, |i, _| y[i])
}

/// The recursion of spec 4 as it is printed, with the normaliser of every step: Λ, Λm and log w in the coordinates of u.
struct Literal {
    precision: Mat<f64>,
    shift: Mat<f64>,
    log_weight: f64,
}

impl Literal {
    fn new(z: &[f64], log_prior: f64) -> Self {
        Self { precision: inverse(&prior(z)), shift: Mat::zeros(z.len() / 2, 1), log_weight: log_prior }
    }

    /// ½ mᵀΛm.
    fn half(&self) -> f64 {
        0.5 * (self.shift.transpose() * inverse(&self.precision) * &self.shift)[(0, 0)]
    }

    fn step(&mut self, z: &[f64], (x, y): (&[f64], &[f64]), step: f64, times: f64, log_prior: f64) {
        let (k, beta, b) = (prior(z), 1.0 / hyper().noise, y.len() as f64);
        let (inverse_k, cross) = (inverse(&k), kernel(z, x));
        let square: f64 = y.iter().map(|y| y * y).sum();
        let before = 0.5 * log_det(&self.precision) - self.half();
        let projected = &inverse_k * &cross;
        let scale = step * times;
        self.precision = (1.0 - step) * &self.precision
            + step * &inverse_k
            + scale * beta * (&projected * projected.transpose());
        self.shift = (1.0 - step) * &self.shift + scale * beta * (&projected * column(y));
        let integral = (1.0 - step) * before - 0.5 * step * log_det(&k)
            + scale * (0.5 * b * (beta / TAU).ln() - 0.5 * beta * square)
            - 0.5 * log_det(&self.precision)
            + self.half();
        self.log_weight = (1.0 - step) * self.log_weight + step * log_prior + integral;
    }
}

fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance * expected.abs().max(1.0), "{what}: {found} vs {expected}");
}

/// Any schedule, batches of unequal sizes: our linear state says what the printed recursion says after every step.
#[test]
fn the_state_is_that_of_the_printed_recursion() {
    let (x, y) = problem(30);
    let (z, log_prior) = (x[..10].to_vec(), -0.7);
    let setting = setting();
    let mut ours =
        [Particle::new(&setting, Precision::Double, z.clone(), Ball::everything(2), log_prior).unwrap()];
    let mut literal = Literal::new(&z, log_prior);
    for (t, (from, to)) in [(0, 7), (7, 16), (16, 17), (17, 30), (0, 7)].into_iter().enumerate() {
        let step = [0.6, 0.9, 0.3, 0.5, 0.25][t];
        let (rows, targets) = (&x[2 * from..2 * to], &y[from..to]);
        ours[0].natural.blend(step);
        let batch = Batch { points: &setting.points(rows), targets, weights: &vec![1.0; targets.len()] };
        let entry = Entry { scale: 4.0 * step, own_variance: false, precision: Precision::Double };
        add(&mut ours, &setting, batch, entry);
        literal.step(&z, (rows, targets), step, 4.0, log_prior);
        let posterior = ours[0].natural.posterior().unwrap();
        assert_close(posterior.log_weight, literal.log_weight, 1e-9, "log w");
        // E f at a point: k_ZᵀK⁻¹m in both coordinates.
        let at = [0.4, -0.2];
        let found = ours[0].marginals(&setting, &posterior, &setting.points(&at));
        let weights = inverse(&prior(&z)) * inverse(&literal.precision) * &literal.shift;
        assert_close(found[0][0], (kernel(&at, &z) * weights)[(0, 0)], 1e-9, "mean");
    }
}

/// log N(y; 0, Q + D) with Q = K_nm K_mm⁻¹ K_mn; D is σ² or, where `own`, σ² + s² − diag Q.
fn evidence(k: &Mat<f64>, z: &[f64], x: &[f64], y: &[f64], own: bool) -> f64 {
    let cross = kernel(z, x);
    let mut c = cross.transpose() * inverse(k) * &cross;
    for i in 0..y.len() {
        let left = if own { (hyper().signal - c[(i, i)]).max(0.0) } else { 0.0 };
        c[(i, i)] += hyper().noise + left;
    }
    let y = column(y);
    let misfit = (y.transpose() * inverse(&c) * &y)[(0, 0)];
    -0.5 * (misfit + log_det(&c) + y.nrows() as f64 * TAU.ln())
}

fn centred(y: &[f64]) -> Vec<f64> {
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    y.iter().map(|y| y - mean).collect()
}

/// One pass with γ = 1/t: weights and log p(y) = lse(log w) are those of the closed form, whether or not B divides n.
#[test]
fn one_pass_of_the_paper_is_bayes_rule() {
    let (x, y) = problem(40);
    for batch in [10, 7, 40, 64] {
        let process = fit(&options(Mode::Paper, 6, 3, batch), &x, &y);
        let expected: Vec<f64> = process
            .inducing()
            .map(|z| evidence(&prior(z), z, &x, &centred(&y), false) - 3_f64.ln())
            .collect();
        for (found, expected) in process.log_weights().iter().zip(&expected) {
            assert_close(*found, *expected, 1e-9, "log w");
        }
        assert_close(process.log_evidence(), log_sum_exp(&expected), 1e-9, "log p(y)");
    }
}

/// Two passes with 1/t are the same posterior; a constant step is not, but stays near it.
#[test]
fn schedules_end_where_they_should() {
    let (x, y) = problem(40);
    let one = fit(&options(Mode::Paper, 6, 2, 8), &x, &y);
    let two = fit(&SparseProcessOptions { passes: 2, ..options(Mode::Paper, 6, 2, 8) }, &x, &y);
    assert_close(two.log_evidence(), one.log_evidence(), 1e-9, "two passes");
    let schedule = Schedule::Constant { step: 0.05 };
    let constant =
        fit(&SparseProcessOptions { schedule, passes: 40, ..options(Mode::Paper, 6, 2, 8) }, &x, &y);
    let at = Rows::double(&[0.1, 0.2], 2).unwrap();
    let (a, b) = (one.marginals(at).unwrap(), constant.marginals(at).unwrap());
    assert!(a.0 != b.0 && (a.0[0] - b.0[0]).abs() < 3.0 * a.1[0].sqrt(), "{a:?} {b:?}");
}

/// One inducing input, one row: u by quadrature.
#[test]
fn a_tiny_posterior_agrees_with_quadrature() {
    let (z, x, y) = ([0.2, 0.1], [0.5, -0.3], 0.8);
    let setting = setting();
    let mut ours =
        [Particle::new(&setting, Precision::Double, z.to_vec(), Ball::everything(2), 0.0).unwrap()];
    let batch = Batch { points: &setting.points(&x), targets: &[y], weights: &[2.0] };
    add(&mut ours, &setting, batch, Entry { scale: 1.0, own_variance: false, precision: Precision::Double });
    let (k, cross) = (prior(&z)[(0, 0)], kernel(&x, &z)[(0, 0)]);
    let noise = hyper().noise / 2.0;
    let normal = |v: f64, variance: f64| (-0.5 * v * v / variance).exp() / (TAU * variance).sqrt();
    let density = |u: f64| normal(u, k) * normal(y - cross / k * u, noise);
    let grid: Vec<f64> = (-40_000..40_000).map(|i| f64::from(i) * 2e-4).collect();
    let mass: f64 = grid.iter().map(|&u| density(u)).sum::<f64>() * 2e-4;
    let mean = grid.iter().map(|&u| u * density(u)).sum::<f64>() * 2e-4 / mass;
    let posterior = ours[0].natural.posterior().unwrap();
    assert_close(posterior.log_weight, mass.ln(), 1e-11, "log w");
    assert_close(posterior.mean[0] * k.sqrt(), mean, 1e-11, "E u");
}

/// With all rows inducing the model is the process itself: evidence, means and covariances are those of the exact one.
#[test]
fn with_all_rows_inducing_it_is_the_exact_process() {
    let (x, y) = problem(40);
    let h = hyper();
    let mut exact = GaussianProcessOptions::new(Seed(1));
    (exact.signal, exact.noise, exact.length_scales) = (Some(h.signal), Some(h.noise), Some(h.length_scales));
    let exact = quietly(|c| GaussianProcess::fit(&exact, Rows::double(&x, 2).unwrap(), &y, c)).unwrap();
    let (test, _) = problem(12);
    let test: Vec<f64> = test.iter().map(|v| v + 0.1).collect();
    let test = Rows::double(&test, 2).unwrap();
    for mode in [Mode::Paper, Mode::Adaptive] {
        let process = fit(&options(mode, 64, 4, 16), &x, &y);
        assert_eq!(process.inducing().len(), 1);
        assert_close(process.log_evidence(), exact.log_marginal_likelihood(), 1e-5, "evidence");
        let ((m, c), (exact_m, exact_c)) = (process.joint(test).unwrap(), exact.joint(test).unwrap());
        let variances = process.marginals(test).unwrap().1;
        for i in 0..m.len() {
            assert!((m[i] - exact_m[i]).abs() < 1e-5);
            assert!((c[(i, i)] - variances[i]).abs() < 1e-7);
            (0..m.len()).for_each(|j| assert!((c[(i, j)] - exact_c[(i, j)]).abs() < 1e-5));
        }
    }
}

/// The adaptive mode gives a set the posterior of FITC on the rows within ball, and the prior's density to the others.
#[test]
fn an_adaptive_pass_is_fitc_on_the_rows_within_reach() {
    let (x, y) = problem(60);
    let process = fit(&options(Mode::Adaptive, 4, 15, 16), &x, &y);
    let y = centred(&y);
    for (particle, found) in process.particles.iter().zip(process.log_weights()) {
        let points = process.setting.points(&x);
        let near: Vec<bool> = (0..60).map(|i| particle.ball.contains(points.row(i))).collect();
        assert_eq!(near.iter().filter(|near| **near).count(), 30);
        let (mut rows, mut targets, mut elsewhere) = (Vec::new(), Vec::new(), 0.0);
        for i in 0..60 {
            if near[i] {
                rows.extend_from_slice(&x[2 * i..2 * i + 2]);
                targets.push(y[i]);
            } else {
                let variance = hyper().signal + hyper().noise;
                elsewhere -= 0.5 * (y[i] * y[i] / variance + (TAU * variance).ln());
            }
        }
        // Sets of close neighbours feel the jitter of single precision, which the reference therefore has too.
        let prior = raised(&particle.rows, Precision::Single.nugget());
        let expected = evidence(&prior, &particle.rows, &rows, &targets, true) + elsewhere - 15_f64.ln();
        assert_close(found, expected, 1e-3, "log w");
    }
}

#[test]
fn further_rows_are_as_good_as_the_first() {
    let (x, y) = problem(40);
    let all = fit(&options(Mode::Paper, 64, 1, 16), &x, &y);
    // The mean of the targets is that of the first fit: make them equal.
    let mean = y.iter().sum::<f64>() / 40.0;
    let mut parts = fit(&options(Mode::Paper, 64, 1, 16), &x, &vec![mean; 40]);
    let natural = super::Natural::prior(40, 0.0);
    parts.particles[0].natural = natural;
    for (rows, targets) in x.chunks(26).zip(y.chunks(13)) {
        quietly(|c| parts.extend(Rows::double(rows, 2).unwrap(), targets, None, c)).unwrap();
    }
    assert_close(parts.log_evidence(), all.log_evidence(), 1e-9, "evidence");
}

#[test]
fn files_hold_the_posterior_and_refuse_what_is_broken() {
    let (x, y) = problem(60);
    for mode in [Mode::Paper, Mode::Adaptive] {
        let process = fit(&options(mode, 8, 3, 16), &x, &y);
        let container = process.to_container().unwrap();
        let copy = SparseProcess::from_container(container.clone()).unwrap();
        let rows = Rows::double(&x, 2).unwrap();
        assert_eq!(copy.marginals(rows).unwrap(), process.marginals(rows).unwrap());
        assert_eq!(copy.to_container().unwrap(), container);
        let broken = |name: &str, values: Vec<f64>| {
            let mut container = container.clone();
            container.insert(name, vec![values.len()], values).unwrap();
            SparseProcess::from_container(container).unwrap_err().to_string()
        };
        assert!(broken("shift.1", vec![f64::NAN; 8]).contains("finite"));
        assert!(broken("length_scales", vec![-1.0, 1.0]).contains("length_scales"));
        assert!(broken("precision.0", vec![0.0; 36]).contains("positive definite"));
    }
}

/// Predictions, weights and bytes do not depend on the number of threads.
#[test]
fn threads_change_no_bit() {
    let (x, y) = problem(700);
    let of = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let work = |mode, inducing| fit(&options(mode, inducing, 5, 300), &x, &y).to_container().unwrap();
        // Random sets, random sets again because they suffice, and local ones.
        pool.install(|| [work(Mode::Paper, 70), work(Mode::Adaptive, 70), work(Mode::Adaptive, 9)])
    };
    assert!(of(1) == of(3));
}

/// D5 in small: 16 particles of 48 inputs on 512 rows, against the exact process.
#[test]
fn mean_and_variance_reach_those_of_the_exact_process() {
    let n = 512;
    let x: Vec<f64> = (0..n).map(|i| 2.0 * (i as f64 + 0.5) / n as f64 - 1.0).collect();
    let wave = |x: f64| {
        let decay = (-1.6 * std::f64::consts::PI * x.abs()).exp();
        3.0 * x * x
            + ((3.53 * std::f64::consts::PI * x).sin() + (7.7 * std::f64::consts::PI * x).cos()) * decay
    };
    let y: Vec<f64> =
        x.iter().enumerate().map(|(i, &x)| wave(x) + 0.1 * (i as f64 * 12.9898).sin()).collect();
    let mut exact = GaussianProcessOptions::new(Seed(1));
    (exact.signal, exact.noise, exact.length_scales) = (Some(1.0), Some(0.01), Some(vec![0.1]));
    let exact = quietly(|c| GaussianProcess::fit(&exact, Rows::double(&x, 1).unwrap(), &y, c)).unwrap();
    for mode in [Mode::Paper, Mode::Adaptive] {
        let base = SparseProcessOptions::new(Seed(5));
        let options = SparseProcessOptions {
            mode,
            inducing: 48,
            batch_size: 64,
            signal: Some(1.0),
            noise: Some(0.01),
            length_scales: Some(vec![0.1]),
            ..base
        };
        let rows = Rows::double(&x, 1).unwrap();
        let process = quietly(|c| SparseProcess::fit(&options, rows, &y, None, c)).unwrap();
        let ((m, v), (exact_m, exact_v)) = (process.marginals(rows).unwrap(), exact.marginals(rows).unwrap());
        let rms = |a: &[f64], b: &[f64]| {
            (a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / a.len() as f64).sqrt()
        };
        // The posterior deviation is 0.03; 48 inputs at 40 of a length scale each leave next to nothing.
        assert!(rms(&m, &exact_m) < 0.01, "{mode:?} mean {}", rms(&m, &exact_m));
        assert!(rms(&v, &exact_v) < 0.001, "{mode:?} variance {}", rms(&v, &exact_v));
    }
}
