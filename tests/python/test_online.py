"""Online kernel machines from Python."""

import pickle

import numpy as np
import pytest

import riesz
from riesz import InvalidInput, OnlineKernelClassifier, OnlineKernelRegressor


@pytest.fixture
def waves():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, size=(1500, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=1500)


# Features come in multiples of 64.
@pytest.mark.parametrize(("memory", "kept"), [("features", 448), ("dictionary", 400)])
def test_rows_are_predicted_before_they_are_learnt_from(waves, memory, kept):
    X, y = waves
    model = OnlineKernelRegressor(memory=memory, budget=400).fit(X, y)
    assert model.n_atoms_ == kept
    assert model.n_seen_ == 1500
    assert model.score(X[-300:], y[-300:]) > 0.9
    # The loss of a constant is half a variance, which is the unit; that of predictions is less.
    assert 0 < model.progressive_loss_ < 0.25


def test_unless_told_otherwise_features_are_kept(waves):
    X, y = waves
    default = OnlineKernelRegressor(random_state=0).fit(X, y)
    assert default.n_atoms_ == 1024
    named = OnlineKernelRegressor(memory="features", budget=1024, random_state=0).fit(X, y)
    assert default._model.to_bytes() == named._model.to_bytes()
    assert OnlineKernelRegressor(memory="dictionary").fit(X, y).n_atoms_ == 1000


def test_regret_is_the_cost_beside_a_fixed_function(waves):
    X, y = waves
    model = OnlineKernelRegressor(memory="dictionary", budget=None).fit(X, y)
    best = np.sin(2 * X[:, 0]) + X[:, 1]
    unit = y[:1024].std()
    fixed = 0.5 * np.sum(((best - y) / unit) ** 2)
    expected = model.progressive_loss_ * 1500 - fixed
    assert model.regret(X, y, best) == pytest.approx(expected, rel=1e-3)
    assert model.regret(X, y, best) > 0
    with pytest.raises(InvalidInput, match="all rows learnt from: 1500, and X has 10"):
        model.regret(X[:10], y[:10], best[:10])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        *({"memory": "dictionary", "drop": drop, "budget": 50} for drop in ("oldest", "smallest")),
    ],
)
def test_a_pickle_or_a_file_in_the_middle_changes_nothing(waves, settings, tmp_path):
    X, y = waves
    model = OnlineKernelRegressor(random_state=0, **settings)
    model.partial_fit(X[:700], y[:700])
    again = pickle.loads(pickle.dumps(model))
    model.save(tmp_path / "online")
    loaded = riesz.load(tmp_path / "online")
    predictions = [m.partial_fit(X[700:], y[700:]).predict(X) for m in (model, again, loaded)]
    assert np.array_equal(predictions[0], predictions[1])
    assert np.array_equal(predictions[0], predictions[2])


def test_classes(waves, tmp_path):
    X, y = waves
    labels = np.where(y > 0, "up", "down")
    model = OnlineKernelClassifier()
    with pytest.raises(InvalidInput, match="needed by the first partial_fit"):
        model.partial_fit(X, labels)
    for start in range(0, 1500, 500):
        part = slice(start, start + 500)
        model.partial_fit(X[part], labels[part], classes=["up", "down"])
    assert model.classes_.tolist() == ["down", "up"]
    assert model.score(X, labels) > 0.85
    p = model.predict_proba(X)
    assert np.allclose(p.sum(axis=1), 1)
    assert np.array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    model.save(tmp_path / "online")
    loaded = riesz.load(tmp_path / "online")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(InvalidInput, match="margins"):
        OnlineKernelClassifier(loss="hinge").fit(X, labels).predict_proba(X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 0}, "step"),
        ({"ridge": -1.0}, "ridge"),
        ({"budget": 0}, "budget"),
        ({"memory": "dictionary", "budget": 0}, "budget"),
        ({"memory": "dictionary", "drop": "newest"}, "oldest, smallest"),
        ({"memory": "rows"}, "dictionary, features"),
        # What is about rows has no meaning where none is kept.
        ({"budget": None}, "budget = None keeps all rows; give a number of features, or memory"),
        ({"drop": "oldest"}, 'drop and parsimony are about rows kept; give memory = "dictionary"'),
        ({"parsimony": 1.0}, "drop and parsimony are about rows kept"),
        ({"memory": "dictionary", "parsimony": 1.0}, 'parsimony is about drop = "komp"'),
        ({"loss": "hinge"}, "classification"),
        ({"kernel": "gausian"}, "gausian"),
    ],
)
def test_bad_settings_are_refused_by_name(waves, settings, message):
    with pytest.raises(InvalidInput, match=message):
        OnlineKernelRegressor(**settings).fit(*waves)
