"""Novelty detection."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from riesz._columns import in_precision_of
from riesz._documentation import documented
from riesz._riesz import Detector
from riesz._rows import Rows, rows_of, sample_weights
from riesz._saved import Saved
from riesz._settings import settings_of


@documented
class KernelNoveltyDetector(OutlierMixin, Rows, Saved[Detector]):
    """Rows unlike most of those seen, by a one-class kernel machine on random features.

    Learns a function that is large where rows are many and the level below which a row is novel:
    the problem of :class:`sklearn.svm.OneClassSVM`, in time and memory linear in the rows.

    Parameters
    ----------
    nu : float, default=0.5
        Between 0 and 1. The function is built from this share of the rows, those with the fewest
        others near them. Small values draw a close border around all rows and are for clean data;
        1 is a kernel density estimate from all rows.
    contamination : float, optional
        The share of the rows of the fit that :meth:`predict` is to call novel, from 0 to below 1;
        ``nu`` unless given, as in scikit-learn's one-class machines. It moves ``offset_`` alone.
    kernel : str, default="gaussian"
        A kernel by name, with its parameters in parentheses, or a sum or product of them; see
        :class:`riesz.RandomFeatures` for the list.
    bandwidth : float, "auto", "median" or "scale", default="auto"
        Width of the kernel: a number, the median distance between rows ("auto" is half of it), or
        what corresponds to scikit-learn's ``gamma="scale"``.
    scaling : {"auto", "none", "standard"}, default="auto"
        Whether columns are standardised first. "auto" does so unless the bandwidth is a number.
        Columns that never change keep their unit.
    n_components : int, default=1024
        Random features, up to 16,384. Far from all rows, scores scatter around 0 by about one over
        the root of their number: where ``contamination`` is so small that ``offset_`` comes near
        that, more of them keep far rows below it.
    $run

    Attributes
    ----------
    offset_ : float
        The score below which a row is novel.
    $columns
    seed_ : int
        The seed used.

    Notes
    -----
    $arrays

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import KernelNoveltyDetector
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> detector = KernelNoveltyDetector(contamination=0.05, random_state=0).fit(X)
    >>> detector.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    _kind = Detector
    _single = True

    def __init__(
        self,
        *,
        nu: float = 0.5,
        contamination: float | None = None,
        kernel: str = "gaussian",
        bandwidth: str | float = "auto",
        scaling: str = "auto",
        n_components: int = 1024,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.nu = nu
        self.contamination = contamination
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.scaling = scaling
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> "KernelNoveltyDetector":
        """Learn what is usual.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : ignored
            For pipelines.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        rows = rows_of(self, X, reset=True)
        settings = settings_of(self)
        weights = sample_weights(sample_weight)
        return self._fitted(Detector.fit(rows, weights, settings=settings, n_jobs=self.n_jobs))

    def partial_fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> "KernelNoveltyDetector":
        """Learn from further rows, also after :meth:`fit`.

        Rows are kept until there are as many as were learnt from before, or 8,192; then the
        function is averaged with that of the rows kept, and ``offset_`` follows. Where nothing was
        fitted the first rows, up to 8,192, are fitted anew whenever they have doubled.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : ignored
            For pipelines.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        first = not hasattr(self, "_model")
        rows = rows_of(self, X, reset=first)
        weights = sample_weights(sample_weight)
        if first:
            settings = settings_of(self)
            return self._fitted(
                Detector.fit(rows, weights, settings=settings, stream=True, n_jobs=self.n_jobs)
            )
        self._model.partial_fit(rows, weights, n_jobs=self.n_jobs)
        return self._fitted(self._model)

    def score_samples(self, X: ArrayLike) -> NDArray[Any]:
        """Return the function itself: a weighted mean of kernels, near 0 far from all rows.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Large for usual rows.
        """
        rows = self._rows(X)
        scores = self._model.scores(rows, n_jobs=self.n_jobs).astype(rows.dtype, copy=False)
        return in_precision_of(X, scores)

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Return scores minus ``offset_``: negative for novel rows.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        above: NDArray[Any] = self.score_samples(X) - self.offset_
        return above

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return -1 for novel rows and 1 for the others.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _fitted(self, model: Any) -> "KernelNoveltyDetector":
        summary = model.summary()
        self._model = model
        self.offset_ = summary["offset"]
        self.bandwidth_ = summary["bandwidth"]
        self.scaling_ = summary["scaling"]
        self.seed_ = summary["seed"]
        return self
