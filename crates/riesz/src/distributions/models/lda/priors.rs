//! Dirichlet priors learnt from expected counts.

use super::statistics::Statistics;
use crate::data::TILE;
use crate::distributions::special::digamma;
use rayon::prelude::*;

/// Least value of a learnt prior.
const LEAST: f64 = 1e-4;
/// Steps towards η after each pass.
const STEPS: usize = 3;

/// E[ψ(n + a) − ψ(a)] = E[Σ_{i<n} 1/(i + a)] for a random count n of which the mean is known: exact for whole numbers
/// and linear between them. (ψ at the mean would be far too large for means below one, as most are.) `psi` is ψ(a).
fn rise(mean: f64, a: f64, psi: f64) -> f64 {
    let whole = mean.floor();
    let sum = if whole > 0.0 { digamma(whole + a) - psi } else { 0.0 };
    sum + (mean - whole) / (whole + a)
}

/// One step of Minka's fixed point for α, towards the largest likelihood of the documents' topics:
/// α_k ← α_k Σ_d E[ψ(n_dk + α_k) − ψ(α_k)] / Σ_d [ψ(n_d + Σα) − ψ(Σα)]. `expected` has padded rows.
pub(super) fn learn_alpha(alpha: &mut [f64], expected: &[f32], width: usize) {
    let sum: f64 = alpha.iter().sum();
    let (psi, psi_sum) = (alpha.iter().map(|&a| digamma(a)).collect::<Vec<f64>>(), digamma(sum));
    let tile = |rows: &[f32]| {
        let (mut each, mut all) = (vec![0.0; alpha.len()], 0.0);
        for row in rows.chunks_exact(width) {
            let mut length = 0.0;
            for (k, each) in each.iter_mut().enumerate() {
                length += f64::from(row[k]);
                *each += rise(f64::from(row[k].max(0.0)), alpha[k], psi[k]);
            }
            if length > 0.0 {
                all += digamma(length + sum) - psi_sum;
            }
        }
        (each, all)
    };
    let tiles: Vec<(Vec<f64>, f64)> = expected.par_chunks(TILE * width).map(tile).collect();
    let all: f64 = tiles.iter().map(|tile| tile.1).sum();
    if all > 0.0 {
        for (k, alpha) in alpha.iter_mut().enumerate() {
            let each: f64 = tiles.iter().map(|tile| tile.0[k]).sum();
            *alpha = (*alpha * each / all).max(LEAST);
        }
    }
}

/// Steps of the same fixed point for a symmetric η:
/// η ← η Σ_{kw} E[ψ(N_wk + η) − ψ(η)] / (W Σ_k [ψ(N_k + Wη) − ψ(Wη)]).
pub(super) fn learn_eta(eta: &mut f64, statistics: &Statistics, topics: usize) {
    let width = statistics.width();
    let words = (statistics.values.len() / width) as f64;
    for _ in 0..STEPS {
        let (now, psi) = (*eta, digamma(*eta));
        let row =
            |row: &[f32]| row[..topics].iter().map(|&n| rise(f64::from(n.max(0.0)), now, psi)).sum::<f64>();
        let tile = |rows: &[f32]| rows.chunks_exact(width).map(row).sum::<f64>();
        let tiles: Vec<f64> = statistics.values.par_chunks(TILE * width).map(tile).collect();
        let psi_sum = digamma(words * now);
        let all: f64 = statistics.totals[..topics].iter().map(|n| digamma(n + words * now) - psi_sum).sum();
        if all > 0.0 {
            *eta = (now * tiles.iter().sum::<f64>() / (words * all)).max(LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::padded;
    use crate::random::{gamma, uniform_open, Address, BlockIndex, Seed, Stream};

    #[test]
    fn rise_is_a_sum_of_inverses() {
        for a in [0.01, 0.3, 2.0] {
            let sum: f64 = (0..7).map(|i| 1.0 / (f64::from(i) + a)).sum();
            assert!((rise(7.0, a, digamma(a)) - sum).abs() < 1e-10 * sum);
            assert!((rise(0.25, a, digamma(a)) - 0.25 / a).abs() < 1e-12 / a);
        }
    }

    /// Counts of documents drawn from a Dirichlet give its parameters back.
    #[test]
    fn alpha_is_recovered() {
        let (truth, width) = ([0.5, 0.1, 1.5], padded(3));
        let mut expected = vec![0.0; 3_000 * width];
        for (d, row) in expected.chunks_exact_mut(width).enumerate() {
            let mut words = Address::new(Seed(1), Stream::Synthetic, BlockIndex(0), d as u32).sequence();
            let draws = truth.map(|a| gamma(&mut words, a));
            let sum: f64 = draws.iter().sum();
            for _ in 0..60 {
                let u = uniform_open(words.next().unwrap()) * sum;
                let k = if u < draws[0] {
                    0
                } else if u < draws[0] + draws[1] {
                    1
                } else {
                    2
                };
                row[k] += 1.0;
            }
        }
        let mut alpha = [1.0; 3];
        (0..300).for_each(|_| learn_alpha(&mut alpha, &expected, width));
        // About four standard deviations of the estimate from 3,000 documents.
        assert!(alpha.iter().zip(truth).all(|(a, b)| (a / b - 1.0).abs() < 0.12), "{alpha:?}");
    }
}
