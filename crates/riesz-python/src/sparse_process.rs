//! The class `SparseProcess`: a fitted sparse Gaussian process.

use crate::arrays::{matrix, Table};
use crate::attend::{attended, detached};
use crate::errors::to_py;
use crate::files::stored;
use crate::process::{normal_answers, Array2};
use crate::settings::Settings;
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::distributions::models::sparse_gp;
use riesz::random::Seed;

type Vector<'py> = PyReadonlyArray1<'py, f64>;

/// A fitted sparse Gaussian process.
#[pyclass(module = "riesz._riesz")]
pub struct SparseProcess(sparse_gp::SparseProcess);

#[pymethods]
impl SparseProcess {
    /// Fits to rows `x`, targets `y` and weights.
    #[staticmethod]
    #[pyo3(signature = (x, y, weights=None, *, settings, n_jobs=None, observer=None))]
    fn fit(
        py: Python<'_>,
        x: Table<'_>,
        y: Vector<'_>,
        weights: Option<Vector<'_>>,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let settings = Settings::new(settings)?;
        let kernel = settings.take_named("kernel")?;
        let mut options: sparse_gp::SparseProcessOptions = settings.read()?;
        options.kernel = kernel.unwrap_or(options.kernel);
        options.check().map_err(to_py)?;
        let (rows, targets) = (x.rows()?, y.as_slice()?);
        let weights = weights.as_ref().map(|w| w.as_slice()).transpose()?;
        attended(py, n_jobs, observer.as_ref(), |control| {
            sparse_gp::SparseProcess::fit(&options, rows, targets, weights, control)
        })
        .map(Self)
    }

    /// Learns from further rows.
    #[pyo3(signature = (x, y, weights=None, *, n_jobs=None, observer=None))]
    fn extend(
        &mut self,
        py: Python<'_>,
        x: Table<'_>,
        y: Vector<'_>,
        weights: Option<Vector<'_>>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let (rows, targets) = (x.rows()?, y.as_slice()?);
        let weights = weights.as_ref().map(|w| w.as_slice()).transpose()?;
        attended(py, n_jobs, observer.as_ref(), |control| self.0.extend(rows, targets, weights, control))
    }

    /// Samples of the function, or of noisy values, one column each.
    #[pyo3(signature = (x, count, seed, *, noisy, n_jobs=None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        count: usize,
        seed: u64,
        noisy: bool,
        n_jobs: Option<isize>,
    ) -> PyResult<Array2<'py>> {
        let rows = x.rows()?;
        let samples = detached(py, n_jobs, || self.0.sample(rows, count, Seed(seed), noisy))?;
        let values = (0..rows.len() * count).map(|i| samples[(i / count, i % count)]).collect();
        matrix(py, values, rows.len())
    }

    /// The inducing inputs, one particle after the other.
    fn inducing<'py>(&self, py: Python<'py>) -> PyResult<Array2<'py>> {
        let values: Vec<f64> = self.0.inducing().flatten().copied().collect();
        let rows = values.len() / self.0.columns();
        matrix(py, values, rows)
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (summary, hyper) = (PyDict::new(py), self.0.hyperparameters());
        summary.set_item("signal", hyper.signal)?;
        summary.set_item("noise", hyper.noise)?;
        summary.set_item("length_scales", hyper.length_scales.clone().into_pyarray(py))?;
        summary.set_item("log_weights", self.0.log_weights().into_pyarray(py))?;
        summary.set_item("log_evidence", self.0.log_evidence())?;
        summary.set_item("exponent", self.0.weighting().exponent)?;
        summary.set_item("scale", self.0.weighting().scale)?;
        summary.set_item("particles", self.0.inducing().len())?;
        summary.set_item("rows", self.0.seen())?;
        summary.set_item("columns", self.0.columns())?;
        summary.set_item("seed", self.0.options().seed.0)?;
        Ok(summary)
    }
}

stored!(SparseProcess, sparse_gp::SparseProcess);
normal_answers!(SparseProcess);
