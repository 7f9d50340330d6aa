//! A fitted Gaussian process.

use super::covariance::{add_noise, Hyperparameters, Points};
use super::exact::Exact;
use super::factor::Factor;
use super::inducing::{affordable, Inducing, Sizes};
use super::learn::{calibrate_noise, learn, Block, Settled};
use crate::data::{tiles, Rows};
use crate::driver::Control;
use crate::error::{positive, Error, Result};
use crate::model::{Container, PROCESS};
use crate::random::{normal_pair, Address, BlockIndex, Permutation, Seed, Stream};
use faer::linalg::matmul::triangular;
use faer::{Accum, Mat};
use serde::{Deserialize, Serialize};
use std::path::Path;
use triangular::BlockStructure::{Rectangular, TriangularLower};

/// Rows up to which the posterior is exact by default.
const EXACT_ROWS: usize = 8_192;
/// Rows not learnt from on which the noise is tried: at least, and at most.
const LEAST_OTHERS: usize = 200;
const MOST_OTHERS: usize = 1_000;
/// What a covariance that is singular to rounding gets on its diagonal before it is sampled from, relative to s².
const JITTERS: [f64; 4] = [0.0, 1e-10, 1e-8, 1e-6];

/// How the posterior is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approximation {
    /// Exact up to 8,192 rows, inducing points above.
    Auto,
    /// The Cholesky factor of K + σ²I: O(n³) time, O(n²) memory.
    Exact,
    /// Inducing points, and neighbours for the residual: O(n) for fixed numbers of both.
    Inducing,
}

impl std::str::FromStr for Approximation {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "exact" => Ok(Self::Exact),
            "inducing" => Ok(Self::Inducing),
            _ => Err(Error::Unknown {
                name: "approximation",
                value: name.into(),
                expected: "auto, exact, inducing",
            }),
        }
    }
}

/// Settings of [`GaussianProcess`]. What is `None` is learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GaussianProcessOptions {
    /// s², in squared units of the targets.
    pub signal: Option<f64>,
    /// σ², in squared units of the targets.
    pub noise: Option<f64>,
    /// ℓ, one per column, in its units.
    pub length_scales: Option<Vec<f64>>,
    /// Rows the hyper-parameters are learnt from, drawn at random.
    pub learning_rows: usize,
    /// How the posterior is computed.
    pub approximation: Approximation,
    /// Most inducing points; fewer above 131,072 rows, where their features would not fit in a gibibyte.
    pub inducing: usize,
    /// Neighbours of a row in the inducing approximation.
    pub neighbours: usize,
    /// Seed of the order of the rows.
    pub seed: Seed,
}

impl GaussianProcessOptions {
    /// Everything learnt.
    pub fn new(seed: Seed) -> Self {
        Self {
            signal: None,
            noise: None,
            length_scales: None,
            learning_rows: 2_000,
            approximation: Approximation::Auto,
            inducing: 1_024,
            neighbours: 32,
            seed,
        }
    }

    /// Refuses settings outside their domain.
    pub fn check(&self) -> Result<()> {
        self.signal.map_or(Ok(1.0), |v| positive("signal", v))?;
        self.noise.map_or(Ok(1.0), |v| positive("noise", v))?;
        for &scale in self.length_scales.iter().flatten() {
            positive("length_scales", scale)?;
        }
        positive("learning_rows", self.learning_rows as f64)?;
        positive("inducing", self.inducing as f64)?;
        Ok(())
    }

    fn exact(&self, rows: usize) -> bool {
        match self.approximation {
            Approximation::Auto => rows <= EXACT_ROWS,
            Approximation::Exact => true,
            Approximation::Inducing => false,
        }
    }
}

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
        control.start(None);
        check(rows, rows.columns(), targets)?;
        if rows.is_empty() {
            return Err(Error::Empty { what: "X", needed: "one row" });
        }
        let values = doubles(rows);
        let columns = Standard::columns(&values, rows.columns());
        let centre = Standard::of(targets.iter().copied());
        let hyper = hyperparameters(options, &values, targets, &columns, centre, control)?;
        let header =
            Header { options: options.clone(), signal: hyper.signal, noise: hyper.noise, mean: centre.mean };
        let shift = columns.iter().map(|column| column.mean).collect();
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
            let centred = targets.iter().map(|y| y - header.mean).collect();
            Posterior::Exact(Exact::new(&hyper, points, centred)?)
        } else {
            let order = Permutation::new(options.seed, Stream::Process, BlockIndex(1), n);
            let points = points.select(order.indices().iter().map(|&i| i as usize));
            let centred = order.indices().iter().map(|&i| targets[i as usize] - header.mean).collect();
            let sizes = Sizes { inducing: affordable(n, options.inducing), neighbours: options.neighbours };
            let inducing = Inducing::new(&hyper, sizes, points, centred, || control.check(0))?;
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
        let new = doubles(rows);
        let n = self.targets.len() + targets.len();
        match &mut self.posterior {
            Posterior::Exact(exact) if self.header.options.exact(n) => {
                let points = Points::new(&new, &self.shift, &self.hyper.length_scales);
                let centred: Vec<f64> = targets.iter().map(|y| y - self.header.mean).collect();
                exact.extend(&self.hyper, &points, &centred)?;
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
        let test = self.points(rows)?;
        let (mut mean, covariance) = match &self.posterior {
            Posterior::Exact(exact) => exact.joint(&self.hyper, &test),
            Posterior::Inducing(inducing) => inducing.joint(&self.hyper, &test),
        };
        mean.iter_mut().for_each(|m| *m += self.header.mean);
        Ok((mean, covariance))
    }

    /// `count` samples of f (of y where `noisy`) at `rows` together, n×count: mean + L z with L Lᵀ the covariance.
    pub fn sample(&self, rows: Rows<'_>, count: usize, seed: Seed, noisy: bool) -> Result<Mat<f64>> {
        let (mean, mut covariance) = self.joint(rows)?;
        if noisy {
            add_noise(&mut covariance, self.hyper.noise);
        }
        let factor = JITTERS.iter().find_map(|jitter| {
            let mut raised = covariance.clone();
            add_noise(&mut raised, jitter * self.hyper.signal);
            Factor::new(raised)
        });
        let n = mean.len();
        let Some(factor) = factor else {
            return Err(Error::NotPositiveDefinite { block: 0, size: n, raise: "noise" });
        };
        let normal = |i: usize, sample: usize| {
            let words =
                Address::new(seed, Stream::Posterior, BlockIndex(sample as u64), (i / 2) as u32).words(0);
            normal_pair(words[0], words[1])[i % 2]
        };
        let z = Mat::from_fn(n, count, normal);
        let mut out = Mat::from_fn(n, count, |i, _| mean[i]);
        let par = faer::get_global_parallelism();
        triangular::matmul(
            out.as_mut(),
            Rectangular,
            Accum::Add,
            factor.lower(),
            TriangularLower,
            z.as_ref(),
            Rectangular,
            1.0,
            par,
        );
        Ok(out)
    }

    fn points(&self, rows: Rows<'_>) -> Result<Points> {
        if rows.columns() != self.columns() {
            return Err(Error::Columns { expected: self.columns(), found: rows.columns() });
        }
        rows.check_finite("X")?;
        Ok(Points::new(&doubles(rows), &self.shift, &self.hyper.length_scales))
    }

    /// The process as a file: hyper-parameters, rows and targets. The posterior is computed when it is read.
    pub fn to_container(&self) -> Result<Container> {
        let mut container = Container::new(PROCESS);
        container.set_field("process", &self.header)?;
        let (n, d) = (self.len(), self.columns());
        container.insert("length_scales", vec![d], self.hyper.length_scales.clone())?;
        container.insert("shift", vec![d], self.shift.clone())?;
        container.insert("rows", vec![n, d], self.rows.clone())?;
        container.insert("targets", vec![n], self.targets.clone())?;
        Ok(container)
    }

    /// Reads what [`GaussianProcess::to_container`] wrote.
    pub fn from_container(mut container: Container, control: &mut Control<'_>) -> Result<Self> {
        container.expect_kind(PROCESS)?;
        let header: Header = container.field("process")?;
        header.options.check().map_err(|e| Error::Format(e.to_string()))?;
        let (n, d) = match *container.f64s("rows")?.0 {
            [n, d] if n > 0 && d > 0 => (n, d),
            ref shape => return Err(Error::Format(format!("rows have shape {shape:?}"))),
        };
        let hyper = Hyperparameters {
            signal: header.signal,
            noise: header.noise,
            length_scales: container.take_f64s("length_scales", &[d])?,
        };
        hyper.check(d).map_err(|e| Error::Format(e.to_string()))?;
        let shift = container.take_f64s("shift", &[d])?;
        let rows = container.take_f64s("rows", &[n, d])?;
        let targets = container.take_f64s("targets", &[n])?;
        let finite = [&shift, &rows, &targets].iter().all(|values| values.iter().all(|v| v.is_finite()));
        if !finite || !header.mean.is_finite() {
            return Err(Error::Format("a process needs finite rows and targets".into()));
        }
        Self::condition(header, hyper, shift, rows, targets, control)
    }

    /// Writes the process atomically.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.to_container()?.save(path)
    }

    /// Reads a process from its file.
    pub fn load(path: &Path, control: &mut Control<'_>) -> Result<Self> {
        Self::from_container(Container::load(path)?, control)
    }
}

/// Learns in units of standardised rows and targets.
fn hyperparameters(
    options: &GaussianProcessOptions,
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
    let learnt = learn_from(options.learning_rows, &x, &y, &settled, control)?;
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
    x: &[f64],
    y: &[f64],
    settled: &Settled,
    control: &mut Control<'_>,
) -> Result<Hyperparameters> {
    let (n, d) = (y.len(), x.len() / y.len());
    let block = |from: usize, to: usize| Block { rows: &x[from * d..to * d], targets: &y[from..to] };
    let first = block(0, n.min(most));
    let mut learnt = learn(first, settled, control)?;
    if settled.noise.is_none() && n >= most + LEAST_OTHERS {
        learnt.noise = calibrate_noise(&learnt, first, block(most, n.min(most + MOST_OTHERS)));
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

    fn columns(rows: &[f64], d: usize) -> Vec<Self> {
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

fn check(rows: Rows<'_>, columns: usize, targets: &[f64]) -> Result<()> {
    if rows.columns() != columns {
        return Err(Error::Columns { expected: columns, found: rows.columns() });
    }
    rows.check_finite("X")?;
    if rows.len() != targets.len() {
        return Err(Error::RowCount { what: "y", expected: rows.len(), found: targets.len() });
    }
    match targets.iter().position(|y| !y.is_finite()) {
        Some(row) => Err(Error::NotFinite { what: "y", value: targets[row], row, column: 0 }),
        None => Ok(()),
    }
}

/// The rows in double precision.
fn doubles(rows: Rows<'_>) -> Vec<f64> {
    let mut out = Vec::with_capacity(rows.len() * rows.columns());
    rows.append_doubles(&mut out);
    out
}
