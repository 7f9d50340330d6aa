"""Density ratios: closed forms, rates, baselines, extremes, and what is refused."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from riesz import DensityRatioEstimator, InvalidInput

LOSSES = ["logistic", "kl", "least_squares"]
CENTRES = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 2.5], [0.0, -2.5]])


def gaussians(n, d, seed):
    """N(0.7 e, 0.8^2) and N(0, 1), and the log of their ratio."""
    rng = np.random.default_rng(seed)
    mean = 0.7 * np.eye(d)[0]
    p, q = mean + 0.8 * rng.normal(size=(n, d)), rng.normal(size=(n, d))

    def log_ratio(x):
        square = (x**2).sum(axis=1) - ((x - mean) ** 2).sum(axis=1) / 0.64
        return 0.5 * square - d * np.log(0.8)

    return p, q, log_ratio


def ring(n, seed):
    """Four peaks of deviation 0.6 and a broad N(0, 2.4^2), and their ratio."""
    rng = np.random.default_rng(seed)
    p = CENTRES[rng.integers(0, 4, n)] + 0.6 * rng.normal(size=(n, 2))

    def ratio(x):
        squares = ((x[:, None] - CENTRES) ** 2).sum(axis=2)
        peaks = np.exp(-squares / 0.72).mean(axis=1) / 0.36
        return peaks / (np.exp(-(x**2).sum(axis=1) / 11.52) / 5.76)

    return p, 2.4 * rng.normal(size=(n, 2)), ratio


def fit(p, q, *weights, **settings):
    return DensityRatioEstimator(random_state=0, n_jobs=2, **settings).fit(p, q, *weights)


@pytest.fixture(scope="module")
def pair():
    return gaussians(150, 2, 5)[:2]


@pytest.fixture(scope="module")
def fitted(pair):
    return fit(*pair)


def test_the_error_falls_with_the_rows():
    """The mean over three seeds, from 60 to 600 rows each: slope below -0.5 in both measures."""
    sizes, errors = [60, 600], []
    for n in sizes:
        found = []
        for seed in range(3):
            p, q, log_ratio = gaussians(n, 1, seed)
            estimator = fit(p, q)
            fresh = gaussians(4000, 1, 100 + seed)
            log_error = estimator.log_ratio(fresh[0]) - log_ratio(fresh[0])
            error = estimator.predict(fresh[1]) - np.exp(log_ratio(fresh[1]))
            found.append([np.mean(log_error**2), np.mean(error**2)])
        errors.append(np.mean(found, axis=0))
    slopes = np.diff(np.log(errors), axis=0)[0] / np.diff(np.log(sizes))
    assert (slopes < -0.5).all(), (slopes, errors)
    assert (errors[1] < 0.05).all(), errors


@pytest.mark.parametrize("loss", LOSSES)
def test_four_peaks_are_beyond_logistic_regression(loss):
    """Mean square error of the ratio under q, against a linear and a quadratic model."""
    p, q, ratio = ring(700, 1)
    fresh = ring(4000, 2)[1]
    truth = ratio(fresh)
    error = np.mean((fit(p, q, loss=loss).predict(fresh) - truth) ** 2)
    for degree in (1, 2):
        model = make_pipeline(PolynomialFeatures(degree), LogisticRegression(max_iter=1000))
        model.fit(np.r_[p, q], np.repeat([1, 0], 700))
        peer = np.exp(model.decision_function(fresh))
        assert error < 0.5 * np.mean((peer - truth) ** 2), (loss, degree)


@pytest.mark.parametrize("loss", LOSSES)
def test_divergences_are_near_the_closed_form(loss):
    """KL = (0.64 - 1 - log 0.64 + 0.49)/2; Pearson by its integral over a grid.

    With 900 rows the two sample means together deviate by about 0.03 and 0.04: four of these,
    and the bounds fall short of the truth by the error of the ratio.
    """
    p, q, log_ratio = gaussians(900, 1, 3)
    grid = np.linspace(-8, 8, 4001)[:, None]
    density = np.exp(-0.5 * grid[:, 0] ** 2) / np.sqrt(2 * np.pi)
    pearson = 0.5 * np.sum(density * (np.exp(log_ratio(grid)) - 1) ** 2) * 0.004
    kl = 0.5 * (0.64 - 1 - np.log(0.64) + 0.49)
    estimator = fit(p, q, loss=loss)
    fresh = gaussians(900, 1, 4)[:2]
    for given in ((), fresh):
        assert abs(estimator.divergence(*given, kind="kl") - kl) < 0.12
        assert abs(estimator.divergence(*given, kind="pearson") - pearson) < 0.16


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("d", [1, 20])
def test_equal_distributions_have_the_ratio_one(loss, d):
    rng = np.random.default_rng(d)
    estimator = fit(rng.normal(size=(200, d)), rng.normal(size=(200, d)), loss=loss)
    ratio = estimator.predict(rng.normal(size=(1000, d)))
    assert np.mean((ratio - 1) ** 2) < 0.1
    assert estimator.divergence() < 0.1


@pytest.mark.parametrize("loss", LOSSES)
def test_samples_far_apart_give_large_finite_ratios(loss):
    rng = np.random.default_rng(0)
    p, q = 50 + rng.normal(size=(100, 2)), rng.normal(size=(100, 2))
    estimator = fit(p, q, loss=loss)
    at_p, at_q = estimator.predict(p), estimator.predict(q)
    assert np.isfinite(np.r_[at_p, at_q, estimator.predict([[1e6, -1e6]])]).all()
    assert (at_p > 1).all()
    # A least-squares ratio grows without bound at p, and some of that shows at single rows of q.
    assert np.median(at_q) < 0.5 if loss == "least_squares" else (at_q < 0.5).all()
    assert at_p.max() < 100.001
    assert at_q.min() > 0.0099
    assert np.isfinite(estimator.divergence())
    assert estimator.divergence() > 1


def test_sizes_may_differ():
    """A hundred rows against five hundred: each sample counts one half."""
    p, _, log_ratio = gaussians(100, 2, 8)
    q = gaussians(500, 2, 9)[1]
    fresh_p, fresh_q, _ = gaussians(4000, 2, 10)
    few, many = fit(p, q), fit(q, p)
    for estimator, sign in ((few, 1), (many, -1)):
        assert np.mean((estimator.log_ratio(fresh_p) - sign * log_ratio(fresh_p)) ** 2) < 0.25
    assert abs(few.predict(fresh_q).mean() - 1) < 0.25


@pytest.mark.parametrize("sizes", [(1100, 1100), (4200, 4200), (40, 4200)])
def test_many_rows(sizes):
    """A search on a hold-out, a search on a part of the rows, and a part as good as the whole."""
    p, _, log_ratio = gaussians(sizes[0], 1, 8)
    q = gaussians(sizes[1], 1, 9)[1]
    estimator = fit(p, q, max_blocks=4, block_size=64)
    assert len(estimator.history_) <= 4
    fresh = gaussians(4000, 1, 10)[0]
    assert np.mean((estimator.log_ratio(fresh) - log_ratio(fresh)) ** 2) < 0.2


def test_weights_are_repetitions(pair):
    """Weighted rows tend to what the distribution they stand for has; zero is absence."""
    p, q = pair
    weights = np.random.default_rng(1).integers(0, 2, len(p))
    absent, left_out = fit(p, q, weights), fit(p[weights > 0], q)
    np.testing.assert_array_equal(absent.predict(q), left_out.predict(q))
    np.testing.assert_array_equal(fit(p, q, np.full(len(p), 8.0)).predict(q), fit(p, q).predict(q))
    # q weighted by the true ratio is p.
    p, q, log_ratio = gaussians(300, 1, 2)
    weighted = fit(p, q, None, np.exp(log_ratio(q)))
    assert np.mean((weighted.predict(p) - 1) ** 2) < 0.1
    assert np.mean((fit(p, q).predict(p) - 1) ** 2) > 0.2


def test_threads_and_repetition_change_nothing(pair, fitted):
    p, q = pair
    again = DensityRatioEstimator(random_state=0, n_jobs=1).fit(p, q)
    np.testing.assert_array_equal(again.predict(q), fitted.predict(q))
    assert again._model.to_bytes() == fitted._model.to_bytes()


def test_precision_and_tables(pair, fitted):
    p, q = pair
    for dtype in (np.float32, np.float64):
        assert fitted.predict(q.astype(dtype)).dtype == dtype
        assert fitted.log_ratio(q.astype(dtype)).dtype == dtype
    single = fit(p.astype(np.float32), q.astype(np.float32))
    np.testing.assert_allclose(single.predict(q), fitted.predict(q), rtol=1e-3)
    np.testing.assert_allclose(np.log(fitted.predict(q)), fitted.log_ratio(q), atol=1e-5)
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame(x, columns=["left", "right"]) for x in pair]
    named = fit(*frames)
    assert named.feature_names_in_.tolist() == ["left", "right"]
    np.testing.assert_array_equal(named.predict(frames[1]), fitted.predict(q))
    with pytest.raises(ValueError, match="feature names"):
        fit(frames[0], frames[1][["right", "left"]])


def test_survives_pickling_a_file_and_cloning(pair, fitted, tmp_path):
    _, q = pair
    fitted.save(tmp_path / "ratio")
    loaded = DensityRatioEstimator.load(tmp_path / "ratio")
    for copy in (pickle.loads(pickle.dumps(fitted)), loaded):
        np.testing.assert_array_equal(copy.predict(q), fitted.predict(q))
        assert copy.divergence(kind="pearson") == fitted.divergence(kind="pearson")
        assert copy.n_features_in_ == 2
        assert copy.get_params() | {"n_jobs": 2} == fitted.get_params()
        assert copy.history_ == fitted.history_
        assert copy.n_blocks_ == fitted.n_blocks_
    fresh = clone(fitted).set_params(loss="kl")
    assert fresh.get_params() == fitted.get_params() | {"loss": "kl"}
    assert not hasattr(fresh, "bandwidth_")
    with pytest.raises(ValueError, match="not fitted"):
        fresh.predict(q)
    (tmp_path / "damaged").write_bytes((tmp_path / "ratio").read_bytes()[:-9])
    with pytest.raises(InvalidInput):
        DensityRatioEstimator.load(tmp_path / "damaged")


def test_time_and_bandwidth_are_limited(pair):
    hurried = fit(*pair, max_time=1e-6)
    assert hurried.n_blocks_ <= 1
    assert np.isfinite(hurried.predict(pair[0])).all()
    given = fit(*pair, bandwidth=1.25, max_blocks=3, block_size=64)
    assert given.bandwidth_ == 1.25
    assert given.n_blocks_ <= 3


def test_progress_is_shown(pair, capsys):
    fit(*pair, verbose=2)
    told = capsys.readouterr().err
    assert "choosing the bandwidth" in told
    assert "fitting 1/" in told


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("loss", "hinge", "expected one of logistic, kl, least_squares"),
        ("bandwidth", -1.0, "bandwidth = -1 is outside"),
        ("bandwidth", "wide", "expected one of auto, median, scale"),
        ("metric", "taxicab", "expected one of auto, none, diagonal, full"),
        ("scaling", "unit", "expected one of auto, none, standard"),
        ("damping", 0.0, "damping = 0 is outside"),
        ("max_blocks", 0, "max_blocks = 0 is outside"),
        ("max_time", "long", "max_time = 'long' should be a number or None"),
        ("block_size", 1.5, "block_size = 1.5 should be a whole number"),
        ("random_state", -1, "random_state = -1 is outside"),
        ("n_jobs", 0, "n_jobs = 0 is outside"),
    ],
)
def test_settings_are_checked(pair, name, value, message):
    with pytest.raises(InvalidInput, match=message):
        DensityRatioEstimator(**{name: value}).fit(*pair)


def test_bad_data_are_named(pair, fitted):
    p, q = pair
    bad = q.copy()
    bad[17, 1] = np.nan
    with pytest.raises(InvalidInput, match="X_denominator contains NaN at row 17, column 1"):
        fit(p, bad)
    with pytest.raises(InvalidInput, match="X_numerator contains NaN at row 17, column 1"):
        fit(bad, p)
    with pytest.raises(InvalidInput, match="X contains NaN at row 17, column 1"):
        fitted.predict(bad)
    with pytest.raises(ValueError, match="X has 1 features"):
        fit(p, q[:, :1])
    with pytest.raises(ValueError, match="0 sample"):
        fit(p[:0], q)
    with pytest.raises(InvalidInput, match="X_denominator is empty; at least two rows of positive"):
        fit(p, q[:1])
    with pytest.raises(InvalidInput, match="X_numerator is empty; at least two rows of positive"):
        fit(p, q, np.zeros(len(p)))
    with pytest.raises(InvalidInput, match="sample_weight_denominator = -1 is outside"):
        fit(p, q, None, -np.ones(len(q)))
    with pytest.raises(InvalidInput, match="sample_weight_numerator has 149 rows, expected 150"):
        fit(p, q, np.ones(149))
    with pytest.raises(InvalidInput, match="both X_numerator and X_denominator, or none"):
        fitted.divergence(p)
    with pytest.raises(InvalidInput, match="expected one of kl, pearson"):
        fitted.divergence(kind="hellinger")


def test_columns_in_which_the_samples_differ_are_found(tmp_path):
    """Two peaks in one column among twelve; without a metric the eleven others drown them."""
    rng = np.random.default_rng(0)

    def samples(n):
        p, q = rng.normal(size=(2, n, 12))
        p[:, 3] = 1.5 * rng.choice([-1, 1], size=n) + 0.5 * p[:, 3]
        return p, q

    p, q = samples(1_500)
    at = np.vstack(samples(250))
    peaks = [np.exp(-2 * (at[:, 3] - peak) ** 2) for peak in (-1.5, 1.5)]
    truth = np.log(np.sum(peaks, axis=0)) + at[:, 3] ** 2 / 2
    errors = {}
    for metric in ("auto", "none"):
        model = DensityRatioEstimator(metric=metric, random_state=0).fit(p, q)
        errors[metric] = np.sqrt(np.mean((model.log_ratio(at) - truth) ** 2))
        if metric == "none":
            assert model.metric_ is None
            assert not hasattr(model, "feature_importances_")
        else:
            assert np.argmax(model.feature_importances_) == 3
            assert model.feature_importances_[3] > 0.5
            assert model.metric_.shape == (12, 12)
            found = model
    assert errors["auto"] < 0.6 * errors["none"]
    path = tmp_path / "ratio.riesz"
    found.save(path)
    again = DensityRatioEstimator.load(path)
    np.testing.assert_array_equal(again.log_ratio(at), found.log_ratio(at))
    np.testing.assert_array_equal(again.metric_, found.metric_)
    # What is learnt later sees rows through the same metric.
    again.partial_fit(*samples(4_000))
    np.testing.assert_array_equal(again.metric_, found.metric_)
    assert np.sqrt(np.mean((again.log_ratio(at) - truth) ** 2)) < 1.2 * errors["auto"]
    # A fit that finds none forgets it.
    again.set_params(metric="none").fit(p, q)
    assert again.metric_ is None
    assert not hasattr(again, "feature_importances_")
