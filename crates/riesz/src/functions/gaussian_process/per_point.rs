//! Posterior variances as ridge regressions (spec 2.5, route 2).

use crate::data::Rows;
use crate::error::Result;
use crate::kernel::FeatureMap;
use crate::memory::room;
use crate::solver::RidgeConfig;
use crate::space::{FeatureExpansion, Function};

/// Variances at test points known in advance, in units of s² and with `noise` = σ²/s²: one ridge regression per test
/// point x*_i, on the targets y_j = k(x*_i, x_j) and with ν = σ²/n, all of them as one problem of many outputs. Then
///
/// ```text
/// f_i(x*_i) = k*ᵀ(K + σ²I)⁻¹k*   and   var(x*_i) = k(x*_i, x*_i) − f_i(x*_i).
/// ```
///
/// The regressions live on `blocks` blocks of the features of `map`: the error falls like one over the root of their
/// number. Targets and k(x*, x*) are exact.
pub fn ridge_variances(
    map: &FeatureMap,
    blocks: usize,
    rows: Rows<'_>,
    test: Rows<'_>,
    noise: f64,
) -> Result<Vec<f64>> {
    let (n, t) = (rows.len(), test.len());
    room("coefficients", "n_blocks or the rows of X_test", &[blocks, map.block_size, t + 1], 8)?;
    room("rows made dense", "the rows or columns of X", &[n.max(t), rows.columns()], 8)?;
    let (x, points) = (scaled_rows(map, rows), scaled_rows(map, test));
    let targets: Vec<f32> = (0..n * t)
        .map(|i| Ok(map.kernel.evaluate(&x[i / t], &points[i % t], map.bandwidth)? as f32))
        .collect::<Result<_>>()?;
    let config = RidgeConfig { ridge: noise / n as f64, blocks, tolerance: 1e-6, max_iterations: 1_000 };
    let f = FeatureExpansion::new(map.clone(), vec![0.0; t]);
    let (f, _) = config.build()?.fit(f, rows, &targets, &vec![1.0; n], |_, _| Ok(()))?;
    let mut values = vec![0.0; t * t];
    f.evaluate(test, &mut values)?;
    let prior = prior_variances(map, test)?;
    Ok((0..t).map(|i| prior[i] - f64::from(values[i * t + i])).collect())
}

/// The rows as the kernel of `map` sees them: shifted and scaled.
pub(super) fn scaled_rows(map: &FeatureMap, rows: Rows<'_>) -> Vec<Vec<f32>> {
    let value = |i: usize, c: usize| (rows.value(i, c) as f32 - map.scaling.shift[c]) * map.scaling.scale[c];
    (0..rows.len()).map(|i| (0..rows.columns()).map(|c| value(i, c)).collect()).collect()
}

/// k(x, x) of every row.
pub(super) fn prior_variances(map: &FeatureMap, rows: Rows<'_>) -> Result<Vec<f64>> {
    scaled_rows(map, rows).iter().map(|x| map.kernel.evaluate(x, x, map.bandwidth)).collect()
}
