//! Models and checkpoints in files.
//!
//! Whatever has a file implements [`Stored`]: it says how it becomes a [`Container`] and comes out of one again, and
//! has files and bytes for that. A container is a JSON header and named tensors, written as safetensors:
//!
//! ```text
//! 8 bytes     length of the layout, little endian
//! layout      JSON, padded with spaces: {"__metadata__": {"riesz": header}, name: {dtype, shape, data_offsets}, …}
//! values      the tensors, back to back, little endian, row-major; the last is the checksum of all bytes before it
//! ```
//!
//! `header` is itself JSON text, an object with sorted keys that holds at least `format_version` and `kind`. Nothing
//! else enters the bytes, so equal contents give equal bytes.
//!
//! Names and types of the columns a model was fitted on stand beside it, as [`Columns`].
//!
//! A file is hostile until shown otherwise. Every length is compared with the length of the file before memory is asked
//! for. Beyond the values themselves, reading needs at most about five times the length of the layout and, for parsed
//! entries, some twenty megabytes; constants in `layout.rs` and `header.rs` bound both.

mod checksum;
mod columns;
mod container;
mod header;
mod layout;
mod replace;
mod stored;
mod tensor;

#[cfg(test)]
mod tests;

pub use columns::{Column, ColumnType, Columns};
pub use container::Container;
pub use header::FORMAT_VERSION;
pub(crate) use replace::prepare;
pub use replace::replace;
pub use stored::Stored;
pub use tensor::{Tensor, Values};

use crate::error::Error;
use std::io;

/// Why a file could not be read.
enum Fault {
    Format(String),
    Io(io::Error),
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Format(reason)
    }
}

impl From<io::Error> for Fault {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
}

fn about(name: &str, reason: &str) -> Error {
    Error::Format(about_text(name, reason))
}

fn about_text(name: &str, reason: &str) -> String {
    format!("tensor {:?}: {reason}", clip(name))
}

/// Shortens text of unknown origin for a message.
fn clip(text: &str) -> String {
    const LONGEST: usize = 200;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
