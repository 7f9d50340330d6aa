//! What the first rows of a stream decide.

use super::BLOCK;
use crate::compute::Device;
use crate::data::Rows;
use crate::driver::Control;
use crate::error::Result;
use crate::functions::geometry::{median_distance, Moments};
use crate::functions::kernel_machine::options::Options;
use crate::functions::kernel_machine::race::{decided, fallback, scaling, scalings, Setting};
use crate::loss::Loss;
use crate::random::{BlockIndex, Permutation, Stream as Purpose};
use crate::solver::{RidgePath, Samples, StreamRidge};

/// Features, unless the user says otherwise.
pub(super) const FEATURES: usize = 4_096;
/// Fewest features, and fewest rows that are raced on.
pub(super) const LEAST_FEATURES: usize = 512;
const LEAST_ROWS: usize = 64;
/// Bandwidths that are compared, in median distances, widest first.
const BANDWIDTHS: [f64; 4] = [2.0, 1.0, 0.5, 0.25];
/// Ridges ν that are compared.
const RIDGES: [f64; 5] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2];
/// Features of the comparison.
pub(super) const RACE_FEATURES: usize = 1_024;
/// Errors that differ by this share of themselves, and of what is explained, are taken for equal: the narrower bandwidth goes on, since
/// rows to come only pull it down.
const TIE: f64 = 0.01;

/// Features for `n` first rows: about half of them, at most the budget.
pub(super) fn features(options: &Options, n: usize) -> usize {
    let most = match (options.max_blocks, options.block_size) {
        (None, None) => FEATURES,
        (blocks, size) => blocks.unwrap_or(1).saturating_mul(size.unwrap_or(BLOCK)),
    };
    (n / 2).next_power_of_two().max(LEAST_FEATURES).min(most)
}

/// Scaling, bandwidth and ridge by what they predict of a third of the rows, from ridge regressions of −ℓ' at the start on
/// random features.
pub(super) fn choose(
    options: &Options,
    loss: &dyn Loss,
    offset: &[f32],
    Samples { batch: rows, targets, weights }: Samples<'_, Rows<'_>>,
    control: &mut Control<'_>,
) -> Result<(Setting, StreamRidge)> {
    let n = rows.len();
    let moments = Moments::of(rows, weights);
    let decided = decided(options, &moments, rows, weights, 1.0);
    let given = options.ridge.map(StreamRidge::PerRow);
    let candidates = |standard: bool| {
        let scaling = scaling(&moments, standard, options.kernel());
        let median = median_distance(rows, weights, &scaling, options.kernel(), options.seed);
        BANDWIDTHS.map(|factor| Setting {
            scaling: scaling.clone(),
            standard,
            bandwidth: factor * median,
            damping: 1.0,
        })
    };
    if n < LEAST_ROWS || decided.is_some() && given.is_some() {
        // Too few rows to compare anything by: the median distance, between standardised columns where that is open.
        let setting = decided.unwrap_or_else(|| {
            let [_, median, ..] = candidates(scalings(options).contains(&true));
            median
        });
        return Ok((setting, given.unwrap_or(StreamRidge::Total(1.0))));
    }
    let mut residuals = vec![0.0; n * loss.outputs()];
    loss.residuals(&offset.repeat(n), targets, &vec![1.0; n], &mut residuals);
    let order = Permutation::new(options.seed, Purpose::Race, BlockIndex(1), n);
    let path = RidgePath::new(rows, &residuals, weights, order.indices());
    let features = (n / 2).next_power_of_two().clamp(64, RACE_FEATURES);
    let mut tried: Vec<(Setting, usize, f64, f64)> = Vec::new();
    for standard in scalings(options) {
        let settings = decided.clone().map_or_else(|| candidates(standard).to_vec(), |setting| vec![setting]);
        for (rank, setting) in settings.into_iter().enumerate() {
            control.check(0)?;
            let map = options.feature_map(setting.bandwidth, features, setting.scaling.clone())?;
            for (ridge, error) in path.errors(&map, Device::default(), &RIDGES)? {
                tried.push((setting.clone(), rank, ridge, error));
            }
        }
    }
    let least = tried.iter().fold(f64::INFINITY, |a, t| a.min(t.3));
    let near = tried.iter().filter(|t| t.3 <= least + TIE * least.min(1.0 - least).max(0.0));
    let narrowest = near.clone().map(|t| t.1).max().unwrap_or(0);
    let best = near.filter(|t| t.1 == narrowest).min_by(|a, b| a.3.total_cmp(&b.3));
    let (setting, ridge) = best
        .map_or_else(|| (fallback(&moments, 1.0), 1.0), |(setting, _, ridge, _)| (setting.clone(), *ridge));
    Ok((setting, given.unwrap_or(StreamRidge::Total(ridge * path.trained()))))
}
