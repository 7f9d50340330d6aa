"""Columns of tables (pandas, polars, Arrow), told by name and type, and what becomes of them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.utils import validation

from riesz import _coding
from riesz._errors import InvalidInput
from riesz._tables import Table, is_table


def validate_data(
    estimator: Any,
    X: Any,
    *y: Any,
    reset: bool = True,
    weights: Any = None,
    **checks: Any,
) -> Any:
    """Check data as scikit-learn does, which compares names of columns, and their types beside.

    Columns that hold no numbers are refused by name, unless the estimator takes categories, and so
    are truth values where the fit had numbers. Numbers where it had truth values are taken: files
    know no others. The columns of a table are laid side by side without a copy of the whole in
    another form.
    """
    if not is_table(X) or y or (table := Table(X)).is_sparse():
        data = validation.validate_data(estimator, X, *y, reset=reset, **checks)
        if reset:
            estimator._feature_types = None
        return _coded(estimator, data, reset=reset, weights=weights)
    categories = _categories(estimator, table)
    fitted = None if reset else getattr(estimator, "_feature_types", None)
    types = _types(table, categories, _settled(estimator, table) if fitted else {})
    validation.validate_data(estimator, X, reset=reset, skip_check_array=True)
    if not reset:
        _compare(table, fitted or types, types)
    codings = _codings(estimator, table, categories, reset=reset, weights=weights)
    dtype = _precision(estimator, table, checks.get("dtype"))
    rows = table.side_by_side(dtype) if codings is None else _coding.encode(table, codings, dtype)
    data = validation.check_array(rows, input_name="X", estimator=estimator, **checks)
    if reset:
        estimator._feature_types = types
    return data


def in_precision_of(X: Any, values: NDArray[Any]) -> NDArray[Any]:
    """Return answers in the precision of a table, whose rows may have been laid in single."""
    if not is_table(X) or Table(X).is_single():
        return values
    return values.astype(np.float64, copy=False)


def _settled(estimator: Any, table: Table) -> dict[int, str]:
    """Return the types of columns that may be missing and of which no value is there."""
    known = zip(getattr(estimator, "_codings", None) or [], estimator._feature_types, strict=False)
    return {
        place: kind
        for place, (coding, kind) in enumerate(known)
        if coding is not None and place < table.columns and table.is_wholly_missing(place)
    }


def _types(table: Table, categories: list[int], settled: dict[int, str]) -> list[str]:
    """Return the types of the columns, or refuse those that are neither numbers nor categories."""
    types = [settled.get(place, kind) for place, kind in enumerate(table.types())]
    columns = zip(table.names(), table.dtypes(), types, strict=True)
    bad = [
        f"{name!r} ({dtype})"
        for place, (name, dtype, kind) in enumerate(columns)
        if kind is None or (kind == "category" and place not in {*categories, *settled})
    ]
    if bad:
        raise InvalidInput(f"no numbers in {', '.join(bad)}; encode or drop these columns first")
    return [str(kind) for kind in types]


def _compare(table: Table, fitted: list[str], types: list[str]) -> None:
    """Refuse columns of another type than the fit had."""
    words = {"number": "numbers", "boolean": "truth values", "category": "categories"}
    retyped: dict[tuple[str, str], list[str]] = {}
    for name, old, new in zip(table.names(), fitted, types, strict=True):
        if old != new and (old, new) != ("boolean", "number"):
            retyped.setdefault((words[old], words[new]), []).append(repr(name))
    for (old, new), names in retyped.items():
        raise InvalidInput(
            f"{old} were fitted where there are {new} now: {', '.join(names)};"
            " give these columns the type they had"
        )


def _coded(estimator: Any, data: Any, *, reset: bool, weights: ArrayLike | None) -> Any:
    """Return the rows of an array, categories and missing numbers as the estimator has them."""
    if not isinstance(data, np.ndarray):
        if reset:
            estimator._codings = None
        return data
    table = Table(data)
    categories = _categories(estimator, table) if reset else []
    codings = _codings(estimator, table, categories, reset=reset, weights=weights)
    return data if codings is None else _coding.encode(table, codings, data.dtype)


def _codings(
    estimator: Any,
    table: Table,
    categories: list[int],
    *,
    reset: bool,
    weights: ArrayLike | None,
) -> list[_coding.Coding] | None:
    """Return what becomes of the columns, which a fit finds out."""
    if not _takes_categories(estimator):
        return None
    if reset:
        shares = None if weights is None else np.asarray(weights, float)
        if shares is not None and shares.shape != (table.rows,):
            shares = None  # which is refused when weights are looked at
        estimator._codings = _coding.learn(table, categories, shares)
    found: list[_coding.Coding] | None = estimator._codings
    return found


def _categories(estimator: Any, table: Table) -> list[int]:
    """Return the columns that are categories."""
    if not _takes_categories(estimator):
        return []
    return _coding.categories_of(table, estimator.categorical_features)


def _takes_categories(estimator: Any) -> bool:
    return hasattr(estimator, "categorical_features")


def _precision(estimator: Any, table: Table, accepted: Any) -> DTypeLike:
    """Return the type of rows: single where the estimator computes in it, or nothing is lost."""
    if not isinstance(accepted, tuple):
        return np.float64 if accepted is None else accepted
    single = getattr(estimator, "_single", False) or table.is_single()
    return np.float32 if single else np.float64
