//! Kernel densities: p(x) = Σ_j w_j K_h(x − x_j), fast.
//!
//! [`log_kernel_sums`] is the sum itself, for inputs in units of the bandwidth; [`KernelDensity`] is an estimated density
//! with its bandwidth, its normalisation and its file.

mod centres;
mod density;
mod options;
mod order;
mod polynomial;
mod sums;
mod tile;

pub use centres::Centres;
pub use density::{DensitySummary, KernelDensity};
pub use options::{BandwidthRule, DensityKernel, DensityOptions, Shape};
pub(crate) use sums::fitting_log_kernel_sums;
pub use sums::{log_kernel_sums, log_sums, Tolerance};
