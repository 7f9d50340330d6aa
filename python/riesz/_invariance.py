"""Learning with invariance: predictions are means of a function over samples of a row."""

import os
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from riesz._arguments import count, named, seed_of, shown
from riesz._augmenters import (
    Augmenter,
    Function,
    augmenter_of,
    refuse_missing,
    restored,
    sampled,
)
from riesz._columns import validate_data
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._labels import Labels, labels_of
from riesz._progress import progress
from riesz._riesz import Invariant
from riesz._rows import Rows, targets_of
from riesz._saved import Saved
from riesz._settings import settings_of

_Self = TypeVar("_Self", bound="Invariance")

# Fewest rows of a fit: ridges are chosen on parts of them.
_LEAST = 4
# What the random numbers of samples are for.
_LEARNT, _PREDICTED = 0, 1


@dataclass(kw_only=True, eq=False, repr=False)
class Invariance(Rows, Saved[Invariant]):
    """What the two share: parameters, samples in learning and prediction, the file."""

    augmenter: Augmenter | Function | str = "gaussian_noise"
    n_samples: int = 10
    n_test_samples: int = 20
    n_features: int | None = None
    kernel: str = "gaussian"
    bandwidth: str | float = "auto"
    standardise: bool = True
    ridge: float | None = None
    dual_ridge: float | None = None
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0

    _kind = Invariant

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a model file.

        An augmenter that is a function of your own has no place in a file: pickle such an
        estimator, where the function can be pickled.

        Parameters
        ----------
        path : path
            The file; it is written atomically.
        """
        check_is_fitted(self)
        if not isinstance(self.augmenter_, Augmenter):
            raise InvalidInput(
                f"a model file cannot hold augmenter = {shown(self.augmenter_)}; pickle the"
                " estimator, or fit it with an augmenter of riesz"
            )
        super().save(path)

    def _checked(self, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
        """Check rows, which are dense: augmenters take arrays."""
        least = _LEAST if reset else 1
        kinds = (np.float64, np.float32)
        with named("X"):
            rows: NDArray[Any] = validate_data(
                self, X, reset=reset, dtype=kinds, ensure_all_finite=False, ensure_min_samples=least
            )
        refuse_missing("X", _single(rows))
        return rows

    def _rows(self, X: ArrayLike, name: str = "X") -> NDArray[Any]:
        check_is_fitted(self)
        return self._checked(X, reset=False)

    def _learn(self: _Self, X: NDArray[Any], targets: NDArray[np.float32]) -> _Self:
        if len(targets) != len(X):
            raise InvalidInput(f"y has {len(targets)} rows, expected {len(X)}")
        rows, seed = _single(X), seed_of(self.random_state)
        samples = count("n_samples", self.n_samples, 1)
        count("n_test_samples", self.n_test_samples, 1)
        Invariant.check_room(samples, *rows.shape)
        augmenter = augmenter_of(self.augmenter, rows)
        z = [sampled(augmenter, rows, _generator(seed, _LEARNT, k)) for k in range(samples)]
        without = ("augmenter", "n_samples", "n_test_samples")
        settings = settings_of(self, without=without, random_state=seed)
        with progress(self.verbose) as observer:
            model = Invariant.fit(
                rows, z, targets, settings=settings, n_jobs=self.n_jobs, observer=observer
            )
        self.augmenter_ = augmenter
        return self._fitted(model)

    def _mean(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the mean of the function over samples, in the precision of the rows."""
        single, samples = _single(rows), count("n_test_samples", self.n_test_samples, 1)
        total: Any = 0.0
        for k in range(samples):
            rng = _generator(self.seed_, _PREDICTED, k)
            z = sampled(self.augmenter_, single, rng, common=True)
            total += self._model.evaluate(z, n_jobs=self.n_jobs).astype(np.float64)
        mean: NDArray[Any] = (total / samples).astype(rows.dtype)
        return mean

    def _fitted(self: _Self, model: Invariant) -> _Self:
        summary = model.summary()
        self._model = model
        self.bandwidth_ = summary["bandwidth"]
        self.ridge_ = summary["ridges"]["primal"]
        self.dual_ridge_ = summary["ridges"]["dual"]
        self.n_atoms_ = summary["features"]
        self.seed_ = summary["seed"]
        return self

    def _note(self) -> dict[str, Any]:
        note = super()._note()
        if isinstance(self.augmenter, Augmenter):
            note["parameters"]["augmenter"] = self.augmenter.described()
        assert isinstance(self.augmenter_, Augmenter)
        return note | {"augmenter": self.augmenter_.described()}

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        super()._read_task(model, note)
        self.augmenter_ = restored(note["augmenter"])
        parameters = note["parameters"]
        if isinstance(given := parameters.get("augmenter"), dict):
            parameters["augmenter"] = restored(given)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class InvariantRegressor(MultiOutputMixin, RegressorMixin, Invariance):
    """Regression that a random transformation of the rows should not change.

    Learns a function ``f`` whose mean over random samples ``z`` of a row ``x`` predicts ``y``,
    ``min E (E[f(z) | x] - y)^2``, and predicts by that mean. It is not the function that has
    ``f(z) = y`` at every sample: with noise for the samples, ``f`` is a function of inputs that
    are known up to noise. Function and dual are combinations of kernels at samples and at rows; the
    saddle point is solved in closed form, so that one sample of each row is enough.

    Parameters
    ----------
    $invariance

    Attributes
    ----------
    $invariance_fitted

    Notes
    -----
    $invariance_notes

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import GaussianNoise, InvariantRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(400, 1))
    >>> y = np.sin(3 * X[:, 0])
    >>> model = InvariantRegressor(augmenter=GaussianNoise(0.05, relative=False), random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.99
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> "InvariantRegressor":
        """Learn from rows and their targets.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, targets)
            Targets.

        Returns
        -------
        self
        """
        rows = self._checked(X, reset=True)
        targets = targets_of(self, y, np.float32)
        self._targets: tuple[int, ...] = targets.shape[1:]
        return self._learn(rows, targets)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return predictions in the shape of the targets and the precision of ``X``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, targets)
        """
        return self._mean(self._rows(X)).reshape(-1, *self._targets)

    def _note(self) -> dict[str, Any]:
        return super()._note() | {"targets": list(self._targets)}

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        if "classes" in note:
            raise InvalidInput("the file holds a classification; read it with riesz.load")
        super()._read_task(model, note)
        self._targets = tuple(note["targets"])


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class InvariantClassifier(Invariance, Labels):
    """Classification that a random transformation of the rows should not change.

    As :class:`riesz.InvariantRegressor`, with an output for every class; the largest decides.

    Parameters
    ----------
    loss : {"square", "logistic"}, default="square"
        "square" has targets of one for rows of the class and zero for others, solved in closed
        form. With "logistic" outputs are log-probabilities up to a constant, learnt by stochastic
        steps from there, whose average predicts; they have no penalty of their own.
    n_passes : int, default=50
        Passes of the steps of "logistic" over the rows.
    $invariance

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    $invariance_fitted

    Notes
    -----
    $invariance_notes

    Examples
    --------
    >>> from riesz import ImageShift, InvariantClassifier
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = InvariantClassifier(augmenter=ImageShift(0.5), n_features=256, random_state=0)
    >>> model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """

    loss: str = "square"
    n_passes: int = 50

    def fit(self, X: ArrayLike, y: ArrayLike) -> "InvariantClassifier":
        """Learn from rows and their labels.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any type.

        Returns
        -------
        self
        """
        rows = self._checked(X, reset=True)
        classes, places = np.unique(labels_of(targets_of(self, y, None)), return_inverse=True)
        if len(classes) < 2:
            raise InvalidInput(
                f"only one class in the data ({classes[0]}); a classifier needs at least two"
            )
        targets = (places[:, None] == np.arange(len(classes))).astype(np.float32)
        self.classes_ = classes
        return self._learn(rows, targets)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label decided for, row by row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        scores = self._mean(self._rows(X))
        labels: NDArray[Any] = self.classes_[np.argmax(scores, axis=1)]
        return labels

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Return scores: of the second of two classes less the first, or of each class.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, classes)
        """
        scores = self._mean(self._rows(X))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, classes)
            Those of the logistic loss; with loss="square" the outputs, which estimate them by least
            squares, brought to [0, 1] and divided by their sum, which are not calibrated.
        """
        outputs = self._mean(self._rows(X)).astype(np.float64)
        if self.loss == "logistic":
            shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        else:
            shares = np.clip(outputs, 0, 1)
        found: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
        return found

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        if "classes" not in note:
            raise InvalidInput("the file holds a regression; read it with riesz.load")
        super()._read_task(model, note)


def _single(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows in single precision; what is too large for it becomes infinite."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(rows, dtype=np.float32)


def _generator(seed: int, purpose: int, k: int) -> np.random.Generator:
    """Return the generator of sample k of all rows."""
    return np.random.default_rng([seed, purpose, k])
