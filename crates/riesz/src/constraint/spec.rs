//! Constraints as settings.

use super::{Chance, Constraint, Cvar, Generator, InUnits, LossAbove, Mean, Quantity, UserQuantity};
use crate::error::Result;
use crate::loss::{LossSpec, Unit};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A constraint by its name and numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintSpec {
    /// CVaR_α(ℓ) ≤ γ.
    Cvar {
        /// α.
        level: f64,
        /// γ.
        bound: f64,
        /// ℓ; the loss that is learnt with, if not given.
        loss: Option<LossSpec>,
    },
    /// P(g > 0) ≤ γ.
    Chance {
        /// g.
        quantity: QuantitySpec,
        /// γ.
        probability: f64,
        /// φ.
        generator: Generator,
    },
    /// E g ≤ 0.
    Mean {
        /// g.
        quantity: QuantitySpec,
    },
}

/// A quantity by its name and numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuantitySpec {
    /// ℓ − c.
    LossAbove {
        /// c.
        threshold: f64,
        /// ℓ; the loss that is learnt with, if not given.
        loss: Option<LossSpec>,
    },
    /// A user's function of outputs and targets in their own units.
    User(UserQuantity),
}

impl ConstraintSpec {
    /// The constraint on outputs in `units`, for a machine that learns with `own` for `size` targets or classes.
    pub fn build(&self, own: &LossSpec, size: usize, units: &[Unit]) -> Result<Box<dyn Constraint>> {
        let plain = |loss: &Option<LossSpec>| loss.as_ref().unwrap_or(own).build(size);
        let quantity = |quantity: &QuantitySpec| -> Result<Box<dyn Quantity>> {
            Ok(match quantity {
                QuantitySpec::LossAbove { threshold, loss } => {
                    Box::new(LossAbove { loss: plain(loss)?, threshold: *threshold })
                }
                QuantitySpec::User(user) => Box::new(user.clone()),
            })
        };
        let constraint: Box<dyn Constraint> = match self {
            Self::Cvar { level, bound, loss } => Box::new(Cvar::new(plain(loss)?, *level, *bound)?),
            Self::Chance { quantity: g, probability, generator } => {
                Box::new(Chance::new(quantity(g)?, *probability, *generator)?)
            }
            Self::Mean { quantity: g } => Box::new(Mean(quantity(g)?)),
        };
        if units.iter().all(|unit| *unit == Unit::IDENTITY) {
            return Ok(constraint);
        }
        Ok(Box::new(InUnits::new(constraint, units.to_vec(), self.scale(own, size, units)?)))
    }

    /// N: what the loss in it says of an error of one unit; one for classes and users' functions.
    pub fn scale(&self, own: &LossSpec, size: usize, units: &[Unit]) -> Result<f64> {
        let loss = match self {
            Self::Cvar { loss, .. } => loss,
            Self::Chance { quantity, .. } | Self::Mean { quantity } => match quantity {
                QuantitySpec::LossAbove { loss, .. } => loss,
                QuantitySpec::User(_) => return Ok(1.0),
            },
        };
        if units.iter().all(|unit| *unit == Unit::IDENTITY) {
            return Ok(1.0);
        }
        let loss = loss.as_ref().unwrap_or(own).build(size)?;
        let unit = |i: usize| units[i % units.len()];
        let u: Vec<f32> = (0..loss.outputs()).map(|i| unit(i).output(1.0) as f32).collect();
        let y: Vec<f32> = (0..loss.targets()).map(|i| unit(i).centre as f32).collect();
        let value = loss.value(&u, &y);
        Ok(if value.is_finite() && value > 0.0 { value } else { 1.0 })
    }

    /// The loss in it, where it names one.
    pub fn loss(&self) -> Option<&LossSpec> {
        match self {
            Self::Cvar { loss, .. }
            | Self::Chance { quantity: QuantitySpec::LossAbove { loss, .. }, .. }
            | Self::Mean { quantity: QuantitySpec::LossAbove { loss, .. } } => loss.as_ref(),
            _ => None,
        }
    }

    /// The user's functions in it.
    pub fn user_quantity(&mut self) -> Option<&mut UserQuantity> {
        match self {
            Self::Chance { quantity: QuantitySpec::User(user), .. }
            | Self::Mean { quantity: QuantitySpec::User(user) } => Some(user),
            _ => None,
        }
    }
}

impl fmt::Display for ConstraintSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cvar { level, bound, loss } => {
                write!(f, "the mean of the worst {}% of the ", 100.0 * (1.0 - level))?;
                loss.iter().try_for_each(|loss| write!(f, "{loss} "))?;
                write!(f, "losses <= {bound}")
            }
            Self::Chance { quantity, probability, .. } => {
                write!(f, "P({quantity} > 0) <= {probability}")
            }
            Self::Mean { quantity } => write!(f, "E {quantity} <= 0"),
        }
    }
}

impl fmt::Display for QuantitySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LossAbove { threshold, loss } => {
                let name = loss.as_ref().map_or_else(|| "loss".to_owned(), LossSpec::to_string);
                write!(f, "{name} - {threshold}")
            }
            Self::User(user) => f.write_str(user.name()),
        }
    }
}
