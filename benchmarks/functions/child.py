"""The measured process: one estimator, one fit, one prediction, then it ends.

Called with one JSON job; writes one JSON object to the job's `result` file. Measured:

- `fit_s`, `predict_s`: wall seconds of `fit(X_train, y_train)` and of `predict(X_test)`;
- `fit_cpu_s`, `predict_cpu_s`: CPU seconds of all threads (and of ended child processes);
- `error`: share of wrong labels, or root mean squared error with `r2` beside it;
- `rss_loaded_mb`: resident memory with libraries imported and the data loaded;
- `peak_fit_mb`, `peak_mb`: peak resident memory until the end of the fit, of the prediction;
- `extra_mb`: `peak_mb - rss_loaded_mb`, what the method itself needs.

The peak is reset after loading, so neither imports nor the parent process count in it. There is
no warm-up: this is the first fit of a script, as a user sees it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from data import load
from peers import PEERS, Context

FITTED = ("solver_", "kernel_", "bandwidth_", "ridge_", "n_blocks_", "n_features_", "n_iter_")


def pin(threads: int) -> None:
    """Keep every thread pool, whatever it reads, on the same `threads` cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def _status_mb(key: str) -> float | None:
    """A field of the process status in MB, where the system has one."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(key)), None)


def peak_mb() -> float:
    """Peak resident memory since `reset_peak`, or of the process's whole life without /proc."""
    high = _status_mb("VmHWM:")
    if high is not None:
        return high
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def reset_peak() -> float:
    """Forget the peak so far; returns the memory resident now."""
    with suppress(OSError):  # if refused, the peak includes what happened before the fit
        Path("/proc/self/clear_refs").write_text("5")
    return _status_mb("VmRSS:") or peak_mb()


def cpu_seconds() -> float:
    """CPU time of all threads and of children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextmanager
def timed(row: dict[str, Any], name: str) -> Iterator[None]:
    """Record `name_s` and `name_cpu_s` of the block."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    yield
    row[f"{name}_s"] = time.perf_counter() - wall
    row[f"{name}_cpu_s"] = cpu_seconds() - cpu


def score(y: Any, prediction: Any, regression: bool) -> dict[str, float]:
    """Error rate, or root mean squared error and R2."""
    if not regression:
        return {"error": float(np.mean(prediction != y))}
    squares = np.mean((np.asarray(prediction, float).ravel() - y) ** 2)
    return {"error": float(np.sqrt(squares)), "r2": float(1 - squares / np.var(y))}


def fitted_facts(model: Any) -> dict[str, Any]:
    """What the estimator says about its fit, where that is a plain value."""
    facts = {}
    for name in FITTED:
        value = getattr(model, name, None)
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, (str, int, float)):
            facts[name] = value
    return facts


def thread_pools() -> list[str]:
    """The BLAS and OpenMP pools in this process and their sizes."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return []
    pools = threadpool_info()
    return [f"{p['internal_api']} {p.get('version')}: {p['num_threads']}" for p in pools]


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Run one job and return what was measured."""
    split = load(Path(job["folder"]), job["train_rows"], job["test_rows"])
    context = Context(job["threads"], job["seed"], len(split.y_train))
    model = PEERS[job["peer"]](context, **job["settings"])
    row: dict[str, Any] = {"rows": len(split.y_train), "load": os.getloadavg()[0]}
    row["rss_loaded_mb"] = reset_peak()
    with timed(row, "fit"):
        model.fit(split.X_train, split.y_train)
    row["peak_fit_mb"] = peak_mb()
    with timed(row, "predict"):
        prediction = model.predict(split.X_test)
    row["peak_mb"] = peak_mb()
    row["extra_mb"] = row["peak_mb"] - row["rss_loaded_mb"]
    row |= score(split.y_test, prediction, job["regression"])
    if job["save"]:
        np.save(job["save"], np.asarray(prediction, float).ravel())
    return row | {"fitted": fitted_facts(model), "pools": thread_pools()}


def main() -> None:
    """Measure the job of the command line; an exception becomes the row's `failure`."""
    job = json.loads(sys.argv[1])
    pin(job["threads"])
    try:
        row = measure(job)
    except Exception as problem:
        lines = str(problem).splitlines() or [""]
        row = {"failure": f"{type(problem).__name__}: {lines[0][:200]}"}
    Path(job["result"]).write_text(json.dumps(row))


if __name__ == "__main__":
    main()
