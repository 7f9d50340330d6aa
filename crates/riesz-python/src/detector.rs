//! The class `Detector`: a fitted novelty detector.

use crate::arrays::{values, Table, Values};
use crate::attend::{attended, detached};
use crate::files;
use crate::settings::Settings;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use riesz::functions::NoveltyDetector;
use std::path::PathBuf;

/// A fitted novelty detector.
#[pyclass(module = "riesz._riesz")]
pub struct Detector(NoveltyDetector);

#[pymethods]
impl Detector {
    /// Fits to rows `x` with sample weights.
    #[staticmethod]
    #[pyo3(signature = (x, weights=None, *, settings, n_jobs=None))]
    fn fit(
        py: Python<'_>,
        x: Table<'_>,
        weights: Option<Values<'_>>,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
    ) -> PyResult<Self> {
        let options = Settings(settings).novelty()?;
        let rows = x.rows()?;
        let weights = weights.as_ref().map(|w| values("sample_weight", w)).transpose()?;
        attended(py, n_jobs, None, |control| NoveltyDetector::fit(&options, rows, weights, control)).map(Self)
    }

    /// Scores, large for usual rows.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let rows = x.rows()?;
        Ok(detached(py, n_jobs, || self.0.scores(rows))?.into_pyarray(py))
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = PyDict::new(py);
        summary.set_item("offset", self.0.offset())?;
        summary.set_item("bandwidth", self.0.bandwidth())?;
        summary.set_item("scaling", self.0.scaling())?;
        summary.set_item("columns", self.0.columns())?;
        summary.set_item("seed", self.0.options().seed.0)?;
        Ok(summary)
    }

    /// The detector as the bytes of a model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        files::to_bytes(py, || self.0.to_container())
    }

    /// The detector whose `to_bytes` these are.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        files::from_bytes(py, bytes, NoveltyDetector::from_container).map(Self)
    }

    /// Writes the detector to `path` with a JSON object under the key `python` of the header.
    fn save(&self, py: Python<'_>, path: PathBuf, note: &str) -> PyResult<()> {
        files::save(py, path, note, || self.0.to_container())
    }

    /// The detector in the file at `path` and the note it was saved with, `null` for none.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<(Self, String)> {
        let (detector, note) = files::load(py, path, NoveltyDetector::from_container)?;
        Ok((Self(detector), note))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = slf.borrow().to_bytes(slf.py())?;
        Ok((slf.get_type().getattr("from_bytes")?, (bytes,)))
    }
}
