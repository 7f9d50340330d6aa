//! The metric in which a policy moves, and how much is added to it.

use super::approximator::{Approximator, Inputs};
use crate::error::Result;
use crate::linalg::Cholesky;
use crate::solver::{solve, FeatureMatrix};
use rayon::prelude::*;

/// What is tried for ν, in units of one feature, the least first.
const DAMPINGS: [f64; 5] = [1e-3, 1e-2, 1e-1, 1.0, 10.0];
/// How much of the gains known of each ν is kept from one iteration to the next.
const KEPT: f64 = 0.97;
/// The share of the best gain with which a larger ν is preferred.
const ENOUGH: f64 = 0.95;

/// E[φφᵀ] + νI of the features of a policy, factorised, for one ν or for several of which one is chosen.
///
/// The natural gradient x = (E[φφᵀ] + νI)⁻¹ g of a Gaussian policy is a ridge regression of w(a − μ) on φ, most of which is noise:
/// along directions in which features hardly vary, a small ν follows nothing else. Let g₁ and g₂ be the gradients of the two halves
/// of the steps, x₁ and x₂ as above, and q = xᵀE[φφᵀ]x. A step along x₁ of a given divergence raises what the other half says of
/// the return in proportion to
///
/// ```text
/// g₂ᵀx₁/√q₁
/// ```
///
/// and so with the halves exchanged. Of these the metric keeps a decaying sum for each ν, and takes the largest ν whose sum is
/// within 5 % of the best.
pub(super) struct Metric {
    factors: Vec<(f64, Cholesky)>,
}

impl Metric {
    /// The metric of the first `n` of some rows with ν = `damping`/`unit`, or with all that are tried where none is given.
    pub(super) fn new(phi: &FeatureMatrix, n: usize, damping: Option<f64>, unit: f64) -> Result<Self> {
        let tried = damping.map_or(DAMPINGS.to_vec(), |one| vec![one]);
        let moments = phi.moments(n);
        let factor = |&damping: &f64| Ok((damping / unit, moments.factor(damping / unit)?));
        Ok(Self { factors: tried.par_iter().map(factor).collect::<Result<_>>()? })
    }

    /// x for g = Σ_i φ(s_i) scores_iᵀ, m×p, whose outputs count by `precisions`; `gains` is what is known of each ν.
    pub(super) fn solve(
        &self,
        body: &Approximator,
        inputs: &Inputs,
        (scores, precisions): (&[f64], &[f64]),
        gains: &mut Vec<f64>,
    ) -> Result<Vec<f64>> {
        let p = precisions.len();
        let whole = body.adjoint(inputs, scores)?;
        let mut chosen = 0;
        if self.factors.len() > 1 {
            let first = body.adjoint(inputs, &scores[..scores.len() / p / 2 * p])?;
            let second: Vec<f64> = whole.iter().zip(&first).map(|(whole, first)| whole - first).collect();
            let gain = |(nu, factor): &(f64, Cholesky)| gain((*nu, factor), (&first, &second), precisions);
            let found: Vec<f64> = self.factors.par_iter().map(gain).collect();
            gains.resize(found.len(), 0.0);
            gains.iter_mut().zip(found).for_each(|(known, found)| *known = KEPT * *known + found);
            chosen = largest_within(gains);
        }
        Ok(solve(&self.factors[chosen].1, &whole, p))
    }
}

/// The last place with nearly the best gain.
fn largest_within(gains: &[f64]) -> usize {
    let best = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let enough = best - (1.0 - ENOUGH) * best.abs();
    gains.iter().rposition(|&gain| gain >= enough).unwrap_or(0)
}

/// g₂ᵀx₁/√q₁ + g₁ᵀx₂/√q₂, of outputs that count by `precisions`; a half that says nothing counts nothing.
fn gain((nu, factor): (f64, &Cholesky), (first, second): (&[f64], &[f64]), precisions: &[f64]) -> f64 {
    let p = precisions.len();
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).enumerate().map(|(i, (a, b))| a * b * precisions[i % p]).sum()
    };
    let one_way = |own: &[f64], other: &[f64]| {
        let x = solve(factor, own, p);
        // q = xᵀ(E[φφᵀ] + νI)x − ν‖x‖², and the first of these is xᵀg.
        let square = product(&x, own) - nu * product(&x, &x);
        if square > 0.0 {
            product(&x, other) / square.sqrt()
        } else {
            0.0
        }
    };
    one_way(first, second) + one_way(second, first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{FeatureMap, KernelSpec, Scaling};
    use crate::random::{normals, Address, BlockIndex, Seed, Stream};
    use crate::space::Basis;

    const ROWS: usize = 2_000;

    /// Standard normal numbers.
    fn noise(count: usize, block: u64) -> Vec<f64> {
        let mut z = vec![0.0; count];
        normals(Address::new(Seed(5), Stream::Action, BlockIndex(block), 0), &mut z);
        z
    }

    /// The ν chosen after twenty looks at scores signal(x) + noise, of features of one column.
    fn chosen(signal: impl Fn(f64) -> f64) -> usize {
        let x: Vec<f32> = noise(ROWS, 0).iter().map(|&x| x as f32).collect();
        let map = FeatureMap::new(KernelSpec::Gaussian, 0.5, 64, Seed(1), Scaling::identity(1)).unwrap();
        let basis =
            Basis::joined(vec![Basis::features(map).unwrap(), Basis::columns_of(1).unwrap()]).unwrap();
        let body = Approximator::zero(basis, 1);
        let inputs = body.prepare(x.clone()).unwrap();
        let metric = Metric::new(inputs.features().unwrap(), ROWS, None, 64.0).unwrap();
        let mut gains = Vec::new();
        for look in 0..20 {
            let scores: Vec<f64> = x
                .iter()
                .zip(noise(ROWS, 1 + look))
                .map(|(&x, z)| (signal(f64::from(x)) + 3.0 * z) / ROWS as f64)
                .collect();
            metric.solve(&body, &inputs, (&scores, &[1.0]), &mut gains).unwrap();
        }
        largest_within(&gains)
    }

    /// What the columns alone explain takes the largest ν; a wave that only features of small variance have takes a smaller one.
    #[test]
    fn the_damping_follows_the_signal() {
        let (straight, waves) = (chosen(|x| x), chosen(|x| (6.0 * x).sin()));
        assert_eq!(straight, DAMPINGS.len() - 1);
        assert!(waves < straight, "{waves}");
    }

    /// A larger ν is taken where it gains nearly as much, also where all lose.
    #[test]
    fn nearly_the_best_is_enough() {
        assert_eq!(largest_within(&[1.0, 0.96, 0.94]), 1);
        assert_eq!(largest_within(&[-1.0, -1.04, -2.0]), 1);
        assert_eq!(largest_within(&[0.0, 0.0, 0.0]), 2);
        assert_eq!(largest_within(&[f64::NAN, f64::NAN]), 0);
    }
}
