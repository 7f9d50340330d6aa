"""Gaussian processes beside those of scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from riesz import GaussianProcessRegressor, InvalidInput, posterior_variances

SCALES = np.array([0.8, 1.5, 3.0])
SETTLED = {"signal": 1.7, "noise": 0.04, "length_scales": SCALES}


@pytest.fixture(scope="module")
def data():
    """Rows, targets of mean zero (scikit-learn has no constant), and rows to predict at."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.2 * rng.normal(size=300)
    return X, y - y.mean(), rng.uniform(-3, 3, size=(50, 3))


@pytest.fixture(scope="module")
def peer(data):
    kernel = ConstantKernel(1.7) * RBF(SCALES) + WhiteKernel(0.04)
    return Peer(kernel, optimizer=None, alpha=1e-300).fit(data[0], data[1])


def test_the_posterior_is_that_of_scikit_learn(data, peer):
    X, y, X_test = data
    process = GaussianProcessRegressor(**SETTLED).fit(X, y)
    assert process.approximation_ == "exact"
    mean, std = process.predict(X_test, return_std=True)
    their_mean, their_std = peer.predict(X_test, return_std=True)
    np.testing.assert_allclose(process.predict(X_test), their_mean, atol=1e-9)
    np.testing.assert_allclose(mean, their_mean, atol=1e-9)
    np.testing.assert_allclose(std, their_std, atol=1e-9)
    mean, cov = process.predict(X_test, return_cov=True)
    np.testing.assert_allclose(cov, peer.predict(X_test, return_cov=True)[1], atol=1e-9)
    np.testing.assert_allclose(
        process.log_marginal_likelihood_, peer.log_marginal_likelihood_value_, rtol=1e-10
    )
    latent = process.predict(X_test, return_std=True, latent=True)[1]
    np.testing.assert_allclose(std**2 - latent**2, 0.04, atol=1e-12)


@pytest.mark.parametrize("approximation", ["exact", "inducing"])
def test_samples_have_the_moments_of_the_posterior(data, approximation):
    X, y, X_test = data
    process = GaussianProcessRegressor(**SETTLED, approximation=approximation).fit(X, y)
    count = 4000
    for latent in (False, True):
        mean, cov = process.predict(X_test[:10], return_cov=True, latent=latent)
        samples = process.sample_y(X_test[:10], count, random_state=1, latent=latent)
        assert samples.shape == (10, count)
        errors = samples.mean(axis=1) - mean
        assert np.all(np.abs(errors) < 4.5 * np.sqrt(np.diag(cov) / count))
        variances = np.diag(cov)
        spread = np.sqrt((np.outer(variances, variances) + cov**2) / count)
        assert np.all(np.abs(np.cov(samples) - cov) < 4.5 * spread)
    again = process.sample_y(X_test[:10], 3, random_state=1)
    np.testing.assert_array_equal(again, process.sample_y(X_test[:10], 3, random_state=1))


def test_the_likelihood_reached_is_that_of_scikit_learn(data):
    X, y, X_test = data
    process = GaussianProcessRegressor(random_state=0).fit(X, y)
    kernel = ConstantKernel(1.0) * RBF([1.0] * 3) + WhiteKernel(0.1)
    peer = Peer(kernel, n_restarts_optimizer=0).fit(X, y)
    assert process.log_marginal_likelihood_ > peer.log_marginal_likelihood_value_ - 0.05
    np.testing.assert_allclose(process.noise_, 0.04, rtol=0.4)
    np.testing.assert_allclose(
        process.predict(X_test), peer.predict(X_test), atol=0.1 * np.abs(y).max()
    )


def test_what_is_given_is_kept(data):
    X, y, _ = data
    process = GaussianProcessRegressor(noise=0.3, length_scales=2.0, random_state=0).fit(X, y)
    assert process.noise_ == 0.3
    assert process.length_scales_.tolist() == [2.0, 2.0, 2.0]
    assert process.bandwidth_ == pytest.approx(2.0)
    assert process.signal_ > 0


def test_intervals_cover_what_they_promise():
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, size=(3000, 2))
    y = 10 + np.sin(3 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=3000)
    for approximation in ("exact", "inducing"):
        process = GaussianProcessRegressor(
            approximation=approximation, learning_rows=500, inducing=64, random_state=0
        ).fit(X[:1500], y[:1500])
        mean, std = process.predict(X[1500:], return_std=True)
        covered = np.mean(np.abs(y[1500:] - mean) < 1.96 * std)
        # A share of 95 % of 1,500 has a standard error of 0.6 %.
        assert 0.925 < covered < 0.975, (approximation, covered)
        assert process.score(X[1500:], y[1500:]) > 0.9


@pytest.mark.parametrize("approximation", ["exact", "inducing"])
def test_more_rows_are_conditioned_on(data, approximation):
    X, y, X_test = data
    settings = SETTLED | {"approximation": approximation, "random_state": 0}
    y = y.copy()
    y[:150] -= y[:150].mean()
    y[150:] -= y[150:].mean()
    whole = GaussianProcessRegressor(**settings).fit(X, y)
    parts = GaussianProcessRegressor(**settings).partial_fit(X[:150], y[:150])
    parts.partial_fit(X[150:], y[150:])
    for one, other in zip(
        parts.predict(X_test, return_std=True), whole.predict(X_test, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-8 if approximation == "exact" else 2e-3)
    np.testing.assert_allclose(
        parts.log_marginal_likelihood_, whole.log_marginal_likelihood_, rtol=1e-3
    )


@pytest.mark.parametrize("approximation", ["exact", "inducing"])
def test_pickles_and_files_predict_the_same(data, tmp_path, approximation):
    X, y, X_test = data
    names = ["a", "b", "c"]
    process = GaussianProcessRegressor(**SETTLED, approximation=approximation, random_state=3)
    process.fit(pd.DataFrame(X, columns=names), y)
    process.save(tmp_path / "model")
    X_test = pd.DataFrame(X_test, columns=names)
    expected = process.predict(X_test, return_std=True)
    copies = [
        pickle.loads(pickle.dumps(process)),
        GaussianProcessRegressor.load(tmp_path / "model"),
    ]
    for copy in copies:
        assert copy.seed_ == 3
        assert copy.feature_names_in_.tolist() == names
        for one, other in zip(copy.predict(X_test, return_std=True), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert clone(process).get_params()["approximation"] == approximation


@pytest.mark.parametrize("approximation", ["exact", "inducing"])
def test_threads_change_nothing(data, approximation):
    X, y, X_test = data
    settings = {"approximation": approximation, "random_state": 1, "inducing": 100}

    def found(n_jobs):
        process = GaussianProcessRegressor(n_jobs=n_jobs, **settings).fit(X, y)
        learnt = [process.signal_, process.noise_, process.length_scales_]
        return [*learnt, *process.predict(X_test, return_std=True), process.sample_y(X_test, 2)]

    for n_jobs in (2, 3, None):
        for one, other in zip(found(1), found(n_jobs), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("approximation", ["exact", "inducing"])
def test_functions_are_drawn_at_many_rows(data, approximation):
    X, y, _ = data
    process = GaussianProcessRegressor(**SETTLED, approximation=approximation).fit(X, y)
    many = np.random.default_rng(2).uniform(-2, 2, size=(3000, 3))
    drawn = process.sample_y(many, 2, random_state=5, latent=True)
    again = process.sample_y(many[100:200], 2, random_state=5, latent=True, method="functions")
    np.testing.assert_allclose(again, drawn[100:200], atol=1e-9)
    mean, std = process.predict(many, return_std=True, latent=True)
    # Values of one function are dependent: the share inside is not 95 % exactly.
    assert 0.8 < np.mean(np.abs(drawn[:, 0] - mean) < 1.96 * std) <= 1
    with pytest.raises(InvalidInput, match="expected one of auto, joint, functions"):
        process.sample_y(many, method="paths")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("signal", -1.0, "signal = -1 is outside"),
        ("noise", 0.0, "noise = 0 is outside"),
        ("noise", "low", "noise = 'low' should be a number or None"),
        ("length_scales", [1.0, 2.0], "length_scales has 2 rows, expected 3"),
        ("length_scales", [1.0, -2.0, 1.0], "length_scales = -2 is outside"),
        ("length_scales", "long", "length_scales = 'long' should be one number per column"),
        ("approximation", "nystrom", "expected one of auto, exact, inducing"),
        ("learning_rows", 0, "learning_rows = 0 is outside"),
        ("inducing", 0, "inducing = 0 is outside"),
        ("neighbours", 1.5, "neighbours = 1.5 should be a whole number"),
        ("random_state", -1, "random_state = -1 is outside"),
        ("n_jobs", 0, "n_jobs = 0 is outside"),
    ],
)
def test_settings_are_checked(data, name, value, message):
    with pytest.raises(InvalidInput, match=message):
        GaussianProcessRegressor(**{name: value}).fit(data[0], data[1])


def test_bad_data_are_named(data):
    X, y, X_test = data
    process = GaussianProcessRegressor(**SETTLED)
    bad = X.copy()
    bad[17, 2] = np.nan
    with pytest.raises(InvalidInput, match="X contains NaN at row 17, column 2"):
        process.fit(bad, y)
    with pytest.raises(InvalidInput, match="y has 299 rows, expected 300"):
        process.fit(X, y[:-1])
    with pytest.raises(InvalidInput, match="X contains NaN at row 17, column 2"):
        process.fit(X, y).predict(bad)
    with pytest.raises(InvalidInput, match="exclude each other"):
        process.predict(X_test, return_std=True, return_cov=True)


def test_learning_keeps_its_time_and_conditions_on_all_rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(3000, 4))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=3000)
    hurried = GaussianProcessRegressor(max_time=1e-6, random_state=0).fit(X, y)
    # The first of the starts: length scales of √4 deviations, a tenth of the variance noise.
    np.testing.assert_allclose(hurried.noise_, 0.1 * y.var(), rtol=1e-6)
    np.testing.assert_allclose(hurried.length_scales_, 2 * X.std(axis=0), rtol=1e-6)
    assert np.sqrt(np.mean((hurried.predict(X) - y) ** 2)) < 0.2
    with pytest.raises(InvalidInput, match="max_time = -1 is outside"):
        GaussianProcessRegressor(max_time=-1.0).fit(X[:9], y[:9])


def test_progress_is_shown(data, capfd):
    X, y, _ = data
    GaussianProcessRegressor(verbose=2, random_state=0).fit(X, y)
    lines = capfd.readouterr().err.splitlines()
    learning = [line for line in lines if line.startswith("learning the hyper-parameters, loss ")]
    assert len(learning) > 10
    assert lines[-1].startswith("fitting ")
    GaussianProcessRegressor(**SETTLED).fit(X, y)
    assert capfd.readouterr().err == ""


def test_equal_rows_without_noise_are_no_error(data):
    X, y, _ = data
    process = GaussianProcessRegressor(signal=1.0, noise=1e-18, length_scales=1.0)
    process.fit(np.repeat(X[:30], 3, axis=0), np.repeat(y[:30], 3))
    assert 0 < process.jitter_ < 1e-12
    np.testing.assert_allclose(process.predict(X[:30]), y[:30], atol=1e-2)
    assert GaussianProcessRegressor(**SETTLED).fit(X, y).jitter_ == 0


def closed_form(kernel, X, X_test, noise):
    """Return k(x, x) and what values at X leave of it."""
    before = np.diag(kernel(X_test, X_test))
    across = kernel(X, X_test)
    solved = np.linalg.solve(kernel(X, X) + noise * np.eye(len(X)), across)
    return before, before - np.sum(across * solved, axis=0)


@pytest.mark.parametrize(("method", "tolerance"), [("ridge", 0.04), ("operator", 0.1)])
@pytest.mark.parametrize(
    ("name", "kernel", "noise"),
    [
        ("gaussian", lambda a, b: RBF()(a, b), 0.1),
        ("2.5 * gaussian", lambda a, b: 2.5 * RBF()(a, b), 0.25),
        ("polynomial(2, 1)", lambda a, b: (a @ b.T + 1) ** 2, 2.0),
    ],
)
def test_variances_of_any_kernel(name, kernel, noise, method, tolerance):
    rng = np.random.default_rng(0)
    X, X_test = rng.uniform(-2, 2, size=(20, 2)), rng.uniform(-2, 2, size=(10, 2))
    before, expected = closed_form(kernel, X, X_test, noise)
    size = {"block_size": 512} if method == "ridge" else {"block_size": 64}
    settings = {"kernel": name, "method": method, "n_blocks": 64, "random_state": 0, **size}
    found = posterior_variances(X, X_test, noise=noise, **settings)
    assert np.sqrt(np.mean((found - expected) ** 2)) < tolerance * before.max()
    again = posterior_variances(X, X_test, noise=noise, n_jobs=1, **settings)
    np.testing.assert_array_equal(found, again)


def test_variances_name_what_is_wrong():
    X = np.zeros((3, 2))
    with pytest.raises(InvalidInput, match="method = 'exact' is unknown"):
        posterior_variances(X, X, noise=1.0, method="exact")
    with pytest.raises(ValueError, match="X_test: X has 3 features, but Process is expecting 2"):
        posterior_variances(X, np.zeros((1, 3)), noise=1.0)
    with pytest.raises(InvalidInput, match="outside the domain"):
        posterior_variances(X - 1, X, noise=1.0, kernel="chi_squared")
