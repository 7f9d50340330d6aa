//! Which inputs are inducing.

use crate::functions::gaussian_process::covariance::Points;
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
pub(super) struct Reach {
    pub(super) centre: Vec<f64>,
    /// The square of its radius.
    pub(super) square: f64,
}

impl Reach {
    /// All rows.
    pub(super) fn everything(columns: usize) -> Self {
        Self { centre: vec![0.0; columns], square: f64::INFINITY }
    }

    pub(super) fn contains(&self, row: &[f64]) -> bool {
        distance(row, &self.centre) <= self.square
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
    pub(super) fn local(&self, size: usize, count: usize) -> Vec<(Vec<usize>, Reach)> {
        let n = self.distinct.len();
        let share = n.div_ceil(count).clamp(size, n);
        let learnt = ((LEARNT * n as f64).ceil() as usize).max(LEAST_LEARNT * share).min(n);
        let local = |(set, centre): (usize, Vec<f64>)| {
            let mut near: Vec<(f64, usize)> =
                self.distinct.iter().map(|&i| (distance(self.points.row(i), &centre), i)).collect();
            near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let square = if learnt < n { near[learnt - 1].0 } else { f64::INFINITY };
            let near: Vec<usize> = near[..share].iter().map(|(_, i)| *i).collect();
            (self.draw(&near, size, set), Reach { centre, square })
        };
        self.centres(count).into_par_iter().enumerate().map(local).collect()
    }

    fn draw(&self, from: &[usize], size: usize, set: usize) -> Vec<usize> {
        let order = Permutation::new(self.seed, Stream::Inducing, BlockIndex(set as u64), from.len());
        order.indices().iter().take(size).map(|&i| from[i as usize]).collect()
    }

    /// k-means from a start by k-means++ (Arthur and Vassilvitskii 2007), on some rows.
    fn centres(&self, count: usize) -> Vec<Vec<f64>> {
        let order = Permutation::new(self.seed, Stream::Inducing, CENTRES, self.distinct.len());
        let rows: Vec<&[f64]> = order
            .indices()
            .iter()
            .take(SAMPLE)
            .map(|&i| self.points.row(self.distinct[i as usize]))
            .collect();
        let mut centres: Vec<Vec<f64>> = rows.first().map(|row| row.to_vec()).into_iter().collect();
        let mut nearest = vec![f64::INFINITY; rows.len()];
        while centres.len() < count {
            let last = &centres[centres.len() - 1];
            nearest.iter_mut().zip(&rows).for_each(|(d, row)| *d = d.min(distance(row, last)));
            let address = Address::new(self.seed, Stream::Inducing, CENTRES, centres.len() as u32);
            let mut left = uniform_open(address.words(0)[0]) * nearest.iter().sum::<f64>();
            let found = nearest.iter().position(|d| {
                left -= d;
                left <= 0.0
            });
            centres.push(rows[found.unwrap_or(0)].to_vec());
        }
        for _ in 0..ROUNDS {
            centres = means(&rows, &centres);
        }
        centres
    }
}

/// The means of the rows nearest to each centre; a centre without rows stays.
fn means(rows: &[&[f64]], centres: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let nearest = |row: &&[f64]| {
        let distances = centres.iter().map(|centre| distance(row, centre));
        distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(c, _)| c)
    };
    let assigned: Vec<usize> = rows.par_iter().map(nearest).collect();
    let mut out = centres.to_vec();
    for (c, centre) in out.iter_mut().enumerate() {
        let own: Vec<&&[f64]> =
            rows.iter().zip(&assigned).filter(|(_, a)| **a == c).map(|(row, _)| row).collect();
        if own.is_empty() {
            continue;
        }
        for (column, v) in centre.iter_mut().enumerate() {
            *v = own.iter().map(|row| row[column]).sum::<f64>() / own.len() as f64;
        }
    }
    out
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}
