//! Rows on disk: an f32 matrix in a file that is read where it is needed.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0–7 | `rieszrow` |
//! | 8–15 | where the header begins |
//! | 16 … | n×d values, row-major, f32 |
//! | … | of the target, where there is one: n numbers (f64), and the number of each row's text among its texts (u32) |
//! | … | the header, JSON |
//! | last 4 | CRC-32 of everything from byte 16 to here |
//!
//! Numbers are little-endian. A cache is read by positioned reads, not mapped: mapped files count against a limit of the
//! address space, and one that shrinks would end the process.

use super::spellings::WholeTarget;
use crate::error::{Error, Result};
use flate2::Crc;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const MAGIC: &[u8; 8] = b"rieszrow";
const VERSION: u32 = 1;
/// Where the values begin.
const VALUES: u64 = 16;
/// Bytes read and written at a time.
const BUFFER: usize = 1 << 20;
/// Rows that lie less than this many times as wide apart as they are many are read together.
const SPREAD: usize = 8;

/// What a cache holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    version: u32,
    pub rows: usize,
    pub columns: usize,
    pub names: Vec<String>,
    pub first_index: usize,
    target: Option<TargetHeader>,
    /// The files the rows are from and how they were read, as [`super::files::fingerprint`] tells them.
    pub sources: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TargetHeader {
    name: String,
    numbers: bool,
    /// The different texts, where these were kept.
    texts: Option<Vec<String>>,
}

impl Header {
    pub(super) fn new(columns: usize, names: Vec<String>, first_index: usize, sources: String) -> Self {
        Self { version: VERSION, rows: 0, columns, names, first_index, target: None, sources }
    }
}

/// Rows on disk, and their target. Values are read when they are asked for; nothing of them is kept in memory.
#[derive(Debug)]
pub struct RowCache {
    path: PathBuf,
    file: File,
    header: Header,
    /// The first error of the operating system: see [`RowCache::fault`].
    fault: OnceLock<(io::ErrorKind, String)>,
    /// Whether the file goes with this.
    temporary: bool,
}

/// Some rows of a cache.
#[derive(Clone, Copy, Debug)]
pub struct CachedRows<'a> {
    cache: &'a RowCache,
    first: usize,
    len: usize,
}

impl RowCache {
    /// Opens a cache and sees that it is whole: all of it is read once.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<WholeTarget>)> {
        let failed = |source| refused(path, source);
        let mut file = File::open(path).map_err(failed)?;
        let (header, end) = read_header(&mut file).map_err(failed)?;
        check_sum(&mut file).map_err(failed)?;
        let target = read_target(&mut file, &header, end).map_err(failed)?;
        let path = path.to_path_buf();
        Ok((Self { path, file, header, fault: OnceLock::new(), temporary: false }, target))
    }

    /// The header of a cache: what it is of.
    pub(super) fn header_of(path: &Path) -> Result<Header> {
        let failed = |source| refused(path, source);
        let mut file = File::open(path).map_err(failed)?;
        read_header(&mut file).map(|(header, _)| header).map_err(failed)
    }

    /// Lets the file go with this: at once where the system keeps open files without a name.
    pub(super) fn vanish(mut self) -> Result<Self> {
        if cfg!(unix) {
            fs::remove_file(&self.path).map_err(|source| Error::Io { path: self.path.clone(), source })?;
        } else {
            self.temporary = true;
        }
        Ok(self)
    }

    /// All rows.
    pub fn rows(&self) -> CachedRows<'_> {
        CachedRows { cache: self, first: 0, len: self.header.rows }
    }

    /// Number of columns d.
    pub fn columns(&self) -> usize {
        self.header.columns
    }

    /// Names of the columns, none where the files have none.
    pub fn names(&self) -> &[String] {
        &self.header.names
    }

    /// Number the files give their first column.
    pub fn first_index(&self) -> usize {
        self.header.first_index
    }

    /// Where the file is, or was.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first error there was in reading rows. Reading goes on with zeros after one: whoever computes with rows asks in the
    /// end, and before anything is written.
    pub(super) fn fault(&self) -> Result<()> {
        match self.fault.get() {
            None => Ok(()),
            Some((kind, text)) => {
                let source =
                    io::Error::new(*kind, format!("{text}; the cache was changed or lost during the fit"));
                Err(Error::Io { path: self.path.clone(), source })
            }
        }
    }

    /// Reads rows over `out`.
    fn read(&self, rows: Range<usize>, out: &mut [f32]) {
        let start = VALUES + (rows.start * self.header.columns * size_of::<f32>()) as u64;
        self.read_values(start, out);
    }

    fn read_values(&self, start: u64, out: &mut [f32]) {
        if let Err(error) = read_at(&self.file, bytemuck::cast_slice_mut(out), start) {
            out.fill(0.0);
            let _ = self.fault.set((error.kind(), error.to_string()));
        }
        if cfg!(target_endian = "big") {
            out.iter_mut().for_each(|value| *value = f32::from_bits(value.to_bits().swap_bytes()));
        }
    }
}

impl Drop for RowCache {
    fn drop(&mut self) {
        if self.temporary {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl<'a> CachedRows<'a> {
    /// Number of columns d.
    pub fn columns(&self) -> usize {
        self.cache.header.columns
    }

    /// Number of rows n.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rows `range` alone.
    pub(super) fn slice(&self, range: Range<usize>) -> Self {
        Self { first: self.first + range.start, len: range.len(), ..*self }
    }

    /// Whether these are the same rows of the same cache.
    pub(super) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.cache, other.cache) && (self.first, self.len) == (other.first, other.len)
    }

    /// The first error there was in reading rows of the cache.
    pub(super) fn fault(&self) -> Result<()> {
        self.cache.fault()
    }

    /// Reads all of these rows into a buffer.
    pub(super) fn read<'b>(&self, out: &'b mut Vec<f32>) -> &'b [f32] {
        out.resize(self.len * self.columns(), 0.0);
        self.cache.read(self.first..self.first + self.len, out);
        out
    }

    /// One value.
    pub(super) fn value(&self, row: usize, column: usize) -> f32 {
        let place = (self.first + row) * self.columns() + column;
        let mut value = [0.0];
        self.cache.read_values(VALUES + (place * size_of::<f32>()) as u64, &mut value);
        value[0]
    }

    /// Reads the rows at `indices` behind what `out` holds: together where they lie near each other, else one by one.
    pub(super) fn gather(&self, indices: &[u32], out: &mut Vec<f32>) {
        let (d, start) = (self.columns(), out.len());
        out.resize(start + indices.len() * d, 0.0);
        let (Some(&least), Some(&most)) = (indices.iter().min(), indices.iter().max()) else { return };
        let span = (most - least) as usize + 1;
        let rows = out[start..].chunks_exact_mut(d.max(1)).zip(indices);
        if span > SPREAD * indices.len() {
            return rows.for_each(|(out, &i)| {
                self.cache.read(self.first + i as usize..self.first + i as usize + 1, out);
            });
        }
        let mut near = Vec::new();
        self.slice(least as usize..most as usize + 1).read(&mut near);
        rows.for_each(|(out, &i)| out.copy_from_slice(&near[(i - least) as usize * d..][..d]));
    }
}

/// A cache that is being written: under another name until it is whole.
pub(super) struct Writer {
    path: PathBuf,
    partial: PathBuf,
    out: Option<BufWriter<File>>,
    sum: Crc,
    /// Bytes behind byte 16.
    written: u64,
}

impl Writer {
    /// Begins a cache in a folder, which is made where there is none.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let partial = path.with_file_name(format!(".{name}-{}.partial", std::process::id()));
        let failed = |source| refused(path, source);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).open(&partial).map_err(failed)?;
        let mut writer = Self::over(file, path);
        writer.partial = partial;
        writer.put(|out| out.write_all(&[&MAGIC[..], &[0; 8]].concat()))?;
        Ok(writer)
    }

    fn over(file: File, path: &Path) -> Self {
        let out = Some(BufWriter::with_capacity(BUFFER, file));
        Self { path: path.to_path_buf(), partial: PathBuf::new(), out, sum: Crc::new(), written: 0 }
    }

    fn put(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
        let written = self.out.as_mut().map_or(Ok(()), write);
        written.map_err(|source| refused(&self.path, source))
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum.update(bytes);
        self.written += bytes.len() as u64;
        self.put(|out| out.write_all(bytes))
    }

    /// Adds rows.
    pub(super) fn push(&mut self, values: &[f32]) -> Result<()> {
        if cfg!(target_endian = "little") {
            return self.bytes(bytemuck::cast_slice(values));
        }
        values.iter().try_for_each(|value| self.bytes(&value.to_le_bytes()))
    }

    /// Adds the target and the header, and gives the file its name.
    pub(super) fn finish(mut self, mut header: Header, target: Option<&WholeTarget>) -> Result<()> {
        header.rows = self.written as usize / size_of::<f32>() / header.columns.max(1);
        if let Some(target) = target {
            for number in target.numbers.iter().flatten() {
                self.bytes(&number.to_le_bytes())?;
            }
            for code in target.codes.iter().flat_map(|codes| &codes.1) {
                self.bytes(&code.to_le_bytes())?;
            }
            let texts = target.codes.as_ref().map(|codes| codes.0.texts.clone());
            let (name, numbers) = (target.name().to_owned(), target.is_numeric());
            header.target = Some(TargetHeader { name, numbers, texts });
        }
        let place = VALUES + self.written;
        let text =
            serde_json::to_vec(&header).map_err(|error| refused(&self.path, io::Error::other(error)))?;
        self.bytes(&text)?;
        let sum = self.sum.sum().to_le_bytes();
        self.put(|out| out.write_all(&sum))?;
        self.put(|out| out.seek(SeekFrom::Start(8)).and_then(|_| out.write_all(&place.to_le_bytes())))?;
        self.put(BufWriter::flush)?;
        self.out = None;
        fs::rename(&self.partial, &self.path).map_err(|source| refused(&self.path, source))
    }
}

impl Drop for Writer {
    /// What is not finished is not left behind.
    fn drop(&mut self) {
        if self.partial != Path::new("") {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// An error of a cache, with what to do.
fn refused(path: &Path, source: io::Error) -> Error {
    let advice = match source.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => "delete the file: it is made again",
        _ => {
            "a cache holds every row in single precision; name another folder for it if there is no room here"
        }
    };
    let source = io::Error::new(source.kind(), format!("{source}; {advice}"));
    Error::Io { path: path.to_path_buf(), source }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a cache of rows, or a damaged one: {what}"))
}

/// The header and where it begins, if the sections before it have their lengths.
fn read_header(file: &mut File) -> io::Result<(Header, u64)> {
    let length = file.metadata()?.len();
    let (mut magic, mut place) = ([0; 8], [0; 8]);
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut magic)
        .and_then(|()| file.read_exact(&mut place))
        .map_err(|_| damaged("it is too short"))?;
    let place = u64::from_le_bytes(place);
    if magic != *MAGIC {
        return Err(damaged("it begins with other bytes"));
    }
    if place < VALUES || place.saturating_add(4) > length {
        return Err(damaged("it is shorter than it says"));
    }
    file.seek(SeekFrom::Start(place))?;
    let mut text = Vec::new();
    file.take(length - 4 - place).read_to_end(&mut text)?;
    let header: Header = serde_json::from_slice(&text).map_err(|error| damaged(&error.to_string()))?;
    if header.version != VERSION {
        return Err(damaged(&format!("version {} is not {VERSION}", header.version)));
    }
    let per_row = header
        .target
        .as_ref()
        .map_or(0, |target| 8 * usize::from(target.numbers) + 4 * usize::from(target.texts.is_some()));
    let row = header.columns.checked_mul(size_of::<f32>()).and_then(|row| row.checked_add(per_row));
    let bytes = row.and_then(|row| row.checked_mul(header.rows)).map(|bytes| bytes as u64);
    match header.columns > 0 && bytes == Some(place - VALUES) {
        true => Ok((header, place)),
        false => Err(damaged("rows and columns do not make its length")),
    }
}

/// Reads everything once.
fn check_sum(file: &mut File) -> io::Result<()> {
    let mut left = file.metadata()?.len() - 4 - VALUES;
    file.seek(SeekFrom::Start(VALUES))?;
    let (mut buffer, mut sum) = (vec![0; BUFFER], Crc::new());
    while left > 0 {
        let part = &mut buffer[..left.min(BUFFER as u64) as usize];
        file.read_exact(part)?;
        sum.update(part);
        left -= part.len() as u64;
    }
    let mut found = [0; 4];
    file.read_exact(&mut found)?;
    match u32::from_le_bytes(found) == sum.sum() {
        true => Ok(()),
        false => Err(damaged("its checksum is that of other bytes")),
    }
}

/// The target, which lies before the header at `end`.
fn read_target(file: &mut File, header: &Header, end: u64) -> io::Result<Option<WholeTarget>> {
    let Some(TargetHeader { name, numbers, texts }) = header.target.clone() else { return Ok(None) };
    let codes_start = end - if texts.is_some() { 4 * header.rows as u64 } else { 0 };
    let section = |file: &mut File, start: u64, size: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; size * header.rows];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let numbers = match numbers {
        false => None,
        true => {
            let bytes = section(file, codes_start - 8 * header.rows as u64, 8)?;
            Some(bytes.as_chunks().0.iter().map(|&number| f64::from_le_bytes(number)).collect())
        }
    };
    let codes = match texts {
        None => None,
        Some(texts) => {
            let bytes = section(file, codes_start, 4)?;
            let codes: Vec<u32> = bytes.as_chunks().0.iter().map(|&code| u32::from_le_bytes(code)).collect();
            if codes.iter().any(|&code| code as usize >= texts.len()) {
                return Err(damaged("a row has a text that is not there"));
            }
            Some((texts, codes))
        }
    };
    Ok(Some(WholeTarget::of_parts(name, numbers, codes)))
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut start: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        match file.seek_read(bytes, start)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => (bytes, start) = (&mut bytes[read..], start + read as u64),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full says so, and where to go.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut writer = Writer::over(full, Path::new("/rows/cache"));
        let rows = vec![1.0; 2 * BUFFER];
        let error = writer.push(&rows).unwrap_err().to_string();
        assert!(
            error.starts_with("/rows/cache: No space left") && error.contains("another folder"),
            "{error}"
        );
    }

    /// What is not finished leaves no file.
    #[test]
    fn an_unfinished_cache_is_not_left_behind() {
        let folder = std::env::temp_dir().join(format!("riesz-unfinished-{}", std::process::id()));
        let mut writer = Writer::create(&folder.join("a.rows")).unwrap();
        writer.push(&[1.0; 4]).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        drop(writer);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
