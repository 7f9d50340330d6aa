//! Data of some thousand rows: an expansion over all of them by block Gauss–Seidel.
//!
//! Kernel, metric, bandwidth and damping are first chosen by two halves of some thousand rows, then bandwidth and damping once more by
//! short fits to more rows, judged by those held out. Sweeps end when the held-out loss has stopped falling; then the
//! held-out rows are learnt from too.

use super::directions::leading;
use super::halves::{self, least, Found, Size, DAMPINGS, LEARN};
use super::part::Part;
use super::sample::Sample;
use super::search::{Candidate, Grid};
use super::{Chosen, Start};
use crate::driver::{run, Again, CheckpointPolicy, Control, Monitor, Phase, Progress, Steps};
use crate::error::{Error, Result};
use crate::functions::kernel_machine::calibration::Calibration;
use crate::functions::kernel_machine::fit::{Fit, Outcome};
use crate::functions::kernel_machine::learnt::Learnt;
use crate::functions::kernel_machine::machine::HistoryEntry;
use crate::functions::kernel_machine::metric::{Form, Metric, MetricSpec};
use crate::functions::kernel_machine::options::{Bandwidth, Options, SolverSpec};
use crate::functions::kernel_machine::race::{scaling, CHOICE};
use crate::functions::kernel_machine::training::SMALL;
use crate::kernel::{ClosedForm, KernelSpec, Scaling};
use crate::linalg::lu::product;
use crate::loss::LossSpec;
use crate::memory::room;
use crate::random::{BlockIndex, Permutation, Stream};
use crate::solver::{GaussSeidel, KernelProblem, SweepInfo, SweepState};
use crate::space::{Budget, Dictionary, Raw};
use faer::Mat;

/// Least and most rows on which bandwidth and damping are compared once more, and the share of all rows in between.
const TRIAL: (usize, usize) = (2_048, 6_144);
const TRIAL_SHARE: f64 = 0.35;
/// Sweeps over them.
const TRIAL_SWEEPS: usize = 2;
/// Factors of the bandwidth and of the damping in these trials, and the most of each.
const MOST_FACTORS: usize = 3;
const DAMPING_STEP: f64 = 10.0;
/// Rows of a block: the system of a block of b rows costs b³/3, those of a sweep n b²/3.
const BLOCK: usize = 2_048;
/// Rows of a block of classes, whose errors gain less from larger ones than these cost.
const BLOCK_OF_CLASSES: usize = 1_024;
/// One part of the time budget in so many is for metrics, half of what is for choosing.
const METRIC: u32 = 2 * CHOICE;
/// Risk on the halves, as a multiple of the least, up to which the Laplacian kernel is tried on more rows.
const PROMISING: f64 = 1.1;
/// Rows at which a checkpoint is compared with what was chosen again.
const PROBES: usize = 16;
/// Most sweeps.
pub(crate) const SWEEPS: usize = 16;
/// A sweep that lowers the held-out loss, and the error of classes, by less than this share is the last.
const TOLERANCE: f64 = 0.01;
/// Numbers of the rows that are kept at most, and products of one sweep: above them features are cheaper.
const MOST_NUMBERS: usize = 1 << 24;
const MOST_PRODUCTS: f64 = 4e11;
/// Products of one sweep over rows that are left with few directions, each of which is half the work of a column ([`compute::radial`](crate::compute)).
const MOST_REDUCED: f64 = 8e11;
/// Products of all sweeps over rows of classes, whose errors have stopped falling long before the loss.
const ALL_PRODUCTS: f64 = 1.4e12;
/// Columns up to which classes are fitted as they are; those of more columns in fewer directions.
const MOST_OF_CLASSES: usize = 100;
/// Fewest directions that are expected to be left.
const FEW_DIRECTIONS: usize = 16;
/// Matrices of doubles over the rows that a metric is learnt from.
const MATRICES: usize = 5;
/// What a kernel costs beside its distance, in products.
const KERNEL: f64 = 32.0;

impl Options {
    /// Whether data of this shape, not small, become an expansion over all rows: with squares, a kernel of the distance, rows
    /// held out, and where a sweep is affordable and there is room for the matrices that metrics are learnt with.
    pub(crate) fn is_swept(&self, loss: &LossSpec, rows: usize, columns: usize) -> bool {
        let few = match loss {
            LossSpec::Square => true,
            LossSpec::LeastSquares => columns <= MOST_OF_CLASSES,
            _ => false,
        };
        few && rows.saturating_mul(columns) <= MOST_NUMBERS
            && products(rows, columns) <= MOST_PRODUCTS
            && self.is_expanded()
    }

    /// Whether classes of this shape may become one in fewer directions than there are columns.
    pub(crate) fn is_reducible(&self, loss: &LossSpec, rows: usize, columns: usize) -> bool {
        *loss == LossSpec::LeastSquares
            && self.is_wide(columns)
            && products(rows, FEW_DIRECTIONS) <= MOST_REDUCED
            && self.is_expanded()
    }

    /// Either of the two.
    pub(crate) fn may_be_swept(&self, loss: &LossSpec, rows: usize, columns: usize) -> bool {
        self.is_swept(loss, rows, columns) || self.is_reducible(loss, rows, columns)
    }

    /// Whether directions in which rows of so many columns hardly vary may be left out.
    fn is_wide(&self, columns: usize) -> bool {
        columns > MOST_OF_CLASSES
            && self.metric != MetricSpec::Diagonal
            && !self.metric_forms(columns).is_empty()
    }

    /// Whether nothing asks for something other than an expansion over all rows, and there is room for one.
    fn is_expanded(&self) -> bool {
        self.is_exact()
            && self.early_stopping
            && self.kernel().radial().is_some()
            && room("kernels of all rows", "the rows of X", &[MATRICES, LEARN, LEARN], 8).is_ok()
    }

    /// The same settings for data of so many rows, with blocks where these would become an expansion over all of many rows: blocks keep
    /// within what [`KernelMachine::memory`](crate::functions::KernelMachine::memory) says.
    pub fn by_blocks(self, rows: usize) -> Self {
        match rows >= SMALL && self.is_exact() {
            true => Self { solver: SolverSpec::Block, ..self },
            false => self,
        }
    }
}

/// Products of one sweep over rows of so many columns.
fn products(rows: usize, columns: usize) -> f64 {
    (rows as f64).powi(2) * (columns as f64 + KERNEL)
}

/// What some thousand rows have decided: the best settings without a metric, with one where it does better, and of a kernel of other distances.
pub(crate) struct Choices {
    plain: Chosen,
    pub(super) with: Option<Chosen>,
    /// With the Laplacian kernel, where it may do better.
    absolute: Option<Chosen>,
}

impl Choices {
    /// The metric that does better than none, and the kernel that goes with it.
    pub(crate) fn metric(self) -> Option<(Metric, KernelSpec)> {
        self.with.and_then(Chosen::metric)
    }
}

/// Settings that are compared by short fits to a part of the rows.
struct Race<'m, 'a> {
    fit: &'m Fit<'a>,
    part: Part,
    /// The least held-out loss so far, and the settings it belongs to.
    best: f64,
    chosen: Chosen,
}

impl Race<'_, '_> {
    /// Whether other settings with the same metric do better; then they are taken.
    fn takes(&mut self, next: Chosen, control: &mut Control<'_>) -> Result<bool> {
        if !control.within_part(CHOICE) {
            return Ok(false);
        }
        let risk = self.fit.trial(&self.part, &next, control)?;
        let better = risk < self.best;
        if better {
            (self.best, self.chosen) = (risk, next);
        }
        Ok(better)
    }
}

/// How the sweeps have gone: what a checkpoint holds.
#[derive(Clone)]
pub(in super::super) struct Swept {
    pub state: SweepState,
    /// f at the rows held out.
    pub judged: Vec<f32>,
    pub history: Vec<HistoryEntry>,
    /// Whether the held-out loss has stopped falling.
    pub settled: bool,
}

impl Fit<'_> {
    /// Fits an expansion over all rows.
    pub(crate) fn sweeps(&self, control: &mut Control<'_>) -> Result<Outcome> {
        // A checkpoint of something else is refused before anything is chosen.
        let kept = self.kept(control)?;
        let chosen = self.choices(control)?;
        self.swept(kept, chosen, control)
    }

    /// What as many rows as there may be say.
    pub(crate) fn choices(&self, control: &mut Control<'_>) -> Result<Choices> {
        control.unhurried(|control| self.chosen_of_many(self.halves(), control))
    }

    /// The same where it has been chosen already what may be compared.
    pub(crate) fn sweeps_of(&self, chosen: Choices, control: &mut Control<'_>) -> Result<Outcome> {
        self.swept(self.kept(control)?, chosen, control)
    }

    /// What a checkpoint holds, or the beginning.
    fn kept(&self, control: &Control<'_>) -> Result<Swept> {
        let found = control.checkpoint.as_ref().filter(|policy| policy.path.exists());
        let judges = self.held.iter().filter(|&&w| w > 0.0).count();
        let start = Swept {
            state: SweepState::new(&self.offset, self.rows.len()),
            judged: self.offset.iter().copied().cycle().take(judges * self.offset.len()).collect(),
            history: Vec::new(),
            settled: false,
        };
        found.map_or(Ok(start), |policy| self.resume_sweeps(&policy.path))
    }

    fn swept(&self, kept: Swept, chosen: Choices, control: &mut Control<'_>) -> Result<Outcome> {
        let checkpoint = control.checkpoint.clone();
        let chosen = control.unhurried(|control| self.compared(chosen, control))?;
        let part = self.whole(&chosen);
        let (kernel, points) = self.kernel_and_points(&part, &chosen)?;
        let problem = self.kernel_problem(&part, &kernel, &points);
        self.same_choice(&part, &problem, &kept)?;
        let solver = self.solver(chosen.damping)?;
        let mut state = kept.state.clone();
        let blocks = solver.blocks(&part.weights);
        let most = self.most_sweeps(kernel.columns());
        let mut watch = Watch { fit: self, part: &part, problem, kept, blocks, most };
        run(&solver, &mut state, &mut Again(problem), &mut watch, control)?;
        let Swept { state: best, mut judged, history, .. } = watch.kept;
        // Where the time was up within the first sweep there is no best one.
        if history.is_empty() {
            judged = part.judged(&problem, &state)?;
        } else {
            state = best;
        }
        let calibration = self.is_calibrated().then(|| {
            let judges = part.judges();
            let labels = &part.labels[judges.clone()];
            Calibration::fit(&judged, self.offset.len(), labels, &part.held[judges])
        });
        let everything: Vec<f32> = part.weights.iter().zip(&part.held).map(|(a, b)| a + b).collect();
        if !control.out_of_time() {
            let whole = KernelProblem { weights: &everything, ..problem };
            let steps = solver.blocks(&everything);
            // Blocks are counted anew: held-out rows have changed them.
            state.steps = SWEEPS * steps;
            run(&solver, &mut state, &mut Again(whole), &mut Steps::new(Phase::Absorb, steps), control)?;
        }
        if let Some(policy) = &checkpoint {
            policy.discard()?;
        }
        let (d, c) = (kernel.columns(), self.offset.len());
        let raw = Raw { weights: part.in_order(&state.coefficients, c), scale: 1.0, inverse: None };
        let points = part.in_order(&points, d);
        let f = Dictionary::from_raw(kernel, self.offset.clone(), Budget::Unlimited, points, raw)?;
        let (shifts, calibration) = self.decided(calibration);
        let f = Learnt::Atoms(f).in_units(&self.units, shifts.as_deref())?;
        Ok(Outcome { f, standard: chosen.standard, metric: chosen.metric, calibration, history })
    }

    /// Refuses a checkpoint whose predictions are not those of its coefficients with the kernel that was chosen again.
    fn same_choice(&self, part: &Part, problem: &KernelProblem<'_>, kept: &Swept) -> Result<()> {
        let (d, first) = (problem.kernel.columns(), part.judges().start);
        let few = part.judges().len().min(PROBES);
        let again =
            problem.values(&problem.points[first * d..(first + few) * d], &kept.state.coefficients)?;
        let size = again.iter().fold(1.0_f32, |most, v| most.max(v.abs()));
        match again.iter().zip(&kept.judged).all(|(a, b)| (a - b).abs() <= 1e-3 * size) {
            true => Ok(()),
            false => Err(Error::Checkpoint("what was chosen before its sweeps differs".into())),
        }
    }

    fn solver(&self, damping: f64) -> Result<GaussSeidel> {
        let block = if self.loss.domain().is_class() { BLOCK_OF_CLASSES } else { BLOCK };
        GaussSeidel::new(damping, block, self.options.seed)
    }

    /// Most sweeps before one that learns from the held-out rows too.
    fn most_sweeps(&self, columns: usize) -> usize {
        match self.loss.domain().is_class() {
            true => {
                let affordable = ALL_PRODUCTS / products(self.rows.len(), columns);
                (affordable as usize).saturating_sub(1).clamp(1, SWEEPS)
            }
            false => SWEEPS,
        }
    }

    /// How many rows choose.
    pub(super) fn halves(&self) -> Size {
        Size::of(self.rows.len(), self.offset.len() * (self.rows.columns() + 1))
    }

    /// Whether sweeps over all rows cost no more than features do, once directions are left out.
    pub(crate) fn is_affordable(&self, chosen: &Choices) -> bool {
        let directions = chosen.plain.metric.as_ref().map(Metric::directions);
        directions.is_some_and(|r| {
            products(self.rows.len(), r) <= MOST_REDUCED && self.rows.len().saturating_mul(r) <= MOST_NUMBERS
        })
    }

    /// Whether rows are of classes of many columns, of which directions may be left out.
    fn is_wide(&self) -> bool {
        self.loss.domain().is_class() && self.options.is_wide(self.rows.columns())
    }

    /// Directions of classes of many columns to which a sample is reduced; `None` where all columns stay.
    fn directions(&self, sample: &Sample, starts: &[Candidate], grid: &Grid) -> Option<Mat<f64>> {
        let start = least(starts).filter(|_| self.is_wide())?;
        leading(sample, start, grid, self.options.seed)
    }

    /// Kernel, metric, bandwidth and damping by two halves of some thousand rows: without a metric and, where one does better,
    /// with it; both in fewer directions where these predict as well as all columns of many.
    pub(super) fn chosen_of_many(&self, size: Size, control: &mut Control<'_>) -> Result<Choices> {
        let (grid, start) = self.coarse(control)?;
        let Some(Start { standard, kernels: starts, absolute }) = start else {
            return Ok(Choices { plain: self.plain(&grid), with: None, absolute: None });
        };
        let scaling = scaling(&self.moments, standard, self.options.kernel());
        let chosen = |metric: Option<Metric>, settings: &Candidate| {
            let damping = match grid.dampings[..] {
                [given] => given,
                _ => settings.damping.max(DAMPINGS.0),
            };
            let (scaling, kernel) = (scaling.clone(), settings.kernel.clone());
            Chosen { standard, scaling, metric, kernel, bandwidth: settings.bandwidth, damping }
        };
        let (mut found, mut directions) = (None, None);
        if control.within_part(METRIC) {
            let mut sample = self.sample(&scaling, size.rows())?;
            let mut forms = self.options.metric_forms(self.rows.columns());
            directions = self.directions(&sample, &starts, &grid);
            control.check(0)?;
            if let Some(directions) = &directions {
                sample.x = product(sample.x.as_ref(), directions.as_ref());
                forms = MetricSpec::Full.forms(directions.ncols());
            }
            let may_go_on = &mut || control.check(0).map(|()| control.within_part(METRIC));
            // Of columns that are directions the sums of absolute differences mean little.
            let starts = (&starts[..], absolute.as_ref().filter(|_| !self.is_wide()));
            found = halves::learn(&sample, &forms, starts, &grid, (size, self.options.seed), may_go_on)?;
        }
        let metric = |form: Form, root: &Mat<f64>| Metric::new(form, &scaling, root, &self.moments.variance);
        Ok(match (found, least(&starts)) {
            (Some(Found { plain, metric: learnt, absolute }), _) => {
                let lowest = learnt.as_ref().map_or(plain.risk, |(_, _, settings)| settings.risk);
                let absolute = absolute.filter(|(_, settings)| settings.risk < PROMISING * lowest);
                let absolute = absolute.map(|(columns, settings)| {
                    chosen(columns.map(|columns| metric(Form::Diagonal, &columns)), &settings)
                });
                let with = learnt.map(|(root, form, settings)| {
                    let root = match &directions {
                        Some(directions) => product(directions.as_ref(), root.as_ref()),
                        None => root,
                    };
                    chosen(Some(metric(form, &root)), &settings)
                });
                let unit = directions.as_ref().map(|directions| metric(Form::Unit, directions));
                Choices { plain: chosen(unit, &plain), with, absolute }
            }
            (None, Some(start)) => Choices { plain: chosen(None, start), with: None, absolute: None },
            (None, None) => Choices { plain: self.plain(&grid), with: None, absolute: None },
        })
    }

    /// Metric or none, kernel, bandwidth and damping by short fits to more rows.
    fn compared(&self, choices: Choices, control: &mut Control<'_>) -> Result<Chosen> {
        let Choices { plain, with, absolute } = choices;
        if !control.within_part(CHOICE) {
            return Ok(with.unwrap_or(plain));
        }
        let order = Permutation::new(self.options.seed, Stream::Race, BlockIndex(3), self.rows.len());
        let learnt = |i: &&u32| self.weights[**i as usize] > 0.0;
        let most = ((TRIAL_SHARE * self.rows.len() as f64) as usize).clamp(TRIAL.0, TRIAL.1);
        let mut rows: Vec<u32> = order.indices().iter().filter(learnt).take(most).copied().collect();
        rows.extend((0..self.rows.len() as u32).filter(|&i| self.held[i as usize] > 0.0));
        let mut race = Race { fit: self, part: self.part(&plain, &rows), best: f64::INFINITY, chosen: plain };
        race.best = self.trial(&race.part, &race.chosen, control)?;
        for (tried, other) in [with, absolute].into_iter().flatten().enumerate() {
            if tried > 0 && !control.within_part(CHOICE) {
                break;
            }
            let part = self.part(&other, &rows);
            let risk = self.trial(&part, &other, control)?;
            if risk < race.best {
                race = Race { fit: self, part, best: risk, chosen: other };
            }
        }
        if self.options.bandwidth == Bandwidth::Auto {
            'bandwidth: for factor in [std::f64::consts::FRAC_1_SQRT_2, 2.0] {
                for tried in 0..MOST_FACTORS {
                    let bandwidth = factor * race.chosen.bandwidth;
                    if !race.takes(Chosen { bandwidth, ..race.chosen.clone() }, control)? {
                        if tried > 0 {
                            break 'bandwidth;
                        }
                        break;
                    }
                }
            }
            // The Laplacian kernel has bandwidths of its own.
            for kernel in self.options.kernels() {
                if kernel != race.chosen.kernel && race.chosen.kernel.radial().is_some() {
                    race.takes(Chosen { kernel, ..race.chosen.clone() }, control)?;
                }
            }
        }
        if self.options.ridge.is_none_or(|ridge| ridge == 0.0) {
            for step in [1.0 / DAMPING_STEP, DAMPING_STEP] {
                let damping = step * race.chosen.damping;
                let possible = damping > 0.5 * DAMPINGS.0;
                if possible && race.takes(Chosen { damping, ..race.chosen.clone() }, control)? {
                    break;
                }
            }
        }
        Ok(race.chosen)
    }

    /// The held-out loss after some sweeps over a part of the rows; infinite where they diverge.
    fn trial(&self, part: &Part, chosen: &Chosen, control: &mut Control<'_>) -> Result<f64> {
        let (kernel, points) = self.kernel_and_points(part, chosen)?;
        let solver = self.solver(chosen.damping)?;
        let mut state = SweepState::new(&self.offset, part.weights.len());
        let problem = self.kernel_problem(part, &kernel, &points);
        let steps = TRIAL_SWEEPS * solver.blocks(&part.weights);
        match run(&solver, &mut state, &mut Again(problem), &mut Steps::new(Phase::Race, steps), control) {
            Ok(_) => Ok(self.held_out_risk(part, &part.judged(&problem, &state)?)),
            Err(Error::Diverged { .. } | Error::NotPositiveDefinite { .. }) => Ok(f64::INFINITY),
            Err(other) => Err(other),
        }
    }

    /// The kernel of the rows as the metric leaves them. Classes of many columns in fewer directions have one that rounds
    /// these to bfloat16: what was left out matters more.
    fn kernel_of(&self, chosen: &Chosen) -> Result<ClosedForm> {
        let scaling = match &chosen.metric {
            Some(metric) => Scaling::identity(metric.directions()),
            None => chosen.scaling.clone(),
        };
        let reduced = self.is_wide() && scaling.shift.len() < self.rows.columns();
        let kernel = ClosedForm::new(chosen.kernel.clone(), chosen.bandwidth, scaling)?;
        Ok(if reduced { kernel.rounded() } else { kernel })
    }

    /// The kernel, and the rows of a part in its units.
    fn kernel_and_points(&self, part: &Part, chosen: &Chosen) -> Result<(ClosedForm, Vec<f32>)> {
        let kernel = self.kernel_of(chosen)?;
        let mut points = Vec::with_capacity(part.x.len());
        kernel.input(&part.x, &mut points);
        Ok((kernel, points))
    }

    fn kernel_problem<'p>(
        &'p self,
        part: &'p Part,
        kernel: &'p ClosedForm,
        points: &'p [f32],
    ) -> KernelProblem<'p> {
        let (targets, weights) = (&part.targets, &part.weights);
        KernelProblem { kernel, points, targets, weights, loss: &*self.loss, offset: &self.offset }
    }

    /// What is added to f so that it decides as its probabilities do, and the calibration that is left: σ(au + b) = σ(a(u + b/a)).
    pub(super) fn decided(
        &self,
        calibration: Option<Calibration>,
    ) -> (Option<Vec<f32>>, Option<Calibration>) {
        match calibration {
            Some(Calibration { slope, intercept }) if self.offset.len() == 1 => {
                (Some(vec![(intercept / slope) as f32]), Some(Calibration { slope, intercept: 0.0 }))
            }
            other => (None, other),
        }
    }
}

/// Looks at the held-out rows after every sweep.
struct Watch<'m, 'a> {
    fit: &'m Fit<'a>,
    part: &'m Part,
    problem: KernelProblem<'m>,
    /// After the best sweep.
    kept: Swept,
    blocks: usize,
    /// Most sweeps.
    most: usize,
}

impl Monitor<GaussSeidel> for Watch<'_, '_> {
    fn finished(&mut self, _: &SweepState) -> bool {
        self.kept.settled || self.kept.history.len() >= self.most
    }

    fn observe(&mut self, state: &SweepState, info: SweepInfo) -> Result<Progress> {
        self.fit.rows.fault()?;
        let sweep = state.steps / self.blocks;
        let mut progress = Progress::new(Phase::Fit, state.steps, self.most * self.blocks, info.loss);
        if !state.steps.is_multiple_of(self.blocks) {
            return Ok(progress);
        }
        let judged = self.part.judged(&self.problem, state)?;
        let loss = self.fit.held_out_loss(self.part, &judged);
        let error = self.fit.error_of_judges(self.part, &judged);
        (progress.held_out_loss, progress.held_out_error) = (Some(loss), error);
        let last = self.kept.history.last().map(|entry| (entry.held_out_loss, entry.held_out_error));
        let before = last.map_or((f64::INFINITY, f64::INFINITY), |(loss, error)| {
            (loss.unwrap_or(f64::INFINITY), error.unwrap_or(f64::INFINITY))
        });
        let falls = error.is_some_and(|error| error < (1.0 - TOLERANCE) * before.1);
        let lower = loss < before.0;
        // A loss that rises ends the sweeps, whatever the error does: what is kept would stay as it is.
        self.kept.settled = !lower || (loss > (1.0 - TOLERANCE) * before.0 && !falls);
        if lower {
            let own = self.fit.loss_of_some(self.part, &self.problem, state)?;
            (self.kept.state, self.kept.judged, progress.loss) = (state.clone(), judged, own);
            let entry =
                HistoryEntry { block: sweep, loss: own, held_out_loss: Some(loss), held_out_error: error };
            self.kept.history.push(entry);
        }
        Ok(progress)
    }

    fn save(&self, _: &SweepState, policy: &CheckpointPolicy) -> Result<()> {
        self.fit.save_sweeps(&self.kept, policy)
    }
}
