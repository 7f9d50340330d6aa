//! Data files in memory: features as row-major `f32`, the target as the text the file holds.
//!
//! | extension | format |
//! | --- | --- |
//! | `.csv` `.tsv` `.txt` `.data` `.dat` | delimited text; delimiter and header are found by looking |
//! | `.libsvm` `.svm` `.svmlight` | `label index:value …`, made dense |
//! | `.npy` | NumPy arrays; trailing dimensions are flattened into columns |
//! | `.idx`, `…-ubyte` | the MNIST container |
//!
//! Each may be compressed (`.gz`); [`read_member`] takes one array out of an `.npz` archive. Missing and non-finite
//! cells are refused by line and column: the library never imputes in silence. Memory stays within a small multiple of the (uncompressed) file.

use super::{csv, idx, libsvm, npy, npz, Indices, Rows, Sparse};
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Integer targets with at most this many distinct values are taken for classes by [`RawTarget::guess`].
const MAX_GUESSED_CLASSES: usize = 20;

/// Bytes read at a time.
const BUFFER: usize = 1 << 18;

/// The numbers of a data file.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Row-major.
    Dense(Vec<f32>),
    /// The non-zeros of LIBSVM files, where that takes less memory; see [`Sparse`].
    Sparse {
        /// Position of each row's first value, and of the end.
        starts: Vec<i64>,
        /// Column of each value.
        indices: Vec<i32>,
        /// The values.
        values: Vec<f32>,
    },
}

/// The features of a data file.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The values, all finite.
    pub values: Values,
    /// Number of columns d.
    pub columns: usize,
    /// One name per column, or none at all where the file names no columns.
    pub names: Vec<String>,
    /// Number the file gives its first column: 1 for LIBSVM files that count from one, else 0.
    pub first_index: usize,
}

impl Table {
    /// Number of rows n.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Dense(values) => values.len().checked_div(self.columns).unwrap_or(0),
            Values::Sparse { starts, .. } => starts.len().saturating_sub(1),
        }
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values with their zeros, row-major.
    pub fn into_dense(self) -> Result<Vec<f32>> {
        if let Values::Dense(values) = self.values {
            return Ok(values);
        }
        Ok(self.rows()?.gather(&(0..self.len() as u32).collect::<Vec<_>>()))
    }

    /// The name of a column: the file's own, or `x` and its number.
    pub fn name(&self, column: usize) -> Cow<'_, str> {
        column_name(&self.names, self.first_index, column)
    }

    /// A view of the values for fitting or evaluating a model.
    pub fn rows(&self) -> Result<Rows<'_>> {
        match &self.values {
            Values::Dense(values) => Rows::single(values, self.columns),
            Values::Sparse { starts, indices, values } => {
                let (starts, indices) = (Indices::Long(starts), Indices::Short(indices));
                Ok(Sparse::new(starts, indices, values, self.columns)?.into())
            }
        }
    }

    /// The values with their zeros.
    #[cfg(test)]
    pub(super) fn dense(&self) -> Vec<f32> {
        match &self.values {
            Values::Dense(values) => values.clone(),
            Values::Sparse { .. } => {
                let all: Vec<u32> = (0..self.len() as u32).collect();
                self.rows().map_or_else(|_| Vec::new(), |rows| rows.gather(&all))
            }
        }
    }
}

/// A data file in memory.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Every column but the target.
    pub features: Table,
    /// The target, where one was asked for.
    pub target: Option<RawTarget>,
}

/// Which column of a file is the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TargetColumn {
    /// Every column is a feature. A LIBSVM label is read over.
    #[default]
    None,
    /// The last column, or the label of a LIBSVM line.
    Last,
    /// The first column, or the label of a LIBSVM line.
    First,
    /// The column of this name. Columns without a header are `x0`, `x1`, …; a LIBSVM label is `label`.
    Name(String),
    /// The column of this name if the file has one, else none: for predicting on a file that may still
    /// hold the answer.
    IfNamed(String),
    /// The column of this number, counted from zero.
    Index(usize),
}

impl TargetColumn {
    /// The number of the target column in a file of `columns` columns, or the reason there is none.
    pub(super) fn resolve(&self, names: &[String], columns: usize) -> Result<Option<usize>, String> {
        match self {
            Self::None => Ok(None),
            Self::First => Ok(Some(0)),
            Self::Last => Ok(columns.checked_sub(1)),
            Self::Index(index) if *index < columns => Ok(Some(*index)),
            Self::Index(index) => {
                Err(format!("there is no column {index} for the target: {columns} columns, counted from 0"))
            }
            Self::IfNamed(name) => position(names, columns, name),
            Self::Name(name) => match position(names, columns, name)? {
                Some(column) => Ok(Some(column)),
                None => {
                    Err(format!("no column is named {name:?}; the columns are {}", listed(names, columns)))
                }
            },
        }
    }
}

/// The one column of this name.
fn position(names: &[String], columns: usize, wanted: &str) -> Result<Option<usize>, String> {
    if names.is_empty() {
        let number = wanted.strip_prefix('x').and_then(|digits| digits.parse().ok());
        return Ok(number.filter(|&column: &usize| column < columns));
    }
    let mut matches = names.iter().enumerate().filter(|(_, name)| *name == wanted).map(|(column, _)| column);
    let first = matches.next();
    match matches.next() {
        Some(second) => Err(format!(
            "two columns are named {wanted:?} (numbers {} and {second}); give the number instead",
            first.unwrap_or(0)
        )),
        None => Ok(first),
    }
}

/// The first few names, for a message.
fn listed(names: &[String], columns: usize) -> String {
    let shown: Vec<_> = (0..columns.min(12)).map(|column| column_name(names, 0, column)).collect();
    let more = if columns > shown.len() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// The name of a column, made up where the file has none.
pub(super) fn column_name(names: &[String], first_index: usize, column: usize) -> Cow<'_, str> {
    match names.get(column) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("x{}", column + first_index)),
    }
}

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
            _ => Err(Error::Unknown {
                name: "file format",
                value: path.display().to_string(),
                expected: ".csv, .tsv, .txt, .data, .dat, .libsvm, .svm, .svmlight, .npy, .idx or …-ubyte, each with or without .gz",
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
    /// The container; found from the file name if not given.
    pub format: Option<Format>,
    /// The number of the first LIBSVM column, 0 or 1; if not given, 0 where the file uses index 0, else 1.
    pub first_index: Option<usize>,
}

/// Reads a data file; the format is found from its name.
pub fn read(path: &Path, target: TargetColumn) -> Result<Dataset> {
    read_with(path, &ReadOptions { target, ..ReadOptions::default() })
}

/// Reads a data file as `options` say.
pub fn read_with(path: &Path, options: &ReadOptions) -> Result<Dataset> {
    let source = Source::open(path)?;
    let dataset = parse(source, options)?;
    let found = dataset.features.columns;
    if found == 0 {
        return Err(Error::Empty { what: "X", needed: "one column besides the target" });
    }
    match options.columns {
        Some(expected) if expected != found => Err(Error::Columns { expected, found }),
        _ => Ok(dataset),
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
    npz::read(path, name)
}

/// Hands the bytes to the reader of their format.
pub(super) fn parse(source: Source, options: &ReadOptions) -> Result<Dataset> {
    let format = match options.format {
        Some(format) => format,
        None => Format::of(&source.path)?,
    };
    match format {
        Format::Text => csv::read(source, &options.target, None),
        Format::Tabs => csv::read(source, &options.target, Some(b'\t')),
        Format::Libsvm => libsvm::read(source, options),
        Format::Npy => npy::read(source, &options.target),
        Format::Idx => idx::read(source, &options.target),
    }
}

/// The bytes of a data file, decompressed, and where they come from.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) input: Box<dyn BufRead>,
    /// Length in bytes, known unless the file is compressed.
    pub(super) length: Option<u64>,
}

impl Source {
    fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::Io { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let file = BufReader::with_capacity(BUFFER, file);
        let compressed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        let input: Box<dyn BufRead> = if compressed {
            Box::new(BufReader::with_capacity(BUFFER, flate2::bufread::MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        // Pipes and other special files report a length of zero.
        let length = (!compressed && metadata.is_file()).then_some(metadata.len());
        Ok(Self { path: path.to_path_buf(), input, length })
    }

    /// Bytes at hand, for tests.
    #[cfg(test)]
    pub(super) fn of_bytes(name: &str, bytes: &[u8], length_known: bool) -> Self {
        let length = length_known.then_some(bytes.len() as u64);
        Self { path: PathBuf::from(name), input: Box::new(io::Cursor::new(bytes.to_vec())), length }
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

/// What is wrong with a cell that should have held a number.
pub(super) fn cell_reason(name: &str, cell: &[u8]) -> String {
    let text = String::from_utf8_lossy(cell);
    let shown: String = text.chars().take(40).collect();
    if is_missing(&text) {
        return format!("column {name:?} has a missing value ({shown:?}); remove or impute such rows first");
    }
    match text.parse::<f64>() {
        Ok(_) => format!("column {name:?} holds {shown}, beyond single precision; rescale or remove it"),
        Err(_) if text.replace(',', ".").parse::<f64>().is_ok() => {
            format!("column {name:?} holds {shown:?}; write numbers with a decimal point and no thousands separator")
        }
        Err(_) => format!(
            "column {name:?} holds the text {shown:?}; encode the column as numbers, drop it, or name it as the target"
        ),
    }
}

/// Whether a cell stands for a value nobody knows.
pub(super) fn is_missing(cell: &str) -> bool {
    const MARKS: [&str; 6] = ["?", "nan", "na", "n/a", "null", "-nan"];
    cell.is_empty() || MARKS.iter().any(|mark| cell.eq_ignore_ascii_case(mark))
}

/// A number in text, correctly rounded; infinite beyond single precision.
pub(super) fn parse_f32(cell: &[u8]) -> Option<f32> {
    match leading_decimal(cell) {
        Some((value, length)) if length == cell.len() => Some(value),
        _ => std::str::from_utf8(cell).ok()?.parse().ok(),
    }
}

/// The fast path of [`parse_f32`]: the number `bytes` begins with and its length, where it is a plain decimal
/// that double precision gets right in one division and whose second rounding cannot meet a tie.
#[inline]
pub(super) fn leading_decimal(bytes: &[u8]) -> Option<(f32, usize)> {
    const POWERS: [f64; 20] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19,
    ];
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(negative);
    // Nineteen digits fit into 64 bits; what is cut off makes the caller look again.
    let bytes = &bytes[..bytes.len().min(start + 19)];
    let mut mantissa = 0;
    let whole = leading_digits(bytes, start, &mut mantissa);
    let (mut end, mut decimals) = (whole, 0);
    if bytes.get(whole) == Some(&b'.') {
        end = leading_digits(bytes, whole + 1, &mut mantissa);
        decimals = end - whole - 1;
    }
    if whole - start + decimals == 0 || mantissa > 1 << 53 {
        return None;
    }
    let value = if decimals == 0 { mantissa as f64 } else { mantissa as f64 / POWERS[decimals] };
    // The 29 bits single precision lacks: if they are a half give or take one, the digits must decide.
    let lost = value.to_bits() & 0x1FFF_FFFF;
    if decimals > 0 && lost.abs_diff(0x1000_0000) <= 1 {
        return None;
    }
    Some((if negative { -value } else { value } as f32, end))
}

/// Appends the digits from `place` on to `mantissa` and returns the place behind them.
#[inline]
fn leading_digits(bytes: &[u8], mut place: usize, mantissa: &mut u64) -> usize {
    while let Some(digit) = bytes.get(place).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit <= 9) {
        *mantissa = *mantissa * 10 + u64::from(digit);
        place += 1;
    }
    place
}

/// The target as the file spells it. The task decides what it means: [`numbers`](Self::numbers) for
/// regression, [`labels`](Self::labels) for classification, [`guess`](Self::guess) where nobody said.
#[derive(Clone, Debug)]
pub struct RawTarget {
    name: String,
    path: PathBuf,
    text: String,
    ends: Vec<usize>,
    not_a_number: Option<(usize, usize)>,
}

/// A target with a meaning.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// For regression.
    Numbers(Vec<f64>),
    /// For classification.
    Labels(Labels),
}

/// Classes with their names, and the class of each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Distinct labels as the file spells them, in numerical order if all are numbers, else alphabetical.
    pub classes: Vec<String>,
    /// Position in `classes` of each row's label.
    pub indices: Vec<u32>,
}

impl RawTarget {
    pub(super) fn new(name: impl Into<String>, path: &Path) -> Self {
        Self {
            name: name.into(),
            path: path.to_path_buf(),
            text: String::new(),
            ends: Vec::new(),
            not_a_number: None,
        }
    }

    /// Adds the target of the next row, found on `line`.
    pub(super) fn push(&mut self, cell: &str, line: usize) -> Result<()> {
        let number = cell.parse::<f64>();
        if is_missing(cell) || number.as_ref().is_ok_and(|value| !value.is_finite()) {
            return Err(self.error(line, &format!("is {cell:?}; remove such rows first")));
        }
        if self.not_a_number.is_none() && number.is_err() {
            self.not_a_number = Some((self.ends.len(), line));
        }
        self.text.push_str(cell);
        self.ends.push(self.text.len());
        Ok(())
    }

    /// The error of a row whose target has this `fault`.
    pub(super) fn error(&self, line: usize, fault: &str) -> Error {
        parse_error(&self.path, line, format!("the target {:?} {fault}", self.name))
    }

    /// The name of the target column.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text of each row.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| self.text.get(start..end).unwrap_or_default())
    }

    /// Whether every row is a number.
    pub fn is_numeric(&self) -> bool {
        self.not_a_number.is_none()
    }

    /// The target of a regression; an error names the first line that is not a number.
    pub fn numbers(&self) -> Result<Vec<f64>> {
        if let Some((row, line)) = self.not_a_number {
            let text = self.iter().nth(row).unwrap_or_default();
            let fault =
                format!("is {text:?}, not a number; correct it, or fit a classifier if it is a class");
            return Err(self.error(line, &fault));
        }
        Ok(self.iter().filter_map(|cell| cell.parse().ok()).collect())
    }

    /// The target of a classification. Labels are compared as text: `1` and `1.0` are two classes.
    pub fn labels(&self) -> Labels {
        let mut found: HashMap<&str, u32> = HashMap::new();
        let mut indices = Vec::with_capacity(self.len());
        for cell in self.iter() {
            let next = found.len() as u32;
            indices.push(*found.entry(cell).or_insert(next));
        }
        let mut order: Vec<(&str, u32)> = found.into_iter().collect();
        if self.is_numeric() {
            let number = |cell: &str| cell.parse().unwrap_or(f64::NAN);
            order.sort_by(|a, b| number(a.0).total_cmp(&number(b.0)).then(a.0.cmp(b.0)));
        } else {
            order.sort_unstable();
        }
        let mut rank = vec![0; order.len()];
        for (position, &(_, index)) in order.iter().enumerate() {
            rank[index as usize] = position as u32;
        }
        indices.iter_mut().for_each(|index| *index = rank[*index as usize]);
        Labels { classes: order.into_iter().map(|(cell, _)| cell.to_owned()).collect(), indices }
    }

    /// Text is classes; so are whole numbers with at most 20 distinct values, each taken twice on average.
    /// Anything else is a quantity. Say which it was: a guess should be seen.
    pub fn guess(&self) -> Result<Target> {
        if self.is_numeric() {
            let numbers = self.numbers()?;
            if !few_whole_numbers(&numbers) {
                return Ok(Target::Numbers(numbers));
            }
        }
        Ok(Target::Labels(self.labels()))
    }
}

/// Whether the values look like the numbers of classes.
fn few_whole_numbers(numbers: &[f64]) -> bool {
    let mut distinct: Vec<f64> = Vec::new();
    for &number in numbers {
        if number.fract() != 0.0 {
            return false;
        }
        if !distinct.contains(&number) {
            distinct.push(number);
        }
        if distinct.len() > MAX_GUESSED_CLASSES {
            return false;
        }
    }
    2 * distinct.len() <= numbers.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn target(cells: &[&str]) -> RawTarget {
        let mut target = RawTarget::new("y", Path::new("t.csv"));
        for (row, cell) in cells.iter().enumerate() {
            target.push(cell, row + 1).unwrap();
        }
        target
    }

    #[test]
    fn finds_the_format_by_name() {
        for (name, format) in [
            ("a/B.CSV", Format::Text),
            ("a.tsv.gz", Format::Tabs),
            ("a.svm", Format::Libsvm),
            ("a.npy.GZ", Format::Npy),
            ("train-images-idx3-ubyte.gz", Format::Idx),
            ("t10k-labels.idx1-ubyte", Format::Idx),
        ] {
            assert_eq!(Format::of(Path::new(name)).unwrap(), format, "{name}");
        }
        assert!(Format::of(Path::new("a.parquet")).is_err());
        assert!(Format::of(Path::new("/")).is_err());
    }

    #[test]
    fn sorts_classes_as_numbers_or_as_text() {
        let labels = target(&["10", "9", "-1", "10"]).labels();
        assert_eq!(labels.classes, ["-1", "9", "10"]);
        assert_eq!(labels.indices, [2, 1, 0, 2]);
        assert_eq!(target(&["10", "9", "b"]).labels().classes, ["10", "9", "b"]);
    }

    #[test]
    fn guesses_classes_from_text_and_few_whole_numbers() {
        let is_labels = |cells: &[&str]| matches!(target(cells).guess().unwrap(), Target::Labels(_));
        assert!(is_labels(&["a", "1"]));
        assert!(is_labels(&["0", "1", "1", "0"]));
        assert!(is_labels(&["0.0", "1.0", "1.0", "0.0"]));
        assert!(!is_labels(&["1", "2", "3", "4"]), "each value once");
        assert!(!is_labels(&["0.5", "0.5", "0.5"]));
        let many: Vec<String> = (0..100).map(|i| (i % 21).to_string()).collect();
        assert!(!is_labels(&many.iter().map(String::as_str).collect::<Vec<_>>()), "21 values");
    }

    #[test]
    fn a_target_that_is_text_names_its_first_line() {
        let error = target(&["1", "2", "red", "blue"]).numbers().unwrap_err().to_string();
        assert!(error.starts_with("t.csv, line 3: the target \"y\" is \"red\", not a number"), "{error}");
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

    proptest! {
        #[test]
        fn parses_numbers_as_the_standard_library_does(text in "[-+]?[0-9]{0,9}[.]?[0-9]{0,9}(e[-+]?[0-9]{1,2})?") {
            let expected = text.parse::<f32>().ok().map(f32::to_bits);
            prop_assert_eq!(parse_f32(text.as_bytes()).map(f32::to_bits), expected, "{}", text);
        }

        #[test]
        fn rounds_once_next_to_a_tie(
            mantissa in 0_u32..1 << 23, exponent in 127_u32..150, ulps in -1_i64..2, digits in 15..17
        ) {
            let single = f32::from_bits(exponent << 23 | mantissa);
            let tie = (f64::from(single) + f64::from(f32::from_bits(single.to_bits() + 1))) / 2.0;
            let near = f64::from_bits(tie.to_bits().wrapping_add_signed(ulps));
            let decimals = (digits - 1 - tie.log10().floor() as i32) as usize;
            let text = format!("{near:.decimals$}");
            prop_assert_eq!(parse_f32(text.as_bytes()), text.parse::<f32>().ok(), "{}", text);
        }

        #[test]
        fn parses_nothing_but_numbers(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let expected = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse::<f32>().ok());
            prop_assert_eq!(parse_f32(&bytes).map(f32::to_bits), expected.map(f32::to_bits));
        }
    }
}
