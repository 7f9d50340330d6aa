//! The value of a policy as one number, with an interval.

use super::value::product;
use super::{Arguments, PolicyEvaluation, Successors};
use crate::data::Rows;
use crate::error::{in_range, Error, Result};
use crate::random::{Address, BlockIndex, Seed, Stream};
use serde::Serialize;

/// The expected value where episodes begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PolicyValue {
    /// The estimate.
    pub value: f64,
    /// The lower end of the interval …
    pub low: f64,
    /// … and the upper one.
    pub high: f64,
    /// The share of logs whose interval holds the value.
    pub confidence: f64,
}

impl PolicyEvaluation {
    /// The mean of V over the states that episodes begin with, and a bootstrap interval: of episodes, by what each adds to
    /// the coefficients to first order, and of the initial states, which count as a sample. Methods that look at episodes know
    /// where they begin, and take no states.
    pub fn estimate(
        &self,
        initial: Option<(Rows<'_>, Successors<'_>)>,
        confidence: f64,
    ) -> Result<PolicyValue> {
        in_range("confidence", confidence, confidence > 0.0 && confidence < 1.0, "(0, 1)")?;
        if let Some(value) = self.header.estimate {
            let mut samples = self.replicates.clone();
            return Ok(interval(value, &mut samples, confidence));
        }
        let Some((states, policy)) = initial else {
            return Err(Error::Empty { what: "initial_states", needed: "one state an episode begins with" });
        };
        if states.is_empty() {
            return Err(Error::Empty { what: "initial_states", needed: "one state an episode begins with" });
        }
        let theta = self.plain_coefficients()?;
        let (m, n) = (theta.len(), states.len() as f64);
        let (mut mean, mut values) = (vec![0.0; m], Vec::with_capacity(states.len()));
        self.with_features(states, policy, |psi| {
            for psi in psi.chunks_exact(m) {
                mean.iter_mut().zip(psi).for_each(|(mean, psi)| *mean += f64::from(*psi) / n);
                values.push(product(psi, &theta));
            }
        })?;
        let value = values.iter().sum::<f64>() / n;
        let spread =
            (values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (n * (n - 1.0).max(1.0))).sqrt();
        let shares: Vec<f64> =
            self.plain_influences()?.chunks_exact(m).map(|q| crate::linalg::dot(q, &mean)).collect();
        let groups = shares.len() as f64;
        let centre = shares.iter().sum::<f64>() / groups;
        let inflate = (groups / (groups - 1.0).max(1.0)).sqrt();
        let options = &self.header.options;
        let mut at = 0;
        let mut samples = bootstrap(options.n_bootstrap, shares.len(), options.seed, |counts| {
            at += 1;
            let moved: f64 =
                shares.iter().zip(counts).map(|(q, &count)| (q - centre) * f64::from(count)).sum();
            value - inflate * moved + spread * normal(options.seed, at)
        });
        Ok(interval(value, &mut samples, confidence))
    }

    /// What the value is a function of.
    pub fn arguments(&self) -> Arguments {
        self.header.arguments
    }
}

/// A standard normal number for each bootstrap sample.
fn normal(seed: Seed, at: u64) -> f64 {
    let words = Address::new(seed, Stream::Resample, BlockIndex(at), 1).words(0);
    crate::random::normal_pair(words[0], words[1])[0]
}

/// What `estimate` makes of samples of `n` groups with replacement, given how often each occurs.
pub(super) fn bootstrap(
    replicates: usize,
    n: usize,
    seed: Seed,
    mut estimate: impl FnMut(&[u32]) -> f64,
) -> Vec<f64> {
    let mut counts = vec![0; n];
    let mut one = |b: usize| {
        counts.fill(0);
        let mut words = Address::new(seed, Stream::Resample, BlockIndex(b as u64), 0).sequence();
        for word in words.by_ref().take(n) {
            counts[((u64::from(word) * n as u64) >> 32) as usize] += 1;
        }
        estimate(&counts)
    };
    (0..replicates).map(&mut one).collect()
}

/// The interval between two quantiles of bootstrap samples.
fn interval(value: f64, samples: &mut [f64], confidence: f64) -> PolicyValue {
    samples.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let place = share * (samples.len() - 1) as f64;
        let (below, rest) = (place.floor() as usize, place.fract());
        let above = (below + 1).min(samples.len() - 1);
        (1.0 - rest) * samples[below] + rest * samples[above]
    };
    let tail = 0.5 * (1.0 - confidence);
    PolicyValue { value, low: at(tail), high: at(1.0 - tail), confidence }
}
