//! A density estimated by a kernel around every row.

use super::centres::Centres;
use super::options::{DensityKernel, DensityOptions, Shape};
use super::sums::{log_sums_while, Tolerance};
use crate::compute::{squared_distances, Device};
use crate::data::Rows;
use crate::distributions::factor::moments;
use crate::error::{check_mass, check_weights, positive, same_columns, Error, Result};
use crate::gaussian::doubles;
use crate::linalg::Cholesky;
use crate::memory::room;
use crate::model::{Container, Stored};
use crate::random::{normals, Address, BlockIndex, Seed, Stream};
use faer::Mat;
use rayon::prelude::*;
use serde::Serialize;

/// p(x) = Σ_j w_j k(‖H⁻¹(x − x_j)‖) / (∣H∣ ∫k) with weights w_j that add up to one, H = h·I or H = h·L for the Cholesky
/// factor L of the weighted covariance of the rows.
#[derive(Clone, Debug)]
pub struct KernelDensity {
    options: DensityOptions,
    /// The rows, n×d.
    rows: Vec<f64>,
    /// Their weights, as they were given.
    weights: Vec<f64>,
    columns: usize,
    bandwidth: f64,
    /// The mean of the rows, which is subtracted first.
    mean: Vec<f64>,
    /// H, lower triangular and row-major, d×d; its one number h where it is h·I.
    factor: Vec<f64>,
    /// log Σ_j w_j + log∣H∣ + log ∫k.
    log_norm: f64,
    /// H⁻¹(x_j − mean).
    centres: Centres,
}

/// What was fitted.
#[derive(Clone, Debug, Serialize)]
pub struct DensitySummary {
    /// The kernel.
    pub kernel: DensityKernel,
    /// The shape.
    pub shape: Shape,
    /// The bandwidth h.
    pub bandwidth: f64,
    /// Columns.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

impl KernelDensity {
    /// The density of rows and their weights (one each unless given; only their proportions count).
    pub fn fit(options: &DensityOptions, rows: Rows<'_>, weights: Option<&[f64]>) -> Result<Self> {
        rows.check_finite("X")?;
        let values = doubles(rows)?;
        let weights = weights.map_or_else(|| vec![1.0; rows.len()], <[f64]>::to_vec);
        Self::assemble(options.clone(), values, weights, rows.columns())
    }

    fn assemble(options: DensityOptions, rows: Vec<f64>, weights: Vec<f64>, columns: usize) -> Result<Self> {
        options.check()?;
        let n = rows.len() / columns.max(1);
        if n == 0 {
            return Err(Error::Empty { what: "X", needed: "one row" });
        }
        check_weights(&weights, n)?;
        let total: f64 = weights.iter().sum();
        check_mass(total)?;
        positive("sum of sample_weight", total)?;
        let moments = Moments::of(&rows, &weights, columns);
        let effective = if options.shape == Shape::Covariance { moments.effective } else { n as f64 };
        let bandwidth = options.bandwidth.bandwidth(effective, columns);
        let factor = match options.shape {
            Shape::Isotropic => vec![bandwidth],
            Shape::Covariance => moments.factor(&rows, &weights, bandwidth)?,
        };
        let mut whitened = rows.clone();
        whiten(&mut whitened, &moments.mean, &factor);
        if whitened.iter().any(|x| !x.is_finite()) {
            let range = "numbers by which the rows of X can be divided";
            return Err(Error::OutOfRange { name: "bandwidth", value: bandwidth, range });
        }
        let log_weights: Vec<f64> = weights.iter().map(|w| w.ln()).collect();
        let centres = Centres::of(&whitened, &log_weights, columns);
        let log_norm = total.ln() + log_determinant(&factor, columns) + options.kernel.log_integral(columns);
        Ok(Self { options, rows, weights, columns, bandwidth, mean: moments.mean, factor, log_norm, centres })
    }

    /// log p at `rows`; −∞ where it is zero.
    pub fn log_density(&self, rows: Rows<'_>) -> Result<Vec<f64>> {
        self.log_density_while(rows, &mut || true)
    }

    /// [`KernelDensity::log_density`], for as long as `go_on` says so; it is asked every few tiles.
    pub fn log_density_while(&self, rows: Rows<'_>, go_on: &mut dyn FnMut() -> bool) -> Result<Vec<f64>> {
        same_columns(self.columns, rows.columns())?;
        rows.check_finite("X")?;
        let mut queries = doubles(rows)?;
        whiten(&mut queries, &self.mean, &self.factor);
        let mut out = vec![0.0; rows.len()];
        let device = Device::default();
        let finished = if self.options.kernel == DensityKernel::Gaussian {
            log_sums_while(device, &self.centres, &queries, self.tolerance(), &mut out, go_on)
        } else {
            self.radial_sums(device, &queries, &mut out, go_on)
        };
        if !finished {
            return Err(Error::Cancelled { blocks: 0 });
        }
        out.iter_mut().for_each(|value| *value -= self.log_norm);
        Ok(out)
    }

    fn tolerance(&self) -> Tolerance {
        let relative = self.options.relative_tolerance;
        Tolerance { relative, log_absolute: self.options.absolute_tolerance.ln() + self.log_norm }
    }

    /// log Σ_j w_j k(‖q − c_j‖) in double precision, for a kernel that is zero beyond one or falls like an exponential.
    fn radial_sums(
        &self,
        device: Device,
        queries: &[f64],
        out: &mut [f64],
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        const WAVE: usize = 1_024;
        let of = |(query, out): (&[f64], &mut f64)| *out = self.radial_sum(device, query);
        for (queries, out) in queries.chunks(WAVE * self.columns).zip(out.chunks_mut(WAVE)) {
            if !go_on() {
                return false;
            }
            queries.par_chunks(self.columns).zip(out).for_each(of);
        }
        true
    }

    fn radial_sum(&self, device: Device, query: &[f64]) -> f64 {
        let kernel = self.options.kernel;
        let nearest: Vec<f64> = self.centres.least_squares(query);
        // Exponentials are taken relative to the nearest box, compact kernels as they are.
        let exponential = kernel == DensityKernel::Exponential;
        let shift =
            if exponential { nearest.iter().copied().fold(f64::INFINITY, f64::min).sqrt() } else { 0.0 };
        let mut sum = 0.0;
        for (b, &least) in nearest.iter().enumerate() {
            if if exponential { least.sqrt() - shift > 700.0 } else { least >= 1.0 } {
                continue;
            }
            let block = self.centres.block(b);
            let squares = squared_distances(device, block, query);
            for (square, log_weight) in squares.iter().zip(&block.log_weights[..block.len]) {
                sum += if exponential {
                    (log_weight + shift - square.sqrt()).exp()
                } else {
                    log_weight.exp() * kernel.of_square(*square)
                };
            }
        }
        sum.ln() - shift
    }

    /// `count` independent draws, row-major; equal seeds give equal draws. Gaussian and top-hat kernels.
    pub fn sample(&self, count: usize, seed: Seed) -> Result<Vec<f64>> {
        if !matches!(self.options.kernel, DensityKernel::Gaussian | DensityKernel::Tophat) {
            let why = "only densities of gaussian and tophat kernels are sampled from";
            return Err(Error::Conflict(why.into()));
        }
        room("draws", "n_samples", &[count, self.columns], 8)?;
        let mut sums = Vec::with_capacity(self.weights.len());
        let mut total = 0.0;
        for w in &self.weights {
            total += w;
            sums.push(total);
        }
        let mut out = Vec::with_capacity(count * self.columns);
        for i in 0..count {
            let address = Address::new(seed, Stream::Resample, BlockIndex(i as u64 >> 32), i as u32);
            let [high, low, radius, _] = address.words(0);
            let u = (f64::from(high) + f64::from(low) / 4_294_967_296.0) / 4_294_967_296.0;
            // Rows of no weight are passed over: their sum is that of the row before.
            let j = sums.partition_point(|s| *s <= u * total).min(sums.len() - 1);
            let noise = self.noise(address.on(Stream::Move), (f64::from(radius) + 0.5) / 4_294_967_296.0);
            let row = &self.rows[j * self.columns..(j + 1) * self.columns];
            out.extend(row.iter().zip(noise).map(|(x, e)| x + e));
        }
        Ok(out)
    }

    /// H times a draw from the kernel.
    fn noise(&self, address: Address, u: f64) -> Vec<f64> {
        let d = self.columns;
        let mut z = vec![0.0; d];
        normals(address, &mut z);
        if self.options.kernel == DensityKernel::Tophat {
            let norm = z.iter().map(|x| x * x).sum::<f64>().sqrt();
            z.iter_mut().for_each(|x| *x *= u.powf(1.0 / d as f64) / norm);
        }
        if self.factor.len() == 1 {
            z.iter_mut().for_each(|x| *x *= self.factor[0]);
            return z;
        }
        self.factor.chunks_exact(d).map(|row| row.iter().zip(&z).map(|(l, z)| l * z).sum()).collect()
    }

    /// What was fitted.
    pub fn summary(&self) -> DensitySummary {
        DensitySummary {
            kernel: self.options.kernel,
            shape: self.options.shape,
            bandwidth: self.bandwidth,
            columns: self.columns,
            rows: self.weights.len(),
        }
    }
}

impl Stored for KernelDensity {
    const KIND: &'static str = "kernel_density";

    fn store(&self, container: &mut Container) -> Result<()> {
        container.set_field("kernel_density", &self.options)?;
        let n = self.weights.len();
        container.insert("rows", vec![n, self.columns], self.rows.clone())?;
        container.insert("weights", vec![n], self.weights.clone())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let options: DensityOptions = container.field("kernel_density")?;
        let [n, columns] = container.f64s("rows")?.0[..] else {
            return Err(Error::Format("rows of a density have two dimensions".into()));
        };
        if columns == 0 {
            return Err(Error::Format("a density needs at least one column".into()));
        }
        let rows = container.take_f64s("rows", &[n, columns])?;
        let weights = container.take_f64s("weights", &[n])?;
        Self::assemble(options, rows, weights, columns)
    }
}

/// Moments of weighted rows.
struct Moments {
    mean: Vec<f64>,
    /// (Σ w)² / Σ w².
    effective: f64,
}

impl Moments {
    fn of(rows: &[f64], weights: &[f64], columns: usize) -> Self {
        let total: f64 = weights.iter().sum();
        let mut mean = vec![0.0; columns];
        for (row, w) in rows.chunks_exact(columns).zip(weights) {
            mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += w / total * x);
        }
        let effective = 1.0 / weights.iter().map(|w| (w / total) * (w / total)).sum::<f64>();
        Self { mean, effective }
    }

    /// h·L with L Lᵀ the unbiased covariance Σ_j w_j (x_j − μ)(x_j − μ)ᵀ / (1 − Σ w_j²), weights that add up to one.
    fn factor(&self, rows: &[f64], weights: &[f64], bandwidth: f64) -> Result<Vec<f64>> {
        let (d, total) = (self.mean.len(), weights.iter().sum::<f64>());
        let shares: Vec<f64> = weights.iter().map(|w| w / total).collect();
        let (_, covariance) = moments(rows, &shares, d);
        let unbiased = 1.0 - 1.0 / self.effective;
        let largest = (0..d).map(|i| covariance[i * (d + 1)]).fold(0.0, f64::max);
        let factor = Cholesky::new(Mat::from_fn(d, d, |i, j| covariance[i * d + j]));
        let is_sound = |factor: &Cholesky| {
            unbiased > 0.0 && (0..d).all(|i| factor.lower()[(i, i)].powi(2) > 1e-14 * largest)
        };
        let Some(factor) = factor.filter(is_sound) else {
            let why = "the covariance of X is singular, which shape = \"covariance\" cannot follow; \
                       remove columns that depend on others, add rows or use shape = \"isotropic\"";
            return Err(Error::Conflict(why.into()));
        };
        let scale = bandwidth / unbiased.sqrt();
        let entry = |i: usize, j: usize| if j <= i { scale * factor.lower()[(i, j)] } else { 0.0 };
        Ok((0..d * d).map(|k| entry(k / d, k % d)).collect())
    }
}

/// log∣H∣.
fn log_determinant(factor: &[f64], columns: usize) -> f64 {
    if let [h] = factor {
        return columns as f64 * h.ln();
    }
    (0..columns).map(|i| factor[i * columns + i].ln()).sum()
}

/// x ← H⁻¹(x − mean), row by row.
fn whiten(rows: &mut [f64], mean: &[f64], factor: &[f64]) {
    let d = mean.len();
    rows.par_chunks_mut(1_024 * d).flat_map_iter(|rows| rows.chunks_exact_mut(d)).for_each(|row| {
        row.iter_mut().zip(mean).for_each(|(x, m)| *x -= m);
        if let [h] = factor {
            return row.iter_mut().for_each(|x| *x /= h);
        }
        for i in 0..d {
            let products: f64 = factor[i * d..i * d + i].iter().zip(&*row).map(|(l, z)| l * z).sum();
            row[i] = (row[i] - products) / factor[i * d + i];
        }
    });
}
