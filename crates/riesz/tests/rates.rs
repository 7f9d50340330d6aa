//! Convergence rates on problems whose optimum is known in closed form.
#![allow(clippy::unwrap_used)]

use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, Side};
use rayon::prelude::*;
use riesz::compute::{features, Device};
use riesz::data::Rows;
use riesz::kernel::{FeatureMap, KernelSpec, Projection, Scaling};
use riesz::loss::LossSpec;
use riesz::operator::Evaluation;
use riesz::random::{normal_pair, Address, BlockIndex, Seed, Stream};
use riesz::solver::{FunctionalSgdConfig, RidgeConfig, Samples, Schedule, SgdState, Solver};
use riesz::space::{Averaged, Averaging, FeatureExpansion, Function};

/// Standard normals of a purpose.
fn normals(seed: u64, purpose: u64, n: usize) -> Vec<f64> {
    let words = |i| Address::new(Seed(seed), Stream::Synthetic, BlockIndex(purpose), i).words(0);
    let pairs = |[a, b, c, d]: [u32; 4]| [normal_pair(a, b), normal_pair(c, d)].concat();
    (0..n.div_ceil(4) as u32).flat_map(|i| pairs(words(i))).take(n).collect()
}

/// The slope of the least-squares line through (log t, log e).
fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(t, e)| (t.ln(), e.ln())).collect();
    let n = logs.len() as f64;
    let (x, y) = (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let covariance: f64 = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    covariance / logs.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

/// X = (A + shift·I)⁻¹ B.
fn solve_shifted(a: &Mat<f64>, shift: f64, b: &Mat<f64>) -> Mat<f64> {
    let system = Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] + if i == j { shift } else { 0.0 });
    Llt::new(system.as_ref(), Side::Lower).unwrap().solve(b)
}

/// The kernel matrix between two sets of rows.
fn kernel_matrix(a: &[f32], b: &[f32], d: usize, bandwidth: f64) -> Mat<f64> {
    let row = |x: &[f32], i: usize| x[i * d..(i + 1) * d].to_vec();
    Mat::from_fn(a.len() / d, b.len() / d, |i, j| {
        KernelSpec::Gaussian.evaluate(&row(a, i), &row(b, j), bandwidth).unwrap()
    })
}

/// Doubly stochastic gradients on four points: x uniform on them, y = g(x) + noise, C independent outputs.
///
/// The minimiser of E ½(f(x) − y)² + (ν/2)‖f‖² is f* = Σ_j c_j k(x_j, ·) with (K + qνI) c = g: f*(x_j) = (Kc)_j.
struct FourPoints {
    x: Vec<f32>,
    g: Vec<f64>,
    optimum: Mat<f64>,
}

const POINTS: usize = 4;
const OUTPUTS: usize = 8;
const RIDGE: f64 = 0.5;
const BANDWIDTH: f64 = 1.0;
const NOISE: f64 = 1.0;

impl FourPoints {
    fn new() -> Self {
        let x = vec![0.0_f32, 0.0, 1.0, 0.3, -0.5, 1.2, 2.0, -1.0];
        let g: Vec<f64> = normals(1, 0, POINTS * OUTPUTS).iter().map(|v| 0.5 * v).collect();
        let kernel = kernel_matrix(&x, &x, 2, BANDWIDTH);
        let targets = Mat::from_fn(POINTS, OUTPUTS, |i, c| g[i * OUTPUTS + c]);
        let optimum = &kernel * solve_shifted(&kernel, POINTS as f64 * RIDGE, &targets);
        Self { x, g, optimum }
    }

    /// A batch of the stream: rows and targets.
    fn batch(&self, seed: u64, t: u64, size: usize) -> (Vec<f32>, Vec<f32>) {
        let at = Address::new(Seed(seed), Stream::Shuffle, BlockIndex(t), 0);
        let picks: Vec<usize> = (0..size as u32).map(|i| at.words(i)[0] as usize % POINTS).collect();
        let noise = normals(seed, 1_000 + t, size * OUTPUTS);
        let x = picks.iter().flat_map(|&i| self.x[2 * i..2 * i + 2].iter().copied()).collect();
        let y = |i: usize| self.g[picks[i / OUTPUTS] * OUTPUTS + i % OUTPUTS] + NOISE * noise[i];
        (x, (0..size * OUTPUTS).map(|i| y(i) as f32).collect())
    }

    /// f − f* at the points, POINTS×OUTPUTS.
    fn deviations(&self, f: &FeatureExpansion) -> Vec<f64> {
        let mut values = vec![0.0; POINTS * OUTPUTS];
        f.evaluate(Rows::single(&self.x, 2).unwrap(), &mut values).unwrap();
        let one = |(i, &v): (usize, &f32)| f64::from(v) - self.optimum[(i / OUTPUTS, i % OUTPUTS)];
        values.iter().enumerate().map(one).collect()
    }

    /// R(f) − R(f*) of each output for deviations f − f*, with the risk R(f) = E ½(f(x) − y)² that the penalty has no part in.
    fn excess_risks(&self, deviations: &[f64]) -> Vec<f64> {
        let term = |i: usize| {
            let slope = self.optimum[(i / OUTPUTS, i % OUTPUTS)] - self.g[i];
            (slope * deviations[i] + 0.5 * deviations[i].powi(2)) / POINTS as f64
        };
        (0..OUTPUTS).map(|c| (0..POINTS).map(|j| term(j * OUTPUTS + c)).sum()).collect()
    }

    /// Deviations of the last and of the averaged iterate at each of `times`.
    fn run(&self, seed: u64, theta: f64, times: &[u64]) -> Vec<[Vec<f64>; 2]> {
        // A delay t₀ = θh ≥ θν, with h = 1 the curvature of the loss, keeps the first steps below 1/h (spec 2.3).
        let schedule = Schedule::Inverse { theta, delay: theta };
        let loss = LossSpec::Square.build(OUTPUTS).unwrap();
        let solver = FunctionalSgdConfig { schedule, ridge: RIDGE }.build(Evaluation, &*loss).unwrap();
        let map =
            FeatureMap::new(KernelSpec::Gaussian, BANDWIDTH, 64, Seed(seed), Scaling::identity(2)).unwrap();
        let f = FeatureExpansion::new(map, vec![0.0; OUTPUTS]).averaging(Averaging::Power(0.0));
        let mut state = SgdState::new(f);
        let mut deviations = Vec::new();
        for t in 1..=times[times.len() - 1] {
            let (x, y) = self.batch(seed, t, 8);
            let batch = Rows::single(&x, 2).unwrap();
            solver.step(&mut state, Samples { batch, targets: &y, weights: &[1.0; 8] }).unwrap();
            if times.contains(&t) {
                deviations.push([self.deviations(&state.f), self.deviations(&state.f.average())]);
            }
        }
        deviations
    }

    fn runs(&self, seeds: u64, theta: f64, times: &[u64]) -> Vec<Vec<[Vec<f64>; 2]>> {
        (0..seeds).into_par_iter().map(|seed| self.run(seed, theta, times)).collect()
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
    sum / count
}

/// E|f_t(x) − f*(x)|² = O(1/t) for θν in [1, 2) (Theorem 11), for the last iterate and for the average.
///
/// 24 seeds × 8 outputs × 4 points are about 400 independent squared normals, so a mean squared error is known to
/// √(2/400) = 7 %, and the slope over three octaves to 0.07·√2/log 8 = 0.05. Time counts from the delay on, as it does
/// in the step size θ/(t + t₀). The noise is larger than the signal, so that what is left of the start,
/// O(1/t²), does not count.
#[test]
fn streaming_converges_like_one_over_t() {
    const SEEDS: u64 = 24;
    let problem = FourPoints::new();
    let times = [16, 32, 64, 128];
    for theta in [1.0 / RIDGE, 1.5 / RIDGE] {
        let runs = problem.runs(SEEDS, theta, &times);
        for (kind, name) in ["last", "average"].iter().enumerate() {
            let mean = |k: usize| mean(runs.iter().flat_map(|run| run[k][kind].iter().map(|e| e * e)));
            let curve: Vec<(f64, f64)> =
                times.iter().enumerate().map(|(k, &t)| (t as f64 + theta, mean(k))).collect();
            let rate = slope(&curve);
            println!("{name} iterate, θν = {}: t^{rate:.3}, {curve:.5?}", theta * RIDGE);
            assert!(
                (rate + 1.0).abs() < 0.2,
                "{name} iterate, θν = {}: t^{rate:.2}, {curve:?}",
                theta * RIDGE
            );
        }
    }
}

/// |f_t(x) − f*(x)|² = O(ln² t/t) with high probability (Theorem 12): the level that 95 % of the squares stay below falls like their
/// mean. Of 400 independent squared normals that quantile is known to 10 %, and the slope to 0.1·√2/log 8 = 0.07.
///
/// R(f_t) − R(f*) = O(1/√t) (Theorem 13): f* is pulled towards zero by the penalty, so the risk without it has a slope there, and no better
/// rate is to be had. The mean size of 192 excesses is known to 0.76/√192 = 6 %, and the slope to 0.04; squares of the
/// deviations, O(1/t), make it somewhat steeper.
#[test]
fn streaming_converges_with_high_probability_and_in_risk() {
    const SEEDS: u64 = 24;
    let (problem, theta, times) = (FourPoints::new(), 1.0 / RIDGE, [16, 32, 64, 128]);
    let runs = problem.runs(SEEDS, theta, &times);
    let rate = |value: &dyn Fn(usize) -> f64| {
        let points: Vec<(f64, f64)> =
            times.iter().enumerate().map(|(k, &t)| (t as f64 + theta, value(k))).collect();
        slope(&points)
    };
    let quantile = rate(&|k| {
        let mut squares: Vec<f64> = runs.iter().flat_map(|run| run[k][0].iter().map(|e| e * e)).collect();
        let place = squares.len() * 95 / 100;
        *squares.select_nth_unstable_by(place, f64::total_cmp).1
    });
    assert!((quantile + 1.0).abs() < 0.2, "t^{quantile:.2}");
    let risk = rate(&|k| mean(runs.iter().flat_map(|run| problem.excess_risks(&run[k][0])).map(f64::abs)));
    assert!((-0.75..-0.38).contains(&risk), "t^{risk:.2}");
}

/// Kernel ridge regression with several outputs: rows, targets and further rows to predict.
struct Regression {
    x: Vec<f32>,
    y: Vec<f32>,
    elsewhere: Vec<f32>,
    weights: Vec<f32>,
}

const COLUMNS: usize = 3;
const TARGETS: usize = 4;

impl Regression {
    fn new(n: usize) -> Self {
        let x: Vec<f32> = normals(2, 0, n * COLUMNS).iter().map(|&v| v as f32).collect();
        let noise = normals(2, 1, n * TARGETS);
        let y = |i: usize| {
            let row = &x[i / TARGETS * COLUMNS..][..COLUMNS];
            let angle = row[0] * (1.0 + (i % TARGETS) as f32) - row[1] + 0.5 * row[2];
            angle.sin() + 0.3 * noise[i] as f32
        };
        let y = (0..n * TARGETS).map(y).collect();
        let elsewhere = normals(2, 2, 100 * COLUMNS).iter().map(|&v| v as f32).collect();
        let weights = normals(2, 3, n).iter().map(|&v| (0.5 + v * v) as f32).collect();
        Self { x, y, elsewhere, weights }
    }

    /// f* at `elsewhere`: k*ᵀ W^½ (W^½ K W^½ + (Σw)ν I)⁻¹ W^½ y.
    fn exact(&self, bandwidth: f64, ridge: f64) -> Mat<f64> {
        let n = self.weights.len();
        let root = |i: usize| f64::from(self.weights[i]).sqrt();
        let mass: f64 = self.weights.iter().map(|&w| f64::from(w)).sum();
        let kernel = kernel_matrix(&self.x, &self.x, COLUMNS, bandwidth);
        let weighted = Mat::from_fn(n, n, |i, j| root(i) * kernel[(i, j)] * root(j));
        let right = Mat::from_fn(n, TARGETS, |i, c| root(i) * f64::from(self.y[i * TARGETS + c]));
        let solution = solve_shifted(&weighted, mass * ridge, &right);
        let beta = Mat::from_fn(n, TARGETS, |i, c| root(i) * solution[(i, c)]);
        kernel_matrix(&self.elsewhere, &self.x, COLUMNS, bandwidth) * beta
    }

    /// Predictions of the ridge solver on M = blocks·m features.
    fn fitted(&self, map: FeatureMap, blocks: usize, ridge: f64) -> Vec<f32> {
        let config = RidgeConfig { ridge, blocks, tolerance: 1e-6, max_iterations: 500 };
        let f = FeatureExpansion::new(map, vec![0.0; TARGETS]);
        let rows = Rows::single(&self.x, COLUMNS).unwrap();
        let (f, _) = config.build().unwrap().fit(f, rows, &self.y, &self.weights, |_, _| Ok(())).unwrap();
        let elsewhere = Rows::single(&self.elsewhere, COLUMNS).unwrap();
        let mut out = vec![0.0; elsewhere.len() * TARGETS];
        f.evaluate(elsewhere, &mut out).unwrap();
        out
    }
}

/// The predictions of M random features differ from those of the kernel by a Monte-Carlo error: RMS ∝ M^{−1/2}.
///
/// With 4 outputs and 100 points of smooth functions a fit holds some ten independent errors, 12 seeds 120 of them: an
/// RMS is known to 1/√240 = 6 %, and the slope over four octaves to 0.06·√2/log 16 = 0.03.
#[test]
fn ridge_approaches_kernel_ridge_like_one_over_root_m() {
    const SEEDS: u64 = 12;
    let (bandwidth, ridge) = (1.5, 1e-3);
    let problem = Regression::new(300);
    let exact = problem.exact(bandwidth, ridge);
    let mean_square = |blocks: usize, seed: u64| {
        let scaling = Scaling::identity(COLUMNS);
        let map = FeatureMap::new(KernelSpec::Gaussian, bandwidth, 512, Seed(seed), scaling).unwrap();
        let values = problem.fitted(map, blocks, ridge);
        let square = |i: usize| (f64::from(values[i]) - exact[(i / TARGETS, i % TARGETS)]).powi(2);
        (0..values.len()).map(square).sum::<f64>() / values.len() as f64
    };
    let curve: Vec<(f64, f64)> = [2, 4, 8, 16, 32]
        .iter()
        .map(|&blocks| {
            let total: f64 = (0..SEEDS).map(|seed| mean_square(blocks, seed)).sum();
            ((512 * blocks) as f64, (total / SEEDS as f64).sqrt())
        })
        .collect();
    let rate = slope(&curve);
    println!("M^{rate:.3}, {curve:.5?}");
    assert!((rate + 0.5).abs() < 0.1, "M^{rate:.2}, {curve:?}");
}

/// Above 8,192 rows conjugate gradients take over. On M features the minimiser of
/// (1/2Σw) Σ w (φᵀα − y)² + (νM/2)‖α‖² solves (ΦᵀWΦ/Σw + νM I) α = ΦᵀWy/Σw: M×M, whatever the number of rows.
#[test]
fn conjugate_gradients_solve_the_normal_equations_of_many_rows() {
    let (n, m, blocks, ridge) = (9_000, 64, 2, 1e-3);
    let problem = Regression::new(n);
    let mut map = FeatureMap::new(KernelSpec::Gaussian, 1.5, m, Seed(4), Scaling::identity(COLUMNS)).unwrap();
    map.projection = Projection::Dense;
    let phi_of = |x: &[f32]| {
        let rows = Rows::single(x, COLUMNS).unwrap();
        let mut all = Mat::<f64>::zeros(rows.len(), m * blocks);
        for b in 0..blocks {
            let mut phi = vec![0.0; rows.len() * m];
            features(Device::default(), &map.draw(BlockIndex(b as u64)).unwrap(), rows, &mut phi).unwrap();
            (0..phi.len()).for_each(|i| all[(i / m, b * m + i % m)] = f64::from(phi[i]));
        }
        all
    };
    let phi = phi_of(&problem.x);
    let mass: f64 = problem.weights.iter().map(|&w| f64::from(w)).sum();
    let weighted = Mat::from_fn(m * blocks, n, |j, i| phi[(i, j)] * f64::from(problem.weights[i]) / mass);
    let targets = Mat::from_fn(n, TARGETS, |i, c| f64::from(problem.y[i * TARGETS + c]));
    let alpha = solve_shifted(&(&weighted * &phi), ridge * (m * blocks) as f64, &(&weighted * &targets));
    let exact = phi_of(&problem.elsewhere) * alpha;
    let values = problem.fitted(map.clone(), blocks, ridge);
    for (i, value) in values.iter().enumerate() {
        let expected = exact[(i / TARGETS, i % TARGETS)];
        // Relative residual 1e-6 times a condition number of at most 1/ν, in units of y ~ 1; sums of 128 products.
        assert!((f64::from(*value) - expected).abs() < 1e-3, "{i}: {value} vs {expected}");
    }
}
