"""Sparse arrays are the dense arrays with the same entries, to the last bit."""

import numpy as np
import pytest
import scipy.sparse as sp

from riesz import (
    DensityRatioEstimator,
    GaussianProcessRegressor,
    InvalidInput,
    KernelClassifier,
    KernelNoveltyDetector,
    KernelQuantileRegressor,
    KernelRegressor,
    RandomFeatures,
)

ESTIMATORS = [
    KernelClassifier(max_blocks=2, block_size=128, random_state=0),
    KernelRegressor(max_blocks=2, block_size=128, random_state=0),
    KernelRegressor(solver="stream", random_state=0),
    KernelQuantileRegressor(max_blocks=2, block_size=128, bandwidth=2.0, random_state=0),
    GaussianProcessRegressor(learning_rows=100, random_state=0),
    RandomFeatures(n_components=64, random_state=0),
    KernelNoveltyDetector(n_components=64, random_state=0),
    DensityRatioEstimator(max_blocks=2, block_size=128, random_state=0),
]
# What gives the numbers of an estimator, where that is not `predict`.
OUTPUTS = {RandomFeatures: "transform", KernelNoveltyDetector: "decision_function"}
FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


def table(n, dtype, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, 12), density=0.3, format="csr", rng=rng, data_sampler=rng.normal)
    X = X.astype(dtype)
    dense = X.toarray()
    return X, dense, (dense[:, 0] + dense[:, 1] > dense[:, 2]).astype(int)


def output(estimator, X):
    return getattr(estimator, OUTPUTS.get(type(estimator), "predict"))(X)


def fitted(estimator, X, y):
    """Fit, to the rows of each class where two samples are wanted."""
    if isinstance(estimator, DensityRatioEstimator):
        return estimator.fit(X[y == 1], X[y == 0])
    return estimator.fit(X, y)


def further(estimator, X, y):
    """Go on with some rows, likewise."""
    if isinstance(estimator, DensityRatioEstimator):
        return estimator.partial_fit(X[y == 1], X[y == 0])
    return estimator.partial_fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [90, 2100])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_results_are_those_of_the_dense_array(estimator, n, dtype):
    if n > 2000 and isinstance(estimator, GaussianProcessRegressor):
        n = 300
    X, dense, y = table(n, dtype)
    expected = output(fitted(estimator, dense, y), dense)
    np.testing.assert_array_equal(output(estimator, X), expected)
    found = output(fitted(estimator, X, y), X)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    if hasattr(estimator, "partial_fit"):
        found = output(further(estimator, X[:50], y[:50]), X)
        expected = output(further(fitted(estimator, dense, y), dense[:50], y[:50]), dense)
        np.testing.assert_array_equal(found, expected)


def test_divergences_are_those_of_the_dense_arrays():
    X, dense, y = table(300, np.float64)
    estimator = fitted(DensityRatioEstimator(max_blocks=2, random_state=0), X, y)
    for kind in ("kl", "pearson"):
        found = estimator.divergence(X[y == 1], X[y == 0], kind=kind)
        assert found == estimator.divergence(dense[y == 1], dense[y == 0], kind=kind)
        assert found > 0.05


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_every_format_is_taken(layout, container):
    X, dense, y = table(60, np.float64)
    other = container(X).asformat(layout)
    machine = KernelRegressor(random_state=0).fit(other, y)
    expected = KernelRegressor(random_state=0).fit(dense, y).predict(dense)
    np.testing.assert_array_equal(machine.predict(other), expected)


@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_order_repeats_explicit_zeros_and_whole_numbers(width):
    """SciPy adds what is stored twice; so does the machine, in the precision of the array."""
    rng = np.random.default_rng(1)
    indptr = np.arange(0, 601, 6, dtype=width)
    indices = rng.integers(0, 9, size=600).astype(width)
    data = rng.normal(size=600)
    data[::7] = 0
    data[::11] = -0.0
    y = rng.normal(size=100)
    for dtype in (np.float32, np.float64, np.int64):
        values = (4 * data).astype(dtype)
        X = sp.csr_array((values, indices, indptr), shape=(100, 9))
        dense = X.toarray()
        assert len({*zip(np.repeat(range(100), 6), indices, strict=True)}) < 600
        machine = KernelRegressor(random_state=0).fit(X, y)
        expected = KernelRegressor(random_state=0).fit(dense, y).predict(dense)
        np.testing.assert_array_equal(machine.predict(X), expected)
        np.testing.assert_array_equal(X.data, values)  # nothing is sorted or summed in place


def test_slices_and_empty_rows():
    _, dense, y = table(80, np.float32)
    dense[10:20] = 0
    X = sp.csr_array(dense)
    machine = KernelRegressor(random_state=0).fit(X, y)
    expected = machine.predict(dense)
    np.testing.assert_array_equal(machine.predict(X[5:40]), expected[5:40])
    np.testing.assert_array_equal(machine.predict(X[::-3]), expected[::-3])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_is_named_by_row_and_column(value):
    _, dense, y = table(50, np.float64)
    dense[17, 5] = value
    X = sp.csr_array(dense)
    with pytest.raises(InvalidInput, match="at row 17, column 5"):
        KernelRegressor().fit(X, y)


def test_values_outside_the_domain_of_the_kernel_are_named():
    _, dense, y = table(50, np.float64)
    dense = abs(dense)
    X = sp.csr_array(dense)
    KernelRegressor(kernel="chi_squared", max_blocks=1, random_state=0).fit(X, y)
    dense[23, 4] = -0.5
    with pytest.raises(InvalidInput, match=r"column 4 has -0\.5 at row 23"):
        KernelRegressor(kernel="chi_squared").fit(sp.csr_array(dense), y)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("indptr", [0, 3, 2, 4], "indptr falls from 3 to 2 at row 1"),
        ("indptr", [1, 2, 3, 4], "indptr begins with 1, not 0"),
        ("indptr", [0, 2, 4, 5], "indptr ends with 5, beyond its 4 values"),
        ("indptr", [0, 2, 4], "indptr is that of 2 rows, its shape has 3"),
        ("indices", [0, 1, 2, 3], "row 2 has a value in column 3, outside 0..3"),
        ("indices", [0, -1, 2, 0], "row 1 has a value in column -1, outside 0..3"),
        ("data", [1.0, 2.0], "it has 4 column indices for 2 values"),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(name, value, message):
    machine = KernelRegressor(max_blocks=1, random_state=0).fit(np.eye(3), np.arange(3.0))
    X = sp.csr_array(([1.0, 2.0, 3.0, 4.0], [0, 1, 2, 0], [0, 1, 2, 4]), shape=(3, 3))
    setattr(X, name, np.array(value, dtype=getattr(X, name).dtype))
    with pytest.raises(InvalidInput, match=message):
        machine._model.decision(X)


def test_rust_takes_rows_only():
    machine = KernelRegressor(max_blocks=1, random_state=0).fit(np.eye(3), np.arange(3.0))
    with pytest.raises(InvalidInput, match="its format is csc, not csr"):
        machine._model.decision(sp.csc_array(np.eye(3)))
    with pytest.raises(TypeError, match="sparse array by rows"):
        machine._model.decision(sp.csr_array(np.eye(3, dtype=int)))


def test_a_checkpoint_does_not_mind(tmp_path):
    """The fingerprint of a sparse array is that of the dense one."""
    X, dense, y = table(2100, np.float32)
    settings = {"max_blocks": 2, "random_state": 0, "checkpoint": tmp_path / "fit"}
    sparse = KernelRegressor(**settings).fit(X, y).predict(dense)
    np.testing.assert_array_equal(sparse, KernelRegressor(**settings).fit(dense, y).predict(dense))
