//! Linear, logistic, probit and softmax regression with a Gaussian prior.

use super::gaussian_prior::GaussianPrior;
use crate::compute::{logistic_rows, Device};
use crate::distributions::model::{Model, NormalApproximation, Particles};
use crate::distributions::special::log_normal_cdf;
use crate::driver::Fingerprint;
use crate::error::{finite, positive, Error, Result};
use crate::random::Address;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};

/// Rows of a batch that are multiplied at a time.
const ROWS: usize = 256;

/// How the target depends on η = xᵀβ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// y ~ N(η, σ²); log σ ~ N(0, 1) is the last parameter.
    Gaussian,
    /// P(y = 1) = 1/(1 + e^{−η}).
    Logistic,
    /// P(y = 1) = Φ(η).
    Probit,
    /// P(y = c) ∝ e^{η_c}, the coefficients of every class in turn.
    Softmax(usize),
}

/// Regression on rows with an intercept: β ~ N(0, s² I), the intercept first.
#[derive(Clone, Debug)]
pub struct GeneralisedLinear {
    pub(super) family: Family,
    /// Rows with a leading one, row-major.
    pub(super) rows: Vec<f64>,
    pub(super) width: usize,
    pub(super) targets: Vec<f64>,
    pub(super) prior: GaussianPrior,
}

impl GeneralisedLinear {
    /// The model of `targets` given row-major `rows`; `deviation` is s. Classes are 0, 1, … .
    pub fn new(
        family: Family,
        rows: &[f64],
        columns: usize,
        targets: &[f64],
        deviation: f64,
    ) -> Result<Self> {
        if rows.len() != columns * targets.len() {
            let found = rows.len().checked_div(columns).unwrap_or(0);
            return Err(Error::RowCount { what: "X", expected: targets.len(), found });
        }
        finite("X", rows, columns)?;
        positive("prior_scale", deviation)?;
        family.check(targets)?;
        let width = columns + 1;
        let mut with_one = Vec::with_capacity(width * targets.len());
        for i in 0..targets.len() {
            with_one.push(1.0);
            with_one.extend_from_slice(&rows[i * columns..][..columns]);
        }
        let mut prior = vec![deviation; width * family.outputs()];
        if family == Family::Gaussian {
            prior.push(1.0);
        }
        Ok(Self { family, rows: with_one, width, targets: targets.to_vec(), prior: GaussianPrior(prior) })
    }

    /// Σ over rows of log p(y∣η), added to `out`: η is rows × particles × outputs, row-major, of at most [`ROWS`] rows.
    fn add_rows(&self, eta: &[f64], targets: &[f64], log_deviation: &[f64], out: &mut [f64]) {
        let (m, outputs) = (out.len(), self.family.outputs());
        let rows = eta.chunks_exact(m * outputs).zip(targets);
        match self.family {
            Family::Gaussian => {
                for (eta, y) in rows {
                    let rest = eta.iter().zip(log_deviation).map(|(eta, s)| ((y - eta) * (-s).exp()).powi(2));
                    out.iter_mut().zip(rest).for_each(|(out, r)| *out -= 0.5 * r);
                }
            }
            Family::Logistic => {
                // −log(1 + e^{−v}), v = ±η: the factors 1 + e^{−∣v∣} ≤ 2 of all rows are multiplied, at most 2^ROWS.
                let mut product = vec![1.0; m];
                let signs: Vec<f64> = targets.iter().map(|&y| if y > 0.5 { 1.0 } else { -1.0 }).collect();
                logistic_rows(Device::default(), eta, &signs, out, &mut product);
                out.iter_mut().zip(product).for_each(|(out, product)| *out -= product.ln());
            }
            Family::Probit => {
                for (eta, &y) in rows {
                    let sign = if y > 0.5 { 1.0 } else { -1.0 };
                    out.iter_mut().zip(eta).for_each(|(out, eta)| *out += log_normal_cdf(sign * eta));
                }
            }
            Family::Softmax(classes) => {
                for (eta, &y) in rows {
                    for (out, eta) in out.iter_mut().zip(eta.chunks_exact(classes)) {
                        let most = eta.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                        *out +=
                            eta[y as usize] - most - eta.iter().map(|e| (e - most).exp()).sum::<f64>().ln();
                    }
                }
            }
        }
    }
}

impl Family {
    /// Linear predictors per row.
    pub fn outputs(self) -> usize {
        if let Self::Softmax(classes) = self {
            classes
        } else {
            1
        }
    }

    /// Refuses targets the family cannot have produced.
    fn check(self, targets: &[f64]) -> Result<()> {
        let (loss, expected) = match self {
            Self::Gaussian => ("Gaussian", "a number"),
            Self::Logistic => ("logistic", "0 or 1"),
            Self::Probit => ("probit", "0 or 1"),
            Self::Softmax(_) => ("softmax", "the index of a class"),
        };
        let admissible = |y: f64| match self {
            Self::Gaussian => y.is_finite(),
            Self::Logistic | Self::Probit => y == 0.0 || y == 1.0,
            Self::Softmax(classes) => y >= 0.0 && y.fract() == 0.0 && y < classes as f64,
        };
        match targets.iter().position(|&y| !admissible(y)) {
            Some(row) => Err(Error::Target { loss, value: targets[row], row, expected }),
            None => Ok(()),
        }
    }
}

impl Model for GeneralisedLinear {
    fn dimension(&self) -> usize {
        self.prior.0.len()
    }

    fn observations(&self) -> usize {
        self.targets.len()
    }

    fn draw_prior(&self, address: Address, theta: &mut [f64]) -> Result<()> {
        self.prior.draw(address, theta);
        Ok(())
    }

    fn log_prior(&self, particles: Particles<'_>, out: &mut [f64]) -> Result<()> {
        self.prior.log_density(particles, out);
        Ok(())
    }

    fn approximation(&self, go_on: &mut dyn FnMut() -> Result<bool>) -> Result<Option<NormalApproximation>> {
        self.at_mode(go_on)
    }

    fn fingerprint(&self) -> Result<Option<Fingerprint>> {
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let known = Fingerprint::default().with("X", bits(&self.rows)).with("y", bits(&self.targets));
        let family = format!("{:?}", self.family);
        Ok(Some(known.with("prior_scale", bits(&self.prior.0)).with_text("family", family)))
    }

    fn log_likelihood(&self, particles: Particles<'_>, batch: &[u32], out: &mut [f64]) -> Result<()> {
        let (d, width, outputs) = (self.dimension(), self.width, self.family.outputs());
        let noise: Vec<f64> = particles.iter().map(|theta| theta[d - 1]).collect();
        out.fill(0.0);
        let all = particles.len() * outputs;
        let mut eta = vec![0.0; ROWS * all];
        // Particles as rows of `width` coefficients each; the noise of a Gaussian is left out.
        let coefficients: Vec<f64> =
            particles.iter().flat_map(|theta| &theta[..width * outputs]).copied().collect();
        for batch in batch.chunks(ROWS) {
            let rows: Vec<f64> =
                batch.iter().flat_map(|&n| &self.rows[n as usize * width..][..width]).copied().collect();
            let targets: Vec<f64> = batch.iter().map(|&n| self.targets[n as usize]).collect();
            product(&rows, &coefficients, width, &mut eta[..batch.len() * all]);
            self.add_rows(&eta[..batch.len() * all], &targets, &noise, out);
        }
        if self.family == Family::Gaussian {
            let constant = 0.5 * std::f64::consts::TAU.ln();
            out.iter_mut().zip(noise).for_each(|(out, s)| *out -= batch.len() as f64 * (s + constant));
        }
        Ok(())
    }
}

/// out = A Bᵀ for row-major A (rows × inner) and B (columns × inner).
fn product(a: &[f64], b: &[f64], inner: usize, out: &mut [f64]) {
    let (rows, columns) = (a.len() / inner, b.len() / inner);
    let a = MatRef::from_row_major_slice(a, rows, inner);
    let b = MatRef::from_row_major_slice(b, columns, inner);
    let out = MatMut::from_row_major_slice_mut(out, rows, columns);
    matmul(out, Accum::Replace, a, b.transpose(), 1.0, Par::Seq);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS_OF_X: [f64; 6] = [0.5, -1.0, 2.0, 0.3, -0.7, 1.1];

    /// Every family against its definition, one row and one particle at a time.
    #[test]
    fn likelihoods_are_those_of_the_definitions() {
        let cases = [
            (Family::Gaussian, [0.2, -1.5, 3.0]),
            (Family::Logistic, [0.0, 1.0, 1.0]),
            (Family::Probit, [0.0, 1.0, 1.0]),
            (Family::Softmax(3), [0.0, 2.0, 1.0]),
        ];
        for (family, targets) in cases {
            let model = GeneralisedLinear::new(family, &ROWS_OF_X, 2, &targets, 1.0).unwrap();
            let d = model.dimension();
            let positions: Vec<f64> = (0..2 * d).map(|i| (i as f64 * 0.7).sin()).collect();
            let mut found = [0.0; 2];
            model.log_likelihood(Particles::new(&positions, d).unwrap(), &[2, 0], &mut found).unwrap();
            for (theta, found) in positions.chunks_exact(d).zip(found) {
                let expected: f64 = [2, 0].iter().map(|&n| definition(family, theta, n, targets[n])).sum();
                assert!((found - expected).abs() < 1e-12, "{family:?}: {found} {expected}");
            }
        }
    }

    fn definition(family: Family, theta: &[f64], n: usize, y: f64) -> f64 {
        let eta = |c: usize| {
            theta[3 * c] + theta[3 * c + 1] * ROWS_OF_X[2 * n] + theta[3 * c + 2] * ROWS_OF_X[2 * n + 1]
        };
        match family {
            Family::Gaussian => {
                let s = theta[3].exp();
                -0.5 * ((y - eta(0)) / s).powi(2) - (s * std::f64::consts::TAU.sqrt()).ln()
            }
            Family::Logistic => {
                let p = 1.0 / (1.0 + (-eta(0)).exp());
                if y == 1.0 {
                    p.ln()
                } else {
                    (1.0 - p).ln()
                }
            }
            Family::Probit => log_normal_cdf(if y == 1.0 { eta(0) } else { -eta(0) }),
            Family::Softmax(k) => (eta(y as usize).exp() / (0..k).map(|c| eta(c).exp()).sum::<f64>()).ln(),
        }
    }

    #[test]
    fn targets_and_rows_are_checked() {
        let refused = |family, targets: &[f64]| {
            GeneralisedLinear::new(family, &ROWS_OF_X, 2, targets, 1.0).unwrap_err().to_string()
        };
        assert!(refused(Family::Logistic, &[0.0, 2.0, 1.0]).contains("target 2 at row 1"));
        assert!(refused(Family::Softmax(2), &[0.0, 1.0, 2.0]).contains("row 2"));
        assert!(refused(Family::Gaussian, &[0.0, f64::NAN, 2.0]).contains("row 1"));
        assert!(refused(Family::Gaussian, &[0.0, 1.0]).contains("rows"));
        let wrong = GeneralisedLinear::new(Family::Gaussian, &ROWS_OF_X, 2, &[0.0; 3], 0.0);
        assert!(wrong.unwrap_err().to_string().contains("prior_scale"));
    }
}
