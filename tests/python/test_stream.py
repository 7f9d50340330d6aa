"""Streams: density ratios, novelty and kernel machines that learn call by call."""

import pickle

import numpy as np
import pytest

from riesz import DensityRatioEstimator, InvalidInput, KernelNoveltyDetector, KernelRegressor


def gaussians(n, seed):
    """N(1, 1) and N(0, 1), whose log ratio is x - 1/2."""
    rng = np.random.default_rng(seed)
    return rng.normal(1, 1, size=(n, 1)), rng.normal(0, 1, size=(n, 1))


GRID = np.linspace(-1, 2, 31)[:, None]
SMALL = {"block_size": 256, "max_blocks": 2, "random_state": 0}


@pytest.mark.parametrize("loss", ["logistic", "kl", "least_squares"])
def test_a_stream_of_two_samples_finds_their_ratio(loss):
    estimator = DensityRatioEstimator(loss=loss, **SMALL)
    for seed in range(6):
        estimator.partial_fit(*gaussians(1000, seed))
    error = estimator.log_ratio(GRID) - (GRID[:, 0] - 0.5)
    # About ten degrees of freedom on 6,000 rows of each sample, 0.04 of deviation; least squares
    # weighs errors of the ratio, which is down to 0.2 here.
    assert np.sqrt(np.mean(error**2)) < (0.4 if loss == "least_squares" else 0.2)
    np.testing.assert_allclose(estimator.predict(GRID), np.exp(estimator.log_ratio(GRID)), 1e-5)
    # KL = 1/2 at rows that came before they were learnt from, 2,000 of them.
    assert abs(estimator.divergence() - 0.5) < 0.2


def test_a_ratio_goes_on_after_a_fit_and_after_a_pickle():
    fitted = DensityRatioEstimator(**SMALL).fit(*gaussians(300, 0))
    before = np.mean((fitted.log_ratio(GRID) - GRID[:, 0] + 0.5) ** 2)
    begun = DensityRatioEstimator(**SMALL).partial_fit(*gaussians(300, 0))
    with pytest.raises(InvalidInput, match="give rows"):
        begun.divergence()
    for estimator in (fitted, begun):
        copy = pickle.loads(pickle.dumps(estimator))
        for seed in range(1, 8):
            estimator.partial_fit(*gaussians(300, seed))
            copy.partial_fit(*gaussians(300, seed))
        np.testing.assert_array_equal(estimator.log_ratio(GRID), copy.log_ratio(GRID))
        after = np.mean((estimator.log_ratio(GRID) - GRID[:, 0] + 0.5) ** 2)
        assert after < max(before, 0.2**2)


def test_what_a_stream_of_ratios_refuses():
    p, q = gaussians(50, 0)
    estimator = DensityRatioEstimator(**SMALL).partial_fit(p, q)
    with pytest.raises(ValueError, match="features"):
        estimator.partial_fit(np.c_[p, p], q)
    with pytest.raises(ValueError, match="features"):
        estimator.partial_fit(p, np.c_[q, q])
    with pytest.raises(ValueError, match="minimum of 1"):
        estimator.partial_fit(p[:0], q)
    with pytest.raises(InvalidInput, match="X_denominator"):
        estimator.partial_fit(p, q[:1])


@pytest.mark.parametrize("fit_first", [False, True])
@pytest.mark.parametrize("contamination", [None, 0.05])
def test_novelty_is_learnt_call_by_call(fit_first, contamination):
    rng = np.random.default_rng(0)
    detector = KernelNoveltyDetector(
        nu=0.2, contamination=contamination, n_components=256, random_state=0
    )
    if fit_first:
        detector.fit(rng.normal(size=(500, 2)))
    for _ in range(20):
        detector.partial_fit(rng.normal(size=(600, 2)))
    share = np.mean(detector.predict(rng.normal(size=(5000, 2))) < 0)
    wanted = contamination or 0.2
    # Four deviations of 5,000 fresh rows and of the 12,000 that the offset is from.
    assert abs(share - wanted) < 4 * np.sqrt(wanted * (1 - wanted) * (1 / 5000 + 1 / 12000))
    assert detector.predict([[0.0, 0.0], [7.0, 7.0]]).tolist() == [1, -1]


def test_a_detector_goes_on_after_a_pickle():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 2))
    detector = KernelNoveltyDetector(n_components=128, random_state=0).partial_fit(X[:100])
    for start in range(100, 4000, 300):
        copy = pickle.loads(pickle.dumps(detector))
        for each in (detector, copy):
            each.partial_fit(X[start : start + 300])
        np.testing.assert_array_equal(detector.score_samples(X), copy.score_samples(X))
        assert detector.offset_ == copy.offset_


def test_what_a_stream_of_novelty_refuses():
    detector = KernelNoveltyDetector(random_state=0).partial_fit(np.eye(3))
    with pytest.raises(ValueError, match="features"):
        detector.partial_fit(np.ones((2, 2)))
    with pytest.raises(ValueError, match="minimum of 1"):
        detector.partial_fit(np.ones((0, 3)))
    with pytest.raises(InvalidInput, match="sample_weight"):
        detector.partial_fit(np.ones((1, 3)), sample_weight=[-1.0])


def curve(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 1))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("settings", [{"block_size": 64}, {"block_size": 64, "theta": 5.0}])
def test_a_machine_goes_on_after_a_pickle(settings):
    X, y = curve(9000, 0)
    machine = KernelRegressor(random_state=0, bandwidth=0.5, max_blocks=2, **settings)
    machine.partial_fit(X[:1000], y[:1000])
    for rows in (slice(1000, 1500), slice(1500, 8800), slice(8800, 9000)):
        copy = pickle.loads(pickle.dumps(machine))
        for each in (machine, copy):
            each.partial_fit(X[rows], y[rows])
        np.testing.assert_array_equal(machine.predict(X[:99]), copy.predict(X[:99]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"theta": 0.0}, "theta"),
        ({"delay": 1.0}, "give theta too"),
        ({"passes": 0}, "passes"),
        ({"averaging": -1.0}, "averaging"),
    ],
)
def test_settings_outside_their_domain_are_refused(settings, message):
    X, y = curve(20, 0)
    with pytest.raises(ValueError, match=message):
        KernelRegressor(solver="stream", **settings).fit(X, y)
