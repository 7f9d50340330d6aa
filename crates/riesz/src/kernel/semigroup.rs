//! Semigroup kernels: functions of x + x' on x ≥ 0, with features exp(−ωᵀx).

use super::FeatureMap;
use crate::compute::{Activation, DenseBlock, FeatureBlock, Input};
use crate::error::Result;
use crate::random::{normal_pair, uniform_open, Address, BlockIndex, Stream};

/// The measure of ω, independent for each coordinate.
#[derive(Clone, Copy)]
pub(super) enum Semigroup {
    /// k(x, x') = exp(−β Σ √(x_i + x'_i)); ω is Lévy of density β/(2√π) ω^{−3/2} e^{−β²/4ω}, that is β²/(2z²), z normal.
    Exponential { beta: f64 },
    /// k(x, x') = Π λ/(x_i + x'_i + λ); ω is exponential of rate λ.
    Reciprocal { lambda: f64 },
}

impl Semigroup {
    pub(super) fn evaluate(self, x: &[f64], other: &[f64]) -> f64 {
        let sums = x.iter().zip(other).map(|(a, b)| a + b);
        match self {
            Self::Exponential { beta } => (-beta * sums.map(f64::sqrt).sum::<f64>()).exp(),
            Self::Reciprocal { lambda } => sums.map(|s| lambda / (s + lambda)).product(),
        }
    }

    fn frequency(self, u: u32, v: u32) -> f64 {
        match self {
            Self::Exponential { beta } => beta * beta / (2.0 * normal_pair(u, v)[0].powi(2)),
            Self::Reciprocal { lambda } => -uniform_open(u).ln() / lambda,
        }
    }

    pub(super) fn draw(self, map: &FeatureMap, index: BlockIndex) -> Result<FeatureBlock> {
        let d = map.columns();
        let frequencies = (0..map.block_size as u32)
            .flat_map(|j| {
                let mut words = Address::new(map.seed, Stream::Frequency, index, j).sequence();
                let mut next = move || words.next().unwrap_or_default();
                (0..d).map(move |_| self.frequency(next(), next()) as f32).collect::<Vec<_>>()
            })
            .collect();
        DenseBlock {
            shift: vec![0.0; d],
            input: Input::Plain,
            frequencies,
            phase: vec![0.0; map.block_size],
            activation: Activation::Decay,
        }
        .build()
    }
}
