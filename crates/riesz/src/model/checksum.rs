//! The checksum that ends a file.
//!
//! The last tensor holds the CRC-32 of every byte before its values: it finds every flipped bit and every burst of at most
//! 32, and all but one of 2³² other changes. It is against accidents: whoever changes a file on purpose can sum it anew, and
//! what is behind the checksum is checked all the same.

use flate2::Crc;
use std::io::{self, Read, Write};

/// Name of the last tensor.
pub(super) const CHECKSUM: &str = "checksum";
/// Its length in bytes.
pub(super) const LENGTH: usize = 4;

/// Passes bytes on and sums them up.
pub(super) struct Summed<T> {
    inner: T,
    sum: Crc,
}

impl<T> Summed<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, sum: Crc::new() }
    }
}

impl<T: Write> Summed<T> {
    /// Ends a file with its checksum.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.inner.write_all(&self.sum.sum().to_le_bytes())
    }
}

impl<T: Read> Summed<T> {
    /// Whether the checksum that follows is that of the bytes before it.
    pub(super) fn agrees(mut self) -> io::Result<bool> {
        let mut found = [0; LENGTH];
        self.inner.read_exact(&mut found)?;
        Ok(u32::from_le_bytes(found) == self.sum.sum())
    }
}

impl<T: Write> Write for Summed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Summed<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.sum.update(&bytes[..read]);
        Ok(read)
    }
}
