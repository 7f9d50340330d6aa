//! Classes that were not known when learning began.

use super::{OnlineMachine, Task};
use crate::error::{Error, Result};
use crate::space::Function;

/// From C outputs to more, for each of several paces: what is new starts at zero. The one output u of two classes becomes
/// (−u/2, u/2), which has the same odds and the same margin.
pub(super) struct Widening {
    from: usize,
    to: usize,
    paces: usize,
}

impl Widening {
    /// Old rows of `paces`·C numbers, one after the other, to new ones.
    pub(super) fn of_rows<T: Copy + Into<f64> + Rounded>(&self, old: &[T]) -> Vec<T> {
        let mut new = Vec::with_capacity(old.len() / self.from * self.to);
        for outputs in old.chunks_exact(self.from) {
            match (outputs, self.to) {
                (&[u], to) if to > 1 => new.extend([T::rounded(-0.5 * u.into()), T::rounded(0.5 * u.into())]),
                _ => new.extend_from_slice(outputs),
            }
            new.resize(new.len().div_ceil(self.to) * self.to, T::rounded(0.0));
        }
        new
    }

    /// The same for a matrix that has `paces`·C rows of `m` numbers.
    pub(super) fn of_columns<T: Copy + Into<f64> + Rounded>(&self, old: &[T], m: usize) -> Vec<T> {
        let column = |j: usize| -> Vec<T> { old.iter().skip(j).step_by(m).copied().collect() };
        let columns: Vec<Vec<T>> = (0..m).map(|j| self.of_rows(&column(j))).collect();
        (0..self.paces * self.to).flat_map(|row| columns.iter().map(move |column| column[row])).collect()
    }
}

/// A number of either precision.
pub(super) trait Rounded {
    /// The nearest number.
    fn rounded(value: f64) -> Self;
}

impl Rounded for f32 {
    fn rounded(value: f64) -> Self {
        value as f32
    }
}

impl Rounded for f64 {
    fn rounded(value: f64) -> Self {
        value
    }
}

impl OnlineMachine {
    /// Makes room for further classes, `classes` in all: their scores start at zero, and the odds of those known stay.
    pub fn grow_classes(&mut self, classes: usize) -> Result<()> {
        let Task::Classification(known) = self.header.options.task else {
            return Err(Error::Conflict("a regression model has no classes".into()));
        };
        if classes < known {
            return Err(Error::Conflict(format!("the machine knows {known} classes, more than {classes}")));
        }
        if !self.header.options.constraints.is_empty() && classes > known {
            let message = "constraints are on the classes there were; name all of them at the beginning";
            return Err(Error::Conflict(message.into()));
        }
        let loss = &self.header.loss;
        let widening = Widening {
            from: loss.outputs(known),
            to: loss.outputs(classes),
            paces: self.state.inner.f.outputs() / loss.outputs(known),
        };
        if widening.from != widening.to {
            self.state.inner.f = self.state.inner.f.clone().widened(&widening)?;
        }
        self.header.options.task = Task::Classification(classes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_output_becomes_two_of_opposite_sign() {
        let widening = Widening { from: 1, to: 3, paces: 2 };
        assert_eq!(widening.of_rows(&[2.0_f32, -4.0]), [-1.0, 1.0, 0.0, 2.0, -2.0, 0.0]);
        assert_eq!(
            widening.of_columns(&[2.0_f32, 6.0, -4.0, 0.0], 2),
            [-1.0, -3.0, 1.0, 3.0, 0.0, 0.0, 2.0, 0.0, -2.0, 0.0, 0.0, 0.0]
        );
        let widening = Widening { from: 3, to: 4, paces: 1 };
        assert_eq!(widening.of_rows(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0, 0.0]);
    }
}
