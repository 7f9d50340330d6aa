"""Every estimator in other processes and threads: what it answers there, and whether it does.

    python process_matrix.py [--seconds S] [--rounds N] [WAY ...]

The parent fits, saves, loads, pickles, predicts and samples first, so that whatever pools there are
have been started; then each WAY (all of them by default) does the same elsewhere. Prints one JSON
object: cases and failures of each way, and how many threads of the parent are neither Python's nor
riesz's own. ``test_processes.py`` looks at it.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Expired
from pathlib import Path

import joblib
import numpy as np
from scipy import stats
from sklearn.base import clone

import riesz

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=240)
LABELS = (Y > 0).astype(int)
COUNTS = RNG.poisson(2, size=(60, 8)).astype(float)
# More than one tile of rows.
MANY = RNG.normal(size=(1100, 3))


def log_likelihood(theta, batch):
    return -0.5 * ((batch - theta[:, :1]) ** 2).sum(axis=1)


def of(estimator, *data, output="predict", at=MANY, sample=None):
    return estimator, data, output, at, sample


def run(name, **settings):
    return getattr(riesz, name)(**{"random_state": 0, "n_jobs": 2, **settings})


BLOCKS = {"bandwidth": 1.0, "block_size": 64, "max_blocks": 3}
DRAWN = {"n_particles": 100}
CASES = {
    "classifier": of(run("KernelClassifier", **BLOCKS), X, LABELS, output="predict_proba"),
    "regressor": of(run("KernelRegressor", kernel="matern(1.5)", **BLOCKS), X, Y),
    "stream": of(run("KernelRegressor", solver="stream", **BLOCKS), X, Y),
    "ridge": of(run("KernelRegressor", solver="ridge", **BLOCKS), X, Y),
    "quantiles": of(run("KernelQuantileRegressor", **BLOCKS), X, Y),
    "online classifier": of(run("OnlineKernelClassifier"), X, LABELS),
    "online regressor": of(run("OnlineKernelRegressor"), X, Y),
    "constrained classifier": of(
        run("ConstrainedKernelClassifier", constraints=[riesz.CVaR(0.9, 2.0)]), X, LABELS
    ),
    "invariant classifier": of(run("InvariantClassifier"), X, LABELS),
    "invariant regressor": of(run("InvariantRegressor"), X, Y),
    "gaussian process": of(run("GaussianProcessRegressor"), X, Y, sample="sample_y"),
    "sparse gaussian process": of(run("SparseGaussianProcessRegressor"), X, Y, sample="sample_y"),
    "novelty": of(run("KernelNoveltyDetector"), X, output="score_samples"),
    "ratio": of(run("DensityRatioEstimator", bandwidth=1.0), X[:120], X[120:] + 0.3),
    "density": of(riesz.KernelDensity(n_jobs=2), X, output="score_samples", sample="sample"),
    "topics": of(
        run("LatentDirichletAllocation", n_components=3), COUNTS, output="transform", at=COUNTS
    ),
    "features": of(run("RandomFeatures", n_components=128), X, output="transform"),
    "logistic regression": of(
        run("BayesianLogisticRegression", **DRAWN), X[:80], LABELS[:80], output="predict_proba"
    ),
    "posterior": of(
        riesz.ParticleMirrorDescent(
            log_likelihood, {"mu": stats.norm(0, 3)}, random_state=0, n_jobs=2, **DRAWN
        ),
        Y,
        output="logpdf",
        at=MANY[:, :1],
        sample="sample",
    ),
}
OPERATIONS = ("load", "unpickle", "fit", "predict", "sample")


def fitted(name):
    estimator, data, *_ = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(*data)


def answer(name, operation, folder, estimator):
    """What ``operation`` gives, as bytes; None where there is no such operation."""
    _, _, output, at, sample = CASES[name]
    path = folder / name
    if (operation == "sample" and sample is None) or (operation == "load" and not path.exists()):
        return None
    if operation in ("load", "sample"):
        estimator = riesz.load(path)
    elif operation == "unpickle":
        estimator = pickle.loads((folder / f"{name}.pickle").read_bytes())
    elif operation == "fit":
        estimator = fitted(name)
    if operation == "sample":
        drawn = getattr(estimator, sample)
        return np.asarray(
            drawn(at[:20], 3, random_state=1) if sample == "sample_y" else drawn(9, 1)
        )
    return np.asarray(getattr(estimator, output)(at))


def prepare(folder):
    """Do everything in this process: estimators and their answers."""
    estimators = {name: fitted(name) for name in CASES}
    for name, estimator in estimators.items():
        if hasattr(estimator, "save"):
            estimator.save(folder / name)
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(estimator))
    answers = {}
    for name, estimator in estimators.items():
        for operation in OPERATIONS:
            found = answer(name, operation, folder, estimator)
            if found is not None:
                answers[name, operation] = found
    command(folder)
    return estimators, answers


def command(folder):
    """Fit with the command line, within this process."""
    table, model = folder / "table.csv", folder / "command.riesz"
    if not table.exists():
        np.savetxt(table, np.c_[X, Y], delimiter=",", header="a,b,c,y", comments="")
    code = riesz._riesz.main(
        ["riesz", "fit", str(table), "--model", str(model), "--max-blocks", "2", "--quiet"]
    )
    return np.frombuffer(model.read_bytes(), np.uint8) if code == 0 else np.array([code])


class Forked:
    """Each case in a child of its own."""

    def __init__(self, start, seconds):
        self.start, self.seconds = start, seconds

    def __call__(self, tasks):
        for key, call in tasks:
            with tempfile.NamedTemporaryFile(suffix=".npy") as file:
                process = self.start(call, file.name)
                until = time.monotonic() + self.seconds
                while (status := os.waitpid(process, os.WNOHANG))[0] == 0:
                    if time.monotonic() > until:
                        os.kill(process, signal.SIGKILL)
                        status = os.waitpid(process, 0)
                        break
                    time.sleep(0.001)
                if status[1] == signal.SIGKILL:
                    yield key, "hangs"
                elif status[1] != 0:
                    yield key, f"ended with {status[1]}"
                else:
                    yield key, np.load(file.name)


def write(call, name):
    """Save what a call gives and end the process, without what Python does at its end."""
    code = 1
    try:
        np.save(name, call())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def by_fork(call, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        write(call, name)
    return process


def by_multiprocessing(call, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = multiprocessing.get_context("fork").Process(target=write, args=(call, name))
        process.start()
    # Whoever waits for it here is not multiprocessing.
    return process.pid


@contextlib.contextmanager
def busy():
    """Another thread that fits all the time."""
    over = threading.Event()

    def work():
        while not over.is_set():
            fitted("regressor")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def results(futures, seconds):
    for key, future in futures:
        try:
            yield key, future.result(timeout=seconds)
        except Expired:
            yield key, "hangs"
            return
        except Exception as error:
            yield key, repr(error)


def by_executor(executor, tasks, seconds):
    futures = [(key, executor.submit(*call)) for key, call in tasks]
    found = list(results(futures, seconds))
    hung = any(isinstance(value, str) and value == "hangs" for _, value in found)
    for process in list((getattr(executor, "_processes", None) or {}).values()) if hung else []:
        process.kill()
    executor.shutdown(wait=not hung, cancel_futures=True)
    return found


def ways(seconds):
    """Ways to run (key, function and arguments) elsewhere, and what they give."""

    def plain(tasks):
        return [(key, lambda call=call: call[0](*call[1:])) for key, call in tasks]

    def beside(tasks):
        with busy():
            yield from Forked(by_fork, seconds)(plain(tasks))

    def executor(method):
        context = multiprocessing.get_context(method)
        return lambda tasks: by_executor(ProcessPoolExecutor(2, context), tasks, seconds)

    def parallel(backend):
        def call(tasks):
            work = [joblib.delayed(call[0])(*call[1:]) for _, call in tasks]
            found = joblib.Parallel(n_jobs=2, backend=backend, timeout=seconds)(work)
            return zip([key for key, _ in tasks], found, strict=True)

        return call

    return {
        "threads": lambda tasks: by_executor(ThreadPoolExecutor(4), tasks, seconds),
        "joblib threads": parallel("threading"),
        "fork": lambda tasks: Forked(by_fork, seconds)(plain(tasks)),
        "fork beside a fit": beside,
        "multiprocessing fork": lambda tasks: Forked(by_multiprocessing, seconds)(plain(tasks)),
        "multiprocessing pool": executor("fork"),
        "forkserver": executor("forkserver"),
        "spawn": executor("spawn"),
        "loky": parallel("loky"),
    }


def foreign_threads():
    """Names of this process's threads but those of riesz."""
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    return sorted(name for name in names if not name.startswith("riesz-"))


def own_threads():
    return len(list(Path("/proc/self/task").iterdir())) - len(foreign_threads())


def failures(way, tasks, answers):
    """What is wrong with the answers of a way, by case."""
    wrong, missing = {}, {key for key, _ in tasks}
    for key, found in way(tasks):
        missing.discard(key)
        if isinstance(found, str):
            wrong[key] = found
        elif not np.array_equal(found, answers[key]):
            wrong[key] = "another answer"
    return {
        " ".join(key): what for key, what in (wrong | dict.fromkeys(missing, "no answer")).items()
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("ways", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = foreign_threads() if sys.platform == "linux" else []
        estimators, answers = prepare(folder)
        after = foreign_threads() if sys.platform == "linux" else []
        report = {"foreign threads": len(after) - len(before), "ways": {}}
        tasks = [
            ((case, operation), (answer, case, operation, folder, estimators[case]))
            for case, operation in answers
        ] * options.rounds
        for way, work in ways(options.seconds).items():
            if options.ways and way not in options.ways:
                continue
            started = time.monotonic()
            wrong = failures(work, tasks, answers)
            seconds = round(time.monotonic() - started, 1)
            report["ways"][way] = {"cases": len(tasks), "seconds": seconds, "failures": wrong}
        report["own threads"] = own_threads() if sys.platform == "linux" else 0
    json.dump(report, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
