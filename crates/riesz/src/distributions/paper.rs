//! Particle mirror descent as published (thesis, algorithm 3): weighted particles, weighted kernel densities, or the one
//! after the other.
//!
//! One step with a batch of B of N observations, drawn without replacement and shuffled anew in every pass:
//!
//! ```text
//! strategy 1   log α_i ← (1 − γ_t) log α_i + γ_t (N/B) Σ_b log p(x_b∣θ_i)                        θ_i from the prior, once
//! strategy 2   θ_i ~ q̃_t,   log α_i = γ_t [log p(θ_i) − log q̃_t(θ_i) + (N/B) Σ_b log p(x_b∣θ_i)]
//!              q̃_{t+1} = Σ_i α_i N(θ_i, h_t² Σ_t)
//! ```
//!
//! with γ_t = γ/(t₀ + t)^κ and h_t = h m^{−1/(d + 2β)}, Σ_t the covariance of the particles. With γ = κ = 1, t₀ = 0 strategy
//! 1 holds the posterior of all data after every whole pass.

use super::factor::{moments, Factor};
use super::kde::log_kernel_sums;
use super::model::{likelihood_where_possible, log_prior, Model, Particles};
use super::posterior::{Evidence, Posterior, Stage, StageKind};
use super::proposal::normals;
use super::special::log_sum_exp;
use super::weights::{effective_size, normalised, systematic};
use crate::driver::{Control, Phase, Progress};
use crate::error::{Error, Result};
use crate::random::{Address, BlockIndex, Permutation, Seed, Stream};
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
    /// Particles m.
    #[serde(alias = "n_particles")]
    pub particles: usize,
    /// Observations per batch B.
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
    /// h of the bandwidth h m^{−1/(d + 2β)}.
    pub bandwidth: f64,
    /// β.
    pub smoothness: f64,
    /// Most seconds.
    pub max_time: Option<f64>,
    /// The seed.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

impl PaperOptions {
    /// γ_t = 1/t, h = 1, β = 2, one pass in batches of 10 with 1,500 particles.
    pub fn new(strategy: Strategy, observations: usize, seed: Seed) -> Self {
        let batch = 10.min(observations.max(1));
        Self {
            strategy,
            particles: 1_500,
            batch,
            steps: observations.div_ceil(batch),
            step: 1.0,
            delay: 0.0,
            decay: 1.0,
            bandwidth: 1.0,
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
        let range = |name, value: f64, ok: bool, range| {
            if ok {
                Ok(())
            } else {
                Err(Error::OutOfRange { name, value, range })
            }
        };
        let positive = |value: f64| value > 0.0 && value.is_finite();
        range("n_particles", self.particles as f64, self.particles >= 2, "[2, ∞)")?;
        range("batch_size", self.batch as f64, self.batch >= 1, "[1, ∞)")?;
        range("n_steps", self.steps as f64, self.steps >= 1, "[1, ∞)")?;
        range("step", self.step, positive(self.step), "(0, ∞)")?;
        range("delay", self.delay, self.delay >= 0.0 && self.delay.is_finite(), "[0, ∞)")?;
        range("decay", self.decay, (0.0..=1.0).contains(&self.decay), "[0, 1]")?;
        range("bandwidth", self.bandwidth, positive(self.bandwidth), "(0, ∞)")?;
        range("smoothness", self.smoothness, positive(self.smoothness), "(0, ∞)")?;
        let time = self.max_time.unwrap_or(1.0);
        range("max_time", time, time > 0.0, "(0, ∞)")
    }

    /// γ_t for t = 1, 2, …, at most 1.
    fn gamma(&self, t: usize) -> f64 {
        (self.step / (self.delay + t as f64).powf(self.decay)).min(1.0)
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
    control.start(options.max_time);
    let mut run = Run::new(model, options)?;
    for t in 1..=options.steps {
        run.step(t)?;
        control.report(Progress {
            phase: Phase::Posterior,
            done: t,
            most: options.steps,
            loss: f64::NAN,
            held_out_loss: None,
            held_out_error: None,
            elapsed: control.elapsed(),
        })?;
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
        let positions = model.sample_prior(options.seed, BlockIndex(0), options.particles)?;
        let log_prior = log_prior(model, Particles::new(&positions, model.dimension())?)?;
        let log_weights = vec![0.0; options.particles];
        let state = State { positions, log_prior, log_weights, from_prior: true, log_density: Vec::new() };
        let order = (0, Self::order(model, options, 0));
        Ok(Self { model, options, state, order, visited: 0, evaluations: 0, history: Vec::new() })
    }

    fn order(model: &dyn Model, options: &PaperOptions, pass: usize) -> Permutation {
        Permutation::new(options.seed, Stream::Shuffle, BlockIndex(pass as u64), model.observations())
    }

    /// The batch of step t: the next B observations of the pass.
    fn batch(&mut self, t: usize) -> Vec<u32> {
        let per_pass = self.model.observations().div_ceil(self.options.batch);
        let (pass, place) = ((t - 1) / per_pass, (t - 1) % per_pass);
        if pass != self.order.0 {
            self.order = (pass, Self::order(self.model, self.options, pass));
        }
        let indices = self.order.1.indices();
        let first = place * self.options.batch;
        indices[first..(first + self.options.batch).min(indices.len())].to_vec()
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
        let batch = self.batch(t);
        let gamma = self.options.gamma(t);
        let drawn = self.draws(t);
        if drawn {
            self.draw(t)?;
        }
        let state = &mut self.state;
        let likelihood = likelihood_where_possible(self.model, &state.positions, &state.log_prior, &batch)?;
        let scale = self.model.observations() as f64 / batch.len() as f64;
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
            let particles = self.options.particles;
            return Err(Error::Impossible { particles, observations: batch.len() });
        }
        self.visited += batch.len();
        self.evaluations += (batch.len() * self.options.particles) as u64;
        self.history.push(Stage {
            island: None,
            seen: self.visited,
            batch: batch.len(),
            power: gamma,
            particles: self.options.particles,
            effective_size: effective_size(&self.state.log_weights),
            groups: 0,
            kind: if drawn { StageKind::Draws } else { StageKind::Kept },
            evaluations: self.evaluations,
        });
        Ok(())
    }

    /// m draws from the kernel density through the particles, and the density there.
    fn draw(&mut self, t: usize) -> Result<()> {
        let (d, m) = (self.model.dimension(), self.options.particles);
        let (seed, block) = (self.options.seed, BlockIndex(t as u64));
        let weights = normalised(&self.state.log_weights);
        let factor = Factor::of(&moments(&self.state.positions, &weights, d).1, d);
        let exponent = -1.0 / (d as f64 + 2.0 * self.options.smoothness);
        let h = self.options.bandwidth * (m as f64).powf(exponent);
        let chosen = systematic(&weights, m, Address::new(seed, Stream::Resample, block, 0));
        let mut z = vec![0.0; d];
        let mut positions = vec![0.0; m * d];
        for (i, (theta, &j)) in positions.chunks_exact_mut(d).zip(&chosen).enumerate() {
            normals(Address::new(seed, Stream::Particle, block, i as u32), &mut z);
            z.iter_mut().for_each(|z| *z *= h);
            factor.colour(&z, &self.state.positions[j * d..][..d], theta);
        }
        let origin = vec![0.0; d];
        let scaled =
            |rows: &[f64]| -> Vec<f64> { factor.whiten_rows(rows, &origin).iter().map(|z| z / h).collect() };
        let log_weights: Vec<f64> = weights.iter().map(|w| w.ln()).collect();
        let mut log_density = vec![0.0; m];
        log_kernel_sums(
            &scaled(&positions),
            &scaled(&self.state.positions),
            &log_weights,
            d,
            &mut log_density,
        );
        let normaliser = d as f64 * (0.5 * std::f64::consts::TAU.ln() + h.ln()) + factor.log_determinant();
        log_density.iter_mut().for_each(|v| *v -= normaliser);
        let log_prior = log_prior(self.model, Particles::new(&positions, d)?)?;
        let log_weights = vec![0.0; m];
        self.state = State { positions, log_prior, log_weights, from_prior: false, log_density };
        Ok(())
    }

    /// The posterior; strategy 1 with γ_t = 1/t knows the evidence after whole passes.
    fn finish(self) -> Posterior {
        let options = self.options;
        let averaged = options.step == 1.0 && options.delay == 0.0 && options.decay == 1.0;
        let whole = self.visited > 0
            && self.visited.is_multiple_of(self.model.observations())
            && self.model.observations().is_multiple_of(options.batch.min(self.model.observations()));
        let m = options.particles as f64;
        let value = log_sum_exp(&self.state.log_weights) - m.ln();
        let size = effective_size(&self.state.log_weights);
        let seen = self.visited.min(self.model.observations());
        let known = self.state.from_prior && averaged && whole;
        let posterior = Posterior::new(
            self.model.dimension(),
            self.state.positions,
            self.state.log_weights,
            options.seed,
        )
        .of_observations(seen, self.model.observations())
        .with_history(self.history, self.evaluations, 0);
        match known {
            true => {
                let error = (1.0 / size - 1.0 / m).max(0.0).sqrt();
                posterior.with_evidence(Evidence { value, error })
            }
            false => posterior,
        }
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
