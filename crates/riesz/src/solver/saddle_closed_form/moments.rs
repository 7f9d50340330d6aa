//! Moments, and the saddle points that follow from them.

use crate::error::{non_negative, Error, Result};
use crate::linalg::cholesky::{add_square, Cholesky, SINGLE};
use crate::linalg::{dot, lu};
use crate::model::Container;
use crate::solver::{Addend, DualForm};
use faer::Mat;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// λ₁ and λ₂ of [`super::SaddleClosedForm`], in units of the mean of a diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug)]
pub struct Moments {
    /// Rows.
    pub rows: f64,
    /// Σ φφᵀ, lower triangle.
    pub(super) gram: Mat<f64>,
    /// Σ φψ̃ᵀ.
    pub(super) cross: Mat<f64>,
    /// Σ φyᵀ, Σ φcᵀ and Σ ψ̃yᵀ.
    pub(super) dual_target: Mat<f64>,
    pub(super) dual_constant: Mat<f64>,
    pub(super) primal_target: Mat<f64>,
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

/// θ and what its errors are computed from.
pub struct Solution {
    /// θ, M×C.
    pub theta: Mat<f64>,
    /// G⁻¹BH⁻¹, K×M.
    pub(super) sensitivity: Mat<f64>,
}

impl Solution {
    /// θ, M×C row-major.
    pub fn coefficients(&self) -> Vec<f64> {
        let c = self.theta.ncols();
        (0..self.theta.nrows() * c).map(|i| self.theta[(i / c, i % c)]).collect()
    }

    /// Influences of groups of samples on θ from their scores: H⁻¹BᵀG⁻¹ Σφr, J×(M·C). θ̂ − θ is about −(1/n) times the sum of
    /// all, from which come errors and bootstrap samples.
    pub fn influences(&self, scores: &[Mat<f64>]) -> Vec<Vec<f64>> {
        let influence = |score: &Mat<f64>| {
            let influence = lu::product(self.sensitivity.transpose(), score.as_ref());
            let (m, c) = (influence.nrows(), influence.ncols());
            (0..m * c).map(|i| influence[(i / c, i % c)]).collect()
        };
        scores.par_iter().with_max_len(1).map(influence).collect()
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

    /// Adds the sums to a container under `name`.
    pub(crate) fn store(&self, container: &mut Container, name: &str) -> Result<()> {
        container.set_field(name, &self.rows)?;
        for (part, matrix) in [
            ("gram", &self.gram),
            ("cross", &self.cross),
            ("dual_target", &self.dual_target),
            ("dual_constant", &self.dual_constant),
            ("primal_target", &self.primal_target),
        ] {
            let (rows, columns) = (matrix.nrows(), matrix.ncols());
            let values: Vec<f64> = (0..rows * columns).map(|i| matrix[(i / columns, i % columns)]).collect();
            container.insert(&format!("{name}.{part}"), vec![rows, columns], values)?;
        }
        Ok(())
    }

    /// Takes out what [`Moments::store`] added, of one output and one basis of M functions for both spaces.
    pub(crate) fn restore(container: &mut Container, name: &str, m: usize) -> Result<Self> {
        let rows = container.field(name)?;
        let mut take = |part: &str, columns: usize| -> Result<Mat<f64>> {
            let values = container.take_f64s(&format!("{name}.{part}"), &[m, columns])?;
            Ok(Mat::from_fn(m, columns, |i, j| values[i * columns + j]))
        };
        Ok(Self {
            rows,
            gram: take("gram", m)?,
            cross: take("cross", m)?,
            dual_target: take("dual_target", 1)?,
            dual_constant: take("dual_constant", 1)?,
            primal_target: take("primal_target", 1)?,
        })
    }

    /// The lower triangle of E[φφᵀ] + λ₂I, factorised.
    pub(super) fn factor(&self, ridge: f64) -> Result<Cholesky> {
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
    pub(super) fn whitened(&self, ridge: f64) -> Result<(Cholesky, Mat<f64>, Mat<f64>)> {
        let factor = self.factor(ridge)?;
        let mut whitened = &self.cross * faer::Scale(1.0 / self.rows);
        factor.forward(whitened.as_mut());
        let mut square = Mat::<f64>::zeros(whitened.ncols(), whitened.ncols());
        add_square(&mut square, whitened.transpose());
        Ok((factor, whitened, square))
    }

    /// θ and the factor of H.
    pub(super) fn solve_whitened(
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

    /// θ by `steps` steps of fitted iteration, θ ← (G + λI)⁻¹ ( −E φc + (B + G)θ ) from zero: regression of what follows on
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
        let (system, right) = self.square_system(ridge)?;
        let m = system.nrows();
        let inverse = lu::solve(system, Mat::identity(m, m));
        let theta = finite(lu::product(inverse.as_ref(), right.as_ref()))?;
        Ok(Solution { theta, sensitivity: inverse.transpose().to_owned() })
    }

    /// The same θ without what its errors are computed from, at a quarter of the work.
    pub(crate) fn solve_square_alone(&self, ridge: f64) -> Result<Mat<f64>> {
        let (system, right) = self.square_system(ridge)?;
        finite(lu::solve(system, right))
    }

    fn square_system(&self, ridge: f64) -> Result<(Mat<f64>, Mat<f64>)> {
        non_negative("ridge", ridge)?;
        self.check_square()?;
        let (m, scale) = (self.cross.ncols(), faer::Scale(1.0 / self.rows));
        let mut system = &self.cross * scale;
        let mean = (0..m).map(|i| system[(i, i)].abs()).sum::<f64>() / m as f64;
        (0..m).for_each(|i| system[(i, i)] -= ridge * mean);
        Ok((system, (&self.dual_target - &self.dual_constant) * scale))
    }

    /// G⁻¹E[φφ'ᵀ] = I + G⁻¹B for two tables and the Bellman residual without discount: the share of transitions from each state to
    /// each other; a state without transitions has shares that are no numbers.
    pub(crate) fn transition_matrix(&self) -> Mat<f64> {
        let m = self.cross.ncols();
        let stays = |i: usize, j: usize| if i == j { self.gram[(i, i)] } else { 0.0 };
        Mat::from_fn(m, m, |i, j| (stays(i, j) + self.cross[(i, j)]) / self.gram[(i, i)])
    }

    /// G⁻¹Bθ: the coefficients of E[T f | x] in the span of φ, but for constants of T.
    pub(crate) fn regressed(&self, ridge: f64, theta: &Mat<f64>) -> Result<Mat<f64>> {
        let mut right = lu::product(self.cross.as_ref(), theta.as_ref()) * faer::Scale(1.0 / self.rows);
        solve_columns(&self.factor(ridge)?, &mut right);
        Ok(right)
    }

    /// λ + E‖φ‖²/B, λ the largest eigenvalue of E φφᵀ to about a per cent (64 steps of the power method), of the functions at some
    /// places: one over the steps that batches of B samples can take.
    pub fn curvature(&self, places: &[usize], batch: usize) -> f64 {
        let k = places.len();
        let entry = |i: usize, j: usize| self.gram[(places[i.max(j)], places[i.min(j)])];
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

    /// Σ_o E[f_o(x) g_o(x)] of f = αᵀφ and g = βᵀφ, M×O each.
    pub(crate) fn product(&self, alpha: &Mat<f64>, beta: &Mat<f64>) -> f64 {
        let m = self.gram.nrows();
        let gram = Mat::from_fn(m, m, |i, j| self.gram[(i.max(j), i.min(j))] / self.rows);
        let right = lu::product(gram.as_ref(), beta.as_ref());
        (0..beta.ncols()).map(|o| dot(alpha.col_as_slice(o), right.col_as_slice(o))).sum()
    }

    /// E[φ((T f) − y)] at θ.
    pub(super) fn error(&self, theta: &Mat<f64>) -> Mat<f64> {
        (lu::product(self.cross.as_ref(), theta.as_ref()) + &self.dual_constant - &self.dual_target)
            * faer::Scale(1.0 / self.rows)
    }
}

/// θ, unless the system that it solves was singular.
fn finite(theta: Mat<f64>) -> Result<Mat<f64>> {
    match theta.as_ref().norm_max().is_finite() {
        true => Ok(theta),
        false => Err(Error::NotPositiveDefinite { block: 0, size: theta.nrows(), raise: "ridge" }),
    }
}

/// H⁻¹ from both sides, column by column.
fn solve_columns(system: &Cholesky, x: &mut Mat<f64>) {
    system.forward(x.as_mut());
    system.backward(x.as_mut());
}
