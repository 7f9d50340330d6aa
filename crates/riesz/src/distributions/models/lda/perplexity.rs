//! How well topics explain documents.

use super::corpus::{Bag, Corpus};
use super::infer::{Effort, Topics};
use super::statistics::Statistics;
use crate::distributions::special::{digamma, ln_gamma};
use rayon::prelude::*;

/// A mean-field posterior of topics, q(φ_k) = Dir(N_k + η), and the prior of documents.
pub(super) struct Variational<'a> {
    alpha: &'a [f64],
    /// exp E log φ_kw, K numbers for each word.
    likelihoods: Vec<f64>,
    /// Σ_k E[log p(φ_k∣η) − log q(φ_k)].
    topics_bound: f64,
}

impl<'a> Variational<'a> {
    /// From the statistics of the topics.
    pub fn new(statistics: &Statistics, alpha: &'a [f64], eta: f64) -> Self {
        let (topics, width) = (alpha.len(), statistics.width());
        let words = statistics.values.len() / width;
        let smoothing = words as f64 * eta;
        let totals: Vec<f64> = statistics.totals[..topics].iter().map(|n| n + smoothing).collect();
        let psi: Vec<f64> = totals.iter().map(|&total| digamma(total)).collect();
        let prior = ln_gamma(eta);
        let mut likelihoods = vec![0.0; words * topics];
        let rows = likelihoods.par_chunks_exact_mut(topics).zip(statistics.values.par_chunks_exact(width));
        let bounds: Vec<f64> = rows
            .map(|(out, row)| {
                let mut sum = 0.0;
                for ((out, &n), psi) in out.iter_mut().zip(row).zip(&psi) {
                    let lambda = f64::from(n.max(0.0)) + eta;
                    let log = digamma(lambda) - psi;
                    *out = log.exp();
                    sum += (eta - lambda) * log + ln_gamma(lambda) - prior;
                }
                sum
            })
            .collect();
        let normalisers: f64 = totals.iter().map(|&total| ln_gamma(smoothing) - ln_gamma(total)).sum();
        Self { alpha, likelihoods, topics_bound: bounds.iter().sum::<f64>() + normalisers }
    }

    /// The evidence lower bound of Hoffman, Blei and Bach (2010): log p(documents) is at least this, for any q(θ_d) =
    /// Dir(g_d). Each g_d starts from `expected` counts (padded rows) and ascends by coordinates.
    pub fn bound(&self, corpus: &Corpus, expected: &[f32], width: usize, effort: Effort) -> f64 {
        let each = |(d, row): (usize, &[f32])| self.document(corpus.document(d), row, effort);
        let bounds: Vec<f64> = expected.par_chunks_exact(width).enumerate().map(each).collect();
        bounds.iter().sum::<f64>() + self.topics_bound
    }

    fn document(&self, bag: Bag<'_>, expected: &[f32], effort: Effort) -> f64 {
        let topics = self.alpha.len();
        let mut g: Vec<f64> =
            self.alpha.iter().zip(expected).map(|(a, &n)| a + f64::from(n.max(0.0))).collect();
        let total = self.alpha.iter().sum::<f64>() + bag.length();
        let psi = digamma(total);
        let row = |word: u32| &self.likelihoods[word as usize * topics..(word as usize + 1) * topics];
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let weigh = |g: &[f64]| g.iter().map(|&g| (digamma(g) - psi).exp()).collect::<Vec<f64>>();
        let mut weights = weigh(&g);
        for _ in 0..effort.sweeps {
            let mut sums = vec![0.0; topics];
            for (&word, &count) in bag.words.iter().zip(bag.counts) {
                let row = row(word);
                let share = f64::from(count) / dot(&weights, row).max(f64::MIN_POSITIVE);
                sums.iter_mut().zip(row).for_each(|(sum, l)| *sum += share * l);
            }
            let mut change = 0.0;
            for ((g, a), (weight, sum)) in g.iter_mut().zip(self.alpha).zip(weights.iter().zip(&sums)) {
                let new = a + weight * sum;
                change += (new - *g).abs();
                *g = new;
            }
            weights = weigh(&g);
            if change <= f64::from(effort.tolerance) * topics as f64 {
                break;
            }
        }
        let words: f64 = bag
            .words
            .iter()
            .zip(bag.counts)
            .map(|(&word, &count)| f64::from(count) * dot(&weights, row(word)).max(f64::MIN_POSITIVE).ln())
            .sum();
        let sum: f64 = g.iter().sum();
        let prior = ln_gamma(self.alpha.iter().sum()) - ln_gamma(sum);
        let each = |(&a, &g): (&f64, &f64)| (a - g) * (digamma(g) - psi) + ln_gamma(g) - ln_gamma(a);
        words + prior + self.alpha.iter().zip(&g).map(each).sum::<f64>()
    }
}

/// Σ c log Σ_k θ_dk φ_kw over the words of `held_out`, given proportions θ (K numbers a document).
pub(super) fn completion(held_out: &Corpus, proportions: &[f32], topics: &Topics<'_>, count: usize) -> f64 {
    let each = |(d, theta): (usize, &[f32])| {
        let (bag, mut rows) = (held_out.document(d), Vec::new());
        topics.likelihoods(bag.words, &mut rows);
        let width = rows.len() / bag.words.len().max(1);
        let log = |row: &[f32]| {
            let p: f64 = theta.iter().zip(row).map(|(t, l)| f64::from(*t) * f64::from(*l)).sum();
            p.max(f64::MIN_POSITIVE).ln()
        };
        let rows = rows.chunks_exact(width.max(1)).zip(bag.counts);
        rows.map(|(row, &c)| f64::from(c) * log(row)).sum::<f64>()
    };
    let sums: Vec<f64> = proportions.par_chunks_exact(count).enumerate().map(each).collect();
    sums.iter().sum()
}
