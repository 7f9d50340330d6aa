//! `riesz predict`: one line of answers per row.

use crate::failure::{Failure, Outcome};
use crate::model::Model;
use crate::output::{check_folder_of, print, printable, refuse_overwriting, write_parts};
use crate::score::{error_of, Answers};
use crate::table::{positions, target_column};
use riesz::data::files::{list, Parts};
use riesz::data::reader::{Dataset, RawTarget, ReadOptions, TargetColumn};
use riesz::data::Rows;
use riesz::functions::Task;
use riesz::loss::LossSpec;
use riesz::model::Columns;
use riesz::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Arguments of `riesz predict`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A model written by riesz fit, riesz stream or Python
    model: PathBuf,
    /// Data with the columns the model was fitted on: by name and in any order, or, in a file or for a model without
    /// names, by number and in the same order; several files of one format, or a folder of them
    #[arg(required = true)]
    data: Vec<PathBuf>,
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
        refuse_overwriting(out, arguments.data.iter().chain([&arguments.model]))?;
    }
    let (model, columns) = Model::load(&arguments.model)?;
    let mut scores = Scores::default();
    let work =
        |put: &mut dyn FnMut(&str) -> Outcome<()>| predict(arguments, &model, columns, put, &mut scores);
    match &arguments.out {
        Some(path) => write_parts(path, work)?,
        None => work(&mut print)?,
    }
    if let Some(target) = &scores.target {
        eprintln!("error against {}: {}", printable(target), scores.text(&model));
    }
    Ok(())
}

/// Predicts part by part, and hands over what is to be written.
fn predict(
    arguments: &Arguments,
    model: &Model,
    columns: Columns,
    put: &mut dyn FnMut(&str) -> Outcome<()>,
    scores: &mut Scores,
) -> Outcome<()> {
    let mut first = true;
    for part in parts(arguments, model, columns)? {
        let Dataset { features, target, unread } = part.map_err(|error| refused(arguments, error))?;
        if let (Some(name), true) = (unread, first) {
            eprintln!(
                "column {name:?} is what the model predicts: left out; --target {name:?} compares with it"
            );
        }
        let rows = features.rows()?;
        let answers = model.answers(rows)?;
        put(&to_csv(model, rows, &answers, (first, arguments.probabilities))?)?;
        if let Some(target) = target {
            scores.add(answers, truth(model, &target, &arguments.data[0])?, target.name());
        }
        first = false;
    }
    match first {
        true => Err(Error::Empty { what: "the data", needed: "one row" }.into()),
        false => Ok(()),
    }
}

/// Rows of the columns the model knows, in its order, part by part.
fn parts(arguments: &Arguments, model: &Model, columns: Columns) -> Outcome<Parts> {
    let target = arguments.target.as_deref().map_or(TargetColumn::None, target_column);
    let options = ReadOptions {
        columns: Some(columns.count(model.columns())),
        unread: columns.target.filter(|_| target == TargetColumn::None),
        target,
        codings: columns.codings,
        names: columns.features.into_iter().map(|column| column.name).collect(),
        ..ReadOptions::default()
    };
    let files = list(&arguments.data, &options)?;
    Parts::new(files, options).map_err(|error| refused(arguments, error))
}

/// An error of reading, with what to do.
fn refused(arguments: &Arguments, error: Error) -> Failure {
    let answer = "if a column is the answer, leave it out with --target last (or its name)";
    match error {
        Error::Columns { expected, found } if found == expected + 1 && arguments.target.is_none() => {
            let path = arguments.data[0].display();
            let message =
                format!("{path}: {found} columns, one more than the {expected} the model was fitted on");
            Failure::bad_input(message).hint(answer)
        }
        Error::Parse { .. } if arguments.target.is_none() => Failure::from(error).hint(answer),
        error => error.into(),
    }
}

/// One line per row, and before the first ones a header.
fn to_csv(
    model: &Model,
    rows: Rows<'_>,
    answers: &Answers,
    (header, probabilities): (bool, bool),
) -> Outcome<String> {
    match answers {
        Answers::Classes(classes) => classes_to_csv(model, rows, classes, header, probabilities),
        _ if probabilities => Err(Failure::bad_input(
            "--probabilities needs a classification model; this one predicts quantities",
        )),
        Answers::Numbers(values) => Ok(numbers(values, &columns(model), header)),
    }
}

/// Names of the columns of a regression: one, several by number, or quantiles by level.
fn columns(model: &Model) -> Vec<String> {
    match (model.loss(), model.outputs()) {
        (LossSpec::Quantile { levels }, _) => {
            levels.iter().map(|level| format!("quantile_{level}")).collect()
        }
        (_, 1) => vec!["prediction".to_owned()],
        (_, outputs) => (0..outputs).map(|k| format!("prediction_{k}")).collect(),
    }
}

fn numbers(values: &[f32], columns: &[String], header: bool) -> String {
    let mut text = if header { columns.join(",") + "\n" } else { String::new() };
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
    model: &Model,
    rows: Rows<'_>,
    predicted: &[u32],
    header: bool,
    probabilities: bool,
) -> Outcome<String> {
    let names = model.class_names();
    let cells: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let shares = if probabilities { model.probabilities(rows)? } else { Vec::new() };
    let mut text = String::new();
    if header {
        text.push_str("prediction");
        for name in names.iter().filter(|_| probabilities) {
            text.push(',');
            text.push_str(&quoted(&format!("p_{name}")));
        }
        text.push('\n');
    }
    for (row, &class) in predicted.iter().enumerate() {
        text.push_str(cells.get(class as usize).map_or("", String::as_str));
        for p in shares.get(row * names.len()..(row + 1) * names.len()).unwrap_or_default() {
            // Writing to a string cannot fail.
            let _ = write!(text, ",{p}");
        }
        text.push('\n');
    }
    Ok(text)
}

/// The target in the form of the answers.
fn truth(model: &Model, target: &RawTarget, path: &Path) -> Outcome<Vec<f32>> {
    match model.task() {
        Task::Classification(_) => positions(&target.labels(), target.name(), &model.class_names(), path),
        Task::Regression(_) => Ok(target.numbers()?.iter().map(|&y| y as f32).collect()),
    }
}

/// Answers and the truth, where that is known: n numbers each.
#[derive(Default)]
struct Scores {
    target: Option<String>,
    answers: Option<Answers>,
    truth: Vec<f32>,
}

impl Scores {
    fn add(&mut self, answers: Answers, truth: Vec<f32>, name: &str) {
        self.target.get_or_insert_with(|| name.to_owned());
        self.truth.extend(truth);
        match (&mut self.answers, answers) {
            (Some(Answers::Classes(all)), Answers::Classes(more)) => all.extend(more),
            (Some(Answers::Numbers(all)), Answers::Numbers(more)) => all.extend(more),
            (all, answers) => *all = Some(answers),
        }
    }

    fn text(&self, model: &Model) -> String {
        self.answers
            .as_ref()
            .map_or_else(String::new, |answers| error_of(&model.loss(), answers, &self.truth))
    }
}

/// A cell of a CSV file.
pub(crate) fn quoted(cell: &str) -> String {
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
        assert_eq!(numbers(&[1.0, 2.5], &["a".into()], true), "a\n1\n2.5\n");
        assert_eq!(numbers(&[1.0, 2.5], &["a".into(), "b".into()], false), "1,2.5\n");
    }
}
