//! Step sizes γ_t.

use crate::error::{in_range, non_negative, positive, Result};
use serde::{Deserialize, Serialize};

/// The law of the step size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// γ_t = θ/(t + t₀), t = 1, 2, …
    ///
    /// Theorem 11 asks for θν in (1, 2) or a positive integer; t₀ ≥ θν keeps every shrink factor 1 − γν positive.
    Inverse {
        /// θ.
        theta: f64,
        /// t₀; 0 is the published form.
        delay: f64,
    },
    /// γ_t = γ/√(t + t₀), at least γ/√T: regret O(√T) whatever the loss (lecture §8). What forgets all but the last T samples
    /// needs steps that do not fall further.
    InverseRoot {
        /// γ.
        step: f64,
        /// t₀.
        delay: f64,
        /// T; infinite where the steps fall for ever.
        horizon: f64,
    },
    /// γ_t = γ.
    Constant {
        /// γ.
        step: f64,
    },
}

impl Schedule {
    /// γ_t for t = 1, 2, …
    pub fn at(&self, t: u64) -> f64 {
        match *self {
            Self::Inverse { theta, delay } => theta / (t as f64 + delay),
            Self::InverseRoot { step, delay, horizon } => step / (t as f64 + delay).min(horizon).sqrt(),
            Self::Constant { step } => step,
        }
    }

    /// What the steps tend to.
    pub fn least(&self) -> f64 {
        self.at(u64::MAX) * if matches!(self, Self::Inverse { .. }) { 0.0 } else { 1.0 }
    }

    /// The same law with steps `factor` times as long.
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Inverse { theta, delay } => Self::Inverse { theta: factor * theta, delay },
            Self::InverseRoot { step, delay, horizon } => {
                Self::InverseRoot { step: factor * step, delay, horizon }
            }
            Self::Constant { step } => Self::Constant { step: factor * step },
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match *self {
            Self::Inverse { theta, delay } => {
                positive("theta", theta)?;
                non_negative("delay", delay)
            }
            Self::InverseRoot { step, delay, horizon } => {
                positive("step", step)?;
                non_negative("delay", delay)?;
                in_range("horizon", horizon, horizon > 0.0, "(0, inf]")
            }
            Self::Constant { step } => positive("step", step),
        }
        .map(drop)
    }
}
