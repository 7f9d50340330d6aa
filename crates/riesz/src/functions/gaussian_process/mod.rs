//! Gaussian-process regression (spec 2.5; thesis §3.3.1).

mod ascent;
mod covariance;
mod exact;
mod factor;
mod inducing;
mod learn;
mod likelihood;
mod neighbours;
mod operator;
mod options;
mod pathwise;
mod per_point;
mod process;
mod settle;

pub use covariance::Hyperparameters;
pub use likelihood::log_marginal_likelihood;
pub use operator::{PosteriorOperator, PosteriorOperatorConfig};
pub use options::{Approximation, GaussianProcessOptions, Sampling};
pub use per_point::ridge_variances;
pub use process::GaussianProcess;
