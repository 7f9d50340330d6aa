//! A fitted sparse Gaussian process.

use super::accumulate::{add, Batch, Entry};
use super::inducing::{Ball, Candidates};
use super::options::{Mode, SparseProcessOptions};
use super::particle::{Particle, Precision, Setting};
use super::weighting::{Marginals, Weighting};
use crate::data::{tiles, Rows};
use crate::driver::{Control, Phase, Progress};
use crate::error::{check_weights, same_columns, Error, Result};
use crate::gaussian::covariance::{add_noise, Points};
use crate::gaussian::hyperparameters::settle;
use crate::gaussian::pathwise::sample_normal;
use crate::gaussian::{check, doubles, Hyperparameters};
use crate::linalg::dot;
use crate::linalg::special::log_sum_exp;
use crate::memory::room;
use crate::random::{uniform_open, Address, BlockIndex, Permutation, Seed, Stream};
use faer::Mat;
use rayon::prelude::*;

/// Rows held out to choose the weighting: at most, and the fewest rows of which a tenth is held out.
const HELD_OUT: usize = 2_048;
const LEAST_ROWS: usize = 500;
/// Rows on which a random set is tried, their permutation, and how much of the variance of the noise it may leave of f.
const MOST_PROBES: usize = 1_024;
const PROBES: BlockIndex = BlockIndex(1 << 41);
const LITTLE: f64 = 1e-3;
/// The exponent of the weighting where there are too few rows to choose it.
const EXPONENT: f64 = 4.0;
/// Lane of the draw of a particle; see [`Draw`](crate::gaussian::pathwise::Draw).
const CHOICE: u32 = 9;

/// Mean, variance, covariance and samples of a function given noisy values of it, from J sets of inducing inputs.
///
/// *Paper*: sets of random rows, the recursion of [`Natural`](super::Natural) with steps γ_t, and the mixture of the
/// particles by their weights.
///
/// *Adaptive*: one set of all rows where it costs no more than J sets of m, else random sets where one of them says nearly all
/// of f, else local ones, each drawn from the rows around a centre; and
///
/// 1. a row's noise has what the set does not say of f there added, β_i⁻¹ = σ²/w_i + s² − ‖ψ_i‖² (FITC), so that far rows do
///    not spoil a set's account of near ones; the farther half of the rows a set takes to say nothing, β_i⁻¹ = σ²/w_i + s²
///    and ψ_i = 0, which halves the work;
/// 2. one pass adds every row with weight one: the posterior given each set, exact for its model;
/// 3. predictions listen to the particles of small variance ([`Weighting`]): the weights by evidence are those of one particle alone
///    at thousands of rows, and no set is the best one everywhere.
#[derive(Clone, Debug)]
pub struct SparseProcess {
    pub(super) options: SparseProcessOptions,
    pub(super) setting: Setting,
    /// c, the mean of the targets.
    pub(super) mean: f64,
    pub(super) precision: Precision,
    pub(super) particles: Vec<Particle>,
    pub(super) weighting: Weighting,
    /// Rows learnt from.
    pub(super) seen: usize,
}

/// Sees a process after every batch.
type Trace<'a> = &'a mut dyn FnMut(&SparseProcess) -> Result<()>;

/// Rows with all that is known of them.
struct Data {
    points: Points,
    /// Less their mean.
    targets: Vec<f64>,
    weights: Vec<f64>,
}

impl Data {
    fn select(&self, indices: &[u32]) -> Self {
        let of = |values: &[f64]| indices.iter().map(|&i| values[i as usize]).collect();
        Self {
            points: self.points.select(indices.iter().map(|&i| i as usize)),
            targets: of(&self.targets),
            weights: of(&self.weights),
        }
    }

    fn batch(&self) -> Batch<'_> {
        Batch { points: &self.points, targets: &self.targets, weights: &self.weights }
    }

    fn len(&self) -> usize {
        self.targets.len()
    }
}

impl SparseProcess {
    /// Learns the hyper-parameters that are not given, chooses the sets and learns from all rows. Row i has noise σ²/w_i;
    /// rows of weight zero are left out.
    pub fn fit(
        options: &SparseProcessOptions,
        rows: Rows<'_>,
        targets: &[f64],
        weights: Option<&[f64]>,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        Self::fit_traced(options, rows, targets, weights, control, &mut |_| Ok(()))
    }

    /// As [`SparseProcess::fit`]; `trace` sees the process after every batch, and may ask it what it says by then
    /// ([`SparseProcess::snapshot`]).
    pub fn fit_traced(
        options: &SparseProcessOptions,
        rows: Rows<'_>,
        targets: &[f64],
        weights: Option<&[f64]>,
        control: &mut Control<'_>,
        trace: Trace<'_>,
    ) -> Result<Self> {
        options.check()?;
        control.start(options.max_time);
        check(rows, rows.columns(), targets)?;
        let (values, targets, weights) = weighted(rows, targets, weights)?;
        if targets.is_empty() {
            return Err(Error::Empty { what: "X", needed: "one row of a weight above zero" });
        }
        let (learning, kernel, d) = (options.learning(), options.kernel, rows.columns());
        let (hyper, shift, mean) = settle(&learning, kernel, &values, &targets, d, control)?;
        let mut this = Self::prior(options, Setting { kernel, hyper, shift }, mean, &values)?;
        let data = this.data(&values, &targets, weights);
        match options.mode {
            Mode::Paper => this.descend(&data, control, trace)?,
            Mode::Adaptive => this.learn(&data, control, trace)?,
        }
        this.factorise()?;
        Ok(this)
    }

    /// Sets of inducing inputs, nothing learnt.
    fn prior(options: &SparseProcessOptions, setting: Setting, mean: f64, values: &[f64]) -> Result<Self> {
        let points = setting.points(values);
        let candidates = Candidates::new(&points, options.seed);
        let d = setting.shift.len();
        let everything = |set| (set, Ball::everything(d));
        let (m, j) = (options.inducing.min(points.len()), options.particles);
        if candidates.all(options.largest()).is_none() {
            room("particles", "n_particles or n_inducing", &[j, m, m], 16)?;
        }
        let sets = match (candidates.all(options.largest()), options.mode) {
            (Some(all), _) => vec![everything(all)],
            (None, Mode::Paper) => {
                candidates.random(options.inducing, options.particles).into_iter().map(everything).collect()
            }
            (None, Mode::Adaptive) => {
                let random = candidates.random(options.inducing, options.particles);
                if suffices(&setting, values, &random[0], options.seed)? {
                    random.into_iter().map(everything).collect()
                } else {
                    candidates.local(options.inducing, options.particles)
                }
            }
        };
        let precision = match options.mode {
            Mode::Adaptive if sets.len() > 1 => Precision::enough(&setting.hyper, points.len()),
            _ => Precision::Double,
        };
        let log_prior = -(sets.len() as f64).ln();
        let particle = |(set, ball): (Vec<usize>, Ball)| {
            let rows = set.iter().flat_map(|&i| &values[i * d..(i + 1) * d]).copied().collect();
            Particle::new(&setting, precision, rows, ball, log_prior)
        };
        let particles: Vec<Particle> = sets.into_par_iter().map(particle).collect::<Result<_>>()?;
        let weighting = match options.mode {
            Mode::Paper => Weighting::mixture(particles.len()),
            Mode::Adaptive => Weighting::equal(particles.len(), EXPONENT),
        };
        Ok(Self { options: options.clone(), setting, mean, precision, particles, weighting, seen: 0 })
    }

    fn data(&self, values: &[f64], targets: &[f64], weights: Vec<f64>) -> Data {
        let targets = targets.iter().map(|y| y - self.mean).collect();
        Data { points: self.setting.points(values), targets, weights }
    }

    fn entry(&self, scale: f64) -> Entry {
        Entry { scale, own_variance: self.options.mode == Mode::Adaptive, precision: self.precision }
    }

    /// The recursion: steps γ_t on batches without replacement.
    ///
    /// A batch stands for all rows by the number T of batches in a pass, which is n/B where B divides n; so a pass with
    /// γ_t = 1/t is exact whatever B.
    fn descend(&mut self, data: &Data, control: &mut Control<'_>, trace: Trace<'_>) -> Result<()> {
        let n = data.len();
        let per_pass = n.div_ceil(self.options.batch_size);
        let most = per_pass.saturating_mul(self.options.passes);
        let mut t = 0;
        for pass in 0..self.options.passes {
            let order = Permutation::new(self.options.seed, Stream::Shuffle, BlockIndex(pass as u64), n);
            for batch in order.indices().chunks(self.options.batch_size) {
                if t > 0 && control.out_of_time() {
                    return Ok(());
                }
                t += 1;
                let step = self.options.schedule.at(t as u64).min(1.0);
                self.particles.par_iter_mut().for_each(|particle| particle.natural.blend(step));
                let entry = self.entry(step * per_pass as f64);
                add(&mut self.particles, &self.setting, data.select(batch).batch(), entry);
                self.seen = n.min(self.seen + batch.len());
                trace(self)?;
                control.report(Progress::new(Phase::Fit, t, most, f64::NAN))?;
            }
        }
        Ok(())
    }

    /// One pass with a tenth held out, the weighting, then the held-out rows.
    fn learn(&mut self, data: &Data, control: &mut Control<'_>, trace: Trace<'_>) -> Result<()> {
        let n = data.len();
        let held = if n < LEAST_ROWS || self.particles.len() == 1 { 0 } else { HELD_OUT.min(n / 10) };
        let order = Permutation::new(self.options.seed, Stream::HoldOut, BlockIndex(0), n);
        let (out, rest) = order.indices().split_at(held);
        let most = rest.len().div_ceil(self.options.batch_size);
        for (done, batch) in rest.chunks(self.options.batch_size).enumerate() {
            if done > 0 && control.out_of_time() {
                break;
            }
            self.absorb(&data.select(batch));
            trace(self)?;
            control.report(Progress::new(Phase::Fit, done + 1, most, f64::NAN))?;
        }
        if held > 0 {
            self.factorise()?;
            let out = data.select(out);
            let noise: Vec<f64> = out.weights.iter().map(|w| self.setting.hyper.noise / w).collect();
            self.weighting = Weighting::choose(&self.marginals_of(&out.points), &out.targets, &noise);
            self.absorb(&out);
        }
        Ok(())
    }

    /// Bayes' rule.
    fn absorb(&mut self, data: &Data) {
        let entry = self.entry(1.0);
        add(&mut self.particles, &self.setting, data.batch(), entry);
        self.seen += data.len();
    }

    /// The process with what it knows so far, ready for predictions.
    pub fn snapshot(&self) -> Result<Self> {
        let mut now = self.clone();
        now.factorise()?;
        Ok(now)
    }

    /// Factorises what is known; the mixture of the paper has the weights of the evidence.
    pub(super) fn factorise(&mut self) -> Result<()> {
        for particle in &mut self.particles {
            particle.posterior = Some(particle.natural.posterior()?);
        }
        if self.options.mode == Mode::Paper {
            self.weighting.log_weights = self.log_weights();
        }
        Ok(())
    }

    /// Learns from further rows, each with the weight one observation has; hyper-parameters and sets stay as they are.
    pub fn extend(
        &mut self,
        rows: Rows<'_>,
        targets: &[f64],
        weights: Option<&[f64]>,
        control: &mut Control<'_>,
    ) -> Result<()> {
        check(rows, self.columns(), targets)?;
        let (values, targets, weights) = weighted(rows, targets, weights)?;
        let data = self.data(&values, &targets, weights);
        let all: Vec<u32> = (0..data.len() as u32).collect();
        let mut next = self.clone();
        let most = all.len().div_ceil(self.options.batch_size);
        for (done, batch) in all.chunks(self.options.batch_size).enumerate() {
            next.absorb(&data.select(batch));
            control.report(Progress::new(Phase::Fit, done + 1, most, f64::NAN))?;
        }
        next.factorise()?;
        *self = next;
        Ok(())
    }

    /// s², σ² and ℓ.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.setting.hyper
    }

    /// Input columns.
    pub fn columns(&self) -> usize {
        self.setting.shift.len()
    }

    /// Rows learnt from.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// How particles are combined.
    pub fn weighting(&self) -> &Weighting {
        &self.weighting
    }

    /// The settings of the fit.
    pub fn options(&self) -> &SparseProcessOptions {
        &self.options
    }

    /// The inducing inputs of every particle, row-major.
    pub fn inducing(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.particles.iter().map(|particle| &*particle.rows)
    }

    /// log w_j; their log-sum-exp is [`SparseProcess::log_evidence`].
    pub fn log_weights(&self) -> Vec<f64> {
        let of = |particle: &Particle| particle.posterior.as_ref().map_or(f64::NAN, |p| p.log_weight);
        self.particles.iter().map(of).collect()
    }

    /// log p(y) = log Σ_j w_j, with equal prior mass on the sets.
    pub fn log_evidence(&self) -> f64 {
        log_sum_exp(&self.log_weights())
    }

    /// Mean and variance of f given each particle.
    fn marginals_of(&self, points: &Points) -> Vec<Marginals> {
        let of = |particle: &Particle| match &particle.posterior {
            Some(posterior) => particle.marginals(&self.setting, posterior, points),
            None => [vec![f64::NAN; points.len()], vec![f64::NAN; points.len()]],
        };
        self.particles.par_iter().map(of).collect()
    }

    /// Mean and variance of f at `rows`; y has the variance of f and [`Hyperparameters::noise`].
    pub fn marginals(&self, rows: Rows<'_>) -> Result<(Vec<f64>, Vec<f64>)> {
        let (mut mean, mut variance) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for tile in tiles(rows.len()) {
            let (m, v) = self.weighting.marginals(&self.marginals_of(&self.points(rows.slice(tile))?));
            mean.extend(m.into_iter().map(|m| m + self.mean));
            variance.extend(v);
        }
        Ok((mean, variance))
    }

    /// Mean and covariance (n×n) of f at `rows` together:
    ///
    /// ```text
    /// cov(x, x') = Σ_j √(q_j(x) q_j(x')) [ς C_j(x, x') + (μ_j − μ)(x) (μ_j − μ)(x')]
    /// ```
    ///
    /// (the last term of a mixture alone). Positive semidefinite, the covariance of the mixture where shares do not depend on x, and with the diagonal of
    /// [`SparseProcess::marginals`].
    pub fn joint(&self, rows: Rows<'_>) -> Result<(Vec<f64>, Mat<f64>)> {
        room("covariances of the rows of X", "the rows of X", &[rows.len(), rows.len()], 16)?;
        let points = self.points(rows)?;
        let (n, each) = (points.len(), self.marginals_of(&points));
        let (mean, _) = self.weighting.marginals(&each);
        let shares: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                let mut shares: Vec<f64> = each.iter().map(|particle| particle[1][i]).collect();
                self.weighting.shares(&mut shares);
                shares
            })
            .collect();
        let mut covariance = Mat::<f64>::zeros(n, n);
        for (j, particle) in self.particles.iter().enumerate() {
            let Some(posterior) = &particle.posterior else { continue };
            let (own, c) = particle.joint(&self.setting, posterior, &points);
            let root: Vec<f64> = shares.iter().map(|q| q[j].sqrt()).collect();
            let counts = if self.weighting.mixture { 1.0 } else { 0.0 };
            let away: Vec<f64> = own.iter().zip(&mean).map(|(own, mean)| counts * (own - mean)).collect();
            let scale = self.weighting.scale;
            covariance.par_col_iter_mut().enumerate().for_each(|(b, column)| {
                for (a, out) in column.iter_mut().enumerate() {
                    *out += root[a] * root[b] * (scale * c[(a.max(b), a.min(b))] + away[a] * away[b]);
                }
            });
        }
        Ok((mean.into_iter().map(|m| m + self.mean).collect(), covariance))
    }

    /// `count` samples of f (of y where `noisy`) at `rows`, n×count.
    ///
    /// Of the paper's mixture: a particle by its weight, then f given it. Else from the normal distribution of
    /// [`SparseProcess::joint`].
    pub fn sample(&self, rows: Rows<'_>, count: usize, seed: Seed, noisy: bool) -> Result<Mat<f64>> {
        room("samples", "n_samples or the rows of X", &[rows.len(), count.max(rows.len())], 16)?;
        let mut out = Mat::zeros(rows.len(), count);
        if self.options.mode == Mode::Adaptive {
            let (mean, covariance) = self.joint(rows)?;
            self.draw(&mut out, mean, covariance, seed, noisy, |_| true)?;
            return Ok(out);
        }
        let mut shares = vec![1.0; self.particles.len()];
        self.weighting.shares(&mut shares);
        let points = self.points(rows)?;
        let chosen: Vec<usize> = (0..count).map(|sample| pick(&shares, seed, sample)).collect();
        for (j, particle) in self.particles.iter().enumerate() {
            let Some(posterior) = particle.posterior.as_ref().filter(|_| chosen.contains(&j)) else {
                continue;
            };
            let (mut mean, covariance) = particle.joint(&self.setting, posterior, &points);
            mean.iter_mut().for_each(|m| *m += self.mean);
            self.draw(&mut out, mean, covariance, seed, noisy, |sample| chosen[sample] == j)?;
        }
        Ok(out)
    }

    /// mean + L z with L Lᵀ the covariance, in the columns that `which` wants.
    fn draw(
        &self,
        out: &mut Mat<f64>,
        mean: Vec<f64>,
        mut covariance: Mat<f64>,
        seed: Seed,
        noisy: bool,
        which: impl Fn(usize) -> bool,
    ) -> Result<()> {
        if noisy {
            add_noise(&mut covariance, self.setting.hyper.noise);
        }
        let wanted: Vec<usize> = (0..out.ncols()).filter(|&sample| which(sample)).collect();
        sample_normal(out, &mean, &covariance, seed, &wanted)
    }

    fn points(&self, rows: Rows<'_>) -> Result<Points> {
        same_columns(self.columns(), rows.columns())?;
        rows.check_finite("X")?;
        Ok(self.setting.points(&doubles(rows)?))
    }
}

/// Whether the values at a set say nearly all of f: what they leave of its variance, s² − ‖ψ‖² on average over some rows,
/// is small beside the noise.
fn suffices(setting: &Setting, values: &[f64], set: &[usize], seed: Seed) -> Result<bool> {
    let d = setting.shift.len();
    let of = |rows: &mut dyn Iterator<Item = usize>| -> Vec<f64> {
        rows.flat_map(|i| &values[i * d..(i + 1) * d]).copied().collect()
    };
    let order = Permutation::new(seed, Stream::Inducing, PROBES, values.len() / d);
    let probes = setting.points(&of(&mut order.indices().iter().take(MOST_PROBES).map(|&i| i as usize)));
    let rows = of(&mut set.iter().copied());
    let particle = Particle::new(setting, Precision::Double, rows, Ball::everything(d), 0.0)?;
    let psi = particle.features::<f64>(setting, &probes);
    let left = |i| (setting.hyper.signal - dot(psi.col_as_slice(i), psi.col_as_slice(i))).max(0.0);
    let mean = (0..probes.len()).map(left).sum::<f64>() / probes.len() as f64;
    Ok(mean < LITTLE * setting.hyper.noise)
}

/// The particle of a sample.
fn pick(shares: &[f64], seed: Seed, sample: usize) -> usize {
    let address = Address::new(seed, Stream::Posterior, BlockIndex(sample as u64), 0);
    let mut left = uniform_open(address.words(CHOICE)[0]);
    let found = shares.iter().position(|share| {
        left -= share;
        left <= 0.0
    });
    found.unwrap_or(shares.len() - 1)
}

/// Rows, targets and weights in double precision, without rows of weight zero.
fn weighted(
    rows: Rows<'_>,
    targets: &[f64],
    weights: Option<&[f64]>,
) -> Result<(Vec<f64>, Vec<f64>, Vec<f64>)> {
    let values = doubles(rows)?;
    let Some(weights) = weights else { return Ok((values, targets.to_vec(), vec![1.0; targets.len()])) };
    check_weights(weights, targets.len())?;
    let d = rows.columns();
    let kept: Vec<usize> = (0..targets.len()).filter(|&i| weights[i] > 0.0).collect();
    let of = |values: &[f64]| kept.iter().map(|&i| values[i]).collect();
    let values = kept.iter().flat_map(|&i| &values[i * d..(i + 1) * d]).copied().collect();
    Ok((values, of(targets), of(weights)))
}
