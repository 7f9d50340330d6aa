//! The marginal likelihood and its gradient.

use super::covariance::{add_noise, Hyperparameters, Points};
use super::family::Family;
use crate::linalg::quasi_newton::Height;
use crate::linalg::{dot, Cholesky};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use std::f64::consts::TAU;
use std::ops::Range;

/// log N(y; 0, C) with C = K + σ²I, and what its gradient is made of: a third of the cost of both.
pub(crate) struct Evidence {
    h: Hyperparameters,
    points: Points,
    /// K, lower triangle.
    kernel: Mat<f64>,
    /// What the derivative in log ℓ_c has in front of (z_c − z'_c)², where that is not K.
    slopes: Option<Mat<f64>>,
    /// L with L Lᵀ = C.
    factor: Cholesky,
    /// α = C⁻¹y.
    alpha: Vec<f64>,
    value: f64,
}

impl Evidence {
    /// Of `rows` (n×d, centred) and n `targets`. `None` where C is not positive definite to rounding.
    pub(crate) fn new(family: Family, h: Hyperparameters, rows: &[f64], targets: &[f64]) -> Option<Self> {
        let points = Points::new(rows, &vec![0.0; h.length_scales.len()], &h.length_scales);
        let kernel = family.symmetric(h.signal, &points, false);
        let slopes = (family != Family::Gaussian).then(|| family.symmetric(h.signal, &points, true));
        let mut c = kernel.clone();
        add_noise(&mut c, h.noise);
        let factor = Cholesky::new(c)?;
        let alpha = factor.solve(targets);
        let value = gaussian_log_density(dot(targets, &alpha), factor.log_det(), targets.len());
        value.is_finite().then_some(Self { h, points, kernel, slopes, factor, alpha, value })
    }

    /// A panel's part of the gradient; in place of the second entry its part of tr C⁻¹.
    fn part(&self, columns: Range<usize>, mut panel: Mat<f64>, moments: MatRef<'_, f64>) -> Vec<f64> {
        let (n, d, from) = (self.alpha.len(), self.h.length_scales.len(), columns.start);
        let mut out = vec![0.0; 2 + d];
        for j in columns.clone() {
            let (above, column) = panel.col_as_slice_mut(j - from).split_at_mut(j - from);
            above.fill(0.0);
            out[1] += column[0];
            let (alpha, kernel) = (&self.alpha[j..], &self.kernel.col_as_slice(j)[j..]);
            out[0] += 0.5 * (alpha[0] * alpha[0] - column[0]) * kernel[0];
            column.iter_mut().zip(alpha).for_each(|(w, a)| *w = alpha[0] * a - *w);
            if let Some(slopes) = &self.slopes {
                out[0] += dot(&column[1..], &kernel[1..]);
                column.iter_mut().zip(&slopes.col_as_slice(j)[j..]).for_each(|(w, g)| *w *= g);
            } else {
                column.iter_mut().zip(kernel).for_each(|(w, k)| *w *= k);
            }
            column[0] = 0.0;
        }
        let mut sums = Mat::<f64>::zeros(2 * d + 1, columns.len());
        let moments = moments.subcols(from, n - from);
        matmul(sums.as_mut(), Accum::Replace, moments, panel.as_ref(), 1.0, Par::Seq);
        for j in columns {
            let (sums, z) = (sums.col_as_slice(j - from), self.points.row(j));
            if self.slopes.is_none() {
                out[0] += sums[0];
            }
            for c in 0..d {
                out[2 + c] += sums[1 + d + c] - 2.0 * z[c] * sums[1 + c] + z[c] * z[c] * sums[0];
            }
        }
        out
    }
}

impl Height for Evidence {
    /// −½ (yᵀα + log det C + n log 2π).
    fn value(&self) -> f64 {
        self.value
    }

    /// In (log s², log σ², log ℓ_1, log ℓ_2, …). With α = C⁻¹y and W = (ααᵀ − C⁻¹)∘K (in the last line the slopes of a
    /// kernel that is not Gaussian in place of K):
    ///
    /// ```text
    /// ∂ log s² = ½ Σ_ij W_ij
    /// ∂ log σ² = ½ σ² (αᵀα − tr C⁻¹)
    /// ∂ log ℓ  = ½ Σ_ij W_ij (z_i − z_j)²,   z = x/ℓ
    /// ```
    ///
    /// W is never whole: a panel of columns j and of its rows i > j gives Σ_i W_ij (1, z_i, z_i²), and that is enough
    /// because (z_i − z_j)² = z_i² − 2 z_i z_j + z_j². Panels are added in order. `None` where it is not finite.
    fn gradient(&self) -> Option<Vec<f64>> {
        let (n, d) = (self.alpha.len(), self.h.length_scales.len());
        let moments = Mat::from_fn(2 * d + 1, n, |r, i| match r {
            0 => 1.0,
            r if r <= d => self.points.row(i)[r - 1],
            r => self.points.row(i)[r - 1 - d].powi(2),
        });
        let parts = self.factor.map_inverse(|columns, panel| self.part(columns, panel, moments.as_ref()));
        let mut total = vec![0.0; 2 + d];
        parts.iter().for_each(|part| total.iter_mut().zip(part).for_each(|(t, p)| *t += p));
        total[1] = 0.5 * self.h.noise * (dot(&self.alpha, &self.alpha) - total[1]);
        total.iter().all(|g| g.is_finite()).then_some(total)
    }
}

/// log N(y; 0, K + σ²I), and its gradient in (log s², log σ², log ℓ_1, log ℓ_2, …).
///
/// `rows` are n×d and centred, `targets` n. `None` where K + σ²I is not positive definite to rounding.
pub fn log_marginal_likelihood(
    h: &Hyperparameters,
    rows: &[f64],
    targets: &[f64],
) -> Option<(f64, Vec<f64>)> {
    let evidence = Evidence::new(Family::Gaussian, h.clone(), rows, targets)?;
    Some((evidence.value(), evidence.gradient()?))
}

/// −½ (misfit + log det + n log 2π).
pub(crate) fn gaussian_log_density(misfit: f64, log_det: f64, n: usize) -> f64 {
    -0.5 * (misfit + log_det + n as f64 * TAU.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> (Hyperparameters, Vec<f64>, Vec<f64>) {
        let n = 30;
        let rows: Vec<f64> = (0..3 * n).map(|i| (i as f64 * 0.77).sin()).collect();
        let targets = (0..n).map(|i| rows[3 * i] + (i as f64 * 1.3).cos()).collect();
        (Hyperparameters { signal: 1.7, noise: 0.2, length_scales: vec![0.5, 1.0, 2.5] }, rows, targets)
    }

    fn shifted(h: &Hyperparameters, which: usize, by: f64) -> Hyperparameters {
        let mut h = h.clone();
        match which {
            0 => h.signal *= f64::exp(by),
            1 => h.noise *= f64::exp(by),
            c => h.length_scales[c - 2] *= f64::exp(by),
        }
        h
    }

    /// Central differences of step 1e-5 are good to about 1e-10 of the third derivative and 1e-11 of the value.
    #[test]
    fn the_gradient_is_that_of_the_value() {
        let (h, rows, targets) = problem();
        let (_, gradient) = log_marginal_likelihood(&h, &rows, &targets).unwrap();
        for (which, g) in gradient.iter().enumerate() {
            let at = |by| log_marginal_likelihood(&shifted(&h, which, by), &rows, &targets).unwrap().0;
            let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((difference - g).abs() < 1e-6 * g.abs().max(1.0), "{which}: {difference} vs {g}");
        }
    }

    /// Squared distances of a row to itself round to 1e-16, hence distances to 1e-8, which the kink of Matérn ½ passes on to
    /// the value: a step of 1e-3 leaves 1e-5 of that and 1e-6 of the third derivative.
    #[test]
    fn so_are_those_of_the_matern_kernels() {
        let (h, rows, targets) = problem();
        for family in [Family::Matern12, Family::Matern32, Family::Matern52] {
            let of = |h| Evidence::new(family, h, &rows, &targets).unwrap();
            let gradient = of(h.clone()).gradient().unwrap();
            for (which, g) in gradient.iter().enumerate() {
                let at = |by| of(shifted(&h, which, by)).value();
                let difference = (at(1e-3) - at(-1e-3)) / 2e-3;
                assert!(
                    (difference - g).abs() < 1e-4 * g.abs().max(1.0),
                    "{family:?} {which}: {difference} vs {g}"
                );
            }
        }
    }

    #[test]
    fn one_row_has_the_density_of_a_normal() {
        let h = Hyperparameters { signal: 1.0, noise: 0.5, length_scales: vec![1.0] };
        let (value, gradient) = log_marginal_likelihood(&h, &[0.3], &[0.7]).unwrap();
        let expected = -0.5 * (0.49 / 1.5 + 1.5_f64.ln() + TAU.ln());
        assert!((value - expected).abs() < 1e-14);
        assert_eq!(gradient[2], 0.0);
    }
}
