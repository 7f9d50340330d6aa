//! Data files in memory: features as row-major `f32`, the target as the text the file holds.
//!
//! | extension | format |
//! | --- | --- |
//! | `.csv` `.tsv` `.txt` `.data` `.dat` | delimited text; delimiter and header are found by looking |
//! | `.libsvm` `.svm` `.svmlight` | `label index:value …`, made dense |
//! | `.npy` | NumPy arrays; trailing dimensions are flattened into columns |
//! | `.idx`, `…-ubyte` | the MNIST container |
//! | `.parquet`, `.pq` | columns of numbers and truth values; text as the target |
//!
//! Each may be compressed (`.gz`); [`read_member`] takes one array out of an `.npz` archive. Missing and non-finite
//! cells are refused by line and column: the library never imputes in silence. Memory stays within a small multiple of the
//! (uncompressed) file; one that expands to more than 16 MiB and a hundred times its length is refused.

use super::coding::Coding;
use super::source::Source;
use super::{csv, idx, libsvm, npy, npz, parquet};
use crate::error::{Error, Result};
use std::fs::File;
use std::io::Cursor;
use std::path::Path;

pub use super::table::{Dataset, Table, TargetColumn, Values};
pub use super::target::{label_key, Labels, RawTarget, Target};

/// A container a data file may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Delimited text: commas, semicolons, tabs or blanks, whichever the first lines use.
    Text,
    /// Text delimited by tabs.
    Tabs,
    /// `label index:value …`.
    Libsvm,
    /// A NumPy array.
    Npy,
    /// The container of MNIST.
    Idx,
    /// Columns of numbers, truth values and, for the target, text.
    Parquet,
}

impl Format {
    /// The format a file name stands for, a final `.gz` aside.
    pub fn of(path: &Path) -> Result<Self> {
        let name =
            path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        if name.ends_with("-ubyte") {
            return Ok(Self::Idx);
        }
        match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "csv" | "txt" | "data" | "dat" => Ok(Self::Text),
            "tsv" => Ok(Self::Tabs),
            "libsvm" | "svm" | "svmlight" => Ok(Self::Libsvm),
            "npy" => Ok(Self::Npy),
            "idx" => Ok(Self::Idx),
            "parquet" | "pq" => Ok(Self::Parquet),
            _ => Err(Error::Unknown {
                name: "file format",
                value: path.display().to_string(),
                expected: ".csv, .tsv, .txt, .data, .dat, .libsvm, .svm, .svmlight, .npy, .idx, …-ubyte, .parquet or .pq, each with or without .gz",
            }),
        }
    }
}

/// How to read a data file.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Which column is the target.
    pub target: TargetColumn,
    /// Feature columns there must be; a LIBSVM file with fewer is filled with zeros.
    pub columns: Option<usize>,
    /// Names of the feature columns there must be, in the order they are wanted in. A file that names its columns has them in
    /// any order; one that does not has them in this one. Empty: the columns of the file.
    pub names: Vec<String>,
    /// The name of a column that is read over where a file has it beside those: the target, in data to predict.
    pub unread: Option<String>,
    /// What becomes of each feature, in the order of `names`, where some are not numbers alone; see [`survey`](super::coding::survey).
    /// For delimited text; other formats have numbers.
    pub codings: Vec<Option<Coding>>,
    /// The container; found from the file name if not given.
    pub format: Option<Format>,
    /// The number of the first LIBSVM column, 0 or 1; if not given, 0 where the file uses index 0, else 1.
    pub first_index: Option<usize>,
}

impl ReadOptions {
    /// The container of a file.
    pub(super) fn format_of(&self, path: &Path) -> Result<Format> {
        self.format.map_or_else(|| Format::of(path), Ok)
    }
}

/// Reads a data file; the format is found from its name.
pub fn read(path: &Path, target: TargetColumn) -> Result<Dataset> {
    read_with(path, &ReadOptions { target, ..ReadOptions::default() })
}

/// Reads a data file as `options` say.
pub fn read_with(path: &Path, options: &ReadOptions) -> Result<Dataset> {
    read_source(Source::open(path)?, options)
}

/// Reads the contents of a data file of this name, which says its format and whether it is compressed.
pub fn read_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Dataset> {
    let input = Cursor::new(bytes.to_vec());
    read_source(Source::new(Path::new(name), input, Some(bytes.len() as u64)), options)
}

fn read_source(source: Source, options: &ReadOptions) -> Result<Dataset> {
    let dataset = parse(source, options)?;
    let found = dataset.features.columns;
    if found == 0 {
        return Err(Error::Empty { what: "X", needed: "one column besides the target" });
    }
    match options.columns {
        Some(expected) if expected != found => Err(Error::Columns { expected, found }),
        _ => dataset.expanded(&options.codings),
    }
}

/// Reads a file that holds the target alone: one column.
pub fn read_target(path: &Path) -> Result<RawTarget> {
    let options = ReadOptions { target: TargetColumn::Last, ..ReadOptions::default() };
    let dataset = parse(Source::open(path)?, &options)?;
    match dataset.target {
        Some(target) if dataset.features.columns == 0 => Ok(target),
        _ => Err(Error::Columns { expected: 1, found: dataset.features.columns + 1 }),
    }
}

/// Reads one array of a NumPy archive (`.npz`); trailing dimensions are flattened into columns.
pub fn read_member(path: &Path, name: &str) -> Result<Table> {
    let file = File::open(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    npz::read(file, path, name)
}

/// Reads one array out of the contents of a NumPy archive.
pub fn read_member_bytes(bytes: &[u8], name: &str) -> Result<Table> {
    npz::read(Cursor::new(bytes.to_vec()), Path::new("archive.npz"), name)
}

/// A file of which some rows are read at a time.
pub(super) trait InParts: Send {
    /// Columns of the file, the target's too.
    fn columns(&self) -> usize;

    /// The next rows, at most so many; `None` at the end.
    fn next(&mut self, rows: usize) -> Result<Option<Dataset>>;
}

/// Opens a file to be read in parts. Those of a LIBSVM file are alike where the options give its columns and its first index.
pub(super) fn open(source: Source, options: &ReadOptions) -> Result<Box<dyn InParts>> {
    Ok(match options.format_of(&source.path)? {
        Format::Text => Box::new(csv::Reader::open(source, options, None)?),
        Format::Tabs => Box::new(csv::Reader::open(source, options, Some(b'\t'))?),
        Format::Libsvm => Box::new(libsvm::Reader::open(source, options)?),
        Format::Npy => Box::new(npy::open(source, &options.target)?),
        Format::Idx => Box::new(idx::open(source, &options.target)?),
        Format::Parquet => Box::new(parquet::Reader::open(source, options)?),
    })
}

/// Hands the bytes to the reader of their format.
pub(super) fn parse(source: Source, options: &ReadOptions) -> Result<Dataset> {
    match options.format_of(&source.path)? {
        Format::Text => csv::read(source, options, None),
        Format::Tabs => csv::read(source, options, Some(b'\t')),
        Format::Libsvm => libsvm::read(source, options),
        Format::Npy => npy::read(source, &options.target),
        Format::Idx => idx::read(source, &options.target),
        Format::Parquet => parquet::read(source, options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn finds_the_format_by_name() {
        for (name, format) in [
            ("a/B.CSV", Format::Text),
            ("a.tsv.gz", Format::Tabs),
            ("a.svm", Format::Libsvm),
            ("a.npy.GZ", Format::Npy),
            ("train-images-idx3-ubyte.gz", Format::Idx),
            ("t10k-labels.idx1-ubyte", Format::Idx),
            ("part-0.parquet", Format::Parquet),
        ] {
            assert_eq!(Format::of(Path::new(name)).unwrap(), format, "{name}");
        }
        assert!(Format::of(Path::new("a.xlsx")).is_err());
        assert!(Format::of(Path::new("/")).is_err());
    }

    #[test]
    fn reads_compressed_files_and_checks_columns() {
        let path = std::env::temp_dir().join(format!("riesz-reader-{}.csv.gz", std::process::id()));
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"a,b,y\n1,2,3\n4,5,6\n").unwrap();
        let whole = encoder.finish().unwrap();
        std::fs::write(&path, &whole).unwrap();
        let dataset = read(&path, TargetColumn::Last).unwrap();
        assert_eq!(dataset.features.rows().unwrap().len(), 2);
        let wrong = ReadOptions { columns: Some(4), ..ReadOptions::default() };
        assert!(matches!(read_with(&path, &wrong), Err(Error::Columns { expected: 4, found: 3 })));
        assert!(matches!(read_target(&path), Err(Error::Columns { expected: 1, found: 3 })));
        std::fs::write(&path, &whole[..whole.len() - 12]).unwrap();
        assert!(matches!(read(&path, TargetColumn::Last), Err(Error::Io { .. })));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(read(&path, TargetColumn::Last), Err(Error::Io { .. })));
    }
}
