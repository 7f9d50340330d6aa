//! The one loop around every solver.

use super::{CheckpointPolicy, Control, Due, Phase, Progress};
use crate::error::Result;
use crate::solver::{Solver, StepInfo};
use std::time::Instant;

/// Share of a step that the time budget must have room for.
const MOST: f64 = 0.75;

/// Where the batches of a solver come from.
pub trait Batches<S: Solver> {
    /// The next batch; `None` at the end of a pass.
    fn next(&mut self) -> Result<Option<S::Batch<'_>>>;

    /// Begins another pass.
    fn rewind(&mut self) -> Result<()>;
}

/// What is watched while a solver runs, and when it ends.
pub trait Monitor<S: Solver> {
    /// Whether the run is over; asked before every step. By default it ends with the batches.
    fn finished(&mut self, _state: &S::State) -> bool {
        false
    }

    /// After a step: takes note of it and says where the run stands.
    fn observe(&mut self, state: &S::State, info: S::Info) -> Result<Progress>;

    /// At the end of the batches: whether another pass begins.
    fn begins_another_pass(&mut self, _state: &S::State) -> bool {
        false
    }

    /// Writes a checkpoint; nothing unless the run can be resumed.
    fn save(&self, _state: &S::State, _policy: &CheckpointPolicy) -> Result<()> {
        Ok(())
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The monitor said so.
    Finished,
    /// The batches were used up.
    Exhausted,
    /// The time budget was spent.
    OutOfTime,
}

/// Steps until the monitor is satisfied, the batches are used up or the time is; the observer of `control` is told of every
/// step, a cancelled run ends with [`crate::Error::Cancelled`], and checkpoints are written when they are due. However short
/// the time, one step is taken; another one only if most of it would fit, were it as long as the last.
pub fn run<S: Solver>(
    solver: &S,
    state: &mut S::State,
    batches: &mut impl Batches<S>,
    monitor: &mut impl Monitor<S>,
    control: &mut Control<'_>,
) -> Result<Ended> {
    let mut due = Due::new();
    loop {
        if monitor.finished(state) {
            return Ok(Ended::Finished);
        }
        let Some(batch) = batches.next()? else {
            if !monitor.begins_another_pass(state) {
                return Ok(Ended::Exhausted);
            }
            batches.rewind()?;
            continue;
        };
        let begun = Instant::now();
        let info = solver.step(state, batch)?;
        let took = begun.elapsed();
        let progress = monitor.observe(state, info)?;
        control.report(progress)?;
        if let Some(policy) = &control.checkpoint {
            if due.now(policy) {
                monitor.save(state, policy)?;
            }
        }
        if !monitor.finished(state) && control.ends_within(took.mul_f64(MOST)) {
            return Ok(Ended::OutOfTime);
        }
    }
}

/// The plainest monitor: so many steps, or so many passes over the batches.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    phase: Phase,
    /// Steps in the end.
    most: usize,
    passes: usize,
    done: usize,
}

impl Steps {
    /// Ends after `most` steps.
    pub fn new(phase: Phase, most: usize) -> Self {
        Self { phase, most, passes: usize::MAX, done: 0 }
    }

    /// Ends after `passes` passes over batches of which a pass has `length`.
    pub fn passes(phase: Phase, passes: usize, length: usize) -> Self {
        Self { phase, most: passes.saturating_mul(length), passes, done: 0 }
    }

    /// The same after `done` steps of such passes.
    pub(crate) fn after(self, done: usize, length: usize) -> Self {
        Self { done, passes: self.passes.saturating_sub(done / length.max(1)), ..self }
    }
}

impl<S: Solver> Monitor<S> for Steps {
    fn finished(&mut self, _: &S::State) -> bool {
        self.done >= self.most
    }

    fn observe(&mut self, _: &S::State, info: S::Info) -> Result<Progress> {
        self.done += 1;
        Ok(Progress::new(self.phase, self.done, self.most, info.loss()))
    }

    fn begins_another_pass(&mut self, _: &S::State) -> bool {
        self.passes = self.passes.saturating_sub(1);
        self.passes > 0
    }
}
