//! Losses J: how wrong is the value?
//!
//! One file per loss, and one line in the table of [`spec`](LossSpec) for each that has a name. A loss acts on a row of
//! outputs u ∈ ℝᶜ and a row of targets y; what a solver needs of many rows at once (residuals, weights) is derived from
//! it here, one dynamic call per tile. What a fit wants to know (where to start, in which units, when to stop) has
//! defaults that follow from two facts, the domain of the targets and how fast the loss grows; a loss that differs
//! says so in its own file.

mod absolute;
mod constant;
mod crammer_singer;
mod density_ratio_kl;
mod density_ratio_square;
mod domain;
mod epsilon_insensitive;
mod exponential;
mod hinge;
mod huber;
mod kink;
mod least_squares;
mod log_cosh;
mod logistic;
mod novelty;
mod poisson;
mod quantile;
mod rounded;
mod separable;
mod softmax;
mod spec;
mod square;
mod squared_hinge;
mod unit;

#[cfg(test)]
mod laws;

pub(crate) use constant::column;
pub use crammer_singer::SmoothedCrammerSinger;
pub use density_ratio_kl::DensityRatioKl;
pub use density_ratio_square::DensityRatioSquare;
pub use domain::Domain;
pub use kink::{Shortfall, Smoothed};
pub(crate) use logistic::two_probabilities;
pub use novelty::Novelty;
pub use quantile::SmoothedQuantile;
pub use rounded::{Rounded, Rounding};
pub use separable::Separable;
pub(crate) use softmax::softmax_into;
pub use spec::named::*;
pub use spec::LossSpec;
pub use unit::Unit;

/// A convex loss ℓ(u, y).
pub trait Loss: Send + Sync {
    /// The name users type.
    fn name(&self) -> &'static str;

    /// Number C of outputs u; one unless the loss says otherwise.
    fn outputs(&self) -> usize {
        1
    }

    /// Numbers per target: C for most of regression, 1 (a class index or ±1) for classification.
    fn targets(&self) -> usize {
        1
    }

    /// ℓ(u, y).
    fn value(&self, u: &[f32], y: &[f32]) -> f64;

    /// ∇ℓ(u, y) with respect to u, written to `out`.
    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]);

    /// A bound h on the largest eigenvalue of ∇²ℓ over all u, where there is one.
    fn curvature(&self) -> Option<f32> {
        None
    }

    /// A bound on the largest eigenvalue of ∇²ℓ at u: the weight of a row in a Newton step.
    fn local_curvature(&self, u: &[f32], y: &[f32]) -> f32;

    /// Residuals −w ∇ℓ of many rows: `u`, `out` are n×C row-major, `y` is n×targets.
    fn residuals(&self, u: &[f32], y: &[f32], weights: &[f32], out: &mut [f32]) {
        let (c, t) = (self.outputs(), self.targets());
        for (i, r) in out.chunks_exact_mut(c).enumerate() {
            self.derivative(&u[i * c..][..c], &y[i * t..][..t], r);
            r.iter_mut().for_each(|v| *v *= -weights[i]);
        }
    }

    /// Weighted local curvatures w h(u) of many rows.
    fn curvatures(&self, u: &[f32], y: &[f32], weights: &[f32], out: &mut [f32]) {
        let (c, t) = (self.outputs(), self.targets());
        for (i, h) in out.iter_mut().enumerate() {
            *h = weights[i] * self.local_curvature(&u[i * c..][..c], &y[i * t..][..t]);
        }
    }

    /// Whether outputs differ so much in curvature that each deserves a linear system of its own.
    fn has_separate_curvatures(&self) -> bool {
        false
    }

    /// Weighted local curvatures of many rows with respect to one output, where they are separate.
    fn output_curvatures(&self, _output: usize, u: &[f32], y: &[f32], weights: &[f32], out: &mut [f32]) {
        self.curvatures(u, y, weights, out);
    }

    /// Σ w ℓ over many rows.
    fn total(&self, u: &[f32], y: &[f32], weights: &[f32]) -> f64 {
        let (c, t) = (self.outputs(), self.targets());
        let row = |(i, &w): (usize, &f32)| match w {
            0.0 => 0.0,
            _ => f64::from(w) * self.value(&u[i * c..][..c], &y[i * t..][..t]),
        };
        weights.iter().enumerate().map(row).sum()
    }

    /// A differentiable stand-in with a curvature bound that tends to this loss as `width` → 0; the fast
    /// solver lets the width shrink. `None` where the loss needs none or the width is not positive.
    fn smoothed(&self, _width: f32) -> Option<Box<dyn Loss>> {
        None
    }

    /// The mean loss over the mean size of a residual, about, where the loss grows in proportion to it: the width of a
    /// smoothing is then measured in residuals, and extreme targets count for little. `None` where the loss grows like a
    /// square, or where widths are measured in the margin, which is one.
    fn residual_share(&self) -> Option<f32> {
        None
    }

    /// The conjugate, where there is a usable one.
    fn as_conjugate(&self) -> Option<&dyn Conjugate> {
        None
    }

    // Targets.

    /// What the targets are.
    fn domain(&self) -> Domain {
        Domain::Real
    }

    /// The unit that a column of (target, weight) is brought to: mean and deviation; median and interquartile range where
    /// the loss grows in proportion to residuals, since outliers do not move these; none for classes.
    fn unit(&self, column: &[(f32, f32)]) -> Unit {
        match (self.domain(), self.residual_share()) {
            (Domain::Real | Domain::NonNegative, None) => Unit::by_moments(column),
            (Domain::Real | Domain::NonNegative, Some(_)) => Unit::by_quartiles(column),
            _ => Unit::IDENTITY,
        }
    }

    /// The best constant: argmin_u Σ w ℓ(u, y). Where that is of no use, as for margins, whose best constant is the
    /// commonest class whatever its share p, it is 2p − 1.
    fn start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        constant::by_domain(self, targets, weights)
    }

    /// Where a stream starts, by its first rows: at the best constant for numbers, and for classes at zero, since what
    /// has not been seen may be yet to come.
    fn stream_start(&self, targets: &[f32], weights: &[f32]) -> Vec<f32> {
        match self.domain().is_class() {
            true => vec![0.0; self.outputs()],
            false => self.start(targets, weights),
        }
    }

    /// A target, in its unit, as the square loss should see it where the evidence of small data assumes that loss:
    /// extremes brought back to ±3 where the loss cares little for them.
    fn square_target(&self, y: f32) -> f64 {
        match self.residual_share() {
            Some(_) => f64::from(y).clamp(-3.0, 3.0),
            None => f64::from(y),
        }
    }

    // Predictions.

    /// From a row of outputs u to predictions in the units of the targets, in place. A sum of losses asks its first part
    /// for the whole row.
    fn predict(&self, _u: &mut [f32]) {}

    /// How a row of outputs becomes a probability for each class. `None` for numbers, and for margins, which have to be
    /// calibrated.
    fn probabilities(&self) -> Option<Probabilities> {
        None
    }

    /// For each output the share of targets that belongs below it, where that is what defines it.
    fn levels(&self) -> Vec<f64> {
        Vec::new()
    }

    // Solvers.

    /// ρ of block descent unless given, where f starts at the constant `start`: a tenth of the curvature, which for a
    /// loss that is linear in a residual is its slope over the residual.
    fn damping(&self, _start: &[f32]) -> f64 {
        0.1 * self.residual_share().map_or(1.0, f64::from)
    }

    /// The curvature to compare with that of the square loss, whose evidence found the share `noise` of noise in the
    /// variance of small data. Absolute deviations of normal noise s cost as much as squares of curvature 1/√2s.
    fn nominal_curvature(&self, _start: &[f32], noise: f64) -> f64 {
        let bound = self.curvature().map_or(f64::INFINITY, f64::from);
        match self.residual_share() {
            _ if self.domain().is_class() => 0.5,
            Some(share) => (f64::from(share) / (2.0 * noise).sqrt()).min(bound),
            None => 1.0,
        }
    }

    /// A curvature h for step sizes: with targets in their [`unit`](Loss::unit), steps of γ ≤ 1/h on E ℓ(u, y) do not
    /// overshoot. It is the bound of ∇²ℓ where there is one. For a loss with a kink it is the bound of the loss smoothed
    /// over `width`: such steps move u by no more than about that. For a loss without any bound it is the
    /// curvature at `start`, which bounds nothing far above it.
    fn step_curvature(&self, start: &[f32], width: f32) -> f32 {
        let smoothed = || self.smoothed(width).and_then(|smoothed| smoothed.curvature());
        let local = || self.local_curvature(start, &vec![0.0; self.targets()]);
        self.curvature().or_else(smoothed).unwrap_or_else(local)
    }

    /// Early stopping ends a fit whose held-out loss fell by less than this share. Of a regression that is one per cent of
    /// the deviation: two of its square.
    fn stopping_tolerance(&self) -> f64 {
        match self.residual_share() {
            Some(_) => 0.01,
            None => 0.02,
        }
    }
}

/// Writes class probabilities, one number per class, from a row of outputs. They add up to one in double precision.
pub type Probabilities = fn(&[f32], &mut [f64]);

/// A loss with a usable Fenchel conjugate ℓ*(a, y) = sup_u ⟨a, u⟩ − ℓ(u, y).
pub trait Conjugate: Loss {
    /// ℓ*(a, y); +∞ outside its domain.
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64;

    /// A subgradient of ℓ*(·, y) at a point a of the domain.
    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]);

    /// The nearest point of the (closed) domain of ℓ*(·, y), in place.
    fn project(&self, a: &mut [f32], y: &[f32]);
}

/// How far outside the domain of a conjugate rounding may carry a point, per coordinate.
const DOMAIN_TOLERANCE: f64 = 1e-6;

/// `value` in the domain of a conjugate, +∞ outside.
fn finite_within(inside: bool, value: f64) -> f64 {
    if inside {
        value
    } else {
        f64::INFINITY
    }
}

/// p log p, continued by 0 at p ≤ 0.
fn p_log_p(p: f64) -> f64 {
    if p > 0.0 {
        p * p.ln()
    } else {
        0.0
    }
}
