//! Hyper-parameters by maximum marginal likelihood on a random part of the rows.

use super::ascent::{Ascent, Summit};
use super::covariance::{Hyperparameters, Points};
use super::exact::Exact;
use super::likelihood::{gaussian_log_density, log_marginal_likelihood};
use crate::driver::Control;
use crate::error::{Error, Result};

/// Bounds of s² and σ² relative to the variance of the targets, and of ℓ relative to the columns' deviations.
const SIGNAL: [f64; 2] = [1e-3, 1e3];
const NOISE: [f64; 2] = [1e-6, 1e1];
const LENGTH: [f64; 2] = [1e-2, 1e3];
/// Starting values: length scales relative to √d, and noise. The best after a few steps goes on.
const STARTS: [(f64, f64); 3] = [(1.0, 0.1), (0.4, 0.01), (2.5, 0.3)];
/// Rows and steps of the starts, then of the stages after: most steps are cheap ones.
const TRIAL: (usize, usize) = (400, 12);
const STAGES: [(usize, usize); 2] = [(1_000, 60), (usize::MAX, 20)];
/// Noise tried on other rows, relative to what was learnt.
const NOISE_FACTORS: [f64; 8] = [1.0, 0.5, 0.7, 1.4, 2.0, 4.0, 16.0, 64.0];
/// A step that gains less than this many nats is the last.
const TOLERANCE: f64 = 0.01;

/// What the user has settled, in units of the standardised data.
#[derive(Clone, Debug, Default)]
pub(super) struct Settled {
    pub(super) signal: Option<f64>,
    pub(super) noise: Option<f64>,
    pub(super) length_scales: Option<Vec<f64>>,
}

/// Rows (n×d, standardised and centred) and their targets.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) rows: &'a [f64],
    pub(super) targets: &'a [f64],
}

impl Block<'_> {
    /// The first rows alone.
    fn first(self, most: usize) -> Self {
        let (n, d) = (self.targets.len(), self.rows.len() / self.targets.len());
        let n = n.min(most);
        Self { rows: &self.rows[..n * d], targets: &self.targets[..n] }
    }
}

/// The hyper-parameters of rows in random order.
pub(super) fn learn(
    block: Block<'_>,
    settled: &Settled,
    control: &mut Control<'_>,
) -> Result<Hyperparameters> {
    let d = block.rows.len() / block.targets.len();
    let mut best = Summit { at: Vec::new(), value: f64::NEG_INFINITY };
    for (length, noise) in STARTS {
        let mut start = vec![0.0, noise.ln()];
        start.resize(2 + d, (length * (d as f64).sqrt()).ln());
        let summit = climb(&start, block.first(TRIAL.0), TRIAL.1, settled, control)?;
        if summit.value > best.value {
            best = summit;
        }
    }
    if best.at.is_empty() {
        let size = block.targets.len().min(TRIAL.0);
        return Err(Error::NotPositiveDefinite { block: 0, size, raise: "noise" });
    }
    for (rows, steps) in STAGES {
        if rows == usize::MAX && block.targets.len() <= STAGES[0].0 {
            break;
        }
        // A part's hyper-parameters may be outside the domain of the whole: then they are the best there is.
        let summit = climb(&best.at, block.first(rows), steps, settled, control)?;
        if summit.value > f64::NEG_INFINITY {
            best = summit;
        }
    }
    Ok(unpack(&best.at))
}

/// Climbs the log marginal likelihood.
fn climb(
    start: &[f64],
    block: Block<'_>,
    steps: usize,
    settled: &Settled,
    control: &mut Control<'_>,
) -> Result<Summit> {
    let d = start.len() - 2;
    let (lower, upper) = (bounds(settled, d, 0), bounds(settled, d, 1));
    Ascent { lower, upper, steps, tolerance: TOLERANCE }.climb(start, |p| {
        control.check(0)?;
        Ok(log_marginal_likelihood(&unpack(p), block.rows, block.targets))
    })
}

/// The noise, of some around that of `h`, under which other rows are most likely given those of `block`.
///
/// The likelihood trusts the model; where targets are not normal around it (steps, outliers, ties) the noise learnt is
/// too small for rows not learnt from.
pub(super) fn calibrate_noise(h: &Hyperparameters, block: Block<'_>, other: Block<'_>) -> f64 {
    let zero = vec![0.0; h.length_scales.len()];
    let [points, test] = [block, other].map(|block| Points::new(block.rows, &zero, &h.length_scales));
    let density = |noise: f64| {
        let h = Hyperparameters { noise, ..h.clone() };
        let posterior = Exact::new(&h, points.clone(), block.targets.to_vec()).ok()?;
        let (mean, variance) = posterior.marginals(&h, &test);
        let each = |i: usize| {
            let variance = variance[i] + noise;
            gaussian_log_density((other.targets[i] - mean[i]).powi(2) / variance, variance.ln(), 1)
        };
        Some((0..mean.len()).map(each).sum::<f64>())
    };
    let candidates = NOISE_FACTORS.iter().map(|factor| factor * h.noise);
    let scored = candidates.filter_map(|noise| Some((noise, density(noise)?)));
    scored.fold((h.noise, f64::NEG_INFINITY), |best, next| if next.1 > best.1 { next } else { best }).0
}

/// Lower (0) or upper (1) bounds of the logarithms; the two are equal for what is settled.
fn bounds(settled: &Settled, d: usize, side: usize) -> Vec<f64> {
    let mut out =
        vec![settled.signal.unwrap_or(SIGNAL[side]).ln(), settled.noise.unwrap_or(NOISE[side]).ln()];
    match &settled.length_scales {
        Some(scales) => out.extend(scales.iter().map(|scale| scale.ln())),
        None => out.resize(2 + d, LENGTH[side].ln()),
    }
    out
}

fn unpack(p: &[f64]) -> Hyperparameters {
    let length_scales = p[2..].iter().map(|v| v.exp()).collect();
    Hyperparameters { signal: p[0].exp(), noise: p[1].exp(), length_scales }
}
