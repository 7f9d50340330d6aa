//! f = Σ αᵀ φ over a fixed set of random features.

use super::{Averaged, Averaging, FeatureExpansion, Function, Space, Terms};
use crate::data::Rows;
use crate::error::Result;
use crate::kernel::FeatureMap;

/// A function on M = B·m features that are all there from the start; a step changes their coefficients
/// (Pegasos-style): α_b ← (1 − γν) α_b + (γ/M) Σ_i w_i φ_b(x_i), so that k ≈ (1/M) Σ φ φ'.
///
/// It is a [`FeatureExpansion`] that has grown to its limit.
#[derive(Clone, Debug)]
pub struct FixedFeatures(FeatureExpansion);

impl FixedFeatures {
    /// The constant function `offset` on the first `blocks` blocks of `map`.
    pub fn new(map: FeatureMap, offset: Vec<f32>, blocks: usize) -> Self {
        let size = map.block_size * offset.len();
        let mut expansion = FeatureExpansion::new(map, offset).limited_to(blocks);
        (0..blocks).for_each(|_| expansion.push(vec![0.0; size]));
        Self(expansion)
    }

    /// The same function as an expansion.
    pub fn into_expansion(self) -> FeatureExpansion {
        self.0
    }
}

impl Function for FixedFeatures {
    fn columns(&self) -> usize {
        self.0.columns()
    }

    fn outputs(&self) -> usize {
        self.0.outputs()
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        self.0.evaluate(rows, out)
    }
}

impl Space for FixedFeatures {
    fn step(&mut self, size: f64, ridge: f64, terms: &[Terms<'_>]) -> Result<()> {
        self.0.step(size, ridge, terms)
    }
}

impl Averaged for FixedFeatures {
    fn averaging(self, rule: Averaging) -> Self {
        Self(self.0.averaging(rule))
    }

    fn average(&self) -> Self {
        Self(self.0.average())
    }
}
