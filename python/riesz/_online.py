"""Online kernel machines: predict each row, then learn from it."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from riesz._arguments import named
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._labels import Labels, labels_of, positions
from riesz._riesz import Online
from riesz._rows import Rows, rows_of, sample_weights, targets_of
from riesz._saved import Saved
from riesz._settings import settings_of

_Self = TypeVar("_Self", bound="OnlineKernelMachine")


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineKernelMachine(Rows, Saved[Online]):
    """What the two share: parameters, learning row by row, what it cost."""

    loss: str = "auto"
    kernel: str = "gaussian"
    bandwidth: str | float = "auto"
    scaling: str = "auto"
    step: float = 2.0
    ridge: float = 1e-3
    budget: int | None = 1000
    drop: str = "oldest"
    parsimony: float | None = None
    learning_rate: float | None = None
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None

    _kind = Online

    def _learn(
        self,
        X: NDArray[Any],
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None,
        classes: int | None,
        *,
        anew: bool,
    ) -> Online:
        if anew:
            settings = settings_of(self, classes=classes)
            return Online.begin(X, y, weights, settings=settings, n_jobs=self.n_jobs)
        self._model.learn(X, y, weights, n_jobs=self.n_jobs)
        return self._model

    def _fitted(self: _Self, model: Online) -> _Self:
        summary = model.summary()
        self._model = model
        self.bandwidth_ = summary["bandwidth"]
        self.loss_ = summary["loss"]
        self.n_atoms_ = summary["atoms"]
        self.n_seen_ = summary["steps"]
        self.progressive_loss_ = summary["progressive_loss"] / summary["progressive_weight"]
        self.seed_ = summary["seed"]
        return self

    def _regret(
        self,
        X: ArrayLike,
        y: NDArray[np.float32],
        values: ArrayLike,
        sample_weight: ArrayLike | None,
    ) -> float:
        rows = self._rows(X)
        if rows.shape[0] != self.n_seen_:
            raise InvalidInput(
                f"regret is over all rows learnt from: {self.n_seen_}, and X has {rows.shape[0]}"
            )
        with named("values"):
            fixed = np.ascontiguousarray(values, dtype=np.float32)
        return self._model.regret(rows, y, fixed, sample_weights(sample_weight))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class OnlineKernelRegressor(RegressorMixin, OnlineKernelMachine):
    """Regression online (NORMA): a sum of kernels at rows seen, learnt a row at a time.

    Each row is predicted, then learnt from: it becomes an atom of the function with a weight in
    proportion to the slope of the loss, and all earlier atoms fade. Memory is the atoms.

    Parameters
    ----------
    loss : str, default="auto"
        $losses_of_numbers
        "auto" is "square".
    $online

    Attributes
    ----------
    $online_fitted

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import OnlineKernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(2000, 1))
    >>> model = OnlineKernelRegressor(budget=300).fit(X, np.sin(X[:, 0]))
    >>> model.n_atoms_, model.score(X, np.sin(X[:, 0])) > 0.95
    (300, True)
    """

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "OnlineKernelRegressor":
        """Learn from rows anew, once and in their order.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        rows, targets = self._numbers(X, y, reset=True)
        weights = sample_weights(sample_weight)
        return self._fitted(self._learn(rows, targets, weights, None, anew=True))

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "OnlineKernelRegressor":
        """Learn from further rows, once and in their order.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        anew = not self.__sklearn_is_fitted__()
        rows, targets = self._numbers(X, y, reset=anew)
        weights = sample_weights(sample_weight)
        return self._fitted(self._learn(rows, targets, weights, None, anew=anew))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return predictions in the precision of ``X``.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        rows = self._rows(X)
        values = self._model.predict(rows, n_jobs=self.n_jobs)
        return values[:, 0].astype(rows.dtype, copy=False)

    def regret(
        self,
        X: ArrayLike,
        y: ArrayLike,
        values: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the cost of predicting before learning, less that of fixed predictions.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            All rows learnt from.
        y : array-like of shape (n,)
            Their targets.
        values : array-like of shape (n,)
            What the best fixed function predicts for them.
        sample_weight : array-like of shape (n,), optional
            Their weights.

        Returns
        -------
        float
            A difference of sums of losses, of targets in units of the first rows.
        """
        targets = targets_of(self, y, np.float32, np.shape(y)[:1] or (1,))
        return self._regret(X, targets, values, sample_weight)

    def _numbers(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        rows = rows_of(self, X, reset=reset)
        targets = targets_of(self, y, np.float64, rows.shape)
        return rows, targets.astype(np.float32)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class OnlineKernelClassifier(Labels, OnlineKernelMachine):
    """Classification online (NORMA): a sum of kernels at rows seen, learnt a row at a time.

    Parameters
    ----------
    loss : str, default="auto"
        $losses_of_classes
        "auto" is "softmax"; margins ("hinge" and its like) have no probabilities.
    $online

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    $online_fitted

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import OnlineKernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, "in", "out")
    >>> OnlineKernelClassifier().partial_fit(X, y, classes=["in", "out"]).score(X, y) > 0.9
    True
    """

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "OnlineKernelClassifier":
        """Learn from rows anew, once and in their order.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any type.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        rows, labels = self._labelled(X, y, reset=True)
        return self._learn_labels(rows, labels, np.unique(labels), sample_weight, anew=True)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "OnlineKernelClassifier":
        """Learn from further rows, once and in their order.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels.
        classes : array-like, optional
            All labels there will be; needed by the first call.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        anew = not self.__sklearn_is_fitted__()
        rows, labels = self._labelled(X, y, reset=anew)
        return self._learn_labels(rows, labels, self._known(classes), sample_weight, anew=anew)

    def _learn_labels(
        self,
        rows: NDArray[Any],
        labels: NDArray[Any],
        classes: NDArray[Any],
        sample_weight: ArrayLike | None,
        *,
        anew: bool,
    ) -> "OnlineKernelClassifier":
        targets = positions(classes, labels).astype(np.float32)
        model = self._learn(rows, targets, sample_weights(sample_weight), len(classes), anew=anew)
        self.classes_ = classes
        return self._fitted(model)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most likely label of each row.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    def regret(
        self,
        X: ArrayLike,
        y: ArrayLike,
        values: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the cost of predicting before learning, less that of fixed scores.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            All rows learnt from.
        y : array-like of shape (n,)
            Their labels.
        values : array-like of shape (n,) or (n, classes)
            Scores of the best fixed function, as of :meth:`decision_function`.
        sample_weight : array-like of shape (n,), optional
            Their weights.

        Returns
        -------
        float
            A difference of sums of losses.
        """
        given = labels_of(targets_of(self, y, None, np.shape(y)[:1] or (1,)))
        labels = positions(self.classes_, given).astype(np.float32)
        return self._regret(X, labels, values, sample_weight)
