//! `riesz fit`: a data file becomes a model file.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{
    check_folder_of, describe_codings, duration, grouped, listed, print, refuse_overwriting, significant,
    Lines,
};
use crate::progress::Bar;
use crate::score::test_error;
use crate::table::{straight_through, target_column, Known, Labelled, TaskChoice};
use riesz::data::files::Collect;
use riesz::data::reader::ReadOptions;
use riesz::driver::{CheckpointPolicy, Control};
use riesz::functions::{
    Bandwidth, ColumnScaling, KernelMachine, MetricForm, MetricSpec, Options, SolverSpec, Task, Training,
};
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
    /// Data: .csv, .tsv, .libsvm, .npy, .idx, also with .gz, or .parquet; several files of one format, or a folder of them
    #[arg(required = true)]
    data: Vec<PathBuf>,
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
    /// gaussian, laplacian, cauchy, matern(nu), polynomial(degree, constant), chi_squared, …; sums and products of them;
    /// gaussian if not given, or matern(1.5), matern(0.5) or laplacian where that does better
    #[arg(long)]
    kernel: Option<KernelSpec>,
    /// Learnt weights of the columns (diagonal) or of directions (full): auto, none, diagonal or full
    #[arg(long, default_value = "auto")]
    metric: MetricSpec,
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
    /// Most memory to take, such as 500M or 4G; all there is if not given. Rows that need more than a quarter of it are
    /// read from disk; a stream that keeps no rows has as many features as fit
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<usize>,
    /// Keep the rows in this folder, in single precision, and find them there the next time
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Remove the rows from the folder when the model is written
    #[arg(long, requires = "cache")]
    remove_cache: bool,
    /// Data to test the model on, with the same columns
    #[arg(long, value_name = "FILE")]
    test: Option<PathBuf>,
    /// No progress bar and no summary
    #[arg(long)]
    quiet: bool,
}

/// The losses there are.
pub(crate) fn loss_help() -> String {
    let names = |classification| LossSpec::names(classification).collect::<Vec<_>>().join(", ");
    format!(
        "{}; {}; chosen by the task if not given. Parameters follow: huber=1.35 and epsilon_insensitive=0.1 in the units \
         of the target, quantile=0.05,0.5,0.95",
        names(false),
        names(true)
    )
}

/// A number of bytes: digits, and K, M, G or T for powers of 1024.
fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let power = digits.chars().last().and_then(|unit| "KMGT".find(unit.to_ascii_uppercase()));
    let number = if power.is_some() { &digits[..digits.len() - 1] } else { digits };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => {
            Ok((number * 1024_f64.powi(power.map_or(0, |power| power as i32 + 1))) as usize)
        }
        _ => Err("expected a number of bytes such as 800M or 4G".to_owned()),
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    let policy = arguments.checkpoint_policy()?;
    check_folder_of(&arguments.model)?;
    refuse_overwriting(&arguments.model, arguments.data.iter().chain(&arguments.test))?;
    let started = Instant::now();
    let (known, mut machine) = learn(arguments, policy)?;
    let elapsed = started.elapsed();
    machine.set_class_names(known.classes.clone())?;
    let mut container = machine.to_container()?;
    container.set_columns(&known.columns())?;
    container.save(&arguments.model)?;
    if let (Some(folder), true) = (&arguments.cache, arguments.remove_cache) {
        let mut collect = arguments.collect();
        collect.read.codings = known.columns().codings;
        let path = collect.cache_path(&arguments.data, folder)?;
        std::fs::remove_file(&path).map_err(|error| Failure::io(&path, error))?;
    }
    let score = match &arguments.test {
        Some(path) => {
            let test = known.read_alike(path, &arguments.target, arguments.memory.map(|bytes| bytes / 4))?;
            Some(test_error(&machine, test.features.rows()?, &test.targets)?)
        }
        None => None,
    };
    if arguments.quiet {
        return Ok(());
    }
    print(&summary(arguments, &known, &machine, elapsed, score).to_string())
}

/// Fits under the eyes of the user.
fn learn(arguments: &Arguments, checkpoint: Option<CheckpointPolicy>) -> Outcome<(Known, KernelMachine)> {
    let (interrupt, mut bar) = (Interrupt::listen(), Bar::new(arguments.quiet));
    let (mut cancelled, mut observe) = (|| interrupt.asked(), |progress: &_| bar.show(progress));
    let mut control = Control::new(&mut cancelled, &mut observe);
    control.checkpoint = checkpoint;
    let learnt = fit(arguments, &mut control);
    bar.clear();
    learnt.map_err(|failure| match &arguments.checkpoint {
        _ if !failure.is_interruption() => failure,
        Some(path) if path.exists() => {
            let message = format!("{}; the fit so far is in {}", failure.interruption(), path.display());
            Failure::interrupted(message).hint("the same command continues from there")
        }
        _ => Failure::interrupted(failure.interruption() + "; nothing was written")
            .hint("--checkpoint FILE keeps what is done, --max-time SECONDS ends a fit with a model"),
    })
}

/// Reads and fits.
fn fit(arguments: &Arguments, control: &mut Control<'_>) -> Outcome<(Known, KernelMachine)> {
    let (collect, meant) = (arguments.collect(), (arguments.task, arguments.loss.as_ref()));
    let checked = |task| {
        let options = arguments.options(task);
        options.check()?;
        Ok(options)
    };
    if arguments.goes_straight_through() {
        return straight_through(&arguments.data, &collect, meant, (checked, arguments.memory), control);
    }
    let cancelled = &mut control.cancelled;
    let mut told = |_: usize| if cancelled() { Err(Error::Cancelled { blocks: 0 }) } else { Ok(()) };
    let Labelled { known, features, targets } = Labelled::read(&arguments.data, &collect, meant, &mut told)?;
    let training = Training { rows: features.rows()?, targets: &targets, weights: None };
    let mut options = checked(known.task())?;
    if arguments.memory.is_some() {
        options = options.by_blocks(known.rows);
    }
    arguments.check_memory(&options, &known)?;
    let machine = KernelMachine::fit(&options, &training, control)?;
    Ok((known, machine))
}

impl Arguments {
    /// How the rows are read and kept.
    fn collect(&self) -> Collect {
        let read = ReadOptions { target: target_column(&self.target), ..ReadOptions::default() };
        Collect {
            read,
            memory: self.memory.map(|bytes| bytes / 4),
            folder: self.cache.clone(),
            categories: true,
        }
    }

    /// Refuses a fit that needs more than the memory it may take.
    fn check_memory(&self, options: &Options, known: &Known) -> Outcome<()> {
        let needed = KernelMachine::memory(options, known.rows, known.width);
        match self.memory {
            Some(limit) if needed > limit as f64 => {
                let (rows, needed) = (grouped(known.rows), (needed / 1024_f64.powi(2)).ceil());
                let message = format!("{rows} rows need about {needed} MiB beside the rows themselves");
                Err(Failure::bad_input(message)
                    .hint("raise --memory, lower --block-size, or take --solver stream, which keeps nothing per row"))
            }
            _ => Ok(()),
        }
    }

    /// Whether rows are learnt from as they are read: a stream from several files, or within a limit.
    fn goes_straight_through(&self) -> bool {
        let many = self.data.len() > 1 || self.data[0].is_dir() || self.memory.is_some();
        self.solver == SolverSpec::Stream && self.cache.is_none() && many
    }

    fn options(&self, task: Task) -> Options {
        let defaults = Options::new(task, Seed(self.seed));
        Options {
            loss: self.loss.clone(),
            kernel: self.kernel.clone(),
            metric: self.metric,
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

/// A learnt metric in words.
pub(crate) fn metric_name(form: MetricForm) -> &'static str {
    match form {
        MetricForm::Diagonal => "diagonal metric",
        MetricForm::DiagonalRoot => "root of the diagonal metric",
        MetricForm::Full => "full metric",
        MetricForm::FullRoot => "root of the full metric",
        MetricForm::Unit => "leading directions",
    }
}

/// What was learnt from what, how well and how fast.
fn summary(
    arguments: &Arguments,
    known: &Known,
    machine: &KernelMachine,
    elapsed: Duration,
    score: Option<String>,
) -> Lines {
    let (facts, mut lines) = (machine.summary(), Lines::default());
    let place = known.place.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
    lines.add("rows", grouped(known.rows) + &place);
    let columns = known.columns();
    lines.add("columns", grouped(columns.count(known.width)));
    describe_codings(&columns, &mut lines);
    let meaning = match known.classes.len() {
        0 => "a quantity".to_owned(),
        classes => format!("{classes} classes ({})", listed(known.classes.iter().map(String::as_str))),
    };
    let guessed = if arguments.task == TaskChoice::Auto { "; guessed, --task says otherwise" } else { "" };
    lines.add("target", format!("{}: {meaning}{guessed}", known.name));
    let scaling = if facts.scaling == "standard" { "standardised columns" } else { "columns as they are" };
    lines.add("kernel", facts.kernel.to_string());
    let metric = facts.metric.map_or_else(String::new, |form| format!(", {}", metric_name(form)));
    lines.add("bandwidth", format!("{} on {scaling}{metric}", significant(facts.bandwidth)));
    match facts.exact {
        true => lines.add("atoms", format!("{}, {} loss", grouped(facts.features), facts.loss)),
        false => lines.add(
            "blocks",
            format!("{} of {} features, {} loss", facts.blocks, grouped(facts.block_size), facts.loss),
        ),
    }
    // The best block is where the model was cut back to.
    let best = facts.history.iter().filter(|entry| entry.held_out_loss.is_some());
    if let Some(entry) =
        best.min_by(|a, b| a.held_out_loss.unwrap_or(0.0).total_cmp(&b.held_out_loss.unwrap_or(0.0)))
    {
        let error =
            entry.held_out_error.map(|error| format!("error {:.2} %, ", 100.0 * error)).unwrap_or_default();
        let name = if facts.exact { "left out" } else { "held-out" };
        lines.add(name, format!("{error}loss {}", significant(entry.held_out_loss.unwrap_or(0.0))));
    }
    if let Some(score) = score {
        lines.add("test", score);
    }
    lines.add("time", duration(elapsed));
    lines.add("model", arguments.model.display().to_string());
    lines
}
