//! From a kernel to blocks of random features, addressed by (seed, block).

use super::{arc_cosine, combination, dot_product, polynomial, Family, KernelSpec, Spectral};
use crate::compute::{self, Activation, DenseBlock, Device, FeatureBlock, StructuredBlock, FEATURE_MULTIPLE};
use crate::data::Rows;
use crate::error::{in_range, positive, Error, Result};
use crate::memory::room;
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

    /// Refuses a scaling of no column, or of unequal parts.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { shift, scale } = self;
        if shift.is_empty() {
            return Err(Error::Empty { what: "the scaling of columns", needed: "one column" });
        }
        if shift.len() != scale.len() {
            let expected = format!("{}, one for each column that is shifted", shift.len());
            return Err(Error::Length { what: "the scale of the columns", expected, found: scale.len() });
        }
        Ok(())
    }

    /// Appends the row-major `rows` as (x − shift)·scale·unit.
    pub(crate) fn apply(&self, rows: &[f32], unit: f32, out: &mut Vec<f32>) {
        let columns = || self.shift.iter().zip(&self.scale);
        for row in rows.chunks_exact(self.shift.len()) {
            out.extend(row.iter().zip(columns()).map(|(x, (a, s))| (x - a) * s * unit));
        }
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
        let projection = default_projection(&kernel, scaling.shift.len());
        let map = Self { kernel, bandwidth, projection, form: FeatureForm::Phase, block_size, seed, scaling };
        map.check()?;
        Ok(map)
    }

    /// Checks the settings against each other, as every draw does.
    pub fn check(&self) -> Result<()> {
        positive("bandwidth", self.bandwidth)?;
        self.scaling.check()?;
        let m = self.block_size;
        let possible = m > 0 && m <= 1 << 20 && m.is_multiple_of(2 * FEATURE_MULTIPLE);
        in_range("block_size", m as f64, possible, "positive multiples of 64 up to 2^20")?;
        self.kernel.check()?;
        if let KernelSpec::Sum(terms) = &self.kernel {
            if terms.len() * 2 * FEATURE_MULTIPLE > self.block_size {
                return Err(Error::Conflict(format!(
                    "a sum of {} kernels needs a block_size of {} at least",
                    terms.len(),
                    terms.len() * 2 * FEATURE_MULTIPLE
                )));
            }
        }
        if self.projection == Projection::Dense {
            room("frequencies", "block_size or the columns of X", &[self.block_size, self.columns()], 4)?;
        }
        let isotropic = self.kernel.spectral().is_some_and(|kernel| kernel.is_isotropic());
        if self.projection == Projection::Structured && !isotropic {
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

    /// (x − shift)·scale/σ, for kernels of inner products.
    pub(super) fn scaled(&self, x: &[f32]) -> Vec<f32> {
        let Scaling { shift, scale } = &self.scaling;
        let unit = 1.0 / self.bandwidth as f32;
        x.iter().zip(shift.iter().zip(scale)).map(|(x, (shift, scale))| (x - shift) * scale * unit).collect()
    }

    /// The mean of k(x, x), which is the mean square of the features, over at most 256 rows spread evenly; of a user's
    /// kernel, which has no closed form, that of the first block.
    pub fn mean_square(&self, rows: Rows<'_>) -> Result<f64> {
        let (total, count) = self.squares(rows, 0, rows.len())?;
        Ok(if count == 0.0 { 1.0 } else { (total / count).max(f64::MIN_POSITIVE) })
    }

    /// Sum and number of the terms of [`Self::mean_square`] over `n` rows that lie in `rows`, which are those from `first` on.
    pub(crate) fn squares(&self, rows: Rows<'_>, first: usize, n: usize) -> Result<(f64, f64)> {
        const MOST: usize = 256;
        self.check()?;
        let spread = (0..n.min(MOST)).map(|i| i * n / n.min(MOST));
        let indices: Vec<u32> =
            spread.filter(|i| (first..first + rows.len()).contains(i)).map(|i| (i - first) as u32).collect();
        let count = indices.len() as f64;
        if self.kernel.is_normalised() || indices.is_empty() {
            return Ok((count, count));
        }
        let values = rows.gather(&indices);
        if self.kernel.has_user_part() {
            let mut phi = vec![0.0; indices.len() * self.block_size];
            let rows = Rows::single(&values, self.columns())?;
            compute::features(Device::default(), &self.draw(BlockIndex(0))?, rows, &mut phi)?;
            let total: f64 = phi.iter().map(|&v| f64::from(v).powi(2)).sum();
            return Ok((total / self.block_size as f64, count));
        }
        let Scaling { shift, scale } = &self.scaling;
        let total = values
            .chunks_exact(self.columns())
            .map(|row| {
                let row: Vec<f32> = (0..row.len()).map(|j| (row[j] - shift[j]) * scale[j]).collect();
                self.kernel.evaluate(&row, &row, self.bandwidth)
            })
            .sum::<Result<f64>>()?;
        Ok((total, count))
    }

    /// Draws block `index`.
    pub fn draw(&self, index: BlockIndex) -> Result<FeatureBlock> {
        self.check()?;
        match (self.kernel.family(), self.projection) {
            (Family::Spectral(kernel) | Family::Skewed(kernel, _), Projection::Dense) => {
                self.draw_dense(&*kernel, index)
            }
            (Family::Spectral(kernel) | Family::Skewed(kernel, _), Projection::Structured) => {
                self.draw_structured(&*kernel, index)
            }
            (Family::DotProduct(coefficients), _) => dot_product::draw(self, coefficients, index),
            (Family::Polynomial(degree, constant), _) => polynomial::draw(self, degree, constant, index),
            (Family::ArcCosine(order), _) => arc_cosine::draw(self, order, index),
            (Family::Homogeneous(kernel), _) => kernel.draw(self, index),
            (Family::Semigroup(kernel), _) => kernel.draw(self, index),
            (Family::Sum(terms), _) => combination::draw_sum(self, terms, index),
            (Family::Product(factors), _) => combination::draw_product(self, factors, index),
            (Family::User(kernel), _) => kernel.draw(self, index),
        }
    }

    fn draw_dense(&self, kernel: &dyn Spectral, block: BlockIndex) -> Result<FeatureBlock> {
        let (d, frequencies) = (self.columns(), self.frequencies());
        let mut values = vec![0.0_f32; frequencies * d];
        values.par_chunks_mut(d).enumerate().for_each_init(
            || vec![0.0; d],
            |omega, (j, out)| {
                let address = Address::new(self.seed, Stream::Frequency, block, j as u32);
                kernel.frequency(address, omega);
                for ((out, omega), scale) in out.iter_mut().zip(&*omega).zip(&self.scaling.scale) {
                    *out = (omega * f64::from(*scale) / (PI * self.bandwidth)) as f32;
                }
            },
        );
        DenseBlock {
            shift: self.scaling.shift.clone(),
            input: self.kernel.input(),
            activation: Activation::Cosine,
            frequencies: values,
            phase: self.draw_phase(block),
        }
        .build()
    }

    /// ω-block = (norm/σ) H D₁ H D₂ H D₃ / D^{3/2} with H unnormalised; the norms are √D, or χ_D-distributed.
    fn draw_structured(&self, kernel: &dyn Spectral, block: BlockIndex) -> Result<FeatureBlock> {
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
        let mixing = |j: usize| {
            let address = Address::new(self.seed, Stream::Mixing, block, j as u32);
            kernel.mixing(&mut address.sequence())
        };
        // Fixed norms are too cheap to wake another thread for.
        let fewest = if size >= FIXED_NORMS_FROM { frequencies } else { 1 };
        let norms = (0..frequencies).into_par_iter().with_min_len(fewest);
        let gain = norms.map(|j| (unit * norm(j) * mixing(j)) as f32).collect();
        let Scaling { shift, scale } = self.scaling.clone();
        StructuredBlock { shift, scale, padded: size, signs, gain, phase: self.draw_phase(block) }.build()
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

/// Structured where it wins.
pub(super) fn default_projection(kernel: &KernelSpec, columns: usize) -> Projection {
    let isotropic = kernel.spectral().is_some_and(|kernel| kernel.is_isotropic());
    match isotropic && padded(columns) >= STRUCTURED_FROM {
        true => Projection::Structured,
        false => Projection::Dense,
    }
}

/// The dimension padded to a power of two, at least 16 (one lane group of features).
fn padded(columns: usize) -> usize {
    columns.next_power_of_two().max(16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::features;
    use crate::data::Rows;

    /// Law: the mean of φ(x)φ(x') over independent blocks is k(x, x') within Monte-Carlo error.
    fn assert_unbiased(map: FeatureMap, bias: f64) {
        assert_unbiased_at(map, bias, |i| ((i * 29) % 17) as f32 / 17.0 - 0.4);
    }

    fn assert_unbiased_at(map: FeatureMap, bias: f64, value: impl Fn(usize) -> f32) {
        let d = map.columns();
        let x: Vec<f32> = (0..4 * d).map(value).collect();
        let rows = Rows::single(&x, d).unwrap();
        let blocks = 48;
        for (a, b) in [(0, 0), (0, 1), (1, 2), (0, 3)] {
            let means: Vec<f64> = (0..blocks)
                .map(|i| {
                    let block = map.draw(BlockIndex(i)).unwrap();
                    let mut phi = vec![0.0; 4 * map.block_size];
                    features(Device::default(), &block, rows, &mut phi).unwrap();
                    let (pa, pb) = (&phi[a * map.block_size..], &phi[b * map.block_size..]);
                    (0..map.block_size).map(|j| f64::from(pa[j] * pb[j])).sum::<f64>() / map.block_size as f64
                })
                .collect();
            let mean = means.iter().sum::<f64>() / blocks as f64;
            let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (blocks - 1) as f64;
            let scaled: Vec<f32> =
                (0..4 * d).map(|i| (x[i] - map.scaling.shift[i % d]) * map.scaling.scale[i % d]).collect();
            let exact = map
                .kernel
                .evaluate(&scaled[a * d..(a + 1) * d], &scaled[b * d..(b + 1) * d], map.bandwidth)
                .unwrap();
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
        for name in
            ["gaussian", "laplacian", "cauchy", "matern(0.5)", "matern(1.2)", "rational_quadratic(0.8)"]
        {
            let kernel: KernelSpec = name.parse().unwrap();
            for form in [FeatureForm::Phase, FeatureForm::Paired] {
                for d in [1, 3, 9, 40] {
                    let by_column = matches!(kernel, KernelSpec::Laplacian | KernelSpec::Cauchy);
                    let bandwidth = 0.9 * if by_column { d as f64 } else { (d as f64).sqrt() };
                    let mut map =
                        FeatureMap::new(kernel.clone(), bandwidth, 512, Seed(3), scaling(d)).unwrap();
                    map.projection = Projection::Dense;
                    map.form = form;
                    assert_unbiased(map, 0.0);
                }
            }
        }
    }

    /// The kernels that are no function of x − x': inner products, histograms, sums x + x', combinations.
    #[test]
    fn feature_means_are_the_other_kernels() {
        for name in [
            "dot_product(1, 0.5, 0, 0.3)",
            "polynomial(3, 0.5)",
            "polynomial(1, 0)",
            "arc_cosine(0)",
            "arc_cosine(1)",
            "arc_cosine(2)",
            "hellinger",
            "chi_squared",
            "intersection",
            "jensen_shannon",
            "skewed_chi_squared(0.3)",
            "skewed_intersection(0.3)",
            "exponential_semigroup(0.4)",
            "reciprocal_semigroup(2)",
            "gaussian + 0.5 * polynomial(2, 1) + 0.1 * hellinger",
            "gaussian * laplacian",
            "chi_squared * intersection",
            "(gaussian + arc_cosine(1)) * (laplacian + 0.5 * polynomial(1, 1))",
            "2 * matern(1.5) * arc_cosine(1)",
        ] {
            for d in [1, 5, 40] {
                let kernel: KernelSpec = name.parse().unwrap();
                let bandwidth = if kernel.has_bandwidth() { 1.5 * (d as f64).sqrt() } else { 1.0 };
                let map = FeatureMap::new(kernel, bandwidth, 512, Seed(8), Scaling::identity(d)).unwrap();
                assert_unbiased_at(map, 0.0, |i| ((i * 29) % 17) as f32 / 17.0);
            }
        }
    }

    /// Structured features of the other isotropic kernels: the mixing variable multiplies the norms.
    #[test]
    fn structured_mixtures_are_their_kernels_up_to_a_known_bias() {
        for name in ["matern(1.5)", "rational_quadratic(2)"] {
            let map = FeatureMap::new(name.parse().unwrap(), 9.0, 512, Seed(9), scaling(100)).unwrap();
            assert_eq!(map.projection, Projection::Structured);
            assert_unbiased(map, 0.004);
        }
    }

    #[test]
    fn values_outside_the_domain_are_named() {
        let x = [0.5, 1.0, 0.25, -0.5];
        let rows = Rows::single(&x, 2).unwrap();
        for name in
            ["chi_squared", "exponential_semigroup(1)", "gaussian * hellinger", "skewed_chi_squared(0.5)"]
        {
            let error = name.parse::<KernelSpec>().unwrap().check_domain(rows).unwrap_err().to_string();
            assert!(error.contains("column 1 has -0.5 at row 1"), "{name}: {error}");
        }
        for name in ["gaussian", "polynomial(2, 1)", "skewed_intersection(0.6)"] {
            name.parse::<KernelSpec>().unwrap().check_domain(rows).unwrap();
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
        let block = |b| format!("{:?}", map.draw(BlockIndex(b)).unwrap());
        assert_eq!(block(7), block(7));
        assert_ne!(block(7), block(8));
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
