//! The quantile loss.

use super::absolute::residual;
use super::kink::{is_width, Ramp};
use super::unit::quartiles;
use super::{finite_within, Conjugate, Loss, Separable, Unit, DOMAIN_TOLERANCE};
use crate::error::{in_range, Error, Result};

/// Quantile (pinball) loss ℓ(u, y) = max(−τr, (1 − τ)r), r = u − y, 0 < τ < 1; its minimiser is the τ-quantile.
///
/// ℓ' = 1 − τ if r ≥ 0, else −τ; no curvature bound (see [`SmoothedQuantile`]); ℓ*(a) = ay on −τ ≤ a ≤ 1 − τ;
/// ∇ℓ* = y. Several levels at once are a [`Separable`](super::Separable) loss that shares one target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The level τ.
    pub level: f64,
}

/// Quantile loss ½|r| + (½ − τ)r with the kink of |r| rounded over a width w > 0; at most w/4 below it.
///
/// ℓ'' ≤ 1/2w; ℓ*(a) = ay + w(a + τ − ½)² on −τ ≤ a ≤ 1 − τ; ∇ℓ* = y + 2w(a + τ − ½).
/// Only the even part is rounded: the share of rows below the minimiser then differs from τ by O(w²), where rounding
/// the loss itself would leave (½ − τ)w times the density.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmoothedQuantile {
    /// The level τ.
    pub level: f64,
    /// The width w > 0.
    pub width: f32,
}

/// One loss for each level, all of one target.
pub(super) fn build(_units: &[f64], levels: &[f64]) -> Result<Box<dyn Loss>> {
    check(levels)?;
    Ok(Box::new(Separable::shared(levels.iter().map(|&level| Quantile { level }).collect())))
}

/// Levels increase strictly from above 0 to below 1, also in single precision, and there is at least one.
fn check(levels: &[f64]) -> Result<()> {
    if levels.is_empty() {
        return Err(Error::Empty { what: "quantiles", needed: "one level" });
    }
    let mut last = 0.0;
    for &level in levels {
        let single = level as f32;
        let inside = single > 0.0 && single < 1.0;
        in_range("quantiles", level, inside, "(0, 1); divide percentages by 100")?;
        if single <= last {
            return Err(Error::Conflict(format!("quantiles should increase, but {level} follows {last}")));
        }
        last = single;
    }
    Ok(())
}

/// −τ ≤ a ≤ 1 − τ.
fn in_domain(a: f64, level: f64) -> bool {
    (-level - DOMAIN_TOLERANCE..=1.0 - level + DOMAIN_TOLERANCE).contains(&a)
}

impl Loss for Quantile {
    fn name(&self) -> &'static str {
        "quantile"
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let (r, level) = (residual(f64::from(u[0]), y), self.level);
        (-level * r).max((1.0 - level) * r)
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = (if u[0] >= y[0] { 1.0 - self.level } else { -self.level }) as f32;
    }

    fn local_curvature(&self, _u: &[f32], _y: &[f32]) -> f32 {
        0.0
    }

    /// The width is w times 4τ(1 − τ): towards the ends, where the loss is almost flat on one side, a wide kink would
    /// pull the quantile to a distance of its own.
    fn smoothed(&self, width: f32) -> Option<Box<dyn Loss>> {
        let level = self.level;
        let smoothed = |width| Box::new(SmoothedQuantile { level, width }) as Box<dyn Loss>;
        is_width(width).then(|| smoothed((4.0 * level * (1.0 - level)) as f32 * width))
    }

    /// 2τ(1 − τ): exact for residuals of either sign in the shares τ and 1 − τ and of one size.
    fn residual_share(&self) -> Option<f32> {
        Some((2.0 * self.level * (1.0 - self.level)) as f32)
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }

    /// Median and quartiles. The unit of a constant is small, not one: rounding a kink moves the quantile by a part of it.
    fn unit(&self, column: &[(f32, f32)]) -> Unit {
        const CONSTANT: f64 = 1e-6;
        match quartiles(column) {
            (centre, 0.0) => Unit::of_numbers(centre, (CONSTANT * centre.abs()).max(CONSTANT * CONSTANT)),
            (centre, spread) => Unit::of_numbers(centre, spread),
        }
    }

    /// Quantiles in increasing order. Such a rearrangement is never farther from the true ones (Chernozhukov,
    /// Fernández-Val and Galichon 2010).
    fn predict(&self, u: &mut [f32]) {
        u.sort_by(f32::total_cmp);
    }

    fn levels(&self) -> Vec<f64> {
        vec![self.level]
    }
}

impl Conjugate for Quantile {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let a = f64::from(a[0]);
        finite_within(in_domain(a, self.level), a * f64::from(y[0]))
    }

    fn conjugate_derivative(&self, _a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = y[0];
    }

    fn project(&self, a: &mut [f32], _y: &[f32]) {
        a[0] = a[0].clamp(-self.level as f32, (1.0 - self.level) as f32);
    }
}

impl Loss for SmoothedQuantile {
    fn name(&self) -> &'static str {
        "quantile"
    }

    fn value(&self, u: &[f32], y: &[f32]) -> f64 {
        let r = residual(f64::from(u[0]), y);
        0.5 * Ramp::new(self.width).value(r.abs()) + (0.5 - self.level) * r
    }

    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]) {
        let r = residual(f64::from(u[0]), y);
        let even = Ramp::new(self.width).slope(r.abs()) * r.signum() as f32;
        out[0] = 0.5 * even + (0.5 - self.level) as f32;
    }

    fn curvature(&self) -> Option<f32> {
        Some(0.5 / self.width)
    }

    /// The half-quadratic weight ½/max(|r|, w): that parabola touches ℓ at u and lies above it everywhere.
    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32 {
        let r = residual(f64::from(u[0]), y).abs();
        (0.5 / r.max(f64::from(self.width))) as f32
    }

    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        Some(self)
    }
}

impl Conjugate for SmoothedQuantile {
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64 {
        let a = f64::from(a[0]);
        let even = a + self.level - 0.5;
        finite_within(in_domain(a, self.level), a * f64::from(y[0]) + f64::from(self.width) * even * even)
    }

    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]) {
        out[0] = y[0] + 2.0 * self.width * (a[0] + (self.level - 0.5) as f32);
    }

    fn project(&self, a: &mut [f32], _y: &[f32]) {
        a[0] = a[0].clamp(-self.level as f32, (1.0 - self.level) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a fine grid of targets, the smoothed loss is stationary where the loss itself is: rows beyond w on either
    /// side count as before, those within cancel.
    #[test]
    fn smoothing_does_not_move_the_quantile_of_a_flat_density() {
        let targets: Vec<f32> = (0..4_000).map(|i| i as f32 / 4_000.0).collect();
        for level in [0.1, 0.5, 0.8] {
            let loss = SmoothedQuantile { level, width: 0.05 };
            let mut slope = [0.0];
            let sum: f64 = targets
                .iter()
                .map(|&y| {
                    loss.derivative(&[level as f32], &[y], &mut slope);
                    f64::from(slope[0])
                })
                .sum();
            assert!(sum.abs() < 1.0, "{level}: {sum}");
        }
    }
}
