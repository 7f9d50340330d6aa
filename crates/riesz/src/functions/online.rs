//! Online kernel machines: NORMA (lecture §8), POLK and learning under constraints (slides), predict then learn.

mod classes;
mod features;
mod first;
mod memory;
mod paces;

pub use memory::Memory;

use super::geometry::{median_distance, Moments};
use super::kept_rows::KeptRows;
use super::kernel_machine::options::{Bandwidth, ColumnScaling, Task};
use super::kernel_machine::start::loss_in;
use super::kernel_machine::training::Training;
use crate::constraint::{Constraint, ConstraintSpec};
use crate::data::Rows;
use crate::error::{non_negative, positive, Error, Result};
use crate::kernel::{KernelSpec, Scaling};
use crate::loss::{LossSpec, Unit};
use crate::model::{Container, Stored};
use crate::random::Seed;
use crate::solver::{Dual, PrimalDualConfig, PrimalDualState, Schedule};
use crate::space::{Budget, Dictionary, Function};
use first::{in_their_units, First, CAPACITY};
use memory::Kept;
use paces::{mix, shares, OnlineState, PACES};
use serde::{Deserialize, Serialize};

/// Settings of an [`OnlineMachine`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "OnlineOptions::unset")]
pub struct OnlineOptions {
    /// What is learnt.
    pub task: Task,
    /// The loss; `None`: square for regression, softmax for classification.
    pub loss: Option<LossSpec>,
    /// The kernel of the features or atoms.
    pub kernel: KernelSpec,
    /// σ; [`Bandwidth::Auto`] is half the median distance between the first rows.
    pub bandwidth: Bandwidth,
    /// What is done to the columns; [`ColumnScaling::Auto`] standardises them by the first rows where there are sixteen.
    pub scaling: ColumnScaling,
    /// η in γ_t = η/√(t + η²), at most one, in units of one over the curvature of the loss; with a budget of M atoms the steps
    /// stay at η/√M, on features at η/√1000, and under constraints at 0.02.
    pub step: f64,
    /// Whether η/4, η and 4η are tried side by side and mixed by what they have lately cost; otherwise it is η alone. With KOMP
    /// or constraints it is η/4 alone.
    pub adaptive: bool,
    /// ν in (ν/2)‖f‖²: an atom fades like Π(1 − γ_t ν).
    pub ridge: f64,
    /// Whether coefficients of random features are kept, or rows.
    pub memory: Memory,
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
    /// Seed of what is random: the features, and the pairs whose distance is taken.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

/// First rows by which columns are standardised, at least.
const ENOUGH: usize = 16;
/// What the steps fall to under constraints, where multipliers would not settle otherwise.
const LEAST_STEP: f64 = 0.02;
/// Rows that costs and steps look back where no row is kept.
const HORIZON: f64 = 1_000.0;

impl OnlineOptions {
    /// The defaults for a task.
    pub fn new(task: Task, seed: Seed) -> Self {
        Self {
            task,
            loss: None,
            kernel: KernelSpec::Gaussian,
            bandwidth: Bandwidth::Auto,
            scaling: ColumnScaling::Auto,
            step: 8.0,
            adaptive: true,
            ridge: 1e-4,
            memory: Memory::Features(Memory::FEATURES),
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
        self.memory.check()?;
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

    /// Whether steps are those of the texts: POLK, or under constraints.
    fn is_published(&self) -> bool {
        self.memory.is_komp() || self.learning_rate.is_some() || !self.constraints.is_empty()
    }

    /// Rows that steps look back.
    fn horizon(&self) -> f64 {
        match self.memory {
            Memory::Features(_) => HORIZON,
            Memory::Dictionary(Budget::Unlimited) => f64::INFINITY,
            Memory::Dictionary(budget) => budget.most() as f64,
        }
    }

    /// The solver's settings, for a loss of this curvature.
    fn solver(&self, curvature: f64) -> PrimalDualConfig {
        let step = if self.adaptive { PACES[0] * self.step } else { self.step };
        let horizon = match self.memory {
            Memory::Dictionary(Budget::Unlimited) => f64::INFINITY,
            _ if self.constraints.is_empty() => self.horizon(),
            _ => (step / curvature / LEAST_STEP).powi(2),
        };
        let schedule = match self.learning_rate {
            Some(step) => Schedule::Constant { step },
            None => Schedule::InverseRoot { step: step / curvature, delay: step.powi(2), horizon },
        };
        let (ridge, dual_ridge) = (self.ridge, self.dual_ridge);
        let config = match self.published || self.constraints.is_empty() {
            true => PrimalDualConfig::published(schedule, ridge, dual_ridge),
            false => PrimalDualConfig::stabilised(schedule, ridge, dual_ridge),
        };
        PrimalDualConfig { penalty: self.penalty, limit: self.multiplier_limit, ..config }
    }
}

/// Refuses more names than classes: one that is yet to come has no name.
fn check_names(names: &[String], task: Task) -> Result<()> {
    let classes = if let Task::Classification(classes) = task { classes } else { 0 };
    match names.len() <= classes {
        true => Ok(()),
        false => Err(Error::Format(format!("{} class names for {classes} classes", names.len()))),
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

/// f = Σ_j w_j k(x_j, ·), learnt a row at a time: f ← (1 − γ_t ν) f − γ_t ℓ'(f(x_t), y_t) k(x_t, ·), and a mixture of such
/// functions where [`OnlineOptions::adaptive`].
#[derive(Clone, Debug)]
pub struct OnlineMachine {
    header: Header,
    state: OnlineState,
    first: First,
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
    /// The mean of k(x, x).
    mean_square: f64,
    progressive: Progressive,
    /// How many of the first rows have settled all this.
    settled: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    class_names: Vec<String>,
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
    /// f at `rows`, n×C row-major: numbers in the units of the targets, or class scores.
    pub fn decision(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        rows.check_finite("X")?;
        self.header.options.kernel.check_domain(rows)?;
        let (c, shares) = (self.outputs(), shares(&self.state.costs));
        let mut each = vec![0.0; rows.len() * self.state.inner.f.outputs()];
        self.state.inner.f.evaluate(rows, &mut each)?;
        let mut values = vec![0.0; rows.len() * c];
        let rows = each.chunks_exact(self.state.inner.f.outputs()).zip(values.chunks_exact_mut(c));
        rows.for_each(|(u, value)| mix(&shares, u, value));
        self.in_units(&mut values);
        Ok(values)
    }

    /// Predictions of a regression, n×C row-major.
    pub fn predict(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        let mut values = self.decision(rows)?;
        self.make_predictions(&mut values)?;
        Ok(values)
    }

    /// Predictions of a regression from values of f, in place.
    pub fn make_predictions(&self, values: &mut [f32]) -> Result<()> {
        let loss = self.header.loss.build(self.header.options.size())?;
        values.chunks_exact_mut(loss.outputs()).for_each(|u| loss.predict(u));
        Ok(())
    }

    /// Class probabilities, n×K row-major; margins have none.
    pub fn probabilities(&self, rows: Rows<'_>) -> Result<Vec<f64>> {
        self.probabilities_of(&self.decision(rows)?)
    }

    /// Class probabilities from values of f, n×K row-major.
    pub fn probabilities_of(&self, values: &[f32]) -> Result<Vec<f64>> {
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
        let mut out = vec![0.0; values.len() / loss.outputs() * classes];
        values.chunks_exact(loss.outputs()).zip(out.chunks_exact_mut(classes)).for_each(|(u, p)| link(u, p));
        Ok(out)
    }

    /// The most likely class of each row, of those that have names where any has.
    pub fn classes_of(&self, rows: Rows<'_>) -> Result<Vec<u32>> {
        let Task::Classification(classes) = self.header.options.task else {
            return Err(Error::Conflict("a regression model has no classes".into()));
        };
        let seen = if self.class_names().is_empty() { classes } else { self.class_names().len() };
        let values = self.decision(rows)?;
        Ok(values.chunks_exact(self.outputs()).map(|u| likeliest(u, seen) as u32).collect())
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
        let targets = in_their_units(&self.header, data.targets);
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
        options.constraints.iter().zip(&self.state.inner.duals).map(status).collect()
    }

    /// Gives the users' functions in constraints again, which files do not hold.
    pub fn set_constraints(&mut self, constraints: Vec<ConstraintSpec>) -> Result<()> {
        if constraints != self.header.options.constraints {
            return Err(Error::Conflict("the constraints are not those the machine was learnt with".into()));
        }
        self.header.options.constraints = constraints;
        Ok(())
    }

    /// Number C of outputs.
    pub fn outputs(&self) -> usize {
        self.header.loss.outputs(self.header.options.size())
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.state.inner.f.columns()
    }

    /// Atoms, or features.
    pub fn atoms(&self) -> usize {
        match &self.state.inner.f {
            Kept::Atoms(f) => f.len(),
            Kept::Features(f) => f.map.block_size,
        }
    }

    /// The functions that are mixed, one after the other, of targets in their units; `None` where no row is kept.
    pub fn dictionary(&self) -> Option<&Dictionary> {
        match &self.state.inner.f {
            Kept::Atoms(f) => Some(f),
            Kept::Features(_) => None,
        }
    }

    /// The weights of the atoms, M×C, mixed; none where no row is kept.
    pub fn weights(&self) -> Vec<f64> {
        let Some(f) = self.dictionary() else { return Vec::new() };
        let (c, shares) = (self.outputs(), self.shares());
        let mut weights = vec![0.0; f.len() * c];
        let all = f.weights();
        let atoms = all.chunks_exact(f.outputs()).zip(weights.chunks_exact_mut(c));
        atoms.for_each(|(each, mixed)| mix(&shares, each, mixed));
        weights
    }

    /// The shares of the functions that are mixed: one, or those of the paces η/4, η and 4η.
    pub fn shares(&self) -> Vec<f64> {
        shares(&self.state.costs)
    }

    /// Names of the classes, in the order of their indices; empty if never set.
    pub fn class_names(&self) -> &[String] {
        &self.header.class_names
    }

    /// Attaches the names of the classes, kept in the model file; those at the end may have none yet.
    pub fn set_class_names(&mut self, names: Vec<String>) -> Result<()> {
        check_names(&names, self.header.options.task)?;
        self.header.class_names = names;
        Ok(())
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
        self.state.inner.step
    }

    /// The settings.
    pub fn options(&self) -> &OnlineOptions {
        &self.header.options
    }
}

/// The class of the highest score among the first `seen`: u > 0 is the second of two.
pub fn likeliest(u: &[f32], seen: usize) -> usize {
    match u {
        [u] => usize::from(*u > 0.0 && seen > 1),
        _ => (1..seen.min(u.len())).fold(0, |best, k| if u[k] > u[best] { k } else { best }),
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
        container.set_field("machine", &self.header)?;
        container.set_field("step", &self.state.inner.step)?;
        container.set_field("duals", &self.state.inner.duals)?;
        container.insert("costs", vec![self.state.costs.len()], self.state.costs.clone())?;
        if self.header.settled < CAPACITY {
            self.first.rows.store(container, "first")?;
            container.insert("first.told", vec![self.first.told.len()], self.first.told.clone())?;
        }
        self.state.inner.f.store(container)
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("machine")?;
        header.check()?;
        let (c, paces) = (header.loss.outputs(header.options.size()), first::paces(&header.options).len());
        let misfit = || Error::Format("units, first rows and costs do not fit each other".into());
        // Outputs by the tensor first: settings are checked by building what they say, of as many outputs as they say.
        let outputs = container.f32s("offset")?.1.len();
        if outputs / paces != c || !outputs.is_multiple_of(paces) || header.units.is_empty() {
            return Err(misfit());
        }
        header.options.check()?;
        check_names(&header.class_names, header.options.task)?;
        let known = header.mean_square.is_finite() && header.mean_square > 0.0;
        if !known || !header.settled.is_power_of_two() || header.settled > CAPACITY {
            return Err(misfit());
        }
        let f = Kept::restore(container, &header.options, header.bandwidth, outputs)?;
        let costs = container.take_f64s("costs", &[paces])?;
        let mut first = First::default();
        if header.settled < CAPACITY {
            first.rows = KeptRows::restore(container, "first", f.columns(), header.units.len())?;
            let told = if let Task::Regression(_) = header.options.task { first.rows.len() * c } else { 0 };
            first.told = container.take_f32s("first.told", &[told])?;
            if !(header.settled..2 * header.settled).contains(&first.rows.len()) {
                return Err(misfit());
            }
            let KeptRows { y, w, .. } = &first.rows;
            Training { rows: first.rows.rows()?, targets: y, weights: Some(w) }.check(header.options.task)?;
        }
        let duals: Vec<Dual> = container.field("duals")?;
        if duals.len() != header.options.constraints.len() {
            return Err(Error::Format("there is not one multiplier for each constraint".into()));
        }
        let inner = PrimalDualState { f, duals, step: container.field("step")? };
        Ok(Self { state: OnlineState { inner, costs }, header, first })
    }
}
