//! Learning from rows as they come: `solver = stream` and `partial_fit`.
//!
//! By default the first rows are kept, up to [`CAPACITY`], and settle scaling, bandwidth, ridge, the unit of the targets and a
//! preconditioner; from then on every batch takes one step of [`PreconditionedSgd`] on a fixed number of features, and the
//! average of the iterates is the answer. A batch is filled up by as many calls as it takes, so that from [`CAPACITY`] rows on the
//! same rows lead to the same bits in however many calls they come. With a step size θ of one's own it is the published algorithm instead, doubly
//! stochastic gradients (thesis Algorithm 1): one fresh block of features per batch with γ_t = θ/(t + t₀).

mod choose;

use super::options::{Options, Task, MOST_FEATURES};
use super::race::Setting;
use super::start::{in_units, standardise};
use super::training::effective_rows;
use crate::data::Rows;
use crate::driver::{run, Control, Ended, Minibatches, Phase, Steps};
use crate::error::{Error, Result};
use crate::functions::kept_rows::{Across, KeptRows, Labelled, CAPACITY};
use crate::functions::stored::{insert_iterate, take_iterate};
use crate::loss::{Loss, Unit};
use crate::model::Container;
use crate::operator::Evaluation;
use crate::random::{BlockIndex, Permutation, Seed, Stream as Purpose};
use crate::solver::{
    FunctionalSgdConfig, PreconditionedSgd, PreconditionedState, Samples, Schedule, SgdState,
};
use crate::space::{Averaged, Averaging, FeatureExpansion, FixedFeatures, Function};
use choose::{choose, features, FEATURES, LEAST_FEATURES, RACE_FEATURES};
use serde::{Deserialize, Serialize};

/// Features per block of the published algorithm, unless the user says otherwise.
const BLOCK: usize = 512;
/// ν of the published algorithm, unless the user says otherwise.
const RIDGE: f64 = 1e-4;

/// Bytes that a stream of M features takes beside the program and the parts it is given: the features of the n first rows (of two
/// thirds of them in the comparison), as they are and weighted; second moments and their factor, in single and in double precision; the
/// first rows and their copies
///
/// ```text
/// 8n max(M, 683) + 10 M² + 12 n d.
/// ```
pub(crate) fn memory(features: usize, columns: usize) -> f64 {
    let (n, m, d) = (CAPACITY as f64, features as f64, columns as f64);
    8.0 * n * m.max(2.0 / 3.0 * RACE_FEATURES as f64) + 10.0 * m * m + 12.0 * n * d
}

/// The most features, of 4,096 and its halves down to 512, with which a stream stays within `bytes`.
pub(crate) fn features_within(bytes: f64, columns: usize) -> Result<usize> {
    let mut halves =
        std::iter::successors(Some(FEATURES), |m| Some(m / 2)).take_while(|&m| m >= LEAST_FEATURES);
    halves.find(|&m| memory(m, columns) <= bytes).ok_or(Error::Memory {
        what: "512 features of the first rows of a stream",
        lower: "the columns, or raise memory",
        needed: memory(LEAST_FEATURES, columns),
        available: Some(bytes),
    })
}

/// A function that goes on learning.
#[derive(Clone)]
pub(crate) struct Stream {
    /// Whether columns are standardised.
    pub standard: bool,
    /// Units of the targets.
    units: Vec<Unit>,
    /// Total weight of the rows seen.
    seen: f64,
    learner: Learner,
}

#[derive(Clone)]
enum Learner {
    Preconditioned(Box<Preconditioned>),
    DoublyStochastic(Box<SgdState<FeatureExpansion>>),
}

#[derive(Clone)]
struct Preconditioned {
    /// The first rows; none once there were enough of them.
    first: KeptRows,
    /// How many of them had a say when everything was last settled.
    settled: usize,
    /// Rows that do not make a batch yet, with targets in their units.
    waiting: KeptRows,
    state: PreconditionedState,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("standard", &self.standard)
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}

/// How often, and in which order, the rows of a call are learnt from.
#[derive(Clone, Copy)]
pub(crate) struct Course {
    pub passes: usize,
    /// With a seed the order of every pass is random.
    pub shuffle: Option<Seed>,
}

/// The loss of targets in given units, one unit for each target.
pub(crate) type LossIn<'l> = &'l dyn Fn(&[Unit]) -> Result<Box<dyn Loss>>;

fn scaled(targets: &[f32], units: &[Unit]) -> Vec<f32> {
    targets.iter().enumerate().map(|(i, &y)| units[i % units.len()].scaled(y)).collect()
}

impl Stream {
    /// Begins with the first rows of `data` and learns from all of them.
    pub(crate) fn begin(
        options: &Options,
        loss: LossIn<'_>,
        data: Labelled<'_>,
        course: Course,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        let n = data.rows.len();
        let order = match course.shuffle {
            Some(seed) => Permutation::new(seed, Purpose::Shuffle, BlockIndex(0), n).indices().to_vec(),
            None => (0..n as u32).collect(),
        };
        let mut first = KeptRows::default();
        let taken = first.append_until(CAPACITY, data, order);
        let mut stream = Self::settle(options, loss, &first, control)?;
        let from = stream.keep(first).map_or(0, |()| taken);
        stream.learn_from(options, loss, data, (from, course), control)?;
        Ok(stream)
    }

    /// Goes on from a function that a fit to rows of total weight `seen` returned, up to as many blocks as a fit can have.
    pub(crate) fn after(f: FeatureExpansion, standard: bool, seen: f64, options: &Options) -> Self {
        let most = options.max_blocks.unwrap_or(MOST_FEATURES / f.map().block_size).max(f.len());
        let learner = Learner::DoublyStochastic(Box::new(SgdState::new(f.limited_to(most))));
        Self { standard, units: vec![Unit::IDENTITY], seen, learner }
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
        loss: LossIn<'_>,
        data: Labelled<'_>,
        control: &mut Control<'_>,
    ) -> Result<()> {
        let mut from = 0;
        if let Learner::Preconditioned(learner) = &mut self.learner {
            if learner.settled < CAPACITY {
                let first = &mut learner.first;
                let taken = first.append_until(CAPACITY, data, 0..data.rows.len() as u32);
                if first.are_due(learner.settled) {
                    let mut next = Self::settle(options, loss, first, control)?;
                    next.keep(std::mem::take(first));
                    *self = Self { seen: self.seen, ..next };
                    from = taken;
                }
            }
        }
        self.learn_from(options, loss, data, (from, Course { passes: 1, shuffle: None }), control)
    }

    /// Keeps the rows that everything was settled by while there can be more of them; `None` where they do not count as learnt
    /// from.
    fn keep(&mut self, first: KeptRows) -> Option<()> {
        let Learner::Preconditioned(learner) = &mut self.learner else { return None };
        if first.len() < CAPACITY {
            learner.first = first;
        }
        Some(())
    }

    /// Takes the steps of the rows from the `from`-th of the first pass on.
    fn learn_from(
        &mut self,
        options: &Options,
        loss: LossIn<'_>,
        data: Labelled<'_>,
        (from, course): (usize, Course),
        control: &mut Control<'_>,
    ) -> Result<()> {
        let loss = loss(&self.units)?;
        let targets = scaled(data.targets, &self.units);
        let data = Labelled { targets: &targets, ..data };
        let n = data.rows.len();
        let size = match (&self.learner, options.theta) {
            // Batches of one size, since all take steps of one length.
            (Learner::DoublyStochastic(_), None) => n.div_ceil(n.div_ceil(options.batch_size)),
            _ => options.batch_size,
        };
        let mut batches = Minibatches::new(data.rows, data.targets, data.weights, size, course.shuffle);
        batches.skip_to(from);
        let mut monitor = Steps::passes(Phase::Stream, course.passes, batches.len());
        match &mut self.learner {
            Learner::Preconditioned(learner) => {
                let (solver, state) = (PreconditionedSgd::new(&*loss), &mut learner.state);
                if course.shuffle.is_some() {
                    run(&solver, state, &mut batches, &mut monitor, control)?;
                } else {
                    let mut across = Across::new(&mut learner.waiting, data, from, size);
                    let mut monitor = Steps::passes(Phase::Stream, 1, across.len());
                    let ended = run(&solver, state, &mut across, &mut monitor, control)?;
                    if ended != Ended::OutOfTime || across.len() == 0 {
                        across.fill();
                    }
                }
            }
            Learner::DoublyStochastic(state) => {
                let share = size as f64 / options.batch_size as f64;
                let (schedule, ridge) = match options.theta {
                    Some(theta) => published(options, theta),
                    None => {
                        state.step = (self.seen / options.batch_size as f64).ceil() as u64;
                        after_a_fit(options, &*loss, &state.f, data.rows, share)?
                    }
                };
                let solver = FunctionalSgdConfig { schedule, ridge }.build(Evaluation, &*loss)?;
                run(&solver, state, &mut batches, &mut monitor, control)?;
            }
        }
        self.seen += effective_rows(data.weights);
        Ok(())
    }

    /// Decides on everything by the first rows, and fits them.
    fn settle(
        options: &Options,
        loss: LossIn<'_>,
        first: &KeptRows,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        control.check(0)?;
        let rows = first.rows()?;
        let (Task::Regression(size) | Task::Classification(size)) = options.task;
        let (targets, units) = standardise(&*loss(&vec![Unit::IDENTITY; size])?, &first.y, &first.w);
        let loss = loss(&units)?;
        let offset = loss.stream_start(&targets, &first.w);
        let samples = Samples { batch: rows, targets: &targets, weights: &first.w };
        let (setting, ridge) = choose(options, &*loss, &offset, samples, control)?;
        control.check(0)?;
        let Setting { standard, bandwidth, scaling, .. } = setting;
        if options.theta.is_some() {
            let map = options.feature_map(bandwidth, options.block_size.unwrap_or(BLOCK), scaling)?;
            let mut f =
                FeatureExpansion::new(map, offset).limited_to(options.max_blocks.unwrap_or(usize::MAX));
            if let Some(power) = options.averaging {
                f = f.averaging(Averaging::Power(power));
            }
            let learner = Learner::DoublyStochastic(Box::new(SgdState::new(f)));
            return Ok(Self { standard, units, seen: 0.0, learner });
        }
        let map = options.feature_map(bandwidth, features(options, rows.len()), scaling)?;
        let f = FixedFeatures::new(map, offset, 1);
        let state = PreconditionedSgd::new(&*loss).begin(f, samples, ridge, options.averaging)?;
        let (first, settled, waiting) = (KeptRows::default(), first.len(), KeptRows::default());
        let learner = Learner::Preconditioned(Box::new(Preconditioned { first, settled, waiting, state }));
        Ok(Self { standard, units, seen: 0.0, learner })
    }
}

/// A stream but for its tensors.
#[derive(Serialize, Deserialize)]
struct Header {
    standard: bool,
    units: Vec<Unit>,
    seen: f64,
    /// Steps of doubly stochastic gradients; `None`: preconditioned ones.
    step: Option<u64>,
    settled: usize,
}

impl Stream {
    /// Adds what a stream needs to go on, to the same bits, to the container of its machine.
    pub(crate) fn store(&self, container: &mut Container) -> Result<()> {
        let Self { standard, units, seen, learner } = self;
        let (step, settled) = match learner {
            Learner::DoublyStochastic(state) => (Some(state.step), 0),
            Learner::Preconditioned(learner) => (None, learner.settled),
        };
        let header = Header { standard: *standard, units: units.clone(), seen: *seen, step, settled };
        container.set_field("stream", &header)?;
        match learner {
            Learner::DoublyStochastic(state) => insert_iterate(container, &state.f),
            Learner::Preconditioned(learner) => {
                learner.first.store(container, "stream.first")?;
                learner.waiting.store(container, "stream.waiting")?;
                learner.state.store(container)?;
                insert_iterate(container, learner.state.f.as_expansion())
            }
        }
    }

    /// Takes out what [`Stream::store`] added; `f` is the function of the machine.
    pub(crate) fn restore(container: &mut Container, f: &FeatureExpansion) -> Result<Self> {
        let Header { standard, units, seen, step, settled } = container.field("stream")?;
        if units.is_empty() {
            return Err(Error::Format("a stream needs the units of its targets".into()));
        }
        let iterate = take_iterate(container, f.map().clone(), f.outputs())?;
        if let Some(step) = step {
            let learner = Learner::DoublyStochastic(Box::new(SgdState { f: iterate, step }));
            return Ok(Self { standard, units, seen, learner });
        }
        if iterate.len() != 1 {
            return Err(Error::Format("a preconditioned stream has one block of features".into()));
        }
        let mut kept = |name| KeptRows::restore(container, name, f.columns(), units.len());
        let (first, waiting) = (kept("stream.first")?, kept("stream.waiting")?);
        if settled == 0 || first.len() < settled && settled < CAPACITY {
            return Err(Error::Format("the first rows of the stream are not all there".into()));
        }
        let state = PreconditionedState::restore(container, FixedFeatures::from_expansion(iterate))?;
        let learner = Learner::Preconditioned(Box::new(Preconditioned { first, settled, waiting, state }));
        Ok(Self { standard, units, seen, learner })
    }
}

/// γ_t and ν of doubly stochastic gradients with θ and t₀ of the user.
fn published(options: &Options, theta: f64) -> (Schedule, f64) {
    let delay = options.delay.unwrap_or(0.0);
    (Schedule::Inverse { theta, delay }, options.ridge.unwrap_or(RIDGE))
}

/// γ_t and ν after a fit: γ_t = s/(h√t), where t counts the rows of the fit too, in full batches, and s is what a batch has of a full
/// one: as many rows move f as far, in however many calls they come.
fn after_a_fit(
    options: &Options,
    loss: &dyn Loss,
    f: &FeatureExpansion,
    rows: Rows<'_>,
    share: f64,
) -> Result<(Schedule, f64)> {
    let ridge = options.ridge.unwrap_or(RIDGE);
    let curvature = f64::from(loss.step_curvature(f.offset(), 1.0)) * f.map().mean_square(rows)?;
    let step = share / (curvature + ridge);
    Ok((Schedule::InverseRoot { step, delay: 0.0, horizon: f64::INFINITY }, ridge))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_follow_the_memory() {
        let features = [440e6, 180e6, 80e6, 50e6].map(|bytes| features_within(bytes, 10).unwrap());
        assert_eq!(features, [4_096, 2_048, 1_024, 512]);
        let error = features_within(40e6, 10).unwrap_err().to_string();
        assert!(error.starts_with("512 features of the first rows of a stream need "), "{error}");
        // Columns count too.
        assert_eq!(features_within(80e6, 256).unwrap(), 512);
    }
}
