//! Fitted models as bytes, pickles and files, with a note of the estimators beside them: one path for all classes.

use crate::attend::detached;
use crate::errors::{FitError, InvalidInput};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use riesz::data::coding::Coding;
use riesz::model::{Column, Columns, Container, Stored};
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;

/// Header field of a model file that belongs to the estimators.
const NOTE: &str = "python";
/// Field of the note that is kept where all readers of the file find it, as the columns beside the model: a list of features
/// with `name` and `type`.
const COLUMNS: &str = "columns";
/// Likewise what became of each feature, where some were not numbers alone.
const CODINGS: &str = "codings";
/// Likewise the name of the column that was learnt.
const TARGET: &str = "target";

/// A Python class around a model that has a file.
pub trait Wraps: Sized {
    /// The model.
    type Model: Stored + Send + Sync;

    /// The model inside.
    fn model(&self) -> &Self::Model;

    /// A model read from a file.
    fn wrap(model: Self::Model) -> Self;
}

/// Gives a class around nothing but a model `save`, `load`, `to_bytes`, `from_bytes` and pickles; to another class, which
/// implements [`Wraps`] and its pickles itself, the first three.
macro_rules! stored {
    ($class:ident, $model:ty) => {
        crate::files::stored!($class);

        impl crate::files::Wraps for $class {
            type Model = $model;

            fn model(&self) -> &$model {
                &self.0
            }

            fn wrap(model: $model) -> Self {
                Self(model)
            }
        }

        #[pyo3::pymethods]
        impl $class {
            /// The model whose `to_bytes` these are.
            #[classmethod]
            fn from_bytes(
                _class: &pyo3::Bound<'_, pyo3::types::PyType>,
                py: pyo3::Python<'_>,
                bytes: &[u8],
            ) -> pyo3::PyResult<Self> {
                crate::files::from_bytes(py, bytes, riesz::model::Stored::from_container)
            }

            fn __reduce__<'py>(
                slf: &pyo3::Bound<'py, Self>,
            ) -> pyo3::PyResult<(pyo3::Bound<'py, pyo3::PyAny>, (pyo3::Bound<'py, pyo3::types::PyBytes>,))>
            {
                let bytes = crate::files::to_bytes(slf.py(), &*slf.borrow())?;
                Ok((slf.get_type().getattr("from_bytes")?, (bytes,)))
            }
        }
    };
    ($class:ident) => {
        #[pyo3::pymethods]
        impl $class {
            /// The model as the bytes of its file.
            fn to_bytes<'py>(
                &self,
                py: pyo3::Python<'py>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::types::PyBytes>> {
                crate::files::to_bytes(py, self)
            }

            /// Writes the model to `path` with a JSON object under the key `python` of the header.
            fn save(&self, py: pyo3::Python<'_>, path: std::path::PathBuf, note: &str) -> pyo3::PyResult<()> {
                crate::files::save(py, self, path, note)
            }

            /// The model in the file at `path` and the note it was saved with, `null` for none.
            #[staticmethod]
            fn load(py: pyo3::Python<'_>, path: std::path::PathBuf) -> pyo3::PyResult<(Self, String)> {
                crate::files::load(py, path)
            }
        }
    };
}
pub(crate) use stored;

pub fn save<T: Wraps + Sync>(py: Python<'_>, class: &T, path: PathBuf, note: &str) -> PyResult<()> {
    let refused = |error: serde_json::Error| InvalidInput::new_err(error.to_string());
    let mut note: Value = serde_json::from_str(note).map_err(refused)?;
    let columns = taken_columns(&mut note).map_err(refused)?;
    let model = class.model();
    let save = || {
        let mut container = model.to_container()?;
        container.set_columns(&columns)?;
        container.set_field(NOTE, &note)?;
        container.save(&path)
    };
    detached(py, None, save)
}

pub fn load<T: Wraps>(py: Python<'_>, path: PathBuf) -> PyResult<(T, String)> {
    let load = || {
        let container = Container::load(&path)?;
        let mut note: Value = container.field(NOTE)?;
        put_columns(&mut note, container.columns()?);
        Ok((T::Model::from_container(container)?, note.to_string()))
    };
    let (model, note) = detached(py, None, load)?;
    Ok((T::wrap(model), note))
}

/// Takes the columns out of a note.
fn taken_columns(note: &mut Value) -> serde_json::Result<Columns> {
    let mut take = |name| note.as_object_mut().and_then(|note| note.remove(name)).unwrap_or(Value::Null);
    let features: Option<Vec<Column>> = serde_json::from_value(take(COLUMNS))?;
    let codings: Option<Vec<Option<Coding>>> = serde_json::from_value(take(CODINGS))?;
    let target = serde_json::from_value(take(TARGET))?;
    Ok(Columns { features: features.unwrap_or_default(), codings: codings.unwrap_or_default(), target })
}

/// Puts them back into a note, which a model of the command line has none of.
fn put_columns(note: &mut Value, Columns { features, codings, target }: Columns) {
    if note.is_null() {
        *note = Value::Object(serde_json::Map::new());
    }
    if let Some(note) = note.as_object_mut() {
        if !features.is_empty() {
            note.insert(COLUMNS.to_owned(), serde_json::json!(features));
        }
        if !codings.is_empty() {
            note.insert(CODINGS.to_owned(), serde_json::json!(codings));
        }
        if let Some(target) = target {
            note.insert(TARGET.to_owned(), target.into());
        }
    }
}

pub fn to_bytes<'py, T: Wraps>(py: Python<'py>, class: &T) -> PyResult<Bound<'py, PyBytes>> {
    let model = class.model();
    let bytes = detached(py, None, || model.to_bytes())?;
    Ok(PyBytes::new(py, &bytes))
}

/// The class whose `to_bytes` these are; `read` may add what a file does not hold.
pub fn from_bytes<T: Wraps>(
    py: Python<'_>,
    bytes: &[u8],
    read: impl FnOnce(Container) -> riesz::Result<T::Model> + Send,
) -> PyResult<T> {
    detached(py, None, || read(Container::from_bytes(bytes)?)).map(T::wrap)
}

/// What serde makes of a value, as a dictionary of Python.
pub fn dictionary<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| FitError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// The kind of model in the file at `path`, as its header has it: `model`, `gaussian_process`, `novelty`, …
#[pyfunction]
pub fn file_kind(py: Python<'_>, path: PathBuf) -> PyResult<Option<String>> {
    let kind = detached(py, None, || Container::load(&path))?.kind().map(str::to_owned);
    Ok(kind)
}
