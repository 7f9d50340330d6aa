//! Memory of large matrices, used again.
//!
//! Memory that is asked of the system anew has to be cleared and mapped page by page: of choosing settings by matrices of some million
//! numbers that was up to a quarter of the time.

use faer::Mat;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Numbers that are kept at most: 256 MB.
const MOST: usize = 1 << 25;

/// Matrices that are no longer needed, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Mat<f64>>>);

impl Spare {
    /// A matrix of this shape whose entries may be anything.
    pub(crate) fn take(&self, rows: usize, columns: usize) -> Mat<f64> {
        let mut kept = self.kept();
        let found = kept.iter().rposition(|m| (m.nrows(), m.ncols()) == (rows, columns));
        let found = found.map(|i| kept.remove(i));
        drop(kept);
        found.unwrap_or_else(|| Mat::zeros(rows, columns))
    }

    /// A copy of a matrix.
    pub(crate) fn copy(&self, of: &Mat<f64>) -> Mat<f64> {
        let mut copy = self.take(of.nrows(), of.ncols());
        copy.copy_from(of);
        copy
    }

    /// Keeps the memory of a matrix.
    pub(crate) fn keep(&self, matrix: Mat<f64>) {
        let mut kept = self.kept();
        kept.push(matrix);
        let mut numbers: usize = kept.iter().map(|m| m.nrows() * m.ncols()).sum();
        while numbers > MOST {
            let first = kept.remove(0);
            numbers -= first.nrows() * first.ncols();
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Mat<f64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_same_shape_is_used_again() {
        let spare = Spare::default();
        let of = Mat::from_fn(3, 4, |i, j| (i * 4 + j) as f64);
        let copy = spare.copy(&of);
        let at = copy.as_ptr();
        spare.keep(copy);
        assert_ne!(spare.take(4, 3).as_ptr(), at);
        let again = spare.copy(&of);
        assert_eq!((again.as_ptr(), &again), (at, &of));
        spare.keep(Mat::zeros(2, MOST));
        assert!(spare.kept().is_empty());
    }
}
