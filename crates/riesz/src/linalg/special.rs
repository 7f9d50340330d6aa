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

/// Coefficients B_{2j}/(2j(2j−1)) of Stirling's series, j = 1 … 7.
const STIRLING: [f64; 7] =
    [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1_260.0, -1.0 / 1_680.0, 1.0 / 1_188.0, -691.0 / 360_360.0, 1.0 / 156.0];

/// Where the asymptotic series are exact to double precision.
const ASYMPTOTIC: f64 = 10.0;

/// log Γ(x) for x > 0: Stirling's series from ten on, below it Γ(x) = Γ(x + 1)/x. Infinite at zero, NaN below.
pub fn ln_gamma(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    let (mut x, mut product) = (x, 1.0);
    while x < ASYMPTOTIC {
        product *= x;
        x += 1.0;
    }
    let square = (x * x).recip();
    let series = STIRLING.iter().rev().fold(0.0, |sum, c| sum * square + c) / x;
    let half_log_tau = 0.918_938_533_204_672_8;
    (x - 0.5) * x.ln() - x + half_log_tau + series - product.ln()
}

/// ψ(x) = d log Γ(x)/dx for x > 0: the derivative of Stirling's series from ten on, below it ψ(x) = ψ(x + 1) − 1/x.
/// Minus infinity at zero, NaN below.
pub fn digamma(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < ASYMPTOTIC {
        sum += x.recip();
        x += 1.0;
    }
    let square = (x * x).recip();
    // The coefficient of x^{−2j} is (2j − 1) times that of log Γ.
    let series = STIRLING.iter().enumerate().rev().fold(0.0, |s, (j, c)| s * square + (2 * j + 1) as f64 * c);
    x.ln() - 0.5 / x - series * square - sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// lnΓ(n) = ln (n−1)!, lnΓ(½) = ½ ln π, the recurrence, the reflection formula and Legendre's duplication.
    #[test]
    fn ln_gamma_obeys_its_identities() {
        let close = |a: f64, b: f64| (a - b).abs() <= 2e-14 * (1.0 + b.abs());
        let mut factorial = 1.0;
        for n in 1..=20 {
            assert!(close(ln_gamma(f64::from(n)), f64::ln(factorial)), "{n}");
            factorial *= f64::from(n);
        }
        assert!(close(ln_gamma(0.5), 0.5 * std::f64::consts::PI.ln()));
        for i in 1..400 {
            let x = 1e-4 * 1.05_f64.powi(i);
            assert!(close(ln_gamma(x + 1.0), ln_gamma(x) + x.ln()), "{x}");
            let log2 = (2.0 * x - 1.0) * std::f64::consts::LN_2;
            assert!(
                close(ln_gamma(x) + ln_gamma(x + 0.5) + log2, ln_gamma(2.0 * x) + ln_gamma(0.5)),
                "doubling {x}"
            );
            if x < 1.0 {
                let pi = std::f64::consts::PI;
                assert!(close(ln_gamma(x) + ln_gamma(1.0 - x), (pi / (pi * x).sin()).ln()), "{x}");
            }
        }
        assert!(close(ln_gamma(1e10), 220_258_509_288.810_6)); // scipy.special.gammaln
        assert_eq!(ln_gamma(0.0), f64::INFINITY);
        assert!(ln_gamma(-0.5).is_nan() && ln_gamma(f64::NAN).is_nan());
    }

    /// ψ(1) = −γ, ψ(½) = −γ − 2 ln 2, the recurrence, the reflection formula, and the slope of lnΓ.
    #[test]
    fn digamma_obeys_its_identities() {
        const EULER: f64 = 0.577_215_664_901_532_9;
        let close = |a: f64, b: f64| (a - b).abs() <= 2e-14 * (1.0 + b.abs());
        assert!(close(digamma(1.0), -EULER));
        assert!(close(digamma(0.5), -EULER - 2.0 * std::f64::consts::LN_2));
        for i in 1..400 {
            let x = 1e-4 * 1.05_f64.powi(i);
            // What is small is the difference of two numbers of the size of 1/x.
            let gap = digamma(x + 1.0) - digamma(x) - 1.0 / x;
            assert!(gap.abs() < 2e-14 * (1.0 + x.ln().abs() + 1.0 / x), "{x}: {gap}");
            let slope = (ln_gamma(1.001 * x) - ln_gamma(0.999 * x)) / (0.002 * x);
            assert!((digamma(x) - slope).abs() < 1e-6 * (1.0 + slope.abs()) + 1e-10 / x, "slope at {x}");
            if x < 0.5 {
                let pi = std::f64::consts::PI;
                assert!(close(digamma(1.0 - x) - digamma(x), pi / (pi * x).tan()), "{x}");
            }
        }
        assert_eq!(digamma(0.0), f64::NEG_INFINITY);
        assert!(digamma(-1.0).is_nan());
    }

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
