//! Two samples as one: rows of the numerator first, each sample with half of the weight.

use crate::data::Rows;
use crate::error::{Error, Result};
use crate::functions::Metric;
use crate::random::{BlockIndex, Permutation, Seed, Stream};

/// Rows of one distribution.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    /// X.
    pub rows: Rows<'a>,
    /// Sample weights, not negative; `None`: all one.
    pub weights: Option<&'a [f32]>,
}

/// What the two samples are called in error messages: rows and weights.
const NAMES: [[&str; 2]; 2] =
    [["X_numerator", "sample_weight_numerator"], ["X_denominator", "sample_weight_denominator"]];

impl Sample<'_> {
    /// Refuses what cannot be learnt from, by name.
    fn check(&self, [rows, weights]: [&'static str; 2]) -> Result<()> {
        self.rows.check_finite(rows)?;
        let positive = match self.weights {
            None => self.rows.len(),
            Some(w) => {
                let n = self.rows.len();
                if w.len() != n {
                    return Err(Error::RowCount { what: weights, expected: n, found: w.len() });
                }
                if let Some(row) = w.iter().position(|w| !w.is_finite()) {
                    let value = f64::from(w[row]);
                    return Err(Error::NotFinite { what: weights, value, row, column: 0 });
                }
                if let Some(&w) = w.iter().find(|w| **w < 0.0) {
                    return Err(Error::OutOfRange { name: weights, value: f64::from(w), range: "[0, inf)" });
                }
                w.iter().filter(|w| **w > 0.0).count()
            }
        };
        match positive {
            0 | 1 => Err(Error::Empty { what: rows, needed: "two rows of positive weight" }),
            _ => Ok(()),
        }
    }

    fn weight(&self, row: usize) -> f32 {
        self.weights.map_or(1.0, |w| w[row])
    }
}

/// Both samples: targets +1 for the numerator, −1 for the denominator.
pub(super) struct Samples {
    x: Vec<f32>,
    columns: usize,
    pub targets: Vec<f32>,
    /// Weights of mean one, half of the total on each sample.
    pub weights: Vec<f32>,
}

/// Weights to learn with and weights to judge by, half of each total on each sample.
pub(super) struct Split {
    pub train: Vec<f32>,
    pub held: Vec<f32>,
}

/// Above this many rows of one sample held-out rows get no more.
const MOST_HELD: usize = 4_096;
/// A hold-out, or a fold, is one row of so many.
const FOLDS: usize = 5;

impl Samples {
    /// Checks and stacks two samples; rows of weight zero are left out.
    pub(super) fn new(numerator: Sample<'_>, denominator: Sample<'_>) -> Result<Self> {
        numerator.check(NAMES[0])?;
        denominator.check(NAMES[1])?;
        let columns = numerator.rows.columns();
        if denominator.rows.columns() != columns {
            let found = denominator.rows.columns();
            return Err(Error::Conflict(format!(
                "X_numerator has {columns} columns, X_denominator has {found}"
            )));
        }
        let (mut x, mut targets, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (sample, target) in [(numerator, 1.0), (denominator, -1.0)] {
            let kept: Vec<u32> =
                (0..sample.rows.len()).filter(|&i| sample.weight(i) > 0.0).map(|i| i as u32).collect();
            x.extend(sample.rows.gather(&kept));
            targets.extend(kept.iter().map(|_| target));
            weights.extend(kept.iter().map(|&i| sample.weight(i as usize)));
        }
        weights = halves(&targets, &weights);
        Ok(Self { x, columns, targets, weights })
    }

    /// The rows of both samples in turn, so that any stretch of them has about the share of each that all have.
    pub(super) fn interleaved(self) -> Result<Self> {
        let sizes = self.sizes();
        let place = |i: usize| match i < sizes[0] {
            true => (i as f64 + 0.5) / sizes[0] as f64,
            false => ((i - sizes[0]) as f64 + 0.5) / sizes[1] as f64,
        };
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_by(|&a, &b| place(a as usize).total_cmp(&place(b as usize)));
        let pick = |values: &[f32]| order.iter().map(|&i| values[i as usize]).collect();
        let (targets, weights) = (pick(&self.targets), pick(&self.weights));
        Ok(Self { x: self.rows()?.gather(&order), targets, weights, ..self })
    }

    /// The same with rows that a metric has mapped.
    pub(super) fn mapped(self, metric: &Metric) -> Result<Self> {
        let (x, columns) = (metric.map(self.rows()?), metric.directions());
        Ok(Self { x, columns, ..self })
    }

    pub(super) fn rows(&self) -> Result<Rows<'_>> {
        Rows::single(&self.x, self.columns)
    }

    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Rows of the numerator and of the denominator.
    pub(super) fn sizes(&self) -> [usize; 2] {
        let numerator = self.targets.iter().filter(|y| **y > 0.0).count();
        [numerator, self.len() - numerator]
    }

    /// 4/(1/n_p + 1/n_q), with (Σw)²/Σw² for the size of a sample: as many rows, half of them in each sample, say as
    /// much. It is the number of rows for samples of one size and equal weights.
    pub(super) fn effective_rows(&self) -> f64 {
        let size = |target: f32| {
            let own = self.targets.iter().zip(&self.weights).filter(|(y, _)| **y == target);
            let (sum, square) = own.fold((0.0, 0.0), |(sum, square), (_, &w)| {
                (sum + f64::from(w), square + f64::from(w).powi(2))
            });
            sum * sum / square
        };
        4.0 / (1.0 / size(1.0) + 1.0 / size(-1.0))
    }

    /// The rows of each sample in random order.
    fn shuffled(&self, seed: Seed, stream: Stream) -> [Vec<u32>; 2] {
        let order = Permutation::new(seed, stream, BlockIndex(0), self.len());
        let of = |target: f32| {
            order.indices().iter().copied().filter(|&i| self.targets[i as usize] == target).collect()
        };
        [of(1.0), of(-1.0)]
    }

    /// At most `most` random rows of each sample; `None` where that is all.
    pub(super) fn part(&self, most: usize, seed: Seed) -> Result<Option<Self>> {
        let samples = self.shuffled(seed, Stream::Race);
        if samples.iter().all(|rows| rows.len() <= most) {
            return Ok(None);
        }
        let mut kept: Vec<u32> =
            samples.iter().flat_map(|rows| rows[..rows.len().min(most)].iter().copied()).collect();
        kept.sort_unstable();
        let pick = |values: &[f32]| -> Vec<f32> { kept.iter().map(|&i| values[i as usize]).collect() };
        let (x, targets) = (self.rows()?.gather(&kept), pick(&self.targets));
        let weights = halves(&targets, &pick(&self.weights));
        Ok(Some(Self { x, columns: self.columns, targets, weights }))
    }

    /// Five folds (fewer where a sample has fewer rows), each held out once.
    pub(super) fn folds(&self, seed: Seed) -> Vec<Split> {
        let samples = self.shuffled(seed, Stream::HoldOut);
        let folds = samples.iter().map(Vec::len).fold(FOLDS, usize::min);
        let mut fold = vec![0; self.len()];
        for rows in &samples {
            rows.iter().enumerate().for_each(|(k, &i)| fold[i as usize] = k % folds);
        }
        (0..folds).map(|k| self.split(|i| fold[i] == k)).collect()
    }

    /// A fifth of each sample, at most 4,096 rows, held out.
    pub(super) fn hold_out(&self, seed: Seed) -> Split {
        let mut held = vec![false; self.len()];
        for rows in self.shuffled(seed, Stream::HoldOut) {
            rows[..(rows.len() / FOLDS).clamp(1, MOST_HELD)].iter().for_each(|&i| held[i as usize] = true);
        }
        self.split(|i| held[i])
    }

    fn split(&self, held: impl Fn(usize) -> bool) -> Split {
        let pick = |wanted: bool| -> Vec<f32> {
            (0..self.len()).map(|i| if held(i) == wanted { self.weights[i] } else { 0.0 }).collect()
        };
        Split { train: halves(&self.targets, &pick(false)), held: halves(&self.targets, &pick(true)) }
    }
}

/// Weights of mean one with half of their total on each sample (both samples have some).
fn halves(targets: &[f32], weights: &[f32]) -> Vec<f32> {
    let total = |target: f32| -> f64 {
        targets.iter().zip(weights).filter(|(y, _)| **y == target).map(|(_, &w)| f64::from(w)).sum()
    };
    let half = 0.5 * targets.len() as f64;
    let factors = [half / total(1.0), half / total(-1.0)];
    let scaled = |(y, &w): (&f32, &f32)| (f64::from(w) * factors[usize::from(*y < 0.0)]) as f32;
    targets.iter().zip(weights).map(scaled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(n: [usize; 2]) -> Samples {
        let x: Vec<f32> = (0..n[0] + n[1]).map(|i| i as f32).collect();
        let sample = |x| Sample { rows: Rows::single(x, 1).unwrap(), weights: None };
        Samples::new(sample(&x[..n[0]]), sample(&x[n[0]..])).unwrap()
    }

    fn mass(targets: &[f32], weights: &[f32], target: f32) -> f64 {
        targets.iter().zip(weights).filter(|(y, _)| **y == target).map(|(_, &w)| f64::from(w)).sum()
    }

    /// However unequal the sizes: half of every total on each sample, every row held out once.
    #[test]
    fn each_sample_has_half_of_every_total() {
        let all = samples([7, 300]);
        let n = all.len() as f64;
        let folds = all.folds(Seed(1));
        assert_eq!(folds.len(), 5);
        let hold_out = [all.hold_out(Seed(1))];
        for weights in folds.iter().chain(&hold_out).flat_map(|s| [&s.train, &s.held]).chain([&all.weights]) {
            for target in [1.0, -1.0] {
                assert!((mass(&all.targets, weights, target) / n - 0.5).abs() < 1e-6);
            }
        }
        for i in 0..all.len() {
            assert_eq!(folds.iter().filter(|s| s.held[i] > 0.0).count(), 1);
            assert!(folds.iter().all(|s| (s.held[i] > 0.0) != (s.train[i] > 0.0)));
        }
        assert!((all.effective_rows() - 4.0 / (1.0 / 7.0 + 1.0 / 300.0)).abs() < 1e-3);
    }

    #[test]
    fn a_part_keeps_rows_and_targets_together() {
        let all = samples([50, 400]);
        assert!(all.part(400, Seed(2)).unwrap().is_none());
        let part = all.part(100, Seed(2)).unwrap().unwrap();
        assert_eq!(part.len(), 150);
        for (x, y) in part.x.iter().zip(&part.targets) {
            assert_eq!(*y, if *x < 50.0 { 1.0 } else { -1.0 });
        }
    }

    /// Two of p and six of q: one of p, three of q, whatever stretch of four one looks at.
    #[test]
    fn interleaved_samples_take_turns() {
        let all = samples([2, 6]).interleaved().unwrap();
        assert_eq!(all.x, [2.0, 0.0, 3.0, 4.0, 5.0, 1.0, 6.0, 7.0]);
        assert_eq!(all.targets, [-1.0, 1.0, -1.0, -1.0, -1.0, 1.0, -1.0, -1.0]);
        let expected = all.targets.iter().map(|y| if *y > 0.0 { 2.0 } else { 2.0 / 3.0 });
        assert!(all.weights.iter().zip(expected).all(|(w, expected): (_, f32)| (w - expected).abs() < 1e-6));
    }

    /// A weight is a repetition, up to the scale of all weights, and zero is absence.
    #[test]
    fn rows_of_weight_zero_are_left_out() {
        let x = [1.0_f32, 2.0, 3.0, 4.0];
        let rows = Rows::single(&x, 1).unwrap();
        let weights = [1.0, 0.0, 3.0, 0.0];
        let sample = Sample { rows, weights: Some(&weights) };
        let all = Samples::new(sample, Sample { rows, weights: None }).unwrap();
        assert_eq!(all.x, [1.0, 3.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(all.weights, [0.75, 2.25, 0.75, 0.75, 0.75, 0.75]);
    }
}
