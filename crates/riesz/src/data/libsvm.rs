//! LIBSVM text: `label index:value index:value …`, one row a line, `#` before a comment.

use super::cell::{cell_reason, parse_f32};
use super::reader::{InParts, ReadOptions};
use super::source::Source;
use super::table::{Dataset, Table, TargetColumn, Values};
use super::target::RawTarget;
use super::TILE;
use crate::error::{Error, Result};
use std::path::Path;

/// A dense tile of rows, as fits make them, may be this many times as large as the file, both in bytes.
const MAX_EXPANSION: usize = 32;
/// A tile of at most this many values is always taken.
const ALWAYS_TAKEN: usize = 1 << 18;

/// Reads LIBSVM text into a table that is dense or sparse, whichever is smaller.
pub(super) fn read(source: Source, options: &ReadOptions) -> Result<Dataset> {
    let mut reader = Reader::open(source, options)?;
    let dataset = reader.next(usize::MAX)?;
    dataset.ok_or_else(|| reader.source.parse_error(1, "the file holds no rows"))
}

/// LIBSVM text that is read a number of rows at a time. Parts of a file are alike only where the options say how many columns
/// there are and the number of the first: see [`indices`].
pub(super) struct Reader {
    source: Source,
    options: ReadOptions,
    target: Option<RawTarget>,
    line: usize,
}

impl Reader {
    pub(super) fn open(source: Source, options: &ReadOptions) -> Result<Self> {
        let target = target(&options.target, &source.path)?;
        Ok(Self { source, options: options.clone(), target, line: 0 })
    }
}

impl InParts for Reader {
    fn columns(&self) -> usize {
        self.options.columns.unwrap_or(1)
    }

    fn next(&mut self, rows: usize) -> Result<Option<Dataset>> {
        let mut entries = Entries { target: self.target.as_mut().map(RawTarget::take), ..Entries::default() };
        let mut line = Vec::new();
        while entries.ends.len() < rows && self.source.read_line(&mut line)? {
            self.line += 1;
            entries.bytes += line.len() + 1;
            entries.push(&line, self.line).map_err(|fault| fault.at(&self.source, self.line))?;
            line.clear();
        }
        match entries.ends.is_empty() {
            true => Ok(None),
            false => entries.into_dataset(&self.source, &self.options).map(Some),
        }
    }
}

/// The least and the largest index of a file; `None` where all rows are zero.
pub(super) fn indices(source: Source) -> Result<Option<(u32, u32)>> {
    let mut reader = Reader::open(source, &ReadOptions::default())?;
    let (mut line, mut entries) = (Vec::new(), Entries::default());
    let mut extremes: Option<(u32, u32)> = None;
    while reader.source.read_line(&mut line)? {
        reader.line += 1;
        entries.push(&line, reader.line).map_err(|fault| fault.at(&reader.source, reader.line))?;
        if let (Some(&first), Some(&last)) = (entries.indices.first(), entries.indices.last()) {
            let (least, most) = extremes.unwrap_or((first, last));
            extremes = Some((least.min(first), most.max(last)));
        }
        entries.indices.clear();
        entries.values.clear();
        entries.ends.clear();
        line.clear();
    }
    Ok(extremes)
}

/// The label of each line is the only target there is.
fn target(wanted: &TargetColumn, path: &Path) -> Result<Option<RawTarget>> {
    let reason = match wanted {
        TargetColumn::NamedOr(_, other) => return target(other, path),
        TargetColumn::None => return Ok(None),
        TargetColumn::First | TargetColumn::Last => return Ok(Some(RawTarget::new("label", path))),
        TargetColumn::Name(name) | TargetColumn::IfNamed(name) if name == "label" => {
            return Ok(Some(RawTarget::new("label", path)))
        }
        TargetColumn::IfNamed(_) => return Ok(None),
        TargetColumn::Name(name) => format!("no column {name:?}"),
        TargetColumn::Index(index) => format!("no target in column {index}"),
    };
    let reason =
        format!("{reason}: the target of a LIBSVM file is the label each line begins with, named \"label\"");
    Err(Error::Parse { path: path.to_path_buf(), line: 1, reason })
}

/// What is wrong with a line.
enum Fault {
    Reason(String),
    Error(Error),
}

impl Fault {
    fn at(self, source: &Source, line: usize) -> Error {
        match self {
            Self::Reason(reason) => source.parse_error(line, reason),
            Self::Error(error) => error,
        }
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Reason(reason)
    }
}

/// The rows as they stand in the file.
#[derive(Default)]
struct Entries {
    target: Option<RawTarget>,
    indices: Vec<u32>,
    values: Vec<f32>,
    /// End of each row in `indices` and `values`.
    ends: Vec<usize>,
    /// Bytes read so far.
    bytes: usize,
}

impl Entries {
    /// Adds one line, unless it is blank.
    fn push(&mut self, line: &[u8], number: usize) -> Result<(), Fault> {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let mut tokens = line.split(u8::is_ascii_whitespace).filter(|token| !token.is_empty()).peekable();
        let Some(&first) = tokens.peek() else { return Ok(()) };
        let label = (!first.contains(&b':')).then_some(first);
        if label.is_some() {
            tokens.next();
        }
        if let Some(target) = &mut self.target {
            push_label(target, label, number)?;
        }
        let start = self.values.len();
        for token in tokens.filter(|token| !token.starts_with(b"qid:")) {
            let (index, value) = cell(token)?;
            match self.indices[start..].last() {
                Some(&previous) if previous >= index => {
                    return Err(Fault::Reason(format!(
                        "index {index} follows {previous}; sort the indices of each line and remove repeats"
                    )))
                }
                _ => {
                    self.indices.push(index);
                    self.values.push(value);
                }
            }
        }
        self.ends.push(self.values.len());
        Ok(())
    }

    fn into_dataset(mut self, source: &Source, options: &ReadOptions) -> Result<Dataset> {
        let (least, most) = self.extremes();
        let first_index = options.first_index.unwrap_or(usize::from(least > 0));
        if (least as usize) < first_index {
            let reason = format!("index {least} occurs, where columns are counted from {first_index}");
            return Err(source.parse_error(1, reason));
        }
        let found = if self.values.is_empty() { 0 } else { most as usize + 1 - first_index };
        let columns = match options.columns {
            Some(expected) if found > expected => return Err(Error::Columns { expected, found }),
            Some(expected) => expected,
            None => found,
        };
        let (rows, tile) = (self.ends.len(), self.ends.len().min(TILE).checked_mul(columns));
        let most = ALWAYS_TAKEN.max(self.bytes.saturating_mul(MAX_EXPANSION) / size_of::<f32>());
        if tile.is_none_or(|tile| tile > most) || i32::try_from(columns).is_err() {
            let reason =
                format!("{rows} rows of {columns} columns are too sparse; hash or select columns first");
            return Err(source.parse_error(1, reason));
        }
        let dense = rows.saturating_mul(columns).saturating_mul(size_of::<f32>());
        let sparse = size_of_val(&*self.values) + size_of_val(&*self.indices) + rows * size_of::<i64>();
        let values = match dense <= sparse {
            true => self.dense(first_index, columns),
            false => self.sparse(first_index),
        };
        let features = Table { values, columns, names: Vec::new(), first_index };
        Ok(Dataset { features, target: self.target, unread: None })
    }

    /// The least and the largest index.
    fn extremes(&self) -> (u32, u32) {
        let indices = self.indices.iter().copied();
        (indices.clone().min().unwrap_or(u32::MAX), indices.max().unwrap_or(0))
    }

    /// The rows with their zeros.
    fn dense(&self, first_index: usize, columns: usize) -> Values {
        let mut values = vec![0.0; self.ends.len() * columns];
        let mut start = 0;
        for (row, &end) in values.chunks_exact_mut(columns.max(1)).zip(&self.ends) {
            for (&index, &value) in self.indices[start..end].iter().zip(&self.values[start..end]) {
                row[index as usize - first_index] = value;
            }
            start = end;
        }
        Values::Dense(values)
    }

    /// The rows as they stand in the file, columns counted from zero.
    fn sparse(&mut self, first_index: usize) -> Values {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&end| end as i64)).collect();
        let column = |index: u32| (index as usize - first_index) as i32;
        let indices = std::mem::take(&mut self.indices).into_iter().map(column).collect();
        Values::Sparse { starts, indices, values: std::mem::take(&mut self.values) }
    }
}

fn push_label(target: &mut RawTarget, label: Option<&[u8]>, line: usize) -> Result<(), Fault> {
    let label =
        label.ok_or_else(|| "the line has no label; each begins with one, then index:value".to_owned())?;
    let label = std::str::from_utf8(label).map_err(|_| "the label is not UTF-8 text".to_owned())?;
    target.push(label, line).map_err(Fault::Error)
}

/// One `index:value`.
fn cell(token: &[u8]) -> Result<(u32, f32), String> {
    let shown = || String::from_utf8_lossy(token).chars().take(40).collect::<String>();
    let parts =
        token.iter().position(|&byte| byte == b':').map(|colon| (&token[..colon], &token[colon + 1..]));
    let (index, value) = parts.ok_or_else(|| format!("{:?} is not index:value", shown()))?;
    let index = std::str::from_utf8(index).ok().and_then(|index| index.parse::<u32>().ok());
    let index = index.ok_or_else(|| format!("{:?} has no whole number before the colon", shown()))?;
    match parse_f32(value) {
        Some(value) if value.is_finite() => Ok((index, value)),
        _ => Err(cell_reason(&index.to_string(), value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Dataset> {
        read(Source::of_bytes("t.svm", text.as_ref(), true), options)
    }

    fn labelled() -> ReadOptions {
        ReadOptions { target: TargetColumn::Last, ..ReadOptions::default() }
    }

    fn message(text: &str, options: &ReadOptions) -> String {
        parse(text, options).unwrap_err().to_string()
    }

    #[test]
    fn fills_in_zeros() {
        let dataset = parse("+1 1:0.5 3:-2 # note\n\n-1 qid:4 2:1e1\n-1\n", &labelled()).unwrap();
        assert_eq!(dataset.features.dense(), [0.5, 0.0, -2.0, 0.0, 10.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!((dataset.features.columns, dataset.features.first_index), (3, 1));
        assert_eq!(dataset.features.name(0), "x1");
        assert_eq!(dataset.target.unwrap().labels().classes, ["-1", "+1"]);
    }

    #[test]
    fn counts_columns_from_zero_where_the_file_does() {
        let dataset = parse("1 0:1 2:3\n", &labelled()).unwrap();
        assert_eq!(
            (dataset.features.dense().as_slice(), dataset.features.first_index),
            (&[1.0, 0.0, 3.0][..], 0)
        );
        let forced = ReadOptions { first_index: Some(0), ..labelled() };
        assert_eq!(parse("1 1:5\n", &forced).unwrap().features.dense(), [0.0, 5.0]);
        let forced = ReadOptions { first_index: Some(1), ..labelled() };
        assert!(message("1 0:5\n", &forced).contains("index 0 occurs"));
    }

    #[test]
    fn takes_the_number_of_columns_as_given() {
        let wide = ReadOptions { columns: Some(4), ..ReadOptions::default() };
        let dataset = parse("1 2:7\n3:1\n", &wide).unwrap();
        assert_eq!(dataset.features.dense(), [0.0, 7.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        assert!(dataset.target.is_none());
        assert!(matches!(parse("1 5:1\n", &wide), Err(Error::Columns { expected: 4, found: 5 })));
    }

    /// Four values of forty and more columns are kept as they are; a test file of the same width is too.
    #[test]
    fn stays_sparse_where_that_is_smaller() {
        let dataset = parse("+1 2:0.5 40:-2\n-1\n-1 1:3 39:1\n", &labelled()).unwrap();
        let expected = Values::Sparse {
            starts: vec![0, 2, 2, 4],
            indices: vec![1, 39, 0, 38],
            values: vec![0.5, -2.0, 3.0, 1.0],
        };
        assert_eq!((&dataset.features.values, dataset.features.columns), (&expected, 40));
        assert_eq!((dataset.features.len(), dataset.features.is_empty()), (3, false));
        let dense = dataset.features.dense();
        assert_eq!((dense[1], dense[39], dense[80], dense[118]), (0.5, -2.0, 3.0, 1.0));
        assert_eq!((dense.len(), dense.iter().filter(|v| **v != 0.0).count()), (120, 4));
        let wide = ReadOptions { columns: Some(50), first_index: Some(1), ..labelled() };
        let other = parse("1 3:1\n", &wide).unwrap().features;
        assert_eq!((other.rows().unwrap().columns(), other.dense()[2]), (50, 1.0));
    }

    #[test]
    fn names_the_line_of_what_it_refuses() {
        for (line, reason) in [
            ("1:2", "has no label"),
            ("1 2", "\"2\" is not index:value"),
            ("1 a:2", "no whole number"),
            ("1 -1:2", "no whole number"),
            ("1 3:2 3:1", "index 3 follows 3"),
            ("1 3:nan", "column \"3\" has a missing value"),
            ("1 3:", "column \"3\" has a missing value"),
            ("1 3:1e40", "beyond single precision"),
            ("nan 1:1", "the target \"label\" is \"nan\""),
        ] {
            let found = message(&format!("0 1:1\n{line}\n"), &labelled());
            assert!(found.starts_with("t.svm, line 2: ") && found.contains(reason), "{found}");
        }
        assert!(message("# nothing\n", &labelled()).contains("no rows"));
        assert!(message("1 1:1\n", &ReadOptions { target: TargetColumn::Index(2), ..labelled() })
            .contains("label"));
    }

    #[test]
    fn refuses_to_make_a_huge_table_of_a_small_file() {
        assert!(message("1 4294967295:1\n", &labelled()).contains("too sparse"));
        let wide = ReadOptions { columns: Some(usize::MAX), ..labelled() };
        assert!(message("1 1:1\n2 1:1\n", &wide).contains("too sparse"));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes, &labelled());
        }

        #[test]
        fn never_panics_near_the_format(text in "([0-9]{1,3} )?([0-9]{1,2}:[0-9.]{0,3}[ \n#:]){0,20}") {
            for options in [labelled(), ReadOptions::default()] {
                if let Ok(dataset) = parse(&text, &options) {
                    prop_assert_eq!(dataset.features.len() * dataset.features.columns, dataset.features.dense().len());
                }
            }
        }
    }
}
