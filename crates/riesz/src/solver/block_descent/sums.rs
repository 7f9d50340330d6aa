//! What a step sums over rows; see [`crate::solver::Sums`].

use crate::compute::Gram;
use crate::solver::sums::Addend;

/// The sums themselves.
#[derive(Default)]
pub struct Part {
    /// Σ w ℓ.
    pub(super) loss: f64,
    /// Σ w.
    pub(super) mass: f64,
    /// Σ k(x, x) over some rows, and their number.
    pub(super) squares: (f64, f64),
    /// One for all outputs together, or one for each.
    pub(super) systems: Vec<System>,
}

/// What one linear system is made from.
#[derive(Default)]
pub(super) struct System {
    /// Weighted curvatures of the rows, summed.
    pub curvature: f64,
    /// ΦᵀR, C×m.
    pub gradient: Vec<f64>,
    /// ΦᵀWΦ.
    pub gram: Gram,
}

impl Addend for Part {
    fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.mass += other.mass;
        self.squares.0 += other.squares.0;
        self.squares.1 += other.squares.1;
        for (own, other) in self.systems.iter_mut().zip(&other.systems) {
            own.curvature += other.curvature;
            own.gradient.iter_mut().zip(&other.gradient).for_each(|(g, o)| *g += o);
            own.gram.add(&other.gram);
        }
    }
}

impl Part {
    /// Σ w ℓ / Σ w.
    pub(super) fn mean_loss(&self) -> f64 {
        self.loss / self.mass
    }
}
