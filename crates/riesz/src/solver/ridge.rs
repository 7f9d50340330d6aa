//! The regularised problem itself on fixed features.

use super::check_ridge;
use crate::compute;
use crate::data::{tiles, Rows, TILE};
use crate::error::{positive, Error, Result};
use crate::random::BlockIndex;
use crate::space::{FeatureExpansion, Function};
use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, Side};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Settings of [`Ridge`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RidgeConfig {
    /// ν in (1/2n) Σ w (f(x) − y)² + (ν/2)‖f‖².
    pub ridge: f64,
    /// Blocks B: f lives on M = B·m features.
    pub blocks: usize,
    /// Relative residual at which conjugate gradients stop.
    pub tolerance: f64,
    /// Most iterations of conjugate gradients.
    pub max_iterations: usize,
}

/// Kernel ridge regression with k ≈ (1/M) Σ φφ' on M fixed features:
/// the minimiser of (1/2n) Σ w_i ‖f(x_i) − y_i‖² + (ν/2)‖f‖².
///
/// Solved in function values: (K + nν W⁻¹) β = y − offset with K = ΦΦᵀ/M, then α = Φᵀβ/M. Up to 8,192 rows K is formed
/// and factored in double precision; above, conjugate gradients on W^½ K W^½ + nνI regenerate the features, so memory
/// stays at a few vectors.
#[derive(Clone, Copy, Debug)]
pub struct Ridge {
    config: RidgeConfig,
}

/// How the solve went.
#[derive(Clone, Copy, Debug)]
pub struct RidgeInfo {
    /// Conjugate-gradient iterations; zero for the direct solve.
    pub iterations: usize,
    /// Relative residual reached.
    pub residual: f64,
}

/// Rows up to which the kernel matrix is formed.
const DIRECT_ROWS: usize = 8_192;

impl RidgeConfig {
    /// Checks the settings.
    pub fn build(self) -> Result<Ridge> {
        check_ridge(self.ridge)?;
        positive("ridge (of the ridge solver)", self.ridge)?;
        positive("tolerance", self.tolerance)?;
        positive("blocks", self.blocks as f64)?;
        Ok(Ridge { config: self })
    }
}

impl Ridge {
    /// Fits `f` (which gives map, offset and outputs) to the n×C `targets`.
    pub fn fit(
        &self,
        mut f: FeatureExpansion,
        rows: Rows<'_>,
        targets: &[f32],
        weights: &[f32],
        mut progress: impl FnMut(usize, f64) -> Result<()>,
    ) -> Result<(FeatureExpansion, RidgeInfo)> {
        let c = f.outputs();
        let roots: Vec<f64> = weights.iter().map(|&w| f64::from(w).sqrt()).collect();
        let mass: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let shift = mass * self.config.ridge;
        // W^½ (y − offset), one run of n numbers per output.
        let n = rows.len();
        let right: Vec<f64> = (0..c * n)
            .map(|i| (f64::from(targets[i % n * c + i / n]) - f64::from(f.offset()[i / n])) * roots[i % n])
            .collect();
        f.truncate(0);
        let (solution, info) = match n {
            0..=DIRECT_ROWS => self.direct(&f, rows, &roots, shift, right)?,
            _ => self.conjugate_gradients(&f, rows, &roots, shift, &right, &mut progress)?,
        };
        // β = W^½ solution, n×C row-major.
        let beta: Vec<f32> =
            (0..n * c).map(|i| (solution[i % c * n + i / c] * roots[i / c]) as f32).collect();
        for b in 0..self.config.blocks {
            let block = f.map().draw(BlockIndex(b as u64))?;
            f.push(self.coefficients(&f, &compute::adjoint(f.device(), &block, rows, &beta, c)?));
        }
        Ok((f, info))
    }

    /// α = Φᵀβ/M from the C×m sums Φᵀβ, m×C row-major.
    fn coefficients(&self, f: &FeatureExpansion, sums: &[f32]) -> Vec<f32> {
        let (m, c) = (f.map().block_size, f.outputs());
        let factor = 1.0 / (m * self.config.blocks) as f32;
        (0..m * c).map(|i| factor * sums[i % c * m + i / c]).collect()
    }

    fn direct(
        &self,
        f: &FeatureExpansion,
        rows: Rows<'_>,
        roots: &[f64],
        shift: f64,
        right: Vec<f64>,
    ) -> Result<(Vec<f64>, RidgeInfo)> {
        let n = rows.len();
        let mut kernel = self.kernel_matrix(f, rows)?;
        for j in 0..n {
            let column = kernel.col_as_slice_mut(j);
            column.iter_mut().zip(roots).for_each(|(k, r)| *k *= r * roots[j]);
            column[j] += shift;
        }
        let factor = Llt::new(kernel.as_ref(), Side::Lower).map_err(|_| Error::NotPositiveDefinite {
            block: 0,
            size: n,
            raise: "ridge",
        })?;
        let c = right.len() / n.max(1);
        let mut x = Mat::from_fn(n, c, |i, j| right[j * n + i]);
        factor.solve_in_place(x.as_mut());
        let solution = (0..c * n).map(|i| x[(i % n, i / n)]).collect();
        Ok((solution, RidgeInfo { iterations: 0, residual: 0.0 }))
    }

    /// K = ΦΦᵀ/M, summed block by block in single precision products and double precision sums.
    fn kernel_matrix(&self, f: &FeatureExpansion, rows: Rows<'_>) -> Result<Mat<f64>> {
        let (n, m) = (rows.len(), f.map().block_size);
        let mut kernel = Mat::<f64>::zeros(n, n);
        let mut phi = vec![0.0_f32; n * m];
        let mut product = Mat::<f32>::zeros(n, n);
        let factor = 1.0 / (m * self.config.blocks) as f64;
        for b in 0..self.config.blocks {
            compute::features(f.device(), &f.map().draw(BlockIndex(b as u64))?, rows, &mut phi)?;
            let phi = faer::MatRef::from_row_major_slice(&phi, n, m);
            let par = faer::get_global_parallelism();
            faer::linalg::matmul::matmul(
                product.as_mut(),
                faer::Accum::Replace,
                phi,
                phi.transpose(),
                1.0,
                par,
            );
            for j in 0..n {
                let (column, add) = (kernel.col_as_slice_mut(j), product.col_as_slice(j));
                column.iter_mut().zip(add).for_each(|(k, &p)| *k += factor * f64::from(p));
            }
        }
        Ok(kernel)
    }

    /// Conjugate gradients on all outputs at once, each with its own step.
    fn conjugate_gradients(
        &self,
        f: &FeatureExpansion,
        rows: Rows<'_>,
        roots: &[f64],
        shift: f64,
        right: &[f64],
        progress: &mut impl FnMut(usize, f64) -> Result<()>,
    ) -> Result<(Vec<f64>, RidgeInfo)> {
        let n = rows.len();
        let dot = |a: &[f64], b: &[f64]| tiled_dot(a, b);
        let norms: Vec<f64> = right.chunks(n).map(|b| dot(b, b).max(f64::MIN_POSITIVE)).collect();
        let mut x = vec![0.0; right.len()];
        let (mut r, mut p) = (right.to_vec(), right.to_vec());
        let mut rho: Vec<f64> = norms.clone();
        let worst = |rho: &[f64]| rho.iter().zip(&norms).map(|(r, b)| (r / b).sqrt()).fold(0.0, f64::max);
        for iteration in 0..self.config.max_iterations {
            let residual = worst(&rho);
            progress(iteration, residual)?;
            if residual <= self.config.tolerance {
                return Ok((x, RidgeInfo { iterations: iteration, residual }));
            }
            let q = self.multiply(f, rows, roots, shift, &p)?;
            for (k, rho) in rho.iter_mut().enumerate() {
                let run = k * n..(k + 1) * n;
                let step = *rho / dot(&p[run.clone()], &q[run.clone()]).max(f64::MIN_POSITIVE);
                x[run.clone()].iter_mut().zip(&p[run.clone()]).for_each(|(x, p)| *x += step * p);
                r[run.clone()].iter_mut().zip(&q[run.clone()]).for_each(|(r, q)| *r -= step * q);
                let new = dot(&r[run.clone()], &r[run.clone()]);
                let ratio = new / rho.max(f64::MIN_POSITIVE);
                p[run.clone()].iter_mut().zip(&r[run]).for_each(|(p, r)| *p = r + ratio * *p);
                *rho = new;
            }
        }
        let (iterations, residual) = (self.config.max_iterations, worst(&rho));
        let wanted = self.config.tolerance;
        Err(Error::NotConverged { method: "conjugate gradients", iterations, residual, wanted })
    }

    /// (W^½ K W^½ + nνI) p, one run of n numbers per output.
    fn multiply(
        &self,
        f: &FeatureExpansion,
        rows: Rows<'_>,
        roots: &[f64],
        shift: f64,
        p: &[f64],
    ) -> Result<Vec<f64>> {
        let (n, c) = (rows.len(), f.outputs());
        let v: Vec<f32> = (0..n * c).map(|i| (p[i % c * n + i / c] * roots[i / c]) as f32).collect();
        let mut out = vec![0.0_f32; n * c];
        for b in 0..self.config.blocks {
            let block = f.map().draw(BlockIndex(b as u64))?;
            let alpha = self.coefficients(f, &compute::adjoint(f.device(), &block, rows, &v, c)?);
            compute::apply(f.device(), &[(&block, &alpha)], rows, c, &mut out)?;
        }
        Ok((0..c * n).map(|i| f64::from(out[i % n * c + i / n]) * roots[i % n] + shift * p[i]).collect())
    }
}

/// ⟨a, b⟩ summed tile by tile in a fixed order.
fn tiled_dot(a: &[f64], b: &[f64]) -> f64 {
    let all: Vec<_> = tiles(a.len()).collect();
    let partial = |t: std::ops::Range<usize>| a[t.clone()].iter().zip(&b[t]).map(|(a, b)| a * b).sum::<f64>();
    debug_assert!(all.len() <= a.len() / TILE + 1);
    all.into_par_iter().map(partial).collect::<Vec<_>>().into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{FeatureMap, KernelSpec, Scaling};
    use crate::random::Seed;

    const ROWS: usize = 200;
    const OUTPUTS: usize = 3;

    fn expansion() -> FeatureExpansion {
        let map = FeatureMap::new(KernelSpec::Gaussian, 0.7, 64, Seed(2), Scaling::identity(2)).unwrap();
        FeatureExpansion::new(map, vec![0.0; OUTPUTS])
    }

    fn solver(max_iterations: usize) -> Ridge {
        RidgeConfig { ridge: 1e-2, blocks: 3, tolerance: 1e-7, max_iterations }.build().unwrap()
    }

    /// Rows, √w (a tenth of them zero) and right-hand sides W^½ y.
    fn problem() -> (Vec<f32>, Vec<f64>, Vec<f64>) {
        let x = (0..2 * ROWS).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
        let roots: Vec<f64> =
            (0..ROWS).map(|i| if i % 10 == 0 { 0.0 } else { 1.0 + (i % 3) as f64 }).collect();
        let right = (0..ROWS * OUTPUTS).map(|i| roots[i % ROWS] * ((i * i) as f64 * 0.37).sin()).collect();
        (x, roots, right)
    }

    /// Both routes solve the same system. Its condition number is at most 200·4/2 + 1 = 400, and products in single
    /// precision perturb it by 1e-6: the solutions agree to 4e-4 of their size, with a factor of two to spare.
    #[test]
    fn conjugate_gradients_agree_with_the_direct_solve() {
        let (x, roots, right) = problem();
        let rows = Rows::single(&x, 2).unwrap();
        let shift = 2.0;
        let (direct, info) = solver(1).direct(&expansion(), rows, &roots, shift, right.clone()).unwrap();
        assert_eq!(info.iterations, 0);
        let mut seen = Vec::new();
        let mut progress = |iteration, residual| {
            seen.push((iteration, residual));
            Ok(())
        };
        let (iterated, info) = solver(200)
            .conjugate_gradients(&expansion(), rows, &roots, shift, &right, &mut progress)
            .unwrap();
        assert!(info.residual <= 1e-7 && info.iterations + 1 == seen.len(), "{info:?}");
        assert_eq!(seen[0], (0, 1.0));
        let size = direct.iter().fold(0.0_f64, |a, v| a.max(v.abs()));
        for (i, (a, b)) in direct.iter().zip(&iterated).enumerate() {
            assert!((a - b).abs() < 8e-4 * size, "{i}: {a} vs {b}");
        }
        // A row of weight zero has no say.
        assert!(direct.iter().chain(&iterated).step_by(10).all(|v| *v == 0.0));
    }

    #[test]
    fn too_few_iterations_and_cancellation_are_reported() {
        let (x, roots, right) = problem();
        let rows = Rows::single(&x, 2).unwrap();
        let run = |most, progress: &mut dyn FnMut(usize, f64) -> Result<()>| {
            let mut progress = |i, r| progress(i, r);
            solver(most)
                .conjugate_gradients(&expansion(), rows, &roots, 2.0, &right, &mut progress)
                .map(|_| ())
        };
        let error = run(2, &mut |_, _| Ok(())).unwrap_err();
        assert!(
            matches!(error, Error::NotConverged { iterations: 2, residual, .. } if residual > 1e-7),
            "{error}"
        );
        let error = run(200, &mut |i, _| if i == 3 { Err(Error::Cancelled { blocks: i }) } else { Ok(()) });
        assert!(matches!(error, Err(Error::Cancelled { blocks: 3 })));
    }

    #[test]
    fn settings_are_checked() {
        let good = RidgeConfig { ridge: 1e-2, blocks: 3, tolerance: 1e-7, max_iterations: 9 };
        assert!(RidgeConfig { ridge: 0.0, ..good }.build().is_err());
        assert!(RidgeConfig { ridge: f64::NAN, ..good }.build().is_err());
        assert!(RidgeConfig { blocks: 0, ..good }.build().is_err());
        assert!(RidgeConfig { tolerance: 0.0, ..good }.build().is_err());
    }
}
