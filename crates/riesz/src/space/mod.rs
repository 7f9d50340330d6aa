//! Spaces: what f is, and how a gradient step changes it.

mod feature_expansion;
mod fixed_features;

pub use feature_expansion::FeatureExpansion;
pub use fixed_features::FixedFeatures;

use crate::data::Rows;
use crate::error::Result;

/// Terms Σ_i w_i k(x_i, ·) of a functional gradient: rows and an n×C row-major matrix of weights.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The points x_i.
    pub rows: Rows<'a>,
    /// Their weights, one row of C numbers per point.
    pub weights: &'a [f32],
}

/// An element f of a function space with C outputs.
pub trait Space {
    /// Number C of outputs.
    fn outputs(&self) -> usize;

    /// f at `rows`, written to the n×C row-major `out`.
    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()>;

    /// f ← shrink·f + Σ_i w_i k(x_i, ·). One step is one call, whatever the operator touches.
    fn step(&mut self, shrink: f64, terms: Terms<'_>) -> Result<()>;
}
