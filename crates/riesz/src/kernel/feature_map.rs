//! From a kernel to blocks of random features, addressed by (seed, block).

use super::KernelSpec;
use crate::compute::{DenseBlock, FeatureBlock, StructuredBlock, FEATURE_MULTIPLE};
use crate::error::{positive, Error, Result};
use crate::random::{chi, uniform_open, Address, BlockIndex, Seed, Stream};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// How frequencies are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Projection {
    /// Independent draws: O(m d) per row, exact.
    Dense,
    /// Structured orthogonal (spec 2.4): O(m log d) per row, isotropic kernels only.
    Structured,
}

/// How a frequency becomes features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureForm {
    /// √2 cos(ωᵀx + b), b uniform on a turn: m frequencies.
    Phase,
    /// √2 cos ωᵀx and √2 sin ωᵀx: m/2 frequencies, features of exactly constant norm.
    Paired,
}

/// Columns enter a kernel as (x − shift)·scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Subtracted from each column.
    pub shift: Vec<f32>,
    /// Multiplied to each column.
    pub scale: Vec<f32>,
}

impl Scaling {
    /// Columns as they are.
    pub fn identity(columns: usize) -> Self {
        Self { shift: vec![0.0; columns], scale: vec![1.0; columns] }
    }
}

/// Smallest padded dimension at which structured features are the default: below it their directions are too
/// far from uniform (spec: bias of k measured).
const STRUCTURED_FROM: usize = 32;
/// Padded dimension from which all row norms are taken as √D: the bias of k is then below 0.004.
const FIXED_NORMS_FROM: usize = 128;

/// The random features of a kernel: everything but the block index.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureMap {
    /// Kernel family.
    pub kernel: KernelSpec,
    /// Bandwidth σ, in units of the scaled columns.
    pub bandwidth: f64,
    /// How frequencies are drawn.
    pub projection: Projection,
    /// How a frequency becomes features.
    pub form: FeatureForm,
    /// Features m per block.
    pub block_size: usize,
    /// Seed of all blocks.
    pub seed: Seed,
    /// What is done to the columns first.
    pub scaling: Scaling,
}

impl FeatureMap {
    /// A map with the default projection: structured where it wins, cosines with phase.
    pub fn new(
        kernel: KernelSpec,
        bandwidth: f64,
        block_size: usize,
        seed: Seed,
        scaling: Scaling,
    ) -> Result<Self> {
        let structured = kernel.kernel().is_isotropic() && padded(scaling.shift.len()) >= STRUCTURED_FROM;
        let projection = if structured { Projection::Structured } else { Projection::Dense };
        let map = Self { kernel, bandwidth, projection, form: FeatureForm::Phase, block_size, seed, scaling };
        map.check()?;
        Ok(map)
    }

    /// Checks the settings against each other; to be called after changing a field.
    pub fn check(&self) -> Result<()> {
        positive("bandwidth", self.bandwidth)?;
        if self.block_size == 0
            || self.block_size > 1 << 20
            || !self.block_size.is_multiple_of(2 * FEATURE_MULTIPLE)
        {
            let value = self.block_size as f64;
            return Err(Error::OutOfRange {
                name: "block_size",
                value,
                range: "positive multiples of 64 up to 2^20",
            });
        }
        if self.projection == Projection::Structured && !self.kernel.kernel().is_isotropic() {
            return Err(Error::Conflict(
                "structured features need an isotropic kernel; use projection = dense".into(),
            ));
        }
        Ok(())
    }

    /// Number of input columns.
    pub fn columns(&self) -> usize {
        self.scaling.shift.len()
    }

    /// Bytes a drawn block occupies.
    pub fn block_bytes(&self) -> usize {
        let (frequencies, d) = (self.frequencies(), self.columns());
        match self.projection {
            Projection::Dense => 4 * (frequencies * d + self.block_size),
            Projection::Structured => {
                4 * (3 * padded(d) * frequencies.div_ceil(padded(d)) + 2 * self.block_size)
            }
        }
    }

    fn frequencies(&self) -> usize {
        match self.form {
            FeatureForm::Phase => self.block_size,
            FeatureForm::Paired => self.block_size / 2,
        }
    }

    /// Draws block `index`.
    pub fn draw(&self, index: BlockIndex) -> FeatureBlock {
        match self.projection {
            Projection::Dense => FeatureBlock::Dense(self.draw_dense(index)),
            Projection::Structured => FeatureBlock::Structured(self.draw_structured(index)),
        }
    }

    fn draw_dense(&self, block: BlockIndex) -> DenseBlock {
        let (d, frequencies) = (self.columns(), self.frequencies());
        let mut values = vec![0.0_f32; frequencies * d];
        values.par_chunks_mut(d).enumerate().for_each_init(
            || vec![0.0; d],
            |omega, (j, out)| {
                let address = Address::new(self.seed, Stream::Frequency, block, j as u32);
                self.kernel.kernel().frequency(address, omega);
                for ((out, omega), scale) in out.iter_mut().zip(&*omega).zip(&self.scaling.scale) {
                    *out = (omega * f64::from(*scale) / (PI * self.bandwidth)) as f32;
                }
            },
        );
        DenseBlock { shift: self.scaling.shift.clone(), frequencies: values, phase: self.draw_phase(block) }
    }

    /// ω-block = (norm/σ) H D₁ H D₂ H D₃ / D^{3/2} with H unnormalised; the norms are √D, or χ_D-distributed.
    fn draw_structured(&self, block: BlockIndex) -> StructuredBlock {
        let (frequencies, size) = (self.frequencies(), padded(self.columns()));
        let copies = frequencies.div_ceil(size);
        let sign_words = |i: usize| Address::new(self.seed, Stream::Sign, block, i as u32).words(0);
        let signs = (0..(3 * size * copies).div_ceil(128))
            .flat_map(|i| sign_words(i).into_iter().flat_map(|word| (0..32).map(move |bit| word >> bit & 1)))
            .take(3 * size * copies)
            .map(|bit| if bit == 0 { 1.0 } else { -1.0 })
            .collect();
        let unit = (size as f64).powf(-1.5) / (PI * self.bandwidth);
        let norm = |j: usize| match size {
            FIXED_NORMS_FROM.. => (size as f64).sqrt(),
            _ => chi(Address::new(self.seed, Stream::Norm, block, j as u32), size),
        };
        // Fixed norms are too cheap to wake another thread for.
        let fewest = if size >= FIXED_NORMS_FROM { frequencies } else { 1 };
        let norms = (0..frequencies).into_par_iter().with_min_len(fewest);
        let gain = norms.map(|j| (unit * norm(j)) as f32).collect();
        let Scaling { shift, scale } = self.scaling.clone();
        StructuredBlock { shift, scale, padded: size, signs, gain, phase: self.draw_phase(block) }
    }

    /// Phases in half turns: uniform on [0, 2), or 0 (cosine) and −½ (sine).
    fn draw_phase(&self, block: BlockIndex) -> Vec<f32> {
        let half = self.block_size / 2;
        let draw = |j: usize| match self.form {
            FeatureForm::Phase => {
                let words = Address::new(self.seed, Stream::Phase, block, (j / 4) as u32).words(0);
                (2.0 * uniform_open(words[j % 4])) as f32
            }
            FeatureForm::Paired if j < half => 0.0,
            FeatureForm::Paired => -0.5,
        };
        (0..self.block_size).map(draw).collect()
    }
}

/// The dimension padded to a power of two, at least 16 (one lane group of features).
fn padded(columns: usize) -> usize {
    columns.next_power_of_two().max(16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::{features, Path};
    use crate::data::Rows;

    /// Law: the mean of φ(x)φ(x') over independent blocks is k(x, x') within Monte-Carlo error.
    fn assert_unbiased(map: FeatureMap, bias: f64) {
        let d = map.columns();
        let x: Vec<f32> = (0..4 * d).map(|i| ((i * 29) % 17) as f32 / 17.0 - 0.4).collect();
        let rows = Rows::single(&x, d).unwrap();
        let blocks = 48;
        for (a, b) in [(0, 0), (0, 1), (1, 2), (0, 3)] {
            let means: Vec<f64> = (0..blocks)
                .map(|i| {
                    let block = map.draw(BlockIndex(i));
                    let mut phi = vec![0.0; 4 * map.block_size];
                    features(Path::detect(), &block, rows, &mut phi);
                    let (pa, pb) = (&phi[a * map.block_size..], &phi[b * map.block_size..]);
                    (0..map.block_size).map(|j| f64::from(pa[j] * pb[j])).sum::<f64>() / map.block_size as f64
                })
                .collect();
            let mean = means.iter().sum::<f64>() / blocks as f64;
            let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (blocks - 1) as f64;
            let scaled: Vec<f32> =
                (0..4 * d).map(|i| (x[i] - map.scaling.shift[i % d]) * map.scaling.scale[i % d]).collect();
            let exact =
                map.kernel.evaluate(&scaled[a * d..(a + 1) * d], &scaled[b * d..(b + 1) * d], map.bandwidth);
            let error = (mean - exact).abs() - bias;
            assert!(
                error < 4.5 * (variance / blocks as f64).sqrt() + 1e-5,
                "{:?} {:?} {:?} d={d}: {mean} vs {exact}",
                map.kernel,
                map.projection,
                map.form
            );
        }
    }

    fn scaling(d: usize) -> Scaling {
        Scaling {
            shift: (0..d).map(|i| 0.1 * i as f32 / d as f32).collect(),
            scale: (0..d).map(|i| 1.0 + i as f32 / d as f32).collect(),
        }
    }

    #[test]
    fn feature_means_are_the_kernel() {
        for kernel in [KernelSpec::Gaussian, KernelSpec::Laplacian] {
            for form in [FeatureForm::Phase, FeatureForm::Paired] {
                for d in [1, 3, 9, 40] {
                    let bandwidth =
                        0.9 * if kernel == KernelSpec::Gaussian { (d as f64).sqrt() } else { d as f64 };
                    let mut map = FeatureMap::new(kernel, bandwidth, 512, Seed(3), scaling(d)).unwrap();
                    map.projection = Projection::Dense;
                    map.form = form;
                    assert_unbiased(map, 0.0);
                }
            }
        }
    }

    #[test]
    fn structured_feature_means_are_the_kernel_up_to_their_known_bias() {
        for form in [FeatureForm::Phase, FeatureForm::Paired] {
            for (d, bias) in [(20, 0.002), (54, 0.001), (100, 0.004), (300, 0.002)] {
                let mut map =
                    FeatureMap::new(KernelSpec::Gaussian, 0.9 * (d as f64).sqrt(), 512, Seed(4), scaling(d))
                        .unwrap();
                assert_eq!(map.projection, Projection::Structured);
                map.form = form;
                assert_unbiased(map, bias);
            }
        }
    }

    #[test]
    fn blocks_are_addressed_not_sequential() {
        let map = FeatureMap::new(KernelSpec::Gaussian, 1.0, 64, Seed(1), Scaling::identity(3)).unwrap();
        let phase = |b| match map.draw(BlockIndex(b)) {
            FeatureBlock::Dense(block) => (block.frequencies, block.phase),
            FeatureBlock::Structured(_) => unreachable!(),
        };
        assert_eq!(phase(7), phase(7));
        assert_ne!(phase(7), phase(8));
    }

    #[test]
    fn bad_settings_name_themselves() {
        let map = |bandwidth, size| {
            FeatureMap::new(KernelSpec::Gaussian, bandwidth, size, Seed(1), Scaling::identity(3))
        };
        assert!(map(-1.0, 64).unwrap_err().to_string().contains("bandwidth = -1"));
        assert!(map(f64::NAN, 64).unwrap_err().to_string().contains("bandwidth"));
        assert!(map(1.0, 100).unwrap_err().to_string().contains("multiples of 64"));
        let mut laplacian =
            FeatureMap::new(KernelSpec::Laplacian, 1.0, 64, Seed(1), Scaling::identity(40)).unwrap();
        assert_eq!(laplacian.projection, Projection::Dense);
        laplacian.projection = Projection::Structured;
        assert!(laplacian.check().is_err());
    }
}
