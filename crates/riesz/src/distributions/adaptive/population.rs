//! Particles with what is known of them, and the target they stand for.

use super::island::{Island, Setting};
use crate::distributions::model::{log_prior, Particles};
use crate::distributions::proposal::Proposal;
use crate::distributions::special::log_sum_exp;
use crate::distributions::weights::{effective_size, normalised};
use crate::error::Result;
use crate::random::BlockIndex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Share of the particles that draws may miss: a hundredth, and another for chance.
const MOST_UNCOVERED: f64 = 0.02;

/// Deviations by which populations that resemble each other may be apart: beyond three standard errors, and at most.
const SHIFT: [f64; 2] = [0.1, 0.25];
/// Deviations between the lowest and the highest tenth of a Gaussian.
const TENTHS: f64 = 2.563;

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
    pub(super) fn relative_variance(&self) -> f64 {
        let weights = normalised(&self.log_weights);
        let count = self.chains.unwrap_or(weights.len()).max(2);
        let mut sums = vec![0.0; count];
        weights.iter().enumerate().for_each(|(i, w)| sums[i % count] += w);
        (sums.iter().map(|s| s * s).sum::<f64>() - 1.0 / count as f64).max(0.0)
    }

    /// The effective number of particles, identical ones counted once: what a density that has collapsed draws is all one.
    pub(super) fn distinct_size(&self, d: usize) -> f64 {
        let mut sums: HashMap<Vec<u64>, f64> = HashMap::new();
        for (theta, w) in self.positions.chunks_exact(d).zip(normalised(&self.log_weights)) {
            *sums.entry(theta.iter().map(|x| x.to_bits()).collect()).or_default() += w;
        }
        let mut squares: Vec<f64> = sums.values().map(|w| w * w).collect();
        // The order of a map is not that of any two runs.
        squares.sort_by(f64::total_cmp);
        let total: f64 = squares.iter().sum();
        if total > 0.0 {
            total.recip()
        } else {
            0.0
        }
    }

    /// Whether draws of `proposal` with the weights `log_weights` for all data are where these particles are. With the ratio
    /// w = π/(Zq), E_π[w] = E_q[w²] is the number of draws by that of the effective ones, and by Markov's inequality no
    /// more than 1/100 of the posterior has a w a hundred times as large.
    pub(super) fn covered(&self, proposal: &Proposal, log_weights: &[f64]) -> bool {
        let mean = log_sum_exp(log_weights) - (log_weights.len() as f64).ln();
        let most = mean + (100.0 * log_weights.len() as f64 / effective_size(log_weights)).ln();
        let ratios = self.log_target(0.0).into_iter().zip(proposal.log_density(&self.positions));
        let beyond = ratios.zip(normalised(&self.log_weights)).filter(|((t, q), _)| t - q > most);
        beyond.map(|(_, w)| w).sum::<f64>() < MOST_UNCOVERED
    }

    /// Whether the medians and the outer tenths of all coordinates are where those of `other` are, but for three standard errors and a
    /// little, in deviations: tails may be so heavy that means and deviations scatter.
    pub(super) fn resembles(&self, other: &Self, d: usize) -> bool {
        let [own, others] = [self, other].map(|p| (normalised(&p.log_weights), &p.positions));
        let errors = [self, other].map(|p| effective_size(&p.log_weights).recip());
        let most = (SHIFT[0] + 3.0 * (errors[0] + errors[1]).sqrt()).min(SHIFT[1]);
        let near = |k: usize| {
            let [own, others] = [&own, &others].map(|(weights, positions)| {
                let values: Vec<f64> = positions.iter().skip(k).step_by(d).copied().collect();
                quantiles(&values, weights)
            });
            let deviation = (own[2] - own[0]) / TENTHS;
            own.iter().zip(others).all(|(a, b)| (a - b).abs() <= most * deviation)
        };
        (0..d).all(near)
    }

    pub(super) fn len(&self) -> usize {
        self.log_prior.len()
    }
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

/// The quantiles at 0.1, 0.5 and 0.9 of values with normalised weights.
fn quantiles(values: &[f64], weights: &[f64]) -> [f64; 3] {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    [0.1, 0.5, 0.9].map(|level| {
        let mut below = 0.0;
        let at = order.iter().find(|&&i| {
            below += weights[i];
            below >= level
        });
        at.or(order.last()).map_or(f64::NAN, |&i| values[i])
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{normal_pair, Address, Seed, Stream};

    /// `count` draws from N(centre, 1) with the log-density of the half-and-half mixture of N(0, 1) and N(10, 1).
    fn draws(count: u32, block: u64, centre: f64) -> Population {
        let word = |i| Address::new(Seed(9), Stream::Synthetic, BlockIndex(block), i).words(0);
        let positions: Vec<f64> =
            (0..count).map(|i| centre + normal_pair(word(i)[0], word(i)[1])[0]).collect();
        let log = |x: &f64| log_sum_exp(&[-0.5 * x * x, -0.5 * (x - 10.0).powi(2)]) - 0.5 * 8.0_f64.ln();
        let old = positions.iter().map(log).collect();
        let zeros = vec![0.0; positions.len()];
        Population { positions, old, log_prior: zeros.clone(), log_weights: zeros, ..Population::default() }
    }

    #[test]
    fn identical_particles_count_once() {
        let mut particles = draws(100, 0, 0.0);
        assert!((particles.distinct_size(1) - 100.0).abs() < 1e-9);
        particles.positions.fill(2.0);
        assert!((particles.distinct_size(1) - 1.0).abs() < 1e-9);
        particles.log_weights.fill(f64::NEG_INFINITY);
        assert_eq!(particles.distinct_size(1), 0.0);
    }

    /// Draws about one of two modes cover particles of it, and not those of which a tenth is at the other.
    #[test]
    fn draws_that_miss_a_mode_do_not_cover_it() {
        let one = draws(400, 1, 0.0);
        let proposal = Proposal::fit(&one.positions, &[1.0 / 400.0; 400], 1, 0.05, Seed(0), BlockIndex(0));
        let ratios: Vec<f64> =
            one.old.iter().zip(proposal.log_density(&one.positions)).map(|(t, q)| t - q).collect();
        assert!(one.covered(&proposal, &ratios));
        let mut both = one.clone();
        let other = draws(40, 2, 10.0);
        both.positions[..40].copy_from_slice(&other.positions);
        both.old[..40].copy_from_slice(&other.old);
        assert!(!both.covered(&proposal, &ratios));
    }
}
