//! Decompression that ends at a limit: a few kilobytes can stand for gigabytes.

use std::io::{self, Read};

/// What a compressed file may always expand to.
const ALWAYS: u64 = 16 << 20;
/// How many times its length it may expand to beyond that. Numbers in text take a tenth to a fifth of their room, tables that
/// are nearly all zeros a fiftieth; the format itself ends at a thousandth.
const TIMES: u64 = 100;

/// What a decompressor gives, up to the limit of what it was given.
pub(super) struct Expanded<R> {
    inner: R,
    most: u64,
    left: u64,
}

impl<R: Read> Expanded<R> {
    /// `inner` decompresses `length` bytes.
    pub(super) fn new(inner: R, length: u64) -> Self {
        let most = length.saturating_mul(TIMES).saturating_add(ALWAYS);
        Self { inner, most, left: most }
    }
}

impl<R: Read> Read for Expanded<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => {
                self.left = left;
                Ok(read)
            }
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "expands to more than {} bytes, which is 16 MiB and a hundred times its length; decompress it first \
                     and read that, if it is sound",
                    self.most
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::reader::{read_bytes, ReadOptions};
    use flate2::{write::GzEncoder, Compression};
    use std::io::Write;

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = b"0\n".repeat(1 << 16);
        for _ in 0..400 {
            encoder.write_all(&zeros).unwrap();
        }
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 1 << 16, "{}", bomb.len());
        let error = read_bytes("bomb.csv.gz", &bomb, &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains("a hundred times its length"), "{error}");
    }

    #[test]
    fn what_compresses_well_is_read() {
        let mut whole = Vec::new();
        Expanded::new(io::repeat(0).take(16 << 20), 0).read_to_end(&mut whole).unwrap();
        assert_eq!(whole.len(), 16 << 20);
        assert!(Expanded::new(io::repeat(0).take((16 << 20) + 1), 0).read_to_end(&mut whole).is_err());
        assert!(Expanded::new(io::repeat(0).take(17 << 20), 1 << 20).read_to_end(&mut whole).is_ok());
    }
}
