//! The `riesz` command as a library: [`run`] takes the arguments and returns the exit code, so that the binary and
//! the Python wheel are the same program.
//!
//! One file per command; [`plot`] draws the pictures of the demonstration and of the experiments.

mod demo;
mod evaluate_policy;
mod experiment;
mod failure;
mod fit;
mod info;
mod interrupt;
mod model;
mod output;
pub mod plot;
mod predict;
mod progress;
mod score;
mod stream;
mod table;

use clap::{Parser, Subcommand};
use failure::{Failure, Outcome};
use rayon::ThreadPoolBuilder;

/// Learn functions from data by stochastic optimisation in function space.
#[derive(Debug, Parser)]
#[command(name = "riesz", version, max_term_width = 100)]
struct Cli {
    /// Threads to use; all cores if not given. Never changes a result.
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fit a model to a data file.
    Fit(Box<fit::Arguments>),
    /// Predict the rows of a data file.
    Predict(predict::Arguments),
    /// Predict rows of the standard input, learning from each in turn.
    Stream(Box<stream::Arguments>),
    /// Find the value of a policy from logged transitions.
    EvaluatePolicy(evaluate_policy::Arguments),
    /// Show what a model file holds.
    Info(info::Arguments),
    /// Learn handwritten digits and a noisy function, and draw what came of it.
    Demo(demo::Arguments),
    /// Run an experiment of the texts.
    Experiment(experiment::Arguments),
}

/// Runs the command; `arguments[0]` is the name of the program. Returns the exit code: 0, 1 (failed), 2 (bad input
/// or usage) or 130 (interrupted).
pub fn run(arguments: Vec<String>) -> i32 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing to be done if the terminal is gone.
            let _ = error.print();
            return error.exit_code();
        }
    };
    match execute(&cli) {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    }
}

fn execute(cli: &Cli) -> Outcome<()> {
    // Zero is all cores. The pool ends with the command: within Python, another process may be forked afterwards.
    let threads = cli.threads.map_or(0, usize::from);
    let name = |index| format!("riesz-{index}");
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build();
    let pool = pool.map_err(|error| Failure::failed(format!("the threads could not be started: {error}")))?;
    pool.install(|| match &cli.command {
        Command::Fit(arguments) => fit::run(arguments),
        Command::Predict(arguments) => predict::run(arguments),
        Command::Stream(arguments) => stream::run(arguments),
        Command::EvaluatePolicy(arguments) => evaluate_policy::run(arguments),
        Command::Info(arguments) => info::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Experiment(arguments) => experiment::run(arguments),
    })
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
