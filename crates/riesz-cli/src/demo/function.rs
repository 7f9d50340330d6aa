//! Two functions from noisy samples: one of a line, one of the plane.

use super::fit;
use crate::experiment::f1;
use crate::failure::Outcome;
use crate::output::{grouped, print, significant, write};
use crate::plot::{HeatMap, LineChart};
use riesz::data::Rows;
use riesz::functions::Task;
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use std::f64::consts::PI;
use std::path::Path;

/// Samples of each function.
const SAMPLES: usize = 1_000;
/// Standard deviation of the noise.
const NOISE: f64 = 0.1;

/// Fits both functions and draws them.
pub(super) fn run(out: &Path) -> Outcome<()> {
    print(&format!("two functions, {} samples each with noise {NOISE}\n", grouped(SAMPLES)))?;
    write(&out.join("curve.svg"), &curve()?)?;
    write(&out.join("function.svg"), &plane()?)
}

/// The function of experiments D5 and E1: 3x² + (sin 3.53πx + cos 7.7πx) exp(−1.6π|x|).
fn truth(x: f64) -> f64 {
    3.0 * x * x + ((3.53 * PI * x).sin() + (7.7 * PI * x).cos()) * (-1.6 * PI * x.abs()).exp()
}

fn curve() -> Outcome<String> {
    let samples: Vec<(f64, f64)> = (0..SAMPLES)
        .map(|i| {
            let [a, _, c, d] = Address::new(Seed(0), Stream::Synthetic, BlockIndex(0), i as u32).words(0);
            let x = 2.0 * uniform_open(a) - 1.0;
            (x, truth(x) + NOISE * normal_pair(c, d)[0])
        })
        .collect();
    let (x, y): (Vec<f32>, Vec<f32>) = samples.iter().map(|&(x, y)| (x as f32, y as f32)).unzip();
    let machine = fit(Task::Regression(1), Rows::single(&x, 1)?, &y)?;
    let grid: Vec<f32> = (0..=400).map(|i| i as f32 / 200.0 - 1.0).collect();
    let learnt = machine.decision(Rows::single(&grid, 1)?)?;
    let pairs = |value: &dyn Fn(usize) -> f64| -> Vec<(f64, f64)> {
        grid.iter().enumerate().map(|(i, &x)| (f64::from(x), value(i))).collect()
    };
    let exact = |i: usize| truth(f64::from(grid[i]));
    report("of a line ", &learnt, &(0..grid.len()).map(exact).collect::<Vec<_>>())?;
    Ok(LineChart::new("A function learnt from noisy samples")
        .x_label("x")
        .dots("samples", &samples)
        .line("learnt", &pairs(&|i| f64::from(learnt[i])))
        .dashed("true", &pairs(&exact))
        .to_svg())
}

fn plane() -> Outcome<String> {
    const SIDE: usize = 140;
    let (x, y) = f1::sample(Seed(0), 1, SAMPLES);
    let machine = fit(Task::Regression(1), Rows::single(&x, 2)?, &y)?;
    let place = |i: usize| 10.0 * (i as f32 + 0.5) / SIDE as f32 - 5.0;
    let grid: Vec<f32> = (0..SIDE * SIDE).flat_map(|i| [place(i % SIDE), place(i / SIDE)]).collect();
    let learnt = machine.decision(Rows::single(&grid, 2)?)?;
    report("of a plane", &learnt, &grid.chunks_exact(2).map(f1::truth).collect::<Vec<_>>())?;
    let values: Vec<f64> = learnt.iter().map(|&value| f64::from(value)).collect();
    let samples: Vec<_> = x.chunks_exact(2).map(|x| (f64::from(x[0]), f64::from(x[1]))).collect();
    let title = format!("A function of the plane from {} noisy samples", grouped(SAMPLES));
    Ok(HeatMap::new(title, (-5.0, 5.0), (-5.0, 5.0))
        .values(SIDE, &values)
        .points("where the function was sampled", &samples)
        .to_svg())
}

/// The error of the learnt function against the true one.
fn report(which: &str, learnt: &[f32], exact: &[f64]) -> Outcome<()> {
    let squares = learnt.iter().zip(exact).map(|(&a, b)| (f64::from(a) - b).powi(2));
    let error = (squares.sum::<f64>() / exact.len() as f64).sqrt();
    print(&format!("  {which}         root mean square error {}\n", significant(error)))
}
