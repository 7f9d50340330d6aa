"""Losses beside the peers of scikit-learn."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import HuberRegressor, PoissonRegressor
from sklearn.metrics import d2_pinball_score, mean_pinball_loss, mean_poisson_deviance
from sklearn.svm import SVR, LinearSVC

from riesz import InvalidInput, KernelClassifier, KernelQuantileRegressor, KernelRegressor
from riesz._riesz import loss_names

LEVELS = [0.05, 0.5, 0.95]


@pytest.fixture(scope="module")
def fan():
    """Noise whose spread grows with the first of two columns."""
    rng = np.random.default_rng(11)
    X = rng.uniform(-1, 1, size=(8000, 2))
    spread = 0.2 + 0.4 * (X[:, 0] + 1)
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + spread * rng.normal(size=len(X))


@pytest.mark.parametrize("loss", [name for name in loss_names(False) if name != "quantile"])
def test_every_loss_of_numbers_finds_a_curve(loss):
    """The mean, the median and what is between them are the same where noise is symmetric."""
    rng = np.random.default_rng(16)
    X = rng.uniform(-1, 1, size=(600, 1))
    truth = 3 + np.sin(3 * X[:, 0])
    y = np.abs(truth + 0.07 * rng.normal(size=600))
    model = KernelRegressor(loss=loss, delta=0.1, epsilon=0.02, random_state=0).fit(X, y)
    assert model.loss_ == loss
    # Ten degrees of freedom of 600 rows leave 0.017 of the variance of the noise: six times that.
    assert np.mean((model.predict(X) - truth) ** 2) < 0.1 * 0.07**2
    assert f'"{loss}"' in KernelRegressor.__doc__


@pytest.mark.parametrize("loss", loss_names(True))
@pytest.mark.parametrize("classes", [2, 3])
def test_every_loss_of_classes_finds_the_borders(loss, classes):
    X = np.random.default_rng(17).uniform(-1, 1, size=(1200, 2))
    y = np.digitize(X[:, 0] + 0.3 * np.sin(4 * X[:, 1]), np.linspace(-0.4, 0.4, classes - 1))
    model = KernelClassifier(loss=loss, random_state=0).fit(X[:600], y[:600])
    assert model.loss_ == loss
    assert model.score(X[600:], y[600:]) > 0.95
    np.testing.assert_allclose(model.predict_proba(X[600:]).sum(axis=1), 1, rtol=1e-5)
    assert f'"{loss}"' in KernelClassifier.__doc__


@pytest.mark.parametrize("n", [1000, 4000])
def test_quantiles_are_as_good_as_boosted_ones(fan, n):
    X, y = fan
    found = KernelQuantileRegressor(random_state=0).fit(X[:n], y[:n]).predict(X[4000:])
    assert found.shape == (4000, 3)
    for level, column in zip(LEVELS, found.T, strict=True):
        peer = GradientBoostingRegressor(loss="quantile", alpha=level, random_state=0)
        theirs = peer.fit(X[:n], y[:n]).predict(X[4000:])
        ours, theirs = (mean_pinball_loss(y[4000:], v, alpha=level) for v in (column, theirs))
        assert ours < 1.02 * theirs, (level, ours, theirs)


def test_quantiles_cover(fan):
    X, y = fan
    low, middle, high = (
        KernelQuantileRegressor(random_state=0).fit(X[:4000], y[:4000]).predict(X[4000:]).T
    )
    # Of 4,000 rows seen and as many fresh ones: sqrt(p (1 - p) 2 / 4000), four times that, and
    # 0.01 for what thirty degrees of freedom learn by heart.
    for share, level in ((y[4000:] < low, 0.05), (y[4000:] < middle, 0.5), (y[4000:] < high, 0.95)):
        noise = np.sqrt(level * (1 - level) * 2 / 4000)
        assert abs(share.mean() - level) < 4 * noise + 0.01, (level, share.mean())


def test_quantiles_do_not_cross_unless_asked(fan):
    X, y = fan
    levels = np.linspace(0.05, 0.95, 19)
    machine = KernelQuantileRegressor(quantiles=levels, damping=1e-3, random_state=0)
    machine.fit(X[:60], y[:60])
    ordered = machine.predict(X[4000:])
    assert np.all(np.diff(ordered, axis=1) >= 0)
    crossing = machine.set_params(non_crossing=False).predict(X[4000:])
    assert np.any(np.diff(crossing, axis=1) < 0)
    np.testing.assert_array_equal(np.sort(crossing, axis=1), ordered)


def test_the_score_of_quantiles_is_explained_pinball_loss(fan):
    X, y = fan
    machine = KernelQuantileRegressor(max_blocks=4, random_state=0).fit(X[:500], y[:500])
    weights = np.linspace(0, 1, 500)
    columns = zip(LEVELS, machine.predict(X[500:1000]).T, strict=True)
    scores = [d2_pinball_score(y[500:1000], v, alpha=q, sample_weight=weights) for q, v in columns]
    assert machine.score(X[500:1000], y[500:1000], weights) == pytest.approx(np.mean(scores))


def test_quantiles_go_through_files(fan, tmp_path):
    X, y = fan
    for quantiles in (0.5, [0.1, 0.9], np.array([0.1, 0.9])):
        machine = KernelQuantileRegressor(quantiles=quantiles, max_blocks=2, random_state=0)
        machine.fit(X[:100], y[:100]).save(tmp_path / "model")
        again = KernelQuantileRegressor.load(tmp_path / "model")
        np.testing.assert_array_equal(again.quantiles, quantiles)
        np.testing.assert_array_equal(again.predict(X), machine.predict(X))
        assert again.loss_ == "quantile"
        with pytest.raises(InvalidInput, match=r"read it with KernelQuantileRegressor\.load"):
            KernelRegressor.load(tmp_path / "model")
    KernelRegressor(loss="huber", delta=0.5, max_blocks=2).fit(X[:100], y[:100]).save(
        tmp_path / "huber"
    )
    again = KernelRegressor.load(tmp_path / "huber")
    assert (again.loss_, again.delta) == ("huber", 0.5)
    with pytest.raises(InvalidInput, match="holds no quantiles"):
        KernelQuantileRegressor.load(tmp_path / "huber")


def test_huber_agrees_with_the_linear_one_on_a_line():
    rng = np.random.default_rng(12)
    X = rng.uniform(-1, 1, size=(1500, 1))
    y = 2 * X[:, 0] + 0.2 * rng.normal(size=1500)
    y[::20] += 30
    grid = np.linspace(-0.9, 0.9, 50)[:, None]
    line = HuberRegressor(epsilon=1.35, alpha=0).fit(X, y).predict(grid)
    ours = KernelRegressor(loss="huber", delta=0.27, random_state=0).fit(X, y).predict(grid)
    square = KernelRegressor(random_state=0).fit(X, y).predict(grid)
    # Noise of 0.2 over sqrt(1500 / 10) for ten degrees of freedom: 0.016 on average, and at most
    # four times that.
    assert np.abs(ours - line).max() < 0.065
    assert np.abs(square - line).max() > 1


def test_epsilon_insensitive_is_as_good_as_support_vectors(fan):
    X, y = fan
    ours = KernelRegressor(loss="epsilon_insensitive", random_state=0).fit(X[:1500], y[:1500])
    peer = SVR(epsilon=0.1).fit(X[:1500], y[:1500])
    errors = [np.mean(np.abs(m.predict(X[4000:]) - y[4000:])) for m in (ours, peer)]
    assert errors[0] < 1.02 * errors[1], errors


@pytest.mark.parametrize("n", [1000, 4000])
def test_rates_are_found(n):
    rng = np.random.default_rng(13)
    X = rng.uniform(-1, 1, size=(6000, 2))
    rate = np.exp(0.5 + np.sin(3 * X[:, 0]) + X[:, 1])
    y = rng.poisson(rate)
    machine = KernelRegressor(loss="poisson", random_state=0).fit(X[:n], y[:n])
    found = machine.predict(X[4000:])
    assert (found > 0).all()
    # Twenty degrees of freedom on n rows: a deviance of 20 / n on top of that of the truth.
    ours, truth, line = (
        mean_poisson_deviance(y[4000:], v)
        for v in (found, rate[4000:], PoissonRegressor(alpha=0).fit(X[:n], y[:n]).predict(X[4000:]))
    )
    assert ours < truth + 3 * 20 / n, (ours, truth)
    assert ours < line


def test_several_targets_are_fitted_together():
    rng = np.random.default_rng(14)
    X = rng.uniform(-1, 1, size=(400, 1))
    Y = np.column_stack([np.sin(3 * X[:, 0]), 100 * X[:, 0] ** 2]) + 0.01 * rng.normal(
        size=(400, 2)
    )
    for loss in ("huber", "absolute", "epsilon_insensitive"):
        found = KernelRegressor(loss=loss, epsilon=0.01, random_state=0).fit(X, Y).predict(X)
        assert found.shape == Y.shape
        assert (np.mean(np.abs(found - Y), axis=0) < 0.05 * np.std(Y, axis=0)).all(), loss
    counts = rng.poisson(np.exp(1 + np.abs(Y[:, :1]) * [1, 0.5]))
    rates = KernelRegressor(loss="poisson", random_state=0).fit(X, counts).predict(X)
    assert rates.shape == counts.shape
    np.testing.assert_allclose(rates.mean(axis=0), counts.mean(axis=0), rtol=0.1)


def test_crammer_singer_reads_digits(digits):
    X, y, X_test, y_test = digits
    machine = KernelClassifier(loss="crammer_singer", random_state=0).fit(X, y)
    peer = LinearSVC(multi_class="crammer_singer", max_iter=20_000).fit(X / 16, y)
    assert machine.score(X_test, y_test) > peer.score(X_test / 16, y_test)
    np.testing.assert_allclose(machine.predict_proba(X_test).sum(axis=1), 1, rtol=1e-5)


def test_crammer_singer_probabilities_are_calibrated():
    rng = np.random.default_rng(15)
    X = rng.uniform(-2, 2, size=(5000, 2))
    logits = np.column_stack([X[:, 0], X[:, 1], -X[:, 0] - X[:, 1]])
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    machine = KernelClassifier(loss="crammer_singer", max_blocks=16, random_state=0)
    p = machine.fit(X[:3000], y[:3000]).predict_proba(X[3000:])
    frequencies = np.bincount(y[:3000]) / 3000
    log_loss = -np.log(p[np.arange(2000), y[3000:]]).mean()
    entropy = -(frequencies * np.log(frequencies)).sum()
    truth = np.exp(logits[3000:]) / np.exp(logits[3000:]).sum(axis=1, keepdims=True)
    best = -np.log(truth[np.arange(2000), y[3000:]]).mean()
    # Scores of hinges say little beyond the margin, but more than frequencies: half of it all.
    assert log_loss < best + 0.5 * (entropy - best), (best, log_loss, entropy)


@pytest.mark.parametrize("n", [200, 1000])
def test_quantiles_cover_as_many_new_rows_as_they_say(n):
    X, y = make_friedman1(n + 4000, noise=1.0, random_state=0)
    model = KernelQuantileRegressor(quantiles=[0.1, 0.9], random_state=0).fit(X[:n], y[:n])
    below = np.mean(y[n:, None] < model.predict(X[n:]), axis=0)
    # Three deviations of the n rows that settle the level, and of the 4,000 that count.
    chance = 3 * np.sqrt(0.1 * 0.9 * (1 / n + 1 / 4000))
    assert np.all(abs(below - [0.1, 0.9]) < chance)
