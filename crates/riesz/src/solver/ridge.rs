//! The regularised problem itself on fixed features.

use super::check_ridge;
use crate::compute;
use crate::data::Rows;
use crate::error::{positive, Result};
use crate::linalg::cholesky::{solve_in_place, COLUMNS, SINGLE};
use crate::linalg::conjugate_gradients::{conjugate_gradients, Solution, Stop};
use crate::linalg::Cholesky;
use crate::random::BlockIndex;
use crate::space::{FeatureExpansion, Function};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
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
        let system = || {
            let mut system = self.kernel_matrix(f, rows)?;
            for (j, column) in system.col_iter_mut().enumerate() {
                column.iter_mut().zip(roots).skip(j).for_each(|(k, r)| *k *= r * roots[j]);
            }
            (0..n).for_each(|j| system[(j, j)] += shift);
            Ok(system)
        };
        let factor = Cholesky::of(SINGLE, "ridge", system, &mut || Ok(()))?;
        let c = right.len() / n.max(1);
        let mut x = Mat::from_fn(n, c, |i, j| right[j * n + i]);
        solve_in_place(factor.lower(), x.as_mut());
        let solution = (0..c * n).map(|i| x[(i % n, i / n)]).collect();
        Ok((solution, RidgeInfo { iterations: 0, residual: 0.0 }))
    }

    /// The lower triangle of K = ΦΦᵀ/M, summed block by block in single precision products and double precision sums, panels
    /// of its columns by one thread each.
    fn kernel_matrix(&self, f: &FeatureExpansion, rows: Rows<'_>) -> Result<Mat<f64>> {
        let (n, m) = (rows.len(), f.map().block_size);
        let mut kernel = Mat::<f64>::zeros(n, n);
        let mut phi = vec![0.0_f32; n * m];
        let factor = 1.0 / (m * self.config.blocks) as f64;
        for b in 0..self.config.blocks {
            compute::features(f.device(), &f.map().draw(BlockIndex(b as u64))?, rows, &mut phi)?;
            let phi = MatRef::from_row_major_slice(&phi, n, m);
            kernel.par_col_chunks_mut(COLUMNS).enumerate().for_each_init(
                || Mat::<f32>::zeros(n, COLUMNS),
                |product, (i, panel)| {
                    let (first, columns) = (i * COLUMNS, panel.ncols());
                    let below = phi.subrows(first, n - first);
                    let mut product = product.as_mut().get_mut(..n - first, ..columns);
                    let own = below.subrows(0, columns).transpose();
                    matmul(product.as_mut(), Accum::Replace, below, own, 1.0, Par::Seq);
                    let panel = panel.subrows_mut(first, n - first);
                    for (column, add) in panel.col_iter_mut().zip(product.col_iter()) {
                        column.iter_mut().zip(add.iter()).for_each(|(k, &p)| *k += factor * f64::from(p));
                    }
                },
            );
        }
        Ok(kernel)
    }

    fn conjugate_gradients(
        &self,
        f: &FeatureExpansion,
        rows: Rows<'_>,
        roots: &[f64],
        shift: f64,
        right: &[f64],
        progress: &mut impl FnMut(usize, f64) -> Result<()>,
    ) -> Result<(Vec<f64>, RidgeInfo)> {
        let RidgeConfig { tolerance, max_iterations, .. } = self.config;
        let stop = Stop { tolerance, max_iterations };
        let multiply = |p: &[f64]| self.multiply(f, rows, roots, shift, p);
        let Solution { x, iterations, residual } =
            conjugate_gradients(right, rows.len(), stop, multiply, progress)?;
        Ok((x, RidgeInfo { iterations, residual }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
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

    /// On more rows than 2,048, with more than one panel of everything.
    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let n = 2_100;
        let x: Vec<f32> = (0..2 * n).map(|i| ((i * 37) % 1_009) as f32 / 500.0 - 1.0).collect();
        let y: Vec<f32> = (0..n * OUTPUTS).map(|i| (i as f32 * 0.37).sin()).collect();
        let fit = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (rows, weights) = (Rows::single(&x, 2).unwrap(), vec![1.0; n]);
            let run = || solver(1).fit(expansion(), rows, &y, &weights, |_, _| Ok(())).unwrap();
            let (f, _) = pool.install(run);
            (0..f.len()).flat_map(|b| f.coefficients(b).to_vec()).collect::<Vec<f32>>()
        };
        let one = fit(1);
        assert!(one.iter().any(|a| *a != 0.0));
        for threads in [2, 3] {
            assert_eq!(one, fit(threads), "{threads} threads");
        }
    }
}
