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
    fn centred(&self) -> Scaling {
        Scaling { shift: self.mean.iter().map(|&m| m as f32).collect(), scale: vec![1.0; self.mean.len()] }
    }

    /// Columns as the kernel takes them unscaled: around their mean where only differences matter, else untouched.
    pub(crate) fn unscaled(&self, kernel: &KernelSpec) -> Scaling {
        match kernel.is_shift_invariant() {
            true => self.centred(),
            false => Scaling::identity(self.mean.len()),
        }
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
    kernel: &KernelSpec,
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
        KernelSpec::Laplacian => a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f32>(),
        _ => a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt(),
    };
    let mut pairs: Vec<(f32, f64)> = (0..order.len())
        .into_par_iter()
        .flat_map_iter(|i| {
            let (x, w) = (&x, &w);
            (0..i).map(move |j| (distance(&x[i * d..(i + 1) * d], &x[j * d..(j + 1) * d]), w[i] * w[j]))
        })
        .filter(|(distance, weight)| *distance > 0.0 && *weight > 0.0)
        .collect();
    // Pairs at the same distance may change places: what is returned is a distance.
    pairs.par_sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Three columns: uneven numbers, the same around 1,000, a constant.
    fn table(n: usize) -> Vec<f32> {
        (0..n).flat_map(|i| [((i * 7919) % 1_009) as f32 / 500.0, 1_000.0 + (i % 7) as f32, 0.1]).collect()
    }

    #[test]
    fn moments_are_weighted_means_and_variances() {
        let n = 2_500;
        let x = table(n);
        let weights: Vec<f32> = (0..n).map(|i| (i % 3) as f32).collect();
        let moments = Moments::of(Rows::single(&x, 3).unwrap(), &weights);
        let mass: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        for j in 0..3 {
            let mean_of = |f: &dyn Fn(f64) -> f64| {
                (0..n).map(|i| f64::from(weights[i]) * f(f64::from(x[3 * i + j]))).sum::<f64>() / mass
            };
            let mean = mean_of(&|v| v);
            let variance = mean_of(&|v| (v - mean).powi(2));
            assert!((moments.mean[j] - mean).abs() < 1e-12 * mean.abs(), "column {j}");
            assert!((moments.variance[j] - variance).abs() <= 1e-12 * variance.max(1e-12), "column {j}");
        }
        let standard = moments.standard();
        assert!((f64::from(standard.scale[1]).powi(-2) - moments.variance[1]).abs() < 1e-5);
        assert_eq!(standard.scale[2], 0.0);
        assert_eq!(moments.centred().scale, [1.0; 3]);
    }

    /// scikit-learn: gamma = 1/(d·X.var()) over all entries, and exp(−γr²) = exp(−r²/2σ²).
    #[test]
    fn the_scale_bandwidth_is_that_of_scikit_learn() {
        let x = table(100);
        let mean = x.iter().map(|&v| f64::from(v)).sum::<f64>() / 300.0;
        let variance = x.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / 300.0;
        let gamma = 1.0 / (3.0 * variance);
        let found = Moments::of(Rows::single(&x, 3).unwrap(), &[1.0; 100]).scale_bandwidth();
        assert!((found - (0.5 / gamma).sqrt()).abs() < 1e-9 * found);
        assert_eq!(Moments::of(Rows::single(&[2.0; 6], 3).unwrap(), &[1.0; 2]).scale_bandwidth(), 1.0);
    }

    fn median(x: &[f32], weights: &[f32], kernel: KernelSpec) -> f64 {
        let scaling = Scaling { shift: vec![0.5, 0.0], scale: vec![1.0, 2.0] };
        median_distance(Rows::single(x, 2).unwrap(), weights, &scaling, &kernel, Seed(1))
    }

    #[test]
    fn the_median_is_over_pairs_in_the_metric_of_the_kernel() {
        let x = [0.0, 0.0, 3.0, 0.0, 0.0, 2.0_f32];
        // Distances 3, 4 and 5; in the other metric 3, 4 and 7.
        assert_eq!(median(&x, &[1.0; 3], KernelSpec::Gaussian), 4.0);
        assert_eq!(median(&x, &[1.0; 3], KernelSpec::Laplacian), 4.0);
        assert_eq!(median(&x, &[1.0, 1.0, 0.0], KernelSpec::Gaussian), 3.0);
        assert_eq!(median(&x, &[0.0, 1.0, 1.0], KernelSpec::Laplacian), 7.0);
        // Weights count pairs: the pair of the two heavy rows is the median.
        assert_eq!(median(&x, &[1.0, 9.0, 9.0], KernelSpec::Gaussian), 5.0);
        // Nothing to measure.
        assert_eq!(median(&[1.0; 8], &[1.0; 4], KernelSpec::Gaussian), 1.0);
        assert_eq!(median(&x[..2], &[1.0], KernelSpec::Gaussian), 1.0);
    }

    /// Of 4,000 rows a random thousand stand for all: half a million dependent pairs put the median at the 50 ± 2 %
    /// quantile (1,000 rows: 0.5/√1,000 = 1.6 %), which for uniform rows is a distance within 3 %.
    #[test]
    fn the_median_of_many_rows_is_estimated_on_a_part() {
        let n = 4_000;
        let x: Vec<f32> =
            (0..2 * n as u64).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 8 & 0xffff) as f32).collect();
        let all = {
            let mut distances: Vec<f32> = (0..n)
                .step_by(7)
                .flat_map(|i| (0..n).filter(move |j| *j != i).map(move |j| (i, j)))
                .map(|(i, j)| (x[2 * i] - x[2 * j]).hypot(2.0 * (x[2 * i + 1] - x[2 * j + 1])))
                .collect();
            distances.sort_by(f32::total_cmp);
            f64::from(distances[distances.len() / 2])
        };
        let found = median(&x, &vec![1.0; n], KernelSpec::Gaussian);
        assert!((found / all - 1.0).abs() < 0.05, "{found} vs {all}");
    }
}
