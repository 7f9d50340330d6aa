//! Hyper-parameters by maximum marginal likelihood on a random part of the rows.

use super::covariance::{Hyperparameters, Points};
use super::exact::Exact;
use super::family::Family;
use super::likelihood::{gaussian_log_density, Evidence};
use crate::driver::{Control, Phase, Progress};
use crate::error::{positive, Error, Result};
use crate::linalg::quasi_newton::{Ascent, Height, Start, Summit};

/// Bounds of s² and σ² relative to the variance of the targets, and of ℓ relative to the columns' deviations.
const SIGNAL: [f64; 2] = [1e-3, 1e3];
const NOISE: [f64; 2] = [1e-6, 1e1];
const LENGTH: [f64; 2] = [1e-2, 1e3];
/// Starting values: length scales relative to √d, and noise. The best after a few steps goes on.
const STARTS: [(f64, f64); 3] = [(1.0, 0.1), (0.4, 0.01), (2.5, 0.3)];
/// Rows and steps of the starts, then of the stages after: most steps are cheap ones.
const TRIAL: (usize, usize) = (400, 12);
const STAGES: [(usize, usize); 3] = [(1_000, 60), (2_000, 20), (usize::MAX, 8)];
/// Noise tried on other rows, relative to what was learnt, for as long as it is better.
const MORE_NOISE: [f64; 5] = [1.4, 2.0, 4.0, 16.0, 64.0];
const LESS_NOISE: [f64; 2] = [0.7, 0.5];
/// A few steps that together gain fewer nats than this are the last: where the rows are all there are, and a row where
/// they are a part, whose evidence is that of the whole only up to a few nats.
const TOLERANCE: f64 = 0.02;
const TOLERANCE_OF_A_PART: f64 = 2e-4;

/// What is given of the hyper-parameters; the rest is learnt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) signal: Option<f64>,
    pub(crate) noise: Option<f64>,
    pub(crate) length_scales: Option<Vec<f64>>,
}

impl Given {
    /// Refuses what is not positive.
    pub(crate) fn check(&self) -> Result<()> {
        self.signal.map_or(Ok(1.0), |v| positive("signal", v))?;
        self.noise.map_or(Ok(1.0), |v| positive("noise", v))?;
        self.length_scales.iter().flatten().try_for_each(|&v| positive("length_scales", v).map(|_| ()))
    }
}

/// Rows (n×d, standardised and centred) and their targets.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) rows: &'a [f64],
    pub(crate) targets: &'a [f64],
}

impl Block<'_> {
    /// The first rows alone.
    fn first(self, most: usize) -> Self {
        let (n, d) = (self.targets.len(), self.rows.len() / self.targets.len());
        let n = n.min(most);
        Self { rows: &self.rows[..n * d], targets: &self.targets[..n] }
    }
}

/// The hyper-parameters of rows in random order; `whole` where there are no others.
///
/// The curvature of the log evidence grows like the number of rows: what a stage learns of it serves the next one. Where the
/// time is up the best so far is the answer, which is the first start at worst.
pub(crate) fn learn(
    block: Block<'_>,
    whole: bool,
    family: Family,
    given: &Given,
    control: &mut Control<'_>,
) -> Result<Hyperparameters> {
    let (n, d) = (block.targets.len(), block.rows.len() / block.targets.len());
    let mut best: Option<Summit> = None;
    for (length, noise) in STARTS {
        let mut start = vec![0.0, noise.ln()];
        start.resize(2 + d, (length * (d as f64).sqrt()).ln());
        let (block, optional) = (block.first(TRIAL.0), best.is_some());
        let search = Search { block, steps: TRIAL.1, tolerance: TOLERANCE, family, given, optional };
        let summit = search.climb(start.into(), control)?;
        if summit.value > best.as_ref().map_or(f64::NEG_INFINITY, |best| best.value) {
            best = Some(summit);
        }
    }
    let mut rows_before = n.min(TRIAL.0);
    let singular = Error::NotPositiveDefinite { block: 0, size: rows_before, raise: "noise" };
    let mut best = best.ok_or(singular)?;
    for (most, steps) in STAGES {
        let rows = n.min(most);
        if rows == rows_before && most > STAGES[0].0 {
            break;
        }
        let tolerance = if whole && rows == n { TOLERANCE } else { TOLERANCE_OF_A_PART * rows as f64 };
        let search = Search { block: block.first(rows), steps, tolerance, family, given, optional: true };
        // A part's hyper-parameters may be outside the domain of the whole: then they are the best there is.
        let summit = search.climb(best.clone().start(rows as f64 / rows_before as f64), control)?;
        if summit.value > f64::NEG_INFINITY {
            best = summit;
        }
        rows_before = rows;
    }
    Ok(unpack(&best.at))
}

/// An ascent of the log marginal likelihood of some rows.
struct Search<'a> {
    block: Block<'a>,
    steps: usize,
    tolerance: f64,
    family: Family,
    given: &'a Given,
    /// Whether there is an answer without it.
    optional: bool,
}

impl Search<'_> {
    fn climb(&self, start: Start, control: &mut Control<'_>) -> Result<Summit> {
        let n = self.block.targets.len();
        let d = self.block.rows.len() / n;
        let (lower, upper) = (bounds(self.given, d, 0), bounds(self.given, d, 1));
        let mut begun = self.optional;
        Ascent { lower, upper, steps: self.steps, tolerance: self.tolerance }.climb(start, |p| {
            control.check(0)?;
            if begun && control.out_of_time() {
                return Ok(None);
            }
            begun = true;
            let evidence = Evidence::new(self.family, unpack(p), self.block.rows, self.block.targets);
            let loss = evidence.as_ref().map_or(f64::NAN, |evidence| -evidence.value() / n as f64);
            control.report(Progress::new(Phase::Hyperparameters, 0, 0, loss))?;
            Ok(evidence)
        })
    }
}

/// The noise, of some around that of `h`, under which other rows are most likely given those of `block`.
///
/// The likelihood trusts the model; where targets are not normal around it (steps, outliers, ties) the noise learnt is
/// too small for rows not learnt from.
pub(crate) fn calibrate_noise(h: &Hyperparameters, block: Block<'_>, other: Block<'_>) -> f64 {
    let zero = vec![0.0; h.length_scales.len()];
    let [points, test] = [block, other].map(|block| Points::new(block.rows, &zero, &h.length_scales));
    let density = |noise: f64| {
        let h = Hyperparameters { noise, ..h.clone() };
        let posterior = Exact::new(&h, points.clone(), block.targets.to_vec(), &mut || Ok(())).ok()?;
        let (mean, variance) = posterior.marginals(&h, &test);
        let each = |i: usize| {
            let variance = variance[i] + noise;
            gaussian_log_density((other.targets[i] - mean[i]).powi(2) / variance, variance.ln(), 1)
        };
        Some((0..mean.len()).map(each).sum::<f64>())
    };
    let Some(learnt) = density(h.noise) else { return h.noise };
    for ladder in [&MORE_NOISE[..], &LESS_NOISE] {
        let mut best = (h.noise, learnt);
        for noise in ladder.iter().map(|factor| factor * h.noise) {
            match density(noise) {
                Some(next) if next > best.1 => best = (noise, next),
                _ => break,
            }
        }
        if best.0 != h.noise {
            return best.0;
        }
    }
    h.noise
}

/// Lower (0) or upper (1) bounds of the logarithms; the two are equal for what is given.
fn bounds(given: &Given, d: usize, side: usize) -> Vec<f64> {
    let mut out = vec![given.signal.unwrap_or(SIGNAL[side]).ln(), given.noise.unwrap_or(NOISE[side]).ln()];
    match &given.length_scales {
        Some(scales) => out.extend(scales.iter().map(|scale| scale.ln())),
        None => out.resize(2 + d, LENGTH[side].ln()),
    }
    out
}

fn unpack(p: &[f64]) -> Hyperparameters {
    let length_scales = p[2..].iter().map(|v| v.exp()).collect();
    Hyperparameters { signal: p[0].exp(), noise: p[1].exp(), length_scales }
}
