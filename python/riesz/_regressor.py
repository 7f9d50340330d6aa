"""Regression."""

import os
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags

from riesz._columns import in_precision_of
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._files import Paths, collected, describe, parts_of
from riesz._kernel_machine import KernelMachine, loss_name
from riesz._rows import sample_weights

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
        X, y = self._numbers(X, y, reset=True, weights=sample_weight)
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
        X, y = self._numbers(X, y, reset=first, weights=sample_weight)
        weights = sample_weights(sample_weight)
        if first:
            machine = self._learn(X, y, weights, None, streaming=True)
            self._targets = y.shape[1:]
        elif y.shape[1:] == self._targets:
            machine = self._learn_more(X, y, weights)
        else:
            raise InvalidInput(f"y has shape {y.shape}, expected {(X.shape[0], *self._targets)}")
        return self._fitted(machine)

    def fit_files(
        self: _Self,
        paths: Paths,
        target: int | str | None = None,
        *,
        memory: int | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> _Self:
        """Learn from data files, which may be larger than memory.

        Files are read in parts. Rows that fit into memory are kept there; others go to a file of
        rows in single precision, from which they are read again and again, and what is learnt is
        the same to the last bit. ``solver="stream"`` without a cache learns from rows as they are
        read, mixed within a part, and keeps none.

        Parameters
        ----------
        paths : path or list of paths
            CSV, TSV, LIBSVM, NumPy (.npy) or Parquet files of one format with the same columns, or
            folders of them.
        target : int or str, optional
            The column to learn, by number counted from 0 or by name; the last unless given.
        memory : int, optional
            Bytes of memory to count with; all there are unless given. Rows that need more than a
            quarter of it are read from disk; a stream has as many features as fit.
        cache : path, optional
            A folder in which the rows are kept, in single precision, to be found the next time. A
            cache of files that have changed is made anew.

        Returns
        -------
        self
        """
        if self.solver == "stream" and cache is None:
            machine = self._stream_files(paths, target, [], memory)
        else:
            rows = collected(paths, target, memory, cache)
            machine = self._learn(rows, rows.numbers(), None, None, streaming=False)
            describe(self, rows.names, rows.shape[1], rows.target, rows.codings)
        self._targets = ()
        return self._fitted(machine)

    def predict_files(self, paths: Paths) -> NDArray[Any]:
        """Return predictions for the rows of data files, which are read part by part.

        Parameters
        ----------
        paths : path or list of paths
            Files with the columns of the fit, by name where they have names, or folders of them.

        Returns
        -------
        ndarray of shape (n,) or (n, targets)
        """
        return np.concatenate([self._answer(part) for part in parts_of(self, paths)])

    def _answer(self, rows: Any) -> NDArray[Any]:
        """Return predictions for rows that were checked."""
        raise NotImplementedError

    def _numbers(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool, weights: ArrayLike | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        return self._with_targets(X, y, np.float32, reset=reset, weights=weights)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelRegressor(MultiOutputMixin, Regression):
    """Regression, on one target or several, by a kernel machine on random features.

    Parameters
    ----------
    loss : str, default="auto"
        $losses_of_numbers
        "square", which "auto" is too, is for the mean; "absolute" for the median; "huber",
        "log_cosh" and "epsilon_insensitive" between the two; "poisson" for counts and rates, not
        negative, whose mean is the exponential of the function that is learnt.
    delta : float, default=1.35
        Residuals beyond it count in proportion, not squared; in the units of ``y``, for "huber" and
        "log_cosh". 1.35 times the standard deviation of the noise is 95 % as efficient as "square"
        (96 % for "log_cosh") where the noise is normal.
    epsilon : float, default=0.1
        Residuals below it cost nothing; in the units of ``y``, for "epsilon_insensitive".
    $kernel
    solver : {"auto", "block", "ridge", "stream"}, default="auto"
        "block" adds blocks of random features until the held-out loss stops falling, "ridge" solves
        the regularised problem on ``max_blocks * block_size`` fixed features (64 blocks unless
        given), "stream" sees every row once. "auto" is "block"; "ridge" is for the square loss.
    ridge : float, optional
        Strength of the penalty ``ridge / 2 * |f|^2`` beside the mean loss; ``KernelRidge(alpha)``
        is ``ridge=alpha / n``.
    $course

    Attributes
    ----------
    $fitted

    Notes
    -----
    $arrays

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import KernelRegressor
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.99
    True
    """

    loss: str = "auto"
    delta: float = 1.35
    epsilon: float = 0.1

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
        return in_precision_of(X, self._answer(self._rows(X)))

    def _answer(self, rows: Any) -> NDArray[Any]:
        values = self._model.predict(rows, n_jobs=self.n_jobs).astype(rows.dtype, copy=False)
        return values.reshape(-1, *self._targets)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags

    def _note(self) -> dict[str, Any]:
        return super()._note() | {"targets": list(self._targets)}

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        summary = model.summary()
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
