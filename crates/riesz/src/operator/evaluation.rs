//! (T f)(x) = f(x).

use super::{Exact, Operator};
use crate::data::Rows;
use crate::error::Result;
use crate::space::{Space, Terms};

/// Evaluation at a point: (T f)(x) = f(x), so T*δ_x = k(x, ·) (lecture §3).
pub struct Evaluation;

impl Operator for Evaluation {
    fn apply(&self, f: &dyn Space, batch: Rows<'_>, out: &mut [f32]) -> Result<()> {
        f.evaluate(batch, out)
    }

    fn adjoint<'a>(&self, batch: Rows<'a>, weights: &'a [f32]) -> Terms<'a> {
        Terms { rows: batch, weights }
    }
}

impl Exact for Evaluation {}
