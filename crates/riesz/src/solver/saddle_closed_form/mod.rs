//! The saddle point of a square loss over two linear spaces, solved exactly (spec 5).

mod choose;
mod moments;

pub use choose::{choose_ridge, choose_ridges, PARTS};
pub use moments::{Moments, Ridges, Solution};

use super::{Addend, Sums};
use crate::compute::{mixed_add, mixed_dot, Device};
use crate::data::{Rows, TILE};
use crate::error::{same_columns, same_rows, Error, Result};
use crate::operator::{Conditional, Points};
use crate::space::Basis;
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatRef, Par};
use rayon::prelude::*;
use std::ops::Range;

/// Rows that are summed by themselves, in single precision, before they are added to others in double.
const LEAF: usize = 4 * TILE;

/// The saddle point of E[(T f)(s) u − ℓ*_y(u)] + (λ₁/2)‖θ‖² − (λ₂/2)‖β‖² for ℓ = ½(· − y)², f = θᵀψ and the dual u = βᵀφ or
/// v = βᵀφ, u = v − y. With T f = c + θᵀψ̃, ψ̃ = Σ_p a_p ψ(x_p), and the moments
///
/// ```text
/// G = E[φφᵀ] + λ₂ I,      B = E[φψ̃ᵀ],      H = BᵀG⁻¹B + λ₁ I,
/// θ = H⁻¹ BᵀG⁻¹ E[φ(y − c)]                     (u free),
/// θ = H⁻¹ ( E[ψ̃y] − BᵀG⁻¹ E[φc] )               (u = v − y),
/// ```
///
/// a ridge in a ridge. Moments are summed over leaves of rows ([`Sums`]): what is observed in any order, on any number of
/// threads, gives the same bits. G is factorised and whitens B before H is formed. Ridges are in units of the mean of the
/// diagonal of the matrix they are added to.
pub struct SaddleClosedForm<T> {
    /// T.
    pub operator: T,
    /// ψ.
    pub primal: Basis,
    /// φ.
    pub dual: Basis,
}

/// How features of some rows are computed.
type Fill = fn(&Basis, &[f32], &mut [f32]) -> Result<()>;

/// Features of some rows, and room for them.
#[derive(Default)]
struct Tile {
    x: Vec<f32>,
    phi: Vec<f32>,
    psi: Vec<f32>,
    /// ψ̃.
    sum: Vec<f32>,
}

/// Samples whose operator has been asked for its points.
struct Listed<'a> {
    points: Vec<Points<'a>>,
    given: Rows<'a>,
    constants: Vec<f32>,
    targets: &'a [f32],
    outputs: usize,
}

impl<T: Conditional + Sync> SaddleClosedForm<T> {
    /// The moments of samples that are the `first` and later ones of `rows` in all; `first` is a multiple of 4,096. `targets` is n×C.
    pub fn observe<'a>(
        &self,
        batch: T::Batch<'a>,
        targets: &'a [f32],
        first: usize,
        rows: usize,
    ) -> Result<Sums<Moments>> {
        let listed = self.list(batch, targets)?;
        let (n, end) = (listed.given.len(), first + listed.given.len());
        if !first.is_multiple_of(LEAF) || end > rows || (end < rows && !end.is_multiple_of(LEAF)) {
            return Err(Error::ShardEnds { first, end, rows, multiple: LEAF });
        }
        let mut sums = Sums::new(rows.div_ceil(LEAF));
        let leaves: Vec<_> = (0..n).step_by(LEAF).collect();
        for wave in leaves.chunks(2 * rayon::current_num_threads()) {
            let leaf = |&start: &usize| self.leaf(&listed, start..(start + LEAF).min(n));
            let parts: Vec<Moments> = wave.par_iter().with_max_len(1).map(leaf).collect::<Result<_>>()?;
            for (start, part) in wave.iter().zip(parts) {
                sums.add_leaf((first + start) / LEAF, part, &mut Vec::new());
            }
        }
        Ok(sums)
    }

    /// The sum of the moments of all samples of a batch.
    pub fn moments<'a>(&self, batch: T::Batch<'a>, targets: &'a [f32]) -> Result<Moments> {
        let n = self.operator.given(batch).len();
        self.observe(batch, targets, 0, n)?.total(&mut Vec::new())
    }

    /// The moments of `parts` parts of the samples: leaf k belongs to part k modulo their number, or, where leaves are fewer than
    /// four times the parts, rows are dealt out in shorter runs.
    pub fn moments_in_parts<'a>(
        &self,
        batch: T::Batch<'a>,
        targets: &'a [f32],
        parts: usize,
    ) -> Result<Vec<Moments>> {
        let listed = self.list(batch, targets)?;
        let n = listed.given.len();
        let run = LEAF.min(n / (4 * parts)).max(1);
        let runs: Vec<_> = (0..n).step_by(run).map(|start| start..(start + run).min(n)).collect();
        let mut sums: Vec<Option<Moments>> = (0..parts).map(|_| None).collect();
        for wave in runs.chunks(parts * 8) {
            let found: Vec<Moments> = wave
                .par_iter()
                .with_max_len(1)
                .map(|range| self.leaf(&listed, range.clone()))
                .collect::<Result<_>>()?;
            for (k, part) in found.into_iter().enumerate() {
                match &mut sums[k % parts] {
                    Some(sum) => sum.add(&part),
                    none => *none = Some(part),
                }
            }
        }
        let few = || {
            Error::Conflict(format!(
                "{n} transitions are too few: the closed form learns from some and judges by others, and needs at least {parts}"
            ))
        };
        sums.into_iter().collect::<Option<_>>().ok_or_else(few)
    }

    fn list<'a>(&self, batch: T::Batch<'a>, targets: &'a [f32]) -> Result<Listed<'a>> {
        let given = self.operator.given(batch);
        let n = given.len();
        if n == 0 || targets.is_empty() || !targets.len().is_multiple_of(n) {
            return Err(Error::RowCount { what: "targets", expected: n, found: targets.len() });
        }
        self.primal.check_room(4)?;
        self.dual.check_room(4)?;
        let mut constants = vec![0.0; targets.len()];
        self.operator.add_constant(batch, &mut constants);
        let points = self.operator.points(batch);
        for Points { rows, .. } in &points {
            same_columns(self.primal.columns(), rows.columns())?;
            same_rows("points", n, rows.len())?;
        }
        same_columns(self.dual.columns(), given.columns())?;
        Ok(Listed { points, given, constants, targets, outputs: targets.len() / n })
    }

    /// φ and ψ̃ of some rows, row-major. φ is ψ at a point where both bases and both rows are the same: not another rounding of it,
    /// which near-dependent atoms would magnify. For the same reason features are combined after `fill` has transformed them.
    fn features(&self, listed: &Listed<'_>, range: Range<usize>, fill: Fill, tile: &mut Tile) -> Result<()> {
        let (n, m) = (range.len(), self.primal.len());
        let Tile { x, phi, psi, sum } = tile;
        phi.resize(n * self.dual.len(), 0.0);
        fill(&self.dual, listed.given.tile(range.clone(), x), phi)?;
        sum.resize(n * m, 0.0);
        for (p, Points { rows, factors }) in listed.points.iter().enumerate() {
            let shared = self.primal.is(&self.dual) && rows.is(&listed.given);
            if !shared {
                psi.resize(n * m, 0.0);
                fill(&self.primal, rows.tile(range.clone(), x), psi)?;
            }
            let psi = if shared { &*phi } else { &*psi };
            for (i, (sum, psi)) in sum.chunks_exact_mut(m).zip(psi.chunks_exact(m)).enumerate() {
                let factor = factors.at(range.start + i);
                match p {
                    0 => sum.iter_mut().zip(psi).for_each(|(sum, psi)| *sum = factor * psi),
                    _ if factor == 0.0 => {}
                    _ => sum.iter_mut().zip(psi).for_each(|(sum, psi)| *sum += factor * psi),
                }
            }
        }
        Ok(())
    }

    /// The moments of one leaf, on one thread, in single precision.
    fn leaf(&self, listed: &Listed<'_>, leaf: Range<usize>) -> Result<Moments> {
        let (m, k, c) = (self.primal.len(), self.dual.len(), listed.outputs);
        let mut sums =
            [(k, k), (k, m), (k, c), (k, c), (m, c)].map(|(rows, columns)| Mat::zeros(rows, columns));
        let mut features = Tile::default();
        for start in leaf.clone().step_by(TILE) {
            let tile = start..(start + TILE).min(leaf.end);
            let (n, own) = (tile.len(), tile.start * c..tile.end * c);
            self.features(listed, tile, Basis::fill, &mut features)?;
            let Tile { phi, sum, .. } = &features;
            let [phi, psi] = [(phi, k), (sum, m)].map(|(rows, m)| MatRef::from_row_major_slice(rows, n, m));
            let targets = MatRef::from_row_major_slice(&listed.targets[own.clone()], n, c);
            let constants = MatRef::from_row_major_slice(&listed.constants[own], n, c);
            let [gram, others @ ..] = &mut sums;
            let (lower, full) = (BlockStructure::TriangularLower, BlockStructure::Rectangular);
            let transposed = phi.transpose();
            triangular::matmul(gram.as_mut(), lower, Accum::Add, transposed, full, phi, full, 1.0, Par::Seq);
            let factors = [(phi, psi), (phi, targets), (phi, constants), (psi, targets)];
            for (sum, (a, b)) in others.iter_mut().zip(factors) {
                matmul(sum.as_mut(), Accum::Add, a.transpose(), b, 1.0, Par::Seq);
            }
        }
        let wide = |a: Mat<f32>| Mat::from_fn(a.nrows(), a.ncols(), |i, j| f64::from(a[(i, j)]));
        let [gram, cross, dual_target, dual_constant, primal_target] = sums.map(wide);
        Ok(Moments { rows: leaf.len() as f64, gram, cross, dual_target, dual_constant, primal_target })
    }

    /// For every group of rows the sum of φ r over its rows, r = (T f)(s) − y at θ; K×C.
    pub fn scores<'a>(
        &self,
        batch: T::Batch<'a>,
        targets: &'a [f32],
        theta: &Mat<f64>,
        groups: &[Range<usize>],
    ) -> Result<Vec<Mat<f64>>> {
        let listed = self.list(batch, targets)?;
        let (m, k, c) = (self.primal.len(), self.dual.len(), listed.outputs);
        // θᵀψ = (Tᵀθ)ᵀψ₀ and Σφr = T Σφ₀r for features ψ = Tψ₀: plain ones are cheaper.
        let (theta, device) = (self.primal.transposed(theta), Device::default());
        let one = |tile: &mut Tile, group: &Range<usize>| -> Result<Mat<f64>> {
            let mut sum = Mat::<f64>::zeros(k, c);
            for start in group.clone().step_by(TILE) {
                let range = start..(start + TILE).min(group.end);
                self.features(&listed, range.clone(), Basis::fill_plain, tile)?;
                for (i, at) in (range.start * c..range.end * c).enumerate() {
                    let (i, o) = (i / c, i % c);
                    let value = mixed_dot(device, &tile.sum[i * m..][..m], theta.col_as_slice(o));
                    let residual = value + f64::from(listed.constants[at]) - f64::from(listed.targets[at]);
                    mixed_add(device, residual, &tile.phi[i * k..][..k], sum.col_as_slice_mut(o));
                }
            }
            Ok(self.dual.transformed(&sum))
        };
        groups.par_iter().with_max_len(1).map_init(Tile::default, one).collect()
    }
}
