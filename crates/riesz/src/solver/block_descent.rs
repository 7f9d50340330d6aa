//! Block functional descent (spec 2.4): the fast solver for finite data.

use super::{check_ridge, solve_regularised};
use crate::compute::{self, Buffer, FeatureBlock, Gram, GramRows, GramSample};
use crate::data::{tiles, Rows, TILE};
use crate::error::{positive, Error, Result};
use crate::loss::Loss;
use crate::random::BlockIndex;
use crate::space::{FeatureExpansion, Function};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Settings of [`BlockDescent`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockDescentConfig {
    /// ρ in H = ΦᵀWΦ/n + ρI, in units of the mean square of the features (one for k(x, x) = 1). Smaller learns faster and overfits the block.
    pub damping: f64,
    /// ν in (ν/2)‖f‖²; the default regularisation is early stopping, ν = 0.
    pub ridge: f64,
    /// η in α = η H⁻¹ g.
    pub step: f64,
    /// Whether rows enter H with their own curvature ([`Loss::local_curvature`]) or with the global bound.
    pub local_curvature: bool,
    /// Rows entering H, per feature of a block; all rows if there are fewer.
    pub gram_rows_per_feature: usize,
    /// Rows whose features are held in memory at a time; the result does not depend on it.
    pub chunk: usize,
}

impl Default for BlockDescentConfig {
    fn default() -> Self {
        Self {
            damping: 0.1,
            ridge: 0.0,
            step: 1.0,
            local_curvature: true,
            gram_rows_per_feature: 16,
            chunk: 0,
        }
    }
}

/// Iterated Tikhonov regularisation with a fresh random kernel each step.
///
/// With F the n×C predictions, R = −ℓ'(F, y) and W the curvatures of the loss, a block of m fresh features φ takes
///
/// ```text
/// g = ΦᵀR/n,   H = ΦᵀWΦ/n + ρI,   α = η H⁻¹ g,   F ← F + Φα.
/// ```
///
/// Departures from the spec, measured in `docs/departures.md`: rows enter H with a bound on their own curvature
/// instead of a global one, and a step that raises the training loss is halved until it does not.
#[derive(Clone, Copy, Debug)]
pub struct BlockDescent {
    config: BlockDescentConfig,
}

/// The rows to be fitted. A row of weight zero is predicted but not learnt from.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// X.
    pub rows: Rows<'a>,
    /// Targets, n×[`Loss::targets`].
    pub targets: &'a [f32],
    /// Sample weights.
    pub weights: &'a [f32],
    /// ℓ.
    pub loss: &'a dyn Loss,
}

/// What changes from step to step.
#[derive(Clone, Debug)]
pub struct BlockState {
    /// The function so far.
    pub f: FeatureExpansion,
    /// Its values F on all rows, n×C: no feature of an old block is ever recomputed.
    pub predictions: Vec<f32>,
    workspace: Workspace,
}

impl BlockState {
    /// A state from its parts, as a checkpoint holds them.
    pub(crate) fn resume(f: FeatureExpansion, predictions: Vec<f32>) -> Self {
        Self { f, predictions, workspace: Workspace::default() }
    }
}

/// Buffers reused from step to step; a clone starts with its own.
#[derive(Default)]
struct Workspace {
    gram: Gram,
    system: Buffer<f64>,
}

impl Clone for Workspace {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workspace")
    }
}

/// What one linear system is made from.
struct Observed {
    /// The outputs it is solved for.
    outputs: Range<usize>,
    /// Their residuals, a row each.
    residual: Vec<f32>,
    /// Weighted curvatures of the rows.
    curvature: Vec<f32>,
    /// Their sum, relative to that of an average system; so much of the damping it gets.
    share: f64,
}

/// Facts about one step.
#[derive(Clone, Copy, Debug)]
pub struct BlockInfo {
    /// Weighted mean loss on the training rows after the step.
    pub loss: f64,
    /// The share of the step that was taken: below one where the full step raised the loss.
    pub taken: f64,
}

/// Rows whose features are held in memory at a time, unless set.
const CHUNK: usize = 8_192;

/// The least share of the damping a system gets, were all its rows flat.
const LEAST_SHARE: f64 = 1e-3;

/// Width of the smoothed stand-in of a loss without curvature, at sweep position b: 2^{−b/6}, at least 1/16.
fn smoothing_width(b: usize) -> f32 {
    (-(b as f32) / 6.0).exp2().max(1.0 / 16.0)
}

/// What widths are measured in: the mean size of the residuals where the loss grows in proportion to them, from a
/// thousandth of the scale of the targets to that scale; else the margin, one.
fn smoothing_unit(problem: &Problem<'_>, predictions: &[f32]) -> f32 {
    let residual = |share| (mean_loss(problem.loss, problem, predictions) / f64::from(share)) as f32;
    problem.loss.residual_share().map_or(1.0, |share| residual(share).clamp(1e-3, 1.0))
}

/// The stand-in at sweep position b, where the loss needs one.
fn smoothed(problem: &Problem<'_>, predictions: &[f32], b: usize) -> Option<Box<dyn Loss>> {
    problem.loss.smoothed(smoothing_width(b) * smoothing_unit(problem, predictions))
}

impl BlockDescentConfig {
    /// Checks the settings.
    pub fn build(self) -> Result<BlockDescent> {
        positive("damping", self.damping)?;
        positive("step", self.step)?;
        check_ridge(self.ridge)?;
        let rows = self.gram_rows_per_feature as f64;
        if self.gram_rows_per_feature < 4 || (self.damping <= 0.01 && self.gram_rows_per_feature < 8) {
            let range = "at least 4, and at least 8 when damping ≤ 0.01 (a smaller subsample is unstable)";
            return Err(Error::OutOfRange { name: "gram_rows_per_feature", value: rows, range });
        }
        Ok(BlockDescent { config: self })
    }
}

impl BlockDescent {
    /// The settings.
    pub fn config(&self) -> &BlockDescentConfig {
        &self.config
    }

    /// The state that continues from `f`: its predictions are computed once.
    pub fn init(&self, f: FeatureExpansion, rows: Rows<'_>) -> Result<BlockState> {
        let mut predictions = vec![0.0; rows.len() * f.outputs()];
        f.evaluate(rows, &mut predictions)?;
        Ok(BlockState::resume(f, predictions))
    }

    /// Adds one fresh block.
    pub fn step(&self, state: &mut BlockState, problem: &Problem<'_>) -> Result<BlockInfo> {
        let b = state.f.len();
        let smoothed = smoothed(problem, &state.predictions, b);
        let loss = smoothed.as_deref().unwrap_or(problem.loss);
        let block = state.f.map().draw(BlockIndex(b as u64));
        let (alpha, before) = self.direction(state, problem, loss, (BlockIndex(b as u64), &block), None)?;
        let old = state.predictions.clone();
        compute::apply(
            state.f.device(),
            &[(&block, &alpha)],
            problem.rows,
            loss.outputs(),
            &mut state.predictions,
        )?;
        let penalty = |share: f64| self.penalty(state.f.map().block_size, &alpha, None, share);
        let objective = before + penalty(0.0);
        let (taken, after) = backtrack(&mut state.predictions, problem, loss, &old, objective, &penalty, b)?;
        state.f.push(alpha.iter().map(|a| a * taken as f32).collect());
        let loss =
            if smoothed.is_some() { mean_loss(problem.loss, problem, &state.predictions) } else { after };
        Ok(BlockInfo { loss, taken })
    }

    /// One step of a further sweep: block coordinate descent on the existing block `b`.
    pub fn revisit(&self, state: &mut BlockState, problem: &Problem<'_>, b: usize) -> Result<BlockInfo> {
        let smoothed = smoothed(problem, &state.predictions, state.f.len());
        let loss = smoothed.as_deref().unwrap_or(problem.loss);
        let current = state.f.coefficients(b).to_vec();
        let block = state.f.map().draw(BlockIndex(b as u64));
        let place = (BlockIndex(b as u64), &block);
        let (alpha, before) = self.direction(state, problem, loss, place, Some(&current))?;
        let old = state.predictions.clone();
        compute::apply(
            state.f.device(),
            &[(&block, &alpha)],
            problem.rows,
            loss.outputs(),
            &mut state.predictions,
        )?;
        let penalty = |share: f64| self.penalty(state.f.map().block_size, &alpha, Some(&current), share);
        let objective = before + penalty(0.0);
        let (taken, after) = backtrack(&mut state.predictions, problem, loss, &old, objective, &penalty, b)?;
        state.f.replace(b, current.iter().zip(&alpha).map(|(c, a)| c + a * taken as f32).collect());
        let loss =
            if smoothed.is_some() { mean_loss(problem.loss, problem, &state.predictions) } else { after };
        Ok(BlockInfo { loss, taken })
    }

    /// (νm/2)‖current + share·α‖², the part of (ν/2)‖f‖² that a step along one block changes.
    fn penalty(&self, m: usize, alpha: &[f32], current: Option<&[f32]>, share: f64) -> f64 {
        if self.config.ridge == 0.0 {
            return 0.0;
        }
        let at = |i: usize| current.map_or(0.0, |c| f64::from(c[i])) + share * f64::from(alpha[i]);
        0.5 * self.config.ridge * m as f64 * (0..alpha.len()).map(|i| at(i).powi(2)).sum::<f64>()
    }

    /// α = η H⁻¹ g (m×C row-major) for block `b`, and the loss before the step.
    fn direction(
        &self,
        state: &mut BlockState,
        problem: &Problem<'_>,
        loss: &dyn Loss,
        (b, block): (BlockIndex, &FeatureBlock),
        current: Option<&[f32]>,
    ) -> Result<(Vec<f32>, f64)> {
        let (m, c) = (state.f.map().block_size, loss.outputs());
        let (systems, value) = self.observe(state, problem, loss);
        let total: f64 = problem.weights.iter().map(|&w| f64::from(w)).sum();
        let (device, n) = (state.f.device(), problem.rows.len());
        let sample = GramSample::new(self.config.gram_rows_per_feature * m, n, state.f.map().seed, b);
        let chunk = if self.config.chunk == 0 { CHUNK } else { self.config.chunk };
        let damping = self.config.damping * state.f.map().mean_square(problem.rows)?;
        let Workspace { gram, system } = &mut state.workspace;
        // (ν/2)‖f‖² is (νm/2)‖α‖²: it adds νm to ρ, and pulls existing coefficients back.
        let ridge = self.config.ridge * m as f64;
        let mut alpha = vec![0.0; m * c];
        for Observed { outputs, residual, curvature, share } in systems {
            let rows = GramRows { weights: &curvature, sample, chunk };
            let gradient = compute::normal_equations(device, block, problem.rows, &residual, rows, gram)?;
            let own = |feature: usize, output: usize| feature * c + outputs.start + output;
            let right: Vec<f64> = (0..outputs.len() * m)
                .map(|i| {
                    let pull = current.map_or(0.0, |a| ridge * f64::from(a[own(i % m, i / m)]));
                    f64::from(gradient[i]) / total - pull
                })
                .collect();
            let solution = solve_regularised(system, gram, 1.0 / total, share * damping + ridge, &right);
            let failed = Error::NotPositiveDefinite { block: b.0 as usize, size: m, raise: "damping" };
            for (i, a) in solution.ok_or(failed)?.into_iter().enumerate() {
                alpha[own(i / outputs.len(), i % outputs.len())] = (self.config.step * a) as f32;
            }
        }
        Ok((alpha, value))
    }

    /// Residuals and curvatures at the current predictions, of all outputs together or of each on its own, and the mean
    /// loss.
    fn observe(&self, state: &BlockState, problem: &Problem<'_>, loss: &dyn Loss) -> (Vec<Observed>, f64) {
        let c = loss.outputs();
        let step = if loss.has_separate_curvatures() { 1 } else { c };
        let (mut systems, values): (Vec<_>, Vec<_>) =
            (0..c).step_by(step).map(|k| self.observe_outputs(state, problem, loss, k..k + step)).unzip();
        let mass = |h: &[f32]| h.iter().map(|&h| f64::from(h)).sum::<f64>();
        if systems.len() > 1 {
            let masses: Vec<f64> = systems.iter().map(|system| mass(&system.curvature)).collect();
            let mean = masses.iter().sum::<f64>() / masses.len() as f64;
            let share = |mass: f64| if mean > 0.0 { (mass / mean).max(LEAST_SHARE) } else { 1.0 };
            systems.iter_mut().zip(masses).for_each(|(system, mass)| system.share = share(mass));
        }
        (systems, values[0])
    }

    fn observe_outputs(
        &self,
        state: &BlockState,
        problem: &Problem<'_>,
        loss: &dyn Loss,
        outputs: Range<usize>,
    ) -> (Observed, f64) {
        let (c, t) = (loss.outputs(), loss.targets());
        let n = problem.rows.len();
        let (mut residual, mut curvature) = (vec![0.0; n * outputs.len()], vec![0.0; n]);
        let chunks = residual.chunks_mut(TILE * outputs.len()).zip(curvature.chunks_mut(TILE));
        let parts: Vec<_> = tiles(n).zip(chunks).collect();
        let sums = parts.into_par_iter().map(|(tile, (r, h))| {
            let u = &state.predictions[tile.start * c..tile.end * c];
            let y = &problem.targets[tile.start * t..tile.end * t];
            let w = &problem.weights[tile];
            if outputs.len() == c {
                loss.residuals(u, y, w, r);
            } else {
                let mut all = vec![0.0; u.len()];
                loss.residuals(u, y, w, &mut all);
                r.iter_mut().zip(all.chunks_exact(c)).for_each(|(r, row)| *r = row[outputs.start]);
            }
            match (self.config.local_curvature, loss.curvature()) {
                (false, Some(bound)) => h.iter_mut().zip(w).for_each(|(h, w)| *h = bound * w),
                _ if outputs.len() == c => loss.curvatures(u, y, w, h),
                _ => loss.output_curvatures(outputs.start, u, y, w, h),
            }
            loss_and_mass(loss, u, y, w)
        });
        let sums: Vec<_> = sums.collect();
        (Observed { outputs, residual, curvature, share: 1.0 }, mean(&sums))
    }
}

/// Weighted mean loss on the training rows, summed tile by tile.
pub(crate) fn mean_loss(loss: &dyn Loss, problem: &Problem<'_>, predictions: &[f32]) -> f64 {
    weighted_loss(loss, problem.targets, problem.weights, predictions)
}

/// Σ w ℓ / Σ w.
pub(crate) fn weighted_loss(loss: &dyn Loss, targets: &[f32], weights: &[f32], predictions: &[f32]) -> f64 {
    let (c, t) = (loss.outputs(), loss.targets());
    let all: Vec<_> = tiles(weights.len()).collect();
    let sums: Vec<(f64, f64)> = all
        .into_par_iter()
        .map(|tile| {
            let u = &predictions[tile.start * c..tile.end * c];
            loss_and_mass(loss, u, &targets[tile.start * t..tile.end * t], &weights[tile])
        })
        .collect();
    mean(&sums)
}

/// Σ w ℓ and Σ w of one tile.
fn loss_and_mass(loss: &dyn Loss, u: &[f32], y: &[f32], w: &[f32]) -> (f64, f64) {
    (loss.total(u, y, w), w.iter().map(|&w| f64::from(w)).sum())
}

/// The mean of all tiles, summed in their order.
fn mean(sums: &[(f64, f64)]) -> f64 {
    let (value, mass) = sums.iter().fold((0.0, 0.0), |(a, b), (v, w)| (a + v, b + w));
    value / mass
}

/// Halves a step that raised the objective, loss plus penalty of the share taken; returns that share and the loss.
fn backtrack(
    predictions: &mut [f32],
    problem: &Problem<'_>,
    loss: &dyn Loss,
    old: &[f32],
    before: f64,
    penalty: &dyn Fn(f64) -> f64,
    b: usize,
) -> Result<(f64, f64)> {
    let mut taken = 1.0;
    for _ in 0..12 {
        let after = mean_loss(loss, problem, predictions);
        if after + penalty(taken) <= before + 1e-7 * before.abs() {
            return Ok((taken, after));
        }
        taken *= 0.5;
        predictions.iter_mut().zip(old).for_each(|(new, old)| *new = 0.5 * (*new + old));
    }
    let after = mean_loss(loss, problem, predictions);
    if after.is_finite() {
        // At the noise floor of single precision: no further progress along this block.
        predictions.copy_from_slice(old);
        return Ok((0.0, mean_loss(loss, problem, predictions)));
    }
    Err(Error::Diverged { step: b, objective: after, lower: "step, or raise damping" })
}
