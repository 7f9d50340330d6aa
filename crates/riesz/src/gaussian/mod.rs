//! What all Gaussian processes share: covariances with a length scale per column, the exact posterior, functions drawn from
//! the prior, and the hyper-parameters of largest marginal likelihood.

pub(crate) mod covariance;
pub(crate) mod exact;
pub(crate) mod family;
pub(crate) mod hyperparameters;
mod learn;
pub(crate) mod likelihood;
pub(crate) mod pathwise;

pub use covariance::Hyperparameters;
pub use family::Family;
pub use likelihood::log_marginal_likelihood;

use crate::data::Rows;
use crate::error::{finite, same_columns, same_rows, Result};
use crate::memory::room;

/// Refuses rows of another width, targets of another number, and what is not finite.
pub(crate) fn check(rows: Rows<'_>, columns: usize, targets: &[f64]) -> Result<()> {
    same_columns(columns, rows.columns())?;
    rows.check_finite("X")?;
    same_rows("y", rows.len(), targets.len())?;
    finite("y", targets, 1)
}

/// The rows in double precision.
pub(crate) fn doubles(rows: Rows<'_>) -> Result<Vec<f64>> {
    room("rows of X made dense", "the rows or columns of X", &[rows.len(), rows.columns()], 8)?;
    let mut out = Vec::with_capacity(rows.len() * rows.columns());
    rows.append_doubles(&mut out);
    Ok(out)
}
