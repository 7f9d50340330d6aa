//! k-means.

use rayon::prelude::*;

/// Centres, k×d, and of every point the nearest centre with the squared distance to it, both before the last means.
pub(crate) struct Clusters {
    pub(crate) centres: Vec<f64>,
    pub(crate) nearest: Vec<(usize, f64)>,
}

/// Centres that make Σ_i w_i min_c ‖x_i − c‖² small for `points`, n×d: k-means++ (Arthur and Vassilvitskii 2007) and then
/// `rounds` of Lloyd's algorithm. `uniform(c)` is the random number in (0, 1) that chooses centre c.
pub(crate) fn k_means(
    points: &[f64],
    weights: &[f64],
    d: usize,
    k: usize,
    rounds: usize,
    uniform: impl Fn(u32) -> f64,
) -> Clusters {
    let mut centres = spread_centres(points, weights, d, k, uniform);
    let mut nearest = Vec::new();
    for _ in 0..rounds {
        nearest = points.par_chunks_exact(d).map(|x| closest(x, &centres, d)).collect::<Vec<_>>();
        let mut total = vec![0.0; k];
        let mut sum = vec![0.0; k * d];
        for ((x, &(c, _)), w) in points.chunks_exact(d).zip(&nearest).zip(weights) {
            total[c] += w;
            sum[c * d..][..d].iter_mut().zip(x).for_each(|(s, x)| *s += w * x);
        }
        // A centre without points stays where it is.
        for c in (0..k).filter(|&c| total[c] > 0.0) {
            (0..d).for_each(|j| centres[c * d + j] = sum[c * d + j] / total[c]);
        }
    }
    Clusters { centres, nearest }
}

/// k points, each far from those before: drawn by weight times squared distance to the nearest.
fn spread_centres(
    points: &[f64],
    weights: &[f64],
    d: usize,
    k: usize,
    uniform: impl Fn(u32) -> f64,
) -> Vec<f64> {
    let mut distances = vec![f64::INFINITY; weights.len()];
    let mut chances = weights.to_vec();
    let mut centres: Vec<f64> = Vec::with_capacity(k * d);
    for c in 0..k {
        let threshold = uniform(c as u32) * chances.iter().sum::<f64>();
        let mut cumulative = 0.0;
        let drawn = chances.iter().position(|p| {
            cumulative += p;
            cumulative > threshold
        });
        let centre = &points[drawn.unwrap_or(c % weights.len()) * d..][..d];
        centres.extend_from_slice(centre);
        for (i, x) in points.chunks_exact(d).enumerate() {
            distances[i] = distances[i].min(squared_distance(x, centre));
            chances[i] = weights[i] * distances[i];
        }
    }
    centres
}

/// The nearest centre and the squared distance to it.
fn closest(point: &[f64], centres: &[f64], d: usize) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (c, centre) in centres.chunks_exact(d).enumerate() {
        let distance = squared_distance(point, centre);
        if distance < best.1 {
            best = (c, distance);
        }
    }
    best
}

/// ‖a − b‖².
pub(crate) fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points at 0 … 9, 100 … 109 and 200 … 209: whatever the draws, the centres are the middles.
    #[test]
    fn centres_are_the_means_of_their_points() {
        let points: Vec<f64> = (0..30).map(|i| f64::from(100 * (i / 10) + i % 10)).collect();
        for draw in 0..20 {
            let uniform = |c: u32| (f64::from(draw) + 0.5 + 7.3 * f64::from(c)) / 20.0 % 1.0;
            let mut clusters = k_means(&points, &[1.0; 30], 1, 3, 10, uniform);
            assert!(clusters.nearest.iter().all(|(_, distance)| *distance <= 4.5 * 4.5));
            clusters.centres.sort_by(f64::total_cmp);
            assert_eq!(clusters.centres, [4.5, 104.5, 204.5], "draw {draw}");
        }
    }

    #[test]
    fn points_without_weight_attract_no_centre() {
        let clusters = k_means(&[0.0, 1.0, 50.0], &[1.0, 1.0, 0.0], 1, 2, 5, |_| 0.999);
        assert!(clusters.centres.iter().all(|c| *c <= 1.0), "{:?}", clusters.centres);
        let equal = k_means(&[2.0; 6], &[1.0; 6], 1, 3, 5, |_| 0.5);
        assert_eq!(equal.centres, [2.0; 3]);
    }
}
