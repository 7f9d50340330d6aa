"""The arrays that estimators take."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from riesz._arguments import named
from riesz._columns import validate_data
from riesz._errors import InvalidInput

# How arrays, dense or sparse by rows, reach Rust, which borrows them and names the row and column
# of what is not finite.
ROWS = {
    "accept_sparse": "csr",
    "dtype": (np.float64, np.float32),
    "order": "C",
    "ensure_all_finite": False,
}


class Rows(BaseEstimator):
    """An estimator of rows, dense or sparse."""

    # Whether it computes in single precision, so that tables may become rows of it.
    _single = False

    def _rows(self, X: ArrayLike, name: str = "X") -> NDArray[Any]:
        """Check rows for a fitted estimator."""
        check_is_fitted(self)
        return rows_of(self, X, reset=False, name=name)

    def _with_targets(
        self,
        X: ArrayLike,
        y: ArrayLike,
        y_type: type | None,
        *,
        reset: bool,
        weights: ArrayLike | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Check rows and targets; Rust compares their lengths."""
        rows = rows_of(self, X, reset=reset, weights=weights)
        return rows, targets_of(self, y, y_type)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def rows_of(
    estimator: BaseEstimator,
    X: ArrayLike,
    *,
    reset: bool,
    name: str = "X",
    weights: ArrayLike | None = None,
) -> NDArray[Any]:
    """Return rows as Rust borrows them."""
    with named(name):
        rows: NDArray[Any] = validate_data(estimator, X, reset=reset, weights=weights, **ROWS)
    return rows


def targets_of(
    estimator: BaseEstimator, y: ArrayLike, dtype: Any, shape: Sequence[int] = ()
) -> NDArray[Any]:
    """Return targets by rows; Rust compares their lengths with those of the rows.

    With the `shape` of the rows there has to be one target for each.
    """
    if y is None:
        name = type(estimator).__name__
        raise InvalidInput(
            f"This {name} estimator requires y to be passed, but the target y is None"
        )
    with named("y"):
        targets: NDArray[Any] = check_array(
            y, dtype=dtype, order="C", ensure_2d=False, ensure_all_finite=False, input_name="y"
        )
        if shape:
            targets = np.ascontiguousarray(column_or_1d(targets, warn=True))
    if shape and len(targets) != shape[0]:
        raise InvalidInput(f"y has {len(targets)} rows, expected {shape[0]}")
    return targets


def sample_weights(
    sample_weight: ArrayLike | None, name: str = "sample_weight", dtype: Any = np.float32
) -> NDArray[Any] | None:
    """Return weights as Rust borrows them."""
    if sample_weight is None:
        return None
    # What is too large for single precision becomes infinite, which Rust refuses.
    with named(name), np.errstate(over="ignore"):
        weights: NDArray[Any] = column_or_1d(sample_weight, dtype=dtype)
    return np.ascontiguousarray(weights)
