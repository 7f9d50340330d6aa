//! Online kernel machines: NORMA (lecture §8), POLK and learning under constraints (slides), predict then learn.

use super::geometry::{median_distance, Moments};
use super::kernel_machine::options::{Bandwidth, ColumnScaling, Task};
use super::kernel_machine::start::{loss_in, standardise};
use super::kernel_machine::training::{encode, Training};
use crate::constraint::{Constraint, ConstraintSpec};
use crate::data::Rows;
use crate::driver::{run, Control, Minibatches, Monitor, Phase, Progress};
use crate::error::{non_negative, positive, Error, Result};
use crate::kernel::{ClosedForm, KernelSpec, Scaling};
use crate::loss::{LossSpec, Unit};
use crate::model::{Container, Stored};
use crate::operator::Evaluation;
use crate::random::Seed;
use crate::solver::{Dual, PrimalDualConfig, PrimalDualInfo, PrimalDualState, Schedule, Solver};
use crate::space::{Budget, Dictionary, Drift, Function, Raw};
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
    /// stay at η/√M, and under constraints at 0.02.
    pub step: f64,
    /// ν in (ν/2)‖f‖²: an atom fades like Π(1 − γ_t ν).
    pub ridge: f64,
    /// Which atoms are kept.
    pub budget: Budget,
    /// A constant η in place of the rule of `step`, in units of f and not of the curvature: η of the texts.
    pub learning_rate: Option<f64>,
    /// What must hold in expectation.
    pub constraints: Vec<ConstraintSpec>,
    /// Multipliers move as fast as f and no gradient is shortened, as published; else ten times slower, and to ten slopes.
    pub published: bool,
    /// δ in −(δη/2)‖μ‖².
    pub dual_ridge: f64,
    /// A fixed value of all multipliers: the penalty method.
    pub penalty: Option<f64>,
    /// The multiplier beyond which a constraint counts as one that cannot be met.
    pub multiplier_limit: f64,
    /// Seed of what is random: the pairs whose distance is taken.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

/// First rows by which columns are standardised, at least.
const ENOUGH: usize = 16;
/// What the steps fall to under constraints, where multipliers would not settle otherwise.
const LEAST_STEP: f64 = 0.02;
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
            learning_rate: None,
            constraints: Vec::new(),
            published: false,
            dual_ridge: 0.01,
            penalty: None,
            multiplier_limit: 1e3,
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
        if let Budget::Komp { error, .. } = self.budget {
            non_negative("parsimony", error.value())?;
        }
        if let Bandwidth::Value(value) = self.bandwidth {
            positive("bandwidth", value)?;
        }
        self.learning_rate.map(|rate| positive("learning_rate", rate)).transpose()?;
        non_negative("dual_ridge", self.dual_ridge)?;
        positive("multiplier_limit", self.multiplier_limit)?;
        self.penalty.map(|penalty| non_negative("penalty", penalty)).transpose()?;
        self.kernel.check()?;
        let classes = matches!(self.task, Task::Classification(_));
        if let Task::Classification(count @ 0..=1) = self.task {
            return Err(Error::OneClass(format!("{count} class")));
        }
        let losses = self.loss.iter().chain(self.constraints.iter().filter_map(ConstraintSpec::loss));
        for loss in losses {
            if loss.is_classification() != classes {
                let (other, task) =
                    if classes { ("regression", "classes") } else { ("classification", "numbers") };
                let message = format!("loss = {loss} is for {other}, and the targets are {task}");
                return Err(Error::Conflict(message));
            }
            loss.check()?;
        }
        self.check_constraints()
    }

    /// Builds the constraints once for their errors; those on another loss have to see the same outputs.
    fn check_constraints(&self) -> Result<()> {
        let (own, size) = (self.loss(), self.size());
        self.constraints(&[Unit::IDENTITY])?;
        for loss in self.constraints.iter().filter_map(ConstraintSpec::loss) {
            if loss.outputs(size) != own.outputs(size) {
                return Err(Error::Conflict(format!(
                    "a constraint on the {loss} loss looks at {} outputs, and the {own} loss has {}",
                    loss.outputs(size),
                    own.outputs(size)
                )));
            }
        }
        Ok(())
    }

    /// The loss in use.
    fn loss(&self) -> LossSpec {
        self.loss.clone().unwrap_or(match self.task {
            Task::Regression(_) => LossSpec::Square,
            Task::Classification(_) => LossSpec::Softmax,
        })
    }

    /// Targets or classes.
    fn size(&self) -> usize {
        let (Task::Regression(size) | Task::Classification(size)) = self.task;
        size
    }

    /// The constraints on outputs in `units`.
    fn constraints(&self, units: &[Unit]) -> Result<Vec<Box<dyn Constraint>>> {
        let build = |spec: &ConstraintSpec| spec.build(&self.loss(), self.size(), units);
        self.constraints.iter().map(build).collect()
    }

    /// The solver's settings, for a loss of this curvature.
    fn solver(&self, curvature: f64) -> PrimalDualConfig {
        let horizon = match self.budget {
            Budget::Unlimited => f64::INFINITY,
            budget if self.constraints.is_empty() => budget.most() as f64,
            _ => (self.step / curvature / LEAST_STEP).powi(2),
        };
        let schedule = match self.learning_rate {
            Some(step) => Schedule::Constant { step },
            None => Schedule::InverseRoot { step: self.step / curvature, delay: self.step.powi(2), horizon },
        };
        let (ridge, dual_ridge) = (self.ridge, self.dual_ridge);
        let config = match self.published || self.constraints.is_empty() {
            true => PrimalDualConfig::published(schedule, ridge, dual_ridge),
            false => PrimalDualConfig::stabilised(schedule, ridge, dual_ridge),
        };
        PrimalDualConfig { penalty: self.penalty, limit: self.multiplier_limit, ..config }
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
    state: PrimalDualState<Dictionary>,
}

/// A constraint as it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConstraintStatus {
    /// μ.
    pub multiplier: f64,
    /// z of CVaR, t of chance constraints, in the units of the constraint.
    pub auxiliary: f64,
    /// The mean of g over about the last thousand rows, each seen before it was learnt from, in the units of the constraint.
    pub value: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    options: OnlineOptions,
    loss: LossSpec,
    bandwidth: f64,
    units: Vec<Unit>,
    progressive: Progressive,
}

impl Header {
    /// Refuses a loss or units that belong to another task.
    fn check(&self) -> Result<()> {
        let known = |unit: &Unit| {
            [unit.centre, unit.scale, unit.offset, unit.factor].iter().all(|v| v.is_finite())
                && unit.scale != 0.0
                && unit.factor != 0.0
        };
        let fits = match self.options.task {
            Task::Regression(targets) => self.units.len() == targets && self.units.iter().all(known),
            Task::Classification(_) => self.units.iter().all(|unit| *unit == Unit::IDENTITY),
        };
        match fits && self.loss == self.options.loss() {
            true => Ok(()),
            false => Err(Error::Format("loss or units are those of another task".into())),
        }
    }
}

impl OnlineMachine {
    /// Settles units, scaling and bandwidth by the first rows, then learns from them.
    pub fn begin(options: &OnlineOptions, first: &Training<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        first.check(options.task)?;
        options.kernel.check_domain(first.rows)?;
        let (spec, size) = (options.loss(), options.size());
        let plain = spec.build(size)?;
        let (targets, weights) = (encode(first.targets, options.task, &spec), weights_of(first));
        let (scaled, units) = standardise(&*plain, &targets, &weights);
        let loss = loss_in(&spec, options.task, &units)?;
        let (bandwidth, scaling) = columns(options, first.rows, &weights);
        let kernel = ClosedForm::new(options.kernel.clone(), bandwidth, scaling)?;
        let f = Dictionary::new(kernel, loss.stream_start(&scaled, &weights), options.budget);
        let progressive = Progressive::default();
        let state = PrimalDualState::new(f, &options.constraints(&units)?, options.penalty);
        let header = Header { options: options.clone(), loss: spec, bandwidth, units, progressive };
        let mut machine = Self { header, state };
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
        let constraints = options.constraints(units)?;
        let solver = options.solver(curvature).build(Evaluation, &*loss, &constraints)?;
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
        let loss = self.header.loss.build(self.header.options.size())?;
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

    /// How the constraints stand, in the order of the settings.
    pub fn constraints(&self) -> Result<Vec<ConstraintStatus>> {
        let Header { options, loss, units, .. } = &self.header;
        let status = |(spec, dual): (&ConstraintSpec, &Dual)| {
            let scale = spec.scale(loss, options.size(), units)?;
            let (auxiliary, value) = (dual.auxiliary * scale, dual.value * scale);
            Ok(ConstraintStatus { multiplier: dual.multiplier, auxiliary, value })
        };
        options.constraints.iter().zip(&self.state.duals).map(status).collect()
    }

    /// Gives the users' functions in constraints again, which files do not hold.
    pub fn set_constraints(&mut self, constraints: Vec<ConstraintSpec>) -> Result<()> {
        if constraints != self.header.options.constraints {
            return Err(Error::Conflict("the constraints are not those the machine was learnt with".into()));
        }
        self.header.options.constraints = constraints;
        Ok(())
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

impl<S: Solver<Info = PrimalDualInfo>> Monitor<S> for Watch<'_> {
    fn observe(&mut self, _: &S::State, info: PrimalDualInfo) -> Result<Progress> {
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
        let (f, raw) = (&self.state.f, self.state.f.raw());
        let atoms = f.len();
        let Scaling { shift, scale } = f.kernel().scaling().clone();
        container.set_field("machine", &self.header)?;
        container.set_field("step", &self.state.step)?;
        container.set_field("duals", &self.state.duals)?;
        container.set_field("running_scale", &raw.scale)?;
        container.insert("shift", vec![shift.len()], shift)?;
        container.insert("scale", vec![scale.len()], scale)?;
        container.insert("offset", vec![f.outputs()], f.offset().to_vec())?;
        container.insert("points", vec![atoms, f.columns()], f.points().to_vec())?;
        if let Some((rows, drift)) = raw.inverse {
            container.set_field("drift", &drift)?;
            container.insert("inverse", vec![rows.len()], rows)?;
        }
        container.insert("weights", vec![atoms, f.outputs()], raw.weights)
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("machine")?;
        header.check()?;
        // Outputs by the tensor first: settings are checked by building what they say, of as many outputs as they say.
        let c = header.loss.outputs(header.options.size());
        let offset = container.take_f32s("offset", &[c])?;
        header.options.check()?;
        let columns = container.f32s("shift")?.1.len();
        let atoms = container.f32s("points")?.0.first().copied().unwrap_or(0);
        if columns == 0 || c == 0 || header.units.is_empty() || atoms > header.options.budget.most() {
            return Err(Error::Format("columns, outputs, units and atoms do not fit each other".into()));
        }
        let (shift, scale) =
            (container.take_f32s("shift", &[columns])?, container.take_f32s("scale", &[columns])?);
        let kernel =
            ClosedForm::new(header.options.kernel.clone(), header.bandwidth, Scaling { shift, scale })?;
        let points = container.take_f32s("points", &[atoms, columns])?;
        let weights = container.take_f64s("weights", &[atoms, c])?;
        let inverse = match container.field::<Option<Drift>>("drift")? {
            Some(drift) => Some((container.take_f64s("inverse", &[atoms * (atoms + 1) / 2])?, drift)),
            None if matches!(header.options.budget, Budget::Komp { .. }) && atoms > 0 => {
                return Err(Error::Format("the inverse of the Gram matrix is missing".into()))
            }
            None => None,
        };
        let raw = Raw { weights, scale: container.field("running_scale")?, inverse };
        let f = Dictionary::from_raw(kernel, offset, header.options.budget, points, raw)?;
        let duals: Vec<Dual> = container.field("duals")?;
        if duals.len() != header.options.constraints.len() {
            return Err(Error::Format("every constraint has one multiplier".into()));
        }
        Ok(Self { state: PrimalDualState { f, duals, step: container.field("step")? }, header })
    }
}
