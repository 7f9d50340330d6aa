//! The data of a fit, checked once and brought into the form the solvers want.

use super::metric::Metric;
use super::options::Task;
use crate::data::{on_disk, RowCache, Rows, TILE};
use crate::error::{self, finite, Error, Result};
use crate::loss::LossSpec;
use crate::memory::room;
use std::borrow::Cow;

/// Rows, targets and weights as the caller has them.
#[derive(Clone, Copy)]
pub struct Training<'a> {
    /// X.
    pub rows: Rows<'a>,
    /// n×T numbers for regression; n class indices for classification.
    pub targets: &'a [f32],
    /// Sample weights, not negative; `None`: all one.
    pub weights: Option<&'a [f32]>,
}

impl Training<'_> {
    /// Refuses empty data, mismatched lengths, NaN, infinities, negative weights and unknown classes by name.
    pub fn check(&self, task: Task) -> Result<()> {
        if self.rows.is_empty() {
            return Err(Error::Empty { what: "X", needed: "one row" });
        }
        self.rows.check_finite("X")?;
        let per_row = match task {
            Task::Regression(targets) => targets,
            Task::Classification(_) => 1,
        };
        let n = self.rows.len();
        if self.targets.len() != n * per_row {
            return Err(Error::RowCount {
                what: "y",
                expected: n,
                found: self.targets.len() / per_row.max(1),
            });
        }
        finite("y", self.targets, per_row)?;
        if let Task::Classification(classes) = task {
            let bad = |y: &f32| y.fract() != 0.0 || *y < 0.0 || *y >= classes as f32;
            if let Some(row) = self.targets.iter().position(bad) {
                let value = f64::from(self.targets[row]);
                let expected = "class indices from 0 to the number of classes minus one";
                return Err(Error::Target { loss: "classification", value, row, expected });
            }
        }
        check_weights(self.weights, n)
    }
}

/// Refuses weights that do not count `n` rows.
pub(crate) fn check_weights(weights: Option<&[f32]>, n: usize) -> Result<()> {
    let Some(weights) = weights else { return Ok(()) };
    error::check_weights(weights, n)?;
    error::check_mass(effective_rows(weights))
}

/// Rows that are mapped and written at a time.
const PART: usize = 64 * TILE;

/// Data in the form of the solvers: encoded targets and explicit weights.
pub(crate) struct Prepared<'a> {
    pub x: Cow<'a, [f32]>,
    rows: Option<Rows<'a>>,
    /// Rows that a metric has mapped, where those it was given are on disk.
    disk: Option<RowCache>,
    columns: usize,
    small: bool,
    /// Targets of the loss.
    pub targets: Vec<f32>,
    /// Sample weights.
    pub weights: Vec<f32>,
}

/// Rows below which nothing is held out or subsampled, so that weights are exactly equivalent to repeated rows.
pub(crate) const SMALL: usize = 2_000;

impl<'a> Prepared<'a> {
    /// Encodes class indices for `loss`; merges identical rows of small data.
    pub(crate) fn new(data: &Training<'a>, task: Task, loss: &LossSpec) -> Result<Self> {
        Self::encoded(data.rows, encode(data.targets, task, loss), data.weights)
    }

    /// Rows without targets; merges identical rows of small data.
    pub(crate) fn unlabelled(rows: Rows<'a>, weights: Option<&[f32]>) -> Result<Self> {
        Self::encoded(rows, Vec::new(), weights)
    }

    fn encoded(rows: Rows<'a>, targets: Vec<f32>, weights: Option<&[f32]>) -> Result<Self> {
        let (n, columns) = (rows.len(), rows.columns());
        let mut weights = weights.map_or_else(|| vec![1.0; n], <[f32]>::to_vec);
        tame(&mut weights);
        if n >= SMALL {
            return Ok(Self {
                x: Cow::Borrowed(&[]),
                rows: Some(rows),
                disk: None,
                columns,
                small: false,
                targets,
                weights,
            });
        }
        room("rows of X made dense", "the columns of X", &[n, columns], 8)?;
        let (x, targets, weights) =
            merge(&rows.gather(&(0..n as u32).collect::<Vec<_>>()), columns, &targets, &weights);
        Ok(Self { x: Cow::Owned(x), rows: None, disk: None, columns, small: true, targets, weights })
    }

    /// The same with rows that a metric has mapped.
    pub(crate) fn mapped(&self, metric: &Metric) -> Result<Prepared<'static>> {
        let (rows, columns, small) = (self.rows()?, metric.directions(), self.small);
        let (targets, weights) = (self.targets.clone(), self.weights.clone());
        let (mut x, mut disk) = (Cow::Owned(Vec::new()), None);
        if let Rows::Cached(_) = rows {
            let parts = (0..rows.len()).step_by(PART).map(|first| first..(first + PART).min(rows.len()));
            let mapped = on_disk(columns, parts.map(|part| metric.map(rows.slice(part))));
            disk = Some(rows.sound(mapped)?);
        } else {
            room("rows in the units of the metric", "the rows of X", &[rows.len(), columns], 4)?;
            x = Cow::Owned(metric.map(rows));
        }
        Ok(Prepared { x, rows: None, disk, columns, small, targets, weights })
    }

    /// The rows.
    pub(crate) fn rows(&self) -> Result<Rows<'_>> {
        match (self.rows, &self.disk) {
            (Some(rows), _) => Ok(rows),
            (None, Some(cache)) => Ok(cache.rows().into()),
            (None, None) => Rows::single(&self.x, self.columns),
        }
    }

    /// Whether the data are small in the sense of [`SMALL`].
    pub(crate) fn is_small(&self) -> bool {
        self.small
    }
}

/// Divides weights by a power of two, exactly, where their products would leave single precision.
fn tame(weights: &mut [f32]) {
    let top = weights.iter().fold(0.0_f32, |a, &w| a.max(w));
    if top > 1e12 {
        let factor = (-(top.log2().floor())).exp2();
        weights.iter_mut().for_each(|w| *w *= factor);
    }
}

/// Σ w: the number of rows, were every row repeated as often as its weight says.
pub(crate) fn effective_rows(weights: &[f32]) -> f64 {
    weights.iter().map(|&w| f64::from(w)).sum()
}

pub(crate) fn encode(targets: &[f32], task: Task, loss: &LossSpec) -> Vec<f32> {
    match task {
        Task::Regression(_) => targets.to_vec(),
        Task::Classification(classes) => targets.iter().map(|&y| loss.encode(classes, y as usize)).collect(),
    }
}

/// Merges identical (x, y) into one row of their summed weight, in lexicographic order, and drops rows of weight zero:
/// repeated rows, weights and the order of rows then lead to the same bits.
fn merge(x: &[f32], columns: usize, y: &[f32], weights: &[f32]) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let (n, t) = (weights.len(), y.len() / weights.len());
    // −0 and 0 are one number.
    let key =
        |i: usize| x[i * columns..(i + 1) * columns].iter().chain(&y[i * t..(i + 1) * t]).map(|v| v + 0.0);
    let compare = |a: &usize, b: &usize| {
        let unequal = key(*a).zip(key(*b)).map(|(a, b)| a.total_cmp(&b)).find(|o| o.is_ne());
        unequal.unwrap_or(std::cmp::Ordering::Equal)
    };
    let mut order: Vec<usize> = (0..n).filter(|&i| weights[i] > 0.0).collect();
    order.sort_by(compare);
    let (mut xs, mut ys, mut sums) = (Vec::new(), Vec::new(), Vec::<f64>::new());
    let mut last = None;
    for i in order {
        if last.is_some_and(|l| compare(&l, &i).is_eq()) {
            if let Some(sum) = sums.last_mut() {
                *sum += f64::from(weights[i]);
            }
            continue;
        }
        xs.extend_from_slice(&x[i * columns..(i + 1) * columns]);
        ys.extend_from_slice(&y[i * t..(i + 1) * t]);
        sums.push(f64::from(weights[i]));
        last = Some(i);
    }
    (xs, ys, sums.into_iter().map(|w| w as f32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_are_merged_and_rows_of_weight_zero_dropped() {
        let x = [1.0, 2.0, 0.0, 5.0, 1.0, 2.0, -0.0, 5.0, 1.0, 2.0, 9.0, 9.0];
        let (y, weights) = ([1.0, 2.0, 1.0, 2.0, 3.0, 4.0], [1.0, 0.5, 2.0, 0.25, 1.0, 0.0]);
        let (xs, ys, sums) = merge(&x, 2, &y, &weights);
        assert_eq!(xs, [0.0, 5.0, 1.0, 2.0, 1.0, 2.0]);
        assert_eq!((ys, sums), (vec![2.0, 1.0, 3.0], vec![0.75, 3.0, 1.0]));
    }

    /// Weights are summed in double precision: 2²⁴ + 1 ones are not 2²⁴.
    #[test]
    fn merged_weights_are_exact() {
        let (_, _, sums) = merge(&[1.0; 3], 1, &[0.0; 3], &[16_777_216.0, 1.0, 1.0]);
        assert_eq!(sums, [16_777_218.0]);
    }

    #[test]
    fn small_data_are_owned_and_large_data_borrowed() {
        let (x, y) = (vec![0.5_f32; 2_000], vec![1.0_f32; 2_000]);
        let prepared = |x: &[f32], weights: Option<&[f32]>| {
            let data = Training { rows: Rows::single(x, 1).unwrap(), targets: &y[..x.len()], weights };
            let prepared = Prepared::new(&data, Task::Regression(1), &LossSpec::Square).unwrap();
            (prepared.is_small(), prepared.rows().unwrap().len(), effective_rows(&prepared.weights))
        };
        assert_eq!(prepared(&x, None), (false, 2_000, 2_000.0));
        // Normalised weights do not make large data small.
        assert!(!prepared(&x, Some(&[0.000_5; 2_000])).0);
        assert_eq!(prepared(&x[..1_999], Some(&[0.5; 1_999])), (true, 1, 999.5));
    }
}
