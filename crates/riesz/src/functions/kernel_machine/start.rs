//! Where a fit starts: targets on a common scale, and the best constant function.

use super::options::Task;
use super::training::effective_rows;
use crate::loss::{Loss, LossSpec};

/// The interquartile range of a standard normal variable.
const NORMAL_RANGE: f64 = 1.349;
/// The unit of quantiles of a constant, relative to it.
const CONSTANT: f64 = 1e-6;
/// Halvings of the interval that holds the best constant.
const HALVINGS: usize = 40;

/// Regression targets on a common scale, and the way back; class indices and counts as they are. The square loss gets
/// weighted mean zero and variance one. Losses that are linear in a residual get median and interquartile range of a
/// standard normal variable, which outliers do not move.
///
/// The unit of a constant is one, but for quantiles: rounding their kink moves them by a part of the unit, which is
/// therefore small.
pub(crate) fn standardise(
    targets: &[f32],
    weights: &[f32],
    task: Task,
    spec: &LossSpec,
) -> (Vec<f32>, Vec<(f64, f64)>) {
    let Task::Regression(c) = task else { return (targets.to_vec(), Vec::new()) };
    if *spec == LossSpec::Poisson {
        return (targets.to_vec(), Vec::new());
    }
    let unit = |k: usize| {
        let column: Vec<(f32, f32)> =
            targets.iter().skip(k).step_by(c).zip(weights).map(|(&y, &w)| (y, w)).collect();
        let (centre, spread) = if spec.is_linear() { by_quartiles(column) } else { by_moments(&column) };
        let unit = match spec {
            _ if spread > 0.0 => spread,
            LossSpec::Quantile { .. } => (CONSTANT * centre.abs()).max(CONSTANT * CONSTANT),
            _ => 1.0,
        };
        (centre, unit)
    };
    let units: Vec<(f64, f64)> = (0..c).map(unit).collect();
    let scaled = |(i, &y): (usize, &f32)| ((f64::from(y) - units[i % c].0) / units[i % c].1) as f32;
    (targets.iter().enumerate().map(scaled).collect(), units)
}

/// Mean and standard deviation of weighted numbers, 0 for a constant to rounding.
fn by_moments(column: &[(f32, f32)]) -> (f64, f64) {
    let total: f64 = column.iter().map(|(_, w)| f64::from(*w)).sum();
    let mean_of = |f: &dyn Fn(f64) -> f64| {
        column.iter().map(|(y, w)| f64::from(*w) * f(f64::from(*y))).sum::<f64>() / total
    };
    let mean = mean_of(&|y| y);
    let deviation = mean_of(&|y| (y - mean).powi(2)).sqrt();
    (mean, if deviation > 1e-12 * mean.abs() { deviation } else { 0.0 })
}

/// Median and scaled interquartile range of weighted numbers; their deviation where half of them are equal.
fn by_quartiles(mut column: Vec<(f32, f32)>) -> (f64, f64) {
    column.retain(|(_, w)| *w > 0.0);
    column.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = column.iter().map(|(_, w)| f64::from(*w)).sum();
    let quantile = |level: f64| {
        let mut mass = 0.0;
        let reaches = |(_, w): &&(f32, f32)| {
            mass += f64::from(*w);
            mass >= level * total
        };
        f64::from(column.iter().find(reaches).or(column.last()).map_or(0.0, |(y, _)| *y))
    };
    let (median, range) = (quantile(0.5), quantile(0.75) - quantile(0.25));
    let scale = if range > 1e-12 * median.abs() { range / NORMAL_RANGE } else { by_moments(&column).1 };
    (median, scale)
}

/// The best constant function.
pub(crate) fn initial_offset(spec: &LossSpec, loss: &dyn Loss, targets: &[f32], weights: &[f32]) -> Vec<f32> {
    let c = loss.outputs();
    match spec {
        LossSpec::Square => return vec![0.0; c],
        LossSpec::Poisson => return log_means(c, targets, weights),
        _ if spec.is_linear() => return stationary(loss, targets, weights),
        _ => {}
    }
    let total = effective_rows(weights);
    let share = |wanted: f32| {
        let mass: f64 =
            targets.iter().zip(weights).filter(|(y, _)| **y == wanted).map(|(_, &w)| f64::from(w)).sum();
        (mass / total).clamp(1e-6, 1.0 - 1e-6)
    };
    let best = |p: f64| match spec {
        LossSpec::Softmax if c > 1 => p.ln(),
        LossSpec::Softmax | LossSpec::Logistic => (p / (1.0 - p)).ln(),
        _ => 2.0 * p - 1.0,
    };
    (0..c).map(|k| best(share(if c == 1 { 1.0 } else { k as f32 })) as f32).collect()
}

/// Where a stream starts, by its first rows: at the best constant for numbers. Rates start no lower than one event in
/// all rows, and classes at zero, since what has not been seen may be yet to come.
pub(crate) fn first_offset(
    spec: &LossSpec,
    loss: &dyn Loss,
    task: Task,
    targets: &[f32],
    weights: &[f32],
) -> Vec<f32> {
    let c = loss.outputs();
    let mean = |k: usize| {
        let column: Vec<_> = targets.iter().skip(k).step_by(c).zip(weights).map(|(&y, &w)| (y, w)).collect();
        by_moments(&column).0 as f32
    };
    match (task, spec) {
        (Task::Classification(_), _) => vec![0.0; c],
        (_, LossSpec::Square) => (0..c).map(mean).collect(),
        (_, LossSpec::Poisson) => {
            let least = -(effective_rows(weights).max(1.0).ln()) as f32;
            log_means(c, targets, weights).into_iter().map(|u| u.max(least)).collect()
        }
        _ => stationary(loss, targets, weights),
    }
}

/// Logarithms of the weighted means of counts; of 10⁻⁶ where there are none.
fn log_means(c: usize, targets: &[f32], weights: &[f32]) -> Vec<f32> {
    let mean = |k| {
        let terms = targets.iter().skip(k).step_by(c).zip(weights);
        terms.map(|(&y, &w)| f64::from(y) * f64::from(w)).sum::<f64>() / effective_rows(weights)
    };
    (0..c)
        .map(mean)
        .map(|mean: f64| if mean > 0.0 { mean.ln() } else { -6.0 * std::f64::consts::LN_10 } as f32)
        .collect()
}

/// The constant at which the weighted derivatives of a loss cancel that is a sum over outputs: a median, quantile or
/// M-estimate, between the smallest target and the largest.
fn stationary(loss: &dyn Loss, targets: &[f32], weights: &[f32]) -> Vec<f32> {
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
    use super::*;

    #[test]
    fn standardised_targets_come_back_in_their_units() {
        let targets: Vec<f32> =
            (0..60).map(|i| if i % 2 == 0 { 1e3 + (i % 7) as f32 } else { -5.0 }).collect();
        let weights: Vec<f32> = (0..30).map(|i| (i % 3) as f32).collect();
        let (scaled, units) = standardise(&targets, &weights, Task::Regression(2), &LossSpec::Square);
        let mean_of = |k: usize, p: i32| {
            (0..30).map(|i| f64::from(weights[i]) * f64::from(scaled[2 * i + k]).powi(p)).sum::<f64>()
                / effective_rows(&weights)
        };
        assert!(mean_of(0, 1).abs() < 1e-6 && (mean_of(0, 2) - 1.0).abs() < 1e-6);
        // A constant target stays at zero, not at 0/0.
        assert!(scaled.iter().skip(1).step_by(2).all(|&y| y == 0.0));
        for (i, y) in targets.iter().enumerate() {
            let back = units[i % 2].0 + units[i % 2].1 * f64::from(scaled[i]);
            assert!((back - f64::from(*y)).abs() < 1e-3);
        }
    }

    /// An outlier moves neither the location nor the scale that a robust loss sees, and a weight is a repetition.
    #[test]
    fn outliers_do_not_set_the_scale_of_robust_losses() {
        let mut targets: Vec<f32> = (0..101).map(|i| 3.0 + i as f32).collect();
        let units = |targets: &[f32], weights: &[f32]| {
            standardise(targets, weights, Task::Regression(1), &LossSpec::Absolute).1[0]
        };
        let clean = units(&targets, &[1.0; 101]);
        assert!((clean.0 - 53.0).abs() < 1e-6 && (clean.1 - 50.0 / NORMAL_RANGE).abs() < 1e-6, "{clean:?}");
        targets[100] = 1e9;
        assert_eq!(units(&targets, &[1.0; 101]), clean);
        assert_eq!(units(&[1.0, 2.0, 3.0], &[1.0, 0.0, 3.0]), units(&[1.0, 3.0, 3.0, 3.0], &[1.0; 4]));
        // Half of the targets equal: the deviation instead of a range of zero. All equal: one, or little for quantiles.
        assert!((units(&[0.0, 0.0, 0.0, 4.0], &[1.0; 4]).1 - 3f64.sqrt()).abs() < 1e-6);
        assert_eq!(units(&[7.0; 5], &[1.0; 5]), (7.0, 1.0));
        let quantile = LossSpec::Quantile { levels: vec![0.1] };
        let of = |y: f32| standardise(&[y; 5], &[1.0; 5], Task::Regression(1), &quantile).1[0];
        assert_eq!((of(-7.0), of(0.0)), ((-7.0, 7.0 * CONSTANT), (0.0, CONSTANT * CONSTANT)));
    }

    /// Means, medians and rates of what a stream begins with; no opinion about classes, nor about rates not seen.
    #[test]
    fn a_stream_of_numbers_starts_at_their_best_constant() {
        let offset = |spec: LossSpec, task: Task, targets: &[f32], weights: &[f32]| {
            let (Task::Regression(size) | Task::Classification(size)) = task;
            first_offset(&spec, &*spec.build(size).unwrap(), task, targets, weights)
        };
        let (y, w) = ([1.0, 50.0, 3.0, 70.0, 9.0, 90.0], [1.0, 1.0, 2.0]);
        assert_eq!(offset(LossSpec::Square, Task::Regression(2), &y, &w), [5.5, 75.0]);
        let median = offset(LossSpec::Absolute, Task::Regression(1), &[1.0, 5.0, 100.0], &[1.0, 3.0, 1.0])[0];
        assert!((median - 5.0).abs() < 0.1, "{median}");
        let rate = |y: &[f32]| offset(LossSpec::Poisson, Task::Regression(1), y, &[1.0; 4])[0].exp();
        assert!((rate(&[0.0, 4.0, 4.0, 4.0]) - 3.0).abs() < 1e-5 && (rate(&[0.0; 4]) - 0.25).abs() < 1e-6);
        assert_eq!(offset(LossSpec::Softmax, Task::Classification(3), &[1.0; 3], &w), [0.0; 3]);
    }

    /// Best constants by their definition: share of mass below a quantile, mean rate, zero sum of clipped residuals.
    #[test]
    fn regression_starts_at_the_best_constant() {
        let targets: Vec<f32> = (0..90).map(|i| (i * i % 37) as f32).collect();
        let weights: Vec<f32> = (0..90).map(|i| (i % 4) as f32).collect();
        let offset = |spec: &LossSpec| initial_offset(spec, &*spec.build(1).unwrap(), &targets, &weights);
        let total = effective_rows(&weights);
        let mass = |accept: &dyn Fn(f32) -> bool| {
            targets.iter().zip(&weights).filter(|(y, _)| accept(**y)).map(|(_, w)| f64::from(*w)).sum::<f64>()
                / total
        };
        let levels = vec![0.1, 0.5, 0.8];
        for (level, u) in levels.iter().zip(offset(&LossSpec::Quantile { levels: levels.clone() })) {
            assert!(mass(&|y| y < u - 1e-3) <= *level && mass(&|y| y <= u + 1e-3) >= *level, "{level}: {u}");
        }
        let rate = f64::from(offset(&LossSpec::Poisson)[0]).exp();
        let mean: f64 = targets.iter().zip(&weights).map(|(y, w)| f64::from(y * w)).sum::<f64>() / total;
        assert!((rate / mean - 1.0).abs() < 1e-5, "{rate} vs {mean}");
        let u = offset(&LossSpec::Huber { delta: 5.0 })[0];
        let pull: f32 = targets.iter().zip(&weights).map(|(y, w)| w * (u - y).clamp(-5.0, 5.0)).sum();
        assert!(pull.abs() < 0.1, "{pull}");
        assert!(log_means(1, &[0.0; 3], &[1.0; 3])[0].is_finite());
    }

    /// The offset is the best constant: the weighted derivatives of the loss cancel there.
    #[test]
    fn the_offset_is_stationary() {
        for spec in [LossSpec::Softmax, LossSpec::Logistic, LossSpec::SquaredHinge] {
            for classes in [2, 4] {
                let loss = spec.build(classes).unwrap();
                let c = loss.outputs();
                let targets: Vec<f32> = (0..90).map(|i| spec.encode(classes, i * i % 7 % classes)).collect();
                let weights: Vec<f32> = (0..90).map(|i| (i % 4) as f32).collect();
                let offset = initial_offset(&spec, &*loss, &targets, &weights);
                let (u, mut r) = (offset.repeat(90), vec![0.0; 90 * c]);
                loss.residuals(&u, &targets, &weights, &mut r);
                for k in 0..c {
                    let sum: f32 = r.iter().skip(k).step_by(c).sum();
                    assert!(sum.abs() < 1e-3, "{spec}, {classes} classes, output {k}: {sum}");
                }
            }
        }
    }
}
