//! Data files with a target that has a meaning.

use crate::failure::{Failure, Outcome};
use riesz::data::coding::Coding;
use riesz::data::files::{Collect, Collected, Features, WholeTarget};
use riesz::data::reader::{Labels, ReadOptions, Target, TargetColumn};
use riesz::driver::Control;
use riesz::functions::{FilesSeen, KernelMachine, Options, Task};
use riesz::loss::LossSpec;
use riesz::model::Columns;
use riesz::Error;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

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

/// What is known of data beside the numbers.
#[derive(Debug)]
pub(crate) struct Known {
    pub rows: usize,
    pub width: usize,
    /// Names of the features; none where the files have no header.
    names: Vec<String>,
    first_index: usize,
    /// What became of each feature, where some are not numbers alone.
    codings: Vec<Option<Coding>>,
    /// Name of the target column.
    pub name: String,
    /// Names of the classes; none for regression.
    pub classes: Vec<String>,
    /// Where the rows are, if not in memory.
    pub place: Option<String>,
}

impl Known {
    /// Names and types of the columns; none where the files have no header.
    pub(crate) fn columns(&self) -> Columns {
        let target = (!self.names.is_empty()).then(|| self.name.clone());
        Columns::of_numbers(self.names.iter().cloned(), target).coded(self.codings.clone())
    }

    /// What is to be learnt.
    pub(crate) fn task(&self) -> Task {
        match self.classes.len() {
            0 => Task::Regression(1),
            classes => Task::Classification(classes),
        }
    }

    /// Reads a file with these columns and classes, to test on. Columns with names are told by them, the target too.
    pub(crate) fn read_alike(&self, path: &Path, target: &str, memory: Option<usize>) -> Outcome<Labelled> {
        let columns = self.columns();
        let options = ReadOptions {
            columns: Some(columns.count(self.width)),
            target: columns.target.map_or_else(|| target_column(target), |name| named(name, target)),
            names: self.names.clone(),
            codings: columns.codings,
            first_index: (self.first_index == 1).then_some(1),
            ..ReadOptions::default()
        };
        let collect = Collect { read: options, memory, ..Collect::default() };
        let (features, raw, codings) = read(&[path.to_path_buf()], &collect, &mut |_| Ok(()))?;
        let targets = match self.classes.is_empty() {
            true => to_f32(raw.numbers()?),
            false => positions(&raw.labels()?, raw.name(), &self.classes, path)?,
        };
        Ok(Labelled { known: Self::of(&features, &raw, (codings, self.classes.clone())), features, targets })
    }

    fn of(
        features: &Features,
        target: &WholeTarget,
        (codings, classes): (Vec<Option<Coding>>, Vec<String>),
    ) -> Self {
        let place = match features {
            Features::Memory(_) => None,
            Features::Disk(cache) => Some(cache.path().display().to_string()),
        };
        Self {
            rows: features.len(),
            width: features.columns(),
            names: features.names().to_vec(),
            first_index: features.first_index(),
            codings,
            name: target.name().to_owned(),
            classes,
            place,
        }
    }
}

/// Features and targets in the form the library wants.
#[derive(Debug)]
pub(crate) struct Labelled {
    pub known: Known,
    pub features: Features,
    /// Numbers, or positions among the classes.
    pub targets: Vec<f32>,
}

impl Labelled {
    /// Reads files to learn from; a loss of regression makes numbers of a target that would be guessed to be classes.
    pub(crate) fn read(
        paths: &[PathBuf],
        collect: &Collect,
        (task, loss): (TaskChoice, Option<&LossSpec>),
        told: &mut dyn FnMut(usize) -> riesz::Result<()>,
    ) -> Outcome<Self> {
        let (features, target, codings) = read(paths, collect, told)?;
        refuse_repeated(features.names(), &paths[0])?;
        let (targets, classes) = meaning(&target, task, loss)?;
        Ok(Self { known: Known::of(&features, &target, (codings, classes)), features, targets })
    }
}

/// A model of rows that are read straight through: none of them is kept. Where the target is not known to be a number, the
/// files are read once before for its classes.
pub(crate) fn straight_through(
    paths: &[PathBuf],
    collect: &Collect,
    (task, loss): (TaskChoice, Option<&LossSpec>),
    (options, memory): (impl FnOnce(Task) -> Outcome<Options>, Option<usize>),
    control: &mut Control<'_>,
) -> Outcome<(Known, KernelMachine)> {
    let classes = match task {
        TaskChoice::Regression => Vec::new(),
        _ => {
            let cancelled = &mut control.cancelled;
            let mut told = |_: usize| if cancelled() { Err(Error::Cancelled { blocks: 0 }) } else { Ok(()) };
            let target = collect.coding(paths, |collect| collect.target(paths, &mut told))?;
            meaning(&target.ok_or_else(|| no_target(paths))?, task, loss)?.1
        }
    };
    let known = match classes.len() {
        0 => Task::Regression(1),
        count => Task::Classification(count),
    };
    let options = options(known)?;
    let ((machine, seen), codings) = collect.coding(paths, |Collect { read, .. }| {
        let fitted = KernelMachine::fit_files(&options, paths, read, &classes, memory, control)?;
        Ok((fitted, read.codings.clone()))
    })?;
    refuse_repeated(&seen.names, &paths[0])?;
    let FilesSeen { rows, columns, names, first_index, target } = seen;
    let place = Some("read straight through".to_owned());
    Ok((Known { rows, width: columns, names, first_index, codings, name: target, classes, place }, machine))
}

fn no_target(paths: &[PathBuf]) -> Failure {
    Failure::bad_input(format!("{} holds no target", paths[0].display())).hint("name a column with --target")
}

/// Reads features and target.
fn read(
    paths: &[PathBuf],
    collect: &Collect,
    told: &mut dyn FnMut(usize) -> riesz::Result<()>,
) -> Outcome<(Features, WholeTarget, Vec<Option<Coding>>)> {
    match collect.run(paths, told)? {
        Collected { features, target: Some(target), codings, .. } => Ok((features, target, codings)),
        Collected { target: None, .. } => Err(no_target(paths)),
    }
}

/// The target as numbers, or as classes and their names.
pub(crate) fn meaning(
    raw: &WholeTarget,
    task: TaskChoice,
    loss: Option<&LossSpec>,
) -> Outcome<(Vec<f32>, Vec<String>)> {
    let quantity = loss.is_some_and(|loss| !loss.is_classification());
    let numbers = || raw.numbers().map(|numbers| Target::Numbers(numbers.to_vec()));
    let target = match task {
        TaskChoice::Auto if quantity => numbers().or_else(|_| raw.guess())?,
        TaskChoice::Auto => raw.guess()?,
        TaskChoice::Classification => Target::Labels(raw.labels()?),
        TaskChoice::Regression => numbers()?,
    };
    match target {
        Target::Numbers(numbers) => Ok((to_f32(&numbers), Vec::new())),
        Target::Labels(labels) => many(labels),
    }
}

/// The position of every label of a target among known classes.
pub(crate) fn positions(labels: &Labels, name: &str, classes: &[String], path: &Path) -> Outcome<Vec<f32>> {
    labels.positions(classes).map_err(|label| {
        let path = path.display();
        let message =
            format!("{path}: the target {name:?} holds the class {label:?}, which the model does not know");
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
