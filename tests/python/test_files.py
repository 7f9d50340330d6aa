"""Learning from data files that may be larger than memory."""

import pickle

import numpy as np
import pytest

import riesz
from riesz import KernelClassifier, KernelQuantileRegressor, KernelRegressor

ROWS, COLUMNS = 3_000, 4
SMALL = {"block_size": 64, "max_blocks": 4, "random_state": 1}


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32).round(3)
    return X, (X[:, 0] * X[:, 1] + np.sin(X[:, 2])).astype(np.float32)


def write(path, X, y, names=("a", "b", "c", "d"), order=(0, 1, 2, 3, 4)):
    """Write rows and target, named y, as CSV, with the columns in this order."""
    cells = [*(X[:, j] for j in range(X.shape[1])), y]
    titles = [*names, "y"]
    lines = [",".join(titles[j] for j in order)]
    lines += [",".join(str(cells[j][i]) for j in order) for i in range(len(X))]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path, data):
    """Two files with their columns in different orders."""
    X, y = data
    path = tmp_path / "rows"
    path.mkdir()
    write(path / "1.csv", X[:1_200], y[:1_200])
    write(path / "2.csv", X[1_200:], y[1_200:], order=(4, 2, 1, 3, 0))
    return path


def test_files_lead_to_the_model_of_their_rows(folder, data, tmp_path):
    X, y = data
    expected = KernelRegressor(**SMALL).fit(X, y)
    for arguments in ({}, {"memory": 10_000}, {"cache": tmp_path / "cache"}):
        found = KernelRegressor(**SMALL).fit_files(folder, "y", **arguments)
        assert found._model.to_bytes() == expected._model.to_bytes()
        assert found.feature_names_in_.tolist() == ["a", "b", "c", "d"]
        np.testing.assert_array_equal(found.predict_files(folder), expected.predict(X))
    assert len(list((tmp_path / "cache").iterdir())) == 1
    again = KernelRegressor(**SMALL).fit_files(folder, "y", cache=tmp_path / "cache")
    assert again._model.to_bytes() == expected._model.to_bytes()


def test_columns_without_names_are_told_by_their_number(tmp_path, data):
    X, y = data
    np.save(tmp_path / "rows.npy", np.column_stack([y, X]).astype(np.float32))
    found = KernelRegressor(**SMALL).fit_files(tmp_path / "rows.npy", 0)
    assert found._model.to_bytes() == KernelRegressor(**SMALL).fit(X, y)._model.to_bytes()
    assert not hasattr(found, "feature_names_in_")
    np.save(tmp_path / "new.npy", X)
    np.testing.assert_array_equal(found.predict_files([tmp_path / "new.npy"]), found.predict(X))


@pytest.mark.parametrize(
    ("labels", "kind"), [(["no", "yes"], "U"), ([3, 10], "i"), ([1.0, 2.0], "f")]
)
def test_labels_come_back_in_their_type(tmp_path, data, labels, kind):
    X, y = data
    named = np.array(labels)[(y > 0).astype(int)]
    write(tmp_path / "a.csv", X, named)
    found = KernelClassifier(class_weight="balanced", **SMALL).fit_files(
        tmp_path / "a.csv", "y", memory=10_000
    )
    expected = KernelClassifier(class_weight="balanced", **SMALL).fit(X, named)
    assert found.classes_.dtype.kind == kind
    np.testing.assert_array_equal(found.classes_, expected.classes_)
    np.testing.assert_array_equal(found.predict_files(tmp_path / "a.csv"), expected.predict(X))
    found.save(tmp_path / "model")
    loaded = riesz.load(tmp_path / "model")
    copy = pickle.loads(pickle.dumps(found))
    for other in (loaded, copy):
        np.testing.assert_array_equal(other.predict_files(tmp_path / "a.csv"), expected.predict(X))


def test_a_stream_goes_straight_through(folder, data, tmp_path):
    X, y = data
    found = KernelRegressor(solver="stream", random_state=1).fit_files(folder, "y")
    assert np.mean((found.predict_files(folder) - y) ** 2) < 0.1 * y.var()
    named = np.array(["no", "yes"])[(y > 0).astype(int)]
    write(tmp_path / "a.csv", X, named)
    paths = tmp_path / "a.csv"
    labelled = KernelClassifier(solver="stream", random_state=1).fit_files(paths, "y")
    assert np.mean(labelled.predict_files(paths) == named) > 0.9
    given = KernelClassifier(solver="stream", random_state=1).fit_files(
        paths, "y", classes=["no", "yes"]
    )
    assert given._model.to_bytes() == labelled._model.to_bytes()
    frame = pytest.importorskip("pandas").DataFrame(X[:10], columns=list("abcd"))
    labelled.partial_fit(frame, named[:10])
    with pytest.raises(ValueError, match="none of the classes"):
        KernelClassifier(solver="stream").fit_files(paths, "y", classes=["no", "maybe"])
    with pytest.raises(ValueError, match="class_weight needs all rows"):
        KernelClassifier(solver="stream", class_weight="balanced").fit_files(paths, "y")


def test_quantiles_of_files(folder, data):
    X, y = data
    found = KernelQuantileRegressor(quantiles=(0.2, 0.8), **SMALL).fit_files(folder, "y")
    expected = KernelQuantileRegressor(quantiles=(0.2, 0.8), **SMALL).fit(X, y)
    np.testing.assert_array_equal(found.predict_files(folder), expected.predict(X))


def test_what_is_wrong_is_named(folder, tmp_path, data):
    X, y = data
    estimator = KernelRegressor(**SMALL)
    for paths, message in ((3, "paths = 3"), ([], "paths"), ([1], "paths")):
        with pytest.raises(ValueError, match=message):
            estimator.fit_files(paths, "y")
    with pytest.raises(ValueError, match="no column is named"):
        estimator.fit_files(folder, "z")
    with pytest.raises(ValueError, match="memory"):
        estimator.fit_files(folder, "y", memory=0)
    with pytest.raises(OSError, match=r"nowhere\.csv"):
        estimator.fit_files(tmp_path / "nowhere.csv", "y")
    write(tmp_path / "text.csv", X[:5], np.array(list("abcde")))
    with pytest.raises(ValueError, match='"a", not a number'):
        estimator.fit_files(tmp_path / "text.csv", "y")
    write(tmp_path / "one.csv", X[:5], np.zeros(5, dtype=int))
    with pytest.raises(ValueError, match="only one class"):
        KernelClassifier(**SMALL).fit_files(tmp_path / "one.csv", "y")
    estimator.fit_files(folder, "y")
    write(tmp_path / "other.csv", X[:5], y[:5], names=("a", "b", "c", "e"))
    with pytest.raises(ValueError, match='"d" missing, "e" unknown'):
        estimator.predict_files(tmp_path / "other.csv")


def test_parquet_files(tmp_path, data):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X, y = data
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(y=y)
    frame.to_parquet(tmp_path / "a.parquet")
    found = KernelRegressor(**SMALL).fit_files(tmp_path / "a.parquet", "y", memory=10_000)
    assert found._model.to_bytes() == KernelRegressor(**SMALL).fit(X, y)._model.to_bytes()
