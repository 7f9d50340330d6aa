//! Bandwidths compared on samples that were not learnt from.

use crate::error::Result;
use crate::operator::Conditional;
use crate::solver::{choose_ridges, DualForm, SaddleClosedForm, PARTS};
use crate::space::Basis;

/// Samples on which bandwidths are compared.
pub(super) const RACED: usize = 16_384;
/// Features of the functions in whose span they are compared.
pub(super) const JUDGES: usize = 256;
/// Below this many samples the median distance is taken.
pub(super) const LEAST: usize = 300;
/// Functions of a candidate, at most.
pub(super) const SOME: usize = 256;
/// Errors up to this many times the least are as good; the largest ridge there may be.
pub(super) const NEAR: (f64, f64) = (1.1, 0.1);
/// A narrower kernel has to do this much better.
const BETTER: f64 = 0.9;
/// Candidates, as shares of the median distance, the widest first.
const SHARES: [f64; 6] = [2.0, 1.0, 0.5, 0.25, 0.125, 0.0625];

/// The bandwidth whose closed form leaves the least held-out error in the span of `judge`, which should hold functions of all
/// lengths: candidates are then compared in one norm, whatever they can represent themselves.
pub(super) fn best<'a, T: Conditional + Sync + Copy>(
    operator: T,
    (batch, targets): (T::Batch<'a>, &'a [f32]),
    judge: &Basis,
    median: f64,
    primal: impl Fn(f64) -> Result<Basis>,
) -> Result<f64> {
    let mut best = (median, f64::INFINITY);
    for share in SHARES {
        let bandwidth = share * median;
        let saddle = SaddleClosedForm { operator, primal: primal(bandwidth)?, dual: judge.clone() };
        let parts = saddle.moments_in_parts(batch, targets, PARTS)?;
        let (_, error) = choose_ridges(&parts, DualForm::Free, (None, None), NEAR)?;
        if error < BETTER * best.1 {
            best = (bandwidth, error);
        }
    }
    Ok(best.0)
}
