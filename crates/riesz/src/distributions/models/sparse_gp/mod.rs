//! Sparse Gaussian processes: a posterior over sets of inducing inputs and the values there (thesis B.6.1, spec 4).
//!
//! ```text
//! y = c + f(x) + ε,   f ~ GP(0, k),   ε ~ N(0, 1/β)
//! p(y∣u, Z) = N(y; K_bm K_mm⁻¹ u, β⁻¹),   u∣Z ~ N(0, K_mm)
//! ```
//!
//! A particle is a set Z of m inputs; what is known of the values u of f there is normal, in closed form, and its mass is the
//! weight of the particle. With L Lᵀ = K_mm, v = L⁻¹u and ψ(x) = L⁻¹k_Z(x) all is linear: see [`Natural`].
//!
//! [`Mode::Paper`] is the published recursion. [`Mode::Adaptive`] is what predicts best: see [`SparseProcess`].

mod accumulate;
mod inducing;
mod natural;
mod options;
mod particle;
mod process;
mod stored;
#[cfg(test)]
mod tests;
mod weighting;

pub use natural::Natural;
pub use options::{Mode, SparseProcessOptions};
pub use process::SparseProcess;
pub use weighting::Weighting;
