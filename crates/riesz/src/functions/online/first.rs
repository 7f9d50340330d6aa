//! The first rows, which settle units, scaling and bandwidth, and learning from them and from all others.
//!
//! Everything is settled by the first row, and anew whenever there are twice as many, up to [`CAPACITY`] rows: these are kept
//! until then, and learnt from again. So the same rows lead to the same bits in however many calls they come, and nothing is
//! decided by rows that are yet to be predicted.

use super::memory::Kept;
use super::paces::{OnlineState, PacedSgd, Told, PACES};
use super::{columns, weights_of, Header, OnlineMachine, OnlineOptions, Progressive, Task, Training, ENOUGH};
use crate::data::Rows;
use crate::driver::{quietly, run, Batches, Control, Monitor, Phase, Progress};
use crate::error::{Error, Result};
use crate::functions::kept_rows::{KeptRows, Labelled};
use crate::functions::kernel_machine::start::{loss_in, standardise};
use crate::functions::kernel_machine::training::encode;
use crate::kernel::FeatureMap;
use crate::loss::Loss;
use crate::operator::{Evaluation, Operator};
use crate::solver::{PrimalDual, PrimalDualInfo, PrimalDualState, Samples, Solver};
use crate::space::{Function, Space};
use std::ops::Range;

/// First rows that are kept.
pub(super) const CAPACITY: usize = 1_024;
/// Rows looked at together.
const CHUNK: usize = 64;
/// Width over which the kink of a loss is thought of as rounded, in units of the targets or of the margin.
const WIDTH: f32 = 1.0;

/// The first rows of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct First {
    /// Targets as they came: numbers, or class indices.
    pub rows: KeptRows,
    /// What was predicted for them, in units of the targets.
    pub told: Vec<f32>,
}

impl OnlineMachine {
    /// Settles what the first row can, then learns from all of them.
    pub fn begin(options: &OnlineOptions, first: &Training<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        first.check(options.task)?;
        options.kernel.check_domain(first.rows)?;
        let mut one = KeptRows::default();
        one.append_until(1, labelled(first, &weights_of(first)), 0..first.rows.len() as u32);
        let (header, state) = settled(options, &one, 1)?;
        let mut machine = Self { header, state, first: First::default() };
        machine.learn(first, control)?;
        Ok(machine)
    }

    /// Predicts each row, then learns from it, in their order.
    pub fn learn(&mut self, data: &Training<'_>, control: &mut Control<'_>) -> Result<()> {
        self.learn_telling(data, None, control)
    }

    /// The same; what was predicted is appended to `told`, n×C as of [`OnlineMachine::decision`].
    pub fn learn_telling(
        &mut self,
        data: &Training<'_>,
        mut told: Option<&mut Vec<f32>>,
        control: &mut Control<'_>,
    ) -> Result<()> {
        let Header { options, loss, .. } = &self.header;
        data.check(options.task)?;
        options.kernel.check_domain(data.rows)?;
        if let Task::Regression(targets) = options.task {
            loss.check_targets(data.targets, targets)?;
        }
        let (weights, n) = (weights_of(data), data.rows.len());
        let mut from = 0;
        while from < n {
            if self.header.settled >= CAPACITY {
                return self.learn_part(data, &weights, from..n, &mut told, control);
            }
            let due = 2 * self.header.settled;
            let taken = self.first.rows.append_until(due, labelled(data, &weights), from as u32..n as u32);
            self.learn_part(data, &weights, from..from + taken, &mut told, control)?;
            from += taken;
            if self.first.rows.len() >= due {
                self.settle_anew(due)?;
            }
        }
        Ok(())
    }

    /// Makes room for further columns, at these places among all of them and in ascending order: rows so far had zero there.
    /// Returns whether there is room: once the first rows have settled everything, there is none.
    pub fn add_columns(&mut self, places: &[usize]) -> Result<bool> {
        if self.header.settled >= CAPACITY {
            return Ok(false);
        }
        let (old, d) = (self.columns(), self.columns() + places.len());
        if !places.windows(2).all(|pair| pair[0] < pair[1]) || places.last().is_some_and(|last| *last >= d) {
            return Err(Error::Conflict(format!("columns are added at ascending places below {d}")));
        }
        let mut x = Vec::with_capacity(self.first.rows.len() * d);
        for row in self.first.rows.x.chunks_exact(old) {
            let mut values = row.iter();
            let value = |j| if places.contains(&j) { 0.0 } else { values.next().copied().unwrap_or(0.0) };
            x.extend((0..d).map(value));
        }
        self.first.rows.x = x;
        self.settle_anew(self.header.settled)?;
        Ok(true)
    }

    /// Learns from some rows of `data` with everything settled as it is.
    fn learn_part(
        &mut self,
        data: &Training<'_>,
        weights: &[f32],
        range: Range<usize>,
        told: &mut Option<&mut Vec<f32>>,
        control: &mut Control<'_>,
    ) -> Result<()> {
        let (rows, weights) = (data.rows.slice(range.clone()), &weights[range.clone()]);
        let t = data.targets.len() / data.rows.len();
        let targets = &data.targets[range.start * t..range.end * t];
        let loss = loss_in(&self.header.loss, self.header.options.task, &self.header.units)?;
        let keep = told.is_some() || self.header.settled < CAPACITY;
        let mut watch = Watch::new(rows.len(), self.header.progressive, keep);
        learn_rows(&self.header, &*loss, &mut self.state, (rows, targets, weights), &mut watch, control)?;
        self.header.progressive = watch.cost;
        self.in_units(&mut watch.values);
        if self.header.settled < CAPACITY && matches!(self.header.options.task, Task::Regression(_)) {
            let values = watch.values.chunks_exact(loss.outputs()).zip(weights);
            self.first.told.extend(values.filter(|(_, w)| **w > 0.0).flat_map(|(values, _)| values));
        }
        if let Some(told) = told {
            told.append(&mut watch.values);
        }
        Ok(())
    }

    /// Settles everything by the first `count` rows, and learns from all that are kept again.
    fn settle_anew(&mut self, count: usize) -> Result<()> {
        let rows = &self.first.rows;
        let (header, mut state) = settled(&self.header.options, rows, count)?;
        let loss = loss_in(&header.loss, header.options.task, &header.units)?;
        let mut watch = Watch::new(rows.len(), Progressive::default(), false);
        let data = (rows.rows()?, &rows.y[..], &rows.w[..]);
        quietly(|control| learn_rows(&header, &*loss, &mut state, data, &mut watch, control))?;
        let mut progressive = self.header.progressive;
        if let Task::Regression(_) = header.options.task {
            // What was predicted for them costs something else in the new units.
            let (c, units) = (loss.outputs(), &header.units);
            let inner = |(i, &u): (usize, &f32)| units[i % c % units.len()].inverse(f64::from(u)) as f32;
            let values: Vec<f32> = self.first.told.iter().enumerate().map(inner).collect();
            progressive.loss = loss.total(&values, &in_their_units(&header, &rows.y), &rows.w);
        }
        if rows.len() >= CAPACITY {
            self.first = First::default();
        }
        let class_names = std::mem::take(&mut self.header.class_names);
        (self.header, self.state) = (Header { progressive, class_names, ..header }, state);
        Ok(())
    }

    /// Values of f, n×C, in the units of the targets.
    pub(super) fn in_units(&self, values: &mut [f32]) {
        let (c, units) = (self.outputs(), &self.header.units);
        let unit = |i: usize| units[i % c % units.len()];
        values.iter_mut().enumerate().for_each(|(i, v)| *v = unit(i).output(f64::from(*v)) as f32);
    }
}

fn labelled<'a>(data: &Training<'a>, weights: &'a [f32]) -> Labelled<'a> {
    Labelled { rows: data.rows, targets: data.targets, weights }
}

/// Targets as the loss wants them.
pub(super) fn in_their_units(header: &Header, targets: &[f32]) -> Vec<f32> {
    let units = &header.units;
    let encoded = encode(targets, header.options.task, &header.loss);
    encoded.iter().enumerate().map(|(i, &y)| units[i % units.len()].scaled(y)).collect()
}

/// Units, scaling and bandwidth by some rows, and the constant function to start from.
fn settled(options: &OnlineOptions, first: &KeptRows, count: usize) -> Result<(Header, OnlineState)> {
    let (spec, size) = (options.loss(), options.size());
    let (rows, weights) = (first.rows()?.slice(0..count), &first.w[..count]);
    let targets = encode(&first.y[..first.y.len() / first.len() * count], options.task, &spec);
    let (scaled, units) = standardise(&*spec.build(size)?, &targets, weights);
    let loss = loss_in(&spec, options.task, &units)?;
    let (bandwidth, scaling) = columns(options, rows, weights);
    let map = FeatureMap::new(options.kernel.clone(), bandwidth, 1 << 12, options.seed, scaling.clone())?;
    let paces = paces(options).len();
    let offset = loss.stream_start(&scaled, weights).repeat(paces);
    let f = Kept::new(options, bandwidth, scaling, offset)?;
    let inner = PrimalDualState::new(f, &options.constraints(&units)?, options.penalty);
    let header = Header {
        options: options.clone(),
        loss: spec,
        bandwidth,
        units,
        mean_square: map.mean_square(rows)?,
        progressive: Progressive::default(),
        settled: count,
        class_names: Vec::new(),
    };
    Ok((header, OnlineState { inner, costs: vec![0.0; paces] }))
}

/// η of each pace.
pub(super) fn paces(options: &OnlineOptions) -> Vec<f64> {
    match options.adaptive && !options.is_published() {
        true => PACES.iter().map(|pace| pace * options.step).collect(),
        false => vec![options.step],
    }
}

/// Predicts each row, then learns from it.
fn learn_rows(
    header: &Header,
    loss: &dyn Loss,
    state: &mut OnlineState,
    (rows, targets, weights): (Rows<'_>, &[f32], &[f32]),
    watch: &mut Watch,
    control: &mut Control<'_>,
) -> Result<()> {
    let options = &header.options;
    let curvature = f64::from(loss.step_curvature(&state.inner.f.offset()[..loss.outputs()], WIDTH));
    let targets = in_their_units(header, targets);
    let mut batches = InOrder { rows, targets: &targets, weights, next: 0, size: CHUNK };
    if !options.is_published() {
        let solver = PacedSgd {
            curvature: curvature * header.mean_square,
            loss,
            steps: paces(options),
            ridge: options.ridge,
            horizon: options.horizon(),
        };
        return run(&solver, state, &mut batches, watch, control).map(drop);
    }
    let (constraints, mut config) = (options.constraints(&header.units)?, options.solver(curvature));
    if header.settled < ENOUGH {
        // The units of the targets are not known yet, nor how far a constraint is from its bound: multipliers wait.
        (config.penalty, config.limit) = (Some(options.penalty.unwrap_or(0.0)), f64::INFINITY);
    }
    let solver = config.build(Evaluation, loss, &constraints)?;
    for (i, &weight) in weights.iter().enumerate() {
        if watch.keep {
            let from = watch.values.len();
            watch.values.resize(from + loss.outputs(), 0.0);
            state.inner.f.evaluate(rows.slice(i..i + 1), &mut watch.values[from..])?;
        }
        if weight > 0.0 {
            (batches.next, batches.size) = (i, 1);
            let mut one = Once(&mut batches, false);
            // A batch counts by its mean, and one row is its own: its weight is the length of the step.
            let weighted;
            let solver = if weight == 1.0 {
                &solver
            } else {
                weighted = config.times(f64::from(weight)).build(Evaluation, loss, &constraints)?;
                &weighted
            };
            run(solver, &mut state.inner, &mut one, watch, control)?;
        }
    }
    Ok(())
}

/// Rows in their order, those of weight zero among them: they are predicted too.
struct InOrder<'d> {
    rows: Rows<'d>,
    targets: &'d [f32],
    weights: &'d [f32],
    next: usize,
    size: usize,
}

/// One batch of them.
struct Once<'b, 'd>(&'b mut InOrder<'d>, bool);

impl<S: for<'a> Solver<Batch<'a> = Samples<'a, Rows<'a>>>> Batches<S> for Once<'_, '_> {
    fn next(&mut self) -> Result<Option<Samples<'_, Rows<'_>>>> {
        match std::mem::replace(&mut self.1, true) {
            true => Ok(None),
            false => Batches::<S>::next(self.0),
        }
    }

    fn rewind(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<S: for<'a> Solver<Batch<'a> = Samples<'a, Rows<'a>>>> Batches<S> for InOrder<'_> {
    fn next(&mut self) -> Result<Option<Samples<'_, Rows<'_>>>> {
        let (n, t) = (self.rows.len(), self.targets.len() / self.rows.len());
        let range = self.next..(self.next + self.size).min(n);
        self.next = range.end;
        Ok((!range.is_empty()).then(|| Samples {
            batch: self.rows.slice(range.clone()),
            targets: &self.targets[range.start * t..range.end * t],
            weights: &self.weights[range],
        }))
    }

    fn rewind(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }
}

/// Adds up what predicting before learning costs.
struct Watch {
    most: usize,
    done: usize,
    cost: Progressive,
    /// What was predicted, if it is kept.
    values: Vec<f32>,
    keep: bool,
}

impl Watch {
    fn new(most: usize, cost: Progressive, keep: bool) -> Self {
        Self { most, done: 0, cost, values: Vec::new(), keep }
    }
}

impl Watch {
    fn progress(&mut self, rows: usize) -> Progress {
        self.done = (self.done + rows).min(self.most);
        Progress::new(Phase::Stream, self.done, self.most, self.cost.loss / self.cost.weight)
    }
}

impl<'l> Monitor<PacedSgd<'l>> for Watch {
    fn observe(&mut self, _: &OnlineState, told: Told) -> Result<Progress> {
        for (loss, weight) in told.costs {
            self.cost.loss += loss;
            self.cost.weight += weight;
        }
        if self.keep {
            self.values.extend(told.values);
        }
        Ok(self.progress(CHUNK))
    }
}

impl<T: Operator, F: Space> Monitor<PrimalDual<'_, T, F>> for Watch {
    fn observe(&mut self, _: &PrimalDualState<F>, info: PrimalDualInfo) -> Result<Progress> {
        self.cost.loss += info.loss * info.weight;
        self.cost.weight += info.weight;
        Ok(self.progress(1))
    }
}
