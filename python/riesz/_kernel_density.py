"""Kernel densities."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from riesz._arguments import count, seed_of
from riesz._riesz import Density
from riesz._rows import Rows, rows_of, sample_weights
from riesz._saved import Saved
from riesz._settings import settings_of


class KernelDensity(Rows, Saved[Density]):
    """The density of rows, estimated by a kernel around each of them.

    ``p(x) = sum_j w_j K((x - x_j) / h) / h^d`` with weights that add up to one. A drop-in for
    ``sklearn.neighbors.KernelDensity`` (Euclidean distances), and with ``shape="covariance"`` for
    ``scipy.stats.gaussian_kde``.

    Parameters
    ----------
    bandwidth : float, "scott" or "silverman", default=1.0
        The bandwidth ``h``. "scott" is ``n ** (-1 / (d + 4))``, "silverman"
        ``(n * (d + 2) / 4) ** (-1 / (d + 4))`` for ``n`` rows of ``d`` columns; with
        ``shape="covariance"``, ``n`` is the effective number of rows ``1 / sum_j w_j^2``.
    kernel : {"gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine"}, \
default="gaussian"
        The kernel.
    shape : {"isotropic", "covariance"}, default="isotropic"
        What the bandwidth multiplies: nothing, so that kernels are round, or a square root of the
        (weighted, unbiased) covariance of the rows.
    rtol : float, default=1e-6
        Largest relative error of a density by what is left out, beside the rounding of single
        precision (1e-6 as a rule, about 1e-5 at most). Below 5e-7, and for other kernels than the
        Gaussian, densities are computed in double precision.
    atol : float, default=0
        Absolute error of a density that is in order, however small the density.
    n_jobs : int, optional
        Threads, which never change the result; -1 is all cores, and so is None, but for
        ``RAYON_NUM_THREADS`` or ``OMP_NUM_THREADS`` where they are set and for workers of joblib,
        which share the cores.

    Attributes
    ----------
    n_features_in_ : int
        Columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where they had names.
    bandwidth_ : float
        The bandwidth used.

    Notes
    -----
    Rows and queries are put in the order of a k-d tree. Tiles of queries meet blocks of centres
    until the rest is below the tolerance; many queries close together, in one and two dimensions,
    share one polynomial, whose error is bounded too. The logarithm is right however far a query is
    from all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import KernelDensity
    >>> X = np.random.default_rng(0).normal(size=(5000, 1))
    >>> density = KernelDensity(bandwidth=0.2).fit(X)
    >>> log_p = density.score_samples([[0.0], [1.0]])
    >>> bool(np.allclose(np.exp(log_p), [0.39, 0.24], atol=0.02))
    True
    """

    _kind = Density

    def __init__(
        self,
        *,
        bandwidth: float | str = 1.0,
        kernel: str = "gaussian",
        shape: str = "isotropic",
        rtol: float = 1e-6,
        atol: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.shape = shape
        self.rtol = rtol
        self.atol = atol
        self.n_jobs = n_jobs

    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> "KernelDensity":
        """Keep the rows and settle the bandwidth.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Rows.
        y : ignored
            For pipelines.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their proportions count.

        Returns
        -------
        self
        """
        rows = rows_of(self, X, reset=True)
        weights = sample_weights(sample_weight, dtype=np.float64)
        density = Density.fit(
            rows,
            weights,
            settings=settings_of(self),
            n_jobs=self.n_jobs,
        )
        return self._fitted(density)

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return logarithms of the density, ``-inf`` where it is zero.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        log_density: NDArray[np.float64] = self._model.log_density(
            self._rows(X), n_jobs=self.n_jobs
        )
        return log_density

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the logarithm of the likelihood, the sum of :meth:`score_samples`.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Rows.
        y : ignored
            For pipelines.

        Returns
        -------
        float
        """
        return float(np.sum(self.score_samples(X)))

    def sample(
        self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> NDArray[np.float64]:
        """Return independent draws from the density, whose kernel is "gaussian" or "tophat".

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        random_state : int, RandomState or None, default=None
            Equal integers give equal draws.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        drawn: NDArray[np.float64] = self._model.sample(
            count("n_samples", n_samples), seed_of(random_state)
        )
        return drawn

    def _fitted(self, density: Density) -> "KernelDensity":
        """Keep the density and show what it is."""
        summary: dict[str, Any] = density.summary()
        self._model = density
        self.bandwidth_ = summary["bandwidth"]
        return self
