//! What a user can say about a fit; everything has a default.

use super::metric::{Form, MetricSpec};
use crate::error::{non_negative, positive, Error, Result};
use crate::kernel::{FeatureForm, FeatureMap, KernelSpec, Projection, Scaling};
use crate::loss::LossSpec;
use crate::random::Seed;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// What is learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Numbers, this many per row.
    Regression(usize),
    /// One of this many classes per row.
    Classification(usize),
}

/// The bandwidth σ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bandwidth {
    /// Chosen by held-out loss (2,000 rows and more) or by leaving rows out.
    Auto,
    /// The median distance between rows.
    Median,
    /// √(d·var/2), which is scikit-learn's `gamma="scale"`.
    Scale,
    /// This number.
    Value(f64),
}

impl FromStr for Bandwidth {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match (text, text.parse::<f64>()) {
            ("auto", _) => Ok(Self::Auto),
            ("median", _) => Ok(Self::Median),
            ("scale", _) => Ok(Self::Scale),
            (_, Ok(value)) => Ok(Self::Value(positive("bandwidth", value)?)),
            _ => {
                let expected = "auto, median, scale or a positive number";
                Err(Error::Unknown { name: "bandwidth", value: text.into(), expected })
            }
        }
    }
}

/// What is done to the columns first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnScaling {
    /// Whichever of the two others does better.
    Auto,
    /// Nothing.
    None,
    /// Zero mean and unit variance; constant columns are left out.
    Standard,
}

impl FromStr for ColumnScaling {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            "standard" => Ok(Self::Standard),
            _ => {
                Err(Error::Unknown { name: "scaling", value: text.into(), expected: "auto, none, standard" })
            }
        }
    }
}

/// The ways to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SolverSpec {
    /// An expansion over all rows of small data, else block functional descent.
    Auto,
    /// Block functional descent: any loss, regularised by early stopping.
    Block,
    /// The regularised problem on fixed features: square loss.
    Ridge,
    /// Stochastic gradients: a step for every batch of rows, which need not be kept.
    Stream,
}

impl FromStr for SolverSpec {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "block" => Ok(Self::Block),
            "ridge" => Ok(Self::Ridge),
            "stream" => Ok(Self::Stream),
            _ => Err(Error::Unknown {
                name: "solver",
                value: text.into(),
                expected: "auto, block, ridge, stream",
            }),
        }
    }
}

/// Features after which block descent ends, unless early stopping ends it before or the user says otherwise.
pub const MOST_FEATURES: usize = 131_072;

/// All settings of a kernel machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "Options::unset")]
pub struct Options {
    /// What is learnt.
    pub task: Task,
    /// The loss; `None`: square for regression; for classification least squares of an expansion over all
    /// rows, squared hinge with a hold-out, else softmax.
    pub loss: Option<LossSpec>,
    /// Kernel family; `None`: Gaussian, or Matérn of smoothness 3/2 or 1/2 where that does better on small data or with a metric, or in expansions over
    /// all rows Laplacian.
    pub kernel: Option<KernelSpec>,
    /// Which learnt metrics of the columns compete.
    pub metric: MetricSpec,
    /// σ.
    pub bandwidth: Bandwidth,
    /// What is done to the columns first.
    pub scaling: ColumnScaling,
    /// How to fit.
    pub solver: SolverSpec,
    /// ν in (ν/2)‖f‖²; `None`: 0 for block descent, 0.01/n for ridge; a stream chooses it by its first rows, and with θ it is 10⁻⁴.
    pub ridge: Option<f64>,
    /// ρ of block descent; `None`: by loss.
    pub damping: Option<f64>,
    /// Features per block; `None`: by the number of rows.
    pub block_size: Option<usize>,
    /// Most blocks; `None`: as many as make 131,072 features (ridge: 64 blocks). Of a stream it is the budget of features, in
    /// blocks: 4,096 features unless given, and no limit with θ.
    pub max_blocks: Option<usize>,
    /// Sweeps over the blocks after the first.
    pub sweeps: usize,
    /// Whether a part of the rows (2,000 and more) is held out to decide when to stop.
    pub early_stopping: bool,
    /// Most seconds; the blocks finished by then are the model.
    pub max_time: Option<f64>,
    /// Rows per step of a stream.
    pub batch_size: usize,
    /// Passes of `solver = stream` over the rows.
    pub passes: usize,
    /// θ of doubly stochastic gradients as published, γ_t = θ/(t + t₀), for targets in their unit; `None`: preconditioned steps
    /// of a length that the batch itself decides.
    pub theta: Option<f64>,
    /// t₀; `None`: 0, as published.
    pub delay: Option<f64>,
    /// Iterate t of a stream counts like t^c in the average that predicts; `None`: c = 3, and no average with θ.
    pub averaging: Option<f64>,
    /// Frequencies; `None`: structured where it wins.
    pub projection: Option<Projection>,
    /// Feature form.
    pub form: FeatureForm,
    /// Seed of everything.
    #[serde(alias = "random_state")]
    pub seed: Seed,
    /// Rows whose features are held in memory at a time, 0: automatic. Never changes the result.
    pub chunk: usize,
}

impl Options {
    /// The defaults for a task.
    pub fn new(task: Task, seed: Seed) -> Self {
        Self {
            task,
            loss: None,
            kernel: None,
            metric: MetricSpec::Auto,
            bandwidth: Bandwidth::Auto,
            scaling: ColumnScaling::Auto,
            solver: SolverSpec::Auto,
            ridge: None,
            damping: None,
            block_size: None,
            max_blocks: None,
            sweeps: 0,
            early_stopping: true,
            max_time: None,
            batch_size: 512,
            passes: 1,
            theta: None,
            delay: None,
            averaging: None,
            projection: None,
            form: FeatureForm::Phase,
            seed,
            chunk: 0,
        }
    }

    /// The kernel asked for; Gaussian where none is.
    pub fn kernel(&self) -> &KernelSpec {
        self.kernel.as_ref().unwrap_or(&KernelSpec::Gaussian)
    }

    /// The forms of metrics that compete; of none that was not asked for where the bandwidth is given, whose unit it would change.
    pub(crate) fn metric_forms(&self, columns: usize) -> Vec<Form> {
        match (self.metric, self.bandwidth) {
            (MetricSpec::Auto, bandwidth) if bandwidth != Bandwidth::Auto => Vec::new(),
            (metric, _) => metric.forms(columns),
        }
    }

    /// The kernels that compete: one where it, or a bandwidth, is given.
    pub(crate) fn kernels(&self) -> Vec<KernelSpec> {
        match (&self.kernel, self.bandwidth) {
            (Some(kernel), _) => vec![kernel.clone()],
            (None, Bandwidth::Auto) => {
                vec![KernelSpec::Gaussian, KernelSpec::Matern(1.5), KernelSpec::Matern(0.5)]
            }
            (None, _) => vec![KernelSpec::Gaussian],
        }
    }

    /// Whether the Laplacian kernel competes with these in expansions over all rows: it is a function of other distances, whose metrics are weights of
    /// columns.
    pub(crate) fn laplacian_competes(&self) -> bool {
        self.kernels().len() > 1 && matches!(self.metric, MetricSpec::Auto | MetricSpec::None)
    }

    /// Whether small data are fitted by an expansion over all rows: with a kernel in closed form, unless a setting of blocks asks
    /// for blocks.
    pub(crate) fn is_exact(&self) -> bool {
        let about_blocks = self.block_size.is_some()
            || self.max_blocks.is_some()
            || self.damping.is_some()
            || self.projection.is_some()
            || self.sweeps > 0;
        self.solver == SolverSpec::Auto && !about_blocks && !self.kernel().has_user_part()
    }

    /// What is filled in for a setting that is not given.
    fn unset() -> Self {
        Self::new(Task::Regression(1), Seed(0))
    }

    /// The features these settings ask for.
    pub(crate) fn feature_map(
        &self,
        bandwidth: f64,
        block_size: usize,
        scaling: Scaling,
    ) -> Result<FeatureMap> {
        let mut map = FeatureMap::new(self.kernel().clone(), bandwidth, block_size, self.seed, scaling)?;
        map.projection = self.projection.unwrap_or(map.projection);
        map.form = self.form;
        map.check()?;
        Ok(map)
    }

    /// Refuses settings outside their domain or at odds with each other.
    pub fn check(&self) -> Result<()> {
        if let Bandwidth::Value(value) = self.bandwidth {
            positive("bandwidth", value)?;
        }
        self.kernel().check()?;
        if self.scaling == ColumnScaling::Standard && !self.kernel().has_bandwidth() {
            return Err(Error::Conflict(format!(
                "the {} kernel takes columns as they are; use scaling = none",
                self.kernel()
            )));
        }
        self.ridge.map(|v| non_negative("ridge", v)).transpose()?;
        self.damping.map(|v| positive("damping", v)).transpose()?;
        self.max_time.map(|v| positive("max_time", v)).transpose()?;
        self.block_size.map(|v| positive("block_size", v as f64)).transpose()?;
        self.max_blocks.map(|v| positive("max_blocks", v as f64)).transpose()?;
        positive("batch_size", self.batch_size as f64)?;
        positive("passes", self.passes as f64)?;
        self.theta.map(|v| positive("theta", v)).transpose()?;
        self.delay.map(|v| non_negative("delay", v)).transpose()?;
        self.averaging.map(|v| non_negative("averaging", v)).transpose()?;
        if self.delay.is_some() && self.theta.is_none() {
            return Err(Error::Conflict(
                "delay belongs to the step size θ/(t + delay); give theta too".into(),
            ));
        }
        if let Task::Classification(classes) = self.task {
            if classes < 2 {
                return Err(Error::OneClass(format!("{classes} class")));
            }
        }
        self.loss.as_ref().map(LossSpec::check).transpose()?;
        let regression = matches!(self.task, Task::Regression(_));
        let names = |classes| LossSpec::names(classes).collect::<Vec<_>>().join(", ");
        match &self.loss {
            Some(loss) if regression && loss.is_classification() => Err(Error::Conflict(format!(
                "loss = {loss} is for classification; use one of {}",
                names(false)
            ))),
            _ if !regression && self.solver == SolverSpec::Ridge => Err(Error::Conflict(
                "solver = ridge is for regression; classifiers are fitted by block or stream".into(),
            )),
            Some(loss) if !regression && !loss.is_classification() => {
                Err(Error::Conflict(format!("loss = {loss} is for regression; use one of {}", names(true))))
            }
            Some(loss) if loss.is_list() && self.task != Task::Regression(1) => {
                Err(Error::Conflict(format!("loss = {loss} takes one target; fit one model for each")))
            }
            Some(loss) if self.solver == SolverSpec::Ridge && *loss != LossSpec::Square => {
                Err(Error::Conflict(format!(
                    "solver = ridge solves the square loss; loss = {loss} needs solver = block"
                )))
            }
            _ => Ok(()),
        }
    }
}
