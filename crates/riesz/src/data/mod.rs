//! Rows of numbers: views on memory the caller owns, and readers of data files.

mod csv;
mod idx;
mod libsvm;
mod npy;
mod npz;
pub mod reader;
mod rows;
mod sparse;

pub use rows::{tiles, Matrix, Rows, TILE};
pub use sparse::{Indices, Number, Sparse};
