"""The same problem solved by scikit-learn."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from riesz import KernelClassifier, KernelRegressor


@pytest.mark.parametrize("alpha", [1.0, 0.01])
@pytest.mark.parametrize(("kernel", "theirs"), [("gaussian", "rbf"), ("laplacian", "laplacian")])
def test_ridge_approaches_kernel_ridge_like_the_root_of_the_features(alpha, kernel, theirs):
    rng = np.random.default_rng(1)
    n, gamma = 300, 0.25
    X, X_test = rng.normal(size=(n, 4)), rng.normal(size=(200, 4))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    y -= y.mean()  # KernelRidge has no intercept
    expected = KernelRidge(alpha=alpha, kernel=theirs, gamma=gamma).fit(X, y).predict(X_test)
    bandwidth = 1 / np.sqrt(2 * gamma) if kernel == "gaussian" else 1 / gamma

    def error(block_size, seed):
        machine = KernelRegressor(
            solver="ridge",
            kernel=kernel,
            bandwidth=bandwidth,
            scaling="none",
            ridge=alpha / n,
            block_size=block_size,
            max_blocks=16,
            random_state=seed,
        )
        found = machine.fit(X, y).predict(X_test)
        return np.sqrt(np.mean((found - expected) ** 2)) / expected.std()

    few, many = (np.mean([error(size, seed) for seed in range(4)]) for size in (128, 2048))
    rate = np.log(few / many) / np.log(16)
    assert many < 0.05, f"relative error {many:.3f} with 32,768 features"
    assert 0.35 < rate < 0.65, (
        f"the error falls as the features to the -{rate:.2f}, theory says -0.5"
    )


def test_ridge_means_the_same_to_block_descent():
    """Sweeps converge to the ridge regression on the same features, that of KernelRidge."""
    rng = np.random.default_rng(4)
    n, alpha, gamma = 300, 3.0, 0.25
    X, X_test = rng.normal(size=(n, 3)), rng.normal(size=(200, 3))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    y -= y.mean()
    settings = {
        "bandwidth": 1 / np.sqrt(2 * gamma),
        "scaling": "none",
        "ridge": alpha / n,
        "block_size": 1024,
        "max_blocks": 4,
        "random_state": 0,
    }
    ridge = KernelRegressor(solver="ridge", **settings).fit(X, y).predict(X_test)
    block = KernelRegressor(
        solver="block", early_stopping=False, damping=0.01, sweeps=40, **settings
    )
    found = block.fit(X, y).predict(X_test)
    expected = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(X, y).predict(X_test)

    def distance(a, b):
        return np.sqrt(np.mean((a - b) ** 2)) / expected.std()

    # 4,096 features stand for the kernel up to about one part in the root of them, times a few.
    assert distance(found, ridge) < 0.01
    assert distance(ridge, expected) < 0.1
    assert distance(found, expected) < 0.1
    # The norm of four times the kernel would be as much as four times the penalty off.
    other = KernelRidge(alpha=alpha / 4, kernel="rbf", gamma=gamma).fit(X, y).predict(X_test)
    assert distance(found, other) > 2 * distance(found, expected)


def test_targets_of_several_columns_are_fitted_as_each_alone():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 3))
    Y = np.column_stack([np.sin(X[:, 0]), 100 + 5 * X[:, 1] * X[:, 2]])
    machine = KernelRegressor(
        solver="ridge", bandwidth=2.0, ridge=1e-4, block_size=256, random_state=0
    )
    together = machine.fit(X, Y).predict(X)
    alone = np.column_stack([machine.fit(X, y).predict(X) for y in Y.T])
    assert together.shape == Y.shape
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-3)


def test_digits_are_read_as_well_as_by_a_support_vector_machine(digits):
    X, y, X_test, y_test = digits
    ours = KernelClassifier(random_state=0).fit(X, y).score(X_test, y_test)
    theirs = SVC().fit(X, y).score(X_test, y_test)
    assert ours > theirs - 0.01, (ours, theirs)


@pytest.mark.parametrize("n", [500, 3000])
def test_regression_is_as_good_as_support_vectors(n):
    X, y = make_friedman1(n + 1000, noise=0.5, random_state=0)
    ours = KernelRegressor(random_state=0).fit(X[:n], y[:n]).score(X[n:], y[n:])
    peer = make_pipeline(StandardScaler(), SVR(C=10)).fit(X[:n], y[:n])
    assert ours > peer.score(X[n:], y[n:])


# Not the hinge: its scores gather at the margins whatever the probability.
@pytest.mark.parametrize("loss", ["softmax", "logistic", "squared_hinge"])
def test_probabilities_are_calibrated(loss):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, size=(6000, 2))
    p = 1 / (1 + np.exp(-3 * np.sin(2 * X[:, 0]) - X[:, 1]))
    y = rng.uniform(size=len(X)) < p
    machine = KernelClassifier(loss=loss, max_blocks=16, random_state=0).fit(X[:4000], y[:4000])
    found = machine.predict_proba(X[4000:])
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    bins = np.digitize(found[:, 1], [0.25, 0.5, 0.75])
    for b in range(4):
        assert abs(found[bins == b, 1].mean() - p[4000:][bins == b].mean()) < 0.08, b
