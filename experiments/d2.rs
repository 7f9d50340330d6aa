//! D2: Bayesian logistic regression, handwritten 8 against 6 in 50 principal components (spec 7; thesis §4.6.2).
//!
//! The text learns MNIST-8M, 1.6 million deformed images, with the prior N(0, I), batches of 100, 1,000 particles, steps of
//! 1/(100 + √t) and five passes, and reports 98.8 % right on 1,932 test images. Here the images are those of MNIST itself, or, without a
//! folder of data, rows of a logistic model with 50 standard normal columns. A row is classified by the posterior mean of
//! P(y = 1∣x, θ).
//!
//! - `paper`: strategy 2 after one to five passes, γ_t = (10⁴ + t)^{−½}, which is within a fifth of the text's for so many steps;
//! - `adaptive`: the default, which sees every image.

use super::binary::Labelled;
use super::common::{Console, DataFolder, Report};
use super::{f4, Arguments};
use crate::failure::Outcome;
use crate::plot::LineChart;
use riesz::distributions::models::{Family, GeneralisedLinear};
use riesz::distributions::{adaptive, paper, AdaptiveOptions, PaperOptions, Posterior, Strategy};
use riesz::driver::quietly;
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use std::fmt::Write;

/// Columns of the stand-in.
const COLUMNS: usize = 50;
/// Passes of the published algorithm.
const PASSES: usize = 5;

/// Rows `from..from + count` of the stand-in, which depend on their number alone.
pub fn stand_in(seed: Seed, from: usize, count: usize) -> Labelled {
    let normal = |block: u64, i: usize| {
        let [a, b, ..] = Address::new(seed, Stream::Synthetic, BlockIndex(block), i as u32).words(0);
        normal_pair(a, b)[0]
    };
    let truth: Vec<f64> = (0..COLUMNS).map(|j| normal(0, j)).collect();
    let mut rows = Labelled { columns: COLUMNS, ..Labelled::default() };
    for i in from..from + count {
        let x: Vec<f64> = (0..COLUMNS).map(|j| normal(1, i * COLUMNS + j)).collect();
        let score: f64 = x.iter().zip(&truth).map(|(x, w)| x * w).sum();
        let chance = uniform_open(Address::new(seed, Stream::Synthetic, BlockIndex(2), i as u32).words(0)[0]);
        rows.y.push(if chance < 1.0 / (1.0 + (-score).exp()) { 1.0 } else { -1.0 });
        rows.x.extend(x.iter().map(|&v| v as f32));
    }
    rows
}

/// A posterior's share of test rows that are right.
struct Point {
    method: &'static str,
    visited: f64,
    right: f64,
}

/// Runs the experiment.
pub fn run(arguments: &Arguments, console: &mut Console<'_>) -> Outcome<Report> {
    let folder = DataFolder::new(arguments.data.clone());
    let seed = Seed(arguments.seed);
    let made_up = arguments.stand_in || folder.0.is_none();
    let (name, train, test) = if made_up {
        ("a stand-in", stand_in(seed, 0, 10_000), stand_in(seed, 10_000, 2_000))
    } else {
        let (train, test) = f4::principal_components(&folder)?;
        ("MNIST, 8 against 6", train, test)
    };
    let most = arguments.rows.unwrap_or(if arguments.quick { 1_000 } else { train.len() });
    let n = train.len().min(most);
    let rows: Vec<f64> = train.x[..n * train.columns].iter().map(|&v| f64::from(v)).collect();
    let targets: Vec<f64> = train.y[..n].iter().map(|&y| if y > 0.0 { 1.0 } else { 0.0 }).collect();
    let model = GeneralisedLinear::new(Family::Logistic, &rows, train.columns, &targets, 1.0)?;
    (console.say)(&format!("{name}: {n} rows to learn, {} to test", test.len()));
    let (mut points, mut ended) = (Vec::new(), None);
    for pass in 0..=PASSES {
        let posterior = if pass == 0 {
            let options = AdaptiveOptions { particles: 1_000, ..AdaptiveOptions::new(seed) };
            quietly(|control| adaptive(&model, &options, control))?
        } else {
            let batch = arguments.batch.unwrap_or(100);
            let options = PaperOptions {
                particles: 1_000,
                batch,
                steps: pass * n.div_ceil(batch),
                delay: 1e4,
                decay: 0.5,
                ..PaperOptions::new(Strategy::Density, n, seed)
            };
            quietly(|control| paper(&model, &options, control))?
        };
        let method = if pass == 0 { "adaptive" } else { "paper" };
        let visited = posterior.report().evaluations as f64 / posterior.len() as f64;
        let point = Point { method, visited, right: right(&posterior, &test) };
        (console.say)(&format!("{method:>10} {visited:>9.0} visited: {:.2} % right", point.right));
        points.push(point);
        if (console.cancelled)() {
            ended = Some(riesz::Error::Cancelled { blocks: points.len() });
            break;
        }
    }
    let mut table = "method,visited,percent_right\n".to_owned();
    for Point { method, visited, right } in &points {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{method},{visited:.0},{right:.3}");
    }
    let mut chart = LineChart::new(format!("Bayesian logistic regression, {name}"))
        .x_label("observations visited by each particle")
        .y_label("test rows right, per cent")
        .log_x();
    let mut summary = format!("data: {name}\n");
    for method in ["adaptive", "paper"] {
        let own = points.iter().filter(|p| p.method == method);
        let line: Vec<(f64, f64)> = own.map(|p| (p.visited, p.right)).collect();
        if let Some((visited, right)) = line.last() {
            let _ = writeln!(
                summary,
                "{method}: {right:.2} % right after {visited:.0} visits (the text: 98.8 %)"
            );
            chart = chart.line(method, &line);
        }
    }
    Ok(Report { table, picture: chart.to_svg(), summary, ended })
}

/// Per cent of the rows whose class has the larger posterior mean of its probability.
fn right(posterior: &Posterior, test: &Labelled) -> f64 {
    let correct = |(x, &y): (&[f32], &f32)| {
        let probability = posterior.mean(|theta| {
            let score: f64 = x.iter().zip(&theta[1..]).map(|(x, w)| f64::from(*x) * w).sum();
            1.0 / (1.0 + (-theta[0] - score).exp())
        });
        (probability.value > 0.5) == (y > 0.0)
    };
    let count = test.x.chunks_exact(test.columns).zip(&test.y).filter(|row| correct(*row)).count();
    100.0 * count as f64 / test.len() as f64
}
