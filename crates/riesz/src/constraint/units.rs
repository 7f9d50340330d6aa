//! Constraints of outputs in other units.

use super::{Constraint, Sample};
use crate::error::Result;
use crate::loss::Unit;

/// A constraint on u = offset + factor·u' and y = centre + scale·y', seen from u' and y', in which f is learnt:
///
/// ```text
/// g'(u', y'; a') = g(u, y; N a')/N
/// ```
///
/// with a constant N > 0 that brings g to the size that losses have in those units.
pub struct InUnits<G> {
    constraint: G,
    units: Vec<Unit>,
    scale: f64,
}

impl<G: Constraint> InUnits<G> {
    /// `constraint` with a unit for each target; several outputs of one target share its unit.
    pub fn new(constraint: G, units: Vec<Unit>, scale: f64) -> Self {
        Self { constraint, units, scale }
    }
}

impl<G: Constraint> Constraint for InUnits<G> {
    fn start(&self) -> f64 {
        self.constraint.start() / self.scale
    }

    fn project(&self, auxiliary: f64) -> f64 {
        self.constraint.project(auxiliary * self.scale) / self.scale
    }

    fn sample(&self, u: &[f32], y: &[f32], auxiliary: f64, slope: &mut [f32]) -> Result<Sample> {
        let unit = |i: usize| &self.units[i % self.units.len()];
        let outputs = u.iter().enumerate().map(|(i, u)| unit(i).output(f64::from(*u)) as f32);
        let targets =
            y.iter().enumerate().map(|(i, y)| (unit(i).centre + unit(i).scale * f64::from(*y)) as f32);
        let (outputs, targets): (Vec<f32>, Vec<f32>) = (outputs.collect(), targets.collect());
        let found = self.constraint.sample(&outputs, &targets, auxiliary * self.scale, slope)?;
        for (i, slope) in slope.iter_mut().enumerate() {
            *slope = (f64::from(*slope) * unit(i).factor / self.scale) as f32;
        }
        Ok(Sample { value: found.value / self.scale, ..found })
    }
}

impl Constraint for Box<dyn Constraint> {
    fn start(&self) -> f64 {
        (**self).start()
    }

    fn project(&self, auxiliary: f64) -> f64 {
        (**self).project(auxiliary)
    }

    fn sample(&self, u: &[f32], y: &[f32], auxiliary: f64, slope: &mut [f32]) -> Result<Sample> {
        (**self).sample(u, y, auxiliary, slope)
    }
}
