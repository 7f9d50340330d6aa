//! Metropolis moves for dimensions in which no density through particles is good enough to draw from.

use super::island::Setting;
use super::population::{Population, Target};
use crate::distributions::proposal::{Jump, Proposal};
use crate::distributions::weights::systematic;
use crate::error::Result;
use crate::random::{uniform_open, Address, BlockIndex, Stream};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Fewest positions of a chain, the first included, and how many it has for each dimension: a random walk takes some d steps to
/// forget where it began.
const LEAST_LENGTH: usize = 20;
const LENGTH_PER_DIMENSION: usize = 5;
/// Share of moves that should be accepted, of those about the means of the groups and of random walks.
const ACCEPTANCE: [f64; 2] = [0.3, 0.25];
/// How fast the step follows the acceptance.
const RATE: f64 = 0.7;
/// Least share of either kind of move.
const LEAST_SHARE: f64 = 0.15;

/// What the moves have learnt: a step and a jump distance for those about the means of the groups and for random walks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pace {
    /// s in (0, 1], and the multiple of 2.38/√d.
    pub(super) steps: [f64; 2],
    /// Mean squared length of a move, zero where it is not accepted, in deviations of the groups.
    pub(super) lengths: [f64; 2],
}

impl Pace {
    pub(super) const BEGIN: Self = Self { steps: [0.5, 1.0], lengths: [1.0, 1.0] };

    /// The share of random walks: by the length of their moves.
    fn walks(&self) -> f64 {
        (self.lengths[1] / (self.lengths[0] + self.lengths[1])).clamp(LEAST_SHARE, 1.0 - LEAST_SHARE)
    }

    fn jump(&self, kind: usize, d: usize) -> Jump {
        let s = self.steps[kind];
        match kind {
            0 => Jump { keep: (1.0 - s * s).max(0.0).sqrt(), noise: s },
            _ => Jump { keep: 1.0, noise: 2.38 * s / (d as f64).sqrt() },
        }
    }

    /// Follows `tried` moves of a kind, of which `accepted` were accepted, with the mean squared length `length`.
    fn follow(&mut self, kind: usize, tried: usize, accepted: usize, length: f64) {
        if tried > 0 {
            let rate = accepted as f64 / tried as f64;
            let most = [1.0, 10.0][kind];
            self.steps[kind] =
                (self.steps[kind] * (RATE * (rate - ACCEPTANCE[kind])).exp()).clamp(0.01, most);
            self.lengths[kind] = 0.5 * (self.lengths[kind] + length).max(1e-12);
        }
    }
}

/// Chains whose every position becomes a particle (waste-free: Dau and Chopin).
///
/// The move from θ chooses a group c with the probability r_c(θ) that the Gaussian N(μ_c, Σ_c) is responsible for θ and
/// proposes, either
///
/// ```text
/// θ' = μ_c + √(1 − s²)(θ − μ_c) + s L_c z,    z ~ N(0, I)
/// ```
///
/// which leaves N(μ_c, Σ_c) as it is: the more Gaussian the posterior, the longer the step s that is accepted, in any
/// dimension; or
///
/// ```text
/// θ' = θ + κ 2.38/√d L_c z
/// ```
///
/// which does not know where the particles are: those of a population that is not yet where the posterior is find it. The
/// one that goes farther at an evaluation is chosen more often. Acceptance is by the ratio of π(θ') q(θ∣θ') to
/// π(θ) q(θ'∣θ), q summed over the groups.
pub(super) struct Walk<'a, 'b> {
    pub(super) setting: &'a Setting<'b>,
    pub(super) proposal: &'a Proposal,
    pub(super) target: Target,
    /// Tells the random numbers of this walk from those of others.
    pub(super) block: BlockIndex,
    pub(super) pace: Pace,
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
        let length = LEAST_LENGTH.max(LENGTH_PER_DIMENSION * d);
        let chains = count.div_ceil(length).max(2);
        let order = old.by_chain();
        let weights: Vec<f64> = order.iter().map(|&i| weights[i]).collect();
        let start = systematic(&weights, chains, Address::new(seed, Stream::Resample, self.block, 0));
        let start: Vec<usize> = start.iter().map(|&i| order[i]).collect();
        let mut now = old.subset(&start, d);
        let mut all = Population { chains: Some(chains), ..now.clone() };
        let mut total = 0;
        for round in 1..length {
            let (kinds, proposed, log_ratio) = self.propose(&now, round as u32);
            let next = Population::at(proposed, self.setting, self.target)?;
            all.evaluations += next.evaluations;
            let (here, there) = (now.log_target(self.target.power), next.log_target(self.target.power));
            let (mut tried, mut accepted, mut lengths) = ([0; 2], [0; 2], [0.0; 2]);
            for (i, &kind) in kinds.iter().enumerate() {
                let at = Address::new(seed, Stream::Move, self.block, (round * chains + i) as u32);
                tried[kind] += 1;
                if uniform_open(at.words(0)[0]).ln() < there[i] - here[i] + log_ratio[i] {
                    let (from, to) = (&now.positions[i * d..][..d], &next.positions[i * d..][..d]);
                    lengths[kind] += self.proposal.squared_length(from, to);
                    now.replace(i, &next, d);
                    accepted[kind] += 1;
                }
            }
            for kind in 0..2 {
                self.pace.follow(
                    kind,
                    tried[kind],
                    accepted[kind],
                    lengths[kind] / tried[kind].max(1) as f64,
                );
            }
            total += accepted[0] + accepted[1];
            all.append(&now);
        }
        Ok((all, total as f64 / (chains * (length - 1)) as f64))
    }

    /// For each chain the kind of move, the proposed position, and log q(θ∣θ') − log q(θ'∣θ).
    fn propose(&self, now: &Population, round: u32) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
        let d = self.setting.model.dimension();
        let first = round * now.len() as u32;
        let walks = self.pace.walks();
        let mut proposed = vec![0.0; now.positions.len()];
        let pairs = now.positions.par_chunks_exact(d).zip(proposed.par_chunks_exact_mut(d));
        let moves = pairs.enumerate().map(|(i, (from, to))| {
            let i = first + i as u32;
            let at = Address::new(self.setting.options.seed, Stream::Particle, self.block, i);
            let kind = usize::from(uniform_open(at.on(Stream::Move).words(0)[2]) < walks);
            let jump = self.pace.jump(kind, d);
            self.proposal.step(from, jump, at, to);
            (kind, self.proposal.log_step(to, from, jump) - self.proposal.log_step(from, to, jump))
        });
        let (kinds, ratios) = moves.unzip();
        (kinds, proposed, ratios)
    }
}

impl Population {
    /// All indices, chain by chain: systematic resampling then takes from every chain what it weighs. Through positions
    /// in the order of time its stride can meet the same few chains again and again.
    pub(super) fn by_chain(&self) -> Vec<usize> {
        let chains = self.chains.unwrap_or(1).max(1);
        (0..chains).flat_map(|chain| (chain..self.len()).step_by(chains)).collect()
    }

    /// Those at `indices`, without weights.
    pub(super) fn subset(&self, indices: &[usize], d: usize) -> Self {
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
