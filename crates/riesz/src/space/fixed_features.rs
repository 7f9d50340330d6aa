//! f = Σ αᵀ φ over a fixed set of random features.

use super::{FeatureExpansion, Space, Terms};
use crate::compute;
use crate::data::Rows;
use crate::error::Result;
use crate::random::BlockIndex;

/// A function on M = B·m features that are all there from the start; a step changes their coefficients
/// (Pegasos-style): α_b ← shrink·α_b + (1/M) Σ_i w_i φ_b(x_i), so that k ≈ (1/M) Σ φ φ'.
#[derive(Clone, Debug)]
pub struct FixedFeatures(FeatureExpansion);

impl FixedFeatures {
    /// The zero function on the first `blocks` blocks of `expansion`'s map.
    pub fn new(mut expansion: FeatureExpansion, blocks: usize) -> Self {
        expansion.truncate(0);
        let size = expansion.map().block_size * expansion.outputs();
        (0..blocks).for_each(|_| expansion.push(vec![0.0; size]));
        Self(expansion)
    }

    /// The same function as an expansion.
    pub fn into_expansion(self) -> FeatureExpansion {
        self.0
    }
}

impl Space for FixedFeatures {
    fn outputs(&self) -> usize {
        self.0.outputs()
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        self.0.evaluate(rows, out)
    }

    fn step(&mut self, shrink: f64, terms: Terms<'_>) -> Result<()> {
        let (m, c) = (self.0.map().block_size, self.outputs());
        let factor = 1.0 / (m * self.0.len()) as f32;
        for b in 0..self.0.len() {
            let block = self.0.map().draw(BlockIndex(b as u64));
            let sums = compute::adjoint(self.0.device(), &block, terms.rows, terms.weights, c)?;
            let old = self.0.coefficients(b);
            let new = (0..m * c).map(|i| shrink as f32 * old[i] + factor * sums[i % c * m + i / c]).collect();
            self.0.replace(b, new);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{FeatureMap, KernelSpec, Scaling};
    use crate::random::Seed;

    fn expansion() -> FeatureExpansion {
        let map = FeatureMap::new(KernelSpec::Gaussian, 1.0, 1024, Seed(9), Scaling::identity(2)).unwrap();
        FeatureExpansion::new(map, vec![0.0, 0.0])
    }

    /// Law for both spaces: a step adds Σ w_i k(x_i, ·) up to Monte-Carlo error, and shrinks what was there.
    #[test]
    fn a_step_adds_kernel_sections_and_shrinks() {
        let x = [0.0, 0.0, 1.0, 0.5_f32];
        let rows = Rows::single(&x, 2).unwrap();
        let weights = [1.0, -2.0, 0.5, 3.0_f32];
        let mut spaces: Vec<Box<dyn Space>> =
            vec![Box::new(expansion()), Box::new(FixedFeatures::new(expansion(), 8))];
        for space in &mut spaces {
            space.step(1.0, Terms { rows, weights: &weights }).unwrap();
            space.step(0.5, Terms { rows, weights: &weights }).unwrap();
            let mut out = [0.0; 4];
            space.evaluate(rows, &mut out).unwrap();
            let k = (-0.5_f64 * 1.25).exp();
            let exact =
                [1.5 * (1.0 + 0.5 * k), 1.5 * (-2.0 + 3.0 * k), 1.5 * (0.5 + k), 1.5 * (3.0 - 2.0 * k)];
            for (u, e) in out.iter().zip(exact) {
                // Var φφ' ≤ 3/2, two terms of total weight at most 5, one of two blocks of 1,024.
                assert!((f64::from(*u) - e).abs() < 4.5 * 5.0 * (1.5_f64 / 1_024.0).sqrt(), "{u} vs {e}");
            }
        }
    }

    #[test]
    fn a_vanishing_shrink_factor_forgets_the_past() {
        let x = [0.0, 0.0_f32];
        let rows = Rows::single(&x, 2).unwrap();
        let (mut with, mut without) = (expansion(), expansion());
        with.step(1.0, Terms { rows, weights: &[5.0, 5.0] }).unwrap();
        without.step(1.0, Terms { rows, weights: &[0.0, 0.0] }).unwrap();
        for f in [&mut with, &mut without] {
            f.step(0.0, Terms { rows, weights: &[1.0, 2.0] }).unwrap();
        }
        let mut out = [[0.0; 2]; 2];
        with.evaluate(rows, &mut out[0]).unwrap();
        without.evaluate(rows, &mut out[1]).unwrap();
        assert_eq!(out[0], out[1]);
        assert!(out[0][1] > 1.5);
    }
}
