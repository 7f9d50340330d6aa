//! F2: Gaussian-process regression by doubly stochastic gradients (spec 2.5 and 7; thesis §3.3.1).
//!
//! The data of F1, 2¹¹ rows of them and 2¹⁰ test points; Gaussian kernel with σ the median distance, noise
//! σ² = 0.1, batches of 64 rows drawn with replacement and blocks of 512 features. The mean is ridge regression with
//! ν = σ²/n, the variance the recursion of the operator C(C + νI)⁻¹; both are compared with the closed form
//! k*ᵀ(K + σ²I)⁻¹y and k** − k*ᵀ(K + σ²I)⁻¹k*.

use super::f1::{median_distance, sample, slope};
use crate::plot::LineChart;
use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::functions::{GaussianProcess, GaussianProcessOptions, PosteriorOperatorConfig};
use riesz::kernel::{FeatureMap, KernelSpec, Scaling};
use riesz::loss::Square;
use riesz::operator::Evaluation;
use riesz::random::{Address, BlockIndex, Seed, Stream};
use riesz::solver::{FunctionalSgdConfig, Samples, Schedule, SgdState, Solver};
use riesz::space::{FeatureExpansion, Function};
use riesz::{Error, Result};
use std::fmt::Write;

/// σ².
const NOISE: f64 = 0.1;

/// What may be changed.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Rows n.
    pub rows: usize,
    /// Test points.
    pub test: usize,
    /// Rows per step.
    pub batch: usize,
    /// Features per block.
    pub block: usize,
    /// Steps: memory and time grow like their square and cube.
    pub steps: usize,
    /// θ in γ_t = θ/(t + t₀).
    pub theta: f64,
    /// t₀.
    pub delay: f64,
    /// Seed of data, batches and features.
    pub seed: Seed,
}

/// The distance to the closed form after a number of steps.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// t.
    pub step: usize,
    /// Root mean square error of the mean.
    pub mean: f64,
    /// Root mean square error of the variance.
    pub variance: f64,
}

/// The course of the experiment.
#[derive(Debug)]
pub struct Curve {
    settings: Settings,
    /// σ of the kernel.
    pub bandwidth: f64,
    /// The errors at powers of two of t.
    pub points: Vec<Point>,
    /// Why it ended early, if it did.
    pub ended: Option<Error>,
}

/// Runs the experiment.
pub fn run(
    settings: Settings,
    observe: &mut dyn FnMut(&Point),
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<Curve> {
    let Settings { batch, theta, delay, seed, .. } = settings;
    let (test, _) = sample(seed, 0, settings.test);
    let (x, mut y) = sample(seed, 1, settings.rows);
    let average = y.iter().sum::<f32>() / y.len() as f32;
    y.iter_mut().for_each(|v| *v -= average);
    let bandwidth = median_distance(&test);
    let (mean, variance) = closed_form(&x, &y, &test, bandwidth)?;
    let map = FeatureMap::new(KernelSpec::Gaussian, bandwidth, settings.block, seed, Scaling::identity(2))?;
    let (schedule, ridge) = (Schedule::Inverse { theta, delay }, NOISE / settings.rows as f64);
    let solver = FunctionalSgdConfig { schedule, ridge }.build(Evaluation, &Square { outputs: 1 })?;
    let mut state = SgdState::new(FeatureExpansion::new(map.clone(), vec![0.0]));
    let mut operator = PosteriorOperatorConfig { map, ridge, schedule }.build()?;
    let (mut points, mut ended, ones) = (Vec::new(), None, vec![1.0; batch]);
    for step in 1..=settings.steps {
        let (rows, targets) = draw(&x, &y, batch, seed, step);
        let rows = Rows::single(&rows, 2)?;
        let taken = solver
            .step(&mut state, Samples { batch: rows, targets: &targets, weights: &ones })
            .and_then(|_| operator.step(rows));
        ended = taken.err().or_else(|| cancelled().then_some(Error::Cancelled { blocks: step }));
        if ended.is_some() {
            break;
        }
        if step.is_power_of_two() {
            let at = Rows::single(&test, 2)?;
            let mut values = vec![0.0; settings.test];
            state.f.evaluate(at, &mut values)?;
            let values: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
            let variances = operator.variances(at)?;
            let point =
                Point { step, mean: distance(&values, &mean), variance: distance(&variances, &variance) };
            observe(&point);
            points.push(point);
        }
    }
    Ok(Curve { settings, bandwidth, points, ended })
}

/// Posterior mean and variance at the test points.
fn closed_form(x: &[f32], y: &[f32], test: &[f32], bandwidth: f64) -> Result<(Vec<f64>, Vec<f64>)> {
    let options = GaussianProcessOptions {
        signal: Some(1.0),
        noise: Some(NOISE),
        length_scales: Some(vec![bandwidth; 2]),
        ..GaussianProcessOptions::new(Seed(0))
    };
    let targets: Vec<f64> = y.iter().map(|&v| f64::from(v)).collect();
    let process = quietly(|control| GaussianProcess::fit(&options, Rows::single(x, 2)?, &targets, control))?;
    process.marginals(Rows::single(test, 2)?)
}

/// A batch drawn with replacement.
fn draw(x: &[f32], y: &[f32], batch: usize, seed: Seed, step: usize) -> (Vec<f32>, Vec<f32>) {
    let word = |i: u32| Address::new(seed, Stream::Shuffle, BlockIndex(step as u64), i).words(0)[0];
    let picks: Vec<usize> = (0..batch as u32).map(|i| word(i) as usize % y.len()).collect();
    let rows = picks.iter().flat_map(|&i| x[2 * i..2 * i + 2].iter().copied()).collect();
    (rows, picks.iter().map(|&i| y[i]).collect())
}

/// Root of the mean square of the differences.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    (a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / a.len() as f64).sqrt()
}

impl Curve {
    /// Slope of log error against log t by least squares.
    pub fn slope(&self, value: impl Fn(&Point) -> f64) -> f64 {
        slope(self.points.iter().map(|point| (point.step as f64, value(point))))
    }

    /// The table.
    pub fn to_csv(&self) -> String {
        let mut text = "step,mean,variance\n".to_owned();
        for Point { step, mean, variance } in &self.points {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{step},{mean:e},{variance:e}");
        }
        text
    }

    /// The picture.
    pub fn to_svg(&self) -> String {
        let Settings { batch, block, theta, delay, .. } = self.settings;
        let series = |value: fn(&Point) -> f64| -> Vec<(f64, f64)> {
            self.points.iter().map(|point| (point.step as f64, value(point))).collect()
        };
        LineChart::new(format!("Posterior mean and variance, step size {theta}/(t + {delay})"))
            .x_label(format!("step t ({batch} rows and {block} random features each)"))
            .y_label("root mean square error")
            .log_x()
            .log_y()
            .line("mean", &series(|p| p.mean))
            .line("variance", &series(|p| p.variance))
            .to_svg()
    }
}
