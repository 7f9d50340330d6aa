//! Learning from rows as they come: `solver = stream` and `partial_fit`.
//!
//! By default the first rows are kept, up to [`CAPACITY`], and settle scaling, bandwidth, ridge, the unit of the targets and a
//! preconditioner; from then on every batch takes one step of [`PreconditionedSgd`] on a fixed number of features, and the
//! average of the iterates is the answer. With a step size θ of one's own it is the published algorithm instead, doubly
//! stochastic gradients (thesis Algorithm 1): one fresh block of features per batch with γ_t = θ/(t + t₀).

use super::options::{Options, Task};
use super::race::{decided, fallback, scaling, scalings, Setting};
use super::start::{in_units, loss_in, standardise};
use crate::compute::Device;
use crate::data::Rows;
use crate::driver::{run, Control, Minibatches, Phase, Steps};
use crate::error::{Error, Result};
use crate::functions::geometry::{median_distance, Moments};
use crate::functions::stored::{insert_iterate, take_iterate};
use crate::loss::{Loss, LossSpec, Unit};
use crate::model::Container;
use crate::operator::Evaluation;
use crate::random::{BlockIndex, Permutation, Seed, Stream as Purpose};
use crate::solver::{
    FunctionalSgdConfig, PreconditionedSgd, PreconditionedState, RidgePath, Samples, Schedule, SgdState,
    StreamRidge,
};
use crate::space::{Averaged, Averaging, FeatureExpansion, FixedFeatures, Function};
use serde::{Deserialize, Serialize};

/// First rows that are kept until they have settled everything.
pub(crate) const CAPACITY: usize = 8_192;
/// Features, unless the user says otherwise.
const FEATURES: usize = 4_096;
/// Features per block of the published algorithm, unless the user says otherwise.
const BLOCK: usize = 512;
/// Fewest features, and fewest rows that are raced on.
const LEAST_FEATURES: usize = 512;
const LEAST_ROWS: usize = 64;
/// Bandwidths that are compared, in median distances, widest first.
const BANDWIDTHS: [f64; 4] = [2.0, 1.0, 0.5, 0.25];
/// Ridges ν that are compared.
const RIDGES: [f64; 5] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2];
/// Features of the comparison.
const RACE_FEATURES: usize = 1_024;
/// Errors within this factor are taken for equal: the narrower bandwidth goes on, since rows to come only pull it down.
const TIE: f64 = 1.01;
/// ν of the published algorithm, unless the user says otherwise.
const RIDGE: f64 = 1e-4;

/// A function that goes on learning.
#[derive(Clone)]
pub(crate) struct Stream {
    /// Whether columns are standardised.
    pub standard: bool,
    /// Units of the targets.
    units: Vec<Unit>,
    learner: Learner,
}

#[derive(Clone)]
enum Learner {
    Preconditioned(Box<Preconditioned>),
    DoublyStochastic(Box<SgdState<FeatureExpansion>>),
}

#[derive(Clone)]
struct Preconditioned {
    /// The first rows; `None` once there were enough of them.
    buffer: Option<Buffer>,
    /// How many of them had a say when everything was last settled.
    settled: usize,
    state: PreconditionedState,
}

/// Rows, targets and weights that were copied.
#[derive(Clone, Default)]
struct Buffer {
    x: Vec<f32>,
    y: Vec<f32>,
    w: Vec<f32>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("standard", &self.standard)
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}

/// Rows with encoded targets and explicit weights.
#[derive(Clone, Copy)]
pub(crate) struct Labelled<'a> {
    pub rows: Rows<'a>,
    pub targets: &'a [f32],
    pub weights: &'a [f32],
}

/// How often, and in which order, the rows of a call are learnt from.
#[derive(Clone, Copy)]
pub(crate) struct Course {
    pub passes: usize,
    /// With a seed the order of every pass is random.
    pub shuffle: Option<Seed>,
}

impl Buffer {
    /// Appends some rows of positive weight.
    fn append(&mut self, data: Labelled<'_>, order: &[u32]) {
        let t = data.targets.len() / data.rows.len();
        let some: Vec<u32> = order.iter().copied().filter(|&i| data.weights[i as usize] > 0.0).collect();
        self.x.extend(data.rows.gather(&some));
        for i in some.into_iter().map(|i| i as usize) {
            self.y.extend_from_slice(&data.targets[i * t..(i + 1) * t]);
            self.w.push(data.weights[i]);
        }
    }
}

fn scaled(targets: &[f32], units: &[Unit]) -> Vec<f32> {
    targets.iter().enumerate().map(|(i, &y)| units[i % units.len()].scaled(y)).collect()
}

impl Stream {
    /// Begins with the first rows of `data` and learns from all of them.
    pub(crate) fn begin(
        options: &Options,
        spec: &LossSpec,
        data: Labelled<'_>,
        course: Course,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        let n = data.rows.len();
        let order = match course.shuffle {
            Some(seed) => Permutation::new(seed, Purpose::Shuffle, BlockIndex(0), n).indices().to_vec(),
            None => (0..n as u32).collect(),
        };
        let mut buffer = Buffer::default();
        let taken = n.min(CAPACITY);
        buffer.append(data, &order[..taken]);
        let mut stream = Self::settle(options, spec, buffer, control)?;
        let from = if let Learner::Preconditioned(_) = stream.learner { taken } else { 0 };
        stream.learn_from(options, spec, data, (from, course), control)?;
        Ok(stream)
    }

    /// Goes on from a function that a fit to rows of total weight `seen` returned.
    pub(crate) fn after(f: FeatureExpansion, standard: bool, seen: f64, batch: usize) -> Self {
        let state = SgdState { f, step: (seen / batch as f64).ceil() as u64 };
        let units = vec![Unit::IDENTITY];
        Self { standard, units, learner: Learner::DoublyStochastic(Box::new(state)) }
    }

    /// The function learnt so far, in the units of the targets as they are.
    pub(crate) fn function(&self) -> FeatureExpansion {
        let f = match &self.learner {
            Learner::Preconditioned(learner) => learner.state.f.average().into_expansion(),
            Learner::DoublyStochastic(state) => state.f.average(),
        };
        in_units(f, &self.units, None)
    }

    /// Learns from further rows, once and in their order.
    pub(crate) fn learn(
        &mut self,
        options: &Options,
        spec: &LossSpec,
        data: Labelled<'_>,
        control: &mut Control<'_>,
    ) -> Result<()> {
        let n = data.rows.len();
        let mut from = 0;
        if let Learner::Preconditioned(learner) = &mut self.learner {
            if let Some(buffer) = &mut learner.buffer {
                let taken = n.min(CAPACITY - buffer.w.len());
                buffer.append(data, &(0..taken as u32).collect::<Vec<_>>());
                if buffer.w.len() >= CAPACITY.min(2 * learner.settled) {
                    *self = Self::settle(options, spec, std::mem::take(buffer), control)?;
                    from = taken;
                }
            }
        }
        self.learn_from(options, spec, data, (from, Course { passes: 1, shuffle: None }), control)
    }

    /// Takes the steps of the rows from the `from`-th of the first pass on.
    fn learn_from(
        &mut self,
        options: &Options,
        spec: &LossSpec,
        data: Labelled<'_>,
        (from, course): (usize, Course),
        control: &mut Control<'_>,
    ) -> Result<()> {
        let loss = loss_in(spec, options.task, &self.units)?;
        let targets = scaled(data.targets, &self.units);
        let size = options.batch_size;
        let mut batches = Minibatches::new(data.rows, &targets, data.weights, size, course.shuffle);
        batches.skip_to(from);
        let mut monitor = Steps::passes(Phase::Stream, course.passes, batches.len());
        match &mut self.learner {
            Learner::Preconditioned(learner) => {
                let solver = PreconditionedSgd::new(&*loss);
                run(&solver, &mut learner.state, &mut batches, &mut monitor, control)?;
            }
            Learner::DoublyStochastic(state) => {
                let (schedule, ridge) = schedule(options, &*loss, state, data.rows)?;
                let solver = FunctionalSgdConfig { schedule, ridge }.build(Evaluation, &*loss)?;
                run(&solver, state, &mut batches, &mut monitor, control)?;
            }
        }
        Ok(())
    }

    /// Decides on everything by the rows of the buffer, and fits them.
    fn settle(options: &Options, spec: &LossSpec, buffer: Buffer, control: &mut Control<'_>) -> Result<Self> {
        control.check(0)?;
        let rows = Rows::single(&buffer.x, buffer.x.len() / buffer.w.len())?;
        let (Task::Regression(size) | Task::Classification(size)) = options.task;
        let (targets, units) = standardise(&*spec.build(size)?, &buffer.y, &buffer.w);
        let loss = loss_in(spec, options.task, &units)?;
        let offset = loss.stream_start(&targets, &buffer.w);
        let samples = Samples { batch: rows, targets: &targets, weights: &buffer.w };
        let (setting, ridge) = choose(options, &*loss, &offset, samples, control)?;
        control.check(0)?;
        let Setting { standard, bandwidth, scaling, .. } = setting;
        if options.theta.is_some() {
            let map = options.feature_map(bandwidth, options.block_size.unwrap_or(BLOCK), scaling)?;
            let mut f =
                FeatureExpansion::new(map, offset).limited_to(options.max_blocks.unwrap_or(usize::MAX));
            if let Some(power) = options.averaging {
                f = f.averaging(Averaging { power });
            }
            return Ok(Self {
                standard,
                units,
                learner: Learner::DoublyStochastic(Box::new(SgdState::new(f))),
            });
        }
        let map = options.feature_map(bandwidth, features(options, rows.len()), scaling)?;
        let f = FixedFeatures::new(map, offset, 1);
        let state = PreconditionedSgd::new(&*loss).begin(f, samples, ridge, options.averaging)?;
        let settled = buffer.w.len();
        let buffer = (settled < CAPACITY).then_some(buffer);
        let learner = Preconditioned { buffer, settled, state };
        Ok(Self { standard, units, learner: Learner::Preconditioned(Box::new(learner)) })
    }
}

/// A stream but for its tensors.
#[derive(Serialize, Deserialize)]
struct Header {
    standard: bool,
    units: Vec<Unit>,
    /// Steps of doubly stochastic gradients; `None`: preconditioned ones.
    step: Option<u64>,
    settled: usize,
    /// Whether the first rows are still kept.
    buffered: bool,
}

impl Stream {
    /// Adds what a stream needs to go on, to the same bits, to the container of its machine.
    pub(crate) fn store(&self, container: &mut Container) -> Result<()> {
        let (standard, units) = (self.standard, self.units.clone());
        match &self.learner {
            Learner::DoublyStochastic(state) => {
                let SgdState { f, step } = &**state;
                let header = Header { standard, units, step: Some(*step), settled: 0, buffered: false };
                container.set_field("stream", &header)?;
                insert_iterate(container, f)
            }
            Learner::Preconditioned(learner) => {
                let Preconditioned { buffer, settled, state } = &**learner;
                let header =
                    Header { standard, units, step: None, settled: *settled, buffered: buffer.is_some() };
                container.set_field("stream", &header)?;
                let Buffer { x, y, w } = buffer.clone().unwrap_or_default();
                for (name, values) in [("stream.x", x), ("stream.y", y), ("stream.w", w)] {
                    container.insert(name, vec![values.len()], values)?;
                }
                state.store(container)?;
                insert_iterate(container, state.f.as_expansion())
            }
        }
    }

    /// Takes out what [`Stream::store`] added; `f` is the function of the machine.
    pub(crate) fn restore(container: &mut Container, f: &FeatureExpansion) -> Result<Self> {
        let Header { standard, units, step, settled, buffered } = container.field("stream")?;
        if units.is_empty() {
            return Err(Error::Format("a stream needs the units of its targets".into()));
        }
        let iterate = take_iterate(container, f.map().clone(), f.outputs())?;
        if let Some(step) = step {
            let learner = Learner::DoublyStochastic(Box::new(SgdState { f: iterate, step }));
            return Ok(Self { standard, units, learner });
        }
        if iterate.len() != 1 {
            return Err(Error::Format("a preconditioned stream has one block of features".into()));
        }
        let mut take = |name: &str| {
            let count = container.f32s(name)?.1.len();
            container.take_f32s(name, &[count])
        };
        let buffer = Buffer { x: take("stream.x")?, y: take("stream.y")?, w: take("stream.w")? };
        let n = buffer.w.len();
        if buffered
            && (n == 0
                || n >= CAPACITY
                || buffer.x.len() != n * f.columns()
                || !buffer.y.len().is_multiple_of(n))
        {
            return Err(Error::Format("the first rows of the stream do not fit each other".into()));
        }
        let state = PreconditionedState::restore(container, FixedFeatures::from_expansion(iterate))?;
        let learner = Preconditioned { buffer: buffered.then_some(buffer), settled, state };
        Ok(Self { standard, units, learner: Learner::Preconditioned(Box::new(learner)) })
    }
}

/// Features for `n` first rows: about half of them, at most the budget.
fn features(options: &Options, n: usize) -> usize {
    let most = match (options.max_blocks, options.block_size) {
        (None, None) => FEATURES,
        (blocks, size) => blocks.unwrap_or(1).saturating_mul(size.unwrap_or(BLOCK)),
    };
    (n / 2).next_power_of_two().max(LEAST_FEATURES).min(most)
}

/// γ_t and ν of doubly stochastic gradients: θ and t₀ as the user says; after a fit γ_t = 1/(h√t), where t counts the rows of
/// the fit too, in batches.
fn schedule(
    options: &Options,
    loss: &dyn Loss,
    state: &SgdState<FeatureExpansion>,
    rows: Rows<'_>,
) -> Result<(Schedule, f64)> {
    let ridge = options.ridge.unwrap_or(RIDGE);
    if let Some(theta) = options.theta {
        return Ok((Schedule::Inverse { theta, delay: options.delay.unwrap_or(0.0) }, ridge));
    }
    let start = state.f.offset();
    let curvature = f64::from(loss.step_curvature(start, 1.0)) * state.f.map().mean_square(rows)?;
    let step = 1.0 / (curvature + ridge);
    Ok((Schedule::InverseRoot { step, delay: 0.0, horizon: f64::INFINITY }, ridge))
}

/// Scaling, bandwidth and ridge by what they predict of a third of the rows, from ridge regressions of −ℓ' at the start on
/// random features.
fn choose(
    options: &Options,
    loss: &dyn Loss,
    offset: &[f32],
    Samples { batch: rows, targets, weights }: Samples<'_, Rows<'_>>,
    control: &mut Control<'_>,
) -> Result<(Setting, StreamRidge)> {
    let n = rows.len();
    let moments = Moments::of(rows, weights);
    let decided = decided(options, &moments, rows, weights, 1.0);
    let given = options.ridge.map(StreamRidge::PerRow);
    let candidates = |standard: bool| {
        let scaling = scaling(&moments, standard, &options.kernel);
        let median = median_distance(rows, weights, &scaling, &options.kernel, options.seed);
        BANDWIDTHS.map(|factor| Setting {
            scaling: scaling.clone(),
            standard,
            bandwidth: factor * median,
            damping: 1.0,
        })
    };
    if n < LEAST_ROWS || decided.is_some() && given.is_some() {
        // Too few rows to compare anything by: the median distance, between standardised columns where that is open.
        let setting = decided.unwrap_or_else(|| {
            let [_, median, ..] = candidates(scalings(options).contains(&true));
            median
        });
        return Ok((setting, given.unwrap_or(StreamRidge::Total(1.0))));
    }
    let mut residuals = vec![0.0; n * loss.outputs()];
    loss.residuals(&offset.repeat(n), targets, &vec![1.0; n], &mut residuals);
    let order = Permutation::new(options.seed, Purpose::Race, BlockIndex(1), n);
    let path = RidgePath::new(rows, &residuals, weights, order.indices());
    let features = (n / 2).next_power_of_two().clamp(64, RACE_FEATURES);
    let mut tried: Vec<(Setting, usize, f64, f64)> = Vec::new();
    for standard in scalings(options) {
        let settings = decided.clone().map_or_else(|| candidates(standard).to_vec(), |setting| vec![setting]);
        for (rank, setting) in settings.into_iter().enumerate() {
            control.check(0)?;
            let map = options.feature_map(setting.bandwidth, features, setting.scaling.clone())?;
            for (ridge, error) in path.errors(&map, Device::default(), &RIDGES)? {
                tried.push((setting.clone(), rank, ridge, error));
            }
        }
    }
    let least = tried.iter().fold(f64::INFINITY, |a, t| a.min(t.3));
    let near = tried.iter().filter(|t| t.3 <= TIE * least);
    let narrowest = near.clone().map(|t| t.1).max().unwrap_or(0);
    let best = near.filter(|t| t.1 == narrowest).min_by(|a, b| a.3.total_cmp(&b.3));
    let (setting, ridge) = best
        .map_or_else(|| (fallback(&moments, 1.0), 1.0), |(setting, _, ridge, _)| (setting.clone(), *ridge));
    Ok((setting, given.unwrap_or(StreamRidge::Total(ridge * path.trained()))))
}
