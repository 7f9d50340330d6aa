//! f = offset + Σ_b α_bᵀ φ_b: seeded and growing.

use super::{Space, Terms};
use crate::compute::{self, Device};
use crate::data::Rows;
use crate::error::{Error, Result};
use crate::kernel::FeatureMap;
use crate::random::BlockIndex;

/// A function given by a seed and coefficients: f(x) = offset + s Σ_b α_bᵀ φ_b(x).
///
/// Block b of m features is regenerated from (seed, b) whenever it is needed, so memory is the coefficients alone,
/// independent of the dimension of the data. A gradient [`Space::step`] draws one fresh block (the second
/// randomness of doubly stochastic gradients, thesis Algorithm 1) and gives it the coefficients
/// α = (1/m) Σ_i w_i φ_b(x_i); the decay of all earlier ones is the running scalar s.
#[derive(Clone, Debug)]
pub struct FeatureExpansion {
    map: FeatureMap,
    offset: Vec<f32>,
    blocks: Vec<Vec<f32>>,
    scale: f64,
    device: Device,
}

/// Bytes of drawn blocks held at once while evaluating.
const WAVE_BYTES: usize = 32 << 20;

impl FeatureExpansion {
    /// The constant function `offset`, with C = `offset.len()` outputs.
    pub fn new(map: FeatureMap, offset: Vec<f32>) -> Self {
        Self { map, offset, blocks: Vec::new(), scale: 1.0, device: Device::default() }
    }

    /// The features the expansion draws from.
    pub fn map(&self) -> &FeatureMap {
        &self.map
    }

    /// The constant part of f.
    pub fn offset(&self) -> &[f32] {
        &self.offset
    }

    /// Where features are computed.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether f is still constant.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The next block to be drawn.
    pub fn next(&self) -> BlockIndex {
        BlockIndex(self.blocks.len() as u64)
    }

    /// Coefficients of block `b`, m×C row-major, without the running scalar.
    pub fn coefficients(&self, b: usize) -> &[f32] {
        &self.blocks[b]
    }

    /// The running scalar s.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Appends a block with the given m×C coefficients.
    pub fn push(&mut self, coefficients: Vec<f32>) {
        self.materialise_scale();
        self.blocks.push(coefficients);
    }

    /// Replaces the coefficients of block `b`.
    pub fn replace(&mut self, b: usize, coefficients: Vec<f32>) {
        self.materialise_scale();
        self.blocks[b] = coefficients;
    }

    /// Forgets all blocks from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.blocks.truncate(len);
    }

    /// Multiplies the running scalar into the coefficients.
    pub fn materialise_scale(&mut self) {
        let scale = std::mem::replace(&mut self.scale, 1.0) as f32;
        if scale != 1.0 {
            self.blocks.iter_mut().flatten().for_each(|a| *a *= scale);
        }
    }

    /// The same function with the coefficients of block b multiplied by `factor(b)`.
    pub fn reweighted(&self, factor: impl Fn(usize) -> f64) -> Self {
        let mut other = self.clone();
        for (b, block) in other.blocks.iter_mut().enumerate() {
            let factor = factor(b) as f32;
            block.iter_mut().for_each(|a| *a *= factor);
        }
        other
    }

    /// out += (blocks `range` of f)(rows), without offset.
    pub fn add_blocks(&self, range: std::ops::Range<usize>, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        let wave = (WAVE_BYTES / self.map.block_bytes()).clamp(1, 64);
        let scale = self.scale as f32;
        for start in range.clone().step_by(wave) {
            let some = start..(start + wave).min(range.end);
            let drawn: Vec<_> = some.clone().map(|b| self.map.draw(BlockIndex(b as u64))).collect();
            let scaled: Vec<Vec<f32>> = match scale {
                1.0 => Vec::new(),
                _ => {
                    self.blocks[some.clone()].iter().map(|b| b.iter().map(|a| a * scale).collect()).collect()
                }
            };
            let coefficients = if scale == 1.0 { &self.blocks[some] } else { &scaled[..] };
            let pairs: Vec<_> = drawn.iter().zip(coefficients).map(|(d, c)| (d, &c[..])).collect();
            compute::apply(self.device, &pairs, rows, self.outputs(), out)?;
        }
        Ok(())
    }

    fn check_columns(&self, rows: Rows<'_>) -> Result<()> {
        let (expected, found) = (self.map.columns(), rows.columns());
        if expected == found {
            Ok(())
        } else {
            Err(Error::Columns { expected, found })
        }
    }
}

impl Space for FeatureExpansion {
    fn outputs(&self) -> usize {
        self.offset.len()
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        self.check_columns(rows)?;
        out.chunks_exact_mut(self.outputs()).for_each(|row| row.copy_from_slice(&self.offset));
        self.add_blocks(0..self.len(), rows, out)
    }

    fn step(&mut self, shrink: f64, terms: Terms<'_>) -> Result<()> {
        self.check_columns(terms.rows)?;
        // γν = 1 occurs (θν = 1: at the first step): drop what came before instead of dividing by zero later.
        if shrink == 0.0 {
            self.blocks.iter_mut().flatten().for_each(|a| *a = 0.0);
            self.scale = 1.0;
        } else {
            self.scale *= shrink;
            if self.scale.abs() < 1e-12 {
                self.materialise_scale();
            }
        }
        let (m, c) = (self.map.block_size, self.outputs());
        let block = self.map.draw(self.next());
        let sums = compute::adjoint(self.device, &block, terms.rows, terms.weights, c)?;
        let factor = 1.0 / (m as f64 * self.scale);
        let at = |i: usize| (f64::from(sums[i % c * m + i / c]) * factor) as f32;
        self.blocks.push((0..m * c).map(at).collect());
        Ok(())
    }
}
