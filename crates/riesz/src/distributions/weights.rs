//! Weights of particles: effective number, resampling, and the generalised Pareto distribution of the largest.

use super::special::log_sum_exp;
use crate::random::{uniform_open, Address, BlockIndex, Seed, Stream};
use rayon::prelude::*;

/// Weights that sum to one; all zero where every log-weight is −∞.
pub fn normalised(log_weights: &[f64]) -> Vec<f64> {
    let total = log_sum_exp(log_weights);
    log_weights.iter().map(|w| if total == f64::NEG_INFINITY { 0.0 } else { (w - total).exp() }).collect()
}

/// The effective number of particles (Σw)²/Σw², between 1 and m; 0 where every weight is zero.
pub fn effective_size(log_weights: &[f64]) -> f64 {
    let squares: f64 = normalised(log_weights).iter().map(|w| w * w).sum();
    if squares > 0.0 {
        squares.recip()
    } else {
        0.0
    }
}

/// Indices of `count` particles by systematic resampling: particle i is taken ⌊count·w_i⌋ or ⌈count·w_i⌉ times, in
/// increasing order. `weights` sum to one.
pub fn systematic(weights: &[f64], count: usize, address: Address) -> Vec<usize> {
    let offset = uniform_open(address.words(0)[0]);
    let mut cumulative = 0.0;
    let mut chosen = Vec::with_capacity(count);
    for (i, w) in weights.iter().enumerate() {
        cumulative += w;
        while chosen.len() < count && (chosen.len() as f64 + offset) < cumulative * count as f64 {
            chosen.push(i);
        }
    }
    // What rounding left over belongs to the last particle that has weight.
    let last = weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
    chosen.resize(count, last);
    chosen
}

/// The largest λ in [0, 1] for which weights `log_weights` + λ·`increments` keep an effective number of `target`, by
/// bisection to nine digits; 0 where they have fewer for every λ > 0.
pub fn step_for_size(log_weights: &[f64], increments: &[f64], target: f64) -> f64 {
    let size = |lambda: f64| {
        // 0·(−∞) would be NaN: a particle of no likelihood has no weight for any λ > 0.
        let moved: Vec<f64> = log_weights
            .iter()
            .zip(increments)
            .map(|(w, g)| if lambda == 0.0 { *w } else { w + lambda * g })
            .collect();
        effective_size(&moved)
    };
    if size(1.0) >= target {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 1e-9 * high && high > f64::MIN_POSITIVE {
        let middle = 0.5 * (low + high);
        if size(middle) >= target {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Pareto-smoothed importance weights (Vehtari, Simpson, Gelman, Yao, Gabry): the ⌈min(m/5, 3√m)⌉ largest weights are
/// replaced by the expected order statistics of the generalised Pareto distribution fitted to them.
///
/// Returns the smoothed log-weights, normalised to sum to one, and the shape k̂ of the tail: below 0.7 means of
/// the sample can be trusted; above, a few particles carry them. `None` where there are too few weights to tell,
/// or all largest are equal.
pub fn pareto_smoothed(log_weights: &[f64]) -> (Vec<f64>, Option<f64>) {
    let m = log_weights.len();
    let most = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut smoothed: Vec<f64> = log_weights.iter().map(|w| w - most).collect();
    let tail = (0.2 * m as f64).min(3.0 * (m as f64).sqrt()).ceil() as usize;
    let mut shape = None;
    if most.is_finite() && tail >= 5 && tail < m {
        let mut order: Vec<usize> = (0..m).collect();
        order.sort_by(|&a, &b| smoothed[a].total_cmp(&smoothed[b]).then(a.cmp(&b)));
        let (body, top) = order.split_at(m - tail);
        let cut = body.last().map_or(0.0, |&i| smoothed[i].max(-700.0).exp());
        let excess: Vec<f64> = top.iter().map(|&i| smoothed[i].exp() - cut).collect();
        if excess[tail - 1] > excess[0] && excess[tail - 1] > 1e-300 {
            let (k, sigma) = fit_pareto(&excess);
            for (rank, &i) in top.iter().enumerate() {
                let p = (rank as f64 + 0.5) / tail as f64;
                let quantile = if k.abs() < 1e-12 {
                    -sigma * (-p).ln_1p()
                } else {
                    sigma / k * ((1.0 - p).powf(-k) - 1.0)
                };
                smoothed[i] = (cut + quantile).ln().min(0.0);
            }
            shape = Some(k);
        }
    }
    let total = log_sum_exp(&smoothed);
    smoothed.iter_mut().for_each(|w| *w -= total);
    (smoothed, shape)
}

/// log p(x_n∣x_{−n}) for every observation by Pareto-smoothed importance sampling, and the shape k̂ of its weights (NaN
/// where it cannot be told):
///
/// ```text
/// log Σ_i w_i p(x_n∣θ_i),   w_i ∝ 1 / p(x_n∣θ_i), smoothed
/// ```
///
/// over particles resampled to equal weights: the shape is that of leaving out alone, not of what the particles weigh.
/// `pointwise` holds log p(x_n∣θ_i), particles × observations, row-major.
pub fn leave_one_out(log_weights: &[f64], pointwise: &[f64]) -> Vec<(f64, f64)> {
    let m = log_weights.len();
    let observations = pointwise.len() / m.max(1);
    let at = Address::new(Seed(0), Stream::Resample, BlockIndex(0), 0);
    let equal = systematic(&normalised(log_weights), m, at);
    let one = |n: usize| {
        let likelihood: Vec<f64> = equal.iter().map(|&i| pointwise[i * observations + n]).collect();
        let raw: Vec<f64> = likelihood.iter().map(|l| -l).collect();
        let (smoothed, shape) = pareto_smoothed(&raw);
        let terms: Vec<f64> = smoothed.iter().zip(&likelihood).map(|(w, l)| w + l).collect();
        (log_sum_exp(&terms), shape.unwrap_or(f64::NAN))
    };
    (0..observations).into_par_iter().map(one).collect()
}

/// Shape k and scale σ of a generalised Pareto distribution, by the estimator of Zhang and Stephens (2009) with the
/// shape drawn to ½ as ten observations would. `excess` is increasing and not negative.
fn fit_pareto(excess: &[f64]) -> (f64, f64) {
    let n = excess.len() as f64;
    let quartile = excess[((n / 4.0 + 0.5).floor() as usize).clamp(1, excess.len()) - 1].max(1e-300);
    let largest = excess[excess.len() - 1];
    let points = 30 + n.sqrt().floor() as usize;
    let shape_at = |b: f64| excess.iter().map(|x| (-b * x).ln_1p()).sum::<f64>() / n;
    let grid: Vec<f64> = (1..=points)
        .map(|j| largest.recip() + (1.0 - (points as f64 / (j as f64 - 0.5)).sqrt()) / (3.0 * quartile))
        .collect();
    let profile: Vec<f64> = grid
        .iter()
        .map(|&b| {
            let k = shape_at(b);
            n * ((-b / k).ln() - k - 1.0)
        })
        .collect();
    let weights = normalised(&profile);
    let b: f64 = grid.iter().zip(&weights).map(|(b, w)| b * w).sum();
    let k = shape_at(b);
    let sigma = -k / b;
    ((n * k + 5.0) / (n + 10.0), sigma)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(i: u32) -> Address {
        Address::new(Seed(1), Stream::Resample, BlockIndex(0), i)
    }

    #[test]
    fn effective_size_of_equal_and_of_one() {
        assert!((effective_size(&[-5.0; 8]) - 8.0).abs() < 1e-12);
        assert!((effective_size(&[0.0, -1e6, f64::NEG_INFINITY]) - 1.0).abs() < 1e-12);
        assert_eq!(effective_size(&[f64::NEG_INFINITY; 3]), 0.0);
    }

    #[test]
    fn systematic_resampling_takes_each_particle_as_often_as_its_weight_says() {
        let weights = [0.1, 0.0, 0.45, 0.15, 0.3];
        for i in 0..50 {
            let chosen = systematic(&weights, 37, address(i));
            assert_eq!(chosen.len(), 37);
            for (j, w) in weights.iter().enumerate() {
                let times = chosen.iter().filter(|&&c| c == j).count() as f64;
                assert!((times - 37.0 * w).abs() < 1.0, "{times} of {}", 37.0 * w);
            }
        }
    }

    #[test]
    fn the_step_leaves_the_size_asked_for() {
        let increments: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.5).collect();
        let step = step_for_size(&[0.0; 100], &increments, 50.0);
        let moved: Vec<f64> = increments.iter().map(|g| step * g).collect();
        assert!((effective_size(&moved) - 50.0).abs() < 1e-6);
        assert_eq!(step_for_size(&[0.0; 100], &[1.0; 100], 50.0), 1.0);
        let mut impossible = vec![f64::NEG_INFINITY; 90];
        impossible.extend([0.0; 10]);
        assert!(step_for_size(&[0.0; 100], &impossible, 50.0) < 1e-300);
        // A likelihood that is sharper by 1e40 needs a step that is smaller by as much.
        let sharp: Vec<f64> = increments.iter().map(|g| 1e40 * g).collect();
        assert!((step_for_size(&[0.0; 100], &sharp, 50.0) * 1e40 / step - 1.0).abs() < 1e-6);
    }

    /// Weights U^{−k} have a Pareto tail of shape k; the estimate of 4,000 draws has a deviation of about
    /// (1 + k)/√190, 190 being the number of the largest weights.
    #[test]
    fn the_tail_of_pareto_weights_is_recognised() {
        for k in [0.2, 0.5, 0.9] {
            let draws: Vec<f64> =
                (0..4_000).map(|i| -k * uniform_open(address(i).words(0)[1]).ln()).collect();
            let (smoothed, found) = pareto_smoothed(&draws);
            let found = found.unwrap_or(f64::NAN);
            assert!((found - k).abs() < 3.5 * (1.0 + k) / 190f64.sqrt(), "{k}: {found}");
            assert!(log_sum_exp(&smoothed).abs() < 1e-9);
        }
        assert_eq!(pareto_smoothed(&[0.0; 100]).1, None);
    }
}
