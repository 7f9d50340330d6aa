"""What the estimators add to the machine: labels, weights, types, streams, files."""

import copy
import multiprocessing
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import riesz
from riesz import InvalidInput, KernelClassifier, KernelRegressor

SMALL = {"max_blocks": 4, "block_size": 64, "random_state": 0}


@pytest.mark.parametrize(
    "names",
    [
        ["ash", "birch", "cedar"],
        np.array(["ash", "birch", "cedar"], dtype=object),
        [-7, 3, 40],
        np.array([0, 1, 2], dtype=np.uint8),
        [0.0, 1.0, 2.0],
    ],
    ids=["text", "object", "int", "uint8", "float"],
)
def test_labels_keep_their_type(blobs, tmp_path, names):
    X, y = blobs
    labels = np.asarray(names)[y]
    machine = KernelClassifier(**SMALL).fit(X, labels)
    assert machine.classes_.dtype == labels.dtype
    assert machine.predict(X).dtype == labels.dtype
    assert machine.score(X, labels) > 0.85
    machine.save(tmp_path / "model")
    again = KernelClassifier.load(tmp_path / "model")
    assert again.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(again.predict(X), machine.predict(X))


def test_two_classes(blobs):
    X, y = blobs
    machine = KernelClassifier(**SMALL).fit(X, y == 0)
    assert machine.classes_.tolist() == [False, True]
    scores, probabilities = machine.decision_function(X), machine.predict_proba(X)
    assert scores.shape == (240,)
    assert probabilities.shape == (240, 2)
    np.testing.assert_array_equal(machine.predict(X), scores > 0)
    np.testing.assert_array_equal(machine.predict(X), probabilities[:, 1] > 0.5)


def test_more_classes(blobs):
    X, y = blobs
    machine = KernelClassifier(**SMALL).fit(X, y)
    assert machine.decision_function(X).shape == machine.predict_proba(X).shape == (240, 3)
    np.testing.assert_array_equal(machine.decision_function(X).argmax(axis=1), machine.predict(X))


def test_what_was_fitted_is_shown(waves):
    X, y = waves
    machine = KernelRegressor(max_blocks=3, block_size=64, random_state=5).fit(X, y)
    assert machine.n_features_in_ == 3
    assert machine.loss_ == "square"
    assert machine.seed_ == 5
    assert machine.bandwidth_ > 0
    assert machine.n_blocks_ >= len(machine.history_) == 3
    assert [entry["block"] for entry in machine.history_] == [1, 2, 3]
    assert machine.history_[-1]["loss"] < machine.history_[0]["loss"]
    assert machine.history_[-1]["held_out_loss"] is not None


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_predictions_have_the_precision_of_the_rows(blobs, dtype):
    X, y = blobs
    X = (10 * X).astype(dtype)
    wanted = np.float32 if dtype == np.float32 else np.float64
    classifier = KernelClassifier(**SMALL).fit(X, y)
    assert classifier.decision_function(X).dtype == wanted
    assert classifier.predict_proba(X).dtype == np.float64  # so that rows add up to one
    assert KernelRegressor(**SMALL).fit(X, y).predict(X).dtype == wanted


def test_shapes_of_targets_come_back(waves):
    X, y = waves[0][:100], waves[1][:100]
    for targets in (y, y[:, None], np.column_stack([y, -y])):
        assert KernelRegressor(**SMALL).fit(X, targets).predict(X).shape == targets.shape


@pytest.mark.parametrize("rows", [300, 2400])
@pytest.mark.parametrize(
    "settings", [{}, {"solver": "ridge", "bandwidth": 1.0}], ids=["block", "ridge"]
)
def test_threads_do_not_change_a_bit(waves, rows, settings):
    X, y = waves[0][:rows], waves[1][:rows]
    settings = {"random_state": 1, "max_blocks": 6, "block_size": 256} | settings
    models = [KernelRegressor(n_jobs=n, **settings).fit(X, y) for n in (1, 2, -1, None)]
    values = [model.predict(X) for model in models]
    assert len({model._model.to_bytes() for model in models}) == 1
    assert all(np.array_equal(values[0], other) for other in values[1:])


def test_a_seed_is_drawn_once_and_kept(blobs):
    X, y = blobs
    first = KernelClassifier(max_blocks=2, block_size=64).fit(X, y)
    assert first.random_state is None
    again = KernelClassifier(max_blocks=2, block_size=64, random_state=first.seed_).fit(X, y)
    other = KernelClassifier(max_blocks=2, block_size=64).fit(X, y)
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))
    assert first.seed_ != other.seed_
    drawn = [clone(first).set_params(random_state=np.random.RandomState(3)) for _ in range(2)]
    assert drawn[0].fit(X, y).seed_ == drawn[1].fit(X, y).seed_


def test_a_weight_of_two_is_a_row_given_twice(blobs):
    X, y = blobs
    weights = np.random.default_rng(0).integers(0, 3, size=len(y))
    weighted = KernelClassifier(random_state=0).fit(X, y, sample_weight=weights)
    repeated = KernelClassifier(random_state=0).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_class_weights_are_sample_weights(blobs):
    X, y = blobs
    rows = np.flatnonzero((y > 0) | (np.arange(240) % 12 == 0))  # 20, 80, 80
    X, y = X[rows], y[rows]
    plain = KernelClassifier(**SMALL).fit(X, y)
    factors = {0: 4.0, 1: 1.0, 2: 1.0}
    by_class = KernelClassifier(class_weight=factors, **SMALL).fit(X, y)
    by_row = KernelClassifier(**SMALL).fit(X, y, sample_weight=np.where(y == 0, 4.0, 1.0))
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    balanced = KernelClassifier(class_weight="balanced", **SMALL).fit(X, y)
    found = [np.mean(model.predict(X) == 0) for model in (plain, balanced)]
    assert found[1] > found[0]
    mass = 180 / (3 * np.array([20, 80, 80]))
    by_mass = KernelClassifier(**SMALL).fit(X, y, sample_weight=mass[y])
    np.testing.assert_array_equal(balanced.predict_proba(X), by_mass.predict_proba(X))


def test_frames_are_read_and_their_columns_remembered(blobs):
    X, y = blobs
    frame = pd.DataFrame(X, columns=["east", "north"])
    machine = KernelClassifier(**SMALL).fit(frame, pd.Series(y).map({0: "a", 1: "b", 2: "c"}))
    assert machine.feature_names_in_.tolist() == ["east", "north"]
    assert set(machine.predict(frame)) == {"a", "b", "c"}
    with pytest.raises(ValueError, match="feature names should match"):
        machine.predict(frame[["north", "east"]])


def test_a_stream_learns(waves):
    X, y = waves

    def errors(machine):
        for start in range(0, 2000, 500):
            machine.partial_fit(X[start : start + 500], y[start : start + 500])
            yield np.mean((machine.predict(X[2000:]) - y[2000:]) ** 2)

    settings = {"bandwidth": 1.0, "batch_size": 100, "block_size": 128, "random_state": 0}
    published = KernelRegressor(**settings, theta=1e4, delay=1e4)
    grown = list(errors(published))
    assert published.n_blocks_ == 20
    assert grown[-1] < grown[0] < np.var(y)
    machine = KernelRegressor(bandwidth=1.0, batch_size=100, random_state=0)
    settled = list(errors(machine))
    assert machine.n_blocks_ == 1
    assert settled[-1] < grown[-1]


def test_a_stream_continues_a_fit(waves):
    X, y = waves
    machine = KernelRegressor(max_blocks=4, block_size=128, batch_size=256, random_state=0)
    machine.fit(X[:1000], y[:1000])
    before, blocks = machine.predict(X[1000:]), machine.n_blocks_
    machine.partial_fit(X[1000:2000], y[1000:2000])
    after = machine.predict(X[1000:])
    assert machine.n_blocks_ == blocks == 4  # max_blocks: what is there is refined
    assert not np.array_equal(before, after)
    assert np.mean((after - y[1000:]) ** 2) < 1.5 * np.mean((before - y[1000:]) ** 2)


def test_a_stream_of_labels(blobs):
    X, y = blobs
    machine = KernelClassifier(block_size=256, batch_size=40, bandwidth=1.0, random_state=0)
    with pytest.raises(InvalidInput, match="classes, all labels there will be, is needed"):
        machine.partial_fit(X, y)
    machine.partial_fit(X[:40], y[:40], classes=[2, 1, 0])
    machine.partial_fit(X[40:], y[40:])
    assert machine.score(X, y) > 0.8
    with pytest.raises(InvalidInput, match=r"y contains \[5\], not among the classes \[0, 1, 2\]"):
        machine.partial_fit(X[:2], [0, 5])
    with pytest.raises(InvalidInput, match="differ from those learnt"):
        machine.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(InvalidInput, match="balanced"):
        machine.set_params(class_weight="balanced").partial_fit(X, y)


def test_time_is_kept(waves):
    X, y = waves
    machine = KernelRegressor(
        bandwidth=0.5, max_blocks=100_000, early_stopping=False, block_size=512, max_time=0.5
    ).fit(X, y)
    assert 1 <= machine.n_blocks_ < 100_000


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_predict_the_same_and_learn_on_their_own(blobs, copied):
    X, y = blobs
    machine = KernelClassifier(**SMALL).fit(X, y)
    before, other = machine.predict_proba(X), copied(machine)
    np.testing.assert_array_equal(other.predict_proba(X), before)
    other.partial_fit(X, y)
    assert not np.array_equal(other.predict_proba(X), before)
    np.testing.assert_array_equal(machine.predict_proba(X), before)


def test_damaged_bytes_are_refused(blobs):
    data = KernelClassifier(**SMALL).fit(*blobs)._model.to_bytes()
    restore = riesz._riesz.Machine.from_bytes
    assert restore(data).to_bytes() == data
    for damaged in (b"", data[:7], data[:100], data[:-1], data + b"\0", b"\0" * 64, data[::-1]):
        with pytest.raises(InvalidInput, match="not a valid riesz file"):
            restore(damaged)


def test_equal_fits_are_equal_files(blobs, tmp_path):
    for name in ("a", "b"):
        KernelClassifier(**SMALL).fit(*blobs).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_files_bring_everything_back(blobs, waves, tmp_path):
    X, y = blobs
    frame = pd.DataFrame(X, columns=["east", "north"])
    settings = SMALL | {
        "class_weight": {"x": 2.0, "y": np.float32(1.0), "z": 1},
        "random_state": np.random.RandomState(0),
        "max_blocks": np.int64(3),
    }
    machine = KernelClassifier(**settings).fit(frame, np.array(["x", "y", "z"])[y])
    machine.save(tmp_path / "model")
    again = KernelClassifier.load(tmp_path / "model")
    assert again.class_weight == machine.class_weight
    assert again.random_state == again.seed_ == machine.seed_
    assert again.max_blocks == 3
    assert again.history_ == machine.history_
    assert again._model.class_names == ["x", "y", "z"]
    np.testing.assert_array_equal(again.predict_proba(frame), machine.predict_proba(frame))
    with pytest.raises(InvalidInput, match=r"read it with KernelClassifier\.load"):
        KernelRegressor.load(tmp_path / "model")

    X, y = waves[0][:100], waves[1][:100]
    regressor = KernelRegressor(**SMALL).fit(X, np.column_stack([y, -y]))
    regressor.save(tmp_path / "model")
    again = KernelRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), regressor.predict(X))
    with pytest.raises(InvalidInput, match=r"read it with riesz\.load"):
        KernelClassifier.load(tmp_path / "model")


def test_a_file_without_a_note_is_read_too(blobs, tmp_path):
    X, y = blobs
    machine = KernelClassifier(**SMALL).fit(X, np.array(["x", "y", "z"])[y])
    (tmp_path / "model").write_bytes(machine._model.to_bytes())
    again = KernelClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), machine.predict(X))
    assert again.n_features_in_ == 2


def test_files_that_cannot_be_read_or_written(blobs, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        KernelClassifier.load(tmp_path / "nowhere")
    machine = KernelClassifier(**SMALL).fit(*blobs)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        machine.save(tmp_path / "nowhere" / "model")
    (tmp_path / "text").write_text("not a model, whatever its name")
    with pytest.raises(InvalidInput, match="not a valid riesz file"):
        KernelClassifier.load(tmp_path / "text")
    machine.kernel = object()
    with pytest.raises(InvalidInput, match="plain values"):
        machine.save(tmp_path / "model")


def test_a_search_over_settings_runs_in_processes(blobs):
    X, y = blobs
    grid = {"bandwidth": [0.01, 1.0]}
    search = GridSearchCV(KernelClassifier(n_jobs=1, **SMALL), grid, cv=2, n_jobs=2).fit(X, y)
    assert search.best_params_ == {"bandwidth": 1.0}


def _predict(machine, X, queue):
    queue.put(machine.predict(X))


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system has no fork"
)
def test_a_forked_process_has_threads_of_its_own(blobs):
    X, y = blobs
    machine = KernelClassifier(n_jobs=2, **SMALL).fit(X, y)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_predict, args=(machine, X, queue))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    try:
        np.testing.assert_array_equal(queue.get(timeout=30), machine.predict(X))
    finally:
        process.kill()
        process.join()


def test_progress_goes_to_the_standard_error(waves, capsys):
    X, y = waves
    settings = {"bandwidth": 1.0, "max_blocks": 3, "block_size": 64, "random_state": 0}
    KernelRegressor(verbose=2, **settings).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines[:3]] == [f"fitting {b}/3" for b in (1, 2, 3)]
    assert "held-out loss" in lines[0]
    KernelRegressor(verbose=1, **settings).fit(X, y)
    bar = capsys.readouterr().err
    assert bar.count("\n") == 1
    assert "########] fitting 3/3" in bar
    KernelRegressor(**settings).fit(X, y)
    assert capsys.readouterr().err == ""


def test_an_error_in_the_observer_stops_the_fit(waves):
    X, y = waves
    settings = KernelRegressor(random_state=0, bandwidth=1.0, solver="block")._settings()
    told = []

    def observer(*news):
        told.append(news)
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        riesz._riesz.Machine.fit(X, y.astype(np.float32), settings=settings, observer=observer)
    assert told[0][0] == "fit"


def test_a_checkpoint_that_is_none_is_refused(waves, tmp_path):
    X, y = waves
    path = tmp_path / "checkpoint"
    machine = KernelRegressor(checkpoint=path, bandwidth=1.0, max_blocks=2, block_size=64)
    machine.fit(X, y)
    assert not path.exists()
    machine.save(path)
    with pytest.raises(InvalidInput, match="holds a kernel machine, expected a checkpoint"):
        machine.fit(X, y)
