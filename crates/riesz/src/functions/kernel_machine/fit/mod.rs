//! From options and data to a function: hold-out, race, blocks, early stopping.

mod checkpoint;
mod coverage;
mod descent;
mod exact;

pub(crate) use exact::metric_of_classes;

use super::calibration::Calibration;
use super::evidence::square_targets;
use super::findings::Findings;
use super::learnt::Learnt;
use super::machine::HistoryEntry;
use super::metric::Metric;
use super::options::{Options, SolverSpec, Task, MOST_FEATURES};
use super::race::{by_evidence, decided, race, Contest, Schedule, Setting, Trial};
use super::start::{in_units, loss_in, standardise};
use super::training::{effective_rows, Prepared};
use crate::data::Rows;
use crate::driver::{Control, Fingerprint, Phase, Progress};
use crate::error::Result;
use crate::functions::geometry::Moments;
use crate::kernel::FeatureMap;
use crate::loss::{Domain, Loss, LossSpec, Unit};
use crate::random::{BlockIndex, Permutation, Stream};
use crate::solver::{BlockDescentConfig, Problem, RidgeConfig};
use crate::space::FeatureExpansion;

/// What a fit returns.
pub(crate) struct Outcome {
    pub f: Learnt,
    pub standard: bool,
    pub metric: Option<Metric>,
    pub calibration: Option<Calibration>,
    pub history: Vec<HistoryEntry>,
}

/// Blocks of a fit to small data, whose regularisation is in the damping.
const SMALL_BLOCKS: usize = 16;
/// Blocks of a ridge fit.
const RIDGE_BLOCKS: usize = 64;
/// Early stopping looks back this many features.
const WINDOW_FEATURES: usize = 8_192;
/// Features of a block from which on its Gram matrix has half as many rows for each.
const LARGE_BLOCK: usize = 2_048;

/// One fit by block descent or ridge, with everything derived from the data.
pub(crate) struct Fit<'a> {
    options: &'a Options,
    spec: LossSpec,
    loss: Box<dyn Loss>,
    rows: Rows<'a>,
    small: bool,
    targets: Vec<f32>,
    /// Units of the targets.
    units: Vec<Unit>,
    weights: Vec<f32>,
    held: Vec<f32>,
    offset: Vec<f32>,
    moments: Moments,
    fingerprint: Fingerprint,
}

impl<'a> Fit<'a> {
    /// Standardises targets, sets rows aside, computes moments.
    pub(crate) fn new(
        options: &'a Options,
        loss_spec: LossSpec,
        prepared: &'a Prepared<'_>,
        fingerprint: Fingerprint,
    ) -> Result<Self> {
        let rows = prepared.rows()?;
        let (Task::Regression(size) | Task::Classification(size)) = options.task;
        let plain = loss_spec.build(size)?;
        let (targets, units) = standardise(&*plain, &prepared.targets, &prepared.weights);
        let loss = loss_in(&loss_spec, options.task, &units)?;
        let (weights, held) = set_aside(options, &prepared.weights, prepared.is_small());
        let offset = loss.start(&targets, &weights);
        let moments = Moments::of(rows, &prepared.weights);
        let small = prepared.is_small();
        let spec = loss_spec;
        Ok(Self {
            options,
            spec,
            loss,
            rows,
            small,
            targets,
            units,
            weights,
            held,
            offset,
            moments,
            fingerprint,
        })
    }

    /// Fits.
    pub(crate) fn run(&self, control: &mut Control<'_>) -> Result<Outcome> {
        match self.options.solver {
            SolverSpec::Ridge => self.ridge(control),
            _ if self.is_exact() => self.exact(self.chosen(control)?, control),
            _ if self.is_swept() => self.sweeps(control),
            _ => self.block(control),
        }
    }

    /// Whether the fit is an expansion over all rows.
    pub(crate) fn is_exact(&self) -> bool {
        self.small && self.options.is_exact()
    }

    /// Whether the fit is an expansion over all of many rows, which it keeps in memory.
    pub(crate) fn is_swept(&self) -> bool {
        let (n, d) = (self.rows.len(), self.rows.columns());
        let in_memory = !matches!(self.rows, Rows::Cached(_));
        !self.small && in_memory && self.has_hold_out() && self.options.is_swept(&self.spec, n, d)
    }

    /// Whether the fit may become such an expansion once directions in which rows hardly vary are left out.
    pub(crate) fn is_reducible(&self) -> bool {
        let (n, d) = (self.rows.len(), self.rows.columns());
        let in_memory = !matches!(self.rows, Rows::Cached(_));
        !self.small && in_memory && self.has_hold_out() && self.options.is_reducible(&self.spec, n, d)
    }

    fn block_size(&self) -> usize {
        let n = self.rows.len();
        let by_rows = match n {
            0..=1_999 => n.next_multiple_of(64).clamp(64, 512),
            // The features of a block cost n m, its Gram matrix m³: larger blocks where the rows outweigh it.
            2_000..=131_071 => 1_024,
            _ => 2_048,
        };
        // Structured features come in groups of the padded dimension: do not throw most of a transform away.
        let by_columns = self.rows.columns().next_power_of_two().min(2_048);
        self.options.block_size.unwrap_or(if n < 2_000 { by_rows } else { by_rows.max(by_columns) })
    }

    fn max_blocks(&self) -> usize {
        let most = match self.options.solver {
            SolverSpec::Ridge => RIDGE_BLOCKS,
            _ => MOST_FEATURES.div_ceil(self.block_size()),
        };
        let most = self.options.max_blocks.unwrap_or(most);
        if self.small {
            most.min(SMALL_BLOCKS)
        } else {
            most
        }
    }

    /// Blocks over which early stopping judges progress.
    fn window(&self) -> usize {
        (WINDOW_FEATURES / self.block_size()).clamp(4, 8)
    }

    fn default_damping(&self) -> f64 {
        self.options.damping.unwrap_or_else(|| self.loss.damping(&self.offset))
    }

    fn problem(&self) -> Problem<'_> {
        Problem { rows: self.rows, targets: &self.targets, weights: &self.weights, loss: &*self.loss }
    }

    fn has_hold_out(&self) -> bool {
        self.held.iter().any(|&w| w > 0.0)
    }

    /// Scaling, bandwidth and damping; where they were raced for, the winner's first blocks.
    fn choose(
        &self,
        findings: &mut Findings<'_>,
        control: &mut Control<'_>,
    ) -> Result<(Setting, Option<Trial>)> {
        let damping = self.default_damping();
        if self.small {
            let shape = (self.max_blocks(), self.block_size());
            let y = square_targets(&*self.loss, &self.targets, &self.weights);
            let mut setting =
                by_evidence(self.options, self.rows, &self.weights, &self.moments, &y, shape, control)?;
            let noise = setting.damping * effective_rows(&self.weights) / (shape.0 * shape.1) as f64;
            let curvature = self.loss.nominal_curvature(&self.offset, noise);
            setting.damping = self.options.damping.unwrap_or(curvature * setting.damping);
            return Ok((setting, None));
        }
        if let Some(setting) = decided(self.options, &self.moments, self.rows, &self.weights, damping) {
            return Ok((setting, None));
        }
        let held = if self.has_hold_out() { self.held.clone() } else { self.weights.clone() };
        let contest = Contest {
            rows: self.rows,
            targets: &self.targets,
            weights: &self.weights,
            held: &held,
            loss: &*self.loss,
            offset: &self.offset,
            error: &|predictions| self.held_out_error(predictions),
        };
        let (config, block_size, max_blocks) = (self.config(damping), self.block_size(), self.max_blocks());
        let schedule = Schedule { config, block_size, max_blocks };
        race(self.options, &contest, &self.moments, damping, schedule, (findings, control))
    }

    fn map(&self, setting: &Setting) -> Result<FeatureMap> {
        self.options.feature_map(setting.bandwidth, self.block_size(), setting.scaling.clone())
    }

    fn config(&self, damping: f64) -> BlockDescentConfig {
        let (ridge, chunk) = (self.options.ridge.unwrap_or(0.0), self.options.chunk);
        // A Gram matrix costs rows × m²: of large blocks it would be half of a fit.
        let gram_rows_per_feature = if self.block_size() < LARGE_BLOCK { 16 } else { 8 };
        BlockDescentConfig { damping, ridge, chunk, gram_rows_per_feature, ..Default::default() }
    }

    fn ridge(&self, control: &mut Control<'_>) -> Result<Outcome> {
        let (setting, _) = self.choose(&mut Findings::new(), control)?;
        let n = effective_rows(&self.weights);
        // The same noise-to-signal ratio for any number of rows, unless the user knows better.
        let ridge = self.options.ridge.unwrap_or(0.01 / n.max(1.0));
        let config = RidgeConfig { ridge, blocks: self.max_blocks(), tolerance: 1e-5, max_iterations: 1_000 };
        let f = FeatureExpansion::new(self.map(&setting)?, self.offset.clone());
        let everything: Vec<f32> = self.weights.iter().zip(&self.held).map(|(a, b)| a + b).collect();
        let most = config.max_iterations;
        let report = |done, residual| control.report(Progress::new(Phase::Ridge, done, most, residual));
        let (f, _) = config.build()?.fit(f, self.rows, &self.targets, &everything, report)?;
        Ok(Outcome {
            f: Learnt::Features(in_units(f, &self.units, None)),
            standard: setting.standard,
            metric: None,
            calibration: None,
            history: Vec::new(),
        })
    }

    fn held_out_error(&self, predictions: &[f32]) -> Option<f64> {
        if !self.loss.domain().is_class() {
            return None;
        }
        let c = self.loss.outputs();
        let (mut wrong, mut total) = (0.0, 0.0);
        for (i, &w) in self.held.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            total += f64::from(w);
            if class_of(&predictions[i * c..(i + 1) * c]) != self.label(i) {
                wrong += f64::from(w);
            }
        }
        Some(wrong / total)
    }

    fn label(&self, i: usize) -> usize {
        match self.loss.domain() {
            Domain::Class => self.targets[i] as usize,
            _ => usize::from(self.targets[i] > 0.0),
        }
    }
}

/// The class of a row of scores: the sign of a single one, else the largest.
pub(crate) fn class_of(u: &[f32]) -> usize {
    if u.len() == 1 {
        return usize::from(u[0] > 0.0);
    }
    (1..u.len()).fold(0, |best, c| if u[c] > u[best] { c } else { best })
}

/// A tenth of the rows, at most 4,096, held out at random: (training weights, held-out weights).
fn set_aside(options: &Options, weights: &[f32], small: bool) -> (Vec<f32>, Vec<f32>) {
    let n = weights.len();
    let mut held = vec![0.0; n];
    let mut train = weights.to_vec();
    if small
        || !options.early_stopping
        || options.solver == SolverSpec::Ridge && options.bandwidth != super::Bandwidth::Auto
    {
        return (train, held);
    }
    let order = Permutation::new(options.seed, Stream::HoldOut, BlockIndex(0), n);
    for &i in &order.indices()[..(n / 10).min(4_096)] {
        held[i as usize] = std::mem::take(&mut train[i as usize]);
    }
    // All the mass may sit on a few rows: without any left to learn from nothing is held out.
    if train.iter().all(|&w| w == 0.0) {
        return (weights.to_vec(), vec![0.0; n]);
    }
    (train, held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::quietly;
    use crate::functions::{Bandwidth, Training};
    use crate::random::{uniform_open, Address, Seed};
    use crate::solver::BlockState;

    const ROWS: usize = 2_100;

    /// Two uniform columns; the class is the side of a circle.
    fn circle() -> (Vec<f32>, Vec<f32>) {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for i in 0..ROWS {
            let words = Address::new(Seed(6), Stream::Synthetic, BlockIndex(0), i as u32).words(0);
            let point = [words[0], words[1]].map(|w| 2.0 * uniform_open(w) - 1.0);
            y.push(f32::from(u8::from(point[0].hypot(point[1]) < 0.8)));
            x.extend(point.map(|v| v as f32));
        }
        (x, y)
    }

    fn options() -> Options {
        Options {
            bandwidth: Bandwidth::Value(0.5),
            block_size: Some(64),
            max_blocks: Some(5),
            ..Options::new(Task::Classification(2), Seed(4))
        }
    }

    /// The coefficients before and after the held-out rows are absorbed.
    fn coefficients(x: &[f32], y: &[f32]) -> [Vec<f32>; 2] {
        let options = options();
        let data = Training { rows: Rows::single(x, 2).unwrap(), targets: y, weights: None };
        let prepared = Prepared::new(&data, options.task, &LossSpec::SquaredHinge).unwrap();
        let fit = Fit::new(&options, LossSpec::SquaredHinge, &prepared, Fingerprint::default()).unwrap();
        let solver = BlockDescentConfig::default().build().unwrap();
        let mut all = [Vec::new(), Vec::new()];
        quietly(|control| {
            let (mut state, mut log) = fit.begin(&mut Findings::new(), control).unwrap();
            let list = |state: &BlockState| {
                let f = &state.f;
                (0..f.len()).flat_map(|b| f.coefficients(b).to_vec()).collect()
            };
            fit.descend(&solver, &mut state, &mut log, control).unwrap();
            all[0] = list(&state);
            (log.best, log.absorbing) = (5, Some(6));
            fit.absorb(&solver, &mut state, &mut log, control).unwrap();
            all[1] = list(&state);
        });
        all
    }

    /// Wrong labels on all held-out rows change nothing before these rows are absorbed, and something after.
    #[test]
    fn held_out_rows_are_not_learnt_from_until_the_end() {
        let (x, y) = circle();
        let (_, held) = set_aside(&options(), &[1.0; ROWS], false);
        let flip = |which: &dyn Fn(usize) -> bool| -> Vec<f32> {
            y.iter().enumerate().map(|(i, &y)| if which(i) { 1.0 - y } else { y }).collect()
        };
        let original = coefficients(&x, &y);
        let lied_to = coefficients(&x, &flip(&|i| held[i] > 0.0));
        assert_eq!(original[0].len(), 5 * 64);
        assert!(original[0] == lied_to[0]);
        assert!(original[1] != lied_to[1] && original[1].len() == 6 * 64);
        let first = held.iter().position(|&h| h == 0.0).unwrap();
        assert!(original[0] != coefficients(&x, &flip(&|i| i == first))[0]);
    }

    #[test]
    fn a_tenth_is_set_aside_with_its_weight() {
        let weights: Vec<f32> = (0..ROWS).map(|i| 1.0 + (i % 3) as f32).collect();
        let (train, held) = set_aside(&options(), &weights, false);
        assert_eq!(held.iter().filter(|&&h| h > 0.0).count(), ROWS / 10);
        for (i, w) in weights.iter().enumerate() {
            assert!((train[i], held[i]) == (*w, 0.0) || (train[i], held[i]) == (0.0, *w), "row {i}");
        }
        let (_, other) = set_aside(&Options { seed: Seed(5), ..options() }, &weights, false);
        assert!(held != other);
        let none = |options: &Options, small| set_aside(options, &weights, small).1.iter().all(|&h| h == 0.0);
        assert!(none(&options(), true) && none(&Options { early_stopping: false, ..options() }, false));
    }
}
