//! Data files with a target that has a meaning.

use crate::failure::{Failure, Outcome};
use riesz::data::reader::{
    label_key, read_with, Dataset, Labels, RawTarget, ReadOptions, Table, Target, TargetColumn,
};
use riesz::functions::Task;
use riesz::loss::LossSpec;
use riesz::model::Columns;
use riesz::Error;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// `last`, `first`, a number counted from zero, or a name.
pub(crate) fn target_column(text: &str) -> TargetColumn {
    match (text, text.parse()) {
        ("last", _) => TargetColumn::Last,
        ("first", _) => TargetColumn::First,
        (_, Ok(index)) => TargetColumn::Index(index),
        (name, Err(_)) => TargetColumn::Name(name.to_owned()),
    }
}

/// What the user says about the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TaskChoice {
    /// Text and few whole numbers are classes, anything else is a quantity.
    Auto,
    /// The target is one of several classes.
    Classification,
    /// The target is a number.
    Regression,
}

/// Features and targets in the form the library wants.
#[derive(Debug)]
pub(crate) struct Labelled {
    pub features: Table,
    /// Name of the target column.
    pub name: String,
    /// Numbers, or positions in `classes`.
    pub targets: Vec<f32>,
    /// Names of the classes; none for regression.
    pub classes: Vec<String>,
}

impl Labelled {
    /// Reads a file to learn from; a loss of regression makes numbers of a target that would be guessed to be classes.
    pub(crate) fn read(
        path: &Path,
        target: &str,
        task: TaskChoice,
        loss: Option<&LossSpec>,
    ) -> Outcome<Self> {
        let (features, raw) =
            read(path, &ReadOptions { target: target_column(target), ..ReadOptions::default() })?;
        refuse_repeated(&features.names, path)?;
        let quantity = loss.is_some_and(|loss| !loss.is_classification());
        let target = match task {
            TaskChoice::Auto if quantity => raw.numbers().map(Target::Numbers).or_else(|_| raw.guess())?,
            TaskChoice::Auto => raw.guess()?,
            TaskChoice::Classification => Target::Labels(raw.labels()),
            TaskChoice::Regression => Target::Numbers(raw.numbers()?),
        };
        let (targets, classes) = match target {
            Target::Numbers(numbers) => (to_f32(&numbers), Vec::new()),
            Target::Labels(labels) => many(labels)?,
        };
        Ok(Self { features, name: raw.name().to_owned(), targets, classes })
    }

    /// Names and types of the columns; none where the file has no header.
    pub(crate) fn columns(&self) -> Columns {
        let names = &self.features.names;
        Columns::of_numbers(names.iter().cloned(), (!names.is_empty()).then(|| self.name.clone()))
    }

    /// Reads a file with the columns and the classes of `self`, to test on. Columns with names are told by them, the target
    /// too.
    pub(crate) fn read_alike(&self, path: &Path, target: &str) -> Outcome<Self> {
        let options = ReadOptions {
            target: self.columns().target.map_or_else(|| target_column(target), |name| named(name, target)),
            columns: Some(self.features.columns),
            names: self.features.names.clone(),
            first_index: (self.features.first_index == 1).then_some(1),
            ..ReadOptions::default()
        };
        let (features, raw) = read(path, &options)?;
        let targets = match self.classes.is_empty() {
            true => to_f32(&raw.numbers()?),
            false => positions(&raw, &self.classes, path)?,
        };
        Ok(Self { features, name: raw.name().to_owned(), targets, classes: self.classes.clone() })
    }

    /// What is to be learnt.
    pub(crate) fn task(&self) -> Task {
        match self.classes.len() {
            0 => Task::Regression(1),
            classes => Task::Classification(classes),
        }
    }
}

/// Reads features and target.
pub(crate) fn read(path: &Path, options: &ReadOptions) -> Outcome<(Table, RawTarget)> {
    match read_with(path, options)? {
        Dataset { features, target: Some(target), .. } => Ok((features, target)),
        Dataset { target: None, .. } => {
            let message = format!("{} holds no target", path.display());
            Err(Failure::bad_input(message).hint("name a column with --target"))
        }
    }
}

/// The position of every label among known classes.
pub(crate) fn positions(raw: &RawTarget, classes: &[String], path: &Path) -> Outcome<Vec<f32>> {
    let known: HashMap<_, _> =
        classes.iter().enumerate().map(|(place, name)| (label_key(name), place)).collect();
    let position = |label: &str| known.get(&label_key(label)).copied();
    let places = raw.iter().map(|label| position(label).map(|place| place as f32).ok_or(label));
    places.collect::<Result<_, _>>().map_err(|label| {
        let message = format!(
            "{}: the target {:?} holds the class {label:?}, which the model does not know",
            path.display(),
            raw.name()
        );
        Failure::bad_input(message)
            .hint(format!("known classes: {}", crate::output::listed(classes.iter().map(String::as_str))))
    })
}

/// Refuses columns that a model could not tell by their names.
fn refuse_repeated(names: &[String], path: &Path) -> Outcome<()> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(name) => {
            let message = format!("{}: two columns are named {name:?}", path.display());
            Err(Failure::bad_input(message)
                .hint("columns are told by their names when predicting; rename one"))
        }
        None => Ok(()),
    }
}

/// The target by its name; by its place in a file that has no names.
fn named(name: String, place: &str) -> TargetColumn {
    TargetColumn::NamedOr(name, Box::new(target_column(place)))
}

fn many(labels: Labels) -> Outcome<(Vec<f32>, Vec<String>)> {
    match labels.classes.as_slice() {
        [only] => Err(Error::OneClass(only.clone()).into()),
        _ => Ok((labels.indices.iter().map(|&index| index as f32).collect(), labels.classes)),
    }
}

fn to_f32(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|&number| number as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_place_a_number_or_a_name() {
        assert_eq!(target_column("last"), TargetColumn::Last);
        assert_eq!(target_column("first"), TargetColumn::First);
        assert_eq!(target_column("3"), TargetColumn::Index(3));
        assert_eq!(target_column("price"), TargetColumn::Name("price".into()));
    }
}
