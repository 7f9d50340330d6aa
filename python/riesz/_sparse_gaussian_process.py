"""Regression with uncertainty, from many rows."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from riesz._arguments import count, flag, named, number, positive, seed_of
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._progress import progress
from riesz._riesz import SparseProcess
from riesz._rows import Rows, rows_of, sample_weights, targets_of
from riesz._saved import Saved
from riesz._settings import settings_of


@documented
class SparseGaussianProcessRegressor(RegressorMixin, Rows, Saved[SparseProcess]):
    """Regression by a Gaussian process that is known through inducing inputs.

    Targets are ``c + f(x) + noise``: a constant (their mean), a Gaussian process ``f`` and
    independent normal noise. A *particle* is a set of inputs; what the rows say of ``f`` there is
    a normal distribution in closed form, which grows by adding one batch of rows after the other
    (particle mirror descent). One pass over the rows is enough, in memory that does not grow with
    their number.

    Parameters
    ----------
    n_inducing : int, default=512
        Inducing inputs of a particle. Up to ``n_inducing * sqrt(n_particles)`` distinct rows
        ("paper": ``n_inducing``) there is one particle that has them all, and the posterior is
        exact.
    n_particles : int, default=16
        Particles.
    batch_size : int, default=1024
        Rows of a step.
    kernel : {"gaussian", "matern(0.5)", "matern(1.5)", "matern(2.5)"}, default="gaussian"
        Covariance of ``f``.
    length_scale : float, array-like of shape (d,) or "auto", default="auto"
        How far the function reaches along each column, in its units; "auto" learns it.
    signal : float or "auto", default="auto"
        Variance of the function; "auto" learns it.
    noise : float or "auto", default="auto"
        Variance of the noise; "auto" learns it.
    learning_rows : int, default=2000
        Rows, drawn at random, on which the marginal likelihood is maximised.
    mode : {"adaptive", "paper"}, default="adaptive"
        "adaptive" draws each particle from neighbouring rows, lets it doubt rows it knows little
        about, and listens to each particle where its variance is small. "paper" is the published
        recursion: random particles, steps ``min(1, step / (t + delay))``, predictions weighted by
        evidence.
    n_passes : int, default=1
        Passes over the rows, of "paper" alone.
    step, delay : float, default=1.0, 0.0
        Schedule of "paper"; with the defaults one pass is Bayes' rule.
    max_time : float, optional
        Most seconds; the posterior is that of the rows seen by then.
    $run
    $verbose

    Attributes
    ----------
    $columns
    signal_, noise_ : float
        Variance of the function, and of the noise.
    length_scale_ : ndarray of shape (d,)
        Length scales; infinite for columns that never change.
    inducing_points_ : ndarray of shape (n_particles, n_inducing, d)
        The particles; a single one with all distinct rows where those are few.
    weights_ : ndarray of shape (n_particles,)
        Posterior probabilities of the particles. "adaptive" does not predict with them.
    ess_ : float
        Effective number of particles, ``1 / sum(weights_**2)``.
    log_evidence_ : float
        Log density of the targets, with equal prior probabilities of the particles.
    exponent_ : float
        In predictions a particle of variance ``v`` has a share proportional to ``v**-exponent_``.
        Chosen on held-out rows.
    n_rows_ : int
        Rows learnt from.
    seed_ : int
        The seed used.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import SparseGaussianProcessRegressor
    >>> X = np.linspace(-3, 3, 400)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = SparseGaussianProcessRegressor(n_inducing=32, random_state=0).fit(X, y)
    >>> mean, deviation = model.predict([[0.0], [9.0]], return_std=True)
    >>> bool(abs(mean[0]) < 0.05 and deviation[0] < 0.2 < deviation[1])
    True
    """

    _kind = SparseProcess

    def __init__(
        self,
        *,
        n_inducing: int = 512,
        n_particles: int = 16,
        batch_size: int = 1024,
        kernel: str = "gaussian",
        length_scale: float | ArrayLike | str = "auto",
        signal: float | str = "auto",
        noise: float | str = "auto",
        learning_rows: int = 2000,
        mode: str = "adaptive",
        n_passes: int = 1,
        step: float = 1.0,
        delay: float = 0.0,
        max_time: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_inducing = n_inducing
        self.n_particles = n_particles
        self.batch_size = batch_size
        self.kernel = kernel
        self.length_scale = length_scale
        self.signal = signal
        self.noise = noise
        self.learning_rows = learning_rows
        self.mode = mode
        self.n_passes = n_passes
        self.step = step
        self.delay = delay
        self.max_time = max_time
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "SparseGaussianProcessRegressor":
        """Learn the hyper-parameters that are not given, choose the particles, see all rows.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), optional
            The noise of a row has variance ``noise / sample_weight``; rows of weight zero are left
            out. Hyper-parameters are learnt as if the others were equal.

        Returns
        -------
        self
        """
        X, y, weights = self._data(X, y, sample_weight, reset=True)
        settings = settings_of(
            self,
            signal=_unless_auto("signal", self.signal),
            noise=_unless_auto("noise", self.noise),
            length_scale=self._scales(X.shape[1]),
        )
        step = positive("step", settings.pop("step"))
        delay = number("delay", settings.pop("delay"))
        settings["schedule"] = {"inverse": {"theta": step, "delay": delay}}
        with progress(self.verbose) as observer:
            process = SparseProcess.fit(
                X, y, weights, settings=settings, n_jobs=self.n_jobs, observer=observer
            )
        return self._fitted(process)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "SparseGaussianProcessRegressor":
        """Learn from further rows; hyper-parameters and particles of the first call stay.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), optional
            As for :meth:`fit`.

        Returns
        -------
        self
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight)
        X, y, weights = self._data(X, y, sample_weight, reset=False)
        with progress(self.verbose) as observer:
            self._model.extend(X, y, weights, n_jobs=self.n_jobs, observer=observer)
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
        mean, variance = self._model.marginals(X, n_jobs=self.n_jobs)
        return (mean, np.sqrt(variance + noise)) if return_std else mean

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
        *,
        latent: bool = False,
    ) -> NDArray[np.float64]:
        """Draw from the posterior at all rows together, in time ``n**3``.

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

        Returns
        -------
        ndarray of shape (n, n_samples)
        """
        X = self._rows(X)
        return self._model.sample(
            X,
            count("n_samples", n_samples, least=1),
            seed_of(random_state),
            noisy=not flag("latent", latent),
            n_jobs=self.n_jobs,
        )

    def _fitted(self, process: SparseProcess) -> "SparseGaussianProcessRegressor":
        """Keep the process and show what it is."""
        summary = process.summary()
        self._model = process
        self.signal_ = summary["signal"]
        self.noise_ = summary["noise"]
        self.length_scale_ = summary["length_scales"]
        self.inducing_points_ = process.inducing().reshape(
            summary["particles"], -1, summary["columns"]
        )
        self.log_evidence_ = summary["log_evidence"]
        weights = np.exp(summary["log_weights"] - summary["log_evidence"])
        self.weights_ = weights / weights.sum()
        self.ess_ = float(1 / np.sum(self.weights_**2))
        self.exponent_ = summary["exponent"]
        self.n_rows_ = summary["rows"]
        self.seed_ = summary["seed"]
        return self

    def _scales(self, columns: int) -> list[float] | None:
        scale: Any = self.length_scale
        if scale is None or (isinstance(scale, str) and scale == "auto"):
            return None
        if isinstance(scale, numbers.Real):
            with named("length_scale"):
                return [float(scale)] * columns
        try:
            scales: list[float] = np.asarray(scale, dtype=float).ravel().tolist()
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(
                f"length_scale = {scale!r} should be one number per column or 'auto'"
            ) from None
        return scales

    def _data(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        """Check rows, targets and weights; Rust compares their lengths."""
        rows = rows_of(self, X, reset=reset)
        targets = targets_of(self, y, np.float64, rows.shape)
        return rows, targets, sample_weights(sample_weight, dtype=np.float64)

    def _note(self) -> dict[str, Any]:
        note = super()._note()
        if not isinstance(self.length_scale, str):
            scales = np.asarray(self.length_scale, dtype=float).tolist()
            note["parameters"]["length_scale"] = scales
        return note


def _unless_auto(name: str, value: Any) -> Any:
    """Return None for what is to be learnt."""
    if isinstance(value, str):
        if value == "auto":
            return None
        raise InvalidInput(f"{name} = {value!r} should be a number or 'auto'")
    return value
