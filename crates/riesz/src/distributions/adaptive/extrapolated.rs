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
//! ever.
//!
//! Draws about a normal density know of nothing beyond it. So all data are also looked at where the islands' own
//! particles are, which were led there by data and not by a form: where the posterior is much larger than the form
//! says, there is something that the form misses. Where this happens, or forms fit badly or disagree, the islands go on as if
//! nothing had been tried, which has cost looks; of a time budget half of what was left at most.

use super::options::Renewal;
use super::population::{Population, Target};
use super::Run;
use crate::distributions::factor::{moments, Factor};
use crate::distributions::posterior::{Posterior, Stage, StageKind};
use crate::distributions::proposal::Proposal;
use crate::distributions::weights::{normalised, systematic};
use crate::driver::Control;
use crate::error::Result;
use crate::linalg::cholesky::{add_product, add_square, Cholesky};
use crate::random::{Address, BlockIndex, Stream};
use faer::Mat;

/// Block of the random numbers of the points, beyond those of all other parts.
const FIRST: u64 = 1 << 45;
/// Block of those of the draws.
const DRAWS: u64 = 1 << 46;
/// Block of those that choose particles.
const CHOICE: u64 = 1 << 47;
/// The islands stop when they have seen this part of the data.
const PART: usize = 8;
/// First batches, of the usual size, that this part has at least: the posterior of fewer observations is no normal distribution.
const LEAST_BATCHES: usize = 8;
/// Batches that an island has seen at least: one that grows in leaps may stop long before.
const LEAST_SEEN: usize = 4;
/// Points for each coefficient of the quadratic form.
const POINTS: usize = 3;
/// Most coefficients: the terms at all points and their normal equations have some 130 MB.
const MOST_COEFFICIENTS: usize = 2_000;
/// Deviations, as a root mean square over the coordinates, by which means may be apart …
const MOST_APART: f64 = 0.5;
/// … and Σ (r − 1)²/(2r) over the ratios r of variances in all directions: of a single one 2.6.
const MOST_WIDER: f64 = 0.5;
/// Variances of the last form's points, in those of the posterior: what draws are weighed by lies within.
const WIDENED: f64 = 1.5;
/// Standard error in nats of the islands' forms, at most, whose points are some eight times as wide as the posterior …
const MOST_ERROR_AFAR: f64 = 1.0;
/// … and of the last: so much is what the logarithms of the draws' weights scatter by.
const MOST_ERROR: f64 = 0.15;
/// Particles of all islands at which all data are looked at: of a mode that has a fortieth of them one is met with 99 %.
const LOOKED_AT: usize = 200;
/// How many times as large as the form's the density may be there …
const MOST_RATIO: f64 = 100.0;
/// … beyond the power of what the form falls by: tails of variances a quarter larger. Slight skewness does as much far out.
const SLACK: f64 = 0.2;

/// N(μ, Σ).
#[derive(Clone, Debug)]
struct Normal {
    mean: Vec<f64>,
    covariance: Vec<f64>,
}

/// The posterior as a quadratic form through its logarithm says it is.
#[derive(Clone, Debug)]
struct Form {
    normal: Normal,
    log_evidence: f64,
    /// Standard error of one logarithm.
    error: f64,
}

impl Run<'_> {
    /// Where the islands stop; `None` where there are too few data for this, or no second island to agree with the first.
    pub(super) fn stop(&self) -> Option<usize> {
        let (setting, options) = (&self.settings[0], self.options());
        let part = setting.model.observations() / PART;
        let asked = options.laplace && options.renewal == Renewal::Auto && options.final_stage;
        let coefficients = coefficients(setting.model.dimension());
        let known = coefficients <= MOST_COEFFICIENTS && POINTS * coefficients <= options.particles;
        let batch = setting.first_batch().max(setting.usual_batch());
        let many = part >= LEAST_BATCHES.saturating_mul(batch);
        (asked && known && many && self.settings.len() > 1).then_some(part)
    }

    /// The posterior by draws from the normal density that islands which have stopped lead to.
    pub(super) fn extrapolated(&mut self, control: &mut Control<'_>) -> Result<Option<Posterior>> {
        let starts: Option<Vec<(Normal, bool)>> = (0..self.islands.len()).map(|i| self.start(i)).collect();
        let Some(starts) = starts.filter(|_| !control.out_of_time()) else { return Ok(None) };
        // Some hundred particles fall into groups by chance now and then: those of all islands do where there are groups.
        if !starts.iter().any(|(_, plain)| *plain) {
            return Ok(None);
        }
        let starts = starts.into_iter().map(|(normal, _)| normal).collect();
        let Some(normal) = self.common(starts, control)? else { return Ok(None) };
        let proposal = Proposal::normal(normal.mean, &normal.covariance, self.options().defensive);
        self.normal_draws(proposal, DRAWS, 0, control)
    }

    /// The normal density of island `index`, and whether a density through its particles is one group that is not bent;
    /// `None` where it has seen little.
    fn start(&self, index: usize) -> Option<(Normal, bool)> {
        let (island, setting) = (&self.islands[index], &self.settings[index]);
        let density = island.proposal(setting);
        let (particles, d) = (&island.particles, setting.model.dimension());
        (island.state.target.seen >= LEAST_SEEN * setting.usual_batch()).then(|| {
            let (mean, covariance) = moments(&particles.positions, &normalised(&particles.log_weights), d);
            (Normal { mean, covariance }, density.groups() == 1 && !density.is_bent())
        })
    }

    /// The density of the form about the mean of those that the islands' densities `starts` lead to; `None` where these
    /// disagree, the posterior is not like any of them, or the time that is left would not do for the draws.
    fn common(&mut self, starts: Vec<Normal>, control: &mut Control<'_>) -> Result<Option<Normal>> {
        let (mut found, mut points): (Vec<Normal>, Vec<Population>) = (Vec::new(), Vec::new());
        let (count, so_far) = (starts.len(), control.elapsed());
        let d = self.settings[0].model.dimension();
        let looks = POINTS * coefficients(d);
        let mut rest = LOOKED_AT + self.options().particles + (count + 1) * looks;
        // Half of the time that is left, at most: where all this is in vain the islands need the other.
        let look = so_far.div_f64(self.looks().max(1.0));
        if !control.leaves(look.mul_f64(2.0 * rest as f64)) {
            return Ok(None);
        }
        let begun = control.elapsed();
        for (index, start) in starts.into_iter().enumerate() {
            let (form, seen) = self.quadratic(start, index, control)?;
            let Some(form) = form.filter(|f| f.error <= MOST_ERROR_AFAR) else { return Ok(None) };
            rest -= looks;
            let look = (control.elapsed() - begun).div_f64((looks * (index + 1)) as f64);
            let agree = found.iter().all(|other| other.agrees(&form.normal));
            if !agree || !control.leaves(look.mul_f64(rest as f64)) {
                return Ok(None);
            }
            found.push(form.normal);
            points.push(seen);
        }
        let mut about = Normal::between(&found);
        about.covariance.iter_mut().for_each(|v| *v *= WIDENED);
        let last = self.quadratic(about, count, control)?.0.filter(|f| f.error <= MOST_ERROR);
        let alike = |form: &Form| {
            found.iter().all(|n| n.agrees(&form.normal)) && points.iter().all(|p| form.reaches(p))
        };
        let Some(form) = last.filter(alike) else { return Ok(None) };
        for index in 0..count {
            if !form.reaches(&self.some_particles(index, LOOKED_AT.div_ceil(count))?) {
                return Ok(None);
            }
            self.report(control)?;
        }
        let spent = (control.elapsed() - begun).div_f64(((count + 1) * looks + LOOKED_AT) as f64);
        let enough = control.leaves(spent.mul_f64(self.options().particles as f64));
        Ok(enough.then_some(form.normal))
    }

    /// The quadratic form through log-densities of all data at draws from `normal`, and these draws; `None` where it is
    /// no density or a draw is impossible.
    fn quadratic(
        &mut self,
        normal: Normal,
        number: usize,
        control: &mut Control<'_>,
    ) -> Result<(Option<Form>, Population)> {
        let proposal = Proposal::normal(normal.mean.clone(), &normal.covariance, 0.0);
        let count = POINTS * coefficients(normal.mean.len());
        let points = self.draws(&proposal, BlockIndex(FIRST + number as u64), count)?;
        self.report(control)?;
        Ok((normal.through(&points.positions, &points.log_target(0.0)), points))
    }

    /// Up to `count` particles of an island, chosen by weight, asked about all data.
    fn some_particles(&mut self, index: usize, count: usize) -> Result<Population> {
        let (setting, particles) = (&self.settings[index], &self.islands[index].particles);
        let order = particles.by_chain();
        let weights = normalised(&particles.log_weights);
        let weights: Vec<f64> = order.iter().map(|&i| weights[i]).collect();
        let at = Address::new(setting.seed(), Stream::Resample, BlockIndex(CHOICE + index as u64), 0);
        let mut chosen = systematic(&weights, count, at);
        chosen.dedup();
        let chosen: Vec<usize> = chosen.iter().map(|&i| order[i]).collect();
        let positions = particles.subset(&chosen, setting.model.dimension()).positions;
        let all = setting.model.observations();
        let looked_at = Population::at(positions, setting, Target { seen: all, next: all, power: 0.0 })?;
        self.history.push(Stage {
            island: None,
            seen: all,
            batch: 0,
            power: 1.0,
            particles: looked_at.len(),
            effective_size: looked_at.len() as f64,
            groups: 0,
            kind: StageKind::Kept,
            evaluations: looked_at.evaluations,
        });
        Ok(looked_at)
    }
}

impl Form {
    /// Whether the density is nowhere among `particles` much larger than the form N says, Z being its evidence:
    /// log p − log Z N(θ) ≤ log 100 + 0.2 (log N(μ) − log N(θ)).
    fn reaches(&self, particles: &Population) -> bool {
        let form = self.normal.log_density(&particles.positions);
        let peak = self.normal.log_density(&self.normal.mean).iter().sum::<f64>();
        let most = |form: f64| self.log_evidence + form + MOST_RATIO.ln() + SLACK * (peak - form);
        particles.log_target(0.0).into_iter().zip(form).all(|(target, form)| target <= most(form))
    }
}

/// Coefficients of a quadratic form in `d` dimensions, with its linear and constant part.
fn coefficients(d: usize) -> usize {
    (d + 1) * (d + 2) / 2
}

impl Normal {
    /// The quadratic form, in coordinates in which this density is standard, through `values` at `points`.
    fn through(&self, points: &[f64], values: &[f64]) -> Option<Form> {
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
        let normal = Self { mean, covariance };
        // At the points the form has the mean of their values.
        let density = normal.log_density(points).iter().sum::<f64>() / count as f64;
        Some(Form { normal, log_evidence: centre - density, error })
    }

    fn log_density(&self, points: &[f64]) -> Vec<f64> {
        Proposal::normal(self.mean.clone(), &self.covariance, 0.0).log_density(points)
    }

    /// Whether `other` has nearly the same mean, and nearly the same variance in every direction:
    /// ½ (tr Σ⁻¹Σ' + tr Σ'⁻¹Σ) − d is Σ (r − 1)²/(2r) over the ratios r.
    fn agrees(&self, other: &Self) -> bool {
        let d = self.mean.len() as f64;
        let [(forth, trace), (back, inverse)] = [self.in_units_of(other), other.in_units_of(self)];
        forth.max(back) <= MOST_APART && 0.5 * (trace + inverse) - d <= MOST_WIDER
    }

    /// In deviations of `other`, by how many the means are apart, as a root mean square, and tr Σ'⁻¹Σ.
    fn in_units_of(&self, other: &Self) -> (f64, f64) {
        let d = self.mean.len();
        let (own, unit) = (Factor::of(&self.covariance, d), Factor::of(&other.covariance, d));
        let (zero, mut column, mut white) = (vec![0.0; d], vec![0.0; d], vec![0.0; d]);
        let mut square = |point: &[f64], centre: &[f64]| {
            unit.whiten(point, centre, &mut white);
            white.iter().map(|z| z * z).sum::<f64>()
        };
        let apart = (square(&self.mean, &other.mean) / d as f64).sqrt();
        let trace = (0..d).map(|j| {
            let axis: Vec<f64> = (0..d).map(|k| f64::from(k == j)).collect();
            own.colour(&axis, &zero, &mut column);
            square(&column, &zero)
        });
        (apart, trace.sum())
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
        let Form { normal: found, log_evidence, error } = start.through(&points, &values).unwrap();
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near(&found.mean, &truth.mean) && near(&found.covariance, &truth.covariance) && error < 1e-9);
        assert!(log_evidence.abs() < 1e-9 && found.agrees(&truth) && !start.agrees(&truth));
        let saddle: Vec<f64> = points.chunks_exact(2).map(|z| z[0] * z[0] - z[1] * z[1]).collect();
        assert!(start.through(&points, &saddle).is_none());
        assert!(start.through(&points, &[f64::NEG_INFINITY; 18]).is_none());
    }

    /// One variance of ten that is four times as large is not hidden by the nine that are the same.
    #[test]
    fn densities_disagree_by_a_single_direction() {
        let unit = |first: f64| {
            let diagonal = |k: usize| if k == 0 { first } else { f64::from(k.is_multiple_of(11)) };
            Normal { mean: vec![0.0; 10], covariance: (0..100).map(diagonal).collect() }
        };
        let (_, trace) = unit(4.0).in_units_of(&unit(1.0));
        assert!((trace - 13.0).abs() < 1e-9);
        assert!(unit(1.0).agrees(&unit(1.2)) && !unit(1.0).agrees(&unit(4.0)));
        let apart = Normal { mean: vec![1.0; 10], ..unit(1.0) };
        assert!(!apart.agrees(&unit(1.0)) && !unit(1.0).agrees(&apart));
    }

    /// A form through one of two modes does not reach particles of the other; a skewness that is slight at the mode, where the
    /// draws will be, does not matter far out.
    #[test]
    fn a_form_that_misses_a_mode_does_not_reach_its_particles() {
        let normal = Normal { mean: vec![0.0], covariance: vec![1.0] };
        let form = Form { normal, log_evidence: 3.0, error: 0.0 };
        let at = |positions: Vec<f64>, log: fn(f64) -> f64| {
            let old = positions.iter().map(|x| 3.0 - 0.5 * std::f64::consts::TAU.ln() + log(*x)).collect();
            Population { log_prior: vec![0.0; positions.len()], positions, old, ..Population::default() }
        };
        let line: Vec<f64> = (-80..=80).map(|i| f64::from(i) / 10.0).collect();
        let both = |x: f64| -0.5 * x.abs().min((x - 7.0).abs()).powi(2);
        assert!(form.reaches(&at(line.clone(), |x| -0.5 * x * x)));
        assert!(form.reaches(&at(line.clone(), |x| -0.5 * x * x + 0.01 * x.powi(3))));
        assert!(form.reaches(&at(line[..110].to_vec(), both)) && !form.reaches(&at(line, both)));
    }
}
