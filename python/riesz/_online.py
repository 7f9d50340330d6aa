"""Online kernel machines: predict each row, then learn from it."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from riesz._arguments import named
from riesz._columns import in_precision_of
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._labels import Labels, labels_of, positions, read_noted
from riesz._one_by_one import OneByOne, Row
from riesz._riesz import Online
from riesz._rows import rows_of, sample_weights, targets_of

# Labels that arrays have types for.
_PLAIN = (bool, int, float, str, np.generic)

_Self = TypeVar("_Self", bound="OnlineKernelMachine")


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineKernelMachine(OneByOne):
    """What the two share: parameters, learning row by row, what it cost."""

    loss: str = "auto"
    kernel: str = "gaussian"
    bandwidth: str | float = "auto"
    scaling: str = "auto"
    memory: str = "features"
    step: str | float = "auto"
    ridge: float = 1e-4
    budget: str | int | None = "auto"
    drop: str | None = None
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
            self.__dict__.pop("_names", None)
            settings = self._settings(classes)
            return Online.begin(X, y, weights, settings=settings, n_jobs=self.n_jobs)
        self._model.learn(X, y, weights, n_jobs=self.n_jobs)
        return self._model

    def _fitted(self: _Self, model: Online) -> _Self:
        self._model = model
        return self

    def _fact(self, name: str) -> Any:
        """Return what is known of the model, which changes with every row."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return self._model.summary()[name]

    @property
    def bandwidth_(self) -> float:
        bandwidth: float = self._fact("bandwidth")
        return bandwidth

    @property
    def loss_(self) -> str:
        loss: str = self._fact("loss")
        return loss

    @property
    def n_atoms_(self) -> int:
        atoms: int = self._fact("atoms")
        return atoms

    @property
    def n_seen_(self) -> int:
        steps: int = self._fact("steps")
        return steps

    @property
    def progressive_loss_(self) -> float:
        loss: float = self._fact("progressive_loss") / self._fact("progressive_weight")
        return loss

    @property
    def seed_(self) -> int:
        seed: int = self._fact("seed")
        return seed

    @property
    def step_shares_(self) -> NDArray[np.float64]:
        return np.array(self._fact("shares"))

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
    """Regression online (NORMA): a function of a kernel, learnt a row at a time.

    Each row is predicted, then learnt from: the function is moved by the slope of the loss times
    the kernel at the row, and what it was before fades. What is kept are coefficients of random
    features of the kernel; with ``memory="dictionary"`` it is rows, as atoms of the function.

    The methods that end in ``_one`` take a row as a dictionary, as river does. Its features are
    columns, sorted by name. A feature that a row lacks is zero there; one that appears among the
    first 1,024 rows was zero so far, and one that appears later is ignored.

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
    >>> model = OnlineKernelRegressor(budget=256).fit(X, np.sin(X[:, 0]))
    >>> model.n_atoms_, model.score(X, np.sin(X[:, 0])) > 0.95
    (256, True)
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

    def partial_fit_predict(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Predict each row, then learn from it; the first call has to be another.

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
        ndarray of shape (n,)
            The predictions before learning.
        """
        check_is_fitted(self)
        rows, targets = self._numbers(X, y, reset=False)
        weights = sample_weights(sample_weight)
        told = self._model.learn_telling(rows, targets, weights, n_jobs=self.n_jobs)
        return in_precision_of(X, told[:, 0].astype(rows.dtype, copy=False))

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
        return in_precision_of(X, values[:, 0].astype(rows.dtype, copy=False))

    def learn_one(self, x: Row, y: float, w: float = 1.0) -> None:
        """Learn from one row.

        Parameters
        ----------
        x : dict
            Features by name.
        y : float
            Its target.
        w : float, default=1.0
            Its weight, that of so many rows.
        """
        if w != 0.0:
            self._learn_row(x, float(y), w, None)

    def predict_one(self, x: Row) -> float:
        """Return the prediction for one row, zero before any is learnt from.

        Parameters
        ----------
        x : dict
            Features by name.

        Returns
        -------
        float
        """
        if not self.__sklearn_is_fitted__():
            return 0.0
        return self._model.predict_one(self._row(x))[0]

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
    """Classification online (NORMA): a function of a kernel, learnt a row at a time.

    The methods that end in ``_one`` take a row as a dictionary, as river does, with labels of any
    type, which need not be known in advance. Features are columns, sorted by name. A feature that a
    row lacks is zero there; one that appears among the first 1,024 rows was zero so far, and one
    that appears later is ignored.

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

    def partial_fit_predict(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Predict each row, then learn from it; the first call has to be another.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels, of classes that are known.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        ndarray of shape (n,)
            The labels predicted before learning.
        """
        check_is_fitted(self)
        rows, labels = self._labelled(X, y, reset=False)
        targets = positions(self.classes_, labels).astype(np.float32)
        weights = sample_weights(sample_weight)
        told = self._model.learn_telling(rows, targets, weights, n_jobs=self.n_jobs)
        return self._chosen(told[:, 0] if told.shape[1] == 1 else told)

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
        self.__dict__.pop("_label_places", None)
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
        return self._chosen(self.decision_function(X))

    def _chosen(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the labels of the highest scores, of classes that were seen."""
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[np.minimum(chosen, len(self.classes_) - 1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, classes)
        """
        p = super().predict_proba(X)[:, : len(self.classes_)]
        shares: NDArray[np.float64] = p / p.sum(axis=1, keepdims=True)
        return shares

    def learn_one(self, x: Row, y: Any, w: float = 1.0) -> None:
        """Learn from one row.

        Parameters
        ----------
        x : dict
            Features by name.
        y : label
            Its label, of any type; one that was not seen before becomes a further class.
        w : float, default=1.0
            Its weight, that of so many rows.
        """
        if w == 0.0:
            return
        place = self._places().get(y)
        if place is None:
            place = self._new_label(y)
        self._learn_row(x, place, w, max(2, len(self.classes_)))

    def predict_one(self, x: Row) -> Any:
        """Return the most likely label of one row, None before any is learnt from.

        Parameters
        ----------
        x : dict
            Features by name.

        Returns
        -------
        label
        """
        if not self.__sklearn_is_fitted__():
            return None
        labels = list(self._places())
        scores = self._model.decision_one(self._row(x))[: len(labels)]
        if len(labels) <= 2:
            return labels[-1] if len(labels) == 1 or scores[0] > 0 else labels[0]
        return labels[scores.index(max(scores))]

    def predict_proba_one(self, x: Row) -> dict[Any, float]:
        """Return the probability of each label for one row, none before any is learnt from.

        Parameters
        ----------
        x : dict
            Features by name.

        Returns
        -------
        dict
        """
        if not self.__sklearn_is_fitted__():
            return {}
        places = self._places()
        if len(places) == 1:
            return dict.fromkeys(places, 1.0)
        return dict(zip(places, self._model.probabilities_one(self._row(x)), strict=True))

    def _places(self) -> dict[Any, int]:
        """Return the place of each label among the classes."""
        places: dict[Any, int] | None = self.__dict__.get("_label_places")
        if places is None:
            known = self.classes_.tolist() if self.__sklearn_is_fitted__() else []
            places = self._label_places = {label: place for place, label in enumerate(known)}
        return places

    def _new_label(self, label: Any) -> int:
        """Make a label a further class."""
        if label is None or label != label:
            raise InvalidInput(f"y = {label} is no label")
        places = self._places()
        places[label] = len(places)
        self.classes_ = _array_of(list(places))
        if self.__sklearn_is_fitted__() and len(places) > 2:
            self._model.grow_classes(len(places))
        return places[label]

    def _note(self) -> dict[str, Any]:
        # Also where readers without Python look for them.
        self._model.class_names = [str(label) for label in self.classes_.tolist()]
        return super()._note()

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        summary = model.summary()
        if "classes" not in summary:
            raise InvalidInput("the file holds a regression; read it with riesz.load")
        if note.get("classes") is None:
            self.classes_ = np.array(model.class_names or range(summary["classes"]))
        else:
            self.classes_ = read_noted(note["classes"], len(note["classes"]["values"]))
        if max(2, len(self.classes_)) != summary["classes"]:
            raise InvalidInput(f"not a valid riesz file: labels {self.classes_.tolist()[:8]}")

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


def _array_of(labels: list[Any]) -> NDArray[Any]:
    """Return labels as an array of their type, or of objects where they have several."""
    if len({type(label) for label in labels}) == 1 and isinstance(labels[0], _PLAIN):
        return np.array(labels)
    objects: NDArray[Any] = np.empty(len(labels), dtype=object)
    for place, label in enumerate(labels):
        objects[place] = label
    return objects
