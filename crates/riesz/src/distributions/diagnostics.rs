//! Whether a posterior can be trusted: agreement of independent runs, and effective size of chains.

use super::factor::moments;

/// Scale reduction R̂ of every coordinate between groups of weighted particles (Gelman and Rubin):
///
/// ```text
/// R̂² = 1 + B/W,   W the mean of the variances within groups, B the variance of the groups' means
/// ```
///
/// and the same for the distances from the common mean, whichever is larger: 1 where all groups have the same mean and the
/// same spread; `None` for fewer than two groups. Weights sum to one in each group.
pub(super) fn r_hat(groups: &[(Vec<f64>, Vec<f64>)], d: usize) -> Option<Vec<f64>> {
    if groups.len() < 2 {
        return None;
    }
    let ratio = |values: &[Vec<f64>]| {
        let each: Vec<(f64, f64)> =
            values.iter().zip(groups).map(|(x, (_, w))| mean_and_variance(x, w)).collect();
        let count = each.len() as f64;
        let within = each.iter().map(|e| e.1).sum::<f64>() / count;
        let mean = each.iter().map(|e| e.0).sum::<f64>() / count;
        let between = each.iter().map(|e| (e.0 - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let ratio = if between == 0.0 { 1.0 } else { (1.0 + between / within).sqrt() };
        (ratio, mean)
    };
    let coordinate = |j: usize| {
        let column = |x: &[f64]| x.iter().skip(j).step_by(d).copied().collect::<Vec<f64>>();
        let mut values: Vec<Vec<f64>> = groups.iter().map(|(x, _)| column(x)).collect();
        let (means, centre) = ratio(&values);
        values.iter_mut().flatten().for_each(|x| *x = (*x - centre).abs());
        means.max(ratio(&values).0)
    };
    Some((0..d).map(coordinate).collect())
}

/// Mean and variance of values whose weights sum to one.
fn mean_and_variance(values: &[f64], weights: &[f64]) -> (f64, f64) {
    let (mean, covariance) = moments(values, weights, 1);
    (mean[0], covariance[0])
}

/// The effective number of positions of equally many chains, the smallest over the coordinates and their distances from the
/// mean: that of independent draws whose mean varies as much as the mean over the chains does,
///
/// ```text
/// chains · var(θ) / var(means of chains)
/// ```
///
/// one where they are all the same. Positions come all chains' first, then all their second and so on.
pub(super) fn chain_size(positions: &[f64], d: usize, chains: usize) -> f64 {
    let count = positions.len() / d;
    let length = (count / chains).max(1) as f64;
    let mean_of = |values: &[f64]| values.iter().sum::<f64>() / count as f64;
    let size = |values: &[f64]| {
        let mean = mean_of(values);
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count as f64;
        let mut means = vec![0.0; chains];
        values.iter().enumerate().for_each(|(i, x)| means[i % chains] += (x - mean) / length);
        let between = means.iter().map(|m| m * m).sum::<f64>() / (chains - 1).max(1) as f64;
        if between > 0.0 {
            chains as f64 * variance / between
        } else if variance > 0.0 {
            count as f64
        } else {
            1.0
        }
    };
    let smallest = |j: usize| {
        let mut values: Vec<f64> = positions.iter().skip(j).step_by(d).copied().collect();
        let along = size(&values);
        let mean = mean_of(&values);
        values.iter_mut().for_each(|x| *x = (*x - mean).abs());
        along.min(size(&values))
    };
    (0..d).map(smallest).fold(count as f64, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{normal_pair, Address, BlockIndex, Seed, Stream};

    fn normal(block: u64, i: u32) -> f64 {
        let words = Address::new(Seed(1), Stream::Synthetic, BlockIndex(block), i).words(0);
        normal_pair(words[0], words[1])[0]
    }

    #[test]
    fn r_hat_tells_agreement_from_disagreement() {
        let run = |block, shift| (0..400).map(|i| shift + normal(block, i)).collect::<Vec<f64>>();
        let (a, b, c) = (run(0, 0.0), run(1, 0.0), run(2, 3.0));
        let weights = vec![1.0 / 400.0; 400];
        let agree = r_hat(&[(a.clone(), weights.clone()), (b, weights.clone())], 1);
        assert!(agree.is_some_and(|r| r[0] < 1.02));
        // Means 3 apart: B = 4.5, W = 1.
        let apart = r_hat(&[(a.clone(), weights.clone()), (c, weights.clone())], 1);
        assert!(apart.is_some_and(|r| (r[0] - 5.5_f64.sqrt()).abs() < 0.2));
        // Deviations 1 and 3: means |x| of 0.8 and 2.4, W = 0.36 (1 + 9)/2.
        let wide: Vec<f64> = a.iter().map(|x| 3.0 * x).collect();
        let spread = r_hat(&[(a.clone(), weights.clone()), (wide, weights.clone())], 1);
        assert!(spread.is_some_and(|r| (r[0] - (1.0 + 1.28 / 1.8_f64).sqrt()).abs() < 0.1));
        assert!(r_hat(&[(a, weights)], 1).is_none());
    }

    /// x_t = ρ x_{t−1} + √(1−ρ²) z has effective size near n (1−ρ)/(1+ρ) for chains that are long enough.
    #[test]
    fn positions_of_slow_chains_count_less() {
        let (chains, length, rho) = (200, 50, 0.8_f64);
        let mut now: Vec<f64> = (0..chains).map(|i| normal(0, i)).collect();
        let mut all = now.clone();
        for t in 1..length {
            let step = |(i, x): (usize, &f64)| rho * x + (1.0 - rho * rho).sqrt() * normal(t, i as u32);
            now = now.iter().enumerate().map(step).collect();
            all.extend_from_slice(&now);
        }
        let expected = f64::from(chains) * 50.0 * 0.2 / 1.8;
        let found = chain_size(&all, 1, chains as usize);
        // A variance of 200 means has a relative deviation of √(2/199) = 0.1; chains of 50 bring a few per cent.
        assert!((found / expected - 1.0).abs() < 0.35, "{found} {expected}");
    }
}
