//! The class `Ratio`: a fitted density ratio.

use crate::arrays::{answers, matrix, sample, Table, Values};
use crate::attend::{attended, detached};
use crate::errors::to_py;
use crate::files::{dictionary, stored};
use crate::settings::Settings;
use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::functions::{DensityRatio, DensityRatioOptions};

/// A fitted density ratio.
#[pyclass(module = "riesz._riesz")]
pub struct Ratio(DensityRatio);

#[pymethods]
impl Ratio {
    /// Fits to rows of the numerator and of the denominator, and their sample weights, or begins a stream with them.
    #[staticmethod]
    #[pyo3(signature = (numerator, denominator, numerator_weights=None, denominator_weights=None, *, settings, stream=false, n_jobs=None, observer=None))]
    #[allow(clippy::too_many_arguments)]
    fn fit(
        py: Python<'_>,
        numerator: Table<'_>,
        denominator: Table<'_>,
        numerator_weights: Option<Values<'_>>,
        denominator_weights: Option<Values<'_>>,
        settings: &Bound<'_, PyDict>,
        stream: bool,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options = options(settings)?;
        let p = sample(&numerator, numerator_weights.as_ref())?;
        let q = sample(&denominator, denominator_weights.as_ref())?;
        let fit = if stream { DensityRatio::begin } else { DensityRatio::fit };
        attended(py, n_jobs, observer.as_ref(), |control| fit(&options, p, q, control)).map(Self)
    }

    /// Learns from further rows of both samples.
    #[pyo3(signature = (numerator, denominator, numerator_weights=None, denominator_weights=None, *, n_jobs=None, observer=None))]
    #[allow(clippy::too_many_arguments)]
    fn partial_fit(
        &mut self,
        py: Python<'_>,
        numerator: Table<'_>,
        denominator: Table<'_>,
        numerator_weights: Option<Values<'_>>,
        denominator_weights: Option<Values<'_>>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let p = sample(&numerator, numerator_weights.as_ref())?;
        let q = sample(&denominator, denominator_weights.as_ref())?;
        attended(py, n_jobs, observer.as_ref(), |control| self.0.partial_fit(p, q, control))
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

    /// The learnt metric of the columns, d×d row by row, where there is one.
    fn metric<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        self.0.metric().map(|metric| matrix(py, metric.matrix(), metric.columns())).transpose()
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionary(py, &self.0.summary())
    }
}

fn options(settings: &Bound<'_, PyDict>) -> PyResult<DensityRatioOptions> {
    let settings = Settings::new(settings)?;
    let kernel = settings.take_named("kernel")?;
    let mut options: DensityRatioOptions = settings.read()?;
    options.kernel = kernel.unwrap_or(options.kernel);
    options.check().map_err(to_py)?;
    Ok(options)
}

stored!(Ratio, DensityRatio);

answers! {
    Ratio:
    /// Logarithms of the ratio.
    log_ratio = log_ratio -> vector<f32>;
    /// Ratios.
    ratio = ratio -> vector<f32>;
}
