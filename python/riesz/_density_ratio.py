"""Ratios of densities from two samples."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from riesz._arguments import shown
from riesz._columns import in_precision_of
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._progress import progress
from riesz._riesz import Ratio
from riesz._rows import Rows, rows_of, sample_weights
from riesz._saved import Saved
from riesz._settings import settings_of


@documented
class DensityRatioEstimator(Rows, Saved[Ratio]):
    """The ratio ``r(x) = p(x) / q(x)`` of two densities, from a sample of each.

    Neither density is estimated. A function ``f`` of random features is learnt by block functional
    descent so that ``log r = f`` ("logistic", "kl") or ``r = f`` ("least_squares"); bandwidth and
    number of blocks are those of the lowest held-out loss. Ratios weight one sample so that it
    stands for the other (covariate shift), and tell how far two distributions are apart.

    Parameters
    ----------
    loss : {"logistic", "kl", "least_squares"}, default="logistic"
        What ``f`` minimises: ``E_p log(1 + exp(-f)) + E_q log(1 + exp(f))``,
        ``E_q exp(f) - E_p f`` or ``E_q f^2 / 2 - E_p f``. The first is least moved by rows at
        which the ratio is extreme.
    kernel : str, default="gaussian"
        Kernel family.
    metric : {"auto", "none", "diagonal", "full"}, default="auto"
        Learnt weights of the columns ("diagonal") or of directions ("full") in which the samples
        are told apart, used where they do better on rows that they were not learnt from, by more
        than chance. They are learnt from at most 256 rows of each sample, rows that are held out
        later among them. "auto" compares both kinds where the bandwidth is "auto".
        :meth:`partial_fit` keeps that of :meth:`fit` and learns none.
    bandwidth : "auto", "median", "scale" or float, default="auto"
        Bandwidth of the kernel; "auto" chooses it by held-out loss.
    scaling : {"auto", "none", "standard"}, default="auto"
        What is done to the columns first; "standard" is zero mean and unit variance over both
        samples, "auto" whichever does better. A metric has its own: ``scaling_`` is then "none".
    damping : float, optional
        Damping of block descent; by loss and number of rows unless given.
    block_size : int, optional
        Features per block; by the number of rows unless given.
    max_blocks : int, default=64
        Most blocks; how many there are is decided by held-out loss.
    max_time : float, optional
        Most seconds; the choice of bandwidth and blocks gets half of them.
    $run
    $verbose

    Attributes
    ----------
    $columns
    metric_ : ndarray of shape (d, d) or None
        The learnt metric: squared distances are ``(x - z) @ metric_ @ (x - z)``.
    feature_importances_ : ndarray of shape (d,)
        Its diagonal times the variances of the columns, as shares of the sum; only where there is
        a metric.
    n_blocks_ : int
        Blocks; 0 where nothing predicts held-out rows better than ``r = 1``.
    history_ : list of dict
        The objective on training and held-out rows, block by block, while the number of blocks
        was chosen.
    seed_ : int
        The seed used.

    Notes
    -----
    Each sample counts as much as the other, whatever their sizes. Ratios are kept between one over
    the number of rows of the numerator and the number of rows of the denominator: what is beyond
    cannot be told from zero or infinity. Far from both samples the ratio scatters around one, by
    as much as the random features leave (a tenth or two).

    The fit copies both samples in single precision, with their zeros where they came as sparse
    arrays. Ratios are computed in single precision and returned in the precision of ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import DensityRatioEstimator
    >>> rng = np.random.default_rng(0)
    >>> p, q = rng.normal(1, 1, size=(500, 1)), rng.normal(0, 1, size=(500, 1))
    >>> estimator = DensityRatioEstimator(random_state=0).fit(p, q)
    >>> low, high = estimator.predict([[-0.5], [1.5]])  # exp(-1) and exp(1)
    >>> bool(0.2 < low < 0.6 and 1.8 < high < 4)
    True
    """

    _kind = Ratio
    _single = True

    def __init__(
        self,
        *,
        loss: str = "logistic",
        kernel: str = "gaussian",
        metric: str = "auto",
        bandwidth: str | float = "auto",
        scaling: str = "auto",
        damping: float | None = None,
        block_size: int | None = None,
        max_blocks: int = 64,
        max_time: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.kernel = kernel
        self.metric = metric
        self.bandwidth = bandwidth
        self.scaling = scaling
        self.damping = damping
        self.block_size = block_size
        self.max_blocks = max_blocks
        self.max_time = max_time
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X_numerator: ArrayLike,
        X_denominator: ArrayLike,
        sample_weight_numerator: ArrayLike | None = None,
        sample_weight_denominator: ArrayLike | None = None,
    ) -> "DensityRatioEstimator":
        """Learn the ratio.

        Parameters
        ----------
        X_numerator : array-like or sparse array of shape (n, d)
            Rows drawn from p.
        X_denominator : array-like or sparse array of shape (m, d)
            Rows drawn from q.
        sample_weight_numerator : array-like of shape (n,), optional
            Weights of the rows of p; only their proportions count.
        sample_weight_denominator : array-like of shape (m,), optional
            Weights of the rows of q; only their proportions count.

        Returns
        -------
        self
        """
        numerator = rows_of(self, X_numerator, reset=True, name="X_numerator")
        denominator = rows_of(self, X_denominator, reset=False, name="X_denominator")
        weights = (
            sample_weights(sample_weight_numerator, "sample_weight_numerator"),
            sample_weights(sample_weight_denominator, "sample_weight_denominator"),
        )
        with progress(self.verbose) as observer:
            ratio = Ratio.fit(
                numerator,
                denominator,
                *weights,
                settings=settings_of(self),
                n_jobs=self.n_jobs,
                observer=observer,
            )
        return self._fitted(ratio)

    def partial_fit(
        self,
        X_numerator: ArrayLike,
        X_denominator: ArrayLike,
        sample_weight_numerator: ArrayLike | None = None,
        sample_weight_denominator: ArrayLike | None = None,
    ) -> "DensityRatioEstimator":
        """Learn from further rows of both samples, also after :meth:`fit`.

        Where nothing was fitted the first rows decide about bandwidth, scaling and regularisation;
        from then on every batch takes a stochastic gradient step.

        Parameters
        ----------
        X_numerator : array-like or sparse array of shape (n, d)
            Rows drawn from p.
        X_denominator : array-like or sparse array of shape (m, d)
            Rows drawn from q.
        sample_weight_numerator : array-like of shape (n,), optional
            Weights of the rows of p; only their proportions count.
        sample_weight_denominator : array-like of shape (m,), optional
            Weights of the rows of q; only their proportions count.

        Returns
        -------
        self
        """
        first = not hasattr(self, "_model")
        numerator = rows_of(self, X_numerator, reset=first, name="X_numerator")
        denominator = rows_of(self, X_denominator, reset=False, name="X_denominator")
        weights = sample_weights(sample_weight_numerator), sample_weights(sample_weight_denominator)
        samples = numerator, denominator, *weights
        with progress(self.verbose) as observer:
            run: dict[str, Any] = {"n_jobs": self.n_jobs, "observer": observer}
            if first:
                return self._fitted(
                    Ratio.fit(*samples, settings=settings_of(self), stream=True, **run)
                )
            self._model.partial_fit(*samples, **run)
        return self._fitted(self._model)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return ratios, which are positive, in the precision of ``X``.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        rows = self._rows(X)
        found = self._model.ratio(rows, n_jobs=self.n_jobs).astype(rows.dtype, copy=False)
        return in_precision_of(X, found)

    def log_ratio(self, X: ArrayLike) -> NDArray[Any]:
        """Return logarithms of ratios in the precision of ``X``.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        rows = self._rows(X)
        found = self._model.log_ratio(rows, n_jobs=self.n_jobs).astype(rows.dtype, copy=False)
        return in_precision_of(X, found)

    def divergence(
        self,
        X_numerator: ArrayLike | None = None,
        X_denominator: ArrayLike | None = None,
        *,
        kind: str = "kl",
    ) -> float:
        """Return how far p is from q.

        Parameters
        ----------
        X_numerator : array-like or sparse array of shape (n, d), optional
            Rows drawn from p that were not learnt from. Unless rows are given, the estimate is that
            of the fit, at rows that were held out, or that of the last :meth:`partial_fit`, at its
            rows before they were learnt from.
        X_denominator : array-like or sparse array of shape (m, d), optional
            Rows drawn from q that were not learnt from.
        kind : {"kl", "pearson"}, default="kl"
            "kl" is ``E_p log r``, by the bound of Donsker and Varadhan ``E_p f - log E_q exp(f)``;
            "pearson" is ``E_q (r - 1)^2 / 2``, by the bound ``((E_p r)^2 / E_q r^2 - 1) / 2``.

        Returns
        -------
        float
            An estimate, not negative; that of a bound from below, so rather too small than too
            large.
        """
        check_is_fitted(self)
        if not isinstance(kind, str) or kind not in ("kl", "pearson"):
            raise InvalidInput(f"kind = {shown(kind)} is unknown; expected one of kl, pearson")
        if X_numerator is None and X_denominator is None:
            held_out: dict[str, float] | None = self._model.summary()["divergences"]
            if held_out is None:
                raise InvalidInput(
                    "all rows of the stream were learnt from; give rows of both samples"
                )
            return held_out[kind]
        if X_numerator is None or X_denominator is None:
            raise InvalidInput(
                "a divergence takes both X_numerator and X_denominator, or none of them"
            )
        numerator = self._rows(X_numerator, "X_numerator")
        denominator = self._rows(X_denominator, "X_denominator")
        kl, pearson = self._model.divergences(numerator, denominator, n_jobs=self.n_jobs)
        return kl if kind == "kl" else pearson

    def _fitted(self, ratio: Ratio) -> "DensityRatioEstimator":
        """Keep the ratio and show what it is."""
        summary = ratio.summary()
        self._model = ratio
        self.bandwidth_ = summary["bandwidth"]
        self.metric_ = ratio.metric()
        self.__dict__.pop("feature_importances_", None)
        if summary["importances"] is not None:
            self.feature_importances_ = np.array(summary["importances"])
        self.scaling_ = summary["scaling"]
        self.n_blocks_ = summary["blocks"]
        self.history_ = summary["history"]
        self.seed_ = summary["seed"]
        return self
