//! Bandwidth, scaling and noise of small data by the evidence of a Gaussian process.

use super::training::effective_rows;
use crate::compute::{self, Device};
use crate::data::Rows;
use crate::error::Result;
use crate::kernel::FeatureMap;
use crate::linalg::cholesky::add_product;
use crate::linalg::Cholesky;
use crate::loss::{Domain, Loss};
use crate::random::BlockIndex;
use faer::Mat;

/// Noise variances tried, relative to the variance of the targets.
const NOISES: [f64; 7] = [1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0];

/// The best noise s² for the features of `map`, and the log evidence there, summed over the C centred outputs.
///
/// With A = ΦᵀWΦ, b = ΦᵀWy and N = Σw, the evidence of y = Φα + noise with α ~ N(0, I/m) is
///
/// ```text
/// −½ [ (yᵀWy − bᵀ(m s² I + A)⁻¹ b)/s² + log det(I + A/(m s²)) + N log s² ],
/// ```
///
/// which depends on the rows through weighted sums alone: weights are exactly equivalent to repeated rows.
pub(crate) fn log_evidence(
    map: &FeatureMap,
    rows: Rows<'_>,
    y: &[f64],
    weights: &[f32],
) -> Result<(f64, f64)> {
    let (m, n) = (map.block_size, rows.len());
    let outputs = y.len() / n;
    let mut phi = vec![0.0_f32; n * m];
    compute::features(Device::default(), &map.draw(BlockIndex(0))?, rows, &mut phi)?;
    let weighted = Mat::from_fn(m, n, |j, i| f64::from(phi[i * m + j]) * f64::from(weights[i]));
    let plain = Mat::from_fn(n, m, |i, j| f64::from(phi[i * m + j]));
    let targets = Mat::from_fn(n, outputs, |i, c| y[i * outputs + c]);
    let (mut a, mut b) = (Mat::zeros(m, m), Mat::zeros(m, outputs));
    add_product(&mut a, 1.0, weighted.as_ref(), plain.as_ref());
    add_product(&mut b, 1.0, weighted.as_ref(), targets.as_ref());
    let energy: f64 = (0..n * outputs).map(|i| f64::from(weights[i / outputs]) * y[i] * y[i]).sum();
    let rows_in_effect = effective_rows(weights);
    let best = NOISES.iter().filter_map(|&noise| {
        let shift = m as f64 * noise;
        let (mut system, mut whitened) = (a.clone(), b.clone());
        (0..m).for_each(|j| system[(j, j)] += shift);
        let factor = Cholesky::new(system)?;
        let log_det = factor.log_det() - m as f64 * shift.ln();
        // bᵀ(L Lᵀ)⁻¹b = ‖L⁻¹b‖².
        factor.forward(whitened.as_mut());
        let explained = whitened.squared_norm_l2();
        let misfit = (energy - explained).max(0.0) / noise;
        let evidence = -0.5 * (misfit + outputs as f64 * (log_det + rows_in_effect * noise.ln()));
        Some((noise, evidence))
    });
    let start = (NOISES[NOISES.len() - 1], f64::NEG_INFINITY);
    Ok(best.fold(start, |best, next| if next.1 > best.1 { next } else { best }))
}

/// Targets as the square loss sees them, n×C, less their weighted mean: ±1 per class; numbers of variance one.
pub(crate) fn square_targets(loss: &dyn Loss, targets: &[f32], weights: &[f32]) -> Vec<f64> {
    let (n, domain) = (weights.len(), loss.domain());
    let c = if domain == Domain::Class { loss.outputs() } else { loss.targets() };
    let value = |i: usize| match domain {
        Domain::Class if targets[i / c] as usize == i % c => 1.0,
        Domain::Class => -1.0,
        _ => loss.square_target(targets[i]),
    };
    let mut y: Vec<f64> = (0..n * c).map(value).collect();
    let total = effective_rows(weights);
    for k in 0..c {
        let mean_of = |y: &[f64], power: i32| {
            let terms = y.iter().skip(k).step_by(c).zip(weights);
            terms.map(|(y, &w)| f64::from(w) * y.powi(power)).sum::<f64>() / total
        };
        let mean = mean_of(&y, 1);
        y.iter_mut().skip(k).step_by(c).for_each(|y| *y -= mean);
        let variance = mean_of(&y, 2);
        if !domain.is_class() && variance > 0.0 {
            y.iter_mut().skip(k).step_by(c).for_each(|y| *y /= variance.sqrt());
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{KernelSpec, Scaling};
    use crate::loss::LossSpec;
    use crate::random::Seed;
    use faer::linalg::solvers::{Llt, Solve};
    use faer::Side;

    #[test]
    fn targets_are_centred_numbers_of_variance_one_or_signs_of_classes() {
        let of = |loss: &str, size: usize, y: &[f32], w: &[f32]| {
            square_targets(&*loss.parse::<LossSpec>().unwrap().build(size).unwrap(), y, w)
        };
        assert_eq!(of("absolute", 1, &[2.0, 900.0, 7.0], &[1.0, 1.0, 0.0]), [-1.0, 1.0, 1.0]);
        assert_eq!(of("poisson", 1, &[1.0, 9.0], &[1.0; 2]), [-1.0, 1.0]);
        assert_eq!(of("huber", 1, &[5.0; 2], &[1.0; 2]), [0.0; 2]);
        assert_eq!(of("hinge", 2, &[-1.0, 1.0], &[1.0, 3.0]), [-1.5, 0.5]);
        assert_eq!(of("softmax", 3, &[2.0, 0.0], &[1.0; 2]), [-1.0, 0.0, 1.0, 1.0, 0.0, -1.0]);
    }

    /// Against −½ (yᵀC⁻¹y + log det C), C = ΦΦᵀ/m + s²I, with every row as often as its weight says.
    #[test]
    fn is_the_log_density_of_the_repeated_targets() {
        let (n, m, outputs) = (12, 64, 2);
        let x: Vec<f32> = (0..2 * n).map(|i| ((i * 29) % 17) as f32 / 8.0 - 1.0).collect();
        let weights: Vec<f32> = (0..n).map(|i| (i % 4) as f32).collect();
        let map = FeatureMap::new(KernelSpec::Gaussian, 0.8, m, Seed(1), Scaling::identity(2)).unwrap();
        let rows = Rows::single(&x, 2).unwrap();
        let mut phi = vec![0.0; n * m];
        compute::features(Device::default(), &map.draw(BlockIndex(0)).unwrap(), rows, &mut phi).unwrap();
        let copies: Vec<usize> = (0..n).flat_map(|i| std::iter::repeat_n(i, i % 4)).collect();
        for roughness in [0.1, 3.0] {
            let y: Vec<f64> = (0..n * outputs).map(|i| (roughness * (i * i) as f64).sin()).collect();
            let exact = |noise: f64| {
                let covariance = Mat::from_fn(copies.len(), copies.len(), |a, b| {
                    let (p, q) = (&phi[copies[a] * m..][..m], &phi[copies[b] * m..][..m]);
                    let k =
                        p.iter().zip(q).map(|(p, q)| f64::from(*p) * f64::from(*q)).sum::<f64>() / m as f64;
                    k + if a == b { noise } else { 0.0 }
                });
                let factor = Llt::new(covariance.as_ref(), Side::Lower).unwrap();
                let log_det: f64 = (0..copies.len()).map(|i| 2.0 * factor.L()[(i, i)].ln()).sum();
                let targets = Mat::from_fn(copies.len(), outputs, |a, c| y[copies[a] * outputs + c]);
                let solved = factor.solve(&targets);
                let misfit: f64 = (0..copies.len() * outputs)
                    .map(|i| targets[(i / outputs, i % outputs)] * solved[(i / outputs, i % outputs)])
                    .sum();
                -0.5 * (misfit + outputs as f64 * log_det)
            };
            let best = NOISES.iter().map(|&s| (s, exact(s))).max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            let (noise, evidence) = log_evidence(&map, rows, &y, &weights).unwrap();
            assert_eq!(noise, best.0, "roughness {roughness}");
            assert!((evidence - best.1).abs() < 1e-6 * best.1.abs().max(1.0), "{evidence} vs {}", best.1);
        }
    }
}
