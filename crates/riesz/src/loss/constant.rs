//! Best constants.

use super::{Domain, Loss};

/// Halvings of the interval that holds the best constant.
const HALVINGS: usize = 40;

/// What [`Loss::start`] is unless the loss says otherwise.
pub(super) fn by_domain<L: Loss + ?Sized>(loss: &L, targets: &[f32], weights: &[f32]) -> Vec<f32> {
    let c = loss.outputs();
    let margin = |p: f64| (2.0 * p - 1.0) as f32;
    match loss.domain() {
        Domain::Nothing => vec![0.0; c],
        Domain::Real | Domain::NonNegative => stationary(loss, targets, weights),
        Domain::Sign => vec![margin(share(1.0, targets, weights)); c],
        Domain::Class => (0..c).map(|k| margin(share(k as f32, targets, weights))).collect(),
    }
}

/// Column k of n×t targets, with weights.
pub(crate) fn column(targets: &[f32], weights: &[f32], k: usize, t: usize) -> Vec<(f32, f32)> {
    targets.iter().skip(k).step_by(t).zip(weights).map(|(&y, &w)| (y, w)).collect()
}

/// The share of the weight on targets that are `wanted`, at least 10⁻⁶ and at most 1 − 10⁻⁶.
pub(super) fn share(wanted: f32, targets: &[f32], weights: &[f32]) -> f64 {
    let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
    let own = targets.iter().zip(weights).filter(|(y, _)| **y == wanted);
    (own.map(|(_, &w)| f64::from(w)).sum::<f64>() / total).clamp(1e-6, 1.0 - 1e-6)
}

/// The constant at which the weighted derivatives of a loss cancel that is a sum over outputs: a median, quantile or
/// M-estimate, between the smallest target and the largest.
fn stationary<L: Loss + ?Sized>(loss: &L, targets: &[f32], weights: &[f32]) -> Vec<f32> {
    let (c, t) = (loss.outputs(), loss.targets());
    let least = targets.iter().copied().fold(f32::INFINITY, f32::min);
    let most = targets.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (mut low, mut high, mut slope) = (vec![least; c], vec![most; c], vec![0.0; c]);
    let middle = |low: &[f32], high: &[f32]| low.iter().zip(high).map(|(a, b)| 0.5 * a + 0.5 * b).collect();
    for _ in 0..HALVINGS {
        let u: Vec<f32> = middle(&low, &high);
        let mut sum = vec![0.0; c];
        for (y, &w) in targets.chunks_exact(t).zip(weights) {
            loss.derivative(&u, y, &mut slope);
            sum.iter_mut().zip(&slope).for_each(|(sum, &slope)| *sum += f64::from(w) * f64::from(slope));
        }
        for (k, sum) in sum.into_iter().enumerate() {
            *(if sum > 0.0 { &mut high[k] } else { &mut low[k] }) = u[k];
        }
    }
    middle(&low, &high)
}

#[cfg(test)]
mod tests {
    use super::super::{DensityRatioKl, DensityRatioSquare, LossSpec, Novelty};
    use super::*;

    fn weights() -> Vec<f32> {
        (0..90).map(|i| (i % 4) as f32).collect()
    }

    /// Best constants by their definition: share of mass below a quantile, mean rate, zero sum of clipped residuals.
    #[test]
    fn regression_starts_at_the_best_constant() {
        let (targets, weights): (Vec<f32>, _) = ((0..90).map(|i| (i * i % 37) as f32).collect(), weights());
        let start = |spec: &LossSpec| spec.build(1).unwrap().start(&targets, &weights);
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let mass = |accept: &dyn Fn(f32) -> bool| {
            targets.iter().zip(&weights).filter(|(y, _)| accept(**y)).map(|(_, w)| f64::from(*w)).sum::<f64>()
                / total
        };
        let levels = vec![0.1, 0.5, 0.8];
        for (level, u) in levels.iter().zip(start(&LossSpec::Quantile { levels: levels.clone() })) {
            assert!(mass(&|y| y < u - 1e-3) <= *level && mass(&|y| y <= u + 1e-3) >= *level, "{level}: {u}");
        }
        let mean: f64 = targets.iter().zip(&weights).map(|(y, w)| f64::from(y * w)).sum::<f64>() / total;
        let rate = f64::from(start(&LossSpec::Poisson)[0]).exp();
        assert!((rate / mean - 1.0).abs() < 1e-5, "{rate} vs {mean}");
        assert!((f64::from(start(&LossSpec::Square)[0]) / mean - 1.0).abs() < 1e-6);
        let u = start(&LossSpec::Huber { delta: 5.0 })[0];
        let pull: f32 = targets.iter().zip(&weights).map(|(y, w)| w * (u - y).clamp(-5.0, 5.0)).sum();
        assert!(pull.abs() < 0.1, "{pull}");
    }

    /// The weighted derivatives cancel at the start of a loss whose start is its best constant.
    #[test]
    fn the_start_is_stationary() {
        let stationary = |loss: &dyn Loss, targets: &[f32], weights: &[f32]| {
            let (c, n) = (loss.outputs(), weights.len());
            let (u, mut r) = (loss.start(targets, weights).repeat(n), vec![0.0; n * c]);
            loss.residuals(&u, targets, weights, &mut r);
            for k in 0..c {
                let sum: f32 = r.iter().skip(k).step_by(c).sum();
                assert!(sum.abs() < 1e-3, "{}, {c} outputs, output {k}: {sum}", loss.name());
            }
        };
        for spec in [LossSpec::Softmax, LossSpec::Logistic, LossSpec::SquaredHinge] {
            for classes in [2, 4] {
                let targets: Vec<f32> = (0..90).map(|i| spec.encode(classes, i * i % 7 % classes)).collect();
                stationary(&*spec.build(classes).unwrap(), &targets, &weights());
            }
        }
        let signs: Vec<f32> = (0..90).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect();
        stationary(&DensityRatioKl, &signs, &weights());
        stationary(&DensityRatioSquare, &signs, &weights());
        assert_eq!(Novelty { level: 1.0 }.start(&[], &weights()), [0.0]);
    }

    /// Means, medians and rates of what a stream begins with; no opinion about classes, nor about rates not seen.
    #[test]
    fn a_stream_of_numbers_starts_at_their_best_constant() {
        let start = |spec: LossSpec, size: usize, targets: &[f32], weights: &[f32]| {
            spec.build(size).unwrap().stream_start(targets, weights)
        };
        let (y, w) = ([1.0, 50.0, 3.0, 70.0, 9.0, 90.0], [1.0, 1.0, 2.0]);
        assert_eq!(start(LossSpec::Square, 2, &y, &w), [5.5, 75.0]);
        let median = start(LossSpec::Absolute, 1, &[1.0, 5.0, 100.0], &[1.0, 3.0, 1.0])[0];
        assert!((median - 5.0).abs() < 0.1, "{median}");
        let rate = |y: &[f32]| start(LossSpec::Poisson, 1, y, &[1.0; 4])[0].exp();
        assert!((rate(&[0.0, 4.0, 4.0, 4.0]) - 3.0).abs() < 1e-5 && (rate(&[0.0; 4]) - 0.25).abs() < 1e-6);
        assert!((rate(&[4e-6; 4]) / 4e-6 - 1.0).abs() < 1e-5);
        assert_eq!(start(LossSpec::Softmax, 3, &[1.0; 3], &w), [0.0; 3]);
    }
}
