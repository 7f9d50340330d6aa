//! What is read from a data file: a table of features, and which column is the target.

use super::coding::{expand, width, Coding};
use super::target::RawTarget;
use super::{Indices, Rows, Sparse};
use crate::error::{Error, Result};
use std::borrow::Cow;

/// The numbers of a data file.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Row-major.
    Dense(Vec<f32>),
    /// The non-zeros of LIBSVM files, where that takes less memory; see [`Sparse`].
    Sparse {
        /// Position of each row's first value, and of the end.
        starts: Vec<i64>,
        /// Column of each value.
        indices: Vec<i32>,
        /// The values.
        values: Vec<f32>,
    },
}

/// The features of a data file.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The values, all finite.
    pub values: Values,
    /// Number of columns d.
    pub columns: usize,
    /// One name per column of the file, or none at all where it names no columns. A category is one column there, and several here.
    pub names: Vec<String>,
    /// Number the file gives its first column: 1 for LIBSVM files that count from one, else 0.
    pub first_index: usize,
}

impl Table {
    /// Number of rows n.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Dense(values) => values.len().checked_div(self.columns).unwrap_or(0),
            Values::Sparse { starts, .. } => starts.len().saturating_sub(1),
        }
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values with their zeros, row-major.
    pub fn into_dense(self) -> Result<Vec<f32>> {
        if let Values::Dense(values) = self.values {
            return Ok(values);
        }
        Ok(self.rows()?.gather(&(0..self.len() as u32).collect::<Vec<_>>()))
    }

    /// The name of a column: the file's own, or `x` and its number.
    pub fn name(&self, column: usize) -> Cow<'_, str> {
        column_name(&self.names, self.first_index, column)
    }

    /// A view of the values for fitting or evaluating a model.
    pub fn rows(&self) -> Result<Rows<'_>> {
        match &self.values {
            Values::Dense(values) => Rows::single(values, self.columns),
            Values::Sparse { starts, indices, values } => {
                let (starts, indices) = (Indices::Long(starts), Indices::Short(indices));
                Ok(Sparse::new(starts, indices, values, self.columns)?.into())
            }
        }
    }

    /// The values with their zeros.
    #[cfg(test)]
    pub(super) fn dense(&self) -> Vec<f32> {
        match &self.values {
            Values::Dense(values) => values.clone(),
            Values::Sparse { .. } => {
                let all: Vec<u32> = (0..self.len() as u32).collect();
                self.rows().map_or_else(|_| Vec::new(), |rows| rows.gather(&all))
            }
        }
    }
}

/// A data file in memory.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Every column but the target.
    pub features: Table,
    /// The target, where one was asked for.
    pub target: Option<RawTarget>,
    /// The column that was read over, where [`ReadOptions::unread`](super::reader::ReadOptions::unread) named one.
    pub unread: Option<String>,
}

impl Dataset {
    /// The same where codes of categories and missing numbers have become columns of numbers; names are those of the file.
    pub(super) fn expanded(mut self, codings: &[Option<Coding>]) -> Result<Self> {
        if codings.is_empty() {
            return Ok(self);
        }
        match &self.features.values {
            Values::Dense(codes) if codings.len() == self.features.columns => {
                self.features.values = Values::Dense(expand(codings, codes));
                self.features.columns = width(codings);
                Ok(self)
            }
            Values::Dense(_) => Err(Error::Columns { expected: codings.len(), found: self.features.columns }),
            Values::Sparse { .. } => Err(Error::Conflict("LIBSVM files have no categories".into())),
        }
    }
}

/// Which column of a file is the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TargetColumn {
    /// Every column is a feature. A LIBSVM label is read over.
    #[default]
    None,
    /// The last column, or the label of a LIBSVM line.
    Last,
    /// The first column, or the label of a LIBSVM line.
    First,
    /// The column of this name. Columns without a header are `x0`, `x1`, …; a LIBSVM label is `label`.
    Name(String),
    /// The column of this name if the file has one, else none: for predicting on a file that may still
    /// hold the answer.
    IfNamed(String),
    /// The column of this name in a file that names its columns, else another.
    NamedOr(String, Box<TargetColumn>),
    /// The column of this number, counted from zero.
    Index(usize),
}

impl TargetColumn {
    /// The number of the target column in a file of `columns` columns, or the reason there is none.
    pub fn resolve(&self, names: &[String], columns: usize) -> Result<Option<usize>, String> {
        match self {
            Self::None => Ok(None),
            Self::First => Ok(Some(0)),
            Self::Last => Ok(columns.checked_sub(1)),
            Self::Index(index) if *index < columns => Ok(Some(*index)),
            Self::Index(index) => {
                Err(format!("there is no column {index} for the target: {columns} columns, counted from 0"))
            }
            Self::IfNamed(name) => position(names, columns, name),
            Self::NamedOr(_, other) if names.is_empty() => other.resolve(names, columns),
            Self::NamedOr(name, _) => Self::Name(name.clone()).resolve(names, columns),
            Self::Name(name) => match position(names, columns, name)? {
                Some(column) => Ok(Some(column)),
                None => {
                    Err(format!("no column is named {name:?}; the columns are {}", listed(names, columns)))
                }
            },
        }
    }
}

/// The one column of this name.
fn position(names: &[String], columns: usize, wanted: &str) -> Result<Option<usize>, String> {
    if names.is_empty() {
        let number = wanted.strip_prefix('x').and_then(|digits| digits.parse().ok());
        return Ok(number.filter(|&column: &usize| column < columns));
    }
    let mut matches = names.iter().enumerate().filter(|(_, name)| *name == wanted).map(|(column, _)| column);
    let first = matches.next();
    match matches.next() {
        Some(second) => Err(format!(
            "two columns are named {wanted:?} (numbers {} and {second}); give the number instead",
            first.unwrap_or(0)
        )),
        None => Ok(first),
    }
}

/// The first few names, for a message.
fn listed(names: &[String], columns: usize) -> String {
    let shown: Vec<_> = (0..columns.min(12)).map(|column| column_name(names, 0, column)).collect();
    let more = if columns > shown.len() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// The name of a column, made up where the file has none.
pub(super) fn column_name(names: &[String], first_index: usize, column: usize) -> Cow<'_, str> {
    match names.get(column) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("x{}", column + first_index)),
    }
}
