//! Quantiles of weighted values.

/// The least value with more than `share` of the weight at or below it: no more than `share` lies below.
pub(crate) fn weighted_quantile(values: &[f32], weights: &[f32], share: f64) -> f64 {
    let mut pairs: Vec<(f32, f32)> = values.iter().copied().zip(weights.iter().copied()).collect();
    pairs.retain(|(_, w)| *w > 0.0);
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = share * pairs.iter().map(|p| f64::from(p.1)).sum::<f64>();
    let mut seen = 0.0;
    for (value, weight) in &pairs {
        seen += f64::from(*weight);
        if seen > wanted * (1.0 + 1e-12) {
            return f64::from(*value);
        }
    }
    pairs.last().map_or(0.0, |p| f64::from(p.0))
}

#[cfg(test)]
mod tests {
    use super::weighted_quantile;

    #[test]
    fn no_more_than_the_share_lies_below() {
        let values = [3.0, 1.0, 2.0, 4.0, 9.0];
        let weights = [1.0, 1.0, 1.0, 1.0, 0.0];
        let at = |share| weighted_quantile(&values, &weights, share);
        assert_eq!([0.0, 0.2, 0.25, 0.5, 0.9, 1.0].map(at), [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]);
        // Weights count values.
        assert_eq!(weighted_quantile(&[1.0, 2.0], &[3.0, 1.0], 0.7), 1.0);
        assert_eq!(weighted_quantile(&[], &[], 0.5), 0.0);
    }
}
