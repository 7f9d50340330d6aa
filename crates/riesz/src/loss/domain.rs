//! What the targets of a loss are.

use crate::error::{Error, Result};

/// What the targets of a loss are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// There are none.
    Nothing,
    /// Numbers.
    Real,
    /// Counts and rates.
    NonNegative,
    /// ±1: the second of two classes or the first; two samples.
    Sign,
    /// A class index.
    Class,
}

impl Domain {
    /// Whether targets are classes rather than numbers.
    pub fn is_class(self) -> bool {
        matches!(self, Self::Sign | Self::Class)
    }

    /// Refuses numbers outside the domain by row: n×`per_row` of them. Classes are checked before they are encoded.
    pub(super) fn check(self, loss: &'static str, targets: &[f32], per_row: usize) -> Result<()> {
        let outside = |y: &f32| self == Self::NonNegative && *y < 0.0;
        let Some(i) = targets.iter().position(outside) else { return Ok(()) };
        let (value, row) = (f64::from(targets[i]), i / per_row.max(1));
        Err(Error::Target { loss, value, row, expected: "counts and rates are not negative" })
    }
}
