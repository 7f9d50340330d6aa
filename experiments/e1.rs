//! E1: learning from noisy inputs in one dimension (spec 7; thesis §5.7): E[f(z) | x] from few samples z of each x.
//!
//! ```text
//! y = 3x² + (sin 3.53πx + cos 7.7πx) e^{−1.6π|x|} + 0.1e,   x uniform on (−½, ½),   z ~ N(x, 0.05²)
//! ```
//!
//! f has kernel atoms at 41 points of [−0.8, 0.8], σ = 0.05, its dual the same with σ = 0.1; batches of 50, 10⁵ points, ten
//! samples z of each x, or one. The error is that of E[f(z) | x] against the function without noise, at 401 places, its
//! expectation over z by quadrature. Embedding-SGD has constant steps 0.3 and 1, the dual v = u + y, λ₂ = 10⁻⁴ and the average of the
//! last half of the iterates, or somewhat more; sample averages (SAA) and virtual samples the same step and average. The published form has γ/√t
//! for both functions, γ = 12, and the average with these weights.

use super::common::{Console, Report};
use super::Arguments;
use crate::failure::Outcome;
use crate::plot::LineChart;
use riesz::data::Rows;
use riesz::kernel::{ClosedForm, KernelSpec, Scaling};
use riesz::loss::Square;
use riesz::operator::{ConditionalMean, Deterministic, Evaluation, Sampled};
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::solver::{
    choose_ridges, DualForm, EmbeddingSgdConfig, FunctionalSgdConfig, SaddleClosedForm, SaddleState, Samples,
    Schedule, SgdState, Solver,
};
use riesz::space::{Averaged, Averaging, Basis, Function, Linear};
use riesz::Error;
use std::f64::consts::PI;
use std::fmt::Write;

const BATCH: usize = 50;
const NOISE: f64 = 0.05;
const STEP: f64 = 0.3;
/// Places where errors are measured, and nodes of the quadrature at each.
const PLACES: usize = 401;
const NODES: usize = 41;

/// The function without noise.
fn target(x: f64) -> f64 {
    3.0 * x * x + ((3.53 * PI * x).sin() + (7.7 * PI * x).cos()) * (-1.6 * PI * x.abs()).exp()
}

/// x, y and K samples z.
struct Data {
    x: Vec<f32>,
    y: Vec<f32>,
    z: Vec<Vec<f32>>,
}

impl Data {
    fn sample(seed: Seed, count: usize, samples: usize) -> Self {
        let draw = |i: usize| {
            let [u, a, b, _] = Address::new(seed, Stream::Synthetic, BlockIndex(0), i as u32).words(0);
            let x = uniform_open(u) - 0.5;
            (x, (target(x) + 0.1 * normal_pair(a, b)[0]) as f32)
        };
        let (x, y): (Vec<f64>, Vec<f32>) = (0..count).map(draw).unzip();
        let noisy = |k: usize| {
            let noise = |i: usize| {
                let [a, b, ..] =
                    Address::new(seed, Stream::Synthetic, BlockIndex(1 + k as u64), i as u32).words(0);
                NOISE * normal_pair(a, b)[0]
            };
            x.iter().enumerate().map(|(i, x)| (x + noise(i)) as f32).collect()
        };
        Self { z: (0..samples).map(noisy).collect(), x: x.iter().map(|&x| x as f32).collect(), y }
    }

    fn samples(&self, range: std::ops::Range<usize>) -> Outcome<Vec<Rows<'_>>> {
        self.z.iter().map(|z| Ok(Rows::single(&z[range.clone()], 1)?)).collect()
    }
}

/// Mean square of E[f(z) | x] − target(x).
fn error(f: &Linear) -> Outcome<f64> {
    let place = |i: usize| i as f64 / (PLACES - 1) as f64 - 0.5;
    let node = |k: usize| 8.0 * (k as f64 / (NODES - 1) as f64 - 0.5);
    let weight = |k: usize| (-0.5 * node(k) * node(k)).exp();
    let total: f64 = (0..NODES).map(weight).sum();
    let z: Vec<f32> =
        (0..PLACES * NODES).map(|i| (place(i / NODES) + NOISE * node(i % NODES)) as f32).collect();
    let mut values = vec![0.0; z.len()];
    f.evaluate(Rows::single(&z, 1)?, &mut values)?;
    let mean = |i: usize| {
        let own = &values[i * NODES..(i + 1) * NODES];
        own.iter().enumerate().map(|(k, f)| weight(k) * f64::from(*f)).sum::<f64>() / total
    };
    Ok((0..PLACES).map(|i| (mean(i) - target(place(i))).powi(2)).sum::<f64>() / PLACES as f64)
}

fn basis(bandwidth: f64) -> Outcome<Basis> {
    let points: Vec<f32> = (0..41).map(|i| (1.6 * f64::from(i) / 40.0 - 0.8) as f32).collect();
    Ok(Basis::atoms(ClosedForm::new(KernelSpec::Gaussian, bandwidth, Scaling::identity(1))?, &points)?)
}

/// What is compared.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    Embedding,
    Published,
    ClosedForm,
    SampleAverage,
    VirtualSamples,
}

impl Method {
    const ALL: [Self; 5] =
        [Self::ClosedForm, Self::Embedding, Self::Published, Self::SampleAverage, Self::VirtualSamples];

    fn name(self) -> &'static str {
        match self {
            Self::Embedding => "Embedding-SGD",
            Self::Published => "Embedding-SGD as published",
            Self::ClosedForm => "closed form",
            Self::SampleAverage => "sample averages",
            Self::VirtualSamples => "virtual samples",
        }
    }
}

/// Errors after some numbers of points.
fn course(method: Method, data: &Data, looks: &[usize]) -> Outcome<Vec<f64>> {
    if method == Method::ClosedForm {
        return looks.iter().map(|&n| closed(data, n)).collect();
    }
    let steps = data.x.len() / BATCH;
    let rule = if method == Method::Published { Averaging::StepSize } else { Averaging::Tail };
    let mut errors = Vec::new();
    let zero =
        |bandwidth: f64| Ok::<_, crate::failure::Failure>(Linear::new(basis(bandwidth)?, 1).averaging(rule));
    let (square, weights) = (Square { outputs: 1 }, vec![1.0; BATCH * data.z.len()]);
    let config = match method {
        Method::Published => {
            EmbeddingSgdConfig { form: DualForm::Shifted, ..EmbeddingSgdConfig::published(12.0) }
        }
        _ => EmbeddingSgdConfig {
            primal: Schedule::Constant { step: STEP },
            dual: Schedule::Constant { step: 1.0 },
            primal_ridge: 0.0,
            dual_ridge: 1e-4,
            form: DualForm::Shifted,
        },
    };
    let saddle = config.build(ConditionalMean, &square)?;
    let plain = FunctionalSgdConfig { schedule: Schedule::Constant { step: STEP }, ridge: 0.0 };
    let (average, each) =
        (plain.build(Deterministic(ConditionalMean), &square)?, plain.build(Evaluation, &square)?);
    let mut pair = SaddleState::new(zero(0.05)?, zero(0.1)?);
    let (mut mean, mut single) = (SgdState::new(zero(0.05)?), SgdState::new(zero(0.05)?));
    for t in 0..steps {
        let range = t * BATCH..(t + 1) * BATCH;
        let (samples, targets) = (data.samples(range.clone())?, &data.y[range.clone()]);
        let batch = Sampled::new(Rows::single(&data.x[range.clone()], 1)?, &samples)?;
        let weights = &weights[..BATCH];
        match method {
            Method::SampleAverage => drop(average.step(&mut mean, Samples { batch, targets, weights })?),
            Method::VirtualSamples => {
                let z: Vec<f32> = data.z.iter().flat_map(|z| &z[range.clone()]).copied().collect();
                let targets = targets.repeat(data.z.len());
                let weights = vec![1.0; z.len()];
                let batch = Rows::single(&z, 1)?;
                each.step(&mut single, Samples { batch, targets: &targets, weights: &weights })?;
            }
            _ => drop(saddle.step(&mut pair, Samples { batch, targets, weights })?),
        }
        if looks.contains(&((t + 1) * BATCH)) {
            errors.push(error(&match method {
                Method::SampleAverage => mean.f.average(),
                Method::VirtualSamples => single.f.average(),
                _ => pair.f.average(),
            })?);
        }
    }
    Ok(errors)
}

fn closed(data: &Data, n: usize) -> Outcome<f64> {
    let saddle = SaddleClosedForm { operator: ConditionalMean, primal: basis(0.05)?, dual: basis(0.1)? };
    let samples = data.samples(0..n)?;
    let (batch, y) = (Sampled::new(Rows::single(&data.x[..n], 1)?, &samples)?, &data.y[..n]);
    let parts = saddle.moments_in_parts(batch, y, 3)?;
    let parts = <[_; 3]>::try_from(parts).map_err(|_| Error::Empty { what: "points", needed: "three" })?;
    let (ridges, _) = choose_ridges(&parts, DualForm::Free, (None, None), (1.1, 0.1))?;
    let solution = saddle.moments(batch, y)?.solve(DualForm::Free, ridges)?;
    error(&Linear::with_coefficients(saddle.primal, solution.coefficients())?)
}

/// Runs the experiment.
pub fn run(arguments: &Arguments, console: &mut Console<'_>) -> Outcome<Report> {
    let n = arguments.rows.unwrap_or(if arguments.quick { 10_000 } else { 100_000 }) / BATCH * BATCH;
    let runs = if arguments.quick { 2 } else { 10 };
    let looks: Vec<usize> = (1..=5).map(|k| n / BATCH * k / 5 * BATCH).collect();
    let (mut table, mut ended) = ("method,samples,run,points,mse\n".to_owned(), None);
    let mut chart =
        LineChart::new("Learning from noisy inputs").x_label("points").y_label("mean square error").log_y();
    let mut summary = String::new();
    'all: for samples in [10, 1] {
        for method in Method::ALL {
            let mut errors = vec![Vec::new(); looks.len()];
            for run in 0..runs {
                if (console.cancelled)() {
                    ended = Some(Error::Cancelled { blocks: run });
                    break 'all;
                }
                let data = Data::sample(Seed(arguments.seed + run as u64), n, samples);
                for (k, mse) in course(method, &data, &looks)?.into_iter().enumerate() {
                    // Writing to a string cannot fail.
                    let _ = writeln!(table, "{},{samples},{run},{},{mse:e}", method.name(), looks[k]);
                    errors[k].push(mse);
                }
            }
            let mean = |e: &[f64]| e.iter().sum::<f64>() / e.len() as f64;
            let last = errors.last().map_or(&[][..], |e| &e[..]);
            let spread = (last.iter().map(|e| (e - mean(last)).powi(2)).sum::<f64>()
                / (last.len() as f64 - 1.0).max(1.0))
            .sqrt();
            let line = format!("{}, {samples} z: {:.2e} ± {spread:.1e}", method.name(), mean(last));
            (console.say)(&line);
            let _ = writeln!(summary, "{line}");
            let points: Vec<(f64, f64)> =
                looks.iter().zip(&errors).map(|(&x, e)| (x as f64, mean(e))).collect();
            chart = chart.line(format!("{}, {samples} z", method.name()), &points);
        }
    }
    Ok(Report { table, picture: chart.to_svg(), summary, ended })
}
