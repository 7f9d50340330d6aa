//! The Python module `riesz._riesz`: NumPy arrays are borrowed, the interpreter is released, errors are converted.
//! What the estimators do on top is in `python/riesz/`.
//!
//! An array that is being fitted to or predicted from must not be written to by another thread meanwhile.

mod agent;
mod arrays;
mod attend;
mod chain;
mod collected;
mod density;
mod detector;
mod environment;
mod errors;
mod evaluation;
mod features;
mod files;
mod invariance;
mod kernel;
mod machine;
mod online;
mod posterior;
mod process;
mod ratio;
mod settings;
mod sparse_process;
mod threads;
mod topics;
mod variances;

use pyo3::prelude::*;

/// The compiled part of riesz.
#[pymodule]
mod _riesz {
    use super::{pyfunction, Python};

    #[pymodule_export]
    use crate::{
        agent::Agent,
        chain::Chain,
        collected::{classes_in_files, stream_files, FileParts, FileRows},
        density::Density,
        detector::Detector,
        environment::Environment,
        evaluation::Evaluation,
        features::{fit_features, transform_features},
        files::file_kind,
        invariance::Invariant,
        machine::Machine,
        online::Online,
        posterior::{leave_one_out, ParticlePosterior},
        process::Process,
        ratio::Ratio,
        sparse_process::SparseProcess,
        topics::Topics,
        variances::{variances_by_operator, variances_by_ridge},
    };

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Runs the `riesz` command on `argv`, program name first, and returns its exit code.
    #[pyfunction]
    fn main(py: Python<'_>, argv: Vec<String>) -> i32 {
        py.detach(|| riesz_cli::run(argv))
    }

    /// The names of the losses of regression, or of classification.
    #[pyfunction]
    fn loss_names(classification: bool) -> Vec<&'static str> {
        riesz::loss::LossSpec::names(classification).collect()
    }

    /// The instruction path of the hot kernels: portable, avx2, avx512 or amx.
    #[pyfunction]
    fn simd_path() -> String {
        riesz::compute::Device::default().to_string()
    }
}
