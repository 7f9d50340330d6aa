//! A fitted Gaussian process.

use super::inducing::{affordable, Inducing, Sizes};
use super::options::{GaussianProcessOptions, Sampling};
use crate::data::{tiles, Rows};
use crate::driver::{quietly, Control, Phase, Progress};
use crate::error::{same_columns, Error, Result};
use crate::gaussian::covariance::{add_noise, Hyperparameters, Points};
use crate::gaussian::exact::Exact;
use crate::gaussian::hyperparameters::settle;
use crate::gaussian::pathwise::{sample_normal, Draw, PriorSamples};
use crate::gaussian::{check, doubles, Family};
use crate::linalg::cholesky::PANEL;
use crate::memory::room;
use crate::model::{Container, Stored};
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use faer::Mat;
use serde::{Deserialize, Serialize};

/// Points up to which samples are drawn jointly by default.
const JOINT_ROWS: usize = 2_048;
/// Least variance of a sample of f, relative to s².
const LEAST: f64 = 1e-10;
/// Functions drawn at a time.
const SAMPLES: usize = 64;
/// Mean, variance, covariance and samples of a function given noisy values of it.
///
/// y = c + f(x) + ε with c the mean of the targets of the fit, and f and ε as [`Hyperparameters`] says.
#[derive(Clone, Debug)]
pub struct GaussianProcess {
    header: Header,
    hyper: Hyperparameters,
    /// Subtracted from the columns: only differences count, and those of centred rows are rounded least.
    shift: Vec<f64>,
    rows: Vec<f64>,
    targets: Vec<f64>,
    posterior: Posterior,
}

/// A posterior and what it makes of functions of the prior.
enum Correction<'a> {
    Exact(&'a Exact, Mat<f64>),
    Inducing(&'a Inducing, [Mat<f64>; 2]),
}

#[derive(Clone, Debug)]
enum Posterior {
    Exact(Exact),
    Inducing(Box<Inducing>),
}

/// Everything about a process that is not a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    options: GaussianProcessOptions,
    signal: f64,
    noise: f64,
    mean: f64,
}

impl GaussianProcess {
    /// Learns the hyper-parameters that are not given and conditions on all rows.
    pub fn fit(
        options: &GaussianProcessOptions,
        rows: Rows<'_>,
        targets: &[f64],
        control: &mut Control<'_>,
    ) -> Result<Self> {
        options.check()?;
        control.start(options.max_time);
        check(rows, rows.columns(), targets)?;
        if rows.is_empty() {
            return Err(Error::Empty { what: "X", needed: "one row" });
        }
        let values = doubles(rows)?;
        let (learning, d) = (options.learning(), rows.columns());
        let (hyper, shift, mean) = settle(&learning, Family::Gaussian, &values, targets, d, control)?;
        let header = Header { options: options.clone(), signal: hyper.signal, noise: hyper.noise, mean };
        Self::condition(header, hyper, shift, values, targets.to_vec(), control)
    }

    fn condition(
        header: Header,
        hyper: Hyperparameters,
        shift: Vec<f64>,
        rows: Vec<f64>,
        targets: Vec<f64>,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        hyper.check(shift.len())?;
        let points = Points::new(&rows, &shift, &hyper.length_scales);
        let n = targets.len();
        let options = &header.options;
        let posterior = if options.exact(n) {
            room("covariances of the rows", "the rows of X, or take approximation = inducing", &[n, n], 8)?;
            let centred = targets.iter().map(|y| y - header.mean).collect();
            Posterior::Exact(Exact::new(&hyper, points, centred, &mut panels(n, control))?)
        } else {
            let order = Permutation::new(options.seed, Stream::Process, BlockIndex(1), n);
            let points = points.select(order.indices().iter().map(|&i| i as usize));
            let centred = order.indices().iter().map(|&i| targets[i as usize] - header.mean).collect();
            let sizes =
                Sizes { inducing: affordable(n, options.inducing), neighbours: options.neighbours.min(n) };
            let inducing = Inducing::new(&hyper, sizes, points, centred, control)?;
            Posterior::Inducing(Box::new(inducing))
        };
        Ok(Self { header, hyper, shift, rows, targets, posterior })
    }

    /// Conditions on further rows; the hyper-parameters stay as they are.
    ///
    /// The exact posterior grows by a border, O(n²) a row; the approximation is made anew, as is the posterior that
    /// becomes too large to be exact.
    pub fn extend(&mut self, rows: Rows<'_>, targets: &[f64], control: &mut Control<'_>) -> Result<()> {
        check(rows, self.columns(), targets)?;
        let new = doubles(rows)?;
        let n = self.targets.len() + targets.len();
        match &mut self.posterior {
            Posterior::Exact(exact) if self.header.options.exact(n) => {
                let points = Points::new(&new, &self.shift, &self.hyper.length_scales);
                let centred: Vec<f64> = targets.iter().map(|y| y - self.header.mean).collect();
                exact.extend(&self.hyper, &points, &centred, &mut panels(targets.len(), control))?;
                self.rows.extend(new);
                self.targets.extend_from_slice(targets);
            }
            _ => {
                let (rows, targets) = ([&*self.rows, &new].concat(), [&*self.targets, targets].concat());
                let (hyper, shift) = (self.hyper.clone(), self.shift.clone());
                *self = Self::condition(self.header.clone(), hyper, shift, rows, targets, control)?;
            }
        }
        Ok(())
    }

    /// s², σ² and ℓ.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.hyper
    }

    /// Input columns.
    pub fn columns(&self) -> usize {
        self.shift.len()
    }

    /// Rows conditioned on.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are none; a fit refuses that.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Whether the posterior is exact.
    pub fn is_exact(&self) -> bool {
        matches!(self.posterior, Posterior::Exact(_))
    }

    /// What was added to the noise because the exact covariance was singular to rounding, zero otherwise.
    pub fn jitter(&self) -> f64 {
        match &self.posterior {
            Posterior::Exact(exact) => exact.jitter(),
            Posterior::Inducing(_) => 0.0,
        }
    }

    /// The seed of the fit.
    pub fn seed(&self) -> Seed {
        self.header.options.seed
    }

    /// log p(y | X): exact, or that of the approximation.
    pub fn log_marginal_likelihood(&self) -> f64 {
        match &self.posterior {
            Posterior::Exact(exact) => exact.log_marginal_likelihood(),
            Posterior::Inducing(inducing) => inducing.log_marginal_likelihood(),
        }
    }

    /// The mean of f, which is that of y, at `rows`.
    pub fn mean(&self, rows: Rows<'_>) -> Result<Vec<f64>> {
        let Posterior::Exact(exact) = &self.posterior else { return Ok(self.marginals(rows)?.0) };
        let mut out = Vec::with_capacity(rows.len());
        for tile in tiles(rows.len()) {
            out.extend(exact.mean(&self.hyper, &self.points(rows.slice(tile))?));
        }
        out.iter_mut().for_each(|m| *m += self.header.mean);
        Ok(out)
    }

    /// Mean and variance of f at `rows`; y has the variance of f and [`Hyperparameters::noise`].
    pub fn marginals(&self, rows: Rows<'_>) -> Result<(Vec<f64>, Vec<f64>)> {
        let (mut mean, mut variance) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for tile in tiles(rows.len()) {
            let test = self.points(rows.slice(tile))?;
            let (m, v) = match &self.posterior {
                Posterior::Exact(exact) => exact.marginals(&self.hyper, &test),
                Posterior::Inducing(inducing) => inducing.marginals(&self.hyper, &test),
            };
            mean.extend(m.into_iter().map(|m| m + self.header.mean));
            variance.extend(v);
        }
        Ok((mean, variance))
    }

    /// Mean and covariance (n×n) of f at `rows` together.
    pub fn joint(&self, rows: Rows<'_>) -> Result<(Vec<f64>, Mat<f64>)> {
        room("covariances of the rows of X", "the rows of X", &[rows.len(), rows.len() + self.len()], 16)?;
        let test = self.points(rows)?;
        let (mut mean, covariance) = match &self.posterior {
            Posterior::Exact(exact) => exact.joint(&self.hyper, &test),
            Posterior::Inducing(inducing) => inducing.joint(&self.hyper, &test),
        };
        mean.iter_mut().for_each(|m| *m += self.header.mean);
        Ok((mean, covariance))
    }

    /// `count` samples of f (of y where `noisy`) at `rows`, n×count.
    pub fn sample(
        &self,
        rows: Rows<'_>,
        count: usize,
        how: Sampling,
        seed: Seed,
        noisy: bool,
    ) -> Result<Mat<f64>> {
        room("samples", "n_samples or the rows of X", &[rows.len(), count], 16)?;
        match how {
            Sampling::Auto if rows.len() > JOINT_ROWS => self.sample_functions(rows, count, seed, noisy),
            Sampling::Functions => self.sample_functions(rows, count, seed, noisy),
            Sampling::Auto | Sampling::Joint => self.sample_jointly(rows, count, seed, noisy),
        }
    }

    /// mean + L z with L Lᵀ the covariance.
    fn sample_jointly(&self, rows: Rows<'_>, count: usize, seed: Seed, noisy: bool) -> Result<Mat<f64>> {
        let (mean, mut covariance) = self.joint(rows)?;
        // What is known of f better than this is rounding.
        add_noise(&mut covariance, if noisy { self.hyper.noise } else { LEAST * self.hyper.signal });
        let mut out = Mat::zeros(mean.len(), count);
        sample_normal(&mut out, &mean, &covariance, seed, &(0..count).collect::<Vec<_>>())?;
        Ok(out)
    }

    /// Functions of the prior, corrected by what the rows say.
    fn sample_functions(&self, rows: Rows<'_>, count: usize, seed: Seed, noisy: bool) -> Result<Mat<f64>> {
        let mut out = Mat::zeros(rows.len(), count);
        for first in (0..count).step_by(SAMPLES) {
            let samples = first..count.min(first + SAMPLES);
            let prior = PriorSamples { seed, samples: samples.clone() };
            let correction = match &self.posterior {
                Posterior::Exact(exact) => Correction::Exact(exact, exact.correction(&self.hyper, &prior)?),
                Posterior::Inducing(inducing) => {
                    Correction::Inducing(inducing, inducing.correction(&self.hyper, &prior)?)
                }
            };
            for tile in tiles(rows.len()) {
                let test = self.points(rows.slice(tile.clone()))?;
                let values = prior.at(&self.hyper, &test)?;
                let mut values = match &correction {
                    Correction::Exact(exact, known) => exact.correct(&self.hyper, known, &test, values),
                    Correction::Inducing(inducing, known) => {
                        inducing.correct(&self.hyper, known, &test, values)
                    }
                };
                if noisy {
                    prior.add_noise(&mut values, Draw::Target, tile.start, |_| self.hyper.noise.sqrt());
                }
                values.col_iter_mut().for_each(|v| v.iter_mut().for_each(|v| *v += self.header.mean));
                out.get_mut(tile, samples.clone()).copy_from(values);
            }
        }
        Ok(out)
    }

    fn points(&self, rows: Rows<'_>) -> Result<Points> {
        same_columns(self.columns(), rows.columns())?;
        rows.check_finite("X")?;
        Ok(Points::new(&doubles(rows)?, &self.shift, &self.hyper.length_scales))
    }
}

/// The file holds hyper-parameters, rows and targets; the posterior is computed when it is read.
impl Stored for GaussianProcess {
    const KIND: &'static str = "gaussian_process";

    fn store(&self, container: &mut Container) -> Result<()> {
        container.set_field("process", &self.header)?;
        let (n, d) = (self.len(), self.columns());
        container.insert("length_scales", vec![d], self.hyper.length_scales.clone())?;
        container.insert("shift", vec![d], self.shift.clone())?;
        container.insert("rows", vec![n, d], self.rows.clone())?;
        container.insert("targets", vec![n], self.targets.clone())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("process")?;
        header.options.check()?;
        let (n, d) = match *container.f64s("rows")?.0 {
            [n, d] if n > 0 && d > 0 => (n, d),
            ref shape => return Err(Error::Format(format!("rows have shape {shape:?}"))),
        };
        let hyper = Hyperparameters {
            signal: header.signal,
            noise: header.noise,
            length_scales: container.take_f64s("length_scales", &[d])?,
        };
        hyper.check(d)?;
        let shift = container.take_f64s("shift", &[d])?;
        let rows = container.take_f64s("rows", &[n, d])?;
        let targets = container.take_f64s("targets", &[n])?;
        quietly(|control| Self::condition(header, hyper, shift, rows, targets, control))
    }
}

/// Reports the panels of a factorisation of n rows as they begin.
fn panels<'a, 'b>(n: usize, control: &'a mut Control<'b>) -> impl FnMut() -> Result<()> + use<'a, 'b> {
    let (mut done, most) = (0, n.div_ceil(PANEL));
    move || {
        done = (done + 1).min(most);
        control.report(Progress::new(Phase::Fit, done, most, f64::NAN))
    }
}
