//! Models whose posteriors are learnt: what is observed, given the parameters.

mod gaussian_prior;
mod generalised_linear;
mod mixture;
mod mode;

pub use generalised_linear::{Family, GeneralisedLinear};
pub use mixture::TiedMixture;
pub mod lda;
pub mod sparse_gp;
