//! The columns a model was fitted on, by name and type, and what became of them.

use super::Container;
use crate::data::coding::{self, Coding};
use crate::error::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Name of the tensor that holds them, as JSON text: a header is too small for the names of wide data.
const COLUMNS: &str = "columns";
/// Name of the tensor that holds what became of them, as JSON text.
const CODINGS: &str = "codings";
/// Header field with the name of the column that was learnt.
const TARGET: &str = "target";

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// Numbers.
    Number,
    /// True or false, which a model takes as 1 and 0.
    Boolean,
    /// One of several values, which have columns of their own in the model.
    Category,
}

/// A column of the data a model was fitted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values are.
    #[serde(rename = "type")]
    pub kind: ColumnType,
}

/// The columns of the data a model was fitted on, in the order of the model; see [`Container::set_columns`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// The features, where they had names.
    pub features: Vec<Column>,
    /// What became of each feature, where some were not numbers alone.
    pub codings: Vec<Option<Coding>>,
    /// The name of the column that was learnt, which data to predict may still have.
    pub target: Option<String>,
}

impl Columns {
    /// Columns of numbers.
    pub fn of_numbers(names: impl IntoIterator<Item = String>, target: Option<String>) -> Self {
        let column = |name| Column { name, kind: ColumnType::Number };
        Self { features: names.into_iter().map(column).collect(), codings: Vec::new(), target }
    }

    /// The same, of which some are not numbers alone.
    #[must_use]
    pub fn coded(mut self, codings: Vec<Option<Coding>>) -> Self {
        for (column, coding) in self.features.iter_mut().zip(&codings) {
            if let Some(Coding::Category { .. }) = coding {
                column.kind = ColumnType::Category;
            }
        }
        self.codings = codings;
        self
    }

    /// Columns of data for a model that has so many: fewer where categories became several.
    pub fn count(&self, columns: usize) -> usize {
        match self.codings.len() {
            0 => columns,
            coded => coded,
        }
    }

    /// The names of the features.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.features.iter().map(|column| column.name.as_str())
    }

    /// Refuses names for another number of columns than the model has, and codings that make another number.
    pub fn check(&self, columns: usize) -> Result<()> {
        let made = coding::width(&self.codings);
        if !self.codings.is_empty() && made != columns {
            return Err(Error::Format(format!("the data become {made} columns, the model has {columns}")));
        }
        match (self.features.len(), self.count(columns)) {
            (0, _) => Ok(()),
            (found, columns) if found == columns => Ok(()),
            (found, columns) => {
                Err(Error::Format(format!("{found} columns have names, the model has {columns}")))
            }
        }
    }
}

impl Container {
    /// Writes the columns beside a model; nothing where they have no names and are numbers.
    pub fn set_columns(&mut self, columns: &Columns) -> Result<()> {
        if let Some(target) = &columns.target {
            self.set_field(TARGET, target)?;
        }
        if !columns.features.is_empty() {
            self.insert_json(COLUMNS, &columns.features)?;
        }
        if !columns.codings.is_empty() {
            self.insert_json(CODINGS, &columns.codings)?;
        }
        Ok(())
    }

    /// The columns beside a model, none at all where they had no names.
    pub fn columns(&self) -> Result<Columns> {
        let (features, codings) = (self.json(COLUMNS)?, self.json(CODINGS)?);
        coding::check(&codings)?;
        Ok(Columns { features, codings, target: self.field(TARGET)? })
    }

    fn insert_json<T: Serialize>(&mut self, name: &str, values: &[T]) -> Result<()> {
        let text = serde_json::to_vec(values).map_err(|error| Error::Format(error.to_string()))?;
        self.insert(name, vec![text.len()], text)
    }

    /// What [`Container::insert_json`] wrote, nothing where it did not.
    fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>> {
        if !self.tensors.contains_key(name) {
            return Ok(Vec::new());
        }
        let (_, text) = self.u8s(name)?;
        serde_json::from_slice(text)
            .map_err(|error| Error::Format(super::clip(&format!("tensor {name:?}: {error}"))))
    }
}
