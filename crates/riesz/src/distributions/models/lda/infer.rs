//! What topics say about documents.

use super::corpus::{Bag, Corpus};
use super::statistics::Statistics;
use crate::compute::{Device, Document, Exclusion, Likelihoods};
use rayon::prelude::*;

/// Topics as documents see them: φ_{wk} = (N_{wk} + share·M_{wk} + η) / (N_k + share·M_k + Wη), and α.
pub(super) struct Topics<'a> {
    current: &'a Statistics,
    previous: &'a Statistics,
    share: f32,
    alpha: &'a [f32],
    eta: f32,
    /// N_k + share·M_k + Wη.
    totals: Vec<f32>,
    /// Their inverses, zero in the padding.
    inverse: Vec<f32>,
    device: Device,
}

/// How long a document is settled.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    /// Most sweeps.
    pub sweeps: usize,
    /// Enough when expected counts change by at most this share.
    pub tolerance: f32,
}

impl<'a> Topics<'a> {
    /// Topics from statistics alone; `alpha` is padded.
    pub fn new(statistics: &'a Statistics, alpha: &'a [f32], topics: usize, eta: f64) -> Self {
        Self::between(statistics, statistics, 0.0, alpha, topics, eta)
    }

    /// Topics from the statistics N of this pass and a share of those of the last, M.
    pub fn between(
        current: &'a Statistics,
        previous: &'a Statistics,
        share: f32,
        alpha: &'a [f32],
        topics: usize,
        eta: f64,
    ) -> Self {
        let width = current.width();
        let smoothing = (current.values.len() / width) as f64 * eta;
        let total = |k: usize| current.totals[k] + f64::from(share) * previous.totals[k] + smoothing;
        let totals = (0..width).map(|k| total(k) as f32).collect();
        let inverse = (0..width).map(|k| if k < topics { total(k).recip() as f32 } else { 0.0 }).collect();
        let device = Device::default();
        Self { current, previous, share, alpha, eta: eta as f32, totals, inverse, device }
    }

    /// φ of the words, a padded row for each.
    pub fn likelihoods(&self, words: &[u32], out: &mut Vec<f32>) {
        let likelihoods = Likelihoods {
            current: &self.current.values,
            previous: &self.previous.values,
            share: self.share,
            prior: self.eta,
            inverse: &self.inverse,
        };
        likelihoods.rows(self.device, words, out);
    }

    /// Settles a document: `expected` is where to start, and the result. `own` is how much of `expected` is in the
    /// statistics and is taken out of them.
    pub fn settle(
        &self,
        bag: Bag<'_>,
        expected: &mut [f32],
        responsibilities: &mut [f32],
        buffer: &mut Vec<f32>,
        own: f32,
        effort: Effort,
    ) {
        self.likelihoods(bag.words, buffer);
        let exclusion =
            (own > 0.0).then_some(Exclusion { share: own, prior: self.eta, totals: &self.totals });
        let document = Document {
            likelihoods: buffer,
            counts: bag.counts,
            prior: self.alpha,
            responsibilities,
            expected,
        };
        document.settle(self.device, exclusion, effort.sweeps, effort.tolerance);
    }

    /// Expected counts of topics for every document, padded rows.
    pub fn expected(&self, corpus: &Corpus, effort: Effort) -> Vec<f32> {
        let width = self.alpha.len();
        let mut expected = vec![0.0; corpus.len() * width];
        let rows = expected.par_chunks_exact_mut(width).enumerate();
        rows.for_each_init(
            || (Vec::new(), Vec::new()),
            |(buffer, responsibilities), (d, expected)| {
                let bag = corpus.document(d);
                responsibilities.resize(bag.words.len() * width, 0.0);
                self.settle(bag, expected, responsibilities, buffer, 0.0, effort);
            },
        );
        expected
    }

    /// The topic proportions that expected counts stand for: θ_k = (n_k + α_k) / Σ, K numbers for each document.
    pub fn proportions(&self, expected: &[f32], topics: usize) -> Vec<f32> {
        let each = |row: &[f32]| {
            let sum: f64 = row.iter().zip(self.alpha).map(|(n, a)| f64::from(n + a)).sum();
            let share = |k: usize| (f64::from(row[k] + self.alpha[k]) / sum) as f32;
            (0..topics).map(share).collect::<Vec<f32>>()
        };
        expected.par_chunks_exact(self.alpha.len()).flat_map_iter(each).collect()
    }
}
