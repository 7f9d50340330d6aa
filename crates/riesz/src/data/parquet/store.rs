//! The bytes of a Parquet file, none of which is taken for granted.

use super::thrift::Walk;
use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

/// What a page may always expand to, and how many times its length beyond that.
const ALWAYS: i64 = 16 << 20;
const TIMES: i64 = 1_000;
/// Bytes of a page header that are tried, one after the other: statistics may stand in it.
const HEADERS: [u64; 3] = [1 << 10, 1 << 14, 1 << 20];

/// A file, or bytes in memory.
#[derive(Clone)]
pub(super) enum Store {
    File(Arc<File>, u64),
    Bytes(Bytes),
}

impl Store {
    fn short() -> ParquetError {
        ParquetError::EOF("it points beyond its end".to_owned())
    }

    /// Sees that every list of the metadata at the end of the file is backed by bytes.
    pub(super) fn check_metadata(&self) -> Result<()> {
        let tail = self.get_bytes(self.len().checked_sub(8).ok_or_else(Self::short)?, 8)?;
        if &tail[4..] != b"PAR1" {
            return Err(ParquetError::General("it does not end as a Parquet file does".to_owned()));
        }
        let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
        let start = (self.len() - 8).checked_sub(length).ok_or_else(Self::short)?;
        let metadata = self.get_bytes(start, length as usize)?;
        let broken = |_| ParquetError::General("its metadata are damaged".to_owned());
        Walk::new(&metadata).structure(&mut |_, _, _| {}).map_err(broken)
    }

    /// Sees that a column lies in the file, and that its pages are no larger than their bytes can stand for. `text` says
    /// that it holds text.
    pub(super) fn check_column(&self, column: &ColumnChunkMetaData, text: bool) -> Result<()> {
        let first = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let (Ok(mut place), Ok(length)) = (u64::try_from(first), u64::try_from(column.compressed_size()))
        else {
            return Err(Self::short());
        };
        let end = place.checked_add(length).filter(|&end| end <= self.len()).ok_or_else(Self::short)?;
        while place < end {
            let page = self.page(place, end)?;
            page.check(text, column.compression() != Compression::UNCOMPRESSED)?;
            place += page.header + page.packed as u64;
        }
        Ok(())
    }

    /// What the header of a page says.
    fn page(&self, place: u64, end: u64) -> Result<Page> {
        for most in HEADERS {
            let bytes = self.get_bytes(place, most.min(end - place) as usize)?;
            let (mut walk, mut page) = (Walk::new(&bytes), Page::default());
            let read = walk.structure(&mut |outer, field, number| match (outer, field) {
                (0, 2) => page.size = number,
                (0, 3) => page.packed = number,
                (5, 2) | (8, 4) => page.encoding = number,
                (7, 1) => page.dictionary = number,
                _ => {}
            });
            if read.is_ok() {
                page.header = walk.place() as u64;
                let left = end - place - page.header;
                let inside = u64::try_from(page.packed).is_ok_and(|packed| packed <= left);
                return if inside { Ok(page) } else { Err(Self::short()) };
            }
        }
        Err(ParquetError::General("the header of a page is damaged".to_owned()))
    }
}

/// The numbers of a page.
#[derive(Default)]
struct Page {
    header: u64,
    packed: i64,
    size: i64,
    encoding: i64,
    /// Values of a dictionary.
    dictionary: i64,
}

impl Page {
    fn check(&self, text: bool, compressed: bool) -> Result<()> {
        let most =
            if compressed { self.packed.saturating_mul(TIMES).saturating_add(ALWAYS) } else { self.packed };
        // A value of a dictionary takes four bytes at least.
        if self.size < 0
            || self.size > most
            || self.dictionary.checked_mul(4).is_none_or(|bytes| bytes > self.size)
        {
            return Err(ParquetError::General(
                "a page claims to be larger than its bytes can stand for".to_owned(),
            ));
        }
        match (text, self.encoding) {
            (true, 6 | 7) => Err(ParquetError::NYI(
                "text in the encodings DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY; write it with a dictionary".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

impl Length for Store {
    fn len(&self) -> u64 {
        match self {
            Self::File(_, length) => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

impl ChunkReader for Store {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Box<dyn Read>> {
        match self {
            // Pages are read as a whole by `get_bytes`; here it is their headers.
            Self::File(file, _) => {
                Ok(Box::new(BufReader::with_capacity(1 << 10, At { file: file.clone(), place: start })))
            }
            Self::Bytes(bytes) => {
                let rest = usize::try_from(start)
                    .ok()
                    .filter(|&start| start <= bytes.len())
                    .ok_or_else(Self::short)?;
                Ok(Box::new(io::Cursor::new(bytes.slice(rest..))))
            }
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end =
            start.checked_add(length as u64).filter(|&end| end <= self.len()).ok_or_else(Self::short)?;
        match self {
            Self::Bytes(bytes) => Ok(bytes.slice(start as usize..end as usize)),
            Self::File(file, _) => {
                let (mut bytes, mut file) = (Vec::with_capacity(length), &**file);
                file.seek(SeekFrom::Start(start))?;
                match file.take(length as u64).read_to_end(&mut bytes)? == length {
                    true => Ok(bytes.into()),
                    false => Err(Self::short()),
                }
            }
        }
    }
}

/// A place in a file: other readers of it go to their own before they read.
struct At {
    file: Arc<File>,
    place: u64,
}

impl Read for At {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(self.place))?;
        let read = file.read(bytes)?;
        self.place += read as u64;
        Ok(read)
    }
}
