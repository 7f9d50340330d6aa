"""Kernel expansions over all rows of small data, and learnt metrics."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

import riesz
from riesz import FitError, KernelClassifier, KernelQuantileRegressor, KernelRegressor

SIGMA = 0.8
GAMMA = 1 / (2 * SIGMA**2)
FIXED = {
    "kernel": "gaussian",
    "bandwidth": SIGMA,
    "scaling": "none",
    "metric": "none",
    "random_state": 0,
}


def _rows(n):
    rng = np.random.default_rng(3)
    return rng.normal(size=(n, 2))


def test_is_kernel_ridge_regression():
    """Mean squares with a penalty in the space of the kernel, around the mean of the targets."""
    X = _rows(150)
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    ridge = 1e-3
    found = KernelRegressor(ridge=ridge, **FIXED).fit(X, y)
    # The penalty counts targets of unit variance.
    peer = KernelRidge(kernel="rbf", gamma=GAMMA, alpha=ridge * len(X)).fit(X, y - y.mean())
    test = _rows(40) * 1.1
    np.testing.assert_allclose(found.predict(test), peer.predict(test) + y.mean(), atol=2e-4)
    assert found.n_blocks_ == 1


def test_is_kernel_logistic_regression():
    """Log-loss on K = L L' is logistic regression on the rows of L."""
    X = _rows(120)
    y = np.where(np.argsort(np.argsort(X[:, 0] * X[:, 1])) < len(X) // 2, 0, 1)
    ridge = 1e-2
    found = KernelClassifier(loss="logistic", ridge=ridge, **FIXED).fit(X, y)
    root = np.linalg.cholesky(rbf_kernel(X, gamma=GAMMA) + 1e-10 * np.eye(len(X)))
    peer = LogisticRegression(
        C=1 / (ridge * len(X)), fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(root, y)
    np.testing.assert_allclose(
        found.predict_proba(X)[:, 1], peer.predict_proba(root)[:, 1], atol=2e-3
    )


def test_metric_finds_columns():
    """Of twenty-five columns five matter."""
    X, y = make_friedman1(500, n_features=25, noise=0.5, random_state=0)
    model = KernelRegressor(random_state=0).fit(X, y)
    plain = KernelRegressor(random_state=0, metric="none").fit(X, y)
    assert model.feature_importances_[:5].sum() > 0.8
    assert model.metric_.shape == (25, 25)
    assert plain.metric_ is None
    assert not hasattr(plain, "feature_importances_")
    X, y = make_friedman1(500, n_features=25, random_state=1)
    assert model.score(X, y) > plain.score(X, y)


@pytest.mark.parametrize("metric", ["auto", "none", "diagonal", "full"])
def test_files_bring_back_the_same(metric, tmp_path):
    """Predictions are those of before, to the bit."""
    X, y = load_iris(return_X_y=True)
    model = KernelClassifier(metric=metric, random_state=0).fit(X, y)
    model.save(tmp_path / "model.riesz")
    again = riesz.load(tmp_path / "model.riesz")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.metric == metric
    assert (again.metric_ is None) == (model.metric_ is None)


def test_threads_change_nothing():
    """The same bits from one thread and from two."""
    X, y = load_iris(return_X_y=True)
    one, two = (KernelClassifier(random_state=0, n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_iris_is_learnt():
    """A hundred and fifty rows are enough, probabilities included."""
    X, y = load_iris(return_X_y=True)
    model = KernelClassifier(random_state=0).fit(X[::2], y[::2])
    assert model.loss_ == "least_squares"
    assert model.score(X[1::2], y[1::2]) >= 0.93
    likelihood = model.predict_proba(X[1::2])[np.arange(75), y[1::2]]
    assert -np.log(likelihood).mean() < 0.3


def _kinds():
    """Twelve kinds of rows, each met with both classes, and how often with the second."""
    rng = np.random.default_rng(0)
    kinds = np.array([[i, j] for i in range(4) for j in range(3)], dtype=float)
    share = rng.permutation(np.linspace(0.1, 0.9, len(kinds)))
    kind = rng.integers(0, len(kinds), 1_200)
    y = (rng.random(len(kind)) < share[kind]).astype(int)
    return kinds, kind, y, np.array([y[kind == k].mean() for k in range(len(kinds))])


@pytest.mark.parametrize("weight", [None, 0.7, "balanced"])
def test_rows_of_several_classes_are_told_apart_by_their_shares(weight):
    """Where rows are met with both classes their shares are what there is to learn.

    Leaving all rows of a kind and class out would ask for the other class.
    """
    kinds, kind, y, seen = _kinds()
    balanced = weight == "balanced"
    model = KernelClassifier(random_state=0, class_weight="balanced" if balanced else None)
    weights = None if weight is None or balanced else np.full(len(y), weight)
    model.fit(kinds[kind], y, sample_weight=weights)
    if balanced:
        seen = seen / y.mean() / (seen / y.mean() + (1 - seen) / (1 - y.mean()))
    # A share of some hundred rows has an error of 0.05.
    assert np.abs(model.predict_proba(kinds)[:, 1] - seen).max() < 0.05
    clear = np.abs(seen - 0.5) > 0.1
    np.testing.assert_array_equal(model.predict(kinds)[clear], (seen > 0.5)[clear])


def test_a_loss_with_a_kink_tells_them_apart_too():
    """Rows left out in parts ask for the other class no more than rows left out one by one."""
    kinds, kind, y, seen = _kinds()
    model = KernelClassifier(loss="hinge", random_state=0).fit(kinds[kind], y)
    clear = np.abs(seen - 0.5) > 0.1
    np.testing.assert_array_equal(model.predict(kinds)[clear], (seen > 0.5)[clear])
    # Of scores ±1 the calibrated probability is about the mean share of the larger class.
    larger = np.maximum(seen, 1 - seen)[clear].mean()
    probabilities = model.predict_proba(kinds)[clear].max(axis=1)
    assert abs(probabilities.mean() - larger) < 0.1


def test_rows_that_cancel_leave_nothing_to_be_rounded_away():
    """Equal rows with opposite targets: f is zero, its coefficients are not."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    for ridge in (None, 0.1):
        model = KernelRegressor(ridge=ridge, random_state=0).fit(np.r_[X, X], np.r_[y, -y])
        assert np.abs(model.predict(X)).max() < 0.05
    model = KernelRegressor(random_state=0).fit(np.repeat(X, 3, 0), np.tile([0.1, 0.2, 0.7], 40))
    np.testing.assert_allclose(model.predict(X), 1 / 3, atol=0.05)


def test_functions_that_single_precision_rounds_away_are_refused():
    """A wide kernel and next to no ridge: large coefficients that cancel."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    with pytest.raises(FitError, match="raise ridge or lower bandwidth"):
        KernelRegressor(ridge=1e-12, bandwidth=50.0).fit(X, y)
    assert np.isfinite(KernelRegressor(bandwidth=50.0).fit(X, y).predict(X)).all()


def test_quantiles_cover():
    """Quantiles of small data leave their share of new rows below."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1_400, 1))
    y = np.sin(3 * X[:, 0]) + (0.2 + 0.3 * np.abs(X[:, 0])) * rng.normal(size=len(X))
    model = KernelQuantileRegressor(quantiles=(0.1, 0.9), random_state=0).fit(X[:400], y[:400])
    low, high = model.predict(X[400:]).T
    assert abs(np.mean(y[400:] < low) - 0.1) < 0.04
    assert abs(np.mean(y[400:] < high) - 0.9) < 0.04


def test_bad_metric_is_named():
    """An error says what there is."""
    X, y = load_iris(return_X_y=True)
    with pytest.raises(riesz.InvalidInput, match=r"metric.*diagonal"):
        KernelClassifier(metric="mahalanobis").fit(X, y)
