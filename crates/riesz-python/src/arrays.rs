//! NumPy arrays, borrowed in and moved out.

use crate::errors::{to_py, InvalidInput};
use numpy::{ndarray::Dimension, Ix2, IxDyn};
use numpy::{Element, IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use riesz::data::Rows;
use riesz::functions::{Sample, Training};

/// A borrowed two-dimensional array of either precision.
#[derive(FromPyObject)]
pub enum Table<'py> {
    /// Used in place.
    #[pyo3(transparent, annotation = "float32 array of two dimensions")]
    Single(PyReadonlyArray<'py, f32, Ix2>),
    /// Rounded tile by tile.
    #[pyo3(transparent, annotation = "float64 array of two dimensions")]
    Double(PyReadonlyArray<'py, f64, Ix2>),
}

impl Table<'_> {
    /// The array as rows.
    pub fn rows(&self) -> PyResult<Rows<'_>> {
        match self {
            Self::Single(x) => Rows::single(values("X", x)?, x.shape()[1]),
            Self::Double(x) => Rows::double(values("X", x)?, x.shape()[1]),
        }
        .map_err(to_py)
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
fn values<'a, T: Element, D: Dimension>(
    what: &str,
    array: &'a PyReadonlyArray<'_, T, D>,
) -> PyResult<&'a [T]> {
    if !array.is_c_contiguous() {
        return Err(InvalidInput::new_err(format!("{what} is not C-contiguous")));
    }
    Ok(array.as_slice()?)
}

/// Values of `rows` rows as a two-dimensional array, without a copy.
pub fn matrix<T: Element>(py: Python<'_>, values: Vec<T>, rows: usize) -> PyResult<Bound<'_, PyArray2<T>>> {
    let columns = values.len() / rows.max(1);
    values.into_pyarray(py).reshape([rows, columns])
}
