"""Logistic regression with a posterior."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from riesz._arguments import named, number
from riesz._columns import validate_data
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._labels import labels_of
from riesz._particle_mirror_descent import MirrorDescentSettings
from riesz._posterior import Posterior
from riesz._progress import progress
from riesz._riesz import ParticlePosterior
from riesz._rows import targets_of
from riesz._saved import Saved
from riesz._transforms import Layout

# Rows times particles that are predicted at once.
_PIECE = 1 << 22


@documented
@dataclass(eq=False, repr=False)
class BayesianLogisticRegression(ClassifierMixin, MirrorDescentSettings, Saved[ParticlePosterior]):
    """Logistic regression, two classes or several, with the posterior of its coefficients.

    Coefficients have the prior ``N(0, prior_scale^2)`` in columns of zero mean and unit variance,
    the intercept too. Probabilities are averages over the posterior, so they are honest about rows
    unlike those seen.

    Parameters
    ----------
    prior_scale : float, default=1.0
        Standard deviation of the prior.
    $mirror_descent

    Attributes
    ----------
    posterior_ : Posterior
        Of intercept and coefficients in standardised columns, class by class where there are more
        than two.
    coef_, intercept_ : ndarray
        Posterior means in the units of the columns.
    classes_ : ndarray
        Classes.
    n_features_in_ : int
        Columns.
    seed_ : int
        The seed used.

    Examples
    --------
    >>> from riesz import BayesianLogisticRegression
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLogisticRegression(random_state=0).fit(X[:, :5], y)
    >>> model.score(X[:, :5], y) > 0.9
    True
    """

    _: KW_ONLY
    prior_scale: float = 1.0

    _kind = ParticlePosterior

    def fit(self, X: ArrayLike, y: ArrayLike) -> "BayesianLogisticRegression":
        """Learn the posterior.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Classes.

        Returns
        -------
        self
        """
        with named("X"):
            values: NDArray[np.float64] = validate_data(
                self, X, reset=True, dtype=np.float64, order="C"
            )
        labels = labels_of(targets_of(self, y, None, values.shape))
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInput(
                f"only one class in the data ({self.classes_[0]}); a classifier needs at least two"
            )
        self._shift = values.mean(axis=0)
        scale = values.std(axis=0)
        self._scale = np.where(scale > 1e-12 * (1 + np.abs(self._shift)), scale, 1.0)
        rows = np.ascontiguousarray((values - self._shift) / self._scale)
        several = len(self.classes_) > 2
        with progress(self.verbose) as observer:
            particles = ParticlePosterior.fit_linear(
                rows,
                np.ascontiguousarray(codes, dtype=np.float64),
                family="softmax" if several else "logistic",
                classes=len(self.classes_),
                prior_scale=number("prior_scale", self.prior_scale),
                settings=self._settings(),
                n_jobs=self.n_jobs,
                observer=observer,
            )
        return self._fitted(particles)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities of the classes, averaged over the posterior.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, classes)
        """
        check_is_fitted(self)
        with named("X"):
            X = validate_data(self, X, reset=False, dtype=np.float64)
        rows = (X - self._shift) / self._scale
        theta, weights = self._model.positions(), np.exp(self._model.log_weights())
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        theta = theta.reshape(len(theta), outputs, -1)
        out = np.empty((len(rows), len(self.classes_)))
        step = max(1, _PIECE // (len(theta) * outputs))
        for i in range(0, len(rows), step):
            eta = np.einsum("nd,mcd->nmc", rows[i : i + step], theta[:, :, 1:], optimize=True)
            eta += theta[:, :, 0]
            if outputs == 1:
                out[i : i + step, 0] = expit(-eta[:, :, 0]) @ weights
                out[i : i + step, 1] = expit(eta[:, :, 0]) @ weights
            else:
                out[i : i + step] = np.einsum("nmc,m->nc", softmax(eta, axis=2), weights)
        # Weights and shares add up to one but for rounding.
        probabilities: NDArray[np.float64] = out / out.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of every row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        """
        most_probable = self.predict_proba(X).argmax(axis=1)
        decided: NDArray[Any] = self.classes_[most_probable]
        return decided

    def _fitted(self, particles: ParticlePosterior) -> "BayesianLogisticRegression":
        """Keep the posterior and show what it is."""
        self._model = particles
        columns = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        one = ["intercept", *map(str, columns)]
        several = len(self.classes_) > 2
        names = [f"{name}[{c}]" for c in self.classes_ for name in one] if several else one
        self.posterior_: Posterior = self._posterior(particles, Layout.free(names))
        mean = self.posterior_.mean().reshape(-1, self.n_features_in_ + 1)
        self.coef_ = mean[:, 1:] / self._scale
        self.intercept_ = mean[:, 0] - self.coef_ @ self._shift
        self.seed_: int = self.posterior_.seed
        return self

    def _note(self) -> dict[str, Any]:
        note = super()._note()
        note["classes"] = self.classes_.tolist()
        note["shift"], note["scale"] = self._shift.tolist(), self._scale.tolist()
        return note

    @classmethod
    def _restored(cls, model: Any, note: dict[str, Any]) -> "BayesianLogisticRegression":
        if "classes" not in note:
            raise InvalidInput("the file holds a posterior that is no logistic regression")
        estimator = cls()
        estimator.classes_ = np.array(note["classes"])
        columns, classes = len(note["shift"]), len(estimator.classes_)
        estimator._read_note(note, columns)
        for name in ("shift", "scale"):
            values = np.array(note[name], dtype=np.float64)
            if values.shape != (columns,) or not np.isfinite(values).all():
                raise InvalidInput(f"not a valid riesz file: {name} is not a number per column")
            setattr(estimator, f"_{name}", values)
        outputs = 1 if classes == 2 else classes
        expected, found = outputs * (columns + 1), model.positions().shape[1]
        if classes < 2 or expected != found:
            raise InvalidInput(
                f"not a valid riesz file: {columns} columns and {classes} classes have {expected}"
                f" parameters, the posterior has {found}"
            )
        return estimator._fitted(model)
