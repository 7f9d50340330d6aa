"""Variances of a Gaussian process with any kernel."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from riesz._arguments import count, named, number, positive, seed_of, shown
from riesz._columns import validate_data
from riesz._errors import InvalidInput
from riesz._riesz import variances_by_operator, variances_by_ridge
from riesz._rows import ROWS


class Process(BaseEstimator):
    """What remembers the columns of X for X_test."""


def posterior_variances(
    X: ArrayLike,
    X_test: ArrayLike,
    *,
    noise: float,
    kernel: str = "gaussian",
    bandwidth: float = 1.0,
    method: str = "ridge",
    n_blocks: int = 32,
    block_size: int = 256,
    batch_size: int = 64,
    step: float = 60.0,
    delay: float = 20.0,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> NDArray[np.float64]:
    """Return what noisy values at some rows leave of the variance of a function at others.

    The function is a Gaussian process whose covariance is any of the library's kernels, which need
    not be one at equal rows. The answer is ``k(x, x) - k_x @ inv(K + noise * I) @ k_x`` up to the
    error of random features: both methods never form ``K`` of many rows.
    :class:`GaussianProcessRegressor` computes it exactly, for the Gaussian kernel.

    Parameters
    ----------
    X : array-like or sparse array of shape (n, d)
        Rows where the function was observed.
    X_test : array-like or sparse array of shape (m, d)
        Rows where the variance is wanted.
    noise : float
        Variance of the noise, in the units of the kernel.
    kernel : str, default="gaussian"
        A kernel by name, as :class:`RandomFeatures` has them; "2.5 * gaussian" is one with variance
        2.5.
    bandwidth : float, default=1.0
        Width of the kernel.
    method : {"ridge", "operator"}, default="ridge"
        "ridge" solves one ridge regression for each test row, all of them together, on fixed
        features. "operator" takes one step of doubly stochastic gradients for each block, towards
        the operator that gives the variance at any row; its cost grows with the square of their
        number, and so does its memory. It is there for what it is, not for speed.
    n_blocks, block_size : int, default=32, 256
        Blocks of features, and features of a block. The error falls with the root of their product
        ("ridge") or of the number of blocks ("operator").
    batch_size : int, default=64
        Rows of a step, of "operator" alone.
    step, delay : float, default=60.0, 20.0
        Step ``t`` of "operator" has length ``step / (t + delay)``, divided by the mean of
        ``k(x, x)``.
    random_state : int, RandomState or None, default=None
        Equal integers give equal numbers.
    n_jobs : int, optional
        Threads, which never change the result; -1 is all cores, and so is None, but for
        ``RAYON_NUM_THREADS`` or ``OMP_NUM_THREADS`` where they are set and for workers of joblib,
        which share the cores.

    Returns
    -------
    ndarray of shape (m,)
        Variances of the function, without the noise.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import posterior_variances
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> near, far = posterior_variances(X, [[0.0], [9.0]], noise=0.1, random_state=0)
    >>> bool(near < 0.2 and abs(far - 1) < 0.1)
    True
    """
    columns = Process()
    with named("X"):
        rows = validate_data(columns, X, reset=True, **ROWS)
    with named("X_test"):
        test = validate_data(columns, X_test, reset=False, **ROWS)
    settings: dict[str, Any] = {
        "kernel": kernel,
        "bandwidth": positive("bandwidth", bandwidth),
        "noise": positive("noise", noise),
        "n_blocks": count("n_blocks", n_blocks, least=1),
        "block_size": count("block_size", block_size, least=1),
        "seed": seed_of(random_state),
        "n_jobs": n_jobs,
    }
    schedule: dict[str, Any] = {
        "batch_size": count("batch_size", batch_size, least=1),
        "step": positive("step", step),
        "delay": number("delay", delay),
    }
    if isinstance(method, str) and method == "ridge":
        return variances_by_ridge(rows, test, **settings)
    if isinstance(method, str) and method == "operator":
        return variances_by_operator(rows, test, **settings, **schedule)
    raise InvalidInput(f"method = {shown(method)} is unknown; expected one of ridge, operator")
