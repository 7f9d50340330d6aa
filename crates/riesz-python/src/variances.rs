//! Posterior variances of a Gaussian process by random features, for any kernel.

use crate::arrays::Table;
use crate::attend::detached;
use crate::errors::to_py;
use crate::kernel::kernel_of;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use riesz::data::Rows;
use riesz::functions::{operator_variances, ridge_variances, PosteriorOperatorConfig};
use riesz::kernel::{FeatureMap, KernelSpec, Scaling};
use riesz::random::Seed;
use riesz::solver::Schedule;
use riesz::{Error, Result};

/// The features of a kernel on rows it is defined for.
fn map_of(
    kernel: KernelSpec,
    bandwidth: f64,
    block_size: usize,
    seed: Seed,
    rows: [Rows<'_>; 2],
) -> Result<FeatureMap> {
    for rows in rows {
        rows.check_finite("X")?;
        kernel.check_domain(rows)?;
    }
    let [expected, found] = rows.map(|rows| rows.columns());
    if expected != found {
        return Err(Error::Columns { expected, found });
    }
    FeatureMap::new(kernel, bandwidth, block_size, seed, Scaling::identity(expected))
}

/// Variances at `test` given noisy values at `x`, as one ridge regression per test row.
#[pyfunction]
#[pyo3(signature = (x, test, *, kernel, bandwidth, noise, n_blocks, block_size, seed, n_jobs=None))]
#[allow(clippy::too_many_arguments)]
pub fn variances_by_ridge<'py>(
    py: Python<'py>,
    x: Table<'_>,
    test: Table<'_>,
    kernel: &Bound<'_, PyAny>,
    bandwidth: f64,
    noise: f64,
    n_blocks: usize,
    block_size: usize,
    seed: u64,
    n_jobs: Option<isize>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (kernel, rows, test) = (kernel_of(kernel)?, x.rows()?, test.rows()?);
    let map = map_of(kernel, bandwidth, block_size, Seed(seed), [rows, test]).map_err(to_py)?;
    Ok(detached(py, n_jobs, || ridge_variances(&map, n_blocks, rows, test, noise))?.into_pyarray(py))
}

/// The same by the recursion for the operator; `step` is in units of the mean of k(x, x).
#[pyfunction]
#[pyo3(signature = (x, test, *, kernel, bandwidth, noise, n_blocks, block_size, batch_size, step, delay, seed, n_jobs=None))]
#[allow(clippy::too_many_arguments)]
pub fn variances_by_operator<'py>(
    py: Python<'py>,
    x: Table<'_>,
    test: Table<'_>,
    kernel: &Bound<'_, PyAny>,
    bandwidth: f64,
    noise: f64,
    n_blocks: usize,
    block_size: usize,
    batch_size: usize,
    step: f64,
    delay: f64,
    seed: u64,
    n_jobs: Option<isize>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (kernel, rows, test) = (kernel_of(kernel)?, x.rows()?, test.rows()?);
    let map = map_of(kernel, bandwidth, block_size, Seed(seed), [rows, test]).map_err(to_py)?;
    let work = || {
        let theta = step / map.mean_square(rows)?;
        let ridge = noise / rows.len().max(1) as f64;
        let schedule = Schedule::Inverse { theta, delay };
        let config = PosteriorOperatorConfig { map: map.clone(), ridge, schedule };
        operator_variances(config, n_blocks, batch_size, rows, test)
    };
    Ok(detached(py, n_jobs, work)?.into_pyarray(py))
}
