//! The posterior of many rows: inducing points for what is smooth, neighbours for what is left.

use super::neighbours::Neighbourhood;
use crate::data::{tiles, TILE};
use crate::driver::{Control, Phase, Progress};
use crate::error::Result;
use crate::gaussian::covariance::{correlation, kernel_matrix, Hyperparameters, Points};
use crate::gaussian::likelihood::gaussian_log_density;
use crate::gaussian::pathwise::{Draw, PriorSamples};
use crate::gaussian::Family;
use crate::linalg::cholesky::{add_product, add_square};
use crate::linalg::{dot, Cholesky};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use rayon::prelude::*;

/// Added to the diagonal of K_uu, relative to s²: ψ is in single precision, and L⁻¹ must not multiply its rounding by more.
const NUGGET: f64 = 1e-8;
/// Least variance of a residual, relative to s².
const LEAST: f64 = 1e-9;
/// Earlier rows among which the neighbours of a training row are looked for.
const WINDOW: usize = 1 << 16;

/// How f is approximated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Inducing points M.
    pub(super) inducing: usize,
    /// Neighbours q.
    pub(super) neighbours: usize,
}

/// f = ψᵀw + h with M inducing points u and their features ψ(x) = L⁻¹k_u(x), L Lᵀ = K_uu, w ~ N(0, I). The residual h
/// has covariance k̃(x, x') = k(x, x') − ψ(x)ᵀψ(x'), and z = h + ε at row i is taken to depend on the rows before it
/// through its q nearest ones N(i) alone:
///
/// ```text
/// z_i | z_N ~ N(a_iᵀz_N, d_i),   a_i = (K̃_NN + σ²I)⁻¹ k̃_N(x_i),   d_i = k̃(x_i, x_i) + σ² − a_iᵀk̃_N(x_i)
/// ```
///
/// With ψ̃_i = ψ_i − Σ a_ij ψ_j and ỹ_i alike, all that remains is linear regression of ỹ on ψ̃ with variances d:
///
/// ```text
/// w | y ~ N(B⁻¹b, B⁻¹),   B = I + Σ ψ̃_i ψ̃_iᵀ/d_i,   b = Σ ψ̃_i ỹ_i/d_i
/// f(x*) | y ~ N(ψ̃*ᵀB⁻¹b + a*ᵀy_N, d* + ψ̃*ᵀB⁻¹ψ̃*)      (d* without σ², N among all rows)
/// ```
///
/// q = 0 is FITC. It is the exact posterior where the inducing points are the rows, and where N is all rows before.
/// O(n(M² + q²M + q³)) time beside the search for neighbours, O(nM) memory. Rows are in random order.
#[derive(Clone, Debug)]
pub(super) struct Inducing {
    sizes: Sizes,
    points: Points,
    near: Neighbourhood,
    targets: Vec<f64>,
    inducing: Points,
    /// L.
    prior: Cholesky,
    /// ψ of all rows, n×M row-major.
    psi: Vec<f32>,
    /// Factor of B.
    system: Cholesky,
    /// B⁻¹b.
    weights: Vec<f64>,
    log_marginal_likelihood: f64,
}

/// The law of a residual given its neighbours.
struct Local {
    /// a.
    coefficients: Vec<f64>,
    /// d, without noise.
    variance: f64,
}

/// ψ̃ of some points as columns, a with N, and d.
struct Reduced {
    psi: Mat<f64>,
    local: Vec<(Vec<u32>, Local)>,
}

impl Inducing {
    /// Conditions on `targets` (less their mean) at `points`, both in random order; the first M are the inducing points.
    pub(super) fn new(
        h: &Hyperparameters,
        sizes: Sizes,
        points: Points,
        targets: Vec<f64>,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        let m = sizes.inducing.min(points.len());
        let inducing = points.select(0..m);
        let covariance = || Family::Gaussian.covariance(h.signal, &inducing, NUGGET * h.signal);
        let prior = Cholesky::of_covariance(covariance, &mut || control.check(0))?;
        let empty = Cholesky::from_lower(Mat::zeros(0, 0), 0.0);
        let mut this = Self {
            sizes,
            psi: Vec::with_capacity(points.len() * m),
            near: Neighbourhood::new(&points),
            points,
            targets,
            inducing,
            prior,
            system: empty,
            weights: Vec::new(),
            log_marginal_likelihood: 0.0,
        };
        for tile in tiles(this.points.len()) {
            control.check(0)?;
            let psi = this.features(h, &this.points.select(tile));
            (0..psi.ncols()).for_each(|i| this.psi.extend(psi.col_as_slice(i).iter().map(|&v| v as f32)));
        }
        this.condition(h, control)?;
        Ok(this)
    }

    /// B, b and the likelihood, tile by tile.
    fn condition(&mut self, h: &Hyperparameters, control: &mut Control<'_>) -> Result<()> {
        let (n, m) = (self.points.len(), self.inducing.len());
        let mut b = Mat::<f64>::identity(m, m);
        let mut right = vec![0.0; m];
        let (mut misfit, mut log_det) = (0.0, 0.0);
        for tile in tiles(n) {
            control.report(Progress::new(Phase::Fit, tile.end, n, f64::NAN))?;
            let points = self.points.select(tile.clone());
            let start = tile.start;
            let neighbours = self
                .near
                .nearest(&points, self.sizes.neighbours, |i| (start + i).saturating_sub(WINDOW)..start + i);
            let psi = &self.psi[start * m..tile.end * m];
            let mut reduced = self.reduce(h, &points, psi, neighbours);
            let mut targets = vec![0.0; tile.len()];
            for (i, ((rows, local), out)) in reduced.local.iter().zip(&mut targets).enumerate() {
                let variance = local.variance + h.noise;
                let known: f64 =
                    rows.iter().zip(&local.coefficients).map(|(&j, a)| a * self.targets[j as usize]).sum();
                *out = (self.targets[start + i] - known) / variance.sqrt();
                reduced.psi.col_as_slice_mut(i).iter_mut().for_each(|v| *v /= variance.sqrt());
                log_det += variance.ln();
            }
            misfit += dot(&targets, &targets);
            add_square(&mut b, reduced.psi.as_ref());
            for (i, y) in targets.iter().enumerate() {
                right.iter_mut().zip(reduced.psi.col_as_slice(i)).for_each(|(r, p)| *r += y * p);
            }
        }
        self.system = Cholesky::of_covariance(|| b.clone(), &mut || control.check(n))?;
        self.weights = self.system.solve(&right);
        let misfit = misfit - dot(&right, &self.weights);
        self.log_marginal_likelihood = gaussian_log_density(misfit, log_det + self.system.log_det(), n);
        Ok(())
    }

    /// ψ(x) = L⁻¹k_u(x), one column per point.
    fn features(&self, h: &Hyperparameters, points: &Points) -> Mat<f64> {
        let mut psi = kernel_matrix(h.signal, &self.inducing, points);
        self.prior.forward(psi.as_mut());
        psi
    }

    /// ψ̃, a and d of points whose ψ are the rows of `psi`.
    fn reduce(
        &self,
        h: &Hyperparameters,
        points: &Points,
        psi: &[f32],
        neighbours: Vec<Vec<u32>>,
    ) -> Reduced {
        let m = self.inducing.len();
        let mut out = Mat::<f64>::zeros(m, points.len());
        let work = |(i, (column, rows)): (usize, (faer::ColMut<'_, f64>, Vec<u32>))| {
            let own = &psi[i * m..(i + 1) * m];
            let local = self.given(h, points.row(i), own, &rows);
            let mut reduced: Vec<f64> = own.iter().map(|&v| f64::from(v)).collect();
            for (&j, a) in rows.iter().zip(&local.coefficients) {
                let row = &self.psi[j as usize * m..(j as usize + 1) * m];
                reduced.iter_mut().zip(row).for_each(|(r, &p)| *r -= a * f64::from(p));
            }
            column.iter_mut().zip(&reduced).for_each(|(out, v)| *out = *v);
            (rows, local)
        };
        let local = out.par_col_iter_mut().zip(neighbours).enumerate().map(work).collect();
        Reduced { psi: out, local }
    }

    /// The law of the residual at a point given its neighbours.
    fn given(&self, h: &Hyperparameters, point: &[f64], psi: &[f32], rows: &[u32]) -> Local {
        let (q, m) = (rows.len(), psi.len());
        let mut gathered = Vec::with_capacity((q + 1) * m);
        rows.iter()
            .for_each(|&j| gathered.extend_from_slice(&self.psi[j as usize * m..(j as usize + 1) * m]));
        gathered.extend_from_slice(psi);
        let gathered = MatRef::from_row_major_slice(&gathered, q + 1, m);
        let mut products = Mat::<f32>::zeros(q + 1, q + 1);
        matmul(products.as_mut(), Accum::Replace, gathered, gathered.transpose(), 1.0, Par::Seq);
        let row = |i: usize| if i == q { point } else { self.points.row(rows[i] as usize) };
        let residual =
            |i: usize, j: usize| h.signal * correlation(row(i), row(j)) - f64::from(products[(i, j)]);
        let mut system = vec![0.0; q * q];
        for i in 0..q {
            (0..=i).for_each(|j| system[i * q + j] = residual(i, j));
            system[i * q + i] += h.noise;
        }
        let right: Vec<f64> = (0..q).map(|i| residual(i, q)).collect();
        let mut coefficients = right.clone();
        if !solve_small(&mut system, &mut coefficients) {
            coefficients.fill(0.0);
        }
        let variance = (residual(q, q) - dot(&right, &coefficients)).max(LEAST * h.signal);
        Local { coefficients, variance }
    }

    /// Everything about test points that does not depend on the targets.
    fn reduce_test(&self, h: &Hyperparameters, test: &Points) -> Reduced {
        let psi = self.features(h, test);
        let rows: Vec<f32> = (0..test.len()).flat_map(|i| psi.col_as_slice(i)).map(|&v| v as f32).collect();
        let n = self.points.len();
        let neighbours = self.near.nearest(test, self.sizes.neighbours, |_| 0..n);
        self.reduce(h, test, &rows, neighbours)
    }

    fn mean_of(&self, reduced: &Reduced) -> Vec<f64> {
        let mean = |(i, (rows, local)): (usize, &(Vec<u32>, Local))| {
            let known: f64 =
                rows.iter().zip(&local.coefficients).map(|(&j, a)| a * self.targets[j as usize]).sum();
            known + dot(reduced.psi.col_as_slice(i), &self.weights)
        };
        reduced.local.iter().enumerate().map(mean).collect()
    }

    /// Mean and variance of f at `test`.
    pub(super) fn marginals(&self, h: &Hyperparameters, test: &Points) -> (Vec<f64>, Vec<f64>) {
        let mut reduced = self.reduce_test(h, test);
        let mean = self.mean_of(&reduced);
        self.system.forward(reduced.psi.as_mut());
        let smooth = |i| dot(reduced.psi.col_as_slice(i), reduced.psi.col_as_slice(i));
        let variance = reduced.local.iter().enumerate().map(|(i, (_, local))| local.variance + smooth(i));
        (mean, variance.collect())
    }

    /// Mean and covariance of f at `test`.
    ///
    /// The residuals' part is the covariance of the errors h* − a*ᵀz_N under the model, so its diagonal is d*.
    pub(super) fn joint(&self, h: &Hyperparameters, test: &Points) -> (Vec<f64>, Mat<f64>) {
        let mut reduced = self.reduce_test(h, test);
        let mean = self.mean_of(&reduced);
        let t = test.len();
        let mut covariance = Mat::<f64>::zeros(t, t);
        covariance.par_col_iter_mut().enumerate().for_each(|(j, column)| {
            for (i, out) in column.iter_mut().enumerate().skip(j) {
                *out = self.error_covariance(
                    h,
                    (test.row(i), &reduced.local[i]),
                    (test.row(j), &reduced.local[j]),
                );
            }
        });
        add_product(&mut covariance, -1.0, reduced.psi.transpose(), reduced.psi.as_ref());
        self.system.forward(reduced.psi.as_mut());
        add_product(&mut covariance, 1.0, reduced.psi.transpose(), reduced.psi.as_ref());
        for j in 0..t {
            covariance[(j, j)] = covariance[(j, j)].max(LEAST * h.signal);
            (0..j).for_each(|i| covariance[(i, j)] = covariance[(j, i)]);
        }
        (mean, covariance)
    }

    /// Covariance of f(x) − aᵀ(f + ε)_N and its like at another point under the prior.
    fn error_covariance(
        &self,
        h: &Hyperparameters,
        (x, (rows, local)): (&[f64], &(Vec<u32>, Local)),
        (other, (others, away)): (&[f64], &(Vec<u32>, Local)),
    ) -> f64 {
        let to = |point: &[f64]| {
            let near = |(&j, a): (&u32, &f64)| a * correlation(point, self.points.row(j as usize));
            correlation(point, other) - others.iter().zip(&away.coefficients).map(near).sum::<f64>()
        };
        let mut sum = to(x);
        for (&j, a) in rows.iter().zip(&local.coefficients) {
            sum -= a * to(self.points.row(j as usize));
        }
        let shared =
            |(&j, a): (&u32, &f64)| others.binary_search(&j).map_or(0.0, |at| a * away.coefficients[at]);
        h.signal * sum + h.noise * rows.iter().zip(&local.coefficients).map(shared).sum::<f64>()
    }

    /// What turns functions f of the prior into functions of the posterior: R⁻ᵀξ − L⁻¹f(u) with B = R Rᵀ and
    /// ξ ~ N(0, I), and f(X) + ε.
    pub(super) fn correction(&self, h: &Hyperparameters, prior: &PriorSamples) -> Result<[Mat<f64>; 2]> {
        let mut values = prior.at(h, &self.points)?;
        let (m, samples) = (self.inducing.len(), values.ncols());
        let mut known = values.get(..m, ..).to_owned();
        self.prior.forward(known.as_mut());
        let mut smooth = Mat::zeros(m, samples);
        prior.add_noise(&mut smooth, Draw::Smooth, 0, |_| 1.0);
        self.system.backward(smooth.as_mut());
        prior.add_noise(&mut values, Draw::Noise, 0, |_| h.noise.sqrt());
        Ok([smooth - known, values])
    }

    /// E f(x*) + ψ̃*ᵀ(R⁻ᵀξ − L⁻¹f(u)) + f(x*) − a*ᵀ(f(X) + ε)_N for the functions f of the prior whose values at `test`
    /// are `values`. The second term is what is not known of w, the others the error h* − a*ᵀz_N with a residual
    /// h = f − ψᵀL⁻¹f(u) of the prior: together they have the covariance of [`Inducing::joint`].
    pub(super) fn correct(
        &self,
        h: &Hyperparameters,
        [smooth, noisy]: &[Mat<f64>; 2],
        test: &Points,
        mut values: Mat<f64>,
    ) -> Mat<f64> {
        let reduced = self.reduce_test(h, test);
        let mean = self.mean_of(&reduced);
        values.par_col_iter_mut().enumerate().for_each(|(sample, column)| {
            let noisy = noisy.col_as_slice(sample);
            for ((out, mean), (rows, local)) in column.iter_mut().zip(&mean).zip(&reduced.local) {
                let known: f64 =
                    rows.iter().zip(&local.coefficients).map(|(&j, a)| a * noisy[j as usize]).sum();
                *out += mean - known;
            }
        });
        add_product(&mut values, 1.0, reduced.psi.transpose(), smooth.as_ref());
        values
    }

    /// The log density of the targets under the approximation.
    pub(super) fn log_marginal_likelihood(&self) -> f64 {
        self.log_marginal_likelihood
    }
}

/// Solves A x = b in place for the lower triangle of a small row-major A; false where A is not positive definite.
fn solve_small(a: &mut [f64], x: &mut [f64]) -> bool {
    let n = x.len();
    for i in 0..n {
        let (above, rest) = a.split_at_mut(i * n);
        for j in 0..i {
            let row = &above[j * n..j * n + j + 1];
            rest[j] = (rest[j] - dot(&rest[..j], &row[..j])) / row[j];
        }
        let pivot = rest[i] - dot(&rest[..i], &rest[..i]);
        if pivot.is_nan() || pivot <= 0.0 {
            return false;
        }
        rest[i] = pivot.sqrt();
        x[i] = (x[i] - dot(&rest[..i], &x[..i])) / rest[i];
    }
    for i in (0..n).rev() {
        let tail: f64 = (i + 1..n).map(|j| a[j * n + i] * x[j]).sum();
        x[i] = (x[i] - tail) / a[i * n + i];
    }
    true
}

/// Inducing points such that the features of `n` rows stay below a gibibyte, at least 256.
pub(super) fn affordable(n: usize, wanted: usize) -> usize {
    wanted.min(((1 << 28) / n.max(1)).max(TILE / 4))
}
