//! The class `Invariant`: a fitted function of samples.

use crate::arrays::{answers, values, Table, Values};
use crate::attend::attended;
use crate::errors::to_py;
use crate::files::{dictionary, stored};
use crate::settings::Settings;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::dynamics::invariance::{InvarianceOptions, InvariantFunction, Virtual};

/// A fitted function whose mean over samples of a row is the prediction there.
#[pyclass(module = "riesz._riesz")]
pub struct Invariant(InvariantFunction);

#[pymethods]
impl Invariant {
    /// Fits to rows `x`, samples of each and targets `y`.
    #[staticmethod]
    #[pyo3(signature = (x, samples, y, *, settings, n_jobs=None, observer=None))]
    fn fit(
        py: Python<'_>,
        x: Table<'_>,
        samples: Vec<Table<'_>>,
        y: Values<'_>,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options = options(settings)?;
        let samples = samples.iter().map(Table::rows).collect::<PyResult<Vec<_>>>()?;
        let data = Virtual { rows: x.rows()?, samples: &samples, targets: values("y", &y)? };
        attended(py, n_jobs, observer.as_ref(), |control| InvariantFunction::fit(&options, &data, control))
            .map(Self)
    }

    /// Refuses more samples of rows than there is memory for.
    #[staticmethod]
    fn check_room(samples: usize, rows: usize, columns: usize) -> PyResult<()> {
        riesz::memory::room("samples of X", "n_samples", &[samples, rows, columns], 4).map_err(to_py)
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionary(py, &self.0.summary())
    }
}

fn options(settings: &Bound<'_, PyDict>) -> PyResult<InvarianceOptions> {
    let settings = Settings::new(settings)?;
    let kernel = settings.take_named("kernel")?;
    let mut options: InvarianceOptions = settings.read()?;
    options.kernel = kernel.unwrap_or(options.kernel);
    options.check().map_err(to_py)?;
    Ok(options)
}

stored!(Invariant, InvariantFunction);

answers! {
    Invariant:
    /// The function at samples, a column for each output.
    evaluate = evaluate -> matrix<f32>;
}
