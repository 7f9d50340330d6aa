//! A quantity in the mean.

use super::{Constraint, Quantity, Sample};
use crate::error::Result;

/// E g(f(x), y) ≤ 0.
pub struct Mean<Q>(pub Q);

impl<Q: Quantity> Constraint for Mean<Q> {
    fn sample(&self, u: &[f32], y: &[f32], _: f64, slope: &mut [f32]) -> Result<Sample> {
        Ok(Sample { value: self.0.value(u, y, slope)?, auxiliary: 0.0 })
    }
}
