"""Categories and missing numbers: encoded by the estimators, kept in their files."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import riesz

RNG = np.random.default_rng(0)
N = 300
COLOURS = RNG.choice(["red", "green", "blue"], N)
NUMBERS = RNG.normal(size=N)
Y = NUMBERS + np.select([COLOURS == "red", COLOURS == "green"], [2.0, -2.0])
FRAME = pd.DataFrame({"x": NUMBERS, "colour": COLOURS})
SMALL = {"random_state": 0, "block_size": 64, "max_blocks": 4}


def holed(share=0.2):
    """Return the frame with missing cells in both columns."""
    frame = FRAME.copy()
    frame.loc[RNG.random(N) < share, "x"] = np.nan
    frame.loc[RNG.random(N) < share, "colour"] = None
    return frame


def by_hand(frame):
    """Return what the frame should become: x, whether it is missing, and a column a colour."""
    missing = frame["x"].isna()
    columns = [frame["x"].fillna(frame["x"].mean()), missing]
    columns += [frame["colour"] == colour for colour in ["blue", "green", "red"]]
    return np.column_stack([*columns, frame["colour"].isna()]).astype(np.float32)


@pytest.mark.parametrize(
    "estimator",
    [riesz.KernelRegressor, riesz.KernelClassifier, riesz.KernelQuantileRegressor],
)
def test_a_table_is_what_it_is_by_hand(estimator):
    frame = holed()
    y = np.where(Y > 0, "up", "down") if estimator is riesz.KernelClassifier else Y
    machine = estimator(**SMALL).fit(frame, y)
    reference = estimator(**SMALL).fit(by_hand(frame), y)
    np.testing.assert_array_equal(machine.predict(frame), reference.predict(by_hand(frame)))
    assert machine.n_features_in_ == 2
    assert list(machine.feature_names_in_) == ["x", "colour"]


def test_colours_are_learnt():
    machine = riesz.KernelRegressor(random_state=0).fit(FRAME[:200], Y[:200])
    assert machine.score(FRAME[200:], Y[200:]) > 0.98
    # Without the colour nothing is known of it: x explains a variance of 1 of 1 + 8/3.
    without = riesz.KernelRegressor(random_state=0).fit(FRAME[["x"]][:200], Y[:200])
    assert without.score(FRAME[["x"]][200:], Y[200:]) < 0.6


def test_missing_numbers_of_an_array_are_those_of_a_table():
    X = RNG.normal(size=(N, 3))
    X[RNG.random(N) < 0.3, 1] = np.nan
    filled = np.column_stack([X, np.isnan(X[:, 1])])[:, [0, 1, 3, 2]]
    filled[:, 1] = np.where(filled[:, 2] > 0, np.nanmean(X[:, 1]), filled[:, 1])
    machine = riesz.KernelRegressor(**SMALL).fit(X, Y)
    reference = riesz.KernelRegressor(**SMALL).fit(filled, Y)
    np.testing.assert_allclose(machine.predict(X), reference.predict(filled), rtol=1e-6, atol=1e-6)
    frame = riesz.KernelRegressor(**SMALL).fit(pd.DataFrame(X, columns=list("abc")), Y)
    np.testing.assert_allclose(
        frame.predict(pd.DataFrame(X, columns=list("abc"))), machine.predict(X)
    )


def test_what_the_fit_never_saw():
    machine = riesz.KernelRegressor(**SMALL).fit(FRAME, Y)
    row = FRAME[:1].assign(colour="violet")
    assert np.isfinite(machine.predict(row)).all()
    with pytest.raises(riesz.InvalidInput, match=r"nan at row 1, column 0 \('x'\).*never missing"):
        machine.predict(FRAME[:2].assign(x=[0.0, np.nan]))
    with pytest.raises(riesz.InvalidInput, match=r"inf at row 0, column 0 \('x'\)"):
        machine.predict(FRAME[:1].assign(x=np.inf))
    with pytest.raises(riesz.InvalidInput, match=r"categories were fitted.*numbers now: 'colour'"):
        machine.predict(FRAME[:1].assign(colour=1.0))
    with pytest.raises(riesz.InvalidInput, match=r"numbers were fitted.*categories now: 'x'"):
        machine.predict(FRAME[:1].assign(x="1.5"))
    with pytest.raises(riesz.InvalidInput, match=r"'colour' \(datetime64"):
        riesz.KernelRegressor().fit(FRAME.assign(colour=pd.Timestamp("2024-01-01")), Y)


def test_rows_of_which_little_is_known():
    frame = holed()
    machine = riesz.KernelRegressor(**SMALL).fit(frame, Y)
    expected = machine.predict(pd.DataFrame({"x": [np.nan], "colour": ["red"]}))
    for x in (None, np.nan, pd.NA):
        row = pd.DataFrame({"x": [x], "colour": ["red"]})
        np.testing.assert_array_equal(machine.predict(row), expected)
    expected = machine.predict(FRAME[:1].assign(x=1.0, colour=pd.Series([None], dtype="str")))
    for colour in (None, np.nan, pd.NA):
        row = pd.DataFrame({"x": [1.0], "colour": [colour]})
        np.testing.assert_array_equal(machine.predict(row), expected)


def test_rare_values_share_a_column():
    values = np.array([f"v{i}" for i in range(300)] * 3 + ["v7"] * 5)
    frame = pd.DataFrame({"v": values})
    machine = riesz.KernelRegressor(**SMALL).fit(frame, np.arange(len(values), dtype=float))
    (coding,) = machine._codings
    assert (len(coding["values"]), coding["others"], coding["missing"]) == (254, True, False)
    assert "v7" in coding["values"]
    assert coding["values"] == sorted(coding["values"])
    rare = sorted(set(values) - set(coding["values"]))
    one, other, new = machine.predict(pd.DataFrame({"v": [rare[0], rare[1], "never seen"]}))
    assert one == other == new


def test_weights_are_repeated_rows():
    frame = holed()
    times = RNG.integers(0, 3, N)
    times[:4] = 1
    repeated = frame.loc[frame.index.repeat(times)].reset_index(drop=True)
    weighed = riesz.KernelRegressor(solver="ridge", ridge=1e-2, bandwidth=1.0, **SMALL)
    weighed.fit(frame, Y, sample_weight=times)
    plain = riesz.KernelRegressor(solver="ridge", ridge=1e-2, bandwidth=1.0, **SMALL)
    plain.fit(repeated, np.repeat(Y, times))
    assert weighed._codings[0]["mean"] == pytest.approx(plain._codings[0]["mean"])
    assert weighed._codings[1] == plain._codings[1]
    np.testing.assert_allclose(weighed.predict(frame), plain.predict(frame), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("kind", ["str", "category", "object", "string"])
def test_types_of_text(kind):
    plain = holed()
    frame = plain.assign(colour=plain["colour"].astype(kind))
    expected = riesz.KernelRegressor(**SMALL).fit(plain, Y).predict(plain)
    np.testing.assert_array_equal(
        riesz.KernelRegressor(**SMALL).fit(frame, Y).predict(frame), expected
    )


def test_polars_and_arrow():
    expected = riesz.KernelRegressor(**SMALL).fit(holed_frame := holed(), Y).predict(holed_frame)
    polars = pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    columns = {
        "x": [None if np.isnan(v) else v for v in holed_frame["x"]],
        "colour": [v if isinstance(v, str) else None for v in holed_frame["colour"]],
    }
    tables = [
        polars.DataFrame(columns),
        polars.DataFrame(columns).with_columns(polars.col("colour").cast(polars.Categorical)),
        arrow.table(columns),
        arrow.table(columns).set_column(
            1, "colour", arrow.chunked_array([columns["colour"]]).dictionary_encode()
        ),
    ]
    for table in tables:
        found = riesz.KernelRegressor(**SMALL).fit(table, Y).predict(table)
        np.testing.assert_array_equal(found, expected)


def test_numbers_that_name_something():
    X = np.column_stack([NUMBERS, np.searchsorted(["blue", "green", "red"], COLOURS)])
    for wanted in ([1], [False, True]):
        machine = riesz.KernelRegressor(categorical_features=wanted, **SMALL).fit(X, Y)
        assert machine._codings[1]["values"] == ["0", "1", "2"]
    frame = pd.DataFrame(X, columns=["x", "colour"])
    named = riesz.KernelRegressor(categorical_features=["colour"], **SMALL).fit(frame, Y)
    np.testing.assert_allclose(named.predict(frame), machine.predict(X), rtol=1e-6)
    for wrong in ([2], [-1], [True], "colour", [[1]], ["shape"], [0.5]):
        with pytest.raises(riesz.InvalidInput, match="categorical_features"):
            riesz.KernelRegressor(categorical_features=wrong, **SMALL).fit(frame, Y)
    with pytest.raises(riesz.InvalidInput, match="'colour'"):
        riesz.KernelRegressor(categorical_features=None, **SMALL).fit(FRAME, Y)


def test_files_and_pickles(tmp_path):
    frame = holed()
    machine = riesz.KernelRegressor(**SMALL).fit(frame, Y)
    path = tmp_path / "model.riesz"
    machine.save(path)
    for copy in (riesz.load(path), pickle.loads(pickle.dumps(machine))):
        np.testing.assert_array_equal(copy.predict(frame), machine.predict(frame))
        assert copy.n_features_in_ == 2
        with pytest.raises(riesz.InvalidInput, match="categories were fitted"):
            copy.predict(frame.assign(colour=1))
    # The same from the table as a file, by the command line and here.
    data = tmp_path / "data.csv"
    frame[["colour", "x"]].to_csv(data, index=False)
    told = subprocess.run(
        [sys.executable, "-m", "riesz", "predict", path, data],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    expected = machine.predict(frame)
    found = np.array([float(line) for line in told.splitlines()[1:]])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(machine.predict_files(data), expected, rtol=1e-6, atol=1e-6)


def test_fits_of_files(tmp_path):
    frame = holed()
    path = tmp_path / "data.csv"
    frame.assign(y=Y).to_csv(path, index=False)
    expected = riesz.KernelRegressor(**SMALL).fit(frame.astype({"x": np.float32}), Y)
    machine = riesz.KernelRegressor(**SMALL).fit_files(path, "y")
    assert machine._codings[1] == expected._codings[1]
    np.testing.assert_allclose(
        machine.predict(frame), expected.predict(frame), rtol=1e-4, atol=1e-4
    )
    labels = np.where(Y > 0, "up", "down")
    frame.assign(y=labels).to_csv(path, index=False)
    streamed = riesz.KernelClassifier(solver="stream", random_state=0).fit_files(path, "y")
    assert streamed.score(frame, labels) > 0.7
    assert (streamed.predict_files(path) == streamed.predict(frame)).all()


def test_partial_fits_have_the_columns_of_the_first():
    machine = riesz.KernelRegressor(**SMALL).partial_fit(FRAME[:150], Y[:150])
    machine.partial_fit(FRAME[150:].assign(colour="violet"), Y[150:])
    assert machine._codings[1]["values"] == ["blue", "green", "red"]
    machine.fit(FRAME[["x"]], Y)
    assert machine._codings is None


def test_other_estimators_refuse_text():
    with pytest.raises(riesz.InvalidInput, match=r"'colour'.*encode or drop"):
        riesz.GaussianProcessRegressor().fit(FRAME, Y)


def test_importances_are_of_the_columns_of_the_table():
    """The colour is one column here and three in the model; twelve columns say nothing."""
    frame = FRAME.assign(**{f"noise{j}": RNG.normal(size=N) for j in range(12)})
    machine = riesz.KernelRegressor(metric="diagonal", random_state=0).fit(frame, Y)
    importances = machine.feature_importances_
    assert importances.shape == (14,)
    assert importances.sum() == pytest.approx(1.0, abs=1e-5)
    assert importances[2:].max() < importances[:2].min()
