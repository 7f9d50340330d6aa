//! Parquet: columns of numbers and truth values become features, one of text may be the target.
//!
//! The parquet crate decodes, without arrow; [`store`] and [`thrift`] see that a file does not make it take memory that its
//! bytes do not stand for. Columns are decoded some thousand rows at a time and laid side by side while they are in the
//! cache of the processor.

mod column;
mod quiet;
mod store;
mod thrift;

use super::files::PART;
use super::reader::{InParts, ReadOptions};
use super::selection::Selection;
use super::source::Source;
use super::table::{Dataset, Table, Values};
use super::target::RawTarget;
use crate::error::{Error, Result};
use bytes::Bytes;
use column::{Cells, Column};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Store;

/// Rows that are decoded at a time.
const STEP: usize = 2_048;
/// Rows that are laid side by side at a time, in the innermost cache.
const GROUP: usize = 16;
/// Bytes that a file may always become when it is read as a whole, and how many times its length beyond that. In parts there is
/// no such limit.
const ALWAYS: u64 = 4 << 20;
const TIMES: u64 = 100;

/// Bytes of a short text, as those of a target are.
const TEXT: u64 = 80;

/// Reads a Parquet file.
pub(super) fn read(source: Source, options: &ReadOptions) -> Result<Dataset> {
    let mut reader = Reader::open(source, options)?;
    let target = if reader.target.is_some() { TEXT } else { 0 };
    let bytes = (reader.rows as u64).saturating_mul(4 * reader.names.len() as u64 + target);
    if bytes > reader.length.saturating_mul(TIMES).saturating_add(ALWAYS) {
        return Err(reader.invalid(format!(
            "{} rows of {} columns are more than {TIMES} times the file; read it in parts",
            reader.rows,
            reader.names.len()
        )));
    }
    let rows = reader.rows;
    match reader.next(rows)? {
        Some(dataset) => Ok(dataset),
        None => Err(reader.invalid("the file holds no rows")),
    }
}

/// A Parquet file that is read a number of rows at a time.
pub(super) struct Reader {
    path: PathBuf,
    store: Store,
    length: u64,
    file: SerializedFileReader<Store>,
    /// Names of all columns.
    names: Vec<String>,
    target: Option<usize>,
    selection: Selection,
    rows: usize,
    /// Rows read so far.
    read: usize,
    /// The row group at hand, and what is left of it.
    group: usize,
    left: usize,
    /// Its columns: each feature in the order of the file, then the target.
    columns: Vec<Column>,
}

/// Calls the parquet crate, which refuses most of what is wrong with a file by an error and the rest by a panic.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match quiet::caught(work) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(invalid(path, format!("not a readable Parquet file: {error}"))),
        Err(_) => Err(invalid(path, "a damaged Parquet file; fetch or write it again")),
    }
}

fn invalid(path: &Path, reason: impl Into<String>) -> Error {
    Error::Io { path: path.to_path_buf(), source: io::Error::new(io::ErrorKind::InvalidData, reason.into()) }
}

/// The bytes of a source: where they lie if that is a file, else in memory.
fn stored(mut source: Source) -> Result<Store> {
    let path = source.path.clone();
    let failed = |source| Error::Io { path: path.clone(), source };
    if let Some(length) = source.length.filter(|_| source.is_file) {
        return Ok(Store::File(Arc::new(File::open(&path).map_err(failed)?), length));
    }
    let mut bytes = Vec::new();
    source.input.read_to_end(&mut bytes).map_err(failed)?;
    Ok(Store::Bytes(Bytes::from(bytes)))
}

impl Reader {
    pub(super) fn open(source: Source, options: &ReadOptions) -> Result<Self> {
        let path = source.path.clone();
        let store = stored(source)?;
        let file = guarded(&path, || {
            store.check_metadata()?;
            SerializedFileReader::new(store.clone())
        })?;
        let metadata = file.metadata().file_metadata();
        let schema = metadata.schema_descr();
        let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        let target = options.target.resolve(&names, names.len()).map_err(|reason| invalid(&path, reason))?;
        let selection = Selection::new(&names, target, options, &path)?;
        for (place, column) in schema.columns().iter().enumerate() {
            if selection.unread != Some(place) {
                Cells::of(column, target == Some(place)).map_err(|reason| invalid(&path, reason))?;
            }
        }
        let rows = file.metadata().row_groups().iter().map(|group| usize::try_from(group.num_rows()));
        let rows = rows
            .collect::<Result<Vec<_>, _>>()
            .ok()
            .and_then(|rows| rows.iter().try_fold(0_usize, |sum, &rows| sum.checked_add(rows)));
        let rows = rows.ok_or_else(|| invalid(&path, "the numbers of its rows are damaged"))?;
        let length = parquet::file::reader::Length::len(&store);
        let (read, group, left, columns) = (0, 0, 0, Vec::new());
        Ok(Self { path, store, length, file, names, target, selection, rows, read, group, left, columns })
    }

    fn invalid(&self, reason: impl Into<String>) -> Error {
        invalid(&self.path, reason)
    }

    /// The columns that become features, in the order of the file.
    fn features(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.names.len()).filter(|&column| ![self.target, self.selection.unread].contains(&Some(column)))
    }

    /// Opens the columns of the next row group that has rows; false at the end.
    fn next_group(&mut self) -> Result<bool> {
        while self.left == 0 {
            let metadata = self.file.metadata();
            if self.group == metadata.num_row_groups() {
                return Ok(false);
            }
            let group = metadata.row_group(self.group);
            self.left = usize::try_from(group.num_rows()).unwrap_or(0);
            let wanted: Vec<usize> = self.features().chain(self.target).collect();
            self.columns = guarded(&self.path, || {
                let reader = self.file.get_row_group(self.group)?;
                let open = |&column: &usize| {
                    let descriptor = group.column(column).column_descr_ptr();
                    let cells =
                        Cells::of(&descriptor, self.target == Some(column)).map_err(ParquetError::General)?;
                    self.store.check_column(group.column(column), cells == Cells::Text)?;
                    Ok(Column::new(reader.get_column_reader(column)?, cells))
                };
                wanted.iter().map(open).collect()
            })?;
            self.group += 1;
        }
        Ok(true)
    }

    /// Decodes the next rows of the group, and appends the features to `values` and the targets to `target`.
    fn step(&mut self, rows: usize, values: &mut Vec<f32>, target: &mut Option<RawTarget>) -> Result<()> {
        let width = self.columns.len() - usize::from(self.target.is_some());
        let wanted: Vec<usize> = self.features().chain(self.target).collect();
        for (k, column) in self.columns.iter_mut().enumerate() {
            let name = &self.names[wanted[k]];
            guarded(&self.path, || column.read(rows))?;
            if let Some(row) = column.missing(rows) {
                let row = self.read + row;
                return Err(invalid(
                    &self.path,
                    format!("row {row} of column {name:?} is missing; remove or impute such rows first"),
                ));
            }
            if k == width {
                column.append_target(target, name, &self.path, self.read)?;
            } else if let Some((row, value)) = column.round() {
                let row = self.read + row;
                return Err(invalid(
                    &self.path,
                    format!("row {row} of column {name:?} holds {value}; remove or impute such rows first"),
                ));
            }
        }
        self.lay(rows, width, values);
        self.read += rows;
        self.left -= rows;
        Ok(())
    }

    /// Appends the cells of the first `width` columns, row by row.
    fn lay(&self, rows: usize, width: usize, values: &mut Vec<f32>) {
        let columns = self.columns[..width].iter().enumerate();
        let columns: Vec<_> =
            columns.map(|(k, column)| (self.selection.place(k), column.singles())).collect();
        let mut group = vec![0.0; GROUP * width];
        for first in (0..rows).step_by(GROUP) {
            let some = first..rows.min(first + GROUP);
            for &(place, cells) in &columns {
                let places = group[place..].iter_mut().step_by(width);
                places.zip(&cells[some.clone()]).for_each(|(out, cell)| *out = *cell);
            }
            values.extend_from_slice(&group[..some.len() * width]);
        }
    }
}

impl InParts for Reader {
    fn columns(&self) -> usize {
        self.names.len()
    }

    fn next(&mut self, rows: usize) -> Result<Option<Dataset>> {
        let (mut target, mut count) = (None, 0);
        // Room for what a part holds; more is made as it is filled.
        let most = rows.min(self.rows - self.read).saturating_mul(self.features().count());
        let mut values = Vec::with_capacity(most.min(PART / size_of::<f32>()));
        while count < rows && self.next_group()? {
            let step = STEP.min(self.left).min(rows - count);
            self.step(step, &mut values, &mut target)?;
            count += step;
        }
        if count == 0 {
            return Ok(None);
        }
        let unread = self.selection.unread.map(|column| self.names[column].clone());
        let mut names: Vec<String> = self.features().map(|column| self.names[column].clone()).collect();
        let columns = names.len();
        self.selection.arrange(&mut names);
        let features = Table { values: Values::Dense(values), columns, names, first_index: 0 };
        Ok(Some(Dataset { features, target, unread }))
    }
}
