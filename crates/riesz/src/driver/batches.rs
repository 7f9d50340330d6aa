//! Batches of data that are in memory.

use super::Batches;
use crate::data::Rows;
use crate::error::Result;
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use crate::solver::{KernelProblem, Problem, Samples, Solver};
use std::ops::Range;

/// The same batch again and again, for solvers that see all data in every step.
#[derive(Clone, Copy)]
pub struct Again<B>(pub B);

macro_rules! again {
    ($batch:ident) => {
        impl<S> Batches<S> for Again<$batch<'_>>
        where
            S: for<'a> Solver<Batch<'a> = $batch<'a>>,
        {
            fn next(&mut self) -> Result<Option<$batch<'_>>> {
                Ok(Some(self.0))
            }

            fn rewind(&mut self) -> Result<()> {
                Ok(())
            }
        }
    };
}

again!(Problem);
again!(KernelProblem);

/// Rows with targets and weights, a batch at a time: in their order, or in a new random order in every pass. Batches of total
/// weight zero are passed over.
#[derive(Debug)]
pub struct Minibatches<'d> {
    rows: Rows<'d>,
    targets: &'d [f32],
    weights: &'d [f32],
    size: usize,
    shuffle: Option<Seed>,
    order: Vec<u32>,
    pass: u64,
    next: usize,
    x: Vec<f32>,
    y: Vec<f32>,
    w: Vec<f32>,
}

impl<'d> Minibatches<'d> {
    /// Batches of `size` rows; `targets` has the same number for every row. With a seed the order is random.
    pub fn new(
        rows: Rows<'d>,
        targets: &'d [f32],
        weights: &'d [f32],
        size: usize,
        shuffle: Option<Seed>,
    ) -> Self {
        let (x, y, w, order) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut batches = Self { rows, targets, weights, size, shuffle, order, pass: 0, next: 0, x, y, w };
        batches.draw_order();
        batches
    }

    /// Batches of a pass.
    pub fn len(&self) -> usize {
        self.rows.len().div_ceil(self.size)
    }

    /// Whether there is no batch.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Leaves out what comes before row `row` in the order of this pass.
    pub fn skip_to(&mut self, row: usize) {
        self.next = row;
    }

    fn draw_order(&mut self) {
        if let Some(seed) = self.shuffle {
            let order = Permutation::new(seed, Stream::Shuffle, BlockIndex(self.pass), self.rows.len());
            self.order = order.indices().to_vec();
        }
    }

    /// Rows `range` in random order, copied.
    fn gather(&mut self, range: Range<usize>) -> Result<Samples<'_, Rows<'_>>> {
        let some = &self.order[range];
        let t = self.targets.len() / self.rows.len();
        self.rows.gather_into(some, &mut self.x);
        self.y.clear();
        self.w.clear();
        for &i in some {
            self.y.extend_from_slice(&self.targets[i as usize * t..][..t]);
            self.w.push(self.weights[i as usize]);
        }
        let batch = Rows::single(&self.x, self.rows.columns())?;
        Ok(Samples { batch, targets: &self.y, weights: &self.w })
    }
}

impl<S> Batches<S> for Minibatches<'_>
where
    S: for<'a> Solver<Batch<'a> = Samples<'a, Rows<'a>>>,
{
    fn next(&mut self) -> Result<Option<Samples<'_, Rows<'_>>>> {
        let n = self.rows.len();
        while self.next < n {
            let range = self.next..(self.next + self.size).min(n);
            self.next = range.end;
            let weight =
                |k: usize| self.weights[if self.shuffle.is_some() { self.order[k] as usize } else { k }];
            if range.clone().all(|k| weight(k) == 0.0) {
                continue;
            }
            if self.shuffle.is_some() {
                return self.gather(range).map(Some);
            }
            let t = self.targets.len() / n;
            return Ok(Some(Samples {
                batch: self.rows.slice(range.clone()),
                targets: &self.targets[range.start * t..range.end * t],
                weights: &self.weights[range],
            }));
        }
        Ok(None)
    }

    fn rewind(&mut self) -> Result<()> {
        (self.pass, self.next) = (self.pass + 1, 0);
        self.draw_order();
        Ok(())
    }
}
