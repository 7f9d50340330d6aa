//! Special functions of probability.

/// log Σ_i exp v_i, without overflow; −∞ for nothing and for nothing but −∞.
pub fn log_sum_exp(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most.is_infinite() {
        return most;
    }
    most + values.iter().map(|v| (v - most).exp()).sum::<f64>().ln()
}

/// log Φ(z), Φ the distribution function of the standard normal.
///
/// Near zero Φ(z) = ½ + φ(z)(z + z³/3 + z⁵/15 + …); in the lower tail φ(z)/(∣z∣ + 1/(∣z∣ + 2/(∣z∣ + …))).
pub fn log_normal_cdf(z: f64) -> f64 {
    let log_density = -0.5 * (z * z + std::f64::consts::TAU.ln());
    if z < -3.0 {
        let mut fraction = -z;
        for k in (1..=80).rev() {
            fraction = -z + f64::from(k) / fraction;
        }
        return log_density - fraction.ln();
    }
    if z > 3.0 {
        return (-log_normal_cdf(-z).exp()).ln_1p();
    }
    let (mut term, mut sum, mut k) = (z, z, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        k += 2.0;
        term *= z * z / k;
        sum += term;
    }
    (0.5 + log_density.exp() * sum).ln()
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

    /// References: scipy.special.log_ndtr.
    #[test]
    fn log_normal_cdf_near_zero_and_in_both_tails() {
        let references = [
            (0.0, -std::f64::consts::LN_2),
            (1.0, -0.172_753_779_023_449_88),
            (-1.0, -1.841_021_645_009_264),
            (-3.0, -6.607_726_221_510_349),
            (-3.001, -6.611_009_784_890_932),
            (-10.0, -53.231_285_150_512_47),
            (-40.0, -804.608_442_013_753_9),
            (4.0, -3.167_174_337_748_927e-5),
        ];
        for (z, expected) in references {
            let found = log_normal_cdf(z);
            assert!((found / expected - 1.0).abs() < 1e-9, "{z}: {found} {expected}");
        }
        assert_eq!(log_normal_cdf(40.0), 0.0);
    }
}
