//! `riesz fit`: a data file becomes a model file.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{check_folder_of, duration, grouped, listed, print, significant, Lines};
use crate::progress::Bar;
use crate::score::test_error;
use crate::table::{Labelled, TaskChoice};
use riesz::driver::{CheckpointPolicy, Control};
use riesz::functions::{Bandwidth, ColumnScaling, KernelMachine, Options, SolverSpec, Training};
use riesz::kernel::KernelSpec;
use riesz::loss::LossSpec;
use riesz::model::Stored;
use riesz::random::Seed;
use riesz::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `riesz fit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Data: .csv, .tsv, .libsvm, .npy or .idx, also with .gz
    data: PathBuf,
    /// The column to learn: last, first, its name, or its number counted from 0
    #[arg(long, default_value = "last", value_name = "COLUMN")]
    target: String,
    /// Where to write the model
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// What the target is
    #[arg(long, value_enum, default_value = "auto")]
    task: TaskChoice,
    #[arg(long, help = loss_help())]
    loss: Option<LossSpec>,
    /// gaussian, laplacian, cauchy, matern(nu), polynomial(degree, constant), chi_squared, …; sums and products of them
    #[arg(long, default_value = "gaussian")]
    kernel: KernelSpec,
    /// auto, median, scale or a positive number
    #[arg(long, default_value = "auto", allow_negative_numbers = true)]
    bandwidth: Bandwidth,
    /// What is done to the columns first: auto, none or standard
    #[arg(long, default_value = "auto")]
    scaling: ColumnScaling,
    /// auto, block, ridge or stream
    #[arg(long, default_value = "auto")]
    solver: SolverSpec,
    /// Strength ν of the penalty (ν/2)‖f‖²
    #[arg(long, allow_negative_numbers = true)]
    ridge: Option<f64>,
    /// Damping ρ of block descent: smaller learns faster and overfits sooner
    #[arg(long, allow_negative_numbers = true)]
    damping: Option<f64>,
    /// Random features per block, a multiple of 64
    #[arg(long, value_name = "N")]
    block_size: Option<usize>,
    /// Most blocks; by default as many as make 131,072 features
    #[arg(long, value_name = "N")]
    max_blocks: Option<usize>,
    /// Sweeps over the blocks after the first
    #[arg(long, value_name = "N")]
    sweeps: Option<usize>,
    /// Most seconds; what is learnt by then is the model
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    max_time: Option<f64>,
    /// Seed of everything random; equal seeds give equal models
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Rows whose features are held in memory at a time, 0: automatic; never changes the result
    #[arg(long, default_value_t = 0, value_name = "ROWS")]
    chunk: usize,
    /// Write the state of the fit to this file now and then, and continue from it if it is there
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Least seconds between two checkpoints, 0: after every block
    #[arg(
        long,
        default_value_t = 30.0,
        value_name = "SECONDS",
        requires = "checkpoint",
        allow_negative_numbers = true
    )]
    checkpoint_every: f64,
    /// Data to test the model on, with the same columns
    #[arg(long, value_name = "FILE")]
    test: Option<PathBuf>,
    /// No progress bar and no summary
    #[arg(long)]
    quiet: bool,
}

/// The losses there are.
fn loss_help() -> String {
    let names = |classification| LossSpec::names(classification).collect::<Vec<_>>().join(", ");
    format!(
        "{}; {}; chosen by the task if not given. Parameters follow: huber=1.35 and epsilon_insensitive=0.1 in the units \
         of the target, quantile=0.05,0.5,0.95",
        names(false),
        names(true)
    )
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    let policy = arguments.checkpoint_policy()?;
    check_folder_of(&arguments.model)?;
    let data = Labelled::read(&arguments.data, &arguments.target, arguments.task, arguments.loss.as_ref())?;
    let test = arguments.test.as_ref().map(|path| data.read_alike(path, &arguments.target)).transpose()?;
    let options = arguments.options(&data);
    options.check()?;
    let started = Instant::now();
    let mut machine = fit(arguments, &options, &data, policy)?;
    let elapsed = started.elapsed();
    machine.set_class_names(data.classes.clone())?;
    let mut container = machine.to_container()?;
    container.set_columns(&data.columns())?;
    container.save(&arguments.model)?;
    let score = match &test {
        Some(test) => {
            Some(test_error(&machine, test.features.rows()?, &test.targets, !test.classes.is_empty())?)
        }
        None => None,
    };
    if arguments.quiet {
        return Ok(());
    }
    print(&summary(arguments, &data, &machine, elapsed, score).to_string())
}

impl Arguments {
    fn options(&self, data: &Labelled) -> Options {
        let defaults = Options::new(data.task(), Seed(self.seed));
        Options {
            loss: self.loss.clone(),
            kernel: self.kernel.clone(),
            bandwidth: self.bandwidth,
            scaling: self.scaling,
            solver: self.solver,
            ridge: self.ridge,
            damping: self.damping,
            block_size: self.block_size,
            max_blocks: self.max_blocks,
            sweeps: self.sweeps.unwrap_or(defaults.sweeps),
            max_time: self.max_time,
            chunk: self.chunk,
            ..defaults
        }
    }

    fn checkpoint_policy(&self) -> Outcome<Option<CheckpointPolicy>> {
        let Some(path) = &self.checkpoint else { return Ok(None) };
        if matches!(self.solver, SolverSpec::Ridge | SolverSpec::Stream) {
            return Err(Failure::bad_input(
                "--checkpoint needs --solver block: the others keep no state on disk",
            ));
        }
        let every = Duration::try_from_secs_f64(self.checkpoint_every).map_err(|_| {
            let value = self.checkpoint_every;
            Error::OutOfRange { name: "checkpoint_every", value, range: "[0, inf)" }
        })?;
        let policy = CheckpointPolicy { path: path.clone(), every };
        policy.prepare()?;
        Ok(Some(policy))
    }
}

/// Fits under the eyes of the user.
fn fit(
    arguments: &Arguments,
    options: &Options,
    data: &Labelled,
    checkpoint: Option<CheckpointPolicy>,
) -> Outcome<KernelMachine> {
    let training = Training { rows: data.features.rows()?, targets: &data.targets, weights: None };
    let (interrupt, mut bar) = (Interrupt::listen(), Bar::new(arguments.quiet));
    let (mut cancelled, mut observe) = (|| interrupt.asked(), |progress: &_| bar.show(progress));
    let mut control = Control::new(&mut cancelled, &mut observe);
    control.checkpoint = checkpoint;
    let machine = KernelMachine::fit(options, &training, &mut control);
    bar.clear();
    machine.map_err(|error| match (error, &arguments.checkpoint) {
        (Error::Cancelled { blocks }, Some(path)) if path.exists() => {
            let message =
                format!("interrupted after {blocks} blocks; the fit so far is in {}", path.display());
            Failure::interrupted(message).hint("the same command continues from there")
        }
        (Error::Cancelled { blocks }, _) => {
            let failure =
                Failure::interrupted(format!("interrupted after {blocks} blocks; nothing was written"));
            failure.hint("--checkpoint FILE keeps what is done, --max-time SECONDS ends a fit with a model")
        }
        (error, _) => error.into(),
    })
}

/// What was learnt from what, how well and how fast.
fn summary(
    arguments: &Arguments,
    data: &Labelled,
    machine: &KernelMachine,
    elapsed: Duration,
    score: Option<String>,
) -> Lines {
    let (facts, mut lines) = (machine.summary(), Lines::default());
    lines.add("rows", grouped(data.features.len()));
    lines.add("columns", grouped(data.features.columns));
    let meaning = match data.classes.len() {
        0 => "a quantity".to_owned(),
        classes => format!("{classes} classes ({})", listed(data.classes.iter().map(String::as_str))),
    };
    let guessed = if arguments.task == TaskChoice::Auto { "; guessed, --task says otherwise" } else { "" };
    lines.add("target", format!("{}: {meaning}{guessed}", data.name));
    let scaling = if facts.scaling == "standard" { "standardised columns" } else { "columns as they are" };
    lines.add("bandwidth", format!("{} on {scaling}", significant(facts.bandwidth)));
    lines.add(
        "blocks",
        format!("{} of {} features, {} loss", facts.blocks, grouped(facts.block_size), facts.loss),
    );
    // The best block is where the model was cut back to.
    let best = facts.history.iter().filter(|entry| entry.held_out_loss.is_some());
    if let Some(entry) =
        best.min_by(|a, b| a.held_out_loss.unwrap_or(0.0).total_cmp(&b.held_out_loss.unwrap_or(0.0)))
    {
        let error =
            entry.held_out_error.map(|error| format!("error {:.2} %, ", 100.0 * error)).unwrap_or_default();
        lines.add("held-out", format!("{error}loss {}", significant(entry.held_out_loss.unwrap_or(0.0))));
    }
    if let Some(score) = score {
        lines.add("test", score);
    }
    lines.add("time", duration(elapsed));
    lines.add("model", arguments.model.display().to_string());
    lines
}
