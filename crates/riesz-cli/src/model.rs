//! A model that predicts, from its file: fitted, or learnt online.

use crate::failure::Outcome;
use crate::score::{answers, Answers};
use riesz::data::Rows;
use riesz::functions::{KernelMachine, OnlineMachine, Task};
use riesz::kernel::KernelSpec;
use riesz::loss::LossSpec;
use riesz::model::{Columns, Container, Stored};
use std::path::Path;

/// A model of targets or classes.
pub(crate) enum Model {
    /// Written by `riesz fit`.
    Fitted(Box<KernelMachine>),
    /// Written by `riesz stream`.
    Online(Box<OnlineMachine>),
}

impl Model {
    /// Reads a model, and the columns it was learnt on.
    pub(crate) fn load(path: &Path) -> Outcome<(Self, Columns)> {
        let container = Container::load(path)?;
        let columns = container.columns()?;
        let model = match container.kind() {
            Some(OnlineMachine::KIND) => Self::Online(Box::new(OnlineMachine::from_container(container)?)),
            _ => Self::Fitted(Box::new(KernelMachine::from_container(container)?)),
        };
        columns.check(model.columns())?;
        Ok((model, columns))
    }

    pub(crate) fn task(&self) -> Task {
        match self {
            Self::Fitted(machine) => machine.summary().task,
            Self::Online(machine) => machine.options().task,
        }
    }

    pub(crate) fn loss(&self) -> LossSpec {
        match self {
            Self::Fitted(machine) => machine.summary().loss,
            Self::Online(machine) => machine.loss().clone(),
        }
    }

    /// The kernel and its bandwidth.
    pub(crate) fn kernel(&self) -> (KernelSpec, f64) {
        match self {
            Self::Fitted(machine) => (machine.summary().kernel, machine.summary().bandwidth),
            Self::Online(machine) => (machine.options().kernel.clone(), machine.bandwidth()),
        }
    }

    pub(crate) fn columns(&self) -> usize {
        match self {
            Self::Fitted(machine) => machine.summary().columns,
            Self::Online(machine) => machine.columns(),
        }
    }

    pub(crate) fn outputs(&self) -> usize {
        match self {
            Self::Fitted(machine) => machine.outputs(),
            Self::Online(machine) => machine.outputs(),
        }
    }

    /// The names of the classes, as far as there are any.
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::Fitted(machine) => machine.class_names(),
            Self::Online(machine) => machine.class_names(),
        }
    }

    /// The names of the classes that may be predicted, or their numbers where the model has no names.
    pub(crate) fn class_names(&self) -> Vec<String> {
        match (self.names(), self.task()) {
            ([], Task::Classification(classes)) => (0..classes).map(|class| class.to_string()).collect(),
            (names, _) => names.to_vec(),
        }
    }

    /// What it says of rows.
    pub(crate) fn answers(&self, rows: Rows<'_>) -> Outcome<Answers> {
        match self {
            Self::Fitted(machine) => answers(machine, rows),
            Self::Online(machine) => Ok(match machine.options().task {
                Task::Classification(_) => Answers::Classes(machine.classes_of(rows)?),
                Task::Regression(_) => Answers::Numbers(machine.predict(rows)?),
            }),
        }
    }

    /// Probabilities of the classes that may be predicted, row by row.
    pub(crate) fn probabilities(&self, rows: Rows<'_>) -> Outcome<Vec<f64>> {
        let p = match self {
            Self::Fitted(machine) => machine.probabilities(rows)?,
            Self::Online(machine) => machine.probabilities(rows)?,
        };
        let (known, classes) = (self.class_names().len(), p.len() / rows.len());
        if known == classes {
            return Ok(p);
        }
        // A class that was not met yet has no name: the others share what it has.
        let of_row = |row: &[f64]| {
            let total: f64 = row[..known].iter().sum();
            row[..known].iter().map(|p| p / total).collect::<Vec<_>>()
        };
        Ok(p.chunks_exact(classes).flat_map(of_row).collect())
    }
}
