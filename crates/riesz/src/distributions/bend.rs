//! Coordinates in which bent particles are straight.
//!
//! In an order of the coordinates, each may have *parents* among those before it: with standardised z = (θ − μ)/σ,
//!
//! ```text
//! φ_k = (z_k − a_k − Σ_i (b_ki z_i + c_ki z_i²)) e^{−s_k},   s_k = g_k0 + Σ_i g_ki z_i,   i in the parents of k
//! ```
//!
//! and φ_k = z_k without parents; the z of parents is cut off somewhat beyond the particles. A ridge bent like a parabola has c ≠ 0, a coordinate whose width depends on another, as
//! in hierarchical models, g ≠ 0; what is Gaussian stays so. The map is triangular: its inverse takes one coordinate after the other, and
//! log det ∂φ/∂θ = −Σ_k (log σ_k + s_k).
//!
//! Parents are coordinates whose square tells something of the mean of another, or whose value something of its width, beyond chance.

use super::factor::moments;
use super::weights::systematic;
use crate::linalg::{dot, Cholesky};
use crate::random::{Address, BlockIndex, Seed, Stream};
use faer::Mat;

/// Particles that are looked at, at most.
const LOOKED_AT: usize = 2_000;
/// Dimensions above which nothing is looked for.
const MOST_DIMENSIONS: usize = 64;
/// Log-likelihood that a term has to add: t² = 20, which chance reaches once in 10⁵ trials.
const LEAST_GAIN: f64 = 10.0;
/// … and for each particle: positions of chains are fewer than they look, and little is to be had from little.
const LEAST_EACH: f64 = 0.1;
/// Most parents of a coordinate.
const MOST_PARENTS: usize = 6;
/// Rounds between the mean and the width of a coordinate.
const ROUNDS: usize = 4;
/// Variance of log e² for a standard normal e: π²/2.
const LOG_SQUARE_VARIANCE: f64 = 4.934_802_200_544_679;
/// Squares of residuals in units of their variance count as at most this when widths are fitted.
const MOST_SQUARE: f64 = 10.0;
/// Largest |s|: beyond the particles it is a guess.
const MOST_WIDTH: f64 = 8.0;

/// How far beyond the particles a parent is believed, as a multiple of the largest |z|.
const REACH: f64 = 1.5;

/// The map θ → φ.
#[derive(Clone, Debug)]
pub(super) struct Bend {
    mean: Vec<f64>,
    deviation: Vec<f64>,
    /// The order of the coordinates.
    order: Vec<usize>,
    /// By coordinate; `None` without parents.
    terms: Vec<Option<Terms>>,
}

/// What a coordinate owes to its parents.
#[derive(Clone, Debug)]
struct Terms {
    parents: Vec<usize>,
    /// The largest |z| of each parent that is believed: beyond the particles, squares of squares would run away.
    reach: Vec<f64>,
    /// a, then b and c of each parent.
    centre: Vec<f64>,
    /// g_0, then g of each parent.
    width: Vec<f64>,
}

impl Terms {
    /// z of the parents.
    fn seen<'a>(&'a self, z: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        self.parents.iter().zip(&self.reach).map(|(&i, reach)| z[i].clamp(-reach, *reach))
    }

    /// 1, then z and z² of each parent.
    fn of_centre(&self, z: &[f64]) -> Vec<f64> {
        std::iter::once(1.0).chain(self.seen(z).flat_map(|z| [z, z * z])).collect()
    }

    /// 1, then z of each parent.
    fn of_width(&self, z: &[f64]) -> Vec<f64> {
        std::iter::once(1.0).chain(self.seen(z)).collect()
    }

    fn centre(&self, z: &[f64]) -> f64 {
        dot(&self.of_centre(z), &self.centre)
    }

    fn log_width(&self, z: &[f64]) -> f64 {
        dot(&self.of_width(z), &self.width).clamp(-MOST_WIDTH, MOST_WIDTH)
    }

    /// φ_k.
    fn straight(&self, z: &[f64], k: usize) -> f64 {
        (z[k] - self.centre(z)) * (-self.log_width(z)).exp()
    }

    /// The mean by weighted least squares and the log-width by Fisher scoring of the normal likelihood, in turn.
    fn fit(rows: &[f64], d: usize, k: usize, parents: Vec<usize>) -> Option<Self> {
        let (w, c) = (parents.len() + 1, 2 * parents.len() + 1);
        let largest = |i: &usize| rows.iter().skip(*i).step_by(d).fold(0.0, |most: f64, z| most.max(z.abs()));
        let reach = parents.iter().map(|i| REACH * largest(i)).collect();
        let mut terms = Self { parents, reach, centre: vec![0.0; c], width: vec![0.0; w] };
        let mut first = true;
        for _ in 0..ROUNDS {
            let weight = |z: &[f64]| (-2.0 * terms.log_width(z)).exp();
            let centre = rows.chunks_exact(d).map(|z| (terms.of_centre(z), z[k], weight(z)));
            terms.centre = least_squares(centre, c)?;
            if std::mem::take(&mut first) {
                let logs =
                    rows.chunks_exact(d).map(|z| 0.5 * ((z[k] - terms.centre(z)).powi(2) + 1e-12).ln());
                let features = rows.chunks_exact(d).map(|z| terms.of_width(z));
                let known: Vec<(Vec<f64>, f64)> = features.zip(logs).collect();
                terms.width = least_squares(known.into_iter().map(|(x, y)| (x, y, 1.0)), w)?;
            }
            let score = rows.chunks_exact(d).map(|z| {
                let square = terms.straight(z, k).powi(2).min(MOST_SQUARE);
                (terms.of_width(z), 0.5 * (square - 1.0), 1.0)
            });
            let step = least_squares(score, w)?;
            terms.width.iter_mut().zip(step).for_each(|(g, step)| *g += step);
        }
        Some(terms)
    }
}

impl Bend {
    /// The map that straightens particles with normalised `weights`; `None` where no coordinate has a parent.
    pub(super) fn fit(positions: &[f64], weights: &[f64], d: usize) -> Option<Self> {
        let size = weights.iter().map(|w| w * w).sum::<f64>().recip();
        if !(2..=MOST_DIMENSIONS).contains(&d) || size < 10.0 * d as f64 {
            return None;
        }
        let few = (size as usize).clamp(1, LOOKED_AT);
        let chosen = systematic(weights, few, Address::new(Seed(0), Stream::Resample, BlockIndex(0), 1));
        let rows: Vec<f64> = chosen.iter().flat_map(|&i| &positions[i * d..][..d]).copied().collect();
        let (mean, covariance) = moments(&rows, &vec![1.0 / few as f64; few], d);
        let deviation: Vec<f64> = (0..d).map(|i| covariance[i * (d + 1)].sqrt()).collect();
        if !deviation.iter().all(|s| s.is_finite() && *s > 0.0) {
            return None;
        }
        let mut bend = Self { mean, deviation, order: (0..d).collect(), terms: vec![None; d] };
        let z: Vec<f64> = rows.chunks_exact(d).flat_map(|theta| bend.standardised(theta)).collect();
        let gains = gains(&z, d);
        let gain = |from: usize, to: usize| gains[from * d + to];
        let net = |i: usize| (0..d).map(|k| gain(i, k) - gain(k, i)).sum::<f64>();
        let nets: Vec<f64> = (0..d).map(net).collect();
        bend.order.sort_by(|&a, &b| nets[b].total_cmp(&nets[a]));
        for place in 1..d {
            let k = bend.order[place];
            let mut parents: Vec<usize> = bend.order[..place].to_vec();
            parents.retain(|&i| gain(i, k) > 0.0);
            parents.sort_by(|&a, &b| gain(b, k).total_cmp(&gain(a, k)));
            parents.truncate(MOST_PARENTS);
            if !parents.is_empty() {
                bend.terms[k] = Terms::fit(&z, d, k, parents);
            }
        }
        bend.terms.iter().any(Option::is_some).then_some(bend)
    }

    fn standardised(&self, theta: &[f64]) -> Vec<f64> {
        theta.iter().zip(&self.mean).zip(&self.deviation).map(|((x, m), s)| (x - m) / s).collect()
    }

    /// φ of rows, and log det ∂φ/∂θ of each.
    pub(super) fn straightened(&self, points: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let d = self.mean.len();
        let units: f64 = self.deviation.iter().map(|s| s.ln()).sum();
        let (mut straight, mut logs) = (Vec::with_capacity(points.len()), Vec::new());
        for theta in points.chunks_exact(d) {
            let z = self.standardised(theta);
            let mut log = -units;
            for k in 0..d {
                straight.push(self.terms[k].as_ref().map_or(z[k], |terms| {
                    log -= terms.log_width(&z);
                    terms.straight(&z, k)
                }));
            }
            logs.push(log);
        }
        (straight, logs)
    }

    /// θ of a φ, in its place.
    pub(super) fn bend(&self, phi: &mut [f64]) {
        for &k in &self.order {
            if let Some(terms) = &self.terms[k] {
                phi[k] = terms.centre(phi) + terms.log_width(phi).exp() * phi[k];
            }
        }
        for ((x, m), s) in phi.iter_mut().zip(&self.mean).zip(&self.deviation) {
            *x = m + s * *x;
        }
    }
}

/// What the square of coordinate i adds to the log-likelihood of the mean of k, and its value to that of the width of k, row-major by (i, k);
/// zero where neither is beyond chance. `z` has unit variances.
fn gains(z: &[f64], d: usize) -> Vec<f64> {
    let count = (z.len() / d) as f64;
    let mean = |of: &dyn Fn(&[f64]) -> f64| z.chunks_exact(d).map(of).sum::<f64>() / count;
    let least = LEAST_GAIN.max(LEAST_EACH * count);
    let mut gains = vec![0.0; d * d];
    for i in 0..d {
        let skew = mean(&|z| z[i].powi(3));
        // Orthogonal to 1 and z.
        let square = |z: &[f64]| z[i] * z[i] - 1.0 - skew * z[i];
        let variance = mean(&|z| square(z).powi(2));
        for k in (0..d).filter(|k| *k != i && variance > 0.0) {
            let linear = mean(&|z| z[i] * z[k]);
            let bent = mean(&|z| square(z) * z[k]) / variance;
            let left = (1.0 - linear * linear).max(1e-12);
            let of_centre = -0.5 * count * (1.0 - (bent * bent * variance / left).min(1.0 - 1e-12)).ln();
            let log = |z: &[f64]| ((z[k] - linear * z[i] - bent * square(z)).powi(2) + 1e-12).ln();
            let level = mean(&log);
            let slope = mean(&|z| (log(z) - level) * z[i]);
            let spread = mean(&|z| (log(z) - level).powi(2)).max(LOG_SQUARE_VARIANCE);
            let of_width = 0.5 * count * slope * slope / spread;
            gains[i * d + k] = [of_centre, of_width].into_iter().filter(|gain| *gain > least).sum();
        }
    }
    gains
}

/// The coefficients of least squares of rows (features, target, weight).
fn least_squares(rows: impl Iterator<Item = (Vec<f64>, f64, f64)>, size: usize) -> Option<Vec<f64>> {
    let (mut gram, mut right) = (Mat::<f64>::zeros(size, size), vec![0.0; size]);
    for (x, y, w) in rows {
        for i in 0..size {
            right[i] += w * x[i] * y;
            (0..=i).for_each(|j| gram[(i, j)] += w * x[i] * x[j]);
        }
    }
    for i in 0..size {
        gram[(i, i)] *= 1.0 + 1e-9;
        (0..i).for_each(|j| gram[(j, i)] = gram[(i, j)]);
    }
    let found = Cholesky::new(gram)?.solve(&right);
    found.iter().all(|v| v.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normals;

    /// Rows of standard normal numbers, mapped.
    fn rows(count: u32, d: usize, map: impl Fn(&mut [f64])) -> Vec<f64> {
        let row = |i| {
            let mut z = vec![0.0; d];
            normals(Address::new(Seed(2), Stream::Synthetic, BlockIndex(0), i), &mut z);
            map(&mut z);
            z
        };
        (0..count).flat_map(row).collect()
    }

    fn fitted(rows: &[f64], d: usize) -> Option<Bend> {
        let count = rows.len() / d;
        Bend::fit(rows, &vec![1.0 / count as f64; count], d)
    }

    /// A funnel about a parabola: θ_0 = 3z_0, θ_1 = θ_0²/4 + z_1, θ_2 = e^{θ_0/4} z_2 + θ_1, θ_3 = z_3.
    fn bent(z: &mut [f64]) {
        z[0] *= 3.0;
        z[1] += 0.25 * z[0] * z[0];
        z[2] = (0.25 * z[0]).exp() * z[2] + z[1];
    }

    #[test]
    fn what_is_gaussian_is_left_alone() {
        let correlated = rows(2_000, 6, |z| (1..6).for_each(|k| z[k] = 0.9 * z[k - 1] + 0.4 * z[k]));
        assert!(fitted(&correlated, 6).is_none());
    }

    #[test]
    fn bent_particles_become_normal() {
        let theta = rows(2_000, 4, bent);
        let bend = fitted(&theta, 4).unwrap();
        let (phi, _) = bend.straightened(&theta);
        let units: Vec<f64> = {
            let (mean, covariance) = moments(&phi, &vec![1.0 / 2_000.0; 2_000], 4);
            let deviation = |k: usize| covariance[5 * k].sqrt();
            phi.iter().enumerate().map(|(i, x)| (x - mean[i % 4]) / deviation(i % 4)).collect()
        };
        // A standard normal number has fourth moment 3, with the error √(96/2,000); the funnel itself has 3e.
        for k in 0..4 {
            let fourth = units.chunks_exact(4).map(|z| z[k].powi(4)).sum::<f64>() / 2_000.0;
            assert!((fourth - 3.0).abs() < 4.0 * (96.0_f64 / 2_000.0).sqrt(), "{k}: {fourth}");
        }
        assert!(gains(&units, 4).iter().all(|gain| *gain == 0.0), "{:?}", gains(&units, 4));
        assert!(bend.terms[0].is_none() && bend.terms[3].is_none());
    }

    /// Each coordinate is bent by the one before it: without a cut the last of twenty would be z^(2^19).
    #[test]
    fn squares_of_squares_do_not_run_away() {
        let chain = rows(2_000, 20, |z| (1..20).for_each(|k| z[k] += 0.5 * (z[k - 1] * z[k - 1]).min(9.0)));
        let bend = fitted(&chain, 20).unwrap();
        let most = chain.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let mut far = vec![30.0; 20];
        bend.bend(&mut far);
        assert!(far.iter().all(|x| x.abs() < 1e3 * most), "{far:?} {most}");
    }

    #[test]
    fn the_map_has_an_inverse_and_this_determinant() {
        let theta = rows(500, 4, bent);
        let bend = fitted(&theta, 4).unwrap();
        let (phi, logs) = bend.straightened(&theta);
        for (i, (theta, phi)) in theta.chunks_exact(4).zip(phi.chunks_exact(4)).enumerate().step_by(50) {
            let mut back = phi.to_vec();
            bend.bend(&mut back);
            back.iter().zip(theta).for_each(|(a, b)| assert!((a - b).abs() < 1e-9 * (1.0 + b.abs())));
            let step = 1e-5;
            let derivative = |j: usize| {
                let side = |sign: f64| {
                    let mut moved = theta.to_vec();
                    moved[j] += sign * step;
                    bend.straightened(&moved).0
                };
                let (above, below) = (side(1.0), side(-1.0));
                above.iter().zip(below).map(|(a, b)| (a - b) / (2.0 * step)).collect::<Vec<f64>>()
            };
            let columns: Vec<Vec<f64>> = (0..4).map(derivative).collect();
            let determinant = Mat::from_fn(4, 4, |k, j| columns[j][k]).determinant();
            assert!((determinant.ln() - logs[i]).abs() < 1e-6, "{} {}", determinant.ln(), logs[i]);
        }
    }
}
