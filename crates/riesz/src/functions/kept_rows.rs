//! Rows that a stream keeps: the first ones, until they have settled everything, and those that do not make a batch yet.

use crate::data::Rows;
use crate::driver::Batches;
use crate::error::{Error, Result};
use crate::model::Container;
use crate::solver::{Samples, Solver};

/// First rows of a stream that are kept.
pub(crate) const CAPACITY: usize = 8_192;

/// Rows with encoded targets and explicit weights.
#[derive(Clone, Copy)]
pub(crate) struct Labelled<'a> {
    pub rows: Rows<'a>,
    pub targets: &'a [f32],
    pub weights: &'a [f32],
}

/// Rows of positive weight, targets and weights that were copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRows {
    pub x: Vec<f32>,
    pub y: Vec<f32>,
    pub w: Vec<f32>,
}

impl KeptRows {
    pub(crate) fn len(&self) -> usize {
        self.w.len()
    }

    /// The rows themselves; there must be one.
    pub(crate) fn rows(&self) -> Result<Rows<'_>> {
        Rows::single(&self.x, self.x.len() / self.len())
    }

    /// Appends rows of positive weight in the given order until there are `most`; returns how many rows were looked at.
    pub(crate) fn append_until(
        &mut self,
        most: usize,
        data: Labelled<'_>,
        order: impl IntoIterator<Item = u32>,
    ) -> usize {
        let (t, mut taken) = (data.targets.len() / data.rows.len(), 0);
        let heavy = order.into_iter().inspect(|_| taken += 1).filter(|&i| data.weights[i as usize] > 0.0);
        let some: Vec<u32> = heavy.take(most.saturating_sub(self.len())).collect();
        data.rows.gather_behind(&some, &mut self.x);
        for i in some.into_iter().map(|i| i as usize) {
            self.y.extend_from_slice(&data.targets[i * t..(i + 1) * t]);
            self.w.push(data.weights[i]);
        }
        taken
    }

    /// Whether the first rows are to settle everything anew, after `settled` of them did: there are twice as many, or enough.
    pub(crate) fn are_due(&self, settled: usize) -> bool {
        self.len() >= CAPACITY.min(2 * settled)
    }

    /// Adds the rows to a container, as `name`.x, .y and .w.
    pub(crate) fn store(&self, container: &mut Container, name: &str) -> Result<()> {
        for (part, values) in [("x", &self.x), ("y", &self.y), ("w", &self.w)] {
            container.insert(&format!("{name}.{part}"), vec![values.len()], values.clone())?;
        }
        Ok(())
    }

    /// Takes out what [`KeptRows::store`] added: rows of `columns` columns with so many targets each.
    pub(crate) fn restore(
        container: &mut Container,
        name: &str,
        columns: usize,
        targets: usize,
    ) -> Result<Self> {
        let n = container.f32s(&format!("{name}.w"))?.1.len();
        let mut take = |part: &str, size: usize| container.take_f32s(&format!("{name}.{part}"), &[n * size]);
        let kept = Self { x: take("x", columns)?, y: take("y", targets)?, w: take("w", 1)? };
        match kept.w.iter().all(|w| *w > 0.0) {
            true => Ok(kept),
            false => Err(Error::Format(format!("{name}: rows are kept that have no weight"))),
        }
    }
}

/// Batches of `size` rows of positive weight, whichever calls they came with: rows that wait, and then those of `data` from
/// the `next`-th on. What does not make a batch waits for the next call.
pub(crate) struct Across<'d> {
    waiting: &'d mut KeptRows,
    data: Labelled<'d>,
    next: usize,
    size: usize,
    batch: KeptRows,
}

impl<'d> Across<'d> {
    pub(crate) fn new(waiting: &'d mut KeptRows, data: Labelled<'d>, next: usize, size: usize) -> Self {
        Self { waiting, data, next, size, batch: KeptRows::default() }
    }

    /// Batches there are, if no weight is zero.
    pub(crate) fn len(&self) -> usize {
        (self.waiting.len() + self.data.rows.len() - self.next) / self.size
    }

    /// Lets rows wait until they make a batch; whether they do.
    pub(crate) fn fill(&mut self) -> bool {
        let rest = self.next as u32..self.data.rows.len() as u32;
        self.next += self.waiting.append_until(self.size, self.data, rest);
        self.waiting.len() >= self.size
    }
}

impl<S> Batches<S> for Across<'_>
where
    S: for<'a> Solver<Batch<'a> = Samples<'a, Rows<'a>>>,
{
    fn next(&mut self) -> Result<Option<Samples<'_, Rows<'_>>>> {
        if !self.fill() {
            return Ok(None);
        }
        self.batch = std::mem::take(self.waiting);
        let KeptRows { y, w, .. } = &self.batch;
        Ok(Some(Samples { batch: self.batch.rows()?, targets: y, weights: w }))
    }

    /// There is one pass: rows that were learnt from are gone.
    fn rewind(&mut self) -> Result<()> {
        Ok(())
    }
}
