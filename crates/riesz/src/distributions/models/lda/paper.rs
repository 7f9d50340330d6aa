//! Paper mode: particle mirror descent as published, with the weights of the checked form.

use super::corpus::{Bag, Corpus};
use crate::distributions::special::{ln_gamma, log_sum_exp};
use crate::random::{uniform_open, Address, BlockIndex, Seed, Stream};
use rayon::prelude::*;

/// Weighted particles: each has a Dirichlet parameter β for every topic (thesis B.6.2).
///
/// A step γ on a batch of B documents of D draws the topics of the batch for every particle, word after word,
///
/// ```text
/// z_n ∝ (n_{<n,k} + α_k) Φ̄_{k,x_n},      Φ̄ = E[Φ] = β_kw / Σ_w β_kw
/// ```
///
/// and with r the probability of this draw and lB(β) = Σ_k [Σ_w lnΓ(β_kw) − lnΓ(Σ_w β_kw)] sets
///
/// ```text
/// β'    = (1−γ)β + γη + γ(D/B) Σ_{d in batch} counts(z_d)
/// log w ← (1−γ) log w + γ(D/B) Σ_d [log p(z_d∣α) − log r_d(z_d)] + lB(β') − (1−γ)lB(β) − γ lB(η)
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Particles {
    /// β of each particle, K numbers for every word.
    pub(super) beta: Vec<Vec<f64>>,
    log_weights: Vec<f64>,
    /// lB(β) of each particle.
    log_betas: Vec<f64>,
    topics: usize,
    alpha: Vec<f64>,
    eta: f64,
    seed: Seed,
    /// Steps done.
    pub(super) steps: u64,
}

/// A step of mirror descent.
#[derive(Clone, Copy, Debug)]
pub struct MirrorStep {
    /// γ.
    pub size: f64,
    /// D/B.
    pub weight: f64,
}

/// Topics drawn for the documents of a batch.
struct Draw {
    /// Σ counts(z), K numbers for every word that occurs.
    counts: Vec<(u32, Vec<f64>)>,
    /// Σ [log p(z∣α) − log r(z)].
    log_ratio: f64,
}

impl Particles {
    /// `count` particles, all at the prior.
    pub fn new(count: usize, vocabulary: usize, alpha: Vec<f64>, eta: f64, seed: Seed) -> Self {
        let (topics, log_weights) = (alpha.len(), vec![-(count as f64).ln(); count]);
        let beta = vec![vec![eta; vocabulary * topics]; count];
        let log_betas = beta.iter().map(|beta| log_beta(beta, topics)).collect();
        Self { beta, log_weights, log_betas, topics, alpha, eta, seed, steps: 0 }
    }

    /// Particles as they were, `weights` being their logarithms.
    pub(super) fn restored(self, beta: Vec<Vec<f64>>, log_weights: Vec<f64>, steps: u64) -> Self {
        let log_betas = beta.iter().map(|beta| log_beta(beta, self.topics)).collect();
        Self { beta, log_weights, log_betas, steps, ..self }
    }

    /// Logarithms of the weights, which sum to one.
    pub fn log_weights(&self) -> Vec<f64> {
        let sum = log_sum_exp(&self.log_weights);
        self.log_weights.iter().map(|w| w - sum).collect()
    }

    /// Logarithms of the weights as the recursion has them.
    pub fn unnormalised_log_weights(&self) -> &[f64] {
        &self.log_weights
    }

    /// β_kw of a particle.
    pub fn parameter(&self, particle: usize, topic: usize, word: usize) -> f64 {
        self.beta[particle][word * self.topics + topic]
    }

    /// The particle of the largest weight.
    pub fn heaviest(&self) -> usize {
        let weights = self.log_weights.iter().enumerate();
        weights.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0))).map_or(0, |(i, _)| i)
    }

    /// One step on the documents of a batch.
    pub fn step(&mut self, corpus: &Corpus, documents: &[u32], step: MirrorStep) {
        let particles = self.beta.len();
        let block = |i: usize| BlockIndex(1 + self.steps * particles as u64 + i as u64);
        let draws: Vec<Draw> = (0..particles)
            .into_par_iter()
            .map(|i| self.draw(&self.beta[i], corpus, documents, block(i)))
            .collect();
        let (eta, topics, keep) = (self.eta, self.topics, 1.0 - step.size);
        let entries = self.beta.first().map_or(0, Vec::len) as f64;
        let prior = entries * ln_gamma(eta) - topics as f64 * ln_gamma(entries / topics as f64 * eta);
        let states = self.log_weights.par_iter_mut().zip(&mut self.log_betas);
        self.beta.par_iter_mut().zip(states).zip(draws).for_each(|((beta, state), draw)| {
            let (log_weight, before) = state;
            absorb(beta, &draw.counts, topics, eta, step);
            let after = log_beta(beta, topics);
            let ratio = step.size * step.weight * draw.log_ratio;
            *log_weight = keep * *log_weight + ratio + after - keep * *before - step.size * prior;
            *before = after;
        });
        self.steps += 1;
    }

    fn draw(&self, beta: &[f64], corpus: &Corpus, documents: &[u32], block: BlockIndex) -> Draw {
        let totals = totals(beta, self.topics);
        let mut sums = std::collections::BTreeMap::new();
        let mut log_ratio = 0.0;
        for (index, &d) in documents.iter().enumerate() {
            let bag = corpus.document(d as usize);
            let address = Address::new(self.seed, Stream::Topic, block, index as u32);
            let mut add = |word: u32, topic: usize| {
                sums.entry(word).or_insert_with(|| vec![0.0; self.topics])[topic] += 1.0;
            };
            log_ratio += self.left_to_right(bag, beta, &totals, address, &mut add);
        }
        Draw { counts: sums.into_iter().collect(), log_ratio }
    }

    /// Draws the topics of one document and returns log p(z∣α) − log r(z)
    /// = Σ_n [log Σ_k (n_{<n,k} + α_k) Φ̄_{k,x_n} − log(n − 1 + Σα) − log Φ̄_{z_n,x_n}].
    fn left_to_right(
        &self,
        bag: Bag<'_>,
        beta: &[f64],
        totals: &[f64],
        address: Address,
        add: &mut impl FnMut(u32, usize),
    ) -> f64 {
        let mut weights = self.alpha.clone();
        let mut mass: f64 = self.alpha.iter().sum();
        let (mut log_ratio, mut words) = (0.0, address.sequence());
        let mut likelihoods = vec![0.0; self.topics];
        for (&word, &count) in bag.words.iter().zip(bag.counts) {
            let row = &beta[word as usize * self.topics..(word as usize + 1) * self.topics];
            likelihoods.iter_mut().zip(row.iter().zip(totals)).for_each(|(l, (b, total))| *l = b / total);
            for _ in 0..count as usize {
                let sum: f64 = weights.iter().zip(&likelihoods).map(|(n, l)| n * l).sum();
                let mut left = uniform_open(words.next().unwrap_or_default()) * sum;
                let passed = |(n, l): (&f64, &f64)| {
                    left -= n * l;
                    left < 0.0
                };
                let topic = weights.iter().zip(&likelihoods).position(passed).unwrap_or(self.topics - 1);
                log_ratio += (sum / (mass * likelihoods[topic])).ln();
                weights[topic] += 1.0;
                mass += 1.0;
                add(word, topic);
            }
        }
        log_ratio
    }
}

/// Σ_w β_kw.
fn totals(beta: &[f64], topics: usize) -> Vec<f64> {
    let mut sums = vec![0.0; topics];
    for row in beta.chunks_exact(topics) {
        sums.iter_mut().zip(row).for_each(|(sum, b)| *sum += b);
    }
    sums
}

/// lB(β) = Σ_k [Σ_w lnΓ(β_kw) − lnΓ(Σ_w β_kw)].
fn log_beta(beta: &[f64], topics: usize) -> f64 {
    let numerators: f64 = beta.iter().map(|&b| ln_gamma(b)).sum();
    numerators - totals(beta, topics).into_iter().map(ln_gamma).sum::<f64>()
}

/// β ← (1−γ)β + γη + γ(D/B)·counts.
fn absorb(beta: &mut [f64], counts: &[(u32, Vec<f64>)], topics: usize, eta: f64, step: MirrorStep) {
    beta.iter_mut().for_each(|b| *b = (1.0 - step.size) * *b + step.size * eta);
    for (word, counts) in counts {
        let row = &mut beta[*word as usize * topics..(*word as usize + 1) * topics];
        row.iter_mut().zip(counts).for_each(|(b, n)| *b += step.size * step.weight * n);
    }
}
