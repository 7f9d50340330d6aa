"""Regression."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from riesz._errors import InvalidInput
from riesz._kernel_machine import KernelMachine, sample_weights


class KernelRegressor(MultiOutputMixin, RegressorMixin, KernelMachine):
    """Regression, on one target or several, by a kernel machine on random features.

    Parameters
    ----------
    loss : str, default="auto"
        "square", which "auto" is too.
    kernel : str, default="gaussian"
        A kernel by name, with its parameters in parentheses, or a sum or product of them; see
        :class:`riesz.RandomFeatures` for the list.
        ``exp(-|x - x'|^2 / 2 bandwidth^2)`` or ``exp(-|x - x'|_1 / bandwidth)``.
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
        row once. "auto" is "block".
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
    Predictions are computed in single precision and returned in the precision of ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import KernelRegressor
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.99
    True
    """

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "KernelRegressor":
        """Learn from rows and their targets.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, targets)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        X, y = self._data(X, y, np.float32, reset=True)
        machine = self._learn(X, y, sample_weights(sample_weight), None, streaming=False)
        self._targets = y.shape[1:]
        return self._fitted(machine)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "KernelRegressor":
        """Learn from a further batch, also after :meth:`fit`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, targets)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        X, y = self._data(X, y, np.float32, reset=first)
        weights = sample_weights(sample_weight)
        if first:
            machine = self._learn(X, y, weights, None, streaming=True)
            self._targets = y.shape[1:]
        elif y.shape[1:] == self._targets:
            machine = self._learn_more(X, y, weights)
        else:
            raise InvalidInput(f"y has shape {y.shape}, expected {(len(X), *self._targets)}")
        return self._fitted(machine)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return predictions in the shape of the targets and the precision of ``X``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, targets)
        """
        X = self._rows(X)
        values = self._machine.decision(X, n_jobs=self.n_jobs).astype(X.dtype, copy=False)
        return values.reshape(-1, *self._targets)

    def _note(self) -> dict[str, Any]:
        return super()._note() | {"targets": list(self._targets)}

    def _read_task(
        self, task: dict[str, int], class_names: list[str], note: dict[str, Any]
    ) -> None:
        if "regression" not in task:
            raise InvalidInput(
                "the file holds a classification; read it with KernelClassifier.load"
            )
        several = [task["regression"]] if task["regression"] > 1 else []
        self._targets = tuple(note.get("targets", several))
