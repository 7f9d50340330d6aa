"""Kernel expansions over all of some thousand rows, by sweeps."""

import json
import pickle
import time

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.kernel_ridge import KernelRidge

from riesz import KernelClassifier, KernelRegressor, load

SIGMA = 0.8
FIXED = {
    "kernel": "gaussian",
    "bandwidth": SIGMA,
    "scaling": "none",
    "metric": "none",
    "random_state": 0,
}


def _table(n, columns, seed=3):
    """Rows of which two columns matter, one of them more, and their target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, np.sin(2.5 * X[:, 0]) + 0.5 * X[:, 1] ** 2


def test_is_kernel_ridge_regression():
    """Sweeps end near the solution of the whole system, held-out rows included."""
    X, y = _table(4_500, 2)
    ridge = 1e-3
    found = KernelRegressor(ridge=ridge, **FIXED).fit(X, y)
    # The penalty counts targets of unit variance, and was chosen for nine tenths of the rows.
    alpha = ridge * (len(X) - len(X) // 10)
    peer = KernelRidge(kernel="rbf", gamma=1 / (2 * SIGMA**2), alpha=alpha).fit(X, y - y.mean())
    test, _ = _table(300, 2, seed=4)
    apart = found.predict(test) - peer.predict(test) - y.mean()
    # The last sweep but one changed the held-out loss by less than a hundredth.
    assert np.sqrt(np.mean(apart**2)) < 0.02 * y.std()
    assert found.n_blocks_ == 1


def test_columns_that_matter_are_found():
    """By one kernel: the Laplacian one, which competes otherwise, is good at sums of columns."""
    X, y = _table(3_000, 20)
    test, truth = _table(1_000, 20, seed=4)
    errors = {}
    for metric in ("auto", "none"):
        model = KernelRegressor(metric=metric, kernel="gaussian", random_state=0).fit(X, y)
        errors[metric] = np.sqrt(np.mean((model.predict(test) - truth) ** 2)) / truth.std()
        if metric == "auto":
            assert model.feature_importances_[:2].sum() > 0.9
    assert errors["auto"] < 0.5 * errors["none"]
    assert errors["auto"] < 0.2


def _steps(n, seed):
    """Steps along two of eight columns, and noise: their sum."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 8))
    truth = np.sign(X[:, 0] - 0.2) + 2.0 * (X[:, 1] > 0.3)
    return X, truth + 0.1 * rng.normal(size=n), truth


@pytest.mark.parametrize("n", [1_000, 3_000])
def test_steps_along_columns_are_followed(n, tmp_path):
    """The Laplacian kernel is found where it does better, and goes into files and streams."""
    X, y, _ = _steps(n, 0)
    test, _, truth = _steps(1_000, 1)

    def error(model):
        return np.sqrt(np.mean((model.predict(test) - truth) ** 2)) / truth.std()

    model = KernelRegressor(random_state=0).fit(X, y)
    assert model.kernel_ == "laplacian"
    weights = np.diag(model.metric_)
    assert np.count_nonzero(model.metric_) == 8
    assert weights[:2].min() > weights[2:].max()
    smooth = KernelRegressor(kernel="gaussian", random_state=0).fit(X, y)
    assert error(model) < 0.5 * error(smooth)
    model.save(tmp_path / "model.riesz")
    again = load(tmp_path / "model.riesz")
    np.testing.assert_array_equal(again.predict(test), model.predict(test))
    # Features stand in for the atoms in a stream: no longer as good, but better than the other.
    assert error(again.partial_fit(X[:500], y[:500])) < 0.9 * error(smooth)


@pytest.mark.parametrize("n", [400, 2_400])
def test_no_errors_are_zero(n):
    """Of classes that are far apart none is wrong: 0, not -0."""
    labels = np.arange(n) % 2
    X = np.random.default_rng(0).normal(size=(n, 2)) + 20 * labels[:, None]
    errors = [e["held_out_error"] for e in KernelClassifier(random_state=0).fit(X, labels).history_]
    assert errors[-1] == 0
    assert not np.signbit(errors).any()


def test_classes_have_probabilities():
    """Three classes by two columns; wrong are no more than the noise and a few."""
    X, y = _table(4_000, 4)
    rng = np.random.default_rng(0)
    labels = np.digitize(y, [0.0, 0.8])
    flipped = rng.random(len(labels)) < 0.1
    noisy = np.where(flipped, rng.integers(0, 3, len(labels)), labels)
    model = KernelClassifier(random_state=0).fit(X[:3_000], noisy[:3_000])
    p = model.predict_proba(X[3_000:])
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert np.mean(model.predict(X[3_000:]) != labels[3_000:]) < 0.06
    # Calibrated: the mean probability of the class that is predicted is how often it is right.
    right = np.mean(model.predict(X[3_000:]) == noisy[3_000:])
    assert abs(p.max(axis=1).mean() - right) < 4 * np.sqrt(right * (1 - right) / 1_000) + 0.01


@pytest.mark.parametrize("estimator", [KernelRegressor, KernelClassifier])
def test_threads_and_files_change_nothing(estimator, tmp_path):
    X, y = _table(2_500, 3)
    y = y if estimator is KernelRegressor else (y > 0.3).astype(int)
    settings = {**FIXED, "bandwidth": "auto"}
    one = estimator(n_jobs=1, **settings).fit(X, y)
    two = estimator(n_jobs=2, **settings).fit(X, y)
    answer = one.predict(X[:200])
    np.testing.assert_array_equal(answer, two.predict(X[:200]))
    np.testing.assert_array_equal(answer, pickle.loads(pickle.dumps(one)).predict(X[:200]))
    # A row does not depend on those beside it.
    np.testing.assert_array_equal(answer[7:8], one.predict(X[7:8]))


def test_a_time_budget_is_kept():
    X, y = _table(6_000, 10)
    model = KernelRegressor(max_time=0.5, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X[:100])).all()


def test_a_stream_goes_on_from_an_expansion():
    X, y = _table(2_400, 2)
    model = KernelRegressor(random_state=0).fit(X, y)
    before = model.predict(X[:300])
    model.partial_fit(X[:512], y[:512])
    assert np.sqrt(np.mean((model.predict(X[:300]) - before) ** 2)) < 0.2 * y.std()


def test_sweeps_end_where_the_loss_rises_while_the_error_falls():
    """With this seed it does after some sweeps; nothing but the limit of time ended them once."""
    X, y = make_moons(5_000, noise=0.25, random_state=0)
    labels = np.where(y == 0, "upper", "lower")
    limit = 60
    start = time.monotonic()
    model = KernelClassifier(random_state=8, max_time=limit).fit(X[:4_000], labels[:4_000])
    assert time.monotonic() - start < limit / 2
    assert len(model.history_) <= 16
    # Who knows how the moons were made is wrong on about 5.5 per cent.
    assert model.score(X[4_000:], labels[4_000:]) > 0.92


def _images(n, columns=160, seed=5):
    """Classes by an angle in eight directions of many columns, whose noise is small elsewhere."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(columns, 8)))[0]
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 8))
    X = z @ basis.T + 0.02 * rng.normal(size=(n, columns))
    return X, (np.arctan2(z[:, 0], z[:, 1]) // (np.pi / 3)).astype(int)


def test_classes_of_many_columns_are_told_apart_in_few_directions(tmp_path):
    """The rows of the model are those directions, in bfloat16; the metric is of the columns."""
    X, y = _images(3_000)
    model = KernelClassifier(random_state=0, n_jobs=1).fit(X, y)
    assert model.loss_ == "least_squares"
    assert model.n_blocks_ == 1
    assert model.metric_.shape == (160, 160)
    assert model.n_features_in_ == 160
    assert np.linalg.matrix_rank(model.metric_, tol=1e-6 * np.abs(model.metric_).max()) <= 80
    test, truth = _images(1_000, seed=6)
    assert (model.predict(test) != truth).mean() < 0.15
    # Threads, files and the number of rows that are predicted together change no bit.
    scores = model.decision_function(test)
    for other in (
        KernelClassifier(random_state=0, n_jobs=2).fit(X, y),
        pickle.loads(pickle.dumps(model)),
    ):
        np.testing.assert_array_equal(other.decision_function(test), scores)
    model.save(tmp_path / "model.riesz")
    np.testing.assert_array_equal(
        KernelClassifier.load(tmp_path / "model.riesz").decision_function(test[:7]), scores[:7]
    )
    with pytest.raises(ValueError, match="160"):
        model.predict(test[:, :80])
    header, points = _contents(tmp_path / "model.riesz")
    assert header["machine"]["rounded"]
    assert not (points.view(np.uint32) & 0xFFFF).any()


def _contents(path):
    """The header of a model file and the points of its kernel."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8:start])
    first, last = entries["points"]["data_offsets"]
    points = np.frombuffer(raw[start + first : start + last], np.float32)
    return json.loads(entries["__metadata__"]["riesz"]), points


def test_only_classes_in_few_directions_are_rounded(tmp_path):
    """Not numbers, nor classes of few columns."""
    X, y = _table(2_100, 40)
    for name, model in (
        ("numbers", KernelRegressor(random_state=0).fit(X, y)),
        ("classes", KernelClassifier(random_state=0).fit(X, y > 0.5)),
    ):
        model.save(tmp_path / name)
        header, points = _contents(tmp_path / name)
        assert not header["machine"]["rounded"]
        assert (points.view(np.uint32) & 0xFFFF).any()


def test_classes_whose_columns_are_all_needed_keep_them():
    """No direction has more variance than another: blocks, as before."""
    X = np.random.default_rng(0).normal(size=(2_400, 120))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = KernelClassifier(random_state=0, max_time=20).fit(X, y)
    assert model.loss_ == "squared_hinge"
    assert model.n_blocks_ > 1


@pytest.mark.parametrize(
    "setting", [{"metric": "none"}, {"metric": "diagonal"}, {"solver": "block"}]
)
def test_blocks_of_many_columns_may_be_asked_for(setting):
    X, y = _images(2_200)
    model = KernelClassifier(random_state=0, **setting).fit(X, y)
    assert model.loss_ == "squared_hinge"


def test_a_stream_goes_on_from_few_directions():
    X, y = _images(2_200)
    model = KernelClassifier(random_state=0).fit(X, y)
    before = model.score(X, y)
    model.partial_fit(*_images(500, seed=7))
    assert model.score(X, y) > before - 0.1
    assert model.metric_.shape == (160, 160)


def test_rows_that_are_all_equal_have_no_directions():
    y = np.arange(2_000) % 2
    model = KernelClassifier(random_state=0, max_time=20).fit(np.ones((2_000, 120)), y)
    assert np.isfinite(model.decision_function(np.ones((3, 120)))).all()
