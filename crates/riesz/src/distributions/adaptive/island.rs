//! One independent run: particles that follow the posterior as it sees more and more of the data.

use super::moves::{Pace, Walk};
use super::options::{AdaptiveOptions, Renewal};
use super::population::{drawn, Population, Target};
use crate::distributions::model::{likelihood_where_possible, Model};
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
/// … or when fewer than these are for each dimension: the next density is one through them.
const LEAST_PER_DIMENSION: f64 = 10.0;
/// Share of the effective particles that is left after a step, at least: moves take such steps, and particles that are few.
const LEAST_KEPT: f64 = 0.5;
/// How many times as many particles as draws the moves of a stage leave: positions of a chain resemble each other.
const MOVING: usize = 2;
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
/// Fewest observations of the first batch, and how many it has for each parameter: the posterior of fewer than there are
/// parameters is no Gaussian.
const LEAST_BATCH: usize = 16;
const BATCH_PER_PARAMETER: usize = 10;
/// A batch of which less than this share of the data would be left takes the rest too.
const LEAST_REST: f64 = 0.3;

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
    /// What the moves have learnt.
    pub(super) pace: Pace,
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

    pub(super) fn seed(&self) -> Seed {
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

    /// Observations of the first batch.
    pub(super) fn first_batch(&self) -> usize {
        self.options.batch.unwrap_or(self.usual_batch())
    }

    /// Those of a first batch whose size was not asked for.
    pub(super) fn usual_batch(&self) -> usize {
        LEAST_BATCH.max(BATCH_PER_PARAMETER * self.model.dimension())
    }

    fn next(&self, seen: usize) -> usize {
        let all = self.model.observations();
        let grown =
            ((seen as f64 * self.options.growth).ceil() as usize).max(seen + 1).max(self.first_batch());
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
            pace: Pace::BEGIN,
            moving: setting.options.renewal == Renewal::Moves,
            evaluations: 0,
        };
        let count = setting.count(target.next, 0);
        let positions = setting.model.sample_prior(setting.seed(), state.block(), count)?;
        let particles = Population::at(positions, setting, target)?;
        Ok(Self { particles: Population { log_weights: vec![0.0; count], ..particles }, state })
    }

    /// Whether all data were seen, or the next batch, of which nothing is in the weights yet, would make them more than `most`.
    pub(super) fn finished(&self, setting: &Setting<'_>, most: usize) -> bool {
        let Target { seen, next, power } = self.state.target;
        seen == setting.model.observations() || (power == 0.0 && next > most)
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
        // Particles that the batch excludes are lost whatever λ is; of the others half may be, where they are few already
        // or positions of chains: they are renewed at once.
        let possible = effective_size(&possible(&self.particles.log_weights, &new));
        let least = if self.state.moving { 1.0 } else { setting.options.effective };
        let least = (least * count).min(LEAST_KEPT * possible);
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
            let size = effective_size(&fresh.log_weights);
            let covariance = LEAST_PER_DIMENSION * setting.model.dimension() as f64;
            let efficient = size >= covariance.max(LEAST_EFFICIENCY * count as f64);
            if efficient || setting.options.renewal == Renewal::Draws {
                self.state.moving = false;
                self.state.inherited = 0.0;
                self.particles = fresh;
                return Ok((StageKind::Draws, proposal.groups()));
            }
        }
        self.renew_by_moves(setting, &proposal, count.max(MOVING * setting.size))
    }

    /// New particles by moves from the old.
    pub(super) fn renew_by_moves(
        &mut self,
        setting: &Setting<'_>,
        proposal: &Proposal,
        count: usize,
    ) -> Result<(StageKind, usize)> {
        let State { target, pace, .. } = self.state;
        let mut walk = Walk { setting, proposal, target, block: self.state.block(), pace };
        let (moved, acceptance) =
            walk.run(&self.particles, &normalised(&self.particles.log_weights), count)?;
        self.state.pace = walk.pace;
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

impl State {
    /// A number for the random draws of this stage that no other stage has.
    pub(super) fn block(&self) -> BlockIndex {
        BlockIndex((self.index as u64) << 24 | self.stage)
    }
}
