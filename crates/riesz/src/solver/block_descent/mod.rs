//! Block functional descent (spec 2.4): the fast solver for finite data.

mod shard;
mod sums;

pub use shard::Shard;

use super::Sums;
use super::{check_ridge, solve_regularised, Solver, StepInfo};
use crate::compute::{Buffer, FeatureBlock, GramScratch};
use crate::data::{tiles, Rows};
use crate::error::{in_range, positive, Error, Result};
use crate::loss::Loss;
use crate::space::{FeatureExpansion, FeatureSpace};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;
pub use sums::Part;
use sums::System;

/// Settings of [`BlockDescent`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockDescentConfig {
    /// ρ in H = ΦᵀWΦ/n + ρI, in units of the mean square of the features (one for k(x, x) = 1). Smaller learns faster and overfits the block.
    pub damping: f64,
    /// ν in (ν/2)‖f‖², the norm that belongs to the kernel; the default regularisation is early stopping, ν = 0.
    pub ridge: f64,
    /// η in α = η H⁻¹ g.
    pub step: f64,
    /// Whether rows enter H with their own curvature ([`Loss::local_curvature`]) or with the global bound.
    pub local_curvature: bool,
    /// Rows entering H, per feature of a block; all rows if there are fewer.
    pub gram_rows_per_feature: usize,
    /// Sampled rows whose features are held in memory at a time, 0: those of a leaf, about 8,192; the result does not
    /// depend on it.
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
///
/// A ridge ν adds (ν/2)‖f‖² in the space of k = (1/mB) Σ φφ', B being the blocks there are after the step: νmB is added to
/// ρ, and pulls existing coefficients back. Sweeps over all blocks then converge to what [`Ridge`](super::Ridge) computes;
/// growth alone is on its way there.
///
/// A step is [`observe`](Self::observe) on every shard of the rows, addition ([`Sums::add`]), one linear system, and
/// [`update`](Self::update) on every shard: [`descend`](Self::descend) composes them.
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
pub struct BlockState<F = FeatureExpansion> {
    /// The function so far.
    pub f: F,
    /// Its values F on all rows, n×C: no feature of an old block is ever recomputed.
    pub predictions: Vec<f32>,
    /// Steps of further sweeps so far.
    revisited: usize,
    workspace: Workspace,
}

impl<F> BlockState<F> {
    /// A state from its parts, as a checkpoint holds them.
    pub(crate) fn resume(f: F, predictions: Vec<f32>) -> Self {
        Self { f, predictions, revisited: 0, workspace: Workspace::default() }
    }
}

/// Buffers reused from step to step; a clone starts with its own.
#[derive(Default)]
struct Workspace {
    spare: Vec<Part>,
    scratch: GramScratch,
    system: Buffer<f64>,
    /// The block of the step under way.
    block: Option<(usize, FeatureBlock)>,
    /// The predictions before it.
    before: Vec<f32>,
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

/// Facts about one step.
#[derive(Clone, Copy, Debug)]
pub struct BlockInfo {
    /// Weighted mean loss on the training rows after the step.
    pub loss: f64,
    /// The share of the step that was taken: below one where the full step raised the loss.
    pub taken: f64,
}

/// The least share of the damping a system gets, were all its rows flat.
const LEAST_SHARE: f64 = 1e-3;

/// A step is halved at most so often.
const HALVINGS: usize = 12;

/// Width of the smoothed stand-in of a loss without curvature, at sweep position b: 2^{−b/6}, at least 1/16.
fn smoothing_width(b: usize) -> f32 {
    (-(b as f32) / 6.0).exp2().max(1.0 / 16.0)
}

impl BlockDescentConfig {
    /// Checks the settings.
    pub fn build(self) -> Result<BlockDescent> {
        positive("damping", self.damping)?;
        positive("step", self.step)?;
        check_ridge(self.ridge)?;
        let (rows, least) = (self.gram_rows_per_feature, if self.damping <= 0.01 { 8 } else { 4 });
        let range = "at least 4, and at least 8 when damping ≤ 0.01 (a smaller subsample is unstable)";
        in_range("gram_rows_per_feature", rows as f64, rows >= least, range)?;
        Ok(BlockDescent { config: self })
    }
}

impl BlockDescent {
    /// The settings.
    pub fn config(&self) -> &BlockDescentConfig {
        &self.config
    }

    /// The state that continues from `f`: its predictions are computed once.
    pub fn init<F: FeatureSpace>(&self, f: F, rows: Rows<'_>) -> Result<BlockState<F>> {
        let mut predictions = vec![0.0; rows.len() * f.outputs()];
        f.evaluate(rows, &mut predictions)?;
        Ok(BlockState::resume(f, predictions))
    }

    /// Adds one fresh block.
    pub fn step<F: FeatureSpace>(
        &self,
        state: &mut BlockState<F>,
        problem: &Problem<'_>,
    ) -> Result<BlockInfo> {
        let b = state.f.len();
        self.descend(&mut [(state, Shard::whole(*problem))], b)
    }

    /// One step of a further sweep: block coordinate descent on the existing block `b`.
    pub fn revisit<F: FeatureSpace>(
        &self,
        state: &mut BlockState<F>,
        problem: &Problem<'_>,
        b: usize,
    ) -> Result<BlockInfo> {
        self.descend(&mut [(state, Shard::whole(*problem))], b)
    }

    /// A step along block `b`, a fresh one where b is the number of blocks, on rows that are shared out: every state holds
    /// the same function and the predictions on its own rows. The result does not depend on how many shards there are.
    pub fn descend<F: FeatureSpace>(&self, parts: &mut [Held<'_, '_, F>], b: usize) -> Result<BlockInfo> {
        let Some((state, shard)) = parts.first() else {
            return Err(Error::Empty { what: "the shards", needed: "one" });
        };
        let (problem, m, blocks) = (shard.problem, state.f.map().block_size, state.f.len());
        let current = (b < blocks).then(|| state.f.coefficients(b).into_owned());
        let smoothed = self.smoothed(parts, problem.loss, blocks)?;
        let loss = smoothed.as_deref().unwrap_or(problem.loss);
        let observed = over_all(parts, |state, shard| self.observe(state, shard, loss, b))?;
        let before = observed.mean_loss();
        // k = (1/mB) Σ φφ', so that ‖f‖² = mB Σ_b ‖α_b‖².
        let ridge = self.config.ridge * (m * blocks.max(b + 1)) as f64;
        let workspace = &mut parts[0].0.workspace;
        let alpha = self.solve(workspace, &observed, ridge, current.as_deref(), b)?;
        workspace.spare.push(observed);
        let penalty = |share: f64| penalty(ridge, &alpha, current.as_deref(), share);
        let most = before + penalty(0.0);
        let (taken, after) = self.backtrack(parts, loss, (b, &alpha), most, &penalty)?;
        for (state, _) in parts.iter_mut() {
            let old = |i: usize| current.as_ref().map_or(0.0, |c| c[i]);
            let new = alpha.iter().enumerate().map(|(i, a)| old(i) + a * taken as f32).collect();
            match current {
                None => state.f.push(new),
                Some(_) => state.f.replace(b, new),
            }
        }
        if smoothed.is_none() {
            return Ok(BlockInfo { loss: after, taken });
        }
        let exact = over_all(parts, |state, shard| self.losses(state, shard, problem.loss))?;
        Ok(BlockInfo { loss: exact.mean_loss(), taken })
    }

    /// The stand-in of a loss that needs one, at sweep position b. Widths are measured in the mean size of the residuals
    /// where the loss grows in proportion to them, from a thousandth of the scale of the targets to that scale; else in
    /// the margin, one.
    fn smoothed<F: FeatureSpace>(
        &self,
        parts: &mut [Held<'_, '_, F>],
        loss: &dyn Loss,
        b: usize,
    ) -> Result<Option<Box<dyn Loss>>> {
        let unit = match loss.residual_share() {
            None => 1.0,
            Some(share) => {
                let total = over_all(parts, |state, shard| self.losses(state, shard, loss))?;
                ((total.mean_loss() / f64::from(share)) as f32).clamp(1e-3, 1.0)
            }
        };
        Ok(loss.smoothed(smoothing_width(b) * unit))
    }

    /// α = η H⁻¹ g (m×C row-major) from the sums over all rows.
    fn solve(
        &self,
        workspace: &mut Workspace,
        sums: &Part,
        ridge: f64,
        current: Option<&[f32]>,
        b: usize,
    ) -> Result<Vec<f32>> {
        let (squares, count) = sums.squares;
        let damping = self.config.damping * (squares / count).max(f64::MIN_POSITIVE);
        let mean = sums.systems.iter().map(|s| s.curvature).sum::<f64>() / sums.systems.len() as f64;
        let outputs: usize = sums.systems.iter().map(|s| s.gradient.len() / s.gram.features()).sum();
        let mut alpha = vec![0.0; sums.systems.first().map_or(0, |s| s.gram.features() * outputs)];
        let mut start = 0;
        for System { curvature, gradient, gram } in &sums.systems {
            // A system whose rows are flat gets less of the damping.
            let share = if mean > 0.0 { (curvature / mean).max(LEAST_SHARE) } else { 1.0 };
            let share = if sums.systems.len() > 1 { share } else { 1.0 };
            let (m, own) = (gram.features(), gradient.len() / gram.features());
            let place = |feature: usize, output: usize| feature * outputs + start + output;
            let pull = |i: usize| current.map_or(0.0, |a| ridge * f64::from(a[place(i % m, i / m)]));
            let right: Vec<f64> = (0..own * m).map(|i| gradient[i] / sums.mass - pull(i)).collect();
            // Rounding moves the eigenvalues of G by about ε tr G: less than that regularises nothing.
            let rounding = f64::from(f32::EPSILON) * gram.trace() / sums.mass;
            let shift = (share * damping + ridge).max(rounding);
            let solution = solve_regularised(&mut workspace.system, gram, 1.0 / sums.mass, shift, &right);
            let failed = Error::NotPositiveDefinite { block: b, size: m, raise: "damping" };
            for (i, a) in solution.ok_or(failed)?.into_iter().enumerate() {
                alpha[place(i / own, i % own)] = (self.config.step * a) as f32;
            }
            start += own;
        }
        Ok(alpha)
    }

    /// Takes the step α along block `b`, halved for as long as it raises the objective, loss plus penalty of the share
    /// taken; returns that share and the loss.
    fn backtrack<F: FeatureSpace>(
        &self,
        parts: &mut [Held<'_, '_, F>],
        loss: &dyn Loss,
        (b, alpha): (usize, &[f32]),
        most: f64,
        penalty: &dyn Fn(f64) -> f64,
    ) -> Result<(f64, f64)> {
        let mut after = over_all(parts, |state, shard| self.update(state, shard, loss, b, alpha))?;
        let mut taken = 1.0;
        for _ in 0..HALVINGS {
            if after.mean_loss() + penalty(taken) <= most + 1e-7 * most.abs() {
                return Ok((taken, after.mean_loss()));
            }
            taken *= 0.5;
            after = over_all(parts, |state, shard| self.go_back(state, shard, loss, false))?;
        }
        let objective = after.mean_loss();
        if !objective.is_finite() {
            return Err(Error::Diverged { step: b, objective, lower: "step, or raise damping" });
        }
        // At the noise floor of single precision: no further progress along this block.
        let undone = over_all(parts, |state, shard| self.go_back(state, shard, loss, true))?;
        Ok((0.0, undone.mean_loss()))
    }
}

/// A shard and the state that holds its predictions.
type Held<'a, 'b, F> = (&'a mut BlockState<F>, Shard<'b>);

/// The sum of what `visit` finds on every shard.
fn over_all<F>(
    parts: &mut [Held<'_, '_, F>],
    mut visit: impl FnMut(&mut BlockState<F>, &Shard<'_>) -> Result<Sums<Part>>,
) -> Result<Part> {
    let mut sums = Sums::default();
    for (state, shard) in parts.iter_mut() {
        sums.add(visit(state, shard)?);
    }
    match parts.first_mut() {
        Some((state, _)) => sums.total(&mut state.workspace.spare),
        None => sums.total(&mut Vec::new()),
    }
}

/// (νmB/2)‖current + share·α‖², the part of (ν/2)‖f‖² that a step along one block changes; `ridge` is νmB.
fn penalty(ridge: f64, alpha: &[f32], current: Option<&[f32]>, share: f64) -> f64 {
    if ridge == 0.0 {
        return 0.0;
    }
    let at = |i: usize| current.map_or(0.0, |c| f64::from(c[i])) + share * f64::from(alpha[i]);
    0.5 * ridge * (0..alpha.len()).map(|i| at(i).powi(2)).sum::<f64>()
}

/// Σ w ℓ / Σ w.
pub(crate) fn weighted_loss(loss: &dyn Loss, targets: &[f32], weights: &[f32], predictions: &[f32]) -> f64 {
    let (value, mass) = loss_and_mass(loss, targets, weights, predictions);
    value / mass
}

/// Σ w ℓ and Σ w, summed tile by tile.
fn loss_and_mass(loss: &dyn Loss, targets: &[f32], weights: &[f32], predictions: &[f32]) -> (f64, f64) {
    let (c, t) = (loss.outputs(), loss.targets());
    let all: Vec<_> = tiles(weights.len()).collect();
    let of = |tile: Range<usize>| {
        let (u, y) = (&predictions[tile.start * c..tile.end * c], &targets[tile.start * t..tile.end * t]);
        let w = &weights[tile];
        (loss.total(u, y, w), w.iter().map(|&w| f64::from(w)).sum::<f64>())
    };
    let sums: Vec<(f64, f64)> = all.into_par_iter().map(of).collect();
    sums.into_iter().fold((0.0, 0.0), |(a, b), (v, w)| (a + v, b + w))
}

impl Solver for BlockDescent {
    type Batch<'a> = Problem<'a>;
    type State = BlockState;
    type Info = BlockInfo;

    fn step(&self, state: &mut BlockState, problem: Problem<'_>) -> Result<BlockInfo> {
        Self::step(self, state, &problem)
    }
}

/// Further sweeps over the blocks there are: each step revisits the next one.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'s>(pub &'s BlockDescent);

impl Solver for Sweep<'_> {
    type Batch<'a> = Problem<'a>;
    type State = BlockState;
    type Info = BlockInfo;

    fn step(&self, state: &mut BlockState, problem: Problem<'_>) -> Result<BlockInfo> {
        let b = state.revisited % state.f.len().max(1);
        state.revisited += 1;
        self.0.revisit(state, &problem, b)
    }
}

impl StepInfo for BlockInfo {
    fn loss(&self) -> f64 {
        self.loss
    }
}
