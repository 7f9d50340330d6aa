"""Regression with uncertainty."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from riesz._arguments import count, flag, named, seed_of
from riesz._errors import InvalidInput
from riesz._progress import progress
from riesz._riesz import Process
from riesz._rows import Rows, rows_of, targets_of
from riesz._saved import Saved
from riesz._settings import settings_of


class GaussianProcessRegressor(RegressorMixin, Rows, Saved[Process]):
    """Regression by a Gaussian process: predictions with their uncertainty.

    Targets are ``c + f(x) + noise``: a constant (their mean), a Gaussian process ``f`` with
    covariance ``signal * exp(-sum((x - x')^2 / (2 * length_scales^2)))``, and independent normal
    noise of variance ``noise``.

    Parameters
    ----------
    signal : float, optional
        Variance of the function; learnt unless given.
    noise : float, optional
        Variance of the noise; learnt unless given.
    length_scales : float or array-like of shape (d,), optional
        How far the function reaches along each column, in its units; learnt unless given.
    learning_rows : int, default=4000
        Rows, drawn at random, on which the marginal likelihood is maximised.
    approximation : {"auto", "exact", "inducing"}, default="auto"
        "exact" factorises the kernel matrix of all rows; "inducing" takes inducing points for what
        is smooth and the nearest rows for the rest. "auto" is exact up to 8,192 rows.
    inducing : int, default=1024
        Inducing points.
    neighbours : int, default=32
        Nearest rows that each row depends on beyond the inducing points.
    max_time : float, optional
        Most seconds spent on learning hyper-parameters; those found by then are taken. What
        conditioning on the rows needs comes on top.
    random_state : int, RandomState or None, default=None
        Seed of the choice of rows; None draws one and keeps it in ``seed_``.
    n_jobs : int, optional
        Threads, all cores (or ``RAYON_NUM_THREADS``) unless given; their number changes nothing.
    verbose : int, default=0
        1 shows progress on one line of the standard error, 2 on a line for every step.

    Attributes
    ----------
    n_features_in_ : int
        Columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where they had names.
    signal_ : float
        Variance of the function.
    noise_ : float
        Variance of the noise.
    length_scales_ : ndarray of shape (d,)
        Length scales; infinite for columns that never change.
    bandwidth_ : float
        Geometric mean of the finite length scales.
    log_marginal_likelihood_ : float
        Log density of all targets, under the approximation where there is one.
    approximation_ : {"exact", "inducing"}
        How the posterior is computed.
    jitter_ : float
        What was added to ``noise_`` because the covariance of the rows was singular to rounding;
        zero unless the noise is very small.
    seed_ : int
        The seed used.

    Notes
    -----
    Standard deviations, covariances and samples are those of new targets, noise included, as in
    scikit-learn with a ``WhiteKernel``; ``latent=True`` gives those of the function. The process
    keeps its rows, with their zeros where they came as a sparse array.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import GaussianProcessRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> process = GaussianProcessRegressor(random_state=0).fit(X, y)
    >>> mean, deviation = process.predict([[0.5], [30.0]], return_std=True)
    >>> bool(deviation[0] < 0.2 < deviation[1])
    True
    """

    _kind = Process

    def __init__(
        self,
        *,
        signal: float | None = None,
        noise: float | None = None,
        length_scales: float | ArrayLike | None = None,
        learning_rows: int = 4000,
        approximation: str = "auto",
        inducing: int = 1024,
        neighbours: int = 32,
        max_time: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.signal = signal
        self.noise = noise
        self.length_scales = length_scales
        self.learning_rows = learning_rows
        self.approximation = approximation
        self.inducing = inducing
        self.neighbours = neighbours
        self.max_time = max_time
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike) -> "GaussianProcessRegressor":
        """Learn the hyper-parameters that are not given, and condition on all rows.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Targets.

        Returns
        -------
        self
        """
        X, y = self._data(X, y, reset=True)
        settings = settings_of(self, length_scales=self._scales(X.shape[1]))
        with progress(self.verbose) as observer:
            process = Process.fit(X, y, settings=settings, n_jobs=self.n_jobs, observer=observer)
        return self._fitted(process)

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> "GaussianProcessRegressor":
        """Condition on further rows; the hyper-parameters of the first call stay as they are.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Targets.

        Returns
        -------
        self
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        X, y = self._data(X, y, reset=False)
        with progress(self.verbose) as observer:
            self._model.extend(X, y, n_jobs=self.n_jobs, observer=observer)
        return self._fitted(self._model)

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        latent: bool = False,
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
        """Return means, and with them standard deviations or covariances where asked.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        return_std : bool, default=False
            Whether to return standard deviations too.
        return_cov : bool, default=False
            Whether to return the covariance matrix of all rows too.
        latent : bool, default=False
            Whether these are of the function rather than of new targets.

        Returns
        -------
        mean : ndarray of shape (n,)
        std : ndarray of shape (n,), where asked
        cov : ndarray of shape (n, n), where asked
        """
        if flag("return_std", return_std) and flag("return_cov", return_cov):
            raise InvalidInput("return_std and return_cov exclude each other")
        X = self._rows(X)
        noise = 0.0 if flag("latent", latent) else self.noise_
        if flag("return_cov", return_cov):
            mean, covariance = self._model.joint(X, n_jobs=self.n_jobs)
            covariance[np.diag_indices(X.shape[0])] += noise
            return mean, covariance
        if flag("return_std", return_std):
            mean, variance = self._model.marginals(X, n_jobs=self.n_jobs)
            return mean, np.sqrt(variance + noise)
        return self._model.mean(X, n_jobs=self.n_jobs)

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
        *,
        latent: bool = False,
        method: str = "auto",
    ) -> NDArray[np.float64]:
        """Draw from the posterior at all rows together.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        n_samples : int, default=1
            How many samples.
        random_state : int, RandomState or None, default=0
            Seed.
        latent : bool, default=False
            Whether to draw values of the function rather than new targets.
        method : {"auto", "joint", "functions"}, default="auto"
            "joint" draws from the normal distribution at the rows, exactly, in time ``n**3``;
            "functions" draws functions of the posterior (Matheron's rule on random features) in
            time proportional to ``n``, with exact means and covariances, and the same functions
            for the same seed whatever the rows. "auto" is "joint" up to 2,048 rows.

        Returns
        -------
        ndarray of shape (n, n_samples)
        """
        X = self._rows(X)
        return self._model.sample(
            X,
            count("n_samples", n_samples, least=1),
            seed_of(random_state),
            method=method,
            noisy=not flag("latent", latent),
            n_jobs=self.n_jobs,
        )

    def _fitted(self, process: Process) -> "GaussianProcessRegressor":
        """Keep the process and show what it is."""
        summary = process.summary()
        self._model = process
        self.signal_ = summary["signal"]
        self.noise_ = summary["noise"]
        self.length_scales_ = summary["length_scales"]
        finite = self.length_scales_[np.isfinite(self.length_scales_)]
        self.bandwidth_ = float(np.exp(np.log(finite).mean())) if len(finite) else np.inf
        self.log_marginal_likelihood_ = summary["log_marginal_likelihood"]
        self.approximation_ = summary["approximation"]
        self.jitter_ = summary["jitter"]
        self.seed_ = summary["seed"]
        return self

    def _scales(self, columns: int) -> list[float] | None:
        if self.length_scales is None:
            return None
        if isinstance(self.length_scales, numbers.Real):
            with named("length_scales"):
                return [float(self.length_scales)] * columns
        try:
            scales: list[float] = np.asarray(self.length_scales, dtype=float).ravel().tolist()
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(
                f"length_scales = {self.length_scales!r} should be one number per column or None"
            ) from None
        return scales

    def _data(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Check rows and targets; Rust compares their lengths."""
        rows = rows_of(self, X, reset=reset)
        return rows, targets_of(self, y, np.float64, rows.shape)

    def _note(self) -> dict[str, Any]:
        note = super()._note()
        if self.length_scales is not None:
            scales = np.asarray(self.length_scales, dtype=float).tolist()
            note["parameters"]["length_scales"] = scales
        return note
