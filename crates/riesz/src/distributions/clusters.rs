//! Groups of weighted particles: a Gaussian mixture whose number of components is inferred.

use super::factor::{moments, Factor};
use super::weights::systematic;
use crate::linalg::k_means::{k_means, Clusters};
use crate::linalg::special::log_sum_exp;
use crate::random::{uniform_open, Address, BlockIndex, Seed, Stream};
use rayon::prelude::*;

/// Most iterations of expectation–maximisation.
const ITERATIONS: usize = 30;
/// Most particles that decide about the groups.
const LOOKED_AT: usize = 2_000;
/// Iterations of Lloyd's algorithm before them.
const LLOYD: usize = 5;

/// The group of each particle, numbered from 0 without gaps.
///
/// Gaussian mixtures of k = 1, 2, … `most` components are fitted by weighted expectation–maximisation, in coordinates
/// in which the particles have unit covariance. That with the largest
///
/// ```text
/// n_e Σ_i w_i log p_k(θ_i) − ½ ν_k log n_e,    ν_k = k (1 + d + d(d+1)/2) − 1,   n_e = 1/Σ w²
/// ```
///
/// (Schwarz's criterion for the effective number of particles) decides; the search ends when two numbers of components
/// in a row have not improved on the best. `weights` sum to one.
pub(super) fn groups(
    positions: &[f64],
    weights: &[f64],
    d: usize,
    most: usize,
    seed: Seed,
    block: BlockIndex,
) -> Vec<usize> {
    let (mean, covariance) = moments(positions, weights, d);
    let all = Factor::of(&covariance, d).whiten_rows(positions, &mean);
    let size = weights.iter().map(|w| w * w).sum::<f64>().recip();
    if weights.len() <= LOOKED_AT {
        return without_gaps(best_mixture(&all, weights, d, most, size, seed, block).assign(&all));
    }
    // Systematic resampling keeps the share of every region to within one particle.
    let few = systematic(weights, LOOKED_AT, Address::new(seed, Stream::Subsample, block, 0));
    let white: Vec<f64> = few.iter().flat_map(|&i| &all[i * d..][..d]).copied().collect();
    let equal = vec![1.0 / LOOKED_AT as f64; LOOKED_AT];
    let size = size.min(LOOKED_AT as f64);
    without_gaps(best_mixture(&white, &equal, d, most, size, seed, block).assign(&all))
}

/// The mixture of the best score.
fn best_mixture(
    white: &[f64],
    weights: &[f64],
    d: usize,
    most: usize,
    size: f64,
    seed: Seed,
    block: BlockIndex,
) -> Mixture {
    let parameters = |k: usize| (k * (1 + d + d * (d + 1) / 2) - 1) as f64;
    let starts = if d <= 5 { 3 } else { 1 };
    let one = Mixture::start(white, weights, d, 1, Address::new(seed, Stream::Subsample, block, 1));
    let mut best = (f64::NEG_INFINITY, one);
    let mut failures = 0;
    for k in 1..=most {
        // Fewer particles than parameters tell nothing.
        if k > 1 && (failures == 2 || size < parameters(k)) {
            break;
        }
        let fitted = (0..if k == 1 { 1 } else { starts })
            .into_par_iter()
            .map(|start| {
                let address = Address::new(seed, Stream::Subsample, block, (16 * k + start) as u32);
                Mixture::start(white, weights, d, k, address).maximise(white, weights, size)
            })
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((likelihood, mixture)) = fitted else { break };
        let score = size * likelihood - 0.5 * parameters(k) * size.ln();
        if score > best.0 {
            best = (score, mixture);
            failures = 0;
        } else {
            failures += 1;
        }
    }
    best.1
}

/// Renumbers groups so that none is empty.
fn without_gaps(mut group: Vec<usize>) -> Vec<usize> {
    let mut used: Vec<usize> = group.clone();
    used.sort_unstable();
    used.dedup();
    group.iter_mut().for_each(|g| *g = used.binary_search(g).unwrap_or(0));
    group
}

/// Σ_c π_c N(μ_c, Σ_c).
struct Mixture {
    dimension: usize,
    share: Vec<f64>,
    mean: Vec<f64>,
    factor: Vec<Factor>,
}

impl Mixture {
    /// Centres by k-means++ and a few iterations of Lloyd's, all with the same round covariance.
    fn start(white: &[f64], weights: &[f64], d: usize, k: usize, address: Address) -> Self {
        let uniform = |c| uniform_open(address.words(c)[0]);
        let Clusters { centres: mean, nearest } = k_means(white, weights, d, k, LLOYD, uniform);
        let variance = nearest.iter().zip(weights).map(|((_, r), w)| w * r).sum::<f64>() / d as f64;
        let mut share = vec![1e-3; k];
        nearest.iter().zip(weights).for_each(|(&(c, _), w)| share[c] += w);
        let total: f64 = share.iter().sum();
        share.iter_mut().for_each(|s| *s /= total);
        let round: Vec<f64> =
            (0..d * d).map(|i| if i % (d + 1) == 0 { variance.max(1e-4) } else { 0.0 }).collect();
        Self { dimension: d, share, mean, factor: vec![Factor::of(&round, d); k] }
    }

    /// Expectation–maximisation; returns Σ_i w_i log p(θ_i) and the mixture.
    fn maximise(mut self, white: &[f64], weights: &[f64], size: f64) -> (f64, Self) {
        let (d, k) = (self.dimension, self.share.len());
        let mut last = f64::NEG_INFINITY;
        let mut share = vec![0.0; weights.len() * k];
        for iteration in 0..ITERATIONS {
            let likelihood = self.responsibilities(white, weights, &mut share);
            if iteration > 2 && likelihood - last < 1e-3 / size.sqrt() {
                return (likelihood, self);
            }
            last = likelihood;
            for c in 0..k {
                let total: f64 = share.iter().skip(c).step_by(k).sum::<f64>() + 1e-10;
                let own: Vec<f64> = share.iter().skip(c).step_by(k).map(|r| r / total).collect();
                let (mean, mut covariance) = moments(white, &own, d);
                // As if a hundredth of the d + 2 particles a covariance needs had shown the identity.
                let prior = 0.01 * (d + 2) as f64 / (size * total);
                for (i, v) in covariance.iter_mut().enumerate() {
                    let identity = if i % (d + 1) == 0 { prior } else { 0.0 };
                    *v = (*v + identity) / (1.0 + prior);
                }
                self.share[c] = total;
                self.mean[c * d..][..d].copy_from_slice(&mean);
                self.factor[c] = Factor::of(&covariance, d);
            }
        }
        let likelihood = self.responsibilities(white, weights, &mut share);
        (likelihood, self)
    }

    /// w_i π_c N(z_i; μ_c, Σ_c)/p(z_i) for all i and c; returns Σ_i w_i log p(z_i).
    fn responsibilities(&self, white: &[f64], weights: &[f64], out: &mut [f64]) -> f64 {
        let k = self.share.len();
        let constants = self.constants();
        let mut z = vec![0.0; self.dimension];
        let mut likelihood = 0.0;
        for ((point, w), row) in white.chunks_exact(self.dimension).zip(weights).zip(out.chunks_exact_mut(k))
        {
            self.log_joint(point, &constants, &mut z, row);
            let total = log_sum_exp(row);
            row.iter_mut().for_each(|r| *r = w * (*r - total).exp());
            likelihood += w * total;
        }
        likelihood
    }

    /// The component most responsible for each particle.
    fn assign(&self, white: &[f64]) -> Vec<usize> {
        let constants = self.constants();
        let (mut z, mut row) = (vec![0.0; self.dimension], vec![0.0; self.share.len()]);
        let best = |row: &[f64]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
        white
            .chunks_exact(self.dimension)
            .map(|point| {
                self.log_joint(point, &constants, &mut z, &mut row);
                best(&row)
            })
            .collect()
    }

    /// log π_c − log det L_c − (d/2) log 2π.
    fn constants(&self) -> Vec<f64> {
        let normaliser = 0.5 * self.dimension as f64 * std::f64::consts::TAU.ln();
        self.share.iter().zip(&self.factor).map(|(p, f)| p.ln() - f.log_determinant() - normaliser).collect()
    }

    /// log π_c N(point; μ_c, Σ_c) for every c.
    fn log_joint(&self, point: &[f64], constants: &[f64], z: &mut [f64], row: &mut [f64]) {
        for (c, out) in row.iter_mut().enumerate() {
            self.factor[c].whiten(point, &self.mean[c * self.dimension..][..self.dimension], z);
            *out = constants[c] - 0.5 * z.iter().map(|z| z * z).sum::<f64>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_pair;

    /// `n` points around each centre, in the plane.
    fn blobs(centres: &[[f64; 2]], deviation: f64, n: u32) -> Vec<f64> {
        let at = |c: usize, i| Address::new(Seed(3), Stream::Synthetic, BlockIndex(c as u64), i).words(0);
        let around = |(c, centre): (usize, &[f64; 2])| {
            let centre = *centre;
            (0..n).flat_map(move |i| {
                let z = normal_pair(at(c, i)[0], at(c, i)[1]);
                [centre[0] + deviation * z[0], centre[1] + deviation * z[1]]
            })
        };
        centres.iter().enumerate().flat_map(around).collect()
    }

    #[test]
    fn as_many_groups_as_there_are() {
        let centres = [[0.0, 0.0], [6.0, 1.0], [-4.0, 5.0], [2.0, -7.0], [9.0, 9.0]];
        for k in 1..=5 {
            let points = blobs(&centres[..k], 0.7, 120);
            let weights = vec![1.0 / (120 * k) as f64; 120 * k];
            let group = groups(&points, &weights, 2, 10, Seed(1), BlockIndex(0));
            let distinct = group.iter().max().map_or(0, |g| g + 1);
            assert_eq!(distinct, k, "{k} blobs");
            for blob in group.chunks_exact(120) {
                assert!(blob.iter().filter(|&&g| g == blob[0]).count() >= 119);
            }
        }
    }

    #[test]
    fn particles_without_weight_make_no_group() {
        let points = blobs(&[[0.0, 0.0], [50.0, 0.0]], 1.0, 100);
        let mut weights = vec![0.01; 100];
        weights.extend([0.0; 100]);
        let group = groups(&points, &weights, 2, 10, Seed(1), BlockIndex(0));
        assert!(group[..100].iter().all(|&g| g == group[0]));
    }

    #[test]
    fn equal_particles_are_one_group() {
        let group = groups(&[2.0; 60], &[1.0 / 30.0; 30], 2, 10, Seed(1), BlockIndex(0));
        assert!(group.iter().all(|&g| g == 0));
    }
}
