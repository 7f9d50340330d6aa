//! Operators T: how f is observed.
//!
//! Every operator of the texts is an affine combination of evaluations,
//!
//! ```text
//! (T f)(s) = c(s) + Σ_p a_p(s) f(x_p(s)),        T*: w ↦ Σ_s w_s Σ_p a_p(s) k(x_p(s), ·),
//! ```
//!
//! so an [`Operator`] lists points x_p, factors a_p and the constant c of a batch. [`apply`] and [`adjoint`] are written
//! once from these, and belong together by construction: ⟨w, T f − c⟩ = ⟨T* w, f⟩.

mod bellman;
mod conditional;
mod deterministic;
mod evaluation;

pub use bellman::{Bellman, Discount, Likely, Transitions};
pub use conditional::{Conditional, ConditionalMean, Sampled};
pub use deterministic::Deterministic;
pub use evaluation::Evaluation;

use crate::data::Rows;
use crate::error::Result;
use crate::space::{Function, Terms};
use std::borrow::Cow;

/// One point x_p(s) of every sample s, and its factor a_p(s).
pub struct Points<'a> {
    /// The points, a row for each sample.
    pub rows: Rows<'a>,
    /// The factors.
    pub factors: Factors<'a>,
}

/// The factors a_p(s) of a point.
pub enum Factors<'a> {
    /// The same for every sample.
    Constant(f32),
    /// One for each sample.
    Each(Cow<'a, [f32]>),
}

impl Factors<'_> {
    /// a_p(s) of sample `s`.
    pub fn at(&self, s: usize) -> f32 {
        match self {
            Self::Constant(factor) => *factor,
            Self::Each(factors) => factors[s],
        }
    }
}

/// An operator T, given by the points it looks at.
pub trait Operator {
    /// The samples s of a batch.
    type Batch<'a>: Copy;

    /// Points and factors of a batch, each with a row for every sample; there is at least one.
    fn points<'a>(&self, batch: Self::Batch<'a>) -> Vec<Points<'a>>;

    /// Adds the constant c(s) to the n×C values; nothing unless the operator has one.
    fn add_constant(&self, _batch: Self::Batch<'_>, _values: &mut [f32]) {}
}

/// (T f)(s) is known from the sample itself, not estimated by it: only then may a loss that is not linear be applied to it
/// without bias.
///
/// Where (T f)(x) = E[f(z) | x] and a sample has one z, E J(f(z)) is not J(E[f(z) | x]), and gradients of J at f(z) are
/// biased ("double sampling"). [`crate::solver::FunctionalSgd`] asks for this bound; such operators need a saddle point.
pub trait Exact: Operator {}

/// (T f)(s) at every sample of the batch, n×C row-major.
pub fn apply<T: Operator>(
    operator: &T,
    f: &dyn Function,
    batch: T::Batch<'_>,
    out: &mut [f32],
) -> Result<()> {
    let c = f.outputs();
    let mut values = Vec::new();
    for (p, Points { rows, factors }) in operator.points(batch).into_iter().enumerate() {
        if let (0, Factors::Constant(1.0)) = (p, &factors) {
            f.evaluate(rows, out)?;
            continue;
        }
        values.resize(out.len(), 0.0);
        f.evaluate(rows, &mut values)?;
        for (s, (out, value)) in out.chunks_exact_mut(c).zip(values.chunks_exact(c)).enumerate() {
            let factor = factors.at(s);
            for (out, value) in out.iter_mut().zip(value) {
                *out = if p == 0 { factor * value } else { *out + factor * value };
            }
        }
    }
    operator.add_constant(batch, out);
    Ok(())
}

/// The terms of Σ_s w_s T*δ_s, for an n×C matrix of weights: where a gradient step touches f, and how much.
pub fn adjoint<'w, 'a: 'w, T: Operator>(
    operator: &T,
    batch: T::Batch<'a>,
    weights: &'w [f32],
) -> Vec<Terms<'w>> {
    let scaled = |Points { rows, factors }: Points<'a>| {
        let c = weights.len() / rows.len().max(1);
        match factors {
            Factors::Constant(1.0) => Terms::new(rows, weights),
            factors => {
                let weight = |(i, w): (usize, &f32)| factors.at(i / c) * w;
                Terms { rows, weights: weights.iter().enumerate().map(weight).collect() }
            }
        }
    };
    operator.points(batch).into_iter().map(scaled).collect()
}
