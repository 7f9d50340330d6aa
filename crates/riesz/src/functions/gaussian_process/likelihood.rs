//! The marginal likelihood and its gradient.

use super::covariance::{add_noise, kernel_matrix, Hyperparameters, Points};
use super::factor::{dot, Factor};
use faer::Mat;
use rayon::prelude::*;
use std::f64::consts::TAU;

/// log N(y; 0, C) with C = K + σ²I, and its gradient in (log s², log σ², log ℓ_1, log ℓ_2, …).
///
/// With α = C⁻¹y and W = (ααᵀ − C⁻¹)∘K:
///
/// ```text
/// value    = −½ (yᵀα + log det C + n log 2π)
/// ∂ log s² = ½ Σ_ij W_ij
/// ∂ log σ² = ½ σ² (αᵀα − tr C⁻¹)
/// ∂ log ℓ  = ½ Σ_ij W_ij (z_i − z_j)² = Σ_i z_i² (W1)_i − zᵀWz,   z = x/ℓ
/// ```
///
/// `rows` are n×d and centred, `targets` n. `None` where C is not positive definite to rounding.
pub fn log_marginal_likelihood(
    h: &Hyperparameters,
    rows: &[f64],
    targets: &[f64],
) -> Option<(f64, Vec<f64>)> {
    let (n, d) = (targets.len(), h.length_scales.len());
    let points = Points::new(rows, &vec![0.0; d], &h.length_scales);
    let k = kernel_matrix(h.signal, &points, &points);
    let mut c = k.clone();
    add_noise(&mut c, h.noise);
    let factor = Factor::new(c)?;
    let alpha = factor.solve(targets);
    let value = gaussian_log_density(dot(targets, &alpha), factor.log_det(), n);
    let inverse = factor.inverse();
    let trace: f64 = (0..n).map(|i| inverse[(i, i)]).sum();

    // W below the diagonal, and half of it on the diagonal: W = H + Hᵀ.
    let mut half = k;
    half.par_col_iter_mut().enumerate().for_each(|(j, column)| {
        for (i, w) in column.iter_mut().enumerate() {
            let q = if i < j { 0.0 } else { alpha[i] * alpha[j] - inverse[(i, j)] };
            *w *= if i == j { 0.5 * q } else { q };
        }
    });
    let ones = Mat::from_fn(n, 1, |_, _| 1.0);
    let sums = (&half * &ones) + (half.transpose() * &ones);
    let z = points.matrix().transpose();
    let hz = &half * z;
    let mut gradient =
        vec![0.5 * (0..n).map(|i| sums[(i, 0)]).sum::<f64>(), 0.5 * h.noise * (dot(&alpha, &alpha) - trace)];
    gradient.extend((0..d).map(|c| {
        let spread: f64 = (0..n).map(|i| z[(i, c)].powi(2) * sums[(i, 0)]).sum();
        let cross: f64 = (0..n).map(|i| z[(i, c)] * hz[(i, c)]).sum();
        spread - 2.0 * cross
    }));
    (value.is_finite() && gradient.iter().all(|g| g.is_finite())).then_some((value, gradient))
}

/// −½ (misfit + log det + n log 2π).
pub(super) fn gaussian_log_density(misfit: f64, log_det: f64, n: usize) -> f64 {
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

    #[test]
    fn one_row_has_the_density_of_a_normal() {
        let h = Hyperparameters { signal: 1.0, noise: 0.5, length_scales: vec![1.0] };
        let (value, gradient) = log_marginal_likelihood(&h, &[0.3], &[0.7]).unwrap();
        let expected = -0.5 * (0.49 / 1.5 + 1.5_f64.ln() + TAU.ln());
        assert!((value - expected).abs() < 1e-14);
        assert_eq!(gradient[2], 0.0);
    }
}
