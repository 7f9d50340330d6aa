//! Gaussian-process regression (spec 2.5; thesis §3.3.1).

mod inducing;
mod neighbours;
mod operator;
mod options;
mod per_point;
mod process;

pub use operator::{operator_variances, PosteriorOperator, PosteriorOperatorConfig};
pub use options::{Approximation, GaussianProcessOptions, Sampling};
pub use per_point::ridge_variances;
pub use process::GaussianProcess;
