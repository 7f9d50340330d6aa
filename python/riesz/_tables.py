"""Tables of pandas, polars and Arrow, and arrays: names, types and values of their columns."""

import numbers
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Columns and rows that are laid side by side at a time: a line of the cache, and what it holds.
_COLUMNS, _ROWS = 16, 2048
_SINGLE = {"float32", "Float32", "float"}
_KINDS = {"i": "number", "u": "number", "f": "number", "b": "boolean"}
# Beginnings of the names that types of text and categories have, without their case.
_TEXT = ("str", "cat", "enum", "large_string", "utf8", "dictionary")


def is_table(X: Any) -> bool:
    """Return whether columns have types of their own."""
    return hasattr(X, "columns") and (hasattr(X, "dtypes") or hasattr(X, "schema"))


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or the NA of pandas."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA is neither like itself nor unlike
        return True


class Table:
    """A table, or an array as one."""

    def __init__(self, X: Any) -> None:
        self._data = X
        self.rows, self.columns = X.shape
        self._is_array = not is_table(X)
        self._is_arrow = not self._is_array and not hasattr(X, "dtypes")

    def dtypes(self) -> list[Any]:
        """Return the types of the columns, as their library has them."""
        if self._is_array:
            return [self._data.dtype] * self.columns
        return list(self._data.schema.types) if self._is_arrow else list(self._data.dtypes)

    def names(self) -> list[Any]:
        """Return the names of the columns, none of an array."""
        if self._is_array:
            return []
        return list(self._data.schema.names) if self._is_arrow else list(self._data.columns)

    def types(self) -> list[str | None]:
        """Return "number", "boolean" or "category" for every column, None for another type."""
        return [self._type(dtype, place) for place, dtype in enumerate(self.dtypes())]

    def is_single(self) -> bool:
        """Return whether every column has single precision."""
        return {str(dtype) for dtype in self.dtypes()} <= _SINGLE

    def is_sparse(self) -> bool:
        """Return whether a column has pandas' sparse type."""
        return any(str(dtype).startswith("Sparse") for dtype in self.dtypes())

    def may_miss_numbers(self) -> bool:
        """Return whether a number may be missing; of an array whether one is, or is infinite."""
        return not self._is_array or not np.isfinite(self._data.sum(dtype=np.float64))

    def values(self, place: int) -> Any:
        """Return the values of a column one by one, None or NaN where they are missing."""
        if self._is_array:
            return self._data[:, place].tolist()
        if hasattr(self._data, "iloc"):
            return self._data.iloc[:, place].astype(object).tolist()
        column = self._column(place)
        return column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()

    def numbers(self, place: int) -> Any:
        """Return a column of numbers, without a copy where it is an array already."""
        if self._is_array:
            return self._data[:, place]
        column = self._column(place)
        if hasattr(self._data, "iloc"):
            plain = isinstance(column.dtype, np.dtype) and column.dtype != object
            return column.to_numpy() if plain else column.to_numpy(np.float64, na_value=np.nan)
        values: NDArray[Any] = column.to_numpy()
        if values.dtype == object:  # truth values of which some are missing
            values = np.array([np.nan if value is None else value for value in values], float)
        return values

    def side_by_side(self, dtype: DTypeLike) -> NDArray[Any]:
        """Return columns of numbers as rows; beside them there are some columns at a time."""
        rows = np.empty((self.rows, self.columns), dtype=dtype)
        columns: Iterator[Any] = map(self.numbers, range(self.columns))
        place = 0
        # What is too large for single precision becomes infinite, which Rust refuses.
        with np.errstate(over="ignore"):
            while some := list(islice(columns, _COLUMNS)):
                for start in range(0, self.rows, _ROWS):
                    part = slice(start, start + _ROWS)
                    for j, column in enumerate(some, place):
                        rows[part, j] = column[part]
                place += len(some)
        return rows

    def is_wholly_missing(self, place: int) -> bool:
        """Return whether no value of a column is known."""
        return all(map(is_missing, self.values(place)))

    def _column(self, place: int) -> Any:
        if hasattr(self._data, "iloc"):
            return self._data.iloc[:, place]
        if self._is_arrow:
            return self._data.column(place)
        return self._data.to_series(place)

    def _type(self, dtype: Any, place: int) -> str | None:
        name = str(dtype)
        if self._is_array:
            return _KINDS.get(dtype.kind)
        numeric = getattr(dtype, "is_numeric", None)
        if callable(numeric):  # polars
            found = "number" if numeric() else "boolean" if name == "Boolean" else None
        elif self._is_arrow:
            number = name.startswith(("int", "uint", "float", "halffloat", "double"))
            found = "number" if number else "boolean" if name == "bool" else None
        elif name == "object":
            return _type_of_objects(self._data.iloc[:, place])
        else:
            found = _KINDS.get(str(getattr(dtype, "kind", None)))
        if found is None and name.lower().startswith(_TEXT):
            return "category"
        return found


def _type_of_objects(values: Iterable[Any]) -> str | None:
    """Return the type of values that may be of any, of which those that are missing say nothing."""
    there = [value for value in values if not is_missing(value)]
    kinds = {"text" if isinstance(value, str) else _kind(value) for value in there}
    if "text" in kinds:
        return "category" if kinds <= {"text", "number", "boolean"} else None
    return "number" if kinds == {"number"} else None


def _kind(value: Any) -> str | None:
    if isinstance(value, bool | np.bool_):
        return "boolean"
    return "number" if isinstance(value, numbers.Real) else None
