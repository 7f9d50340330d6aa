//! Hyper-parameters in the units of the data, from those learnt on standardised rows and targets.

use super::covariance::Hyperparameters;
use super::family::Family;
use super::learn::{calibrate_noise, learn, Block, Settled};
use super::options::GaussianProcessOptions;
use crate::driver::Control;
use crate::error::Result;
use crate::random::{BlockIndex, Permutation, Stream};

/// Rows from which those are predicted on which the noise is tried.
const CALIBRATION_ROWS: usize = 2_000;
/// Rows not learnt from on which the noise is tried: at least, and at most.
const LEAST_OTHERS: usize = 200;
const MOST_OTHERS: usize = 1_000;

/// Learns in units of standardised rows and targets.
pub(crate) fn hyperparameters(
    options: &GaussianProcessOptions,
    family: Family,
    rows: &[f64],
    targets: &[f64],
    columns: &[Standard],
    centre: Standard,
    control: &mut Control<'_>,
) -> Result<Hyperparameters> {
    let d = columns.len();
    let variance = centre.deviation().powi(2);
    if let Some(scales) = &options.length_scales {
        Hyperparameters { signal: 1.0, noise: 1.0, length_scales: scales.clone() }.check(d)?;
        if let (Some(signal), Some(noise)) = (options.signal, options.noise) {
            return Ok(Hyperparameters { signal, noise, length_scales: scales.clone() });
        }
    }
    let relative = |(scale, column): (&f64, &Standard)| scale / column.deviation();
    let settled = Settled {
        signal: options.signal.map(|v| v / variance),
        noise: options.noise.map(|v| v / variance),
        length_scales: options
            .length_scales
            .as_ref()
            .map(|scales| scales.iter().zip(columns).map(relative).collect()),
    };
    // Standardised, in random order.
    let order = Permutation::new(options.seed, Stream::Process, BlockIndex(0), targets.len());
    let row =
        |&i: &u32| columns.iter().zip(&rows[i as usize * d..]).map(|(column, v)| column.standardise(*v));
    let x: Vec<f64> = order.indices().iter().flat_map(row).collect();
    let y: Vec<f64> = order.indices().iter().map(|&i| centre.standardise(targets[i as usize])).collect();
    let learnt = learn_from(options.learning_rows, family, &x, &y, &settled, control)?;
    let scale = |(c, scale): (usize, f64)| match &options.length_scales {
        Some(given) => given[c],
        None if columns[c].spread == 0.0 => f64::INFINITY,
        None => scale * columns[c].deviation(),
    };
    Ok(Hyperparameters {
        signal: options.signal.unwrap_or(learnt.signal * variance),
        noise: options.noise.unwrap_or(learnt.noise * variance),
        length_scales: learnt.length_scales.into_iter().enumerate().map(scale).collect(),
    })
}

/// Learns from the first rows; where there are others, the noise is put to the test on some of them.
fn learn_from(
    most: usize,
    family: Family,
    x: &[f64],
    y: &[f64],
    settled: &Settled,
    control: &mut Control<'_>,
) -> Result<Hyperparameters> {
    let (n, d) = (y.len(), x.len() / y.len());
    let block = |from: usize, to: usize| Block { rows: &x[from * d..to * d], targets: &y[from..to] };
    let first = block(0, n.min(most));
    let mut learnt = learn(first, n <= most, family, settled, control)?;
    if family == Family::Gaussian && settled.noise.is_none() && n >= most + LEAST_OTHERS {
        learnt.noise = calibrate_noise(
            &learnt,
            block(0, most.min(CALIBRATION_ROWS)),
            block(most, n.min(most + MOST_OTHERS)),
        );
    }
    Ok(learnt)
}

/// Mean and deviation of a column.
#[derive(Clone, Copy)]
pub(crate) struct Standard {
    pub(crate) mean: f64,
    /// The deviation, zero for a constant (to rounding).
    spread: f64,
}

impl Standard {
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let n = values.clone().count().max(1) as f64;
        let mean = values.clone().sum::<f64>() / n;
        let deviation = (values.map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        let constant = deviation <= 1e-12 * mean.abs();
        Self { mean, spread: if constant { 0.0 } else { deviation } }
    }

    pub(crate) fn columns(rows: &[f64], d: usize) -> Vec<Self> {
        (0..d).map(|c| Self::of(rows[c..].iter().step_by(d).copied())).collect()
    }

    /// What to divide by.
    fn deviation(self) -> f64 {
        if self.spread > 0.0 {
            self.spread
        } else {
            1.0
        }
    }

    fn standardise(self, value: f64) -> f64 {
        (value - self.mean) / self.deviation()
    }
}
