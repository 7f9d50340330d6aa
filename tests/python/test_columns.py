"""Columns permuted, missing, extra or retyped: the right answer, or an error naming them."""

import itertools
import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import riesz

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.uniform(0.5, 3.0, size=(60, 3)).round(3), columns=["a", "b", "c"])
X["flag"] = RNG.integers(0, 2, 60).astype(bool)
Y = (X["a"] - X["b"]).to_numpy()
LABELS = np.where(Y > 0, "up", "down")
SMALL = {"random_state": 0, "block_size": 64, "max_blocks": 2}
COUNTS = X.assign(**{name: X[name].round().astype(int) for name in "abc"})

ESTIMATORS = [
    riesz.KernelRegressor(**SMALL).fit(X, Y),
    riesz.KernelClassifier(**SMALL).fit(X, LABELS),
    riesz.KernelQuantileRegressor(**SMALL).fit(X, Y),
    riesz.GaussianProcessRegressor(random_state=0).fit(X, Y),
    riesz.SparseGaussianProcessRegressor(n_inducing=8, n_particles=2, random_state=0).fit(X, Y),
    riesz.KernelNoveltyDetector(n_components=64, random_state=0).fit(X),
    riesz.DensityRatioEstimator(random_state=0, max_blocks=2, block_size=64).fit(X[:30], X[30:]),
    riesz.OnlineKernelRegressor(random_state=0).fit(X, Y),
    riesz.OnlineKernelClassifier(random_state=0).fit(X, LABELS),
    riesz.ConstrainedKernelRegressor(random_state=0).fit(X, Y),
    riesz.ConstrainedKernelClassifier(random_state=0).fit(X, LABELS),
    riesz.InvariantRegressor(random_state=0).fit(X, Y),
    riesz.InvariantClassifier(random_state=0).fit(X, LABELS),
    riesz.KernelDensity(bandwidth=0.5).fit(X),
    riesz.BayesianLogisticRegression(n_particles=200, random_state=0).fit(X, LABELS),
    riesz.LatentDirichletAllocation(2, random_state=0, max_iter=2).fit(COUNTS),
    riesz.RandomFeatures(n_components=64, random_state=0).fit(X),
]
METHODS = ["predict", "predict_proba", "decision_function", "score_samples", "transform"]


def name_of(estimator):
    return type(estimator).__name__


def test_every_estimator_of_columns_is_here():
    public = [getattr(riesz, name) for name in riesz.__all__]
    with_columns = {
        cls.__name__
        for cls in public
        if isinstance(cls, type) and hasattr(cls, "fit") and hasattr(cls, "get_params")
    }
    # Particle mirror descent hands its data to functions of the user; dynamics take states,
    # actions and next states, several arrays whose columns have the same places.
    others = {
        "ParticleMirrorDescent",
        "HittingTime",
        "LinearlySolvableControl",
        "PolicyEvaluator",
        "PolicyIteration",
    }
    assert with_columns - {name_of(e) for e in ESTIMATORS} == others


def methods(estimator):
    return [getattr(estimator, name) for name in METHODS if hasattr(estimator, name)]


def changed():
    """Return frames, and the columns an error must name."""
    for order in itertools.permutations(X.columns):
        if list(order) != list(X.columns):
            yield f"order {order}", X[list(order)], ["order"]
    for name in X.columns:
        yield f"no {name}", X.drop(columns=name), [name]
        yield f"{name} renamed", X.rename(columns={name: "z"}), [name, "z"]
    yield "extra", X.assign(z=1.0), ["z"]
    types = {
        "text": lambda v: v.astype(str),
        "words": lambda v: "green",
        "categories": lambda v: v.astype("category"),
        "dates": lambda v: pd.Timestamp("2024-01-01"),
        "periods": lambda v: pd.Timedelta("1h"),
        "complex": lambda v: v.astype(complex),
        "lists": lambda v: [[1.0]] * len(v),
        "none": lambda v: None,
    }
    for name, (kind, change) in itertools.product(X.columns, types.items()):
        yield f"{name} as {kind}", X.assign(**{name: change(X[name])}), [name]
    for name in "abc":
        yield f"{name} as truth values", X.assign(**{name: X[name] > 1}), [name]


CASES = list(changed())


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_other_columns_are_refused_by_name(estimator):
    assert methods(estimator)
    for method in methods(estimator):
        for case, frame, named in CASES:
            with pytest.raises(ValueError, match=r"(?i)column|feature|number") as caught:
                method(frame)
            text = str(caught.value)
            assert all(part in text for part in named), (case, text)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_the_same_numbers_in_other_types_are_the_same(estimator):
    for method in methods(estimator):
        expected = method(COUNTS)
        for frame in (
            COUNTS.astype(dict.fromkeys("abc", float)),
            COUNTS.astype(dict.fromkeys("abc", "Int64")),
            COUNTS.astype({"flag": float}),
            COUNTS.astype({"a": object}),
        ):
            np.testing.assert_allclose(
                pd.factorize(method(frame).ravel())[0]
                if expected.dtype.kind in "OU"
                else method(frame),
                pd.factorize(expected.ravel())[0] if expected.dtype.kind in "OU" else expected,
                rtol=1e-5,
                atol=1e-6,
            )


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_columns_go_through_files_and_pickles(estimator, tmp_path):
    copies = [pickle.loads(pickle.dumps(estimator))]
    if hasattr(estimator, "save"):
        estimator.save(tmp_path / "model.riesz")
        copies.append(riesz.load(tmp_path / "model.riesz"))
    for copy in copies:
        assert list(copy.feature_names_in_) == ["a", "b", "c", "flag"]
        for (case, frame, named), method in itertools.product(CASES[::7], methods(copy)):
            with pytest.raises(ValueError, match=r"(?i)column|feature|number") as caught:
                method(frame)
            assert all(part in str(caught.value) for part in named), case


def test_text_is_refused_when_fitting():
    with pytest.raises(riesz.InvalidInput, match=r"no numbers in 'b' \((object|str)\); encode"):
        riesz.GaussianProcessRegressor().fit(X.assign(b="green"), Y)


def test_two_frames_of_one_call_are_compared():
    with pytest.raises(ValueError, match="order"):
        riesz.posterior_variances(X, X[["b", "a", "c", "flag"]], noise=0.1)


def command(*arguments, folder):
    line = [sys.executable, "-m", "riesz", *map(str, arguments)]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


def test_a_model_moves_between_python_and_the_command_line(tmp_path):
    numbers = X.astype({"flag": float})
    numbers.assign(y=Y).to_csv(tmp_path / "train.csv", index=False)
    shuffled = numbers[["c", "flag", "a", "b"]]
    shuffled.to_csv(tmp_path / "shuffled.csv", index=False)
    fit = "fit train.csv --model cli.riesz --block-size 64 --max-blocks 2 --quiet"
    assert command(*fit.split(), folder=tmp_path).returncode == 0
    ESTIMATORS[0].save(tmp_path / "python.riesz")
    for name in ("cli", "python"):
        model = riesz.load(tmp_path / f"{name}.riesz")
        assert list(model.feature_names_in_) == ["a", "b", "c", "flag"]
        with pytest.raises(ValueError, match="order"):
            model.predict(shuffled)
        model.save(tmp_path / "again.riesz")
        for file in (f"{name}.riesz", "again.riesz"):
            done = command("predict", file, "shuffled.csv", folder=tmp_path)
            assert done.returncode == 0, done.stderr
            predicted = np.array(done.stdout.split()[1:], dtype=float)
            np.testing.assert_allclose(predicted, model.predict(numbers), rtol=1e-4, atol=1e-4)
        wrong = shuffled.rename(columns={"c": "d"})
        wrong.to_csv(tmp_path / "wrong.csv", index=False)
        done = command("predict", f"{name}.riesz", "wrong.csv", folder=tmp_path)
        assert done.returncode == 2
        assert '"c" missing, "d" unknown' in done.stderr
    info = json.loads(command("info", "again.riesz", "--json", folder=tmp_path).stdout)
    assert info["column_names"] == ["a", "b", "c", "flag"]
    again = riesz.load(tmp_path / "cli.riesz")
    again.save(tmp_path / "again.riesz")
    info = json.loads(command("info", "again.riesz", "--json", folder=tmp_path).stdout)
    assert info["target"] == "y"


def test_how_a_model_was_worked_is_not_in_its_file(tmp_path):
    model = riesz.KernelRegressor(n_jobs=1, verbose=0, checkpoint=tmp_path / "unfinished", **SMALL)
    model.fit(X, Y).save(tmp_path / "model.riesz")
    copy = riesz.load(tmp_path / "model.riesz")
    assert (copy.n_jobs, copy.verbose, copy.checkpoint) == (None, 0, None)
    assert b"unfinished" not in (tmp_path / "model.riesz").read_bytes()
    assert copy.max_blocks == 2
    # Nor taken from a file that has it.
    machine = model._model
    note = {"parameters": {"n_jobs": 64, "checkpoint": "/etc/passwd", "max_blocks": 3}}
    machine.save(tmp_path / "model.riesz", json.dumps(note))
    copy = riesz.load(tmp_path / "model.riesz")
    assert (copy.n_jobs, copy.checkpoint, copy.max_blocks) == (None, None, 3)


def classifier_with(path, **changes):
    model = ESTIMATORS[1]
    note = model._note() | changes
    model._model.save(path, json.dumps(note))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": {"dtype": "<U4", "values": ["up"]}}, "labels .* for 2 classes"),
        ({"classes": {"dtype": "<U4", "values": ["up", "up"]}}, "labels .* for 2 classes"),
        ({"classes": {"dtype": "<U4", "values": [["up", "down"]]}}, "labels .* for 2 classes"),
        ({"classes": {"dtype": "V8", "values": [1, 2]}}, "labels of type"),
        ({"classes": {"dtype": "|u1", "values": [1, 300]}}, "not a valid riesz file"),
        ({"classes": 3}, "not a valid riesz file"),
        ({"columns": [{"name": "a", "type": "number"}]}, "1 columns have names, the model has 4"),
        ({"parameters": {"colour": 1}}, "not a valid riesz file"),
        ({"parameters": 3}, "not a valid riesz file"),
    ],
)
def test_a_note_that_does_not_fit_the_model_is_refused(changes, message, tmp_path):
    path = classifier_with(tmp_path / "model.riesz", **changes)
    with pytest.raises(riesz.InvalidInput, match=message):
        riesz.load(path)


def test_text_labels_take_their_own_length(tmp_path):
    classes = {"dtype": "<U400000000", "values": ["down", "up"]}
    model = riesz.load(classifier_with(tmp_path / "model.riesz", classes=classes))
    assert model.classes_.dtype == np.dtype("<U4")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transforms": [{"simplex": 300_000_000}]}, "for a posterior of 5"),
        ({"transforms": [{"simplex": 0}] * 6}, "for a posterior of 5"),
        ({"names": ["a"]}, "for a posterior of 5"),
        ({"columns": {"a": [0, 9, True]}}, "'a' is columns 0 to 9"),
        ({"columns": 3}, "not a valid riesz file"),
        ({"transforms": [{"low": "x", "high": None}]}, "not a valid riesz file"),
    ],
)
def test_a_layout_that_does_not_fit_the_posterior_is_refused(changes, message, tmp_path):
    posterior = next(e.posterior_ for e in ESTIMATORS if hasattr(e, "posterior_"))
    layout = posterior._layout.to_json() | changes
    posterior._particles.save(tmp_path / "posterior", json.dumps({"layout": layout}))
    with pytest.raises(riesz.InvalidInput, match=message):
        riesz.load(tmp_path / "posterior")


def test_a_flipped_bit_is_found(tmp_path):
    path = tmp_path / "model.riesz"
    for estimator in ESTIMATORS[:-1]:
        estimator.save(path)
        whole = bytearray(path.read_bytes())
        for place in RNG.integers(0, len(whole), 20):
            whole[place] ^= 1 << int(RNG.integers(8))
            path.write_bytes(whole)
            with pytest.raises(riesz.InvalidInput, match="not a valid riesz file"):
                riesz.load(path)
            path.write_bytes(bytes(whole))
            estimator.save(path)
            whole = bytearray(path.read_bytes())
