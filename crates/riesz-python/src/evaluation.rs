//! The class `Evaluation`: an evaluated policy.

use crate::arrays::{matrix, values, vector, Table, Values};
use crate::attend::{attended, detached};
use crate::errors::to_py;
use crate::files::{dictionary, stored};
use crate::settings::Settings;
use numpy::{Ix1, Ix2, PyArray1, PyArray2, PyReadonlyArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::driver::CheckpointPolicy;
use riesz::dynamics::policy_evaluation::{EvaluationOptions, Improvement, Log, PolicyEvaluation, Successors};

/// Borrowed truth values, one a row.
type Flags<'py> = PyReadonlyArray<'py, bool, Ix1>;
/// Borrowed probabilities of each action, a row each.
type Probabilities<'py> = PyReadonlyArray<'py, f32, Ix2>;

/// An evaluated policy.
#[pyclass(module = "riesz._riesz")]
pub struct Evaluation(PolicyEvaluation);

/// The log that arguments of these names are of.
macro_rules! log {
    ($states:ident, $rewards:ident, $next_states:ident, $terminals:ident, $actions:ident, $truncations:ident, $discounts:ident, $weights:ident, $next_actions:ident, $probabilities:ident) => {
        Log {
            states: $states.rows()?,
            actions: $actions.as_ref().map(Table::rows).transpose()?,
            rewards: values("rewards", &$rewards)?,
            next_states: $next_states.rows()?,
            terminals: values("terminals", &$terminals)?,
            truncations: $truncations.as_ref().map(|cut| values("truncations", cut)).transpose()?,
            discounts: $discounts.as_ref().map(|own| values("discounts", own)).transpose()?,
            ratios: $weights.as_ref().map(|ratios| values("weights", ratios)).transpose()?,
            successors: successors($next_actions.as_ref(), $probabilities.as_ref())?,
        }
    };
}

#[pymethods]
impl Evaluation {
    /// Evaluates a policy on logged transitions.
    #[staticmethod]
    #[pyo3(signature = (states, rewards, next_states, terminals, *, settings, actions=None, truncations=None, discounts=None, weights=None, next_actions=None, next_action_probabilities=None, n_jobs=None, observer=None))]
    #[allow(clippy::too_many_arguments)]
    fn fit(
        py: Python<'_>,
        states: Table<'_>,
        rewards: Values<'_>,
        next_states: Table<'_>,
        terminals: Flags<'_>,
        settings: &Bound<'_, PyDict>,
        actions: Option<Table<'_>>,
        truncations: Option<Flags<'_>>,
        discounts: Option<Values<'_>>,
        weights: Option<Values<'_>>,
        next_actions: Option<Table<'_>>,
        next_action_probabilities: Option<Probabilities<'_>>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (options, checkpoint) = options(settings)?;
        let log = log!(
            states,
            rewards,
            next_states,
            terminals,
            actions,
            truncations,
            discounts,
            weights,
            next_actions,
            next_action_probabilities
        );
        attended(py, n_jobs, observer.as_ref(), |control| {
            control.checkpoint = checkpoint;
            PolicyEvaluation::fit(&options, &log, control)
        })
        .map(Self)
    }

    /// Evaluates a policy on the first transitions of a stream.
    #[staticmethod]
    #[pyo3(signature = (states, rewards, next_states, terminals, *, settings, actions=None, truncations=None, discounts=None, weights=None, next_actions=None, next_action_probabilities=None, n_jobs=None, observer=None))]
    #[allow(clippy::too_many_arguments)]
    fn begin(
        py: Python<'_>,
        states: Table<'_>,
        rewards: Values<'_>,
        next_states: Table<'_>,
        terminals: Flags<'_>,
        settings: &Bound<'_, PyDict>,
        actions: Option<Table<'_>>,
        truncations: Option<Flags<'_>>,
        discounts: Option<Values<'_>>,
        weights: Option<Values<'_>>,
        next_actions: Option<Table<'_>>,
        next_action_probabilities: Option<Probabilities<'_>>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (options, checkpoint) = options(settings)?;
        let log = log!(
            states,
            rewards,
            next_states,
            terminals,
            actions,
            truncations,
            discounts,
            weights,
            next_actions,
            next_action_probabilities
        );
        attended(py, n_jobs, observer.as_ref(), |control| {
            control.checkpoint = checkpoint;
            PolicyEvaluation::begin(&options, &log, control)
        })
        .map(Self)
    }

    /// Improves a policy until its best actions change no more.
    #[staticmethod]
    #[pyo3(signature = (states, rewards, next_states, terminals, *, settings, actions, n_actions, exploration, rounds, tolerance, truncations=None, n_jobs=None, observer=None))]
    #[allow(clippy::too_many_arguments)]
    fn improve(
        py: Python<'_>,
        states: Table<'_>,
        rewards: Values<'_>,
        next_states: Table<'_>,
        terminals: Flags<'_>,
        settings: &Bound<'_, PyDict>,
        actions: Table<'_>,
        n_actions: usize,
        exploration: f64,
        rounds: usize,
        tolerance: f64,
        truncations: Option<Flags<'_>>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (options, _) = options(settings)?;
        let log = Log {
            states: states.rows()?,
            actions: Some(actions.rows()?),
            rewards: values("rewards", &rewards)?,
            next_states: next_states.rows()?,
            terminals: values("terminals", &terminals)?,
            truncations: truncations.as_ref().map(|cut| values("truncations", cut)).transpose()?,
            discounts: None,
            ratios: None,
            successors: Successors::Unknown,
        };
        let improvement = Improvement { actions: n_actions, exploration, rounds, tolerance };
        attended(py, n_jobs, observer.as_ref(), |control| {
            PolicyEvaluation::improve(&options, improvement, &log, control)
        })
        .map(Self)
    }

    /// Values of all of so many actions, a row for each state.
    #[pyo3(signature = (states, count, *, n_jobs=None))]
    fn action_values<'py>(
        &self,
        py: Python<'py>,
        states: Table<'_>,
        count: usize,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let rows = states.rows()?;
        let found = detached(py, n_jobs, || self.0.action_values(rows, count))?;
        matrix(py, found, rows.len())
    }

    /// Probabilities of the actions of an improved policy, a row for each state.
    #[pyo3(signature = (states, *, n_jobs=None))]
    fn improved_policy<'py>(
        &self,
        py: Python<'py>,
        states: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let rows = states.rows()?;
        let found = detached(py, n_jobs, || self.0.improved_policy(rows))?;
        matrix(py, found, rows.len())
    }

    /// Its best actions.
    #[pyo3(signature = (states, *, n_jobs=None))]
    fn best_actions<'py>(
        &self,
        py: Python<'py>,
        states: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let rows = states.rows()?;
        let found = detached(py, n_jobs, || self.0.best_actions(rows))?;
        vector(py, found.into_iter().map(|a| a as i64).collect(), rows.len())
    }

    /// Learns from further ones.
    #[pyo3(signature = (states, rewards, next_states, terminals, *, actions=None, truncations=None, discounts=None, weights=None, next_actions=None, next_action_probabilities=None, n_jobs=None, observer=None))]
    #[allow(clippy::too_many_arguments)]
    fn partial_fit(
        &mut self,
        py: Python<'_>,
        states: Table<'_>,
        rewards: Values<'_>,
        next_states: Table<'_>,
        terminals: Flags<'_>,
        actions: Option<Table<'_>>,
        truncations: Option<Flags<'_>>,
        discounts: Option<Values<'_>>,
        weights: Option<Values<'_>>,
        next_actions: Option<Table<'_>>,
        next_action_probabilities: Option<Probabilities<'_>>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let log = log!(
            states,
            rewards,
            next_states,
            terminals,
            actions,
            truncations,
            discounts,
            weights,
            next_actions,
            next_action_probabilities
        );
        attended(py, n_jobs, observer.as_ref(), |control| self.0.partial_fit(&log, control))
    }

    /// Values of states, or of what is done there.
    #[pyo3(signature = (states, actions=None, probabilities=None, *, n_jobs=None))]
    fn value<'py>(
        &self,
        py: Python<'py>,
        states: Table<'_>,
        actions: Option<Table<'_>>,
        probabilities: Option<Probabilities<'_>>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (rows, policy) = (states.rows()?, successors(actions.as_ref(), probabilities.as_ref())?);
        let found = detached(py, n_jobs, || self.0.value(rows, policy))?;
        vector(py, found, rows.len())
    }

    /// Their standard errors.
    #[pyo3(signature = (states, actions=None, probabilities=None, *, n_jobs=None))]
    fn standard_errors<'py>(
        &self,
        py: Python<'py>,
        states: Table<'_>,
        actions: Option<Table<'_>>,
        probabilities: Option<Probabilities<'_>>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (rows, policy) = (states.rows()?, successors(actions.as_ref(), probabilities.as_ref())?);
        let found = detached(py, n_jobs, || self.0.standard_errors(rows, policy))?;
        vector(py, found, rows.len())
    }

    /// The value where episodes begin, and the ends of an interval.
    #[pyo3(signature = (states=None, actions=None, probabilities=None, *, confidence, n_jobs=None))]
    fn estimate(
        &self,
        py: Python<'_>,
        states: Option<Table<'_>>,
        actions: Option<Table<'_>>,
        probabilities: Option<Probabilities<'_>>,
        confidence: f64,
        n_jobs: Option<isize>,
    ) -> PyResult<(f64, f64, f64)> {
        let policy = successors(actions.as_ref(), probabilities.as_ref())?;
        let initial = states.as_ref().map(Table::rows).transpose()?.map(|rows| (rows, policy));
        let found = detached(py, n_jobs, || self.0.estimate(initial, confidence))?;
        Ok((found.value, found.low, found.high))
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionary(py, &self.0.summary())
    }
}

fn options(settings: &Bound<'_, PyDict>) -> PyResult<(EvaluationOptions, Option<CheckpointPolicy>)> {
    let settings = Settings::new(settings)?;
    let checkpoint = settings.checkpoint()?;
    let kernel = settings.take_named("kernel")?;
    let mut options: EvaluationOptions = settings.read()?;
    options.kernel = kernel.unwrap_or(options.kernel);
    options.check().map_err(to_py)?;
    Ok((options, checkpoint))
}

/// What is known of the actions of a policy.
fn successors<'a>(
    actions: Option<&'a Table<'_>>,
    probabilities: Option<&'a Probabilities<'_>>,
) -> PyResult<Successors<'a>> {
    Ok(match (actions, probabilities) {
        (_, Some(p)) => Successors::Probabilities(values("probabilities", p)?, p.shape()[1]),
        (Some(actions), None) => Successors::Actions(actions.rows()?),
        (None, None) => Successors::Unknown,
    })
}

stored!(Evaluation, PolicyEvaluation);
