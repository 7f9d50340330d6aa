//! The class `Density`: a fitted kernel density.

use crate::arrays::{matrix, values, Table};
use crate::attend::{attended, detached};
use crate::errors::{to_py, FitError};
use crate::files;
use numpy::{IntoPyArray, Ix1, PyArray1, PyArray2, PyReadonlyArray};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use riesz::distributions::kde::{BandwidthRule, DensityOptions, KernelDensity};
use riesz::random::Seed;
use riesz::Error;
use std::path::PathBuf;

/// A fitted kernel density.
#[pyclass(module = "riesz._riesz")]
pub struct Density(KernelDensity);

/// A bandwidth or the name of a rule.
#[derive(FromPyObject)]
enum Bandwidth {
    #[pyo3(transparent, annotation = "float")]
    Number(f64),
    #[pyo3(transparent, annotation = "str")]
    Rule(String),
}

impl Bandwidth {
    fn rule(self) -> riesz::Result<BandwidthRule> {
        match self {
            Self::Number(h) => Ok(BandwidthRule::Fixed(h)),
            Self::Rule(name) if name == "scott" => Ok(BandwidthRule::Scott),
            Self::Rule(name) if name == "silverman" => Ok(BandwidthRule::Silverman),
            Self::Rule(value) => {
                let expected = "scott, silverman, a number";
                Err(Error::Unknown { name: "bandwidth", value, expected })
            }
        }
    }
}

#[pymethods]
impl Density {
    /// Fits to rows and their sample weights.
    #[staticmethod]
    #[pyo3(signature = (x, weights=None, *, kernel, bandwidth, shape, rtol, atol, n_jobs=None))]
    #[allow(clippy::too_many_arguments)]
    fn fit(
        py: Python<'_>,
        x: Table<'_>,
        weights: Option<PyReadonlyArray<'_, f64, Ix1>>,
        kernel: &str,
        bandwidth: Bandwidth,
        shape: &str,
        rtol: f64,
        atol: f64,
        n_jobs: Option<isize>,
    ) -> PyResult<Self> {
        let options = DensityOptions {
            kernel: kernel.parse().map_err(to_py)?,
            bandwidth: bandwidth.rule().map_err(to_py)?,
            shape: shape.parse().map_err(to_py)?,
            relative_tolerance: rtol,
            absolute_tolerance: atol,
        };
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
        let drawn = py.detach(|| self.0.sample(count, Seed(seed))).map_err(to_py)?;
        matrix(py, drawn, count)
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.0.summary()).map_err(|e| FitError::new_err(e.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// The density as the bytes of a model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        files::to_bytes(py, || self.0.to_container())
    }

    /// The density whose `to_bytes` these are.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        files::from_bytes(py, bytes, KernelDensity::from_container).map(Self)
    }

    /// Writes the density to `path` with a JSON object under the key `python` of the header.
    fn save(&self, py: Python<'_>, path: PathBuf, note: &str) -> PyResult<()> {
        files::save(py, path, note, || self.0.to_container())
    }

    /// The density in the file at `path` and the note it was saved with, `null` for none.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<(Self, String)> {
        let (density, note) = files::load(py, path, KernelDensity::from_container)?;
        Ok((Self(density), note))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = slf.borrow().to_bytes(slf.py())?;
        Ok((slf.get_type().getattr("from_bytes")?, (bytes,)))
    }
}
