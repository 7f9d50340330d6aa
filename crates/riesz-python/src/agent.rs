//! The class `Agent`: it acts, remembers and learns by SBEED.

use crate::arrays::{matrix, values};
use crate::attend::{attended, detached};
use crate::errors::{to_py, InvalidInput};
use crate::files::stored;
use numpy::{IntoPyArray, Ix1, Ix2, PyArray1, PyArray2, PyReadonlyArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::dynamics::sbeed::{Actions, After, Options, Sbeed, Steps};
use riesz::random::Seed;
use serde_json::Value;

/// An agent.
#[pyclass(module = "riesz._riesz")]
pub struct Agent(Sbeed);

type Singles<'py> = PyReadonlyArray<'py, f32, Ix2>;
type Table<'py> = PyReadonlyArray<'py, f64, Ix2>;
type Numbers<'py> = PyReadonlyArray<'py, f64, Ix1>;
type Flags<'py> = PyReadonlyArray<'py, bool, Ix1>;
type Column<'py> = Bound<'py, PyArray1<f64>>;
type Drawn<'py> = (Bound<'py, PyArray2<f64>>, Column<'py>, Bound<'py, PyArray2<f64>>);

/// The settings of a form, some of them replaced: `changes` is JSON, an object of values by their dotted places.
fn options(form: &str, seed: u64, changes: &str) -> PyResult<Options> {
    let options = match form {
        "stabilised" => Options::new(Seed(seed)),
        "published" => Options::published(Seed(seed)),
        _ => {
            return Err(InvalidInput::new_err(format!("form = {form:?} is not one of stabilised, published")))
        }
    };
    let unread = |error: serde_json::Error| InvalidInput::new_err(error.to_string());
    let mut all = serde_json::to_value(&options).map_err(unread)?;
    let changes: Value = serde_json::from_str(changes).map_err(unread)?;
    for (place, value) in changes.as_object().into_iter().flatten() {
        match all.pointer_mut(&format!("/{}", place.replace('.', "/"))) {
            Some(own) => *own = value.clone(),
            None => return Err(InvalidInput::new_err(format!("there is no setting {place}"))),
        }
    }
    serde_json::from_value(all).map_err(unread)
}

/// Bounds of columns, or how many actions there are and the first of them.
#[derive(FromPyObject)]
enum ActionSpace {
    #[pyo3(transparent)]
    Box((Vec<f64>, Vec<f64>)),
    #[pyo3(transparent)]
    Discrete((usize, i64)),
}

#[pymethods]
impl Agent {
    /// An agent that knows nothing, for observations of `columns` numbers.
    #[new]
    fn new(form: &str, columns: usize, actions: ActionSpace, seed: u64, changes: &str) -> PyResult<Self> {
        let actions = match actions {
            ActionSpace::Box((low, high)) => Actions::Box { low, high },
            ActionSpace::Discrete((count, start)) => Actions::Discrete { count, start },
        };
        Sbeed::new(options(form, seed, changes)?, columns, actions).map(Self).map_err(to_py)
    }

    /// Draws actions: as they are remembered, their log-probabilities, and as they are taken.
    fn act<'py>(&mut self, py: Python<'py>, observations: Singles<'_>) -> PyResult<Drawn<'py>> {
        let n = observations.shape()[0];
        let acted = self.0.act(values("observations", &observations)?).map_err(to_py)?;
        let taken = matrix(py, acted.taken, n)?;
        Ok((matrix(py, acted.actions, n)?, acted.log_probabilities.into_pyarray(py), taken))
    }

    /// Actions as they are taken: the likeliest, or those of a numbered draw.
    #[pyo3(signature = (observations, draw=None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        observations: Singles<'_>,
        draw: Option<u64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let n = observations.shape()[0];
        matrix(py, self.0.predict(values("observations", &observations)?, draw).map_err(to_py)?, n)
    }

    /// V of observations.
    fn values<'py>(&self, py: Python<'py>, observations: Singles<'_>) -> PyResult<Column<'py>> {
        let found = self.0.values(values("observations", &observations)?).map_err(to_py)?;
        Ok(found.into_pyarray(py))
    }

    /// Remembers one step of each of some environments.
    #[pyo3(signature = (environments, observations, actions, log_probabilities, rewards, next_observations, terminated, truncated))]
    #[allow(clippy::too_many_arguments)]
    fn observe(
        &mut self,
        environments: Vec<usize>,
        observations: Singles<'_>,
        actions: Table<'_>,
        log_probabilities: Option<Numbers<'_>>,
        rewards: Numbers<'_>,
        next_observations: Singles<'_>,
        terminated: Flags<'_>,
        truncated: Flags<'_>,
    ) -> PyResult<()> {
        let ends = values("terminated", &terminated)?.iter().zip(values("truncated", &truncated)?);
        let after: Vec<After> = ends
            .map(|ends| match ends {
                (true, _) => After::End,
                (false, true) => After::Unseen,
                (false, false) => After::Step,
            })
            .collect();
        let known = log_probabilities.as_ref().map(|log| values("log_probabilities", log)).transpose()?;
        let steps = Steps {
            lanes: &environments,
            states: values("observations", &observations)?,
            actions: values("actions", &actions)?,
            log_behaviour: known,
            rewards: values("rewards", &rewards)?,
            next_states: values("next_observations", &next_observations)?,
            after: &after,
        };
        self.0.observe(&steps).map_err(to_py)
    }

    /// Actions as they are remembered, from those that were taken.
    fn drawn<'py>(&self, py: Python<'py>, taken: Table<'_>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let n = taken.shape()[0];
        matrix(py, self.0.actions().drawn(values("actions", &taken)?), n)
    }

    /// Breaks off every episode where it stands.
    fn break_off(&mut self) {
        self.0.break_off();
    }

    /// Learns from what is remembered; facts about every iteration by name.
    #[pyo3(signature = (progress, *, n_jobs=None))]
    fn learn<'py>(
        &mut self,
        py: Python<'py>,
        progress: f64,
        n_jobs: Option<isize>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let agent = &mut self.0;
        let facts = attended(py, n_jobs, None, |control| agent.learn(progress, control))?;
        let one = |fact: &riesz::dynamics::sbeed::Progressed| {
            let named = PyDict::new(py);
            named.set_item("objective", fact.objective)?;
            named.set_item("explained_variance", 1.0 - fact.unexplained)?;
            named.set_item("divergence", fact.divergence)?;
            named.set_item("step", fact.size)?;
            named.set_item("entropy", fact.entropy)?;
            Ok(named)
        };
        facts.iter().map(one).collect()
    }

    /// The same agent without the steps it remembers.
    fn without_replay(&self, py: Python<'_>) -> PyResult<Self> {
        detached(py, None, || self.0.without_replay()).map(Self)
    }

    /// What it is, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = PyDict::new(py);
        summary.set_item("columns", self.0.columns())?;
        match self.0.actions() {
            Actions::Box { low, high } => summary.set_item("box", (low.clone(), high.clone()))?,
            Actions::Discrete { count, start } => summary.set_item("discrete", (count, start))?,
        }
        summary.set_item("updates", self.0.updates())?;
        summary.set_item("remembered", self.0.replay().len())?;
        summary.set_item("environments", self.0.replay().lanes())?;
        summary.set_item("log_std", self.0.log_deviation())?;
        Ok(summary)
    }
}

stored!(Agent, Sbeed);
