//! Sums and products of kernels.

use super::{FeatureMap, KernelSpec};
use crate::compute::{ExplicitBlock, FeatureBlock, FEATURE_MULTIPLE};
use crate::error::Result;
use crate::random::{BlockIndex, Permutation, Seed, Stream};

/// The seed of part i: the parts of a combination must be independent.
fn seed_of(seed: Seed, part: usize) -> Seed {
    Seed(seed.0 ^ (part as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn part(map: &FeatureMap, kernel: &KernelSpec, i: usize, block_size: usize) -> FeatureMap {
    let seed = seed_of(map.seed, i);
    let projection = super::feature_map::default_projection(kernel, map.columns());
    FeatureMap { kernel: kernel.clone(), seed, block_size, projection, ..map.clone() }
}

/// k = Σ c_i k_i: part i gets a share m_i of the m features in proportion to c_i (the text picks a part at random for
/// every feature: the same mean, more variance), multiplied by √(c_i m/m_i).
pub(super) fn draw_sum(
    map: &FeatureMap,
    terms: &[(f64, KernelSpec)],
    index: BlockIndex,
) -> Result<FeatureBlock> {
    let (d, m) = (map.columns(), map.block_size);
    let sizes = shares(terms, m);
    let parts: Vec<(f32, FeatureBlock)> = terms
        .iter()
        .zip(&sizes)
        .enumerate()
        .map(|(i, ((c, kernel), &size))| {
            let scale = (c * m as f64 / size as f64).sqrt() as f32;
            Ok((scale, part(map, kernel, i, size).draw(index)?))
        })
        .collect::<Result<_>>()?;
    ExplicitBlock::by_tiles(d, m, move |device, x, out| {
        let mut offset = 0;
        for (scale, block) in &parts {
            let size = block.features();
            let mut phi = vec![0.0; x.len() / d * size];
            block.fill(device, x, &mut phi)?;
            for (row, phi) in out.chunks_exact_mut(m).zip(phi.chunks_exact(size)) {
                row[offset..offset + size].iter_mut().zip(phi).for_each(|(out, v)| *out = scale * v);
            }
            offset += size;
        }
        Ok(())
    })
}

/// Features of each term: at least one group each, the rest by largest remainder.
fn shares(terms: &[(f64, KernelSpec)], m: usize) -> Vec<usize> {
    let group = 2 * FEATURE_MULTIPLE;
    let total: f64 = terms.iter().map(|(c, _)| c).sum();
    let spare = (m / group - terms.len()) as f64;
    let wanted: Vec<f64> = terms.iter().map(|(c, _)| spare * c / total).collect();
    let mut groups: Vec<usize> = wanted.iter().map(|w| 1 + *w as usize).collect();
    let mut order: Vec<usize> = (0..terms.len()).collect();
    order.sort_by(|&a, &b| wanted[b].fract().total_cmp(&wanted[a].fract()));
    let missing = m / group - groups.iter().sum::<usize>();
    order.iter().take(missing).for_each(|&i| groups[i] += 1);
    groups.iter().map(|g| g * group).collect()
}

/// k = Π k_i: features with independent ω, multiplied, those of each factor in an order of its own. A block as a whole
/// stands for its kernel, a single feature need not (cosine and sine, the terms of a sum); in random order the mean of
/// the products is the product of the means.
pub(super) fn draw_product(
    map: &FeatureMap,
    factors: &[KernelSpec],
    index: BlockIndex,
) -> Result<FeatureBlock> {
    let (d, m) = (map.columns(), map.block_size);
    let parts: Vec<(Permutation, FeatureBlock)> = factors
        .iter()
        .enumerate()
        .map(|(i, kernel)| {
            let part = part(map, kernel, i, m);
            Ok((Permutation::new(part.seed, Stream::Shuffle, index, m), part.draw(index)?))
        })
        .collect::<Result<_>>()?;
    ExplicitBlock::by_tiles(d, m, move |device, x, out| {
        out.fill(1.0);
        let mut phi = vec![0.0; out.len()];
        for (order, block) in &parts {
            block.fill(device, x, &mut phi)?;
            for (out, phi) in out.chunks_exact_mut(m).zip(phi.chunks_exact(m)) {
                out.iter_mut().zip(order.indices()).for_each(|(out, &i)| *out *= phi[i as usize]);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_leave_nobody_out() {
        let terms = |c: &[f64]| c.iter().map(|&c| (c, KernelSpec::Gaussian)).collect::<Vec<_>>();
        assert_eq!(shares(&terms(&[1.0, 1.0]), 512), [256, 256]);
        assert_eq!(shares(&terms(&[1.0, 1e-9, 3.0]), 1_024).iter().sum::<usize>(), 1_024);
        assert_eq!(shares(&terms(&[1.0, 1e-9, 3.0]), 1_024)[1], 64);
        assert_eq!(shares(&terms(&[2.0, 1.0]), 128), [64, 64]);
    }
}
