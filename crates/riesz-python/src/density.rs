//! The class `Density`: a fitted kernel density.

use crate::arrays::{matrix, values, Table};
use crate::attend::{attended, detached};
use crate::files::{dictionary, stored};
use crate::settings::Settings;
use numpy::{IntoPyArray, Ix1, PyArray1, PyArray2, PyReadonlyArray};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::distributions::kde::{DensityOptions, KernelDensity};
use riesz::random::Seed;

/// A fitted kernel density.
#[pyclass(module = "riesz._riesz")]
pub struct Density(KernelDensity);

#[pymethods]
impl Density {
    /// Fits to rows and their sample weights.
    #[staticmethod]
    #[pyo3(signature = (x, weights=None, *, settings, n_jobs=None))]
    fn fit(
        py: Python<'_>,
        x: Table<'_>,
        weights: Option<PyReadonlyArray<'_, f64, Ix1>>,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
    ) -> PyResult<Self> {
        let options: DensityOptions = Settings::new(settings)?.read()?;
        let rows = x.rows()?;
        let weights = weights.as_ref().map(|w| values("sample_weight", w)).transpose()?;
        detached(py, n_jobs, || KernelDensity::fit(&options, rows, weights)).map(Self)
    }

    /// Logarithms of the density.
    #[pyo3(signature = (x, *, n_jobs=None))]
    fn log_density<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let rows = x.rows()?;
        let found = attended(py, n_jobs, None, |control| {
            self.0.log_density_while(rows, &mut || !(control.cancelled)())
        })?;
        Ok(found.into_pyarray(py))
    }

    /// Independent draws, one per row.
    fn sample<'py>(&self, py: Python<'py>, count: usize, seed: u64) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let drawn = detached(py, None, || self.0.sample(count, Seed(seed)))?;
        matrix(py, drawn, count)
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionary(py, &self.0.summary())
    }
}

stored!(Density, KernelDensity);
