//! Expected counts of words and topics.

use super::corpus::Corpus;
use crate::compute::padded;
use crate::random::{uniform_open, Address, BlockIndex, Seed, Stream};
use rayon::prelude::*;

/// Words that are made up for each topic before the first document.
const NOISE: f64 = 200.0;

/// N_{wk}, how often word w is expected to have topic k: a row for every word, padded with zeros to whole vectors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statistics {
    /// The rows.
    pub values: Vec<f32>,
    /// N_k = Σ_w N_{wk}.
    pub totals: Vec<f64>,
}

impl Statistics {
    /// Zeros.
    pub fn new(vocabulary: usize, topics: usize) -> Self {
        let width = padded(topics);
        Self { values: vec![0.0; vocabulary * width], totals: vec![0.0; width] }
    }

    /// From K numbers for each word.
    pub fn from_rows(rows: &[f32], topics: usize) -> Self {
        let width = padded(topics);
        let mut statistics = Self::new(rows.len() / topics, topics);
        let pairs = statistics.values.chunks_exact_mut(width).zip(rows.chunks_exact(topics));
        pairs.for_each(|(to, from)| to[..topics].copy_from_slice(from));
        statistics.sum();
        statistics
    }

    /// K numbers for each word.
    pub fn to_rows(&self, topics: usize) -> Vec<f32> {
        self.values.chunks_exact(self.width()).flat_map(|row| &row[..topics]).copied().collect()
    }

    /// Topics and padding.
    pub fn width(&self) -> usize {
        self.totals.len()
    }

    /// Two hundred made-up words for each topic, spread as in the corpus but for noise: (½ + ½E), E ~ Exp(1), times the
    /// word's frequency. Without noise all topics would stay equal.
    pub fn noise(corpus: &Corpus, topics: usize, seed: Seed) -> Self {
        let mut statistics = Self::new(corpus.vocabulary(), topics);
        let (width, frequencies) = (statistics.width(), corpus.frequencies());
        let tokens: f64 = frequencies.iter().sum();
        let share = |w: usize| if tokens > 0.0 { NOISE * frequencies[w] / tokens } else { 0.0 };
        let draw = |w: usize, row: &mut [f32]| {
            let words = Address::new(seed, Stream::Topic, BlockIndex(0), w as u32).sequence();
            for (value, word) in row.iter_mut().zip(words) {
                *value = (share(w) * 0.5 * (1.0 - uniform_open(word).ln())) as f32;
            }
        };
        let rows = statistics.values.par_chunks_exact_mut(width).enumerate();
        rows.for_each(|(w, row)| draw(w, &mut row[..topics]));
        statistics.sum();
        statistics
    }

    /// Computes the totals, rows in order.
    pub fn sum(&mut self) {
        self.totals.fill(0.0);
        for row in self.values.chunks_exact(self.totals.len()) {
            self.totals.iter_mut().zip(row).for_each(|(sum, &v)| *sum += f64::from(v));
        }
    }

    /// N ← keep·N + scale·other.
    pub fn mix(&mut self, keep: f64, scale: f64, other: &Self) {
        let (a, b) = (keep as f32, scale as f32);
        self.values.iter_mut().zip(&other.values).for_each(|(n, &m)| *n = a * *n + b * m);
        self.sum();
    }

    /// Sets everything to zero.
    pub fn clear(&mut self) {
        self.values.fill(0.0);
        self.totals.fill(0.0);
    }
}
