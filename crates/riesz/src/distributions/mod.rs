//! Learning over distributions: Bayes' rule as an optimisation, solved by particle mirror descent.
//!
//! The posterior of θ after observations x_1 … x_N is the minimiser over densities q of
//!
//! ```text
//! L(q) = −Σ_n E_q log p(x_n∣θ) + KL(q ‖ p)                                                   (thesis 4.2)
//! ```
//!
//! and stochastic mirror descent with the divergence KL as its prox is one multiplicative step per mini-batch of B rows:
//!
//! ```text
//! q_{t+1} ∝ q_t^{1−γ_t} p^{γ_t} Π_{b in batch} p(x_b∣θ)^{γ_t N/B}                             (thesis 4.3)
//! ```
//!
//! Only values of log-likelihood and log-prior are needed, never a gradient. Densities are not a linear space, so these
//! parts share the driver with learning over functions, not its solvers.

mod adaptive;
mod bend;
mod bridge;
mod clusters;
mod diagnostics;
mod factor;
pub mod kde;
mod model;
pub mod models;
mod paper;
mod posterior;
mod proposal;
pub mod weights;

pub use crate::linalg::special;
pub use adaptive::{adaptive, AdaptiveOptions, Renewal};
pub use model::{Model, NormalApproximation, Particles};
pub use paper::{paper, PaperOptions, Strategy};
pub use posterior::{Compared, Estimate, Evidence, Posterior, Report, Stage, StageKind};
