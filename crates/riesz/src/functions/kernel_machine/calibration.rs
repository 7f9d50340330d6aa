//! From scores to probabilities.

use crate::loss::{softmax_into, two_probabilities};
use serde::{Deserialize, Serialize};

/// Class probabilities of margin scores: softmax(a u) over the classes, or σ(a u + b) for two.
///
/// Fitted on held-out rows by maximum likelihood (Platt's method with one slope for all classes), where the scores have
/// not been fitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// a.
    pub slope: f64,
    /// b, zero for more than two classes.
    pub intercept: f64,
}

impl Default for Calibration {
    /// Margins ±1 become probabilities of 0.88 and 0.12.
    fn default() -> Self {
        Self { slope: 2.0, intercept: 0.0 }
    }
}

impl Calibration {
    /// Class probabilities of one row of scores.
    pub fn probabilities(&self, u: &[f32], out: &mut [f64]) {
        if let [u] = u {
            return two_probabilities(self.slope * f64::from(*u) + self.intercept, out);
        }
        softmax_into(u.iter().map(|&u| self.slope * f64::from(u)), out);
    }

    /// Maximum likelihood on rows of scores (n×C) with class indices, by a coarse-to-fine search.
    pub fn fit(scores: &[f32], outputs: usize, labels: &[usize], weights: &[f32]) -> Self {
        let mut current = Self::default();
        let mut value = current.negative_log_likelihood(scores, outputs, labels, weights);
        // Two numbers, a smooth objective, at most a few thousand rows.
        let (mut wide, mut high) = (2.0_f64, 1.0_f64);
        for _ in 0..24 {
            let mut improved = false;
            for (factor, add) in [(wide, 0.0), (1.0 / wide, 0.0), (1.0, high), (1.0, -high)] {
                if add != 0.0 && outputs > 1 {
                    continue;
                }
                let trial = Self { slope: current.slope * factor, intercept: current.intercept + add };
                let loss = trial.negative_log_likelihood(scores, outputs, labels, weights);
                if loss < value {
                    (current, value, improved) = (trial, loss, true);
                }
            }
            if !improved {
                (wide, high) = (wide.sqrt(), 0.5 * high);
            }
        }
        current
    }

    fn negative_log_likelihood(
        &self,
        scores: &[f32],
        outputs: usize,
        labels: &[usize],
        weights: &[f32],
    ) -> f64 {
        let mut row = vec![0.0; outputs.max(2)];
        let mut total = 0.0;
        for ((u, &label), &w) in scores.chunks_exact(outputs).zip(labels).zip(weights) {
            self.probabilities(u, &mut row);
            total -= f64::from(w) * row[label].max(1e-12).ln();
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{uniform_open, Address, BlockIndex, Seed, Stream};

    fn draw(i: u32) -> f64 {
        uniform_open(Address::new(Seed(1), Stream::Synthetic, BlockIndex(0), i).words(0)[0])
    }

    /// Scores u with P(y = 1) = σ(3u − 1): the fit recovers (3, −1) within its standard error.
    #[test]
    fn recovers_a_logistic_link() {
        let n = 20_000;
        let u: Vec<f32> = (0..n).map(|i| (4.0 * draw(2 * i) - 2.0) as f32).collect();
        let label = |i: u32| {
            usize::from(draw(2 * i + 1) < 1.0 / (1.0 + (-(3.0 * f64::from(u[i as usize]) - 1.0)).exp()))
        };
        let labels: Vec<usize> = (0..n).map(label).collect();
        let fit = Calibration::fit(&u, 1, &labels, &vec![1.0; n as usize]);
        assert!((fit.slope - 3.0).abs() < 0.2 && (fit.intercept + 1.0).abs() < 0.12, "{fit:?}");
    }

    #[test]
    fn probabilities_sum_to_one_and_keep_the_order() {
        let mut out = [0.0; 3];
        Calibration::default().probabilities(&[0.3, -1.0, 0.9], &mut out);
        assert!((out.iter().sum::<f64>() - 1.0).abs() < 1e-15 && out[2] > out[0] && out[0] > out[1]);
        let mut two = [0.0; 2];
        Calibration { slope: 1.0, intercept: 800.0 }.probabilities(&[50.0], &mut two);
        assert!(two[0] < 1e-300 && two[1] == 1.0);
    }
}
