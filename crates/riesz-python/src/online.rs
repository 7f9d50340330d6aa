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
use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::functions::{Memory, OnlineMachine, OnlineOptions, Task, Training};
use riesz::loss::LossSpec;
use riesz::space::{Budget, Parsimony};

/// ε of KOMP in steps, where no parsimony is given.
const SHARE: f64 = 0.1;

/// An online kernel machine.
#[pyclass(module = "riesz._riesz")]
pub struct Online(OnlineMachine);

/// One row with its target and weight.
fn one<T>(
    x: &[f32],
    y: &[f32],
    weight: &[f32],
    learn: impl FnOnce(&Training<'_>) -> riesz::Result<T>,
) -> PyResult<T> {
    let rows = Rows::single(x, x.len()).map_err(to_py)?;
    learn(&Training { rows, targets: y, weights: Some(weight) }).map_err(to_py)
}

/// The settings, of which a few have another form in Python.
fn options(settings: &Bound<'_, PyDict>, targets: usize) -> PyResult<OnlineOptions> {
    let settings = Settings::new(settings)?;
    let classes = settings.take("classes")?.map(|value| value.extract()).transpose()?;
    let kernel = settings.take_named("kernel")?;
    let loss = settings.loss()?;
    let memory = memory(&settings)?;
    let constraints = settings.take("constraints")?;
    let step = settings.take_unless_auto("step")?;
    let mut options: OnlineOptions = settings.read()?;
    options.task = classes.map_or(Task::Regression(targets), Task::Classification);
    options.kernel = kernel.unwrap_or(options.kernel);
    (options.loss, options.memory) = (loss, memory);
    if let Some(step) = step {
        (options.step, options.adaptive) = (step, false);
    }
    options.constraints = constraints.map_or_else(|| Ok(Vec::new()), |list| specs(&list))?;
    options.check().map_err(to_py)?;
    Ok(options)
}

/// What is kept, and how much of it: features, or atoms and which of them.
fn memory(settings: &Settings<'_>) -> PyResult<Memory> {
    let refused = |message: &str| Err(InvalidInput::new_err(message.to_owned()));
    let auto = settings.contains("budget")?;
    let (memory, most) = (settings.take_text("memory")?, settings.take_unless_auto("budget")?);
    let (drop, parsimony) = (settings.take_text("drop")?, settings.take_real("parsimony")?);
    match (memory.as_deref(), most) {
        (Some("dictionary"), _) => {
            let usual = if settings.contains("constraints")? { "komp" } else { "oldest" };
            let most = most.or(auto.then_some(Memory::ATOMS));
            budget(drop.as_deref().unwrap_or(usual), most, parsimony).map(Memory::Dictionary)
        }
        (None | Some("features"), _) if drop.is_some() || parsimony.is_some() => {
            refused("drop and parsimony are about rows kept; give memory = \"dictionary\" too")
        }
        (None | Some("features"), Some(least)) => Ok(Memory::features(least)),
        (None | Some("features"), None) if auto => Ok(Memory::Features(Memory::FEATURES)),
        (None | Some("features"), None) => {
            refused("budget = None keeps all rows; give a number of features, or memory = \"dictionary\" too")
        }
        (Some(other), _) => refused(&format!("memory = {other:?} is not one of dictionary, features")),
    }
}

/// Which atoms are kept.
fn budget(drop: &str, most: Option<usize>, parsimony: Option<f64>) -> PyResult<Budget> {
    match (drop, most) {
        ("oldest" | "smallest", _) if parsimony.is_some() => {
            Err(InvalidInput::new_err("parsimony is about drop = \"komp\"; give that too"))
        }
        ("komp", most) => {
            let error = parsimony.map_or(Parsimony::Share(SHARE), Parsimony::Square);
            Ok(Budget::Komp { error, most: most.unwrap_or(usize::MAX) })
        }
        ("oldest" | "smallest", None) => Ok(Budget::Unlimited),
        ("oldest", Some(most)) => Ok(Budget::Oldest(most)),
        ("smallest", Some(most)) => Ok(Budget::Smallest(most)),
        (other, _) => {
            let message = format!("drop = {other:?} is not one of oldest, smallest, komp");
            Err(InvalidInput::new_err(message))
        }
    }
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
    /// The machine after its first row.
    #[staticmethod]
    #[pyo3(signature = (x, y, weight, *, settings))]
    fn begin_one(x: Vec<f32>, y: f32, weight: f32, settings: &Bound<'_, PyDict>) -> PyResult<Self> {
        let options = options(settings, 1)?;
        one(&x, &[y], &[weight], |data| quietly(|control| OnlineMachine::begin(&options, data, control)))
            .map(Self)
    }

    /// Learns from one row, without leaving the calling thread.
    fn learn_one(&mut self, x: Vec<f32>, y: f32, weight: f32) -> PyResult<()> {
        one(&x, &[y], &[weight], |data| quietly(|control| self.0.learn(data, control)))
    }

    /// Values of f at one row.
    fn decision_one(&self, x: Vec<f32>) -> PyResult<Vec<f32>> {
        Rows::single(&x, x.len()).and_then(|rows| self.0.decision(rows)).map_err(to_py)
    }

    /// The predictions of a regression at one row.
    fn predict_one(&self, x: Vec<f32>) -> PyResult<Vec<f32>> {
        Rows::single(&x, x.len()).and_then(|rows| self.0.predict(rows)).map_err(to_py)
    }

    /// Class probabilities at one row.
    fn probabilities_one(&self, x: Vec<f32>) -> PyResult<Vec<f64>> {
        Rows::single(&x, x.len()).and_then(|rows| self.0.probabilities(rows)).map_err(to_py)
    }

    /// Makes room for further classes, so many in all.
    fn grow_classes(&mut self, classes: usize) -> PyResult<()> {
        self.0.grow_classes(classes).map_err(to_py)
    }

    /// Makes room for further columns at these places; whether there is room.
    fn add_columns(&mut self, places: Vec<usize>) -> PyResult<bool> {
        self.0.add_columns(&places).map_err(to_py)
    }

    /// Names of the classes, for those who read the file without Python.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.0.class_names().to_vec()
    }

    #[setter]
    fn set_class_names(&mut self, names: Vec<String>) -> PyResult<()> {
        self.0.set_class_names(names).map_err(to_py)
    }

    /// Predicts each of some rows, then learns from it; returns the predictions, or values of f for classes, n×C.
    #[pyo3(signature = (x, y, weights=None, *, n_jobs=None))]
    fn learn_telling<'py>(
        &mut self,
        py: Python<'py>,
        x: Table<'_>,
        y: Values<'_>,
        weights: Option<Values<'_>>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (data, mut told) = (training(&x, &y, weights.as_ref())?, Vec::new());
        let rows = data.rows.len();
        attended(py, n_jobs, None, |control| self.0.learn_telling(&data, Some(&mut told), control))?;
        if let Task::Regression(_) = self.0.options().task {
            self.0.make_predictions(&mut told).map_err(to_py)?;
        }
        matrix(py, told, rows)
    }

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
        let points = self.0.dictionary().map_or_else(Vec::new, |f| f.points().to_vec());
        let atoms = points.len() / self.0.columns();
        matrix(py, points, atoms)
    }

    /// The weights of the atoms, M·C numbers.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.0.weights().into_pyarray(py)
    }

    /// What was learnt, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (summary, cost) = (PyDict::new(py), self.0.progressive());
        summary.set_item("columns", self.0.columns())?;
        summary.set_item("outputs", self.0.outputs())?;
        summary.set_item("atoms", self.0.atoms())?;
        summary.set_item("shares", self.0.shares())?;
        summary.set_item("steps", self.0.steps())?;
        summary.set_item("bandwidth", self.0.bandwidth())?;
        summary.set_item("loss", self.0.loss().to_string())?;
        summary.set_item("progressive_loss", cost.loss)?;
        summary.set_item("progressive_weight", cost.weight)?;
        summary.set_item("seed", self.0.options().seed.0)?;
        if let Task::Classification(classes) = self.0.options().task {
            summary.set_item("classes", classes)?;
        }
        if let Some(drift) = self.0.dictionary().and_then(|f| f.drift()) {
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
