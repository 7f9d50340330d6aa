//! The class `Topics`: a fitted topic model.

use crate::arrays::{matrix, Table};
use crate::attend::{attended, detached};
use crate::errors::FitError;
use crate::files;
use crate::settings::Settings;
use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use riesz::distributions::models::lda::TopicModel;
use std::path::PathBuf;

/// A fitted topic model.
#[pyclass(module = "riesz._riesz")]
pub struct Topics(TopicModel);

#[pymethods]
impl Topics {
    /// Fits to documents.
    #[staticmethod]
    #[pyo3(signature = (x, *, settings, n_jobs=None, observer=None))]
    fn fit(
        py: Python<'_>,
        x: Table<'_>,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (options, rows) = (Settings(settings).topics()?, x.rows()?);
        attended(py, n_jobs, observer.as_ref(), |control| TopicModel::fit(&options, rows, control)).map(Self)
    }

    /// Starts a stream with its first documents.
    #[staticmethod]
    #[pyo3(signature = (x, *, settings, n_jobs=None))]
    fn begin(
        py: Python<'_>,
        x: Table<'_>,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
    ) -> PyResult<Self> {
        let (options, rows) = (Settings(settings).topics()?, x.rows()?);
        attended(py, n_jobs, None, |control| TopicModel::begin(&options, rows, control)).map(Self)
    }

    /// Learns from more documents; the model stays as it was if that is interrupted.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn partial_fit(&mut self, py: Python<'_>, x: Table<'_>, n_jobs: Option<isize>) -> PyResult<()> {
        let (rows, mut model) = (x.rows()?, self.0.clone());
        self.0 = attended(py, n_jobs, None, |control| model.partial_fit(rows, control).map(|()| model))?;
        Ok(())
    }

    /// Topic proportions of documents.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn transform<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let rows = x.rows()?;
        matrix(py, detached(py, n_jobs, || self.0.transform(rows))?, rows.len())
    }

    /// A lower bound of the log likelihood of documents.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn bound(&self, py: Python<'_>, x: Table<'_>, n_jobs: Option<isize>) -> PyResult<f64> {
        let rows = x.rows()?;
        detached(py, n_jobs, || self.0.bound(rows))
    }

    /// The perplexity of that bound.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn perplexity(&self, py: Python<'_>, x: Table<'_>, n_jobs: Option<isize>) -> PyResult<f64> {
        let rows = x.rows()?;
        detached(py, n_jobs, || self.0.perplexity(rows))
    }

    /// The perplexity of words held out of documents whose other words are observed.
    #[pyo3(signature = (observed, held_out, *, n_jobs=None))]
    fn completion_perplexity(
        &self,
        py: Python<'_>,
        observed: Table<'_>,
        held_out: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<f64> {
        let (observed, held_out) = (observed.rows()?, held_out.rows()?);
        detached(py, n_jobs, || self.0.completion_perplexity(observed, held_out))
    }

    /// Dirichlet parameters of the topics.
    fn components<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        matrix(py, self.0.components(), self.0.summary().topics)
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.0.summary()).map_err(|e| FitError::new_err(e.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// The model as the bytes of a model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        files::to_bytes(py, || self.0.to_container())
    }

    /// The model whose `to_bytes` these are.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        files::from_bytes(py, bytes, TopicModel::from_container).map(Self)
    }

    /// Writes the model to `path` with a JSON object under the key `python` of the header.
    fn save(&self, py: Python<'_>, path: PathBuf, note: &str) -> PyResult<()> {
        files::save(py, path, note, || self.0.to_container())
    }

    /// The model in the file at `path` and the note it was saved with, `null` for none.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<(Self, String)> {
        let (model, note) = files::load(py, path, TopicModel::from_container)?;
        Ok((Self(model), note))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = slf.borrow().to_bytes(slf.py())?;
        Ok((slf.get_type().getattr("from_bytes")?, (bytes,)))
    }
}
