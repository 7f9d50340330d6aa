//! What the columns look like: scalings and distances.

use crate::data::{tiles, Rows};
use crate::kernel::{KernelSpec, Scaling};
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use rayon::prelude::*;

/// Weighted means and variances of the columns.
pub(crate) struct Moments {
    pub mean: Vec<f64>,
    pub variance: Vec<f64>,
}

impl Moments {
    /// Two passes, tile by tile.
    pub(crate) fn of(rows: Rows<'_>, weights: &[f32]) -> Self {
        let mean = weighted_sums(rows, weights, |_, v| v);
        let variance = weighted_sums(rows, weights, |j, v| (v - mean[j]).powi(2));
        Self { mean, variance }
    }

    /// Columns as they are, around their mean: only differences enter a shift-invariant kernel.
    pub(crate) fn centred(&self) -> Scaling {
        Scaling { shift: self.mean.iter().map(|&m| m as f32).collect(), scale: vec![1.0; self.mean.len()] }
    }

    /// Unit variance; constant columns (to rounding) are switched off.
    pub(crate) fn standard(&self) -> Scaling {
        let scale = |(m, v): (&f64, &f64)| match v.sqrt() {
            s if s > 1e-6 * m.abs().max(1e-30) => (1.0 / s) as f32,
            _ => 0.0,
        };
        let scale = self.mean.iter().zip(&self.variance).map(scale).collect();
        Scaling { shift: self.mean.iter().map(|&m| m as f32).collect(), scale }
    }

    /// scikit-learn's `gamma="scale"`: γ = 1/(d·var) with var over all entries, and σ = 1/√(2γ).
    pub(crate) fn scale_bandwidth(&self) -> f64 {
        let d = self.mean.len() as f64;
        let grand = self.mean.iter().sum::<f64>() / d;
        let between = self.mean.iter().map(|m| (m - grand).powi(2)).sum::<f64>() / d;
        let variance = self.variance.iter().sum::<f64>() / d + between;
        if variance > 0.0 {
            (d * variance / 2.0).sqrt()
        } else {
            1.0
        }
    }
}

fn weighted_sums(rows: Rows<'_>, weights: &[f32], value: impl Fn(usize, f64) -> f64 + Sync) -> Vec<f64> {
    let d = rows.columns();
    let all: Vec<_> = tiles(rows.len()).collect();
    let partials: Vec<Vec<f64>> = all
        .into_par_iter()
        .map_init(Vec::new, |buffer, tile| {
            let mut sums = vec![0.0; d + 1];
            let w = &weights[tile.clone()];
            for (row, &w) in rows.tile(tile, buffer).chunks_exact(d).zip(w) {
                row.iter().enumerate().for_each(|(j, &v)| sums[j] += f64::from(w) * value(j, f64::from(v)));
                sums[d] += f64::from(w);
            }
            sums
        })
        .collect();
    let mut total = vec![0.0; d + 1];
    partials.iter().for_each(|p| total.iter_mut().zip(p).for_each(|(t, v)| *t += v));
    total[..d].iter().map(|s| s / total[d]).collect()
}

/// The median distance between rows of positive weight, in the metric of the kernel, each pair counted with the
/// product of its weights. On more than 1,000 rows, on a random 1,000 of them.
pub(crate) fn median_distance(
    rows: Rows<'_>,
    weights: &[f32],
    scaling: &Scaling,
    kernel: KernelSpec,
    seed: Seed,
) -> f64 {
    const MOST: usize = 1_000;
    let n = rows.len();
    let order = match n {
        0..=MOST => (0..n as u32).collect(),
        _ => Permutation::new(seed, Stream::Race, BlockIndex(u64::MAX >> 16), n).indices()[..MOST].to_vec(),
    };
    let d = rows.columns();
    let mut x = rows.gather(&order);
    x.chunks_exact_mut(d).for_each(|row| {
        row.iter_mut().enumerate().for_each(|(j, v)| *v = (*v - scaling.shift[j]) * scaling.scale[j]);
    });
    let w: Vec<f64> = order.iter().map(|&i| f64::from(weights[i as usize])).collect();
    let distance = |a: &[f32], b: &[f32]| match kernel {
        KernelSpec::Gaussian => a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt(),
        KernelSpec::Laplacian => a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f32>(),
    };
    let mut pairs: Vec<(f32, f64)> = (0..order.len())
        .into_par_iter()
        .flat_map_iter(|i| {
            let (x, w) = (&x, &w);
            (0..i).map(move |j| (distance(&x[i * d..(i + 1) * d], &x[j * d..(j + 1) * d]), w[i] * w[j]))
        })
        .filter(|(distance, weight)| *distance > 0.0 && *weight > 0.0)
        .collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = pairs.iter().map(|p| p.1).sum::<f64>() / 2.0;
    let mut seen = 0.0;
    for (distance, weight) in &pairs {
        seen += weight;
        if seen >= half {
            return f64::from(*distance);
        }
    }
    1.0
}
