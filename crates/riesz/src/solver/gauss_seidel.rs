//! Block Gauss–Seidel for a kernel expansion over all rows.

use super::block_descent::weighted_loss;
use super::{Solver, StepInfo};
use crate::compute::{radial_values, Device, Radial};
use crate::error::{in_range, positive, Error, Result};
use crate::kernel::{ClosedForm, KernelSpec};
use crate::linalg::cholesky::{solve_in_place, DOUBLE};
use crate::linalg::distances::{cross_sums, squared_distances};
use crate::linalg::{Cholesky, Spare};
use crate::loss::Loss;
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use faer::Mat;
use rayon::prelude::*;

/// Columns from which on products of a matrix are faster than differences of numbers.
const MANY_COLUMNS: usize = 32;

/// The minimiser of Σ w_i ℓ(f(x_i), y_i) + (λ/2)‖f − offset‖² over f = offset + Σ_j β_j k(x_j, ·), for a loss with constant curvature
/// h (squares), a block of rows at a time.
///
/// At the minimum λβ_i = r_i, r = −w ℓ'(f). A step takes a block B of rows, evaluates f there, and solves the equations of the block for the change Δ
/// of its own coefficients, the others being as they are:
///
/// ```text
/// f_B = offset + K_B· β,   (K_BB + λ/(w h)) Δ = (r_B − λ β_B)/(w h),   β_B ← β_B + Δ.
/// ```
///
/// This is block Gauss–Seidel on (K + λ/(w h))β = (f's targets), and block coordinate ascent in the dual of the problem. One
/// sweep evaluates each pair of rows once, the first one half of the pairs, since rows that have not been in a block are no points of f; nothing n×n is ever kept.
/// The first sweep takes rows as they come, which should be in random order; every other one has an order, and so blocks, of its own.
#[derive(Debug)]
pub(crate) struct GaussSeidel {
    /// λ.
    damping: f64,
    /// b: the system of a block costs b³/3, a sweep over n rows n(n + b²/3).
    block: usize,
    seed: Seed,
    /// Memory of the systems.
    spare: Spare,
}

/// The rows of an expansion. Rows of weight zero are not learnt from.
#[derive(Clone, Copy)]
pub(crate) struct KernelProblem<'a> {
    pub kernel: &'a ClosedForm,
    /// Rows in the units of the kernel.
    pub points: &'a [f32],
    /// n×[`Loss::targets`].
    pub targets: &'a [f32],
    /// w.
    pub weights: &'a [f32],
    /// ℓ.
    pub loss: &'a dyn Loss,
    /// What f is without points.
    pub offset: &'a [f32],
}

impl KernelProblem<'_> {
    /// f at points in the units of the kernel: that of no rows after the last one with a coefficient.
    pub(crate) fn values(&self, x: &[f32], coefficients: &[f64]) -> Result<Vec<f32>> {
        let c = self.offset.len();
        let atoms = coefficients.chunks_exact(c).rposition(|b| b.iter().any(|b| *b != 0.0));
        let atoms = atoms.map_or(0, |last| last + 1);
        let points = &self.points[..atoms * self.kernel.columns()];
        self.kernel.expansion(x, points, &coefficients[..atoms * c], self.offset)
    }
}

/// Coefficients of the function so far.
#[derive(Clone, Debug)]
pub(crate) struct SweepState {
    /// β, n×C.
    pub coefficients: Vec<f64>,
    /// Steps so far.
    pub steps: usize,
}

impl SweepState {
    /// The constant function.
    pub(crate) fn new(offset: &[f32], rows: usize) -> Self {
        Self { coefficients: vec![0.0; rows * offset.len()], steps: 0 }
    }
}

/// Facts about one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepInfo {
    /// Weighted mean loss on the rows of the step, before it.
    pub loss: f64,
}

impl StepInfo for SweepInfo {
    fn loss(&self) -> f64 {
        self.loss
    }
}

impl GaussSeidel {
    /// Checks the settings.
    pub(crate) fn new(damping: f64, block: usize, seed: Seed) -> Result<Self> {
        positive("ridge", damping)?;
        in_range("block_size", block as f64, block > 0, "positive")?;
        Ok(Self { damping, block, seed, spare: Spare::default() })
    }

    /// Steps of a sweep over the rows of positive weight.
    pub(crate) fn blocks(&self, weights: &[f32]) -> usize {
        weights.iter().filter(|&&w| w > 0.0).count().div_ceil(self.block).max(1)
    }

    /// The rows of the next block, in order.
    fn rows(&self, state: &SweepState, weights: &[f32]) -> Vec<usize> {
        let all: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] > 0.0).collect();
        let blocks = self.blocks(weights);
        let (sweep, block) = (state.steps / blocks, state.steps % blocks);
        let range = block * all.len() / blocks..(block + 1) * all.len() / blocks;
        if sweep == 0 {
            return all[range].to_vec();
        }
        let order = Permutation::new(self.seed, Stream::Shuffle, BlockIndex(sweep as u64), all.len());
        let mut rows: Vec<usize> = order.indices()[range].iter().map(|&i| all[i as usize]).collect();
        rows.sort_unstable();
        rows
    }

    /// The lower triangle of K_BB + λ/(w h).
    fn system(&self, problem: &KernelProblem<'_>, points: &[f32], curvatures: &[f64]) -> Result<Mat<f64>> {
        let mut k = kernel_matrix(problem.kernel, points, &self.spare)?;
        curvatures.iter().enumerate().for_each(|(i, h)| k[(i, i)] += self.damping / h);
        Ok(k)
    }
}

/// The lower triangle of K at points in the units of the kernel, in double precision.
fn kernel_matrix(kernel: &ClosedForm, points: &[f32], spare: &Spare) -> Result<Mat<f64>> {
    let d = kernel.columns();
    let n = points.len() / d.max(1);
    let radial = kernel.kernel().radial();
    if let Some(radial) = radial.filter(|_| d >= MANY_COLUMNS) {
        let x = Mat::from_fn(n, d, |i, j| f64::from(points[i * d + j]));
        let mut k = squared_distances(x.as_ref(), spare);
        k.par_col_iter_mut().enumerate().for_each(|(j, column)| {
            let column = column.try_as_col_major_mut().map(|column| column.as_slice_mut());
            column.into_iter().for_each(|s| radial_values(Device::default(), radial, &mut s[j..]));
        });
        return Ok(k);
    }
    if kernel.kernel() == &KernelSpec::Laplacian {
        let x = Mat::from_fn(n, d, |i, j| f64::from(points[i * d + j]));
        let mut k = cross_sums(&x, &x, spare);
        k.par_col_iter_mut().enumerate().for_each(|(j, column)| {
            let column = column.try_as_col_major_mut().map(|column| column.as_slice_mut());
            let values = |s: &mut [f64]| radial_values(Device::default(), Radial::Laplacian, &mut s[j..]);
            column.into_iter().for_each(values);
        });
        return Ok(k);
    }
    let mut k = spare.take(n, n);
    k.par_col_iter_mut().enumerate().try_for_each(|(j, column)| {
        let (below, Some(column)) = (&points[j * d..], column.try_as_col_major_mut()) else { return Ok(()) };
        let column = &mut column.as_slice_mut()[j..];
        match radial {
            Some(radial) => {
                let own = &below[..d];
                for (out, a) in column.iter_mut().zip(below.chunks_exact(d)) {
                    *out = crate::compute::squared_distance(own, a);
                }
                radial_values(Device::default(), radial, column);
                Ok(())
            }
            None => kernel.values(&below[..d], below, column),
        }
    })?;
    Ok(k)
}

impl Solver for GaussSeidel {
    type Batch<'a> = KernelProblem<'a>;
    type State = SweepState;
    type Info = SweepInfo;

    fn step(&self, state: &mut SweepState, problem: KernelProblem<'_>) -> Result<SweepInfo> {
        let KernelProblem { kernel, points, targets, weights, loss, .. } = problem;
        let (d, c, t) = (kernel.columns(), loss.outputs(), loss.targets());
        let rows = self.rows(state, weights);
        let pick = |values: &[f32], each: usize| -> Vec<f32> {
            rows.iter().flat_map(|&i| &values[i * each..(i + 1) * each]).copied().collect()
        };
        let (own, y, w) = (pick(points, d), pick(targets, t), pick(weights, 1));
        let u = problem.values(&own, &state.coefficients)?;
        let objective = weighted_loss(loss, &y, &w, &u);
        let step = state.steps + 1;
        let diverged =
            |objective| Err(Error::Diverged { step, objective, lower: "bandwidth, or raise ridge" });
        if !objective.is_finite() {
            return diverged(objective);
        }
        let (mut residuals, mut curvatures) = (vec![0.0; u.len()], vec![0.0; w.len()]);
        loss.residuals(&u, &y, &w, &mut residuals);
        loss.curvatures(&u, &y, &w, &mut curvatures);
        let curvatures: Vec<f64> = curvatures.iter().map(|&h| f64::from(h)).collect();
        let make = || self.system(&problem, &own, &curvatures);
        let factor = Cholesky::of(DOUBLE, "ridge", make, &mut || Ok(()))?;
        let beta = |i: usize, k: usize| state.coefficients[rows[i] * c + k];
        let mut delta = Mat::from_fn(rows.len(), c, |i, k| {
            (f64::from(residuals[i * c + k]) - self.damping * beta(i, k)) / curvatures[i]
        });
        solve_in_place(factor.lower(), delta.as_mut());
        self.spare.keep(factor.into_inner());
        for (i, row) in rows.iter().enumerate() {
            let own = &mut state.coefficients[row * c..(row + 1) * c];
            own.iter_mut().enumerate().for_each(|(k, b)| *b += delta[(i, k)]);
        }
        state.steps += 1;
        if !delta.col_iter().all(|column| column.iter().all(|v| v.is_finite())) {
            return diverged(f64::INFINITY);
        }
        Ok(SweepInfo { loss: objective })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Scaling;
    use crate::loss::LossSpec;

    fn number(i: usize) -> f32 {
        ((i * 53 + i * i % 17) % 97) as f32 / 40.0 - 1.2
    }

    /// Sweeps of blocks of seven rows arrive at λβ = −w ℓ', which the whole system solves at once, and rows of weight zero are
    /// predicted without being learnt from.
    #[test]
    fn sweeps_end_at_the_minimum() {
        let (n, d) = (40, 2);
        let points: Vec<f32> = (0..n * d).map(number).collect();
        let weights: Vec<f32> = (0..n).map(|i| if i % 5 == 0 { 0.0 } else { 0.5 + (i % 3) as f32 }).collect();
        let classes: Vec<f32> = (0..n).map(|i| (i % 3) as f32).collect();
        let numbers: Vec<f32> = (0..n).map(|i| (i as f32).sin()).collect();
        for (name, size, targets) in [("square", 1, &numbers), ("least_squares", 3, &classes)] {
            let kernels = [
                KernelSpec::Gaussian,
                KernelSpec::Matern(1.5),
                KernelSpec::Matern(0.5),
                KernelSpec::Laplacian,
            ];
            for kernel in kernels {
                let loss = name.parse::<LossSpec>().unwrap().build(size).unwrap();
                let offset = loss.start(targets, &weights);
                let kernel = ClosedForm::new(kernel, 1.0, Scaling::identity(d)).unwrap();
                let problem = KernelProblem {
                    kernel: &kernel,
                    points: &points,
                    targets,
                    weights: &weights,
                    loss: &*loss,
                    offset: &offset,
                };
                let damping = 0.05;
                let solver = GaussSeidel::new(damping, 7, Seed(3)).unwrap();
                let mut state = SweepState::new(&offset, n);
                for _ in 0..60 * solver.blocks(&weights) {
                    solver.step(&mut state, problem).unwrap();
                }
                let c = loss.outputs();
                let mut residuals = vec![0.0; n * c];
                let predictions = problem.values(&points, &state.coefficients).unwrap();
                loss.residuals(&predictions, targets, &weights, &mut residuals);
                let lower = kernel_matrix(&kernel, &points, &Spare::default()).unwrap();
                for (i, residual) in residuals.iter().enumerate() {
                    let own = damping * state.coefficients[i];
                    assert!((f64::from(*residual) - own).abs() < 1e-4, "{name}, {i}: {residual} and {own}");
                    let (row, k) = (i / c, i % c);
                    let value =
                        (0..n).map(|j| lower[(row.max(j), row.min(j))] * state.coefficients[j * c + k]);
                    let value = f64::from(offset[k]) + value.sum::<f64>();
                    assert!((value - f64::from(predictions[i])).abs() < 1e-3, "{name}: {value}");
                }
            }
        }
    }

    #[test]
    fn a_damping_that_is_none_is_refused() {
        let message = GaussSeidel::new(0.0, 7, Seed(1)).unwrap_err().to_string();
        assert!(message.contains("ridge"), "{message}");
        assert!(GaussSeidel::new(1.0, 0, Seed(1)).is_err());
    }
}
