//! Random features that are drawn once and kept, for rows that come one by one.

use crate::compute::{Device, FeatureBlock};
use crate::data::{tiles, Rows};
use crate::error::{same_columns, Result};
use crate::kernel::FeatureMap;
use crate::random::BlockIndex;
use crate::space::{Function, Terms};

/// f = offset + s Σ_j α_j φ_j on m features, as [`crate::space::FixedFeatures`], but with the block at hand: a step on one row
/// costs its features and no draw.
#[derive(Clone, Debug)]
pub(crate) struct DrawnFeatures {
    pub map: FeatureMap,
    block: FeatureBlock,
    pub offset: Vec<f32>,
    /// C×m, without the running scalar.
    pub coefficients: Vec<f32>,
    pub scale: f64,
}

/// The running scalar is multiplied into the coefficients before it comes near underflow.
const LEAST_SCALE: f64 = 1e-12;

impl DrawnFeatures {
    /// The constant function `offset`.
    pub(crate) fn new(map: FeatureMap, offset: Vec<f32>) -> Result<Self> {
        let coefficients = vec![0.0; map.block_size * offset.len()];
        Self::from_raw(map, offset, (coefficients, 1.0))
    }

    /// The function with C×m coefficients in units of a running scalar.
    pub(crate) fn from_raw(map: FeatureMap, offset: Vec<f32>, raw: (Vec<f32>, f64)) -> Result<Self> {
        let block = map.draw(BlockIndex(0))?;
        Ok(Self { map, block, offset, coefficients: raw.0, scale: raw.1 })
    }

    /// Φ of a few rows, row-major.
    pub(crate) fn features(&self, x: &[f32]) -> Result<Vec<f32>> {
        let mut phi = vec![0.0; x.len() / self.block.columns() * self.block.features()];
        self.block.fill(Device::default(), x, &mut phi)?;
        Ok(phi)
    }

    /// f where the features are `phi`.
    pub(crate) fn values(&self, phi: &[f32], out: &mut [f32]) {
        let coefficients = self.coefficients.chunks_exact(phi.len());
        for ((out, a), offset) in out.iter_mut().zip(coefficients).zip(&self.offset) {
            *out = (f64::from(*offset) + self.scale * f64::from(dot(a, phi))) as f32;
        }
    }

    /// α ← (1 − γν) α + (γ/m) w φ, with one weight for each output.
    pub(crate) fn step(&mut self, size: f64, ridge: f64, phi: &[f32], weights: &[f32]) {
        self.scale *= 1.0 - size * ridge;
        if self.scale.abs() < LEAST_SCALE {
            let scale = std::mem::replace(&mut self.scale, 1.0) as f32;
            self.coefficients.iter_mut().for_each(|a| *a *= scale);
        }
        let factor = size / (self.scale * phi.len() as f64);
        for (a, w) in self.coefficients.chunks_exact_mut(phi.len()).zip(weights) {
            let weight = (factor * f64::from(*w)) as f32;
            a.iter_mut().zip(phi).for_each(|(a, phi)| *a += weight * phi);
        }
    }

    /// The same for the rows of several terms.
    pub(crate) fn step_terms(&mut self, size: f64, mut ridge: f64, terms: &[Terms<'_>]) -> Result<()> {
        let (m, c, mut buffer) = (self.block.features(), self.outputs(), Vec::new());
        for Terms { rows, weights } in terms {
            same_columns(self.columns(), rows.columns())?;
            for tile in tiles(rows.len()) {
                let weights = weights[tile.start * c..tile.end * c].chunks_exact(c);
                let phi = self.features(rows.tile(tile, &mut buffer))?;
                for (phi, weights) in phi.chunks_exact(m).zip(weights) {
                    self.step(size, ridge, phi, weights);
                    ridge = 0.0;
                }
            }
        }
        Ok(())
    }
}

impl Function for DrawnFeatures {
    fn columns(&self) -> usize {
        self.block.columns()
    }

    fn outputs(&self) -> usize {
        self.offset.len()
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        same_columns(self.columns(), rows.columns())?;
        let (m, c, mut buffer) = (self.block.features(), self.outputs(), Vec::new());
        for tile in tiles(rows.len()) {
            let out = &mut out[tile.start * c..tile.end * c];
            let phi = self.features(rows.tile(tile, &mut buffer))?;
            phi.chunks_exact(m).zip(out.chunks_exact_mut(c)).for_each(|(phi, out)| self.values(phi, out));
        }
        Ok(())
    }
}

/// Σ a φ, sixteen at a time so that the loop becomes vectors; features come in multiples of 64.
fn dot(a: &[f32], phi: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    for (a, phi) in a.as_chunks::<16>().0.iter().zip(phi.as_chunks::<16>().0) {
        for (sum, (a, phi)) in sums.iter_mut().zip(a.iter().zip(phi)) {
            *sum += a * phi;
        }
    }
    sums.iter().sum()
}
