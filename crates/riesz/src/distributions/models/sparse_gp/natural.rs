//! What is known of the values at a set of inducing inputs, and how likely the set is.

use crate::error::Result;
use crate::linalg::{dot, Cholesky};
use faer::Mat;

/// The weight times the density of v = L⁻¹u given Z, in natural parameters:
///
/// ```text
/// log w q(v) = c + hᵀv − ½vᵀΛv − (m/2) log 2π
/// ```
///
/// A step of mirror descent (thesis 4.3) is linear in them, whatever γ is: with rows of precisions β_i, T batches a pass,
///
/// ```text
/// Λ ← (1−γ)Λ + γI + γT Σ β_i ψ_iψ_iᵀ,   h ← (1−γ)h + γT Σ β_i y_i ψ_i
/// c ← (1−γ)c + γ log p(Z) + γT Σ [½ log(β_i/2π) − ½β_i y_i²]
/// ```
///
/// and u∣Z ~ N(Lm, LΛ⁻¹Lᵀ), m = Λ⁻¹h, log w = c − ½ log∣Λ∣ + ½hᵀm. Both equal, step by step, the recursion of spec 4 in
/// which every step integrates u out: there log w depends on the factor of Λ at every batch, here on the last.
#[derive(Clone, Debug)]
pub struct Natural {
    /// Λ, lower triangle.
    pub(super) precision: Mat<f64>,
    /// h.
    pub(super) shift: Vec<f64>,
    /// c.
    pub(super) constant: f64,
    /// log p(Z).
    pub(super) log_prior: f64,
}

/// u∣Z and log w, ready for use.
#[derive(Clone, Debug)]
pub(super) struct Posterior {
    /// Factor of Λ.
    pub(super) system: Cholesky,
    /// m = Λ⁻¹h.
    pub(super) mean: Vec<f64>,
    /// log w.
    pub(super) log_weight: f64,
}

impl Natural {
    /// The prior of m values at a set of log prior mass `log_prior`.
    pub(super) fn prior(m: usize, log_prior: f64) -> Self {
        Self { precision: Mat::identity(m, m), shift: vec![0.0; m], constant: log_prior, log_prior }
    }

    /// The part of a step that has no data: (w q)^{1−γ} (p(Z) p(v))^γ.
    pub(super) fn blend(&mut self, step: f64) {
        let keep = 1.0 - step;
        for j in 0..self.shift.len() {
            self.precision.col_as_slice_mut(j)[j..].iter_mut().for_each(|v| *v *= keep);
            self.precision[(j, j)] += step;
        }
        self.shift.iter_mut().for_each(|v| *v *= keep);
        self.constant = keep * self.constant + step * self.log_prior;
    }

    /// u∣Z and log w.
    pub(super) fn posterior(&self) -> Result<Posterior> {
        let system = Cholesky::of_covariance(|| self.precision.clone(), &mut || Ok(()))?;
        let mean = system.solve(&self.shift);
        let log_weight = self.constant - 0.5 * system.log_det() + 0.5 * dot(&self.shift, &mean);
        Ok(Posterior { system, mean, log_weight })
    }
}
