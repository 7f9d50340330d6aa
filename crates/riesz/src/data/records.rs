//! Records and fields of delimited text, with or without quotes.

use super::cell::leading_decimal;
use super::source::Source;
use crate::error::Result;
use std::borrow::Cow;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A record without its byte-order mark and line end.
pub(super) fn strip(record: &[u8]) -> &[u8] {
    let record = record.strip_prefix(BYTE_ORDER_MARK).unwrap_or(record);
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}

pub(super) fn is_comment(record: &[u8]) -> bool {
    record.first() == Some(&b'#')
}

/// Where a scan stands with respect to quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    /// Before the first character of a field.
    Start,
    /// In a field without quotes, or behind the closing quote.
    Closed,
    /// Inside quotes.
    Open,
    /// Behind a quote that closes the field unless another follows.
    Closing,
}

impl Quote {
    /// The state after `bytes` as well.
    pub(super) fn after(mut self, bytes: &[u8], delimiter: u8) -> Self {
        if self != Self::Open && !bytes.contains(&b'"') {
            return Self::Closed;
        }
        for &byte in bytes {
            self = match (self, byte) {
                (Self::Start | Self::Closing, b'"') | (Self::Open, 0..=b'!' | b'#'..) => Self::Open,
                (Self::Open, b'"') => Self::Closing,
                (_, byte) if is_delimiter(byte, delimiter) => Self::Start,
                (Self::Start, b' ') => Self::Start,
                _ => Self::Closed,
            };
        }
        self
    }
}

fn is_delimiter(byte: u8, delimiter: u8) -> bool {
    byte == delimiter || delimiter == b' ' && byte == b'\t'
}

/// The records of a file: lines, or several where quotes hold a line end.
pub(super) struct Records {
    pub(super) source: Source,
    delimiter: u8,
    /// Lines read so far.
    line: usize,
    /// Whether a record was found: comments are read over in front of the data only, later `#` may be a label.
    started: bool,
}

impl Records {
    pub(super) fn new(source: Source, delimiter: u8) -> Self {
        Self { source, delimiter, line: 0, started: false }
    }

    /// Hands the bytes at hand and the number of the line before them to `take`, which returns how many bytes and lines of
    /// them it has used. Before the first record nothing is at hand.
    pub(super) fn at_hand(&mut self, take: impl FnOnce(&[u8], usize) -> (usize, usize)) -> Result<usize> {
        if !self.started {
            return Ok(0);
        }
        let (bytes, lines) = match self.source.input.fill_buf() {
            Ok(buffer) => take(buffer, self.line),
            Err(error) => return Err(self.source.io_error(error)),
        };
        self.source.input.consume(bytes);
        self.line += lines;
        Ok(lines)
    }

    /// Puts the next record that is not blank into `record` and returns the line it starts on.
    pub(super) fn next(&mut self, record: &mut Vec<u8>) -> Result<Option<usize>> {
        loop {
            record.clear();
            if !self.source.read_line(record)? {
                return Ok(None);
            }
            self.line += 1;
            if self.line == 1 && record.starts_with(BYTE_ORDER_MARK) {
                record.drain(..BYTE_ORDER_MARK.len());
            }
            if record.trim_ascii().is_empty() || is_comment(record) && !self.started {
                continue;
            }
            self.started = true;
            let first = self.line;
            self.close_quotes(record)?;
            return Ok(Some(first));
        }
    }

    /// Appends lines until every quote is closed.
    fn close_quotes(&mut self, record: &mut Vec<u8>) -> Result<()> {
        let first = self.line;
        let mut quote = Quote::Start.after(record, self.delimiter);
        while quote == Quote::Open {
            record.push(b'\n');
            let length = record.len();
            if !self.source.read_line(record)? {
                return Err(self.source.parse_error(first, "a quote opened here is never closed"));
            }
            self.line += 1;
            quote = quote.after(&record[length..], self.delimiter);
        }
        Ok(())
    }
}

/// The fields of a record, trimmed, still in their quotes.
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    delimiter: u8,
}

impl<'a> Fields<'a> {
    pub(super) fn of(record: &'a [u8], delimiter: u8) -> Self {
        let rest = if delimiter == b' ' { record.trim_ascii() } else { record };
        Self { rest: Some(rest), delimiter }
    }

    /// The next field if it is a plain decimal: most of most files, read in one pass.
    #[inline]
    pub(super) fn next_decimal(&mut self) -> Option<f32> {
        let rest = self.rest?;
        let (value, length) = leading_decimal(rest)?;
        match rest.get(length) {
            None => self.rest = None,
            Some(&byte) if byte == self.delimiter => self.skip(&rest[length + 1..]),
            Some(_) => return None,
        }
        Some(value)
    }

    /// Goes on behind a delimiter.
    #[inline]
    fn skip(&mut self, behind: &'a [u8]) {
        self.rest = Some(if self.delimiter == b' ' { behind.trim_ascii_start() } else { behind });
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let from = closing_quote(rest).unwrap_or(0);
        let Some(length) = rest[from..].iter().position(|&byte| is_delimiter(byte, self.delimiter)) else {
            self.rest = None;
            return Some(rest.trim_ascii());
        };
        self.skip(&rest[from + length + 1..]);
        Some(rest[..from + length].trim_ascii())
    }
}

/// The place behind the quotes a field begins with, if it does.
#[inline]
fn closing_quote(field: &[u8]) -> Option<usize> {
    let blanks = field.iter().take_while(|&&byte| byte == b' ').count();
    if field.get(blanks) != Some(&b'"') {
        return None;
    }
    let mut place = blanks + 1;
    while let Some(length) = field[place..].iter().position(|&byte| byte == b'"') {
        place += length + 1;
        if field.get(place) != Some(&b'"') {
            return Some(place);
        }
        place += 1;
    }
    Some(field.len())
}

/// A field without the quotes around it.
#[inline]
pub(super) fn unquoted(field: &[u8]) -> &[u8] {
    match field {
        [b'"', inner @ .., b'"'] => inner.trim_ascii(),
        _ => field,
    }
}

/// The text of a field: its quotes removed, doubled quotes made single.
pub(super) fn text(field: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(unquoted(field));
    if field.first() == Some(&b'"') && text.contains("\"\"") {
        return Cow::Owned(text.replace("\"\"", "\""));
    }
    text
}
