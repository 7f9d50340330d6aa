//! One column of a row group.

use crate::data::target::RawTarget;
use crate::error::{Error, Result};
use parquet::basic::{ConvertedType, IntType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::ByteArray;
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as Read};
use parquet::schema::types::ColumnDescriptor;
use std::path::Path;

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cells {
    Number,
    /// Whole numbers without a sign.
    Unsigned,
    /// For a target alone.
    Text,
}

impl Cells {
    /// The cells of a column, or the reason it is refused.
    pub(super) fn of(column: &ColumnDescriptor, target: bool) -> Result<Self, String> {
        let name = column.path().string();
        if column.max_rep_level() > 0 || column.path().parts().len() > 1 {
            return Err(format!("column {name:?} is nested; flatten it into columns of numbers, or drop it"));
        }
        let refused = |what: &str| {
            Err(format!(
                "column {name:?} holds {what}; turn it into numbers, drop it, or name it as the target"
            ))
        };
        use ConvertedType as C;
        let kind = match (column.logical_type_ref(), column.converted_type()) {
            (Some(LogicalType::Integer(IntType { is_signed: false, .. })), _) => Self::Unsigned,
            (_, C::UINT_8 | C::UINT_16 | C::UINT_32 | C::UINT_64) => Self::Unsigned,
            (Some(LogicalType::Decimal { .. }), _) | (_, C::DECIMAL) => return refused("decimals"),
            (Some(LogicalType::Date | LogicalType::Time { .. } | LogicalType::Timestamp { .. }), _) => {
                return refused("times");
            }
            (_, C::DATE | C::TIME_MILLIS | C::TIME_MICROS | C::TIMESTAMP_MILLIS | C::TIMESTAMP_MICROS) => {
                return refused("times");
            }
            _ => Self::Number,
        };
        match column.physical_type() {
            Type::BOOLEAN | Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE => Ok(kind),
            Type::BYTE_ARRAY if target => Ok(Self::Text),
            Type::BYTE_ARRAY => refused("text"),
            Type::INT96 => refused("times"),
            Type::FIXED_LEN_BYTE_ARRAY => refused("bytes"),
        }
    }
}

/// A column that is being read, and the cells that were read last.
pub(super) struct Column {
    cells: Cells,
    values: Cursor,
    /// The cells in single precision, where they have another type.
    rounded: Vec<f32>,
    /// One for each row where cells may be missing: zero for those that are.
    levels: Vec<i16>,
}

/// A reader of a type with its buffer.
enum Cursor {
    Bool(ColumnReaderImpl<BoolType>, Vec<bool>),
    Short(ColumnReaderImpl<Int32Type>, Vec<i32>),
    Long(ColumnReaderImpl<Int64Type>, Vec<i64>),
    Single(ColumnReaderImpl<FloatType>, Vec<f32>),
    Double(ColumnReaderImpl<DoubleType>, Vec<f64>),
    Text(ColumnReaderImpl<ByteArrayType>, Vec<ByteArray>),
    None,
}

/// Reads `rows` cells over those before; the number of rows there were.
fn fill<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    values: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
    rows: usize,
) -> Read<usize> {
    values.clear();
    let mut read = 0;
    while read < rows {
        match reader.read_records(rows - read, Some(levels), None, values)?.0 {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

impl Column {
    pub(super) fn new(reader: ColumnReader, cells: Cells) -> Self {
        let values = match reader {
            ColumnReader::BoolColumnReader(reader) => Cursor::Bool(reader, Vec::new()),
            ColumnReader::Int32ColumnReader(reader) => Cursor::Short(reader, Vec::new()),
            ColumnReader::Int64ColumnReader(reader) => Cursor::Long(reader, Vec::new()),
            ColumnReader::FloatColumnReader(reader) => Cursor::Single(reader, Vec::new()),
            ColumnReader::DoubleColumnReader(reader) => Cursor::Double(reader, Vec::new()),
            ColumnReader::ByteArrayColumnReader(reader) => Cursor::Text(reader, Vec::new()),
            // Refused by `Cells::of`.
            ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
                Cursor::None
            }
        };
        Self { cells, values, rounded: Vec::new(), levels: Vec::new() }
    }

    /// Reads the next `rows` rows, of which there must be as many.
    pub(super) fn read(&mut self, rows: usize) -> Read<()> {
        self.levels.clear();
        let levels = &mut self.levels;
        let read = match &mut self.values {
            Cursor::Bool(reader, values) => fill(reader, values, levels, rows)?,
            Cursor::Short(reader, values) => fill(reader, values, levels, rows)?,
            Cursor::Long(reader, values) => fill(reader, values, levels, rows)?,
            Cursor::Single(reader, values) => fill(reader, values, levels, rows)?,
            Cursor::Double(reader, values) => fill(reader, values, levels, rows)?,
            Cursor::Text(reader, values) => fill(reader, values, levels, rows)?,
            Cursor::None => 0,
        };
        match read == rows {
            true => Ok(()),
            false => Err(ParquetError::EOF("a column has fewer cells than there are rows".to_owned())),
        }
    }

    fn len(&self) -> usize {
        match &self.values {
            Cursor::Bool(_, values) => values.len(),
            Cursor::Short(_, values) => values.len(),
            Cursor::Long(_, values) => values.len(),
            Cursor::Single(_, values) => values.len(),
            Cursor::Double(_, values) => values.len(),
            Cursor::Text(_, values) => values.len(),
            Cursor::None => 0,
        }
    }

    /// The first of `rows` rows whose cell is missing.
    pub(super) fn missing(&self, rows: usize) -> Option<usize> {
        match self.len() < rows {
            true => Some(self.levels.iter().position(|&level| level == 0).unwrap_or(self.len())),
            false => None,
        }
    }

    /// Rounds the cells to single precision; row and value of the first that is not finite in it.
    pub(super) fn round(&mut self) -> Option<(usize, f64)> {
        let (unsigned, out) = (self.cells == Cells::Unsigned, &mut self.rounded);
        match &self.values {
            Cursor::Bool(_, values) => convert(values, |v| f32::from(u8::from(v)), out),
            Cursor::Short(_, values) if unsigned => convert(values, |v| v as u32 as f32, out),
            Cursor::Short(_, values) => convert(values, |v| v as f32, out),
            Cursor::Long(_, values) if unsigned => convert(values, |v| v as u64 as f32, out),
            Cursor::Long(_, values) => convert(values, |v| v as f32, out),
            Cursor::Double(_, values) => convert(values, |v| v as f32, out),
            Cursor::Single(..) | Cursor::Text(..) | Cursor::None => {}
        }
        let finite = self.singles().iter().fold(true, |all, cell| all & cell.is_finite());
        if finite {
            None
        } else {
            self.offence()
        }
    }

    /// The cells in single precision, once they are rounded.
    pub(super) fn singles(&self) -> &[f32] {
        match &self.values {
            Cursor::Single(_, values) => values,
            _ => &self.rounded,
        }
    }

    /// Row and value of the first cell that is not finite in single precision.
    fn offence(&self) -> Option<(usize, f64)> {
        let all: Box<dyn Iterator<Item = f64> + '_> = match &self.values {
            Cursor::Single(_, values) => Box::new(values.iter().map(|&v| f64::from(v))),
            Cursor::Double(_, values) => Box::new(values.iter().copied()),
            _ => return None,
        };
        all.enumerate().find(|(_, value)| !(*value as f32).is_finite())
    }

    /// Appends the cells to a target; `first` is the number of the first row.
    pub(super) fn append_target(
        &self,
        target: &mut Option<RawTarget>,
        name: &str,
        path: &Path,
        first: usize,
    ) -> Result<()> {
        let mut numbers = |values: &mut dyn Iterator<Item = f64>, single: bool| {
            let target = target.get_or_insert_with(|| RawTarget::of_numbers(name, path, Vec::new(), single));
            for (row, value) in values.enumerate() {
                if !value.is_finite() {
                    return Err(Error::NotFinite { what: "y", value, row: first + row, column: 0 });
                }
                target.push_number(value);
            }
            Ok(())
        };
        let unsigned = self.cells == Cells::Unsigned;
        match &self.values {
            Cursor::Bool(_, values) => numbers(&mut values.iter().map(|&v| f64::from(u8::from(v))), false),
            Cursor::Short(_, values) if unsigned => {
                numbers(&mut values.iter().map(|&v| f64::from(v as u32)), false)
            }
            Cursor::Short(_, values) => numbers(&mut values.iter().map(|&v| f64::from(v)), false),
            Cursor::Long(_, values) => {
                numbers(&mut values.iter().map(|&v| if unsigned { v as u64 as f64 } else { v as f64 }), false)
            }
            Cursor::Single(_, values) => numbers(&mut values.iter().map(|&v| f64::from(v)), true),
            Cursor::Double(_, values) => numbers(&mut values.iter().copied(), false),
            Cursor::Text(_, values) => {
                let target = target.get_or_insert_with(|| RawTarget::new(name, path));
                values.iter().enumerate().try_for_each(|(row, text)| {
                    let line = first + row + 1;
                    match std::str::from_utf8(text.data()) {
                        Ok(text) => target.push(text, line),
                        Err(_) => Err(target.error(line, "is not UTF-8 text; convert the file to UTF-8")),
                    }
                })
            }
            Cursor::None => Ok(()),
        }
    }
}

/// Puts converted values in place of those in `out`.
fn convert<T: Copy>(values: &[T], single: impl Fn(T) -> f32, out: &mut Vec<f32>) {
    out.clear();
    out.extend(values.iter().map(|&value| single(value)));
}
