//! `riesz evaluate-policy`: the value of a policy from logged transitions.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{
    check_folder_of, grouped, listed, print, printable, refuse_overwriting, significant, write, Lines,
};
use crate::progress::Bar;
use riesz::data::reader::{read, TargetColumn};
use riesz::data::Rows;
use riesz::driver::Control;
use riesz::dynamics::policy_evaluation::{
    EvaluationOptions, Functions, Log, Method, PolicyEvaluation, Successors,
};
use riesz::functions::Bandwidth;
use riesz::kernel::KernelSpec;
use riesz::model::Stored;
use riesz::random::Seed;
use riesz::Error;
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `riesz evaluate-policy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Transitions in the order of time, a row each: columns of the state, the same after `next_` (such as x and next_x), `reward`,
    /// `terminal` (0 or 1; or `terminated`) and, where episodes are cut short, `truncation` (or `truncated`); `weight`, π(a|s)/π_b(a|s), where another policy was logged
    transitions: PathBuf,
    /// γ
    #[arg(long, default_value_t = 0.99)]
    discount: f64,
    /// How: dual_embedding, embedding_sgd, lstd, td, gtd2, residual_gradient, kernel_mdp, fitted_q, importance_sampling,
    /// per_decision, weighted_per_decision or doubly_robust
    #[arg(long, default_value = "dual_embedding")]
    method: String,
    /// What V is a combination of: atoms, random, table (states 0, 1, 2, …) or linear; by steps also growing or network
    #[arg(long, default_value = "atoms")]
    features: String,
    /// Number of atoms or random features [default: 512 or fewer]
    #[arg(long, value_name = "N")]
    n_features: Option<usize>,
    /// Kernel family
    #[arg(long, default_value = "gaussian")]
    kernel: KernelSpec,
    /// Bandwidth: auto, median, scale or a number
    #[arg(long, default_value = "auto")]
    bandwidth: Bandwidth,
    /// Passes over the transitions, of methods that take steps
    #[arg(long, default_value_t = 1, value_name = "N")]
    passes: usize,
    /// Share of logs whose interval holds the value
    #[arg(long, default_value_t = 0.9)]
    confidence: f64,
    /// Where to write V and its standard error at every row, as CSV
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where to write the evaluation, to be used from Python
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Seed of features and bootstrap samples
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// No progress
    #[arg(long)]
    quiet: bool,
}

/// The columns of a file by their part in a transition.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    states: Vec<f32>,
    next_states: Vec<f32>,
    rewards: Vec<f32>,
    terminals: Vec<bool>,
    truncations: Option<Vec<bool>>,
    weights: Option<Vec<f32>>,
    unused: Vec<String>,
}

const NEXT: &str = "next_";
/// Names of the column that says where the process ended, and of the one that says where an episode was cut short.
const ENDS: [&str; 2] = ["terminal", "terminated"];
const CUTS: [&str; 2] = ["truncation", "truncated"];

impl Columns {
    fn read(arguments: &Arguments) -> Outcome<Self> {
        let table = read(&arguments.transitions, TargetColumn::None)?.features;
        let (path, d) = (arguments.transitions.display(), table.columns);
        if table.names.is_empty() {
            let message = format!("{path}: the columns have no names");
            return Err(Failure::bad_input(message)
                .hint("the first line says which column is what: x,reward,next_x,terminal"));
        }
        let (names, values) = (table.names.clone(), table.into_dense()?);
        let place = |name: &str| names.iter().position(|other| other == name);
        let column = |k: usize| -> Vec<f32> { values.iter().skip(k).step_by(d).copied().collect() };
        let needed = |all: &[&str]| {
            let missing = || Failure::bad_input(format!("{path}: there is no column {:?}", all[0]));
            all.iter().find_map(|name| place(name)).ok_or_else(missing)
        };
        let flags = |k: usize| -> Outcome<Vec<bool>> {
            let name = &names[k];
            let wrong = |v: &f32| *v != 0.0 && *v != 1.0;
            match column(k).iter().position(wrong) {
                None => Ok(column(k).iter().map(|&v| v == 1.0).collect()),
                Some(row) => Err(Failure::bad_input(format!(
                    "{path}: column {name:?} has {} in row {row}; it is 0 or 1",
                    column(k)[row]
                ))),
            }
        };
        let pairs: Vec<(usize, usize)> = names
            .iter()
            .enumerate()
            .filter_map(|(k, name)| Some((place(name.strip_prefix(NEXT)?)?, k)))
            .collect();
        if pairs.is_empty() {
            let message = format!("{path}: no column is there twice, as x and as {NEXT}x");
            return Err(Failure::bad_input(message)
                .hint("a transition leads from the columns of a state to those after next_"));
        }
        let both = |of: fn(&(usize, usize)) -> usize| -> Vec<f32> {
            values.chunks_exact(d).flat_map(|row| pairs.iter().map(move |pair| row[of(pair)])).collect()
        };
        let (reward, terminal) = (needed(&["reward"])?, needed(&ENDS)?);
        let truncation = CUTS.iter().find_map(|name| place(name));
        let weight = place("weight");
        let used = |k: usize| {
            [Some(reward), Some(terminal), truncation, weight].contains(&Some(k))
                || pairs.iter().any(|pair| pair.0 == k || pair.1 == k)
        };
        Ok(Self {
            names: pairs.iter().map(|pair| names[pair.0].clone()).collect(),
            states: both(|pair| pair.0),
            next_states: both(|pair| pair.1),
            rewards: column(reward),
            terminals: flags(terminal)?,
            truncations: truncation.map(flags).transpose()?,
            weights: weight.map(column),
            unused: (0..d).filter(|&k| !used(k)).map(|k| names[k].clone()).collect(),
        })
    }

    fn log(&self) -> Outcome<Log<'_>> {
        let d = self.names.len();
        Ok(Log {
            states: Rows::single(&self.states, d)?,
            actions: None,
            rewards: &self.rewards,
            next_states: Rows::single(&self.next_states, d)?,
            terminals: &self.terminals,
            truncations: self.truncations.as_deref(),
            discounts: None,
            ratios: self.weights.as_deref(),
            successors: Successors::Unknown,
        })
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    for path in [&arguments.out, &arguments.model].into_iter().flatten() {
        check_folder_of(path)?;
        refuse_overwriting(path, [&arguments.transitions])?;
    }
    let options = EvaluationOptions {
        method: arguments.method.parse()?,
        features: arguments.features.parse::<Functions>()?,
        n_features: arguments.n_features,
        kernel: arguments.kernel.clone(),
        bandwidth: arguments.bandwidth,
        passes: arguments.passes,
        ..EvaluationOptions::new(arguments.discount, Seed(arguments.seed))
    };
    let columns = Columns::read(arguments)?;
    if !columns.unused.is_empty() {
        let names: Vec<String> = columns.unused.iter().map(|name| printable(name)).collect();
        eprintln!("not used: {}", listed(names.iter().map(String::as_str)));
    }
    let log = columns.log()?;
    let (interrupt, mut bar) = (Interrupt::listen(), Bar::new(arguments.quiet));
    let (mut cancelled, mut observe) = (|| interrupt.asked(), |progress: &_| bar.show(progress));
    let evaluation = PolicyEvaluation::fit(&options, &log, &mut Control::new(&mut cancelled, &mut observe));
    bar.clear();
    let evaluation = evaluation.map_err(|error| match error {
        Error::Cancelled { blocks } => Failure::interrupted(format!("interrupted after {blocks} steps")),
        error => error.into(),
    })?;
    print(&describe(arguments, &columns, &evaluation)?.to_string())?;
    if let Some(path) = &arguments.out {
        write(path, &values(&columns, &evaluation)?)?;
    }
    if let Some(path) = &arguments.model {
        evaluation.save(path)?;
    }
    for (_, remark) in evaluation.summary().remarks {
        eprintln!("warning: {remark}");
    }
    Ok(())
}

/// The states that episodes begin with; all where no row says that one ends.
fn starts(columns: &Columns, log: &Log<'_>) -> Vec<f32> {
    let d = columns.names.len();
    log.episodes().iter().flat_map(|episode| &columns.states[episode.start * d..][..d]).copied().collect()
}

fn describe(arguments: &Arguments, columns: &Columns, evaluation: &PolicyEvaluation) -> Outcome<Lines> {
    let (facts, mut lines, log) = (evaluation.summary(), Lines::default(), columns.log()?);
    let starts = starts(columns, &log);
    let initial = Some((Rows::single(&starts, columns.names.len())?, Successors::Unknown));
    let found = evaluation.estimate(initial, arguments.confidence)?;
    lines.add("method", arguments.method.as_str());
    lines.add("states", listed(columns.names.iter().map(String::as_str)));
    lines.add(
        "transitions",
        format!("{} in {} episodes", grouped(facts.transitions), grouped(facts.episodes)),
    );
    if let (Some(features), Some(bandwidth)) = (facts.features, facts.bandwidth) {
        lines.add(
            "features",
            format!("{} {}, bandwidth {}", grouped(features), arguments.features, significant(bandwidth)),
        );
    }
    if let Some(ridges) = facts.ridges.filter(|_| !matches!(facts.method, Method::Td | Method::Gtd2)) {
        lines.add("ridges", format!("{:e}, {:e}", ridges.primal, ridges.dual));
    }
    let interval = format!("{} to {}", significant(found.low), significant(found.high));
    let ends = |flags: &[bool]| flags.contains(&true);
    let has_episodes = ends(log.terminals) || log.truncations.is_some_and(ends);
    lines.add(
        "mean of",
        if has_episodes {
            "the states that episodes begin with"
        } else {
            "all logged states: no row ends an episode"
        },
    );
    lines.add(
        "value",
        format!("{} ({interval}, {:.0} %)", significant(found.value), 100.0 * found.confidence),
    );
    Ok(lines)
}

/// V and its standard error at every row.
fn values(columns: &Columns, evaluation: &PolicyEvaluation) -> Outcome<String> {
    let states = Rows::single(&columns.states, columns.names.len())?;
    let values = evaluation.value(states, Successors::Unknown)?;
    let errors = evaluation.standard_errors(states, Successors::Unknown)?;
    let mut text = "value,standard_error\n".to_owned();
    for (value, error) in values.iter().zip(errors) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{value},{error}");
    }
    Ok(text)
}
