//! The class `Online`: an online kernel machine.

use crate::arrays::{answers, matrix, training, Table, Values};
use crate::attend::attended;
use crate::errors::{to_py, InvalidInput};
use crate::files::stored;
use crate::machine::targets;
use crate::settings::{named, Settings};
use numpy::{IntoPyArray, PyArray1, PyArray2, ToPyArray};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::constraint::{ConstraintSpec, UserQuantity};
use riesz::functions::{OnlineMachine, OnlineOptions, Task};
use riesz::loss::LossSpec;
use riesz::space::{Budget, Function, Parsimony};

/// ε of KOMP in steps, where no parsimony is given.
const SHARE: f64 = 0.1;

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
    let parsimony: Option<f64> = settings.take_real("parsimony")?;
    let constraints = settings.take("constraints")?;
    let budget = match (most, settings.take_text("drop")?.as_deref()) {
        (most, Some("komp")) => Budget::Komp {
            error: parsimony.map_or(Parsimony::Share(SHARE), Parsimony::Square),
            most: most.unwrap_or(usize::MAX),
        },
        (None, None | Some("oldest" | "smallest")) => Budget::Unlimited,
        (Some(most), None | Some("oldest")) => Budget::Oldest(most),
        (Some(most), Some("smallest")) => Budget::Smallest(most),
        (_, Some(other)) => {
            return Err(InvalidInput::new_err(format!(
                "drop = {other:?} is not one of oldest, smallest, komp"
            )))
        }
    };
    let mut options: OnlineOptions = settings.read()?;
    options.task = classes.map_or(Task::Regression(targets), Task::Classification);
    options.kernel = kernel.unwrap_or(options.kernel);
    (options.loss, options.budget) = (loss, budget);
    options.constraints = constraints.map_or_else(|| Ok(Vec::new()), |list| specs(&list))?;
    options.check().map_err(to_py)?;
    Ok(options)
}

/// Constraints as pairs of their settings in JSON and a function, or none.
fn specs(list: &Bound<'_, PyAny>) -> PyResult<Vec<ConstraintSpec>> {
    let pairs: Vec<(String, Option<Py<PyAny>>)> = list.extract()?;
    pairs.into_iter().map(|(text, function)| spec(&text, function)).collect()
}

fn spec(text: &str, function: Option<Py<PyAny>>) -> PyResult<ConstraintSpec> {
    let unread = |error: serde_json::Error| InvalidInput::new_err(format!("constraints: {error}"));
    let mut settings: serde_json::Value = serde_json::from_str(text).map_err(unread)?;
    name_losses(&mut settings)?;
    let mut spec: ConstraintSpec = serde_json::from_value(settings).map_err(unread)?;
    if let (Some(user), Some(function)) = (spec.user_quantity(), function) {
        let name = user.name().to_owned();
        *user = UserQuantity::new(name, move |u, y, slope| {
            Python::attach(|py| ask(function.bind(py), u, y, slope)).map_err(Into::into)
        });
    }
    Ok(spec)
}

/// Losses by their names, with a parameter after `=`, become what files call them.
fn name_losses(settings: &mut serde_json::Value) -> PyResult<()> {
    let Some(fields) = settings.as_object_mut() else { return Ok(()) };
    for (name, value) in fields {
        match value.as_str() {
            Some(text) if name == "loss" => {
                let loss: LossSpec = named(text)?;
                *value = serde_json::to_value(loss)
                    .map_err(|error| InvalidInput::new_err(format!("constraints: {error}")))?;
            }
            _ => name_losses(value)?,
        }
    }
    Ok(())
}

/// What a function says of (u, y): g, and its slope.
fn ask(function: &Bound<'_, PyAny>, u: &[f32], y: &[f32], slope: &mut [f32]) -> PyResult<f64> {
    let target = y.first().copied().unwrap_or_default();
    let answer = function.call1((u.to_pyarray(function.py()), target))?;
    let (value, found): (f64, Vec<f32>) = answer.extract().map_err(|_| {
        InvalidInput::new_err("the function of a constraint should return g and its slope in the values")
    })?;
    if found.len() != slope.len() {
        return Err(InvalidInput::new_err(format!(
            "the function of a constraint returned a slope of {} numbers for {} values",
            found.len(),
            slope.len()
        )));
    }
    slope.copy_from_slice(&found);
    Ok(value)
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

    /// Gives functions in constraints again.
    fn set_constraints(&mut self, constraints: &Bound<'_, PyAny>) -> PyResult<()> {
        self.0.set_constraints(specs(constraints)?).map_err(to_py)
    }

    /// Multiplier, auxiliary scalar and running mean of each constraint.
    fn constraints(&self) -> PyResult<Vec<(f64, f64, f64)>> {
        let states = self.0.constraints().map_err(to_py)?;
        Ok(states.iter().map(|state| (state.multiplier, state.auxiliary, state.value)).collect())
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
        if let Some(drift) = f.drift() {
            summary.set_item("inverse_changes", drift.changes)?;
            summary.set_item("inverse_refreshes", drift.refreshes)?;
            summary.set_item("inverse_drift", drift.worst)?;
        }
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
