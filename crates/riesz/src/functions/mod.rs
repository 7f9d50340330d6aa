//! Learning over functions: the tasks users have (part I).

mod density_ratio;
mod gaussian_process;
pub(crate) mod geometry;
mod kept_rows;
mod kernel_machine;
mod novelty;
mod online;
mod quantile;
mod random_features;
mod stored;

pub use crate::gaussian::{log_marginal_likelihood, Family, Hyperparameters};
pub use density_ratio::{
    DensityRatio, DensityRatioLoss, DensityRatioOptions, DensityRatioSummary, Divergences, Sample,
};
pub use gaussian_process::{
    operator_variances, ridge_variances, Approximation, GaussianProcess, GaussianProcessOptions,
    PosteriorOperator, PosteriorOperatorConfig, Sampling,
};
pub use kernel_machine::{
    Bandwidth, Calibration, ColumnScaling, FilesSeen, HistoryEntry, KernelMachine, Metric, MetricForm,
    MetricSpec, Options, SolverSpec, Summary, Task, Training,
};
pub use novelty::{NoveltyDetector, NoveltyOptions};
pub use online::{likeliest, ConstraintStatus, Memory, OnlineMachine, OnlineOptions, Progressive};
pub use random_features::RandomFeatures;
