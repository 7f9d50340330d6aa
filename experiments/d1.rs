//! D1: the posterior with two modes (spec 4, model 1; thesis §4.5): how close the density is, against observations visited.
//!
//! 1,000 observations of ½ N(θ₁, 2.5²) + ½ N(θ₁ + θ₂, 2.5²) at θ = (1, −2), θ₁, θ₂ ~ N(0, 1). The truth is a grid. Of every method
//! there are the total variation ½∫|q̃ − π| and the cross entropy −∫π log q̃ of the density through its particles
//! ([`Posterior::log_density`]), the same estimator for all. A method that evaluates the likelihoods of e single observations
//! with m particles has *visited* e/m of them; a step of Langevin dynamics visits those of its batch.
//!
//! - `adaptive`: the default, given the first n observations of its order alone, for several n;
//! - `paper`: weighted kernel densities (strategy 2), γ_t = 1/(50 + t), h = ¼ m^{−1/6}, h_t² ≤ γ_t/10, after several numbers of steps;
//! - `printed`: the same without the bound on h_t, as the text has it;
//! - `smc`: one pass of sequential Monte Carlo, resampled below half of the particles effective and smoothed by kernels of
//!   Silverman's width;
//! - `sgld`: stochastic-gradient Langevin dynamics, θ ← θ + ½ε_t ∇ + √ε_t z, ε_t = a/(b + t)^0.55 with a = 0.1, b = 100; the last half
//!   of its iterates, at most m of them.

use super::common::{Console, Report};
use super::Arguments;
use crate::failure::Outcome;
use crate::plot::LineChart;
use riesz::distributions::models::TiedMixture;
use riesz::distributions::special::log_sum_exp;
use riesz::distributions::weights::{effective_size, normalised, systematic};
use riesz::distributions::{
    adaptive, paper, AdaptiveOptions, Model, PaperOptions, Particles, Posterior, Strategy,
};
use riesz::driver::quietly;
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Permutation, Seed, Stream};
use std::fmt::Write;

/// Deviation σ of the observations.
const DEVIATION: f64 = 2.5;
/// Observations per batch.
const BATCH: usize = 10;
/// Cells of the grid along each axis.
const SIDE: usize = 110;
/// Half of the grid's width and height.
const HALF: [f64; 2] = [3.5, 5.0];
/// Where the cross entropy counts densities as this, at least.
const LEAST_LOG_DENSITY: f64 = -50.0;

/// The truth: probabilities of cells.
struct Grid {
    points: Vec<f64>,
    mass: Vec<f64>,
}

impl Grid {
    const AREA: f64 = 4.0 * HALF[0] * HALF[1] / (SIDE * SIDE) as f64;

    fn of(model: &TiedMixture) -> Outcome<Self> {
        let middle = |i: usize, j: usize| HALF[j] * ((2 * i + 1) as f64 / SIDE as f64 - 1.0);
        let points: Vec<f64> =
            (0..SIDE * SIDE).flat_map(|c| [middle(c / SIDE, 0), middle(c % SIDE, 1)]).collect();
        let batch: Vec<u32> = (0..model.observations() as u32).collect();
        let (mut joint, mut likelihood) = (vec![0.0; SIDE * SIDE], vec![0.0; SIDE * SIDE]);
        model.log_prior(Particles::new(&points, 2)?, &mut joint)?;
        model.log_likelihood(Particles::new(&points, 2)?, &batch, &mut likelihood)?;
        joint.iter_mut().zip(likelihood).for_each(|(p, l)| *p += l);
        let total = log_sum_exp(&joint);
        Ok(Self { points, mass: joint.iter().map(|v| (v - total).exp()).collect() })
    }

    /// Total variation and cross entropy.
    fn measure(&self, posterior: &Posterior) -> Outcome<(f64, f64)> {
        let density = posterior.log_density(&self.points)?;
        let found: Vec<f64> = density.iter().map(|v| v.exp() * Self::AREA).collect();
        let outside = (1.0 - found.iter().sum::<f64>()).max(0.0);
        let apart: f64 = found.iter().zip(&self.mass).map(|(q, p)| (q - p).abs()).sum();
        let entropy: f64 = self.mass.iter().zip(&density).map(|(p, q)| -p * q.max(LEAST_LOG_DENSITY)).sum();
        Ok((0.5 * (apart + outside), entropy))
    }

    /// −∫π log π, which no cross entropy is below.
    fn entropy(&self) -> f64 {
        self.mass.iter().filter(|p| **p > 0.0).map(|p| -p * (p / Self::AREA).ln()).sum()
    }
}

/// One density of one run.
struct Point {
    method: &'static str,
    run: u64,
    visited: f64,
    total_variation: f64,
    cross_entropy: f64,
}

/// What all methods are given.
struct Problem {
    observations: Vec<f64>,
    particles: usize,
}

impl Problem {
    fn new(count: usize, particles: usize, seed: Seed) -> Self {
        let draw = |i| {
            let [a, b, c, _] = Address::new(seed, Stream::Synthetic, BlockIndex(0), i).words(0);
            DEVIATION * normal_pair(a, b)[0] + if uniform_open(c) < 0.5 { 1.0 } else { -1.0 }
        };
        Self { observations: (0..count as u32).map(draw).collect(), particles }
    }

    fn model(&self) -> riesz::Result<TiedMixture> {
        TiedMixture::new(self.observations.clone())
    }

    fn order(&self, seed: Seed, pass: u64) -> Permutation {
        Permutation::new(seed, Stream::Shuffle, BlockIndex(pass), self.observations.len())
    }

    /// The default, which sees the first `count` observations of an order.
    fn adaptive(&self, count: usize, seed: Seed) -> riesz::Result<(f64, Posterior)> {
        let order = self.order(seed, 0);
        let first = order.indices()[..count].iter().map(|&n| self.observations[n as usize]).collect();
        let options = AdaptiveOptions { particles: self.particles, ..AdaptiveOptions::new(seed) };
        let posterior = quietly(|control| adaptive(&TiedMixture::new(first)?, &options, control))?;
        Ok((posterior.report().evaluations as f64 / self.particles as f64, posterior))
    }

    /// Strategy 2 after `steps`, with h_t² ≤ `bound` γ_t.
    fn paper(&self, steps: usize, bound: f64, seed: Seed) -> riesz::Result<(f64, Posterior)> {
        let options = PaperOptions {
            particles: self.particles,
            batch: BATCH,
            steps,
            delay: 50.0,
            bandwidth: 0.25,
            bandwidth_bound: bound,
            ..PaperOptions::new(Strategy::Density, self.observations.len(), seed)
        };
        let posterior = quietly(|control| paper(&self.model()?, &options, control))?;
        Ok(((steps * BATCH) as f64, posterior))
    }

    /// Sequential Monte Carlo after `steps` batches of one pass.
    fn sequential(&self, steps: usize, seed: Seed) -> riesz::Result<(f64, Posterior)> {
        let (model, m, order) = (self.model()?, self.particles, self.order(seed, 0));
        let mut positions = model.sample_prior(seed, BlockIndex(1), m)?;
        let (mut log_weights, mut likelihood) = (vec![0.0; m], vec![0.0; m]);
        for (t, batch) in order.indices().chunks(BATCH).take(steps).enumerate() {
            if effective_size(&log_weights) < 0.5 * m as f64 {
                positions = smoothed(&positions, &log_weights, seed, t as u64);
                log_weights.fill(0.0);
            }
            model.log_likelihood(Particles::new(&positions, 2)?, batch, &mut likelihood)?;
            log_weights.iter_mut().zip(&likelihood).for_each(|(w, l)| *w += l);
        }
        Ok(((steps * BATCH) as f64, Posterior::of_particles(2, positions, log_weights, seed)?))
    }

    /// Langevin dynamics after `steps` batches of as many passes as that takes.
    fn langevin(&self, steps: usize, seed: Seed) -> riesz::Result<(f64, Posterior)> {
        let per_pass = self.observations.len().div_ceil(BATCH);
        let mut theta = self.model()?.sample_prior(seed, BlockIndex(2), 1)?;
        let (mut order, mut kept) = (self.order(seed, 0), Vec::new());
        let every = (steps / 2).div_ceil(self.particles).max(1);
        for t in 0..steps {
            if t > 0 && t.is_multiple_of(per_pass) {
                order = self.order(seed, (t / per_pass) as u64);
            }
            let first = t % per_pass * BATCH;
            let indices = order.indices();
            let gradient = self.gradient(&theta, &indices[first..(first + BATCH).min(indices.len())]);
            let step = 0.1 / (100.0 + t as f64).powf(0.55);
            let [a, b, ..] = Address::new(seed, Stream::Move, BlockIndex(t as u64), 0).words(0);
            for ((x, g), z) in theta.iter_mut().zip(gradient).zip(normal_pair(a, b)) {
                *x += 0.5 * step * g + step.sqrt() * z;
            }
            if t >= steps / 2 && (t - steps / 2).is_multiple_of(every) {
                kept.extend_from_slice(&theta);
            }
        }
        let count = kept.len() / 2;
        Ok(((steps * BATCH) as f64, Posterior::of_particles(2, kept, vec![0.0; count], seed)?))
    }

    /// ∇ log p(θ) + (N/B) Σ_b ∇ log p(x_b∣θ): with r the probability that x is of the first component, u = x − θ₁ and
    /// v = u − θ₂ the sum is over (r u + (1 − r) v, (1 − r) v)/σ².
    fn gradient(&self, theta: &[f64], batch: &[u32]) -> [f64; 2] {
        let scale = self.observations.len() as f64 / batch.len() as f64 / (DEVIATION * DEVIATION);
        let mut gradient = [-theta[0], -theta[1]];
        for &n in batch {
            let u = self.observations[n as usize] - theta[0];
            let v = u - theta[1];
            let second = 1.0 / (1.0 + (0.5 * (v * v - u * u) / (DEVIATION * DEVIATION)).exp());
            gradient[0] += scale * ((1.0 - second) * u + second * v);
            gradient[1] += scale * second * v;
        }
        gradient
    }
}

/// Resampled particles in the plane with Gaussian noise of Silverman's width m^{−1/6} and the particles' covariance.
fn smoothed(positions: &[f64], log_weights: &[f64], seed: Seed, step: u64) -> Vec<f64> {
    let weights = normalised(log_weights);
    let rows = || positions.chunks_exact(2).zip(&weights);
    let mean = [0, 1].map(|j| rows().map(|(x, w)| w * x[j]).sum::<f64>());
    let moment =
        |i: usize, j: usize| rows().map(|(x, w)| w * (x[i] - mean[i]) * (x[j] - mean[j])).sum::<f64>();
    let h = effective_size(log_weights).powf(-1.0 / 6.0);
    // The Cholesky factor of the covariance.
    let a = moment(0, 0).sqrt().max(1e-12);
    let b = moment(0, 1) / a;
    let c = (moment(1, 1) - b * b).max(0.0).sqrt();
    let block = BlockIndex(step + (1 << 32));
    let chosen = systematic(&weights, weights.len(), Address::new(seed, Stream::Resample, block, 0));
    let move_from = |(i, &j): (usize, &usize)| {
        let [u, v, ..] = Address::new(seed, Stream::Particle, block, i as u32).words(0);
        let [z, y] = normal_pair(u, v);
        [positions[2 * j] + h * a * z, positions[2 * j + 1] + h * (b * z + c * y)]
    };
    chosen.iter().enumerate().flat_map(move_from).collect()
}

/// Runs the command.
pub fn run(arguments: &Arguments, console: &mut Console<'_>) -> Outcome<Report> {
    let quick = arguments.quick;
    let count = arguments.rows.unwrap_or(1_000).max(10 * BATCH);
    let problem = Problem::new(count, if quick { 500 } else { 1_500 }, Seed(arguments.seed));
    let grid = Grid::of(&problem.model()?)?;
    let mut points: Vec<Point> = Vec::new();
    let mut ended = None;
    'runs: for run in 0..if quick { 1 } else { 10 } {
        for method in METHODS {
            for posterior in problem.course(method, Seed(arguments.seed + run), quick) {
                let (visited, posterior) = posterior?;
                let (total_variation, cross_entropy) = grid.measure(&posterior)?;
                (console.say)(&format!(
                    "run {:>2} {method:<9} {visited:>9.0} visited: total variation {total_variation:.3}, cross entropy {cross_entropy:.3}",
                    run + 1
                ));
                points.push(Point { method, run, visited, total_variation, cross_entropy });
                if (console.cancelled)() {
                    ended = Some(riesz::Error::Cancelled { blocks: points.len() });
                    break 'runs;
                }
            }
        }
    }
    let summary = summary(&points, grid.entropy());
    Ok(Report { table: to_csv(&points), picture: to_svg(&points), summary, ended })
}

/// The methods.
const METHODS: [&str; 5] = ["adaptive", "paper", "printed", "smc", "sgld"];

impl Problem {
    /// The densities of a method after more and more observations.
    fn course(
        &self,
        method: &'static str,
        seed: Seed,
        quick: bool,
    ) -> impl Iterator<Item = riesz::Result<(f64, Posterior)>> + '_ {
        let batches = self.observations.len() / BATCH;
        let parts: &[usize] = match method {
            "sgld" if quick => &[10, 100],
            "sgld" => &[10, 100, 1_000],
            "paper" | "printed" => &[1, 2, 5, 10, 25, 100],
            _ => &[1, 2, 5, 10],
        };
        parts.iter().map(move |part| {
            let steps = batches * part / 10;
            match method {
                "adaptive" => self.adaptive(steps * BATCH, seed),
                "paper" => self.paper(steps, 0.1, seed),
                "printed" => self.paper(steps, f64::INFINITY, seed),
                "smc" => self.sequential(steps, seed),
                _ => self.langevin(steps, seed),
            }
        })
    }
}

/// Means over the runs: method, visited, total variation, cross entropy. The points of a run come in the same order.
fn means(points: &[Point]) -> Vec<(&'static str, f64, f64, f64)> {
    let mut all = Vec::new();
    for method in METHODS {
        let of = |run: u64| points.iter().filter(move |p| p.method == method && p.run == run);
        for place in 0..of(0).count() {
            let same: Vec<&Point> = (0..).map_while(|run| of(run).nth(place)).collect();
            let mean = |value: fn(&Point) -> f64| {
                same.iter().map(|p| value(p)).sum::<f64>() / same.len().max(1) as f64
            };
            all.push((method, mean(|p| p.visited), mean(|p| p.total_variation), mean(|p| p.cross_entropy)));
        }
    }
    all
}

fn summary(points: &[Point], entropy: f64) -> String {
    let mut text = format!("means over the runs; the entropy of the posterior is {entropy:.3}\n");
    for (method, visited, variation, cross) in means(points) {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{method:<9} {visited:>9.0} visited: total variation {variation:.3}, cross entropy {cross:.3}"
        );
    }
    text
}

fn to_csv(points: &[Point]) -> String {
    let mut text = String::from("method,run,visited,total_variation,cross_entropy\n");
    for Point { method, run, visited, total_variation, cross_entropy } in points {
        let _ = writeln!(text, "{method},{},{visited:.0},{total_variation:.5},{cross_entropy:.5}", run + 1);
    }
    text
}

fn to_svg(points: &[Point]) -> String {
    let mut chart = LineChart::new("Posterior of the tied mixture")
        .x_label("observations visited")
        .y_label("total variation")
        .log_x()
        .log_y();
    for method in METHODS {
        let line: Vec<(f64, f64)> =
            means(points).iter().filter(|m| m.0 == method).map(|m| (m.1, m.2)).collect();
        if !line.is_empty() {
            chart = chart.line(method, &line);
        }
    }
    chart.to_svg()
}
