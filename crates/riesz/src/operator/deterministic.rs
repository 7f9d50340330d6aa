//! A sampled operator whose samples leave nothing to chance.

use super::{Exact, Operator, Points};

/// The operator `T` on samples that determine (T f)(s): the caller vouches that what `T` would average over has one
/// outcome, such as the successor of a state in a deterministic chain. It is then [`Exact`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deterministic<T>(pub T);

impl<T: Operator> Operator for Deterministic<T> {
    type Batch<'a> = T::Batch<'a>;

    fn points<'a>(&self, batch: Self::Batch<'a>) -> Vec<Points<'a>> {
        self.0.points(batch)
    }

    fn add_constant(&self, batch: Self::Batch<'_>, values: &mut [f32]) {
        self.0.add_constant(batch, values);
    }
}

impl<T: Operator> Exact for Deterministic<T> {}
