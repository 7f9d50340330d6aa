"""Categories and missing numbers as columns of numbers.

A category becomes a column of indicators for each of its values. A number that is missing in some
rows becomes two columns: the number, with its mean in those rows, and an indicator of them.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from riesz._errors import InvalidInput
from riesz._tables import Table, is_missing

# What becomes of a column, as values JSON knows: None is a number as it is, {"mean": m} one that
# may be missing, {"values": [...], "others": bool, "missing": bool} a category.
Coding: TypeAlias = dict[str, Any] | None

# Values of a category that have a column of their own; rarer ones share one.
MOST = 254


def learn(
    table: Table, categories: Iterable[int], weights: NDArray[Any] | None
) -> list[Coding] | None:
    """Return what becomes of the columns, None where all are numbers as they are."""
    chosen = set(categories)
    if not chosen and not table.may_miss_numbers():
        return None
    codings = [
        _category(table.values(j), weights) if j in chosen else _number(table.numbers(j), weights)
        for j in range(table.columns)
    ]
    return codings if any(codings) else None


def width(coding: Coding) -> int:
    """Return how many columns a column becomes."""
    if coding is None:
        return 1
    if "mean" in coding:
        return 2
    return len(coding["values"]) + bool(coding["others"]) + bool(coding["missing"])


def encode(table: Table, codings: Sequence[Coding], dtype: DTypeLike) -> NDArray[Any]:
    """Return a table as rows of numbers."""
    rows = np.zeros((table.rows, sum(map(width, codings))), dtype=dtype)
    place = 0
    for j, coding in enumerate(codings):
        if coding is not None and "values" in coding:
            _indicate(rows, place, coding, table.values(j))
        else:
            values = table.numbers(j)
            _refuse_unknown(table, j, values, fillable=coding is not None)
            _put_number(rows, place, coding, values)
        place += width(coding)
    return rows


def checked(codings: Any, columns: int) -> list[Coding]:
    """Return the codings of a file, or refuse them: they have to make so many columns."""
    for coding in codings:
        if coding is None:
            continue
        if "mean" in coding:
            if not np.isfinite(float(coding["mean"])):
                raise ValueError(f"the mean {coding['mean']} of a column")
        elif coding["values"] != sorted(set(coding["values"])):
            raise ValueError("the values of a category")
    if sum(map(width, codings)) != columns:
        raise ValueError(f"columns that become other than the {columns} of the model")
    found: list[Coding] = list(codings)
    return found


def grouped(codings: Sequence[Coding] | None, values: NDArray[Any]) -> NDArray[Any]:
    """Return sums over the columns that one column of the table became."""
    if codings is None:
        return values
    ends = np.cumsum([width(coding) for coding in codings])
    return np.add.reduceat(values, np.concatenate([[0], ends[:-1]]))


def _number(values: NDArray[Any], weights: NDArray[Any] | None) -> Coding:
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    if not missing.any():
        return None
    known = np.where(missing, 0.0, values)
    counted = ~missing * (1.0 if weights is None else weights)
    total = counted.sum()
    mean = float((known * counted).sum() / total) if total > 0 else 0.0
    return {"mean": mean if np.isfinite(mean) else 0.0}


def _category(values: Iterable[Any], weights: NDArray[Any] | None) -> Coding:
    counts: dict[str | None, float] = {}
    shares = repeat(1.0) if weights is None else weights.tolist()
    for value, share in zip(map(text, values), shares, strict=False):
        counts[value] = counts.get(value, 0.0) + share
    missing = None in counts
    counts.pop(None, None)
    # By weight, those of equal weight by name; then all by name, whatever the order of the rows.
    by_weight = sorted(counts, key=lambda value: (-counts[value], value))
    return {
        "values": sorted(by_weight[:MOST]),
        "others": len(by_weight) > MOST,
        "missing": missing,
    }


def _refuse_unknown(table: Table, place: int, values: NDArray[Any], *, fillable: bool) -> None:
    """Refuse infinities, and missing numbers of a column of which none was missing in the fit."""
    if values.dtype.kind != "f":
        return
    bad = np.isinf(values) if fillable else ~np.isfinite(values)
    if bad.any():
        row = int(bad.argmax())
        names = table.names()
        column = f"column {place}" + (f" ({names[place]!r})" if names else "")
        never = ", which was never missing in the fit" if np.isnan(values[row]) else ""
        raise InvalidInput(f"X contains {values[row]} at row {row}, {column}{never}")


def _put_number(rows: NDArray[Any], place: int, coding: Coding, values: NDArray[Any]) -> None:
    # What is too large for single precision becomes infinite, which Rust refuses.
    with np.errstate(over="ignore"):
        rows[:, place] = values
    if coding is not None:
        missing = np.isnan(values)
        rows[missing, place] = coding["mean"]
        rows[:, place + 1] = missing


def _indicate(rows: NDArray[Any], place: int, coding: Any, values: Iterable[Any]) -> None:
    """Set the indicators of a category; those of a value nobody knows stay zero."""
    places: dict[Any, int] = {value: j for j, value in enumerate(coding["values"])}
    count = len(places)
    others = count if coding["others"] else -1
    missing = count + coding["others"] if coding["missing"] else -1
    known: dict[Any, int] = {}

    def place_of(value: Any) -> int:
        if (found := known.get(value)) is None:
            name = text(value)
            found = known[value] = missing if name is None else places.get(name, others)
        return found

    found = np.fromiter(map(place_of, values), np.intp, len(rows))
    there = np.flatnonzero(found >= 0)
    rows[there, place + found[there]] = 1.0


def text(value: Any) -> str | None:
    """Return the value of a category as text, None where it is missing.

    Whole numbers have no decimal point, whatever their type, as in files.
    """
    if is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def categories_of(table: Table, wanted: Any) -> list[int]:
    """Return the columns that `categorical_features` names."""
    if isinstance(wanted, str) and wanted == "from_dtype":
        return [j for j, kind in enumerate(table.types()) if kind == "category"]
    if wanted is None:
        return []
    given = np.asarray(wanted)
    mistake = InvalidInput(
        f"categorical_features = {wanted!r} should be 'from_dtype', None, a truth value for each of"
        f" {table.columns} columns, or the numbers or names of some"
    )
    if given.ndim != 1 or isinstance(wanted, str):
        raise mistake
    if given.dtype.kind == "b":
        if len(given) != table.columns:
            raise mistake
        return np.flatnonzero(given).tolist()
    if given.dtype.kind in "iu":
        if len(given) and not (given.min() >= 0 and given.max() < table.columns):
            raise mistake
        return sorted(set(given.tolist()))
    names = table.names()
    unknown = [name for name in given.tolist() if name not in names]
    if unknown or not all(isinstance(name, str) for name in given.tolist()):
        raise InvalidInput(f"categorical_features names {unknown or wanted}, which X has not")
    return sorted({names.index(name) for name in given.tolist()})
