//! Thread pools of our own, by size. The global pool of rayon is used by nothing: a process that has started it cannot be
//! forked.

use crate::errors::{to_py, FitError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use riesz::Error;
use std::num::NonZero;
use std::sync::{Arc, Mutex, TryLockError};

/// Most threads of a pool.
const MOST_THREADS: usize = 4_096;
/// Pools that nobody uses, beyond these, are ended.
const MOST_IDLE: usize = 8;

/// Pools of one process that are kept for the next call.
struct Kept {
    process: u32,
    /// The oldest first. Whoever uses one has a second reference to it.
    pools: Vec<Arc<ThreadPool>>,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { process: 0, pools: Vec::new() });

/// A pool for `n_jobs` in scikit-learn's sense, except that `None` means all cores a process may use (`_threads.py` has what
/// these are). Calls that want all cores share a pool; others have one to themselves until it is dropped, so that calls
/// from several threads run beside each other.
///
/// Pools do not survive a fork: a child makes its own.
pub fn pool(py: Python<'_>, n_jobs: Option<isize>) -> PyResult<Arc<ThreadPool>> {
    let threads = threads(py, n_jobs)?;
    let Some(found) = kept(|pools| {
        let idle = |pool: &Arc<ThreadPool>| Arc::strong_count(pool) == 1;
        let mut surplus = pools.iter().filter(|pool| idle(pool)).count().saturating_sub(MOST_IDLE);
        pools.retain(|pool| {
            let ends = surplus > 0 && idle(pool);
            surplus -= usize::from(ends);
            !ends
        });
        let fits = |pool: &&Arc<ThreadPool>| {
            pool.current_num_threads() == threads && (threads >= cores() || idle(pool))
        };
        pools.iter().find(fits).map(Arc::clone)
    }) else {
        return build(threads);
    };
    match found {
        Some(pool) => Ok(pool),
        None => {
            let pool = build(threads)?;
            kept(|pools| pools.push(Arc::clone(&pool)));
            Ok(pool)
        }
    }
}

/// Looks at the pools of this process; `None` where another thread does. It is not waited for: after a fork it may be a
/// thread that does not exist.
fn kept<T>(look: impl FnOnce(&mut Vec<Arc<ThreadPool>>) -> T) -> Option<T> {
    let mut kept = match KEPT.try_lock() {
        Ok(kept) => kept,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    let process = std::process::id();
    if kept.process != process {
        // The threads are the parent's; to end them here would be to wait for them.
        std::mem::forget(std::mem::take(&mut kept.pools));
        kept.process = process;
    }
    Some(look(&mut kept.pools))
}

fn build(threads: usize) -> PyResult<Arc<ThreadPool>> {
    let name = |index| format!("riesz-{index}");
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build();
    pool.map(Arc::new).map_err(|error| FitError::new_err(format!("n_jobs: {threads} threads: {error}")))
}

/// The number of threads that `n_jobs` means.
fn threads(py: Python<'_>, n_jobs: Option<isize>) -> PyResult<usize> {
    let limit = || py.import("riesz._threads")?.call_method0("limit")?.extract();
    let threads = match n_jobs.map_or_else(limit, |count| Ok(Some(count)))? {
        None => cores(),
        Some(count @ 0..) => count.unsigned_abs(),
        Some(less) => (cores() + 1).saturating_sub(less.unsigned_abs()).max(1),
    };
    match threads {
        1..=MOST_THREADS => Ok(threads),
        _ => {
            let range = "1 to 4096, and -1 for all cores";
            Err(to_py(Error::OutOfRange { name: "n_jobs", value: threads as f64, range }))
        }
    }
}

/// Cores this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}
