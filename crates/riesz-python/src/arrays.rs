//! NumPy arrays, borrowed in and moved out.

use crate::collected::FileRows;
use crate::errors::{to_py, InvalidInput};
use numpy::{ndarray::Dimension, Ix1, Ix2, IxDyn};
use numpy::{
    Element, IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use riesz::data::{Indices, Rows, Sparse};
use riesz::functions::{Sample, Training};
use riesz::Error;

/// A borrowed two-dimensional array of either precision, dense or sparse.
#[derive(FromPyObject)]
pub enum Table<'py> {
    /// Used in place.
    #[pyo3(transparent, annotation = "float32 array of two dimensions")]
    Single(PyReadonlyArray<'py, f32, Ix2>),
    /// Rounded tile by tile.
    #[pyo3(transparent, annotation = "float64 array of two dimensions")]
    Double(PyReadonlyArray<'py, f64, Ix2>),
    /// Made dense tile by tile.
    #[pyo3(transparent, annotation = "sparse array by rows")]
    Sparse(Csr<'py>),
    /// Read from where they are kept.
    #[pyo3(transparent, annotation = "rows of files")]
    Files(PyRef<'py, FileRows>),
}

/// The arrays of a sparse matrix, by SciPy's names.
#[derive(FromPyObject)]
pub struct Csr<'py> {
    format: String,
    shape: (usize, usize),
    indptr: Positions<'py>,
    indices: Positions<'py>,
    data: NonZeros<'py>,
}

/// Borrowed whole numbers of either width.
#[derive(FromPyObject)]
enum Positions<'py> {
    #[pyo3(transparent, annotation = "int32 array")]
    Short(PyReadonlyArray<'py, i32, Ix1>),
    #[pyo3(transparent, annotation = "int64 array")]
    Long(PyReadonlyArray<'py, i64, Ix1>),
}

/// Borrowed numbers of either precision.
#[derive(FromPyObject)]
enum NonZeros<'py> {
    #[pyo3(transparent, annotation = "float32 array")]
    Single(PyReadonlyArray<'py, f32, Ix1>),
    #[pyo3(transparent, annotation = "float64 array")]
    Double(PyReadonlyArray<'py, f64, Ix1>),
}

impl Table<'_> {
    /// The array as rows.
    pub fn rows(&self) -> PyResult<Rows<'_>> {
        match self {
            Self::Single(x) => Rows::single(values("X", x)?, x.shape()[1]),
            Self::Double(x) => Rows::double(values("X", x)?, x.shape()[1]),
            Self::Sparse(x) => return x.rows(),
            Self::Files(x) => return x.rows(),
        }
        .map_err(to_py)
    }
}

impl Csr<'_> {
    fn rows(&self) -> PyResult<Rows<'_>> {
        let (n, d) = self.shape;
        if self.format != "csr" {
            return Err(to_py(Error::Sparse(format!("its format is {}, not csr", self.format))));
        }
        let (starts, indices) = (self.indptr.indices("indptr of X")?, self.indices.indices("indices of X")?);
        let rows: Rows<'_> = match &self.data {
            NonZeros::Single(x) => Sparse::new(starts, indices, values("data of X", x)?, d).map(Rows::from),
            NonZeros::Double(x) => Sparse::new(starts, indices, values("data of X", x)?, d).map(Rows::from),
        }
        .map_err(to_py)?;
        if rows.len() != n {
            let reason = format!("indptr is that of {} rows, its shape has {n}", rows.len());
            return Err(to_py(Error::Sparse(reason)));
        }
        Ok(rows)
    }
}

impl Positions<'_> {
    fn indices(&self, what: &str) -> PyResult<Indices<'_>> {
        Ok(match self {
            Self::Short(x) => Indices::Short(values(what, x)?),
            Self::Long(x) => Indices::Long(values(what, x)?),
        })
    }
}

/// Borrowed single-precision values, one or more per row.
pub type Values<'py> = PyReadonlyArray<'py, f32, IxDyn>;

/// Rows, targets and weights as one.
pub fn training<'a>(x: &'a Table, y: &'a Values, weights: Option<&'a Values>) -> PyResult<Training<'a>> {
    let weights = weights.map(|w| values("sample_weight", w)).transpose()?;
    Ok(Training { rows: x.rows()?, targets: values("y", y)?, weights })
}

/// Rows and weights of one of two samples.
pub fn sample<'a>(x: &'a Table, weights: Option<&'a Values>) -> PyResult<Sample<'a>> {
    let weights = weights.map(|w| values("sample_weight", w)).transpose()?;
    Ok(Sample { rows: x.rows()?, weights })
}

/// The values of an array in row-major order, where they lie so in memory.
pub fn values<'a, T: Element, D: Dimension>(
    what: &str,
    array: &'a PyReadonlyArray<'_, T, D>,
) -> PyResult<&'a [T]> {
    if !array.is_c_contiguous() {
        return Err(InvalidInput::new_err(format!("{what} is not C-contiguous")));
    }
    Ok(array.as_slice()?)
}

/// Values of rows, one each, as a one-dimensional array.
pub fn vector<T: Element>(py: Python<'_>, values: Vec<T>, _rows: usize) -> PyResult<Bound<'_, PyArray1<T>>> {
    Ok(values.into_pyarray(py))
}

/// Values of `rows` rows as a two-dimensional array, without a copy.
pub fn matrix<T: Element>(py: Python<'_>, values: Vec<T>, rows: usize) -> PyResult<Bound<'_, PyArray2<T>>> {
    let columns = values.len() / rows.max(1);
    values.into_pyarray(py).reshape([rows, columns])
}

/// Methods by which a class answers for rows: each asks its model with the interpreter released. `vector` is one number a row,
/// `matrix` several.
macro_rules! answers {
    ($class:ident: $($(#[$doc:meta])* $name:ident = $method:ident -> $shape:ident<$number:ty>;)*) => {
        #[pyo3::pymethods]
        impl $class {
            $(
                $(#[$doc])*
                #[pyo3(signature = (x, *, n_jobs=None))]
                fn $name<'py>(
                    &self,
                    py: pyo3::Python<'py>,
                    x: crate::arrays::Table<'_>,
                    n_jobs: Option<isize>,
                ) -> pyo3::PyResult<pyo3::Bound<'py, crate::arrays::answers!(@$shape $number)>> {
                    let (model, rows) = (crate::files::Wraps::model(self), x.rows()?);
                    let values = crate::attend::detached(py, n_jobs, || model.$method(rows))?;
                    crate::arrays::$shape(py, values, rows.len())
                }
            )*
        }
    };
    (@vector $number:ty) => { numpy::PyArray1<$number> };
    (@matrix $number:ty) => { numpy::PyArray2<$number> };
}
pub(crate) use answers;
