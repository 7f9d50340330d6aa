//! Errors of riesz as exceptions of Python.

use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyOSError};
use pyo3::PyErr;
use riesz::Error;

// Defined in Python, where a class may have two bases.
pyo3::import_exception!(riesz._errors, InvalidInput);
pyo3::import_exception!(riesz._errors, FitError);

/// The exception of an error: the operating system's, too little memory, a fit that failed, or else bad input.
pub fn to_py(error: Error) -> PyErr {
    match error {
        // What a function of the user raised is raised as it is.
        Error::User { kernel, source } => match source.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(source) => FitError::new_err(Error::User { kernel, source }.to_string()),
        },
        Error::UserModel { what, source } => match source.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(source) => FitError::new_err(Error::UserModel { what, source }.to_string()),
        },
        Error::Io { path, source } => match source.raw_os_error() {
            // Three arguments make Python choose the subclass, `FileNotFoundError` for one.
            Some(code) => {
                let text = source.to_string();
                let reason = text.split(" (os error").next().unwrap_or(&text).to_owned();
                PyOSError::new_err((code, reason, path))
            }
            None => PyOSError::new_err(format!("{}: {source}", path.display())),
        },
        Error::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        Error::Cancelled { .. } => PyKeyboardInterrupt::new_err(error.to_string()),
        Error::Diverged { .. }
        | Error::NotConverged { .. }
        | Error::NotPositiveDefinite { .. }
        | Error::RoundedAway { .. } => FitError::new_err(error.to_string()),
        _ => InvalidInput::new_err(error.to_string()),
    }
}
