//! A fitted model on disk.

mod container;

pub use container::{
    Container, Tensor, Values, CHECKPOINT, DENSITY, FORMAT_VERSION, MODEL, NOVELTY, POSTERIOR, PROCESS,
    RATIO, SPARSE_PROCESS, TOPICS,
};
