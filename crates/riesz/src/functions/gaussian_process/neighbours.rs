//! Nearest rows by exhaustive search.

use crate::gaussian::covariance::Points;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use rayon::prelude::*;
use std::ops::Range;

/// Queries whose distances are computed at once, by one thread.
const QUERIES: usize = 64;
/// Candidates whose distances are computed at once.
const CANDIDATES: usize = 1_024;

/// Rows among which the nearest are looked for, in single precision.
#[derive(Clone, Debug)]
pub(super) struct Neighbourhood {
    /// One column per row.
    rows: Mat<f32>,
    /// ½‖x‖².
    halves: Vec<f32>,
}

impl Neighbourhood {
    /// Copies the rows.
    pub(super) fn new(points: &Points) -> Self {
        Self { rows: single(points), halves: points.squares().iter().map(|s| 0.5 * *s as f32).collect() }
    }

    /// For every query the `count` nearest of the rows `candidates(query)` (fewer where there are fewer), in
    /// ascending order of their indices. Rounding may exchange rows equally far away.
    pub(super) fn nearest(
        &self,
        queries: &Points,
        count: usize,
        candidates: impl Fn(usize) -> Range<usize> + Sync,
    ) -> Vec<Vec<u32>> {
        let b = single(queries);
        let search = |start: usize| {
            let end = (start + QUERIES).min(queries.len());
            let ranges: Vec<Range<usize>> = (start..end).map(&candidates).collect();
            self.search(b.as_ref().subcols(start, end - start), count, &ranges)
        };
        let starts: Vec<usize> = (0..queries.len()).step_by(QUERIES).collect();
        starts.into_par_iter().flat_map_iter(search).collect()
    }

    /// The same for the columns of `queries`, each with its range of candidates.
    fn search(&self, queries: MatRef<'_, f32>, count: usize, ranges: &[Range<usize>]) -> Vec<Vec<u32>> {
        let first = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let last = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let mut lists = vec![Shortlist::new(count); ranges.len()];
        for from in (first..last).step_by(CANDIDATES) {
            let to = (from + CANDIDATES).min(last);
            let products = products(self.rows.as_ref().subcols(from, to - from), queries);
            for (q, (list, range)) in lists.iter_mut().zip(ranges).enumerate() {
                let (low, high) = (range.start.clamp(from, to), range.end.clamp(from, to));
                if low < high {
                    let column = &products.col_as_slice(q)[low - from..high - from];
                    // ½‖a − b‖² less what is the same for all candidates.
                    let scores = column.iter().zip(&self.halves[low..high]).map(|(p, half)| half - p);
                    scores.zip(low as u32..).for_each(|(score, j)| list.offer(score, j));
                }
            }
        }
        lists.into_iter().map(Shortlist::indices).collect()
    }
}

/// One column of single precision per row.
fn single(points: &Points) -> Mat<f32> {
    Mat::from_fn(points.columns(), points.len(), |c, i| points.row(i)[c] as f32)
}

/// Aᵀ B by one thread.
fn products(a: MatRef<'_, f32>, b: MatRef<'_, f32>) -> Mat<f32> {
    let mut out = Mat::zeros(a.ncols(), b.ncols());
    matmul(out.as_mut(), Accum::Replace, a.transpose(), b, 1.0, Par::Seq);
    out
}

/// The nearest so far, and up to as many that may yet turn out to be too far.
#[derive(Clone)]
struct Shortlist {
    count: usize,
    found: Vec<(f32, u32)>,
    bound: f32,
}

impl Shortlist {
    fn new(count: usize) -> Self {
        let bound = if count == 0 { f32::NEG_INFINITY } else { f32::INFINITY };
        Self { count, found: Vec::with_capacity(2 * count), bound }
    }

    #[inline]
    fn offer(&mut self, score: f32, index: u32) {
        if score < self.bound {
            self.found.push((score, index));
            if self.found.len() == 2 * self.count {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        if self.found.len() <= self.count {
            return;
        }
        let order = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        self.found.select_nth_unstable_by(self.count - 1, order);
        self.found.truncate(self.count);
        self.bound = self.found.iter().fold(f32::NEG_INFINITY, |a, b| a.max(b.0));
    }

    fn indices(mut self) -> Vec<u32> {
        self.cut();
        let mut indices: Vec<u32> = self.found.into_iter().map(|(_, index)| index).collect();
        indices.sort_unstable();
        indices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_sorting_all_distances() {
        let (n, d, count) = (2_500, 3, 7);
        let values: Vec<f64> = (0..n * d).map(|i| (i as f64 * 0.618_033_988_7).fract()).collect();
        let rows = Points::new(&values, &[0.5; 3], &[1.0, 2.0, 0.5]);
        let near = Neighbourhood::new(&rows);
        let found = near.nearest(&rows, count, |i| i.saturating_sub(2_000)..i);
        for i in [0, 1, 5, 7, 8, 64, 1_023, 1_024, 2_049, 2_499] {
            let distance = |j: usize| -> f64 {
                rows.row(i).iter().zip(rows.row(j)).map(|(a, b)| (a - b) * (a - b)).sum()
            };
            let mut order: Vec<usize> = (i.saturating_sub(2_000)..i).collect();
            order.sort_by(|a, b| distance(*a).total_cmp(&distance(*b)));
            let furthest = order.iter().take(count).map(|&j| distance(j)).fold(0.0, f64::max);
            assert_eq!(found[i].len(), i.min(count), "row {i}");
            assert!(found[i].windows(2).all(|pair| pair[0] < pair[1]));
            // Rounding may only exchange rows at the rim.
            assert!(found[i].iter().all(|&j| distance(j as usize) <= furthest + 1e-5), "row {i}");
        }
        assert!(near.nearest(&rows, 0, |_| 0..n).iter().all(Vec::is_empty));
    }
}
