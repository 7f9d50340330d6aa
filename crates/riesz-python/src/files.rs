//! Fitted models as bytes and files, with a note of the estimators beside them.

use crate::errors::{to_py, InvalidInput};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use riesz::model::Container;
use riesz::Result;
use serde_json::Value;
use std::path::PathBuf;

/// Header field of a model file that belongs to the estimators.
const NOTE: &str = "python";

/// Writes a model to `path` with a JSON object under the key `python` of the header.
pub fn save(
    py: Python<'_>,
    path: PathBuf,
    note: &str,
    model: impl FnOnce() -> Result<Container> + Send,
) -> PyResult<()> {
    let note: Value = serde_json::from_str(note).map_err(|error| InvalidInput::new_err(error.to_string()))?;
    let save = || {
        let mut container = model()?;
        container.set_field(NOTE, &note)?;
        container.save(&path)
    };
    py.detach(save).map_err(to_py)
}

/// The model in the file at `path` and the note it was saved with, `null` for none.
pub fn load<T: Send>(
    py: Python<'_>,
    path: PathBuf,
    read: impl FnOnce(Container) -> Result<T> + Send,
) -> PyResult<(T, String)> {
    let load = || {
        let container = Container::load(&path)?;
        let note: Value = container.field(NOTE)?;
        Ok((read(container)?, note.to_string()))
    };
    py.detach(load).map_err(to_py)
}

/// The kind of model in the file at `path`: model, gaussian_process, novelty, density_ratio or topics among them.
#[pyfunction]
pub fn file_kind(py: Python<'_>, path: PathBuf) -> PyResult<Option<String>> {
    let kind = py.detach(|| Container::load(&path)).map_err(to_py)?.kind().map(str::to_owned);
    Ok(kind)
}

/// The bytes of a model file.
pub fn to_bytes(
    py: Python<'_>,
    model: impl FnOnce() -> Result<Container> + Send,
) -> PyResult<Bound<'_, PyBytes>> {
    let bytes = py.detach(|| model()?.to_bytes()).map_err(to_py)?;
    Ok(PyBytes::new(py, &bytes))
}

/// The model whose bytes these are.
pub fn from_bytes<T: Send>(
    py: Python<'_>,
    bytes: &[u8],
    read: impl FnOnce(Container) -> Result<T> + Send,
) -> PyResult<T> {
    py.detach(|| read(Container::from_bytes(bytes)?)).map_err(to_py)
}
