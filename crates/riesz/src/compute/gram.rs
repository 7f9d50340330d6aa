//! Symmetric Gram matrices Σ w φ φᵀ, parallel over output panels.

use super::buffer::Buffer;
use super::lanes::LANES;
use super::products::{Adjoint, Both, Materialise, Selection};
use super::{add_in_order, amx, Device, FeatureBlock, Path};
use crate::data::{tiles, Rows, TILE};
use crate::error::Result;
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// Lane groups of a logical tile.
const GROUPS: usize = TILE / LANES;

/// Which rows enter a Gram matrix: from every logical tile of 1,024 rows the same number of runs of sixteen rows,
/// drawn at random. The sample is stratified along the data, costs no second pass and no copy.
#[derive(Clone, Copy, Debug)]
pub struct GramSample {
    /// Runs of sixteen rows per tile, even, at most 64 (all rows).
    runs: usize,
    seed: Seed,
    block: BlockIndex,
    /// The tile that the first row belongs to.
    first: usize,
}

/// Sampled rows of a leaf, about.
const LEAF: usize = 8_192;

impl GramSample {
    /// About `size` of `n` rows, or all of them; drawn anew for every block.
    pub fn new(size: usize, n: usize, seed: Seed, block: BlockIndex) -> Self {
        // An even number, not below what is asked for but by a twentieth.
        let exact = (GROUPS * size) as f64 / n.max(1) as f64;
        let runs = match size < n {
            true => (2 * (0.5 * 0.95 * exact).ceil() as usize).clamp(2, GROUPS),
            false => GROUPS,
        };
        Self { runs, seed, block, first: 0 }
    }

    /// The same sample for rows that begin with tile `first`.
    pub fn from_tile(self, first: usize) -> Self {
        Self { first, ..self }
    }

    /// Tiles of a leaf, the rows that are summed by themselves before they are added to others: the power of two that
    /// comes nearest to 8,192 sampled rows.
    pub fn leaf(self) -> usize {
        let tiles = (LEAF / self.rows_per_tile()).max(1);
        let below = 1 << tiles.ilog2();
        if tiles * tiles > 2 * below * below {
            2 * below
        } else {
            below
        }
    }

    /// Packed rows per tile.
    pub(crate) fn rows_per_tile(self) -> usize {
        self.runs * LANES
    }

    /// The selection in tile `tile` of `rows` rows, and the factor on √w that makes up for what was left out.
    fn select(self, tile: usize, rows: usize) -> (Selection, f32) {
        let groups = rows.div_ceil(LANES);
        if groups <= self.runs {
            return (Selection::ALL, 1.0);
        }
        let index = BlockIndex(self.block.0 << 24 | (self.first + tile) as u64);
        let order = Permutation::new(self.seed, Stream::Subsample, index, groups);
        let mask = order.indices()[..self.runs].iter().fold(0, |mask, g| mask | 1_u64 << g);
        (Selection(mask), (groups as f32 / self.runs as f32).sqrt())
    }

    /// What is selected of a part, and the roots of its rows' weights.
    fn roots(self, part: &Part<'_>) -> (Selection, Vec<f32>) {
        let (selection, factor) = self.select(part.range.start / TILE, part.weights.len());
        (selection, part.weights.iter().map(|w| factor * w.sqrt()).collect())
    }
}

/// The rows of a logical tile that have a say.
struct Part<'a> {
    /// The tile.
    range: Range<usize>,
    /// These rows, where passing over the others is worth it.
    active: Option<Vec<u32>>,
    /// Their weights and residuals (C each).
    weights: Cow<'a, [f32]>,
    residual: Cow<'a, [f32]>,
}

impl<'a> Part<'a> {
    /// Rows that have neither weight nor residual, such as those a hinge is done with, are passed over where they are
    /// an eighth of the tile or more: less than that does not pay for the copy.
    fn new(range: Range<usize>, Equations { weights, residual, .. }: Equations<'a>) -> Self {
        let outputs = residual.len() / weights.len();
        let w = &weights[range.clone()];
        let r = &residual[range.start * outputs..range.end * outputs];
        let matters = |i: &usize| w[*i] != 0.0 || r[i * outputs..(i + 1) * outputs].iter().any(|&r| r != 0.0);
        let active: Vec<usize> = (0..w.len()).filter(matters).collect();
        if 8 * active.len() > 7 * w.len() {
            return Self { range, active: None, weights: w.into(), residual: r.into() };
        }
        let weights = active.iter().map(|&i| w[i]).collect();
        let residual = active.iter().flat_map(|&i| &r[i * outputs..(i + 1) * outputs]).copied().collect();
        let active = active.iter().map(|&i| (range.start + i) as u32).collect();
        Self { range, active: Some(active), weights, residual }
    }

    /// The rows themselves.
    fn rows<'b>(&self, rows: Rows<'b>, buffer: &'b mut Vec<f32>) -> &'b [f32] {
        match &self.active {
            None => rows.tile(self.range.clone(), buffer),
            Some(active) => rows.gather_into(active, buffer),
        }
    }
}

/// What the rows bring to the normal equations.
#[derive(Clone, Copy)]
pub(crate) struct Equations<'a> {
    pub rows: Rows<'a>,
    pub weights: &'a [f32],
    /// n×C.
    pub residual: &'a [f32],
    pub sample: GramSample,
}

/// Rows of an output panel on the vector paths.
const PANEL: usize = 256;

/// A Gram matrix: the lower triangle of Σ w φ φᵀ in single precision.
#[derive(Default)]
pub struct Gram {
    features: usize,
    /// Lower triangle: m×m row-major on the vector paths, 32×32 blocks row by row on the AMX path.
    lower: Buffer<f32>,
    blocked: bool,
}

/// Memory for the features of some rows, kept between uses.
#[derive(Default)]
pub struct GramScratch {
    rows_per_tile: usize,
    plain: Buffer<f32>,
    tiles: amx::Packed,
}

impl GramScratch {
    /// Makes room for `tiles` logical tiles of `features` features.
    fn reset(&mut self, blocked: bool, features: usize, tiles: usize, rows_per_tile: usize) {
        self.rows_per_tile = rows_per_tile;
        if blocked {
            self.tiles.reset(tiles * rows_per_tile, features);
        } else {
            self.plain.resize(tiles * rows_per_tile * features);
        }
    }
}

impl Gram {
    /// Sets to zero.
    pub(crate) fn reset(&mut self, device: Device, features: usize) {
        self.features = features;
        self.blocked = device.path() == Path::Amx;
        let blocks = features / amx::BLOCK;
        self.lower.resize(match self.blocked {
            true => blocks * (blocks + 1) / 2 * amx::BLOCK * amx::BLOCK,
            false => features * features,
        });
        self.lower.fill(0.0);
    }

    /// Adds another matrix of the same features on the same device.
    pub(crate) fn add(&mut self, other: &Self) {
        self.lower.iter_mut().zip(&*other.lower).for_each(|(sum, v)| *sum += v);
    }

    /// Adds the rows of consecutive tiles, `together` at a time; the Φᵀ R of each tile is added to `gradient` in order.
    /// Each entry is summed by one thread in the order of the rows, so neither the thread count nor `together` changes
    /// a digit.
    pub(crate) fn add_rows(
        &mut self,
        device: Device,
        block: &FeatureBlock,
        equations: Equations<'_>,
        together: usize,
        scratch: &mut GramScratch,
        gradient: &mut [f64],
    ) -> Result<()> {
        let all: Vec<_> = tiles(equations.rows.len()).collect();
        let room = equations.sample.rows_per_tile();
        scratch.reset(self.blocked, self.features, together.min(all.len()), room);
        for some in all.chunks(together) {
            let mut partials = vec![vec![0.0; gradient.len()]; some.len()];
            let packed = (some.len() - 1) * room + some[some.len() - 1].len().min(room);
            let work = some.par_iter().cloned().zip(&mut partials);
            if self.blocked {
                self.pack(device, block, equations, scratch, work)?;
                self.multiply_tiles(packed, scratch);
            } else {
                self.materialise(device, block, equations, scratch, work)?;
                self.multiply(packed, scratch);
            }
            add_in_order(gradient, &partials);
        }
        Ok(())
    }

    fn pack<'a>(
        &self,
        device: Device,
        block: &FeatureBlock,
        equations: Equations<'_>,
        scratch: &mut GramScratch,
        work: impl IndexedParallelIterator<Item = (Range<usize>, &'a mut Vec<f32>)>,
    ) -> Result<()> {
        let (features, room) = (self.features, scratch.rows_per_tile);
        let places = scratch.tiles.parts(room);
        let work = work.zip(places).with_max_len(1);
        work.try_for_each_init(Vec::new, |buffer, ((tile, gradient), (left, right))| {
            let part = Part::new(tile, equations);
            let (selection, roots) = equations.sample.roots(&part);
            let mut pack = amx::Pack { features, roots: &roots, selection, left, right };
            if roots.len().next_multiple_of(LANES) < room {
                pack.clear();
            }
            let adjoint = Adjoint::new(&part.residual, gradient.len() / features, features, gradient);
            block.stream(device, part.rows(equations.rows, buffer), Both(adjoint, pack))
        })
    }

    fn materialise<'a>(
        &self,
        device: Device,
        block: &FeatureBlock,
        equations: Equations<'_>,
        scratch: &mut GramScratch,
        work: impl IndexedParallelIterator<Item = (Range<usize>, &'a mut Vec<f32>)>,
    ) -> Result<()> {
        let (m, room) = (self.features, scratch.rows_per_tile);
        let work = work.zip(scratch.plain.par_chunks_mut(room * m)).with_max_len(1);
        work.try_for_each_init(Vec::new, |buffer, ((tile, gradient), out)| {
            let part = Part::new(tile, equations);
            let (selection, roots) = equations.sample.roots(&part);
            if roots.len() < room || roots.len() % LANES != 0 {
                out.fill(0.0);
            }
            let adjoint = Adjoint::new(&part.residual, gradient.len() / m, m, gradient);
            let write = Materialise::weighted(m, &roots, selection, out);
            block.stream(device, part.rows(equations.rows, buffer), Both(adjoint, write))
        })
    }

    fn multiply_tiles(&mut self, rows: usize, scratch: &GramScratch) {
        let mut rest = &mut self.lower[..];
        let mut panels = Vec::with_capacity(self.features / amx::BLOCK);
        for i in 0..self.features / amx::BLOCK {
            let (blocks, tail) = rest.split_at_mut((i + 1) * amx::BLOCK * amx::BLOCK);
            panels.push(blocks);
            rest = tail;
        }
        let packed = &scratch.tiles;
        let groups = panels.par_chunks_mut(amx::GROUP).enumerate();
        // The longest rows first, so that the threads finish together.
        groups.rev().with_max_len(1).for_each(|(g, rows_of_blocks)| {
            amx::add_products(packed, rows, g * amx::GROUP, rows_of_blocks);
        });
    }

    /// lower += Φᵀ Φ, panel by panel, each panel tile by tile.
    fn multiply(&mut self, rows: usize, scratch: &GramScratch) {
        let m = self.features;
        let (phi, rows_per_tile) = (&scratch.plain[..rows * m], scratch.rows_per_tile);
        let panels: Vec<_> = self.lower.chunks_mut(PANEL * m).enumerate().collect();
        panels.into_par_iter().rev().with_max_len(1).for_each(|(i, rows)| {
            let height = rows.len() / m;
            let width = i * PANEL + height;
            for tile in phi.chunks(rows_per_tile * m) {
                // SAFETY: the destination is `height` rows of stride m, of which `width` ≤ m columns are
                // written; both factors are views of the tile, k rows of stride m.
                unsafe {
                    gemm::gemm(
                        height,
                        width,
                        tile.len() / m,
                        rows.as_mut_ptr(),
                        1,
                        m as isize,
                        true,
                        tile.as_ptr().add(i * PANEL),
                        m as isize,
                        1,
                        tile.as_ptr(),
                        1,
                        m as isize,
                        1.0_f32,
                        1.0_f32,
                        false,
                        false,
                        false,
                        gemm::Parallelism::None,
                    );
                }
            }
        });
    }

    /// Number m of features.
    pub fn features(&self) -> usize {
        self.features
    }

    /// Σ_i G_ii.
    pub(crate) fn trace(&self) -> f64 {
        (0..self.features).map(|i| f64::from(self.lower[self.place(i, i)])).sum()
    }

    /// The entry (i, j) of the whole, symmetric matrix.
    pub fn entry(&self, i: usize, j: usize) -> Option<f32> {
        let (i, j) = (i.max(j), i.min(j));
        (i < self.features).then(|| self.lower[self.place(i, j)])
    }

    /// The entries (i, 0), …, (i, i), written to `out`.
    pub(crate) fn row(&self, i: usize, out: &mut [f32]) {
        let side = if self.blocked { amx::BLOCK } else { self.features };
        for (j, out) in out[..=i].chunks_mut(side).enumerate() {
            let from = self.place(i, j * side);
            out.copy_from_slice(&self.lower[from..from + out.len()]);
        }
    }

    /// Where the entry (i, j), j ≤ i, is.
    fn place(&self, i: usize, j: usize) -> usize {
        if !self.blocked {
            return i * self.features + j;
        }
        let side = amx::BLOCK;
        let panel = i / side;
        (panel * (panel + 1) / 2 + j / side) * side * side + i % side * side + j % side
    }
}
