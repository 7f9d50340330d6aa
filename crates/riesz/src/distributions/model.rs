//! What a user gives: a prior to draw from, and the log-likelihood of many parameters at once.

use crate::driver::Fingerprint;
use crate::error::{Error, Result};
use crate::random::{Address, BlockIndex, Seed, Stream};
use rayon::prelude::*;

/// Rows of parameters: m particles of dimension d, row-major.
#[derive(Clone, Copy, Debug)]
pub struct Particles<'a> {
    positions: &'a [f64],
    dimension: usize,
}

impl<'a> Particles<'a> {
    /// A view of `positions`, whose length must be a multiple of `dimension` ≥ 1.
    pub fn new(positions: &'a [f64], dimension: usize) -> Result<Self> {
        if dimension == 0 || !positions.len().is_multiple_of(dimension) {
            return Err(Error::Columns { expected: dimension, found: positions.len() });
        }
        Ok(Self { positions, dimension })
    }

    /// How many there are, m.
    pub fn len(&self) -> usize {
        self.positions.len() / self.dimension
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Their dimension d.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// All coordinates, row-major.
    pub fn positions(&self) -> &'a [f64] {
        self.positions
    }

    /// One particle after the other.
    pub fn iter(&self) -> std::slice::ChunksExact<'a, f64> {
        self.positions.chunks_exact(self.dimension)
    }
}

/// N(mean, covariance), near a posterior.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalApproximation {
    /// d numbers.
    pub mean: Vec<f64>,
    /// d×d, row-major.
    pub covariance: Vec<f64>,
    /// What it took to find it, in likelihoods of single observations.
    pub evaluations: u64,
}

/// A model p(x∣θ) p(θ) with θ in ℝ^d: everything particle mirror descent asks for.
///
/// Parameters with bounds are transformed to ℝ^d by the model, whose prior density then carries the Jacobian.
///
/// ```
/// use riesz::distributions::{Model, Particles};
/// use riesz::random::{normal_pair, Address};
///
/// /// x ~ N(θ, 1), θ ~ N(0, 1).
/// struct Location(Vec<f64>);
///
/// impl Model for Location {
///     fn dimension(&self) -> usize {
///         1
///     }
///     fn observations(&self) -> usize {
///         self.0.len()
///     }
///     fn draw_prior(&self, address: Address, theta: &mut [f64]) -> riesz::Result<()> {
///         let [u, v, ..] = address.words(0);
///         theta[0] = normal_pair(u, v)[0];
///         Ok(())
///     }
///     fn log_prior(&self, particles: Particles<'_>, out: &mut [f64]) -> riesz::Result<()> {
///         particles.iter().zip(out).for_each(|(theta, out)| *out = -0.5 * theta[0] * theta[0]);
///         Ok(())
///     }
///     fn log_likelihood(&self, particles: Particles<'_>, batch: &[u32], out: &mut [f64]) -> riesz::Result<()> {
///         for (theta, out) in particles.iter().zip(out) {
///             *out = batch.iter().map(|&n| -0.5 * (self.0[n as usize] - theta[0]).powi(2)).sum();
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Model: Sync {
    /// Dimension d of θ.
    fn dimension(&self) -> usize;

    /// Number N of observations.
    fn observations(&self) -> usize;

    /// A draw from the prior, a function of `address` alone.
    fn draw_prior(&self, address: Address, theta: &mut [f64]) -> Result<()>;

    /// log p(θ_i) for each particle; −∞ where the prior has no mass. Models whose log-evidence should be right
    /// normalise it.
    fn log_prior(&self, particles: Particles<'_>, out: &mut [f64]) -> Result<()>;

    /// Σ_{n in batch} log p(x_n∣θ_i) for each particle; −∞ where an observation is impossible.
    fn log_likelihood(&self, particles: Particles<'_>, batch: &[u32], out: &mut [f64]) -> Result<()>;

    /// Whether the methods may be called for several groups of particles at once, by as many threads.
    fn parallel(&self) -> bool {
        true
    }

    /// What tells this model and its data from any other, part by part, so that a checkpoint of another is refused. `None`:
    /// densities of a few draws from the prior, observation by observation, have to do.
    fn fingerprint(&self) -> Result<Option<Fingerprint>> {
        Ok(None)
    }

    /// A normal approximation of the posterior, where the model can find one and its posterior has one mode: draws from it are
    /// weighed as all others are, and a bad one costs no more than they do. `go_on` is asked now and then; `false` means that the
    /// time is up.
    fn approximation(&self, go_on: &mut dyn FnMut() -> Result<bool>) -> Result<Option<NormalApproximation>> {
        let _ = go_on;
        Ok(None)
    }

    /// Draws `count` particles from the prior; `block` tells one set of draws from another.
    fn sample_prior(&self, seed: Seed, block: BlockIndex, count: usize) -> Result<Vec<f64>> {
        let d = self.dimension();
        let mut positions = vec![0.0; count * d];
        for (i, theta) in positions.chunks_exact_mut(d).enumerate() {
            self.draw_prior(Address::new(seed, Stream::Particle, block, i as u32), theta)?;
        }
        Ok(positions)
    }
}

/// `count` observations in ⌈count/most⌉ batches whose sizes differ by at most one: with the factor ⌈count/most⌉ on each, their
/// log-likelihoods average to that of all.
pub(super) fn even_batches(
    count: usize,
    most: usize,
) -> impl ExactSizeIterator<Item = std::ops::Range<usize>> {
    let parts = count.div_ceil(most);
    (0..parts).map(move |i| i * count / parts..(i + 1) * count / parts)
}

/// Particles that one task evaluates: small enough to share work among threads, large enough to read a batch once for
/// many particles.
const TILE: usize = 64;

/// log p(θ_i) for each particle.
pub(super) fn log_prior(model: &dyn Model, particles: Particles<'_>) -> Result<Vec<f64>> {
    let values = tiled(model, particles, |tile, out| model.log_prior(tile, out))?;
    check(particles, &values, "log-prior", &[])?;
    Ok(values)
}

/// Σ_{n in batch} log p(x_n∣θ_i) for each particle.
pub(super) fn log_likelihood(model: &dyn Model, particles: Particles<'_>, batch: &[u32]) -> Result<Vec<f64>> {
    if batch.is_empty() {
        return Ok(vec![0.0; particles.len()]);
    }
    let values = tiled(model, particles, |tile, out| model.log_likelihood(tile, batch, out))?;
    check(particles, &values, "log-likelihood", batch)?;
    Ok(values)
}

/// Σ_{n in batch} log p(x_n∣θ_i), and −∞ without asking where the log-prior is −∞.
pub(super) fn likelihood_where_possible(
    model: &dyn Model,
    positions: &[f64],
    log_prior: &[f64],
    batch: &[u32],
) -> Result<Vec<f64>> {
    let d = model.dimension();
    if log_prior.iter().all(|p| *p > f64::NEG_INFINITY) {
        return log_likelihood(model, Particles::new(positions, d)?, batch);
    }
    let possible: Vec<usize> = (0..log_prior.len()).filter(|&i| log_prior[i] > f64::NEG_INFINITY).collect();
    let rows: Vec<f64> = possible.iter().flat_map(|&i| &positions[i * d..][..d]).copied().collect();
    let mut out = vec![f64::NEG_INFINITY; log_prior.len()];
    if !possible.is_empty() {
        let values =
            log_likelihood(model, Particles::new(&rows, d)?, batch).map_err(|e| among(e, &possible))?;
        possible.iter().zip(values).for_each(|(&i, v)| out[i] = v);
    }
    Ok(out)
}

/// The error of a particle of the `possible`, by its place among all.
fn among(error: Error, possible: &[usize]) -> Error {
    match error {
        Error::Density { what, value, particle, theta, batch } => {
            Error::Density { what, value, particle: possible[particle], theta, batch }
        }
        other => other,
    }
}

/// Values of a function of particles, tile by tile where the model allows it.
fn tiled(
    model: &dyn Model,
    particles: Particles<'_>,
    values: impl Fn(Particles<'_>, &mut [f64]) -> Result<()> + Sync,
) -> Result<Vec<f64>> {
    let d = particles.dimension();
    let mut out = vec![0.0; particles.len()];
    if model.parallel() {
        particles
            .positions()
            .par_chunks(TILE * d)
            .zip(out.par_chunks_mut(TILE))
            .try_for_each(|(positions, out)| values(Particles { positions, dimension: d }, out))?;
    } else {
        values(particles, &mut out)?;
    }
    Ok(out)
}

/// Refuses NaN and +∞, naming the particle and the batch.
fn check(particles: Particles<'_>, values: &[f64], what: &'static str, batch: &[u32]) -> Result<()> {
    let fault = values.iter().position(|v| v.is_nan() || *v == f64::INFINITY);
    fault.map_or(Ok(()), |particle| {
        let d = particles.dimension();
        Err(Error::Density {
            what,
            value: values[particle],
            particle,
            theta: particles.positions()[particle * d..][..d].to_vec(),
            batch: (!batch.is_empty()).then(|| (batch.len(), batch[0] as usize)),
        })
    })
}
