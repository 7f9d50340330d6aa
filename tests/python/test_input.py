"""Bad input is refused with what was found, where, and what would do."""

import numpy as np
import pytest

import riesz
from riesz import (
    InvalidInput,
    KernelClassifier,
    KernelQuantileRegressor,
    KernelRegressor,
    OnlineKernelRegressor,
)

X = np.random.default_rng(0).normal(size=(40, 3))
Y = X[:, 0]
LABELS = np.arange(40) % 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_what_is_not_finite_is_named_by_row_and_column(value, name, dtype):
    bad = X.astype(dtype)
    bad[17, 2] = value
    for machine in (KernelRegressor(random_state=0), OnlineKernelRegressor(random_state=0)):
        with pytest.raises(InvalidInput, match=rf"X contains {name} at row 17, column 2"):
            machine.fit(X, Y).predict(bad)
        if np.isnan(value) and isinstance(machine, KernelRegressor):
            continue  # which it takes, unless it learnt that nothing is missing
        with pytest.raises(InvalidInput, match=rf"X contains {name} at row 17, column 2"):
            machine.fit(bad, Y)
        with pytest.raises(InvalidInput, match=rf"X contains {name} at row 17, column 2"):
            machine.partial_fit(bad, Y)


def test_numbers_beyond_single_precision_are_named():
    bad = X.copy()
    bad[3, 1] = 1e300
    with pytest.raises(InvalidInput, match="at row 3, column 1"):
        KernelRegressor().fit(bad, Y)


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "inf")])
def test_targets_that_are_not_finite_are_named(value, name):
    targets = np.column_stack([Y, Y])
    targets[5, 1] = value
    with pytest.raises(InvalidInput, match=f"y contains {name} at row 5, column 1"):
        KernelRegressor().fit(X, targets)


@pytest.mark.parametrize("missing", [np.nan, None])
def test_missing_labels_are_named(missing):
    labels = np.array(["a", "b"], dtype=object)[LABELS]
    labels[9] = missing
    with pytest.raises(InvalidInput, match=f"y contains {missing} at row 9"):
        KernelClassifier().fit(X, labels)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.where(np.arange(40) == 4, np.nan, 1), "sample_weight contains NaN at row 4"),
        (np.where(np.arange(40) == 4, -1, 1), "sample_weight = -1"),
        (np.zeros(40), "sample_weight .all zero."),
        (np.ones(39), "sample_weight has 39 rows, expected 40"),
    ],
)
def test_weights_are_checked(weights, message):
    with pytest.raises(InvalidInput, match=message):
        KernelRegressor().fit(X, Y, sample_weight=weights)


def test_lengths_must_agree():
    with pytest.raises(InvalidInput, match="y has 39 rows, expected 40"):
        KernelRegressor().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="X has 2 features, but KernelRegressor is expecting 3"):
        KernelRegressor().fit(X, Y).predict(X[:, :2])


def test_empty_data_are_refused():
    for rows, targets in [(X[:0], Y[:0]), (X[:, :0], Y)]:
        with pytest.raises(ValueError, match="minimum of 1 is required"):
            KernelRegressor().fit(rows, targets)


def test_one_class_is_refused():
    with pytest.raises(InvalidInput, match="only one class"):
        KernelClassifier().fit(X, np.ones(40))


def test_continuous_labels_are_refused():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        KernelClassifier().fit(X, Y)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("loss", "cubic", "expected one of square, huber, epsilon_insensitive, absolute, quantile"),
        ("loss", "quantile", "quantiles are for KernelQuantileRegressor"),
        ("loss", "hinge", "loss = hinge is for classification"),
        ("kernel", "cubic", "expected one of gaussian .rbf., laplacian"),
        ("kernel", 3, "kernel = 3 should be a name"),
        ("bandwidth", "wide", "expected one of auto, median, scale or a positive number"),
        ("bandwidth", -1.0, "bandwidth = -1 is outside"),
        ("bandwidth", None, "bandwidth = None should be a positive number, 'auto'"),
        ("scaling", "robust", "expected one of auto, none, standard"),
        ("solver", "svd", "expected one of auto, block, ridge, stream"),
        ("projection", "sparse", "expected one of dense, structured"),
        ("ridge", -1.0, "ridge = -1 is outside"),
        ("ridge", "much", "ridge = 'much' should be a number or None"),
        ("damping", 0.0, "damping = 0 is outside"),
        ("block_size", -8, "block_size = -8 is outside"),
        ("block_size", 1.5, "block_size = 1.5 should be a whole number"),
        ("max_blocks", 0, "max_blocks = 0 is outside"),
        ("batch_size", 0, "batch_size = 0 is outside"),
        ("max_time", -3.0, "max_time = -3 is outside"),
        ("early_stopping", "no", "early_stopping = 'no' should be True or False"),
        ("checkpoint", 3, "checkpoint = 3 should be a path or None"),
        ("random_state", -1, "random_state = -1 is outside"),
        ("n_jobs", 0, "n_jobs = 0 is outside"),
    ],
)
def test_settings_are_checked(name, value, message):
    with pytest.raises(InvalidInput, match=message):
        KernelRegressor(**{name: value}).fit(X, Y)


def test_a_loss_for_regression_does_not_classify():
    with pytest.raises(InvalidInput, match="loss = square is for regression"):
        KernelClassifier(loss="square").fit(X, LABELS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "huber", "delta": 0}, "delta = 0 is outside"),
        ({"loss": "huber", "delta": "wide"}, "delta = 'wide' should be a number"),
        ({"loss": "epsilon_insensitive", "epsilon": -1.0}, "epsilon = -1 is outside"),
        ({"loss": "absolute", "solver": "ridge"}, "solver = ridge solves the square loss"),
    ],
)
def test_parameters_of_losses_are_checked(settings, message):
    with pytest.raises(InvalidInput, match=message):
        KernelRegressor(**settings).fit(X, Y)


@pytest.mark.parametrize(
    ("quantiles", "message"),
    [
        (0.0, "quantiles = 0 is outside"),
        ([0.5, 1.0], "quantiles = 1 is outside"),
        ([0.9, 0.1], "quantiles should increase, but 0.1 follows 0.9"),
        ([], "quantiles is empty"),
        ([[0.1, 0.9]], "should be numbers between 0 and 1"),
        ("median", "should be numbers between 0 and 1"),
    ],
)
def test_quantiles_are_checked(quantiles, message):
    with pytest.raises(InvalidInput, match=message):
        KernelQuantileRegressor(quantiles=quantiles).fit(X, Y)


def test_quantiles_are_of_one_target():
    with pytest.raises(ValueError, match="y should be a 1d array"):
        KernelQuantileRegressor().fit(X, np.column_stack([Y, Y]))


def test_negative_counts_are_refused_by_row():
    counts = np.arange(40.0)
    counts[7] = -2
    with pytest.raises(
        InvalidInput, match="target -2 at row 7 is not admissible for the poisson loss"
    ):
        KernelRegressor(loss="poisson").fit(X, counts)


def test_a_loss_for_numbers_does_not_classify():
    with pytest.raises(InvalidInput, match=r"loss = huber=1\.35 is for regression"):
        KernelClassifier(loss="huber").fit(X, LABELS)


def test_errors_have_two_families():
    assert issubclass(InvalidInput, riesz.RieszError)
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(riesz.FitError, riesz.RieszError)
    assert issubclass(riesz.FitError, RuntimeError)


def test_arrays_that_rust_cannot_borrow_are_refused():
    settings = {"classes": None}
    with pytest.raises(TypeError):
        riesz._riesz.Machine.fit(X.astype(np.float16), Y, settings=settings)
    machine = KernelRegressor(random_state=0).fit(X, Y)
    with pytest.raises(InvalidInput, match="X is not C-contiguous"):
        machine._model.decision(np.asfortranarray(X))
    np.testing.assert_array_equal(machine.predict(np.asfortranarray(X)), machine.predict(X))
    np.testing.assert_array_equal(machine.predict(X[::-1])[::-1], machine.predict(X))
