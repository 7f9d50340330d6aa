//! The features of some rows, all at once, and linear systems in them.

use crate::compute::{add_in_order, Buffer, Device};
use crate::data::{Rows, TILE};
use crate::error::{same_columns, Error, Result};
use crate::kernel::FeatureMap;
use crate::linalg::cholesky::SINGLE;
use crate::linalg::Cholesky;
use crate::memory::room;
use crate::random::BlockIndex;
use crate::space::Basis;
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;

/// Rows and features that one thread works on at a time.
const ROWS: usize = 64;
const FEATURES: usize = 256;

/// The n×m features Φ of the first block of a map, row-major. Products are those of fixed parts by one thread each, so that
/// the number of threads does not change a digit.
pub(crate) struct FeatureMatrix {
    features: usize,
    values: Buffer<f32>,
}

impl FeatureMatrix {
    pub(crate) fn new(map: &FeatureMap, device: Device, rows: Rows<'_>) -> Result<Self> {
        let (features, d) = (map.block_size, rows.columns());
        same_columns(map.columns(), d)?;
        let block = map.draw(BlockIndex(0))?;
        let mut buffer = Vec::new();
        let x = rows.tile(0..rows.len(), &mut buffer);
        let mut values = Buffer::default();
        values.resize(rows.len() * features);
        // A call of a user's function is worth it for many rows only.
        let rows = if map.kernel.has_user_part() { TILE } else { ROWS };
        let parts = x.par_chunks(rows * d).zip(values.par_chunks_mut(rows * features));
        parts.try_for_each(|(x, out)| block.fill(device, x, out))?;
        Ok(Self { features, values })
    }

    /// The functions of a basis, one constant among them or not.
    pub(crate) fn of(basis: &Basis, rows: Rows<'_>) -> Result<Self> {
        let (features, d) = (basis.len(), rows.columns());
        same_columns(basis.columns(), d)?;
        let mut buffer = Vec::new();
        let x = rows.tile(0..rows.len(), &mut buffer);
        room("features of all rows", "n_features", &[rows.len(), features], 4)?;
        let mut values = Buffer::default();
        values.resize(rows.len() * features);
        let parts = x.par_chunks(ROWS * d).zip(values.par_chunks_mut(ROWS * features));
        parts.try_for_each(|(x, out)| basis.fill(x, out))?;
        Ok(Self { features, values })
    }

    /// m.
    pub(crate) fn features(&self) -> usize {
        self.features
    }

    /// n.
    pub(crate) fn rows(&self) -> usize {
        self.values.len() / self.features
    }

    /// The first n rows in double precision.
    pub(crate) fn doubles(&self, n: usize) -> Mat<f64> {
        Mat::from_fn(n, self.features, |i, j| f64::from(self.values[i * self.features + j]))
    }

    /// Φ A for the m×C row-major A, n×C row-major.
    pub(crate) fn apply(&self, a: &[f32], c: usize) -> Vec<f32> {
        let m = self.features;
        let a = MatRef::from_row_major_slice(a, m, c);
        let mut out = vec![0.0; self.rows() * c];
        let parts = self.values.par_chunks(TILE * m).zip(out.par_chunks_mut(TILE * c));
        parts.for_each(|(some, out)| {
            let some = MatRef::from_row_major_slice(some, some.len() / m, m);
            let out = MatMut::from_row_major_slice_mut(out, some.nrows(), c);
            matmul(out, Accum::Replace, some, a, 1.0, Par::Seq);
        });
        out
    }

    /// Φᵀ R for the n×C row-major R, m×C row-major; of the first n rows where there are more.
    pub(crate) fn adjoint(&self, r: &[f32], c: usize) -> Vec<f64> {
        let (m, n) = (self.features, r.len() / c);
        let part = |(some, r): (&[f32], &[f32])| {
            let some = MatRef::from_row_major_slice(some, some.len() / m, m);
            let mut out = vec![0.0_f32; m * c];
            let r = MatRef::from_row_major_slice(r, some.nrows(), c);
            let sums = MatMut::from_row_major_slice_mut(&mut out, m, c);
            matmul(sums, Accum::Replace, some.transpose(), r, 1.0, Par::Seq);
            out
        };
        let parts: Vec<Vec<f32>> =
            self.values[..n * m].par_chunks(TILE * m).zip(r.par_chunks(TILE * c)).map(part).collect();
        let mut sums = vec![0.0; m * c];
        add_in_order(&mut sums, &parts);
        sums
    }

    /// The factor of ΦᵀΦ/n + ρI for the first n rows.
    pub(crate) fn factor(&self, n: usize, damping: f64) -> Result<Cholesky> {
        self.moments(n).factor(damping)
    }

    /// ΦᵀΦ/n of the first n rows.
    pub(crate) fn moments(&self, n: usize) -> Moments {
        let (m, share) = (self.features, 1.0 / n.max(1) as f64);
        let (lower, full) = (BlockStructure::TriangularLower, BlockStructure::Rectangular);
        let part = |some: &[f32]| {
            let some = MatRef::from_row_major_slice(some, some.len() / m, m);
            let (mut out, turned) = (Mat::<f32>::zeros(m, m), some.transpose());
            triangular::matmul(out.as_mut(), lower, Accum::Replace, turned, full, some, full, 1.0, Par::Seq);
            out
        };
        let parts: Vec<Mat<f32>> = self.values[..n * m].par_chunks(TILE * m).map(part).collect();
        let entry =
            |i: usize, j: usize| share * parts.iter().map(|part| f64::from(part[(i, j)])).sum::<f64>();
        Moments(Mat::from_fn(m, m, |i, j| if i < j { 0.0 } else { entry(i, j) }))
    }

    /// Φᵀ W Φ/Σ w.
    pub(crate) fn second_moments(&self, weights: &[f32]) -> SecondMoments {
        let m = self.features;
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let root = |i: usize| (f64::from(weights[i]) / total).sqrt() as f32;
        let scaled: Vec<f32> = self.values.par_iter().enumerate().map(|(i, v)| v * root(i / m)).collect();
        let phi = MatRef::from_row_major_slice(&scaled[..], weights.len(), m);
        let starts: Vec<usize> = (0..m).step_by(FEATURES).collect();
        let part = |start: usize| {
            let height = FEATURES.min(m - start);
            let mut out = Mat::<f32>::zeros(height, start + height);
            let (left, right) = (phi.subcols(start, height).transpose(), phi.subcols(0, start + height));
            matmul(out.as_mut(), Accum::Replace, left, right, 1.0, Par::Seq);
            let places = (0..height).flat_map(|i| (0..=start + i).map(move |j| (i, j)));
            places.map(|place| out[place]).collect::<Vec<_>>()
        };
        let lower = starts.into_par_iter().with_max_len(1).flat_map_iter(part).collect();
        SecondMoments { features: m, lower }
    }
}

/// The lower triangle of E φφᵀ over some rows.
pub(crate) struct Moments(Mat<f64>);

impl Moments {
    /// The factor of E φφᵀ + ρI.
    pub(crate) fn factor(&self, damping: f64) -> Result<Cholesky> {
        let make = || {
            let mut sum = self.0.clone();
            (0..sum.nrows()).for_each(|i| sum[(i, i)] += damping);
            Ok(sum)
        };
        Cholesky::of(SINGLE, "ridge", make, &mut || Ok(()))
    }
}

/// G = E φφᵀ over some rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SecondMoments {
    features: usize,
    /// The lower triangle, row by row.
    lower: Vec<f32>,
}

impl SecondMoments {
    /// G from its lower triangle, row by row.
    pub(crate) fn new(features: usize, lower: Vec<f32>) -> Result<Self> {
        let found = lower.len();
        if found != features * (features + 1) / 2 {
            return Err(Error::Format(format!("{found} numbers are no triangle of {features} features")));
        }
        Ok(Self { features, lower })
    }

    /// The lower triangle, row by row.
    pub(crate) fn lower(&self) -> &[f32] {
        &self.lower
    }

    /// The factor of G + ρI.
    pub(crate) fn factor(&self, damping: f64) -> Result<Cholesky> {
        let m = self.features;
        let entry = |i: usize, j: usize| match i < j {
            true => 0.0,
            false => f64::from(self.lower[i * (i + 1) / 2 + j]) + if i == j { damping } else { 0.0 },
        };
        Cholesky::of(SINGLE, "ridge", || Ok(Mat::from_fn(m, m, entry)), &mut || Ok(()))
    }
}

/// (G + ρI)⁻¹ B for the m×C row-major B, likewise.
pub(crate) fn solve(factor: &Cholesky, b: &[f64], c: usize) -> Vec<f64> {
    let mut x = Mat::from_fn(b.len() / c, c, |i, j| b[i * c + j]);
    factor.forward(x.as_mut());
    factor.backward(x.as_mut());
    (0..b.len()).map(|i| x[(i / c, i % c)]).collect()
}

/// Ridge regressions of some rows on random features, judged by others.
pub(crate) struct RidgePath {
    columns: usize,
    outputs: usize,
    /// Rows, targets and weights to learn from, and those to judge by.
    parts: [(Vec<f32>, Vec<f32>, Vec<f32>); 2],
}

impl RidgePath {
    /// Two thirds of the rows in `order` are learnt from.
    pub(crate) fn new(rows: Rows<'_>, targets: &[f32], weights: &[f32], order: &[u32]) -> Self {
        let outputs = targets.len() / rows.len();
        let gather = |some: &[u32]| {
            let target = |&i: &u32| &targets[i as usize * outputs..][..outputs];
            let y = some.iter().flat_map(target).copied().collect();
            (rows.gather(some), y, some.iter().map(|&i| weights[i as usize]).collect())
        };
        let (train, judge) = order.split_at(2 * order.len() / 3);
        Self { columns: rows.columns(), outputs, parts: [gather(train), gather(judge)] }
    }

    /// Total weight of the rows learnt from.
    pub(crate) fn trained(&self) -> f64 {
        self.parts[0].2.iter().map(|&w| f64::from(w)).sum()
    }

    /// For each ν the share of the judging rows' squares that is left: w = (G + mνI)⁻¹ E φ y.
    pub(crate) fn errors(&self, map: &FeatureMap, device: Device, ridges: &[f64]) -> Result<Vec<(f64, f64)>> {
        let [(x, y, w), (judge_x, judge_y, judge_w)] = &self.parts;
        let (c, m) = (self.outputs, map.block_size as f64);
        let total = self.trained();
        let weighted: Vec<f32> =
            y.iter().enumerate().map(|(i, y)| (f64::from(*y) * f64::from(w[i / c]) / total) as f32).collect();
        // One matrix of features after the other: they are the most that a stream takes.
        let (moments, right) = {
            let phi = FeatureMatrix::new(map, device, Rows::single(x, self.columns)?)?;
            (phi.second_moments(w), phi.adjoint(&weighted, c))
        };
        let judge = FeatureMatrix::new(map, device, Rows::single(judge_x, self.columns)?)?;
        let square = |(i, r): (usize, f64)| f64::from(judge_w[i / c]) * r * r;
        let all: f64 = judge_y.iter().map(|&y| f64::from(y)).enumerate().map(square).sum();
        let error = |&ridge: &f64| {
            let alpha: Vec<f32> =
                solve(&moments.factor(m * ridge)?, &right, c).iter().map(|&a| a as f32).collect();
            let found = judge.apply(&alpha, c);
            let left = found.iter().zip(judge_y).map(|(f, y)| f64::from(*f) - f64::from(*y));
            Ok((ridge, left.enumerate().map(square).sum::<f64>() / all.max(f64::MIN_POSITIVE)))
        };
        ridges.iter().map(error).collect()
    }
}
