//! The class `Topics`: a fitted topic model.

use crate::arrays::{answers, matrix, Table};
use crate::attend::{attended, detached};
use crate::errors::to_py;
use crate::files::{dictionary, stored};
use crate::settings::Settings;
use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::distributions::models::lda::{LdaOptions, TopicModel};

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
        let (options, rows) = (options(settings)?, x.rows()?);
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
        let (options, rows) = (options(settings)?, x.rows()?);
        attended(py, n_jobs, None, |control| TopicModel::begin(&options, rows, control)).map(Self)
    }

    /// Learns from more documents; the model stays as it was if that is interrupted.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn partial_fit(&mut self, py: Python<'_>, x: Table<'_>, n_jobs: Option<isize>) -> PyResult<()> {
        let (rows, mut model) = (x.rows()?, self.0.clone());
        self.0 = attended(py, n_jobs, None, |control| model.partial_fit(rows, control).map(|()| model))?;
        Ok(())
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
        dictionary(py, &self.0.summary())
    }
}

stored!(Topics, TopicModel);

answers! {
    Topics:
    /// Topic proportions of documents.
    transform = transform -> matrix<f32>;
}

fn options(settings: &Bound<'_, PyDict>) -> PyResult<LdaOptions> {
    let options: LdaOptions = Settings::new(settings)?.read()?;
    options.check().map_err(to_py)?;
    Ok(options)
}
