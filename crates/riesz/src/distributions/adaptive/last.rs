//! The last stage: the islands' particles together, drawn anew and weighed by all data, or moved until they agree.

use super::island::Island;
use super::options::Renewal;
use super::population::{drawn, pooled, Population, Target};
use super::Run;
use crate::distributions::bridge::bridge;
use crate::distributions::diagnostics::{chain_size, r_hat};
use crate::distributions::posterior::{
    Compared, Evidence, Posterior, Stage, StageKind, HEAVY, LEAST_OVERLAP,
};
use crate::distributions::proposal::Proposal;
use crate::distributions::special::log_sum_exp;
use crate::distributions::weights::{effective_size, normalised, pareto_smoothed};
use crate::driver::Control;
use crate::error::Result;
use crate::random::BlockIndex;

/// Block of the random numbers of the last stage, beyond those of all islands.
const LAST: u64 = 1 << 40;
/// Most repetitions of the last stage.
const REPETITIONS: u64 = 6;
/// Repetitions where too few draws are effective.
const FEW_REPETITIONS: u64 = 3;
/// Difference of the evidence of draws and that of the draws before that is no drift, beyond three errors.
const SETTLED: f64 = 0.01;
/// A last stage of which this share is effective has enough.
pub(super) const ENOUGH_EFFECTIVE: f64 = 0.5;
/// Below this share of effective draws the islands' own moves are better than draws.
const LEAST_EFFECTIVE: f64 = 0.1;
/// Fewest effective draws, for each dimension, through which a density is fitted again.
const LEAST_REFITTED: f64 = 5.0;
/// Below this share of effective draws …
const FEW_EFFECTIVE: f64 = 0.25;
/// … the last repetition has so many times as many draws; and so has any, at most, where that costs little.
const MORE_DRAWS: usize = 4;
/// Fewest and most rounds of moves after the last batch.
const LAST_MOVES: [usize; 2] = [3, 8];
/// Islands that agree this well are done moving.
const AGREEMENT: f64 = 1.03;
/// Fewest effective draws whose halves are compared: of fewer, means differ by chance as much as R̂ allows.
const LEAST_COMPARED: f64 = 200.0;
/// Effective positions of a chain that has mixed.
const MANY_PER_CHAIN: f64 = 15.0;
/// Largest error of an evidence that is told.
const MOST_ERROR: f64 = 0.5;
/// How many times as many particles move at the end: more where those before disagreed.
const GROWTH: [usize; 2] = [1, 4];
/// Islands that agree worse than this are weighed by their evidence.
const DISAGREE: f64 = 1.1;

impl Run<'_> {
    /// The last stage: pooled draws; where they are poor, the islands' moves until they agree and draws again; where these are
    /// poor too, what the moves left.
    pub(super) fn finish(mut self, control: &mut Control<'_>) -> Result<Posterior> {
        let all = self.settings[0].model.observations();
        let done = self.islands.iter().filter(|i| i.state.target.seen == all).count();
        if done == 0 {
            return Ok(self.cut_short());
        }
        self.islands.truncate(done);
        if !self.options().final_stage || control.out_of_time() {
            let evidence = self.islands_evidence();
            return Ok(self.pooled_islands(evidence, None));
        }
        if let Some((particles, groups)) = self.pooled_draws(control, None)? {
            return Ok(self.of_draws(particles, groups));
        }
        for (attempt, growth) in GROWTH.into_iter().enumerate() {
            self.move_until_agreed(control, growth)?;
            if let Some((particles, groups)) = self.pooled_draws(control, Some(attempt as u64))? {
                return Ok(self.of_draws(particles, groups));
            }
            let settled = self.agreed() || self.islands.len() == 1;
            if (self.options().renewal == Renewal::Moves && settled) || control.out_of_time() {
                break;
            }
        }
        let (evidence, pareto_k) = self.bridged()?;
        let (doubtful, confirmed) = (!self.mixed(), self.confirmed());
        Ok(self.pooled_islands(evidence.filter(|_| confirmed), pareto_k.filter(|_| doubtful)))
    }

    /// Draws of a density through all islands' particles with importance weights for all data; `None` where too few
    /// are effective, or where they miss what the islands have. Islands that were moved to the end, in an `attempt` by
    /// number, count the same, and so do those that disagree.
    fn pooled_draws(
        &mut self,
        control: &mut Control<'_>,
        attempt: Option<u64>,
    ) -> Result<Option<(Population, usize)>> {
        let options = self.options();
        let forced = options.renewal == Renewal::Draws;
        let (d, count) = (self.settings[0].model.dimension(), options.particles as f64);
        let equally = attempt.is_some() || !self.agreed();
        let moving = attempt.is_none() && self.islands.iter().any(|i| i.state.moving);
        if options.renewal == Renewal::Moves || (moving && equally && !forced) {
            return Ok(None);
        }
        let first = LAST + REPETITIONS * attempt.map_or(0, |a| a + 1);
        let islands = pooled(&self.islands, equally);
        let mut pool = islands.clone();
        let mut best: Option<(Population, Proposal)> = None;
        let (affordable, mut more, mut settled) = (self.affordable(), 1, false);
        for repetition in 0..REPETITIONS {
            let block = BlockIndex(first + repetition);
            let weights = normalised(&pool.log_weights);
            let proposal =
                Proposal::fit(&pool.positions, &weights, d, 0.5 * options.defensive, options.seed, block);
            if repetition == 0 && options.renewal == Renewal::Auto && !equally {
                let evidence = log_sum_exp(&pool.log_weights) - (pool.len() as f64).ln();
                let target = pool.log_target(0.0);
                let expected = proposal.expected_efficiency(&pool.positions, &weights, &target, evidence);
                if expected < if moving { ENOUGH_EFFECTIVE } else { LEAST_EFFECTIVE } {
                    return Ok(None);
                }
            }
            let bent = proposal.is_bent();
            let fresh = self.draws(&proposal, block, more * options.particles)?;
            control.check(self.settings[0].model.observations())?;
            let size = fresh.distinct_size(d);
            if repetition == 0 && (moving || attempt.is_some()) {
                self.overlap = Some(size / count);
            }
            // Draws that are elsewhere than what their density was fitted to have found something: the next density knows of it.
            let alike = fresh.resembles(&pool, d) && (repetition == 0 || same_evidence(&fresh, &pool));
            let better = !settled || !alike || best.as_ref().is_none_or(|(b, _)| b.distinct_size(d) < size);
            // A bent density knows of tails: as many draws again tell whether it knows of them all.
            let drawn_again = repetition > 0 && pool.len() >= fresh.len();
            if better {
                settled = alike || control.out_of_time();
                pool = fresh.clone();
                best = Some((fresh, proposal));
            }
            let enough = settled && (size >= ENOUGH_EFFECTIVE * count || repetition + 1 >= FEW_REPETITIONS);
            let done = more >= affordable && (drawn_again || !bent);
            if (enough && done) || !better || control.out_of_time() {
                break;
            }
            if enough {
                more = more.max(affordable);
                continue;
            }
            // A density through too few is one through a part of the posterior.
            if size < LEAST_REFITTED * d as f64 && !forced {
                return Ok(None);
            }
            // The last are more, where no density is good.
            if repetition + 2 >= FEW_REPETITIONS && size < FEW_EFFECTIVE * count {
                more = MORE_DRAWS;
            }
        }
        let good = |(b, q): &(Population, Proposal)| {
            settled && b.distinct_size(d) >= LEAST_EFFECTIVE * count && islands.covered(q, &b.log_weights)
        };
        Ok(best.filter(|b| forced || good(b)).map(|(b, q)| (b, q.groups())))
    }

    /// How many times as many draws as particles cost no more than a tenth of all that was done before, at most four.
    fn affordable(&self) -> usize {
        (self.looks() as usize / 10 / self.options().particles).clamp(1, MORE_DRAWS)
    }

    /// How often the islands' particles have looked at all data, in parts of them.
    pub(super) fn looks(&self) -> f64 {
        let evaluations: u64 = self.islands.iter().map(|i| i.state.evaluations).sum();
        evaluations as f64 / self.settings[0].model.observations().max(1) as f64
    }

    /// Draws of `proposal` with importance weights for all data.
    pub(super) fn draws(
        &mut self,
        proposal: &Proposal,
        block: BlockIndex,
        count: usize,
    ) -> Result<Population> {
        let setting = &self.settings[0];
        let all = setting.model.observations();
        let target = Target { seen: all, next: all, power: 0.0 };
        let fresh = drawn(proposal, count, block, setting, target)?;
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

    /// The evidence after moves by bridge sampling, where particles and draws overlap enough, and the shape of the tail of the
    /// draws' weights. The product of the stages' increments is no substitute: chains that have not mixed make each a
    /// little small, which its error does not know. Draws come from a density through every other chain, and meet the
    /// particles of the others.
    fn bridged(&mut self) -> Result<(Option<Evidence>, Option<f64>)> {
        let (options, d) = (self.options(), self.settings[0].model.dimension());
        let pool = pooled(&self.islands, true);
        let (target, size) = (pool.log_target(0.0), self.moved_size());
        let mut found = Vec::new();
        let mut weights = Vec::new();
        for half in 0..2 {
            let block = BlockIndex(LAST + REPETITIONS * (1 + GROWTH.len() as u64) + half as u64);
            let (own, others) = (self.half(half), self.half(1 - half));
            let rows = |chosen: &[usize]| -> Vec<f64> {
                chosen.iter().flat_map(|&i| &pool.positions[i * d..][..d]).copied().collect()
            };
            let equal = vec![1.0 / others.len() as f64; others.len()];
            let proposal = Proposal::fit(&rows(&others), &equal, d, options.defensive, options.seed, block);
            let fresh = self.draws(&proposal, block, options.particles.div_ceil(2))?;
            let density = proposal.log_density(&rows(&own));
            let at_particles: Vec<f64> = own.iter().zip(density).map(|(&i, q)| target[i] - q).collect();
            found.extend(bridge(&fresh.log_weights, &at_particles, 0.5 * size));
            weights.extend(fresh.log_weights);
        }
        let shape = pareto_smoothed(&weights).1;
        let &[a, b] = found.as_slice() else { return Ok((None, shape)) };
        let value = log_sum_exp(&[a.value, b.value]) - 2.0_f64.ln();
        let error = 0.5 * a.error.hypot(b.error).max((a.value - b.value).abs());
        let told = error < MOST_ERROR && shape.is_none_or(|k| k < HEAVY);
        Ok((told.then_some(Evidence { value, error }), shape))
    }

    /// Indices of the particles of every other chain of the pooled islands.
    fn half(&self, half: usize) -> Vec<usize> {
        let mut first = 0;
        let mut chosen = Vec::new();
        for island in &self.islands {
            let (count, chains) = (island.particles.len(), island.particles.chains.unwrap_or(2));
            chosen.extend((0..count).filter(|i| i % chains % 2 == half).map(|i| first + i));
            first += count;
        }
        chosen
    }

    /// Whether draws have met the particles that moves left, or these need none: an evidence may miss what particles miss.
    fn confirmed(&self) -> bool {
        self.overlap.is_none_or(|share| share >= LEAST_OVERLAP) || self.mixed()
    }

    /// Whether the islands agree and their chains have forgotten where they began many times: such particles need no draws
    /// to confirm them.
    fn mixed(&self) -> bool {
        let chains: usize = self.islands.iter().filter_map(|i| i.particles.chains).sum();
        let agreed = self.agreement().is_some_and(|r| r.iter().all(|r| *r < AGREEMENT));
        agreed && self.moved_size() >= MANY_PER_CHAIN * chains as f64
    }

    /// How many independent draws the islands' particles are worth.
    fn moved_size(&self) -> f64 {
        let d = self.settings[0].model.dimension();
        let size = |island: &Island| {
            let weighted = effective_size(&island.particles.log_weights);
            let chains = island.particles.chains;
            chains.map_or(weighted, |chains| chain_size(&island.particles.positions, d, chains).min(weighted))
        };
        self.islands.iter().map(size).sum()
    }

    /// Moves at the posterior of all data until the islands agree, with `growth` times as many particles.
    fn move_until_agreed(&mut self, control: &mut Control<'_>, growth: usize) -> Result<()> {
        for round in 1..=LAST_MOVES[1] {
            for index in 0..self.islands.len() {
                let proposal = self.moving_proposal(index);
                let setting = &self.settings[index];
                let count = growth * setting.size.max(setting.options.particles.div_ceil(self.islands.len()));
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
    fn moving_proposal(&mut self, index: usize) -> Proposal {
        if !self.agreed() {
            return self.islands[index].proposal(&self.settings[index]);
        }
        self.companions = true;
        let (setting, own) = (&self.settings[index], &self.islands[index]);
        let others = (0..self.islands.len()).filter(|i| *i != index).map(|i| &self.islands[i]);
        let pool = pooled(others, true);
        let (d, weights) = (setting.model.dimension(), normalised(&pool.log_weights));
        let (seed, block) = (setting.options.seed, own.state.block());
        Proposal::fit(&pool.positions, &weights, d, setting.options.defensive, seed, block).balanced()
    }

    /// R̂ of every coordinate between the islands.
    fn agreement(&self) -> Option<Vec<f64>> {
        let each = |i: &Island| (i.particles.positions.clone(), normalised(&i.particles.log_weights));
        r_hat(&self.islands.iter().map(each).collect::<Vec<_>>(), self.settings[0].model.dimension())
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

    /// Weighted draws for all data. R̂ is that between their two halves: the islands they came from are corrected by weights.
    pub(super) fn of_draws(&mut self, particles: Population, groups: usize) -> Posterior {
        let d = self.settings[0].model.dimension();
        let size = particles.distinct_size(d);
        let evidence = self.confirmed().then(|| Evidence::of_weights(&particles.log_weights));
        let halves: Vec<(Vec<f64>, Vec<f64>)> = (0..2)
            .map(|half| {
                let own = particles.positions.chunks_exact(d).skip(half).step_by(2);
                let weights: Vec<f64> = particles.log_weights.iter().skip(half).step_by(2).copied().collect();
                (own.flatten().copied().collect(), normalised(&weights))
            })
            .collect();
        let agreement = r_hat(&halves, d).filter(|_| self.islands.len() != 1 && size >= LEAST_COMPARED);
        // Weighed by all data, however much the islands have seen.
        let all = self.settings[0].model.observations();
        let agreement = (agreement, Compared::Halves);
        self.posterior(particles, evidence, size, agreement, groups).of_observations(all, all)
    }

    /// The islands' particles as they are; `pareto_k` is that of draws from a density through them.
    fn pooled_islands(&mut self, evidence: Option<Evidence>, pareto_k: Option<f64>) -> Posterior {
        let pool = pooled(&self.islands, self.agreed());
        let compared = if self.companions { Compared::Companions } else { Compared::Islands };
        let (agreement, size) = ((self.agreement(), compared), self.moved_size());
        self.posterior(pool, evidence, size, agreement, 0).with_shape(pareto_k)
    }

    /// The posterior of the observations that were seen when the time was up.
    fn cut_short(mut self) -> Posterior {
        self.islands.truncate(1);
        self.islands[0].forget_batch();
        let island = &self.islands[0];
        let size = effective_size(&island.particles.log_weights);
        let particles = island.particles.clone();
        let evidence = self.islands_evidence();
        self.posterior(particles, evidence, size, (None, Compared::Islands), 0)
    }

    fn posterior(
        &mut self,
        particles: Population,
        evidence: Option<Evidence>,
        effective_size: f64,
        r_hat: (Option<Vec<f64>>, Compared),
        groups: usize,
    ) -> Posterior {
        let model = self.settings[0].model;
        let moved = particles.chains.is_some();
        let overlap = self.overlap.filter(|_| !self.mixed());
        let all = model.observations();
        let seen = self.islands.iter().map(|i| i.state.target.seen).min().unwrap_or(all);
        let last: u64 = self.history.iter().filter(|s| s.island.is_none()).map(|s| s.evaluations).sum();
        let evaluations = last + self.islands.iter().map(|i| i.state.evaluations).sum::<u64>();
        Posterior::new(model.dimension(), particles.positions, particles.log_weights, self.options().seed)
            .of_observations(seen, all)
            .with_evidence(evidence)
            .with_diagnostics(effective_size, r_hat, moved)
            .with_overlap(overlap)
            .with_history(std::mem::take(&mut self.history), evaluations, groups)
    }
}

/// Whether the evidences of two sets of draws are the same but for chance and a little.
fn same_evidence(a: &Population, b: &Population) -> bool {
    let [a, b] = [a, b].map(|draws| Evidence::of_weights(&draws.log_weights));
    (a.value - b.value).abs() <= SETTLED + 3.0 * a.error.hypot(b.error)
}
