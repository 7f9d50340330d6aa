//! Rows of numbers: views on memory the caller owns, and readers of data files.

mod cell;
mod csv;
mod expand;
mod idx;
mod libsvm;
mod npy;
mod npz;
pub mod reader;
mod records;
mod rows;
mod selection;
mod source;
mod sparse;
mod table;
mod target;

pub use rows::{tiles, Matrix, Rows, TILE};
pub use sparse::{Indices, Number, Sparse};
