//! wip
pub mod compute;
pub mod data;
pub mod error;
pub mod kernel;
pub mod loss;
pub mod model;
pub mod operator;
pub mod random;
pub mod solver;
pub mod space;
pub use error::{Error, Result};
