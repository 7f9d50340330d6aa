"""Quantile regression."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import d2_pinball_score
from sklearn.utils.validation import column_or_1d

from riesz._errors import InvalidInput
from riesz._kernel_machine import Kernel, loss_name
from riesz._regressor import Regression


class KernelQuantileRegressor(Regression):
    """Quantiles of a target, several at once, by a kernel machine on random features.

    Parameters
    ----------
    quantiles : float or sequence of float, default=(0.05, 0.5, 0.95)
        Levels between 0 and 1, increasing.
    non_crossing : bool, default=True
        Whether predictions of a row are put into increasing order. Quantiles learnt side by side
        may cross where there is little data; in order they are no farther from the true ones.
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
    solver : {"auto", "block", "stream"}, default="auto"
        "block" adds blocks of random features until the held-out loss stops falling, "stream" sees
        every row once. "auto" is "block".
    ridge : float, optional
        Strength of the penalty ``ridge / 2 * |f|^2`` beside the mean loss.
    damping : float, optional
        Damping of each step of the block solver.
    block_size : int, optional
        Random features per block; by the number of rows unless given.
    max_blocks : int, optional
        Most blocks; by default as many as make 131,072 features.
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
    random_state : int, RandomState or None, default=None
        Seed; None draws one and keeps it in ``seed_``.
    n_jobs : int, optional
        Threads, which never change the result: all cores (or ``RAYON_NUM_THREADS``) unless given.
    verbose : int, default=0
        1 for a bar on the standard error, 2 for a line per block.

    Attributes
    ----------
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
    >>> import numpy as np
    >>> from riesz import KernelQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(500, 1))
    >>> y = X[:, 0] + rng.normal(size=500)
    >>> low, middle, high = KernelQuantileRegressor(random_state=0).fit(X, y).predict(X).T
    >>> bool(np.all(low <= high)) and 0.8 < np.mean((low < y) & (y < high)) < 1
    True
    """

    def __init__(
        self,
        *,
        quantiles: float | Sequence[float] = (0.05, 0.5, 0.95),
        non_crossing: bool = True,
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
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
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
        self.quantiles = quantiles
        self.non_crossing = non_crossing

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the quantiles of each row, in the precision of ``X``.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, quantiles), or (n,) where ``quantiles`` is a number
        """
        X = self._rows(X)
        evaluate = self._machine.predict if self.non_crossing else self._machine.decision
        values = evaluate(X, n_jobs=self.n_jobs).astype(X.dtype, copy=False)
        return values[:, 0] if np.ndim(self.quantiles) == 0 else values

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of the pinball loss of constants that is explained, D².

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        float
            The mean over the quantiles; 1 is perfect, 0 what the quantiles of ``y`` reach.
        """
        levels = self._levels()
        columns = self.predict(X).reshape(-1, len(levels)).T
        scores = [
            d2_pinball_score(y, column, sample_weight=sample_weight, alpha=level)
            for level, column in zip(levels, columns, strict=True)
        ]
        return float(np.mean(scores))

    def _levels(self) -> list[float]:
        try:
            levels = np.atleast_1d(np.asarray(self.quantiles, dtype=float))
        except (TypeError, ValueError):
            levels = np.empty((0, 0))
        if levels.ndim != 1:
            raise InvalidInput(f"quantiles = {self.quantiles!r} should be numbers between 0 and 1")
        return [float(level) for level in levels]

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"loss": "quantile", "quantiles": self._levels()}

    def _numbers(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        X, y = super()._numbers(X, y, reset=reset)
        return X, np.ascontiguousarray(column_or_1d(y, warn=True))

    def _note(self) -> dict[str, Any]:
        note = super()._note()
        several = np.ndim(self.quantiles) > 0
        note["parameters"]["quantiles"] = self._levels() if several else float(self.quantiles)
        return note

    def _read_task(
        self, summary: dict[str, Any], class_names: list[str], note: dict[str, Any]
    ) -> None:
        if loss_name(summary) != "quantile":
            raise InvalidInput(
                "the file holds no quantiles; read it with KernelRegressor.load or"
                " KernelClassifier.load"
            )
        self.quantiles = summary["loss"]["quantile"]["levels"]
        self._targets = ()
