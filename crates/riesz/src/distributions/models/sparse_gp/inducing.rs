//! Which inputs are inducing.

use crate::gaussian::covariance::Points;
use crate::linalg::k_means::{k_means, squared_distance};
use crate::random::{uniform_open, Address, BlockIndex, Permutation, Seed, Stream};
use rayon::prelude::*;
use std::collections::HashSet;

/// Rows among which the centres of particles are looked for.
const SAMPLE: usize = 8_192;
/// Rounds of k-means.
const ROUNDS: usize = 10;
/// Rows a local set learns from: as a share of all, and at least as many times those it is drawn from.
const LEARNT: f64 = 0.5;
const LEAST_LEARNT: usize = 4;

/// Block of the permutation that orders rows before the centres are looked for; those of particles come before.
const CENTRES: BlockIndex = BlockIndex(1 << 40);

/// The ball of rows that a set learns from, in units of the length scales.
#[derive(Clone, Debug)]
pub(super) struct Ball {
    pub(super) centre: Vec<f64>,
    pub(super) squared_radius: f64,
}

impl Ball {
    /// All rows.
    pub(super) fn everything(columns: usize) -> Self {
        Self { centre: vec![0.0; columns], squared_radius: f64::INFINITY }
    }

    pub(super) fn contains(&self, row: &[f64]) -> bool {
        squared_distance(row, &self.centre) <= self.squared_radius
    }
}

/// Rows (in units of the length scales) to draw sets of `size` from; equal rows count once.
pub(super) struct Candidates<'a> {
    points: &'a Points,
    distinct: Vec<usize>,
    seed: Seed,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(points: &'a Points, seed: Seed) -> Self {
        let mut seen = HashSet::new();
        // Zero has two signs and is one number.
        let key = |i: usize| points.row(i).iter().map(|v| (v + 0.0).to_bits()).collect::<Vec<_>>();
        let distinct = (0..points.len()).filter(|&i| seen.insert(key(i))).collect();
        Self { points, distinct, seed }
    }

    /// All of them, where a set may be that large.
    pub(super) fn all(&self, size: usize) -> Option<Vec<usize>> {
        (self.distinct.len() <= size).then(|| self.distinct.clone())
    }

    /// Independent draws without replacement, `count` sets.
    pub(super) fn random(&self, size: usize, count: usize) -> Vec<Vec<usize>> {
        (0..count).map(|set| self.draw(&self.distinct, size, set)).collect()
    }

    /// Sets around the centres of clusters, each drawn from as many rows nearest to a centre as are an equal share of all.
    /// Neighbouring sets overlap, together they cover the rows, and where one of them is dense the others know that they
    /// know less. A set learns from the half of the rows that is nearest, or from
    /// four times as many as it is drawn from where that is more.
    pub(super) fn local(&self, size: usize, count: usize) -> Vec<(Vec<usize>, Ball)> {
        let n = self.distinct.len();
        let share = n.div_ceil(count).clamp(size, n);
        let learnt = ((LEARNT * n as f64).ceil() as usize).max(LEAST_LEARNT * share).min(n);
        let local = |(set, centre): (usize, Vec<f64>)| {
            let mut near: Vec<(f64, usize)> =
                self.distinct.iter().map(|&i| (squared_distance(self.points.row(i), &centre), i)).collect();
            near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let squared_radius = if learnt < n { near[learnt - 1].0 } else { f64::INFINITY };
            let near: Vec<usize> = near[..share].iter().map(|(_, i)| *i).collect();
            (self.draw(&near, size, set), Ball { centre, squared_radius })
        };
        self.centres(count).into_par_iter().enumerate().map(local).collect()
    }

    fn draw(&self, from: &[usize], size: usize, set: usize) -> Vec<usize> {
        let order = Permutation::new(self.seed, Stream::Inducing, BlockIndex(set as u64), from.len());
        order.indices().iter().take(size).map(|&i| from[i as usize]).collect()
    }

    /// Centres of clusters of some rows.
    fn centres(&self, count: usize) -> Vec<Vec<f64>> {
        let order = Permutation::new(self.seed, Stream::Inducing, CENTRES, self.distinct.len());
        let sample = order.indices().iter().take(SAMPLE).map(|&i| self.distinct[i as usize]);
        let rows: Vec<f64> = sample.flat_map(|i| self.points.row(i)).copied().collect();
        let d = self.points.columns();
        let uniform = |c| uniform_open(Address::new(self.seed, Stream::Inducing, CENTRES, c).words(0)[0]);
        let clusters = k_means(&rows, &vec![1.0; rows.len() / d], d, count, ROUNDS, uniform);
        clusters.centres.chunks_exact(d).map(<[f64]>::to_vec).collect()
    }
}
