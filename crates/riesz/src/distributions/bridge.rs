//! The evidence of a posterior that was moved to: bridge sampling between its particles and draws from a density through
//! others of them.

use super::posterior::Evidence;
use super::special::log_sum_exp;

/// Most iterations, and the change of the logarithm that ends them.
const ITERATIONS: usize = 200;
const CLOSE: f64 = 1e-10;

/// Z = ∫π from values of log π − log q at draws of q and at particles of the posterior that count for `size` independent
/// ones, by the estimator of Meng and Wong:
///
/// ```text
/// Z = E_q[π/(s₁π + s₂Zq)] / E_p[q/(s₁π + s₂Zq)],    s₁ : s₂ = size : number of draws
/// ```
///
/// Its relative variance is that of the two means (Frühwirth-Schnatter), particles counting for `size`. q must not have
/// been fitted to these particles. `None` where draws and particles do not overlap.
pub(super) fn bridge(at_draws: &[f64], at_particles: &[f64], size: f64) -> Option<Evidence> {
    let draws = at_draws.len() as f64;
    let shares = [(size / (size + draws)).ln(), (draws / (size + draws)).ln()];
    // log of exp(x)/(s₁ exp(l) + s₂ Z).
    let terms = |ratios: &[f64], value: f64, numerator: fn(f64) -> f64| -> Vec<f64> {
        ratios.iter().map(|&l| numerator(l) - log_sum_exp(&[shares[0] + l, shares[1] + value])).collect()
    };
    let log_mean = |terms: &[f64]| log_sum_exp(terms) - (terms.len() as f64).ln();
    let mut value = log_mean(at_draws);
    for _ in 0..ITERATIONS {
        let next = log_mean(&terms(at_draws, value, |l| l)) - log_mean(&terms(at_particles, value, |_| 0.0));
        let change = (next - value).abs();
        value = next;
        if !value.is_finite() {
            return None;
        }
        if change < CLOSE {
            break;
        }
    }
    let relative = |terms: &[f64], count: f64| {
        let second: Vec<f64> = terms.iter().map(|t| 2.0 * t).collect();
        ((log_mean(&second) - 2.0 * log_mean(terms)).exp() - 1.0).max(0.0) / count
    };
    let variance = relative(&terms(at_draws, value, |l| l), draws)
        + relative(&terms(at_particles, value, |_| 0.0), size);
    Some(Evidence { value, error: variance.sqrt() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{normal_pair, Address, BlockIndex, Seed, Stream};

    fn normals(block: u64, count: u32) -> Vec<f64> {
        let at = |i| Address::new(Seed(5), Stream::Synthetic, BlockIndex(block), i).words(0);
        (0..count).map(|i| normal_pair(at(i)[0], at(i)[1])[0]).collect()
    }

    /// π = exp(3 − ½x²)/√2π, so Z = e³, against q = N(½, 1.5²): means of the errors in units of the bar are within 4/√20.
    #[test]
    fn a_known_integral_is_found_within_its_bar() {
        let ratio = |x: f64| 3.0 - 0.5 * x * x + 0.5 * ((x - 0.5) / 1.5).powi(2) + 1.5_f64.ln();
        let mut errors = Vec::new();
        for seed in 0..20 {
            let draws: Vec<f64> = normals(2 * seed, 400).iter().map(|z| ratio(0.5 + 1.5 * z)).collect();
            let particles: Vec<f64> = normals(2 * seed + 1, 300).iter().map(|&x| ratio(x)).collect();
            let found = bridge(&draws, &particles, 300.0).unwrap();
            assert!(found.error < 0.05, "{found:?}");
            errors.push((found.value - 3.0) / found.error);
        }
        let square = errors.iter().map(|e| e * e).sum::<f64>() / 20.0;
        // The mean of 20 squares of normals has a deviation of √(2/20).
        assert!((square - 1.0).abs() < 4.0 * 0.1_f64.sqrt(), "{square}");
    }

    #[test]
    fn draws_without_overlap_tell_nothing() {
        assert!(bridge(&[f64::NEG_INFINITY; 10], &[0.0; 10], 10.0).is_none());
    }
}
