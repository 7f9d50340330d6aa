//! The saddle point of a square loss over two linear spaces, solved exactly (spec 5).

use super::{Addend, DualForm, Sums};
use crate::data::{Rows, TILE};
use crate::error::{non_negative, same_rows, Error, Result};
use crate::linalg::cholesky::{add_square, Cholesky, SINGLE};
use crate::linalg::lu;
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
    /// What the dual is.
    pub form: DualForm,
}

/// λ₁ and λ₂ of [`SaddleClosedForm`], in units of the mean of a diagonal.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Ridges {
    /// λ₁.
    pub primal: f64,
    /// λ₂.
    pub dual: f64,
}

impl Ridges {
    /// Neither is negative.
    pub fn check(self) -> Result<Self> {
        non_negative("ridge", self.primal)?;
        non_negative("dual_ridge", self.dual)?;
        Ok(self)
    }
}

/// Sums over transitions.
#[derive(Clone)]
pub struct Moments {
    /// Rows.
    pub rows: f64,
    /// Σ φφᵀ, lower triangle.
    gram: Mat<f64>,
    /// Σ φψ̃ᵀ.
    cross: Mat<f64>,
    /// Σ φyᵀ, Σ φcᵀ and Σ ψ̃yᵀ.
    dual_target: Mat<f64>,
    dual_constant: Mat<f64>,
    primal_target: Mat<f64>,
}

impl Addend for Moments {
    fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.gram += &other.gram;
        self.cross += &other.cross;
        self.dual_target += &other.dual_target;
        self.dual_constant += &other.dual_constant;
        self.primal_target += &other.primal_target;
    }
}

/// How features of some rows are computed.
type Fill = fn(&Basis, &[f32], &mut [f32]) -> Result<()>;

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
        let missing = Error::Empty { what: "transitions", needed: "one for every part" };
        sums.into_iter().collect::<Option<_>>().ok_or(missing)
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
            crate::error::same_columns(self.primal.columns(), rows.columns())?;
            same_rows("points", n, rows.len())?;
        }
        crate::error::same_columns(self.dual.columns(), given.columns())?;
        Ok(Listed { points, given, constants, targets, outputs: targets.len() / n })
    }

    /// ψ̃ on some rows, row-major; φ on the same rows is ψ at a point where both bases and both rows are the same.
    fn combined(
        &self,
        listed: &Listed<'_>,
        range: Range<usize>,
        phi: &[f32],
        fill: Fill,
    ) -> Result<Vec<f32>> {
        let m = self.primal.len();
        let (mut x, mut psi, mut sum) = (Vec::new(), vec![0.0; range.len() * m], vec![0.0; range.len() * m]);
        for Points { rows, factors } in &listed.points {
            let shared = self.primal.is(&self.dual) && rows.is(&listed.given);
            if !shared {
                fill(&self.primal, rows.tile(range.clone(), &mut x), &mut psi)?;
            }
            let psi = if shared { phi } else { &psi };
            for (i, (sum, psi)) in sum.chunks_exact_mut(m).zip(psi.chunks_exact(m)).enumerate() {
                let factor = factors.at(range.start + i);
                if factor != 0.0 {
                    sum.iter_mut().zip(psi).for_each(|(sum, psi)| *sum += factor * psi);
                }
            }
        }
        Ok(sum)
    }

    fn given(&self, listed: &Listed<'_>, range: Range<usize>, fill: Fill) -> Result<Vec<f32>> {
        let (mut x, mut phi) = (Vec::new(), vec![0.0; range.len() * self.dual.len()]);
        fill(&self.dual, listed.given.tile(range, &mut x), &mut phi)?;
        Ok(phi)
    }

    /// The moments of one leaf, on one thread, in single precision.
    fn leaf(&self, listed: &Listed<'_>, range: Range<usize>) -> Result<Moments> {
        let (n, m, k, c) = (range.len(), self.primal.len(), self.dual.len(), listed.outputs);
        let phi = self.given(listed, range.clone(), Basis::fill)?;
        let psi = self.combined(listed, range.clone(), &phi, Basis::fill)?;
        let psi = MatRef::from_row_major_slice(&psi, n, m);
        let phi = MatRef::from_row_major_slice(&phi, n, k);
        let own = range.start * c..range.end * c;
        let targets = MatRef::from_row_major_slice(&listed.targets[own.clone()], n, c);
        let constants = MatRef::from_row_major_slice(&listed.constants[own], n, c);
        let mut gram = Mat::<f32>::zeros(k, k);
        let (lower, full) = (BlockStructure::TriangularLower, BlockStructure::Rectangular);
        triangular::matmul(
            gram.as_mut(),
            lower,
            Accum::Replace,
            phi.transpose(),
            full,
            phi,
            full,
            1.0,
            Par::Seq,
        );
        Ok(Moments {
            rows: n as f64,
            gram: wide(gram.as_ref()),
            cross: product(phi, psi),
            dual_target: product(phi, targets),
            dual_constant: product(phi, constants),
            primal_target: product(psi, targets),
        })
    }

    /// Influences of samples on θ: for every group of rows the sum of H⁻¹BᵀG⁻¹ φ r over its rows, r = (T f)(s) − y; J×(M·C).
    /// θ̂ − θ is about −(1/n) times the sum of all, from which come errors and bootstrap samples.
    pub fn influences<'a>(
        &self,
        batch: T::Batch<'a>,
        targets: &'a [f32],
        solution: &Solution,
        groups: &[Range<usize>],
    ) -> Result<Vec<Vec<f64>>> {
        let listed = self.list(batch, targets)?;
        let (m, k, c) = (self.primal.len(), self.dual.len(), listed.outputs);
        // θᵀψ = (Tᵀθ)ᵀψ₀ and Σφr = T Σφ₀r for features ψ = Tψ₀: plain ones are cheaper.
        let theta = self.primal.transposed(&solution.theta);
        let one = |group: &Range<usize>| -> Result<Vec<f64>> {
            let mut sum = Mat::<f64>::zeros(k, c);
            for start in group.clone().step_by(TILE) {
                let range = start..(start + TILE).min(group.end);
                let phi = self.given(&listed, range.clone(), Basis::fill_plain)?;
                let psi = self.combined(&listed, range.clone(), &phi, Basis::fill_plain)?;
                for (i, at) in (range.start * c..range.end * c).enumerate() {
                    let (i, o) = (i / c, i % c);
                    let value = |(psi, theta): (&f32, &f64)| f64::from(*psi) * theta;
                    let value: f64 = psi[i * m..][..m].iter().zip(theta.col_as_slice(o)).map(value).sum();
                    let residual = value + f64::from(listed.constants[at]) - f64::from(listed.targets[at]);
                    let sums = sum.col_as_slice_mut(o).iter_mut().zip(&phi[i * k..][..k]);
                    sums.for_each(|(sum, phi)| *sum += residual * f64::from(*phi));
                }
            }
            let sum = self.dual.transformed(&sum);
            let influence = lu::product(solution.sensitivity.transpose(), sum.as_ref());
            Ok((0..m * c).map(|i| influence[(i / c, i % c)]).collect())
        };
        groups.par_iter().with_max_len(1).map(one).collect()
    }
}

/// AᵀB in single precision, widened.
fn product(a: MatRef<'_, f32>, b: MatRef<'_, f32>) -> Mat<f64> {
    let mut out = Mat::<f32>::zeros(a.ncols(), b.ncols());
    matmul(out.as_mut(), Accum::Replace, a.transpose(), b, 1.0, Par::Seq);
    wide(out.as_ref())
}

fn wide(a: MatRef<'_, f32>) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| f64::from(a[(i, j)]))
}

/// θ and what its errors are computed from.
pub struct Solution {
    /// θ, M×C.
    pub theta: Mat<f64>,
    /// G⁻¹BH⁻¹, K×M.
    sensitivity: Mat<f64>,
}

impl Solution {
    /// θ, M×C row-major.
    pub fn coefficients(&self) -> Vec<f64> {
        let c = self.theta.ncols();
        (0..self.theta.nrows() * c).map(|i| self.theta[(i / c, i % c)]).collect()
    }
}

impl Moments {
    /// The sum of several.
    pub fn sum<'a>(mut parts: impl Iterator<Item = &'a Self>) -> Result<Self> {
        let first = parts.next().ok_or(Error::Empty { what: "parts of the samples", needed: "one" })?;
        Ok(parts.fold(first.clone(), |mut sum, part| {
            sum.add(part);
            sum
        }))
    }

    /// The lower triangle of E[φφᵀ] + λ₂I, factorised.
    fn factor(&self, ridge: f64) -> Result<Cholesky> {
        let k = self.gram.nrows();
        let mean = (0..k).map(|i| self.gram[(i, i)]).sum::<f64>() / (k as f64 * self.rows);
        let make = || {
            Ok(Mat::from_fn(k, k, |i, j| match i.cmp(&j) {
                std::cmp::Ordering::Less => 0.0,
                std::cmp::Ordering::Equal => self.gram[(i, i)] / self.rows + ridge * mean,
                std::cmp::Ordering::Greater => self.gram[(i, j)] / self.rows,
            }))
        };
        Cholesky::of(SINGLE, "dual_ridge", make, &mut || Ok(()))
    }

    /// The saddle point.
    pub fn solve(&self, form: DualForm, ridges: Ridges) -> Result<Solution> {
        let Ridges { primal, dual } = ridges.check()?;
        let (factor, whitened, square) = self.whitened(dual)?;
        let (theta, system) = self.solve_whitened(form, primal, &factor, &whitened, &square)?;
        // (G⁻¹BH⁻¹)ᵀ = H⁻¹ (L⁻ᵀ W)ᵀ.
        let mut left = whitened;
        factor.backward(left.as_mut());
        let mut sensitivity = left.transpose().to_owned();
        solve_columns(&system, &mut sensitivity);
        Ok(Solution { theta, sensitivity: sensitivity.transpose().to_owned() })
    }

    /// L of G, W = L⁻¹B and WᵀW.
    fn whitened(&self, ridge: f64) -> Result<(Cholesky, Mat<f64>, Mat<f64>)> {
        let factor = self.factor(ridge)?;
        let mut whitened = &self.cross * faer::Scale(1.0 / self.rows);
        factor.forward(whitened.as_mut());
        let mut square = Mat::<f64>::zeros(whitened.ncols(), whitened.ncols());
        add_square(&mut square, whitened.transpose());
        Ok((factor, whitened, square))
    }

    /// θ and the factor of H.
    fn solve_whitened(
        &self,
        form: DualForm,
        ridge: f64,
        factor: &Cholesky,
        whitened: &Mat<f64>,
        square: &Mat<f64>,
    ) -> Result<(Mat<f64>, Cholesky)> {
        let m = whitened.ncols();
        let scale = faer::Scale(1.0 / self.rows);
        let (target, constant) = (&self.dual_target * scale, &self.dual_constant * scale);
        let mut right = match form {
            DualForm::Free => &target - &constant,
            DualForm::Shifted => -&constant,
        };
        factor.forward(right.as_mut());
        let mut theta = lu::product(whitened.transpose(), right.as_ref());
        if form == DualForm::Shifted {
            theta += &self.primal_target * scale;
        }
        let mean = (0..m).map(|i| square[(i, i)]).sum::<f64>() / m as f64;
        let make = || {
            let mut system = square.clone();
            (0..m).for_each(|i| system[(i, i)] += ridge * mean);
            Ok(system)
        };
        let system = Cholesky::of(SINGLE, "ridge", make, &mut || Ok(()))?;
        solve_columns(&system, &mut theta);
        Ok((theta, system))
    }

    /// θ by `steps` steps of fitted iteration, θ ← (G + λI)⁻¹ ( −E[φc] + (B + G)θ ) from zero: regression of what follows on
    /// what is there, again and again (fitted Q evaluation where T is the Bellman residual and both bases are the same).
    pub fn solve_fitted(&self, ridge: f64, steps: usize) -> Result<Mat<f64>> {
        non_negative("ridge", ridge)?;
        self.check_square()?;
        let (factor, scale) = (self.factor(ridge)?, faer::Scale(1.0 / self.rows));
        let full = |i: usize, j: usize| if i >= j { self.gram[(i, j)] } else { self.gram[(j, i)] };
        let m = self.gram.nrows();
        let mut next = Mat::from_fn(m, m, |i, j| (self.cross[(i, j)] + full(i, j)) / self.rows);
        let mut own = (&self.dual_constant - &self.dual_target) * scale;
        solve_columns(&factor, &mut next);
        solve_columns(&factor, &mut own);
        let mut theta = own.clone();
        for _ in 1..steps {
            theta = lu::product(next.as_ref(), theta.as_ref()) + &own;
        }
        match theta.as_ref().norm_max() {
            size if size.is_finite() => Ok(theta),
            size => Err(Error::Diverged { step: steps, objective: size, lower: "discount, or raise ridge" }),
        }
    }

    /// As many equations as unknowns.
    fn check_square(&self) -> Result<()> {
        match (self.cross.nrows(), self.cross.ncols()) {
            (k, m) if k == m => Ok(()),
            (k, m) => {
                Err(Error::Conflict(format!("{k} equations for {m} unknowns; give both spaces one basis")))
            }
        }
    }

    /// θ of the estimating equation E[φ((T f) − y)] = 0 itself, B θ = E[φ(y − c)], for as many functions of the dual as of the
    /// primal basis: LSTD where T is the Bellman residual. The ridge is subtracted from the diagonal of B, which is negative there.
    pub fn solve_square(&self, ridge: f64) -> Result<Solution> {
        non_negative("ridge", ridge)?;
        let (k, m) = (self.cross.nrows(), self.cross.ncols());
        if k != m {
            return Err(Error::Conflict(format!(
                "{k} equations for {m} unknowns; give both spaces the same basis"
            )));
        }
        let scale = faer::Scale(1.0 / self.rows);
        let mut system = &self.cross * scale;
        let mean = (0..m).map(|i| system[(i, i)].abs()).sum::<f64>() / m as f64;
        (0..m).for_each(|i| system[(i, i)] -= ridge * mean);
        let right = (&self.dual_target - &self.dual_constant) * scale;
        let inverse = lu::solve(system, Mat::identity(m, m));
        let theta = lu::product(inverse.as_ref(), right.as_ref());
        let solution = Solution { theta, sensitivity: inverse.transpose().to_owned() };
        match solution.theta.as_ref().norm_max().is_finite() {
            true => Ok(solution),
            false => Err(Error::NotPositiveDefinite { block: 0, size: m, raise: "ridge" }),
        }
    }

    /// G⁻¹E[φφ'ᵀ] = I + G⁻¹B for two tables and the Bellman residual without discount: the share of transitions from each state to
    /// each other; a state without transitions has shares that are no numbers.
    pub(crate) fn transition_matrix(&self) -> Mat<f64> {
        let m = self.cross.ncols();
        Mat::from_fn(m, m, |i, j| {
            let own = self.gram[(i, i)];
            (f64::from(u8::from(i == j)) * own + self.cross[(i, j)]) / own
        })
    }

    /// λ + E‖φ‖²/B, λ the largest eigenvalue of E[φφᵀ] to about a per cent (64 steps of the power method): one over the steps that
    /// batches of B samples can take.
    pub fn curvature(&self, batch: usize) -> f64 {
        let k = self.gram.nrows();
        let entry = |i: usize, j: usize| if i >= j { self.gram[(i, j)] } else { self.gram[(j, i)] };
        let gram = Mat::from_fn(k, k, |i, j| entry(i, j) / self.rows);
        let mut x = Mat::from_fn(k, 1, |i, _| 1.0 + 1e-3 * (i % 7) as f64);
        let mut value = 0.0;
        for _ in 0..64 {
            let next = lu::product(gram.as_ref(), x.as_ref());
            let size = next.norm_l2();
            value = size / x.norm_l2();
            x = next * faer::Scale(1.0 / size.max(f64::MIN_POSITIVE));
        }
        let trace: f64 = (0..k).map(|i| gram[(i, i)]).sum();
        (value + trace / batch as f64).max(f64::MIN_POSITIVE)
    }

    /// E[φ((T f) − y)] at θ.
    fn error(&self, theta: &Mat<f64>) -> Mat<f64> {
        (lu::product(self.cross.as_ref(), theta.as_ref()) + &self.dual_constant - &self.dual_target)
            * faer::Scale(1.0 / self.rows)
    }
}

/// H⁻¹ from both sides, column by column.
fn solve_columns(system: &Cholesky, x: &mut Mat<f64>) {
    system.forward(x.as_mut());
    system.backward(x.as_mut());
}

/// Candidates for λ₁ and λ₂.
const PRIMAL: [f64; 8] = [1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
const DUAL: [f64; 4] = [1e-8, 1e-6, 1e-4, 1e-2];
/// λ₂ of the norm that candidates are compared in.
const NORM: f64 = 1e-6;

/// Parts that samples are dealt out to where ridges are chosen.
pub const PARTS: usize = 5;

/// How candidates for a ridge are compared: two parts of the samples are held out, and the others learnt from; with p_a, p_b the
/// errors E[φ((T f) − y)] on the two, p_aᵀG⁻¹p_b estimates without bias the squared norm of E[(T f) − y | x] in the span of φ,
/// whose noise pᵀG⁻¹p would count as error. Its own standard error is added, about |p_a − p_b|²/(2√K) in that norm, or a wild f
/// would win by luck. The parts take turns.
struct Judge<'a> {
    parts: &'a [Moments],
    norm: Cholesky,
}

impl<'a> Judge<'a> {
    fn new(parts: &'a [Moments]) -> Result<Self> {
        if parts.len() < 3 {
            return Err(Error::Empty { what: "parts of the samples", needed: "three" });
        }
        Ok(Self { parts, norm: Moments::sum(parts.iter())?.factor(NORM)? })
    }

    /// What is learnt from while parts `t` and `t` + 1 are held out.
    fn training(&self, t: usize) -> Result<Moments> {
        let next = (t + 1) % self.parts.len();
        Moments::sum(
            self.parts.iter().enumerate().filter(|(k, _)| *k != t && *k != next).map(|(_, part)| part),
        )
    }

    /// The error on parts `t` and `t` + 1.
    fn error(&self, t: usize, theta: &Mat<f64>) -> f64 {
        let [a, b] = [t, t + 1].map(|k| {
            let mut error = self.parts[k % self.parts.len()].error(theta);
            self.norm.forward(error.as_mut());
            error
        });
        let (k, spread) = (a.nrows(), 0.5 / (a.nrows() as f64).sqrt());
        let estimate = |o: usize| -> f64 {
            (0..k).map(|i| a[(i, o)] * b[(i, o)] + spread * (a[(i, o)] - b[(i, o)]).powi(2)).sum()
        };
        (0..a.ncols()).map(estimate).sum()
    }
}

/// The ridges whose solution leaves the least of the error on samples that were not learnt from, of equals the larger ones, and
/// that error, for three parts of the samples or more. Either ridge may be given.
pub fn choose_ridges(
    parts: &[Moments],
    form: DualForm,
    primal: Option<f64>,
    dual: Option<f64>,
) -> Result<(Ridges, f64)> {
    let primals = primal.map_or(PRIMAL.to_vec(), |ridge| vec![ridge]);
    let duals = dual.map_or(DUAL.to_vec(), |ridge| vec![ridge]);
    let judge = Judge::new(parts)?;
    let mut scores = vec![0.0; duals.len() * primals.len()];
    for t in 0..parts.len() {
        let training = judge.training(t)?;
        for (&dual, scores) in duals.iter().zip(scores.chunks_exact_mut(primals.len())) {
            let (factor, whitened, square) = training.whitened(dual)?;
            for (score, &ridge) in scores.iter_mut().zip(&primals) {
                let (theta, _) = training.solve_whitened(form, ridge, &factor, &whitened, &square)?;
                *score += judge.error(t, &theta);
            }
        }
    }
    let mut best = None;
    for (score, k) in scores.into_iter().zip(0..) {
        let ridges = Ridges { primal: primals[k % primals.len()], dual: duals[k / primals.len()] };
        keep_least(&mut best, score, ridges);
    }
    best.ok_or(Error::Empty { what: "candidates for ridge", needed: "one" })
}

/// The same for a solution with one ridge, given by `solve`.
pub fn choose_ridge(
    parts: &[Moments],
    solve: impl Fn(&Moments, f64) -> Result<Mat<f64>>,
) -> Result<(f64, f64)> {
    let (judge, mut best) = (Judge::new(parts)?, None);
    let trainings: Vec<Moments> = (0..parts.len()).map(|t| judge.training(t)).collect::<Result<_>>()?;
    let mut failure = Error::Empty { what: "candidates for ridge", needed: "one" };
    for ridge in PRIMAL {
        let score = |(t, training)| solve(training, ridge).map(|theta| judge.error(t, &theta));
        match trainings.iter().enumerate().map(score).collect::<Result<Vec<f64>>>() {
            Ok(scores) => keep_least(&mut best, scores.iter().sum(), ridge),
            Err(error) => failure = error,
        }
    }
    best.ok_or(failure)
}

fn keep_least<R>(best: &mut Option<(R, f64)>, score: f64, candidate: R) {
    if score.is_finite() && best.as_ref().is_none_or(|(_, least)| score <= *least) {
        *best = Some((candidate, score));
    }
}
