//! A fitted model on disk.

mod container;

pub use container::{Container, Tensor, Values, CHECKPOINT, FORMAT_VERSION, MODEL, NOVELTY, PROCESS, RATIO};
