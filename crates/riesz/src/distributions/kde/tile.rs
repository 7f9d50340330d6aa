//! One tile of queries against all blocks of centres.

use super::centres::Centres;
use super::order::Extent;
use super::polynomial::polynomial_log_sums;
use super::sums::Tolerance;
use crate::compute::{exact_log_sum, Device, PackedBlock, QUERIES};
use crate::distributions::special::log_sum_exp;
use std::f64::consts::{LN_2, LOG2_E};

/// A sum above it is taken again with a larger shift.
const LARGE: f32 = 1.0e18;
/// Rounding of single precision.
const ROUNDING: f64 = 5.960_464_477_539_063e-8;
/// Error of an exponent that is left alone, up to three dimensions and beyond: there errors of several coordinates cancel.
const NEGLIGIBLE: [f64; 2] = [6e-6, 1.2e-5];
/// Error of an exponent from which on single precision only tells which blocks count.
const WIDE: f64 = 2.4e-4;
/// Error of an exponent from which on single precision is of no use.
const HOPELESS: f64 = 0.25;

/// Queries near each other, and what they are to meet.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    pub device: Device,
    pub centres: &'a Centres,
    /// Rows of d numbers.
    pub queries: &'a [f64],
    pub extent: &'a Extent,
    pub tolerance: Tolerance,
}

/// The blocks in the order of their largest possible contribution.
pub(super) struct BlockOrder {
    pub blocks: Vec<u32>,
    /// log of the most that the blocks from this one on can contribute to one query; one more than there are blocks.
    pub rest: Vec<f64>,
    /// log of the least that all blocks contribute to any query.
    pub least: f64,
}

impl Tile<'_> {
    /// log Σ_j w_j exp(−½‖q − c_j‖²) for every query.
    pub(super) fn log_sums(self) -> Vec<f64> {
        let order = self.order();
        if self.tolerance.is_exact() {
            return self.exact(&order);
        }
        polynomial_log_sums(self, &order).unwrap_or_else(|| {
            let part = 256 * self.centres.columns();
            let parts = self.queries.chunks(part);
            parts.flat_map(|queries| Tile { queries, ..self }.pairs(&order)).collect()
        })
    }

    fn order(self) -> BlockOrder {
        let bounds = self.centres.blocks.iter().map(|block| {
            let (least, most) = block.extent.squared_distances(self.extent);
            (block.log_weight - 0.5 * least, block.log_weight - 0.5 * most)
        });
        let (upper, lower): (Vec<f64>, Vec<f64>) = bounds.unzip();
        let least = lower.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // What all blocks below the floor contribute together is a quarter of what may be left out.
        let left_out = self.tolerance.log_allowed(least) - 4f64.ln();
        let floor = left_out - (upper.len() as f64).ln();
        let most = upper.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // The first block is met whatever the tolerance.
        let counts = |b: &u32| upper[*b as usize] > floor || upper[*b as usize] >= most;
        let mut blocks: Vec<u32> = (0..upper.len() as u32).filter(counts).collect();
        blocks.sort_unstable_by(|&a, &b| upper[b as usize].total_cmp(&upper[a as usize]).then(a.cmp(&b)));
        let mut rest = vec![left_out; blocks.len() + 1];
        for (k, &b) in blocks.iter().enumerate().rev() {
            rest[k] = log_add(upper[b as usize], rest[k + 1]);
        }
        let kept: Vec<f64> = blocks.iter().map(|&b| lower[b as usize]).collect();
        BlockOrder { blocks, rest, least: log_sum_exp(&kept) }
    }

    /// Pair by pair in single precision, relative to the middle of the tile.
    fn pairs(self, order: &BlockOrder) -> Vec<f64> {
        let d = self.centres.columns();
        let origin = self.extent.middle();
        let mut sums = PairSums::new(self.queries, &origin, d);
        let mut packed = PackedBlock::new(d);
        let mut met = Vec::new();
        let mut reach = 0.0_f64;
        let worst = sums.radius() * self.farthest(order, &origin) * ROUNDING;
        if worst > HOPELESS {
            return self.exact(order);
        }
        if worst > WIDE {
            return self.leading(order, &sums, &origin, worst);
        }
        let negligible = NEGLIGIBLE[usize::from(d > 3)];
        let wide = worst > negligible;
        for (k, &b) in order.blocks.iter().enumerate() {
            if k > 0 && (k < 4 || k % 8 == 0) {
                let least = sums.log_sums().into_iter().fold(f64::INFINITY, f64::min);
                if order.rest[k] <= self.tolerance.log_allowed(least) {
                    break;
                }
            }
            packed.pack(self.device, self.centres.block(b as usize), &origin);
            sums.add(self.device, &packed);
            reach = reach.max(packed.radius);
            if wide {
                met.push((b, BlockSums { shift: sums.shift.clone(), sums: sums.latest.clone() }));
            }
        }
        let mut found = sums.log_sums();
        let heaviest = order.blocks.iter().map(|b| self.centres.blocks[*b as usize].log_weight);
        let heaviest = heaviest.fold(f64::NEG_INFINITY, f64::max);
        for (i, (query, found)) in self.queries.chunks_exact(d).zip(&mut found).enumerate() {
            // Centres beyond this distance have less than e⁻¹⁶ of the sum.
            let distance = (2.0 * (heaviest - *found + 16.0)).max(0.0).sqrt();
            let norm = sums.norms[i].sqrt();
            let error = ROUNDING * norm * reach.min(norm + distance);
            if error > negligible {
                *found = self.refined(query, i, &met, sums.shift[i] + sums.sums[i].log2(), error);
            }
        }
        found
    }

    /// Where exponents differ by thousands, few blocks count: single precision finds them, double precision sums them.
    fn leading(self, order: &BlockOrder, sums: &PairSums, origin: &[f64], error: f64) -> Vec<f64> {
        let d = self.centres.columns();
        let mut packed = PackedBlock::new(d);
        let mut most = vec![f64::NEG_INFINITY; sums.norms.len()];
        let mut found: Vec<(u32, f64, Vec<f32>)> = Vec::new();
        for (k, &b) in order.blocks.iter().enumerate() {
            if k > 0 && (k < 4 || k % 8 == 0) {
                let bounds = most.iter().zip(&sums.norms).map(|(most, norm)| most * LN_2 - 0.5 * norm);
                let least = bounds.fold(f64::INFINITY, f64::min) - 2.0 * error;
                if order.rest[k] <= self.tolerance.log_allowed(least) {
                    break;
                }
            }
            packed.pack(self.device, self.centres.block(b as usize), origin);
            let mut maxima = vec![0.0; sums.sums.len()];
            packed.maxima(self.device, &sums.groups, &mut maxima);
            for (most, x) in most.iter_mut().zip(&maxima) {
                *most = most.max(packed.base + f64::from(*x));
            }
            found.push((b, packed.base, maxima));
        }
        // 256 terms of every block left out are 2⁻²⁴ of the largest term together.
        let margin = 32.0 + (found.len() as f64).log2() + 4.0 * error;
        let of = |(i, query): (usize, &[f64])| {
            let counts = found.iter().filter(|(_, base, x)| base + f64::from(x[i]) >= most[i] - margin);
            let terms = counts.map(|(b, ..)| {
                let (most, sum) = exact_log_sum(self.device, self.centres.block(*b as usize), query);
                most + sum.ln()
            });
            log_sum_exp(&terms.collect::<Vec<_>>())
        };
        self.queries.chunks_exact(d).enumerate().map(of).collect()
    }

    /// The largest distance from `origin` to the boxes of the blocks that may be met.
    fn farthest(self, order: &BlockOrder, origin: &[f64]) -> f64 {
        let point = Extent { low: origin.to_vec(), high: origin.to_vec() };
        let extents = order.blocks.iter().map(|b| &self.centres.blocks[*b as usize].extent);
        extents.map(|extent| extent.squared_distances(&point).1).fold(0.0, f64::max).sqrt()
    }

    /// One query again, where the exponents of single precision may be off by `error`: blocks that count in double
    /// precision, the others as they were.
    fn refined(self, query: &[f64], i: usize, met: &[(u32, BlockSums)], log2_sum: f64, error: f64) -> f64 {
        let negligible = -24.0 - (met.len() as f64).log2() - 4.0 * error;
        let terms = met.iter().map(|(b, block)| {
            let log2 = block.shift[i] + f64::from(block.sums[i]).log2();
            if log2 - log2_sum < negligible {
                // A block this small is off by a small part of it, whatever the error.
                return f64::NEG_INFINITY;
            }
            let (most, sum) = exact_log_sum(self.device, self.centres.block(*b as usize), query);
            most + sum.ln()
        });
        log_sum_exp(&terms.collect::<Vec<_>>())
    }

    /// Pair by pair in double precision.
    fn exact(self, order: &BlockOrder) -> Vec<f64> {
        let of = |query: &[f64]| {
            let (mut most, mut sum) = (f64::NEG_INFINITY, 0.0);
            for (k, &b) in order.blocks.iter().enumerate() {
                if k > 0 && order.rest[k] <= self.tolerance.log_allowed(most + f64::ln(sum)) {
                    break;
                }
                let (m, s) = exact_log_sum(self.device, self.centres.block(b as usize), query);
                let higher = m.max(most);
                sum = sum * (most - higher).exp() + s * (m - higher).exp();
                most = higher;
            }
            most + sum.ln()
        };
        self.queries.chunks_exact(self.centres.columns()).map(of).collect()
    }
}

/// What one block contributed to each query: 2^shift · sums.
struct BlockSums {
    shift: Vec<f64>,
    sums: Vec<f32>,
}

/// Running sums 2^shift_i · sums_i, without the factor exp(−½‖q_i‖²).
struct PairSums {
    /// Groups of [`QUERIES`] queries, d runs each.
    groups: Vec<f32>,
    /// ‖q_i‖².
    norms: Vec<f64>,
    shift: Vec<f64>,
    sums: Vec<f64>,
    /// What the latest block added, times 2^−shift_i.
    latest: Vec<f32>,
    columns: usize,
}

impl PairSums {
    fn new(queries: &[f64], origin: &[f64], columns: usize) -> Self {
        let count = queries.len() / columns;
        let padded = count.next_multiple_of(QUERIES);
        let mut groups = vec![0.0; padded * columns];
        let mut norms = vec![0.0; count];
        for (i, (query, norm)) in queries.chunks_exact(columns).zip(&mut norms).enumerate() {
            let group = &mut groups[i / QUERIES * QUERIES * columns..];
            for (k, (x, o)) in query.iter().zip(origin).enumerate() {
                group[k * QUERIES + i % QUERIES] = ((x - o) * LOG2_E.sqrt()) as f32;
                *norm += (x - o) * (x - o);
            }
        }
        let (shift, sums, latest) = (vec![f64::NAN; padded], vec![0.0; padded], vec![0.0; padded]);
        Self { groups, norms, shift, sums, latest, columns }
    }

    /// The largest ‖q_i‖.
    fn radius(&self) -> f64 {
        self.norms.iter().copied().fold(0.0, f64::max).sqrt()
    }

    /// Adds a block, whose sums at the shifts of the end are then in `latest`.
    ///
    /// Shifts are whole numbers, so that changing one is exact; a first block sets them to the largest exponent, and a
    /// later one that overflows them sets them again.
    fn add(&mut self, device: Device, packed: &PackedBlock) {
        let size = QUERIES * self.columns;
        let queries = self.groups.chunks_exact(size).zip(self.latest.chunks_exact_mut(QUERIES));
        let running = self.shift.chunks_exact_mut(QUERIES).zip(self.sums.chunks_exact_mut(QUERIES));
        for ((group, latest), (shift, sums)) in queries.zip(running) {
            let fresh = shift[0].is_nan();
            if !fresh {
                packed.sums(device, group, &relative(shift, packed.base), latest);
            }
            if fresh || latest.iter().any(|s| s.is_nan() || *s > LARGE) {
                let mut most = [0.0; QUERIES];
                packed.maxima(device, group, &mut most);
                for ((most, shift), sum) in most.iter().zip(&mut *shift).zip(&mut *sums) {
                    let higher = packed.base + f64::from(most.ceil());
                    if fresh {
                        *shift = higher;
                    } else if higher > *shift {
                        *sum *= (*shift - higher).exp2();
                        *shift = higher;
                    }
                }
                packed.sums(device, group, &relative(shift, packed.base), latest);
            }
            sums.iter_mut().zip(latest).for_each(|(sum, s)| *sum += f64::from(*s));
        }
    }

    /// Logarithms of the sums.
    fn log_sums(&self) -> Vec<f64> {
        let of = |((norm, shift), sum): ((&f64, &f64), &f64)| (shift + sum.log2()) * LN_2 - 0.5 * norm;
        self.norms.iter().zip(&self.shift).zip(&self.sums).map(of).collect()
    }
}

/// Shifts relative to the base of a block.
fn relative(shift: &[f64], base: f64) -> [f32; QUERIES] {
    let mut out = [0.0; QUERIES];
    out.iter_mut().zip(shift).for_each(|(out, s)| *out = (s - base).clamp(-1e7, 1e7) as f32);
    out
}

/// log(eᵃ + eᵇ).
pub(super) fn log_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY {
        return high;
    }
    high + (low - high).exp().ln_1p()
}
