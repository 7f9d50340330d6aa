"""Columns of data frames, told by name and type."""

import numbers
from typing import Any

from sklearn.utils import validation

from riesz._errors import InvalidInput


def validate_data(estimator: Any, X: Any, *y: Any, reset: bool = True, **checks: Any) -> Any:
    """Check data as scikit-learn does, which compares names of columns, and their types beside.

    Columns that hold no numbers are refused by name, and so are truth values where the fit had
    numbers. Numbers where it had truth values are taken: files know no others.
    """
    types = types_of(X)
    data = validation.validate_data(estimator, X, *y, reset=reset, **checks)
    if reset:
        estimator._feature_types = types
        return data
    fitted = getattr(estimator, "_feature_types", None)
    if types and fitted:
        pairs = zip(X.columns, fitted, types, strict=True)
        retyped = [repr(name) for name, *kinds in pairs if kinds == ["number", "boolean"]]
        if retyped:
            raise InvalidInput(
                f"numbers were fitted where there are truth values now: {', '.join(retyped)};"
                " give these columns the type they had"
            )
    return data


def types_of(X: Any) -> list[str] | None:
    """Return "number" or "boolean" for every column of a data frame, None for other containers."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return None
    dtypes = list(X.dtypes)
    types = [_type(dtype, X, place) for place, dtype in enumerate(dtypes)]
    if None in types:
        bad = [
            f"{name!r} ({dtype})"
            for name, dtype, kind in zip(X.columns, dtypes, types, strict=True)
            if kind is None
        ]
        raise InvalidInput(f"no numbers in {', '.join(bad)}; encode or drop these columns first")
    return [str(kind) for kind in types]


def _type(dtype: Any, X: Any, place: int) -> str | None:
    numeric = getattr(dtype, "is_numeric", None)
    if callable(numeric):  # Polars
        return "number" if numeric() else "boolean" if str(dtype) == "Boolean" else None
    kind = getattr(dtype, "kind", None)
    if kind == "O" and str(dtype) == "object":
        values = X.iloc[:, place]
        real = all(isinstance(value, numbers.Real) for value in values)
        kind = "f" if real and not any(isinstance(value, bool) for value in values) else None
    return {"i": "number", "u": "number", "f": "number", "b": "boolean"}.get(str(kind))
