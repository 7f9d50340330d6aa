//! The mode of generalised linear models with a Gaussian prior, and the curvature there, by Newton's method.

use super::generalised_linear::{Family, GeneralisedLinear};
use crate::distributions::model::{Model, NormalApproximation, Particles};
use crate::distributions::special::log_normal_cdf;
use crate::error::Result;
use crate::linalg::cholesky::solve_in_place;
use crate::linalg::lu::product;
use crate::linalg::Cholesky;
use faer::{Mat, MatRef};
use rayon::prelude::*;

/// Rows whose sums one thread makes, and how many such sums are held at a time.
const ROWS: usize = 1_024;
const SUMS: usize = 16;
/// Most Newton steps, and most halvings of one.
const STEPS: usize = 50;
const HALVINGS: usize = 20;
/// A step this short, in deviations of the posterior, is the last.
const SHORT: f64 = 1e-6;
/// A step this short gains less than the sum of the likelihoods is rounded to, and is taken as it is.
const UNTOLD: f64 = 1e-3;
/// Most parameters: the curvature has their square.
const MOST: usize = 1_024;

/// The gradient of the log-likelihood of some rows, and minus its second derivative.
struct Derivatives {
    gradient: Vec<f64>,
    curvature: Mat<f64>,
}

impl GeneralisedLinear {
    /// N(θ*, H⁻¹) with θ* the mode of the posterior and H minus the second derivative of its logarithm there (Laplace's
    /// method); `None` for families whose posterior need not be log-concave, for very many parameters, and where Newton's
    /// method does not arrive while it may go on.
    pub(super) fn at_mode(
        &self,
        go_on: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Option<NormalApproximation>> {
        let d = self.dimension();
        if self.family == Family::Gaussian || d > MOST {
            return Ok(None);
        }
        let all: Vec<u32> = (0..self.observations() as u32).collect();
        let height = |theta: &[f64]| -> Result<f64> {
            let (particles, mut prior, mut likelihood) = (Particles::new(theta, d)?, [0.0], [0.0]);
            self.log_prior(particles, &mut prior)?;
            self.log_likelihood(particles, &all, &mut likelihood)?;
            Ok(prior[0] + likelihood[0])
        };
        let mut theta = vec![0.0; d];
        let mut at = height(&theta)?;
        let mut looks = 1;
        for _ in 0..STEPS {
            let Some(Derivatives { mut gradient, mut curvature }) = self.derivatives(&theta, go_on)? else {
                return Ok(None);
            };
            for (i, s) in self.prior.0.iter().enumerate() {
                gradient[i] -= theta[i] / (s * s);
                curvature[(i, i)] += 1.0 / (s * s);
            }
            // A gradient costs as much as two likelihoods, the curvature as many as half of the parameters.
            looks += 2 + d / 2;
            let Some(factor) = Cholesky::new(curvature) else { return Ok(None) };
            let step = factor.solve(&gradient);
            let length = step.iter().zip(&gradient).map(|(s, g)| s * g).sum::<f64>().max(0.0).sqrt();
            if !length.is_finite() {
                return Ok(None);
            }
            if length < SHORT {
                let mut inverse = Mat::<f64>::identity(d, d);
                solve_in_place(factor.lower(), inverse.as_mut());
                let covariance =
                    (0..d * d).map(|k| 0.5 * (inverse[(k / d, k % d)] + inverse[(k % d, k / d)]));
                let (covariance, evaluations) = (covariance.collect(), (looks * all.len()) as u64);
                return Ok(Some(NormalApproximation { mean: theta, covariance, evaluations }));
            }
            let mut found = false;
            for halving in 0..HALVINGS {
                let share = 0.5_f64.powi(halving as i32);
                let next: Vec<f64> = theta.iter().zip(&step).map(|(t, s)| t + share * s).collect();
                let value = height(&next)?;
                looks += 1;
                if value >= at || length < UNTOLD {
                    (theta, at, found) = (next, value, true);
                    break;
                }
            }
            if !found {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Sums over all rows, in an order that does not depend on the number of threads; `None` where the time is up.
    fn derivatives(
        &self,
        theta: &[f64],
        go_on: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Option<Derivatives>> {
        let d = theta.len();
        let mut sum = Derivatives { gradient: vec![0.0; d], curvature: Mat::zeros(d, d) };
        let parts: Vec<_> = (0..self.targets.len()).step_by(ROWS).collect();
        for group in parts.chunks(SUMS) {
            if !go_on()? {
                return Ok(None);
            }
            let of = |&from: &usize| self.derivatives_of(theta, from..(from + ROWS).min(self.targets.len()));
            let found: Vec<Derivatives> = group.par_iter().map(of).collect();
            for part in found {
                sum.gradient.iter_mut().zip(part.gradient).for_each(|(sum, g)| *sum += g);
                sum.curvature += part.curvature;
            }
        }
        Ok(Some(sum))
    }

    /// With g = ∂ log p(y∣η)/∂η and W = −∂²log p(y∣η)/∂η²: Σ_n g_k x_n, and blocks Σ_n W_kl x_n x_nᵀ.
    fn derivatives_of(&self, theta: &[f64], rows: std::ops::Range<usize>) -> Derivatives {
        let (width, outputs) = (self.width, self.family.outputs());
        let x =
            MatRef::from_row_major_slice(&self.rows[rows.start * width..rows.end * width], rows.len(), width);
        let coefficients = MatRef::from_row_major_slice(theta, outputs, width);
        let eta = product(x, coefficients.transpose());
        // Of softmax the probabilities, else the bends W.
        let (mut slopes, mut known) =
            (Mat::zeros(rows.len(), outputs), Mat::<f64>::zeros(rows.len(), outputs));
        for (i, n) in rows.clone().enumerate() {
            let y = self.targets[n];
            match self.family {
                Family::Gaussian => {}
                Family::Logistic => {
                    let p = 1.0 / (1.0 + (-eta[(i, 0)]).exp());
                    slopes[(i, 0)] = y - p;
                    known[(i, 0)] = p * (1.0 - p);
                }
                Family::Probit => {
                    let sign = if y > 0.5 { 1.0 } else { -1.0 };
                    let v = sign * eta[(i, 0)];
                    let ratio = (-0.5 * (v * v + std::f64::consts::TAU.ln()) - log_normal_cdf(v)).exp();
                    slopes[(i, 0)] = sign * ratio;
                    known[(i, 0)] = ratio * (ratio + v);
                }
                Family::Softmax(classes) => {
                    let most = (0..classes).map(|k| eta[(i, k)]).fold(f64::NEG_INFINITY, f64::max);
                    let total: f64 = (0..classes).map(|k| (eta[(i, k)] - most).exp()).sum();
                    for k in 0..classes {
                        known[(i, k)] = (eta[(i, k)] - most).exp() / total;
                        slopes[(i, k)] = if k == y as usize { 1.0 } else { 0.0 } - known[(i, k)];
                    }
                }
            }
        }
        let bend = |i: usize, k: usize, l: usize| match self.family {
            Family::Softmax(_) if k == l => known[(i, k)] * (1.0 - known[(i, k)]),
            Family::Softmax(_) => -known[(i, k)] * known[(i, l)],
            _ => known[(i, 0)],
        };
        let gradient = product(slopes.transpose(), x);
        let mut curvature = Mat::zeros(theta.len(), theta.len());
        for k in 0..outputs {
            for l in 0..=k {
                let w: Vec<f64> = (0..rows.len()).map(|i| bend(i, k, l)).collect();
                let weighted = Mat::from_fn(rows.len(), width, |i, j| w[i] * x[(i, j)]);
                let block = product(x.transpose(), weighted.as_ref());
                for (a, b) in (0..width).flat_map(|a| (0..width).map(move |b| (a, b))) {
                    curvature[(k * width + a, l * width + b)] = block[(a, b)];
                    curvature[(l * width + b, k * width + a)] = block[(a, b)];
                }
            }
        }
        let gradient = (0..theta.len()).map(|i| gradient[(i / width, i % width)]).collect();
        Derivatives { gradient, curvature }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of a family with two columns, and its rows and targets by a formula.
    fn model(family: Family) -> GeneralisedLinear {
        let n = 300;
        let number = |i: usize| (0.37 * (i * i % 101) as f64).sin();
        let x: Vec<f64> = (0..2 * n).map(number).collect();
        let classes = family.outputs().max(2);
        let class = |i: usize| {
            ((x[2 * i] + 0.5 * x[2 * i + 1] + number(3 * i + 1) + 2.0) / 4.0 * classes as f64) as usize
        };
        let y: Vec<f64> = (0..n).map(|i| class(i).min(classes - 1) as f64).collect();
        GeneralisedLinear::new(family, &x, 2, &y, 2.0).unwrap()
    }

    /// The gradient of the log-posterior, by differences, is zero at the mean; minus its second derivatives is the inverse
    /// of the covariance.
    #[test]
    fn the_mode_is_where_nothing_rises_and_the_covariance_inverts_the_curvature() {
        for family in [Family::Logistic, Family::Probit, Family::Softmax(3)] {
            let model = model(family);
            let (d, all) = (model.dimension(), (0..300).collect::<Vec<u32>>());
            let found = model.at_mode(&mut || Ok(true)).unwrap().unwrap();
            let height = |theta: &[f64]| {
                let (mut a, mut b) = ([0.0], [0.0]);
                let particles = Particles::new(theta, d).unwrap();
                model.log_prior(particles, &mut a).unwrap();
                model.log_likelihood(particles, &all, &mut b).unwrap();
                a[0] + b[0]
            };
            let moved = |steps: &[(usize, f64)]| {
                let mut theta = found.mean.clone();
                steps.iter().for_each(|(i, by)| theta[*i] += by);
                height(&theta)
            };
            let h = 1e-4;
            let second = |i: usize, j: usize| {
                let at = |a: f64, b: f64| moved(&[(i, a * h), (j, b * h)]);
                -(at(1.0, 1.0) - at(1.0, -1.0) - at(-1.0, 1.0) + at(-1.0, -1.0)) / (4.0 * h * h)
            };
            for i in 0..d {
                let slope = (moved(&[(i, h)]) - moved(&[(i, -h)])) / (2.0 * h);
                assert!(slope.abs() < 1e-5, "{family:?}: {slope}");
                for j in 0..d {
                    let product: f64 = (0..d).map(|k| second(i, k) * found.covariance[k * d + j]).sum();
                    let expected = if i == j { 1.0 } else { 0.0 };
                    assert!((product - expected).abs() < 1e-3, "{family:?} {i} {j}: {product}");
                }
            }
            assert!(found.evaluations > 0);
        }
        assert!(model(Family::Gaussian).at_mode(&mut || Ok(true)).unwrap().is_none());
        assert!(model(Family::Logistic).at_mode(&mut || Ok(false)).unwrap().is_none());
    }
}
