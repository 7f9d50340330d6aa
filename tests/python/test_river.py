"""Rows one by one, as river has them; its own checks where it is installed."""

import pickle

import numpy as np
import pandas
import pytest

import riesz
from riesz import InvalidInput, OnlineKernelClassifier, OnlineKernelRegressor

MEMORIES = [{"memory": "dictionary"}, {}]


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    radius = np.hypot(X[:, 0], X[:, 1])
    labels = np.where(radius < 0.8, "in", np.where(radius < 1.5, "ring", "out"))
    return [dict(zip("cab", map(float, row), strict=True)) for row in X], labels.tolist()


@pytest.mark.parametrize("settings", MEMORIES)
def test_rows_one_by_one_are_rows_of_an_array(settings):
    rows, labels = stream(1500)
    one = OnlineKernelClassifier(random_state=0, **settings)
    for x, y in zip(rows, labels, strict=True):
        one.learn_one(x, y)
    assert one.feature_names_in_.tolist() == ["a", "b", "c"]
    assert one.classes_.tolist() == list(dict.fromkeys(labels))
    X = np.array([[x["a"], x["b"], x["c"]] for x in rows])
    right = np.mean([one.predict_one(x) == y for x, y in zip(rows, labels, strict=True)])
    assert right > 0.8
    p = one.predict_proba_one(rows[0])
    assert sum(p.values()) == pytest.approx(1)
    assert max(p, key=p.get) == one.predict_one(rows[0])
    # The same rows of a regression in one call, in several and one by one: the same bits.
    numbers = np.array([x["a"] * x["b"] for x in rows])
    models = [OnlineKernelRegressor(random_state=0, **settings) for _ in range(3)]
    models[0].fit(X, numbers)
    for start in range(0, 1500, 123):
        models[1].partial_fit(X[start : start + 123], numbers[start : start + 123])
    for x, number in zip(rows, numbers, strict=True):
        models[2].learn_one(x, number)
    bytes_ = [model._model.to_bytes() for model in models]
    assert bytes_[0] == bytes_[1] == bytes_[2]
    assert models[2].predict_one(rows[5]) == models[0].predict(X.astype(np.float32)[5:6])[0]
    assert models[0].progressive_loss_ == models[2].progressive_loss_
    table = pandas.DataFrame(rows)
    assert one.predict(table[["a", "b", "c"]]).tolist() == [one.predict_one(x) for x in rows]
    # What is told before learning is what would be predicted.
    told = models[1].partial_fit_predict(X[:1], numbers[:1])
    assert told[0] == pytest.approx(models[0].predict(X[:1])[0], rel=1e-6)


@pytest.mark.parametrize("settings", MEMORIES)
@pytest.mark.parametrize("rows_before", [1, 2, 3, 100, 1023, 1024, 1100])
def test_resumed_at_any_moment(settings, rows_before, tmp_path):
    rows, labels = stream(1200)
    straight = OnlineKernelClassifier(random_state=0, **settings)
    stopped = OnlineKernelClassifier(random_state=0, **settings)
    for i, (x, y) in enumerate(zip(rows, labels, strict=True)):
        straight.learn_one(x, y)
        stopped.learn_one(x, y)
        if i + 1 == rows_before:
            stopped.save(tmp_path / "model")
            stopped = riesz.load(tmp_path / "model")
        if i + 1 == rows_before + 5:
            stopped = pickle.loads(pickle.dumps(stopped))
    straight.save(tmp_path / "straight")
    stopped.save(tmp_path / "stopped")
    assert (tmp_path / "straight").read_bytes() == (tmp_path / "stopped").read_bytes()


def test_before_any_row():
    assert OnlineKernelClassifier().predict_one({"a": 1.0}) is None
    assert OnlineKernelClassifier().predict_proba_one({"a": 1.0}) == {}
    assert OnlineKernelRegressor().predict_one({"a": 1.0}) == 0.0
    model = OnlineKernelClassifier()
    model.learn_one({"a": 1.0}, "only")
    assert model.predict_one({"a": 9.0}) == "only"
    assert model.predict_proba_one({"a": 9.0}) == {"only": 1.0}
    table = pandas.DataFrame({"a": [2.0]})
    assert model.predict(table).tolist() == ["only"]
    assert model.predict_proba(table).tolist() == [[1.0]]
    model.learn_one({"a": 1.0}, "other", w=0.0)
    assert model.classes_.tolist() == ["only"]


@pytest.mark.parametrize("settings", MEMORIES)
def test_classes_come_as_they_like(settings):
    rng = np.random.default_rng(1)
    model = OnlineKernelClassifier(random_state=0, **settings)
    centres = {True: 0.0, "two": 3.0, 3: 6.0, (4, "four"): 9.0}
    seen = []
    # A new class every 1,000 rows: the second of them after everything was settled.
    for known in range(1, 5):
        for _ in range(1000):
            label = list(centres)[rng.integers(known)]
            x = {"x": centres[label] + 0.3 * rng.normal()}
            seen.append(model.predict_one(x) == label)
            model.learn_one(x, label)
        assert np.mean(seen[-300:]) > 0.95, known
        assert set(model.predict_proba_one({"x": 0.0})) == set(list(centres)[:known])


@pytest.mark.parametrize("settings", MEMORIES)
def test_features_appear_and_are_missing(settings):
    rng = np.random.default_rng(2)
    model = OnlineKernelRegressor(random_state=0, **settings)
    errors = []
    for i in range(3000):
        x = {"a": rng.normal(), "b": rng.normal()}
        y = x["a"] + 2 * (x["b"] if i >= 300 else 0.0)
        if i < 300:
            del x["b"]
        errors.append((model.predict_one(x) - y) ** 2)
        model.learn_one(x, y)
    assert np.mean(errors[-500:]) < 0.5
    assert model.n_features_in_ == 2
    # Nothing is where a feature is missing: it is zero there. What comes later is ignored.
    assert model.predict_one({"a": 1.0}) == model.predict_one({"a": 1.0, "b": 0.0})
    model.learn_one({"a": 1.0, "b": 1.0, "late": 5.0}, 3.0)
    assert model.n_features_in_ == 2
    assert model.predict_one({"a": 1.0, "late": 9.0}) == model.predict_one({"a": 1.0})


def test_weights_are_repetitions():
    rows, _ = stream(400)
    weighted = OnlineKernelRegressor(step=2.0, random_state=0)
    repeated = OnlineKernelRegressor(step=2.0, random_state=0)
    for i, x in enumerate(rows):
        weighted.learn_one(x, x["a"], w=1.0 + i % 2)
        for _ in range(1 + i % 2):
            repeated.learn_one(x, x["a"])
    values = np.array([[m.predict_one(x) for m in (weighted, repeated)] for x in rows])
    assert np.corrcoef(values.T)[0, 1] > 0.99


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"a": "text"}, "feature 'a' = 'text' is not a number"),
        ({"a": float("nan")}, "feature 'a' = nan is not a number"),
        ({"a": None}, "feature 'a' = None is not a number"),
    ],
)
def test_what_is_no_number_is_refused_by_name(x, message):
    model = OnlineKernelRegressor()
    with pytest.raises(InvalidInput, match=message):
        model.learn_one(x, 1.0)
    model = OnlineKernelRegressor()
    model.learn_one({"a": 1.0}, 1.0)
    with pytest.raises(InvalidInput, match=message):
        model.learn_one(x, 1.0)
    with pytest.raises(InvalidInput, match="no features"):
        OnlineKernelRegressor().learn_one({}, 1.0)
    with pytest.raises(InvalidInput, match="no label"):
        OnlineKernelClassifier().learn_one({"a": 1.0}, None)


def drifting(kind, rng, n=4000):
    """Yield rows whose best function changes its sign half way, at once or by and by."""
    for i in range(n):
        share = float(i >= n // 2) if kind == "abrupt" else np.clip(i / n * 4 - 1.5, 0, 1)
        x = rng.uniform(-2, 2)
        sign = -1.0 if rng.random() < share else 1.0
        yield {"x": x}, sign * np.sin(2 * x) + 0.1 * rng.normal()


@pytest.mark.parametrize("kind", ["abrupt", "gradual"])
def test_what_was_learnt_fades(kind):
    def errors(**settings):
        model = OnlineKernelRegressor(random_state=0, **settings)
        squares = []
        for x, y in drifting(kind, np.random.default_rng(4)):
            squares.append((model.predict_one(x) - y) ** 2)
            model.learn_one(x, y)
        return np.array(squares)

    # The variance of the targets is one half; nobody can foresee a change of the sign.
    slow = {"step": 0.5, "memory": "dictionary", "budget": None}
    keeping = errors(ridge=0.0, **slow)
    fading = errors(ridge=0.2, **slow)
    default = errors()
    dictionary = errors(memory="dictionary")
    change, settled = (2000, 2100) if kind == "abrupt" else (2500, 2600)
    for squares in (keeping, default, dictionary):
        assert squares[1200:1500].mean() < 0.1
    # What does not fade is still wrong when the rest has come back.
    assert keeping[change : change + 500].mean() > 1.2 * fading[change : change + 500].mean()
    for adapted in (default, dictionary):
        assert adapted[settled : settled + 400].mean() < 0.1
        assert (
            adapted[settled : settled + 400].mean() < 0.2 * keeping[settled : settled + 400].mean()
        )
        assert adapted[-500:].mean() < 0.05


def test_estimators_of_river():
    checks = pytest.importorskip("river.checks")
    from river import datasets, evaluate, metrics, preprocessing

    from riesz.river import OnlineKernelClassifier as Classifier
    from riesz.river import OnlineKernelRegressor as Regressor

    for kind in (Classifier, Regressor):
        for params in kind._unit_test_params():
            for check in checks.yield_checks(kind(**params)):
                check(kind(**params))
    model = preprocessing.StandardScaler() | Classifier(seed=0)
    metric = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    assert metric.get() > 0.88
    model = preprocessing.StandardScaler() | Regressor(seed=0)
    metric = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    assert metric.get() < 1.0
