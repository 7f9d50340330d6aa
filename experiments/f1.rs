//! F1: kernel ridge regression by doubly stochastic gradients on 2²⁰ rows (spec 7; thesis §3.5).
//!
//! y = cos(½π‖x‖) exp(−0.1π‖x‖) + 0.1 e with x uniform on [−5, 5]² and e standard normal; Gaussian kernel with σ a
//! tenth of the median distance, ν = 10⁻⁶, batches of 2¹⁰ rows and blocks of 2¹⁰ features, every row seen once. The
//! error is the mean square against the noiseless function on 2¹⁰ fresh points.
//!
//! **The step size.** Theorem 11 wants γ_t = θ/t with θν ≥ 1, so θ ≥ 10⁶. The largest eigenvalue of the kernel is
//! λ = 0.017 here, and a step above 2/λ ≈ 120 makes things worse; θ/t is below that only for t > 8,000, while 2²⁰ rows
//! are 2¹⁰ steps. What was tried (slopes of log error in log t, last iterate / average; error of both at the end):
//!
//! | θ | t₀ | | steps | slope, all t | slope, t ≥ √steps | error at the end |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | 10⁶ | 0 | θν = 1, as published | 11 | diverges | | |
//! | 10⁶ | 16,000 | θν = 1, first step 60 | 2⁹ | −0.40 / −0.99 | −0.08 / −0.51 | 6.2·10⁻⁴ / 4.0·10⁻⁵ |
//! | 5,000 | 80 | | 2⁸ | −0.75 / −1.11 | −0.59 / −0.77 | 1.1·10⁻⁴ / 4.3·10⁻⁵ |
//! | 1,000 | 20 | the default | 2⁸ | −1.05 / −1.21 | −0.66 / −0.96 | 4.4·10⁻⁵ / 4.0·10⁻⁵ |
//! | | | | 2¹⁰ | −0.93 / −1.07 | −0.61 / −0.67 | 2.0·10⁻⁵ / 2.0·10⁻⁵ |
//! | 100 | 1 | | 2⁹ | −0.91 / −0.89 | −0.46 / −0.73 | 7.0·10⁻⁵ / 1.1·10⁻⁴ |
//!
//! So the default is θ = 1,000 and t₀ = 20 (θν = 10⁻³). Over the whole run the error falls nearly like 1/t, but not at
//! a constant slope: fast while the parts of the function with large eigenvalues are learnt, slower than 1/t
//! afterwards, because θ/t is too small for those with small ones. A larger θ learns these and leaves more noise in
//! the last iterate. The theorem's 1/t is asymptotic (t ≫ θλ, 17,000 for θν = 1): 2¹⁰ steps cannot show it.

use crate::plot::LineChart;
use riesz::data::Rows;
use riesz::kernel::{FeatureMap, KernelSpec, Scaling};
use riesz::loss::Square;
use riesz::operator::Evaluation;
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::solver::{FunctionalSgdConfig, Samples, Schedule, SgdState, Solver};
use riesz::space::{Averaged, Averaging, FeatureExpansion, Function};
use riesz::{Error, Result};
use std::f64::consts::PI;
use std::fmt::Write;

/// Points the error is measured on.
const TEST: usize = 1 << 10;

/// What may be changed.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Rows seen in all.
    pub rows: usize,
    /// Rows per step, and features per block.
    pub batch: usize,
    /// ν.
    pub ridge: f64,
    /// θ in γ_t = θ/(t + t₀).
    pub theta: f64,
    /// t₀.
    pub delay: f64,
    /// Seed of data and features.
    pub seed: Seed,
}

/// The error after a number of steps.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// t.
    pub step: usize,
    /// Rows seen.
    pub rows: usize,
    /// Mean squared error of the last iterate.
    pub last: f64,
    /// Mean squared error of the average of all iterates.
    pub average: f64,
}

/// The course of the experiment.
#[derive(Debug)]
pub struct Curve {
    settings: Settings,
    /// σ.
    pub bandwidth: f64,
    /// The error at powers of two of t.
    pub points: Vec<Point>,
    /// Why it ended early, if it did.
    pub ended: Option<Error>,
}

/// The function to be learnt.
pub fn truth(x: &[f32]) -> f64 {
    let radius = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    (0.5 * PI * radius).cos() * (-0.1 * PI * radius).exp()
}

/// `count` rows, and their targets with noise.
pub fn sample(seed: Seed, block: u64, count: usize) -> (Vec<f32>, Vec<f32>) {
    let (mut x, mut y) = (Vec::with_capacity(2 * count), Vec::with_capacity(count));
    for index in 0..count {
        let [a, b, c, d] = Address::new(seed, Stream::Synthetic, BlockIndex(block), index as u32).words(0);
        let point = [a, b].map(|word| (10.0 * uniform_open(word) - 5.0) as f32);
        y.push((truth(&point) + 0.1 * normal_pair(c, d)[0]) as f32);
        x.extend(point);
    }
    (x, y)
}

/// Runs the experiment: batch t is block t of the data, block 0 are the test points.
pub fn run(
    settings: Settings,
    observe: &mut dyn FnMut(&Point),
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<Curve> {
    let Settings { batch, ridge, theta, delay, seed, .. } = settings;
    let (test, _) = sample(seed, 0, TEST);
    let bandwidth = 0.1 * median_distance(&test);
    let map = FeatureMap::new(KernelSpec::Gaussian, bandwidth, batch, seed, Scaling::identity(2))?;
    let schedule = Schedule::Inverse { theta, delay };
    let solver = FunctionalSgdConfig { schedule, ridge }.build(Evaluation, &Square { outputs: 1 })?;
    let f = FeatureExpansion::new(map, vec![0.0]).averaging(Averaging::Power(0.0));
    let mut state = SgdState::new(f);
    let (mut points, mut ended, ones) = (Vec::new(), None, vec![1.0; batch]);
    for step in 1..=settings.rows / batch {
        let (x, y) = sample(seed, step as u64, batch);
        let samples = Samples { batch: Rows::single(&x, 2)?, targets: &y, weights: &ones };
        let taken = solver.step(&mut state, samples);
        ended = taken.err().or_else(|| cancelled().then_some(Error::Cancelled { blocks: step }));
        if ended.is_some() {
            break;
        }
        if step.is_power_of_two() {
            let (last, average) = (error(&state.f, &test)?, error(&state.f.average(), &test)?);
            let point = Point { step, rows: step * batch, last, average };
            observe(&point);
            points.push(point);
        }
    }
    Ok(Curve { settings, bandwidth, points, ended })
}

/// Mean squared error against the noiseless function.
fn error(f: &FeatureExpansion, test: &[f32]) -> Result<f64> {
    let mut values = vec![0.0; test.len() / 2];
    f.evaluate(Rows::single(test, 2)?, &mut values)?;
    let squares = values.iter().zip(test.chunks_exact(2)).map(|(&v, x)| (f64::from(v) - truth(x)).powi(2));
    Ok(squares.sum::<f64>() / values.len() as f64)
}

/// The median distance of all pairs of points in the plane.
pub fn median_distance(points: &[f32]) -> f64 {
    let points: Vec<&[f32]> = points.chunks_exact(2).collect();
    let distance = |a: &[f32], b: &[f32]| f64::from(a[0] - b[0]).hypot(f64::from(a[1] - b[1]));
    let mut distances: Vec<f64> = points
        .iter()
        .enumerate()
        .flat_map(|(i, a)| points[..i].iter().map(move |b| distance(a, b)))
        .collect();
    let middle = distances.len() / 2;
    *distances.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// Slope of log e against log t by least squares, over finite e.
pub fn slope(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let logs: Vec<(f64, f64)> =
        points.filter(|(_, e)| e.is_finite()).map(|(t, e)| (t.ln(), e.ln())).collect();
    let n = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |(x, y), log| (x + log.0 / n, y + log.1 / n));
    let covariance: f64 = logs.iter().map(|log| (log.0 - x) * (log.1 - y)).sum();
    covariance / logs.iter().map(|log| (log.0 - x).powi(2)).sum::<f64>()
}

impl Curve {
    /// Slope of log error against log t by least squares over t ≥ `from`.
    pub fn slope(&self, from: f64, value: impl Fn(&Point) -> f64) -> f64 {
        let late = self.points.iter().filter(|point| point.step as f64 >= from);
        slope(late.map(|point| (point.step as f64, value(point))))
    }

    /// The square root of the number of steps: where the second half of the logarithmic axis begins.
    pub fn middle(&self) -> f64 {
        self.points.last().map_or(1.0, |point| (point.step as f64).sqrt())
    }

    /// The table.
    pub fn to_csv(&self) -> String {
        let mut text = "step,rows,last,average\n".to_owned();
        for Point { step, rows, last, average } in &self.points {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{step},{rows},{last:e},{average:e}");
        }
        text
    }

    /// The picture.
    pub fn to_svg(&self) -> String {
        let Settings { batch, theta, delay, .. } = self.settings;
        let series = |value: fn(&Point) -> f64| -> Vec<(f64, f64)> {
            self.points.iter().map(|point| (point.step as f64, value(point))).collect()
        };
        let named = |name: &str, value: fn(&Point) -> f64| {
            format!("{name}: slope {:.2}", self.slope(1.0, value)).replace('-', "−")
        };
        let last: fn(&Point) -> f64 = |p| p.last;
        let average: fn(&Point) -> f64 = |p| p.average;
        let anchor = self.points.first().map_or(1.0, |point| point.last);
        let reference: Vec<_> = self.points.iter().map(|p| (p.step as f64, anchor / p.step as f64)).collect();
        LineChart::new(format!("Doubly stochastic gradients, step size {theta}/(t + {delay})"))
            .x_label(format!("step t ({batch} rows and {batch} random features each)"))
            .y_label("mean squared error")
            .log_x()
            .log_y()
            .line(named("last iterate", last), &series(last))
            .line(named("average", average), &series(average))
            .dashed("1/t", &reference)
            .to_svg()
    }
}
