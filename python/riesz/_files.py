"""Learning from data files, which may be larger than memory."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from riesz._arguments import count
from riesz._errors import InvalidInput
from riesz._riesz import FileParts, FileRows

Path: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = Path | Sequence[Path]


def listed(paths: Paths) -> list[Path]:
    """Return paths as a list; one of them may come alone."""
    if isinstance(paths, str | os.PathLike):
        return [paths]
    found: list[Any] = list(paths) if isinstance(paths, Iterable) else [paths]
    if not found or not all(isinstance(path, str | os.PathLike) for path in found):
        raise InvalidInput(f"paths = {paths!r} should be a path, or a list of paths")
    return found


def collected(
    paths: Paths, target: int | str | None, memory: int | None, cache: Path | None
) -> FileRows:
    """Return the rows and the target of files."""
    if memory is not None:
        # A quarter for rows; the rest is for what is computed from them.
        memory = count("memory", memory, least=1) // 4
    return FileRows.collect(listed(paths), target, memory=memory, cache=cache)


def describe(estimator: Any, names: list[str], columns: int, target: str, codings: str) -> None:
    """Note the columns of files, as fitting to a data frame would."""
    estimator._codings = json.loads(codings) or None
    estimator.n_features_in_ = columns if estimator._codings is None else len(estimator._codings)
    estimator._feature_types = estimator._codings and [
        "category" if coding and "values" in coding else "number" for coding in estimator._codings
    ]
    estimator._target = None
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    if names:
        estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator._target = target


def parts_of(estimator: Any, paths: Paths) -> Iterator[NDArray[np.float32]]:
    """Yield the rows of files a part at a time, their columns in the order of the fit."""
    check_is_fitted(estimator)
    names = getattr(estimator, "feature_names_in_", np.array([], dtype=object)).tolist()
    codings = json.dumps(getattr(estimator, "_codings", None) or [])
    columns = estimator.n_features_in_
    parts = FileParts.open(listed(paths), columns, names, estimator._target, codings)
    while (part := parts.read()) is not None:
        yield part


def classes_named(names: list[str]) -> NDArray[Any]:
    """Return the labels that the texts of a file stand for: whole numbers, numbers or text."""
    for kind in (np.int64, np.float64):
        try:
            numbers = np.array([kind(name) for name in names])
        except (ValueError, OverflowError):
            continue
        if np.isfinite(numbers).all() and len(np.unique(numbers)) == len(names):
            return numbers
    return np.array(names)
