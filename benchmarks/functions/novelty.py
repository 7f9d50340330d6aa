"""Novelty detection beside scikit-learn's one-class machines, on six sets of ADBench.

    python benchmarks/functions/novelty.py --seeds 3

Two tasks: "outliers" fits to all rows, anomalies too, and ranks the same rows; "novelty" fits
to a random half of the usual rows and ranks all others. Columns are standardised for the peers by
the rows of the fit (riesz does so itself); all else is the default constructor. Per task, set and
model: area under the curve (mean over seeds) and seconds of the fit. The exact machine's time grows
with the square of the rows; ``--most`` bounds the rows it gets.
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
from sklearn.metrics import roc_auc_score

Score = Callable[[Any], Any]


def riesz(X: Any, seed: int) -> Score:
    """The default constructor."""
    from riesz import KernelNoveltyDetector

    return KernelNoveltyDetector(random_state=seed).fit(X).score_samples


def exact(X: Any, _seed: int) -> Score:
    """scikit-learn's exact one-class machine."""
    from sklearn.svm import OneClassSVM

    return OneClassSVM(cache_size=1000).fit(X).score_samples


def nystroem(X: Any, seed: int) -> Score:
    """Nystroem features with the bandwidth of the exact machine, and stochastic gradients."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDOneClassSVM
    from sklearn.pipeline import make_pipeline

    features = Nystroem(gamma=1 / (X.shape[1] * X.var()), random_state=seed)
    return make_pipeline(features, SGDOneClassSVM(random_state=seed)).fit(X).score_samples


MODELS = {"riesz": riesz, "exact": exact, "nystroem": nystroem}


def parts(X: Any, y: Any, task: str, seed: int) -> tuple[Any, Any, Any]:
    """Rows of the fit; rows to rank and whether they are anomalies."""
    if task == "outliers":
        return X, X, y
    usual = np.random.default_rng(seed).permutation(np.flatnonzero(y == 0))
    fitted = usual[: len(usual) // 2]
    others = np.setdiff1d(np.arange(len(y)), fitted)
    return X[fitted], X[others], y[others]


def standardised(fit: Any, rank: Any) -> tuple[Any, Any]:
    """Both parts in deviations of the first."""
    deviation = fit.std(0)
    deviation[deviation == 0] = 1
    return (fit - fit.mean(0)) / deviation, (rank - fit.mean(0)) / deviation


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = os.environ.get("RIESZ_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(root), help="folder of the data sets")
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--tasks", nargs="*", default=["outliers", "novelty"])
    parser.add_argument("--only", nargs="*", default=[], help="sets whose name contains one")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=int, default=10_000, help="most rows of the exact machine")
    parser.add_argument("--out", type=Path, help="append the lines as JSON")
    arguments = parser.parse_args()
    files = sorted((arguments.data / "adbench").glob("*.npz"))
    if not files:
        parser.error(f"no adbench/*.npz in {arguments.data}; they are in ADBench's repository")
    for task in arguments.tasks:
        for model in arguments.models:
            areas, seconds = [], []
            for file in files:
                if arguments.only and not any(name in file.stem for name in arguments.only):
                    continue
                area, second, rows = measure(file, task, model, arguments)
                areas.append(area)
                seconds.append(second)
                if arguments.out:
                    line = {"data": file.stem, "task": task, "model": model, "rows": rows}
                    line |= {"auc": area, "fit_s": second}
                    with arguments.out.open("a") as lines:
                        lines.write(json.dumps(line) + "\n")
            print(
                f"{task:<10}{model:<10}mean {np.mean(areas):.4f}  ",
                " ".join(f"{a:.3f}" for a in areas),
                "  fit s",
                " ".join(f"{s:.2f}" for s in seconds),
                flush=True,
            )


def measure(file: Path, task: str, model: str, arguments: Any) -> tuple[float, float, int]:
    """Mean area, median seconds and rows of the fit."""
    archive = np.load(file)
    X, y = archive["X"].astype(float), archive["y"].astype(int)
    areas, seconds, rows = [], [], 0
    for seed in range(arguments.seeds):
        fit, rank, novel = parts(X, y, task, seed)
        if model != "riesz":
            fit, rank = standardised(fit, rank)
        if model == "exact":
            fit = fit[np.random.default_rng(seed).permutation(len(fit))[: arguments.most]]
        start = time.perf_counter()
        score = MODELS[model](fit, seed)
        seconds.append(time.perf_counter() - start)
        areas.append(roc_auc_score(novel, -score(rank)))
        rows = len(fit)
    return float(np.mean(areas)), float(np.median(seconds)), rows


if __name__ == "__main__":
    main()
