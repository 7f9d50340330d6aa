//! Features computed by plain Rust, tile by tile, for maps that are no projection followed by an activation.

use super::lanes::{load_all, Kernel, Lanes, LANES};
use super::products::{Group, Sink};
use super::{check_block, Device, FeatureBlock, Kind};
use crate::data::TILE;
use crate::error::Result;
use std::fmt;
use std::sync::Arc;

type Fill = dyn Fn(Device, &[f32], &mut [f32]) -> Result<()> + Send + Sync;

/// A block whose features are written by a function: rows×d numbers in, rows×m features out, both row-major.
#[derive(Clone)]
pub struct ExplicitBlock {
    pub(super) columns: usize,
    pub(super) features: usize,
    /// Rows given to the function at a time.
    chunk: usize,
    fill: Arc<Fill>,
}

impl ExplicitBlock {
    /// A block from a function of many rows, which may fail; a row's features must not depend on the others.
    pub fn by_tiles(
        columns: usize,
        features: usize,
        fill: impl Fn(Device, &[f32], &mut [f32]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<FeatureBlock> {
        Self { columns, features, chunk: CHUNK, fill: Arc::new(fill) }.build()
    }

    /// A block from a function that is called with whole tiles, because a call is dear.
    pub fn by_whole_tiles(
        columns: usize,
        features: usize,
        fill: impl Fn(Device, &[f32], &mut [f32]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<FeatureBlock> {
        Self { columns, features, chunk: TILE, fill: Arc::new(fill) }.build()
    }

    fn build(self) -> Result<FeatureBlock> {
        check_block(self.columns, self.features, self.features)?;
        Ok(FeatureBlock(Kind::Explicit(self)))
    }

    /// A block from a function of one row.
    pub fn by_rows(
        columns: usize,
        features: usize,
        row: impl Fn(&[f32], &mut [f32]) + Send + Sync + 'static,
    ) -> Result<FeatureBlock> {
        Self::by_tiles(columns, features, move |_, x, out| {
            x.chunks_exact(columns).zip(out.chunks_exact_mut(features)).for_each(|(x, out)| row(x, out));
            Ok(())
        })
    }
}

impl fmt::Debug for ExplicitBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExplicitBlock {{ columns: {}, features: {} }}", self.columns, self.features)
    }
}

/// Rows whose features are held at a time, a multiple of sixteen, as [`TILE`] is.
const CHUNK: usize = 256;

/// Sends the features of the rows `x` (row-major) to `sink`.
pub(crate) struct Stream<'a, S> {
    pub device: Device,
    pub block: &'a ExplicitBlock,
    pub x: &'a [f32],
    pub sink: S,
}

impl<S: Sink> Kernel for Stream<'_, S> {
    type Output = Result<()>;

    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self) -> Result<()> {
        let ExplicitBlock { columns: d, features: m, chunk: size, ref fill } = *self.block;
        let mut rows = vec![0.0_f32; size * m];
        let mut phi = vec![0.0_f32; m * LANES];
        for (chunk, x) in self.x.chunks(size * d).enumerate() {
            let count = x.len() / d;
            fill(self.device, x, &mut rows[..count * m])?;
            // Rows that a lane group has too few of are zero.
            let padded = count.next_multiple_of(LANES).min(size);
            rows[count * m..padded * m].fill(0.0);
            for row in (0..count).step_by(LANES) {
                // SAFETY: sixteen rows of m features exist from `row` on, chunks are multiples of sixteen; phi holds m
                // vectors, and m is a multiple of sixteen.
                unsafe {
                    for j in (0..m).step_by(LANES) {
                        let mut tile = load_all::<L, LANES>(rows.as_ptr().add(row * m + j), m);
                        L::transpose(&mut tile);
                        for (k, vector) in tile.iter().enumerate() {
                            vector.store(phi.as_mut_ptr().add((j + k) * LANES));
                        }
                    }
                    let group = Group { phi: phi.as_ptr(), stride: LANES, offset: 0, count: m };
                    self.sink.take::<L>(chunk * size + row, group);
                    self.sink.finish::<L>(chunk * size + row, (count - row).min(LANES));
                }
            }
        }
        Ok(())
    }
}
