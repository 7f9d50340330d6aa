//! Finite bases ψ = (ψ_1, …, ψ_M) of linear spaces.

mod file;
mod recent;
#[cfg(test)]
mod tests;

use crate::compute::{gaussian_row, Device, FeatureBlock, Triangle};
use crate::error::{in_range, same_columns, Error, Result};
use crate::kernel::{ClosedForm, FeatureMap, KernelSpec};
use crate::linalg::independent::independent;
use crate::memory::room;
use crate::random::BlockIndex;
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::reborrow::ReborrowMut;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use recent::Recent;
use std::sync::{Arc, OnceLock};

/// A finite basis: a map ψ from d columns to M numbers, whose span is a space of functions.
#[derive(Clone, Debug)]
pub struct Basis {
    kind: Arc<Kind>,
    intercept: bool,
    recent: Arc<Recent>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// φ/√M: the first block of random features, so that ⟨ψ(x), ψ(y)⟩ is k(x, y) on average.
    Features { map: FeatureMap, block: OnceLock<FeatureBlock> },
    /// L⁻¹ (k(c_j, ·))_j at given points, K = LLᵀ; the triangle L⁻¹ for products with rows and with vectors, the points also column by
    /// column.
    Atoms { kernel: ClosedForm, points: Vec<f32>, inverse: Mat<f32>, triangle: Triangle, columns: Vec<f32> },
    /// The indicator of each of S states.
    Table { states: usize },
    /// The columns themselves.
    Columns { columns: usize },
    /// ψ(s) ⊗ e_a for rows (s, a), a one of A actions.
    PerAction { states: Box<Basis>, actions: usize },
    /// The functions of several bases, one after the other.
    Joined(Vec<Basis>),
}

impl Kind {
    /// Atoms at points in the units of the kernel, with L⁻¹.
    fn atoms(kernel: ClosedForm, points: Vec<f32>, inverse: Mat<f32>) -> Self {
        let (d, m) = (kernel.columns(), inverse.nrows());
        let columns = (0..d * m).map(|i| points[i % m * d + i / m]).collect();
        let triangle = Triangle::new(m, |i, j| inverse[(i, j)]);
        Self::Atoms { kernel, points, inverse, triangle, columns }
    }
}

/// Most functions of a basis.
const MOST: usize = 1 << 20;
/// Most parts of a joined basis.
const MOST_PARTS: usize = 8;
/// An atom is left out where the square of its distance from the span of others is below this share of its own: what it would add is
/// in good part rounding of single precision, magnified, from which a regression learns noise.
const DEPENDENT: f64 = 1e-4;
/// Columns at a time of a product with a triangular matrix.
const TRIANGLE: usize = 128;

impl Basis {
    fn of(kind: Kind) -> Self {
        Self { kind: Arc::new(kind), intercept: false, recent: Arc::default() }
    }

    /// Random features: the first block of `map`, over √m.
    pub fn features(map: FeatureMap) -> Result<Self> {
        map.check()?;
        Ok(Self::of(Kind::Features { map, block: OnceLock::new() }))
    }

    /// The span of kernel atoms k(c_j, ·) at points c_j, row-major with the columns of the kernel, in a basis that is orthonormal
    /// in the space of the kernel: ψ = L⁻¹ (k(c_1, ·), …, k(c_M, ·)), K = LLᵀ. A gradient step in its coefficients
    /// is the functional gradient step, projected onto the span. Points whose atoms are combinations of earlier ones are left out.
    pub fn atoms(kernel: ClosedForm, points: &[f32]) -> Result<Self> {
        let columns = kernel.columns();
        if points.is_empty() || !points.len().is_multiple_of(columns) {
            let expected = format!("a positive multiple of {columns}");
            return Err(Error::Length { what: "the points of the atoms", expected, found: points.len() });
        }
        let mut inputs = Vec::new();
        kernel.input(points, &mut inputs);
        let points = inputs;
        let m = points.len() / kernel.columns();
        room("atoms", "n_features", &[4, m, m], 8)?;
        let mut k = vec![0.0_f64; m * m];
        for (x, out) in points.chunks_exact(kernel.columns()).zip(k.chunks_exact_mut(m)) {
            kernel.values(x, &points, out)?;
        }
        let (chosen, lower) = independent(m, DEPENDENT, |i, j| k[i * m + j]);
        if chosen.is_empty() {
            return Err(Error::NotPositiveDefinite { block: 0, size: m, raise: "the bandwidth" });
        }
        let points: Vec<f32> = chosen
            .iter()
            .flat_map(|&i| &points[i * kernel.columns()..][..kernel.columns()])
            .copied()
            .collect();
        let m = chosen.len();
        let mut inverse = Mat::<f64>::identity(m, m);
        solve_lower_triangular_in_place(lower.as_ref(), inverse.as_mut(), Par::Seq);
        let inverse = Mat::from_fn(m, m, |i, j| inverse[(i, j)] as f32);
        Ok(Self::of(Kind::atoms(kernel, points, inverse)))
    }

    /// Indicators of the states 0, …, S − 1, which are given in one column.
    pub fn table(states: usize) -> Result<Self> {
        in_range("states", states as f64, (1..=MOST).contains(&states), "[1, 2^20]")?;
        Ok(Self::of(Kind::Table { states }))
    }

    /// The columns themselves: features that the caller computed.
    pub fn columns_of(columns: usize) -> Result<Self> {
        in_range("columns", columns as f64, (1..=MOST).contains(&columns), "[1, 2^20]")?;
        Ok(Self::of(Kind::Columns { columns }))
    }

    /// ψ(s) ⊗ e_a: for rows (s, a) whose last column is one of the actions 0, …, A − 1, a function of s for each of them.
    pub fn per_action(self, actions: usize) -> Result<Self> {
        let most = MOST / self.len().max(1);
        in_range("actions", actions as f64, (1..=most).contains(&actions), "[1, 2^20 / features]")?;
        Ok(Self::of(Kind::PerAction { states: Box::new(self), actions }))
    }

    /// The functions of several bases of the same columns, one after the other.
    pub fn joined(parts: Vec<Basis>) -> Result<Self> {
        let Some(first) = parts.first() else {
            return Err(Error::Empty { what: "a joined basis", needed: "one part" });
        };
        in_range("the parts of a basis", parts.len() as f64, parts.len() <= MOST_PARTS, "1 to 8")?;
        parts.iter().try_for_each(|part| same_columns(first.columns(), part.columns()))?;
        Ok(Self::of(Kind::Joined(parts)))
    }

    /// The same basis and the constant function.
    pub fn with_intercept(self) -> Self {
        Self { intercept: true, recent: Arc::default(), ..self }
    }

    /// The same basis without constants that were added, and the places of its functions in this one.
    pub(crate) fn without_intercept(&self) -> (Self, Vec<usize>) {
        if let Kind::PerAction { states, actions } = &*self.kind {
            let (m, (inner, places)) = (states.len(), states.without_intercept());
            let all = (0..*actions).flat_map(|a| places.iter().map(move |place| a * m + place)).collect();
            let kind = Kind::PerAction { states: Box::new(inner), actions: *actions };
            return (Self::of(kind), all);
        }
        let inner = Self { intercept: false, recent: Arc::default(), ..self.clone() };
        (inner, (0..self.len() - usize::from(self.intercept)).collect())
    }

    /// The coefficients of the function one, where it is known to be in the span.
    pub(crate) fn one(&self) -> Option<Vec<f64>> {
        let mut one = vec![0.0; self.len()];
        match (&*self.kind, one.last_mut()) {
            (_, Some(last)) if self.intercept => *last = 1.0,
            (Kind::Table { .. }, _) => one.fill(1.0),
            (Kind::PerAction { states, actions }, _) => return Some(states.one()?.repeat(*actions)),
            _ => return None,
        }
        Some(one)
    }

    /// What random features are drawn from, where it has some.
    pub(crate) fn feature_map(&self) -> Option<&FeatureMap> {
        match &*self.kind {
            Kind::Features { map, .. } => Some(map),
            _ => None,
        }
    }

    /// Whether it is the same basis, and not merely an equal one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.kind, &other.kind) && self.intercept == other.intercept
    }

    /// Number d of columns.
    pub fn columns(&self) -> usize {
        match &*self.kind {
            Kind::Features { map, .. } => map.columns(),
            Kind::Atoms { kernel, .. } => kernel.columns(),
            Kind::Table { .. } => 1,
            Kind::Columns { columns } => *columns,
            Kind::PerAction { states, .. } => states.columns() + 1,
            Kind::Joined(parts) => parts[0].columns(),
        }
    }

    /// Number M of functions.
    pub fn len(&self) -> usize {
        let own = match &*self.kind {
            Kind::Features { map, .. } => map.block_size,
            Kind::Atoms { inverse, .. } => inverse.nrows(),
            Kind::Table { states } => *states,
            Kind::Columns { columns } => *columns,
            Kind::PerAction { states, actions } => states.len() * actions,
            Kind::Joined(parts) => parts.iter().map(Basis::len).sum(),
        };
        own + usize::from(self.intercept)
    }

    /// Never: a basis has a function at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether there is memory for square matrices of this size.
    pub fn check_room(&self, matrices: usize) -> Result<()> {
        room("moments of the features", "n_features", &[matrices, self.len(), self.len()], 8)
    }

    /// ψ of some rows, n×d to n×M, both row-major, on one thread.
    pub fn fill(&self, x: &[f32], out: &mut [f32]) -> Result<()> {
        self.fill_plain(x, out)?;
        if self.is_transformed() {
            let (m, plain) = (self.len(), out.to_vec());
            let n = plain.len() / m;
            let plain = MatRef::from_row_major_slice(&plain, n, m);
            self.transform_rows(plain, MatMut::from_row_major_slice_mut(out, n, m));
        }
        Ok(())
    }

    /// ψ₀ of some rows, where ψ = Tψ₀: the atoms themselves, and T = L⁻¹; for other bases ψ₀ = ψ.
    pub(crate) fn fill_plain(&self, x: &[f32], out: &mut [f32]) -> Result<()> {
        let (d, m) = (self.columns(), self.len());
        if x.len() / d * m != out.len() || !x.len().is_multiple_of(d) {
            return Err(Error::Length {
                what: "the array for the features",
                expected: (x.len() / d * m).to_string(),
                found: out.len(),
            });
        }
        self.fill_own(x, out, m)?;
        if self.intercept {
            out.iter_mut().skip(m - 1).step_by(m).for_each(|one| *one = 1.0);
        }
        Ok(())
    }

    /// ψ₀ of a batch, n×M. Those of the last few small batches are kept: a step asks for the same rows when f and its dual are
    /// evaluated, and again when they move.
    pub(crate) fn plain(&self, x: &[f32]) -> Result<Arc<[f32]>> {
        self.recent.get(x, x.len() / self.columns() * self.len(), |out| self.fill_plain(x, out))
    }

    /// Whether T ≠ I.
    pub(crate) fn is_transformed(&self) -> bool {
        match &*self.kind {
            Kind::Atoms { .. } => true,
            Kind::PerAction { states, .. } => states.is_transformed(),
            Kind::Joined(parts) => parts.iter().any(Self::is_transformed),
            Kind::Features { .. } | Kind::Table { .. } | Kind::Columns { .. } => false,
        }
    }

    /// Columns of `out` that T changes; L⁻¹ is triangular, and half of it is not looked at.
    fn transform_rows(&self, plain: MatRef<'_, f32>, mut out: MatMut<'_, f32>) {
        match &*self.kind {
            Kind::Atoms { inverse, .. } => {
                for first in (0..inverse.nrows()).step_by(TRIANGLE) {
                    let end = (first + TRIANGLE).min(inverse.nrows());
                    let rows = inverse.submatrix(first, 0, end - first, end);
                    let out = out.rb_mut().subcols_mut(first, end - first);
                    matmul(out, Accum::Replace, plain.subcols(0, end), rows.transpose(), 1.0, Par::Seq);
                }
            }
            Kind::PerAction { states, actions } => {
                let m = states.len();
                for first in (0..*actions).map(|a| a * m) {
                    states.transform_rows(plain.subcols(first, m), out.rb_mut().subcols_mut(first, m));
                }
            }
            Kind::Joined(parts) => {
                let mut first = 0;
                for part in parts {
                    let m = part.len();
                    part.transform_rows(plain.subcols(first, m), out.rb_mut().subcols_mut(first, m));
                    first += m;
                }
            }
            Kind::Features { .. } | Kind::Table { .. } | Kind::Columns { .. } => {}
        }
    }

    /// T A, of M rows.
    pub(crate) fn transformed(&self, a: &Mat<f64>) -> Mat<f64> {
        self.map_blocks(a, Triangle::apply)
    }

    /// Tᵀ A, of M rows.
    pub(crate) fn transposed(&self, a: &Mat<f64>) -> Mat<f64> {
        self.map_blocks(a, Triangle::apply_transposed)
    }

    /// What `map` makes of L⁻¹ and the rows of `a` that belong to it; other rows as they are.
    fn map_blocks(&self, a: &Mat<f64>, map: fn(&Triangle, Device, &[f64], &mut [f64])) -> Mat<f64> {
        let mut out = a.clone();
        match &*self.kind {
            Kind::Atoms { triangle, .. } => {
                for c in 0..a.ncols() {
                    let m = triangle.len();
                    let out = &mut out.col_as_slice_mut(c)[..m];
                    map(triangle, Device::default(), &a.col_as_slice(c)[..m], out);
                }
            }
            Kind::PerAction { states, actions } => {
                let m = states.len();
                for k in 0..*actions {
                    let part = a.subrows(k * m, m).to_owned();
                    out.subrows_mut(k * m, m).copy_from(states.map_blocks(&part, map));
                }
            }
            Kind::Joined(parts) => {
                let mut first = 0;
                for part in parts {
                    let own = a.subrows(first, part.len()).to_owned();
                    out.subrows_mut(first, part.len()).copy_from(part.map_blocks(&own, map));
                    first += part.len();
                }
            }
            Kind::Features { .. } | Kind::Table { .. } | Kind::Columns { .. } => {}
        }
        out
    }

    /// The functions without the constant, row i of them from i·`stride` on.
    fn fill_own(&self, x: &[f32], out: &mut [f32], stride: usize) -> Result<()> {
        match &*self.kind {
            Kind::Features { map, block } => {
                let block = match block.get() {
                    Some(block) => block,
                    None => {
                        let drawn = map.draw(BlockIndex(0))?;
                        block.get_or_init(|| drawn)
                    }
                };
                let scale = 1.0 / (map.block_size as f32).sqrt();
                block.fill_scaled(Device::default(), x, (out, stride), scale)?;
            }
            Kind::Atoms { kernel, points, inverse, columns, .. } => {
                let (mut inputs, m) = (Vec::with_capacity(x.len()), inverse.nrows());
                kernel.input(x, &mut inputs);
                for (x, k) in inputs.chunks_exact(kernel.columns()).zip(out.chunks_exact_mut(stride)) {
                    match kernel.kernel() {
                        KernelSpec::Gaussian => gaussian_row(Device::default(), x, columns, &mut k[..m]),
                        _ => kernel.values(x, points, &mut k[..m])?,
                    }
                }
            }
            Kind::Table { states } => {
                out.fill(0.0);
                for (&x, out) in x.iter().zip(out.chunks_exact_mut(stride)) {
                    out[index("state", x, *states)?] = 1.0;
                }
            }
            Kind::Columns { columns } => {
                for (x, out) in x.chunks_exact(*columns).zip(out.chunks_exact_mut(stride)) {
                    out[..*columns].copy_from_slice(x);
                }
            }
            Kind::PerAction { states, actions } => fill_per_action(states, *actions, x, out, stride)?,
            Kind::Joined(parts) => fill_joined(parts, x, out, stride)?,
        }
        Ok(())
    }
}

/// The functions ψ₀ of each part, beside each other.
fn fill_joined(parts: &[Basis], x: &[f32], out: &mut [f32], stride: usize) -> Result<()> {
    let rows = x.len() / parts[0].columns();
    let (mut own, mut first) = (Vec::new(), 0);
    for part in parts {
        let count = part.len();
        own.resize(rows * count, 0.0);
        part.fill_plain(x, &mut own)?;
        for (out, own) in out.chunks_exact_mut(stride).zip(own.chunks_exact(count)) {
            out[first..first + count].copy_from_slice(own);
        }
        first += count;
    }
    Ok(())
}

/// ψ₀(s) in the place of the action, zero elsewhere.
fn fill_per_action(states: &Basis, actions: usize, x: &[f32], out: &mut [f32], stride: usize) -> Result<()> {
    let (d, m) = (states.columns(), states.len());
    let plain: Vec<f32> = x.chunks_exact(d + 1).flat_map(|row| &row[..d]).copied().collect();
    let mut features = vec![0.0; plain.len() / d * m];
    states.fill_plain(&plain, &mut features)?;
    out.fill(0.0);
    for (i, (row, out)) in x.chunks_exact(d + 1).zip(out.chunks_exact_mut(stride)).enumerate() {
        let a = index("action", row[d], actions)?;
        out[a * m..(a + 1) * m].copy_from_slice(&features[i * m..(i + 1) * m]);
    }
    Ok(())
}

/// A number as one of 0, …, `most` − 1.
fn index(name: &'static str, value: f32, most: usize) -> Result<usize> {
    let inside = value >= 0.0 && value.fract() == 0.0 && f64::from(value) < most as f64;
    in_range(name, f64::from(value), inside, "the whole numbers from 0 up to the number there are")
        .map(|v| v as usize)
}

/// Refuses rows of another number of columns than the basis has.
pub(crate) fn check_basis(basis: &Basis, columns: usize) -> Result<()> {
    same_columns(basis.columns(), columns)
}
