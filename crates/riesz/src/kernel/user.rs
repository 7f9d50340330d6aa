//! Kernels of one's own (spec 2.1, last row): any function (ω-seed, x) ↦ φ.

use super::{FeatureMap, KernelSpec};
use crate::compute::{ExplicitBlock, FeatureBlock};
use crate::error::{Error, Result};
use crate::random::{Address, BlockIndex, Seed, Stream};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What a function of one's own may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The features a user kernel is asked for: those of one block at some rows.
#[derive(Clone, Copy, Debug)]
pub struct FeatureTile<'a> {
    /// Seed of the block: equal seeds must give equal features, different ones independent features.
    pub seed: Seed,
    /// The rows as they are in the data, row-major.
    pub x: &'a [f32],
    /// Number d of columns.
    pub columns: usize,
    /// Number m of features.
    pub features: usize,
}

type Function = dyn Fn(FeatureTile<'_>, &mut [f32]) -> Result<(), BoxError> + Send + Sync;

/// The kernel k(x, x') = E[φ_ω(x) φ_ω(x')] of a function that draws its features.
///
/// The function writes n×m numbers, row-major, such that the mean of φ_j(x) φ_j(x') over the m features of a block
/// and over seeds is k(x, x'). Features are regenerated whenever they are needed, so they must be a pure function of
/// seed, m and row: nothing else may change them, neither the other rows of the tile nor the number of the call. This
/// cannot be checked; what is checked is that they are finite.
///
/// Columns come as they are, without shift, scale or bandwidth: a kernel that has a bandwidth has it inside.
///
/// A function has neither a text nor an equality. Its *name* stands for it: two user kernels are equal where their
/// names are, and a model file holds the name alone (see `KernelMachine::load_with_kernel`). So parameters that the
/// function has belong in the name.
///
/// ```
/// use riesz::kernel::{KernelSpec, UserKernel};
///
/// // k(x, x') = ⟨x, x'⟩, by random signs s: φ = ⟨s, x⟩.
/// let linear = UserKernel::new("linear", |tile, out| {
///     for (x, phi) in tile.x.chunks(tile.columns).zip(out.chunks_mut(tile.features)) {
///         for (j, phi) in phi.iter_mut().enumerate() {
///             let sign = |i: usize| {
///                 let word = (tile.seed.0 ^ (j * tile.columns + i) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
///                 if word >> 63 == 0 { 1.0 } else { -1.0 }
///             };
///             *phi = x.iter().enumerate().map(|(i, x)| sign(i) * x).sum();
///         }
///     }
///     Ok(())
/// });
/// assert_eq!(KernelSpec::User(linear).to_string(), "user(linear)");
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct UserKernel {
    name: String,
    /// Absent in what was read from a file.
    function: Option<Arc<Function>>,
}

impl UserKernel {
    /// The kernel whose features `function` writes; `name` stands for it in messages and files.
    pub fn new(
        name: impl Into<String>,
        function: impl Fn(FeatureTile<'_>, &mut [f32]) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), function: Some(Arc::new(function)) }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether there is a function, and not the name alone.
    pub fn is_complete(&self) -> bool {
        self.function.is_some()
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.function {
            Some(_) => Ok(()),
            None => Err(Error::KernelMissing { kernel: self.name.clone() }),
        }
    }

    /// Block `index`: the function with a seed that is drawn for the block.
    pub(super) fn draw(&self, map: &FeatureMap, index: BlockIndex) -> Result<FeatureBlock> {
        let (kernel, columns, features) = (self.clone(), map.columns(), map.block_size);
        let [low, high, ..] = Address::new(map.seed, Stream::User, index, 0).words(0);
        let seed = Seed(u64::from(high) << 32 | u64::from(low));
        ExplicitBlock::by_whole_tiles(columns, features, move |_, x, out| {
            kernel.fill(FeatureTile { seed, x, columns, features }, out)
        })
    }

    fn fill(&self, tile: FeatureTile<'_>, out: &mut [f32]) -> Result<()> {
        let Some(function) = &self.function else { return self.check() };
        let kernel = || self.name.clone();
        function(tile, out).map_err(|source| Error::User { kernel: kernel(), source })?;
        match out.iter().position(|v| !v.is_finite()) {
            Some(i) => Err(Error::FeatureNotFinite {
                kernel: kernel(),
                value: f64::from(out[i]),
                feature: i % tile.features,
            }),
            None => Ok(()),
        }
    }
}

impl From<String> for UserKernel {
    fn from(name: String) -> Self {
        Self { name, function: None }
    }
}

impl From<UserKernel> for String {
    fn from(kernel: UserKernel) -> Self {
        kernel.name
    }
}

impl PartialEq for UserKernel {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for UserKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserKernel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl KernelSpec {
    /// Whether a part of the kernel is a user's function.
    pub fn has_user_part(&self) -> bool {
        self.parts().iter().any(|kernel| matches!(kernel, Self::User(_)))
    }

    /// This kernel, read from a file, with the functions of `given`, which must be equal to it.
    pub(crate) fn completed_by(&self, given: &Self) -> Result<Self> {
        if self != given {
            return Err(Error::Conflict(format!("the model has the kernel {self}, not {given}")));
        }
        Ok(given.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::{features, Device};
    use crate::data::Rows;
    use crate::kernel::Scaling;
    use crate::random::{normal_pair, uniform};
    use std::f64::consts::{SQRT_2, TAU};

    /// √2 cos(ωᵀx/σ + b), as anybody would write it.
    pub(crate) fn gaussian(bandwidth: f64) -> UserKernel {
        UserKernel::new(format!("gaussian({bandwidth})"), move |tile, out| {
            let draw = |j: usize, i: usize| {
                let address = Address::new(tile.seed, Stream::Frequency, BlockIndex(0), j as u32);
                let [a, b, ..] = address.words(i as u32);
                normal_pair(a, b)[0]
            };
            let phase = |j: usize| {
                let address = Address::new(tile.seed, Stream::Phase, BlockIndex(0), j as u32);
                TAU * f64::from(uniform(address.words(0)[0]))
            };
            let (m, d) = (tile.features, tile.columns);
            let omega: Vec<f64> = (0..m * d).map(|i| draw(i / d, i % d) / bandwidth).collect();
            let phases: Vec<f64> = (0..m).map(phase).collect();
            for (x, out) in tile.x.chunks_exact(d).zip(out.chunks_exact_mut(m)) {
                for (j, out) in out.iter_mut().enumerate() {
                    let turn: f64 = x.iter().zip(&omega[j * d..]).map(|(&x, w)| f64::from(x) * w).sum();
                    *out = (SQRT_2 * (turn + phases[j]).cos()) as f32;
                }
            }
            Ok(())
        })
    }

    fn map(kernel: KernelSpec, m: usize, d: usize) -> FeatureMap {
        FeatureMap::new(kernel, 1.0, m, Seed(5), Scaling::identity(d)).unwrap()
    }

    fn points(n: usize, d: usize) -> Vec<f32> {
        (0..n * d).map(|i| ((i * 29) % 17) as f32 / 17.0 - 0.4).collect()
    }

    /// Mean of φ(x_a)φ(x_b) over blocks, and its standard deviation.
    fn estimate(map: &FeatureMap, x: &[f32], (a, b): (usize, usize)) -> (f64, f64) {
        const BLOCKS: u64 = 48;
        let (d, m) = (map.columns(), map.block_size);
        let means: Vec<f64> = (0..BLOCKS)
            .map(|i| {
                let mut phi = vec![0.0; x.len() / d * m];
                let rows = Rows::single(x, d).unwrap();
                features(Device::default(), &map.draw(BlockIndex(i)).unwrap(), rows, &mut phi).unwrap();
                (0..m).map(|j| f64::from(phi[a * m + j] * phi[b * m + j])).sum::<f64>() / m as f64
            })
            .collect();
        let mean = means.iter().sum::<f64>() / BLOCKS as f64;
        let variance = means.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (BLOCKS - 1) as f64;
        (mean, (variance / BLOCKS as f64).sqrt())
    }

    #[test]
    fn a_closure_has_the_kernel_it_stands_for_alone_and_in_combinations() {
        let user = || KernelSpec::User(gaussian(0.7));
        type Exact = fn(f64, f64) -> f64;
        let cases: [(KernelSpec, Exact); 4] = [
            (user(), |k, _| k),
            (KernelSpec::Sum(vec![(0.5, user()), (2.0, KernelSpec::Laplacian)]), |k, l| 0.5 * k + 2.0 * l),
            (KernelSpec::Product(vec![user(), KernelSpec::Laplacian]), |k, l| k * l),
            (KernelSpec::Product(vec![user(), user()]), |k, _| k * k),
        ];
        let x = points(4, 3);
        for (kernel, exact) in cases {
            let map = map(kernel, 256, 3);
            for (a, b) in [(0, 0), (0, 1), (1, 2), (0, 3)] {
                let rows = (&x[a * 3..][..3], &x[b * 3..][..3]);
                let k = KernelSpec::Gaussian.evaluate(rows.0, rows.1, 0.7).unwrap();
                let l = KernelSpec::Laplacian.evaluate(rows.0, rows.1, 1.0).unwrap();
                let (mean, deviation) = estimate(&map, &x, (a, b));
                let error = (mean - exact(k, l)).abs();
                assert!(error < 5.0 * deviation + 1e-6, "{}: {error} at {a}, {b}", map.kernel);
            }
        }
    }

    #[test]
    fn the_seed_is_that_of_the_block_and_tiles_do_not_matter() {
        let seeds = |b| {
            let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
            let inside = Arc::clone(&asked);
            let kernel = UserKernel::new("listens", move |tile, out| {
                inside.lock().unwrap().push((tile.seed, tile.x.len() / tile.columns, tile.features));
                out.fill(1.0);
                Ok(())
            });
            let x = points(2_500, 2);
            let block = map(KernelSpec::User(kernel), 64, 2).draw(BlockIndex(b)).unwrap();
            let rows = Rows::single(&x, 2).unwrap();
            features(Device::default(), &block, rows, &mut vec![0.0; 2_500 * 64]).unwrap();
            let asked = asked.lock().unwrap().clone();
            let sizes: usize = asked.iter().map(|a| a.1).sum();
            assert_eq!((asked.len(), sizes), (3, 2_500));
            assert!(asked.iter().all(|a| (a.0, a.2) == (asked[0].0, 64)));
            asked[0].0
        };
        assert_eq!(seeds(0), seeds(0));
        assert_ne!(seeds(0), seeds(1));
    }

    #[test]
    fn the_mean_square_is_that_of_the_features() {
        let x = points(300, 3);
        let rows = Rows::single(&x, 3).unwrap();
        let doubled = KernelSpec::Sum(vec![(2.0, KernelSpec::User(gaussian(0.7)))]);
        // φ² has mean 2 and deviation √2 a feature.
        let found = map(doubled, 1_024, 3).mean_square(rows).unwrap();
        assert!((found - 2.0).abs() < 5.0 * SQRT_2 / 32.0, "{found}");
    }

    #[test]
    fn what_fails_says_so() {
        let x = points(5, 2);
        let rows = Rows::single(&x, 2).unwrap();
        let failure = |kernel: UserKernel| {
            let map = FeatureMap { kernel: KernelSpec::User(kernel), ..map(KernelSpec::Gaussian, 64, 2) };
            let fill = |block| features(Device::default(), &block, rows, &mut [0.0; 5 * 64]);
            map.draw(BlockIndex(0)).and_then(fill).unwrap_err().to_string()
        };
        let nan = UserKernel::new("rough", |_, out| {
            out[67] = f32::NAN;
            Ok(())
        });
        assert!(failure(nan).contains("kernel rough gave NaN as feature 3"));
        assert!(
            failure(UserKernel::new("sour", |_, _| Err("no luck".into()))).contains("sour failed: no luck")
        );
        assert!(failure(UserKernel::from("gone".to_owned())).contains("gone"));
        let spec = KernelSpec::User(gaussian(1.0));
        assert!(spec.evaluate(&[0.0], &[0.0], 1.0).unwrap_err().to_string().contains("features alone"));
        assert!(!spec.has_bandwidth() && spec.has_user_part() && !KernelSpec::Gaussian.has_user_part());
    }

    #[test]
    fn a_name_is_all_that_is_written() {
        let spec = KernelSpec::Product(vec![KernelSpec::User(gaussian(1.0)), KernelSpec::Laplacian]);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(json, r#"{"product":[{"user":"gaussian(1)"},"laplacian"]}"#);
        let read: KernelSpec = serde_json::from_str(&json).unwrap();
        assert_eq!(read, spec);
        assert!(read.check().unwrap_err().to_string().contains("load_with_kernel"));
        read.completed_by(&spec).unwrap().check().unwrap();
        let other = KernelSpec::User(gaussian(2.0));
        assert!(read.completed_by(&other).unwrap_err().to_string().contains("not user(gaussian(2))"));
    }
}
