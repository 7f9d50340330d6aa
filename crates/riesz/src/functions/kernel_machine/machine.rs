//! A fitted kernel machine.

use super::calibration::Calibration;
use super::fit::{class_of, Fit};
use super::options::{Options, SolverSpec, Task};
use super::start::loss_in;
use super::stream::{Course, Stream};
use super::training::{effective_rows, encode, Prepared, Training, SMALL};
use crate::compute;
use crate::data::Rows;
use crate::driver::{Control, Fingerprint};
use crate::error::{Error, Result};
use crate::functions::kept_rows::Labelled;
use crate::functions::stored::{insert_expansion, take_expansion};
use crate::kernel::{FeatureForm, FeatureMap, KernelSpec, Projection};
use crate::loss::{Loss, LossSpec};
use crate::model::{Container, Stored};
use crate::random::Seed;
use crate::space::{FeatureExpansion, Function};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One block of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Blocks so far.
    pub block: usize,
    /// Mean training loss (of standardised targets for regression).
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
    /// How frequencies are drawn.
    pub projection: Projection,
    /// Blocks.
    pub blocks: usize,
    /// Features per block.
    pub block_size: usize,
    /// Features altogether.
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
    f: FeatureExpansion,
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
}

impl Header {
    fn new(options: &Options, loss: LossSpec, f: &FeatureExpansion, standard: bool) -> Self {
        let map = f.map();
        Self {
            options: options.clone(),
            loss,
            bandwidth: map.bandwidth,
            standard,
            projection: map.projection,
            form: map.form,
            block_size: map.block_size,
            path: f.device().path(),
            calibration: None,
            history: Vec::new(),
            seen: 0.0,
            streams: false,
        }
    }

    /// Takes over what the features of `f` are.
    fn describe(&mut self, f: &FeatureExpansion, standard: bool) {
        let map = f.map();
        (self.bandwidth, self.standard, self.block_size) = (map.bandwidth, standard, map.block_size);
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
        options.kernel.check_domain(data.rows)?;
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
        let fitted = Fit::new(options, loss.clone(), &prepared, print)?.run(control);
        let outcome = data.rows.sound(fitted)?;
        let mut header = Header::new(options, loss, &outcome.f, outcome.standard);
        (header.calibration, header.history) = (outcome.calibration, outcome.history);
        header.seen = effective_rows(&prepared.weights);
        Ok(Self { f: outcome.f, header, class_names: Vec::new(), stream: None })
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
        let f = stream.function();
        let header = Header::new(options, loss, &f, stream.standard);
        Ok(Self { f, header, class_names: Vec::new(), stream: Some(stream) })
    }

    /// The first rows of a stream: settles on them what is left open, then learns from them, in their order.
    pub fn begin(options: &Options, first: &Training<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        first.check(options.task)?;
        options.kernel.check_domain(first.rows)?;
        control.start(options.max_time);
        Self::stream(options, first, Course { passes: 1, shuffle: None }, control)
    }

    /// Learns from further rows, after a fit or a stream: a step for every batch, in their order.
    pub fn partial_fit(&mut self, data: &Training<'_>, control: &mut Control<'_>) -> Result<()> {
        let Header { options, loss, .. } = &self.header;
        let (expected, found) = (self.f.columns(), data.rows.columns());
        if expected != found {
            return Err(Error::Columns { expected, found });
        }
        data.check(options.task)?;
        options.kernel.check_domain(data.rows)?;
        check_targets(loss, options.task, data)?;
        control.start(options.max_time);
        let (targets, weights) = labels(data, options.task, loss);
        let labelled = Labelled { rows: data.rows, targets: &targets, weights: &weights };
        let stream = self.stream.get_or_insert_with(|| {
            Stream::after(self.f.clone(), self.header.standard, self.header.seen, options)
        });
        let learnt = stream.learn(options, &|units| loss_in(loss, options.task, units), labelled, control);
        data.rows.sound(learnt)?;
        self.f = stream.function();
        self.header.describe(&self.f, stream.standard);
        Ok(())
    }

    /// Number C of outputs: one for two classes.
    pub fn outputs(&self) -> usize {
        self.f.outputs()
    }

    /// f at `rows`, n×C row-major: numbers as the loss compares them with the targets, or class scores.
    pub fn decision(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        rows.check_finite("X")?;
        self.f.map().kernel.check_domain(rows)?;
        let mut out = vec![0.0; rows.len() * self.outputs()];
        rows.sound(self.f.evaluate(rows, &mut out))?;
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
        let map = self.f.map();
        Summary {
            task: self.header.options.task,
            loss: self.header.loss.clone(),
            kernel: map.kernel.clone(),
            bandwidth: map.bandwidth,
            scaling: if self.header.standard { "standard" } else { "none" },
            projection: map.projection,
            blocks: self.f.len(),
            block_size: map.block_size,
            features: self.f.len() * map.block_size,
            columns: map.columns(),
            path: self.header.path,
            seed: map.seed.0,
            history: self.header.history.clone(),
        }
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
            header.options.kernel = header.options.kernel.completed_by(kernel)?;
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
        let f = take_expansion(container, c, |scaling| FeatureMap {
            kernel: header.options.kernel.clone(),
            bandwidth: header.bandwidth,
            projection: header.projection,
            form: header.form,
            block_size: header.block_size,
            seed: header.options.seed,
            scaling,
        })?;
        let stream = header.streams.then(|| Stream::restore(container, &f)).transpose()?;
        Ok(Self { f, header, class_names, stream })
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
        header.streams = self.stream.is_some();
        container.set_field("machine", &header)?;
        container.set_field("class_names", &self.class_names)?;
        insert_expansion(container, &self.f)?;
        self.stream.as_ref().map_or(Ok(()), |stream| stream.store(container))
    }

    fn restore(container: &mut Container) -> Result<Self> {
        Self::read(container, None)
    }
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

/// The loss asked for, or the default: square for regression; for classification squared hinge (most accurate, scores
/// calibrated on held-out rows), or softmax where no rows are held out.
fn default_loss(options: &Options, data: &Training<'_>) -> LossSpec {
    let n = data.rows.len();
    options.loss.clone().unwrap_or(match options.task {
        Task::Regression(_) => LossSpec::Square,
        Task::Classification(_) if n < SMALL || !options.early_stopping => LossSpec::Softmax,
        Task::Classification(_) => LossSpec::SquaredHinge,
    })
}
