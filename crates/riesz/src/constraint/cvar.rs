//! The mean of the worst losses.

use super::{Constraint, Sample};
use crate::error::{in_range, Result};
use crate::loss::Loss;

/// CVaR_α(ℓ) ≤ γ, the mean of the worst share 1 − α of the losses (Rockafellar and Uryasev):
///
/// ```text
/// g(u, y; z) = z + [ℓ(u, y) − z]₊/(1 − α) − γ,   ∂u: 1[ℓ > z] ℓ'(u, y)/(1 − α),   ∂z: 1 − 1[ℓ > z]/(1 − α).
/// ```
pub struct Cvar {
    loss: Box<dyn Loss>,
    level: f64,
    bound: f64,
}

impl Cvar {
    /// α in (0, 1) and a finite γ.
    pub fn new(loss: Box<dyn Loss>, level: f64, bound: f64) -> Result<Self> {
        in_range("level", level, level > 0.0 && level < 1.0, "(0, 1)")?;
        in_range("bound", bound, bound.is_finite(), "the finite numbers")?;
        Ok(Self { loss, level, bound })
    }
}

impl Constraint for Cvar {
    /// γ, which the quantile z does not exceed where the constraint holds.
    fn start(&self) -> f64 {
        self.bound
    }

    fn sample(&self, u: &[f32], y: &[f32], z: f64, slope: &mut [f32]) -> Result<Sample> {
        let (loss, tail) = (self.loss.value(u, y), 1.0 / (1.0 - self.level));
        if loss > z {
            self.loss.derivative(u, y, slope);
            slope.iter_mut().for_each(|s| *s *= tail as f32);
            return Ok(Sample { value: z + tail * (loss - z) - self.bound, auxiliary: 1.0 - tail });
        }
        slope.fill(0.0);
        Ok(Sample { value: z - self.bound, auxiliary: 1.0 })
    }
}
