//! A density through weighted particles, to draw from and to evaluate: kernels shaped by group, shrunk centres,
//! heavy-tailed company.
//!
//! ```text
//! q̃(θ) = (1 − δ) Σ_c Σ_{j in c} α_j N(θ; μ_c + a_c(θ_j − μ_c), h_c² Σ_c) + δ Σ_c p_c t_ν(θ; μ_c, s² Σ_c),   a_c² + h_c² = 1
//! ```
//!
//! Groups c come from [`clusters`](super::clusters), with shares p_c, means μ_c and covariances Σ_c. Centres shrunk to
//! the mean of their group (Liu and West) leave mean and covariance of each group what they were, so repeated
//! smoothing does not widen the posterior (spec 4, "constant-ratio KDE"). Between h = 0, the particles themselves,
//! and h = 1, one Gaussian per group, h_c is that of the largest leave-one-out likelihood.
//!
//! Particles that are bent may have such a density in coordinates in which they are straight ([`bend`](super::bend)): q̃(φ(θ)) det ∂φ/∂θ.

use super::bend::Bend;
use super::clusters::groups;
use super::factor::{moments, Factor};
use super::kde::fitting_log_kernel_sums;
use super::special::{ln_gamma, log_sum_exp};
use super::weights::systematic;
use crate::random::{gamma, normals, uniform_open, Address, BlockIndex, Seed, Stream};
use std::borrow::Cow;
use std::collections::HashMap;

/// Most groups.
const MOST_GROUPS: usize = 12;
/// Degrees of freedom ν of the heavy-tailed part.
const DEGREES: f64 = 5.0;
/// Its width s, in deviations of the group.
const WIDTH: f64 = 1.5;
/// Bandwidths that compete, as multiples of Silverman's; 1 takes part too.
const MULTIPLES: [f64; 6] = [0.5, 0.7, 1.0, 1.4, 2.0, 3.0];
/// Most particles at which the leave-one-out likelihood is looked at.
const LOOKED_AT: usize = 1_000;
/// Above so many dimensions a group is one Gaussian: kernels through particles have nothing to add.
const MOST_KERNELS: usize = 15;
/// Nats by which a density of straightened particles has to be more likely at particles left out …
const LEAST_BENT: f64 = 0.05;
/// … and by which it may be less likely where it has fewer groups: it knows what lies beyond the particles, as several groups do not.
const FEWER_GROUPS: f64 = 0.1;
/// Least heavy-tailed share of such a density.
const BENT_DEFENSIVE: f64 = 0.1;
/// Weights below this share of the largest are left out.
const NEGLIGIBLE: f64 = 1e-12;

/// One group of particles and its part of the density.
#[derive(Clone, Debug)]
struct Group {
    share: f64,
    mean: Vec<f64>,
    factor: Factor,
    bandwidth: f64,
    /// L⁻¹(θ_j − μ), row-major.
    white: Vec<f64>,
    /// Weights within the group, which sum to one.
    weights: Vec<f64>,
}

/// A move θ' = μ_c + a(θ − μ_c) + s L_c z, z ~ N(0, I): with a² + s² = 1 it leaves the Gaussian of the group as it is, with
/// a = 1 it is a random walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    /// a.
    pub(super) keep: f64,
    /// s.
    pub(super) noise: f64,
}

/// The density of the module's description.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    dimension: usize,
    defensive: f64,
    groups: Vec<Group>,
    /// The group of each particle it was fitted to, and the weight of its kernel within; `None` where it has none.
    own: Vec<Option<(usize, f64)>>,
    /// The coordinates in which all of this is said, where they are not those of θ.
    bend: Option<Bend>,
}

impl Proposal {
    /// The density through particles with normalised `weights`, in coordinates in which they are straight where that makes it
    /// more likely at particles left out.
    pub(super) fn fit(
        positions: &[f64],
        weights: &[f64],
        dimension: usize,
        defensive: f64,
        seed: Seed,
        block: BlockIndex,
    ) -> Self {
        let straight = Self::straight(positions, weights, dimension, defensive, seed, block);
        let Some(bend) = Bend::fit(positions, weights, dimension) else { return straight };
        let (phi, _) = bend.straightened(positions);
        let wide = defensive.max(BENT_DEFENSIVE);
        let bent = Self { bend: Some(bend), ..Self::straight(&phi, weights, dimension, wide, seed, block) };
        let likelihood = |q: &Self| {
            let (_, left_out) = q.left_out(positions, weights);
            left_out.iter().sum::<f64>() / left_out.len().max(1) as f64
        };
        let margin = if bent.groups.len() < straight.groups.len() { -FEWER_GROUPS } else { LEAST_BENT };
        if likelihood(&bent) > likelihood(&straight) + margin {
            bent
        } else {
            straight
        }
    }

    /// The density through particles with normalised `weights`, a share `defensive` of it heavy-tailed.
    pub(super) fn straight(
        positions: &[f64],
        weights: &[f64],
        dimension: usize,
        defensive: f64,
        seed: Seed,
        block: BlockIndex,
    ) -> Self {
        let d = dimension;
        let (kept, place) = merged(positions, weights, d);
        let rows: Vec<f64> = kept.iter().flat_map(|&(i, _)| &positions[i * d..][..d]).copied().collect();
        let total: f64 = kept.iter().map(|(_, w)| w).sum();
        let weights: Vec<f64> = kept.iter().map(|(_, w)| w / total).collect();
        let group = groups(&rows, &weights, d, MOST_GROUPS, seed, block);
        let count = group.iter().max().map_or(0, |g| g + 1);
        let all = moments(&rows, &weights, d).1;
        let members = |c: usize| {
            let own: Vec<usize> = (0..weights.len()).filter(|&i| group[i] == c).collect();
            let rows: Vec<f64> = own.iter().flat_map(|&i| &rows[i * d..][..d]).copied().collect();
            let weights: Vec<f64> = own.iter().map(|&i| weights[i]).collect();
            Group::fit(&rows, weights, d, &all)
        };
        let within: Vec<f64> = (0..count)
            .map(|c| (0..weights.len()).filter(|&i| group[i] == c).map(|i| weights[i]).sum())
            .collect();
        let own = place.iter().map(|p| p.map(|i| (group[i], weights[i] / within[group[i]]))).collect();
        Self { dimension, defensive, groups: (0..count).map(members).collect(), own, bend: None }
    }

    /// One Gaussian, and a share `defensive` of heavy tails about it.
    pub(super) fn normal(mean: Vec<f64>, covariance: &[f64], defensive: f64) -> Self {
        let dimension = mean.len();
        let factor = Factor::of(covariance, dimension);
        let (white, weights) = (vec![0.0; dimension], vec![1.0]);
        let group = Group { share: 1.0, mean, factor, bandwidth: 1.0, white, weights };
        Self { dimension, defensive, groups: vec![group], own: Vec::new(), bend: None }
    }

    /// The same Gaussian about the mean of particles with normalised `weights`, as wide as they are on average over all directions.
    pub(super) fn about(&self, positions: &[f64], weights: &[f64]) -> Self {
        let d = self.dimension;
        let mean = moments(positions, weights, d).0;
        let group = &self.groups[0];
        let white = group.factor.whiten_rows(positions, &mean);
        let square = |z: &[f64]| z.iter().map(|z| z * z).sum::<f64>() / d as f64;
        let scale: f64 = white.chunks_exact(d).zip(weights).map(|(z, w)| w * square(z)).sum();
        let covariance: Vec<f64> = group.factor.covariance().iter().map(|v| scale * v).collect();
        Self::normal(mean, &covariance, self.defensive)
    }

    /// Shares p_c replaced by √p_c, normalised: small groups get more draws than their weight asks for, so that a mode
    /// which is small now and large later is not lost in between. Importance weights know.
    pub(super) fn balanced(mut self) -> Self {
        let total: f64 = self.groups.iter().map(|g| g.share.sqrt()).sum();
        self.groups.iter_mut().for_each(|g| g.share = g.share.sqrt() / total);
        self
    }

    /// Whether it is said in coordinates other than those of θ.
    pub(super) fn is_bent(&self) -> bool {
        self.bend.is_some()
    }

    /// Number of groups.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Share, mean and covariance of every group.
    pub(super) fn describe(&self) -> Vec<(f64, Vec<f64>, Vec<f64>)> {
        let each = |g: &Group| (g.share, g.mean.clone(), g.factor.covariance());
        self.groups.iter().map(each).collect()
    }

    /// `count` draws: the groups and their heavy-tailed parts get their share of them systematically, and so do the
    /// particles of a group.
    pub(super) fn draw(&self, count: usize, seed: Seed, block: BlockIndex) -> Vec<f64> {
        let d = self.dimension;
        let parts: Vec<f64> = self
            .groups
            .iter()
            .flat_map(|g| [g.share * (1.0 - self.defensive), g.share * self.defensive])
            .collect();
        let resample = |index| Address::new(seed, Stream::Resample, block, index);
        let part = systematic(&parts, count, resample(0));
        let mut positions = vec![0.0; count * d];
        let (mut i, mut z) = (0, vec![0.0; d]);
        for (p, chunk) in part.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())) {
            let group = &self.groups[p / 2];
            let centre = (p % 2 == 0).then(|| systematic(&group.weights, chunk, resample(1 + p as u32)));
            for k in 0..chunk {
                let address = Address::new(seed, Stream::Particle, block, i as u32);
                let point = &mut positions[i * d..][..d];
                match &centre {
                    Some(centre) => {
                        normals(address, &mut z);
                        let (a, h) = (group.shrink(), group.bandwidth);
                        let own = &group.white[centre[k] * d..][..d];
                        z.iter_mut().zip(own).for_each(|(z, y)| *z = a * y + h * *z);
                    }
                    None => student(address, &mut z),
                }
                group.factor.colour(&z, &group.mean, point);
                self.bend.iter().for_each(|bend| bend.bend(point));
                i += 1;
            }
        }
        positions
    }

    /// log q̃ at each of `points`, row-major.
    pub(super) fn log_density(&self, points: &[f64]) -> Vec<f64> {
        let (points, logs) = self.coordinates(points);
        let count = points.len() / self.dimension;
        let mut parts: Vec<Vec<f64>> = Vec::with_capacity(2 * self.groups.len());
        for group in &self.groups {
            let white = group.factor.whiten_rows(&points, &group.mean);
            if self.defensive < 1.0 {
                let log_share = (group.share * (1.0 - self.defensive)).ln();
                let mut kernels = group.log_kernels(&white, self.dimension);
                kernels.iter_mut().for_each(|v| *v += log_share);
                parts.push(kernels);
            }
            if self.defensive > 0.0 {
                let log_share = (group.share * self.defensive).ln() - group.factor.log_determinant();
                let density = |z: &[f64]| log_share + log_student(z);
                parts.push(white.chunks_exact(self.dimension).map(density).collect());
            }
        }
        let mut terms = vec![0.0; parts.len()];
        let mut total = |i: usize| {
            terms.iter_mut().zip(&parts).for_each(|(term, part)| *term = part[i]);
            log_sum_exp(&terms) + logs.get(i).copied().unwrap_or(0.0)
        };
        (0..count).map(&mut total).collect()
    }

    /// φ of rows θ and log det ∂φ/∂θ of each; the rows themselves and none where the coordinates are those of θ.
    fn coordinates<'p>(&self, points: &'p [f64]) -> (Cow<'p, [f64]>, Vec<f64>) {
        match &self.bend {
            Some(bend) => {
                let (phi, logs) = bend.straightened(points);
                (phi.into(), logs)
            }
            None => (points.into(), Vec::new()),
        }
    }

    /// A move from θ: θ' = μ_c + a(θ − μ_c) + s L_c z, the group c drawn by responsibility, in the coordinates of the density.
    pub(super) fn step(&self, from: &[f64], jump: Jump, address: Address, to: &mut [f64]) {
        let d = self.dimension;
        let (from, _) = self.coordinates(from);
        let responsibility = self.responsibilities(&from);
        let mut threshold = uniform_open(address.on(Stream::Move).words(0)[1]);
        let chosen = responsibility.iter().position(|r| {
            threshold -= r.exp();
            threshold < 0.0
        });
        let group = &self.groups[chosen.unwrap_or(self.groups.len() - 1)];
        let (mut y, mut z) = (vec![0.0; d], vec![0.0; d]);
        group.factor.whiten(&from, &group.mean, &mut y);
        normals(address, &mut z);
        z.iter_mut().zip(&y).for_each(|(z, y)| *z = jump.keep * y + jump.noise * *z);
        group.factor.colour(&z, &group.mean, to);
        self.bend.iter().for_each(|bend| bend.bend(to));
    }

    /// The log-density of [`Proposal::step`] at `to`.
    pub(super) fn log_step(&self, from: &[f64], to: &[f64], jump: Jump) -> f64 {
        let d = self.dimension;
        let Jump { keep: a, noise: s } = jump;
        let (mut y, mut z) = (vec![0.0; d], vec![0.0; d]);
        let ((from, _), (to, logs)) = (self.coordinates(from), self.coordinates(to));
        let mut terms = self.responsibilities(&from);
        for (term, group) in terms.iter_mut().zip(&self.groups) {
            group.factor.whiten(&from, &group.mean, &mut y);
            group.factor.whiten(&to, &group.mean, &mut z);
            let distance: f64 = z.iter().zip(&y).map(|(z, y)| ((z - a * y) / s).powi(2)).sum();
            *term -= 0.5 * distance + group.factor.log_determinant();
        }
        log_sum_exp(&terms) - d as f64 * (0.5 * std::f64::consts::TAU.ln() + s.ln())
            + logs.iter().sum::<f64>()
    }

    /// Σ_c p_c ‖L_c⁻¹(θ' − θ)‖², the squared length of a move in deviations of the groups.
    pub(super) fn squared_length(&self, from: &[f64], to: &[f64]) -> f64 {
        let mut z = vec![0.0; self.dimension];
        let ((from, _), (to, _)) = (self.coordinates(from), self.coordinates(to));
        let within = self.groups.iter().map(|group| {
            group.factor.whiten(&to, &from, &mut z);
            group.share * z.iter().map(|z| z * z).sum::<f64>()
        });
        within.sum()
    }

    /// log of p_c N(θ; μ_c, Σ_c), normalised over c.
    fn responsibilities(&self, theta: &[f64]) -> Vec<f64> {
        let mut z = vec![0.0; self.dimension];
        let joint = self.groups.iter().map(|group| {
            group.factor.whiten(theta, &group.mean, &mut z);
            group.share.ln() - group.factor.log_determinant() - 0.5 * z.iter().map(|z| z * z).sum::<f64>()
        });
        let mut logs: Vec<f64> = joint.collect();
        let total = log_sum_exp(&logs);
        logs.iter_mut().for_each(|l| *l -= total);
        logs
    }

    /// The share of draws that would be effective if the posterior had the log-density `log_target` (not normalised,
    /// its integral exp `log_evidence`) at the particles this was fitted to, whose normalised `weights` are given:
    ///
    /// ```text
    /// 1 / E_π[π/q̃],   E_π[π/q̃] ≈ Σ_i w_i π(θ_i)/q̃_{−i}(θ_i)
    /// ```
    ///
    /// with q̃_{−i} the density without the kernel of particle i.
    pub(super) fn expected_efficiency(
        &self,
        positions: &[f64],
        weights: &[f64],
        log_target: &[f64],
        log_evidence: f64,
    ) -> f64 {
        let (few, left_out) = self.left_out(positions, weights);
        let ratios: Vec<f64> =
            few.iter().zip(left_out).map(|(&i, others)| log_target[i] - log_evidence - others).collect();
        let mean = log_sum_exp(&ratios) - (ratios.len() as f64).ln();
        (-mean).exp().min(1.0)
    }

    /// Some of the particles this was fitted to, each of which stands for the same weight, and log q̃_{−i} there: the density without the
    /// kernel of the particle.
    fn left_out(&self, positions: &[f64], weights: &[f64]) -> (Vec<usize>, Vec<f64>) {
        let d = self.dimension;
        let few = systematic(
            weights,
            weights.len().min(LOOKED_AT),
            Address::new(Seed(0), Stream::Resample, BlockIndex(0), 0),
        );
        let queries: Vec<f64> = few.iter().flat_map(|&i| &positions[i * d..][..d]).copied().collect();
        let density = self.log_density(&queries);
        let (phi, logs) = self.coordinates(&queries);
        let mut z = vec![0.0; d];
        let (mut kept, mut left_out) = (Vec::with_capacity(few.len()), Vec::with_capacity(few.len()));
        for (k, (&i, density)) in few.iter().zip(density).enumerate() {
            let Some((group, weight)) = self.own[i] else { continue };
            let group = &self.groups[group];
            group.factor.whiten(&phi[k * d..][..d], &group.mean, &mut z);
            let (a, h) = (group.shrink(), group.bandwidth);
            let distance: f64 = z.iter().map(|z| ((1.0 - a) * z / h).powi(2)).sum();
            let kernel =
                (group.share * weight * (1.0 - self.defensive)).ln() - 0.5 * distance - group.normaliser(d)
                    + logs.get(k).copied().unwrap_or(0.0);
            kept.push(i);
            left_out.push(density + without((kernel - density).exp()));
        }
        (kept, left_out)
    }
}

impl Group {
    /// Mean, covariance and bandwidth of rows with weights, whose sum is the group's share. A group too small to have
    /// a covariance borrows from `all`, that of all particles.
    fn fit(rows: &[f64], mut weights: Vec<f64>, d: usize, all: &[f64]) -> Self {
        let share: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= share);
        let size = weights.iter().map(|w| w * w).sum::<f64>().recip();
        let (mean, mut covariance) = moments(rows, &weights, d);
        let needed = (d + 2) as f64;
        if size < needed {
            let borrowed = needed / (size + needed);
            let mix = |(own, all): (&mut f64, &f64)| *own = (1.0 - borrowed) * *own + borrowed * 0.1 * all;
            covariance.iter_mut().zip(all).for_each(mix);
        }
        // Correlations of few particles in many dimensions are mostly noise.
        let noise = if size < (10 * d) as f64 { d as f64 / (d as f64 + size) } else { 0.0 };
        for i in (0..d * d).filter(|i| i % (d + 1) != 0) {
            covariance[i] *= 1.0 - noise;
        }
        let factor = Factor::of(&covariance, d);
        let white = factor.whiten_rows(rows, &mean);
        let silverman = (4.0 / (size * (d + 2) as f64)).powf(1.0 / (d + 4) as f64).min(1.0);
        let mut group = Self { share, mean, factor, bandwidth: silverman, white, weights };
        if d > MOST_KERNELS {
            group.bandwidth = 1.0;
        } else if size > (3 * d) as f64 {
            group.bandwidth = group.best_bandwidth(silverman, d);
        }
        group
    }

    /// The bandwidth of the largest leave-one-out likelihood Σ_i w_i log q̃_{−i}(θ_i).
    fn best_bandwidth(&mut self, silverman: f64, d: usize) -> f64 {
        let every = self.weights.len().div_ceil(LOOKED_AT);
        let looked_at: Vec<usize> = (0..self.weights.len()).step_by(every).collect();
        let queries: Vec<f64> = looked_at.iter().flat_map(|&i| &self.white[i * d..][..d]).copied().collect();
        let score = |h: f64| {
            self.bandwidth = h;
            let densities = self.log_kernels(&queries, d);
            let a = self.shrink();
            let left_out =
                looked_at.iter().zip(queries.chunks_exact(d)).zip(densities).map(|((&i, z), density)| {
                    let distance: f64 = z.iter().map(|z| ((1.0 - a) * z / h).powi(2)).sum();
                    let own = self.weights[i].ln() - 0.5 * distance - self.normaliser(d);
                    self.weights[i] * (density + without((own - density).exp()) - without(self.weights[i]))
                });
            (left_out.sum::<f64>(), h)
        };
        let mut candidates: Vec<f64> = MULTIPLES.iter().map(|c| (c * silverman).min(1.0)).collect();
        candidates.push(1.0);
        candidates.dedup();
        candidates.into_iter().map(score).max_by(|a, b| a.0.total_cmp(&b.0)).map_or(silverman, |best| best.1)
    }

    /// a = √(1 − h²).
    fn shrink(&self) -> f64 {
        (1.0 - self.bandwidth * self.bandwidth).max(0.0).sqrt()
    }

    /// log of (2π)^{d/2} h^d det L.
    fn normaliser(&self, d: usize) -> f64 {
        d as f64 * (0.5 * std::f64::consts::TAU.ln() + self.bandwidth.ln()) + self.factor.log_determinant()
    }

    /// log Σ_j α_j N(θ; μ + a(θ_j − μ), h²Σ) at whitened points.
    fn log_kernels(&self, white: &[f64], d: usize) -> Vec<f64> {
        let (a, h) = (self.shrink(), self.bandwidth);
        let mut out = vec![0.0; white.len() / d];
        if a == 0.0 {
            // All kernels are the same.
            let squares = white.chunks_exact(d).map(|z| -0.5 * z.iter().map(|z| z * z).sum::<f64>());
            out.iter_mut().zip(squares).for_each(|(out, v)| *out = v - self.normaliser(d));
            return out;
        }
        let queries: Vec<f64> = white.iter().map(|z| z / h).collect();
        let centres: Vec<f64> = self.white.iter().map(|y| a * y / h).collect();
        let log_weights: Vec<f64> = self.weights.iter().map(|w| w.ln()).collect();
        fitting_log_kernel_sums(&queries, &centres, &log_weights, d, &mut out);
        out.iter_mut().for_each(|v| *v -= self.normaliser(d));
        out
    }
}

/// log(1 − share), for a share that rounding may have carried to one.
fn without(share: f64) -> f64 {
    (-share.min(1.0 - 1e-6)).ln_1p()
}

/// Fills `z` with a draw from the Student distribution of ν degrees of freedom and width s.
fn student(address: Address, z: &mut [f64]) {
    normals(address, z);
    let chi_squared = 2.0 * gamma(&mut address.on(Stream::Mixing).sequence(), 0.5 * DEGREES);
    let scale = WIDTH * (DEGREES / chi_squared).sqrt();
    z.iter_mut().for_each(|z| *z *= scale);
}

/// Its log-density: Γ((ν+d)/2)/(Γ(ν/2) (νπ)^{d/2} s^d) (1 + ‖z‖²/νs²)^{−(ν+d)/2}.
fn log_student(z: &[f64]) -> f64 {
    let d = z.len() as f64;
    let squares: f64 = z.iter().map(|z| z * z).sum();
    ln_gamma(0.5 * (DEGREES + d))
        - ln_gamma(0.5 * DEGREES)
        - 0.5 * d * (DEGREES * std::f64::consts::PI).ln()
        - d * WIDTH.ln()
        - 0.5 * (DEGREES + d) * (squares / (DEGREES * WIDTH * WIDTH)).ln_1p()
}

/// Particles with weight, each once: (index of the first, summed weight), and for each particle its place among them.
fn merged(positions: &[f64], weights: &[f64], d: usize) -> (Vec<(usize, f64)>, Vec<Option<usize>>) {
    let least = NEGLIGIBLE * weights.iter().copied().fold(0.0, f64::max);
    let mut kept: Vec<(usize, f64)> = Vec::new();
    let mut seen: HashMap<Vec<u64>, usize> = HashMap::new();
    let mut place = |i: usize, weight: f64| {
        if weight <= least {
            return None;
        }
        let bits = positions[i * d..][..d].iter().map(|x| x.to_bits()).collect();
        let at = *seen.entry(bits).or_insert(kept.len());
        if at == kept.len() {
            kept.push((i, weight));
        } else {
            kept[at].1 += weight;
        }
        Some(at)
    };
    let places = weights.iter().enumerate().map(|(i, &w)| place(i, w)).collect();
    (kept, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_pair;

    /// Two lumps in the plane.
    fn particles(count: u32) -> Vec<f64> {
        let at = |i| Address::new(Seed(3), Stream::Synthetic, BlockIndex(0), i).words(0);
        let point = |i: u32| {
            let z = normal_pair(at(i)[0], at(i)[1]);
            if i.is_multiple_of(3) {
                [5.0 + z[0], 0.3 * z[1]]
            } else {
                [0.5 * z[0], z[0] + 0.5 * z[1]]
            }
        };
        (0..count).flat_map(point).collect()
    }

    fn proposal(count: u32, defensive: f64) -> Proposal {
        let weights = vec![1.0 / f64::from(count); count as usize];
        Proposal::fit(&particles(count), &weights, 2, defensive, Seed(1), BlockIndex(0))
    }

    #[test]
    fn the_density_integrates_to_one() {
        let proposal = proposal(300, 0.1);
        assert_eq!(proposal.groups(), 2);
        let step = 0.1;
        let axis: Vec<f64> = (-300..=300).map(|i| f64::from(i) * step).collect();
        let grid: Vec<f64> = axis.iter().flat_map(|&x| axis.iter().flat_map(move |&y| [x, y])).collect();
        let total: f64 = proposal.log_density(&grid).iter().map(|v| v.exp()).sum::<f64>() * step * step;
        // A tenth of it is a t distribution whose mass beyond 25 deviations is about 1e-4 of it.
        assert!((total - 1.0).abs() < 1e-3, "{total}");
    }

    #[test]
    fn the_heavy_part_integrates_to_one_in_one_dimension_and_in_three() {
        let line: f64 = (-400_000..400_000).map(|i| log_student(&[f64::from(i) * 1e-3]).exp() * 1e-3).sum();
        assert!((line - 1.0).abs() < 1e-6, "{line}");
        let shell = |r: f64| 4.0 * std::f64::consts::PI * r * r * log_student(&[r, 0.0, 0.0]).exp();
        let ball: f64 = (0..400_000).map(|i| shell((f64::from(i) + 0.5) * 1e-3) * 1e-3).sum();
        assert!((ball - 1.0).abs() < 1e-6, "{ball}");
    }

    /// Draws have the density's own law: E_q̃[f/q̃] = ∫f, with f a Gaussian of known integral.
    #[test]
    fn draws_follow_the_density() {
        let proposal = proposal(300, 0.1);
        let n = 20_000;
        let draws = proposal.draw(n, Seed(4), BlockIndex(9));
        let density = proposal.log_density(&draws);
        let ratios: Vec<f64> = draws
            .chunks_exact(2)
            .zip(density)
            .map(|(x, q)| (-0.5 * (x[0] * x[0] + x[1] * x[1]) - std::f64::consts::TAU.ln() - q).exp())
            .collect();
        let mean = ratios.iter().sum::<f64>() / n as f64;
        let variance = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 4.0 * (variance / n as f64).sqrt(), "{mean}");
    }

    /// Shrunk centres: mean and covariance of the density are those of the particles.
    #[test]
    fn smoothing_does_not_widen() {
        let proposal = proposal(600, 0.0);
        let draws = proposal.draw(40_000, Seed(5), BlockIndex(1));
        let found = moments(&draws, &vec![1.0 / 40_000.0; 40_000], 2);
        let given = moments(&particles(600), &vec![1.0 / 600.0; 600], 2);
        for (a, b) in found.0.iter().chain(&found.1).zip(given.0.iter().chain(&given.1)) {
            assert!((a - b).abs() < 0.1, "{found:?} {given:?}");
        }
    }

    /// For a posterior that is a Gaussian, draws of a density through 500 of its draws are nearly all effective;
    /// where the posterior is much wider than the density they are not.
    #[test]
    fn expected_efficiency_tells_a_fit_from_a_misfit() {
        let at = |i| Address::new(Seed(3), Stream::Synthetic, BlockIndex(0), i).words(0);
        let points: Vec<f64> = (0..500).flat_map(|i| normal_pair(at(i)[0], at(i)[1])).collect();
        let weights = vec![1.0 / 500.0; 500];
        let proposal = Proposal::fit(&points, &weights, 2, 0.05, Seed(1), BlockIndex(0));
        let log_target: Vec<f64> = points
            .chunks_exact(2)
            .map(|x| -0.5 * (x[0] * x[0] + x[1] * x[1]) - std::f64::consts::TAU.ln())
            .collect();
        let good = proposal.expected_efficiency(&points, &weights, &log_target, 0.0);
        assert!(good > 0.85, "{good}");
        let misled = proposal.expected_efficiency(&points, &weights, &log_target, -5.0);
        assert!(misled < 0.01, "{misled}");
    }

    #[test]
    fn repeated_and_weightless_particles_are_merged() {
        let (kept, place) = merged(&[1.0, 2.0, 1.0, 3.0], &[0.25, 0.5, 0.25, 0.0], 1);
        assert_eq!(kept, [(0, 0.5), (1, 0.5)]);
        assert_eq!(place, [Some(0), Some(1), Some(0), None]);
    }
}
