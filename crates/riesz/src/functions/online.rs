//! Online kernel machines: NORMA (lecture §8), predict then learn.

use super::geometry::{median_distance, Moments};
use super::kernel_machine::options::{Bandwidth, ColumnScaling, Task};
use super::kernel_machine::start::{loss_in, standardise};
use super::kernel_machine::training::{encode, Training};
use crate::data::Rows;
use crate::driver::{run, Control, Minibatches, Monitor, Phase, Progress};
use crate::error::{non_negative, positive, Error, Result};
use crate::kernel::{ClosedForm, KernelSpec, Scaling};
use crate::loss::{LossSpec, Unit};
use crate::model::{Container, Stored};
use crate::operator::Evaluation;
use crate::random::Seed;
use crate::solver::{FunctionalSgdConfig, Schedule, SgdInfo, SgdState, Solver};
use crate::space::{Budget, Dictionary, Function};
use serde::{Deserialize, Serialize};

/// Settings of an [`OnlineMachine`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "OnlineOptions::unset")]
pub struct OnlineOptions {
    /// What is learnt.
    pub task: Task,
    /// The loss; `None`: square for regression, softmax for classification.
    pub loss: Option<LossSpec>,
    /// The kernel of the atoms.
    pub kernel: KernelSpec,
    /// σ; [`Bandwidth::Auto`] is half the median distance between the first rows.
    pub bandwidth: Bandwidth,
    /// What is done to the columns; [`ColumnScaling::Auto`] standardises them by the first rows where there are sixteen.
    pub scaling: ColumnScaling,
    /// η in γ_t = η/√(t + η²), at most one, in units of one over the curvature of the loss; with a budget of M atoms the steps
    /// stay at η/√M.
    pub step: f64,
    /// ν in (ν/2)‖f‖²: an atom fades like Π(1 − γ_t ν).
    pub ridge: f64,
    /// Which atoms are kept.
    pub budget: Budget,
    /// Seed of what is random: the pairs whose distance is taken.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

/// First rows by which columns are standardised, at least.
const ENOUGH: usize = 16;
/// Width over which the kink of a loss is thought of as rounded, in units of the targets or of the margin.
const WIDTH: f32 = 1.0;

impl OnlineOptions {
    /// The defaults for a task: a thousand atoms, the oldest of which goes.
    pub fn new(task: Task, seed: Seed) -> Self {
        Self {
            task,
            loss: None,
            kernel: KernelSpec::Gaussian,
            bandwidth: Bandwidth::Auto,
            scaling: ColumnScaling::Auto,
            step: 2.0,
            ridge: 1e-3,
            budget: Budget::Oldest(1_000),
            seed,
        }
    }

    /// What a setting that is not given means.
    fn unset() -> Self {
        Self::new(Task::Regression(1), Seed(0))
    }

    /// Refuses settings outside their domain.
    pub fn check(&self) -> Result<()> {
        positive("step", self.step)?;
        non_negative("ridge", self.ridge)?;
        positive("budget", self.budget.most() as f64)?;
        if let Bandwidth::Value(value) = self.bandwidth {
            positive("bandwidth", value)?;
        }
        self.kernel.check()?;
        self.loss.as_ref().map(LossSpec::check).transpose()?;
        let classes = matches!(self.task, Task::Classification(_));
        if let Task::Classification(count @ 0..=1) = self.task {
            return Err(Error::OneClass(format!("{count} class")));
        }
        match &self.loss {
            Some(loss) if loss.is_classification() != classes => {
                let (other, task) =
                    if classes { ("regression", "classes") } else { ("classification", "numbers") };
                Err(Error::Conflict(format!("loss = {loss} is for {other}, and the targets are {task}")))
            }
            _ => Ok(()),
        }
    }
}

/// What predicting before learning has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progressive {
    /// Σ w ℓ(f_t(x_t), y_t), in the units of the loss.
    pub loss: f64,
    /// Σ w.
    pub weight: f64,
}

/// f = Σ_j w_j k(x_j, ·), learnt a row at a time: f ← (1 − γ_t ν) f − γ_t ℓ'(f(x_t), y_t) k(x_t, ·).
#[derive(Clone, Debug)]
pub struct OnlineMachine {
    header: Header,
    state: SgdState<Dictionary>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    options: OnlineOptions,
    loss: LossSpec,
    bandwidth: f64,
    units: Vec<Unit>,
    progressive: Progressive,
}

impl OnlineMachine {
    /// Settles units, scaling and bandwidth by the first rows, then learns from them.
    pub fn begin(options: &OnlineOptions, first: &Training<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        first.check(options.task)?;
        options.kernel.check_domain(first.rows)?;
        let spec = options.loss.clone().unwrap_or(match options.task {
            Task::Regression(_) => LossSpec::Square,
            Task::Classification(_) => LossSpec::Softmax,
        });
        let (Task::Regression(size) | Task::Classification(size)) = options.task;
        let plain = spec.build(size)?;
        let (targets, weights) = (encode(first.targets, options.task, &spec), weights_of(first));
        let (scaled, units) = standardise(&*plain, &targets, &weights);
        let loss = loss_in(&spec, options.task, &units)?;
        let (bandwidth, scaling) = columns(options, first.rows, &weights);
        let kernel = ClosedForm::new(options.kernel.clone(), bandwidth, scaling)?;
        let f = Dictionary::new(kernel, loss.stream_start(&scaled, &weights), options.budget);
        let progressive = Progressive::default();
        let header = Header { options: options.clone(), loss: spec, bandwidth, units, progressive };
        let mut machine = Self { header, state: SgdState::new(f) };
        machine.learn(first, control)?;
        Ok(machine)
    }

    /// Predicts each row, then learns from it, in their order.
    pub fn learn(&mut self, data: &Training<'_>, control: &mut Control<'_>) -> Result<()> {
        let Header { options, loss: spec, units, .. } = &self.header;
        data.check(options.task)?;
        options.kernel.check_domain(data.rows)?;
        if let Task::Regression(targets) = options.task {
            spec.check_targets(data.targets, targets)?;
        }
        let loss = loss_in(spec, options.task, units)?;
        let encoded = encode(data.targets, options.task, spec);
        let targets: Vec<f32> =
            encoded.iter().enumerate().map(|(i, &y)| units[i % units.len()].scaled(y)).collect();
        let curvature = f64::from(loss.step_curvature(self.state.f.offset(), WIDTH));
        let horizon = match options.budget {
            Budget::Unlimited => f64::INFINITY,
            Budget::Oldest(most) | Budget::Smallest(most) => most as f64,
        };
        let schedule =
            Schedule::InverseRoot { step: options.step / curvature, delay: options.step.powi(2), horizon };
        let solver = FunctionalSgdConfig { schedule, ridge: options.ridge }.build(Evaluation, &*loss)?;
        let weights = weights_of(data);
        let mut batches = Minibatches::new(data.rows, &targets, &weights, 1, None);
        let mut watch = Watch { most: data.rows.len(), done: 0, cost: &mut self.header.progressive };
        run(&solver, &mut self.state, &mut batches, &mut watch, control)?;
        Ok(())
    }

    /// f at `rows`, n×C row-major: numbers in the units of the targets, or class scores.
    pub fn decision(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        rows.check_finite("X")?;
        self.header.options.kernel.check_domain(rows)?;
        let (c, units) = (self.state.f.outputs(), &self.header.units);
        let mut values = vec![0.0; rows.len() * c];
        self.state.f.evaluate(rows, &mut values)?;
        let unit = |i: usize| units[i % c % units.len()];
        values.iter_mut().enumerate().for_each(|(i, v)| *v = unit(i).output(f64::from(*v)) as f32);
        Ok(values)
    }

    /// Predictions of a regression, n×C row-major.
    pub fn predict(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        let (Task::Regression(size) | Task::Classification(size)) = self.header.options.task;
        let loss = self.header.loss.build(size)?;
        let mut values = self.decision(rows)?;
        values.chunks_exact_mut(loss.outputs()).for_each(|u| loss.predict(u));
        Ok(values)
    }

    /// Class probabilities, n×K row-major; margins have none.
    pub fn probabilities(&self, rows: Rows<'_>) -> Result<Vec<f64>> {
        let Task::Classification(classes) = self.header.options.task else {
            return Err(Error::Conflict("a regression model has no classes".into()));
        };
        let loss = self.header.loss.build(classes)?;
        let Some(link) = loss.probabilities() else {
            return Err(Error::Conflict(format!(
                "loss = {} gives margins, not probabilities",
                self.header.loss
            )));
        };
        let scores = self.decision(rows)?;
        let mut out = vec![0.0; rows.len() * classes];
        scores.chunks_exact(loss.outputs()).zip(out.chunks_exact_mut(classes)).for_each(|(u, p)| link(u, p));
        Ok(out)
    }

    /// What predicting before learning has cost so far.
    pub fn progressive(&self) -> Progressive {
        self.header.progressive
    }

    /// The regret against a fixed function with values `values` (as of [`OnlineMachine::decision`]) at all rows learnt from:
    /// Σ w ℓ(f_t(x_t), y_t) − Σ w ℓ(f(x_t), y_t).
    pub fn regret(&self, data: &Training<'_>, values: &[f32]) -> Result<f64> {
        let Header { options, loss: spec, units, progressive, .. } = &self.header;
        data.check(options.task)?;
        let loss = loss_in(spec, options.task, units)?;
        let c = loss.outputs();
        if values.len() != data.rows.len() * c {
            return Err(Error::RowCount {
                what: "values",
                expected: data.rows.len(),
                found: values.len() / c,
            });
        }
        let unit = |i: usize| units[i % units.len()];
        let encoded = encode(data.targets, options.task, spec);
        let targets: Vec<f32> = encoded.iter().enumerate().map(|(i, &y)| unit(i).scaled(y)).collect();
        let inner = |(i, &u): (usize, &f32)| unit(i % c).inverse(f64::from(u)) as f32;
        let values: Vec<f32> = values.iter().enumerate().map(inner).collect();
        Ok(progressive.loss - loss.total(&values, &targets, &weights_of(data)))
    }

    /// The function itself, of targets in their units.
    pub fn dictionary(&self) -> &Dictionary {
        &self.state.f
    }

    /// The bandwidth in use.
    pub fn bandwidth(&self) -> f64 {
        self.header.bandwidth
    }

    /// The loss in use.
    pub fn loss(&self) -> &LossSpec {
        &self.header.loss
    }

    /// Rows learnt from.
    pub fn steps(&self) -> u64 {
        self.state.step
    }

    /// The settings.
    pub fn options(&self) -> &OnlineOptions {
        &self.header.options
    }
}

/// Adds up what predicting before learning costs.
struct Watch<'a> {
    most: usize,
    done: usize,
    cost: &'a mut Progressive,
}

impl<S: Solver<Info = SgdInfo>> Monitor<S> for Watch<'_> {
    fn observe(&mut self, _: &S::State, info: SgdInfo) -> Result<Progress> {
        self.done += 1;
        self.cost.loss += info.loss * info.weight;
        self.cost.weight += info.weight;
        Ok(Progress::new(Phase::Stream, self.done, self.most, self.cost.loss / self.cost.weight))
    }
}

fn weights_of(data: &Training<'_>) -> Vec<f32> {
    data.weights.map_or_else(|| vec![1.0; data.rows.len()], <[f32]>::to_vec)
}

/// Bandwidth and scaling of the columns by the first rows.
fn columns(options: &OnlineOptions, rows: Rows<'_>, weights: &[f32]) -> (f64, Scaling) {
    let kernel = &options.kernel;
    let moments = Moments::of(rows, weights);
    let standard = match options.scaling {
        _ if !kernel.has_bandwidth() => false,
        ColumnScaling::None => false,
        ColumnScaling::Standard => true,
        ColumnScaling::Auto => rows.len() >= ENOUGH && !matches!(options.bandwidth, Bandwidth::Value(_)),
    };
    let scaling = if standard { moments.standard() } else { moments.unscaled(kernel) };
    let bandwidth = match options.bandwidth {
        _ if !kernel.has_bandwidth() => 1.0,
        Bandwidth::Value(value) => value,
        Bandwidth::Scale if standard => (rows.columns() as f64 / 2.0).sqrt(),
        Bandwidth::Scale => moments.scale_bandwidth(),
        Bandwidth::Auto => 0.5 * median_distance(rows, weights, &scaling, kernel, options.seed),
        Bandwidth::Median => median_distance(rows, weights, &scaling, kernel, options.seed),
    };
    (bandwidth, scaling)
}

impl Stored for OnlineMachine {
    const KIND: &'static str = "online";

    fn store(&self, container: &mut Container) -> Result<()> {
        let f = &self.state.f;
        let (atoms, raw) = (f.len(), f.raw());
        let Scaling { shift, scale } = f.kernel().scaling().clone();
        container.set_field("machine", &self.header)?;
        container.set_field("step", &self.state.step)?;
        container.set_field("running_scale", &raw.1)?;
        container.insert("shift", vec![shift.len()], shift)?;
        container.insert("scale", vec![scale.len()], scale)?;
        container.insert("offset", vec![f.outputs()], f.offset().to_vec())?;
        container.insert("points", vec![atoms, f.columns()], f.points().to_vec())?;
        container.insert("weights", vec![atoms, f.outputs()], raw.0.to_vec())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("machine")?;
        header.options.check()?;
        let (Task::Regression(size) | Task::Classification(size)) = header.options.task;
        let c = header.loss.outputs(size);
        let columns = container.f32s("shift")?.1.len();
        let atoms = container.f32s("points")?.0.first().copied().unwrap_or(0);
        if columns == 0 || c == 0 || header.units.is_empty() || atoms > header.options.budget.most() {
            return Err(Error::Format("columns, outputs, units and atoms do not fit each other".into()));
        }
        let (shift, scale) =
            (container.take_f32s("shift", &[columns])?, container.take_f32s("scale", &[columns])?);
        let kernel =
            ClosedForm::new(header.options.kernel.clone(), header.bandwidth, Scaling { shift, scale })?;
        let offset = container.take_f32s("offset", &[c])?;
        let points = container.take_f32s("points", &[atoms, columns])?;
        let weights = container.take_f32s("weights", &[atoms, c])?;
        let scale = container.field("running_scale")?;
        let f = Dictionary::from_raw(kernel, offset, header.options.budget, points, (weights, scale))?;
        Ok(Self { state: SgdState { f, step: container.field("step")? }, header })
    }
}
