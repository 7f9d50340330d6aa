//! Metropolis moves for dimensions in which no density through particles is good enough to draw from.

use super::island::{Population, Setting, Target};
use crate::distributions::proposal::Proposal;
use crate::distributions::weights::systematic;
use crate::error::Result;
use crate::random::{uniform_open, Address, BlockIndex, Stream};
use rayon::prelude::*;

/// Positions of a chain, the first included.
const LENGTH: usize = 20;
/// Share of moves that should be accepted.
const ACCEPTANCE: f64 = 0.3;
/// How fast the step follows the acceptance.
const RATE: f64 = 0.7;

/// Chains whose every position becomes a particle (waste-free: Dau and Chopin).
///
/// The move from θ chooses a group c with the probability r_c(θ) that the Gaussian N(μ_c, Σ_c) is responsible for θ and
/// proposes
///
/// ```text
/// θ' = μ_c + √(1 − s²)(θ − μ_c) + s L_c z,    z ~ N(0, I)
/// ```
///
/// which leaves N(μ_c, Σ_c) as it is: the more Gaussian the posterior, the longer the step s that is accepted, in any
/// dimension. Acceptance is by the ratio of π(θ') q(θ∣θ') to π(θ) q(θ'∣θ), q summed over the groups.
pub(super) struct Walk<'a, 'b> {
    pub(super) setting: &'a Setting<'b>,
    pub(super) proposal: &'a Proposal,
    pub(super) target: Target,
    /// Tells the random numbers of this walk from those of others.
    pub(super) block: BlockIndex,
    /// s in (0, 1].
    pub(super) step: f64,
}

impl Walk<'_, '_> {
    /// Chains from systematically resampled particles. Returns at least `count` positions, all chains' first, then all
    /// their second and so on, without weights, and the share of moves that were accepted.
    pub(super) fn run(
        &mut self,
        old: &Population,
        weights: &[f64],
        count: usize,
    ) -> Result<(Population, f64)> {
        let d = self.setting.model.dimension();
        let seed = self.setting.options.seed;
        let chains = count.div_ceil(LENGTH).max(2);
        let order = old.by_chain();
        let weights: Vec<f64> = order.iter().map(|&i| weights[i]).collect();
        let start = systematic(&weights, chains, Address::new(seed, Stream::Resample, self.block, 0));
        let start: Vec<usize> = start.iter().map(|&i| order[i]).collect();
        let mut now = old.subset(&start, d);
        let mut all = Population { chains: Some(chains), ..now.clone() };
        let mut acceptance = 0.0;
        for round in 1..LENGTH {
            let (proposed, log_ratio) = self.propose(&now, round as u32);
            let next = Population::at(proposed, self.setting, self.target)?;
            all.evaluations += next.evaluations;
            let (here, there) = (now.log_target(self.target.power), next.log_target(self.target.power));
            let mut accepted = 0;
            for i in 0..chains {
                let at = Address::new(seed, Stream::Move, self.block, (round * chains + i) as u32);
                if uniform_open(at.words(0)[0]).ln() < there[i] - here[i] + log_ratio[i] {
                    now.replace(i, &next, d);
                    accepted += 1;
                }
            }
            let rate = f64::from(accepted) / chains as f64;
            acceptance += rate / (LENGTH - 1) as f64;
            self.step = (self.step * (RATE * (rate - ACCEPTANCE)).exp()).clamp(0.01, 1.0);
            all.append(&now);
        }
        Ok((all, acceptance))
    }

    /// Proposed positions, and log q(θ∣θ') − log q(θ'∣θ).
    fn propose(&self, now: &Population, round: u32) -> (Vec<f64>, Vec<f64>) {
        let d = self.setting.model.dimension();
        let first = round * now.len() as u32;
        let mut proposed = vec![0.0; now.positions.len()];
        let pairs = now.positions.par_chunks_exact(d).zip(proposed.par_chunks_exact_mut(d));
        let ratios = pairs.enumerate().map(|(i, (from, to))| {
            let i = first + i as u32;
            let at = Address::new(self.setting.options.seed, Stream::Particle, self.block, i);
            self.proposal.step(from, self.step, at, to);
            self.proposal.log_step(to, from, self.step) - self.proposal.log_step(from, to, self.step)
        });
        let ratios = ratios.collect();
        (proposed, ratios)
    }
}

impl Population {
    /// All indices, chain by chain: systematic resampling then takes from every chain what it weighs. Through positions
    /// in the order of time its stride can meet the same few chains again and again.
    fn by_chain(&self) -> Vec<usize> {
        let chains = self.chains.unwrap_or(1).max(1);
        (0..chains).flat_map(|chain| (chain..self.len()).step_by(chains)).collect()
    }

    /// Those at `indices`, without weights.
    fn subset(&self, indices: &[usize], d: usize) -> Self {
        let pick = |values: &[f64]| indices.iter().map(|&i| values[i]).collect::<Vec<f64>>();
        Self {
            positions: indices.iter().flat_map(|&i| &self.positions[i * d..][..d]).copied().collect(),
            log_prior: pick(&self.log_prior),
            old: pick(&self.old),
            new: self.new.as_deref().map(pick),
            ..Self::default()
        }
    }

    fn append(&mut self, other: &Self) {
        self.positions.extend_from_slice(&other.positions);
        self.log_prior.extend_from_slice(&other.log_prior);
        self.old.extend_from_slice(&other.old);
        if let (Some(own), Some(new)) = (&mut self.new, &other.new) {
            own.extend_from_slice(new);
        }
    }

    fn replace(&mut self, i: usize, other: &Self, d: usize) {
        self.positions[i * d..][..d].copy_from_slice(&other.positions[i * d..][..d]);
        self.log_prior[i] = other.log_prior[i];
        self.old[i] = other.old[i];
        if let (Some(own), Some(new)) = (&mut self.new, &other.new) {
            own[i] = new[i];
        }
    }
}
