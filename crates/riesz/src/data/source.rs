//! The bytes of a data file, and errors that name their place in it.

use super::expand::Expanded;
use crate::error::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Bytes read at a time.
const BUFFER: usize = 1 << 18;

/// The bytes of a data file, decompressed, and where they come from.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) input: Box<dyn BufRead + Send>,
    /// Length in bytes, known unless the file is compressed.
    pub(super) length: Option<u64>,
    /// Whether the bytes are those of the file at `path`.
    pub(super) is_file: bool,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::Io { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        // Pipes and other special files report a length of zero.
        let length = metadata.is_file().then_some(metadata.len());
        let source = Self::new(path, BufReader::with_capacity(BUFFER, file), length);
        Ok(Self { is_file: source.length.is_some(), ..source })
    }

    /// What `input` holds, decompressed where the name of the file says that it is compressed.
    pub(super) fn new(path: &Path, input: impl BufRead + Send + 'static, length: Option<u64>) -> Self {
        let path = path.to_path_buf();
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz")) {
            let expanded = Expanded::new(MultiGzDecoder::new(input), length.unwrap_or(0));
            return Self {
                path,
                input: Box::new(BufReader::with_capacity(BUFFER, expanded)),
                length: None,
                is_file: false,
            };
        }
        Self { path, input: Box::new(input), length, is_file: false }
    }

    /// Bytes at hand, for tests.
    #[cfg(test)]
    pub(super) fn of_bytes(name: &str, bytes: &[u8], length_known: bool) -> Self {
        let length = length_known.then_some(bytes.len() as u64);
        Self::new(Path::new(name), io::Cursor::new(bytes.to_vec()), length)
    }

    /// The error of a text file, by line.
    pub(super) fn parse_error(&self, line: usize, reason: impl Into<String>) -> Error {
        parse_error(&self.path, line, reason)
    }

    /// The error of a binary file, which has no lines.
    pub(super) fn invalid(&self, reason: impl Into<String>) -> Error {
        self.io_error(io::Error::new(io::ErrorKind::InvalidData, reason.into()))
    }

    /// The error of the operating system, or of the decompressor.
    pub(super) fn io_error(&self, source: io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }

    /// Appends the next line to `line`, without its end; false at the end of the file.
    pub(super) fn read_line(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        let read = match self.input.read_until(b'\n', line) {
            Ok(read) => read,
            Err(source) => return Err(self.io_error(source)),
        };
        if line.last() == Some(&b'\n') && read > 0 {
            line.pop();
            if line.last() == Some(&b'\r') && read > 1 {
                line.pop();
            }
        }
        Ok(read > 0)
    }

    /// Refuses bytes behind the last number of an array.
    pub(super) fn expect_end(&mut self) -> Result<()> {
        match self.input.fill_buf() {
            Ok([]) => Ok(()),
            Ok(_) => Err(self.invalid("bytes follow the last element; a file holds one array")),
            Err(error) => Err(self.io_error(error)),
        }
    }

    /// Fills `bytes` from the input of a binary file.
    pub(super) fn read_exact(&mut self, bytes: &mut [u8], what: &str) -> Result<()> {
        match self.input.read_exact(bytes) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.invalid(format!("the file ends inside its {what}; fetch or write it again")))
            }
            Err(error) => Err(self.io_error(error)),
        }
    }
}

/// The error of a text file, by line.
pub(super) fn parse_error(path: &Path, line: usize, reason: impl Into<String>) -> Error {
    Error::Parse { path: path.to_path_buf(), line, reason: reason.into() }
}
