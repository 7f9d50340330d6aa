//! D5: a sparse Gaussian process in one dimension (spec 7; thesis §4.6): the posterior becomes that of the exact process.
//!
//! ```text
//! y = 3x² + (sin 3.53πx + cos 7.7πx) e^{−1.6π|x|} + 0.1e,   x uniform on (−½, ½), e ~ N(0, 1)
//! ```
//!
//! 2,048 rows, 16 particles of 128 inducing inputs, batches of 64. Signal, noise and length
//! scale are those an exact process learns from all rows. Root mean square differences of mean and variance to the exact
//! ones, at 512 places, against the rows visited, for the published recursion with γ = 1/t and for the default mode.

use super::common::{Console, Report};
use super::Arguments;
use crate::failure::Outcome;
use crate::plot::LineChart;
use riesz::data::Rows;
use riesz::distributions::models::sparse_gp::{Mode, SparseProcess, SparseProcessOptions};
use riesz::driver::quietly;
use riesz::functions::{GaussianProcess, GaussianProcessOptions};
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::Error;
use std::f64::consts::PI;
use std::fmt::Write;

/// Places where posteriors are compared.
const PLACES: usize = 512;

/// x and y of `count` rows.
fn sample(seed: Seed, count: usize) -> (Vec<f64>, Vec<f64>) {
    let draw = |i: u32| {
        let [u, a, b, _] = Address::new(seed, Stream::Synthetic, BlockIndex(0), i).words(0);
        let x = uniform_open(u) - 0.5;
        let wave = ((3.53 * PI * x).sin() + (7.7 * PI * x).cos()) * (-1.6 * PI * x.abs()).exp();
        (x, 3.0 * x * x + wave + 0.1 * normal_pair(a, b)[0])
    };
    (0..count as u32).map(draw).unzip()
}

/// Distance to the exact posterior after some rows.
struct Point {
    rows: usize,
    mean: f64,
    variance: f64,
}

/// Runs the experiment.
pub fn run(arguments: &Arguments, console: &mut Console<'_>) -> Outcome<Report> {
    let n = arguments.rows.unwrap_or(if arguments.quick { 512 } else { 1 << 11 });
    let (seed, batch) = (Seed(arguments.seed), arguments.batch.unwrap_or(64));
    let (x, y) = sample(seed, n);
    let rows = Rows::double(&x, 1)?;
    let exact =
        quietly(|control| GaussianProcess::fit(&GaussianProcessOptions::new(seed), rows, &y, control))?;
    let places: Vec<f64> = (0..PLACES).map(|i| (i as f64 + 0.5) / PLACES as f64 - 0.5).collect();
    let at = Rows::double(&places, 1)?;
    let target = exact.marginals(at)?;
    let hyper = exact.hyperparameters();
    let mut table = "mode,rows,mean,variance\n".to_owned();
    let mut summary = format!(
        "signal {:.3}, noise {:.4}, length scale {:.4}\n",
        hyper.signal, hyper.noise, hyper.length_scales[0]
    );
    let mut chart =
        LineChart::new(format!("Sparse process, {n} rows, 16 sets of 128 inputs, against the exact one"))
            .x_label("rows visited")
            .y_label("root mean square difference")
            .log_x()
            .log_y();
    (console.say)(&format!("{:>10} {:>8} {:>12} {:>12}", "mode", "rows", "mean", "variance"));
    let mut ended = None;
    for (mode, name) in [(Mode::Paper, "paper"), (Mode::Adaptive, "adaptive")] {
        let options = SparseProcessOptions {
            mode,
            inducing: 128.min(n / 4),
            batch_size: batch,
            signal: Some(hyper.signal),
            noise: Some(hyper.noise),
            length_scales: Some(hyper.length_scales.clone()),
            ..SparseProcessOptions::new(seed)
        };
        let mut points = Vec::new();
        let mut look = |process: &SparseProcess| {
            let (mean, variance) = process.marginals(at)?;
            let point = Point {
                rows: process.seen(),
                mean: distance(&mean, &target.0),
                variance: distance(&variance, &target.1),
            };
            (console.say)(&format!(
                "{name:>10} {:>8} {:>12.3e} {:>12.3e}",
                point.rows, point.mean, point.variance
            ));
            points.push(point);
            Ok::<(), Error>(())
        };
        let mut trace = |process: &SparseProcess| {
            if (console.cancelled)() {
                return Err(Error::Cancelled { blocks: process.seen() });
            }
            if (process.seen() / batch).is_power_of_two() && process.seen() < n {
                look(&process.snapshot()?)?;
            }
            Ok(())
        };
        let fitted =
            quietly(|control| SparseProcess::fit_traced(&options, rows, &y, None, control, &mut trace));
        match fitted {
            Ok(process) => look(&process)?,
            Err(error) => ended = Some(error),
        }
        for Point { rows, mean, variance } in &points {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{name},{rows},{mean:e},{variance:e}");
        }
        if let Some(Point { mean, variance, .. }) = points.last() {
            let _ = writeln!(summary, "{name}: mean {mean:.1e}, variance {variance:.1e} from the exact ones");
        }
        let series = |of: fn(&Point) -> f64| -> Vec<(f64, f64)> {
            points.iter().map(|point| (point.rows as f64, of(point))).collect()
        };
        chart = chart
            .line(format!("mean, {name}"), &series(|p| p.mean))
            .line(format!("variance, {name}"), &series(|p| p.variance));
        if ended.is_some() {
            break;
        }
    }
    Ok(Report { table, picture: chart.to_svg(), summary, ended })
}

/// Root of the mean square of the differences.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    (a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / a.len() as f64).sqrt()
}
