//! Hyper-parameters in the units of the data, from those learnt on standardised rows and targets.

pub(crate) use super::learn::Given;

use super::covariance::Hyperparameters;
use super::family::Family;
use super::learn::{calibrate_noise, learn, Block};
use crate::driver::Control;
use crate::error::{positive, Result};
use crate::random::{BlockIndex, Permutation, Seed, Stream};

/// Rows from which those are predicted on which the noise is tried.
const CALIBRATION_ROWS: usize = 2_000;
/// Rows not learnt from on which the noise is tried: at least, and at most.
const LEAST_OTHERS: usize = 200;
const MOST_OTHERS: usize = 1_000;

/// Which hyper-parameters are learnt, and from what.
#[derive(Clone, Debug)]
pub(crate) struct Learning {
    /// In the units of the data.
    pub(crate) given: Given,
    /// Rows learnt from, drawn at random.
    pub(crate) rows: usize,
    pub(crate) seed: Seed,
}

impl Learning {
    /// Refuses settings outside their domain.
    pub(crate) fn check(&self) -> Result<()> {
        positive("learning_rows", self.rows as f64)?;
        self.given.check()
    }
}

/// Hyper-parameters, the means of the d columns, and that of the targets.
pub(crate) fn settle(
    learning: &Learning,
    family: Family,
    rows: &[f64],
    targets: &[f64],
    d: usize,
    control: &mut Control<'_>,
) -> Result<(Hyperparameters, Vec<f64>, f64)> {
    let column = |c: usize| Standard::of(rows[c..].iter().step_by(d).copied());
    let (columns, centre) = ((0..d).map(column).collect::<Vec<_>>(), Standard::of(targets.iter().copied()));
    let hyper = hyperparameters(learning, family, rows, targets, &columns, centre, control)?;
    hyper.check(d)?;
    Ok((hyper, columns.iter().map(|column| column.mean).collect(), centre.mean))
}

/// Learns in units of standardised rows and targets.
fn hyperparameters(
    learning: &Learning,
    family: Family,
    rows: &[f64],
    targets: &[f64],
    columns: &[Standard],
    centre: Standard,
    control: &mut Control<'_>,
) -> Result<Hyperparameters> {
    let (d, given) = (columns.len(), &learning.given);
    let variance = centre.deviation().powi(2);
    if let Some(scales) = &given.length_scales {
        Hyperparameters { signal: 1.0, noise: 1.0, length_scales: scales.clone() }.check(d)?;
        if let (Some(signal), Some(noise)) = (given.signal, given.noise) {
            return Ok(Hyperparameters { signal, noise, length_scales: scales.clone() });
        }
    }
    let relative = |(scale, column): (&f64, &Standard)| scale / column.deviation();
    let standardised = Given {
        signal: given.signal.map(|v| v / variance),
        noise: given.noise.map(|v| v / variance),
        length_scales: given
            .length_scales
            .as_ref()
            .map(|scales| scales.iter().zip(columns).map(relative).collect()),
    };
    // Standardised, in random order.
    let order = Permutation::new(learning.seed, Stream::Process, BlockIndex(0), targets.len());
    let row =
        |&i: &u32| columns.iter().zip(&rows[i as usize * d..]).map(|(column, v)| column.standardise(*v));
    let x: Vec<f64> = order.indices().iter().flat_map(row).collect();
    let y: Vec<f64> = order.indices().iter().map(|&i| centre.standardise(targets[i as usize])).collect();
    let learnt = learn_from(learning.rows, family, &x, &y, &standardised, control)?;
    let scale = |(c, scale): (usize, f64)| match &given.length_scales {
        Some(scales) => scales[c],
        None if columns[c].spread == 0.0 => f64::INFINITY,
        None => scale * columns[c].deviation(),
    };
    Ok(Hyperparameters {
        signal: given.signal.unwrap_or(learnt.signal * variance),
        noise: given.noise.unwrap_or(learnt.noise * variance),
        length_scales: learnt.length_scales.into_iter().enumerate().map(scale).collect(),
    })
}

/// Learns from the first rows; where there are others, the noise is put to the test on some of them.
fn learn_from(
    most: usize,
    family: Family,
    x: &[f64],
    y: &[f64],
    given: &Given,
    control: &mut Control<'_>,
) -> Result<Hyperparameters> {
    let (n, d) = (y.len(), x.len() / y.len());
    let block = |from: usize, to: usize| Block { rows: &x[from * d..to * d], targets: &y[from..to] };
    let first = block(0, n.min(most));
    let mut learnt = learn(first, n <= most, family, given, control)?;
    let others = n >= most + LEAST_OTHERS && !control.out_of_time();
    if family == Family::Gaussian && given.noise.is_none() && others {
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
struct Standard {
    mean: f64,
    /// The deviation, zero for a constant (to rounding).
    spread: f64,
}

impl Standard {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let n = values.clone().count().max(1) as f64;
        let mean = values.clone().sum::<f64>() / n;
        let deviation = (values.map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        let constant = deviation <= 1e-12 * mean.abs();
        Self { mean, spread: if constant { 0.0 } else { deviation } }
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
