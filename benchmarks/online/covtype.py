"""Progressive accuracy on Covertype in the order of its file, beside river.

    python benchmarks/online/covtype.py --rows 100000

Every row is predicted, then learnt from. `riesz` is `OnlineKernelClassifier` with nothing set but
the seed and what it keeps: one call of `fit` for the first row and of `partial_fit_predict` for the
others (`bulk`), and row by row through `riesz.river` (`one by one`). `HoeffdingTreeClassifier` is
river's with nothing set; `ALMAClassifier`, which knows two classes, is one against the rest behind
`StandardScaler`. `no change` predicts the label of the row before: in file order the labels come in
runs. Times are those of the processor, predicting and learning without reading; riesz is on one
thread, as the others are.

The raw rows go to results/covtype.csv, with the accuracy of every tenth of the rows.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("RIESZ_DATA", HERE.parents[2] / "shared" / "data"))
SOURCE = "Covertype, UCI machine learning repository, covtype.data as gzip"
COLUMNS = 54


def covtype(root: Path, rows: int | None) -> tuple[Any, Any]:
    """Return the first rows and their labels, in the order of the file."""
    path = root / "covtype" / "covtype.data.gz"
    if not path.exists():
        sys.exit(f"{path} is missing; it is {SOURCE}")
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32, max_rows=rows)
    return table[:, :COLUMNS], table[:, COLUMNS].astype(int)


def no_change(_X: Any, y: Any) -> Any:
    """Predict the label before."""
    return np.concatenate([[0], y[:-1]])


def bulk(**settings: Any) -> Callable[[Any, Any], Any]:
    """Learn by one call."""

    def learn(X: Any, y: Any) -> Any:
        from riesz import OnlineKernelClassifier

        model = OnlineKernelClassifier(random_state=0, n_jobs=1, **settings)
        model.partial_fit(X[:1], y[:1], classes=np.unique(y))
        return np.concatenate([[0], model.partial_fit_predict(X[1:], y[1:])])

    return learn


def one_by_one(build: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    """Learn a dictionary at a time."""

    def learn(X: Any, y: Any) -> Any:
        model = build()
        told = []
        for row, label in zip(rows_of(X), y.tolist(), strict=True):
            told.append(model.predict_one(row) or 0)
            model.learn_one(row, label)
        return np.array(told)

    return learn


def rows_of(X: Any) -> Iterator[dict[str, float]]:
    """Yield rows as dictionaries."""
    names = [f"column_{j}" for j in range(X.shape[1])]
    for row in X:
        yield dict(zip(names, row.tolist(), strict=True))


def riesz_one(**settings: Any) -> Any:
    """Return the estimator for river."""
    from riesz.river import OnlineKernelClassifier

    return OnlineKernelClassifier(seed=0, **settings)


def hoeffding_tree() -> Any:
    """Return river's tree."""
    from river.tree import HoeffdingTreeClassifier

    return HoeffdingTreeClassifier()


def alma() -> Any:
    """Return river's large-margin classifier, one against the rest."""
    from river.linear_model import ALMAClassifier
    from river.multiclass import OneVsRestClassifier
    from river.preprocessing import StandardScaler

    return StandardScaler() | OneVsRestClassifier(ALMAClassifier())


LEARNERS: dict[str, Callable[[Any, Any], Any]] = {
    "no change": no_change,
    "riesz dictionary": bulk(memory="dictionary"),
    "riesz features": bulk(),
    "riesz dictionary, one by one": one_by_one(lambda: riesz_one(memory="dictionary")),
    "riesz features, one by one": one_by_one(riesz_one),
    "ALMAClassifier": one_by_one(alma),
    "HoeffdingTreeClassifier": one_by_one(hoeffding_tree),
}


def main() -> None:
    """Run the learners and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rows", type=int, help="of the file; all unless given")
    parser.add_argument("--only", nargs="*", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--out", type=Path, default=HERE / "results" / "covtype.csv")
    arguments = parser.parse_args()
    X, y = covtype(arguments.data, arguments.rows)
    fresh = not arguments.out.exists()
    with arguments.out.open("a", newline="") as file:
        writer = csv.writer(file)
        if fresh:
            tenths = [f"accuracy_{k}" for k in range(1, 11)]
            writer.writerow(["learner", "rows", "accuracy", "cpu_s", "rows_per_s", *tenths])
        for name in arguments.only:
            started = time.process_time()
            right = LEARNERS[name](X, y) == y
            seconds = time.process_time() - started
            parts = [f"{part.mean():.4f}" for part in np.array_split(right, 10)]
            speed = len(y) / seconds
            facts = [name, len(y), f"{right.mean():.4f}", f"{seconds:.2f}", f"{speed:.0f}"]
            writer.writerow([*facts, *parts])
            file.flush()
            print(f"{name:30} accuracy {right.mean():.4f}  {speed:12,.0f} rows/s", flush=True)


if __name__ == "__main__":
    main()
