//! NumPy arrays, and the decoding of any array of numbers that follows a header with its shape.

use super::reader::InParts;
use super::source::Source;
use super::table::{column_name, Dataset, Table, TargetColumn, Values};
use super::target::RawTarget;
use crate::error::{Error, Result};
use std::fmt::{Display, Write};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// No honest header of a plain array comes near this many bytes.
const MAX_HEADER: usize = 1 << 20;
/// Bytes decoded at a time; a multiple of every element size.
const CHUNK: usize = 1 << 16;

/// Reads a `.npy` file of format version 1, 2 or 3.
pub(super) fn read(source: Source, target: &TargetColumn) -> Result<Dataset> {
    open(source, target)?.whole()
}

/// Reads the header of a `.npy` file.
pub(super) fn open(mut source: Source, target: &TargetColumn) -> Result<Reader> {
    let mut start = [0; 8];
    source.read_exact(&mut start, "header")?;
    let (b"\x93NUMPY", [major, _]) = start.split_at(6) else {
        return Err(source.invalid("not a NumPy array: write one with numpy.save"));
    };
    let (mut length, width) = ([0; 4], if *major == 1 { 2 } else { 4 });
    if !(1..=3).contains(major) {
        return Err(
            source.invalid(format!("NumPy format version {major} is unknown; versions 1, 2 and 3 are read"))
        );
    }
    source.read_exact(&mut length[..width], "header")?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER {
        return Err(source.invalid(format!("a header of {length} bytes is not that of an array of numbers")));
    }
    // As much memory as there are bytes, whatever their number is said to be.
    let mut header = Vec::new();
    match source.input.by_ref().take(length as u64).read_to_end(&mut header) {
        Ok(read) if read == length => {}
        Ok(_) => return Err(source.invalid("the file ends inside its header; fetch or write it again")),
        Err(error) => return Err(source.io_error(error)),
    }
    let array = parse_header(&String::from_utf8_lossy(&header)).map_err(|reason| source.invalid(reason))?;
    Reader::new(source, array, (8 + width + length) as u64, target)
}

/// The array a header such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }` announces.
fn parse_header(header: &str) -> Result<Array, String> {
    let (element, big_endian) = parse_type(entry(header, "descr")?)?;
    let fortran = match entry(header, "fortran_order")? {
        order if order.starts_with("True") => true,
        order if order.starts_with("False") => false,
        _ => return Err("the header gives no order of the elements".to_owned()),
    };
    let shape = entry(header, "shape")?;
    let inner = shape.strip_prefix('(').and_then(|rest| rest.split_once(')')).map(|(inner, _)| inner);
    let inner = inner.ok_or("the header gives no shape")?;
    let extents = inner.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let shape = extents.map(|extent| extent.trim_end_matches('L').parse::<usize>());
    let shape = shape.collect::<Result<Vec<_>, _>>().map_err(|_| format!("({inner}) is not a shape"))?;
    Ok(Array { element, big_endian, fortran, shape })
}

/// The text that follows a key of the header.
fn entry<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let value = quoted.iter().find_map(|key| header.split_once(key.as_str())).and_then(|(_, rest)| {
        let value = rest.trim_start().strip_prefix(':')?;
        Some(value.trim_start())
    });
    value.ok_or_else(|| format!("the header lacks {key:?}"))
}

/// An element type such as `'<f4'`, and whether its most significant byte comes first.
fn parse_type(text: &str) -> Result<(Element, bool), String> {
    let name =
        text.split(['\'', '"']).nth(1).filter(|_| text.starts_with(['\'', '"'])).unwrap_or("structured");
    let big_endian = name.starts_with('>');
    let element = match name.trim_start_matches(['<', '>', '|', '=']) {
        "f4" => Element::F32,
        "f8" => Element::F64,
        "i1" => Element::I8,
        "i2" => Element::I16,
        "i4" => Element::I32,
        "i8" => Element::I64,
        "u1" | "b1" => Element::U8,
        "u2" => Element::U16,
        "u4" => Element::U32,
        "u8" => Element::U64,
        _ => {
            return Err(format!(
                "elements of type {name:?} are not read; save the array as float32, float64 or integers"
            ))
        }
    };
    Ok((element, big_endian))
}

/// The type of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

impl Element {
    fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

/// What a header says about the numbers behind it.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) element: Element,
    pub(super) big_endian: bool,
    /// Whether the first index runs fastest.
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
}

impl Array {
    /// Rows, columns and bytes, or the reason there are none.
    fn extent(&self) -> Result<(usize, usize, usize), String> {
        let [rows, inner @ ..] = self.shape.as_slice() else {
            return Err("a single number is no table; save an array of rows".to_owned());
        };
        let columns = inner.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
        let bytes = columns.and_then(|columns| columns.checked_mul(*rows)?.checked_mul(self.element.size()));
        match (columns, bytes) {
            (Some(_), Some(0)) => Err(format!("an array of shape {:?} holds no values", self.shape)),
            (Some(columns), Some(bytes)) => Ok((*rows, columns, bytes)),
            _ => Err(format!("the header claims the shape {:?}, more than any memory", self.shape)),
        }
    }

    /// The logical column (last index fastest) of the `place`-th column in the file (first index fastest).
    fn logical_column(&self, mut place: usize) -> usize {
        let inner = self.shape.get(1..).unwrap_or_default();
        let (mut column, mut stride) = (0, inner.iter().product::<usize>());
        for &extent in inner {
            stride /= extent;
            column += place % extent * stride;
            place /= extent;
        }
        column
    }
}

/// The numbers behind a header, read a number of rows at a time.
pub(super) struct Reader {
    source: Source,
    array: Array,
    /// Bytes before the first number.
    offset: u64,
    rows: usize,
    columns: usize,
    /// The logical column that is the target.
    wanted: Option<usize>,
    /// Rows read so far.
    read: usize,
}

impl Reader {
    /// The array behind a header of `offset` bytes. Nothing is allocated on the word of the header alone.
    pub(super) fn new(source: Source, array: Array, offset: u64, target: &TargetColumn) -> Result<Self> {
        let (rows, columns, bytes) = array.extent().map_err(|reason| source.invalid(reason))?;
        let there = source.length.map(|length| length.saturating_sub(offset));
        if let Some(there) = there.filter(|&there| there != bytes as u64) {
            let shape = &array.shape;
            return Err(source
                .invalid(format!("the shape {shape:?} needs {bytes} bytes of data, the file has {there}")));
        }
        let wanted = target.resolve(&[], columns).map_err(|reason| source.invalid(reason))?;
        Ok(Self { source, array, offset, rows, columns, wanted, read: 0 })
    }

    /// All rows at once.
    pub(super) fn whole(mut self) -> Result<Dataset> {
        self.part(self.rows)
    }

    /// The next `rows` rows, of which there are so many.
    fn part(&mut self, rows: usize) -> Result<Dataset> {
        let target = self.wanted.map(|column| RawTarget::new(column_name(&[], 0, column), &self.source.path));
        let width = self.columns - usize::from(self.wanted.is_some());
        let fortran = self.array.fortran;
        let mut collector = Collector {
            extent: if fortran { rows } else { self.columns },
            target_place: self.wanted.and_then(|column| place_of(&self.array, column, self.columns)),
            fortran,
            first: self.read,
            fast: 0,
            slow: 0,
            values: Vec::with_capacity(if self.source.length.is_some() { rows * width } else { 0 }),
            target,
            cell: String::new(),
        };
        let size = self.array.element.size();
        if fortran && rows < self.rows {
            self.collect_strided(&mut collector, rows)?;
        } else {
            collector.collect(&mut self.source, &self.array, rows * self.columns * size)?;
        }
        self.read += rows;
        if self.read == self.rows && !(fortran && rows < self.rows) {
            self.source.expect_end()?;
        }
        let mut values = collector.values;
        if fortran {
            values = transpose(&values, &self.array, rows, width, self.wanted);
        }
        values.shrink_to_fit();
        let features =
            Table { values: Values::Dense(values), columns: width, names: Vec::new(), first_index: 0 };
        Ok(Dataset { features, target: collector.target, unread: None })
    }

    /// Reads the next `rows` numbers of every column of an array that lies column by column.
    fn collect_strided(&self, collector: &mut Collector, rows: usize) -> Result<()> {
        let path = &self.source.path;
        if self.source.length.is_none() {
            return Err(self.source.invalid(
                "a compressed array that lies column by column cannot be read in parts; decompress it, or save \
                 numpy.ascontiguousarray of it",
            ));
        }
        let failed = |source| Error::Io { path: path.clone(), source };
        let mut file = File::open(path).map_err(failed)?;
        let size = self.array.element.size();
        let mut bytes = vec![0; rows * size];
        for place in 0..self.columns {
            let start = self.offset + ((place * self.rows + self.read) * size) as u64;
            file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut bytes)).map_err(failed)?;
            collector.decode(&bytes, &self.array)?;
        }
        Ok(())
    }
}

impl InParts for Reader {
    fn columns(&self) -> usize {
        self.columns
    }

    fn next(&mut self, rows: usize) -> Result<Option<Dataset>> {
        match rows.min(self.rows - self.read) {
            0 => Ok(None),
            rows => self.part(rows).map(Some),
        }
    }
}

/// Where in the file a logical column lies.
fn place_of(array: &Array, column: usize, columns: usize) -> Option<usize> {
    if !array.fortran {
        return Some(column);
    }
    (0..columns).find(|&place| array.logical_column(place) == column)
}

/// Rows side by side from columns side by side; the target is in `values` no more.
fn transpose(values: &[f32], array: &Array, rows: usize, width: usize, target: Option<usize>) -> Vec<f32> {
    let columns = width + usize::from(target.is_some());
    let logical =
        (0..columns).map(|place| array.logical_column(place)).filter(|&column| Some(column) != target);
    let mut out = vec![0.0; values.len()];
    for (source, column) in values.chunks_exact(rows).zip(logical) {
        let column = column - usize::from(target.is_some_and(|target| target < column));
        for (row, &value) in out.chunks_exact_mut(width).zip(source) {
            row[column] = value;
        }
    }
    out
}

/// A number in a file.
trait Number: Copy + Display {
    /// Hands every element of `bytes` to `sink`.
    fn decode(bytes: &[u8], big_endian: bool, sink: impl FnMut(Self) -> Result<()>) -> Result<()>;
    fn single(self) -> f32;
    fn double(self) -> f64;
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn decode(bytes: &[u8], big_endian: bool, sink: impl FnMut(Self) -> Result<()>) -> Result<()> {
                let (elements, _) = bytes.as_chunks::<{ size_of::<Self>() }>();
                let convert = if big_endian { Self::from_be_bytes } else { Self::from_le_bytes };
                elements.iter().map(|&element| convert(element)).try_for_each(sink)
            }

            fn single(self) -> f32 {
                self as f32
            }

            fn double(self) -> f64 {
                self as f64
            }
        }
    )*};
}

number!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

/// Sorts the elements of an array into features and target as they arrive.
struct Collector {
    /// Steps of the fast index.
    extent: usize,
    target_place: Option<usize>,
    fortran: bool,
    /// The row of the array that is the first here.
    first: usize,
    fast: usize,
    slow: usize,
    values: Vec<f32>,
    target: Option<RawTarget>,
    cell: String,
}

impl Collector {
    /// Reads `bytes` bytes.
    fn collect(&mut self, source: &mut Source, array: &Array, bytes: usize) -> Result<()> {
        let mut buffer = vec![0; CHUNK];
        let mut left = bytes;
        while left > 0 {
            let chunk = &mut buffer[..left.min(CHUNK)];
            source.read_exact(chunk, "data")?;
            left -= chunk.len();
            self.decode(chunk, array)?;
        }
        Ok(())
    }

    fn decode(&mut self, chunk: &[u8], array: &Array) -> Result<()> {
        let big = array.big_endian;
        match array.element {
            Element::F32 => f32::decode(chunk, big, |number| self.accept(number)),
            Element::F64 => f64::decode(chunk, big, |number| self.accept(number)),
            Element::I8 => i8::decode(chunk, big, |number| self.accept(number)),
            Element::I16 => i16::decode(chunk, big, |number| self.accept(number)),
            Element::I32 => i32::decode(chunk, big, |number| self.accept(number)),
            Element::I64 => i64::decode(chunk, big, |number| self.accept(number)),
            Element::U8 => u8::decode(chunk, big, |number| self.accept(number)),
            Element::U16 => u16::decode(chunk, big, |number| self.accept(number)),
            Element::U32 => u32::decode(chunk, big, |number| self.accept(number)),
            Element::U64 => u64::decode(chunk, big, |number| self.accept(number)),
        }
    }

    #[inline]
    fn accept(&mut self, number: impl Number) -> Result<()> {
        let (row, place) = if self.fortran { (self.fast, self.slow) } else { (self.slow, self.fast) };
        let row = self.first + row;
        self.fast += 1;
        if self.fast == self.extent {
            (self.fast, self.slow) = (0, self.slow + 1);
        }
        let is_target = self.target_place == Some(place);
        if !(if is_target { number.double().is_finite() } else { number.single().is_finite() }) {
            let what = if is_target { "y" } else { "X" };
            return Err(Error::NotFinite { what, value: number.double(), row, column: place });
        }
        match &mut self.target {
            Some(target) if is_target => {
                self.cell.clear();
                // Writing to a string cannot fail.
                let _ = write!(self.cell, "{number}");
                target.push(&self.cell, row + 1)
            }
            _ => {
                self.values.push(number.single());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(version: u8, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let order = if fortran { "True" } else { "False" };
        let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let length = header.len() as u32;
        let mut bytes = [b"\x93NUMPY".as_slice(), &[version, 0]].concat();
        bytes.extend_from_slice(&length.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
        [bytes.as_slice(), header.as_bytes(), data].concat()
    }

    fn parse(bytes: &[u8], target: TargetColumn) -> Result<Dataset> {
        let streamed = read(Source::of_bytes("t.npy", bytes, false), &target);
        let known = read(Source::of_bytes("t.npy", bytes, true), &target);
        assert_eq!(streamed.is_ok(), known.is_ok(), "{streamed:?} {known:?}");
        known
    }

    fn message(bytes: &[u8]) -> String {
        parse(bytes, TargetColumn::None).unwrap_err().to_string()
    }

    fn bytes_of<const N: usize>(numbers: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
        numbers.into_iter().flatten().collect()
    }

    #[test]
    fn reads_every_type_in_both_byte_orders() {
        macro_rules! check {
            ($($name:literal $type:ty),*) => {$(
                let numbers: [$type; 6] = [1, 2, 3, 4, 5, 6].map(|number: u8| number as $type);
                let little = bytes_of(numbers.map(<$type>::to_le_bytes));
                let big = bytes_of(numbers.map(<$type>::to_be_bytes));
                for (order, data) in [("<", little), (">", big)] {
                    for version in 1..=3 {
                        let bytes = file(version, &format!("{order}{}", $name), false, "(3, 2)", &data);
                        let features = parse(&bytes, TargetColumn::None).unwrap().features;
                        assert_eq!(features.dense(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
                        assert_eq!(features.columns, 2);
                    }
                }
            )*};
        }
        check!("f4" f32, "f8" f64, "i1" i8, "i2" i16, "i4" i32, "i8" i64, "u1" u8, "u2" u16, "u4" u32, "u8" u64);
    }

    #[test]
    fn transposes_fortran_order() {
        // numpy.asfortranarray(numpy.arange(12).reshape(2, 2, 3))
        let data = [0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11];
        let bytes = file(1, "|u1", true, "(2L, 2L, 3L)", &data);
        let features = parse(&bytes, TargetColumn::None).unwrap().features;
        assert_eq!(features.dense(), (0..12).map(|i| i as f32).collect::<Vec<_>>());
        let dataset = parse(&bytes, TargetColumn::Name("x2".into())).unwrap();
        assert_eq!(dataset.features.dense(), [0., 1., 3., 4., 5., 6., 7., 9., 10., 11.]);
        assert_eq!(dataset.target.unwrap().numbers().unwrap(), [2.0, 8.0]);
    }

    #[test]
    fn a_target_keeps_the_digits_single_precision_would_lose() {
        let data = bytes_of([1_i64, 9_007_199_254_740_993, 2, -3].map(i64::to_le_bytes));
        let dataset = parse(&file(1, "<i8", false, "(2, 2)", &data), TargetColumn::Last).unwrap();
        assert_eq!(dataset.target.unwrap().labels().classes, ["-3", "9007199254740993"]);
        let data = bytes_of([0.1_f64, 1.0].map(f64::to_le_bytes));
        let dataset = parse(&file(1, "<f8", false, "(2,)", &data), TargetColumn::Last).unwrap();
        assert_eq!(dataset.target.unwrap().iter().collect::<Vec<_>>(), ["0.1", "1"]);
        assert_eq!(dataset.features.columns, 0);
    }

    #[test]
    fn refuses_what_is_not_finite_by_row_and_column() {
        for (value, descr) in [(f64::NAN, "<f8"), (1e300, "<f8")] {
            let data = bytes_of([1.0, 2.0, value, 4.0].map(f64::to_le_bytes));
            let error = parse(&file(1, descr, false, "(2, 2)", &data), TargetColumn::None).unwrap_err();
            assert!(matches!(error, Error::NotFinite { what: "X", row: 1, column: 0, .. }), "{error}");
            let error = parse(&file(1, descr, true, "(2, 2)", &data), TargetColumn::None).unwrap_err();
            assert!(matches!(error, Error::NotFinite { what: "X", row: 0, column: 1, .. }), "{error}");
        }
        let data = bytes_of([1.0, f32::NAN].map(f32::to_le_bytes));
        let error = parse(&file(1, "<f4", false, "(1, 2)", &data), TargetColumn::Last).unwrap_err();
        assert!(matches!(error, Error::NotFinite { what: "y", row: 0, column: 1, .. }), "{error}");
    }

    #[test]
    fn refuses_shapes_the_file_cannot_hold_without_allocating() {
        for shape in ["(1099511627776, 1024)", "(4294967296, 4294967296)", "(18446744073709551615, 2)"] {
            assert!(message(&file(1, "<f4", false, shape, &[0; 8])).starts_with("t.npy: "), "{shape}");
            assert!(message(&file(1, "<f4", true, shape, &[0; 8])).starts_with("t.npy: "), "{shape}");
        }
        assert!(message(&file(1, "<f4", false, "(3,)", &[0; 8]))
            .contains("needs 12 bytes of data, the file has 8"));
        assert!(message(&file(1, "<f4", false, "(1,)", &[0; 8])).contains("needs 4 bytes"));
        assert!(message(&file(1, "<f4", false, "(0, 3)", &[])).contains("no values"));
        assert!(message(&file(1, "<f4", false, "()", &[0; 4])).contains("single number"));
        let mut huge_header = file(2, "<f4", false, "(1,)", &[0; 4]);
        huge_header[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(message(&huge_header).contains("header of 4294967295 bytes"));
    }

    #[test]
    fn says_what_it_does_not_read() {
        assert!(message(&file(1, "<c8", false, "(1,)", &[0; 8])).contains("\"<c8\""));
        assert!(message(&file(9, "<f4", false, "(1,)", &[0; 4])).contains("version 9"));
        assert!(message(b"PK\x03\x04 a .npz archive").contains("numpy.save"));
        assert!(message(b"\x93NUMPY").contains("ends inside its header"));
        assert!(message(&file(1, "<f4', 'other': '", false, "x", &[])).contains("no shape"));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes, TargetColumn::Last);
            let _ = parse(&[b"\x93NUMPY\x01\x00".as_slice(), &bytes].concat(), TargetColumn::Last);
        }

        #[test]
        fn never_panics_near_the_format(
            descr in "[<>|=]?[fiub][1248]", fortran: bool, shape in "[(]([0-9]{1,2}, ?){0,4}[)]?",
            data in prop::collection::vec(any::<u8>(), 0..64), cut in 0_usize..200,
        ) {
            let bytes = file(1, &descr, fortran, &shape, &data);
            let _ = parse(&bytes, TargetColumn::First);
            let _ = parse(&bytes[..cut.min(bytes.len())], TargetColumn::None);
        }

        #[test]
        fn fortran_order_is_c_order_transposed(
            shape in prop::array::uniform3(1_usize..5), target in prop::option::of(0_usize..4)
        ) {
            let [rows, a, b] = shape;
            let target = target.filter(|&column| column < a * b).map_or(TargetColumn::None, TargetColumn::Index);
            let written = format!("({rows}, {a}, {b})");
            let c: Vec<u8> = (0..(rows * a * b) as u8).collect();
            let mut fortran = vec![0; c.len()];
            for (place, &value) in c.iter().enumerate() {
                let (i, j, k) = (place / (a * b), place / b % a, place % b);
                fortran[i + rows * (j + a * k)] = value;
            }
            let [c, fortran] = [(false, c), (true, fortran)]
                .map(|(order, data)| parse(&file(1, "|u1", order, &written, &data), target.clone()).unwrap());
            prop_assert_eq!(c.features, fortran.features);
            let labels = |dataset: Option<RawTarget>| dataset.map(|target| target.labels());
            prop_assert_eq!(labels(c.target), labels(fortran.target));
        }
    }
}
