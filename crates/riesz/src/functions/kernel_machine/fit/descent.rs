//! Adding blocks: when to stop, and what is done with the held-out rows then.

use super::checkpoint::Resumed;
use super::{Fit, Outcome};
use crate::driver::{run, Again, CheckpointPolicy, Control, Monitor, Phase, Progress};
use crate::error::Result;
use crate::functions::kernel_machine::calibration::Calibration;
use crate::functions::kernel_machine::findings::Findings;
use crate::functions::kernel_machine::learnt::Learnt;
use crate::functions::kernel_machine::machine::HistoryEntry;
use crate::functions::kernel_machine::race::{Choice, Trial};
use crate::functions::kernel_machine::start::in_units;
use crate::solver::{weighted_loss, BlockDescent, BlockDescentConfig, BlockInfo, BlockState, Problem, Sweep};
use crate::space::FeatureExpansion;

/// A held-out error that fell by less than this share has stopped falling.
const ERROR_TOLERANCE: f64 = 0.02;

/// How a fit has gone so far: what a checkpoint holds beside the state of the solver.
pub(super) struct Log {
    pub choice: Choice,
    pub history: Vec<HistoryEntry>,
    /// Blocks at the lowest held-out loss.
    pub best: usize,
    /// Blocks in the end, once early stopping has decided.
    pub absorbing: Option<usize>,
    pub calibration: Option<Calibration>,
    /// What is added to each quantile in the end.
    pub shifts: Option<Vec<f32>>,
}

impl Fit<'_> {
    /// Fits by block descent, from the beginning or from a checkpoint.
    pub(super) fn block(&self, control: &mut Control<'_>) -> Result<Outcome> {
        let checkpoint = control.checkpoint.clone();
        let (mut state, mut log) = match &checkpoint {
            Some(policy) => self.resume_or_begin(policy, control)?,
            None => self.begin(&mut Findings::new(), control)?,
        };
        let solver = self.config(log.choice.damping).build()?;
        if log.absorbing.is_none() {
            self.descend(&solver, &mut state, &mut log, control)?;
            self.settle(&solver, &mut state, &mut log)?;
        }
        self.absorb(&solver, &mut state, &mut log, control)?;
        if self.small {
            log.shifts = self.cross_validated_shifts(&solver, &state.f, control)?;
        }
        if let Some(policy) = &checkpoint {
            // The model is complete: a later fit must not find half of it.
            policy.discard()?;
        }
        let Log { choice, history, calibration, shifts, .. } = log;
        let f = Learnt::Features(in_units(state.f, &self.units, shifts.as_deref()));
        Ok(Outcome { f, standard: choice.standard, metric: None, calibration, history })
    }

    /// Goes on where the checkpoint, if there is one, stands: among the blocks or in the race.
    fn resume_or_begin(
        &self,
        policy: &CheckpointPolicy,
        control: &mut Control<'_>,
    ) -> Result<(BlockState, Log)> {
        let found = match policy.path.exists() {
            true => match self.resume(&policy.path)? {
                Resumed::Blocks(stand) => return Ok(*stand),
                Resumed::Race(outlooks) => outlooks,
            },
            false => Vec::new(),
        };
        let write = |outlooks: &[f64]| self.save_race(outlooks, policy);
        self.begin(&mut Findings::kept(found, policy, &write), control)
    }

    pub(super) fn begin(
        &self,
        findings: &mut Findings<'_>,
        control: &mut Control<'_>,
    ) -> Result<(BlockState, Log)> {
        let (setting, trial) = self.choose(findings, control)?;
        let (state, entries) = match trial {
            Some(Trial { state, history }) => (state, history),
            None => {
                let f = FeatureExpansion::new(self.map(&setting)?, self.offset.clone());
                (BlockDescentConfig::default().build()?.init(f, self.rows)?, Vec::new())
            }
        };
        let choice = setting.choice();
        let mut log =
            Log { choice, history: Vec::new(), best: 0, absorbing: None, calibration: None, shifts: None };
        entries.into_iter().for_each(|entry| self.enter(&mut log, entry));
        Ok((state, log))
    }

    /// Adds blocks until the budget is spent or the held-out loss no longer falls, then sweeps if asked to.
    pub(super) fn descend(
        &self,
        solver: &BlockDescent,
        state: &mut BlockState,
        log: &mut Log,
        control: &mut Control<'_>,
    ) -> Result<()> {
        // A trial that has used up the time is the fit.
        if control.out_of_time() && !state.f.is_empty() {
            return Ok(());
        }
        let (problem, most) = (self.problem(), self.max_blocks());
        let mut watch = Watch { fit: self, log, phase: Phase::Fit, most, sweeps: 0 };
        run(solver, state, &mut Again(problem), &mut watch, control)?;
        watch.sweeps = self.options.sweeps * state.f.len();
        run(&Sweep(solver), state, &mut Again(problem), &mut watch, control)?;
        Ok(())
    }

    /// Whether the held-out loss has stopped falling.
    fn stopped(&self, log: &Log) -> bool {
        let done = log.history.len();
        let window = self.window();
        if !self.has_hold_out() || done <= 2 * window {
            return false;
        }
        let held = |b: usize| log.history[b].held_out_loss.unwrap_or(f64::INFINITY);
        let rising = done - log.best >= window.max(log.best / 5);
        let tolerance = self.loss.stopping_tolerance();
        let stalled = held(done - 1) > (1.0 - tolerance) * held(done - 1 - window);
        rising || stalled && !self.error_falls(log)
    }

    /// Whether the held-out error was lower in the last two windows than ever before, by a share that is more than one
    /// or two rows; `false` for regression.
    fn error_falls(&self, log: &Log) -> bool {
        let lowest = |some: &[HistoryEntry]| {
            some.iter().filter_map(|entry| entry.held_out_error).fold(f64::INFINITY, f64::min)
        };
        let (before, recent) = log.history.split_at(log.history.len() - 2 * self.window());
        lowest(recent) < (1.0 - ERROR_TOLERANCE) * lowest(before)
    }

    /// Adds to the history and keeps count of the best.
    fn enter(&self, log: &mut Log, mut entry: HistoryEntry) {
        if !self.has_hold_out() {
            (entry.held_out_loss, entry.held_out_error) = (None, None);
        }
        log.history.push(entry);
        let best = |b: usize| log.history[b].held_out_loss.unwrap_or(f64::INFINITY);
        let last = log.history.len();
        if log.best == 0 || best(last - 1) < best(log.best - 1) || !self.has_hold_out() {
            log.best = last;
        }
    }

    /// Where block descent stands, by the held-out rows too while these are held out.
    fn progress(&self, state: &BlockState, loss: f64, phase: Phase, most: usize) -> Progress {
        let held = self.has_hold_out() && phase == Phase::Fit;
        let held_out = || weighted_loss(&*self.loss, &self.targets, &self.held, &state.predictions);
        Progress {
            held_out_loss: held.then(held_out),
            held_out_error: held.then(|| self.held_out_error(&state.predictions)).flatten(),
            ..Progress::new(phase, state.f.len(), most, loss)
        }
    }

    /// Cuts back to the best number of blocks and calibrates the scores on the held-out rows.
    fn settle(&self, solver: &BlockDescent, state: &mut BlockState, log: &mut Log) -> Result<()> {
        if log.best < state.f.len() {
            let mut f = state.f.clone();
            f.truncate(log.best);
            *state = solver.init(f, self.rows)?;
        }
        let blocks = state.f.len();
        log.absorbing = Some(if self.has_hold_out() { blocks + blocks.div_ceil(10) } else { blocks });
        if !self.has_hold_out() {
            return Ok(());
        }
        log.shifts = self.shifts(&state.predictions, &self.held);
        if self.loss.domain().is_class() && self.loss.probabilities().is_none() {
            log.calibration = Some(self.calibration(&state.predictions));
        }
        Ok(())
    }

    /// The link from scores to probabilities that fits the held-out rows.
    pub(super) fn calibration(&self, predictions: &[f32]) -> Calibration {
        let c = self.loss.outputs();
        let rows: Vec<usize> = (0..self.held.len()).filter(|&i| self.held[i] > 0.0).collect();
        let scores: Vec<f32> = rows.iter().flat_map(|&i| &predictions[i * c..(i + 1) * c]).copied().collect();
        let labels: Vec<usize> = rows.iter().map(|&i| self.label(i)).collect();
        let weights: Vec<f32> = rows.iter().map(|&i| self.held[i]).collect();
        Calibration::fit(&scores, c, &labels, &weights)
    }

    /// A tenth more blocks on all rows: the held-out ones have served their purpose and are learnt from too.
    pub(super) fn absorb(
        &self,
        solver: &BlockDescent,
        state: &mut BlockState,
        log: &mut Log,
        control: &mut Control<'_>,
    ) -> Result<()> {
        if control.out_of_time() {
            return Ok(());
        }
        let weights: Vec<f32> = self.weights.iter().zip(&self.held).map(|(a, b)| a + b).collect();
        let problem = Problem { weights: &weights, ..self.problem() };
        let most = log.absorbing.unwrap_or(0);
        let mut watch = Watch { fit: self, log, phase: Phase::Absorb, most, sweeps: 0 };
        run(solver, state, &mut Again(problem), &mut watch, control)?;
        Ok(())
    }
}

/// Keeps the log of a fit and says when it is over.
struct Watch<'m, 'a> {
    fit: &'m Fit<'a>,
    log: &'m mut Log,
    phase: Phase,
    /// Blocks in the end.
    most: usize,
    /// Blocks still to be revisited.
    sweeps: usize,
}

impl Monitor<BlockDescent> for Watch<'_, '_> {
    fn finished(&mut self, state: &BlockState) -> bool {
        match self.phase {
            Phase::Fit => self.log.history.len() >= self.most || self.fit.stopped(self.log),
            _ => state.f.len() >= self.most,
        }
    }

    fn observe(&mut self, state: &BlockState, info: BlockInfo) -> Result<Progress> {
        self.fit.rows.fault()?;
        let progress = self.fit.progress(state, info.loss, self.phase, self.most);
        if self.phase == Phase::Fit {
            let Progress { done: block, loss, held_out_loss, held_out_error, .. } = progress;
            self.fit.enter(self.log, HistoryEntry { block, loss, held_out_loss, held_out_error });
        }
        Ok(progress)
    }

    fn save(&self, state: &BlockState, policy: &CheckpointPolicy) -> Result<()> {
        self.fit.save(state, self.log, policy)
    }
}

impl Monitor<Sweep<'_>> for Watch<'_, '_> {
    fn finished(&mut self, _: &BlockState) -> bool {
        self.sweeps == 0
    }

    fn observe(&mut self, state: &BlockState, info: BlockInfo) -> Result<Progress> {
        self.fit.rows.fault()?;
        self.sweeps -= 1;
        Ok(self.fit.progress(state, info.loss, self.phase, self.most))
    }
}
