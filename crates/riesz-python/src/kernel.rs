//! A kernel by name, or as a Python function of one's own.

use crate::errors::InvalidInput;
use crate::settings::named;
use numpy::{PyArray2, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods, ToPyArray};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use riesz::kernel::{FeatureTile, KernelSpec, UserKernel};

/// The kernel that `value`, a name or a function (X, seed, n_features) → features, stands for.
pub fn kernel_of(value: &Bound<'_, PyAny>) -> PyResult<KernelSpec> {
    if let Ok(name) = value.cast::<PyString>() {
        return named(name.to_str()?);
    }
    if value.is_callable() {
        takes_three(value)?;
        return user_kernel(value).map(KernelSpec::User);
    }
    let found = value.repr()?;
    Err(InvalidInput::new_err(format!(
        "kernel = {found} should be a name or a function (X, seed, n_features)"
    )))
}

/// Refuses a function of other arguments, such as k(x, y), before it is called; one that does not tell is believed.
fn takes_three(function: &Bound<'_, PyAny>) -> PyResult<()> {
    let inspect = function.py().import("inspect")?;
    let Ok(signature) = inspect.call_method1("signature", (function,)) else { return Ok(()) };
    let refuse = |_| {
        let found = signature.to_string();
        InvalidInput::new_err(format!(
            "a kernel function draws features, its arguments are (X, seed, n_features), not {found}; \
             see help(riesz.RandomFeatures)"
        ))
    };
    signature.call_method1("bind", ((), 0, 1)).map(|_| ()).map_err(refuse)
}

/// A kernel that asks a Python function for its features, on whichever thread needs them.
fn user_kernel(function: &Bound<'_, PyAny>) -> PyResult<UserKernel> {
    let (name, function) = (name_of(function)?, function.clone().unbind());
    let label = name.clone();
    Ok(UserKernel::new(name, move |tile, out| {
        Python::attach(|py| write(function.bind(py), &label, tile, out)).map_err(Into::into)
    }))
}

/// Where the function, or the class of the object that is called, was defined.
fn name_of(function: &Bound<'_, PyAny>) -> PyResult<String> {
    let named = match function.hasattr("__qualname__")? {
        true => function.clone(),
        false => function.get_type().into_any(),
    };
    let [module, name] = ["__module__", "__qualname__"].map(|part| named.getattr(part)?.str()?.extract());
    let (module, name): (String, String) = (module?, name?);
    Ok(format!("{module}.{name}"))
}

/// Calls the function and copies its features to `out`; an exception it raises is passed on as it is.
fn write(function: &Bound<'_, PyAny>, name: &str, tile: FeatureTile<'_>, out: &mut [f32]) -> PyResult<()> {
    let py = function.py();
    let FeatureTile { seed, x, columns, features } = tile;
    let rows = x.len() / columns;
    let x: Bound<'_, PyArray2<f32>> = x.to_pyarray(py).reshape([rows, columns])?;
    let answer = function.call1((x, seed.0, features))?;
    let numpy = py.import("numpy")?;
    let form = PyDict::new(py);
    form.set_item("dtype", numpy.getattr("float32")?)?;
    form.set_item("order", "C")?;
    let answer = numpy.call_method("asarray", (answer,), Some(&form))?;
    let answer = answer.cast_into::<PyArrayDyn<f32>>()?;
    if answer.shape() != [rows, features] {
        let found = answer.getattr("shape")?;
        return Err(InvalidInput::new_err(format!(
            "the kernel {name} returned features of shape {found}, expected ({rows}, {features})"
        )));
    }
    out.copy_from_slice(answer.try_readonly()?.as_slice()?);
    Ok(())
}
