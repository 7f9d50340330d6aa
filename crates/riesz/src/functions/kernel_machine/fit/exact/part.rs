//! Rows that sweeps learn from and rows that judge, as the kernel sees them.

use super::sample::log_losses;
use super::Chosen;
use crate::data::Rows;
use crate::error::Result;
use crate::functions::kernel_machine::fit::{class_of, Fit};
use crate::random::{BlockIndex, Permutation, Stream};
use crate::solver::{weighted_loss, KernelProblem, SweepState};
use std::ops::Range;

/// Rows whose loss is said to be that of all that are learnt from.
const PROBED: usize = 1_024;

/// Some of the rows: those that are learnt from, in random order, then those held out, then others.
pub(super) struct Part {
    /// Which they are.
    pub rows: Vec<u32>,
    /// As the metric or scaling leaves them to the kernel.
    pub x: Vec<f32>,
    pub targets: Vec<f32>,
    pub weights: Vec<f32>,
    pub held: Vec<f32>,
    pub labels: Vec<usize>,
}

impl Part {
    /// Where the rows held out are.
    pub fn judges(&self) -> Range<usize> {
        let first = self.held.iter().position(|&w| w > 0.0).unwrap_or(self.held.len());
        first..first + self.held.iter().filter(|&&w| w > 0.0).count()
    }

    /// f at the rows held out.
    pub fn judged(&self, problem: &KernelProblem<'_>, state: &SweepState) -> Result<Vec<f32>> {
        let (judges, d) = (self.judges(), problem.kernel.columns());
        problem.values(&problem.points[judges.start * d..judges.end * d], &state.coefficients)
    }

    /// So many numbers of each row, in the order of all rows.
    pub fn in_order<T: Copy + Default>(&self, values: &[T], each: usize) -> Vec<T> {
        let mut out = vec![T::default(); values.len()];
        for (&row, values) in self.rows.iter().zip(values.chunks_exact(each)) {
            out[row as usize * each..][..each].copy_from_slice(values);
        }
        out
    }
}

impl Fit<'_> {
    /// All rows.
    pub(super) fn whole(&self, chosen: &Chosen) -> Part {
        let order = Permutation::new(self.options.seed, Stream::Shuffle, BlockIndex(0), self.rows.len());
        let mut rows = order.indices().to_vec();
        rows.sort_by_key(|&i| (self.weights[i as usize] == 0.0, self.held[i as usize] == 0.0));
        let x = match &chosen.metric {
            Some(metric) => {
                let (mapped, r) = (metric.map(self.rows), metric.directions());
                rows.iter().flat_map(|&i| &mapped[i as usize * r..(i as usize + 1) * r]).copied().collect()
            }
            None => self.rows.gather(&rows),
        };
        self.part_of(x, rows)
    }

    /// These rows, mapped by the metric where there is one.
    pub(super) fn part(&self, chosen: &Chosen, rows: &[u32]) -> Part {
        let mut x = self.rows.gather(rows);
        if let Some(metric) = &chosen.metric {
            if let Ok(view) = Rows::single(&x, metric.columns()) {
                x = metric.map(view);
            }
        }
        self.part_of(x, rows.to_vec())
    }

    /// What belongs to these rows, which are `x` to the kernel.
    fn part_of(&self, x: Vec<f32>, rows: Vec<u32>) -> Part {
        let t = self.loss.targets();
        let pick = |values: &[f32]| rows.iter().map(|&i| values[i as usize]).collect();
        let is_class = self.loss.domain().is_class();
        let targets =
            rows.iter().flat_map(|&i| &self.targets[i as usize * t..(i as usize + 1) * t]).copied().collect();
        Part {
            x,
            targets,
            weights: pick(&self.weights),
            held: pick(&self.held),
            labels: rows.iter().filter(|_| is_class).map(|&i| self.label(i as usize)).collect(),
            rows,
        }
    }

    /// The mean loss of the held-out rows; of scores that are calibrated, log-loss at the best slope.
    pub(super) fn held_out_risk(&self, part: &Part, judged: &[f32]) -> f64 {
        let risk = match self.is_calibrated() {
            false => self.held_out_loss(part, judged),
            true => {
                let (c, judges) = (self.offset.len(), part.judges());
                let weights: Vec<f64> = part.held[judges.clone()].iter().map(|&w| f64::from(w)).collect();
                let score = |i: usize, k: usize| f64::from(judged[i * c + k]);
                let losses = log_losses(c, score, &part.labels[judges], &weights);
                losses.iter().zip(&weights).map(|(loss, w)| loss * w).sum::<f64>()
                    / weights.iter().sum::<f64>()
            }
        };
        if risk.is_finite() {
            risk
        } else {
            f64::INFINITY
        }
    }

    pub(super) fn held_out_loss(&self, part: &Part, judged: &[f32]) -> f64 {
        let (judges, t) = (part.judges(), self.loss.targets());
        let targets = &part.targets[judges.start * t..judges.end * t];
        weighted_loss(&*self.loss, targets, &part.held[judges], judged)
    }

    /// Mean loss of rows that are learnt from: of [`PROBED`] of them, or all.
    pub(super) fn loss_of_some(
        &self,
        part: &Part,
        problem: &KernelProblem<'_>,
        state: &SweepState,
    ) -> Result<f64> {
        let (few, t) = (part.judges().start.min(PROBED), self.loss.targets());
        let own = problem.values(&problem.points[..few * problem.kernel.columns()], &state.coefficients)?;
        Ok(weighted_loss(&*self.loss, &part.targets[..few * t], &part.weights[..few], &own))
    }

    /// The share of held-out rows whose class is another one, of classes.
    pub(super) fn error_of_judges(&self, part: &Part, judged: &[f32]) -> Option<f64> {
        let judges = part.judges();
        let (labels, weights) = (part.labels.get(judges.clone())?, &part.held[judges]);
        let scores = judged.chunks_exact(self.offset.len());
        let wrong = scores.zip(labels).zip(weights).filter(|((u, label), _)| class_of(u) != **label);
        // An empty sum would be −0.
        let wrong = wrong.fold(0.0, |sum, (_, &w)| sum + f64::from(w));
        Some(wrong / weights.iter().map(|&w| f64::from(w)).sum::<f64>())
    }
}
