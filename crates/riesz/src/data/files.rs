//! Several data files as one: read in parts, and collected in memory or, where they are too large for it, on disk.
//!
//! Files are taken in the order they are given in, those of a folder in the order of their names. All are of one format and
//! have the same columns: by name and in any order where they name them, else by number.

use super::reader::{open, Dataset, Format, InParts, ReadOptions, TargetColumn};
use super::source::Source;
use super::{libsvm, TILE};
use crate::error::{Error, Result};
use flate2::Crc;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

pub use super::collect::{Collect, Collected, Features};
pub use super::spellings::WholeTarget;

/// Bytes of single-precision values in a part.
pub const PART: usize = 8 << 20;
/// Bytes at either end of a file that tell it from another.
const ENDS: u64 = 1 << 16;

/// The files that `paths` stand for: a folder stands for those in it, in the order of their names, but for names that begin
/// with a dot or an underscore. Refuses files of different formats, and none at all.
pub fn list(paths: &[PathBuf], options: &ReadOptions) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = |source| Error::Io { path: path.clone(), source };
        let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
        let hidden = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(['.', '_']))
        };
        let inside = entries.into_iter().map(|entry| entry.path());
        let mut inside: Vec<_> = inside.filter(|path| path.is_file() && !hidden(path)).collect();
        if inside.is_empty() {
            return Err(failed(io::Error::new(io::ErrorKind::NotFound, "the folder holds no data file")));
        }
        inside.sort();
        files.extend(inside);
    }
    let Some(first) = files.first() else {
        return Err(Error::Empty { what: "the list of files", needed: "one file" });
    };
    let format = options.format_of(first)?;
    for other in &files[1..] {
        if options.format_of(other)? != format {
            let (first, other) = (first.display(), other.display());
            return Err(Error::Conflict(format!(
                "{first} and {other} are of different formats; convert one of them"
            )));
        }
    }
    Ok(files)
}

/// The rows of files, a part at a time: at most [`PART`] bytes of values, and at least [`TILE`] rows.
///
/// ```
/// use riesz::data::files::{list, Parts};
/// use riesz::data::reader::{ReadOptions, TargetColumn};
///
/// # fn main() -> riesz::Result<()> {
/// let folder = std::env::temp_dir().join(format!("riesz-parts-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// std::fs::write(folder.join("1.csv"), "a,b,y\n1,2,0\n").unwrap();
/// std::fs::write(folder.join("2.csv"), "y,b,a\n1,4,3\n").unwrap();
/// let options = ReadOptions { target: TargetColumn::Name("y".into()), ..ReadOptions::default() };
/// let files = list(&[folder.clone()], &options)?;
/// let parts = Parts::new(files, options)?.collect::<riesz::Result<Vec<_>>>()?;
/// assert_eq!(parts[1].features.rows()?.value(0, 0), 3.0);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct Parts {
    files: std::vec::IntoIter<PathBuf>,
    options: ReadOptions,
    /// Most rows of a part, if not those of [`PART`] bytes.
    rows: Option<usize>,
    /// The file at hand and its path.
    reader: Option<(Box<dyn InParts>, PathBuf)>,
    /// Whether columns were found in a file before.
    begun: bool,
    /// Whether the parts of a file are alike.
    alike: bool,
}

impl Parts {
    /// The rows of `files`. A LIBSVM file is read twice unless `options` say what its columns are.
    pub fn new(files: Vec<PathBuf>, mut options: ReadOptions) -> Result<Self> {
        let formats = files.first().map(|first| options.format_of(first)).transpose()?;
        // A pipe is read once.
        let alike = formats != Some(Format::Libsvm) || files.iter().all(|path| path.is_file());
        if formats == Some(Format::Libsvm) && alike {
            settle_columns(&files, &mut options)?;
        }
        Ok(Self { files: files.into_iter(), options, rows: None, reader: None, begun: false, alike })
    }

    /// The same in parts of at most so many rows.
    pub fn with_rows(files: Vec<PathBuf>, options: ReadOptions, rows: usize) -> Result<Self> {
        Ok(Self { rows: Some(rows.max(1)), ..Self::new(files, options)? })
    }

    fn read(&mut self) -> Result<Option<Dataset>> {
        loop {
            if self.reader.is_none() {
                let Some(path) = self.files.next() else { return Ok(None) };
                self.reader = Some((open(Source::open(&path)?, &self.options)?, path));
            }
            let Some((reader, path)) = &mut self.reader else { return Ok(None) };
            let fitting = (PART / size_of::<f32>() / reader.columns().max(1) / TILE).max(1) * TILE;
            let rows = if self.alike { self.rows.unwrap_or(fitting) } else { usize::MAX };
            match reader.next(rows)? {
                Some(dataset) => {
                    let path = path.clone();
                    self.compare(&dataset, &path)?;
                    return dataset.expanded(&self.options.codings).map(Some);
                }
                None => self.reader = None,
            }
        }
    }

    /// Refuses columns other than those of the first file, whose names the others are asked for.
    fn compare(&mut self, dataset: &Dataset, path: &Path) -> Result<()> {
        let found = dataset.features.columns;
        if found == 0 {
            return Err(Error::Empty { what: "X", needed: "one column besides the target" });
        }
        if let Some(expected) = self.options.columns.filter(|&expected| expected != found) {
            if !self.begun {
                return Err(Error::Columns { expected, found });
            }
            let reason = format!("{found} columns, where those before it have {expected}");
            return Err(Error::Parse { path: path.to_path_buf(), line: 1, reason });
        }
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        self.options.columns = Some(found);
        let names = &dataset.features.names;
        if self.options.names.is_empty() {
            self.options.names.clone_from(names);
        }
        if let (Some(target), false) = (&dataset.target, names.is_empty()) {
            let place = Box::new(std::mem::take(&mut self.options.target));
            self.options.target = TargetColumn::NamedOr(target.name().to_owned(), place);
        }
        Ok(())
    }
}

impl Iterator for Parts {
    type Item = Result<Dataset>;

    fn next(&mut self) -> Option<Result<Dataset>> {
        self.read().transpose()
    }
}

/// Looks through LIBSVM files for the number of their columns and of the first.
fn settle_columns(files: &[PathBuf], options: &mut ReadOptions) -> Result<()> {
    if options.columns.is_some() && options.first_index.is_some() {
        return Ok(());
    }
    let mut extremes: Option<(u32, u32)> = None;
    for path in files {
        if let Some((low, high)) = libsvm::indices(Source::open(path)?)? {
            let (least, most) = extremes.unwrap_or((low, high));
            extremes = Some((least.min(low), most.max(high)));
        }
    }
    let (least, most) = extremes.unwrap_or((1, 0));
    let first = options.first_index.unwrap_or(usize::from(least > 0));
    options.first_index = Some(first);
    options.columns = options.columns.or(Some((most as usize + 1).saturating_sub(first)));
    Ok(())
}

/// What tells a file from another.
#[derive(Serialize)]
struct Print {
    name: String,
    bytes: u64,
    modified: u128,
    /// CRC-32 of the first and the last 64 KiB.
    ends: u32,
}

/// Names, lengths, times of change and ends of files, and how they are read, as text. What is changed in the middle of a file
/// without a change of its time goes unseen.
pub(super) fn fingerprint(files: &[PathBuf], options: &ReadOptions) -> Result<String> {
    let prints =
        files.iter().map(|path| print(path).map_err(|source| Error::Io { path: path.clone(), source }));
    let prints = prints.collect::<Result<Vec<_>>>()?;
    let text = serde_json::to_string(&prints).map_err(|error| Error::Conflict(error.to_string()))?;
    Ok(format!("{text} {options:?}"))
}

fn print(path: &Path) -> io::Result<Print> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    let modified = metadata.modified()?.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let (mut sum, mut bytes) = (Crc::new(), Vec::new());
    file.by_ref().take(ENDS).read_to_end(&mut bytes)?;
    sum.update(&bytes);
    file.seek(SeekFrom::Start(metadata.len().saturating_sub(ENDS)))?;
    bytes.clear();
    file.take(ENDS).read_to_end(&mut bytes)?;
    sum.update(&bytes);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Print { name, bytes: metadata.len(), modified, ends: sum.sum() })
}

/// Whether a file is small enough to be read as a whole in its own form: sparse rows stay sparse.
pub(super) fn is_small_libsvm(files: &[PathBuf], options: &ReadOptions, memory: usize) -> Result<bool> {
    let [path] = files else { return Ok(false) };
    let length = fs::metadata(path).map(|metadata| if metadata.is_file() { metadata.len() } else { 0 });
    let length = length.map_err(|source| Error::Io { path: path.clone(), source })?;
    Ok(options.format_of(path)? == Format::Libsvm && length.saturating_mul(2) <= memory as u64)
}
