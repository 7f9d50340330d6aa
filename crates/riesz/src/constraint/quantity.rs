//! One number of a prediction that should not be above zero.

use crate::error::{Error, Result};
use crate::loss::Loss;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// g(u, y), convex in u; above zero is bad.
pub trait Quantity: Send + Sync {
    /// g(u, y); ∂g/∂u is written to `slope`.
    fn value(&self, u: &[f32], y: &[f32], slope: &mut [f32]) -> Result<f64>;
}

/// g = ℓ(u, y) − c.
pub struct LossAbove {
    /// ℓ.
    pub loss: Box<dyn Loss>,
    /// c.
    pub threshold: f64,
}

impl Quantity for LossAbove {
    fn value(&self, u: &[f32], y: &[f32], slope: &mut [f32]) -> Result<f64> {
        self.loss.derivative(u, y, slope);
        Ok(self.loss.value(u, y) - self.threshold)
    }
}

/// What a user's function may fail with.
type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Function = dyn Fn(&[f32], &[f32], &mut [f32]) -> Result<f64, BoxError> + Send + Sync;

/// A user's g, of which files keep the name alone.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct UserQuantity {
    name: String,
    /// Absent in what was read from a file.
    function: Option<Arc<Function>>,
}

impl UserQuantity {
    /// g by a function of (u, y) that writes ∂g/∂u and returns g; `name` stands for it in messages and files.
    pub fn new(
        name: impl Into<String>,
        function: impl Fn(&[f32], &[f32], &mut [f32]) -> Result<f64, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), function: Some(Arc::new(function)) }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether there is a function, and not the name alone.
    pub fn is_complete(&self) -> bool {
        self.function.is_some()
    }
}

impl Quantity for UserQuantity {
    fn value(&self, u: &[f32], y: &[f32], slope: &mut [f32]) -> Result<f64> {
        let Some(function) = &self.function else {
            return Err(Error::ConstraintMissing { name: self.name.clone() });
        };
        let value =
            function(u, y, slope).map_err(|source| Error::Constraint { name: self.name.clone(), source })?;
        let finite = value.is_finite() && slope.iter().all(|s| s.is_finite());
        finite.then_some(value).ok_or_else(|| Error::ConstraintNotFinite { name: self.name.clone() })
    }
}

impl From<String> for UserQuantity {
    fn from(name: String) -> Self {
        Self { name, function: None }
    }
}

impl From<UserQuantity> for String {
    fn from(quantity: UserQuantity) -> Self {
        quantity.name
    }
}

impl PartialEq for UserQuantity {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for UserQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserQuantity({})", self.name)
    }
}

impl Quantity for Box<dyn Quantity> {
    fn value(&self, u: &[f32], y: &[f32], slope: &mut [f32]) -> Result<f64> {
        (**self).value(u, y, slope)
    }
}
