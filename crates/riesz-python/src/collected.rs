//! The classes `FileRows` and `FileParts`: rows of data files, kept or part by part.

use crate::arrays::matrix;
use crate::attend::attended;
use crate::errors::to_py;
use crate::machine::{function_of, Machine};
use crate::settings::Settings;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::data::coding::{self, Coding};
use riesz::data::files::{list, Collect, Collected, Features, Parts, WholeTarget};
use riesz::data::reader::{Dataset, ReadOptions, TargetColumn};
use riesz::data::Rows;
use riesz::driver::Control;
use riesz::functions::{KernelMachine, Task};
use riesz::Error;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The column of the target, as users name it.
#[derive(FromPyObject)]
pub enum Column {
    /// By its place, counted from zero.
    #[pyo3(transparent, annotation = "int")]
    Index(usize),
    /// By its name.
    #[pyo3(transparent, annotation = "str")]
    Name(String),
}

impl From<Column> for TargetColumn {
    fn from(column: Column) -> Self {
        match column {
            Column::Index(index) => Self::Index(index),
            Column::Name(name) => Self::Name(name),
        }
    }
}

fn reading(target: Option<Column>) -> ReadOptions {
    ReadOptions { target: target.map_or(TargetColumn::Last, TargetColumn::from), ..ReadOptions::default() }
}

/// Rows and target of data files, in memory or on disk.
#[pyclass(module = "riesz._riesz", frozen)]
pub struct FileRows(Collected);

impl FileRows {
    /// The rows.
    pub fn rows(&self) -> PyResult<Rows<'_>> {
        self.0.features.rows().map_err(to_py)
    }

    fn whole(&self) -> PyResult<&WholeTarget> {
        let missing = || to_py(Error::Conflict("the files hold no target; name its column".into()));
        self.0.target.as_ref().ok_or_else(missing)
    }
}

/// The names of the classes and the class of each row.
type Classes<'py> = (Vec<String>, Bound<'py, PyArray1<u32>>);

#[pymethods]
impl FileRows {
    /// Reads files, or a folder of them; rows that take more than `memory` bytes, or have a `cache`, are on disk.
    #[staticmethod]
    #[pyo3(signature = (paths, target=None, *, memory=None, cache=None, n_jobs=None))]
    fn collect(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        target: Option<Column>,
        memory: Option<usize>,
        cache: Option<PathBuf>,
        n_jobs: Option<isize>,
    ) -> PyResult<Self> {
        let collect = Collect { read: reading(target), memory, folder: cache, categories: true };
        attended(py, n_jobs, None, |control| collect.run(&paths, &mut until_cancelled(control))).map(Self)
    }

    /// Rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.0.features.len(), self.0.features.columns())
    }

    /// The names of the columns, none where the files have none.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.features.names().to_vec()
    }

    /// What became of each column, as JSON; an empty list where all are numbers.
    #[getter]
    fn codings(&self) -> PyResult<String> {
        written(&self.0.codings)
    }

    /// The name of the target.
    #[getter]
    fn target(&self) -> PyResult<String> {
        Ok(self.whole()?.name().to_owned())
    }

    /// The cache, where rows are on disk.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        match &self.0.features {
            Features::Memory(_) => None,
            Features::Disk(cache) => Some(cache.path().to_path_buf()),
        }
    }

    /// The target as numbers.
    fn numbers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let numbers = self.whole()?.numbers().map_err(to_py)?;
        Ok(numbers.iter().map(|&y| y as f32).collect::<Vec<_>>().into_pyarray(py))
    }

    /// The target as classes.
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Classes<'py>> {
        let labels = self.whole()?.labels().map_err(to_py)?;
        Ok((labels.classes, labels.indices.into_pyarray(py)))
    }
}

fn written(codings: &[Option<Coding>]) -> PyResult<String> {
    serde_json::to_string(codings).map_err(|error| to_py(Error::Format(error.to_string())))
}

/// Ends reading where the fit it is for is cancelled.
fn until_cancelled<'a, 'c>(
    control: &'a mut Control<'c>,
) -> impl FnMut(usize) -> riesz::Result<()> + use<'a, 'c> {
    |_| match (control.cancelled)() {
        true => Err(Error::Cancelled { blocks: 0 }),
        false => Ok(()),
    }
}

/// The classes of files, which are read through for them.
#[pyfunction]
#[pyo3(signature = (paths, target=None))]
pub fn classes_in_files(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    target: Option<Column>,
) -> PyResult<Vec<String>> {
    let collect = Collect { read: reading(target), categories: true, ..Collect::default() };
    attended(py, None, None, |control| {
        let target =
            collect.coding(&paths, |collect| collect.target(&paths, &mut until_cancelled(control)))?;
        target.map_or(Ok(Vec::new()), |target| Ok(target.labels()?.classes))
    })
}

/// What is known of the columns of files: their names, their number, the name of the target, and what became of them as JSON.
type Described = (Vec<String>, usize, String, String);

/// Learns from files straight through; the machine, and what is known of the columns.
#[pyfunction]
#[pyo3(signature = (paths, target=None, *, settings, classes, memory=None, n_jobs=None, observer=None))]
#[allow(clippy::too_many_arguments)]
pub fn stream_files(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    target: Option<Column>,
    settings: &Bound<'_, PyDict>,
    classes: Vec<String>,
    memory: Option<usize>,
    n_jobs: Option<isize>,
    observer: Option<Py<PyAny>>,
) -> PyResult<(Machine, Described)> {
    let collect = Collect { read: reading(target), categories: true, ..Collect::default() };
    let kernel = function_of(settings)?;
    let settings = Settings::new(settings)?;
    settings.checkpoint()?;
    let mut options = settings.machine(1)?;
    if !classes.is_empty() {
        options.task = Task::Classification(classes.len());
    }
    let ((machine, seen), codings) = attended(py, n_jobs, observer.as_ref(), |control| {
        collect.coding(&paths, |Collect { read, .. }| {
            let fitted = KernelMachine::fit_files(&options, &paths, read, &classes, memory, control)?;
            Ok((fitted, read.codings.clone()))
        })
    })?;
    Ok((Machine::of(machine, kernel), (seen.names, seen.columns, seen.target, written(&codings)?)))
}

/// Rows of data files, a part at a time, without a target.
#[pyclass(module = "riesz._riesz")]
pub struct FileParts(Mutex<Parts>);

#[pymethods]
impl FileParts {
    /// The rows of files with these columns, by name where they and the files have names; the column `unread` is left out. What
    /// becomes of the columns is a list as JSON, empty where all are numbers.
    #[staticmethod]
    #[pyo3(signature = (paths, columns, names, unread=None, codings="[]"))]
    fn open(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        columns: usize,
        names: Vec<String>,
        unread: Option<String>,
        codings: &str,
    ) -> PyResult<Self> {
        let codings: Vec<Option<Coding>> =
            serde_json::from_str(codings).map_err(|error| to_py(Error::Format(error.to_string())))?;
        coding::check(&codings).map_err(to_py)?;
        let options =
            ReadOptions { columns: Some(columns), names, unread, codings, ..ReadOptions::default() };
        let parts = py.detach(|| Parts::new(list(&paths, &options)?, options)).map_err(to_py)?;
        Ok(Self(Mutex::new(parts)))
    }

    /// The next part; none at the end.
    fn read<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        let parts = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let next = || -> riesz::Result<Option<(Vec<f32>, usize)>> {
            let Some(part) = parts.next() else { return Ok(None) };
            let Dataset { features, .. } = part?;
            let rows = features.len();
            Ok(Some((features.into_dense()?, rows)))
        };
        match py.detach(next).map_err(to_py)? {
            None => Ok(None),
            Some((values, rows)) => matrix(py, values, rows).map(Some),
        }
    }
}
