//! The class `Process`: a fitted Gaussian process.

use crate::arrays::{answers, matrix, Table};
use crate::attend::{attended, detached};
use crate::errors::to_py;
use crate::files::stored;
use crate::settings::Settings;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::functions::{GaussianProcess, GaussianProcessOptions, Sampling};
use riesz::random::Seed;

pub type Array1<'py> = Bound<'py, PyArray1<f64>>;
pub type Array2<'py> = Bound<'py, PyArray2<f64>>;

/// A fitted Gaussian process.
#[pyclass(module = "riesz._riesz")]
pub struct Process(GaussianProcess);

#[pymethods]
impl Process {
    /// Fits to rows `x` and targets `y`.
    #[staticmethod]
    #[pyo3(signature = (x, y, *, settings, n_jobs=None, observer=None))]
    fn fit(
        py: Python<'_>,
        x: Table<'_>,
        y: PyReadonlyArray1<'_, f64>,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options: GaussianProcessOptions = Settings::new(settings)?.read()?;
        options.check().map_err(to_py)?;
        let (rows, targets) = (x.rows()?, y.as_slice()?);
        attended(py, n_jobs, observer.as_ref(), |control| {
            GaussianProcess::fit(&options, rows, targets, control)
        })
        .map(Self)
    }

    /// Conditions on further rows.
    #[pyo3(signature = (x, y, *, n_jobs=None, observer=None))]
    fn extend(
        &mut self,
        py: Python<'_>,
        x: Table<'_>,
        y: PyReadonlyArray1<'_, f64>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let (rows, targets) = (x.rows()?, y.as_slice()?);
        attended(py, n_jobs, observer.as_ref(), |control| self.0.extend(rows, targets, control))
    }

    /// Samples of the function, or of noisy values, one column each.
    #[pyo3(signature = (x, count, seed, *, method, noisy, n_jobs=None))]
    #[allow(clippy::too_many_arguments)]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        count: usize,
        seed: u64,
        method: &str,
        noisy: bool,
        n_jobs: Option<isize>,
    ) -> PyResult<Array2<'py>> {
        let rows = x.rows()?;
        let how: Sampling = method.parse().map_err(to_py)?;
        let samples = detached(py, n_jobs, || self.0.sample(rows, count, how, Seed(seed), noisy))?;
        let values = (0..rows.len() * count).map(|i| samples[(i / count, i % count)]).collect();
        matrix(py, values, rows.len())
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (summary, hyper) = (PyDict::new(py), self.0.hyperparameters());
        summary.set_item("signal", hyper.signal)?;
        summary.set_item("noise", hyper.noise)?;
        summary.set_item("length_scales", hyper.length_scales.clone().into_pyarray(py))?;
        summary.set_item("log_marginal_likelihood", self.0.log_marginal_likelihood())?;
        summary.set_item("jitter", self.0.jitter())?;
        summary.set_item("approximation", if self.0.is_exact() { "exact" } else { "inducing" })?;
        summary.set_item("rows", self.0.len())?;
        summary.set_item("columns", self.0.columns())?;
        summary.set_item("seed", self.0.seed().0)?;
        Ok(summary)
    }
}

stored!(Process, GaussianProcess);
normal_answers!(Process);

answers! {
    Process:
    /// Means.
    mean = mean -> vector<f64>;
}

/// What Gaussian processes answer for rows: marginals, or all rows together.
macro_rules! normal_answers {
    ($class:ident) => {
        #[pyo3::pymethods]
        impl $class {
            /// Means and variances of the function.
            #[pyo3(signature = (x, *, n_jobs=None))]
            fn marginals<'py>(
                &self,
                py: pyo3::Python<'py>,
                x: crate::arrays::Table<'_>,
                n_jobs: Option<isize>,
            ) -> pyo3::PyResult<(crate::process::Array1<'py>, crate::process::Array1<'py>)> {
                let rows = x.rows()?;
                let (mean, variance) = crate::attend::detached(py, n_jobs, || self.0.marginals(rows))?;
                Ok((mean.into_pyarray(py), variance.into_pyarray(py)))
            }

            /// Means and covariances of the function.
            #[pyo3(signature = (x, *, n_jobs=None))]
            fn joint<'py>(
                &self,
                py: pyo3::Python<'py>,
                x: crate::arrays::Table<'_>,
                n_jobs: Option<isize>,
            ) -> pyo3::PyResult<(crate::process::Array1<'py>, crate::process::Array2<'py>)> {
                let rows = x.rows()?;
                let (mean, covariance) = crate::attend::detached(py, n_jobs, || self.0.joint(rows))?;
                // A covariance is its own transpose.
                let columns = (0..covariance.ncols()).flat_map(|j| covariance.col_as_slice(j));
                let values = columns.copied().collect();
                Ok((mean.into_pyarray(py), crate::arrays::matrix(py, values, rows.len())?))
            }
        }
    };
}
pub(crate) use normal_answers;
