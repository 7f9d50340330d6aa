"""The estimators that are compared: one small function each, imports inside.

A function takes the `Context` of the run and the settings written in `plan.py`, and returns an
unfitted estimator. Only the measured process calls it, so a peer that is not installed is an
error of its own rows and nobody else's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple


class Context(NamedTuple):
    """What an estimator may need to know about the run."""

    threads: int
    seed: int
    rows: int


Build = Callable[..., Any]
PEERS: dict[str, Build] = {}


def _register(build: Build) -> Build:
    PEERS[build.__name__] = build
    return build


# --- riesz -------------------------------------------------------------------------------------


def _gaussian(gamma: float) -> dict[str, Any]:
    """exp(-gamma |x - x'|^2) in riesz's terms: exp(-|x - x'|^2 / (2 bandwidth^2))."""
    return {"kernel": "gaussian", "bandwidth": 1 / math.sqrt(2 * gamma)}


@_register
def riesz_classifier(run: Context, gamma: float | None = None, **settings: Any) -> Any:
    """`KernelClassifier`; without settings, the default constructor."""
    from riesz import KernelClassifier

    kernel = {} if gamma is None else _gaussian(gamma)
    return KernelClassifier(random_state=run.seed, n_jobs=run.threads, **kernel, **settings)


@_register
def riesz_regressor(run: Context, **settings: Any) -> Any:
    """`KernelRegressor`; without settings, the default constructor."""
    from riesz import KernelRegressor

    return KernelRegressor(random_state=run.seed, n_jobs=run.threads, **settings)


@_register
def riesz_ridge(run: Context, gamma: float, alpha: float, **settings: Any) -> Any:
    """The problem `KernelRidge` solves: the mean loss's ridge is alpha / n."""
    from riesz import KernelRegressor

    return KernelRegressor(
        random_state=run.seed,
        n_jobs=run.threads,
        solver="ridge",
        ridge=alpha / run.rows,
        **_gaussian(gamma),
        **settings,
    )


# --- exact kernel machines ---------------------------------------------------------------------


@_register
def sklearn_svc(run: Context, **settings: Any) -> Any:
    """Stock `SVC` (LIBSVM, one thread by construction), with a kernel cache of 1 GB."""
    from sklearn.svm import SVC

    return SVC(cache_size=1000, **settings)


@_register
def sklearnex_svc(run: Context, **settings: Any) -> Any:
    """`SVC` of scikit-learn-intelex, with a kernel cache of 1 GB."""
    from sklearnex.svm import SVC

    return SVC(cache_size=1000, n_jobs=run.threads, **settings)


@_register
def sklearnex_svr(run: Context, **settings: Any) -> Any:
    """`SVR` of scikit-learn-intelex, with a kernel cache of 1 GB."""
    from sklearnex.svm import SVR

    return SVR(cache_size=1000, n_jobs=run.threads, **settings)


@_register
def kernel_ridge(run: Context, **settings: Any) -> Any:
    """`KernelRidge`, a dense n x n solve."""
    from sklearn.kernel_ridge import KernelRidge

    return KernelRidge(kernel="rbf", **settings)


# --- feature maps with a linear model ----------------------------------------------------------


@_register
def nystroem_ridge(run: Context, gamma: float, components: int, nu: float) -> Any:
    """`Nystroem` + `RidgeClassifier`; alpha = nu n, and no second copy of the features."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline

    return make_pipeline(
        Nystroem(
            gamma=gamma,
            n_components=min(components, run.rows),
            random_state=run.seed,
            n_jobs=run.threads,
        ),
        RidgeClassifier(alpha=nu * run.rows, copy_X=False),
    )


def _random_features(run: Context, gamma: float, components: int) -> Any:
    from sklearn.kernel_approximation import RBFSampler

    return RBFSampler(gamma=gamma, n_components=components, random_state=run.seed)


@_register
def rbf_linear_svc(run: Context, gamma: float, components: int, C: float) -> Any:
    """`RBFSampler` + `LinearSVC`."""
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    linear = LinearSVC(C=C, dual="auto", random_state=run.seed)
    return make_pipeline(_random_features(run, gamma, components), linear)


@_register
def rbf_sgd(run: Context, gamma: float, components: int, **settings: Any) -> Any:
    """`RBFSampler` + `SGDClassifier`."""
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    linear = SGDClassifier(random_state=run.seed, n_jobs=run.threads, **settings)
    return make_pipeline(_random_features(run, gamma, components), linear)


# --- another family, for orientation only ------------------------------------------------------


@_register
def boosting_classifier(run: Context) -> Any:
    """`HistGradientBoostingClassifier` with its defaults."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=run.seed)


@_register
def boosting_regressor(run: Context) -> Any:
    """`HistGradientBoostingRegressor` with its defaults."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(random_state=run.seed)
