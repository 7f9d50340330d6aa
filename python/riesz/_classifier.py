"""Classification."""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from riesz._errors import InvalidInput
from riesz._kernel_machine import Kernel, KernelMachine, plain, sample_weights


class KernelClassifier(ClassifierMixin, KernelMachine):
    """Classification by a kernel machine on random features.

    Parameters
    ----------
    loss : str, default="auto"
        "softmax", "logistic", "hinge", "squared_hinge" or "crammer_singer" (the hinge of the
        largest margin violation among the classes); "auto" is squared hinge where rows are held
        out and softmax otherwise.
    kernel : str or callable, default="gaussian"
        A kernel by name, with its parameters in parentheses, or a sum or product of them; or a
        function that draws the features of a kernel of your own. See
        :class:`riesz.RandomFeatures` for both.
    bandwidth : float, "auto", "median" or "scale", default="auto"
        Width of the kernel. "auto" chooses it by held-out loss (from 2,000 rows) or by evidence;
        "median" is the median distance between rows, "scale" what ``gamma="scale"`` means in
        scikit-learn. A given ``gamma`` is ``bandwidth=1 / sqrt(2 * gamma)``.
    scaling : {"auto", "none", "standard"}, default="auto"
        Whether columns are standardised first. "auto" compares both where the bandwidth is "auto"
        and leaves the columns alone otherwise.
    solver : {"auto", "block", "ridge", "stream"}, default="auto"
        "block" adds blocks of random features until the held-out loss stops falling, "ridge" solves
        the regularised problem on ``max_blocks * block_size`` fixed features, "stream" sees every
        row once. "auto" is "block".
    ridge : float, optional
        Strength of the penalty ``ridge / 2 * |f|^2`` beside the mean loss; ``KernelRidge(alpha)``
        is ``ridge=alpha / n``.
    damping : float, optional
        Damping of each step of the block solver.
    block_size : int, optional
        Random features per block; by the number of rows unless given.
    max_blocks : int, optional
        Most blocks; by default as many as make 131,072 features (``solver="ridge"``: 64 blocks).
    sweeps : int, default=0
        Sweeps over the blocks after the first.
    early_stopping : bool, default=True
        Whether a tenth of the rows (of 2,000 and more) decides when to stop and is learnt last.
    max_time : float, optional
        Most seconds; the blocks finished by then are the model.
    batch_size : int, default=1024
        Rows per step of the streaming solver and of :meth:`partial_fit`.
    projection : {"dense", "structured"}, optional
        How frequencies are drawn; by the number of columns unless given.
    checkpoint : path, optional
        File from which an interrupted fit is resumed, removed when the fit is complete.
    class_weight : dict or "balanced", optional
        Weights of the classes, multiplied into the sample weights.
    random_state : int, RandomState or None, default=None
        Seed; None draws one and keeps it in ``seed_``.
    n_jobs : int, optional
        Threads, which never change the result: all cores (or ``RAYON_NUM_THREADS``) unless given.
    verbose : int, default=0
        1 for a bar on the standard error, 2 for a line per block.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    n_features_in_ : int
        Columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where they had names.
    bandwidth_ : float
        The bandwidth used, in the units of the columns after scaling.
    scaling_ : {"none", "standard"}
        The scaling used.
    loss_ : str
        The loss used.
    n_blocks_ : int
        Blocks of random features.
    history_ : list of dict
        Loss, held-out loss and held-out error after each block.
    seed_ : int
        The seed used.

    Notes
    -----
    Arrays of 32- or 64-bit floats in C order are read in place: do not write to them meanwhile.
    So are sparse arrays by rows (CSR), which are made dense 1,024 rows at a time; the result is
    that of the dense array, bit by bit.
    Predictions are computed in single precision and returned in the precision of ``X``.

    Examples
    --------
    >>> from riesz import KernelClassifier
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> KernelClassifier(random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.95
    True
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        loss: str = "auto",
        kernel: Kernel = "gaussian",
        bandwidth: str | float = "auto",
        scaling: str = "auto",
        solver: str = "auto",
        ridge: float | None = None,
        damping: float | None = None,
        block_size: int | None = None,
        max_blocks: int | None = None,
        sweeps: int = 0,
        early_stopping: bool = True,
        max_time: float | None = None,
        batch_size: int = 1024,
        projection: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        class_weight: dict[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            loss=loss,
            kernel=kernel,
            bandwidth=bandwidth,
            scaling=scaling,
            solver=solver,
            ridge=ridge,
            damping=damping,
            block_size=block_size,
            max_blocks=max_blocks,
            sweeps=sweeps,
            early_stopping=early_stopping,
            max_time=max_time,
            batch_size=batch_size,
            projection=projection,
            checkpoint=checkpoint,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.class_weight = class_weight

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
        labels = _positions(known, y)
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
        return self.classes_[self._machine.classes(X, n_jobs=self.n_jobs)]

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
        return self._machine.probabilities(X, n_jobs=self.n_jobs).astype(X.dtype, copy=False)

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
        scores = self._machine.decision(X, n_jobs=self.n_jobs).astype(X.dtype, copy=False)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _labelled(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        rows, targets = self._data(X, y, None, reset=reset)
        labels: NDArray[Any] = column_or_1d(targets, warn=True)
        _refuse_missing(labels)
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

    def _read_task(
        self, summary: dict[str, Any], class_names: list[str], note: dict[str, Any]
    ) -> None:
        task = summary["task"]
        if "classification" not in task:
            raise InvalidInput("the file holds a regression; read it with KernelRegressor.load")
        parameters = note.get("parameters", {})
        if isinstance(pairs := parameters.get("class_weight"), list):
            parameters["class_weight"] = dict(pairs)
        classes = note.get("classes")
        if classes is None:
            self.classes_ = np.array(class_names or range(task["classification"]))
        elif (dtype := np.dtype(classes["dtype"])).kind in _KINDS:
            self.classes_ = np.array(classes["values"], dtype=dtype)
        else:
            raise InvalidInput(f"not a valid riesz file: labels of type {dtype}")


# Booleans, integers, floats, text, and objects as far as JSON knows them.
_KINDS = "biufUO"


def _positions(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of each label in the sorted `classes`."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise InvalidInput(
            f"y contains {unknown.tolist()}, not among the classes {classes.tolist()}"
        )
    return np.searchsorted(classes, y)


def _refuse_missing(y: NDArray[Any]) -> None:
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
