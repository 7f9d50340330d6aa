//! Random features as NumPy arrays.

use crate::arrays::{matrix, Table};
use crate::attend::detached;
use crate::errors::to_py;
use crate::kernel::kernel_of;
use crate::settings::bandwidth_of;
use numpy::PyArray2;
use pyo3::prelude::*;
use riesz::functions::RandomFeatures;
use riesz::random::Seed;

/// Settles the bandwidth for `x`; returns it and what is subtracted from each column.
#[pyfunction]
#[pyo3(signature = (x, *, kernel, bandwidth, n_components, seed, n_jobs=None))]
pub fn fit_features(
    py: Python<'_>,
    x: Table<'_>,
    kernel: &Bound<'_, PyAny>,
    bandwidth: &Bound<'_, PyAny>,
    n_components: usize,
    seed: u64,
    n_jobs: Option<isize>,
) -> PyResult<(f64, Vec<f32>)> {
    let (kernel, bandwidth, rows) = (kernel_of(kernel)?, bandwidth_of(bandwidth)?, x.rows()?);
    let fit = || RandomFeatures::fit(kernel, bandwidth, n_components, Seed(seed), rows);
    let fitted = detached(py, n_jobs, fit)?;
    Ok((fitted.bandwidth(), fitted.shift().to_vec()))
}

/// The random features of `x`, one row each.
#[pyfunction]
#[pyo3(signature = (x, *, kernel, bandwidth, shift, n_components, seed, n_jobs=None))]
#[allow(clippy::too_many_arguments)]
pub fn transform_features<'py>(
    py: Python<'py>,
    x: Table<'_>,
    kernel: &Bound<'_, PyAny>,
    bandwidth: f64,
    shift: Vec<f32>,
    n_components: usize,
    seed: u64,
    n_jobs: Option<isize>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let (kernel, rows) = (kernel_of(kernel)?, x.rows()?);
    let map = RandomFeatures::new(kernel, bandwidth, n_components, Seed(seed), shift).map_err(to_py)?;
    let values = detached(py, n_jobs, || map.transform(rows))?;
    matrix(py, values, rows.len())
}
