//! Distributions of actions, given what a function makes of the state.

use crate::error::{in_range, Result};
use crate::random::{normals, uniform_open, Address};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// π(a|s) from the outputs g(s) ∈ ℝᵖ of a function.
///
/// Every method that takes outputs takes those of n rows, n×p row-major, and actions likewise: n×p numbers of a Gaussian, n
/// numbers 0, …, p − 1 of a softmax.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// a ~ N(g(s), diag σ²), with one log σ for each of p columns, kept between two bounds.
    Gaussian {
        /// log σ.
        log_deviation: Vec<f64>,
        /// Where it has to stay.
        bounds: (f64, f64),
    },
    /// π(a|s) = e^{g_a(s)}/Σ_b e^{g_b(s)} over p actions.
    Softmax,
}

/// Most that a logarithm of a deviation may be.
pub(super) const MOST: f64 = 100.0;

/// σ² of each column.
fn variances(log_deviation: &[f64]) -> Vec<f64> {
    log_deviation.iter().map(|l| (2.0 * l).exp()).collect()
}

/// log Σ e^{g_a}.
fn log_sum(outputs: &[f64]) -> f64 {
    let most = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + outputs.iter().map(|g| (g - most).exp()).sum::<f64>().ln()
}

/// Probabilities of the actions.
fn probabilities(outputs: &[f64]) -> Vec<f64> {
    let log = log_sum(outputs);
    outputs.iter().map(|g| (g - log).exp()).collect()
}

impl Head {
    /// Refuses deviations that are not within their bounds.
    pub(super) fn check(&self) -> Result<()> {
        if let Self::Gaussian { log_deviation, bounds: (low, high) } = self {
            let inside = |l: &f64| low <= l && l <= high && (l.abs() <= MOST);
            let bounded = low.abs() <= MOST && high.abs() <= MOST;
            let first = log_deviation.first().copied().unwrap_or(0.0);
            in_range(
                "log_std",
                first,
                bounded && log_deviation.iter().all(inside),
                "its bounds, within [-100, 100]",
            )?;
        }
        Ok(())
    }

    /// Number of parameters of its own.
    pub fn parameters(&self) -> usize {
        match self {
            Self::Gaussian { log_deviation, .. } => log_deviation.len(),
            Self::Softmax => 0,
        }
    }

    /// log π(a|s) of each row.
    pub fn log_probabilities(&self, p: usize, outputs: &[f64], actions: &[f64]) -> Vec<f64> {
        match self {
            Self::Gaussian { log_deviation, .. } => {
                let variances = variances(log_deviation);
                let constant = -log_deviation.iter().sum::<f64>() - 0.5 * p as f64 * TAU.ln();
                let rows = outputs.chunks_exact(p).zip(actions.chunks_exact(p));
                let square = |g: &[f64], a: &[f64]| -> f64 {
                    g.iter().zip(a).zip(&variances).map(|((g, a), v)| (a - g).powi(2) / v).sum()
                };
                rows.map(|(g, a)| constant - 0.5 * square(g, a)).collect()
            }
            Self::Softmax => {
                let rows = outputs.chunks_exact(p).zip(actions);
                rows.map(|(g, &a)| g[a as usize] - log_sum(g)).collect()
            }
        }
    }

    /// Σ_i w_i ∂log π(a_i|s_i): by the outputs of each row, n×p, and by the parameters of the head, summed over rows.
    pub fn scores(&self, p: usize, outputs: &[f64], actions: &[f64], w: &[f64]) -> (Vec<f64>, Vec<f64>) {
        match self {
            Self::Gaussian { log_deviation, .. } => {
                let variances = variances(log_deviation);
                let (mut scores, mut own) = (Vec::with_capacity(outputs.len()), vec![0.0; p]);
                for (i, (g, a)) in outputs.iter().zip(actions).enumerate() {
                    let (w, v, difference) = (w[i / p], variances[i % p], a - g);
                    scores.push(w * difference / v);
                    own[i % p] += w * (difference * difference / v - 1.0);
                }
                (scores, own)
            }
            Self::Softmax => {
                let mut scores = Vec::with_capacity(outputs.len());
                for ((g, &a), w) in outputs.chunks_exact(p).zip(actions).zip(w) {
                    let shares = probabilities(g);
                    scores.extend((0..p).map(|b| w * (f64::from(u8::from(b == a as usize)) - shares[b])));
                }
                (scores, Vec::new())
            }
        }
    }

    /// Changes t of the outputs, n×p, times the Fisher information of each row: 1/σ², or diag(π) − ππᵀ.
    pub fn fisher(&self, p: usize, outputs: &[f64], changes: &mut [f64]) {
        match self {
            Self::Gaussian { log_deviation, .. } => {
                let variances = variances(log_deviation);
                changes.iter_mut().enumerate().for_each(|(i, t)| *t /= variances[i % p]);
            }
            Self::Softmax => {
                for (g, t) in outputs.chunks_exact(p).zip(changes.chunks_exact_mut(p)) {
                    let shares = probabilities(g);
                    let mean: f64 = shares.iter().zip(&*t).map(|(share, t)| share * t).sum();
                    t.iter_mut().zip(shares).for_each(|(t, share)| *t = share * (*t - mean));
                }
            }
        }
    }

    /// The Fisher information of its own parameters, the same for each: 2 for log σ, whatever the state.
    pub fn own_fisher(&self) -> f64 {
        2.0
    }

    /// The head with other bounds, and its parameters within them.
    pub(super) fn bounded(&self, bounds: (f64, f64)) -> Self {
        match self {
            Self::Gaussian { log_deviation, .. } => {
                let log_deviation = log_deviation.iter().map(|l| l.clamp(bounds.0, bounds.1)).collect();
                Self::Gaussian { log_deviation, bounds }
            }
            Self::Softmax => Self::Softmax,
        }
    }

    /// The head whose parameters have moved, within their bounds.
    pub fn moved(&self, size: f64, direction: &[f64]) -> Self {
        match self {
            Self::Gaussian { log_deviation, bounds } => {
                let move_one = |(l, d): (&f64, &f64)| (l + size * d).clamp(bounds.0, bounds.1);
                let log_deviation = log_deviation.iter().zip(direction).map(move_one).collect();
                Self::Gaussian { log_deviation, bounds: *bounds }
            }
            Self::Softmax => Self::Softmax,
        }
    }

    /// The mean over rows of KL(π‖π') to another head and other outputs.
    pub fn divergence(&self, p: usize, outputs: &[f64], other: &Self, others: &[f64]) -> f64 {
        let n = (outputs.len() / p).max(1) as f64;
        match (self, other) {
            (Self::Gaussian { log_deviation: own, .. }, Self::Gaussian { log_deviation: new, .. }) => {
                let (variances, news) = (variances(own), variances(new));
                let fixed = |j: usize| new[j] - own[j] + 0.5 * (variances[j] / news[j] - 1.0);
                let moved = outputs.iter().zip(others).enumerate();
                let moved: f64 = moved.map(|(i, (g, h))| 0.5 * (g - h).powi(2) / news[i % p]).sum();
                (0..p).map(fixed).sum::<f64>() + moved / n
            }
            _ => {
                let one = |(g, h): (&[f64], &[f64])| {
                    let (a, b) = (log_sum(g), log_sum(h));
                    g.iter().zip(h).map(|(g, h)| (g - a).exp() * ((g - a) - (h - b))).sum::<f64>()
                };
                outputs.chunks_exact(p).zip(others.chunks_exact(p)).map(one).sum::<f64>() / n
            }
        }
    }

    /// Actions of the rows whose numbers begin with `first`, drawn at an address, or the likeliest.
    pub fn actions(&self, p: usize, outputs: &[f64], at: Option<&dyn Fn(usize) -> Address>) -> Vec<f64> {
        let rows = outputs.chunks_exact(p).enumerate();
        match self {
            Self::Gaussian { log_deviation, .. } => rows
                .flat_map(|(i, g)| {
                    let mut z = vec![0.0; p];
                    if let Some(address) = at {
                        normals(address(i), &mut z);
                    }
                    (0..p).map(move |j| g[j] + log_deviation[j].exp() * z[j])
                })
                .collect(),
            Self::Softmax => rows
                .map(|(i, g)| match at {
                    Some(address) => pick(&probabilities(g), uniform_open(address(i).words(0)[0])) as f64,
                    None => (0..p).fold(0, |best, a| if g[a] > g[best] { a } else { best }) as f64,
                })
                .collect(),
        }
    }
}

/// The first action whose cumulative probability reaches `u`.
fn pick(shares: &[f64], mut u: f64) -> usize {
    for (a, share) in shares.iter().enumerate() {
        u -= share;
        if u <= 0.0 {
            return a;
        }
    }
    shares.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{BlockIndex, Seed, Stream};

    const P: usize = 3;

    fn heads() -> [(Head, Vec<f64>); 2] {
        let gaussian = Head::Gaussian { log_deviation: vec![-0.5, 0.2, -1.0], bounds: (-3.0, 1.0) };
        [(gaussian, vec![0.3, -1.0, 0.2, 1.1, 0.4, -0.6]), (Head::Softmax, vec![2.0, 0.0])]
    }

    const OUTPUTS: [f64; 6] = [0.5, -0.4, 0.1, 1.2, 0.3, -0.9];

    /// Scores are the derivatives of Σ w log π, by central differences.
    #[test]
    fn scores_are_derivatives() {
        let (w, h) = ([0.7, -1.3], 1e-6);
        for (head, actions) in heads() {
            let total = |head: &Head, outputs: &[f64]| -> f64 {
                head.log_probabilities(P, outputs, &actions).iter().zip(w).map(|(l, w)| l * w).sum()
            };
            let (scores, own) = head.scores(P, &OUTPUTS, &actions, &w);
            for i in 0..OUTPUTS.len() {
                let shifted = |by: f64| {
                    let mut outputs = OUTPUTS;
                    outputs[i] += by;
                    total(&head, &outputs)
                };
                assert!(((shifted(h) - shifted(-h)) / (2.0 * h) - scores[i]).abs() < 1e-8);
            }
            for (j, own) in own.iter().enumerate() {
                let unit: Vec<f64> = (0..P).map(|k| f64::from(u8::from(k == j))).collect();
                let shifted = |by: f64| total(&head.moved(by, &unit), &OUTPUTS);
                assert!(((shifted(h) - shifted(-h)) / (2.0 * h) - own).abs() < 1e-8);
            }
        }
    }

    /// KL(π‖π') is ½ dᵀFd to second order, in the outputs and in the parameters of the head.
    #[test]
    fn divergence_has_the_fisher_information_as_curvature() {
        let (h, direction) = (1e-4, [0.3, -0.8, 0.5, 1.0, 0.2, -0.4]);
        for (head, _) in heads() {
            let others: Vec<f64> = OUTPUTS.iter().zip(direction).map(|(g, d)| g + h * d).collect();
            let mut changes = direction;
            head.fisher(P, &OUTPUTS, &mut changes);
            let square: f64 = changes.iter().zip(direction).map(|(a, b)| a * b).sum::<f64>() / 2.0;
            let own = &direction[..head.parameters()];
            let expected =
                0.5 * h * h * (square + head.own_fisher() * own.iter().map(|d| d * d).sum::<f64>());
            let found = head.divergence(P, &OUTPUTS, &head.moved(h, own), &others);
            assert!((found - expected).abs() < 1e-3 * expected, "{found:e} {expected:e}");
            assert_eq!(head.divergence(P, &OUTPUTS, &head, &OUTPUTS), 0.0);
        }
    }

    /// Draws have the probabilities and densities that the head says: means of 20,000 within 5 standard errors.
    #[test]
    fn draws_have_their_distribution() {
        let n = 20_000;
        for (head, _) in heads() {
            let outputs = OUTPUTS[..P].repeat(n);
            let address = |i: usize| Address::new(Seed(3), Stream::Action, BlockIndex(0), i as u32);
            let drawn = head.actions(P, &outputs, Some(&address));
            let root = (n as f64).sqrt();
            match &head {
                Head::Gaussian { log_deviation, .. } => (0..P).for_each(|j| {
                    let mean = drawn.iter().skip(j).step_by(P).sum::<f64>() / n as f64;
                    assert!((mean - OUTPUTS[j]).abs() < 5.0 * log_deviation[j].exp() / root);
                }),
                Head::Softmax => probabilities(&OUTPUTS[..P]).iter().enumerate().for_each(|(a, share)| {
                    let found = drawn.iter().filter(|drawn| **drawn == a as f64).count() as f64 / n as f64;
                    assert!((found - share).abs() < 5.0 * (share * (1.0 - share)).sqrt() / root);
                }),
            }
        }
    }
}
