//! Functions drawn from the posterior (Matheron's rule; Wilson et al. 2020).

use super::covariance::{Hyperparameters, Points};
use crate::compute::{apply, Device};
use crate::data::Rows;
use crate::error::Result;
use crate::kernel::{FeatureForm, FeatureMap, KernelSpec, Projection, Scaling};
use crate::linalg::Cholesky;
use crate::random::{normal_pair, Address, BlockIndex, Seed, Stream};
use faer::Mat;
use rayon::prelude::*;
use std::ops::Range;

/// Features of one function.
const FEATURES: usize = 2_048;

/// Which normal numbers of a sample: two uses never share a word.
#[derive(Clone, Copy)]
pub(crate) enum Draw {
    /// Values at the test points together.
    Joint = 0,
    /// Coefficients of a function of the prior.
    Prior = 1,
    /// Noise at the training rows.
    Noise = 2,
    /// The coefficients of inducing features.
    Smooth = 3,
    /// Noise at the test points.
    Target = 4,
}

/// Normal number `i` of `sample`.
pub(crate) fn normal(seed: Seed, sample: usize, draw: Draw, i: usize) -> f64 {
    let address = Address::new(seed, Stream::Posterior, BlockIndex(sample as u64), (i / 2) as u32);
    let words = address.words(draw as u32);
    normal_pair(words[0], words[1])[i % 2]
}

/// The columns `samples` of `out` ← mean + L z with L Lᵀ = `covariance` (lower triangle) and z ~ N(0, I).
pub(crate) fn sample_normal(
    out: &mut Mat<f64>,
    mean: &[f64],
    covariance: &Mat<f64>,
    seed: Seed,
    samples: &[usize],
) -> Result<()> {
    let factor = Cholesky::of_covariance(|| covariance.clone(), &mut || Ok(()))?;
    let z = Mat::from_fn(mean.len(), samples.len(), |i, k| normal(seed, samples[k], Draw::Joint, i));
    let mut values = Mat::from_fn(mean.len(), samples.len(), |i, _| mean[i]);
    factor.add_product(&mut values, z.as_ref());
    for (k, &sample) in samples.iter().enumerate() {
        out.col_as_slice_mut(sample).copy_from_slice(values.col_as_slice(k));
    }
    Ok(())
}

/// Functions drawn from the prior, one for each of `samples`:
///
/// ```text
/// f(x) = s m^(−½) Σ_j w_j φ_j(x),   w ~ N(0, I),   φ_j = √2 cos ω_jᵀx, √2 sin ω_jᵀx,   ω ~ N(0, I)
/// ```
///
/// Every function has frequencies of its own, so that over samples mean and covariance are exactly 0 and k whatever m
/// is; m decides how normal their distribution is.
pub(crate) struct PriorSamples {
    pub(crate) seed: Seed,
    pub(crate) samples: Range<usize>,
}

impl PriorSamples {
    /// f(x), one row per point and one column per sample.
    pub(crate) fn at(&self, h: &Hyperparameters, points: &Points) -> Result<Mat<f64>> {
        let d = points.columns();
        let single: Vec<f32> = (0..points.len()).flat_map(|i| points.row(i)).map(|&v| v as f32).collect();
        let rows = Rows::single(&single, d)?;
        let map = FeatureMap {
            kernel: KernelSpec::Gaussian,
            bandwidth: 1.0,
            projection: Projection::Dense,
            form: FeatureForm::Paired,
            block_size: FEATURES,
            seed: self.seed,
            scaling: Scaling::identity(d),
        };
        map.check()?;
        let scale = (h.signal / FEATURES as f64).sqrt();
        let mut out = Mat::zeros(points.len(), self.samples.len());
        for (column, sample) in self.samples.clone().enumerate() {
            let block = map.draw(BlockIndex(sample as u64))?;
            let weight = |j: usize| (scale * normal(self.seed, sample, Draw::Prior, j)) as f32;
            let weights: Vec<f32> = (0..FEATURES).map(weight).collect();
            let mut values = vec![0.0; points.len()];
            apply(Device::default(), &[(&block, &weights)], rows, 1, &mut values)?;
            out.col_as_slice_mut(column).iter_mut().zip(&values).for_each(|(out, v)| *out = f64::from(*v));
        }
        Ok(out)
    }

    /// Adds independent normal numbers of the deviations given, one row per point and one column per sample.
    pub(crate) fn add_noise(
        &self,
        out: &mut Mat<f64>,
        draw: Draw,
        first: usize,
        deviation: impl Fn(usize) -> f64 + Sync,
    ) {
        out.par_col_iter_mut().zip(self.samples.clone()).for_each(|(column, sample)| {
            for (i, v) in column.iter_mut().enumerate() {
                *v += deviation(i) * normal(self.seed, sample, draw, first + i);
            }
        });
    }
}
