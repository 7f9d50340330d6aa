//! The centres of a kernel density, in blocks of neighbours.

use super::order::{order, Extent, Leaves};
use crate::compute::{check_length, CentreBlock, CENTRES};
use crate::data::Rows;
use crate::distributions::special::log_sum_exp;
use crate::error::{Error, Result};

/// Centres c_j with weights w_j, in blocks of at most 256 neighbours.
#[derive(Clone, Debug)]
pub struct Centres {
    columns: usize,
    /// Per block, `columns` runs of [`CENTRES`] numbers; what is not there repeats the block's first centre.
    values: Vec<f64>,
    /// Per block, [`CENTRES`] logarithms; −∞ for what is not there.
    log_weights: Vec<f64>,
    pub(super) blocks: Vec<BlockBounds>,
}

/// What is known of a block without looking into it.
#[derive(Clone, Debug)]
pub(super) struct BlockBounds {
    pub extent: Extent,
    /// Logarithm of the sum of its weights.
    pub log_weight: f64,
    len: usize,
}

/// Leaves of at most [`CENTRES`] points.
struct Blocks;

impl Leaves for Blocks {
    fn is_leaf(&self, count: usize, _: &Extent) -> bool {
        count <= CENTRES
    }

    fn multiple(&self) -> usize {
        CENTRES
    }
}

impl Centres {
    /// Takes the rows of `centres` (n×d, row-major, finite) whose weight is not zero.
    pub fn new(centres: &[f64], log_weights: &[f64], columns: usize) -> Result<Self> {
        let rows = points("centres", centres, columns)?;
        check_length("log_weights", rows.len(), log_weights.len())?;
        if let Some(&value) = log_weights.iter().find(|w| w.is_nan() || **w == f64::INFINITY) {
            return Err(Error::OutOfRange { name: "log_weights", value, range: "[-inf, inf)" });
        }
        Ok(Self::of(centres, log_weights, columns))
    }

    /// [`Centres::new`] of arrays that fit each other.
    pub(super) fn of(centres: &[f64], log_weights: &[f64], columns: usize) -> Self {
        let kept: Vec<usize> =
            (0..log_weights.len()).filter(|&j| log_weights[j] != f64::NEG_INFINITY).collect();
        let points: Vec<f64> =
            kept.iter().flat_map(|&j| &centres[j * columns..(j + 1) * columns]).copied().collect();
        if points.is_empty() {
            return Self { columns, values: Vec::new(), log_weights: Vec::new(), blocks: Vec::new() };
        }
        let (indices, leaves) = order(&points, columns, &Blocks);
        let mut values = vec![0.0; leaves.len() * columns * CENTRES];
        let mut logs = vec![f64::NEG_INFINITY; leaves.len() * CENTRES];
        let mut blocks = Vec::with_capacity(leaves.len());
        let parts = values.chunks_exact_mut(columns * CENTRES).zip(logs.chunks_exact_mut(CENTRES));
        for (leaf, (values, logs)) in leaves.into_iter().zip(parts) {
            let members = &indices[leaf.range.clone()];
            for j in 0..CENTRES {
                let i = members.get(j).map_or(members[0], |&i| i) as usize;
                for (k, x) in points[i * columns..(i + 1) * columns].iter().enumerate() {
                    values[k * CENTRES + j] = *x;
                }
            }
            for (log, &i) in logs.iter_mut().zip(members) {
                *log = log_weights[kept[i as usize]];
            }
            let (len, log_weight) = (members.len(), log_sum_exp(logs));
            blocks.push(BlockBounds { extent: leaf.extent, log_weight, len });
        }
        Self { columns, values, log_weights: logs, blocks }
    }

    /// Number d of coordinates.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The square of the least possible distance from a query to the centres of each block.
    pub(super) fn least_squares(&self, query: &[f64]) -> Vec<f64> {
        let of = |block: &BlockBounds| {
            let axes = query.iter().zip(&block.extent.low).zip(&block.extent.high);
            axes.map(|((x, low), high)| (low - x).max(x - high).max(0.0).powi(2)).sum()
        };
        self.blocks.iter().map(of).collect()
    }

    /// The centres of block `b`.
    pub(super) fn block(&self, b: usize) -> CentreBlock<'_> {
        let size = self.columns * CENTRES;
        CentreBlock {
            values: &self.values[b * size..(b + 1) * size],
            log_weights: &self.log_weights[b * CENTRES..(b + 1) * CENTRES],
            len: self.blocks[b].len,
        }
    }
}

/// Rows of finite numbers, as many as have an index.
pub(super) fn points<'a>(what: &'static str, values: &'a [f64], columns: usize) -> Result<Rows<'a>> {
    let rows = Rows::double(values, columns)?;
    rows.check_finite(what)?;
    match u32::try_from(rows.len()) {
        Ok(_) => Ok(rows),
        Err(_) => {
            let expected = format!("those of {} rows at most", u32::MAX);
            Err(Error::Length { what, expected, found: values.len() })
        }
    }
}
