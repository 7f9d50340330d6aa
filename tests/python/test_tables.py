"""Tables of pandas, polars and Arrow: the same rows, without a copy of the whole beside them."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz import InvalidInput, KernelRegressor, OnlineKernelRegressor

RNG = np.random.default_rng(0)
VALUES = {
    "double": RNG.normal(size=500),
    "single": RNG.normal(size=500).astype(np.float32),
    "whole": RNG.integers(-5, 5, size=500),
    "small": RNG.integers(0, 5, size=500).astype(np.uint8),
    "truth": RNG.random(500) < 0.5,
}
ARRAY = np.column_stack([values.astype(float) for values in VALUES.values()])
Y = ARRAY.sum(axis=1)
SMALL = {"block_size": 64, "max_blocks": 2, "random_state": 0}
KINDS = ["pandas", "pandas, nullable", "pandas, Arrow", "polars", "polars, in chunks", "Arrow"]


def table(kind, values=VALUES):
    """Return a table of columns, or skip where the library is not installed."""
    if kind.startswith("pandas"):
        frame = pd.DataFrame(values)
        if kind == "pandas, nullable":
            return frame.convert_dtypes(dtype_backend="numpy_nullable")
        if kind == "pandas, Arrow":
            pytest.importorskip("pyarrow")
            return frame.convert_dtypes(dtype_backend="pyarrow")
        return frame
    if kind.startswith("polars"):
        polars = pytest.importorskip("polars")
        whole = polars.DataFrame(values)
        # Of two chunks, which are no array.
        return whole if kind == "polars" else polars.concat([whole[:9], whole[9:]], rechunk=False)
    arrow = pytest.importorskip("pyarrow")
    half = {name: column[:250] for name, column in values.items()}
    rest = {name: column[250:] for name, column in values.items()}
    return arrow.concat_tables([arrow.table(half), arrow.table(rest)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_the_array_of_its_columns(kind):
    frame = table(kind)
    for estimator in (
        KernelRegressor(**SMALL),
        OnlineKernelRegressor(random_state=0),
        riesz.GaussianProcessRegressor(random_state=0),
    ):
        expected = estimator.fit(ARRAY, Y).predict(ARRAY)
        found = estimator.fit(frame, Y).predict(frame)
        assert list(estimator.feature_names_in_) == list(VALUES)
        np.testing.assert_array_equal(found, expected.astype(found.dtype))
        assert estimator._feature_types == 4 * ["number"] + ["boolean"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_missing_or_no_number_is_named(kind):
    model = KernelRegressor(**SMALL).fit(table(kind), Y)
    order = list(reversed(VALUES))
    with pytest.raises(ValueError, match="order"):
        model.predict(table(kind, {name: VALUES[name] for name in order}))
    text = VALUES | {"whole": np.array(["a", "b"] * 250)}
    with pytest.raises(InvalidInput, match=r"numbers were fitted .* categories now: 'whole'"):
        model.predict(table(kind, text))
    for name, column in (("double", 0), ("truth", 4)):
        some = VALUES[name].tolist()
        some[7] = None
        if kind.startswith("pandas") and name == "truth":
            some = pd.array(some)
        with pytest.raises(InvalidInput, match=f"X contains NaN at row 7, column {column}"):
            model.predict(table(kind, VALUES | {name: some}))


@pytest.mark.parametrize("kind", ["pandas", "pandas, mixed", "polars", "Arrow"])
def test_there_is_no_copy_of_the_whole(kind):
    n, d = 50_000, 64
    columns = {f"c{j}": RNG.normal(size=n) for j in range(d)}
    if kind == "pandas, mixed":
        columns |= {"c3": np.arange(n), "c5": columns["c5"].astype(np.float32)}
    frame = table(kind, columns)
    model = OnlineKernelRegressor(budget=64, n_jobs=1, random_state=0)
    model.fit(table(kind, {name: column[:500] for name, column in columns.items()}), Y)
    tracemalloc.start()
    model.predict(frame)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Rows of single precision, and a few columns of double.
    assert peak < 4 * n * d + 20 * 8 * n
