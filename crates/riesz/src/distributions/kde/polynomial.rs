//! Many queries close together, in one or two dimensions: one polynomial for all of them.
//!
//! With coordinates relative to the middle of the tile,
//!
//! ```text
//! Σ_j w_j exp(−½‖q − c_j‖²) = exp(−½‖q‖²) Σ_j w_j exp(−½‖c_j‖²) Π_k e^{q_k c_jk}
//!                           ≈ exp(−½‖q‖²) Σ_{a,b<16} q_1ᵃ q_2ᵇ / (a! b!) M_ab,   M_ab = Σ_j w_j exp(−½‖c_j‖²) c_j1ᵃ c_j2ᵇ.
//! ```
//!
//! A centre costs sixteen fused multiplications of vectors for the whole tile, and its error is bounded: for ∣q_k∣ ≤ r the
//! series of e^{q_k c_k} leaves at most R(c_k) = (r∣c_k∣)¹⁶/16! e^{r∣c_k∣}, so that centre j is off by at most
//! w_j exp(−½‖c_j‖²) (R(c_1) e^{r∣c_2∣} + e^{r∣c_1∣} R(c_2)). The largest such number over the box of a block is in closed
//! form, since both factors are log-concave.

use super::order::Extent;
use super::tile::{log_add, BlockOrder, Tile};
use crate::compute::{polynomial, PackedBlock, POWERS};
use std::f64::consts::LN_2;

/// Fewest queries for which moments are cheaper than pairs, by the number of columns.
const FEWEST: [usize; 2] = [12, 48];
/// log 16!.
const LOG_FACTORIAL: f64 = 30.671_860_106_080_67;

/// The sums of [`Tile::log_sums`] by one polynomial; `None` where it would not pay or not be within the tolerance.
pub(super) fn polynomial_log_sums(tile: Tile<'_>, order: &BlockOrder) -> Option<Vec<f64>> {
    let d = tile.centres.columns();
    let count = tile.queries.len() / d;
    let (_, half_width) = tile.extent.widest();
    if d > 2 || count < FEWEST[d - 1] || half_width > tile.tolerance.polynomial_width() {
        return None;
    }
    let origin = tile.extent.middle();
    let mut packed = PackedBlock::new(d);
    let mut moments = vec![0.0; if d == 1 { POWERS } else { POWERS * POWERS }];
    // Half of the tolerance for what is left out, half for the polynomial.
    let allowed = tile.tolerance.log_allowed(order.least) - LN_2;
    let mut base = None;
    let mut log_error = f64::NEG_INFINITY;
    for (k, &b) in order.blocks.iter().enumerate() {
        if order.rest[k] <= allowed {
            break;
        }
        packed.pack(tile.device, tile.centres.block(b as usize), &origin);
        let base = *base.get_or_insert(packed.base);
        packed.add_moments(tile.device, (base - packed.base) as f32, &mut moments);
        let bounds = &tile.centres.blocks[b as usize];
        log_error =
            log_add(log_error, bounds.log_weight + log_remainder(&bounds.extent, &origin, half_width));
    }
    divide_by_factorials(&mut moments);
    let points: Vec<f64> =
        tile.queries.chunks_exact(d).flat_map(|q| q.iter().zip(&origin).map(|(q, o)| q - o)).collect();
    let scaled: Vec<f64> = points.iter().map(|x| x * LN_2.sqrt()).collect();
    let mut found = vec![0.0; count];
    polynomial(tile.device, &moments, &scaled, d, &mut found);
    let base = base? * LN_2;
    for (value, q) in found.iter_mut().zip(points.chunks_exact(d)) {
        *value = value.ln() + base - 0.5 * q.iter().map(|x| x * x).sum::<f64>();
        // Also where a moment overflowed, or the polynomial is not positive.
        let most = tile.tolerance.log_allowed(*value) - LN_2;
        if most.is_nan() || log_error > most {
            return None;
        }
    }
    Some(found)
}

/// M_ab / (a! b!).
fn divide_by_factorials(moments: &mut [f64]) {
    let mut factorials = [1.0; POWERS];
    for a in 1..POWERS {
        factorials[a] = factorials[a - 1] * a as f64;
    }
    let columns = moments.len() / POWERS;
    for (i, moment) in moments.iter_mut().enumerate() {
        *moment /= factorials[i / columns] * factorials[i % columns];
    }
}

/// log of the largest exp(−½‖c‖²) (R(c_1) e^{r∣c_2∣} + e^{r∣c_1∣} R(c_2)) over the box.
fn log_remainder(extent: &Extent, origin: &[f64], r: f64) -> f64 {
    // The largest of exp(−½c² + rc) and of the same times (rc)¹⁶/16!, over the distances of one axis.
    let axis = |k: usize| {
        let (low, high) = (extent.low[k] - origin[k], extent.high[k] - origin[k]);
        let least = low.max(-high).max(0.0);
        let most = high.max(-low);
        let whole = |c: f64| c * (r - 0.5 * c);
        let power = POWERS as f64;
        let peak = (0.5 * (r + (r * r + 4.0 * power).sqrt())).max(least).min(most);
        let remainder = whole(peak) + power * (r * peak).ln() - LOG_FACTORIAL;
        (whole(r.max(least).min(most)), remainder)
    };
    let (whole, remainder) = axis(0);
    if origin.len() == 1 {
        return remainder;
    }
    let (second_whole, second_remainder) = axis(1);
    log_add(remainder + second_whole, whole + second_remainder)
}
