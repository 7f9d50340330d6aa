//! Kernel densities: q̃(θ) = Σ_j α_j K_h(θ − θ_j), fast.

mod centres;
mod crowd;
mod order;
mod sums;
mod tile;

pub use centres::Centres;
pub use sums::{log_kernel_sums, log_sums, Tolerance};
