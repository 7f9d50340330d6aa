//! Parquet files for tests.

use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// A column: its cells.
#[allow(dead_code)]
pub enum Cells {
    Single(Vec<f32>),
    Double(Vec<f64>),
    Short(Vec<i32>),
    Long(Vec<i64>),
    Bool(Vec<bool>),
    Text(Vec<&'static str>),
    /// Cells that may be missing.
    Optional(Vec<Option<f32>>),
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Self::Single(v) => v.len(),
            Self::Double(v) => v.len(),
            Self::Short(v) => v.len(),
            Self::Long(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Text(v) => v.len(),
            Self::Optional(v) => v.len(),
        }
    }

    fn declared(&self, name: &str) -> String {
        match self {
            Self::Single(_) => format!("required float {name};"),
            Self::Double(_) => format!("required double {name};"),
            Self::Short(_) => format!("required int32 {name};"),
            Self::Long(_) => format!("required int64 {name};"),
            Self::Bool(_) => format!("required boolean {name};"),
            Self::Text(_) => format!("required binary {name} (UTF8);"),
            Self::Optional(_) => format!("optional float {name};"),
        }
    }
}

/// How a file is written.
#[derive(Clone, Copy)]
pub struct Form {
    pub compression: Compression,
    pub second_version: bool,
    pub dictionary: bool,
    /// Rows of a group and of a page.
    pub group: usize,
    pub page: usize,
}

impl Default for Form {
    fn default() -> Self {
        let (second_version, dictionary) = (false, true);
        Self {
            compression: Compression::UNCOMPRESSED,
            second_version,
            dictionary,
            group: 1 << 20,
            page: 20_000,
        }
    }
}

fn put<T: DataType>(column: &mut SerializedColumnWriter<'_>, values: &[T::T], levels: Option<&[i16]>) {
    column.typed::<T>().write_batch(values, levels, None).unwrap();
}

/// A file of these columns.
pub fn parquet(columns: &[(&str, Cells)], form: Form) -> Vec<u8> {
    let fields: Vec<_> = columns.iter().map(|(name, cells)| cells.declared(name)).collect();
    written(&format!("message rows {{ {} }}", fields.join(" ")), columns, form)
}

/// A file of this schema.
pub fn written(schema: &str, columns: &[(&str, Cells)], form: Form) -> Vec<u8> {
    let version = if form.second_version { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
    let properties = WriterProperties::builder()
        .set_compression(form.compression)
        .set_writer_version(version)
        .set_dictionary_enabled(form.dictionary)
        .set_data_page_row_count_limit(form.page)
        .set_write_batch_size(form.page.min(1_024))
        .build();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let rows = columns[0].1.len();
    for start in (0..rows).step_by(form.group) {
        let range = start..(start + form.group).min(rows);
        let mut group = writer.next_row_group().unwrap();
        for (_, cells) in columns {
            let mut column = group.next_column().unwrap().unwrap();
            match cells {
                Cells::Single(v) => put::<FloatType>(&mut column, &v[range.clone()], None),
                Cells::Double(v) => put::<DoubleType>(&mut column, &v[range.clone()], None),
                Cells::Short(v) => put::<Int32Type>(&mut column, &v[range.clone()], None),
                Cells::Long(v) => put::<Int64Type>(&mut column, &v[range.clone()], None),
                Cells::Bool(v) => put::<BoolType>(&mut column, &v[range.clone()], None),
                Cells::Text(v) => {
                    let texts: Vec<ByteArray> = v[range.clone()].iter().map(|&text| text.into()).collect();
                    put::<ByteArrayType>(&mut column, &texts, None);
                }
                Cells::Optional(v) => {
                    let levels: Vec<i16> =
                        v[range.clone()].iter().map(|cell| i16::from(cell.is_some())).collect();
                    let there: Vec<f32> = v[range.clone()].iter().flatten().copied().collect();
                    put::<FloatType>(&mut column, &there, Some(&levels));
                }
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}
