//! Single lines of delimited text, for rows that come one by one.

use super::cell::{cell_reason, parse_f32};
use super::csv;
use super::records::{text, Fields};

pub use super::cell::is_missing;

/// The delimiter that cuts a line into the most fields.
pub fn delimiter_of(line: &[u8]) -> u8 {
    csv::sniff(line)
}

/// Whether a line names columns: there is not a single number in it.
pub fn is_header(line: &[u8], delimiter: u8) -> bool {
    csv::is_header(line, None, delimiter)
}

/// The fields of a line, without quotes.
pub fn fields(line: &[u8], delimiter: u8) -> impl Iterator<Item = String> + '_ {
    Fields::of(line, delimiter).map(|field| text(field).into_owned())
}

/// The number in a cell of the column `name`, or what is wrong with it.
pub fn number(name: &str, cell: &str) -> Result<f32, String> {
    match parse_f32(cell.as_bytes()) {
        Some(value) if value.is_finite() => Ok(value),
        _ => Err(cell_reason(name, cell.as_bytes())),
    }
}
