//! `riesz info`: what a model file holds.

use crate::failure::{Failure, Outcome};
use crate::fit::metric_name;
use crate::model::Model;
use crate::output::{describe_codings, grouped, listed, print, significant, Lines};
use riesz::functions::{KernelMachine, OnlineMachine, Task};
use riesz::model::Columns;
use riesz::Result;
use serde_json::{json, Value};
use std::path::PathBuf;

/// Columns that are named as the most important.
const LEADING: usize = 5;

/// Arguments of `riesz info`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A model written by riesz fit, riesz stream or Python
    model: PathBuf,
    /// Everything, as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    let (model, columns) = Model::load(&arguments.model)?;
    if arguments.json {
        return print(&(as_json(&model, &columns)? + "\n"));
    }
    let mut lines = describe(&model, &columns);
    match &model {
        Model::Fitted(machine) => describe_fit(machine, &mut lines),
        Model::Online(machine) => describe_stream(machine, &mut lines)?,
    }
    print(&lines.to_string())
}

fn as_json(model: &Model, columns: &Columns) -> Outcome<String> {
    let mut value = match model {
        Model::Fitted(machine) => serde_json::to_value(machine.summary()).map_err(unwritable)?,
        Model::Online(machine) => stream_as_json(machine)?,
    };
    value["class_names"] = model.names().into();
    value["column_names"] = columns.names().collect();
    value["target"] = columns.target.clone().into();
    serde_json::to_string_pretty(&value).map_err(unwritable)
}

fn stream_as_json(machine: &OnlineMachine) -> Result<Value> {
    let (options, cost) = (machine.options(), machine.progressive());
    let constraints = machine.constraints()?.into_iter().zip(&options.constraints).map(|(state, spec)| {
        json!({
            "constraint": spec,
            "multiplier": state.multiplier,
            "auxiliary": state.auxiliary,
            "value": state.value,
        })
    });
    Ok(json!({
        "task": options.task,
        "loss": machine.loss(),
        "kernel": options.kernel,
        "bandwidth": machine.bandwidth(),
        "memory": options.memory,
        "kept": machine.atoms(),
        "columns": machine.columns(),
        "rows": machine.steps(),
        "progressive_loss": cost.loss / cost.weight,
        "shares": machine.shares(),
        "constraints": constraints.collect::<Vec<_>>(),
        "seed": options.seed.0,
    }))
}

/// A number JSON cannot hold: only a damaged model has one.
fn unwritable(error: serde_json::Error) -> Failure {
    Failure::bad_input(format!("the model cannot be written as JSON: {error}"))
}

/// What all models have.
fn describe(model: &Model, columns: &Columns) -> Lines {
    let mut lines = Lines::default();
    let task = match model.task() {
        Task::Regression(1) => "regression".to_owned(),
        Task::Regression(outputs) => format!("regression, {outputs} outputs"),
        Task::Classification(classes) if model.names().is_empty() => {
            format!("classification, {classes} classes")
        }
        Task::Classification(classes) => {
            format!(
                "classification, {classes} classes ({})",
                listed(model.names().iter().map(String::as_str))
            )
        }
    };
    lines.add("task", task);
    let names =
        if columns.names().len() > 0 { format!(" ({})", listed(columns.names())) } else { String::new() };
    lines.add("columns", grouped(columns.count(model.columns())) + &names);
    describe_codings(columns, &mut lines);
    if let Some(target) = &columns.target {
        lines.add("target", target.as_str());
    }
    lines.add("loss", model.loss().to_string());
    let (kernel, bandwidth) = model.kernel();
    lines.add("kernel", format!("{kernel}, bandwidth {}", significant(bandwidth)));
    lines
}

fn describe_fit(machine: &KernelMachine, lines: &mut Lines) {
    let facts = machine.summary();
    lines.add("scaling", facts.scaling);
    if let Some(form) = facts.metric {
        lines.add("metric", metric_name(form));
    }
    if let Some(importances) = &facts.importances {
        lines.add("most important", listed(leading(importances).iter().map(String::as_str)));
    }
    if facts.exact {
        lines.add("atoms", grouped(facts.features));
    } else {
        let features = format!(
            "{} in {} blocks of {}",
            grouped(facts.features),
            facts.blocks,
            grouped(facts.block_size)
        );
        lines.add("features", format!("{features}, {:?}", facts.projection).to_lowercase());
    }
    if let Some(last) = facts.history.last() {
        lines.add("loss reached", significant(last.loss));
    }
    if let Some(error) = facts.history.iter().filter_map(|entry| entry.held_out_error).reduce(f64::min) {
        lines.add("held-out error", format!("{:.2} % at best", 100.0 * error));
    }
    lines.add("seed", facts.seed.to_string());
    lines.add("fitted on", format!("{:?}", facts.path).to_lowercase());
}

/// Columns that count most in the metric, with their shares.
fn leading(importances: &[f32]) -> Vec<String> {
    let mut order: Vec<usize> = (0..importances.len()).collect();
    order.sort_by(|&a, &b| importances[b].total_cmp(&importances[a]));
    let shown = |&i: &usize| format!("column {i}: {:.0} %", 100.0 * importances[i]);
    order.iter().take(LEADING).map(shown).collect()
}

fn describe_stream(machine: &OnlineMachine, lines: &mut Lines) -> Result<()> {
    let (options, cost) = (machine.options(), machine.progressive());
    lines.add(if machine.dictionary().is_some() { "atoms" } else { "features" }, grouped(machine.atoms()));
    lines.add("rows", grouped(machine.steps() as usize));
    lines.add("mean loss", format!("{} before learning", significant(cost.loss / cost.weight)));
    for (state, spec) in machine.constraints()?.iter().zip(&options.constraints) {
        let (mean, multiplier) = (significant(state.value), significant(state.multiplier));
        lines.add("constraint", format!("{spec}: mean {mean}, multiplier {multiplier}"));
    }
    lines.add("seed", options.seed.0.to_string());
    Ok(())
}
