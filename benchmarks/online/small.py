"""Short streams: what online machines keep, atoms or random features, on scikit-learn's small sets.

    python benchmarks/online/small.py

Every set comes in five random orders, whole and cut after 100 rows. Each row is predicted, then
learnt from, by `OnlineKernelClassifier` or `OnlineKernelRegressor` with nothing set but the seed
and what is kept. The error is the share of wrong labels, or the root mean square of what was missed
in units of the deviation of the targets. Raw rows go to results/small.csv.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

from riesz import OnlineKernelClassifier, OnlineKernelRegressor

OUT = Path(__file__).parent / "results" / "small.csv"
CLASSES = ["iris", "wine", "breast_cancer", "digits"]
MEMORIES = ["dictionary", "features"]
ORDERS = 5
FEW = 100


def regressions() -> dict[str, tuple[Any, Any]]:
    """Return sets whose targets are numbers: one of measurements and three that are made up."""
    made = {
        "friedman1": datasets.make_friedman1(2000, noise=1.0, random_state=0),
        "friedman2": datasets.make_friedman2(2000, noise=50.0, random_state=0),
        "linear": datasets.make_regression(2000, 20, noise=20.0, random_state=0),
    }
    return {"diabetes": datasets.load_diabetes(return_X_y=True), **made}


def error(memory: str, seed: int, X: Any, y: Any, *, classes: bool) -> float:
    """Return the progressive error over all rows but the first."""
    if classes:
        model = OnlineKernelClassifier(memory=memory, random_state=seed)
        model.partial_fit(X[:1], y[:1], classes=np.unique(y))
        return float(np.mean(model.partial_fit_predict(X[1:], y[1:]) != y[1:]))
    model = OnlineKernelRegressor(memory=memory, random_state=seed).partial_fit(X[:1], y[:1])
    missed = model.partial_fit_predict(X[1:], y[1:]) - y[1:]
    return float(np.sqrt(np.mean(missed**2)) / y.std())


def main() -> None:
    """Measure all sets, and print the mean over orders."""
    sets = {name: getattr(datasets, f"load_{name}")(return_X_y=True) for name in CLASSES}
    with OUT.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["set", "rows", "memory", "order", "error"])
        for name, (X, y) in {**sets, **regressions()}.items():
            for rows in (FEW, len(y)):
                means = []
                for memory in MEMORIES:
                    found = []
                    for seed in range(ORDERS):
                        order = np.random.default_rng(seed).permutation(len(y))[:rows]
                        found.append(error(memory, seed, X[order], y[order], classes=name in sets))
                        writer.writerow([name, rows, memory, seed, f"{found[-1]:.4f}"])
                    means.append(f"{np.mean(found):.4f}")
                print(f"{name:15}{rows:6}  " + "  ".join(means), flush=True)


if __name__ == "__main__":
    main()
