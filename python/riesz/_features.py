"""Random features as a scikit-learn transformer."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from riesz._arguments import seed_of
from riesz._kernel_machine import Kernel
from riesz._riesz import fit_features, transform_features
from riesz._rows import Rows, rows_of


class RandomFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Rows):
    """Random features whose inner products approximate a kernel.

    Parameters
    ----------
    kernel : str or callable, default="gaussian"
        A kernel by name, with its parameters in parentheses: "gaussian", "laplacian", "cauchy",
        "matern(1.5)", "rational_quadratic(1)", "dot_product(1, 1, 0.5)", "polynomial(2, 1)",
        "arc_cosine(1)", "hellinger", "chi_squared", "intersection", "jensen_shannon",
        "skewed_chi_squared(1)", "skewed_intersection(1)", "exponential_semigroup(1)",
        "reciprocal_semigroup(1)"; sums and products such as "gaussian + 0.5 * polynomial(2, 1)".
        Or a function ``kernel(X, seed, n_features)``, see the notes.
    bandwidth : "median", "scale" or float, default="median"
        Width of the kernel: a number, the median distance between rows, or what corresponds to
        scikit-learn's ``gamma="scale"``. Kernels of histograms and functions have none.
    n_components : int, default=1024
        Number of features.
    random_state : int, RandomState or None, default=None
        Equal integers give equal features.
    n_jobs : int, optional
        Threads; all cores by default.

    Attributes
    ----------
    bandwidth_ : float
        The width in use.
    shift_ : ndarray of shape (n_features_in_,)
        What is subtracted from each column first.
    seed_ : int
        The seed in use.

    Notes
    -----
    A function ``kernel(X, seed, n_features)`` is a kernel of your own, the mean of products of
    random features. It is given rows as they are (float32, without shift, scale or bandwidth), a
    whole number below 2**64 and the number of features, and returns an array ``phi`` of shape
    (len(X), n_features) such that ``phi @ phi.T / n_features`` is the kernel, on average over
    seeds. The root of the number of features is divided by afterwards.

    Features are drawn again whenever they are needed, in tiles of at most 1,024 rows and also when
    predicting: they must be a function of ``seed``, ``n_features`` and the row alone, which nothing
    checks. The function is called from other threads, one call at a time but for what it does with
    the interpreter released. What it raises is raised; a wrong shape and NaN are refused.

    Examples
    --------
    The Gaussian kernel of bandwidth 0.5, made at home:

    >>> import numpy as np
    >>> from riesz import RandomFeatures
    >>> def waves(X, seed, n_features):
    ...     rng = np.random.default_rng(seed)
    ...     frequencies = rng.normal(scale=1 / 0.5, size=(X.shape[1], n_features))
    ...     return np.sqrt(2) * np.cos(X @ frequencies + rng.uniform(0, 2 * np.pi, n_features))
    >>> features = RandomFeatures(kernel=waves, n_components=4096, random_state=0)
    >>> phi = features.fit_transform([[0.0], [0.5]])
    >>> bool(abs(phi[0] @ phi[1] - np.exp(-0.5)) < 0.1)
    True
    """

    _single = True

    def __init__(
        self,
        *,
        kernel: Kernel = "gaussian",
        bandwidth: str | float = "median",
        n_components: int = 1024,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: object = None) -> "RandomFeatures":
        """Settle the bandwidth and draw the features.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Rows.
        y : ignored
            For pipelines.

        Returns
        -------
        self
        """
        rows = rows_of(self, X, reset=True)
        self.seed_ = seed_of(self.random_state)
        self.bandwidth_, shift = fit_features(
            rows,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            n_components=self.n_components,
            seed=self.seed_,
            n_jobs=self.n_jobs,
        )
        self.shift_ = np.array(shift, dtype=np.float32)
        self._n_features_out = self.n_components
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the features of rows.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        features : ndarray of shape (n_samples, n_components), float32
            Their inner products are the kernel, on average over seeds.
        """
        return transform_features(
            self._rows(X),
            kernel=self.kernel,
            bandwidth=self.bandwidth_,
            shift=self.shift_.tolist(),
            n_components=self.n_components,
            seed=self.seed_,
            n_jobs=self.n_jobs,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
