//! Small data: a kernel expansion over all rows, with everything chosen by leaving rows out.
//!
//! Kernel, metric, bandwidth and damping λ are those of kernel ridge regression whose leave-one-out loss is least: mean squares
//! for numbers, log-loss at the best slope for classes. The expansion then minimises the loss asked for, at the λ whose
//! leave-one-out loss is least in turn; of a loss with a kink the loss of parts of the rows, each predicted by the others.

mod directions;
mod gradients;
mod halves;
mod part;
mod sample;
mod search;
mod sweeps;

use super::coverage::FOLDS;
use super::{class_of, Fit, Outcome};
use crate::driver::{Control, Fingerprint, Phase, Progress};
use crate::error::{Error, Result};
use crate::functions::kernel_machine::calibration::Calibration;
use crate::functions::kernel_machine::evidence::square_targets;
use crate::functions::kernel_machine::learnt::Learnt;
use crate::functions::kernel_machine::machine::{HistoryEntry, KernelMachine};
use crate::functions::kernel_machine::metric::{Form, Metric};
use crate::functions::kernel_machine::options::{Options, SolverSpec, Task};
use crate::functions::kernel_machine::race::{decided, scaling, scalings, CHOICE};
use crate::functions::kernel_machine::training::{effective_rows, Prepared, Training};
use crate::kernel::{ClosedForm, KernelSpec, Scaling};
use crate::linalg::lu::product;
use crate::loss::LossSpec;
use crate::random::{BlockIndex, Permutation, Stream};
use crate::solver::{Expansion, KernelNewton};
use crate::space::{Budget, Dictionary, Raw};
use faer::Mat;
use gradients::Learnt as LearntMetric;
use halves::{columns_of, least};
use sample::{log_losses, Sample, LITTLE, MOST_ROUNDED};
use search::{gram, Affords, Candidate, Grid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub(super) use sweeps::{Swept, SWEEPS};

/// Rows on which scalings, kernels and bandwidths are first compared.
const COARSE_ROWS: usize = 256;
/// Rows on which a metric is learnt, and on which kernels and bandwidths are compared with it, where they are some of many; of small data all.
const FINE_ROWS: usize = 512;
/// Bandwidths that are compared, in median distances.
const FACTORS: [f64; 5] = [4.0, 2.0, 1.0, 0.5, 0.25];
/// Step of the damping of losses other than the square, and most such steps.
const DAMPING_STEP: f64 = 4.0;
const DAMPING_STEPS: usize = 3;
/// How often such a step is taken from settings whose coefficients are too large, at most: to 10¹² times the damping.
const MOST_RAISES: usize = 20;
/// Parts of the rows that are predicted in turn where the loss has a kink.
const PARTS: usize = 3;
/// Share of the weight of rows that does not count when the weight of one row is looked for.
const NEGLIGIBLE: f64 = 1e-3;

/// Weights from here on are no counts, though they have no fraction: single precision knows of none.
const MOST_COUNT: f32 = 8_388_608.0;
/// Share of the largest weight that is nothing.
const NOTHING: f64 = 1e-6;
/// How far counts of single precision are from whole numbers.
const ROUNDING: f64 = 1e-3;
/// Rows that make up the least weight, at most.
const MOST_PARTS: u32 = 256;

/// What leaving rows out has decided.
#[derive(Clone)]
pub(crate) struct Chosen {
    standard: bool,
    /// What is done to the columns, unless there is a metric.
    scaling: Scaling,
    metric: Option<Metric>,
    kernel: KernelSpec,
    bandwidth: f64,
    /// λ of the square loss.
    damping: f64,
}

impl Chosen {
    /// The metric, and the kernel that goes with it.
    pub(crate) fn metric(self) -> Option<(Metric, KernelSpec)> {
        Some((self.metric?, self.kernel))
    }
}

/// The scaling of least risk on few rows, and the best bandwidth and damping of each kernel there.
struct Start {
    standard: bool,
    kernels: Vec<Candidate>,
    /// The Laplacian kernel, where it competes: it sees other distances than the other kernels.
    absolute: Option<Candidate>,
}

/// An expansion over all rows.
struct Expanded {
    kernel: ClosedForm,
    points: Vec<f32>,
    fit: Expansion,
    /// Mean loss of the rows, each left out.
    risk: f64,
}

/// What an expansion is a sum over.
struct Atoms<'a> {
    kernel: &'a ClosedForm,
    points: &'a [f32],
}

impl Atoms<'_> {
    /// Whether Σ_j β_j k(x_j, ·) is the same in single precision: with little damping and a wide kernel large coefficients cancel, and
    /// what is left of their sum are rounded kernels. Where f is next to nothing, so may be what is off.
    fn resolve(&self, fit: &Expansion, offset: &[f32]) -> Result<bool> {
        let (n, c) = (fit.coefficients.nrows(), offset.len());
        let coefficients: Vec<f64> = (0..n * c).map(|i| fit.coefficients[(i / c, i % c)]).collect();
        let mut sums = vec![0.0; n * c];
        self.kernel.add_sums(self.points, self.points, &coefficients, &mut sums)?;
        let (mut off, mut size) = (0.0, 0.0);
        for (i, sum) in sums.into_iter().enumerate() {
            let own = f64::from(fit.predictions[i]) - f64::from(offset[i % c]);
            off += (sum - own).powi(2);
            size += own.powi(2);
        }
        // Numbers that are not finite are refused elsewhere.
        Ok(off.is_nan() || off <= MOST_ROUNDED.powi(2) * size + (n * c) as f64 * LITTLE.powi(2))
    }
}

/// 10⁻⁶, 10⁻⁵·⁵, …, 10.
fn dampings() -> Vec<f64> {
    (-12..=2).map(|half| 10_f64.powf(0.5 * f64::from(half))).collect()
}

/// The metric in which the two classes of `data` are told apart by least squares; `None` where none is better than nothing.
pub(crate) fn metric_of_classes(
    options: &Options,
    data: &Training<'_>,
    control: &mut Control<'_>,
) -> Result<Option<Metric>> {
    let options = Options { task: Task::Classification(2), ..options.clone() };
    let loss = LossSpec::LeastSquares;
    let prepared = Prepared::new(data, options.task, &loss)?;
    Fit::new(&options, loss, &prepared, Fingerprint::default())?.metric(control)
}

impl Fit<'_> {
    /// A metric, and the kernel that goes with it, for a fit by blocks; `None` where none is better than nothing.
    pub(crate) fn learnt_metric(&self, control: &mut Control<'_>) -> Result<Option<(Metric, KernelSpec)>> {
        let many = !self.small && matches!(self.options.solver, SolverSpec::Auto | SolverSpec::Block);
        let possible = self.options.kernel().radial().is_some()
            && !control.out_of_time()
            && !self.options.metric_forms(self.rows.columns()).is_empty();
        if !(many && possible) {
            return Ok(None);
        }
        // Blocks that are asked for take no more memory than they say.
        let memory = match self.options.solver {
            SolverSpec::Block => KernelMachine::memory(self.options, self.rows.len(), self.rows.columns()),
            _ => f64::INFINITY,
        };
        let size = self.halves();
        // Rows in double precision, those of the halves and both as a metric maps them.
        let rows = (4 * 8 * size.rows() * self.rows.columns()) as f64;
        let chosen = match size.within(memory - rows) {
            Some(size) => control.unhurried(|control| self.chosen_of_many(size, control))?.with,
            None => Some(control.unhurried(|control| self.chosen_by_squares(control))?),
        };
        Ok(chosen.and_then(Chosen::metric))
    }

    /// A metric learnt from all rows of small data, else from 512; `None` where none is better than nothing.
    fn metric(&self, control: &mut Control<'_>) -> Result<Option<Metric>> {
        let forms = self.options.metric_forms(self.rows.columns());
        match self.options.kernel().radial().is_some() && !forms.is_empty() {
            true => Ok(self.chosen_by_squares(control)?.metric),
            false => Ok(None),
        }
    }

    /// Fits the expansion.
    pub(crate) fn exact(&self, chosen: Chosen, control: &mut Control<'_>) -> Result<Outcome> {
        let Expanded { kernel, points, fit, risk } = self.expanded(&chosen, control)?;
        let entry = self.entry(&fit, risk);
        control.report(Progress {
            held_out_loss: entry.held_out_loss,
            held_out_error: entry.held_out_error,
            ..Progress::new(Phase::Fit, 1, 1, entry.loss)
        })?;
        let (n, c) = (self.rows.len(), self.offset.len());
        let weights = (0..n * c).map(|i| fit.coefficients[(i / c, i % c)]).collect();
        let raw = Raw { weights, scale: 1.0, inverse: None };
        let f = Dictionary::from_raw(kernel, self.offset.clone(), Budget::Unlimited, points, raw)?;
        let calibration =
            self.is_calibrated().then(|| Calibration::fit(&fit.left_out, c, &self.labels(), &self.weights));
        let (shifts, calibration) = self.decided(calibration);
        let shifts = shifts.or_else(|| self.shifts(&fit.left_out, &self.weights));
        let f = Learnt::Atoms(f).in_units(&self.units, shifts.as_deref())?;
        Ok(Outcome { f, standard: chosen.standard, metric: chosen.metric, calibration, history: vec![entry] })
    }

    /// Whether the loss is the one settings were chosen for.
    fn is_quadratic(&self) -> bool {
        matches!(self.loss.name(), "square" | "least_squares")
    }

    /// Whether the loss is not differentiable.
    fn has_kink(&self) -> bool {
        self.loss.curvature().is_none() && self.loss.smoothed(1.0).is_some()
    }

    /// The part of each row, of so many that are predicted in turn.
    fn parts(&self, parts: usize) -> Vec<usize> {
        let order = Permutation::new(self.options.seed, Stream::HoldOut, BlockIndex(1), self.rows.len());
        order.indices().iter().map(|&i| i as usize % parts).collect()
    }

    /// Whether scores become probabilities by calibration.
    fn is_calibrated(&self) -> bool {
        self.loss.domain().is_class() && self.loss.probabilities().is_none()
    }

    fn labels(&self) -> Vec<usize> {
        (0..self.weights.len()).map(|i| self.label(i)).collect()
    }

    /// The expansion over all rows at these settings.
    fn expanded(&self, chosen: &Chosen, control: &mut Control<'_>) -> Result<Expanded> {
        let n = self.rows.len();
        let (x, scaling) = match &chosen.metric {
            Some(metric) => (metric.map(self.rows), Scaling::identity(metric.directions())),
            None => (self.rows.gather(&(0..n as u32).collect::<Vec<_>>()), chosen.scaling.clone()),
        };
        let kernel = ClosedForm::new(chosen.kernel.clone(), chosen.bandwidth, scaling)?;
        let mut points = Vec::with_capacity(x.len());
        kernel.input(&x, &mut points);
        let lower = gram(&kernel, &points)?;
        let whole = Mat::from_fn(n, n, |i, j| lower[(i.max(j), i.min(j))]);
        let newton = KernelNewton {
            kernel: whole.as_ref(),
            targets: &self.targets,
            weights: &self.weights,
            loss: &*self.loss,
            offset: &self.offset,
            shares: &self.shares_left_out(),
        };
        let atoms = Atoms { kernel: &kernel, points: &points };
        let (mut fit, mut risk) = self.damped(&newton, &atoms, chosen.damping, control)?;
        for _ in 0..MOST_RAISES {
            if risk < f64::INFINITY || atoms.resolve(&fit, &self.offset)? {
                break;
            }
            if self.options.ridge.is_some_and(|ridge| ridge > 0.0) {
                return Err(Error::RoundedAway { raise: "ridge", lower: "bandwidth" });
            }
            (fit, risk) = self.at(&newton, &atoms, DAMPING_STEP * fit.damping, control)?;
        }
        // How many rows are left below by what was learnt without them takes more of them to learn from.
        if !self.loss.levels().is_empty() && n >= 2 * FOLDS && !control.out_of_time() {
            fit.left_out = newton.cross_fitted(fit.damping, &self.parts(FOLDS), &mut || control.check(0))?;
        }
        Ok(Expanded { kernel, points, fit, risk })
    }

    /// The fit at one damping, and its loss at rows left out: one by one, or in parts of a loss with a kink; infinite where f is
    /// rounded away.
    fn at(
        &self,
        newton: &KernelNewton<'_>,
        atoms: &Atoms<'_>,
        damping: f64,
        control: &mut Control<'_>,
    ) -> Result<(Expansion, f64)> {
        let mut fit = newton.minimise(damping, &mut || control.check(0))?;
        if !atoms.resolve(&fit, &self.offset)? {
            return Ok((fit, f64::INFINITY));
        }
        // One Newton step from a function that meets rows at a kink says that they would hardly be missed.
        if self.judges_by_parts() && !control.out_of_time() {
            fit.left_out = newton.cross_fitted(damping, &self.parts(PARTS), &mut || control.check(0))?;
        }
        let risk = self.risk(&fit.left_out);
        Ok((fit, risk))
    }

    /// Whether rows are left out in parts.
    fn judges_by_parts(&self) -> bool {
        self.has_kink() && self.rows.len() >= 2 * PARTS
    }

    /// The fit at the damping of least loss at rows left out, and that loss.
    fn damped(
        &self,
        newton: &KernelNewton<'_>,
        atoms: &Atoms<'_>,
        chosen: f64,
        control: &mut Control<'_>,
    ) -> Result<(Expansion, f64)> {
        if let Some(ridge) = self.options.ridge.filter(|&ridge| ridge > 0.0) {
            return self.at(newton, atoms, ridge * effective_rows(&self.weights), control);
        }
        let start = chosen * self.loss.nominal_curvature(&self.offset, chosen);
        let mut best = self.at(newton, atoms, start, control)?;
        if self.is_quadratic() {
            return Ok(best);
        }
        for step in [1.0 / DAMPING_STEP, DAMPING_STEP] {
            let (mut damping, before) = (start, best.1);
            for _ in 0..DAMPING_STEPS {
                damping *= step;
                if control.out_of_time() {
                    break;
                }
                let next = self.at(newton, atoms, damping, control)?;
                // Where there was no time for parts the two do not compare.
                let late = self.judges_by_parts() && control.out_of_time();
                if late || next.1.is_nan() || next.1 >= best.1 {
                    break;
                }
                best = next;
            }
            if best.1 < before {
                break;
            }
        }
        Ok(best)
    }

    /// The mean loss of predictions for rows left out; of scores that are calibrated, log-loss at the best slope.
    fn risk(&self, left_out: &[f32]) -> f64 {
        let total = effective_rows(&self.weights);
        if !self.is_calibrated() {
            return self.loss.total(left_out, &self.targets, &self.weights) / total;
        }
        let c = self.offset.len();
        let weights: Vec<f64> = self.weights.iter().map(|&w| f64::from(w)).collect();
        let score = |i: usize, k: usize| f64::from(left_out[i * c + k]);
        let losses = log_losses(c, score, &self.labels(), &weights);
        losses.iter().zip(&weights).map(|(loss, w)| loss * w).sum::<f64>() / total
    }

    /// Losses of the fit, with rows learnt from and left out.
    fn entry(&self, fit: &Expansion, risk: f64) -> HistoryEntry {
        let (c, total) = (self.loss.outputs(), effective_rows(&self.weights));
        let wrong = |i: &usize| class_of(&fit.left_out[i * c..(i + 1) * c]) != self.label(*i);
        let error = || {
            let rows = (0..self.weights.len()).filter(wrong);
            rows.fold(0.0, |sum, i| sum + f64::from(self.weights[i])) / total
        };
        HistoryEntry {
            block: 1,
            loss: self.loss.total(&fit.predictions, &self.targets, &self.weights) / total,
            held_out_loss: Some(risk),
            held_out_error: self.loss.domain().is_class().then(error),
        }
    }

    /// What is compared, and where the comparison starts.
    fn coarse(&self, control: &mut Control<'_>) -> Result<(Grid, Option<Start>)> {
        let options = self.options;
        let kernels = options.kernels();
        let ridge = options.ridge.map(|ridge| ridge * effective_rows(&self.weights));
        let dampings = ridge.filter(|&damping| damping > 0.0).map_or_else(dampings, |damping| vec![damping]);
        let decided = decided(options, &self.moments, self.rows, &self.weights, 1.0);
        let bandwidth = decided.map(|setting| setting.bandwidth);
        let (factors, spare) = (FACTORS.to_vec(), Arc::default());
        let grid = Grid { kernels, factors, bandwidth, dampings, damping: 1.0, spare };
        let mut start: Option<Start> = None;
        let risk = |found: &[Candidate]| least(found).map_or(f64::INFINITY, |best| best.risk);
        for standard in scalings(options) {
            control.check(0)?;
            let sample = self.sample(&scaling(&self.moments, standard, options.kernel()), COARSE_ROWS)?;
            let of = |kernel: &KernelSpec| {
                Grid { kernels: vec![kernel.clone()], ..grid.clone() }.best(&sample, &sample.x)
            };
            let found: Vec<Option<Candidate>> = grid.kernels.iter().map(of).collect::<Result<_>>()?;
            let found: Vec<Candidate> = found.into_iter().flatten().collect();
            if !found.is_empty() && start.as_ref().is_none_or(|best| risk(&found) < risk(&best.kernels)) {
                start = Some(Start { standard, kernels: found, absolute: None });
            }
        }
        // Of one column it is the Matérn kernel of smoothness 1/2.
        let expands = (self.small || self.is_swept()) && self.rows.columns() > 1;
        if let Some(start) = start.as_mut().filter(|_| expands && options.laplacian_competes()) {
            let sample =
                self.sample(&scaling(&self.moments, start.standard, options.kernel()), COARSE_ROWS)?;
            let grid = Grid { kernels: vec![KernelSpec::Laplacian], ..grid.clone() };
            start.absolute = grid.best(&sample, &sample.x)?;
        }
        Ok((grid, start))
    }

    /// Kernel, metric, bandwidth and damping by leaving rows out.
    pub(crate) fn chosen(&self, control: &mut Control<'_>) -> Result<Chosen> {
        let (grid, start) = self.coarse(control)?;
        self.chosen_from(grid, start, control)
    }

    /// The same without the Laplacian kernel, whose weights of columns are not a metric.
    fn chosen_by_squares(&self, control: &mut Control<'_>) -> Result<Chosen> {
        let (grid, start) = self.coarse(control)?;
        self.chosen_from(grid, start.map(|start| Start { absolute: None, ..start }), control)
    }

    fn chosen_from(&self, grid: Grid, start: Option<Start>, control: &mut Control<'_>) -> Result<Chosen> {
        let options = self.options;
        let Some(Start { standard, kernels, absolute }) = start else { return Ok(self.plain(&grid)) };
        let Some(mut best) = least(&kernels).cloned() else { return Ok(self.plain(&grid)) };
        let scaling = scaling(&self.moments, standard, options.kernel());
        let mut metric = None;
        let of = |form: Form, root: &Mat<f64>| Metric::new(form, &scaling, root, &self.moments.variance);
        if control.within_part(CHOICE) {
            let sample = self.sample(&scaling, if self.small { self.rows.len() } else { FINE_ROWS })?;
            let affords = &mut |work| control.check(0).map(|()| control.has_part_for(CHOICE, work));
            let forms = options.metric_forms(self.rows.columns());
            let learnt = gradients::learn(&sample, &forms, &best, &grid, options.seed, affords)?;
            let mut columns = None;
            let x = match learnt {
                Some(LearntMetric { root, form, settings }) => {
                    best = settings;
                    metric = Some(of(form, &root));
                    columns = Some(columns_of(&root));
                    product(sample.x.as_ref(), root.as_ref())
                }
                None => {
                    best = grid.around(&best, &[1.0]).best(&sample, &sample.x)?.unwrap_or(best);
                    sample.x.clone()
                }
            };
            best = grid.nearby_kernel(&sample, &x, best, &kernels, affords)?;
            best = grid.nearby_bandwidth(&sample, &x, best, affords)?;
            if let Some(start) = absolute {
                let other = self.absolute(&sample, &grid, &start, columns, affords)?;
                if let Some((columns, other)) = other.filter(|(_, other)| other.risk < best.risk) {
                    metric = columns.map(|columns| of(Form::Diagonal, &columns));
                    best = other;
                }
            }
        }
        let Candidate { kernel, bandwidth, damping, .. } = best;
        Ok(Chosen { standard, scaling, metric, kernel, bandwidth, damping })
    }

    /// The Laplacian kernel at its best damping and bandwidth near those of `start`, on columns as they are or with the weights
    /// of a metric, and these.
    fn absolute(
        &self,
        sample: &Sample,
        grid: &Grid,
        start: &Candidate,
        columns: Option<Mat<f64>>,
        affords: &mut Affords<'_>,
    ) -> Result<Option<(Option<Mat<f64>>, Candidate)>> {
        let mut best: Option<(Option<Mat<f64>>, Mat<f64>, Candidate)> = None;
        let mut took = Duration::ZERO;
        for columns in std::iter::once(None).chain(columns.map(Some)) {
            if !affords(took)? {
                break;
            }
            let begun = Instant::now();
            let x = columns
                .as_ref()
                .map_or_else(|| sample.x.clone(), |columns| product(sample.x.as_ref(), columns.as_ref()));
            let found = grid.around(start, &[1.0]).best(sample, &x)?;
            took = begun.elapsed();
            let before = best.as_ref().map_or(f64::INFINITY, |(_, _, best)| best.risk);
            best = found.filter(|found| found.risk < before).map(|found| (columns, x, found)).or(best);
        }
        let Some((columns, x, found)) = best else { return Ok(None) };
        Ok(Some((columns, grid.nearby_bandwidth(sample, &x, found, affords)?)))
    }

    /// What is taken where nothing can be compared.
    fn plain(&self, grid: &Grid) -> Chosen {
        let bandwidth = grid.bandwidth.unwrap_or_else(|| self.moments.scale_bandwidth());
        let scaling = self.moments.unscaled(self.options.kernel());
        let kernel = self.options.kernel().clone();
        Chosen { standard: false, scaling, metric: None, kernel, bandwidth, damping: 1.0 }
    }

    /// At most this many rows of positive weight, in order; those of a random part where there are more.
    fn sample(&self, scaling: &Scaling, most: usize) -> Result<Sample> {
        let order = Permutation::new(self.options.seed, Stream::Race, BlockIndex(2), self.rows.len());
        let weighty = order.indices().iter().copied().filter(|&i| self.weights[i as usize] > 0.0);
        let mut rows: Vec<u32> = weighty.take(most).collect();
        rows.sort_unstable();
        let (n, d) = (rows.len(), self.rows.columns());
        let x = self.rows.gather(&rows);
        let centred = |i: usize, j: usize| f64::from(x[i * d + j]) - f64::from(scaling.shift[j]);
        let y = square_targets(&*self.loss, &self.targets, &self.weights);
        let c = y.len() / self.weights.len();
        let (is_class, shares) = (self.loss.domain().is_class(), self.shares_left_out());
        let labels: Vec<usize> = rows.iter().filter(|_| is_class).map(|&i| self.label(i as usize)).collect();
        Ok(Sample {
            x: Mat::from_fn(n, d, |i, j| centred(i, j) * f64::from(scaling.scale[j])),
            y: Mat::from_fn(n, c, |i, k| y[rows[i] as usize * c + k]),
            weights: rows.iter().map(|&i| f64::from(self.weights[i as usize])).collect(),
            shares: rows.iter().map(|&i| shares[i as usize]).collect(),
            // Targets of classes are ±1 less their mean.
            mean: (0..c).map(|k| self.mean_sign(is_class, c, k)).collect(),
            labels,
        })
    }

    /// How much of each row is left out of a fit that is to predict it: all of it, unless other rows have the same columns and other targets.
    ///
    /// Equal rows of small data are merged. Where the same columns were met with several targets, most new rows will have been
    /// met before too, and leaving all rows of a kind out would ask for the target of the others: of a weight w one row is left
    /// out, s = min(1, u/w), which weighs u = 1 where weights are counts, else what all weights are multiples of; or those of one
    /// class, as classes may have weights of their own.
    fn shares_left_out(&self) -> Vec<f64> {
        let n = self.rows.len();
        let mut shares = vec![1.0; n];
        if !self.small {
            return shares;
        }
        let (d, x) = (self.rows.columns(), self.rows.gather(&(0..n as u32).collect::<Vec<_>>()));
        // Rows are sorted by their columns.
        let alike = |i: usize, j: usize| j < n && x[i * d..(i + 1) * d] == x[j * d..(j + 1) * d];
        let several = |i: &usize| alike(*i, i + 1) || *i > 0 && alike(i - 1, *i);
        let is_class = self.loss.domain().is_class();
        let mut classes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for i in (0..n).filter(several) {
            classes.entry(if is_class { self.label(i) } else { 0 }).or_default().push(i);
        }
        let all = || self.weights.iter().map(|&w| f64::from(w)).collect::<Vec<_>>();
        let counts = self.weights.iter().all(|&w| w.fract() == 0.0 && w < MOST_COUNT);
        let common = if counts { Some(1.0) } else { divisor(&all()) };
        for rows in classes.values() {
            let weight = |i: &usize| f64::from(self.weights[*i]);
            let own: Vec<f64> = rows.iter().map(weight).collect();
            let unit = common.or_else(|| divisor(&own)).unwrap_or_else(|| least_that_counts(own));
            rows.iter().for_each(|i| shares[*i] = (unit / weight(i)).min(1.0));
        }
        shares
    }

    /// The weighted mean of the signs of class `k` among `c`, or of the second of two.
    fn mean_sign(&self, is_class: bool, c: usize, k: usize) -> f64 {
        if !is_class {
            return 0.0;
        }
        let class = if c == 1 { 1 } else { k };
        let own = (0..self.weights.len()).filter(|&i| self.label(i) == class);
        2.0 * own.map(|i| f64::from(self.weights[i])).sum::<f64>() / effective_rows(&self.weights) - 1.0
    }
}

/// The largest number of which all weights are multiples, but for rounding; `None` where they are multiples of no part of the least that
/// is not negligible.
fn divisor(weights: &[f64]) -> Option<f64> {
    let most = weights.iter().fold(0.0_f64, |most, &w| most.max(w));
    let counted: Vec<f64> = weights.iter().copied().filter(|&w| w > NOTHING * most).collect();
    let least = counted.iter().copied().reduce(f64::min)?;
    let is_whole = |count: f64| (count - count.round()).abs() <= ROUNDING;
    let mut units = (1..=MOST_PARTS).map(|parts| least / f64::from(parts));
    units.find(|unit| counted.iter().all(|w| is_whole(w / unit)))
}

/// The least weight that, with those below it, makes up a thousandth of all.
fn least_that_counts(mut weights: Vec<f64>) -> f64 {
    weights.sort_by(f64::total_cmp);
    let (total, mut sum) = (weights.iter().sum::<f64>(), 0.0);
    let reached = weights.iter().find(|&&w| {
        sum += w;
        sum >= NEGLIGIBLE * total
    });
    reached.copied().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::{divisor, least_that_counts};

    #[test]
    fn negligible_rows_are_not_the_weight_of_one() {
        assert_eq!(least_that_counts(vec![40.0, 1.0, 7.0]), 1.0);
        assert_eq!(least_that_counts(vec![40.0, 1e-9, 2e-9, 3.0]), 3.0);
        assert_eq!(least_that_counts(vec![0.5; 4]), 0.5);
    }

    /// Sums of single precision are multiples but for rounding; arbitrary weights are multiples of nothing.
    #[test]
    fn weights_are_multiples_of_what_one_row_weighs() {
        let of = |counts: &[u32], unit: f32| {
            let weight = |&n: &u32| f64::from((0..n).fold(0.0_f32, |sum, _| sum + unit));
            counts.iter().map(weight).collect::<Vec<_>>()
        };
        for (counts, unit) in [(&[30, 41, 67, 12][..], 0.7), (&[150, 211, 90, 7], 0.3), (&[1, 1, 2], 0.123)] {
            let found = divisor(&of(counts, unit)).unwrap();
            assert!((found / f64::from(unit) - 1.0).abs() < 1e-3, "{unit}: {found}");
        }
        let with_negligible = [of(&[3, 4], 0.7), vec![1e-9, 0.0]].concat();
        assert!((divisor(&with_negligible).unwrap() - 0.7).abs() < 1e-6);
        assert_eq!(divisor(&[1.0, 2f64.sqrt(), 3f64.sqrt(), std::f64::consts::PI]), None);
        assert_eq!(divisor(&[]), None);
    }
}
