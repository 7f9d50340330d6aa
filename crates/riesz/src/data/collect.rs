//! The rows of files in memory, or on disk where there are too many.

use super::cache::{Header, RowCache, Writer};
use super::coding::{survey, Coding};
use super::files::{fingerprint, is_small_libsvm, list, Parts};
use super::reader::{read_with, Dataset, ReadOptions, Table, Values};
use super::spellings::WholeTarget;
use super::Rows;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How the rows of files are collected.
#[derive(Clone, Debug, Default)]
pub struct Collect {
    /// How each file is read.
    pub read: ReadOptions,
    /// Most bytes of values that are kept in memory; `None`: a quarter of what there is.
    pub memory: Option<usize>,
    /// The folder of the cache. With one, rows are on disk, and stay there for the next time; without, rows that do not fit
    /// into memory are in a file of the system's folder for temporary files that goes with them.
    pub folder: Option<PathBuf>,
    /// Whether columns of text, and numbers of which some are missing, are taken: files of them are looked through once more.
    pub categories: bool,
}

/// The features of files.
#[derive(Debug)]
pub enum Features {
    /// In memory.
    Memory(Table),
    /// On disk.
    Disk(RowCache),
}

/// The rows of files and their target.
#[derive(Debug)]
pub struct Collected {
    /// Every column but the target.
    pub features: Features,
    /// The target, where one was asked for.
    pub target: Option<WholeTarget>,
    /// The column that was read over.
    pub unread: Option<String>,
    /// What became of each feature, where some are not numbers alone.
    pub codings: Vec<Option<Coding>>,
}

impl Features {
    /// The rows.
    pub fn rows(&self) -> Result<Rows<'_>> {
        match self {
            Self::Memory(table) => table.rows(),
            Self::Disk(cache) => Ok(cache.rows().into()),
        }
    }

    /// Number of rows n.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(table) => table.len(),
            Self::Disk(cache) => cache.rows().len(),
        }
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of columns d.
    pub fn columns(&self) -> usize {
        match self {
            Self::Memory(table) => table.columns,
            Self::Disk(cache) => cache.columns(),
        }
    }

    /// One name per column, or none at all where the files name no columns.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Memory(table) => &table.names,
            Self::Disk(cache) => cache.names(),
        }
    }

    /// Number the files give their first column: 1 for LIBSVM files that count from one, else 0.
    pub fn first_index(&self) -> usize {
        match self {
            Self::Memory(table) => table.first_index,
            Self::Disk(cache) => cache.first_index(),
        }
    }
}

impl Collect {
    /// Reads the files that `paths` stand for. `told` hears the number of rows read so far, and may end it with an error.
    pub fn run(&self, paths: &[PathBuf], told: &mut dyn FnMut(usize) -> Result<()>) -> Result<Collected> {
        self.coding(paths, |collect| collect.read(paths, told))
    }

    /// Does `work`, and again after a look for categories and missing numbers where it came to a cell that is no number.
    pub fn coding<T>(&self, paths: &[PathBuf], mut work: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        match work(self) {
            Err(error @ Error::Parse { .. }) if self.categories && self.read.codings.is_empty() => {
                let codings = survey(&list(paths, &self.read)?, &self.read)?;
                if codings.is_empty() {
                    return Err(error);
                }
                work(&Self { read: ReadOptions { codings, ..self.read.clone() }, ..self.clone() })
            }
            done => done,
        }
    }

    fn read(&self, paths: &[PathBuf], told: &mut dyn FnMut(usize) -> Result<()>) -> Result<Collected> {
        let files = list(paths, &self.read)?;
        let memory = self.memory.unwrap_or_else(quarter);
        if let Some(folder) = &self.folder {
            return self.cached(&files, folder, told);
        }
        if is_small_libsvm(&files, &self.read, memory)? {
            let Dataset { features, target, unread } = read_with(&files[0], &self.read)?;
            let target = target.map(|raw| of_one(&raw)).transpose()?;
            let codings = Vec::new();
            return Ok(Collected { features: Features::Memory(features), target, unread, codings });
        }
        let mut gathering = Gathering { memory, ..Gathering::default() };
        gathering.gather(Parts::new(files, self.read.clone())?, told)?;
        gathering.finish(self.read.codings.clone())
    }

    /// The target of files alone; `told` as in [`Self::run`].
    pub fn target(
        &self,
        paths: &[PathBuf],
        told: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Option<WholeTarget>> {
        let mut whole: Option<WholeTarget> = None;
        for part in Parts::new(list(paths, &self.read)?, self.read.clone())? {
            if let Some(raw) = part?.target {
                let whole = whole.get_or_insert_with(|| WholeTarget::new(raw.name()));
                whole.append(&raw)?;
                told(whole.len())?;
            }
        }
        Ok(whole)
    }

    /// The file of the cache of these files in `folder`: one for every set of files and way to read them.
    pub fn cache_path(&self, paths: &[PathBuf], folder: &Path) -> Result<PathBuf> {
        Ok(self.cache_of(&list(paths, &self.read)?, folder))
    }

    fn cache_of(&self, files: &[PathBuf], folder: &Path) -> PathBuf {
        let mut text = format!("{:?}", self.read);
        for file in files {
            let path = file.canonicalize().unwrap_or_else(|_| file.clone());
            text.push_str(&path.to_string_lossy());
            text.push('\n');
        }
        // FNV-1a. Two sets of files with one name would only make each other's cache again.
        let name = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        folder.join(format!("{name:016x}.rows"))
    }

    /// Rows from the cache if it is of these files, else into it.
    fn cached(
        &self,
        files: &[PathBuf],
        folder: &Path,
        told: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Collected> {
        let (path, sources) = (self.cache_of(files, folder), fingerprint(files, &self.read)?);
        if !(path.exists() && RowCache::header_of(&path)?.sources == sources) {
            let mut gathering = Gathering { cache: Some((path.clone(), sources)), ..Gathering::default() };
            gathering.gather(Parts::new(files.to_vec(), self.read.clone())?, told)?;
            gathering.write()?;
        }
        let (cache, target) = RowCache::open(&path)?;
        let codings = self.read.codings.clone();
        Ok(Collected { features: Features::Disk(cache), target, unread: None, codings })
    }
}

/// A quarter of the memory there is.
fn quarter() -> usize {
    crate::memory::available().map_or(usize::MAX, |bytes| (bytes / 4.0) as usize)
}

fn of_one(raw: &super::reader::RawTarget) -> Result<WholeTarget> {
    let mut target = WholeTarget::new(raw.name());
    target.append(raw)?;
    Ok(target)
}

/// Rows on their way from files.
#[derive(Default)]
struct Gathering {
    /// Bytes of values from which on rows are written to disk.
    memory: usize,
    /// Where a cache is to stay, and what it is of.
    cache: Option<(PathBuf, String)>,
    writer: Option<Writer>,
    values: Vec<f32>,
    header: Option<Header>,
    target: Option<WholeTarget>,
    unread: Option<String>,
    rows: usize,
}

impl Gathering {
    fn gather(&mut self, parts: Parts, told: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        let mut buffer = Vec::new();
        for part in parts {
            let Dataset { features, target, unread } = part?;
            self.rows += features.len();
            if let Some(raw) = target {
                self.target.get_or_insert_with(|| WholeTarget::new(raw.name())).append(&raw)?;
            }
            if self.header.is_none() {
                let sources = self.cache.as_ref().map(|cache| cache.1.clone()).unwrap_or_default();
                let names = features.names.clone();
                self.header = Some(Header::new(features.columns, names, features.first_index, sources));
                self.unread = unread;
            }
            match features.values {
                Values::Dense(values) => self.push(values)?,
                Values::Sparse { .. } => {
                    let rows = features.rows()?;
                    self.push(rows.tile(0..rows.len(), &mut buffer).to_vec())?;
                }
            }
            told(self.rows)?;
        }
        match self.header {
            Some(_) => Ok(()),
            None => Err(Error::Empty { what: "the files", needed: "one row" }),
        }
    }

    /// Adds values, in memory as long as there is room.
    fn push(&mut self, values: Vec<f32>) -> Result<()> {
        if self.writer.is_none() && self.cache.is_none() {
            let bytes = size_of_val(&*self.values) + size_of_val(&*values);
            if bytes <= self.memory {
                if self.values.is_empty() {
                    self.values = values;
                } else {
                    self.values.extend(values);
                }
                return Ok(());
            }
        }
        if self.writer.is_none() {
            let path = self.cache.as_ref().map_or_else(temporary, |cache| cache.0.clone());
            let mut writer = Writer::create(&path)?;
            writer.push(&std::mem::take(&mut self.values))?;
            self.cache.get_or_insert((path, String::new()));
            self.writer = Some(writer);
        }
        self.writer.as_mut().map_or(Ok(()), |writer| writer.push(&values))
    }

    /// Completes a cache and returns where it is.
    fn write(&mut self) -> Result<PathBuf> {
        let (Some(writer), Some(header), Some((path, _))) =
            (self.writer.take(), self.header.take(), &self.cache)
        else {
            return Err(Error::Empty { what: "the files", needed: "one row" });
        };
        writer.finish(header, self.target.as_ref())?;
        Ok(path.clone())
    }

    fn finish(mut self, codings: Vec<Option<Coding>>) -> Result<Collected> {
        let features = match (self.writer.is_some(), &mut self.header) {
            (false, Some(header)) => {
                let mut values = std::mem::take(&mut self.values);
                values.shrink_to_fit();
                let (columns, first_index) = (header.columns, header.first_index);
                let names = std::mem::take(&mut header.names);
                Features::Memory(Table { values: Values::Dense(values), columns, names, first_index })
            }
            _ => {
                let target = self.target.take();
                let path = self.write()?;
                self.target = target;
                Features::Disk(RowCache::open(&path)?.0.vanish()?)
            }
        };
        Ok(Collected { features, target: self.target, unread: self.unread, codings })
    }
}

/// Rows on disk as long as what is returned is there, `parts` of them one after the other.
pub(crate) fn on_disk(columns: usize, parts: impl Iterator<Item = Vec<f32>>) -> Result<RowCache> {
    let path = temporary();
    let mut writer = Writer::create(&path)?;
    for part in parts {
        writer.push(&part)?;
    }
    writer.finish(Header::new(columns, Vec::new(), 0, String::new()), None)?;
    RowCache::open(&path)?.0.vanish()
}

/// A name of a file for rows that are not kept.
fn temporary() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(format!("riesz-{process}-{number}.rows"))
}
