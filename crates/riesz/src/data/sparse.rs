//! Compressed sparse rows (CSR), made dense one tile at a time.

use crate::error::{Error, Result};
use std::fmt::{Debug, Display};
use std::ops::{AddAssign, Range};

/// A number of a table, in either precision.
pub trait Number: Copy + Debug + Default + Send + Sync + AddAssign + Into<f64> {
    /// Rounded to single precision.
    fn single(self) -> f32;

    /// Its bits.
    fn word(self) -> u64;
}

impl Number for f32 {
    fn single(self) -> f32 {
        self
    }

    fn word(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Number for f64 {
    fn single(self) -> f32 {
        self as f32
    }

    fn word(self) -> u64 {
        self.to_bits()
    }
}

/// Whole numbers of 32 or 64 bits, as SciPy has them.
#[derive(Clone, Copy, Debug)]
pub enum Indices<'a> {
    /// 32 bits.
    Short(&'a [i32]),
    /// 64 bits.
    Long(&'a [i64]),
}

impl Indices<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Short(values) => values.len(),
            Self::Long(values) => values.len(),
        }
    }

    /// As it stands in the array, negative or not.
    fn raw(&self, i: usize) -> i64 {
        match self {
            Self::Short(values) => i64::from(values[i]),
            Self::Long(values) => values[i],
        }
    }

    /// As a position; what is negative lies beyond any array.
    fn at(&self, i: usize) -> usize {
        usize::try_from(self.raw(i)).unwrap_or(usize::MAX)
    }

    fn slice(self, range: Range<usize>) -> Self {
        match self {
            Self::Short(values) => Self::Short(&values[range]),
            Self::Long(values) => Self::Long(&values[range]),
        }
    }
}

/// A matrix by its non-zeros, in memory the caller owns: row i has `values[k]` in column `indices[k]` for k from
/// `starts[i]` up to `starts[i + 1]`.
///
/// Columns may come in any order; values of the same row and column are added in the precision they have. It is the
/// same matrix, to the last bit, as the dense one with these entries.
#[derive(Clone, Copy, Debug)]
pub struct Sparse<'a, T> {
    starts: Indices<'a>,
    indices: Indices<'a>,
    values: &'a [T],
    columns: usize,
    /// Whether some row names a column twice.
    repeated: bool,
}

impl<'a, T: Number> Sparse<'a, T> {
    /// A view of n rows, where `starts` has n + 1 positions (SciPy's `indptr`). Every position and column is checked.
    pub fn new(starts: Indices<'a>, indices: Indices<'a>, values: &'a [T], columns: usize) -> Result<Self> {
        if columns == 0 {
            return Err(Error::Empty { what: "X", needed: "one column" });
        }
        if indices.len() != values.len() {
            return refuse(format_args!(
                "it has {} column indices for {} values",
                indices.len(),
                values.len()
            ));
        }
        check_starts(starts, values.len())?;
        let mut matrix = Self { starts, indices, values, columns, repeated: false };
        matrix.repeated = matrix.check_columns()?;
        Ok(matrix)
    }

    /// Refuses columns out of range; returns whether one occurs twice in a row.
    fn check_columns(&self) -> Result<bool> {
        let mut repeated = false;
        // The row that named a column last, counted from one; only rows out of order need it.
        let mut named = Vec::new();
        for row in 0..self.len() {
            let (mut previous, mut ordered) = (None, true);
            for k in self.range(row) {
                let column = self.indices.at(k);
                if column >= self.columns {
                    let (found, d) = (self.indices.raw(k), self.columns);
                    return refuse(format_args!("row {row} has a value in column {found}, outside 0..{d}"));
                }
                ordered &= previous.is_none_or(|previous| previous < column);
                previous = Some(column);
            }
            if !ordered && !repeated {
                named.resize(self.columns, 0);
                for k in self.range(row) {
                    repeated |= std::mem::replace(&mut named[self.indices.at(k)], row + 1) == row + 1;
                }
            }
        }
        Ok(repeated)
    }

    /// Number of columns d.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of rows n.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows `range` alone.
    pub(super) fn slice(&self, range: Range<usize>) -> Self {
        Self { starts: self.starts.slice(range.start..range.end + 1), ..*self }
    }

    fn range(&self, row: usize) -> Range<usize> {
        self.starts.at(row)..self.starts.at(row + 1)
    }

    /// Columns and values of a row as they are stored.
    fn entries(&self, row: usize) -> impl Iterator<Item = (usize, T)> + '_ {
        self.range(row).map(|k| (self.indices.at(k), self.values[k]))
    }

    /// The sum of what is stored for a row and a column.
    pub(super) fn value(&self, row: usize, column: usize) -> T {
        let mut sum = T::default();
        self.entries(row).filter(|entry| entry.0 == column).for_each(|entry| sum += entry.1);
        sum
    }

    /// A row with its zeros.
    pub fn row<'b>(&self, row: usize, buffer: &'b mut Vec<T>) -> &'b [T] {
        buffer.clear();
        buffer.resize(self.columns, T::default());
        self.entries(row).for_each(|(column, value)| buffer[column] += value);
        buffer
    }

    /// Columns and values of what is not zero in a row, by column; values of one column are added.
    pub(super) fn non_zeros(&self, row: usize, out: &mut Vec<(usize, f64)>) {
        let mut entries: Vec<(usize, T)> = self.entries(row).collect();
        entries.sort_by_key(|entry| entry.0);
        let mut at = 0;
        while let Some(&(column, _)) = entries.get(at) {
            let mut sum = T::default();
            while let Some(&(_, value)) = entries.get(at).filter(|entry| entry.0 == column) {
                sum += value;
                at += 1;
            }
            let sum: f64 = sum.into();
            if sum != 0.0 {
                out.push((column, sum));
            }
        }
    }

    /// Appends rows with their zeros, in single precision.
    pub(super) fn append(&self, rows: impl ExactSizeIterator<Item = usize>, out: &mut Vec<f32>) {
        let start = out.len();
        out.resize(start + rows.len() * self.columns, 0.0);
        let mut buffer = Vec::new();
        for (row, out) in rows.zip(out[start..].chunks_exact_mut(self.columns)) {
            if self.repeated {
                let sums = self.row(row, &mut buffer);
                out.iter_mut().zip(sums).for_each(|(out, value)| *out = value.single());
            } else {
                for (column, value) in self.entries(row) {
                    // Added to zero as in `row`, which leaves no negative zero.
                    let mut sum = T::default();
                    sum += value;
                    out[column] = sum.single();
                }
            }
        }
    }

    /// Row, column and value of the first number that is not finite in single precision.
    pub(super) fn offence(&self) -> Option<(usize, usize, f64)> {
        let mut buffer = Vec::new();
        let bad = |value: T| !value.single().is_finite();
        (0..self.len()).find_map(|row| {
            if !self.repeated && !self.entries(row).any(|entry| bad(entry.1)) {
                return None;
            }
            let values = self.row(row, &mut buffer);
            let column = values.iter().position(|&value| bad(value))?;
            Some((row, column, values[column].into()))
        })
    }
}

/// Refuses positions that do not divide the values into rows.
fn check_starts(starts: Indices<'_>, values: usize) -> Result<()> {
    let Some(last) = starts.len().checked_sub(1) else {
        return refuse("indptr is empty; n rows need n + 1 positions");
    };
    if starts.raw(0) != 0 {
        return refuse(format_args!("indptr begins with {}, not 0", starts.raw(0)));
    }
    if let Some(row) = (0..last).find(|&i| starts.raw(i) > starts.raw(i + 1)) {
        let (from, to) = (starts.raw(row), starts.raw(row + 1));
        return refuse(format_args!("indptr falls from {from} to {to} at row {row}"));
    }
    if starts.at(last) > values {
        return refuse(format_args!("indptr ends with {}, beyond its {values} values", starts.raw(last)));
    }
    Ok(())
}

fn refuse<T>(reason: impl Display) -> Result<T> {
    Err(Error::Sparse(reason.to_string()))
}
