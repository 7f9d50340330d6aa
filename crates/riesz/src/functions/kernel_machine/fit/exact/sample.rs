//! Rows as kernel ridge regression sees them, and its leave-one-out predictions.

use crate::kernel::ClosedForm;
use crate::linalg::cholesky::solve_in_place;
use crate::linalg::lu::product;
use crate::linalg::{Cholesky, Eigen, Spare};
use faer::Mat;
use std::ops::Range;

/// Share of its size by which a function may be off where it is evaluated in single precision …
pub(super) const MOST_ROUNDED: f64 = 0.01;
/// … or this much in the unit of the targets, where f is next to nothing (equal rows with opposite targets cancel) …
pub(super) const LITTLE: f64 = 1e-3;
/// … and of the mean square by which it misses rows left out.
const MOST_OF_MISSED: f64 = 0.1;
/// Newton steps for the slope of scores.
const SLOPE_STEPS: usize = 8;

/// Rows, centred targets of the square loss, weights, and what a prediction costs.
#[derive(Clone)]
pub(super) struct Sample {
    /// n×d, in the units of the scaling.
    pub x: Mat<f64>,
    /// n×C.
    pub y: Mat<f64>,
    pub weights: Vec<f64>,
    /// How much of each row is left out of a fit that is to predict it.
    pub shares: Vec<f64>,
    /// The class of each row; empty for numbers.
    pub labels: Vec<usize>,
    /// What was subtracted from the targets.
    pub mean: Vec<f64>,
}

impl Sample {
    /// The rows of equal weight that would say as much: (Σw)²/Σw².
    pub(super) fn rows_of_equal_weight(&self) -> f64 {
        let sum = |power: i32| self.weights.iter().map(|w| w.powi(power)).sum::<f64>();
        sum(1).powi(2) / sum(2)
    }

    /// Some of the rows.
    pub(super) fn part(&self, rows: &[usize]) -> Self {
        let pick = |a: &Mat<f64>| Mat::from_fn(rows.len(), a.ncols(), |i, j| a[(rows[i], j)]);
        Self {
            x: pick(&self.x),
            y: pick(&self.y),
            weights: rows.iter().map(|&i| self.weights[i]).collect(),
            shares: rows.iter().map(|&i| self.shares[i]).collect(),
            labels: rows.iter().filter_map(|&i| self.labels.get(i).copied()).collect(),
            mean: self.mean.clone(),
        }
    }

    /// Number n of rows.
    pub(super) fn len(&self) -> usize {
        self.weights.len()
    }

    /// Runs of rows with the same columns; equal rows of small data follow each other.
    pub(super) fn alike(&self) -> Vec<Range<usize>> {
        let new = |i: &usize| *i == 0 || self.x.row(*i) != self.x.row(*i - 1);
        let first: Vec<usize> = (0..self.len()).filter(new).collect();
        let last = first.iter().skip(1).copied().chain([self.len()]);
        first.iter().copied().zip(last).map(|(first, last)| first..last).collect()
    }

    /// A factor of K + λW⁻¹, given the lower triangle of K, and (K + λW⁻¹)⁻¹ y; `None` where the matrix is not positive definite.
    pub(super) fn ridge(&self, mut kernel: Mat<f64>, damping: f64) -> Option<(Cholesky, Mat<f64>)> {
        self.weights.iter().enumerate().for_each(|(i, w)| kernel[(i, i)] += damping / w);
        let factor = Cholesky::new(kernel)?;
        let mut beta = self.y.clone();
        solve_in_place(factor.lower(), beta.as_mut());
        Some((factor, beta))
    }

    /// The loss of each row at centred predictions: the mean square over the outputs, or for classes the log-loss at the best
    /// slope of the scores.
    pub(super) fn losses(&self, predictions: &Mat<f64>) -> Vec<f64> {
        let (n, c) = (self.len(), self.y.ncols());
        if self.labels.is_empty() {
            let square =
                |i: usize| (0..c).map(|k| (self.y[(i, k)] - predictions[(i, k)]).powi(2)).sum::<f64>();
            return (0..n).map(|i| square(i) / c as f64).collect();
        }
        log_losses(c, |i, k| predictions[(i, k)] + self.mean[k], &self.labels, &self.weights)
    }

    /// f₋ᵢ(x_i) of β and the diagonal of (K + λW⁻¹)⁻¹, n×C: see [`LeaveOneOut`]. `None` where coefficients are so large that kernels
    /// in single precision round f away.
    fn left_out(&self, beta: &Mat<f64>, own: &[f64], damping: f64) -> Option<Mat<f64>> {
        let left_out = Mat::from_fn(self.len(), beta.ncols(), |i, c| {
            let (share, weight) = (self.shares[i], self.weights[i]);
            self.y[(i, c)] - beta[(i, c)] / ((1.0 - share) * weight / damping + share * own[i])
        });
        let outputs = 0..beta.ncols();
        let square = |of: &dyn Fn(usize, usize) -> f64| {
            outputs.clone().map(|c| self.mean_of((0..self.len()).map(|i| of(i, c).powi(2)))).sum::<f64>()
        };
        let size = square(&|i, c| self.y[(i, c)] - damping * beta[(i, c)] / self.weights[i]);
        let missed = square(&|i, c| self.y[(i, c)] - left_out[(i, c)]);
        let rounded = ClosedForm::ROUNDING.powi(2) * beta.squared_norm_l2();
        let allowed = MOST_ROUNDED.powi(2) * size + LITTLE.powi(2);
        (rounded <= allowed && rounded <= MOST_OF_MISSED * missed).then_some(left_out)
    }

    /// Σ w v/Σ w.
    pub(super) fn mean_of(&self, values: impl Iterator<Item = f64>) -> f64 {
        let total: f64 = self.weights.iter().sum();
        values.zip(&self.weights).map(|(v, w)| v * w).sum::<f64>() / total
    }
}

/// The log-loss of each row at the best slope of C scores.
pub(super) fn log_losses(
    c: usize,
    score: impl Fn(usize, usize) -> f64,
    labels: &[usize],
    weights: &[f64],
) -> Vec<f64> {
    let scores = match c {
        // u between two classes is −u/2 against u/2.
        1 => Mat::from_fn(labels.len(), 2, |i, k| (k as f64 - 0.5) * score(i, 0)),
        _ => Mat::from_fn(labels.len(), c, score),
    };
    calibrated_log_losses(&scores, labels, weights)
}

/// −log softmax(a u)_label of each row, a > 0 of least weighted sum (by Newton's method from one over the size of u).
fn calibrated_log_losses(u: &Mat<f64>, labels: &[usize], weights: &[f64]) -> Vec<f64> {
    let (n, k) = (u.nrows(), u.ncols());
    let size = ((0..k).map(|c| u.col(c).squared_norm_l2()).sum::<f64>() / (n * k) as f64).sqrt().max(1e-12);
    let mut slope = 1.0 / size;
    let mut p = vec![0.0; k];
    for _ in 0..SLOPE_STEPS {
        let (mut gradient, mut curvature) = (0.0, 0.0);
        for i in 0..n {
            log_sum(u, i, slope, &mut p);
            let mean: f64 = (0..k).map(|c| p[c] * u[(i, c)]).sum();
            let square: f64 = (0..k).map(|c| p[c] * u[(i, c)].powi(2)).sum();
            gradient += weights[i] * (mean - u[(i, labels[i])]);
            curvature += weights[i] * (square - mean * mean);
        }
        let next = slope - gradient / curvature.max(f64::MIN_POSITIVE);
        // Scores that separate the classes have no best slope.
        slope = next.clamp(0.25 * slope, 4.0 * slope).min(1e3 / size);
    }
    (0..n).map(|i| log_sum(u, i, slope, &mut p) - slope * u[(i, labels[i])]).collect()
}

/// log Σ_c exp(a u_ic), and the shares of the terms.
fn log_sum(u: &Mat<f64>, i: usize, slope: f64, shares: &mut [f64]) -> f64 {
    let top = (0..shares.len()).map(|c| slope * u[(i, c)]).fold(f64::NEG_INFINITY, f64::max);
    shares.iter_mut().enumerate().for_each(|(c, p)| *p = (slope * u[(i, c)] - top).exp());
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|p| *p /= sum);
    top + sum.ln()
}

/// Kernel ridge regression f = Kβ, (K + λW⁻¹)β = y, for every λ by one eigendecomposition W^½KW^½ = V diag(μ) Vᵀ:
///
/// ```text
/// β = W^½ V (μ + λ)⁻¹ Vᵀ W^½ y,   A = (K + λW⁻¹)⁻¹,   A_ii = w_i Σ_k V_ik²/(μ_k + λ),
/// y_i − f₋ᵢ(x_i) = β_i/((1 − s_i) w_i/λ + s_i A_ii),
/// ```
///
/// f₋ᵢ being what is learnt with the weight (1 − s_i) w_i of row i: from the others alone where s_i = 1. (By the formula of Sherman and Morrison for
/// λ/w_i that becomes λ/((1 − s_i) w_i).)
pub(super) struct LeaveOneOut<'a> {
    sample: &'a Sample,
    roots: Vec<f64>,
    eigen: Eigen,
    /// Vᵀ W^½ y.
    projected: Mat<f64>,
}

impl<'a> LeaveOneOut<'a> {
    /// From the lower triangle of K; `None` where it is not finite.
    pub(super) fn new(mut kernel: Mat<f64>, sample: &'a Sample) -> Option<Self> {
        let roots: Vec<f64> = sample.weights.iter().map(|w| w.sqrt()).collect();
        for (j, column) in kernel.col_iter_mut().enumerate() {
            column.iter_mut().zip(&roots).skip(j).for_each(|(k, r)| *k *= r * roots[j]);
        }
        let eigen = Eigen::of(kernel.as_ref())?;
        let (n, y) = (roots.len(), &sample.y);
        let weighted = Mat::from_fn(n, y.ncols(), |i, c| roots[i] * y[(i, c)]);
        let projected = product(eigen.vectors.transpose(), weighted.as_ref());
        Some(Self { sample, roots, eigen, projected })
    }

    /// V (μ + λ)⁻¹ Vᵀ W^½ y.
    fn solved(&self, damping: f64) -> Mat<f64> {
        let shrunk = Mat::from_fn(self.roots.len(), self.projected.ncols(), |k, c| {
            self.projected[(k, c)] / (self.eigen.values[k].max(0.0) + damping)
        });
        product(self.eigen.vectors.as_ref(), shrunk.as_ref())
    }

    /// f₋ᵢ(x_i), n×C; `None` as of [`Sample::left_out`].
    pub(super) fn left_out(&self, damping: f64) -> Option<Mat<f64>> {
        let mut own = vec![0.0; self.roots.len()];
        for (k, v) in self.eigen.vectors.col_iter().enumerate() {
            let share = 1.0 / (self.eigen.values[k].max(0.0) + damping);
            own.iter_mut().zip(v.iter()).for_each(|(own, v)| *own += share * v * v);
        }
        let mut beta = self.solved(damping);
        for (i, r) in self.roots.iter().enumerate() {
            own[i] *= r * r;
            (0..beta.ncols()).for_each(|c| beta[(i, c)] *= r);
        }
        self.sample.left_out(&beta, &own, damping)
    }
}

/// f₋ᵢ(x_i) as by [`LeaveOneOut`], at one λ and from a Cholesky factor of K + λW⁻¹, given the lower triangle of K: of many rows several λ
/// cost less than one eigendecomposition. `None` also where the matrix is not positive definite.
pub(super) fn left_out_at(
    kernel: &Mat<f64>,
    sample: &Sample,
    damping: f64,
    spare: &Spare,
) -> Option<Mat<f64>> {
    let (factor, beta) = sample.ridge(spare.copy(kernel), damping)?;
    let left_out = sample.left_out(&beta, &factor.inverse_diagonal(), damping);
    spare.keep(factor.into_inner());
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::distances::squared_distances;

    fn sample(n: usize) -> Sample {
        let x = Mat::from_fn(n, 2, |i, j| ((i * 37 + j * 11) % 23) as f64 / 7.0);
        let y = Mat::from_fn(n, 2, |i, c| (x[(i, 0)] + c as f64).sin());
        let weights = (0..n).map(|i| 0.5 + (i % 3) as f64).collect();
        let shares = (0..n).map(|i| if i % 4 == 0 { 0.3 } else { 1.0 }).collect();
        Sample { x, y, weights, shares, labels: Vec::new(), mean: vec![0.0; 2] }
    }

    fn kernel(x: &Mat<f64>) -> Mat<f64> {
        let squares = squared_distances(x.as_ref(), &Spare::default());
        Mat::from_fn(x.nrows(), x.nrows(), |i, j| (-squares[(i, j)]).exp())
    }

    /// Leaving a row out and solving again, for every row, or a part of its weight, and two dampings.
    #[test]
    fn the_closed_form_is_brute_force() {
        let all = sample(21);
        let path = LeaveOneOut::new(kernel(&all.x), &all).unwrap();
        for damping in [1e-2, 1.0] {
            let left_out = path.left_out(damping).unwrap();
            let again = left_out_at(&kernel(&all.x), &all, damping, &Spare::default()).unwrap();
            assert!((&left_out - again).norm_max() < 1e-10);
            for i in 0..all.len() {
                let others: Vec<usize> = (0..all.len()).filter(|j| *j != i || all.shares[i] < 1.0).collect();
                let mut part = all.part(&others);
                if all.shares[i] < 1.0 {
                    part.weights[i] *= 1.0 - all.shares[i];
                }
                let mut system = kernel(&part.x);
                (0..part.len()).for_each(|j| system[(j, j)] += damping / part.weights[j]);
                let factor = Cholesky::new(system).unwrap();
                for c in 0..2 {
                    let beta = factor.solve(part.y.col_as_slice(c));
                    let k = |j: usize| {
                        (-(0..2).map(|d| (all.x[(i, d)] - part.x[(j, d)]).powi(2)).sum::<f64>()).exp()
                    };
                    let brute: f64 = beta.iter().enumerate().map(|(j, b)| b * k(j)).sum();
                    assert!((left_out[(i, c)] - brute).abs() < 1e-8, "row {i}: {brute}");
                }
            }
        }
    }

    /// Rows of probability σ(3u) at scores u: the losses are those at slope three.
    #[test]
    fn scores_are_judged_at_their_best_slope() {
        let n = 2_000;
        let u = Mat::from_fn(n, 2, |i, k| (k as f64 - 0.5) * ((i % 41) as f64 / 20.0 - 1.0));
        // Each score as often with label 1 as its probability says, out of 48 times.
        let labels: Vec<usize> = (0..n)
            .map(|i| usize::from((i / 41) as f64 + 0.5 < 48.0 / (1.0 + (-6.0 * u[(i, 1)]).exp())))
            .collect();
        let losses = calibrated_log_losses(&u, &labels, &vec![1.0; n]);
        let at = |slope: f64| -> f64 {
            let margin = |i: usize| (2.0 * labels[i] as f64 - 1.0) * 2.0 * slope * u[(i, 1)];
            (0..n).map(|i| (1.0 + (-margin(i)).exp()).ln()).sum()
        };
        let found: f64 = losses.iter().sum();
        assert!(found <= at(3.0) && found > at(3.0) - 1.0 && found < at(1.0), "{found} {}", at(3.0));
    }
}
