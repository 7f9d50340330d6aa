//! f = Σ αᵀ φ over a fixed set of random features.

use super::{Averaged, Averaging, FeatureExpansion, FeatureSpace, Function, Space, Terms};
use crate::compute::Device;
use crate::data::Rows;
use crate::error::Result;
use crate::kernel::FeatureMap;
use std::borrow::Cow;

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

    /// The constant function on the same features.
    pub(crate) fn cleared(self) -> Self {
        let blocks = self.0.len();
        Self::new(self.0.map().clone(), self.0.offset().to_vec(), blocks)
    }

    /// α ← α + size·`step` for the features of the one block there is; the average takes the iterate.
    pub(crate) fn advance(&mut self, size: f64, step: &[f32]) {
        self.0.advance(size, step);
    }

    /// Lets the average begin with the present iterate.
    pub(crate) fn begin_average(&mut self) {
        self.0.restart_average();
    }

    /// The constant part of f.
    pub fn offset(&self) -> &[f32] {
        self.0.offset()
    }

    /// The same iterate as an expansion that has grown to its limit.
    pub(crate) fn as_expansion(&self) -> &FeatureExpansion {
        &self.0
    }

    /// The fixed features of such an expansion.
    pub(crate) fn from_expansion(f: FeatureExpansion) -> Self {
        Self(f)
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

impl FeatureSpace for FixedFeatures {
    fn map(&self) -> &FeatureMap {
        self.0.map()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn device(&self) -> Device {
        self.0.device()
    }

    fn coefficients(&self, b: usize) -> Cow<'_, [f32]> {
        self.0.coefficients(b)
    }

    /// A further block, which was not among the fixed ones.
    fn push(&mut self, coefficients: Vec<f32>) {
        self.0.push(coefficients);
    }

    fn replace(&mut self, b: usize, coefficients: Vec<f32>) {
        self.0.replace(b, coefficients);
    }
}
