//! Additive homogeneous histogram kernels k(x, x') = Σ_i k₁(x_i, x'_i) on x ≥ 0.

use super::skewed::half_cauchy_scale;
use super::FeatureMap;
use crate::compute::{ExplicitBlock, FeatureBlock};
use crate::error::Result;
use crate::random::{sech, uniform_open, Address, BlockIndex, Stream};

/// The kernel of one coordinate.
#[derive(Clone, Copy)]
pub(super) enum Homogeneous {
    /// √(x x').
    Hellinger,
    /// 2xx'/(x + x').
    ChiSquared,
    /// min(x, x').
    Intersection,
    /// ½x log₂((x + x')/x) + ½x' log₂((x + x')/x').
    JensenShannon,
}

impl Homogeneous {
    pub(super) fn evaluate(self, x: &[f64], other: &[f64]) -> f64 {
        x.iter().zip(other).map(|(&a, &b)| self.of_coordinate(a, b)).sum()
    }

    /// 0/0 and 0·log are zero.
    fn of_coordinate(self, a: f64, b: f64) -> f64 {
        let half_entropy = |v: f64| if v > 0.0 { 0.5 * v * ((a + b) / v).log2() } else { 0.0 };
        match self {
            Self::Hellinger => (a * b).sqrt(),
            Self::ChiSquared if a + b > 0.0 => 2.0 * a * b / (a + b),
            Self::ChiSquared => 0.0,
            Self::Intersection => a.min(b),
            Self::JensenShannon => half_entropy(a) + half_entropy(b),
        }
    }

    /// ω of density sech(πω), 2/(π(1 + 4ω²)) or (2/log 4) sech(πω)/(1 + 4ω²); the last by rejection, which accepts
    /// log 2 of the draws.
    fn frequency(self, words: &mut impl Iterator<Item = u32>) -> f64 {
        let mut word = || words.next().unwrap_or_default();
        match self {
            Self::Hellinger => 0.0,
            Self::ChiSquared => sech(word()),
            Self::Intersection => half_cauchy_scale(word()),
            Self::JensenShannon => loop {
                let omega = sech(word());
                if uniform_open(word()) * (1.0 + 4.0 * omega * omega) < 1.0 {
                    return omega;
                }
            },
        }
    }

    /// Pairs √(2d x_J) (cos, sin)(ω log x_J); the coordinates J take turns from a random start, so each is as likely
    /// as any other and they are as evenly spread as their number allows. A coordinate that is zero gives zeros.
    pub(super) fn draw(self, map: &FeatureMap, index: BlockIndex) -> Result<FeatureBlock> {
        let (d, m) = (map.columns(), map.block_size);
        let start = Address::new(map.seed, Stream::Norm, index, 0).words(0)[0] as usize % d;
        if let Self::Hellinger = self {
            return roots(d, m, start);
        }
        let omega = |p: usize| {
            let address = Address::new(map.seed, Stream::Frequency, index, p as u32);
            self.frequency(&mut address.sequence()) as f32
        };
        let pairs: Vec<(usize, f32)> = (0..m / 2).map(|p| ((start + p) % d, omega(p))).collect();
        let size = (2.0 * d as f32).sqrt();
        ExplicitBlock::by_rows(d, m, move |x, out| {
            let logs: Vec<f32> = x.iter().map(|v| v.ln()).collect();
            let (cosines, sines) = out.split_at_mut(pairs.len());
            for ((&(j, omega), cosine), sine) in pairs.iter().zip(cosines).zip(sines) {
                if x[j] > 0.0 {
                    let (sin, cos) = (omega * logs[j]).sin_cos();
                    let size = size * x[j].sqrt();
                    (*cosine, *sine) = (size * cos, size * sin);
                } else {
                    (*cosine, *sine) = (0.0, 0.0);
                }
            }
        })
    }
}

/// √x, as often as it fits; exact, unless there are fewer features than columns.
fn roots(d: usize, m: usize, start: usize) -> Result<FeatureBlock> {
    let (used, size) = match m / d {
        0 => (m, (d as f32).sqrt()),
        rounds => (rounds * d, (m as f32 / rounds as f32).sqrt()),
    };
    ExplicitBlock::by_rows(d, m, move |x, out| {
        for (j, out) in out.iter_mut().enumerate() {
            *out = if j < used { size * x[(start + j) % d].sqrt() } else { 0.0 };
        }
    })
}
