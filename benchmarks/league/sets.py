"""Data sets of the league: scikit-learn's own, and those of a data folder that are there."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

Array = NDArray[Any]

SMALL_REGRESSION = ("yacht", "housing", "energy", "concrete", "airfoil")
LARGE_REGRESSION = ("kin40k", "pol", "elevators", "keggdirected", "pumadyn32nm")
OUTLIERS = ("6_cardio", "38_thyroid", "2_annthyroid", "28_pendigits", "26_optdigits")
MOST_SMALL = 1_250


class Table(NamedTuple):
    """Rows, targets, what they are, and how many splits are measured."""

    name: str
    X: Array
    y: Array
    task: str
    splits: int

    def split(self, number: int) -> tuple[Array, Array]:
        """Training and test rows: a fifth of small sets and a tenth of large ones to test."""
        order = np.random.default_rng(number).permutation(len(self.X))
        cut = len(order) // (5 if len(order) < 5_000 else 10)
        return order[cut:], order[:cut]


def _uci(root: Path, name: str) -> tuple[Array, Array]:
    text = gzip.decompress((root / "uci_regression" / name / "data.csv.gz").read_bytes())
    table = np.loadtxt(io.BytesIO(text), delimiter=",")
    return table[:, :-1], table[:, -1]


def _california(root: Path) -> tuple[Array, Array]:
    from pyarrow.parquet import read_table

    table = read_table(root / "california_housing" / "california_housing.parquet.brotli")
    columns = np.column_stack([column.to_numpy() for column in table.columns])
    return columns[:, :-1], columns[:, -1]


def _outliers(root: Path, name: str) -> tuple[Array, Array]:
    with np.load(root / "adbench" / f"{name}.npz") as file:
        X, y = file["X"], file["y"]
    part = np.random.default_rng(0).permutation(len(X))[:MOST_SMALL]
    return X[part], y[part].astype(int)


def _usps(root: Path) -> tuple[Array, Array]:
    with np.load(root / "usps" / "usps.npz") as file:
        X, y = file["X_train"], file["y_train"]
    part = np.random.default_rng(0).permutation(len(X))[:MOST_SMALL]
    return X[part], y[part].astype(int)


def _made() -> Iterator[tuple[str, Array, Array, str]]:
    """Tables whose columns matter unequally, by scikit-learn's generators."""
    X, y = datasets.make_friedman1(1_000, n_features=25, noise=1.0, random_state=0)
    yield "friedman, 20 useless columns", X, y, "regression"
    X, y = datasets.make_classification(
        1_000, 20, n_informative=4, n_redundant=4, flip_y=0.05, random_state=0
    )
    yield "clusters, 12 useless columns", X, y, "classification"
    X, y = datasets.make_moons(300, noise=0.25, random_state=0)
    yield "moons", X, y, "classification"


def tables(root: Path | None, splits: int) -> Iterator[Table]:
    """All sets there are, small ones first."""
    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield Table(name, X, y, "classification", splits)
    yield Table("diabetes", *datasets.load_diabetes(return_X_y=True), "regression", splits)
    for name, X, y, task in _made():
        yield Table(name, X, y, task, splits)
    if root is None:
        return
    readers: list[tuple[str, str, int, Callable[[Path], tuple[Array, Array]]]] = [
        *((n, "regression", splits, lambda r, n=n: _uci(r, n)) for n in SMALL_REGRESSION),
        *((n, "classification", splits, lambda r, n=n: _outliers(r, n)) for n in OUTLIERS),
        ("usps", "classification", splits, _usps),
        *((n, "regression", 1, lambda r, n=n: _uci(r, n)) for n in LARGE_REGRESSION),
        ("california_housing", "regression", 1, _california),
    ]
    for name, task, count, read in readers:
        try:
            yield Table(name, *read(root), task, count)
        except FileNotFoundError as missing:
            print(f"skipped: {missing}")
