"""Every estimator on many rows: seconds, memory and score, each in a process of its own.

    python benchmarks/functions/robustness.py --rows 1000000
    python benchmarks/functions/robustness.py --rows 100000 --only regressor quantiles

The data are `--rows` × 10 float32 numbers, half of them zero, and a function of six of the columns
with noise. Estimators that keep time get `--max-time` seconds. Per estimator one line: seconds of
fit and of prediction on 10,000 further rows, peak resident memory of the fit beyond the data, and
the score on those rows: accuracy, R², explained pinball loss; for features the largest error of a
kernel value; for novelty the area under the curve (AUC) of telling rows from rows twice as long;
for ratios that of telling rows with positive targets from the others, which are the two samples.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from child import peak_mb, reset_peak

Maker = Callable[[float], Any]
TEST = 10_000
NOISE = 0.3


def _classifier(seconds: float) -> Any:
    from riesz import KernelClassifier

    return KernelClassifier(max_time=seconds, random_state=0)


def _regressor(seconds: float) -> Any:
    from riesz import KernelRegressor

    return KernelRegressor(max_time=seconds, random_state=0)


def _stream(seconds: float) -> Any:
    from riesz import KernelRegressor

    return KernelRegressor(solver="stream", max_time=seconds, random_state=0)


def _quantiles(seconds: float) -> Any:
    from riesz import KernelQuantileRegressor

    return KernelQuantileRegressor(max_time=seconds, random_state=0)


def _process(_: float) -> Any:
    from riesz import GaussianProcessRegressor

    return GaussianProcessRegressor(random_state=0)


def _features(_: float) -> Any:
    from riesz import RandomFeatures

    return RandomFeatures(random_state=0)


def _novelty(_: float) -> Any:
    from riesz import KernelNoveltyDetector

    return KernelNoveltyDetector(random_state=0)


def _ratio(seconds: float) -> Any:
    from riesz import DensityRatioEstimator

    return DensityRatioEstimator(max_time=seconds, random_state=0)


ESTIMATORS: dict[str, Maker] = {
    "classifier": _classifier,
    "regressor": _regressor,
    "stream": _stream,
    "quantiles": _quantiles,
    "process": _process,
    "features": _features,
    "novelty": _novelty,
    "ratio": _ratio,
}


def table(n: int) -> tuple[Any, Any]:
    """Rows and targets, the last `TEST` of them to be judged by."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + TEST, 10)).astype(np.float32)
    X *= rng.random(size=X.shape, dtype=np.float32) < 0.5
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) - np.tanh(X[:, 4] + X[:, 5])
    return X, y + NOISE * rng.normal(size=len(y)).astype(np.float32)


def kernel_error(model: Any, X: Any) -> float:
    """The largest error of a Gaussian kernel of some rows."""
    Z, X = model.transform(X[:200]), X[:200].astype(float)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return float(np.abs(Z @ Z.T - np.exp(-squares / (2 * model.bandwidth_**2))).max())


def auc(high: Any, low: Any) -> float:
    """The share of pairs that are in order."""
    from sklearn.metrics import roc_auc_score

    labels = np.repeat([1, 0], [len(high), len(low)])
    return float(roc_auc_score(labels, np.concatenate([high, low])))


def measure(name: str, rows: int, seconds: float, sparse: bool) -> dict[str, Any]:
    """One fit and one prediction."""
    X, y = table(rows)
    if name == "classifier":
        y = np.digitize(y, [-1.0, 0.5, 2.0])
    train, test = X[:rows], X[rows:]
    if sparse:
        import scipy.sparse as sp

        train, test = sp.csr_array(train), sp.csr_array(test)
    del X
    samples = (train[y[:rows] > 0], train[y[:rows] <= 0]) if name == "ratio" else (train, y[:rows])
    model = ESTIMATORS[name](seconds)
    before = reset_peak()
    start = time.perf_counter()
    model.fit(*samples)
    fitted = time.perf_counter()
    if name == "features":
        score = kernel_error(model, test if not sparse else test.toarray())
    elif name == "novelty":
        score = auc(model.score_samples(test), model.score_samples(2 * test))
    elif name == "ratio":
        positive, ratios = y[rows:] > 0, model.predict(test)
        score = auc(ratios[positive], ratios[~positive])
    else:
        score = model.score(test, y[rows:])
    return {
        "estimator": name,
        "rows": rows,
        "fit_s": round(fitted - start, 1),
        "predict_s": round(time.perf_counter() - fitted, 2),
        "extra_mb": round(peak_mb() - before),
        "score": round(float(score), 4),
    }


def main() -> None:
    """Measure one estimator after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--max-time", type=float, default=30.0)
    parser.add_argument("--only", nargs="+", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument("--sparse", action="store_true", help="give the rows as CSR")
    parser.add_argument("--measure", choices=ESTIMATORS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        found = measure(given.measure, given.rows, given.max_time, given.sparse)
        print(json.dumps(found), flush=True)
        return
    for name in given.only:
        command = [sys.executable, __file__, "--measure", name]
        command += ["--rows", str(given.rows), "--max-time", str(given.max_time)]
        command += ["--sparse"] if given.sparse else []
        ended = subprocess.run(command, check=False).returncode
        if ended:
            print(json.dumps({"estimator": name, "rows": given.rows, "failed": ended}), flush=True)


if __name__ == "__main__":
    main()
