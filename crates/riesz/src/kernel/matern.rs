//! The Matérn kernels.

use super::{scaled_normals, Spectral};
use crate::compute::Radial;
use crate::linalg::special::ln_gamma;
use crate::random::{gamma, Address};

/// k(x, x') = 2^{1−ν}/Γ(ν) (√2ν r)^ν K_ν(√2ν r) with r = ‖x − x'‖/σ; ω is multivariate t with 2ν degrees of freedom
/// and scale σ⁻² (spec 2.1, row 4).
pub struct Matern {
    /// ν > 0.
    pub smoothness: f64,
}

impl Spectral for Matern {
    /// Half-integers up to 5/2 in closed form, the others by ∫ exp(−z cosh t) cosh νt dt = K_ν(z).
    fn evaluate(&self, difference: &[f64]) -> f64 {
        let (nu, square) = (self.smoothness, difference.iter().map(|v| v * v).sum::<f64>());
        let z = (2.0 * nu * square).sqrt();
        match Radial::matern(nu) {
            Some(radial) => radial.value(square),
            None if z < 1e-12 => 1.0,
            None => (bessel_k(nu, z).ln() + nu * z.ln() - (nu - 1.0) * 2.0_f64.ln() - ln_gamma(nu)).exp(),
        }
    }

    fn frequency(&self, address: Address, out: &mut [f64]) {
        scaled_normals(self, address, out);
    }

    fn is_isotropic(&self) -> bool {
        true
    }

    /// √(2ν/χ²_{2ν}), and χ²_{2ν} is twice a Gamma(ν).
    fn mixing(&self, words: &mut dyn Iterator<Item = u32>) -> f64 {
        (self.smoothness / gamma(&mut { words }, self.smoothness)).sqrt()
    }
}

/// K_ν(z) for z > 0 by the trapezoidal rule, whose error falls exponentially with the step: the integrand is analytic
/// and falls doubly exponentially.
fn bessel_k(nu: f64, z: f64) -> f64 {
    const STEP: f64 = 1.0 / 64.0;
    let term = |t: f64| (-z * t.cosh() + (nu * t).cosh().ln()).exp();
    let mut sum = 0.5 * term(0.0);
    let mut t = STEP;
    // Beyond its largest value the integrand only falls.
    while t < 1.0 || term(t) > 1e-18 * sum {
        sum += term(t);
        t += STEP;
        if t > 700.0 {
            break;
        }
    }
    STEP * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_general_form_meets_the_closed_ones() {
        let general = |nu: f64, z: f64| {
            (bessel_k(nu, z).ln() + nu * z.ln() - (nu - 1.0) * 2.0_f64.ln() - ln_gamma(nu)).exp()
        };
        for r in [1e-3, 0.1, 0.7, 2.0, 9.0] {
            for nu in [0.5, 1.5, 2.5] {
                let exact = Matern { smoothness: nu }.evaluate(&[r]);
                assert!((general(nu, (2.0 * nu).sqrt() * r) - exact).abs() < 1e-10, "ν = {nu}, r = {r}");
            }
        }
    }
}
