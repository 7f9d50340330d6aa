"""Classification."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._kernel_machine import KernelMachine
from riesz._rows import sample_weights
from riesz._saved import plain
from riesz._settings import settings_of


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(ClassifierMixin, KernelMachine):
    """Classification by a kernel machine on random features.

    Parameters
    ----------
    loss : str, default="auto"
        $losses_of_classes
        "crammer_singer" is the hinge of the largest margin violation among the classes; "auto" is
        squared hinge where rows are held out and softmax otherwise.
    $kernel
    $solver
    $course
    class_weight : dict or "balanced", optional
        Weights of the classes, multiplied into the sample weights.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    $fitted

    Notes
    -----
    $arrays

    Examples
    --------
    >>> from riesz import KernelClassifier
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> KernelClassifier(random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.95
    True
    """

    loss: str = "auto"
    class_weight: dict[Any, float] | str | None = None

    def _settings(self) -> dict[str, Any]:
        return settings_of(self, without=("class_weight",))

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "KernelClassifier":
        """Learn from rows and their labels.

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
        X, y = self._labelled(X, y, reset=True)
        classes, labels = np.unique(y, return_inverse=True)
        weights = self._weights(classes, labels, sample_weight)
        machine = self._learn(X, labels.astype(np.float32), weights, len(classes), streaming=False)
        return self._named(machine, classes)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "KernelClassifier":
        """Learn from a further batch, also after :meth:`fit`.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels.
        classes : array-like, optional
            All labels there will be; needed where nothing has been learnt yet.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        if self.class_weight == "balanced":
            raise InvalidInput(
                "class_weight = 'balanced' needs all rows; pass a dict to partial_fit"
            )
        first = not self.__sklearn_is_fitted__()
        X, y = self._labelled(X, y, reset=first)
        known = self._known(classes)
        labels = positions(known, y)
        weights = self._weights(known, labels, sample_weight)
        if first:
            machine = self._learn(X, labels.astype(np.float32), weights, len(known), streaming=True)
        else:
            machine = self._learn_more(X, labels.astype(np.float32), weights)
        return self._named(machine, known)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label decided for, row by row.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        X = self._rows(X)
        return self.classes_[self._model.classes(X, n_jobs=self.n_jobs)]

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, classes)
            Of the likelihood losses themselves; the scores of margin losses are calibrated on the
            held-out rows.
        """
        X = self._rows(X)
        return self._model.probabilities(X, n_jobs=self.n_jobs).astype(X.dtype, copy=False)

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Return scores: of the second of two classes, or of each class.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, classes)
        """
        X = self._rows(X)
        scores = self._model.decision(X, n_jobs=self.n_jobs).astype(X.dtype, copy=False)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _labelled(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        rows, targets = self._data(X, y, None, reset=reset)
        labels: NDArray[Any] = column_or_1d(targets, warn=True)
        refuse_missing(labels)
        check_classification_targets(labels)
        return rows, labels

    def _known(self, classes: ArrayLike | None) -> NDArray[Any]:
        """Return the labels of a stream."""
        given: NDArray[Any] | None = None if classes is None else np.unique(np.asarray(classes))
        if self.__sklearn_is_fitted__():
            if given is not None and not np.array_equal(given, self.classes_):
                raise InvalidInput(f"classes = {given} differ from those learnt, {self.classes_}")
            return self.classes_
        if given is None:
            raise InvalidInput(
                "classes, all labels there will be, is needed by the first partial_fit"
            )
        return given

    def _weights(
        self, classes: NDArray[Any], labels: NDArray[np.intp], sample_weight: ArrayLike | None
    ) -> NDArray[np.float32] | None:
        """Return the weights of rows and classes together."""
        weights = sample_weights(sample_weight)
        if self.class_weight is None:
            return weights
        if self.class_weight == "balanced":
            # Counts of weighted rows, so that a weight of two still is a row given twice.
            mass = np.bincount(labels, weights=weights, minlength=len(classes))
            factors = mass.sum() / (len(classes) * np.maximum(mass, np.finfo(float).tiny))
        else:
            factors = compute_class_weight(self.class_weight, classes=classes, y=classes[labels])
        rows: NDArray[Any] = factors[labels] if weights is None else factors[labels] * weights
        return rows.astype(np.float32)

    def _named(self, machine: Any, classes: NDArray[Any]) -> "KernelClassifier":
        self.classes_ = classes
        machine.class_names = [str(label) for label in classes.tolist()]
        return self._fitted(machine)

    def _note(self) -> dict[str, Any]:
        note = super()._note()
        if isinstance(self.class_weight, dict):
            pairs = [[plain(label), plain(w)] for label, w in self.class_weight.items()]
            note["parameters"]["class_weight"] = pairs
        if self.classes_.dtype.kind not in _KINDS:
            raise InvalidInput(
                f"labels of type {self.classes_.dtype} have no plain form; pickle them"
            )
        note["classes"] = {"dtype": self.classes_.dtype.str, "values": self.classes_.tolist()}
        return note

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        task = model.summary()["task"]
        if "classification" not in task:
            raise InvalidInput("the file holds a regression; read it with riesz.load")
        parameters = note.get("parameters", {})
        if isinstance(pairs := parameters.get("class_weight"), list):
            parameters["class_weight"] = dict(pairs)
        classes = note.get("classes")
        if classes is None:
            self.classes_ = np.array(model.class_names or range(task["classification"]))
        elif (dtype := np.dtype(classes["dtype"])).kind in _KINDS:
            self.classes_ = np.array(classes["values"], dtype=dtype)
        else:
            raise InvalidInput(f"not a valid riesz file: labels of type {dtype}")


# Booleans, integers, floats, text, and objects as far as JSON knows them.
_KINDS = "biufUO"


def positions(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of each label in the sorted `classes`."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise InvalidInput(
            f"y contains {unknown.tolist()}, not among the classes {classes.tolist()}"
        )
    return np.searchsorted(classes, y)


def refuse_missing(y: NDArray[Any]) -> None:
    """Refuse labels that are NaN, infinite or None by row."""
    if y.dtype.kind == "f":
        missing = ~np.isfinite(y)
    elif y.dtype.kind == "O":
        missing = np.fromiter((label is None or label != label for label in y), bool, len(y))
    else:
        return
    if missing.any():
        row = int(missing.argmax())
        raise InvalidInput(f"y contains {y[row]} at row {row}; remove such rows first")
