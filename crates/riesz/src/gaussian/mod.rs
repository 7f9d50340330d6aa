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
use crate::driver::{Control, Phase, Progress};
use crate::error::{Error, Result};

/// Refuses rows of another width, targets of another number, and what is not finite.
pub(crate) fn check(rows: Rows<'_>, columns: usize, targets: &[f64]) -> Result<()> {
    if rows.columns() != columns {
        return Err(Error::Columns { expected: columns, found: rows.columns() });
    }
    rows.check_finite("X")?;
    if rows.len() != targets.len() {
        return Err(Error::RowCount { what: "y", expected: rows.len(), found: targets.len() });
    }
    match targets.iter().position(|y| !y.is_finite()) {
        Some(row) => Err(Error::NotFinite { what: "y", value: targets[row], row, column: 0 }),
        None => Ok(()),
    }
}

/// The rows in double precision.
pub(crate) fn doubles(rows: Rows<'_>) -> Vec<f64> {
    let mut out = Vec::with_capacity(rows.len() * rows.columns());
    rows.append_doubles(&mut out);
    out
}

/// Tells how far a fit is and asks whether to go on.
pub(crate) fn report(
    control: &mut Control<'_>,
    phase: Phase,
    done: usize,
    most: usize,
    loss: f64,
) -> Result<()> {
    let elapsed = control.elapsed();
    control.report(Progress { phase, done, most, loss, held_out_loss: None, held_out_error: None, elapsed })
}
