//! A fitted kernel machine.

use super::calibration::Calibration;
use super::fit::{class_of, Fit, Outcome};
use super::learnt::Learnt;
use super::metric::{Form as MetricForm, Metric};
use super::options::{ColumnScaling, Options, SolverSpec, Task};
use super::start::loss_in;
use super::stream::{Course, Stream};
use super::training::{effective_rows, encode, Prepared, Training, SMALL};
use crate::compute;
use crate::data::Rows;
use crate::driver::{Control, Fingerprint};
use crate::error::{Error, Result};
use crate::functions::kept_rows::Labelled;
use crate::functions::stored::take_expansion;
use crate::kernel::{FeatureForm, FeatureMap, KernelSpec, Projection};
use crate::loss::{Loss, LossSpec};
use crate::model::{Container, Stored};
use crate::random::Seed;
use crate::space::Function;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Share of the log-loss of least squares below which logistic regression is taken instead: rows are left out of it
/// approximately.
const MUCH_LESS: f64 = 0.8;

/// One block of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Blocks so far.
    pub block: usize,
    /// Mean training loss (of standardised targets for regression); after sweeps over all rows, that of 1,024 of them at most.
    pub loss: f64,
    /// Mean loss on the held-out rows.
    pub held_out_loss: Option<f64>,
    /// Share of held-out rows classified wrongly.
    pub held_out_error: Option<f64>,
}

/// What a fit chose and how it went.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What was learnt.
    pub task: Task,
    /// The loss.
    pub loss: LossSpec,
    /// Kernel family.
    pub kernel: KernelSpec,
    /// Bandwidth σ.
    pub bandwidth: f64,
    /// `standard` or `none`.
    pub scaling: &'static str,
    /// The form of the learnt metric, where there is one.
    pub metric: Option<MetricForm>,
    /// How much each column counts in it, adding up to one.
    pub importances: Option<Vec<f32>>,
    /// Whether the function is an expansion over the rows it was learnt from, without random features.
    pub exact: bool,
    /// How frequencies are drawn.
    pub projection: Projection,
    /// Blocks; one of all rows where the function is an expansion over them.
    pub blocks: usize,
    /// Features, or kernel atoms, per block.
    pub block_size: usize,
    /// Features, or kernel atoms, altogether.
    pub features: usize,
    /// Input columns.
    pub columns: usize,
    /// Instruction path the model was fitted on.
    pub path: compute::Path,
    /// Seed.
    pub seed: u64,
    /// The course of the fit.
    pub history: Vec<HistoryEntry>,
}

/// A function, the loss that links it to the targets, and what is needed to continue learning.
#[derive(Clone, Debug)]
pub struct KernelMachine {
    f: Learnt,
    /// Through which rows go first.
    metric: Option<Metric>,
    header: Header,
    class_names: Vec<String>,
    /// What a stream needs to go on, beside f.
    stream: Option<Stream>,
}

/// Everything about a model that is not a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    options: Options,
    loss: LossSpec,
    bandwidth: f64,
    standard: bool,
    projection: Projection,
    form: FeatureForm,
    block_size: usize,
    path: compute::Path,
    calibration: Option<Calibration>,
    history: Vec<HistoryEntry>,
    /// Total weight of the rows of the fit.
    #[serde(default)]
    seen: f64,
    /// Whether the file holds what a stream needs to go on.
    #[serde(default)]
    streams: bool,
    /// Whether f is an expansion over rows.
    #[serde(default)]
    atoms: bool,
    /// Whether its kernel rounds what it looks at to bfloat16.
    #[serde(default)]
    rounded: bool,
    /// Whether the file holds a metric.
    #[serde(default)]
    metric: bool,
}

impl Header {
    fn new(options: &Options, loss: LossSpec, f: &Learnt, standard: bool) -> Self {
        let mut header = Self {
            options: options.clone(),
            loss,
            bandwidth: 1.0,
            standard,
            projection: Projection::Dense,
            form: options.form,
            block_size: 0,
            path: f.path(),
            calibration: None,
            history: Vec::new(),
            seen: 0.0,
            streams: false,
            atoms: false,
            rounded: false,
            metric: false,
        };
        header.describe(f, standard);
        header
    }

    /// Takes over what `f` is made of.
    fn describe(&mut self, f: &Learnt, standard: bool) {
        self.options.kernel = Some(f.kernel().clone());
        (self.bandwidth, self.standard, self.block_size) = (f.bandwidth(), standard, f.shape().1);
        self.atoms = matches!(f, Learnt::Atoms(_));
        self.rounded = f.is_rounded();
        if let Learnt::Features(f) = f {
            (self.projection, self.form) = (f.map().projection, f.map().form);
        }
    }
}

/// Refuses names of classes that are not as many as the classes.
fn check_names(names: &[String], task: Task) -> Result<()> {
    let classes = if let Task::Classification(classes) = task { classes } else { 0 };
    match names.is_empty() || names.len() == classes {
        true => Ok(()),
        false => Err(Error::Format(format!("{} class names for {classes} classes", names.len()))),
    }
}

impl KernelMachine {
    /// Fits by the chosen solver.
    pub fn fit(options: &Options, data: &Training<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        data.check(options.task)?;
        options.kernel().check_domain(data.rows)?;
        control.prepare_checkpoint()?;
        control.start(options.max_time);
        if options.solver == SolverSpec::Stream {
            let course = Course { passes: options.passes, shuffle: Some(options.seed) };
            return Self::stream(options, data, course, control);
        }
        let loss = default_loss(options, data);
        check_targets(&loss, options.task, data)?;
        let prepared = Prepared::new(data, options.task, &loss)?;
        let print = match control.checkpoint {
            Some(_) => Fingerprint::of_rows(prepared.rows()?, &prepared.targets, &prepared.weights),
            None => Fingerprint::default(),
        };
        let learnt = data.rows.sound(learn(options, loss, &prepared, &print, control));
        let (outcome, loss) = learnt?;
        let mut header = Header::new(options, loss, &outcome.f, outcome.standard);
        (header.calibration, header.history) = (outcome.calibration, outcome.history);
        header.seen = effective_rows(&prepared.weights);
        Ok(Self { f: outcome.f, metric: outcome.metric, header, class_names: Vec::new(), stream: None })
    }

    /// A fit that sees the rows batch by batch, in random order.
    fn stream(
        options: &Options,
        data: &Training<'_>,
        course: Course,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        let loss = options.loss.clone().unwrap_or(match options.task {
            Task::Regression(_) => LossSpec::Square,
            Task::Classification(_) => LossSpec::Softmax,
        });
        check_targets(&loss, options.task, data)?;
        let (targets, weights) = labels(data, options.task, &loss);
        let labelled = Labelled { rows: data.rows, targets: &targets, weights: &weights };
        let begun =
            Stream::begin(options, &|units| loss_in(&loss, options.task, units), labelled, course, control);
        let stream = data.rows.sound(begun)?;
        let f = Learnt::Features(stream.function());
        let header = Header::new(options, loss, &f, stream.standard);
        Ok(Self { f, metric: None, header, class_names: Vec::new(), stream: Some(stream) })
    }

    /// The first rows of a stream: settles on them what is left open, then learns from them, in their order.
    pub fn begin(options: &Options, first: &Training<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        first.check(options.task)?;
        options.kernel().check_domain(first.rows)?;
        control.start(options.max_time);
        Self::stream(options, first, Course { passes: 1, shuffle: None }, control)
    }

    /// Learns from further rows, after a fit or a stream: a step for every batch, in their order.
    pub fn partial_fit(&mut self, data: &Training<'_>, control: &mut Control<'_>) -> Result<()> {
        let Header { options, loss, .. } = &self.header;
        let (expected, found) = (self.columns(), data.rows.columns());
        if expected != found {
            return Err(Error::Columns { expected, found });
        }
        data.check(options.task)?;
        options.kernel().check_domain(data.rows)?;
        check_targets(loss, options.task, data)?;
        control.start(options.max_time);
        let (targets, weights) = labels(data, options.task, loss);
        let mapped = self.metric.as_ref().map(|metric| metric.map(data.rows));
        let rows = mapped.as_ref().map_or(Ok(data.rows), |x| Rows::single(x, self.f.columns()))?;
        let labelled = Labelled { rows, targets: &targets, weights: &weights };
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                Stream::after(self.f.expansion(options)?, self.header.standard, self.header.seen, options)
            }
        };
        let learnt = stream.learn(options, &|units| loss_in(loss, options.task, units), labelled, control);
        let f = Learnt::Features(stream.function());
        let standard = stream.standard;
        self.stream = Some(stream);
        data.rows.sound(learnt)?;
        self.header.describe(&f, standard);
        self.f = f;
        Ok(())
    }

    /// Number C of outputs: one for two classes.
    pub fn outputs(&self) -> usize {
        self.f.outputs()
    }

    /// f at `rows`, n×C row-major: numbers as the loss compares them with the targets, or class scores.
    pub fn decision(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        rows.check_finite("X")?;
        self.f.kernel().check_domain(rows)?;
        let mut out = vec![0.0; rows.len() * self.outputs()];
        match &self.metric {
            Some(metric) => {
                metric.evaluate(rows, self.outputs(), &mut out, |rows, out| self.f.evaluate(rows, out))?;
            }
            None => rows.sound(self.f.evaluate(rows, &mut out))?,
        }
        Ok(out)
    }

    /// Predictions of a regression, n×C row-major: f itself; for the Poisson loss the mean e^f; for the quantile loss
    /// the values of f in increasing order, so that quantiles do not cross.
    pub fn predict(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        if self.header.loss.is_classification() {
            return Err(Error::Conflict("a classification model predicts classes, not numbers".into()));
        }
        let (mut values, loss) = (self.decision(rows)?, self.loss()?);
        values.chunks_exact_mut(self.outputs()).for_each(|u| loss.predict(u));
        Ok(values)
    }

    /// The most likely class of each row.
    pub fn classes_of(&self, rows: Rows<'_>) -> Result<Vec<u32>> {
        self.classes()?;
        Ok(self.decision(rows)?.chunks_exact(self.outputs()).map(|u| class_of(u) as u32).collect())
    }

    /// Class probabilities, n×K row-major.
    pub fn probabilities(&self, rows: Rows<'_>) -> Result<Vec<f64>> {
        let classes = self.classes()?;
        let scores = self.decision(rows)?;
        let mut out = vec![0.0; rows.len() * classes];
        let calibration = self.header.calibration.unwrap_or_default();
        let own = self.loss()?.probabilities().filter(|_| self.header.calibration.is_none());
        for (u, p) in scores.chunks_exact(self.outputs()).zip(out.chunks_exact_mut(classes)) {
            match own {
                Some(probabilities) => probabilities(u, p),
                None => calibration.probabilities(u, p),
            }
        }
        Ok(out)
    }

    /// The loss, in the units of the targets.
    fn loss(&self) -> Result<Box<dyn Loss>> {
        let (Task::Regression(size) | Task::Classification(size)) = self.header.options.task;
        self.header.loss.build(size)
    }

    fn classes(&self) -> Result<usize> {
        match self.header.options.task {
            Task::Classification(classes) => Ok(classes),
            Task::Regression(_) => Err(Error::Conflict("a regression model has no classes".into())),
        }
    }

    /// What the fit chose and how it went.
    pub fn summary(&self) -> Summary {
        let (blocks, block_size) = self.f.shape();
        Summary {
            task: self.header.options.task,
            loss: self.header.loss.clone(),
            kernel: self.f.kernel().clone(),
            bandwidth: self.f.bandwidth(),
            scaling: if self.header.standard { "standard" } else { "none" },
            metric: self.metric.as_ref().map(Metric::form),
            importances: self.metric.as_ref().map(|metric| metric.importances().to_vec()),
            exact: self.header.atoms,
            projection: self.header.projection,
            blocks,
            block_size,
            features: blocks * block_size,
            columns: self.columns(),
            path: self.header.path,
            seed: self.seed().0,
            history: self.header.history.clone(),
        }
    }

    /// Number d of columns.
    pub fn columns(&self) -> usize {
        self.metric.as_ref().map_or_else(|| self.f.columns(), Metric::columns)
    }

    /// The learnt metric of the columns, where there is one.
    pub fn metric(&self) -> Option<&Metric> {
        self.metric.as_ref()
    }

    /// Names of the classes, in the order of their indices; empty if never set.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// Attaches the names of the classes, kept in the model file: one for each, or none.
    pub fn set_class_names(&mut self, names: Vec<String>) -> Result<()> {
        check_names(&names, self.header.options.task)?;
        self.class_names = names;
        Ok(())
    }

    /// Reads a model file whose kernel is, or contains, a user's function: the file holds its name alone, and `kernel` must
    /// be the kernel of the fit, by name and in all other parts. That the function is the same too is the caller's
    /// promise.
    pub fn load_with_kernel(path: &Path, kernel: &KernelSpec) -> Result<Self> {
        Self::from_container_with_kernel(Container::load(path)?, kernel)
    }

    /// The same for the contents of a file.
    pub fn from_container_with_kernel(mut container: Container, kernel: &KernelSpec) -> Result<Self> {
        container.expect_kind(Self::KIND)?;
        Self::read(&mut container, Some(kernel))
    }

    /// Takes a model out of its container; `kernel` supplies a user's function.
    fn read(container: &mut Container, kernel: Option<&KernelSpec>) -> Result<Self> {
        let mut header: Header = container.field("machine")?;
        let class_names: Vec<String> = container.field("class_names")?;
        if let Some(kernel) = kernel {
            header.options.kernel = Some(header.options.kernel().completed_by(kernel)?);
        }
        header.options.check().map_err(|e| match e {
            Error::KernelMissing { .. } => e,
            other => Error::Format(other.to_string()),
        })?;
        header.loss.check().map_err(|e| Error::Format(e.to_string()))?;
        if header.loss.is_classification() != matches!(header.options.task, Task::Classification(_)) {
            return Err(Error::Format(format!("loss {} does not fit the task", header.loss)));
        }
        check_names(&class_names, header.options.task)?;
        let c = outputs(&header.loss, header.options.task);
        let kernel = header.options.kernel().clone();
        let expansion = |scaling| FeatureMap {
            kernel: kernel.clone(),
            bandwidth: header.bandwidth,
            projection: header.projection,
            form: header.form,
            block_size: header.block_size,
            seed: header.options.seed,
            scaling,
        };
        let (f, stream) = match header.atoms {
            true => (Learnt::restore_atoms(container, kernel, (header.bandwidth, header.rounded), c)?, None),
            false => {
                let f = take_expansion(container, c, expansion)?;
                let stream = header.streams.then(|| Stream::restore(container, &f)).transpose()?;
                (Learnt::Features(f), stream)
            }
        };
        let metric = header.metric.then(|| Metric::restore(container, f.columns())).transpose()?;
        Ok(Self { f, metric, header, class_names, stream })
    }

    /// The seed of the fit.
    pub fn seed(&self) -> Seed {
        self.header.options.seed
    }
}

impl Stored for KernelMachine {
    const KIND: &'static str = "model";

    fn store(&self, container: &mut Container) -> Result<()> {
        let mut header = self.header.clone();
        // Settings that never change the result are not part of it.
        (header.options.chunk, header.options.max_time) = (0, None);
        (header.streams, header.metric) = (self.stream.is_some(), self.metric.is_some());
        container.set_field("machine", &header)?;
        container.set_field("class_names", &self.class_names)?;
        self.f.store(container)?;
        self.metric.as_ref().map_or(Ok(()), |metric| metric.store(container))?;
        self.stream.as_ref().map_or(Ok(()), |stream| stream.store(container))
    }

    fn restore(container: &mut Container) -> Result<Self> {
        Self::read(container, None)
    }
}

/// Fits; rows of large data go through a metric first where one does better.
fn learn(
    options: &Options,
    loss: LossSpec,
    prepared: &Prepared<'_>,
    print: &Fingerprint,
    control: &mut Control<'_>,
) -> Result<(Outcome, LossSpec)> {
    let fit = Fit::new(options, loss.clone(), prepared, print.clone())?;
    if fit.is_exact() && options.loss.is_none() && options.task == Task::Classification(2) {
        let logistic = Fit::new(options, LossSpec::Logistic, prepared, print.clone())?;
        return either([(&fit, loss), (&logistic, LossSpec::Logistic)], control);
    }
    if fit.is_swept() {
        return Ok((fit.run(control)?, loss));
    }
    if fit.is_reducible() {
        let chosen = fit.choices(control)?;
        if fit.is_affordable(&chosen) {
            return Ok((fit.sweeps_of(chosen, control)?, loss));
        }
        let loss = options.loss.clone().unwrap_or(LossSpec::SquaredHinge);
        return in_blocks(options, loss, prepared, print, (chosen.metric(), control));
    }
    let metric = fit.learnt_metric(control)?;
    drop(fit);
    in_blocks(options, loss, prepared, print, (metric, control))
}

/// Fits rows by blocks, or as the options ask for, after they have gone through a metric where there is one.
fn in_blocks(
    options: &Options,
    loss: LossSpec,
    prepared: &Prepared<'_>,
    print: &Fingerprint,
    (metric, control): (Option<(Metric, KernelSpec)>, &mut Control<'_>),
) -> Result<(Outcome, LossSpec)> {
    let Some((metric, kernel)) = metric else {
        let fit = Fit::new(options, loss.clone(), prepared, print.clone())?;
        return Ok((fit.run(control)?, loss));
    };
    let mapped = prepared.mapped(&metric)?;
    let options = Options { kernel: Some(kernel), scaling: ColumnScaling::None, ..options.clone() };
    let outcome = Fit::new(&options, loss.clone(), &mapped, print.clone())?.run(control)?;
    Ok((Outcome { metric: Some(metric), ..outcome }, loss))
}

/// The second of two expansions with the same settings, where its log-loss of rows left out is a good deal less; else the first.
fn either(
    [first, second]: [(&Fit<'_>, LossSpec); 2],
    control: &mut Control<'_>,
) -> Result<(Outcome, LossSpec)> {
    let chosen = first.0.chosen(control)?;
    let one = first.0.exact(chosen.clone(), control)?;
    if control.out_of_time() {
        return Ok((one, first.1));
    }
    let other = second.0.exact(chosen, control)?;
    let risk = |outcome: &Outcome| outcome.history[0].held_out_loss.unwrap_or(f64::INFINITY);
    Ok(if risk(&other) < MUCH_LESS * risk(&one) { (other, second.1) } else { (one, first.1) })
}

/// Outputs of a task under a loss.
fn outputs(loss: &LossSpec, task: Task) -> usize {
    match task {
        Task::Regression(size) | Task::Classification(size) => loss.outputs(size),
    }
}

/// Targets as the loss wants them, and weights.
fn labels(data: &Training<'_>, task: Task, loss: &LossSpec) -> (Vec<f32>, Vec<f32>) {
    let weights = data.weights.map_or_else(|| vec![1.0; data.rows.len()], <[f32]>::to_vec);
    (encode(data.targets, task, loss), weights)
}

/// Refuses targets outside the domain of the loss.
fn check_targets(loss: &LossSpec, task: Task, data: &Training<'_>) -> Result<()> {
    match task {
        Task::Regression(targets) => loss.check_targets(data.targets, targets),
        Task::Classification(_) => Ok(()),
    }
}

/// The loss asked for, or the default: square for regression; for classification least squares of an expansion over all rows
/// (in closed form, scores calibrated on rows left out; of two classes logistic where that is much better), squared hinge (most accurate of blocks, calibrated on held-out
/// rows), or softmax where no rows are held out.
fn default_loss(options: &Options, data: &Training<'_>) -> LossSpec {
    let (n, d, in_memory) = (data.rows.len(), data.rows.columns(), !matches!(data.rows, Rows::Cached(_)));
    options.loss.clone().unwrap_or(match options.task {
        Task::Regression(_) => LossSpec::Square,
        Task::Classification(_) if n < SMALL && options.is_exact() => LossSpec::LeastSquares,
        Task::Classification(_) if n < SMALL || !options.early_stopping => LossSpec::Softmax,
        Task::Classification(_) if in_memory && options.may_be_swept(&LossSpec::LeastSquares, n, d) => {
            LossSpec::LeastSquares
        }
        Task::Classification(_) => LossSpec::SquaredHinge,
    })
}
