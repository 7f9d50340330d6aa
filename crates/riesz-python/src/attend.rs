//! Long work beside an interpreter that stays responsive.

use crate::errors::to_py;
use crate::threads::pool;
use pyo3::prelude::*;
use riesz::driver::{Control, Phase, Progress};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::OnceLock;
use std::time::Duration;

/// Longest time between two looks for signals.
const PATIENCE: Duration = Duration::from_millis(50);

/// Runs `work` on `n_jobs` threads with the interpreter released.
pub fn detached<T: Send>(
    py: Python<'_>,
    n_jobs: Option<isize>,
    work: impl FnOnce() -> riesz::Result<T> + Send,
) -> PyResult<T> {
    let pool = pool(py, n_jobs)?;
    py.detach(|| pool.install(work)).map_err(to_py)
}

/// Runs a fit on `n_jobs` threads with the interpreter released. Meanwhile the calling thread, the only one on which
/// Python delivers signals, looks for them and tells the observer; an exception in either stops the fit and is raised.
pub fn attended<T: Send>(
    py: Python<'_>,
    n_jobs: Option<isize>,
    observer: Option<&Py<PyAny>>,
    fit: impl FnOnce(&mut Control<'_>) -> riesz::Result<T> + Send,
) -> PyResult<T> {
    if rayon::current_thread_index().is_some() {
        return within(py, n_jobs, observer, fit);
    }
    let pool = pool(py, n_jobs)?;
    let (sender, news) = channel();
    let stop = AtomicBool::new(false);
    let stop = &stop;
    let mut outcome = None;
    let result = &mut outcome;
    let work = move |_: &_| {
        let mut tell = |progress: &Progress| {
            let _ = sender.send(*progress);
        };
        let mut ignore = |_: &Progress| {};
        let observe: &mut dyn FnMut(&Progress) = if observer.is_some() { &mut tell } else { &mut ignore };
        *result = Some(fit(&mut Control::new(&mut || stop.load(Ordering::Relaxed), observe)));
    };
    let complaint = py.detach(move || {
        pool.in_place_scope(move |scope| {
            scope.spawn(work);
            let mut complaint = None;
            loop {
                let progress = match news.recv_timeout(PATIENCE) {
                    Ok(progress) => Some(progress),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return complaint,
                };
                if let Err(error) = Python::attach(|py| look(py, observer, progress)) {
                    stop.store(true, Ordering::Relaxed);
                    complaint.get_or_insert(error);
                }
            }
        })
    });
    match (complaint, outcome) {
        (Some(error), _) => Err(error),
        (None, Some(outcome)) => outcome.map_err(to_py),
        (None, None) => Err(to_py(riesz::Error::Cancelled { blocks: 0 })),
    }
}

/// Runs a fit that a function of the user has asked for, which a thread of a pool has called: it works itself, as a pool whose
/// threads all wait gets nothing done. Signals are for whoever has started that pool.
fn within<T: Send>(
    py: Python<'_>,
    n_jobs: Option<isize>,
    observer: Option<&Py<PyAny>>,
    fit: impl FnOnce(&mut Control<'_>) -> riesz::Result<T> + Send,
) -> PyResult<T> {
    let complaint: OnceLock<PyErr> = OnceLock::new();
    let outcome = detached(py, n_jobs, || {
        let mut tell = |progress: &Progress| {
            if let Err(error) = Python::attach(|py| look(py, observer, Some(*progress))) {
                let _ = complaint.set(error);
            }
        };
        fit(&mut Control::new(&mut || complaint.get().is_some(), &mut tell))
    });
    complaint.into_inner().map_or(outcome, Err)
}

/// Delivers news to the observer and signals to the interpreter.
fn look(py: Python<'_>, observer: Option<&Py<PyAny>>, progress: Option<Progress>) -> PyResult<()> {
    if let (Some(observer), Some(p)) = (observer, progress) {
        let seconds = p.elapsed.as_secs_f64();
        let news = (phase(p.phase), p.done, p.most, p.loss, p.held_out_loss, p.held_out_error, seconds);
        observer.call1(py, news)?;
    }
    py.check_signals()
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Race => "race",
        Phase::Fit => "fit",
        Phase::Absorb => "absorb",
        Phase::Ridge => "ridge",
        Phase::Stream => "stream",
        Phase::Posterior => "posterior",
        Phase::Hyperparameters => "hyperparameters",
    }
}
