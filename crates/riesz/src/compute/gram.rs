//! Symmetric Gram matrices Σ w φ φᵀ, parallel over output panels.

use super::buffer::Buffer;
use super::lanes::LANES;
use super::products::{Both, Materialise, Selection, Sink};
use super::{amx, FeatureBlock, Path};
use crate::data::TILE;
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use rayon::prelude::*;

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
}

impl GramSample {
    /// About `size` of `n` rows, or all of them; drawn anew for every block.
    pub fn new(size: usize, n: usize, seed: Seed, block: BlockIndex) -> Self {
        let runs = (GROUPS * size).div_ceil(n.max(1)).next_multiple_of(2).min(GROUPS);
        Self { runs, seed, block }
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
        let index = BlockIndex(self.block.0 << 24 | tile as u64);
        let order = Permutation::new(self.seed, Stream::Subsample, index, groups);
        let mask = order.indices()[..self.runs].iter().fold(0, |mask, g| mask | 1_u64 << g);
        (Selection(mask), (groups as f32 / self.runs as f32).sqrt())
    }
}

/// Consecutive logical tiles of the data.
pub(crate) struct Chunk<'a> {
    /// Number of the first tile.
    pub first: usize,
    /// The rows.
    pub x: &'a [f32],
    /// Their weights w.
    pub weights: &'a [f32],
}

/// One logical tile on its way into a Gram matrix.
struct Tile<'a, S> {
    x: &'a [f32],
    roots: Vec<f32>,
    selection: Selection,
    sink: Option<S>,
}

/// Rows of an output panel on the vector paths.
const PANEL: usize = 256;

/// A running Gram matrix: the lower triangle of Σ w φ φᵀ in single precision.
///
/// Each entry is summed by one thread in the order of the rows, so neither the thread count nor the chunk size
/// changes a digit.
#[derive(Default)]
pub struct Gram {
    features: usize,
    /// Lower triangle: m×m row-major on the vector paths, 32×32 blocks row by row on the AMX path.
    lower: Buffer<f32>,
    blocked: bool,
    rows_per_tile: usize,
    plain: Buffer<f32>,
    tiles: amx::Packed,
}

impl Gram {
    /// Sets to zero, with room for `tiles` logical tiles of `features` features at a time; buffers are kept between
    /// uses.
    pub(crate) fn reset(&mut self, path: Path, features: usize, tiles: usize, rows_per_tile: usize) {
        self.features = features;
        self.rows_per_tile = rows_per_tile;
        self.blocked = path == Path::Amx;
        if self.blocked {
            let blocks = features / amx::BLOCK;
            self.lower.resize(blocks * (blocks + 1) / 2 * amx::BLOCK * amx::BLOCK);
            self.tiles.reset(tiles * rows_per_tile, features);
        } else {
            self.lower.resize(features * features);
            self.plain.resize(tiles * rows_per_tile * features);
        }
        self.lower.fill(0.0);
    }

    /// Adds the rows of one chunk; `sinks` holds one further consumer of all features per tile (the gradient).
    pub(crate) fn add<S: Sink + Send>(
        &mut self,
        path: Path,
        block: &FeatureBlock,
        Chunk { first, x, weights }: Chunk<'_>,
        sample: GramSample,
        sinks: Vec<S>,
    ) {
        let mut sinks = sinks.into_iter();
        let tiles: Vec<_> = x
            .chunks(TILE * block.columns())
            .zip(weights.chunks(TILE))
            .enumerate()
            .map(|(t, (x, weights))| {
                let (selection, factor) = sample.select(first + t, weights.len());
                let roots = weights.iter().map(|w| factor * w.sqrt()).collect();
                Tile { x, roots, selection, sink: sinks.next() }
            })
            .collect();
        let rows = (tiles.len() - 1) * self.rows_per_tile + last_rows(weights.len(), self.rows_per_tile);
        if self.blocked {
            self.pack(path, block, tiles);
            self.multiply_tiles(rows);
        } else {
            self.materialise(path, block, tiles);
            self.multiply(rows);
        }
    }

    fn pack<S: Sink + Send>(&mut self, path: Path, block: &FeatureBlock, tiles: Vec<Tile<'_, S>>) {
        let (features, rows) = (self.features, self.rows_per_tile);
        let parts = self.tiles.parts(rows);
        tiles.into_par_iter().zip(parts).with_max_len(1).for_each(|(tile, (left, right))| {
            let Tile { x, ref roots, selection, sink } = tile;
            let mut pack = amx::Pack { features, roots, selection, left, right };
            if roots.len() < TILE {
                pack.clear();
            }
            match sink {
                Some(sink) => block.stream(path, x, Both(sink, pack)),
                None => block.stream(path, x, pack),
            }
        });
    }

    fn materialise<S: Sink + Send>(&mut self, path: Path, block: &FeatureBlock, tiles: Vec<Tile<'_, S>>) {
        let (m, rows) = (self.features, self.rows_per_tile);
        let parts: Vec<_> = self.plain.chunks_mut(rows * m).collect();
        tiles.into_par_iter().zip(parts).with_max_len(1).for_each(|(tile, out)| {
            let Tile { x, ref roots, selection, sink } = tile;
            if roots.len() < TILE {
                out.fill(0.0);
            }
            let write = Materialise::weighted(m, roots, selection, out);
            match sink {
                Some(sink) => block.stream(path, x, Both(sink, write)),
                None => block.stream(path, x, write),
            }
        });
    }

    fn multiply_tiles(&mut self, rows: usize) {
        let mut rest = &mut self.lower[..];
        let mut panels = Vec::with_capacity(self.features / amx::BLOCK);
        for i in 0..self.features / amx::BLOCK {
            let (blocks, tail) = rest.split_at_mut((i + 1) * amx::BLOCK * amx::BLOCK);
            panels.push(blocks);
            rest = tail;
        }
        let packed = &self.tiles;
        let groups = panels.par_chunks_mut(amx::GROUP).enumerate();
        // The longest rows first, so that the threads finish together.
        groups.rev().with_max_len(1).for_each(|(g, rows_of_blocks)| {
            amx::add_products(packed, rows, g * amx::GROUP, rows_of_blocks);
        });
    }

    /// lower += Φᵀ Φ, panel by panel, each panel tile by tile.
    fn multiply(&mut self, rows: usize) {
        let m = self.features;
        let (phi, rows_per_tile) = (&self.plain[..rows * m], self.rows_per_tile);
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

    /// The entries (i, 0), …, (i, i), written to `out`.
    pub fn row(&self, i: usize, out: &mut [f32]) {
        if !self.blocked {
            return out[..=i].copy_from_slice(&self.lower[i * self.features..i * self.features + i + 1]);
        }
        let side = amx::BLOCK;
        let (panel, row) = (i / side, i % side);
        let start = panel * (panel + 1) / 2 * side * side;
        for (j, out) in out[..=i].chunks_mut(side).enumerate() {
            let from = start + j * side * side + row * side;
            out.copy_from_slice(&self.lower[from..from + out.len()]);
        }
    }
}

/// Packed rows of the last tile of a chunk of `n` rows.
fn last_rows(n: usize, rows_per_tile: usize) -> usize {
    match n % TILE {
        0 => rows_per_tile,
        rest => rest.min(rows_per_tile),
    }
}
