//! The posterior of all data from those of a part of them, where its logarithm is a quadratic form.
//!
//! Of many observations a posterior is nearly normal, and doubling what was seen again and again renews all particles for
//! a change that is known in advance: the same form, narrower. So islands that have seen an eighth of the data stop. At draws θ_i
//! from the normal density N(μ, LLᵀ) of an island's particles all data are looked at, and by least squares
//!
//! ```text
//! log p(θ) + Σ_n log p(x_n∣θ) ≈ c + gᵀz − ½ zᵀHz,   z = L⁻¹(θ − μ)
//! ```
//!
//! which is the logarithm of N(μ + L H⁻¹g, L H⁻¹ Lᵀ). Every island has its own observations, so their answers are
//! independent: where they agree, a last one about their mean is what all particles are drawn from, and weighed by all data as
//! ever. Elsewhere the islands go on as if nothing had been tried.

use super::options::Renewal;
use super::Run;
use crate::distributions::factor::{moments, Factor};
use crate::distributions::posterior::Posterior;
use crate::distributions::proposal::Proposal;
use crate::distributions::weights::normalised;
use crate::driver::Control;
use crate::error::Result;
use crate::linalg::cholesky::{add_product, add_square, Cholesky};
use crate::random::BlockIndex;
use faer::Mat;

/// Block of the random numbers of the points, beyond those of all other parts.
const FIRST: u64 = 1 << 45;
/// Block of those of the draws.
const DRAWS: u64 = 1 << 46;
/// The islands stop when they have seen this part of the data.
const PART: usize = 8;
/// First batches that this part has at least: the posterior of fewer observations is no normal distribution.
const LEAST_BATCHES: usize = 8;
/// Points for each coefficient of the quadratic form.
const POINTS: usize = 3;
/// Deviations, as a root mean square over the coordinates, by which the islands' means may be apart …
const MOST_APART: f64 = 0.5;
/// … and log-ratio of their deviations, on average.
const MOST_WIDER: f64 = 0.2;
/// Variances of the last form's points, in those of the posterior: what draws are weighed by lies within.
const WIDENED: f64 = 1.5;
/// Standard error of that form in nats, at most: so much is what the logarithms of the draws' weights scatter by.
const MOST_ERROR: f64 = 0.4;

/// N(μ, Σ).
#[derive(Clone, Debug)]
struct Normal {
    mean: Vec<f64>,
    covariance: Vec<f64>,
}

impl Run<'_> {
    /// Where the islands stop; `None` where there are too few data for this.
    pub(super) fn stop(&self) -> Option<usize> {
        let (setting, options) = (&self.settings[0], self.options());
        let part = setting.model.observations() / PART;
        let asked = options.laplace && options.renewal == Renewal::Auto && options.final_stage;
        let points = POINTS * coefficients(setting.model.dimension());
        let many = part >= LEAST_BATCHES.saturating_mul(setting.first_batch()) && points <= options.particles;
        (asked && many).then_some(part)
    }

    /// The posterior by draws from the normal density that islands which have stopped lead to.
    pub(super) fn extrapolated(&mut self, control: &mut Control<'_>) -> Result<Option<Posterior>> {
        let d = self.settings[0].model.dimension();
        let mut found: Vec<Normal> = Vec::new();
        for index in 0..self.islands.len() {
            let (island, setting) = (&self.islands[index], &self.settings[index]);
            let density = island.proposal(setting);
            if density.groups() != 1 || density.is_bent() {
                return Ok(None);
            }
            let particles = &island.particles;
            let (mean, covariance) = moments(&particles.positions, &normalised(&particles.log_weights), d);
            let Some((normal, _)) = self.quadratic(Normal { mean, covariance }, index, control)? else {
                return Ok(None);
            };
            if found.first().is_some_and(|first| !first.agrees(&normal)) {
                return Ok(None);
            }
            found.push(normal);
        }
        let mut about = Normal::between(&found);
        about.covariance.iter_mut().for_each(|v| *v *= WIDENED);
        let last = self.quadratic(about, self.islands.len(), control)?;
        let Some((normal, _)) = last.filter(|(_, error)| *error <= MOST_ERROR) else { return Ok(None) };
        let proposal = Proposal::normal(normal.mean, &normal.covariance, self.options().defensive);
        self.normal_draws(proposal, DRAWS, 0, control)
    }

    /// The normal density of the quadratic form through log-densities of all data at draws from `normal`, and the
    /// form's standard error; `None` where it is no density, a draw is impossible or the time is up.
    fn quadratic(
        &mut self,
        normal: Normal,
        number: usize,
        control: &mut Control<'_>,
    ) -> Result<Option<(Normal, f64)>> {
        let d = normal.mean.len();
        if control.out_of_time() {
            return Ok(None);
        }
        let proposal = Proposal::normal(normal.mean.clone(), &normal.covariance, 0.0);
        let points = self.draws(&proposal, BlockIndex(FIRST + number as u64), POINTS * coefficients(d))?;
        control.check(number)?;
        Ok(normal.through(&points.positions, &points.log_target(0.0)))
    }
}

/// Coefficients of a quadratic form in `d` dimensions, with its linear and constant part.
fn coefficients(d: usize) -> usize {
    (d + 1) * (d + 2) / 2
}

impl Normal {
    /// The density whose logarithm is the quadratic form, in coordinates in which this one is standard, through `values` at
    /// `points`, and the standard error of one value.
    fn through(&self, points: &[f64], values: &[f64]) -> Option<(Self, f64)> {
        let (d, count) = (self.mean.len(), values.len());
        let terms = coefficients(d);
        if values.iter().any(|v| !v.is_finite()) || count <= terms {
            return None;
        }
        let factor = Factor::of(&self.covariance, d);
        let white = factor.whiten_rows(points, &self.mean);
        let mut design = Mat::zeros(terms, count);
        for (i, z) in white.chunks_exact(d).enumerate() {
            let pairs = (0..d).flat_map(|j| (0..=j).map(move |k| z[j] * z[k]));
            let row = std::iter::once(1.0).chain(z.iter().copied()).chain(pairs);
            row.enumerate().for_each(|(t, v)| design[(t, i)] = v);
        }
        let centre = values.iter().sum::<f64>() / count as f64;
        let values = Mat::from_fn(count, 1, |i, _| values[i] - centre);
        let (mut gram, mut right) = (Mat::zeros(terms, terms), Mat::zeros(terms, 1));
        add_square(&mut gram, design.as_ref());
        add_product(&mut right, 1.0, design.as_ref(), values.as_ref());
        let right: Vec<f64> = (0..terms).map(|t| right[(t, 0)]).collect();
        let form = Cholesky::new(gram)?.solve(&right);
        let fitted = |i: usize| (0..terms).map(|t| form[t] * design[(t, i)]).sum::<f64>();
        let squares: f64 = (0..count).map(|i| (values[(i, 0)] - fitted(i)).powi(2)).sum();
        let error = (squares / (count - terms) as f64).sqrt();
        // H of the lower triangle q of zᵀqz: twice the negative diagonal, the negative of what is beside it.
        let q = |j: usize, k: usize| form[1 + d + j.max(k) * (j.max(k) + 1) / 2 + j.min(k)];
        let hessian = Cholesky::new(Mat::from_fn(d, d, |j, k| if j == k { -2.0 } else { -1.0 } * q(j, k)))?;
        let mut mean = vec![0.0; d];
        factor.colour(&hessian.solve(&form[1..=d]), &self.mean, &mut mean);
        let mut columns = vec![0.0; d * d];
        for (j, column) in columns.chunks_exact_mut(d).enumerate() {
            let unit: Vec<f64> = (0..d).map(|k| if k == j { 1.0 } else { 0.0 }).collect();
            factor.colour(&hessian.solve(&unit), &vec![0.0; d], column);
        }
        // L(LH⁻¹)ᵀ, a row of it for each row of LH⁻¹.
        let mut covariance = vec![0.0; d * d];
        for (k, row) in covariance.chunks_exact_mut(d).enumerate() {
            let across: Vec<f64> = columns.iter().skip(k).step_by(d).copied().collect();
            factor.colour(&across, &vec![0.0; d], row);
        }
        Some((Self { mean, covariance }, error))
    }

    /// Whether `other` has nearly the same mean and deviations.
    fn agrees(&self, other: &Self) -> bool {
        let d = self.mean.len();
        let (own, others) = (Factor::of(&self.covariance, d), Factor::of(&other.covariance, d));
        let mut apart = vec![0.0; d];
        own.whiten(&other.mean, &self.mean, &mut apart);
        let apart = (apart.iter().map(|z| z * z).sum::<f64>() / d as f64).sqrt();
        let wider = (own.log_determinant() - others.log_determinant()).abs() / d as f64;
        apart <= MOST_APART && wider <= MOST_WIDER
    }

    /// The mean of means and covariances.
    fn between(normals: &[Self]) -> Self {
        let mean_of = |part: fn(&Self) -> &[f64]| {
            let first = normals.first().map_or(&[][..], part);
            let mean = |i: usize| normals.iter().map(|n| part(n)[i]).sum::<f64>() / normals.len() as f64;
            (0..first.len()).map(mean).collect()
        };
        Self { mean: mean_of(|n| &n.mean), covariance: mean_of(|n| &n.covariance) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    /// Of values that are a quadratic form the density is found exactly, wherever the points are; of a saddle there is none.
    #[test]
    fn a_quadratic_form_is_its_normal_density() {
        let truth = Normal { mean: vec![2.0, -1.0], covariance: vec![0.5, 0.3, 0.3, 0.4] };
        let start = Normal { mean: vec![0.0, 1.0], covariance: vec![4.0, -1.0, -1.0, 3.0] };
        let points =
            Proposal::normal(start.mean.clone(), &start.covariance, 0.0).draw(18, Seed(1), BlockIndex(0));
        let values = Proposal::normal(truth.mean.clone(), &truth.covariance, 0.0).log_density(&points);
        let (found, error) = start.through(&points, &values).unwrap();
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near(&found.mean, &truth.mean) && near(&found.covariance, &truth.covariance) && error < 1e-9);
        assert!(found.agrees(&truth) && !start.agrees(&truth));
        let saddle: Vec<f64> = points.chunks_exact(2).map(|z| z[0] * z[0] - z[1] * z[1]).collect();
        assert!(start.through(&points, &saddle).is_none());
        assert!(start.through(&points, &[f64::NEG_INFINITY; 18]).is_none());
    }
}
