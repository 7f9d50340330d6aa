//! (T f)(x) = f(x).

use super::{Exact, Factors, Operator, Points};
use crate::data::Rows;

/// Evaluation at a point: (T f)(x) = f(x), so T*δ_x = k(x, ·) (lecture §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluation;

impl Operator for Evaluation {
    type Batch<'a> = Rows<'a>;

    fn points<'a>(&self, rows: Self::Batch<'a>) -> Vec<Points<'a>> {
        vec![Points { rows, factors: Factors::Constant(1.0) }]
    }
}

impl Exact for Evaluation {}
