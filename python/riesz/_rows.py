"""The rows that estimators take."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from riesz._columns import validate_data

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

    def _rows(self, X: ArrayLike) -> NDArray[Any]:
        """Check rows for a fitted estimator."""
        check_is_fitted(self)
        rows: NDArray[Any] = validate_data(self, X, reset=False, **ROWS)
        return rows

    def _with_targets(
        self, X: ArrayLike, y: ArrayLike, y_type: type | None, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Check rows and targets; Rust compares their lengths."""
        targets = {"dtype": y_type, "order": "C", "ensure_2d": False, "ensure_all_finite": False}
        data: tuple[NDArray[Any], NDArray[Any]] = validate_data(
            self, X, y, reset=reset, validate_separately=(ROWS, targets)
        )
        return data

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def sample_weights(sample_weight: ArrayLike | None) -> NDArray[np.float32] | None:
    """Return weights as Rust borrows them."""
    if sample_weight is None:
        return None
    weights: NDArray[np.float32] = column_or_1d(sample_weight, dtype=np.float32)
    return np.ascontiguousarray(weights)
