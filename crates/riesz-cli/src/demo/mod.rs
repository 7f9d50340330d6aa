//! `riesz demo`: something to see within seconds.

mod digits;
mod function;

use crate::failure::Outcome;
use crate::output::{duration, make_folder, print};
use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::functions::{KernelMachine, Options, Task, Training};
use riesz::random::Seed;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `riesz demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the pictures
    #[arg(long, default_value = "demo", value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    let started = Instant::now();
    make_folder(&arguments.out)?;
    digits::run(&arguments.out)?;
    function::run(&arguments.out)?;
    print(&format!("\npictures in {} after {}\n", arguments.out.display(), duration(started.elapsed())))
}

/// A model with all defaults.
fn fit(task: Task, rows: Rows<'_>, targets: &[f32]) -> Outcome<KernelMachine> {
    let training = Training { rows, targets, weights: None };
    Ok(quietly(|control| KernelMachine::fit(&Options::new(task, Seed(0)), &training, control))?)
}
