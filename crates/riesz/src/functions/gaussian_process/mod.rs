//! Gaussian-process regression (spec 2.5; thesis §3.3.1).

mod ascent;
pub(crate) mod covariance;
mod exact;
pub(crate) mod factor;
pub(crate) mod family;
mod inducing;
mod learn;
mod likelihood;
mod neighbours;
mod operator;
mod options;
pub(crate) mod pathwise;
mod per_point;
pub(crate) mod process;
pub(crate) mod settle;

pub use covariance::Hyperparameters;
pub use family::Family;
pub use likelihood::log_marginal_likelihood;
pub use operator::{PosteriorOperator, PosteriorOperatorConfig};
pub use options::{Approximation, GaussianProcessOptions, Sampling};
pub use per_point::ridge_variances;
pub use process::GaussianProcess;
