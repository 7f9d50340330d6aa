"""Kernel densities against scikit-learn's, SciPy's and closed forms."""

import pickle

import numpy as np
import pytest
from scipy.stats import gaussian_kde, kstest, norm
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity as Reference

import riesz
from riesz import InvalidInput, KernelDensity

KERNELS = "gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine"


def rows(n, d, seed=0):
    """Return two clusters, one of them narrow."""
    rng = np.random.default_rng(seed)
    scale = np.where(rng.random((n, 1)) < 0.3, 0.2, 1.0)
    return rng.normal(size=(n, d)) * scale + 2.0 * (scale < 1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_agrees_with_scikit_learn(kernel, d):
    X, queries = rows(700, d), rows(150, d, seed=1)
    weights = np.random.default_rng(2).exponential(size=len(X))
    for sample_weight in (None, weights):
        ours = KernelDensity(kernel=kernel, bandwidth=0.9).fit(X, sample_weight=sample_weight)
        theirs = Reference(kernel=kernel, bandwidth=0.9).fit(X, sample_weight=sample_weight)
        expected = theirs.score_samples(queries)
        if kernel == "cosine" and d == 2:
            # In even dimensions scikit-learn's (1.9) does not integrate to one: its norm is
            # 2 pi (2/pi) here, not 2 pi (2/pi - 4/pi^2).
            expected -= np.log(1 - 2 / np.pi)
        # Where a density is zero, theirs has the rounding of a difference.
        found, expected = ours.score_samples(queries), np.where(expected < -30, -np.inf, expected)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("rule", ["scott", "silverman"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_rules_are_those_of_scikit_learn_and_scipy(rule, d):
    X, queries = rows(900, d), rows(100, d, seed=1)
    weights = np.random.default_rng(2).exponential(size=len(X))
    ours = KernelDensity(bandwidth=rule).fit(X, sample_weight=weights)
    theirs = Reference(bandwidth=rule).fit(X, sample_weight=weights)
    assert ours.bandwidth_ == pytest.approx(theirs.bandwidth_, rel=1e-14)
    np.testing.assert_allclose(
        ours.score_samples(queries), theirs.score_samples(queries), rtol=0, atol=1e-5
    )
    shaped = KernelDensity(bandwidth=rule, shape="covariance").fit(X, sample_weight=weights)
    scipy = gaussian_kde(X.T, bw_method=rule, weights=weights)
    assert shaped.bandwidth_ == pytest.approx(scipy.factor, rel=1e-12)
    np.testing.assert_allclose(
        shaped.score_samples(queries), scipy.logpdf(queries.T), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_densities_integrate_to_one(kernel):
    steps = np.linspace(-16, 16, 401)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    density = KernelDensity(kernel=kernel, bandwidth=1.3).fit([[0.1, 0.2], [-0.5, 0.3]])
    mass = np.exp(density.score_samples(grid)).sum() * (steps[1] - steps[0]) ** 2
    assert mass == pytest.approx(1, abs=0.01 if kernel == "tophat" else 1e-3)


def test_a_number_is_a_factor_of_the_covariance():
    X = rows(400, 3) @ np.array([[2.0, 0.3, 0.0], [0.0, 0.1, 1.0], [0.0, 0.0, 5.0]])
    ours = KernelDensity(bandwidth=0.4, shape="covariance").fit(X).score_samples(X)
    np.testing.assert_allclose(ours, gaussian_kde(X.T, bw_method=0.4).logpdf(X.T), atol=1e-5)


def test_double_precision_on_demand():
    X = rows(2_000, 2)
    exact = Reference(bandwidth=0.1).fit(X).score_samples(X)
    ours = KernelDensity(bandwidth=0.1, rtol=0).fit(X).score_samples(X)
    np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rtol", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_errors_are_within_the_tolerance(rtol, d):
    X, queries = rows(6_000, d), rows(3_000, d, seed=1)
    exact = KernelDensity(bandwidth=0.15, rtol=0).fit(X).score_samples(queries)
    ours = KernelDensity(bandwidth=0.15, rtol=rtol).fit(X).score_samples(queries)
    error = np.abs(np.expm1(ours - exact))
    assert error.max() < rtol + 1e-5  # what the docstring says of single precision
    assert np.median(error) < rtol / 2 + 5e-7


def test_an_absolute_tolerance_concerns_small_densities():
    X = rows(5_000, 2)
    queries = 3 * rows(1_000, 2, seed=1)
    exact = np.exp(KernelDensity(bandwidth=0.1, rtol=0).fit(X).score_samples(queries))
    ours = np.exp(KernelDensity(bandwidth=0.1, atol=1e-4).fit(X).score_samples(queries))
    assert np.abs(ours - exact).max() < 1.1e-4


def test_far_queries_have_finite_logarithms():
    X = rows(1_000, 2)
    queries = np.array([[1e3, -2e3], [40.0, 0.0]])
    log_density = KernelDensity(bandwidth=0.1).fit(X).score_samples(queries)
    exponents = -0.5 * ((queries[:, None] - X) ** 2).sum(-1) / 0.01
    most = exponents.max(1)
    expected = most + np.log(np.exp(exponents - most[:, None]).sum(1))
    expected -= np.log(1_000 * 2 * np.pi * 0.01)
    np.testing.assert_allclose(log_density, expected, rtol=1e-12, atol=1e-5)
    assert KernelDensity(kernel="tophat").fit(X).score_samples(queries)[0] == -np.inf


def test_threads_do_not_change_a_bit():
    for d in (1, 2, 4):
        X, queries = rows(3_000, d), rows(2_500, d, seed=1)
        one, two = (
            KernelDensity(bandwidth=0.1, n_jobs=jobs).fit(X).score_samples(queries)
            for jobs in (1, 2)
        )
        assert np.array_equal(one, two)


def test_score_is_the_sum_and_chooses_a_bandwidth():
    X = rows(500, 1)
    density = KernelDensity(bandwidth=0.3).fit(X)
    assert density.score(X) == pytest.approx(density.score_samples(X).sum())
    grid = {"bandwidth": [0.01, 0.2, 5.0]}
    assert GridSearchCV(KernelDensity(), grid).fit(X).best_params_ == {"bandwidth": 0.2}


def test_samples_have_the_density():
    # The distribution function of the density is a mixture of normals; Kolmogorov's test at 1e-4.
    X, weights = np.array([[-1.0], [0.0], [3.0]]), [1.0, 0.0, 3.0]
    density = KernelDensity(bandwidth=0.5).fit(X, sample_weight=weights)
    drawn = density.sample(4_000, random_state=1)
    assert np.array_equal(drawn, density.sample(4_000, random_state=1))
    mixture = lambda x: 0.25 * norm.cdf(x, -1, 0.5) + 0.75 * norm.cdf(x, 3, 0.5)  # noqa: E731
    assert kstest(drawn[:, 0], mixture).pvalue > 1e-4

    ball = KernelDensity(bandwidth=2.0, kernel="tophat").fit(np.zeros((1, 3))).sample(4_000, 0)
    radius = np.linalg.norm(ball, axis=1)
    assert kstest(radius, lambda r: (r / 2) ** 3).pvalue > 1e-4

    X = rows(2_000, 2) @ np.array([[1.0, 0.9], [0.0, 0.1]])
    drawn = KernelDensity(bandwidth="scott", shape="covariance").fit(X).sample(50_000, 0)
    widened = np.cov(X.T) * (1 + gaussian_kde(X.T).factor ** 2)
    np.testing.assert_allclose(np.cov(drawn.T), widened, rtol=0.05)


def test_saving(tmp_path):
    X = rows(300, 2)
    density = KernelDensity(bandwidth="silverman", shape="covariance").fit(
        X, sample_weight=X[:, 0] ** 2
    )
    density.save(tmp_path / "density.riesz")
    expected = density.score_samples(X)
    for copy in (
        KernelDensity.load(tmp_path / "density.riesz"),
        riesz.load(tmp_path / "density.riesz"),
        pickle.loads(pickle.dumps(density)),
    ):
        assert isinstance(copy, KernelDensity)
        assert copy.get_params() == density.get_params()
        assert np.array_equal(copy.score_samples(X), expected)
    with pytest.raises(InvalidInput, match="holds a kernel density, expected a"):
        riesz.DensityRatioEstimator.load(tmp_path / "density.riesz")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "round"}, 'kernel = "round" is unknown; expected one of gaussian, tophat'),
        ({"kernel": 3}, "kernel = 3 is unknown"),
        ({"bandwidth": "wide"}, 'bandwidth = "wide" is unknown; expected one of scott, silverman'),
        ({"bandwidth": 0.0}, "bandwidth = 0 is outside"),
        ({"bandwidth": -1}, "bandwidth = -1 is outside"),
        ({"rtol": -1e-3}, "rtol = -0.001 is outside"),
        ({"atol": np.nan}, "atol = NaN is outside"),
        ({"shape": "square"}, 'shape = "square" is unknown; expected one of isotropic, covariance'),
    ],
)
def test_settings_are_refused_by_name(settings, message):
    with pytest.raises(InvalidInput, match=message):
        KernelDensity(**settings).fit(rows(10, 2))


def test_rows_and_weights_are_refused_with_a_reason():
    X = rows(10, 2)
    with pytest.raises(ValueError, match="NaN at row 3, column 1"):
        KernelDensity().fit(np.where(np.arange(20).reshape(10, 2) == 7, np.nan, X))
    with pytest.raises(InvalidInput, match="sample_weight has 9 rows, expected 10"):
        KernelDensity().fit(X, sample_weight=np.ones(9))
    with pytest.raises(InvalidInput, match="sample_weight = -1 is outside"):
        KernelDensity().fit(X, sample_weight=np.r_[-1.0, np.ones(9)])
    with pytest.raises(InvalidInput, match="all zero"):
        KernelDensity().fit(X, sample_weight=np.zeros(10))
    with pytest.raises(InvalidInput, match="covariance of X is singular"):
        KernelDensity(shape="covariance").fit(np.c_[X, X[:, 0]])
    with pytest.raises(InvalidInput, match="only densities of gaussian and tophat kernels"):
        KernelDensity(kernel="cosine").fit(X).sample(3)
    with pytest.raises(ValueError, match="features"):
        KernelDensity().fit(X).score_samples(rows(10, 3))
