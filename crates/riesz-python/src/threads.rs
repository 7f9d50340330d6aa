//! Thread pools by size.

use crate::errors::{to_py, FitError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use riesz::Error;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

/// Pools that exist, by process and size: threads do not survive a fork, so a child makes its own.
static POOLS: Mutex<BTreeMap<(u32, usize), Arc<ThreadPool>>> = Mutex::new(BTreeMap::new());

/// The pool for `n_jobs` in scikit-learn's sense, except that `None` means all cores (or `RAYON_NUM_THREADS`).
pub fn pool(n_jobs: Option<isize>) -> PyResult<Arc<ThreadPool>> {
    let threads = match n_jobs {
        None => 0,
        Some(0) => {
            let range = "1, 2, … and -1 for all cores";
            return Err(to_py(Error::OutOfRange { name: "n_jobs", value: 0.0, range }));
        }
        Some(count @ 1..) => count.unsigned_abs(),
        Some(less) => (cores() + 1).saturating_sub(less.unsigned_abs()).max(1),
    };
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (std::process::id(), threads);
    if let Some(pool) = pools.get(&key) {
        return Ok(Arc::clone(pool));
    }
    let name = |index| format!("riesz-{index}");
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build();
    let pool = Arc::new(pool.map_err(|error| FitError::new_err(error.to_string()))?);
    pools.insert(key, Arc::clone(&pool));
    Ok(pool)
}

/// Cores this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}
