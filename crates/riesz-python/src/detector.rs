//! The class `Detector`: a fitted novelty detector.

use crate::arrays::{answers, values, Table, Values};
use crate::attend::attended;
use crate::errors::to_py;
use crate::files::stored;
use crate::settings::Settings;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::functions::{NoveltyDetector, NoveltyOptions};

/// A fitted novelty detector.
#[pyclass(module = "riesz._riesz")]
pub struct Detector(NoveltyDetector);

#[pymethods]
impl Detector {
    /// Fits to rows `x` with sample weights, or begins a stream with them.
    #[staticmethod]
    #[pyo3(signature = (x, weights=None, *, settings, stream=false, n_jobs=None))]
    fn fit(
        py: Python<'_>,
        x: Table<'_>,
        weights: Option<Values<'_>>,
        settings: &Bound<'_, PyDict>,
        stream: bool,
        n_jobs: Option<isize>,
    ) -> PyResult<Self> {
        let (options, rows) = (options(settings)?, x.rows()?);
        let weights = weights.as_ref().map(|w| values("sample_weight", w)).transpose()?;
        let fit = if stream { NoveltyDetector::begin } else { NoveltyDetector::fit };
        attended(py, n_jobs, None, |control| fit(&options, rows, weights, control)).map(Self)
    }

    /// Learns from further rows.
    #[pyo3(signature = (x, weights=None, *, n_jobs=None))]
    fn partial_fit(
        &mut self,
        py: Python<'_>,
        x: Table<'_>,
        weights: Option<Values<'_>>,
        n_jobs: Option<isize>,
    ) -> PyResult<()> {
        let rows = x.rows()?;
        let weights = weights.as_ref().map(|w| values("sample_weight", w)).transpose()?;
        attended(py, n_jobs, None, |control| self.0.partial_fit(rows, weights, control))
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
}

fn options(settings: &Bound<'_, PyDict>) -> PyResult<NoveltyOptions> {
    let settings = Settings::new(settings)?;
    let kernel = settings.take_named("kernel")?;
    let mut options: NoveltyOptions = settings.read()?;
    options.kernel = kernel.unwrap_or(options.kernel);
    options.check().map_err(to_py)?;
    Ok(options)
}

stored!(Detector, NoveltyDetector);

answers! {
    Detector:
    /// Scores, large for usual rows.
    scores = scores -> vector<f32>;
}
