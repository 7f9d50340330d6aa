"""Quantile regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import d2_pinball_score
from sklearn.utils.validation import column_or_1d

from riesz._arguments import named
from riesz._columns import in_precision_of
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._kernel_machine import loss_name
from riesz._regressor import Regression
from riesz._settings import settings_of


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelQuantileRegressor(Regression):
    """Quantiles of a target, several at once, by a kernel machine on random features.

    Parameters
    ----------
    quantiles : float or sequence of float, default=(0.05, 0.5, 0.95)
        Levels between 0 and 1, increasing.
    non_crossing : bool, default=True
        Whether predictions of a row are put into increasing order. Quantiles learnt side by side
        may cross where there is little data; in order they are no farther from the true ones.
    $kernel
    $solver
    $course

    Attributes
    ----------
    $fitted

    Notes
    -----
    $arrays

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import KernelQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(500, 1))
    >>> y = X[:, 0] + rng.normal(size=500)
    >>> low, middle, high = KernelQuantileRegressor(random_state=0).fit(X, y).predict(X).T
    >>> bool(np.all(low <= high) and 0.8 < np.mean((low < y) & (y < high)) < 1)
    True
    """

    quantiles: float | Sequence[float] = (0.05, 0.5, 0.95)
    non_crossing: bool = True

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the quantiles of each row, in the precision of ``X``.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, quantiles), or (n,) where ``quantiles`` is a number
        """
        return in_precision_of(X, self._answer(self._rows(X)))

    def _answer(self, rows: Any) -> NDArray[Any]:
        evaluate = self._model.predict if self.non_crossing else self._model.decision
        values = evaluate(rows, n_jobs=self.n_jobs).astype(rows.dtype, copy=False)
        return values[:, 0] if np.ndim(self.quantiles) == 0 else values

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of the pinball loss of constants that is explained, D².

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        float
            The mean over the quantiles; 1 is perfect, 0 what the quantiles of ``y`` reach.
        """
        levels = self._levels()
        columns = self.predict(X).reshape(-1, len(levels)).T
        scores = [
            d2_pinball_score(y, column, sample_weight=sample_weight, alpha=level)
            for level, column in zip(levels, columns, strict=True)
        ]
        return float(np.mean(scores))

    def _levels(self) -> list[float]:
        try:
            levels = np.atleast_1d(np.asarray(self.quantiles, dtype=float))
        except (TypeError, ValueError, OverflowError):
            levels = np.empty((0, 0))
        if levels.ndim != 1:
            raise InvalidInput(f"quantiles = {self.quantiles!r} should be numbers between 0 and 1")
        return [float(level) for level in levels]

    def _settings(self) -> dict[str, Any]:
        return settings_of(
            self, without=("quantiles", "non_crossing"), loss="quantile", levels=self._levels()
        )

    def _numbers(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool, weights: ArrayLike | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        X, y = super()._numbers(X, y, reset=reset, weights=weights)
        with named("y"):
            return X, np.ascontiguousarray(column_or_1d(y, warn=True))

    def _note(self) -> dict[str, Any]:
        note = super()._note()
        levels = self._levels()
        note["parameters"]["quantiles"] = levels if np.ndim(self.quantiles) > 0 else levels[0]
        return note

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        summary = model.summary()
        if loss_name(summary) != "quantile":
            raise InvalidInput(
                "the file holds no quantiles; read it with KernelRegressor.load or"
                " KernelClassifier.load"
            )
        self.quantiles = summary["loss"]["quantile"]["levels"]
        self._targets = ()
