//! Particle mirror descent as published (thesis, algorithm 3): weighted particles, weighted kernel densities, or the one
//! after the other.
//!
//! One step with a batch of the N observations. A pass is T₁ = ⌈N/B⌉ batches without replacement, whose sizes differ by at
//! most one, shuffled anew in every pass:
//!
//! ```text
//! strategy 1   log α_i ← (1 − γ_t) log α_i + γ_t T₁ Σ_b log p(x_b∣θ_i)                           θ_i from the prior, once
//! strategy 2   θ_i ~ q̃_t, i ≤ m_t,   log α_i = γ_t [log p(θ_i) − log q̃_t(θ_i) + T₁ Σ_b log p(x_b∣θ_i)]
//!              q̃_{t+1} = Σ_i α_i N(θ_i, h_t² Σ_t)
//! ```
//!
//! with Σ_t the covariance of the particles and the schedules
//!
//! ```text
//! γ_t = γ/(t₀ + t)^κ,   m_t = max(m_1, ⌈m (t/T)^{2 + d/β}⌉),   h_t² = min(h² m_t^{−2/(d + 2β)}, c γ_t)     (theorem 19)
//! ```
//!
//! The text has N/B for T₁, which is the same where B divides N. Elsewhere only T₁ makes the sum over a pass T₁ times the
//! log-likelihood of all data, so that strategy 1 with γ_t = 1/t holds their posterior after every whole pass.
//!
//! Departures: m_1 = m unless it is given, and the bandwidth has the bound c γ_t. A kernel adds h_t² to the variance in every
//! step, and a step takes back γ_t of what is too much: the variance ends near 1 + h_t²/γ_t times the right one. With a
//! constant m the text's h_t is constant and the excess grows without end; m_t as in theorem 19 has h_t = O(t^{−1/β}) and an excess of
//! O(t^{1 − 2/β}), which vanishes for β = 1, the text's value for the Gaussian kernel, and stays for the default β = 2.
//! `bandwidth_bound: ∞`, `smoothness: 1` and `initial_particles` are the text.

use super::factor::{moments, Factor};
use super::kde::fitting_log_kernel_sums;
use super::model::{even_batches, likelihood_where_possible, log_prior, Model, Particles};
use super::posterior::{Evidence, Posterior, Stage, StageKind};
use super::special::log_sum_exp;
use super::weights::{effective_size, normalised, systematic};
use crate::driver::{Control, Phase, Progress};
use crate::error::{in_range, Error, Result};
use crate::memory::room;
use crate::random::{normals, Address, BlockIndex, Permutation, Seed, Stream};
use serde::{Deserialize, Serialize};

/// Which of the strategies of algorithm 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// 1: particles from the prior, only their weights change.
    Particles,
    /// 2: particles are drawn anew from a kernel density in every step.
    Density,
    /// 2 for a number of steps, then 1 with particles from the density.
    DensityThenParticles(usize),
}

/// Settings of [`paper`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "PaperOptions::unset")]
pub struct PaperOptions {
    /// The strategy.
    pub strategy: Strategy,
    /// Particles m, of the last step.
    #[serde(alias = "n_particles")]
    pub particles: usize,
    /// Particles m_1 of the first step, from which their number grows as t^{2 + d/β}; m from the beginning unless given.
    pub initial_particles: Option<usize>,
    /// Most observations of a batch, B.
    #[serde(alias = "batch_size")]
    pub batch: usize,
    /// Steps.
    #[serde(alias = "n_steps")]
    pub steps: usize,
    /// γ of the step γ/(t₀ + t)^κ.
    pub step: f64,
    /// t₀.
    pub delay: f64,
    /// κ.
    pub decay: f64,
    /// h of the bandwidth h m_t^{−1/(d + 2β)}.
    pub bandwidth: f64,
    /// c of the bound h_t² ≤ c γ_t; ∞ for none, as published.
    pub bandwidth_bound: f64,
    /// β.
    pub smoothness: f64,
    /// Most seconds.
    pub max_time: Option<f64>,
    /// The seed.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

impl PaperOptions {
    /// γ_t = 1/t, h = 1, c = 0.1, β = 2, one pass in batches of 10 with 1,500 particles.
    pub fn new(strategy: Strategy, observations: usize, seed: Seed) -> Self {
        let batch = 10.min(observations.max(1));
        Self {
            strategy,
            particles: 1_500,
            initial_particles: None,
            batch,
            steps: observations.div_ceil(batch),
            step: 1.0,
            delay: 0.0,
            decay: 1.0,
            bandwidth: 1.0,
            bandwidth_bound: 0.1,
            smoothness: 2.0,
            max_time: None,
            seed,
        }
    }

    /// What is filled in for a setting that is not given.
    fn unset() -> Self {
        Self::new(Strategy::DensityThenParticles(50), 10, Seed(0))
    }

    fn check(&self) -> Result<()> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        in_range("n_particles", self.particles as f64, (2..1 << 31).contains(&self.particles), "[2, 2^31)")?;
        let first = self.initial_particles.unwrap_or(self.particles);
        in_range(
            "initial_particles",
            first as f64,
            (2..=self.particles).contains(&first),
            "[2, n_particles]",
        )?;
        in_range("batch_size", self.batch as f64, self.batch >= 1, "[1, ∞)")?;
        in_range("n_steps", self.steps as f64, self.steps >= 1, "[1, ∞)")?;
        in_range("step", self.step, positive(self.step), "(0, ∞)")?;
        in_range("delay", self.delay, self.delay >= 0.0 && self.delay.is_finite(), "[0, ∞)")?;
        in_range("decay", self.decay, (0.0..=1.0).contains(&self.decay), "[0, 1]")?;
        in_range("bandwidth", self.bandwidth, positive(self.bandwidth), "(0, ∞)")?;
        in_range("bandwidth_bound", self.bandwidth_bound, self.bandwidth_bound > 0.0, "(0, ∞]")?;
        in_range("smoothness", self.smoothness, positive(self.smoothness), "(0, ∞)")?;
        let time = self.max_time.unwrap_or(1.0);
        in_range("max_time", time, time > 0.0, "(0, ∞)").map(drop)
    }

    /// γ_t for t = 1, 2, …, at most 1.
    fn gamma(&self, t: usize) -> f64 {
        (self.step / (self.delay + t as f64).powf(self.decay)).min(1.0)
    }

    /// m_t in d dimensions. All m are there when strategy 1 takes over from strategy 2.
    fn count(&self, t: usize, d: usize) -> usize {
        let last = match self.strategy {
            Strategy::Particles => t,
            Strategy::Density => self.steps,
            Strategy::DensityThenParticles(steps) => steps.saturating_add(1).min(self.steps),
        };
        let grown = (t as f64 / last as f64).powf(2.0 + d as f64 / self.smoothness) * self.particles as f64;
        (grown.ceil() as usize).clamp(self.initial_particles.unwrap_or(self.particles), self.particles)
    }

    /// h_t of the density through the `count` particles of step t.
    fn width(&self, t: usize, count: usize, d: usize) -> f64 {
        let published = self.bandwidth * (count as f64).powf(-1.0 / (d as f64 + 2.0 * self.smoothness));
        published.min((self.bandwidth_bound * self.gamma(t)).sqrt())
    }
}

/// Particles and log-weights, which are not normalised.
struct State {
    positions: Vec<f64>,
    log_prior: Vec<f64>,
    log_weights: Vec<f64>,
    /// Whether the particles are draws from the prior.
    from_prior: bool,
    /// log q̃ at the particles where they are draws from a density.
    log_density: Vec<f64>,
}

/// The posterior by the published algorithm.
pub fn paper(model: &dyn Model, options: &PaperOptions, control: &mut Control<'_>) -> Result<Posterior> {
    if model.observations() == 0 {
        return Err(Error::Empty { what: "data", needed: "one observation" });
    }
    options.check()?;
    room("particles", "n_particles", &[options.particles, model.dimension() + 8], 16)?;
    control.start(options.max_time);
    let mut run = Run::new(model, options)?;
    for t in 1..=options.steps {
        run.step(t)?;
        control.report(Progress::new(Phase::Posterior, t, options.steps, f64::NAN))?;
        if control.out_of_time() {
            break;
        }
    }
    Ok(run.finish())
}

struct Run<'a> {
    model: &'a dyn Model,
    options: &'a PaperOptions,
    state: State,
    /// The order of the pass, and which pass it is.
    order: (usize, Permutation),
    visited: usize,
    evaluations: u64,
    history: Vec<Stage>,
}

impl<'a> Run<'a> {
    fn new(model: &'a dyn Model, options: &'a PaperOptions) -> Result<Self> {
        let count = options.count(1, model.dimension());
        let positions = model.sample_prior(options.seed, BlockIndex(0), count)?;
        let log_prior = log_prior(model, Particles::new(&positions, model.dimension())?)?;
        let log_weights = vec![0.0; count];
        let state = State { positions, log_prior, log_weights, from_prior: true, log_density: Vec::new() };
        let order = (0, Self::order(model, options, 0));
        Ok(Self { model, options, state, order, visited: 0, evaluations: 0, history: Vec::new() })
    }

    fn order(model: &dyn Model, options: &PaperOptions, pass: usize) -> Permutation {
        Permutation::new(options.seed, Stream::Shuffle, BlockIndex(pass as u64), model.observations())
    }

    /// The batch of step t and the factor T₁ of its log-likelihood.
    fn batch(&mut self, t: usize) -> (Vec<u32>, f64) {
        let mut batches = even_batches(self.model.observations(), self.options.batch);
        let per_pass = batches.len();
        let pass = (t - 1) / per_pass;
        if pass != self.order.0 {
            self.order = (pass, Self::order(self.model, self.options, pass));
        }
        let range = batches.nth((t - 1) % per_pass).unwrap_or(0..0);
        (self.order.1.indices()[range].to_vec(), per_pass as f64)
    }

    /// Whether step t draws new particles.
    fn draws(&self, t: usize) -> bool {
        match self.options.strategy {
            Strategy::Particles => false,
            Strategy::Density => t > 1,
            // The step after the last with densities draws once more, from the density it left.
            Strategy::DensityThenParticles(steps) => t > 1 && t <= steps + 1,
        }
    }

    fn step(&mut self, t: usize) -> Result<()> {
        let (batch, scale) = self.batch(t);
        let gamma = self.options.gamma(t);
        let drawn = self.draws(t);
        if drawn {
            self.draw(t)?;
        }
        let state = &mut self.state;
        let likelihood = likelihood_where_possible(self.model, &state.positions, &state.log_prior, &batch)?;
        for (i, l) in likelihood.iter().enumerate() {
            state.log_weights[i] = match drawn {
                // q_t^{1−γ} p^γ L^γ over the density q̃_t the particles are draws of.
                true => gamma * (state.log_prior[i] - state.log_density[i] + scale * l),
                // The same over the weights so far: particles that stay carry q_t relative to what they were drawn from.
                false => {
                    self_power(state.log_weights[i], 1.0 - gamma) + gamma * (state.log_anchor(i) + scale * l)
                }
            };
        }
        if log_sum_exp(&state.log_weights) == f64::NEG_INFINITY {
            return Err(Error::Impossible { particles: likelihood.len(), observations: batch.len() });
        }
        self.visited += batch.len();
        self.evaluations += (batch.len() * likelihood.len()) as u64;
        self.history.push(Stage {
            island: None,
            seen: self.visited,
            batch: batch.len(),
            power: gamma,
            particles: likelihood.len(),
            effective_size: effective_size(&self.state.log_weights),
            groups: 0,
            kind: if drawn { StageKind::Draws } else { StageKind::Kept },
            evaluations: self.evaluations,
        });
        Ok(())
    }

    /// m_t draws from the density q̃_t that the particles of the step before left.
    fn draw(&mut self, t: usize) -> Result<()> {
        let d = self.model.dimension();
        let width = self.options.width(t - 1, self.state.log_weights.len(), d);
        let density = KernelDensity::new(&self.state.positions, &self.state.log_weights, d, width);
        let count = self.options.count(t, d);
        let positions = density.draw(count, self.options.seed, BlockIndex(t as u64));
        let log_density = density.log_density(&positions);
        let log_prior = log_prior(self.model, Particles::new(&positions, d)?)?;
        self.state =
            State { positions, log_prior, log_weights: vec![0.0; count], from_prior: false, log_density };
        Ok(())
    }

    /// The posterior; strategy 1 with γ_t = 1/t knows the evidence after whole passes.
    fn finish(self) -> Posterior {
        let options = self.options;
        let averaged = options.step == 1.0 && options.delay == 0.0 && options.decay == 1.0;
        let whole = self.visited > 0 && self.visited.is_multiple_of(self.model.observations());
        let evidence = Evidence::of_weights(&self.state.log_weights);
        let seen = self.visited.min(self.model.observations());
        let known = self.state.from_prior && averaged && whole;
        Posterior::new(self.model.dimension(), self.state.positions, self.state.log_weights, options.seed)
            .of_observations(seen, self.model.observations())
            .with_evidence(known.then_some(evidence))
            .with_history(self.history, self.evaluations, 0)
    }
}

/// q̃ = Σ_j α_j N(θ_j, h² Σ) with Σ the covariance of the weighted particles (thesis 4.7).
struct KernelDensity<'a> {
    positions: &'a [f64],
    weights: Vec<f64>,
    factor: Factor,
    width: f64,
}

impl<'a> KernelDensity<'a> {
    fn new(positions: &'a [f64], log_weights: &[f64], d: usize, width: f64) -> Self {
        let weights = normalised(log_weights);
        let factor = Factor::of(&moments(positions, &weights, d).1, d);
        Self { positions, weights, factor, width }
    }

    fn dimension(&self) -> usize {
        self.positions.len() / self.weights.len()
    }

    /// `count` draws, kernels chosen by systematic resampling.
    fn draw(&self, count: usize, seed: Seed, block: BlockIndex) -> Vec<f64> {
        let d = self.dimension();
        let chosen = systematic(&self.weights, count, Address::new(seed, Stream::Resample, block, 0));
        let (mut z, mut drawn) = (vec![0.0; d], vec![0.0; count * d]);
        for (i, (theta, &j)) in drawn.chunks_exact_mut(d).zip(&chosen).enumerate() {
            normals(Address::new(seed, Stream::Particle, block, i as u32), &mut z);
            z.iter_mut().for_each(|z| *z *= self.width);
            self.factor.colour(&z, &self.positions[j * d..][..d], theta);
        }
        drawn
    }

    /// log q̃ at rows of `points`.
    fn log_density(&self, points: &[f64]) -> Vec<f64> {
        let d = self.dimension();
        let origin = vec![0.0; d];
        let scaled = |rows: &[f64]| -> Vec<f64> {
            self.factor.whiten_rows(rows, &origin).iter().map(|z| z / self.width).collect()
        };
        let log_weights: Vec<f64> = self.weights.iter().map(|w| w.ln()).collect();
        let mut out = vec![0.0; points.len() / d];
        fitting_log_kernel_sums(&scaled(points), &scaled(self.positions), &log_weights, d, &mut out);
        let normaliser =
            d as f64 * (0.5 * std::f64::consts::TAU.ln() + self.width.ln()) + self.factor.log_determinant();
        out.iter_mut().for_each(|v| *v -= normaliser);
        out
    }
}

/// log of α^{power}, with 0⁰ = 1.
fn self_power(log_weight: f64, power: f64) -> f64 {
    if power == 0.0 {
        0.0
    } else {
        power * log_weight
    }
}

impl State {
    /// log p(θ_i)/r(θ_i), r what the particles were drawn from: nothing for draws from the prior.
    fn log_anchor(&self, i: usize) -> f64 {
        if self.from_prior {
            0.0
        } else {
            self.log_prior[i] - self.log_density[i]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Theorem 17: with h = m^{−1/(d + 2β)} the density through m weighted particles errs in L₁ as m^{−β/(d + 2β)}. Draws from N(0, 2²) with
    /// the weights of N(0, 1); d = 1. For β = 2 bias and noise fall alike; for β = 1 the noise, (m h)^{−½}, is the larger.
    #[test]
    fn densities_err_as_the_theorem_says() {
        let (step, half) = (0.05, 120_i32);
        let grid: Vec<f64> = (-half..=half).map(|i| step * f64::from(i)).collect();
        let error = |m: usize, beta: f64, seed: u64| {
            let mut draws = vec![0.0; m];
            normals(Address::new(Seed(seed), Stream::Synthetic, BlockIndex(m as u64), 0), &mut draws);
            draws.iter_mut().for_each(|x| *x *= 2.0);
            let log_weights: Vec<f64> = draws.iter().map(|x| -0.375 * x * x).collect();
            let options = PaperOptions {
                smoothness: beta,
                bandwidth_bound: f64::INFINITY,
                ..PaperOptions::new(Strategy::Density, 1, Seed(0))
            };
            let density = KernelDensity::new(&draws, &log_weights, 1, options.width(1, m, 1));
            let gap = |(x, log): (&f64, f64)| {
                (log.exp() - (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()).abs()
            };
            step * grid.iter().zip(density.log_density(&grid)).map(gap).sum::<f64>()
        };
        for (beta, expected) in [(1.0, -1.0 / 3.0), (2.0, -0.4)] {
            let mean = |m: usize| (0..20).map(|seed| error(m, beta, seed)).sum::<f64>() / 20.0;
            let [few, many] = [200, 12_800].map(mean);
            let slope = (many / few).ln() / 64.0_f64.ln();
            assert!((slope - expected).abs() < 0.04, "β = {beta}: {slope}, expected {expected}");
        }
    }

    /// m_t and h_t are those of the text.
    #[test]
    fn schedules_are_those_of_the_theorem() {
        let mut options = PaperOptions {
            particles: 16_000,
            initial_particles: Some(100),
            steps: 20,
            smoothness: 1.0,
            bandwidth_bound: f64::INFINITY,
            ..PaperOptions::new(Strategy::Density, 10, Seed(0))
        };
        // 2 + d/β = 4 in two dimensions: a sixteenth at half of the steps.
        assert_eq!([1, 10, 20].map(|t| options.count(t, 2)), [100, 1_000, 16_000]);
        assert!((options.width(10, 10_000, 2) - 0.1).abs() < 1e-12);
        options.strategy = Strategy::DensityThenParticles(9);
        assert_eq!([5, 10].map(|t| options.count(t, 2)), [1_000, 16_000]);
        options.bandwidth_bound = 0.1;
        assert!((options.width(1_000, 10_000, 2) - 0.01).abs() < 1e-12);
    }
}
