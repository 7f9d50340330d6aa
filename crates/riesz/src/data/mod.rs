//! Rows of numbers: views on memory the caller owns, and readers of data files.

mod cache;
mod cell;
pub mod coding;
mod collect;
mod csv;
mod expand;
pub mod files;
mod idx;
mod libsvm;
pub mod lines;
mod npy;
mod npz;
mod parquet;
pub mod reader;
mod records;
mod rows;
mod selection;
mod source;
mod sparse;
mod spellings;
mod table;
mod target;

pub use cache::{CachedRows, RowCache};
pub(crate) use collect::on_disk;
pub use rows::{tiles, Matrix, Rows, TILE};
pub use sparse::{Indices, Number, Sparse};
