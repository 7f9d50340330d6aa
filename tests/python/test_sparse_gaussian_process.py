"""Sparse Gaussian processes by particle mirror descent."""

import pickle

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor as Reference
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

import riesz
from riesz import GaussianProcessRegressor, InvalidInput, SparseGaussianProcessRegressor

FIXED = {"signal": 1.5, "noise": 0.04, "length_scale": [0.8, 1.3]}


def problem(n=300, seed=0):
    """Return rows of two columns and a smooth function of them with noise of variance 0.04."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n) + 7.0


def kernel(A, B):
    scaled = (A[:, None] - B[None]) / FIXED["length_scale"]
    return FIXED["signal"] * np.exp(-0.5 * (scaled**2).sum(-1))


def test_the_paper_is_the_mixture_of_deterministic_training_conditionals():
    X, y = problem()
    model = SparseGaussianProcessRegressor(
        mode="paper", n_inducing=20, n_particles=4, batch_size=77, random_state=1, **FIXED
    ).fit(X, y)
    test, _ = problem(25, seed=1)
    logs, means, covariances = [], [], []
    for Z in model.inducing_points_:
        prior = kernel(Z, Z) + 1e-8 * FIXED["signal"] * np.eye(len(Z))
        inner = cho_factor(prior)
        cross, ahead = kernel(X, Z), kernel(test, Z)
        C = cross @ cho_solve(inner, cross.T) + FIXED["noise"] * np.eye(len(X))
        centred = y - y.mean()
        logs.append(
            -0.5 * centred @ np.linalg.solve(C, centred)
            - 0.5 * np.linalg.slogdet(2 * np.pi * C)[1]
            - np.log(4)
        )
        Q = ahead @ cho_solve(inner, cross.T)
        means.append(y.mean() + Q @ np.linalg.solve(C, centred))
        covariances.append(kernel(test, test) - Q @ np.linalg.solve(C, Q.T))
    evidence = np.logaddexp.reduce(logs)
    weights = np.exp(logs - evidence)
    np.testing.assert_allclose(model.log_evidence_, evidence, rtol=1e-9)
    np.testing.assert_allclose(model.weights_, weights, atol=1e-7)
    assert model.ess_ == pytest.approx(1 / np.sum(weights**2))
    mean = weights @ np.array(means)
    away = np.array(means) - mean
    covariance = np.einsum("j,jab->ab", weights, covariances)
    covariance += np.einsum("j,ja,jb->ab", weights, away, away)
    found, deviation = model.predict(test, return_std=True, latent=True)
    np.testing.assert_allclose(found, mean, atol=1e-6)
    np.testing.assert_allclose(deviation**2, np.diag(covariance), atol=1e-6)
    np.testing.assert_allclose(
        model.predict(test, return_cov=True, latent=True)[1], covariance, atol=1e-6
    )


@pytest.mark.parametrize("name", ["gaussian", "matern(0.5)", "matern(1.5)", "matern(2.5)"])
def test_with_all_rows_inducing_it_is_the_exact_process(name):
    X, y = problem(120)
    scales = [0.8, 1.3]
    smooth = RBF(scales) if name == "gaussian" else Matern(scales, nu=float(name[7:-1]))
    reference = Reference(ConstantKernel(1.5) * smooth, alpha=0.04, optimizer=None)
    reference.fit(X, y - y.mean())
    model = SparseGaussianProcessRegressor(kernel=name, **FIXED).fit(X, y)
    test, _ = problem(30, seed=1)
    mean, deviation = reference.predict(test, return_std=True)
    found, spread = model.predict(test, return_std=True, latent=True)
    np.testing.assert_allclose(found, mean + y.mean(), atol=2e-4)
    np.testing.assert_allclose(spread, deviation, atol=2e-3)
    expected = reference.log_marginal_likelihood()
    assert model.log_evidence_ == pytest.approx(expected, abs=0.05)


def test_hyper_parameters_are_learnt_where_they_are_not_given():
    X, y = problem(600)
    model = SparseGaussianProcessRegressor(n_inducing=64, n_particles=8, random_state=0).fit(X, y)
    assert 0.02 < model.noise_ < 0.08
    exact = GaussianProcessRegressor(random_state=0).fit(X, y)
    test, values = problem(400, seed=1)
    error = np.sqrt(np.mean((model.predict(test) - values) ** 2))
    assert error < 1.05 * np.sqrt(np.mean((exact.predict(test) - values) ** 2))
    kept = SparseGaussianProcessRegressor(n_inducing=32, noise=0.5, random_state=0).fit(X, y)
    assert kept.noise_ == 0.5
    assert kept.signal_ != model.signal_
    matern = SparseGaussianProcessRegressor(n_inducing=64, kernel="matern(2.5)", random_state=0)
    assert np.sqrt(np.mean((matern.fit(X, y).predict(test) - values) ** 2)) < 1.1 * error


def test_new_targets_lie_where_it_says():
    X, y = problem(3000)
    model = SparseGaussianProcessRegressor(n_inducing=100, random_state=0, **FIXED).fit(X, y)
    assert model.inducing_points_.shape == (16, 100, 2)
    test, values = problem(2000, seed=1)
    mean, deviation = model.predict(test, return_std=True)
    inside = np.mean(np.abs(values - mean) < 1.96 * deviation)
    assert 0.93 < inside < 0.97  # three deviations of a share of 0.95 are 0.015
    samples = model.sample_y(test[:40], n_samples=4000, random_state=3)
    cov = model.predict(test[:40], return_cov=True)[1]
    np.testing.assert_allclose(np.diag(cov), deviation[:40] ** 2, rtol=1e-6)
    np.testing.assert_allclose(samples.mean(1), mean[:40], atol=5 * deviation.max() / 4000**0.5)
    np.testing.assert_allclose(np.cov(samples), cov, atol=5 * cov.max() * (2 / 4000) ** 0.5)


def test_samples_of_the_paper_come_from_the_mixture():
    X, y = problem(60)
    model = SparseGaussianProcessRegressor(
        mode="paper", n_inducing=4, n_particles=3, random_state=0, **(FIXED | {"noise": 1.0})
    ).fit(X, y)
    test = X[:5]
    samples = model.sample_y(test, n_samples=6000)
    mean, deviation = model.predict(test, return_std=True)
    np.testing.assert_allclose(samples.mean(1), mean, atol=5 * deviation.max() / 6000**0.5)
    np.testing.assert_allclose(samples.std(1), deviation, rtol=0.08)


def test_further_rows_are_learnt():
    X, y = problem(900)
    settings = FIXED | {"n_inducing": 60, "n_particles": 4, "random_state": 0}
    model = SparseGaussianProcessRegressor(**settings).partial_fit(X[:500], y[:500])
    before = model.predict(X[:5], return_std=True)[1]
    model.partial_fit(X[500:], y[500:])
    assert model.n_rows_ == 900
    assert (model.predict(X[:5], return_std=True)[1] < before).all()
    exact = GaussianProcessRegressor(
        signal=1.5, noise=0.04, length_scales=[0.8, 1.3], approximation="exact"
    ).fit(X, y)
    test, _ = problem(200, seed=1)
    gap = model.predict(test) - exact.predict(test)
    assert np.sqrt(np.mean(gap**2)) < 0.03


def test_weights_divide_the_noise():
    X, y = problem(80)
    weights = np.where(np.arange(80) < 40, 2.0, 1.0)
    weights[70:] = 0.0
    weighted = SparseGaussianProcessRegressor(**FIXED).fit(X, y - 7, sample_weight=weights)
    reference = Reference(
        ConstantKernel(1.5) * RBF([0.8, 1.3]), alpha=0.04 / weights[:70], optimizer=None
    )
    mean = (y[:70] - 7).mean()
    reference.fit(X[:70], y[:70] - 7 - mean)
    np.testing.assert_allclose(
        weighted.predict(X[:10]), reference.predict(X[:10]) + mean, atol=2e-4
    )


@pytest.mark.parametrize("mode", ["adaptive", "paper"])
def test_threads_and_precision_of_the_input(mode):
    X, y = problem(700)
    settings = FIXED | {"n_inducing": 50, "n_particles": 5, "random_state": 0, "mode": mode}
    one = SparseGaussianProcessRegressor(n_jobs=1, **settings).fit(X, y)
    two = SparseGaussianProcessRegressor(n_jobs=3, **settings).fit(X, y)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert one.log_evidence_ == two.log_evidence_
    single = SparseGaussianProcessRegressor(**settings).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), one.predict(X), atol=1e-3)


@pytest.mark.parametrize("mode", ["adaptive", "paper"])
def test_files_and_pickles(mode, tmp_path):
    X, y = problem(600)
    model = SparseGaussianProcessRegressor(
        n_inducing=30, n_particles=3, random_state=0, mode=mode, **FIXED
    ).fit(X, y)
    model.save(tmp_path / "model")
    for copy in (riesz.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert isinstance(copy, SparseGaussianProcessRegressor)
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        np.testing.assert_array_equal(copy.weights_, model.weights_)
        assert clone(copy).get_params()["length_scale"] == [0.8, 1.3]
        copy.partial_fit(X[:50], y[:50])
        assert copy.n_rows_ == 650
    with pytest.raises(InvalidInput, match="holds a sparse Gaussian process"):
        GaussianProcessRegressor.load(tmp_path / "model")


def test_awkward_data():
    X, y = problem(90)
    constant = SparseGaussianProcessRegressor(random_state=0).fit(X, np.full(90, 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0, atol=1e-6)
    flat = np.column_stack([X, np.ones(90)])
    model = SparseGaussianProcessRegressor(random_state=0).fit(flat, y)
    assert np.isinf(model.length_scale_[2])
    twice = SparseGaussianProcessRegressor(n_inducing=128, **FIXED)
    twice.fit(np.vstack([X, X]), np.concatenate([y, y]))
    assert twice.inducing_points_.shape == (1, 90, 2)
    assert np.isfinite(twice.predict(X)).all()
    one = SparseGaussianProcessRegressor(**FIXED).fit(X[:1], y[:1])
    np.testing.assert_allclose(one.predict(X[:1]), y[:1])


def test_a_few_rows_more_than_inducing_inputs_are_all_taken():
    X, y = problem(190)
    model = SparseGaussianProcessRegressor(n_inducing=50, random_state=0, **FIXED).fit(X, y)
    assert model.inducing_points_.shape == (1, 190, 2)
    fewer = SparseGaussianProcessRegressor(n_inducing=40, random_state=0, **FIXED).fit(X, y)
    assert fewer.inducing_points_.shape == (16, 40, 2)


def test_the_time_budget_ends_a_pass():
    X, y = problem(4000)
    model = SparseGaussianProcessRegressor(
        n_inducing=200, batch_size=64, max_time=1e-6, random_state=0, **FIXED
    ).fit(X, y)
    assert 64 <= model.n_rows_ < 1000
    assert np.isfinite(model.predict(X[:9])).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "fast"}, "expected one of adaptive, paper"),
        ({"kernel": "cosine"}, "expected one of gaussian, matern"),
        ({"n_inducing": 0}, "inducing = 0"),
        ({"n_particles": -1}, "n_particles = -1"),
        ({"n_passes": 0}, "passes = 0"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"noise": -1.0}, "noise = -1"),
        ({"signal": "large"}, "signal = 'large' should be a number or 'auto'"),
        ({"length_scale": "long"}, "length_scale = 'long'"),
        ({"length_scale": [1.0, 2.0, 3.0]}, "length_scales has 3 rows, expected 2"),
        ({"max_time": -1.0}, "max_time = -1"),
        ({"step": 0.0}, "step = 0"),
    ],
)
def test_settings_outside_their_domain_are_refused(settings, message):
    X, y = problem(30)
    with pytest.raises(InvalidInput, match=message):
        SparseGaussianProcessRegressor(**settings).fit(X, y)


def test_bad_data_are_refused():
    X, y = problem(30)
    model = SparseGaussianProcessRegressor(**FIXED)
    with pytest.raises(ValueError, match="y contains NaN at row 3"):
        model.fit(X, np.where(np.arange(30) == 3, np.nan, y))
    with pytest.raises(ValueError, match=r"sample_weight = -1 is outside \[0, inf\)"):
        model.fit(X, y, sample_weight=-np.ones(30))
    with pytest.raises(ValueError, match="sample_weight has 29 rows"):
        model.fit(X, y, sample_weight=np.ones(29))
    with pytest.raises(ValueError, match="one row of a weight above zero"):
        model.fit(X, y, sample_weight=np.zeros(30))
    model.fit(X, y)
    with pytest.raises(ValueError, match="exclude each other"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :1])
