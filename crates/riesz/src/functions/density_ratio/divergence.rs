//! How far apart two distributions are, from the logarithm of their ratio at both samples.

use serde::{Deserialize, Serialize};

/// Two divergences of p from q, estimated by their variational lower bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Divergences {
    /// KL(p‖q) = E_p log p/q by the bound of Donsker and Varadhan, E_p f − log E_q e^f with f the estimated log ratio;
    /// not below 0, where f = 0 brings it.
    pub kl: f64,
    /// ½E_q (p/q − 1)², by ½(E_p r)²/E_q r² − ½ with r the estimated ratio: the bound E_p r − ½E_q r² − ½ at the best
    /// multiple of r; not below 0, where r = 1 brings it.
    pub pearson: f64,
}

impl Divergences {
    /// From log ratios f, targets (+1 for rows of p, −1 for rows of q) and weights of both samples together.
    pub(super) fn of(log_ratio: &[f32], targets: &[f32], weights: &[f32]) -> Self {
        let mean = |target: f32, value: &dyn Fn(f64) -> f64| {
            let own = (0..targets.len()).filter(|&i| targets[i] == target);
            let (sum, mass) = own.fold((0.0, 0.0), |(sum, mass), i| {
                let w = f64::from(weights[i]);
                (sum + w * value(f64::from(log_ratio[i])), mass + w)
            });
            sum / mass
        };
        // Both bounds do not change when a constant is added to f: none overflows around the largest.
        let top = log_ratio.iter().fold(f64::NEG_INFINITY, |a, &f| a.max(f64::from(f)));
        let kl = mean(1.0, &|f| f) - (mean(-1.0, &|f| (f - top).exp()).ln() + top);
        let square = mean(1.0, &|f| (f - top).exp()).powi(2) / mean(-1.0, &|f| (2.0 * (f - top)).exp());
        Self { kl: at_least_zero(kl), pearson: at_least_zero(0.5 * square - 0.5) }
    }
}

/// Zero for what is negative or, after an underflow, no number.
fn at_least_zero(value: f64) -> f64 {
    if value > 0.0 {
        value
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two distributions on three points, every bound attained by the true ratio and by any multiple of it.
    #[test]
    fn the_true_ratio_attains_both_divergences() {
        let (p, q) = ([0.2_f64, 0.3, 0.5], [0.4_f64, 0.5, 0.1]);
        let kl: f64 = p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum();
        let pearson: f64 = p.iter().zip(&q).map(|(p, q)| 0.5 * q * (p / q - 1.0).powi(2)).sum();
        let weights: Vec<f32> = p.iter().chain(&q).map(|&w| w as f32).collect();
        let targets = [1.0, 1.0, 1.0, -1.0, -1.0, -1.0];
        for shift in [0.0, 3.0] {
            let f: Vec<f32> = (0..6).map(|i| ((p[i % 3] / q[i % 3]).ln() + shift) as f32).collect();
            let found = Divergences::of(&f, &targets, &weights);
            assert!((found.kl - kl).abs() < 1e-5 && (found.pearson - pearson).abs() < 1e-5, "{found:?}");
        }
        // Any other function stays below; the worst is worth nothing, not less.
        let other = Divergences::of(&[0.1, -0.4, 0.9, 0.1, -0.4, 0.9], &targets, &weights);
        assert!(0.0 < other.kl && other.kl < kl && 0.0 < other.pearson && other.pearson < pearson);
        let against = Divergences::of(&[80.0, 0.0, -80.0, 80.0, 0.0, -80.0], &targets, &weights);
        assert_eq!(against, Divergences { kl: 0.0, pearson: 0.0 });
    }
}
