//! Learning over functions: the tasks users have (part I).

mod calibration;
mod density_ratio;
mod evidence;
mod fit;
pub(crate) mod gaussian_process;
mod geometry;
mod machine;
mod novelty;
mod options;
mod quantile;
mod race;
mod random_features;
mod start;
mod stored;
mod training;

pub use calibration::Calibration;
pub use density_ratio::{
    DensityRatio, DensityRatioLoss, DensityRatioOptions, DensityRatioSummary, Divergences, Sample,
};
pub use gaussian_process::{
    log_marginal_likelihood, ridge_variances, Approximation, Family, GaussianProcess, GaussianProcessOptions,
    Hyperparameters, PosteriorOperator, PosteriorOperatorConfig, Sampling,
};
pub use machine::{HistoryEntry, KernelMachine, Summary};
pub use novelty::{NoveltyDetector, NoveltyOptions};
pub use options::{Bandwidth, ColumnScaling, Options, SolverSpec, Task};
pub use random_features::RandomFeatures;
pub use training::Training;
