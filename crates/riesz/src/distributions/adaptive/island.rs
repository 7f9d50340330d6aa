//! One independent run: particles that follow the posterior as it sees more and more of the data.

use super::moves::Walk;
use super::options::{AdaptiveOptions, Renewal};
use crate::distributions::model::{likelihood_where_possible, log_prior, Model, Particles};
use crate::distributions::posterior::{Stage, StageKind};
use crate::distributions::proposal::Proposal;
use crate::distributions::special::log_sum_exp;
use crate::distributions::weights::{effective_size, normalised, step_for_size};
use crate::error::{Error, Result};
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use serde::{Deserialize, Serialize};

/// Particles are kept for the next batch while this share of them is effective.
const KEPT_SHARE: f64 = 0.6;
/// Draws are given up for moves when a smaller share of them can be expected, or turns out, to be effective.
const LEAST_EFFICIENCY: f64 = 0.1;
/// How many times as many particles as at the end the first stage may have, at most and per dimension …
const EXTRA_PARTICLES: [f64; 2] = [8.0, 2.0];
/// … and what is left of that from stage to stage …
const EXTRA_DECAY: f64 = 0.8;
/// … as long as a stage costs no more than this share of a look at all data by all particles.
const EXTRA_COST: f64 = 0.03;
/// Above so many dimensions no number of particles fills the space.
const EXTRA_DIMENSIONS: usize = 8;
/// Fewer observations than these count as so many there.
const LEAST_OBSERVATIONS: usize = 270;
/// A batch of which less than this share of the data would be left takes the rest too.
const LEAST_REST: f64 = 0.3;

/// Particles with the logarithms of the densities they were asked about.
#[derive(Clone, Debug, Default)]
pub(super) struct Population {
    pub(super) positions: Vec<f64>,
    pub(super) log_prior: Vec<f64>,
    /// Log-likelihood of the observations seen.
    pub(super) old: Vec<f64>,
    /// Log-likelihood of the next batch, where it is known.
    pub(super) new: Option<Vec<f64>>,
    /// Weights for the current target whose mean is an estimate of its evidence.
    pub(super) log_weights: Vec<f64>,
    /// Number of chains, where these are the positions of chains.
    pub(super) chains: Option<usize>,
    /// Likelihoods of single observations that were evaluated for them.
    pub(super) evaluations: u64,
}

/// q ∝ p(θ) Π_{n < seen} p(x_n∣θ) Π_{seen ≤ n < next} p(x_n∣θ)^λ, observations in the order of the island.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Target {
    pub(super) seen: usize,
    pub(super) next: usize,
    /// λ.
    pub(super) power: f64,
}

/// Where an island stands.
#[derive(Clone, Debug)]
pub(super) struct Island {
    pub(super) particles: Population,
    pub(super) state: State,
}

/// Where an island stands, but for the particles.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) index: usize,
    pub(super) target: Target,
    pub(super) stage: u64,
    /// Whether the particles are to be renewed before the next step.
    pub(super) stale: bool,
    pub(super) log_evidence: f64,
    /// Variance of the log-evidence …
    pub(super) variance: f64,
    /// … and what of it is older than the particles: draws estimate the evidence anew, moves multiply what was there.
    pub(super) inherited: f64,
    /// Step of the moves.
    pub(super) step: f64,
    /// Whether the particles were last renewed by moves.
    pub(super) moving: bool,
    pub(super) evaluations: u64,
}

/// What all stages of an island share.
pub(super) struct Setting<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) options: &'a AdaptiveOptions,
    /// The order in which the island sees the observations.
    pub(super) order: Permutation,
    pub(super) size: usize,
}

impl<'a> Setting<'a> {
    pub(super) fn new(model: &'a dyn Model, options: &'a AdaptiveOptions, island: usize) -> Self {
        let order =
            Permutation::new(options.seed, Stream::Shuffle, BlockIndex(island as u64), model.observations());
        Self { model, options, order, size: options.island_size(model.dimension()) }
    }

    fn seed(&self) -> Seed {
        self.options.seed
    }

    /// How many particles look at `rows` observations in a stage: more than at the end while that is cheap, because a
    /// mode that is lost early is lost.
    fn count(&self, rows: usize, stage: u64) -> usize {
        let all = self.options.particles as f64;
        let d = self.model.dimension();
        let extra = if d > EXTRA_DIMENSIONS {
            1.0
        } else {
            (2.0 + EXTRA_PARTICLES[1] * d as f64).min(EXTRA_PARTICLES[0])
        };
        let extra = extra * all * EXTRA_DECAY.powi(stage.min(1_000) as i32);
        let affordable =
            EXTRA_COST * all * self.model.observations().max(LEAST_OBSERVATIONS) as f64 / rows.max(1) as f64;
        self.size.max(extra.min(affordable) as usize)
    }

    fn next(&self, seen: usize) -> usize {
        let all = self.model.observations();
        let grown =
            ((seen as f64 * self.options.growth).ceil() as usize).max(seen + 1).max(self.options.batch);
        if grown as f64 > (1.0 - LEAST_REST) * all as f64 {
            all
        } else {
            grown
        }
    }

    /// Log-likelihood of the observations `range` in the island's order; particles the prior excludes are not asked
    /// about.
    pub(super) fn log_likelihood(
        &self,
        positions: &[f64],
        log_prior: &[f64],
        range: std::ops::Range<usize>,
    ) -> Result<Vec<f64>> {
        likelihood_where_possible(self.model, positions, log_prior, &self.order.indices()[range])
    }
}

impl Population {
    /// The particles at `positions`, asked about what `target` needs.
    pub(super) fn at(positions: Vec<f64>, setting: &Setting<'_>, target: Target) -> Result<Self> {
        let log_prior = log_prior(setting.model, Particles::new(&positions, setting.model.dimension())?)?;
        let old = setting.log_likelihood(&positions, &log_prior, 0..target.seen)?;
        let mut looked_at = target.seen;
        let mut new = None;
        if target.power > 0.0 {
            new = Some(setting.log_likelihood(&positions, &log_prior, target.seen..target.next)?);
            looked_at = target.next;
        }
        let evaluations = (log_prior.len() * looked_at) as u64;
        Ok(Self { positions, log_prior, old, new, evaluations, ..Self::default() })
    }

    /// log of the current target, not normalised.
    pub(super) fn log_target(&self, power: f64) -> Vec<f64> {
        let seen = self.log_prior.iter().zip(&self.old).map(|(p, l)| p + l);
        match &self.new {
            Some(new) if power > 0.0 => seen.zip(new).map(|(v, l)| v + power * l).collect(),
            _ => seen.collect(),
        }
    }

    /// The relative variance of the mean of the weights: (Σw²)/(Σw)² − 1/m for independent particles, and the same with the
    /// sum of each chain for a weight where they are positions of chains.
    fn relative_variance(&self) -> f64 {
        let weights = normalised(&self.log_weights);
        let count = self.chains.unwrap_or(weights.len()).max(2);
        let mut sums = vec![0.0; count];
        weights.iter().enumerate().for_each(|(i, w)| sums[i % count] += w);
        (sums.iter().map(|s| s * s).sum::<f64>() - 1.0 / count as f64).max(0.0)
    }

    pub(super) fn len(&self) -> usize {
        self.log_prior.len()
    }
}

impl Island {
    /// Draws from the prior, before any data.
    pub(super) fn begin(setting: &Setting<'_>, index: usize) -> Result<Self> {
        let target = Target { seen: 0, next: setting.next(0), power: 0.0 };
        let state = State {
            index,
            target,
            stage: 0,
            stale: false,
            log_evidence: 0.0,
            variance: 0.0,
            inherited: 0.0,
            step: 0.5,
            moving: setting.options.renewal == Renewal::Moves,
            evaluations: 0,
        };
        let count = setting.count(target.next, 0);
        let positions = setting.model.sample_prior(setting.seed(), state.block(), count)?;
        let particles = Population::at(positions, setting, target)?;
        Ok(Self { particles: Population { log_weights: vec![0.0; count], ..particles }, state })
    }

    /// Whether all data were seen.
    pub(super) fn finished(&self, setting: &Setting<'_>) -> bool {
        self.state.target.seen == setting.model.observations()
    }

    /// Renews the particles where too few are effective, and takes one step: the largest λ that leaves enough of them effective.
    pub(super) fn advance(&mut self, setting: &Setting<'_>) -> Result<Stage> {
        self.state.stage += 1;
        let target = self.state.target;
        let (kind, groups) = if self.state.stale { self.renew(setting)? } else { (StageKind::Kept, 0) };
        let new = match self.particles.new.take() {
            Some(new) => new,
            None => {
                let p = &self.particles;
                self.state.evaluations += (p.len() * (target.next - target.seen)) as u64;
                setting.log_likelihood(&p.positions, &p.log_prior, target.seen..target.next)?
            }
        };
        let count = self.particles.len() as f64;
        let rest: Vec<f64> = new.iter().map(|l| (1.0 - target.power) * l).collect();
        // Particles that the batch excludes are lost whatever λ is; of the others half may be, where they are few already:
        // they are renewed at once.
        let possible = effective_size(&possible(&self.particles.log_weights, &new));
        let least = (setting.options.effective * count).min(0.5 * possible);
        let share = step_for_size(&self.particles.log_weights, &rest, least);
        if possible == 0.0 || share == 0.0 {
            return Err(Error::Impossible { particles: self.particles.len(), observations: target.next });
        }
        self.particles.log_weights.iter_mut().zip(&rest).for_each(|(w, l)| *w += share * l);
        self.state.log_evidence = log_sum_exp(&self.particles.log_weights) - count.ln();
        let size = effective_size(&self.particles.log_weights);
        self.state.variance = self.state.inherited + self.particles.relative_variance();
        self.particles.new = Some(new);
        let power = if share == 1.0 { 1.0 } else { target.power + share * (1.0 - target.power) };
        self.state.target.power = power;
        self.state.stale = power < 1.0 || size < KEPT_SHARE * count;
        if power == 1.0 {
            self.take_batch(setting);
        }
        Ok(Stage {
            island: Some(self.state.index),
            seen: target.seen,
            batch: target.next - target.seen,
            power,
            particles: self.particles.len(),
            effective_size: size,
            groups,
            kind,
            evaluations: self.state.evaluations,
        })
    }

    /// The batch belongs to the observations seen.
    fn take_batch(&mut self, setting: &Setting<'_>) {
        if let Some(new) = self.particles.new.take() {
            self.particles.old.iter_mut().zip(new).for_each(|(o, l)| *o += l);
        }
        let seen = self.state.target.next;
        let next = setting.next(seen).min(setting.model.observations());
        self.state.target = Target { seen, next, power: 0.0 };
    }

    /// Takes the part of the next batch that the weights have back out of them, which leaves those of the posterior of
    /// the observations seen. Particles that the batch excludes stay excluded.
    pub(super) fn forget_batch(&mut self) {
        let power = std::mem::take(&mut self.state.target.power);
        let Some(new) = self.particles.new.take() else { return };
        let weights = &mut self.particles.log_weights;
        let possible = weights.iter_mut().zip(new).filter(|(_, l)| *l > f64::NEG_INFINITY);
        possible.for_each(|(w, l)| *w -= power * l);
        let count = weights.len() as f64;
        self.state.log_evidence = log_sum_exp(weights) - count.ln();
        self.state.variance = self.state.inherited + self.particles.relative_variance();
    }

    /// New particles for the current target: draws from a density through the old where they can be expected to be
    /// effective, Metropolis moves from the old elsewhere.
    pub(super) fn renew(&mut self, setting: &Setting<'_>) -> Result<(StageKind, usize)> {
        let (target, block) = (self.state.target, self.state.block());
        let weights = normalised(&self.particles.log_weights);
        let proposal = self.proposal(setting);
        let count = setting.count(target.next, self.state.stage);
        if self.draws_will_do(setting, &proposal, &weights) {
            let fresh = drawn(&proposal, count, block, setting, target)?;
            self.state.evaluations += fresh.evaluations;
            let efficient = effective_size(&fresh.log_weights) >= LEAST_EFFICIENCY * count as f64;
            if efficient || setting.options.renewal == Renewal::Draws {
                self.state.moving = false;
                self.state.inherited = 0.0;
                self.particles = fresh;
                return Ok((StageKind::Draws, proposal.groups()));
            }
        }
        self.renew_by_moves(setting, &proposal, count)
    }

    /// New particles by moves from the old.
    pub(super) fn renew_by_moves(
        &mut self,
        setting: &Setting<'_>,
        proposal: &Proposal,
        count: usize,
    ) -> Result<(StageKind, usize)> {
        let State { target, step, .. } = self.state;
        let mut walk = Walk { setting, proposal, target, block: self.state.block(), step };
        let (moved, acceptance) =
            walk.run(&self.particles, &normalised(&self.particles.log_weights), count)?;
        self.state.step = walk.step;
        self.state.moving = true;
        self.state.inherited = self.state.variance;
        self.state.evaluations += moved.evaluations;
        let log_weights = vec![self.state.log_evidence; moved.len()];
        self.particles = Population { log_weights, ..moved };
        Ok((StageKind::Moves { acceptance }, proposal.groups()))
    }

    /// A density through the particles.
    pub(super) fn proposal(&self, setting: &Setting<'_>) -> Proposal {
        let weights = normalised(&self.particles.log_weights);
        let (d, defensive) = (setting.model.dimension(), setting.options.defensive);
        Proposal::fit(&self.particles.positions, &weights, d, defensive, setting.seed(), self.state.block())
            .balanced()
    }

    /// Whether enough draws can be expected to be effective.
    fn draws_will_do(&self, setting: &Setting<'_>, proposal: &Proposal, weights: &[f64]) -> bool {
        match setting.options.renewal {
            Renewal::Draws => true,
            Renewal::Moves => false,
            Renewal::Auto => {
                let target = self.particles.log_target(self.state.target.power);
                let positions = &self.particles.positions;
                let expected =
                    proposal.expected_efficiency(positions, weights, &target, self.state.log_evidence);
                // Positions along a walk resemble each other, which flatters the density through them.
                expected > if self.state.moving { 5.0 * LEAST_EFFICIENCY } else { LEAST_EFFICIENCY }
            }
        }
    }
}

/// The weights without those of particles that a likelihood excludes.
fn possible(log_weights: &[f64], likelihood: &[f64]) -> Vec<f64> {
    let kept = |(w, l): (&f64, &f64)| if *l == f64::NEG_INFINITY { *l } else { *w };
    log_weights.iter().zip(likelihood).map(kept).collect()
}

/// Draws from `proposal` with importance weights for `target`.
pub(super) fn drawn(
    proposal: &Proposal,
    count: usize,
    block: BlockIndex,
    setting: &Setting<'_>,
    target: Target,
) -> Result<Population> {
    let positions = proposal.draw(count, setting.seed(), block);
    let density = proposal.log_density(&positions);
    let fresh = Population::at(positions, setting, target)?;
    let log_weights = fresh.log_target(target.power).iter().zip(density).map(|(t, q)| t - q).collect();
    Ok(Population { log_weights, ..fresh })
}

/// The particles of all islands, each weighted by its evidence or all `equally`.
pub(super) fn pooled<'a>(islands: impl IntoIterator<Item = &'a Island>, equally: bool) -> Population {
    let (mut pool, mut count) = (Population::default(), 0.0_f64);
    for island in islands {
        count += 1.0;
        let p = &island.particles;
        // Islands of more particles must not count for more.
        let mut unit = (p.len() as f64).ln();
        if equally {
            unit += island.state.log_evidence;
        }
        pool.positions.extend_from_slice(&p.positions);
        pool.log_prior.extend_from_slice(&p.log_prior);
        pool.old.extend_from_slice(&p.old);
        pool.log_weights.extend(p.log_weights.iter().map(|w| w - unit));
        pool.chains = p.chains;
    }
    let mean = (pool.len() as f64).ln() - count.ln();
    pool.log_weights.iter_mut().for_each(|w| *w += mean);
    pool
}

impl State {
    /// A number for the random draws of this stage that no other stage has.
    pub(super) fn block(&self) -> BlockIndex {
        BlockIndex((self.index as u64) << 24 | self.stage)
    }
}
