//! What `riesz stream` is told.

use super::rows::{Format, Header};
use crate::failure::{Failure, Outcome};
use crate::fit::loss_help;
use riesz::functions::{Bandwidth, ColumnScaling, Memory, OnlineOptions, Task};
use riesz::kernel::KernelSpec;
use riesz::loss::LossSpec;
use riesz::random::Seed;
use riesz::space::Budget;
use std::path::PathBuf;

/// Arguments of `riesz stream`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The column to learn: last, first, its name, or its number counted from 0. Rows whose target is missing are predicted
    /// only
    #[arg(long, default_value = "last", value_name = "COLUMN")]
    pub(super) target: String,
    /// classification or regression; by the first target if not given: text is a class, a number a quantity
    #[arg(long)]
    pub(super) task: Option<TaskName>,
    /// What lines are
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) format: Format,
    /// Whether the first line of delimited text names the columns
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) header: Header,
    /// Learn from this model on, where it exists, and write the model there
    #[arg(long, value_name = "FILE")]
    pub(super) model: Option<PathBuf>,
    /// The input begins with the rows that the model has taken already: read over them, and go on writing --out
    #[arg(long, requires = "model")]
    pub(super) resume: bool,
    /// Write the model at least every so many seconds, 0: whenever there is something new
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(super) save_every: f64,
    /// Where to write the predictions, a line for each row; to the standard output if not given
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Write the probability of the predicted class beside it
    #[arg(long)]
    pub(super) probabilities: bool,
    /// All classes there will be, separated by commas; without this, classes are met as they come
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub(super) classes: Vec<String>,
    /// Leave out rows that cannot be read, and count them; otherwise the first of them ends the stream
    #[arg(long)]
    pub(super) skip_bad: bool,
    /// Report to the standard error after every so many rows, 0: never
    #[arg(long, default_value_t = 10_000, value_name = "ROWS")]
    pub(super) report_every: u64,
    #[command(flatten)]
    pub(super) machine: MachineArguments,
}

/// Settings of the machine; those of a model that is there stay as they are.
#[derive(Debug, clap::Args)]
pub(super) struct MachineArguments {
    #[arg(long, help = loss_help())]
    pub(super) loss: Option<LossSpec>,
    /// gaussian, laplacian, cauchy, matern(nu), polynomial(degree, constant), …; sums and products of them
    #[arg(long, default_value = "gaussian")]
    kernel: KernelSpec,
    /// auto, median, scale or a positive number
    #[arg(long, default_value = "auto", allow_negative_numbers = true)]
    bandwidth: Bandwidth,
    /// What is done to the columns first: auto, none or standard
    #[arg(long, default_value = "auto")]
    scaling: ColumnScaling,
    /// What is kept: coefficients of random features, or rows
    #[arg(long, value_enum, default_value = "features")]
    memory: MemoryName,
    /// Number of features (1,024 if not given), or most rows kept (1,000)
    #[arg(long, value_name = "N")]
    budget: Option<usize>,
    /// Which row of a dictionary goes when there are more; the oldest if not given
    #[arg(long, value_enum)]
    drop: Option<Drop>,
    /// η in γ = η/√(t + η²); by default 2, 8 and 32 are mixed by what they have lately cost
    #[arg(long, allow_negative_numbers = true)]
    step: Option<f64>,
    /// Strength ν of the penalty (ν/2)‖f‖², by which what was learnt fades
    #[arg(long, default_value_t = 1e-4, allow_negative_numbers = true)]
    ridge: f64,
    /// Seed of everything random
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TaskName {
    /// The target is one of several classes.
    Classification,
    /// The target is a number.
    Regression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum MemoryName {
    Dictionary,
    Features,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Drop {
    Oldest,
    Smallest,
}

impl MachineArguments {
    /// What is kept, and how much of it.
    fn memory(&self) -> Outcome<Memory> {
        let atoms = self.budget.unwrap_or(Memory::ATOMS);
        match (self.memory, self.drop) {
            (MemoryName::Features, None) => Ok(Memory::features(self.budget.unwrap_or(Memory::FEATURES))),
            (MemoryName::Features, Some(_)) => {
                Err(Failure::bad_input("--drop is about rows kept; give --memory dictionary too"))
            }
            (MemoryName::Dictionary, None | Some(Drop::Oldest)) => {
                Ok(Memory::Dictionary(Budget::Oldest(atoms)))
            }
            (MemoryName::Dictionary, Some(Drop::Smallest)) => Ok(Memory::Dictionary(Budget::Smallest(atoms))),
        }
    }

    /// The settings of a task.
    pub(super) fn options(&self, task: Task) -> Outcome<OnlineOptions> {
        let defaults = OnlineOptions::new(task, Seed(self.seed));
        Ok(OnlineOptions {
            loss: self.loss.clone(),
            kernel: self.kernel.clone(),
            bandwidth: self.bandwidth,
            scaling: self.scaling,
            memory: self.memory()?,
            step: self.step.unwrap_or(defaults.step),
            adaptive: self.step.is_none(),
            ridge: self.ridge,
            ..defaults
        })
    }
}
