//! Special functions of probability.

/// log Σ_i exp v_i, without overflow; −∞ for nothing and for nothing but −∞.
pub fn log_sum_exp(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most.is_infinite() {
        return most;
    }
    most + values.iter().map(|v| (v - most).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_sum_exp_neither_overflows_nor_underflows() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(log_sum_exp(&[1.0, 2.0, 3.0]), (1f64.exp() + 2f64.exp() + 3f64.exp()).ln()));
        assert!(close(log_sum_exp(&[-2000.0, -2000.0]), -2000.0 + 2f64.ln()));
        assert!(close(log_sum_exp(&[2000.0, f64::NEG_INFINITY]), 2000.0));
        assert_eq!(log_sum_exp(&[]), f64::NEG_INFINITY);
        assert_eq!(log_sum_exp(&[f64::NEG_INFINITY]), f64::NEG_INFINITY);
        assert!(log_sum_exp(&[f64::NAN, 0.0]).is_nan());
    }
}
