"""Who competes: each takes training rows, targets and test rows and returns predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

try:  # The same machines, several times as fast.
    from sklearnex.svm import SVC, SVR
except ImportError:
    from sklearn.svm import SVC, SVR

Array = NDArray[Any]
Peer = Callable[[Array, Array, Array, str], Array]
MOST_TUNED = 1_500  # rows on which an SVM is tuned
MOST_FITTED = 60_000  # rows to which it is fitted: of covtype's 522,911 it would take days


def riesz(X: Array, y: Array, X_test: Array, task: str) -> Array:
    """The default constructor."""
    from riesz import KernelClassifier, KernelRegressor

    kind = KernelClassifier if task == "classification" else KernelRegressor
    return np.asarray(kind(random_state=0).fit(X, y).predict(X_test))


def blocks(X: Array, y: Array, X_test: Array, task: str) -> Array:
    """riesz by blocks of random features, whatever the number of rows."""
    from riesz import KernelClassifier, KernelRegressor

    kind = KernelClassifier if task == "classification" else KernelRegressor
    return np.asarray(kind(solver="block", random_state=0).fit(X, y).predict(X_test))


def svm(X: Array, y: Array, X_test: Array, task: str) -> Array:
    """A support vector machine, tuned by five folds on standardised columns.

    Pixels, indicators and whatever else lies in [-1, 1] may also stay as they are.
    """
    classes = task == "classification"
    machine = SVC() if classes else SVR()
    name = type(machine).__name__.lower()
    grid: dict[str, Any] = {
        f"{name}__C": 10.0 ** np.arange(-1, 4),
        f"{name}__gamma": 10.0 ** np.arange(-3.5, 0.6, 0.5),
    }
    if np.abs(X).max() <= 1:
        grid["standardscaler"] = [StandardScaler(), "passthrough"]
    if not classes:
        grid[f"{name}__epsilon"] = np.array([0.02, 0.1])
    score = "accuracy" if classes else "neg_mean_squared_error"
    search = GridSearchCV(make_pipeline(StandardScaler(), machine), grid, scoring=score, cv=5)
    part = np.random.default_rng(0).permutation(len(X))[:MOST_TUNED]
    best = search.fit(X[part], y[part]).best_estimator_
    most = np.random.default_rng(1).permutation(len(X))[:MOST_FITTED]
    return np.asarray(best.fit(X[most], y[most]).predict(X_test))


def boosting(X: Array, y: Array, X_test: Array, task: str) -> Array:
    """scikit-learn's histogram gradient boosting."""
    classes = task == "classification"
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return np.asarray(kind(random_state=0).fit(X, y).predict(X_test))


def lightgbm(X: Array, y: Array, X_test: Array, task: str) -> Array:
    """LightGBM as it comes."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMClassifier if task == "classification" else LGBMRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(kind(random_state=0, verbose=-1).fit(X, y).predict(X_test))


def xrfm(X: Array, y: Array, X_test: Array, task: str) -> Array:
    """xRFM as it comes, on standardised columns; it validates on a fifth of the rows."""
    import torch
    from xrfm import xRFM

    torch.manual_seed(0)
    classes = task == "classification"
    scaler = StandardScaler().fit(X)
    order = np.random.default_rng(0).permutation(len(X))
    held, train = np.split(order, [len(X) // 5])
    rows = lambda part: torch.tensor(scaler.transform(part), dtype=torch.float32)  # noqa: E731
    if classes:
        names, codes = np.unique(y, return_inverse=True)
        targets = torch.tensor(codes)
    else:
        targets = torch.tensor(y, dtype=torch.float32)[:, None]
    model = xRFM(device="cpu", tuning_metric="accuracy" if classes else "mse", verbose=False)
    model.fit(rows(X[train]), targets[train], rows(X[held]), targets[held])
    answer = np.asarray(model.predict(rows(X_test))).squeeze()
    return names[answer.astype(int)] if classes else answer


PEERS: dict[str, Peer] = {
    "riesz": riesz,
    "riesz, blocks": blocks,
    "svm": svm,
    "boosting": boosting,
    "lightgbm": lightgbm,
    "xrfm": xrfm,
}
