//! Density ratios: how much likelier is x under one sample than under another?

mod choose;
mod divergence;
mod options;
mod ratio;
mod samples;

pub use divergence::Divergences;
pub use options::{DensityRatioLoss, DensityRatioOptions};
pub use ratio::{DensityRatio, DensityRatioSummary};
pub use samples::Sample;
