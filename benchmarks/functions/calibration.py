"""Class probabilities beside those of a support vector machine with Platt's method.

    python benchmarks/functions/calibration.py --only mnist covtype --threads 2

Per data set and model one line: test error, mean negative log probability of the true class,
calibration error (the mean gap between the top probability and how often it is right, over fifteen
bins of equal width, weighted by their rows) and seconds of fit and prediction. The peer is
scikit-learn-intelex's SVC in ``CalibratedClassifierCV`` (sigmoid, five folds); on covtype, where it
cannot take all rows, both models learn from a random part, and riesz from all rows besides.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import data as sets
from data import Array, Split

ROWS = 30_000  # of covtype, for both models
BINS = 15


def riesz(split: Split, threads: int | None) -> Callable[[Array], Array]:
    """The default constructor."""
    from riesz import KernelClassifier

    model = KernelClassifier(random_state=0, n_jobs=threads).fit(split.X_train, split.y_train)
    return model.predict_proba


def platt(settings: dict[str, float]) -> Callable[[Split, int | None], Callable[[Array], Array]]:
    """Platt's method on the scores of five folds, then a fit to all rows."""

    def fit(split: Split, _threads: int | None) -> Callable[[Array], Array]:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearnex.svm import SVC

        machine = SVC(**settings, cache_size=2000)
        model = CalibratedClassifierCV(machine, method="sigmoid", cv=5, ensemble=False)
        return model.fit(split.X_train, split.y_train).predict_proba

    return fit


def calibration_error(p: Array, y: Array) -> float:
    """The gap between what the top probability says and how often it is right."""
    top, right = p.max(1), p.argmax(1) == y
    bins = np.minimum((top * BINS).astype(int), BINS - 1)
    gaps = [abs(np.sum(top[bins == b]) - np.sum(right[bins == b])) for b in range(BINS)]
    return float(np.sum(gaps) / len(y))


def measure(fit: Callable[..., Any], split: Split, threads: int | None) -> dict[str, float]:
    """Fit, predict, compare."""
    classes = np.unique(split.y_train)
    y = np.searchsorted(classes, split.y_test)
    start = time.perf_counter()
    predict = fit(split, threads)
    fitted = time.perf_counter()
    p = np.asarray(predict(split.X_test), dtype=np.float64)
    done = time.perf_counter()
    true = np.clip(p[np.arange(len(y)), y], 1e-12, 1)
    return {
        "rows": len(split.X_train),
        "error": float(np.mean(p.argmax(1) != y)),
        "log_loss": float(-np.log(true).mean()),
        "calibration": calibration_error(p, y),
        "fit_s": fitted - start,
        "predict_s": done - fitted,
    }


def part(split: Split, rows: int) -> Split:
    """A random part of the training rows."""
    order = np.random.default_rng(0).permutation(len(split.X_train))[:rows]
    return split._replace(X_train=split.X_train[order], y_train=split.y_train[order])


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = os.environ.get("RIESZ_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(root), help="folder of the data sets")
    parser.add_argument("--only", nargs="*", default=["mnist", "covtype"])
    parser.add_argument("--threads", type=int, help="of riesz; all cores unless given")
    parser.add_argument("--all-rows", action="store_true", help="riesz on all of covtype too")
    parser.add_argument("--out", type=Path, help="append the lines as JSON")
    arguments = parser.parse_args()
    print(
        f"{'data':<10}{'model':<8}{'rows':>8}{'error':>8}{'log loss':>10}{'calib.':>8}{'fit s':>8}"
    )
    for name in arguments.only:
        if name == "mnist":
            split = sets._mnist(arguments.data)
            jobs = [("riesz", riesz, split), ("platt", platt({"C": 10, "gamma": 0.025}), split)]
        else:
            whole = sets._covtype(arguments.data)
            few = part(whole, ROWS)
            jobs = [("riesz", riesz, few), ("platt", platt({"C": 10, "gamma": 20.0}), few)]
            jobs += [("riesz", riesz, whole)] if arguments.all_rows else []
        for model, fit, rows in jobs:
            found = measure(fit, rows, arguments.threads)
            print(
                f"{name:<10}{model:<8}{found['rows']:>8}{found['error']:>8.4f}"
                f"{found['log_loss']:>10.4f}{found['calibration']:>8.4f}{found['fit_s']:>8.1f}",
                flush=True,
            )
            if arguments.out:
                with arguments.out.open("a") as file:
                    file.write(json.dumps({"data": name, "model": model, **found}) + "\n")


if __name__ == "__main__":
    main()
