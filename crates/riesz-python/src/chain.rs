//! The class `Chain`: hitting times between the states of a finite chain.

use crate::arrays::{values, vector};
use crate::attend::detached;
use crate::files::stored;
use numpy::{Ix1, PyArray1, PyReadonlyArray};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::dynamics::hitting_time::HittingTime;

/// Borrowed numbers of states.
type States<'py> = PyReadonlyArray<'py, u32, Ix1>;

/// Hitting times between the states of a finite chain.
#[pyclass(module = "riesz._riesz")]
pub struct Chain(HittingTime);

#[pymethods]
impl Chain {
    /// Learns from transitions between the states 0, 1, …, all of them seen.
    #[staticmethod]
    #[pyo3(signature = (states, next_states, *, n_jobs=None))]
    fn fit(
        py: Python<'_>,
        states: States<'_>,
        next_states: States<'_>,
        n_jobs: Option<isize>,
    ) -> PyResult<Self> {
        let (from, to) = (values("states", &states)?, values("next_states", &next_states)?);
        detached(py, n_jobs, || HittingTime::fit(from, to)).map(Self)
    }

    /// Expected steps from each of some states to the other at its side.
    fn expected<'py>(
        &self,
        py: Python<'py>,
        states: States<'_>,
        targets: States<'_>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (from, to) = (values("states", &states)?, values("targets", &targets)?);
        let times = || from.iter().zip(to).map(|(&s, &t)| self.0.expected(s, t)).collect();
        let found: Vec<f64> = detached(py, None, times)?;
        vector(py, found, from.len())
    }

    /// The stationary distribution.
    fn stationary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let shares = self.0.stationary().to_vec();
        vector(py, shares, self.0.states())
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = PyDict::new(py);
        summary.set_item("columns", 1)?;
        summary.set_item("states", self.0.states())?;
        summary.set_item("transitions", self.0.transitions())?;
        Ok(summary)
    }
}

stored!(Chain, HittingTime);
