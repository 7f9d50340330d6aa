//! (T f)(x) = E[f(z) | x], by samples of z.

use super::{Factors, Operator, Points};
use crate::data::Rows;
use crate::error::{same_columns, same_rows, Error, Result};

/// An operator whose samples estimate an expectation given x: (T f)(s) has the mean (T f)(x) over all samples s with the
/// same x. The dual of a saddle point is a function of x.
pub trait Conditional: Operator {
    /// x of every sample, or (x, y) where the dual may depend on the target.
    fn given<'a>(&self, batch: Self::Batch<'a>) -> Rows<'a>;
}

/// Samples z_1, …, z_K of p(z | x) for every x.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'a> {
    given: Rows<'a>,
    samples: &'a [Rows<'a>],
}

impl<'a> Sampled<'a> {
    /// K ≥ 1 samples, each with a row for every row of `given`.
    pub fn new(given: Rows<'a>, samples: &'a [Rows<'a>]) -> Result<Self> {
        let Some(first) = samples.first() else {
            return Err(Error::Empty { what: "samples", needed: "one of every row" });
        };
        for rows in samples {
            same_rows("samples", given.len(), rows.len())?;
            same_columns(first.columns(), rows.columns())?;
        }
        Ok(Self { given, samples })
    }
}

/// The mean over samples: (T f)(x) ≈ (1/K) Σ_k f(z_k), z_k ~ p(z | x) (thesis 5.1). Invariance learning has virtual samples
/// z of an input x; learning from noisy inputs z = x + noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionalMean;

impl Operator for ConditionalMean {
    type Batch<'a> = Sampled<'a>;

    fn points<'a>(&self, Sampled { samples, .. }: Self::Batch<'a>) -> Vec<Points<'a>> {
        let factor = 1.0 / samples.len() as f32;
        samples.iter().map(|&rows| Points { rows, factors: Factors::Constant(factor) }).collect()
    }
}

impl Conditional for ConditionalMean {
    fn given<'a>(&self, batch: Self::Batch<'a>) -> Rows<'a> {
        batch.given
    }
}
