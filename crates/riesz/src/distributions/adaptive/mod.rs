//! Adaptive particle mirror descent, the default: the posterior of more and more of the data, until it is that of all.
//!
//! The literal schedule of the thesis smooths too much (every kernel density adds h² to the variance while a step of γ
//! takes back γ of it). Here a *stage* goes from one posterior to the next,
//!
//! ```text
//! q_{t+1} ∝ q_t · Π_{b in batch} p(x_b∣θ)^{λ_t}
//! ```
//!
//! with the largest λ_t ≤ 1 that leaves a given share of the particles effective. Batches come without replacement and
//! double, so that the observations seen at λ = 1 are exactly those q_t is the posterior of: the minimiser of L over
//! the data so far, at a cost that the last stages dominate. Particles of which too few are effective are renewed by draws from a density through
//! them ([`proposal`](super::proposal)) with importance weights, or, where no such density is good enough, by Metropolis
//! moves (`moves.rs`). Independent *islands* do this with half of the particles. A last stage pools them, draws all
//! particles anew and weighs them by all the data: its weights are those of plain importance sampling, so means
//! converge to those of the posterior whatever happened before, and their mean is the evidence.

mod checkpoint;
mod island;
mod moves;
mod options;

pub use options::{AdaptiveOptions, Renewal};

use super::diagnostics::{chain_size, r_hat};
use super::model::Model;
use super::posterior::{Evidence, Posterior, Stage, StageKind, HEAVY};
use super::proposal::Proposal;
use super::special::log_sum_exp;
use super::weights::{effective_size, normalised, pareto_smoothed};
use crate::driver::{Control, Due, Fingerprint, Phase, Progress};
use crate::error::{Error, Result};
use crate::memory::room;
use crate::model::Stored;
use crate::random::BlockIndex;
use checkpoint::Checkpoint;
use island::{drawn, pooled, Island, Population, Setting, Target};

/// Block of the random numbers of the last stage, beyond those of all islands.
const LAST: u64 = 1 << 40;
/// Most repetitions of the last stage.
const REPETITIONS: u64 = 3;
/// A last stage of which this share is effective is not repeated.
const ENOUGH_EFFECTIVE: f64 = 0.5;
/// Below this share of effective draws the islands' own moves are better than draws.
const LEAST_EFFECTIVE: f64 = 0.1;
/// Fewest and most rounds of moves after the last batch.
const LAST_MOVES: [usize; 2] = [3, 8];
/// Islands that agree this well are done moving.
const AGREEMENT: f64 = 1.03;
/// Fewest effective draws whose mean weight counts as the evidence.
const LEAST_DRAWS: f64 = 50.0;
/// Islands that agree worse than this are weighed by their evidence.
const DISAGREE: f64 = 1.1;

/// The posterior of a model.
///
/// ```
/// use riesz::distributions::models::{Family, GeneralisedLinear};
/// use riesz::distributions::{adaptive, AdaptiveOptions};
/// use riesz::driver::quietly;
/// use riesz::random::Seed;
///
/// // y = 1 + 2x + noise, rows (x, y).
/// let x: Vec<f64> = (0..100).map(|i| f64::from(i) / 50.0 - 1.0).collect();
/// let y: Vec<f64> = x.iter().enumerate().map(|(i, x)| 1.0 + 2.0 * x + 0.1 * f64::from(i as i32 % 7 - 3)).collect();
/// let model = GeneralisedLinear::new(Family::Gaussian, &x, 1, &y, 10.0)?;
/// let posterior = quietly(|control| adaptive(&model, &AdaptiveOptions::new(Seed(0)), control))?;
/// let slope = posterior.mean(|theta| theta[1]);
/// assert!((slope.value - 2.0).abs() < 0.2);
/// # Ok::<(), riesz::Error>(())
/// ```
pub fn adaptive(
    model: &dyn Model,
    options: &AdaptiveOptions,
    control: &mut Control<'_>,
) -> Result<Posterior> {
    options.check()?;
    if model.dimension() == 0 {
        return Err(Error::Empty { what: "the parameter", needed: "one dimension" });
    }
    if model.observations() == 0 {
        return Err(Error::Empty { what: "data", needed: "one observation" });
    }
    control.prepare_checkpoint()?;
    // Up to eight times as many in the first stages, with densities and weights, twice while they are renewed.
    room("particles", "n_particles", &[options.particles, model.dimension() + 8], 128)?;
    control.start(options.max_time);
    let mut run = Run::new(model, options, control)?;
    run.islands(control)?;
    let posterior = run.finish(control)?;
    if let Some(policy) = &control.checkpoint {
        policy.discard()?;
    }
    Ok(posterior)
}

/// Islands and what was recorded of them.
struct Run<'a> {
    settings: Vec<Setting<'a>>,
    islands: Vec<Island>,
    history: Vec<Stage>,
    due: Due,
    fingerprint: Fingerprint,
}

impl<'a> Run<'a> {
    /// From the beginning, or from where a checkpoint left off.
    fn new(model: &'a dyn Model, options: &'a AdaptiveOptions, control: &Control<'_>) -> Result<Self> {
        let settings: Vec<Setting<'a>> =
            (0..options.islands).map(|i| Setting::new(model, options, i)).collect();
        let mut fingerprint = Fingerprint::default();
        let (mut islands, mut history) = (Vec::new(), Vec::new());
        if let Some(policy) = &control.checkpoint {
            fingerprint = checkpoint::fingerprint(&settings[0])?;
            if policy.path.exists() {
                (islands, history) = Checkpoint::load(&policy.path)?.resume(&settings, &fingerprint)?;
            }
        }
        Ok(Self { settings, islands, history, due: Due::new(), fingerprint })
    }

    /// Runs every island to the end of the data, or the clock.
    fn islands(&mut self, control: &mut Control<'_>) -> Result<()> {
        for index in 0..self.settings.len() {
            if self.islands.len() <= index {
                if control.out_of_time() && !self.islands.is_empty() {
                    return Ok(());
                }
                self.islands.push(Island::begin(&self.settings[index], index)?);
            }
            while !self.islands[index].finished(&self.settings[index]) {
                if control.out_of_time() && self.islands[index].state.stage > 0 {
                    return Ok(());
                }
                let stage = self.islands[index].advance(&self.settings[index])?;
                self.history.push(stage);
                self.save(control)?;
                self.report(control, index)?;
            }
        }
        Ok(())
    }

    fn save(&mut self, control: &Control<'_>) -> Result<()> {
        match &control.checkpoint {
            Some(policy) if self.due.now(policy) => {
                Checkpoint::new(self.options(), &self.fingerprint, &self.islands, &self.history)
                    .save(&policy.path)
            }
            _ => Ok(()),
        }
    }

    fn report(&self, control: &mut Control<'_>, index: usize) -> Result<()> {
        let all = self.settings[0].model.observations();
        let (done, most) = (index * all + self.islands[index].state.target.seen, self.settings.len() * all);
        control.report(Progress::new(Phase::Posterior, done, most, f64::NAN))
    }

    fn options(&self) -> &'a AdaptiveOptions {
        self.settings[0].options
    }

    /// The last stage: pooled draws, or, where draws are poor, the islands' moves until they agree.
    fn finish(mut self, control: &mut Control<'_>) -> Result<Posterior> {
        let all = self.settings[0].model.observations();
        let done = self.islands.iter().filter(|i| i.state.target.seen == all).count();
        if done == 0 {
            return Ok(self.cut_short());
        }
        self.islands.truncate(done);
        let agreement = self.agreement();
        let wanted = self.options().final_stage && !control.out_of_time();
        if wanted && self.options().renewal != Renewal::Moves {
            if let Some((particles, groups)) = self.pooled_draws(control)? {
                let size = effective_size(&particles.log_weights);
                let evidence = Evidence::of_weights(&particles.log_weights);
                return Ok(self.posterior(particles, Some(evidence), size, agreement, groups));
            }
        }
        let mut evidence = self.islands_evidence();
        if wanted {
            self.move_until_agreed(control)?;
            evidence = self.evidence_by_draws()?;
        }
        Ok(self.pooled_islands(evidence))
    }

    /// Draws of a density through all islands' particles with importance weights for all data; `None` where too few
    /// are effective.
    fn pooled_draws(&mut self, control: &mut Control<'_>) -> Result<Option<(Population, usize)>> {
        let options = self.options();
        let (d, all) = (self.settings[0].model.dimension(), self.settings[0].model.observations());
        let mut pool = pooled(&self.islands, false);
        let mut best: Option<(Population, usize)> = None;
        for repetition in 0..REPETITIONS {
            let block = BlockIndex(LAST + repetition);
            let weights = normalised(&pool.log_weights);
            let proposal =
                Proposal::fit(&pool.positions, &weights, d, 0.5 * options.defensive, options.seed, block);
            if repetition == 0 && options.renewal == Renewal::Auto {
                let evidence = log_sum_exp(&pool.log_weights) - (pool.len() as f64).ln();
                let target = pool.log_target(0.0);
                let expected = proposal.expected_efficiency(&pool.positions, &weights, &target, evidence);
                let moving = self.islands.iter().any(|i| i.state.moving);
                if expected < if moving { ENOUGH_EFFECTIVE } else { LEAST_EFFECTIVE } {
                    return Ok(None);
                }
            }
            let fresh = self.draws(&proposal, block)?;
            let size = effective_size(&fresh.log_weights);
            control.check(all)?;
            let better = best.as_ref().is_none_or(|(b, _)| effective_size(&b.log_weights) < size);
            if better {
                pool = fresh.clone();
                best = Some((fresh, proposal.groups()));
            }
            if size >= ENOUGH_EFFECTIVE * options.particles as f64 || !better || control.out_of_time() {
                break;
            }
        }
        let enough = LEAST_EFFECTIVE * options.particles as f64;
        let forced = options.renewal == Renewal::Draws;
        Ok(best.filter(|(b, _)| forced || effective_size(&b.log_weights) >= enough))
    }

    /// Draws of `proposal` with importance weights for all data.
    fn draws(&mut self, proposal: &Proposal, block: BlockIndex) -> Result<Population> {
        let setting = &self.settings[0];
        let all = setting.model.observations();
        let target = Target { seen: all, next: all, power: 0.0 };
        let fresh = drawn(proposal, setting.options.particles, block, setting, target)?;
        self.history.push(Stage {
            island: None,
            seen: all,
            batch: 0,
            power: 1.0,
            particles: fresh.len(),
            effective_size: effective_size(&fresh.log_weights),
            groups: proposal.groups(),
            kind: StageKind::Draws,
            evaluations: fresh.evaluations,
        });
        Ok(fresh)
    }

    /// The evidence as the mean importance weight of draws from a density through the particles that moves left; `None` where too few
    /// of them are effective. The product of the stages' increments is no substitute: chains that have not mixed make
    /// each a little small, which its error does not know.
    fn evidence_by_draws(&mut self) -> Result<Option<Evidence>> {
        let (options, d) = (self.options(), self.settings[0].model.dimension());
        let block = BlockIndex(LAST + REPETITIONS);
        let pool = pooled(&self.islands, self.agreed());
        let weights = normalised(&pool.log_weights);
        let proposal = Proposal::fit(&pool.positions, &weights, d, options.defensive, options.seed, block);
        let fresh = self.draws(&proposal, block)?;
        let enough = effective_size(&fresh.log_weights) >= LEAST_DRAWS;
        let light = pareto_smoothed(&fresh.log_weights).1.is_none_or(|k| k < HEAVY);
        Ok((enough && light).then(|| Evidence::of_weights(&fresh.log_weights)))
    }

    /// Moves at the posterior of all data until the islands agree.
    fn move_until_agreed(&mut self, control: &mut Control<'_>) -> Result<()> {
        for round in 1..=LAST_MOVES[1] {
            for index in 0..self.islands.len() {
                let proposal = self.moving_proposal(index);
                let setting = &self.settings[index];
                let count = setting.size.max(setting.options.particles.div_ceil(self.islands.len()));
                let island = &mut self.islands[index];
                island.state.stage += 1;
                let (kind, groups) = island.renew_by_moves(setting, &proposal, count)?;
                self.history.push(Stage {
                    island: Some(index),
                    seen: island.state.target.seen,
                    batch: 0,
                    power: 1.0,
                    particles: island.particles.len(),
                    effective_size: island.particles.len() as f64,
                    groups,
                    kind,
                    evaluations: island.state.evaluations,
                });
                control.check(index)?;
            }
            let agreed = self.agreement().is_none_or(|r| r.iter().all(|r| *r < AGREEMENT));
            if (agreed && round >= LAST_MOVES[0]) || control.out_of_time() {
                break;
            }
        }
        Ok(())
    }

    /// The density by which island `index` moves: through the particles of the other islands, where they agree with it. A
    /// density through the very particles that it moves is narrow where these happen to be close together, and keeps
    /// them there.
    fn moving_proposal(&self, index: usize) -> Proposal {
        let (setting, own) = (&self.settings[index], &self.islands[index]);
        if !self.agreed() {
            return own.proposal(setting);
        }
        let others = (0..self.islands.len()).filter(|i| *i != index).map(|i| &self.islands[i]);
        let pool = pooled(others, true);
        let (d, weights) = (setting.model.dimension(), normalised(&pool.log_weights));
        let (seed, block) = (setting.options.seed, own.state.block());
        Proposal::fit(&pool.positions, &weights, d, setting.options.defensive, seed, block).balanced()
    }

    /// R̂ of every coordinate between the islands.
    fn agreement(&self) -> Option<Vec<f64>> {
        let d = self.settings[0].model.dimension();
        let groups: Vec<(&[f64], Vec<f64>)> = self
            .islands
            .iter()
            .map(|i| (i.particles.positions.as_slice(), normalised(&i.particles.log_weights)))
            .collect();
        r_hat(&groups, d)
    }

    /// Whether the islands have the same means. In many dimensions their evidences scatter more than islands that agree are apart.
    fn agreed(&self) -> bool {
        self.agreement().is_some_and(|r| r.iter().all(|r| *r < DISAGREE))
    }

    /// The mean of the islands' evidences, where each is a mean of importance weights: not after moves.
    fn islands_evidence(&self) -> Option<Evidence> {
        let count = self.islands.len() as f64;
        let evidences: Vec<f64> = self.islands.iter().map(|i| i.state.log_evidence).collect();
        let value = log_sum_exp(&evidences) - count.ln();
        let within = self.islands.iter().map(|i| i.state.variance).sum::<f64>() / count;
        let between = evidences.iter().map(|e| (e - value).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        let error = (within.max(between) / count).sqrt();
        let moved = self.islands.iter().any(|i| i.particles.chains.is_some());
        (!moved).then_some(Evidence { value, error })
    }

    /// The islands' particles as they are.
    fn pooled_islands(self, evidence: Option<Evidence>) -> Posterior {
        let d = self.settings[0].model.dimension();
        let pool = pooled(&self.islands, self.agreed());
        let agreement = self.agreement();
        let size = self
            .islands
            .iter()
            .map(|island| match island.particles.chains {
                Some(chains) => chain_size(&island.particles.positions, d, chains)
                    .min(effective_size(&island.particles.log_weights)),
                None => effective_size(&island.particles.log_weights),
            })
            .sum();
        self.posterior(pool, evidence, size, agreement, 0)
    }

    /// The posterior of the observations that were seen when the time was up.
    fn cut_short(mut self) -> Posterior {
        self.islands.truncate(1);
        self.islands[0].forget_batch();
        let island = &self.islands[0];
        let size = effective_size(&island.particles.log_weights);
        let particles = island.particles.clone();
        let evidence = self.islands_evidence();
        self.posterior(particles, evidence, size, None, 0)
    }

    fn posterior(
        self,
        particles: Population,
        evidence: Option<Evidence>,
        effective_size: f64,
        r_hat: Option<Vec<f64>>,
        groups: usize,
    ) -> Posterior {
        let model = self.settings[0].model;
        let moved = particles.chains.is_some();
        let seen = self.islands.iter().map(|i| i.state.target.seen).min().unwrap_or(0);
        let last: u64 = self.history.iter().filter(|s| s.island.is_none()).map(|s| s.evaluations).sum();
        let evaluations = last + self.islands.iter().map(|i| i.state.evaluations).sum::<u64>();
        Posterior::new(model.dimension(), particles.positions, particles.log_weights, self.options().seed)
            .of_observations(seen, model.observations())
            .with_evidence(evidence)
            .with_diagnostics(effective_size, r_hat, moved)
            .with_history(self.history, evaluations, groups)
    }
}
