//! The class `Environment`: a Markov decision process that is simulated many rows at a time.

use crate::arrays::{matrix, values};
use crate::attend::{attended, detached};
use crate::errors::{to_py, InvalidInput};
use numpy::{
    IntoPyArray, Ix2, PyArray1, PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::dynamics::environment::{named, steps_until, Environment as Process, Normal, Rollouts, Step};
use riesz::random::Seed;

/// Rows of numbers in double precision.
type Table<'py> = PyReadonlyArray<'py, f64, Ix2>;
/// Next states, rewards, and whether the next states are terminal.
type Answer<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<bool>>);
/// States and actions.
type Asked<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>);
/// γ^t at which a return is complete unless the caller says otherwise.
const REST: f64 = 1e-4;

/// A Markov decision process, and a policy of it.
#[pyclass(module = "riesz._riesz", frozen)]
pub struct Environment(Box<dyn Process>);

/// The numbers of rows that should have `columns` columns.
fn rows<'a>(what: &str, table: &'a Table<'_>, columns: usize) -> PyResult<&'a [f64]> {
    match table.shape()[1] {
        found if found == columns => values(what, table),
        found => Err(InvalidInput::new_err(format!("{what} has {found} columns, expected {columns}"))),
    }
}

fn answer(py: Python<'_>, step: Step) -> PyResult<Answer<'_>> {
    let n = step.rewards.len();
    Ok((matrix(py, step.next_states, n)?, step.rewards.into_pyarray(py), step.terminated.into_pyarray(py)))
}

#[pymethods]
impl Environment {
    /// The environment of a name.
    #[staticmethod]
    fn named(name: &str) -> PyResult<Self> {
        named(name).map(Self).map_err(to_py)
    }

    /// Its constants, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (summary, law) = (PyDict::new(py), |law: Normal| (law.center.to_vec(), law.deviation.to_vec()));
        summary.set_item("name", self.0.name())?;
        summary.set_item("state_columns", self.0.state_columns())?;
        summary.set_item("action_columns", self.0.action_columns())?;
        summary.set_item("discount", self.0.discount())?;
        summary.set_item("action_limits", self.0.action_limits())?;
        summary.set_item("noise", self.0.noise())?;
        summary.set_item("start", law(self.0.start()))?;
        summary.set_item("sampling", law(self.0.sampling()))?;
        Ok(summary)
    }

    /// First states of episodes, n×d.
    #[pyo3(signature = (n, *, seed, episode=0, n_jobs=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        seed: u64,
        episode: u64,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        matrix(py, detached(py, n_jobs, || self.0.reset(n, Seed(seed), episode))?, n)
    }

    /// States of the sampling law, n×d.
    #[pyo3(signature = (n, *, seed, n_jobs=None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        seed: u64,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        matrix(py, detached(py, n_jobs, || self.0.sample(n, Seed(seed)))?, n)
    }

    /// Actions of the policy, n×p.
    #[pyo3(signature = (states, *, n_jobs=None))]
    fn actions<'py>(
        &self,
        py: Python<'py>,
        states: Table<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let asked = rows("states", &states, self.0.state_columns())?;
        matrix(py, detached(py, n_jobs, || self.0.actions(asked))?, states.shape()[0])
    }

    /// One step of every row.
    #[pyo3(signature = (states, actions, *, seed, step=0, n_jobs=None))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        states: Table<'_>,
        actions: Table<'_>,
        seed: u64,
        step: u64,
        n_jobs: Option<isize>,
    ) -> PyResult<Answer<'py>> {
        let states = rows("states", &states, self.0.state_columns())?;
        let actions = rows("actions", &actions, self.0.action_columns())?;
        answer(py, detached(py, n_jobs, || self.0.step(states, actions, Seed(seed), step))?)
    }

    /// Independent transitions under the policy.
    #[pyo3(signature = (n, *, seed, n_jobs=None))]
    fn transitions<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        seed: u64,
        n_jobs: Option<isize>,
    ) -> PyResult<(Asked<'py>, Answer<'py>)> {
        let seen = detached(py, n_jobs, || self.0.transitions(n, Seed(seed)))?;
        Ok(((matrix(py, seen.states, n)?, matrix(py, seen.actions, n)?), answer(py, seen.step)?))
    }

    /// Next states of each state under the policy, n×k×d.
    #[pyo3(signature = (states, k, *, seed, n_jobs=None))]
    fn next_states<'py>(
        &self,
        py: Python<'py>,
        states: Table<'_>,
        k: usize,
        seed: u64,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let (n, d) = (states.shape()[0], self.0.state_columns());
        let asked = rows("states", &states, d)?;
        let found = detached(py, n_jobs, || self.0.next_states(asked, k, Seed(seed)))?;
        found.into_pyarray(py).reshape([n, k, d])
    }

    /// Values of states under the policy and their standard errors, by simulation.
    #[pyo3(signature = (states, *, rollouts, steps=None, discount=None, seed, n_jobs=None))]
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn values<'py>(
        &self,
        py: Python<'py>,
        states: Table<'_>,
        rollouts: usize,
        steps: Option<usize>,
        discount: Option<f64>,
        seed: u64,
        n_jobs: Option<isize>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>)> {
        let asked = rows("states", &states, self.0.state_columns())?;
        let discount = discount.unwrap_or_else(|| self.0.discount());
        let steps = steps.map_or_else(|| steps_until(discount, REST), Ok).map_err(to_py)?;
        let rollouts = Rollouts { rollouts, steps, discount, seed: Seed(seed) };
        let found = attended(py, n_jobs, None, |control| self.0.values(asked, &rollouts, control))?;
        Ok((found.values.into_pyarray(py), found.standard_errors.into_pyarray(py)))
    }
}
