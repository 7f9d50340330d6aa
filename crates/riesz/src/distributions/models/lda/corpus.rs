//! Documents as bags of words.

use crate::data::Rows;
use crate::error::{Error, Result};
use std::ops::Range;

/// Documents as bags of words: the distinct words of each with their counts, by word.
#[derive(Clone, Debug, PartialEq)]
pub struct Corpus {
    starts: Vec<usize>,
    words: Vec<u32>,
    counts: Vec<f32>,
    vocabulary: usize,
}

/// One document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bag<'a> {
    /// Its distinct words.
    pub words: &'a [u32],
    /// How often each of them occurs.
    pub counts: &'a [f32],
}

impl Bag<'_> {
    /// How many words it has, repeated ones included.
    pub fn length(&self) -> f64 {
        self.counts.iter().map(|&c| f64::from(c)).sum()
    }
}

impl Corpus {
    /// Reads documents (rows) over a vocabulary (columns). Counts must be finite and not negative; they need not be whole
    /// numbers. A document may be empty.
    pub fn new(rows: Rows<'_>) -> Result<Self> {
        if rows.is_empty() {
            return Err(Error::Empty { what: "X", needed: "one document" });
        }
        if rows.columns() > u32::MAX as usize {
            return Err(Error::Conflict("X has more than 2^32 columns".into()));
        }
        rows.check_finite("X")?;
        let mut corpus = Self {
            starts: Vec::with_capacity(rows.len() + 1),
            words: vec![],
            counts: vec![],
            vocabulary: rows.columns(),
        };
        let mut entries = Vec::new();
        for row in 0..rows.len() {
            corpus.starts.push(corpus.words.len());
            rows.non_zeros(row, &mut entries);
            for &(column, value) in &entries {
                if value < 0.0 {
                    let expected = "zero or more";
                    return Err(Error::Count { value, row, column, expected });
                }
                corpus.words.push(column as u32);
                corpus.counts.push(value as f32);
            }
        }
        corpus.starts.push(corpus.words.len());
        Ok(corpus)
    }

    /// Number of documents D.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of words W there could be.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// How many words all documents have, repeated ones included.
    pub fn tokens(&self) -> f64 {
        self.counts.iter().map(|&c| f64::from(c)).sum()
    }

    /// Document d.
    pub(super) fn document(&self, d: usize) -> Bag<'_> {
        let span = self.span(d);
        Bag { words: &self.words[span.clone()], counts: &self.counts[span] }
    }

    pub(super) fn span(&self, d: usize) -> Range<usize> {
        self.starts[d]..self.starts[d + 1]
    }

    /// How often each word occurs.
    pub(super) fn frequencies(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.vocabulary];
        self.words.iter().zip(&self.counts).for_each(|(&w, &c)| sums[w as usize] += f64::from(c));
        sums
    }

    /// Refuses counts that are not whole numbers.
    pub(super) fn check_whole(&self) -> Result<()> {
        let Some(at) = self.counts.iter().position(|c| c.fract() != 0.0) else { return Ok(()) };
        let row = self.starts.partition_point(|&start| start <= at) - 1;
        let (value, column) = (f64::from(self.counts[at]), self.words[at] as usize);
        Err(Error::Count { value, row, column, expected: "whole numbers in paper mode" })
    }
}
