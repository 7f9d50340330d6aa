//! Dot-product kernels by random Maclaurin features.

use super::FeatureMap;
use crate::compute::{ExplicitBlock, FeatureBlock};
use crate::error::Result;
use crate::random::{uniform_open, Address, BlockIndex, Stream};

/// k(x, x') = Σ_n a_n ⟨x, x'⟩ⁿ, all a_n ≥ 0.
pub(super) fn evaluate(coefficients: &[f64], x: &[f64], other: &[f64]) -> f64 {
    let dot: f64 = x.iter().zip(other).map(|(a, b)| a * b).sum();
    coefficients.iter().rev().fold(0.0, |sum, a| sum * dot + a)
}

/// φ(x) = √(a_N/p_N) Π_{i ≤ N} ω_iᵀx with Rademacher ω_i and P(N = n) = p_n ∝ 2^{−(n+1)} over the n with a_n > 0 (the
/// text draws every n ≥ 0, and then most features of a short series are zero).
pub(super) fn draw(map: &FeatureMap, coefficients: &[f64], index: BlockIndex) -> Result<FeatureBlock> {
    let (d, m) = (map.columns(), map.block_size);
    let shares: Vec<f64> = coefficients
        .iter()
        .enumerate()
        .map(|(n, &a)| if a > 0.0 { (-(n as f64) - 1.0).exp2() } else { 0.0 })
        .collect();
    let total: f64 = shares.iter().sum();
    let features: Vec<(f32, Vec<f32>)> = (0..m as u32)
        .map(|j| {
            let address = Address::new(map.seed, Stream::Frequency, index, j);
            let mut left = uniform_open(address.words(0)[0]) * total;
            let degree = shares.iter().position(|share| {
                left -= share;
                left < 0.0
            });
            let degree = degree.unwrap_or_else(|| shares.iter().rposition(|&s| s > 0.0).unwrap_or(0));
            let size = (coefficients[degree] * total / shares[degree]).sqrt() as f32;
            let signs =
                address.on(Stream::Sign).sequence().flat_map(|word| (0..32).map(move |bit| word >> bit & 1));
            (size, signs.take(degree * d).map(|bit| if bit == 0 { 1.0 } else { -1.0 }).collect())
        })
        .collect();
    let map = map.clone();
    ExplicitBlock::by_rows(d, m, move |x, out| {
        let x = map.scaled(x);
        for ((size, signs), out) in features.iter().zip(out) {
            let dot = |signs: &[f32]| signs.iter().zip(&x).map(|(s, x)| s * x).sum::<f32>();
            *out = signs.chunks_exact(d).fold(*size, |product, signs| product * dot(signs));
        }
    })
}
