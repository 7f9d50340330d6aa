"""Classification."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import compute_class_weight

from riesz._arguments import named
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._files import Paths, classes_named, collected, describe, listed, parts_of
from riesz._kernel_machine import KernelMachine
from riesz._labels import Labels, classes_of, positions
from riesz._riesz import classes_in_files
from riesz._rows import sample_weights
from riesz._saved import plain
from riesz._settings import settings_of


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(Labels, KernelMachine):
    """Classification by a kernel machine.

    Parameters
    ----------
    loss : str, default="auto"
        $losses_of_classes
        "crammer_singer" is the hinge of the largest margin violation among the classes; "auto" is
        least squares for an expansion over all rows, squared hinge where rows are held out and
        softmax otherwise.
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
        X, y = self._labelled(X, y, reset=True, weights=sample_weight)
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
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            raise InvalidInput(
                "class_weight = 'balanced' needs all rows; pass a dict to partial_fit"
            )
        first = not self.__sklearn_is_fitted__()
        X, y = self._labelled(X, y, reset=first, weights=sample_weight)
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
        return self._answer(self._rows(X))

    def fit_files(
        self,
        paths: Paths,
        target: int | str | None = None,
        *,
        memory: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        classes: ArrayLike | None = None,
    ) -> "KernelClassifier":
        """Learn from data files, which may be larger than memory.

        Files are read in parts. Rows that fit into memory are kept there; others go to a file of
        rows in single precision, from which they are read again and again, and what is learnt is
        the same to the last bit. ``solver="stream"`` without a cache learns from rows as they are
        read, mixed within a part, and keeps none.

        Parameters
        ----------
        paths : path or list of paths
            CSV, TSV, LIBSVM, NumPy (.npy) or Parquet files of one format with the same columns, or
            folders of them.
        target : int or str, optional
            The column to learn, by number counted from 0 or by name; the last unless given.
        memory : int, optional
            Bytes of memory to count with; all there are unless given. Rows that need more than a
            quarter of it are read from disk; a stream has as many features as fit.
        cache : path, optional
            A folder in which the rows are kept, in single precision, to be found the next time. A
            cache of files that have changed is made anew.
        classes : array-like, optional
            All labels there are, which spares a stream from looking through the files for them.

        Returns
        -------
        self
        """
        if self.solver == "stream" and cache is None:
            return self._stream_labels(paths, target, classes, memory)
        rows = collected(paths, target, memory, cache)
        names, codes = rows.labels()
        found = classes_named(names)
        if len(names) < 2:
            raise InvalidInput(f"only one class in the data ({names[0]}); there must be two")
        labels = codes.astype(np.intp)
        weights = self._weights(found, labels, None)
        machine = self._learn(rows, labels.astype(np.float32), weights, len(names), streaming=False)
        describe(self, rows.names, rows.shape[1], rows.target, rows.codings)
        return self._named(machine, found)

    def _stream_labels(
        self,
        paths: Paths,
        target: int | str | None,
        classes: ArrayLike | None,
        memory: int | None,
    ) -> "KernelClassifier":
        """Learn from labelled rows as they are read."""
        if self.class_weight is not None:
            raise InvalidInput(
                "class_weight needs all rows; name a cache, or solver='block', to weigh the"
                " classes of files"
            )
        if classes is None:
            names = classes_in_files(listed(paths), target)
        else:
            names = [str(label) for label in classes_of(classes).tolist()]
        machine = self._stream_files(paths, target, names, memory)
        return self._named(machine, classes_named(names))

    def predict_files(self, paths: Paths) -> NDArray[Any]:
        """Return the labels of the rows of data files, which are read part by part.

        Parameters
        ----------
        paths : path or list of paths
            Files with the columns of the fit, by name where they have names, or folders of them.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.concatenate([self._answer(part) for part in parts_of(self, paths)])

    def _answer(self, rows: Any) -> NDArray[Any]:
        """Return the labels of rows that were checked."""
        labels: NDArray[Any] = self.classes_[self._model.classes(rows, n_jobs=self.n_jobs)]
        return labels

    def _weights(
        self, classes: NDArray[Any], labels: NDArray[np.intp], sample_weight: ArrayLike | None
    ) -> NDArray[np.float32] | None:
        """Return the weights of rows and classes together."""
        weights = sample_weights(sample_weight)
        if self.class_weight is None:
            return weights
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            # Counts of weighted rows, so that a weight of two still is a row given twice.
            mass = np.bincount(labels, weights=weights, minlength=len(classes))
            factors = mass.sum() / (len(classes) * np.maximum(mass, np.finfo(float).tiny))
        else:
            with named("class_weight"):
                factors = compute_class_weight(
                    self.class_weight, classes=classes, y=classes[labels]
                )
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
        return note

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        task = model.summary()["task"]
        if "classification" not in task:
            raise InvalidInput("the file holds a regression; read it with riesz.load")
        parameters = note.get("parameters", {})
        if isinstance(pairs := parameters.get("class_weight"), list):
            parameters["class_weight"] = dict(pairs)
        if note.get("classes") is None:
            self.classes_ = np.array(model.class_names or range(task["classification"]))
        else:
            super()._read_task(model, note)
