"""Labels of any type, and the classes that stand for them in Rust."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from riesz._arguments import named
from riesz._errors import InvalidInput
from riesz._rows import Rows
from riesz._saved import Saved
from riesz._tables import is_missing

# Booleans, integers, floats, text, and objects as far as JSON knows them.
_KINDS = "biufUO"


class Labels(ClassifierMixin, Rows, Saved[Any]):
    """What classifiers share: labels in and out, scores, probabilities, and their file."""

    classes_: NDArray[Any]
    n_jobs: int | None

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
        rows = self._rows(X)
        scores: NDArray[Any] = self._model.decision(rows, n_jobs=self.n_jobs)
        scores = scores.astype(rows.dtype, copy=False)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, classes)
            Of the likelihood losses themselves; the scores of margin losses are calibrated on
            held-out rows, where a fit has held some out.
        """
        rows = self._rows(X)
        values: NDArray[np.float64] = self._model.probabilities(rows, n_jobs=self.n_jobs)
        return values

    def _labelled(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool, weights: ArrayLike | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Check rows and labels."""
        rows, targets = self._with_targets(X, y, None, reset=reset, weights=weights)
        return rows, labels_of(targets)

    def _known(self, classes: ArrayLike | None) -> NDArray[Any]:
        """Return the labels of a stream."""
        given: NDArray[Any] | None = None if classes is None else classes_of(classes)
        if self.__sklearn_is_fitted__():
            if given is not None and not np.array_equal(given, self.classes_):
                raise InvalidInput(f"classes = {given} differ from those learnt, {self.classes_}")
            return self.classes_
        if given is None:
            raise InvalidInput(
                "classes, all labels there will be, is needed by the first partial_fit"
            )
        return given

    def _note(self) -> dict[str, Any]:
        return super()._note() | {"classes": noted(self.classes_)}

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        summary = model.summary()
        several = max(2, summary.get("outputs", 2))
        count = summary["task"]["classification"] if "task" in summary else several
        self.classes_ = read_noted(note["classes"], count)


def noted(labels: NDArray[Any]) -> dict[str, Any]:
    """Return labels as values JSON knows."""
    if labels.dtype.kind not in _KINDS:
        raise InvalidInput(f"labels of type {labels.dtype} have no plain form; pickle them")
    return {"dtype": labels.dtype.str, "values": labels.tolist()}


def read_noted(note: dict[str, Any], count: int) -> NDArray[Any]:
    """Return the labels of a note, of which there are so many."""
    if (dtype := np.dtype(note["dtype"])).kind not in _KINDS:
        raise InvalidInput(f"not a valid riesz file: labels of type {dtype}")
    # The length of text is that of the labels, whatever the file says.
    labels = np.array(note["values"], dtype=np.str_ if dtype.kind == "U" else dtype)
    if labels.shape != (count,) or len(set(labels.tolist())) != count:
        shown = labels.tolist()[:8]
        raise InvalidInput(f"not a valid riesz file: labels {shown} for {count} classes")
    return labels


def labels_of(y: NDArray[Any]) -> NDArray[Any]:
    """Return one label for each row."""
    with named("y"):
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        _refuse_missing(labels)
        check_classification_targets(labels)
    return labels


def classes_of(classes: ArrayLike) -> NDArray[Any]:
    """Return labels without repetitions, sorted."""
    with named("classes"):
        known: NDArray[Any] = np.unique(column_or_1d(classes))
        return known


def positions(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of each label in `classes`."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise InvalidInput(
            f"y contains {unknown.tolist()}, not among the classes {classes.tolist()}"
        )
    # Files of the command line order labels that are numbers as such, not as the text they are.
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]


def _refuse_missing(y: NDArray[Any]) -> None:
    """Refuse labels that are NaN, infinite or None by row."""
    if y.dtype.kind == "f":
        missing = ~np.isfinite(y)
    elif y.dtype.kind == "O":
        missing = np.fromiter(map(is_missing, y), bool, len(y))
    else:
        return
    if missing.any():
        row = int(missing.argmax())
        raise InvalidInput(f"y contains {y[row]} at row {row}; remove such rows first")
