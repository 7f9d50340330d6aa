//! `riesz predict`: one line of answers per row.

use crate::failure::{Failure, Outcome};
use crate::output::{check_folder_of, print, printable, write};
use crate::score::test_error;
use crate::table::{positions, target_column};
use riesz::data::reader::{read_with, Dataset, RawTarget, ReadOptions, TargetColumn};
use riesz::data::Rows;
use riesz::functions::{KernelMachine, Task};
use riesz::loss::LossSpec;
use riesz::model::{Columns, Container, Stored};
use riesz::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Arguments of `riesz predict`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A model written by riesz fit
    model: PathBuf,
    /// Data with the columns the model was fitted on: by name and in any order, or, in a file or for a model without
    /// names, by number and in the same order
    data: PathBuf,
    /// Where to write the predictions, as CSV and all or nothing; to the terminal if not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Add a column with the probability of each class
    #[arg(long)]
    probabilities: bool,
    /// A column that holds the answer: it is left out, and the error against it is printed. Without this, a column of the
    /// name that was learnt is left out unread
    #[arg(long, value_name = "COLUMN")]
    target: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    if let Some(out) = &arguments.out {
        check_folder_of(out)?;
    }
    let container = Container::load(&arguments.model)?;
    let columns = container.columns()?;
    let machine = KernelMachine::from_container(container)?;
    columns.check(machine.summary().columns)?;
    let Dataset { features, target, unread } = read(arguments, &machine, columns)?;
    if let Some(name) = unread {
        eprintln!("column {name:?} is what the model predicts: left out; --target {name:?} compares with it");
    }
    let rows = features.rows()?;
    let text = to_csv(&machine, rows, arguments.probabilities)?;
    match &arguments.out {
        Some(path) => write(path, &text)?,
        None => print(&text)?,
    }
    if let Some(target) = target {
        eprintln!(
            "error against {}: {}",
            printable(target.name()),
            score(&machine, rows, &target, &arguments.data)?
        );
    }
    Ok(())
}

/// Reads rows of the columns the model knows, in its order.
fn read(arguments: &Arguments, machine: &KernelMachine, columns: Columns) -> Outcome<Dataset> {
    let target = arguments.target.as_deref().map_or(TargetColumn::None, target_column);
    let options = ReadOptions {
        unread: columns.target.filter(|_| target == TargetColumn::None),
        target,
        columns: Some(machine.summary().columns),
        names: columns.features.into_iter().map(|column| column.name).collect(),
        ..ReadOptions::default()
    };
    let answer = "if a column is the answer, leave it out with --target last (or its name)";
    read_with(&arguments.data, &options).map_err(|error| match error {
        Error::Columns { expected, found } if found == expected + 1 && arguments.target.is_none() => {
            let path = arguments.data.display();
            let message =
                format!("{path}: {found} columns, one more than the {expected} the model was fitted on");
            Failure::bad_input(message).hint(answer)
        }
        Error::Parse { .. } if arguments.target.is_none() => Failure::from(error).hint(answer),
        error => error.into(),
    })
}

/// A header and one line per row.
fn to_csv(machine: &KernelMachine, rows: Rows<'_>, probabilities: bool) -> Outcome<String> {
    match machine.summary().task {
        Task::Regression(_) if probabilities => Err(Failure::bad_input(
            "--probabilities needs a classification model; this one predicts quantities",
        )),
        Task::Regression(_) => Ok(numbers(&machine.predict(rows)?, &columns(machine))),
        Task::Classification(classes) => classes_to_csv(machine, rows, classes, probabilities),
    }
}

/// Names of the columns of a regression: one, several by number, or quantiles by level.
fn columns(machine: &KernelMachine) -> Vec<String> {
    match (machine.summary().loss, machine.outputs()) {
        (LossSpec::Quantile { levels }, _) => {
            levels.iter().map(|level| format!("quantile_{level}")).collect()
        }
        (_, 1) => vec!["prediction".to_owned()],
        (_, outputs) => (0..outputs).map(|k| format!("prediction_{k}")).collect(),
    }
}

fn numbers(values: &[f32], columns: &[String]) -> String {
    let mut text = columns.join(",") + "\n";
    for row in values.chunks_exact(columns.len().max(1)) {
        for (k, value) in row.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}{value}", if k > 0 { "," } else { "" });
        }
        text.push('\n');
    }
    text
}

fn classes_to_csv(
    machine: &KernelMachine,
    rows: Rows<'_>,
    classes: usize,
    probabilities: bool,
) -> Outcome<String> {
    let names = class_names(machine, classes);
    let cells: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let predicted = machine.classes_of(rows)?;
    let shares = if probabilities { machine.probabilities(rows)? } else { Vec::new() };
    let mut text = "prediction".to_owned();
    for name in names.iter().filter(|_| probabilities) {
        text.push(',');
        text.push_str(&quoted(&format!("p_{name}")));
    }
    text.push('\n');
    for (row, &class) in predicted.iter().enumerate() {
        text.push_str(cells.get(class as usize).map_or("", String::as_str));
        for p in shares.get(row * classes..(row + 1) * classes).unwrap_or_default() {
            // Writing to a string cannot fail.
            let _ = write!(text, ",{p}");
        }
        text.push('\n');
    }
    Ok(text)
}

/// The names of the classes, or their numbers where the model has no names.
fn class_names(machine: &KernelMachine, classes: usize) -> Vec<String> {
    match machine.class_names() {
        names if names.len() == classes => names.to_vec(),
        _ => (0..classes).map(|class| class.to_string()).collect(),
    }
}

fn score(machine: &KernelMachine, rows: Rows<'_>, target: &RawTarget, path: &Path) -> Outcome<String> {
    match machine.summary().task {
        Task::Classification(classes) => {
            let targets = positions(target, &class_names(machine, classes), path)?;
            test_error(machine, rows, &targets, true)
        }
        Task::Regression(_) => {
            let targets: Vec<f32> = target.numbers()?.iter().map(|&y| y as f32).collect();
            test_error(machine, rows, &targets, false)
        }
    }
}

/// A cell of a CSV file.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r', ';', '\t']) || cell.trim() != cell {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_would_break_a_line_are_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(quoted(" padded"), "\" padded\"");
    }

    #[test]
    fn several_outputs_are_several_columns() {
        assert_eq!(numbers(&[1.0, 2.5], &["a".into()]), "a\n1\n2.5\n");
        assert_eq!(numbers(&[1.0, 2.5], &["a".into(), "b".into()]), "a,b\n1,2.5\n");
    }
}
