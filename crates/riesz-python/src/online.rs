//! The class `Online`: an online kernel machine.

use crate::arrays::{answers, matrix, training, Table, Values};
use crate::attend::attended;
use crate::errors::{to_py, InvalidInput};
use crate::files::stored;
use crate::machine::targets;
use crate::settings::Settings;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::functions::{OnlineMachine, OnlineOptions, Task};
use riesz::space::{Budget, Function};

/// An online kernel machine.
#[pyclass(module = "riesz._riesz")]
pub struct Online(OnlineMachine);

/// The settings, of which a few have another form in Python.
fn options(settings: &Bound<'_, PyDict>, targets: usize) -> PyResult<OnlineOptions> {
    let settings = Settings::new(settings)?;
    let classes = settings.take("classes")?.map(|value| value.extract()).transpose()?;
    let kernel = settings.take_named("kernel")?;
    let loss = settings.loss()?;
    let most: Option<usize> = settings.take_number("budget")?;
    let budget = match (most, settings.take_text("drop")?.as_deref()) {
        (None, _) => Budget::Unlimited,
        (Some(most), None | Some("oldest")) => Budget::Oldest(most),
        (Some(most), Some("smallest")) => Budget::Smallest(most),
        (_, Some(other)) => {
            return Err(InvalidInput::new_err(format!("drop = {other:?} is not one of oldest, smallest")))
        }
    };
    let mut options: OnlineOptions = settings.read()?;
    options.task = classes.map_or(Task::Regression(targets), Task::Classification);
    options.kernel = kernel.unwrap_or(options.kernel);
    (options.loss, options.budget) = (loss, budget);
    options.check().map_err(to_py)?;
    Ok(options)
}

#[pymethods]
impl Online {
    /// The machine after its first rows.
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
        let options = options(settings, targets(&y))?;
        let data = training(&x, &y, weights.as_ref())?;
        attended(py, n_jobs, observer.as_ref(), |control| OnlineMachine::begin(&options, &data, control))
            .map(Self)
    }

    /// Predicts each of some rows, then learns from it.
    #[pyo3(signature = (x, y, weights=None, *, n_jobs=None, observer=None))]
    fn learn(
        &mut self,
        py: Python<'_>,
        x: Table<'_>,
        y: Values<'_>,
        weights: Option<Values<'_>>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let data = training(&x, &y, weights.as_ref())?;
        attended(py, n_jobs, observer.as_ref(), |control| self.0.learn(&data, control))
    }

    /// Σ ℓ of the predictions made before learning, less that of fixed values at all rows learnt from.
    #[pyo3(signature = (x, y, values, weights=None))]
    fn regret(
        &self,
        x: Table<'_>,
        y: Values<'_>,
        values: Values<'_>,
        weights: Option<Values<'_>>,
    ) -> PyResult<f64> {
        let data = training(&x, &y, weights.as_ref())?;
        let values = crate::arrays::values("values", &values)?;
        self.0.regret(&data, values).map_err(to_py)
    }

    /// The points of the atoms, M×d, in units of the kernel.
    fn points<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let f = self.0.dictionary();
        matrix(py, f.points().to_vec(), f.len())
    }

    /// The weights of the atoms, M·C numbers.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.0.dictionary().weights().into_pyarray(py)
    }

    /// What was learnt, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (summary, cost, f) = (PyDict::new(py), self.0.progressive(), self.0.dictionary());
        summary.set_item("columns", f.columns())?;
        summary.set_item("outputs", f.outputs())?;
        summary.set_item("atoms", f.len())?;
        summary.set_item("steps", self.0.steps())?;
        summary.set_item("bandwidth", self.0.bandwidth())?;
        summary.set_item("loss", self.0.loss().to_string())?;
        summary.set_item("progressive_loss", cost.loss)?;
        summary.set_item("progressive_weight", cost.weight)?;
        summary.set_item("seed", self.0.options().seed.0)?;
        Ok(summary)
    }
}

stored!(Online, OnlineMachine);

answers! {
    Online:
    /// Values of f, n×C.
    decision = decision -> matrix<f32>;
    /// Predictions of a regression, n×C.
    predict = predict -> matrix<f32>;
    /// Class probabilities, n×K.
    probabilities = probabilities -> matrix<f64>;
}
