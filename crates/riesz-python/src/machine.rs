//! The class `Machine`: a fitted kernel machine.

use crate::arrays::{answers, matrix, training, Table, Values};
use crate::attend::attended;
use crate::errors::to_py;
use crate::files::{self, dictionary, stored, Wraps};
use crate::kernel::kernel_of;
use crate::settings::Settings;
use numpy::{PyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use riesz::functions::KernelMachine;
use riesz::model::Stored;

/// What a pickle is made of.
type Parts<'py> = (Bound<'py, PyBytes>, Option<Py<PyAny>>);

/// A fitted kernel machine.
#[pyclass(module = "riesz._riesz")]
pub struct Machine {
    machine: KernelMachine,
    /// The kernel, where it is a Python function: a file cannot hold it, a pickle can.
    kernel: Option<Py<PyAny>>,
}

impl Machine {
    /// A machine and its kernel, where that is a function.
    pub(crate) fn of(machine: KernelMachine, kernel: Option<Py<PyAny>>) -> Self {
        Self { machine, kernel }
    }
}

#[pymethods]
impl Machine {
    /// Fits to rows `x`, targets `y` (numbers, or class indices where `settings` has classes) and sample weights. `streaming` makes
    /// them the first batch of a stream.
    #[staticmethod]
    #[pyo3(signature = (x, y, weights=None, *, settings, streaming=false, n_jobs=None, observer=None))]
    #[allow(clippy::too_many_arguments)]
    fn fit(
        py: Python<'_>,
        x: Table<'_>,
        y: Values<'_>,
        weights: Option<Values<'_>>,
        settings: &Bound<'_, PyDict>,
        streaming: bool,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let kernel = function_of(settings)?;
        let settings = Settings::new(settings)?;
        let checkpoint = settings.checkpoint()?;
        let options = settings.machine(targets(&y))?;
        let data = training(&x, &y, weights.as_ref())?;
        attended(py, n_jobs, observer.as_ref(), |control| {
            if streaming {
                return KernelMachine::begin(&options, &data, control);
            }
            control.checkpoint = checkpoint;
            KernelMachine::fit(&options, &data, control)
        })
        .map(|machine| Self { machine, kernel })
    }

    /// Learns from a further batch.
    #[pyo3(signature = (x, y, weights=None, *, n_jobs=None, observer=None))]
    fn partial_fit(
        &mut self,
        py: Python<'_>,
        x: Table<'_>,
        y: Values<'_>,
        weights: Option<Values<'_>>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let data = training(&x, &y, weights.as_ref())?;
        attended(py, n_jobs, observer.as_ref(), |control| self.machine.partial_fit(&data, control))
    }

    /// What was fitted, as a dictionary.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionary(py, &self.machine.summary())
    }

    /// The machine whose `to_bytes` these are, with its kernel where that is a function.
    #[classmethod]
    #[pyo3(signature = (bytes, kernel=None))]
    fn from_bytes(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        bytes: &[u8],
        kernel: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let function = kernel.as_ref().map(|kernel| kernel_of(kernel.bind(py))).transpose()?;
        let read = |container| match &function {
            Some(kernel) => KernelMachine::from_container_with_kernel(container, kernel),
            None => KernelMachine::from_container(container),
        };
        files::from_bytes(py, bytes, read).map(|machine: Self| Self { kernel, ..machine })
    }

    /// The learnt metric of the columns, d×d row by row, where there is one.
    fn metric<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        self.machine.metric().map(|metric| matrix(py, metric.matrix(), metric.columns())).transpose()
    }

    /// The kernel by name.
    #[getter]
    fn kernel_name(&self) -> String {
        self.machine.summary().kernel.to_string()
    }

    /// The kernel, where it is a function.
    #[getter]
    fn kernel(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.kernel.as_ref().map(|kernel| kernel.clone_ref(py))
    }

    /// Names of the classes in the order of their indices, for readers of the file other than Python.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.machine.class_names().to_vec()
    }

    #[setter]
    fn set_class_names(&mut self, names: Vec<String>) -> PyResult<()> {
        self.machine.set_class_names(names).map_err(to_py)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts<'py>)> {
        let this = slf.borrow();
        let kernel = this.kernel.as_ref().map(|kernel| kernel.clone_ref(slf.py()));
        Ok((slf.get_type().getattr("from_bytes")?, (files::to_bytes(slf.py(), &*this)?, kernel)))
    }
}

impl Wraps for Machine {
    type Model = KernelMachine;

    fn model(&self) -> &KernelMachine {
        &self.machine
    }

    fn wrap(machine: KernelMachine) -> Self {
        Self::of(machine, None)
    }
}

stored!(Machine);

answers! {
    Machine:
    /// Values of the function, one row each.
    decision = decision -> matrix<f32>;
    /// Predictions of a regression, one row each.
    predict = predict -> matrix<f32>;
    /// Indices of the classes decided for.
    classes = classes_of -> vector<u32>;
    /// Class probabilities, one row each.
    probabilities = probabilities -> matrix<f64>;
}

/// The kernel, where it is a Python function.
pub(crate) fn function_of(settings: &Bound<'_, PyDict>) -> PyResult<Option<Py<PyAny>>> {
    let kernel = settings.get_item("kernel")?.filter(|kernel| kernel.is_callable());
    Ok(kernel.map(Bound::unbind))
}

/// Numbers per row of `y`.
pub(crate) fn targets(y: &Values<'_>) -> usize {
    y.shape().get(1).copied().unwrap_or(1)
}
