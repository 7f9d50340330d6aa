//! The loop around a solver: progress, cancellation, time budget, checkpoints.

mod batches;
mod checkpoint;
mod run;

pub use batches::{Again, Minibatches};
pub(crate) use checkpoint::{same_settings, Due};
pub use checkpoint::{CheckpointPolicy, Fingerprint};
pub use run::{run, Batches, Ended, Monitor, Steps};

use crate::error::{Error, Result};
use std::time::{Duration, Instant};

/// What a fit is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Racing bandwidths.
    Race,
    /// Adding blocks.
    Fit,
    /// Learning from the held-out rows too, with the number of blocks settled.
    Absorb,
    /// Conjugate gradients.
    Ridge,
    /// Streaming.
    Stream,
    /// Following a posterior.
    Posterior,
    /// Learning the hyper-parameters of a Gaussian process.
    Hyperparameters,
}

/// Where a fit stands.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Blocks (or iterations) finished.
    pub done: usize,
    /// The most there can be; early stopping may end the fit before.
    pub most: usize,
    /// Mean training loss; of a step that looks at some of the rows, on these.
    pub loss: f64,
    /// Mean loss on the held-out rows.
    pub held_out_loss: Option<f64>,
    /// Share of held-out rows classified wrongly.
    pub held_out_error: Option<f64>,
    /// Since the start of the fit.
    pub elapsed: Duration,
}

impl Progress {
    /// Progress that knows no held-out rows; the time is filled in when it is reported.
    pub fn new(phase: Phase, done: usize, most: usize, loss: f64) -> Self {
        let (held_out_loss, held_out_error, elapsed) = (None, None, Duration::ZERO);
        Self { phase, done, most, loss, held_out_loss, held_out_error, elapsed }
    }
}

/// What the caller wants to know and to decide while a fit runs.
pub struct Control<'a> {
    /// Asked after every block; `true` stops the fit with [`Error::Cancelled`].
    pub cancelled: &'a mut dyn FnMut() -> bool,
    /// Told after every block.
    pub observe: &'a mut dyn FnMut(&Progress),
    /// Where and how often to write checkpoints.
    pub checkpoint: Option<CheckpointPolicy>,
    started: Instant,
    deadline: Option<Instant>,
}

impl<'a> Control<'a> {
    /// A control from its two callbacks.
    pub fn new(cancelled: &'a mut dyn FnMut() -> bool, observe: &'a mut dyn FnMut(&Progress)) -> Self {
        Self { cancelled, observe, checkpoint: None, started: Instant::now(), deadline: None }
    }

    /// Starts the clock of a time budget in seconds.
    pub(crate) fn start(&mut self, max_time: Option<f64>) {
        self.started = Instant::now();
        // A budget beyond the clock's range is no budget.
        let budget = max_time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        self.deadline = budget.and_then(|budget| self.started.checked_add(budget));
    }

    /// Sees that checkpoints, if there are to be any, can be written.
    pub(crate) fn prepare_checkpoint(&self) -> Result<()> {
        self.checkpoint.as_ref().map_or(Ok(()), CheckpointPolicy::prepare)
    }

    /// Whether the time budget is spent.
    pub(crate) fn out_of_time(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether less than so much of the time budget is left; then all of it is spent.
    pub(crate) fn ends_within(&mut self, work: Duration) -> bool {
        let now = Instant::now();
        let ends = self.deadline.is_some_and(|deadline| now + work >= deadline);
        if ends {
            self.deadline = self.deadline.min(Some(now));
        }
        ends
    }

    /// Whether the time budget leaves so much.
    pub(crate) fn leaves(&self, needed: Duration) -> bool {
        self.deadline.is_none_or(|deadline| deadline.saturating_duration_since(Instant::now()) >= needed)
    }

    /// Whether a part of the time budget is left, one of so many: choosing how to learn leaves the rest to learning.
    pub(crate) fn within_part(&self, parts: u32) -> bool {
        self.has_part_for(parts, Duration::ZERO)
    }

    /// Whether so much is left of that part.
    pub(crate) fn has_part_for(&self, parts: u32, work: Duration) -> bool {
        let part = |deadline: Instant| self.started + deadline.duration_since(self.started) / parts;
        self.deadline.is_none_or(|deadline| Instant::now() + work < part(deadline))
    }

    /// Chooses without a look at the clock where a checkpoint may be continued: the same has to be chosen then, however fast the machine is.
    pub(crate) fn unhurried<T>(&mut self, choose: impl FnOnce(&mut Self) -> T) -> T {
        if self.checkpoint.is_none() {
            return choose(self);
        }
        let deadline = self.deadline.take();
        let chosen = choose(self);
        self.deadline = deadline;
        chosen
    }

    /// Seconds since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tells the observer, with the time that has passed, and asks whether to go on.
    pub(crate) fn report(&mut self, progress: Progress) -> Result<()> {
        let progress = Progress { elapsed: self.elapsed(), ..progress };
        (self.observe)(&progress);
        self.check(progress.done)
    }

    /// Asks whether to go on.
    pub(crate) fn check(&mut self, blocks: usize) -> Result<()> {
        if (self.cancelled)() {
            return Err(Error::Cancelled { blocks });
        }
        Ok(())
    }
}

/// Runs `fit` with a control that neither observes nor cancels.
pub fn quietly<T>(fit: impl FnOnce(&mut Control<'_>) -> T) -> T {
    fit(&mut Control::new(&mut || false, &mut |_| {}))
}
