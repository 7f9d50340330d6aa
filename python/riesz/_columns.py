"""Columns of tables (pandas, polars, Arrow), told by name and type, and laid side by side."""

import numbers
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils import validation

from riesz._errors import InvalidInput

# Columns and rows that are laid side by side at a time: a line of the cache, and what it holds.
_COLUMNS, _ROWS = 16, 2048
_SINGLE = {"float32", "Float32", "float"}


def validate_data(estimator: Any, X: Any, *y: Any, reset: bool = True, **checks: Any) -> Any:
    """Check data as scikit-learn does, which compares names of columns, and their types beside.

    Columns that hold no numbers are refused by name, and so are truth values where the fit had
    numbers. Numbers where it had truth values are taken: files know no others. The columns of a
    table are laid side by side without a copy of the whole in another form.
    """
    types = types_of(X)
    if types is None or y or any(str(dtype).startswith("Sparse") for dtype in _dtypes(X)):
        data = validation.validate_data(estimator, X, *y, reset=reset, **checks)
    else:
        validation.validate_data(estimator, X, reset=reset, skip_check_array=True)
        rows = _side_by_side(X, _precision(estimator, X, checks.get("dtype")))
        data = validation.check_array(rows, input_name="X", estimator=estimator, **checks)
    if reset:
        estimator._feature_types = types
        return data
    fitted = getattr(estimator, "_feature_types", None)
    if types and fitted:
        pairs = zip(_names(X), fitted, types, strict=True)
        retyped = [repr(name) for name, *kinds in pairs if kinds == ["number", "boolean"]]
        if retyped:
            raise InvalidInput(
                f"numbers were fitted where there are truth values now: {', '.join(retyped)};"
                " give these columns the type they had"
            )
    return data


def in_precision_of(X: Any, values: NDArray[Any]) -> NDArray[Any]:
    """Return answers in the precision of a table, whose rows may have been laid in single."""
    if not _is_table(X) or _is_single(X):
        return values
    return values.astype(np.float64, copy=False)


def types_of(X: Any) -> list[str] | None:
    """Return "number" or "boolean" for every column of a table, None for other containers."""
    if not _is_table(X):
        return None
    dtypes = _dtypes(X)
    types = [_type(dtype, X, place) for place, dtype in enumerate(dtypes)]
    if None in types:
        bad = [
            f"{name!r} ({dtype})"
            for name, dtype, kind in zip(_names(X), dtypes, types, strict=True)
            if kind is None
        ]
        raise InvalidInput(f"no numbers in {', '.join(bad)}; encode or drop these columns first")
    return [str(kind) for kind in types]


def _is_table(X: Any) -> bool:
    return hasattr(X, "columns") and (hasattr(X, "dtypes") or hasattr(X, "schema"))


def _is_single(X: Any) -> bool:
    return {str(dtype) for dtype in _dtypes(X)} <= _SINGLE


def _dtypes(X: Any) -> list[Any]:
    return list(X.dtypes) if hasattr(X, "dtypes") else list(X.schema.types)


def _names(X: Any) -> list[Any]:
    return list(X.columns) if hasattr(X, "dtypes") else list(X.schema.names)


def _type(dtype: Any, X: Any, place: int) -> str | None:
    numeric = getattr(dtype, "is_numeric", None)
    if callable(numeric):  # polars
        return "number" if numeric() else "boolean" if str(dtype) == "Boolean" else None
    if not hasattr(X, "dtypes"):  # Arrow
        name = str(dtype)
        number = name.startswith(("int", "uint", "float", "halffloat", "double"))
        return "number" if number else "boolean" if name == "bool" else None
    kind = getattr(dtype, "kind", None)
    if kind == "O" and str(dtype) == "object":
        values = X.iloc[:, place]
        real = all(isinstance(value, numbers.Real) for value in values)
        kind = "f" if real and not any(isinstance(value, bool) for value in values) else None
    return {"i": "number", "u": "number", "f": "number", "b": "boolean"}.get(str(kind))


def _precision(estimator: Any, X: Any, accepted: Any) -> DTypeLike:
    """Return the type of rows: single where the estimator computes in it, or nothing is lost."""
    if not isinstance(accepted, tuple):
        return np.float64 if accepted is None else accepted
    single = getattr(estimator, "_single", False) or _is_single(X)
    return np.float32 if single else np.float64


def _side_by_side(X: Any, dtype: DTypeLike) -> NDArray[Any]:
    """Return a table as rows; beside them there are some columns at a time."""
    rows = np.empty(X.shape, dtype=dtype)
    columns, place = _columns(X), 0
    # What is too large for single precision becomes infinite, which Rust refuses.
    with np.errstate(over="ignore"):
        while some := list(islice(columns, _COLUMNS)):
            for start in range(0, len(rows), _ROWS):
                part = slice(start, start + _ROWS)
                for j, column in enumerate(some, place):
                    rows[part, j] = column[part]
            place += len(some)
    return rows


def _columns(X: Any) -> Iterator[NDArray[Any]]:
    """Yield the columns of a table as arrays, without a copy where they are arrays already."""
    if hasattr(X, "iloc"):  # pandas
        for place, dtype in enumerate(X.dtypes):
            column = X.iloc[:, place]
            plain = isinstance(dtype, np.dtype)
            yield column.to_numpy() if plain else column.to_numpy(np.float64, na_value=np.nan)
        return
    for column in X.itercolumns() if hasattr(X, "itercolumns") else X.iter_columns():
        values: NDArray[Any] = column.to_numpy()
        if values.dtype == object:  # truth values of which some are missing
            values = np.array([np.nan if value is None else value for value in values], float)
        yield values
