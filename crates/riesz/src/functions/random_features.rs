//! Random features as data: what a linear model elsewhere is fitted on.

use super::geometry::{median_distance, Moments};
use super::kernel_machine::options::Bandwidth;
use crate::compute::{self, Device};
use crate::data::Rows;
use crate::error::{in_range, same_columns, Error, Result};
use crate::kernel::{FeatureMap, KernelSpec, Scaling};
use crate::memory::room;
use crate::random::{BlockIndex, Permutation, Seed, Stream};

/// Most features.
const MOST: usize = 1 << 20;

/// The map x ↦ (φ_1(x), …, φ_m(x))/√m, whose inner products are k on average. Any m: of a block that is larger, m features
/// are taken at random.
#[derive(Clone, Debug)]
pub struct RandomFeatures {
    map: FeatureMap,
    features: usize,
}

impl RandomFeatures {
    /// Settles the bandwidth on `rows`: a number, or the median distance (which is also what "auto" means here: nothing
    /// is known of what the features are for), or scikit-learn's scale.
    pub fn fit(
        kernel: KernelSpec,
        bandwidth: Bandwidth,
        features: usize,
        seed: Seed,
        rows: Rows<'_>,
    ) -> Result<Self> {
        if rows.is_empty() {
            return Err(Error::Empty { what: "X", needed: "one row" });
        }
        rows.check_finite("X")?;
        kernel.check_domain(rows)?;
        let weights = vec![1.0; rows.len()];
        let moments = Moments::of(rows, &weights);
        let scaling = moments.unscaled(&kernel);
        let bandwidth = match bandwidth {
            _ if !kernel.has_bandwidth() => 1.0,
            Bandwidth::Value(value) => value,
            Bandwidth::Scale => moments.scale_bandwidth(),
            Bandwidth::Auto | Bandwidth::Median => median_distance(rows, &weights, &scaling, &kernel, seed),
        };
        Self::new(kernel, bandwidth, features, seed, scaling.shift)
    }

    /// A map that was settled before.
    pub fn new(
        kernel: KernelSpec,
        bandwidth: f64,
        features: usize,
        seed: Seed,
        shift: Vec<f32>,
    ) -> Result<Self> {
        in_range("n_components", features as f64, (1..=MOST).contains(&features), "[1, 2^20]")?;
        let scaling = Scaling { scale: vec![1.0; shift.len()], shift };
        let block_size = features.next_multiple_of(2 * compute::FEATURE_MULTIPLE);
        Ok(Self { map: FeatureMap::new(kernel, bandwidth, block_size, seed, scaling)?, features })
    }

    /// σ.
    pub fn bandwidth(&self) -> f64 {
        self.map.bandwidth
    }

    /// What is subtracted from each column first.
    pub fn shift(&self) -> &[f32] {
        &self.map.scaling.shift
    }

    /// The features of `rows`, n×m row-major.
    pub fn transform(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        same_columns(self.map.columns(), rows.columns())?;
        rows.check_finite("X")?;
        self.map.kernel.check_domain(rows)?;
        let m = self.map.block_size;
        room("features of the rows", "n_components or the rows of X", &[rows.len(), m], 8)?;
        let mut out = vec![0.0; rows.len() * m];
        compute::features(Device::default(), &self.map.draw(BlockIndex(0))?, rows, &mut out)?;
        let scale = 1.0 / (self.features as f32).sqrt();
        out.iter_mut().for_each(|v| *v *= scale);
        if self.features < m {
            let order = Permutation::new(self.map.seed, Stream::Shuffle, BlockIndex(0), m);
            let mut taken = order.indices()[..self.features].to_vec();
            taken.sort_unstable();
            out = out.chunks_exact(m).flat_map(|row| taken.iter().map(|&i| row[i as usize])).collect();
        }
        Ok(out)
    }
}
