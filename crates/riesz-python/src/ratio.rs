//! The class `Ratio`: a fitted density ratio.

use crate::arrays::{sample, Table, Values};
use crate::attend::{attended, detached};
use crate::errors::FitError;
use crate::files;
use crate::settings::Settings;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use riesz::functions::DensityRatio;
use std::path::PathBuf;

/// A fitted density ratio.
#[pyclass(module = "riesz._riesz")]
pub struct Ratio(DensityRatio);

#[pymethods]
impl Ratio {
    /// Fits to rows of the numerator and of the denominator, and their sample weights.
    #[staticmethod]
    #[pyo3(signature = (numerator, denominator, numerator_weights=None, denominator_weights=None, *, settings, n_jobs=None, observer=None))]
    #[allow(clippy::too_many_arguments)]
    fn fit(
        py: Python<'_>,
        numerator: Table<'_>,
        denominator: Table<'_>,
        numerator_weights: Option<Values<'_>>,
        denominator_weights: Option<Values<'_>>,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options = Settings(settings).ratio()?;
        let p = sample(&numerator, numerator_weights.as_ref())?;
        let q = sample(&denominator, denominator_weights.as_ref())?;
        attended(py, n_jobs, observer.as_ref(), |control| DensityRatio::fit(&options, p, q, control))
            .map(Self)
    }

    /// Logarithms of the ratio.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn log_ratio<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let rows = x.rows()?;
        Ok(detached(py, n_jobs, || self.0.log_ratio(rows))?.into_pyarray(py))
    }

    /// Ratios.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn ratio<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let rows = x.rows()?;
        Ok(detached(py, n_jobs, || self.0.ratio(rows))?.into_pyarray(py))
    }

    /// The Kullback–Leibler and the Pearson divergence, estimated on two new samples.
    #[pyo3(signature = (numerator, denominator, *, n_jobs=None))]
    fn divergences(
        &self,
        py: Python<'_>,
        numerator: Table<'_>,
        denominator: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<(f64, f64)> {
        let (p, q) = (numerator.rows()?, denominator.rows()?);
        let found = detached(py, n_jobs, || self.0.divergences(p, q))?;
        Ok((found.kl, found.pearson))
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.0.summary()).map_err(|e| FitError::new_err(e.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// The ratio as the bytes of a model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        files::to_bytes(py, || self.0.to_container())
    }

    /// The ratio whose `to_bytes` these are.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        files::from_bytes(py, bytes, DensityRatio::from_container).map(Self)
    }

    /// Writes the ratio to `path` with a JSON object under the key `python` of the header.
    fn save(&self, py: Python<'_>, path: PathBuf, note: &str) -> PyResult<()> {
        files::save(py, path, note, || self.0.to_container())
    }

    /// The ratio in the file at `path` and the note it was saved with, `null` for none.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<(Self, String)> {
        let (ratio, note) = files::load(py, path, DensityRatio::from_container)?;
        Ok((Self(ratio), note))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = slf.borrow().to_bytes(slf.py())?;
        Ok((slf.get_type().getattr("from_bytes")?, (bytes,)))
    }
}
