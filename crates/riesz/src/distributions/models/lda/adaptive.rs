//! Adaptive mode: incremental collapsed variational Bayes.
//!
//! The mirror step with the assignments of a batch replaced by their expectations given all other words, to zeroth order
//!
//! ```text
//! γ_{dwk} ∝ (n_dk − γ_{dwk} + α_k) (N_wk + η) / (N_k + Wη),   n_dk = Σ_w c_dw γ_{dwk},   N_wk = Σ_d c_dw γ_{dwk}
//! ```
//!
//! In a pass, N is what this pass has seen plus what the last pass said of the rest: N ← current + (1 − f)·previous after a
//! share f of the documents. At the end of a pass N is exactly the sum over all documents, and no step size is needed. The
//! document's own share of the last pass is taken out of N before the document is settled.

use super::corpus::Corpus;
use super::infer::{Effort, Topics};
use super::options::LdaOptions;
use super::statistics::Statistics;
use crate::compute::{add_responsibilities, Device};
use rayon::prelude::*;

/// Documents of the first batch; later ones grow by a fifth …
const FIRST_BATCH: f64 = 32.0;
const GROWTH: f64 = 1.2;
/// … up to so many.
const LAST_BATCH: f64 = 256.0;
/// Sweeps over a document in its first pass and in later ones, which start where the last one ended.
const FIRST_SWEEPS: usize = 20;
const LATER_SWEEPS: usize = 10;
/// A document is settled when a sweep moves less than this share of it.
const TOLERANCE: f32 = 0.01;
/// Numbers kept to start later passes from: one gigabyte. Documents beyond start afresh.
const REMEMBERED: usize = 1 << 28;

/// Sizes of batches: one that is given, or growing ones.
pub(super) struct Batches {
    given: Option<usize>,
    next: f64,
}

impl Batches {
    /// From the options.
    pub fn new(options: &LdaOptions) -> Self {
        Self { given: options.batch_size, next: FIRST_BATCH }
    }

    /// The size of the next batch.
    pub fn size(&mut self) -> usize {
        let now = self.next;
        self.next = (now * GROWTH).min(LAST_BATCH);
        self.given.unwrap_or(now as usize)
    }
}

/// Expected counts of the topics of documents, between passes.
pub(super) struct Memory {
    /// Padded rows, of the first documents.
    pub expected: Vec<f32>,
    width: usize,
}

impl Memory {
    /// Room for a corpus, or for as much of it as there should be.
    pub fn new(documents: usize, width: usize) -> Self {
        Self { expected: vec![0.0; documents.min(REMEMBERED / width) * width], width }
    }

    fn row(&mut self, d: usize) -> Option<&mut [f32]> {
        self.expected.get_mut(d * self.width..(d + 1) * self.width)
    }
}

/// One batch: which documents, and how much of them is in the statistics already.
pub(super) struct Batch<'a> {
    /// The corpus …
    pub corpus: &'a Corpus,
    /// … and which of its documents.
    pub documents: &'a [u32],
    /// Whether they have been visited before.
    pub again: bool,
    /// The share of the last pass that is in the topics.
    pub own: f32,
}

/// What a batch contributes, in buffers that are used again.
#[derive(Default)]
pub(super) struct Contribution {
    responsibilities: Vec<f32>,
    expected: Vec<f32>,
}

impl Contribution {
    /// Settles the documents of a batch under fixed topics, each on its own.
    pub fn settle(&mut self, batch: &Batch<'_>, topics: &Topics<'_>, memory: &mut Memory) {
        let width = memory.width;
        let words: usize = batch.documents.iter().map(|&d| batch.corpus.span(d as usize).len()).sum();
        self.responsibilities.resize(words * width, 0.0);
        self.expected.clear();
        self.expected.resize(batch.documents.len() * width, 0.0);
        let mut rest = self.responsibilities.as_mut_slice();
        let mut parts = Vec::with_capacity(batch.documents.len());
        for (&d, expected) in batch.documents.iter().zip(self.expected.chunks_exact_mut(width)) {
            let bag = batch.corpus.document(d as usize);
            let (responsibilities, after) = rest.split_at_mut(bag.words.len() * width);
            rest = after;
            let known = memory.row(d as usize).filter(|_| batch.again);
            let own = if known.is_some() { batch.own } else { 0.0 };
            if let Some(known) = known {
                expected.copy_from_slice(known);
            }
            parts.push((bag, expected, responsibilities, own));
        }
        let sweeps = if batch.again { LATER_SWEEPS } else { FIRST_SWEEPS };
        let effort = Effort { sweeps, tolerance: TOLERANCE };
        parts.into_par_iter().for_each_init(Vec::new, |buffer, (bag, expected, responsibilities, own)| {
            topics.settle(bag, expected, responsibilities, buffer, own, effort);
        });
        for (&d, expected) in batch.documents.iter().zip(self.expected.chunks_exact(width)) {
            if let Some(row) = memory.row(d as usize) {
                row.copy_from_slice(expected);
            }
        }
    }

    /// N += the batch's. Threads divide the words; the documents of a word are added in their order.
    pub fn add_to(&self, statistics: &mut Statistics, corpus: &Corpus, documents: &[u32]) {
        let (width, device) = (statistics.width(), Device::default());
        let rows = corpus.vocabulary().div_ceil(rayon::current_num_threads()).max(1);
        let chunks = statistics.values.par_chunks_mut(rows * width).enumerate();
        chunks.for_each(|(part, chunk)| {
            let mut rest = self.responsibilities.as_slice();
            for &d in documents {
                let bag = corpus.document(d as usize);
                let (mine, after) = rest.split_at(bag.words.len() * width);
                rest = after;
                add_responsibilities(device, chunk, (part * rows) as u32, bag.words, bag.counts, mine);
            }
        });
        for row in self.expected.chunks_exact(width) {
            statistics.totals.iter_mut().zip(row).for_each(|(sum, &n)| *sum += f64::from(n));
        }
    }
}
