//! The columns a model was fitted on, by name and type.

use super::Container;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Name of the tensor that holds them, as JSON text: a header is too small for the names of wide data.
const COLUMNS: &str = "columns";
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

/// The columns of the data a model was fitted on, in the order of the model, where they had names; see
/// [`Container::set_columns`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The features.
    pub features: Vec<Column>,
    /// The name of the column that was learnt, which data to predict may still have.
    pub target: Option<String>,
}

impl Columns {
    /// Columns of numbers.
    pub fn of_numbers(names: impl IntoIterator<Item = String>, target: Option<String>) -> Self {
        let column = |name| Column { name, kind: ColumnType::Number };
        Self { features: names.into_iter().map(column).collect(), target }
    }

    /// The names of the features.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.features.iter().map(|column| column.name.as_str())
    }

    /// Refuses names for another number of columns than the model has.
    pub fn check(&self, columns: usize) -> Result<()> {
        match self.features.len() {
            0 => Ok(()),
            found if found == columns => Ok(()),
            found => Err(Error::Format(format!("{found} columns have names, the model has {columns}"))),
        }
    }
}

impl Container {
    /// Writes the columns beside a model; nothing where they have no names.
    pub fn set_columns(&mut self, columns: &Columns) -> Result<()> {
        if let Some(target) = &columns.target {
            self.set_field(TARGET, target)?;
        }
        if columns.features.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_vec(&columns.features).map_err(|error| Error::Format(error.to_string()))?;
        self.insert(COLUMNS, vec![text.len()], text)
    }

    /// The columns beside a model, none at all where they had no names.
    pub fn columns(&self) -> Result<Columns> {
        let target = self.field(TARGET)?;
        if !self.tensors.contains_key(COLUMNS) {
            return Ok(Columns { features: Vec::new(), target });
        }
        let (_, text) = self.u8s(COLUMNS)?;
        let features = serde_json::from_slice(text)
            .map_err(|error| Error::Format(super::clip(&format!("tensor {COLUMNS:?}: {error}"))))?;
        Ok(Columns { features, target })
    }
}
