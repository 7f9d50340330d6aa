//! Finite bases ψ = (ψ_1, …, ψ_M) of linear spaces.

use crate::compute::{gaussian_row, Device, FeatureBlock};
use crate::error::{in_range, positive, same_columns, Error, Result};
use crate::kernel::{ClosedForm, FeatureForm, FeatureMap, KernelSpec, Projection, Scaling};
use crate::linalg::cholesky::{Cholesky, SINGLE};
use crate::linalg::lu;
use crate::memory::room;
use crate::model::Container;
use crate::random::{BlockIndex, Seed};
use faer::linalg::matmul::matmul;
use faer::reborrow::ReborrowMut;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// A finite basis: a map ψ from d columns to M numbers, whose span is a space of functions.
#[derive(Clone, Debug)]
pub struct Basis {
    kind: Arc<Kind>,
    intercept: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    /// φ/√M: the first block of random features, so that ⟨ψ(x), ψ(y)⟩ is k(x, y) on average.
    Features { map: FeatureMap, block: OnceLock<FeatureBlock> },
    /// L⁻¹ (k(c_j, ·))_j at given points, K = LLᵀ; the points also column by column.
    Atoms { kernel: ClosedForm, points: Vec<f32>, inverse: Mat<f32>, columns: Vec<f32> },
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
        Self::Atoms { kernel, points, inverse, columns }
    }
}

/// Most functions of a basis.
const MOST: usize = 1 << 20;
/// Most parts of a joined basis.
const MOST_PARTS: usize = 8;
/// Added to the diagonal of the matrix of atoms, whose kernel is one there.
const JITTER: f64 = 1e-6;
/// Columns at a time of a product with a triangular matrix.
const TRIANGLE: usize = 128;

/// What a file says of a basis; points and scales are tensors.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Spec {
    Features {
        kernel: KernelSpec,
        bandwidth: f64,
        projection: Projection,
        form: FeatureForm,
        features: usize,
        seed: Seed,
    },
    Atoms {
        kernel: KernelSpec,
        bandwidth: f64,
    },
    Table {
        states: usize,
    },
    Columns {
        columns: usize,
    },
    PerAction {
        actions: usize,
    },
    Joined {
        parts: usize,
    },
}

impl Basis {
    /// Random features: the first block of `map`, over √m.
    pub fn features(map: FeatureMap) -> Result<Self> {
        map.check()?;
        Ok(Self { kind: Arc::new(Kind::Features { map, block: OnceLock::new() }), intercept: false })
    }

    /// The span of kernel atoms k(c_j, ·) at points c_j, row-major with the columns of the kernel, in a basis that is orthonormal
    /// in the space of the kernel: ψ = L⁻¹ (k(c_1, ·), …, k(c_M, ·)), K + 10⁻⁶ I = LLᵀ. A gradient step in its coefficients
    /// is the functional gradient step, projected onto the span.
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
        room("atoms", "n_features", &[3, m, m], 8)?;
        let mut k = vec![0.0_f32; m * m];
        for (x, out) in points.chunks_exact(kernel.columns()).zip(k.chunks_exact_mut(m)) {
            kernel.values(x, &points, out)?;
        }
        let entry = |i: usize, j: usize| f64::from(k[i * m + j]) + if i == j { JITTER } else { 0.0 };
        let factor =
            Cholesky::of(SINGLE, "the distance of the atoms", || Ok(Mat::from_fn(m, m, entry)), &mut || {
                Ok(())
            })?;
        let mut inverse = Mat::<f64>::identity(m, m);
        factor.forward(inverse.as_mut());
        let inverse = Mat::from_fn(m, m, |i, j| inverse[(i, j)] as f32);
        Ok(Self { kind: Arc::new(Kind::atoms(kernel, points, inverse)), intercept: false })
    }

    /// Indicators of the states 0, …, S − 1, which are given in one column.
    pub fn table(states: usize) -> Result<Self> {
        in_range("states", states as f64, (1..=MOST).contains(&states), "[1, 2^20]")?;
        Ok(Self { kind: Arc::new(Kind::Table { states }), intercept: false })
    }

    /// The columns themselves: features that the caller computed.
    pub fn columns_of(columns: usize) -> Result<Self> {
        positive("columns", columns as f64)?;
        Ok(Self { kind: Arc::new(Kind::Columns { columns }), intercept: false })
    }

    /// ψ(s) ⊗ e_a: for rows (s, a) whose last column is one of the actions 0, …, A − 1, a function of s for each of them.
    pub fn per_action(self, actions: usize) -> Result<Self> {
        let most = MOST / self.len().max(1);
        in_range("actions", actions as f64, (1..=most).contains(&actions), "[1, 2^20 / features]")?;
        Ok(Self { kind: Arc::new(Kind::PerAction { states: Box::new(self), actions }), intercept: false })
    }

    /// The functions of several bases of the same columns, one after the other.
    pub fn joined(parts: Vec<Basis>) -> Result<Self> {
        let Some(first) = parts.first() else {
            return Err(Error::Empty { what: "a joined basis", needed: "one part" });
        };
        in_range("the parts of a basis", parts.len() as f64, parts.len() <= MOST_PARTS, "1 to 8")?;
        parts.iter().try_for_each(|part| same_columns(first.columns(), part.columns()))?;
        Ok(Self { kind: Arc::new(Kind::Joined(parts)), intercept: false })
    }

    /// The same basis and the constant function.
    pub fn with_intercept(self) -> Self {
        Self { intercept: true, ..self }
    }

    /// The same basis without constants that were added, and the places of its functions in this one.
    pub(crate) fn without_intercept(&self) -> (Self, Vec<usize>) {
        if let Kind::PerAction { states, actions } = &*self.kind {
            let (m, (inner, places)) = (states.len(), states.without_intercept());
            let all = (0..*actions).flat_map(|a| places.iter().map(move |place| a * m + place)).collect();
            let kind = Kind::PerAction { states: Box::new(inner), actions: *actions };
            return (Self { kind: Arc::new(kind), intercept: false }, all);
        }
        (Self { intercept: false, ..self.clone() }, (0..self.len() - usize::from(self.intercept)).collect())
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

    /// Adds the basis to a container under `name`.
    pub(crate) fn store(&self, container: &mut Container, name: &str) -> Result<()> {
        let tensor = |part: &str| format!("{name}.{part}");
        let mut scaling = |Scaling { shift, scale }: &Scaling| {
            container.insert(&tensor("shift"), vec![shift.len()], shift.clone())?;
            container.insert(&tensor("scale"), vec![scale.len()], scale.clone())
        };
        let spec = match &*self.kind {
            Kind::Features { map, .. } => {
                scaling(&map.scaling)?;
                Spec::Features {
                    kernel: map.kernel.clone(),
                    bandwidth: map.bandwidth,
                    projection: map.projection,
                    form: map.form,
                    features: map.block_size,
                    seed: map.seed,
                }
            }
            Kind::Atoms { kernel, points, inverse, .. } => {
                scaling(kernel.scaling())?;
                let m = inverse.nrows();
                container.insert(&tensor("points"), vec![m, kernel.columns()], points.clone())?;
                let rows: Vec<f32> = (0..m * m).map(|i| inverse[(i / m, i % m)]).collect();
                container.insert(&tensor("inverse"), vec![m, m], rows)?;
                Spec::Atoms { kernel: kernel.kernel().clone(), bandwidth: kernel.bandwidth() }
            }
            Kind::Table { states } => Spec::Table { states: *states },
            Kind::Columns { columns } => Spec::Columns { columns: *columns },
            Kind::PerAction { states, actions } => {
                states.store(container, &tensor("states"))?;
                Spec::PerAction { actions: *actions }
            }
            Kind::Joined(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    part.store(container, &tensor(&i.to_string()))?;
                }
                Spec::Joined { parts: parts.len() }
            }
        };
        container.set_field(name, &(spec, self.intercept))
    }

    /// Takes out what [`Basis::store`] added.
    pub(crate) fn restore(container: &mut Container, name: &str) -> Result<Self> {
        Self::restore_within(container, name, 4)
    }

    fn restore_within(container: &mut Container, name: &str, depth: usize) -> Result<Self> {
        let (spec, intercept): (Spec, bool) = container.field(name)?;
        let tensor = |part: &str| format!("{name}.{part}");
        let scaling = |container: &mut Container| -> Result<Scaling> {
            let columns = container.f32s(&tensor("shift"))?.1.len();
            let shift = container.take_f32s(&tensor("shift"), &[columns])?;
            Ok(Scaling { shift, scale: container.take_f32s(&tensor("scale"), &[columns])? })
        };
        let basis = match spec {
            Spec::Features { kernel, bandwidth, projection, form, features, seed } => {
                let scaling = scaling(container)?;
                let map =
                    FeatureMap { kernel, bandwidth, projection, form, block_size: features, seed, scaling };
                map.check()?;
                Self::features(map)?
            }
            Spec::Atoms { kernel, bandwidth } => {
                let kernel = ClosedForm::new(kernel, bandwidth, scaling(container)?)?;
                let d = kernel.columns();
                let m = container.f32s(&tensor("points"))?.1.len() / d.max(1);
                if m == 0 || d == 0 {
                    return Err(Error::Format("a basis without atoms".into()));
                }
                let points = container.take_f32s(&tensor("points"), &[m, d])?;
                let inverse = container.take_f32s(&tensor("inverse"), &[m, m])?;
                let inverse = Mat::from_fn(m, m, |i, j| inverse[i * m + j]);
                Self { kind: Arc::new(Kind::atoms(kernel, points, inverse)), intercept: false }
            }
            Spec::Table { states } => Self::table(states)?,
            Spec::Columns { columns } => Self::columns_of(columns)?,
            Spec::PerAction { .. } | Spec::Joined { .. } if depth == 0 => {
                return Err(Error::Format("a basis within bases".into()))
            }
            Spec::PerAction { actions } => {
                Self::restore_within(container, &tensor("states"), depth - 1)?.per_action(actions)?
            }
            Spec::Joined { parts } => {
                let part = |i: usize| Self::restore_within(container, &tensor(&i.to_string()), depth - 1);
                Self::joined((0..parts.min(MOST_PARTS + 1)).map(part).collect::<Result<_>>()?)?
            }
        };
        Ok(Self { intercept, ..basis })
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
        if !self.intercept {
            return self.fill_own(x, out);
        }
        let mut own = vec![0.0; x.len() / d * (m - 1)];
        self.fill_own(x, &mut own)?;
        for (i, out) in out.chunks_exact_mut(m).enumerate() {
            out[..m - 1].copy_from_slice(&own[i * (m - 1)..(i + 1) * (m - 1)]);
            out[m - 1] = 1.0;
        }
        Ok(())
    }

    /// Whether T ≠ I.
    fn is_transformed(&self) -> bool {
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
        self.map_blocks(a, lu::product)
    }

    /// Tᵀ A, of M rows.
    pub(crate) fn transposed(&self, a: &Mat<f64>) -> Mat<f64> {
        self.map_blocks(a, |inverse, part| lu::product(inverse.transpose(), part))
    }

    /// What `map` makes of L⁻¹ and the rows of `a` that belong to it; other rows as they are.
    fn map_blocks(
        &self,
        a: &Mat<f64>,
        map: impl Fn(MatRef<'_, f64>, MatRef<'_, f64>) -> Mat<f64> + Copy,
    ) -> Mat<f64> {
        let mut out = a.clone();
        match &*self.kind {
            Kind::Atoms { inverse, .. } => {
                let m = inverse.nrows();
                let inverse = Mat::from_fn(m, m, |i, j| f64::from(inverse[(i, j)]));
                out.subrows_mut(0, m).copy_from(map(inverse.as_ref(), a.subrows(0, m)));
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

    fn fill_own(&self, x: &[f32], out: &mut [f32]) -> Result<()> {
        match &*self.kind {
            Kind::Features { map, block } => {
                let block = match block.get() {
                    Some(block) => block,
                    None => {
                        let drawn = map.draw(BlockIndex(0))?;
                        block.get_or_init(|| drawn)
                    }
                };
                block.fill(Device::default(), x, out)?;
                let scale = 1.0 / (map.block_size as f32).sqrt();
                out.iter_mut().for_each(|v| *v *= scale);
            }
            Kind::Atoms { kernel, points, inverse, columns } => {
                let (mut inputs, m) = (Vec::with_capacity(x.len()), inverse.nrows());
                kernel.input(x, &mut inputs);
                for (x, k) in inputs.chunks_exact(kernel.columns()).zip(out.chunks_exact_mut(m)) {
                    match kernel.kernel() {
                        KernelSpec::Gaussian => gaussian_row(Device::default(), x, columns, k),
                        _ => kernel.values(x, points, k)?,
                    }
                }
            }
            Kind::Table { states } => {
                out.fill(0.0);
                for (&x, out) in x.iter().zip(out.chunks_exact_mut(*states)) {
                    out[index("state", x, *states)?] = 1.0;
                }
            }
            Kind::Columns { .. } => out.copy_from_slice(x),
            Kind::PerAction { states, actions } => fill_per_action(states, *actions, x, out)?,
            Kind::Joined(parts) => fill_joined(parts, x, out)?,
        }
        Ok(())
    }
}

/// The functions ψ₀ of each part, beside each other.
fn fill_joined(parts: &[Basis], x: &[f32], out: &mut [f32]) -> Result<()> {
    let (rows, m) = (x.len() / parts[0].columns(), parts.iter().map(Basis::len).sum());
    let (mut own, mut first) = (Vec::new(), 0);
    for part in parts {
        let count = part.len();
        own.resize(rows * count, 0.0);
        part.fill_plain(x, &mut own)?;
        for (out, own) in out.chunks_exact_mut(m).zip(own.chunks_exact(count)) {
            out[first..first + count].copy_from_slice(own);
        }
        first += count;
    }
    Ok(())
}

/// ψ₀(s) in the place of the action, zero elsewhere.
fn fill_per_action(states: &Basis, actions: usize, x: &[f32], out: &mut [f32]) -> Result<()> {
    let (d, m) = (states.columns(), states.len());
    let plain: Vec<f32> = x.chunks_exact(d + 1).flat_map(|row| &row[..d]).copied().collect();
    let mut features = vec![0.0; plain.len() / d * m];
    states.fill_plain(&plain, &mut features)?;
    out.fill(0.0);
    for (i, (row, out)) in x.chunks_exact(d + 1).zip(out.chunks_exact_mut(m * actions)).enumerate() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{KernelSpec, Scaling};
    use crate::random::Seed;

    fn filled(basis: &Basis, x: &[f32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; x.len() / basis.columns() * basis.len()];
        basis.fill(x, &mut out).unwrap();
        out
    }

    #[test]
    fn each_basis_has_the_values_it_names() {
        let table = Basis::table(3).unwrap();
        assert_eq!(filled(&table, &[2.0, 0.0]), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
        assert_eq!(filled(&table.clone().with_intercept(), &[1.0]), [0.0, 1.0, 0.0, 1.0]);
        assert_eq!(filled(&table.per_action(2).unwrap(), &[2.0, 1.0]), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        let columns = Basis::columns_of(2).unwrap();
        assert_eq!(filled(&columns, &[4.0, 5.0]), [4.0, 5.0]);
        let joined = Basis::joined(vec![columns.clone().with_intercept(), columns]).unwrap();
        assert_eq!(
            filled(&joined, &[4.0, 5.0, 6.0, 7.0]),
            [4.0, 5.0, 1.0, 4.0, 5.0, 6.0, 7.0, 1.0, 6.0, 7.0]
        );
        let kernel = ClosedForm::new(KernelSpec::Gaussian, 2.0, Scaling::identity(1)).unwrap();
        // Orthonormal: the products of ψ at two atoms are the kernel there.
        let basis = Basis::atoms(kernel, &[0.0, 2.0]).unwrap();
        let psi = filled(&basis, &[0.0, 2.0]);
        let dot = |i: usize, j: usize| psi[2 * i] * psi[2 * j] + psi[2 * i + 1] * psi[2 * j + 1];
        assert!((dot(0, 0) - 1.0).abs() < 1e-5 && (dot(0, 1) - (-0.5_f32).exp()).abs() < 1e-5);
    }

    /// Rows have the same functions however many come with them, also more than a tile of them.
    #[test]
    fn rows_do_not_depend_on_others() {
        let map = FeatureMap::new(KernelSpec::Gaussian, 0.7, 64, Seed(3), Scaling::identity(1)).unwrap();
        let basis = Basis::features(map).unwrap().with_intercept();
        let x: Vec<f32> = (0..3_000).map(|i| i as f32 / 1e3).collect();
        let apart: Vec<f32> = x.chunks(700).flat_map(|x| filled(&basis, x)).collect();
        assert_eq!(filled(&basis, &x), apart);
    }

    /// A basis comes out of a file as it went in.
    #[test]
    fn bases_are_stored() {
        let map = FeatureMap::new(KernelSpec::Gaussian, 0.7, 64, Seed(3), Scaling::identity(2)).unwrap();
        let kernel = ClosedForm::new(KernelSpec::Laplacian, 2.0, Scaling::identity(2)).unwrap();
        let bases = [
            Basis::features(map).unwrap().with_intercept(),
            Basis::atoms(kernel, &[0.0, 2.0, 1.0, -1.0]).unwrap(),
            Basis::table(3).unwrap().per_action(2).unwrap(),
            Basis::columns_of(2).unwrap(),
            Basis::joined(vec![Basis::columns_of(2).unwrap(), Basis::columns_of(2).unwrap()]).unwrap(),
        ];
        for basis in bases {
            let mut container = Container::new("model");
            basis.store(&mut container, "basis").unwrap();
            let again = Basis::restore(&mut container, "basis").unwrap();
            let x = [1.0, 0.0, 0.0, 1.0];
            assert_eq!(filled(&again, &x), filled(&basis, &x));
        }
    }

    /// ⟨ψ(x), ψ(y)⟩ = k(x, y) on average: with 4,096 features the deviation is at most 1/√4,096.
    #[test]
    fn products_of_features_are_the_kernel() {
        let map = FeatureMap::new(KernelSpec::Gaussian, 1.0, 4_096, Seed(3), Scaling::identity(2)).unwrap();
        let basis = Basis::features(map).unwrap();
        let psi = filled(&basis, &[0.0, 0.0, 0.6, -0.8]);
        let dot: f32 = psi[..4_096].iter().zip(&psi[4_096..]).map(|(a, b)| a * b).sum();
        assert!((dot - (-0.5_f32).exp()).abs() < 5.0 / 64.0, "{dot}");
    }

    /// ψ = Tψ₀: values θᵀψ are (Tᵀθ)ᵀψ₀, for atoms, with a constant and for each action.
    #[test]
    fn plain_features_have_the_same_span() {
        let kernel = ClosedForm::new(KernelSpec::Gaussian, 1.0, Scaling::identity(1)).unwrap();
        let atoms = Basis::atoms(kernel, &[0.0, 1.0, 2.5]).unwrap().with_intercept();
        let joined = Basis::joined(vec![Basis::columns_of(1).unwrap(), atoms.clone()]).unwrap();
        let per_action = atoms.clone().per_action(2).unwrap();
        for (basis, x) in [(atoms, vec![0.3]), (per_action, vec![0.3, 1.0]), (joined, vec![0.3])] {
            let m = basis.len();
            let theta = Mat::from_fn(m, 1, |i, _| 1.0 + i as f64);
            let mut plain = vec![0.0; m];
            basis.fill_plain(&x, &mut plain).unwrap();
            let dot = |psi: &[f32], theta: &Mat<f64>| -> f64 {
                psi.iter().zip(theta.col_as_slice(0)).map(|(psi, theta)| f64::from(*psi) * theta).sum()
            };
            let (whole, found) = (dot(&filled(&basis, &x), &theta), dot(&plain, &basis.transposed(&theta)));
            assert!((whole - found).abs() < 1e-5, "{whole} {found}");
            let psi = Mat::from_fn(m, 1, |i, _| f64::from(plain[i]));
            let again: f64 = basis
                .transformed(&psi)
                .col_as_slice(0)
                .iter()
                .zip(1..)
                .map(|(psi, k)| psi * f64::from(k))
                .sum();
            assert!((whole - again).abs() < 1e-5, "{whole} {again}");
        }
    }

    /// ψᵀw = 1 for the coefficients w of the function one; without the constants the other functions are the same.
    #[test]
    fn constants_are_found_and_left_out() {
        let linear = Basis::columns_of(2).unwrap();
        assert!(linear.one().is_none());
        let basis = linear.clone().with_intercept().per_action(2).unwrap();
        let x = [0.5, -1.0, 1.0];
        for (basis, x) in [(&basis, &x[..]), (&Basis::table(3).unwrap(), &[2.0][..])] {
            let sum: f64 =
                filled(basis, x).iter().zip(basis.one().unwrap()).map(|(a, w)| f64::from(*a) * w).sum();
            assert_eq!(sum, 1.0);
        }
        let (inner, places) = basis.without_intercept();
        assert_eq!(places, [0, 1, 3, 4]);
        let whole = filled(&basis, &x);
        assert_eq!(filled(&inner, &x), places.iter().map(|&place| whole[place]).collect::<Vec<_>>());
    }

    #[test]
    fn states_that_do_not_exist_are_refused() {
        let mut out = [0.0; 3];
        for x in [3.0, -1.0, 0.5, f32::NAN] {
            let error = Basis::table(3).unwrap().fill(&[x], &mut out).unwrap_err();
            assert!(error.to_string().contains("state"), "{error}");
        }
        assert!(Basis::table(0).is_err() && Basis::columns_of(0).is_err() && Basis::joined(vec![]).is_err());
        assert!(Basis::table(3).unwrap().fill(&[1.0], &mut out[..2]).is_err());
    }
}
