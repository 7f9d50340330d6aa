//! Spaces: what f is, and how a gradient step changes it.

mod average;
mod basis;
mod dictionary;
mod feature_expansion;
mod fixed_features;
mod komp;
mod linear;
mod network;
mod queue;

pub use average::{Averaged, Averaging};
pub use basis::Basis;
pub(crate) use dictionary::Raw;
pub use dictionary::{Budget, Dictionary, Parsimony};
pub use feature_expansion::FeatureExpansion;
pub(crate) use feature_expansion::Iterate;
pub use fixed_features::FixedFeatures;
pub use komp::Drift;
pub use linear::Linear;
pub use network::{Network, NetworkConfig, NetworkParts, Nonlinearity, Optimiser};

use crate::compute::{Device, FeatureBlock};
use crate::data::Rows;
use crate::error::{same_columns, Result};
use crate::kernel::FeatureMap;
use crate::model::Container;
use crate::random::BlockIndex;
use std::borrow::Cow;

/// A function f: ℝᵈ → ℝᶜ that can be evaluated.
pub trait Function: Send + Sync {
    /// Number d of input columns.
    fn columns(&self) -> usize;

    /// Number C of outputs.
    fn outputs(&self) -> usize;

    /// f at `rows`, written to the n×C row-major `out`.
    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()>;
}

/// Terms Σ_i w_i k(x_i, ·) of a functional gradient: rows and an n×C row-major matrix of weights.
#[derive(Clone, Debug)]
pub struct Terms<'a> {
    /// The points x_i.
    pub rows: Rows<'a>,
    /// Their weights, one row of C numbers per point.
    pub weights: Cow<'a, [f32]>,
}

impl<'a> Terms<'a> {
    /// Terms whose weights are the caller's.
    pub fn new(rows: Rows<'a>, weights: &'a [f32]) -> Self {
        Self { rows, weights: Cow::Borrowed(weights) }
    }
}

/// An element f of a function space, which a gradient step changes.
pub trait Space: Function {
    /// f ← (1 − γν) f + γ Σ_i w_i k(x_i, ·), over the points of all terms.
    ///
    /// One step is one call, however many points an operator looks at. The step size γ is not yet multiplied into the
    /// weights, so that a space may have a rule of its own for it.
    fn step(&mut self, size: f64, ridge: f64, terms: &[Terms<'_>]) -> Result<()>;
}

/// A space whose iterate, with its average, a file can hold.
pub(crate) trait Storable: Averaged {
    /// Adds the iterate to a container under `name`.
    fn store(&self, container: &mut Container, name: &str) -> Result<()>;

    /// Takes out what [`Storable::store`] added.
    fn restore(container: &mut Container, name: &str) -> Result<Self>;
}

/// A space of features in blocks, whose coefficients a solver chooses: f = offset + Σ_b φ_bᵀ α_b.
pub trait FeatureSpace: Space {
    /// The features blocks are drawn from.
    fn map(&self) -> &FeatureMap;

    /// Number of blocks.
    fn len(&self) -> usize;

    /// Whether f is still constant.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Block `b`, whether f has it already or not.
    fn draw(&self, b: usize) -> Result<FeatureBlock> {
        self.map().draw(BlockIndex(b as u64))
    }

    /// Where features are computed.
    fn device(&self) -> Device;

    /// Coefficients of block `b`, m×C row-major.
    fn coefficients(&self, b: usize) -> Cow<'_, [f32]>;

    /// Appends a block with m×C coefficients.
    fn push(&mut self, coefficients: Vec<f32>);

    /// Replaces the coefficients of block `b`.
    fn replace(&mut self, b: usize, coefficients: Vec<f32>);
}

/// All values of a tensor, however many they are.
fn take_all(container: &mut Container, name: &str) -> Result<Vec<f32>> {
    let count = container.f32s(name)?.1.len();
    container.take_f32s(name, &[count])
}

/// Refuses rows of another number of columns than f has.
fn check_columns(f: &impl Function, rows: Rows<'_>) -> Result<()> {
    same_columns(f.columns(), rows.columns())
}
