//! Row-major views, converted to single precision tile by tile.

use super::cache::CachedRows;
use super::sparse::{Number, Sparse};
use crate::error::{Error, Result};
use crate::memory::room;
use std::ops::Range;

/// Rows of a logical tile. Sums over rows are formed tile by tile and added in tile order, so neither
/// the thread count nor the chunking changes a digit.
pub const TILE: usize = 1_024;

/// A dense row-major matrix in memory the caller owns.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    values: &'a [T],
    columns: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// The values, row by row.
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// A view of `values` as rows of `columns` numbers.
    pub fn new(values: &'a [T], columns: usize) -> Result<Self> {
        if columns == 0 {
            return Err(Error::Empty { what: "X", needed: "one column" });
        }
        if !values.len().is_multiple_of(columns) {
            return Err(Error::Columns { expected: columns, found: values.len() % columns });
        }
        Ok(Self { values, columns })
    }
}

/// The rows a model is fitted to or evaluated at.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Single precision, used in place.
    Single(Matrix<'a, f32>),
    /// Double precision, rounded one tile at a time.
    Double(Matrix<'a, f64>),
    /// Non-zeros in single precision, made dense one tile at a time.
    SparseSingle(Sparse<'a, f32>),
    /// Non-zeros in double precision, rounded and made dense one tile at a time.
    SparseDouble(Sparse<'a, f64>),
    /// Single precision on disk, read one tile at a time.
    Cached(CachedRows<'a>),
}

impl<'a> From<CachedRows<'a>> for Rows<'a> {
    fn from(rows: CachedRows<'a>) -> Self {
        Self::Cached(rows)
    }
}

impl<'a> From<Sparse<'a, f32>> for Rows<'a> {
    fn from(matrix: Sparse<'a, f32>) -> Self {
        Self::SparseSingle(matrix)
    }
}

impl<'a> From<Sparse<'a, f64>> for Rows<'a> {
    fn from(matrix: Sparse<'a, f64>) -> Self {
        Self::SparseDouble(matrix)
    }
}

impl<'a> Rows<'a> {
    /// A view of single-precision values.
    pub fn single(values: &'a [f32], columns: usize) -> Result<Self> {
        Ok(Self::Single(Matrix::new(values, columns)?))
    }

    /// A view of double-precision values.
    pub fn double(values: &'a [f64], columns: usize) -> Result<Self> {
        Ok(Self::Double(Matrix::new(values, columns)?))
    }

    /// Number of columns d.
    pub fn columns(&self) -> usize {
        match self {
            Self::Single(m) => m.columns,
            Self::Double(m) => m.columns,
            Self::SparseSingle(m) => m.columns(),
            Self::SparseDouble(m) => m.columns(),
            Self::Cached(m) => m.columns(),
        }
    }

    /// Whether these are the same numbers in memory or on disk; sparse rows are never said to be.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Single(own), Self::Single(other)) => std::ptr::eq(own.values(), other.values()),
            (Self::Double(own), Self::Double(other)) => std::ptr::eq(own.values(), other.values()),
            (Self::Cached(own), Self::Cached(other)) => own.is(other),
            _ => false,
        }
    }

    /// Number of rows n.
    pub fn len(&self) -> usize {
        match self {
            Self::Single(m) => m.values.len() / m.columns,
            Self::Double(m) => m.values.len() / m.columns,
            Self::SparseSingle(m) => m.len(),
            Self::SparseDouble(m) => m.len(),
            Self::Cached(m) => m.len(),
        }
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows `range` alone.
    pub fn slice(&self, range: Range<usize>) -> Rows<'a> {
        match *self {
            Self::Single(Matrix { values, columns }) => {
                Self::Single(Matrix { values: &values[range.start * columns..range.end * columns], columns })
            }
            Self::Double(Matrix { values, columns }) => {
                Self::Double(Matrix { values: &values[range.start * columns..range.end * columns], columns })
            }
            Self::SparseSingle(m) => Self::SparseSingle(m.slice(range)),
            Self::SparseDouble(m) => Self::SparseDouble(m.slice(range)),
            Self::Cached(m) => Self::Cached(m.slice(range)),
        }
    }

    /// The rows `range` in single precision and with their zeros: borrowed where they already are so, else written into
    /// `buffer`.
    pub fn tile<'b>(&self, range: Range<usize>, buffer: &'b mut Vec<f32>) -> &'b [f32]
    where
        'a: 'b,
    {
        match self.slice(range) {
            Self::Single(m) => m.values,
            Self::Double(m) => {
                buffer.clear();
                buffer.extend(m.values.iter().map(|&v| v as f32));
                buffer
            }
            Self::SparseSingle(m) => {
                buffer.clear();
                m.append(0..m.len(), buffer);
                buffer
            }
            Self::SparseDouble(m) => {
                buffer.clear();
                m.append(0..m.len(), buffer);
                buffer
            }
            Self::Cached(m) => m.read(buffer),
        }
    }

    /// The first error there was in reading rows that are on disk. What was computed from rows since then is worth nothing.
    pub fn fault(&self) -> Result<()> {
        match self {
            Self::Cached(m) => m.fault(),
            _ => Ok(()),
        }
    }

    /// What was computed from the rows, unless they could not be read: then that is the error.
    pub(crate) fn sound<T>(&self, outcome: Result<T>) -> Result<T> {
        self.fault().and(outcome)
    }

    /// Hands over the rows tile by tile.
    fn for_each_tile(&self, mut each: impl FnMut(&[f32])) {
        let mut buffer = Vec::new();
        tiles(self.len()).for_each(|tile| each(self.tile(tile, &mut buffer)));
    }

    /// Appends the rows with their zeros in double precision.
    pub fn append_doubles(&self, out: &mut Vec<f64>) {
        match self {
            Self::Single(m) => out.extend(m.values.iter().map(|&v| f64::from(v))),
            Self::Double(m) => out.extend_from_slice(m.values),
            Self::SparseSingle(m) => {
                let mut row = Vec::new();
                (0..m.len()).for_each(|i| out.extend(m.row(i, &mut row).iter().map(|&v| f64::from(v))));
            }
            Self::SparseDouble(m) => {
                let mut row = Vec::new();
                (0..m.len()).for_each(|i| out.extend_from_slice(m.row(i, &mut row)));
            }
            Self::Cached(_) => self.for_each_tile(|tile| out.extend(tile.iter().map(|&v| f64::from(v)))),
        }
    }

    /// The bits of every value, row by row; those of a sparse matrix are those of the dense one.
    pub(crate) fn for_each_word(&self, mut each: impl FnMut(u64)) {
        match self {
            Self::Single(m) => m.values.iter().for_each(|v| each(v.word())),
            Self::Double(m) => m.values.iter().for_each(|v| each(v.word())),
            Self::SparseSingle(m) => {
                let mut row = Vec::new();
                (0..m.len()).for_each(|i| m.row(i, &mut row).iter().for_each(|v| each(v.word())));
            }
            Self::SparseDouble(m) => {
                let mut row = Vec::new();
                (0..m.len()).for_each(|i| m.row(i, &mut row).iter().for_each(|v| each(v.word())));
            }
            Self::Cached(_) => self.for_each_tile(|tile| tile.iter().for_each(|v| each(v.word()))),
        }
    }

    /// Columns and values of what is not zero in a row, by column, into a buffer that is cleared first.
    pub(crate) fn non_zeros(&self, row: usize, out: &mut Vec<(usize, f64)>) {
        out.clear();
        let span = |columns: usize| row * columns..(row + 1) * columns;
        match self {
            Self::Single(m) => {
                let values = m.values[span(m.columns)].iter().map(|&v| f64::from(v));
                out.extend(values.enumerate().filter(|entry| entry.1 != 0.0));
            }
            Self::Double(m) => {
                let values = m.values[span(m.columns)].iter().copied();
                out.extend(values.enumerate().filter(|entry| entry.1 != 0.0));
            }
            Self::SparseSingle(m) => m.non_zeros(row, out),
            Self::SparseDouble(m) => m.non_zeros(row, out),
            Self::Cached(m) => {
                let mut values = Vec::new();
                let values = m.slice(row..row + 1).read(&mut values).iter().map(|&v| f64::from(v));
                out.extend(values.enumerate().filter(|entry| entry.1 != 0.0));
            }
        }
    }

    /// One value, in double precision.
    pub fn value(&self, row: usize, column: usize) -> f64 {
        match self {
            Self::Single(m) => f64::from(m.values[row * m.columns + column]),
            Self::Double(m) => m.values[row * m.columns + column],
            Self::SparseSingle(m) => f64::from(m.value(row, column)),
            Self::SparseDouble(m) => m.value(row, column),
            Self::Cached(m) => f64::from(m.value(row, column)),
        }
    }

    /// Copies the rows at `indices` into a single-precision row-major buffer.
    pub fn gather(&self, indices: &[u32]) -> Vec<f32> {
        let mut out = Vec::with_capacity(indices.len() * self.columns());
        self.gather_into(indices, &mut out);
        out
    }

    /// As [`Rows::gather`], into a buffer that is cleared first.
    pub fn gather_into<'b>(&self, indices: &[u32], out: &'b mut Vec<f32>) -> &'b [f32] {
        out.clear();
        self.gather_behind(indices, out);
        out
    }

    /// As [`Rows::gather`], behind what `out` holds.
    pub(crate) fn gather_behind(&self, indices: &[u32], out: &mut Vec<f32>) {
        out.reserve_exact(indices.len() * self.columns());
        let rows = indices.iter().map(|&i| i as usize);
        let dense = |columns: usize| rows.clone().map(move |i| i * columns..(i + 1) * columns);
        match self {
            Self::Single(m) => dense(m.columns).for_each(|range| out.extend_from_slice(&m.values[range])),
            Self::Double(m) => {
                dense(m.columns).for_each(|range| out.extend(m.values[range].iter().map(|&v| v as f32)));
            }
            Self::SparseSingle(m) => m.append(rows, out),
            Self::SparseDouble(m) => m.append(rows, out),
            Self::Cached(m) => m.gather(indices, out),
        }
    }

    /// Refuses NaN, infinities and values beyond single precision by name.
    pub fn check_finite(&self, what: &'static str) -> Result<()> {
        // Means, deviations and a tile of dense rows: more is asked for where it is needed.
        room("rows this wide", "the columns of X", &[self.columns(), 64], 8)?;
        let place = |i: usize, value: f64| (i / self.columns(), i % self.columns(), value);
        let offence = match self {
            Self::Single(m) => {
                m.values.iter().position(|v| !v.is_finite()).map(|i| place(i, m.values[i].into()))
            }
            Self::Double(m) => {
                m.values.iter().position(|&v| !(v as f32).is_finite()).map(|i| place(i, m.values[i]))
            }
            Self::SparseSingle(m) => m.offence(),
            Self::SparseDouble(m) => m.offence(),
            // Readers refuse what is not finite before it comes to disk.
            Self::Cached(m) => return m.fault(),
        };
        match offence {
            None => Ok(()),
            Some((row, column, value)) => Err(Error::NotFinite { what, value, row, column }),
        }
    }
}

/// The logical tiles of `n` rows, in order.
pub fn tiles(n: usize) -> impl ExactSizeIterator<Item = Range<usize>> + Clone {
    (0..n.div_ceil(TILE)).map(move |t| t * TILE..((t + 1) * TILE).min(n))
}
