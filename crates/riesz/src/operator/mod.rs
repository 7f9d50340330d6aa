//! Operators T: how f is observed.

mod evaluation;

pub use evaluation::Evaluation;

use crate::data::Rows;
use crate::error::Result;
use crate::space::{Space, Terms};

/// A linear operator (T f)(s) and its adjoint.
pub trait Operator {
    /// (T f) at every sample of the batch, n×C row-major.
    fn apply(&self, f: &dyn Space, batch: Rows<'_>, out: &mut [f32]) -> Result<()>;

    /// The terms of Σ_s w_s T*δ_s: where a gradient step touches f, and how much.
    fn adjoint<'a>(&self, batch: Rows<'a>, weights: &'a [f32]) -> Terms<'a>;
}

/// `apply` returns (T f)(s) itself, not a noisy estimate of it; only then may a nonlinear loss be applied to it
/// without bias.
pub trait Exact {}
