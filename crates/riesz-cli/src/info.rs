//! `riesz info`: what a model file holds.

use crate::failure::{Failure, Outcome};
use crate::output::{grouped, listed, print, significant, Lines};
use riesz::functions::{KernelMachine, Task};
use riesz::model::{Columns, Container, Stored};
use std::path::PathBuf;

/// Arguments of `riesz info`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A model written by riesz fit
    model: PathBuf,
    /// Everything, as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    let container = Container::load(&arguments.model)?;
    let columns = container.columns()?;
    let machine = KernelMachine::from_container(container)?;
    columns.check(machine.summary().columns)?;
    if arguments.json {
        return print(&(json(&machine, &columns)? + "\n"));
    }
    print(&describe(&machine, &columns).to_string())
}

fn json(machine: &KernelMachine, columns: &Columns) -> Outcome<String> {
    let mut value = serde_json::to_value(machine.summary()).map_err(unwritable)?;
    value["class_names"] = machine.class_names().into();
    value["column_names"] = columns.names().collect();
    value["target"] = columns.target.clone().into();
    serde_json::to_string_pretty(&value).map_err(unwritable)
}

/// A number JSON cannot hold: only a damaged model has one.
fn unwritable(error: serde_json::Error) -> Failure {
    Failure::bad_input(format!("the model cannot be written as JSON: {error}"))
}

fn describe(machine: &KernelMachine, columns: &Columns) -> Lines {
    let (facts, mut lines) = (machine.summary(), Lines::default());
    let task = match facts.task {
        Task::Regression(1) => "regression".to_owned(),
        Task::Regression(outputs) => format!("regression, {outputs} outputs"),
        Task::Classification(classes) if machine.class_names().is_empty() => {
            format!("classification, {classes} classes")
        }
        Task::Classification(classes) => {
            format!(
                "classification, {classes} classes ({})",
                listed(machine.class_names().iter().map(String::as_str))
            )
        }
    };
    lines.add("task", task);
    let names =
        if columns.names().len() > 0 { format!(" ({})", listed(columns.names())) } else { String::new() };
    lines.add("columns", grouped(facts.columns) + &names);
    if let Some(target) = &columns.target {
        lines.add("target", target.as_str());
    }
    lines.add("loss", facts.loss.to_string());
    lines.add("kernel", format!("{}, bandwidth {}", facts.kernel, significant(facts.bandwidth)));
    lines.add("scaling", facts.scaling);
    let features =
        format!("{} in {} blocks of {}", grouped(facts.features), facts.blocks, grouped(facts.block_size));
    lines.add("features", format!("{features}, {:?}", facts.projection).to_lowercase());
    if let Some(last) = facts.history.last() {
        lines.add("loss reached", significant(last.loss));
    }
    if let Some(error) = facts.history.iter().filter_map(|entry| entry.held_out_error).reduce(f64::min) {
        lines.add("held-out error", format!("{:.2} % at best", 100.0 * error));
    }
    lines.add("seed", facts.seed.to_string());
    lines.add("fitted on", format!("{:?}", facts.path).to_lowercase());
    lines
}
