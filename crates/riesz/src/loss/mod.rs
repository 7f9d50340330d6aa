//! Losses J: how wrong is the value?
//!
//! One file per loss. A loss acts on a row of outputs u ∈ ℝᶜ and a row of targets y; what a solver needs
//! of many rows at once (residuals, weights) is derived from it here, one dynamic call per tile.

mod absolute;
mod crammer_singer;
mod density_ratio_kl;
mod density_ratio_square;
mod epsilon_insensitive;
mod exponential;
mod hinge;
mod huber;
mod kink;
mod logistic;
mod novelty;
mod poisson;
mod quantile;
mod separable;
mod softmax;
mod spec;
mod square;
mod squared_hinge;

#[cfg(test)]
mod laws;

pub use absolute::Absolute;
pub use crammer_singer::{CrammerSinger, SmoothedCrammerSinger};
pub use density_ratio_kl::DensityRatioKl;
pub use density_ratio_square::DensityRatioSquare;
pub use epsilon_insensitive::EpsilonInsensitive;
pub use hinge::Hinge;
pub use huber::Huber;
pub use kink::{Shortfall, Smoothed};
pub use logistic::Logistic;
pub use novelty::Novelty;
pub use poisson::Poisson;
pub use quantile::{Quantile, SmoothedQuantile};
pub use separable::Separable;
pub use softmax::Softmax;
pub use spec::LossSpec;
pub use square::Square;
pub use squared_hinge::SquaredHinge;

/// A convex loss ℓ(u, y).
pub trait Loss: Send + Sync {
    /// The name users type.
    fn name(&self) -> &'static str;

    /// Number C of outputs u.
    fn outputs(&self) -> usize;

    /// Numbers per target: C for most of regression, 1 (a class index or ±1) for classification.
    fn targets(&self) -> usize {
        1
    }

    /// ℓ(u, y).
    fn value(&self, u: &[f32], y: &[f32]) -> f64;

    /// ∇ℓ(u, y) with respect to u, written to `out`.
    fn derivative(&self, u: &[f32], y: &[f32], out: &mut [f32]);

    /// A bound h on the largest eigenvalue of ∇²ℓ over all u, where there is one.
    fn curvature(&self) -> Option<f32>;

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
    /// smoothing is then measured in residuals. `None` where widths are measured in the margin, which is one.
    fn residual_share(&self) -> Option<f32> {
        None
    }
}

/// A loss with a usable Fenchel conjugate ℓ*(a, y) = sup_u ⟨a, u⟩ − ℓ(u, y).
pub trait Conjugate: Loss {
    /// ℓ*(a, y); +∞ outside its domain.
    fn conjugate(&self, a: &[f32], y: &[f32]) -> f64;

    /// A subgradient of ℓ*(·, y) at a point a of the domain.
    fn conjugate_derivative(&self, a: &[f32], y: &[f32], out: &mut [f32]);
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
