"""Kernels that are Python functions."""

import copy
import functools
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import pairwise

from riesz import (
    InvalidInput,
    KernelClassifier,
    KernelQuantileRegressor,
    KernelRegressor,
    RandomFeatures,
)


def fourier(X, seed, n_features, bandwidth=1.0):
    """Draw random Fourier features of the Gaussian kernel."""
    rng = np.random.default_rng(seed)
    frequencies = rng.normal(scale=1 / bandwidth, size=(X.shape[1], n_features))
    phases = rng.uniform(0, 2 * np.pi, n_features)
    return np.sqrt(2) * np.cos(X @ frequencies.astype(np.float32) + phases.astype(np.float32))


class Fourier:
    """The same as an object."""

    def __init__(self, bandwidth):
        self.bandwidth = bandwidth

    def __call__(self, X, seed, n_features):
        return fourier(X, seed, n_features, self.bandwidth)


SMALL = {"block_size": 128, "max_blocks": 4, "random_state": 0, "n_jobs": 1}


@pytest.mark.parametrize("n_components", [4096, 1000])
def test_features_of_a_function_have_its_kernel(n_components):
    X = np.random.default_rng(0).uniform(-1, 1, (30, 3))
    features = RandomFeatures(kernel=fourier, n_components=n_components, random_state=0).fit(X)
    phi = features.transform(X).astype(float)
    assert phi.shape == (30, n_components)
    assert features.bandwidth_ == 1
    # A product of two features has a standard deviation below 1; five of them, 465 pairs.
    error = np.abs(phi @ phi.T - pairwise.rbf_kernel(X, gamma=0.5)).max()
    assert error < 5 / np.sqrt(n_components)
    assert np.array_equal(features.transform(X), pickle.loads(pickle.dumps(features)).transform(X))


@pytest.mark.parametrize("solver", ["block", "ridge"])
def test_a_function_learns_what_the_name_learns(waves, solver):
    X, y = waves
    noisy = y + 0.1 * np.random.default_rng(1).normal(size=len(y))

    def error(kernel):
        model = KernelRegressor(kernel=kernel, bandwidth=1.0, solver=solver, **SMALL)
        residuals = model.fit(X[:2000], noisy[:2000]).predict(X[2000:]) - y[2000:]
        return np.sqrt(np.mean(residuals**2))

    own, named = error(fourier), error("gaussian")
    # The targets have a deviation of 1.5, the noise one of 0.1.
    assert own < 0.1
    assert abs(own - named) < 0.03


def test_every_kind_of_fit(blobs):
    X, y = blobs
    kernel = Fourier(0.8)
    classifier = KernelClassifier(kernel=kernel, **SMALL).fit(X, y)
    named = KernelClassifier(bandwidth=0.8, **SMALL).fit(X, y)
    assert abs(classifier.score(X, y) - named.score(X, y)) < 0.03
    assert classifier.predict_proba(X).shape == (240, 3)
    stream = KernelClassifier(kernel=kernel, batch_size=16, **SMALL)
    stream.partial_fit(X, y, classes=[0, 1, 2]).partial_fit(X, y)
    assert stream.score(X, y) > 0.8
    target = X[:, 0] + np.sin(X[:, 1])
    quantiles = KernelQuantileRegressor(kernel=kernel, **SMALL).fit(X, target).predict(X)
    assert np.all(np.diff(quantiles, axis=1) >= 0)


def test_threads_change_no_digit(waves):
    X, y = waves
    settings = SMALL | {"kernel": fourier, "max_blocks": 2}
    one, two = (
        KernelRegressor(**settings | {"n_jobs": jobs}).fit(X, y).predict(X) for jobs in (1, 2)
    )
    assert np.array_equal(one, two)


def test_the_function_sees_plain_columns_and_one_seed_a_block(waves):
    X, y = waves
    seen, threads = {}, set()

    def kernel(rows, seed, n_features):
        assert rows.dtype == np.float32
        assert len(rows) <= 1024
        assert isinstance(seed, int)
        assert 0 <= seed < 2**64
        seen.setdefault(seed, n_features)
        threads.add(threading.current_thread() is threading.main_thread())
        # Rows are those of the data, far from the origin, in the order of the tile.
        assert rows.mean() > 90
        return fourier(rows - 100, seed, n_features)

    model = KernelRegressor(kernel=kernel, scaling="none", **SMALL).fit(X + 100, y)
    assert set(seen.values()) == {128}
    assert len(seen) >= model.n_blocks_
    assert threads == {False}


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (lambda X, seed, m: np.zeros((3, m)), InvalidInput, r"shape \(3, 64\), expected \(8, 64\)"),
        (lambda X, seed, m: np.zeros(m), InvalidInput, r"shape \(64,\), expected \(8, 64\)"),
        (lambda X, seed, m: None, InvalidInput, r"shape \(\), expected \(8, 64\)"),
        (lambda X, seed, m: np.full((len(X), m), np.nan), InvalidInput, "gave NaN as feature 0"),
        (lambda X, seed, m: np.full((len(X), m), np.inf), InvalidInput, "gave inf as feature 0"),
        (lambda X, seed, m: [["a"] * m] * len(X), ValueError, "could not convert string"),
        (lambda X: X, InvalidInput, r"its arguments are \(X, seed, n_features\), not \(X\)"),
        (3, InvalidInput, "kernel = 3 should be a name or a function"),
    ],
)
def test_what_is_no_kernel_is_named(kernel, error, message):
    X = np.arange(16.0).reshape(8, 2)
    with pytest.raises(error, match=message):
        RandomFeatures(kernel=kernel, n_components=64).fit(X).transform(X)
    with pytest.raises(error, match=message.replace("64", r"\d+").replace("8", r"\d+")):
        KernelRegressor(kernel=kernel).fit(X, X[:, 0])


def test_an_exception_comes_out_as_itself(waves):
    X, y = waves
    calls = []

    class Fault(Exception):
        pass

    fault = Fault("here")

    def kernel(rows, seed, n_features):
        calls.append(seed)
        if len(calls) > 6:
            raise fault
        return fourier(rows, seed, n_features)

    with pytest.raises(Fault) as caught:
        KernelRegressor(kernel=kernel, **SMALL).fit(X, y)
    assert caught.value is fault
    assert caught.traceback[-1].name == "kernel"


def test_a_function_may_use_riesz_and_several_fits_run_at_once(waves):
    X, y = waves
    drawn = RandomFeatures(bandwidth=1.0, random_state=0, n_jobs=2).fit(X)

    def kernel(rows, seed, n_features):
        features = copy.copy(drawn).set_params(n_components=n_features)
        features.seed_ = seed
        return features.transform(rows) * np.sqrt(n_features)

    scores = []

    def fit():
        model = KernelRegressor(kernel=kernel, **SMALL | {"n_jobs": 2}).fit(X, y)
        scores.append(model.score(X, y))

    threads = [threading.Thread(target=fit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(scores) == 3
    assert min(scores) == max(scores) > 0.99


def test_scaling_columns_is_refused():
    X = np.arange(16.0).reshape(8, 2)
    with pytest.raises(InvalidInput, match=r"fourier\) kernel takes columns as they are"):
        KernelRegressor(kernel=fourier, scaling="standard").fit(X, X[:, 0])


@pytest.mark.parametrize("kernel", [fourier, Fourier(0.7), functools.partial(fourier, bandwidth=2)])
def test_pickles_and_copies_keep_the_function(blobs, kernel):
    X, _ = blobs
    model = KernelRegressor(kernel=kernel, **SMALL).fit(X, X[:, 0])
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(other.predict(X), model.predict(X))
        other.partial_fit(X, X[:, 0])
    again = clone(model).fit(X, X[:, 0])
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_pickle_wants_a_function_that_can_be_pickled(blobs):
    X, _ = blobs
    model = KernelRegressor(kernel=lambda *given: fourier(*given), **SMALL).fit(X, X[:, 0])
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(model)


def test_a_file_is_refused_and_the_pickle_recommended(blobs, tmp_path):
    X, _ = blobs
    model = KernelRegressor(kernel=fourier, **SMALL).fit(X, X[:, 0])
    with pytest.raises(InvalidInput, match=r"cannot hold kernel = .*fourier.*; pickle"):
        model.save(tmp_path / "model.riesz")
    assert not (tmp_path / "model.riesz").exists()


def test_a_kernel_of_two_points_is_refused_before_it_is_called():
    with pytest.raises(InvalidInput, match=r"its arguments are \(X, seed, n_features\)"):
        KernelRegressor(kernel=lambda x, y: 1.0).fit(np.zeros((4, 1)), np.zeros(4))
