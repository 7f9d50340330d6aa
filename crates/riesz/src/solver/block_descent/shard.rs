//! What a part of the rows contributes to a step: observation before it, predictions after it.

use super::sums::{Part, System};
use super::{loss_and_mass, BlockDescent, BlockState, Problem, Workspace};
use crate::compute::{self, FeatureBlock, GramRows, GramSample};
use crate::data::{tiles, Rows, TILE};
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::random::BlockIndex;
use crate::solver::Sums;
use crate::space::FeatureSpace;
use rayon::prelude::*;
use std::ops::Range;

/// Rows that one state holds the predictions of: those of the problem, out of all rows.
#[derive(Clone, Copy)]
pub struct Shard<'a> {
    /// The rows.
    pub problem: Problem<'a>,
    /// How many rows come before them, a multiple of [`BlockDescent::leaf_rows`].
    pub first: usize,
    /// The number n of rows of all shards.
    pub rows: usize,
}

impl<'a> Shard<'a> {
    /// All rows.
    pub fn whole(problem: Problem<'a>) -> Self {
        Self { problem, first: 0, rows: problem.rows.len() }
    }
}

/// A leaf of a shard.
struct Leaf<'a> {
    /// Its number among the leaves of all rows.
    index: usize,
    /// Its first row among all rows.
    first: usize,
    rows: Rows<'a>,
    targets: &'a [f32],
    weights: &'a [f32],
    /// F on these rows.
    predictions: &'a [f32],
}

impl<'a> Leaf<'a> {
    /// Predictions, targets and weights of a tile.
    fn tile(&self, loss: &dyn Loss, tile: Range<usize>) -> (&'a [f32], &'a [f32], &'a [f32]) {
        let (c, t) = (loss.outputs(), loss.targets());
        let u = &self.predictions[tile.start * c..tile.end * c];
        (u, &self.targets[tile.start * t..tile.end * t], &self.weights[tile])
    }

    /// Σ w ℓ and Σ w.
    fn loss_and_mass(&self, loss: &dyn Loss) -> (f64, f64) {
        loss_and_mass(loss, self.targets, self.weights, self.predictions)
    }
}

impl BlockDescent {
    /// Shards begin at multiples of so many rows (the last one may end anywhere); n is the number of rows of all shards.
    pub fn leaf_rows(&self, f: &impl FeatureSpace, n: usize) -> usize {
        self.sample(f, n, 0).leaf() * TILE
    }

    fn sample(&self, f: &impl FeatureSpace, n: usize, b: usize) -> GramSample {
        let map = f.map();
        let size = self.config.gram_rows_per_feature * map.block_size;
        GramSample::new(size, n, map.seed, BlockIndex(b as u64))
    }

    /// The leaves of a shard with these predictions, and the number of leaves of all shards.
    fn leaves<'a>(
        &self,
        f: &impl FeatureSpace,
        predictions: &'a [f32],
        Shard { problem, first, rows: n }: &Shard<'a>,
    ) -> Result<(Vec<Leaf<'a>>, usize)> {
        let (size, count) = (self.leaf_rows(f, *n), problem.rows.len());
        let end = first + count;
        if !first.is_multiple_of(size) || end > *n || (end < *n && !end.is_multiple_of(size)) {
            return Err(Error::ShardEnds { first: *first, end, rows: *n, multiple: size });
        }
        let (c, t) = (problem.loss.outputs(), problem.loss.targets());
        for (what, expected, found) in [
            ("predictions", count * c, predictions.len()),
            ("targets", count * t, problem.targets.len()),
            ("weights", count, problem.weights.len()),
        ] {
            if expected != found {
                return Err(Error::Length { what, expected: expected.to_string(), found });
            }
        }
        let leaf = |start: usize| {
            let range = start..(start + size).min(count);
            Leaf {
                index: (first + start) / size,
                first: first + start,
                rows: problem.rows.slice(range.clone()),
                targets: &problem.targets[range.start * t..range.end * t],
                weights: &problem.weights[range.clone()],
                predictions: &predictions[range.start * c..range.end * c],
            }
        };
        Ok(((0..count).step_by(size).map(leaf).collect(), n.div_ceil(size)))
    }

    /// Σ w ℓ and Σ w of a shard at its predictions.
    pub fn losses<F: FeatureSpace>(
        &self,
        state: &BlockState<F>,
        shard: &Shard<'_>,
        loss: &dyn Loss,
    ) -> Result<Sums<Part>> {
        let (leaves, all) = self.leaves(&state.f, &state.predictions, shard)?;
        let mut sums = Sums::new(all);
        for leaf in leaves {
            let (loss, mass) = leaf.loss_and_mass(loss);
            sums.add_leaf(leaf.index, Part { loss, mass, ..Part::default() }, &mut Vec::new());
        }
        Ok(sums)
    }

    /// ΦᵀR, ΦᵀWΦ, loss and mass of a shard for block `b`, at its predictions.
    pub fn observe<F: FeatureSpace>(
        &self,
        state: &mut BlockState<F>,
        shard: &Shard<'_>,
        loss: &dyn Loss,
        b: usize,
    ) -> Result<Sums<Part>> {
        let BlockState { f, predictions, workspace, .. } = state;
        let block = f.draw(b)?;
        let (leaves, all) = self.leaves(f, predictions, shard)?;
        let mut sums = Sums::new(all);
        for leaf in leaves {
            let mut part = workspace.spare.pop().unwrap_or_default();
            self.observe_leaf(f, &leaf, (b, &block), (shard, loss), &mut part, workspace)?;
            sums.add_leaf(leaf.index, part, &mut workspace.spare);
        }
        workspace.block = Some((b, block));
        Ok(sums)
    }

    fn observe_leaf(
        &self,
        f: &impl FeatureSpace,
        leaf: &Leaf<'_>,
        (b, block): (usize, &FeatureBlock),
        (shard, loss): (&Shard<'_>, &dyn Loss),
        part: &mut Part,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let c = loss.outputs();
        let each = if loss.has_separate_curvatures() { 1 } else { c };
        (part.loss, part.mass) = leaf.loss_and_mass(loss);
        part.squares = f.map().squares(leaf.rows, leaf.first, shard.rows)?;
        part.systems.resize_with(c / each, System::default);
        let sample = self.sample(f, shard.rows, b).from_tile(leaf.first / TILE);
        let chunk = if self.config.chunk == 0 { usize::MAX } else { self.config.chunk };
        for (k, system) in part.systems.iter_mut().enumerate() {
            let (residual, curvature) = self.residuals(leaf, loss, k * each..(k + 1) * each);
            let gram_rows = GramRows { weights: &curvature, sample, chunk };
            let memory = (&mut system.gram, &mut workspace.scratch);
            system.gradient =
                compute::normal_equations(f.device(), block, leaf.rows, &residual, gram_rows, memory)?;
            system.curvature = curvature.iter().map(|&h| f64::from(h)).sum();
        }
        Ok(())
    }

    /// Residuals (of some outputs, row by row) and weighted curvatures of a leaf.
    fn residuals(&self, leaf: &Leaf<'_>, loss: &dyn Loss, outputs: Range<usize>) -> (Vec<f32>, Vec<f32>) {
        let (c, n) = (loss.outputs(), leaf.weights.len());
        let (mut residual, mut curvature) = (vec![0.0; n * outputs.len()], vec![0.0; n]);
        let chunks = residual.chunks_mut(TILE * outputs.len()).zip(curvature.chunks_mut(TILE));
        let parts: Vec<_> = tiles(n).zip(chunks).collect();
        parts.into_par_iter().for_each(|(tile, (r, h))| {
            let (u, y, w) = leaf.tile(loss, tile);
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
        });
        (residual, curvature)
    }

    /// F ← F + Φα on a shard, and the loss there. The predictions before the step are kept until the next one, so that it
    /// can be shortened.
    pub fn update<F: FeatureSpace>(
        &self,
        state: &mut BlockState<F>,
        shard: &Shard<'_>,
        loss: &dyn Loss,
        b: usize,
        alpha: &[f32],
    ) -> Result<Sums<Part>> {
        let drawn = state.workspace.block.take().filter(|(of, _)| *of == b);
        let block = match drawn {
            Some((_, block)) => block,
            None => state.f.draw(b)?,
        };
        state.workspace.before.clone_from(&state.predictions);
        let (device, rows) = (state.f.device(), shard.problem.rows);
        compute::apply(device, &[(&block, alpha)], rows, loss.outputs(), &mut state.predictions)?;
        self.losses(state, shard, loss)
    }

    /// Goes back half of the last step, or `all` of it, and the loss there.
    pub fn go_back<F: FeatureSpace>(
        &self,
        state: &mut BlockState<F>,
        shard: &Shard<'_>,
        loss: &dyn Loss,
        all: bool,
    ) -> Result<Sums<Part>> {
        let BlockState { predictions, workspace, .. } = state;
        let back = |new: f32, old: f32| if all { old } else { 0.5 * (new + old) };
        predictions.iter_mut().zip(&workspace.before).for_each(|(new, old)| *new = back(*new, *old));
        self.losses(state, shard, loss)
    }
}
