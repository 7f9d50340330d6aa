//! The class `Machine`: a fitted kernel machine.

use crate::arrays::{matrix, training, Table, Values};
use crate::attend::{attended, detached};
use crate::errors::{to_py, FitError, InvalidInput};
use crate::settings::Settings;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use riesz::functions::KernelMachine;
use riesz::model::Container;
use serde_json::Value;
use std::path::PathBuf;

/// Header field of a model file that belongs to the estimators.
const NOTE: &str = "python";

/// A fitted kernel machine.
#[pyclass(module = "riesz._riesz")]
pub struct Machine(KernelMachine);

#[pymethods]
impl Machine {
    /// Fits to rows `x`, targets `y` (numbers, or class indices where `settings` has classes) and sample weights.
    #[staticmethod]
    #[pyo3(signature = (x, y, weights=None, *, settings, n_jobs=None, observer=None))]
    fn fit(
        py: Python<'_>,
        x: Table<'_>,
        y: Values<'_>,
        weights: Option<Values<'_>>,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let settings = Settings(settings);
        let options = settings.options(targets(&y))?;
        let checkpoint = settings.checkpoint()?;
        let data = training(&x, &y, weights.as_ref())?;
        attended(py, n_jobs, observer.as_ref(), |control| {
            control.checkpoint = checkpoint;
            KernelMachine::fit(&options, &data, control)
        })
        .map(Self)
    }

    /// The machine after a first batch of a stream.
    #[staticmethod]
    #[pyo3(signature = (x, y, weights=None, *, settings, n_jobs=None, observer=None))]
    fn begin(
        py: Python<'_>,
        x: Table<'_>,
        y: Values<'_>,
        weights: Option<Values<'_>>,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options = Settings(settings).options(targets(&y))?;
        let data = training(&x, &y, weights.as_ref())?;
        attended(py, n_jobs, observer.as_ref(), |control| KernelMachine::begin(&options, &data, control))
            .map(Self)
    }

    /// Learns from a further batch.
    #[pyo3(signature = (x, y, weights=None, *, n_jobs=None, observer=None))]
    fn partial_fit(
        &mut self,
        py: Python<'_>,
        x: Table<'_>,
        y: Values<'_>,
        weights: Option<Values<'_>>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let data = training(&x, &y, weights.as_ref())?;
        attended(py, n_jobs, observer.as_ref(), |control| self.0.partial_fit(&data, control))
    }

    /// Values of the function, one row each.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn decision<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let rows = x.rows()?;
        let values = detached(py, n_jobs, || self.0.decision(rows))?;
        matrix(py, values, rows.len())
    }

    /// Predictions of a regression, one row each.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let rows = x.rows()?;
        let values = detached(py, n_jobs, || self.0.predict(rows))?;
        matrix(py, values, rows.len())
    }

    /// Indices of the classes decided for.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn classes<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let rows = x.rows()?;
        Ok(detached(py, n_jobs, || self.0.classes_of(rows))?.into_pyarray(py))
    }

    /// Class probabilities, one row each.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let rows = x.rows()?;
        let values = detached(py, n_jobs, || self.0.probabilities(rows))?;
        matrix(py, values, rows.len())
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.0.summary()).map_err(|e| FitError::new_err(e.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// The machine as the bytes of a model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.0.to_bytes()).map_err(to_py)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The machine whose `to_bytes` these are.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        py.detach(|| KernelMachine::from_bytes(bytes)).map(Self).map_err(to_py)
    }

    /// Writes the machine to `path` with a JSON object under the key `python` of the header.
    fn save(&self, py: Python<'_>, path: PathBuf, note: &str) -> PyResult<()> {
        let note: Value =
            serde_json::from_str(note).map_err(|error| InvalidInput::new_err(error.to_string()))?;
        let save = || {
            let mut container = Container::from_bytes(&self.0.to_bytes()?)?;
            container.set_field(NOTE, &note)?;
            container.save(&path)
        };
        py.detach(save).map_err(to_py)
    }

    /// The machine in the file at `path` and the note it was saved with, `null` for none.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<(Self, String)> {
        let load = || {
            let container = Container::load(&path)?;
            let note: Value = container.field(NOTE)?;
            Ok((Self(KernelMachine::from_bytes(&container.to_bytes()?)?), note.to_string()))
        };
        py.detach(load).map_err(to_py)
    }

    /// Names of the classes in the order of their indices, for readers of the file other than Python.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.0.class_names().to_vec()
    }

    #[setter]
    fn set_class_names(&mut self, names: Vec<String>) {
        self.0.set_class_names(names);
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = slf.borrow().to_bytes(slf.py())?;
        Ok((slf.get_type().getattr("from_bytes")?, (bytes,)))
    }
}

/// Numbers per row of `y`.
fn targets(y: &Values<'_>) -> usize {
    y.shape().get(1).copied().unwrap_or(1)
}
