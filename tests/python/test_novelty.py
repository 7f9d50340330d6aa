"""Novelty detection, beside scikit-learn's exact one-class machine."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from riesz import InvalidInput, KernelNoveltyDetector


def ring(n, seed=0):
    """Return rows around a circle, and the same with a tenth scattered over the square."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    usual = np.c_[np.cos(angle), np.sin(angle)] + 0.1 * rng.normal(size=(n, 2))
    novel = rng.uniform(-2, 2, size=(n // 10, 2))
    return usual, np.r_[usual, novel], np.r_[np.zeros(n), np.ones(n // 10)]


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_scores_are_those_of_the_exact_machine(nu):
    X, both, _ = ring(400)
    exact = OneClassSVM(gamma=0.5 / 0.6**2, nu=nu, tol=1e-6).fit(X)
    # scikit-learn's coefficients sum to nu n, ours to one.
    expected = exact.score_samples(both) / (nu * len(X))
    detector = KernelNoveltyDetector(bandwidth=0.6, nu=nu, n_components=8192, random_state=0)
    error = detector.fit(X).score_samples(both) - expected
    # Random features: f is a mean of kernels, each known up to 1/sqrt(m).
    assert np.sqrt(np.mean(error**2)) < 3 * np.sqrt(np.mean(expected)) / np.sqrt(8192)


def test_novel_rows_score_lower():
    usual, both, novel = ring(2000)
    detector = KernelNoveltyDetector(random_state=0).fit(usual)
    exact = OneClassSVM(gamma=0.5 / detector.bandwidth_**2).fit(usual / usual.std(0))
    found = roc_auc_score(novel, -detector.decision_function(both))
    assert found > roc_auc_score(novel, -exact.decision_function(both / usual.std(0))) - 0.01


def test_contamination_moves_the_offset_alone():
    X, _, _ = ring(1000)
    half = KernelNoveltyDetector(random_state=0).fit(X)
    few = KernelNoveltyDetector(contamination=0.03, random_state=0).fit(X)
    assert np.array_equal(half.score_samples(X), few.score_samples(X))
    assert np.mean(half.predict(X) == -1) == pytest.approx(0.5, abs=0.002)
    assert np.mean(few.predict(X) == -1) == pytest.approx(0.03, abs=0.002)


def test_threads_and_precision_change_nothing():
    X, both, _ = ring(3000)
    X, both = X.astype(np.float32), both.astype(np.float32)
    one = KernelNoveltyDetector(random_state=0, n_jobs=1).fit(X).score_samples(both)
    two = KernelNoveltyDetector(random_state=0, n_jobs=2).fit(X).score_samples(both)
    double = KernelNoveltyDetector(random_state=0).fit(X.astype(float)).score_samples(both)
    assert np.array_equal(one, two)
    assert np.array_equal(one, double)


def test_files_and_pickles_hold_everything(tmp_path):
    X = pd.DataFrame(ring(200)[0], columns=["east", "north"])
    detector = KernelNoveltyDetector(nu=0.2, random_state=0).fit(X)
    detector.save(tmp_path / "detector.riesz")
    for copy in (
        KernelNoveltyDetector.load(tmp_path / "detector.riesz"),
        pickle.loads(pickle.dumps(detector)),
    ):
        assert np.array_equal(copy.decision_function(X), detector.decision_function(X))
        assert copy.get_params() == detector.get_params()
        assert copy.feature_names_in_.tolist() == ["east", "north"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nu": 0.0}, "nu"),
        ({"nu": 2}, "nu"),
        ({"contamination": 1.5}, "contamination"),
        ({"n_components": 0}, "n_components"),
        ({"bandwidth": "wide"}, "bandwidth"),
        ({"kernel": "gauss"}, "gaussian"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        KernelNoveltyDetector(**parameters).fit(ring(20)[0])


def test_bad_rows_are_named():
    X = ring(20)[0]
    X[3, 1] = np.nan
    with pytest.raises(InvalidInput, match="row 3, column 1"):
        KernelNoveltyDetector().fit(X)
    with pytest.raises(InvalidInput, match="sample_weight"):
        KernelNoveltyDetector().fit(ring(20)[0], sample_weight=-np.ones(20))
