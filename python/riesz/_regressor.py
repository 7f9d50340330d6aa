"""Regression."""

import os
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags

from riesz._errors import InvalidInput
from riesz._kernel_machine import Kernel, KernelMachine, loss_name, sample_weights

_Self = TypeVar("_Self", bound="Regression")


class Regression(RegressorMixin, KernelMachine):
    """What the estimators of numbers share: learning, at once or in batches."""

    _targets: tuple[int, ...]

    def fit(
        self: _Self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> _Self:
        """Learn from rows and their targets.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,) or, where several are taken, (n, targets)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        X, y = self._numbers(X, y, reset=True)
        machine = self._learn(X, y, sample_weights(sample_weight), None, streaming=False)
        self._targets = y.shape[1:]
        return self._fitted(machine)

    def partial_fit(
        self: _Self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> _Self:
        """Learn from a further batch, also after :meth:`fit`.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.
        y : array-like of shape (n,) or, where several are taken, (n, targets)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        X, y = self._numbers(X, y, reset=first)
        weights = sample_weights(sample_weight)
        if first:
            machine = self._learn(X, y, weights, None, streaming=True)
            self._targets = y.shape[1:]
        elif y.shape[1:] == self._targets:
            machine = self._learn_more(X, y, weights)
        else:
            raise InvalidInput(f"y has shape {y.shape}, expected {(X.shape[0], *self._targets)}")
        return self._fitted(machine)

    def _numbers(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        return self._data(X, y, np.float32, reset=reset)


class KernelRegressor(MultiOutputMixin, Regression):
    """Regression, on one target or several, by a kernel machine on random features.

    Parameters
    ----------
    loss : str, default="auto"
        "square", which "auto" is too, for the mean; "absolute" for the median; "huber" and
        "epsilon_insensitive" between the two; "poisson" for counts and rates, not negative, whose
        mean is the exponential of the function that is learnt.
    delta : float, default=1.35
        Residuals beyond it count in proportion, not squared; in the units of ``y``, for "huber".
        1.35 times the standard deviation of the noise is 95 % as efficient as "square" where the
        noise is normal.
    epsilon : float, default=0.1
        Residuals below it cost nothing; in the units of ``y``, for "epsilon_insensitive".
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
        row once. "auto" is "block"; "ridge" is for the square loss.
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
    >>> from riesz import KernelRegressor
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.99
    True
    """

    def __init__(
        self,
        *,
        loss: str = "auto",
        delta: float = 1.35,
        epsilon: float = 0.1,
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
        self.delta = delta
        self.epsilon = epsilon

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return predictions in the shape of the targets and the precision of ``X``.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, targets)
            The mean of each row's targets for "square" and "poisson", the median for "absolute".
        """
        X = self._rows(X)
        values = self._machine.predict(X, n_jobs=self.n_jobs).astype(X.dtype, copy=False)
        return values.reshape(-1, *self._targets)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"delta": self.delta, "epsilon": self.epsilon}

    def _note(self) -> dict[str, Any]:
        return super()._note() | {"targets": list(self._targets)}

    def _read_task(
        self, summary: dict[str, Any], class_names: list[str], note: dict[str, Any]
    ) -> None:
        task = summary["task"]
        if "regression" not in task:
            raise InvalidInput(
                "the file holds a classification; read it with KernelClassifier.load"
            )
        if loss_name(summary) == "quantile":
            raise InvalidInput(
                "the file holds quantiles; read it with KernelQuantileRegressor.load"
            )
        several = [task["regression"]] if task["regression"] > 1 else []
        self._targets = tuple(note.get("targets", several))
