"""Random features against closed forms and scikit-learn's kernels."""

import numpy as np
import pytest
from sklearn.metrics import pairwise
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from riesz import InvalidInput, RandomFeatures

X = np.random.default_rng(0).uniform(0.05, 1.0, (30, 6))


def gram(kernel, bandwidth, features=16_384):
    phi = RandomFeatures(
        kernel=kernel, bandwidth=bandwidth, n_components=features, random_state=0
    ).fit_transform(X)
    return phi.astype(float) @ phi.T.astype(float)


@pytest.mark.parametrize(
    ("kernel", "bandwidth", "exact", "spread"),
    [
        ("gaussian", 1.0, pairwise.rbf_kernel(X, gamma=0.5), 1.0),
        ("laplacian", 2.0, pairwise.laplacian_kernel(X, gamma=0.5), 1.0),
        ("polynomial(2, 1)", 1.0, pairwise.polynomial_kernel(X, degree=2, gamma=1, coef0=1), 30.0),
        (
            "0.5 * gaussian + 2 * polynomial(1, 0)",
            1.0,
            0.5 * pairwise.rbf_kernel(X, gamma=0.5) + 2 * X @ X.T,
            9.0,
        ),
        ("hellinger", 1.0, np.sqrt(X) @ np.sqrt(X).T, 1e-4),
    ],
)
def test_inner_products_are_the_kernel(kernel, bandwidth, exact, spread):
    # A product of two features has a standard deviation below `spread`; five of them, 465 pairs.
    assert np.abs(gram(kernel, bandwidth) - exact).max() < 5 * spread / np.sqrt(16_384)


def test_the_same_seed_gives_the_same_features():
    first = RandomFeatures(random_state=3, n_components=64).fit(X)
    assert np.array_equal(first.transform(X), first.transform(X))
    again = RandomFeatures(random_state=3, n_components=64).fit(X)
    assert np.array_equal(first.transform(X[:5]), again.transform(X)[:5])
    other = RandomFeatures(random_state=4, n_components=64).fit(X)
    assert not np.array_equal(first.transform(X), other.transform(X))


def test_any_number_of_features():
    few = RandomFeatures(random_state=0, n_components=7).fit_transform(X)
    assert few.shape == (30, 7)
    # Each squared feature is at most 2/7, and their mean over rows and seeds is 1/7.
    squares = [
        (RandomFeatures(random_state=s, n_components=7).fit_transform(X) ** 2).sum(axis=1).mean()
        for s in range(200)
    ]
    assert abs(np.mean(squares) - 1) < 5 * np.std(squares) / np.sqrt(200)


def test_a_linear_model_learns_a_circle_from_them():
    points = np.random.default_rng(1).uniform(-1, 1, (2000, 2))
    inside = np.hypot(*points.T) < 0.7
    pipeline = make_pipeline(RandomFeatures(random_state=0, n_components=256), LinearSVC(C=10))
    assert pipeline.fit(points[:1000], inside[:1000]).score(points[1000:], inside[1000:]) > 0.97


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "gauss"}, "expected one of gaussian"),
        ({"kernel": "matern(-1)"}, "smoothness of matern = -1"),
        ({"bandwidth": -1.0}, "bandwidth = -1"),
        ({"bandwidth": None}, "bandwidth = None should be"),
        ({"n_components": 0}, "n_components = 0"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(InvalidInput, match=message):
        RandomFeatures(**settings).fit(X)


def test_values_outside_the_domain_are_named():
    histogram = RandomFeatures(kernel="chi_squared", random_state=0).fit(X)
    with pytest.raises(InvalidInput, match="column 2 has -1 at row 0"):
        histogram.transform([[0.5, 0.5, -1.0, 0.5, 0.5, 0.5]])
