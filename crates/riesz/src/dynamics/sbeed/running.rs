//! Means and deviations of what has been seen so far.

use crate::error::{Error, Result};
use crate::model::Container;

/// Count, means and sums of squares around them, column by column (Chan, Golub and LeVeque 1983).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Running {
    count: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

/// Columns enter a function at most this many deviations from their mean.
const MOST: f64 = 10.0;
/// Added to variances.
const LEAST: f64 = 1e-8;

impl Running {
    pub(super) fn new(columns: usize) -> Self {
        Self { count: 0.0, mean: vec![0.0; columns], squares: vec![0.0; columns] }
    }

    pub(super) fn columns(&self) -> usize {
        self.mean.len()
    }

    /// Takes note of a row.
    pub(super) fn push(&mut self, row: impl Iterator<Item = f64>) {
        self.count += 1.0;
        for ((mean, square), x) in self.mean.iter_mut().zip(&mut self.squares).zip(row) {
            let before = x - *mean;
            *mean += before / self.count;
            *square += before * (x - *mean);
        }
    }

    /// The standard deviation of a column; one before anything was seen.
    pub(super) fn deviation(&self, column: usize) -> f64 {
        match self.count > 1.0 {
            true => (self.squares[column] / self.count + LEAST).sqrt(),
            false => 1.0,
        }
    }

    /// Rows as (x − mean)/deviation, within ten deviations.
    pub(super) fn standardise<'a>(&'a self, rows: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
        let scales: Vec<f64> = (0..self.columns()).map(|j| 1.0 / self.deviation(j)).collect();
        let columns = self.columns();
        rows.iter().enumerate().map(move |(i, &x)| {
            let j = i % columns;
            ((f64::from(x) - self.mean[j]) * scales[j]).clamp(-MOST, MOST) as f32
        })
    }

    pub(super) fn store(&self, container: &mut Container, name: &str) -> Result<()> {
        let values = [&[self.count], &self.mean[..], &self.squares[..]].concat();
        container.insert(name, vec![values.len()], values)
    }

    pub(super) fn restore(container: &mut Container, name: &str, columns: usize) -> Result<Self> {
        let values = container.take_f64s(name, &[2 * columns + 1])?;
        let (count, rest) = (values[0], &values[1..]);
        let (mean, squares) = rest.split_at(columns);
        if count < 0.0 || squares.iter().any(|square| *square < 0.0) {
            return Err(Error::Format(format!("{name}: counts and squares are not negative")));
        }
        Ok(Self { count, mean: mean.to_vec(), squares: squares.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_standardised_by_their_moments() {
        let rows: Vec<f32> = (0..200).flat_map(|i| [(i as f32).sin() * 3.0 + 1e4, 5.0]).collect();
        let mut running = Running::new(2);
        rows.chunks_exact(2).for_each(|row| running.push(row.iter().map(|&v| f64::from(v))));
        let standard: Vec<f64> = running.standardise(&rows).map(f64::from).collect();
        let of = |j: usize| standard.iter().skip(j).step_by(2);
        let (mean, square) = (of(0).sum::<f64>() / 200.0, of(0).map(|v| v * v).sum::<f64>() / 200.0);
        assert!(mean.abs() < 1e-6 && (square - 1.0).abs() < 1e-5, "{mean} {square}");
        assert!(of(1).all(|v| *v == 0.0));
        assert_eq!(running.standardise(&[1e9, 5.0]).collect::<Vec<_>>(), [10.0, 0.0]);
    }
}
