"""Every estimator on every shape of data: what must be equal is equal, and all is finite.

A further estimator is a line in ``CASES``.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import _safe_indexing

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

QUICK = {"block_size": 64, "max_blocks": 4, "random_state": 0, "n_jobs": 1}


@dataclass(frozen=True)
class Case:
    """An estimator, the targets it takes and what gives its numbers."""

    name: str
    estimator: Any
    # "labels", "numbers", "counts" or None.
    targets: str | None
    output: str = "predict"
    weights: bool = True
    # Whether a weight is a number of repetitions, exactly.
    counts: bool = True
    # What rows that are all equal should be answered with, from their targets; None for no promise.
    centre: Any = None

    def y(self, values):
        if self.targets == "labels":
            return np.digitize(values, [-0.3, 0.4])
        if self.targets == "counts":
            return np.round(3 * np.exp(values))
        return values if self.targets else None

    def fit(self, X, values, **weights):
        return clone(self.estimator).fit(X, self.y(values), **weights)

    def values(self, fitted, X):
        return getattr(fitted, self.output)(X)


@dataclass(frozen=True)
class TwoSamples(Case):
    """An estimator of two samples: rows with positive values and all others."""

    def fit(self, X, values, sample_weight=None):
        samples = np.flatnonzero(values > 0), np.flatnonzero(values <= 0)
        weights = [None if sample_weight is None else sample_weight[rows] for rows in samples]
        return clone(self.estimator).fit(*(_safe_indexing(X, rows) for rows in samples), *weights)


def shares(labels):
    return np.bincount(labels, minlength=3) / len(labels)


def quartiles(y):
    return np.quantile(y, [0.25, 0.75], method="inverted_cdf")


CASES = [
    Case("classifier", KernelClassifier(**QUICK), "labels", "predict_proba", centre=shares),
    Case("hinge", KernelClassifier(loss="hinge", **QUICK), "labels", "predict_proba"),
    Case("regressor", KernelRegressor(**QUICK), "numbers", centre=np.mean),
    Case("median", KernelRegressor(loss="absolute", **QUICK), "numbers", centre=np.median),
    Case("huber", KernelRegressor(loss="huber", **QUICK), "numbers"),
    Case("counts", KernelRegressor(loss="poisson", **QUICK), "counts", centre=np.mean),
    Case("ridge", KernelRegressor(solver="ridge", ridge=1e-3, **QUICK), "numbers"),
    Case("stream", KernelRegressor(solver="stream", **QUICK), "numbers", counts=False),
    Case(
        "quantiles",
        KernelQuantileRegressor(quantiles=[0.25, 0.75], **QUICK),
        "numbers",
        centre=quartiles,
    ),
    Case(
        "process",
        GaussianProcessRegressor(random_state=0, n_jobs=1),
        "numbers",
        weights=False,
        centre=np.mean,
    ),
    Case(
        "features",
        RandomFeatures(n_components=64, random_state=0, n_jobs=1),
        None,
        "transform",
        weights=False,
    ),
    Case(
        "novelty",
        KernelNoveltyDetector(n_components=64, random_state=0, n_jobs=1),
        None,
        "decision_function",
    ),
    TwoSamples(
        "ratio",
        DensityRatioEstimator(**QUICK),
        None,
        "log_ratio",
        counts=False,
        centre=lambda _: 0.0,
    ),
]
ALL = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
SUPERVISED = pytest.mark.parametrize(
    "case", [case for case in CASES if case.targets], ids=lambda case: case.name
)
NUMBERS = pytest.mark.parametrize(
    "case", [case for case in CASES if case.targets == "numbers"], ids=lambda case: case.name
)
WEIGHTED = pytest.mark.parametrize(
    "case", [case for case in CASES if case.weights], ids=lambda case: case.name
)


@pytest.fixture(scope="module")
def data():
    """Whole numbers, a third of them zero, which every representation holds exactly."""
    rng = np.random.default_rng(3)
    X = rng.integers(-20, 21, size=(72, 3)) * (rng.random(size=(72, 3)) < 0.67)
    X = X.astype(float)
    return X, np.sin(X[:, 0] / 8) + X[:, 1] * X[:, 2] / 400


@pytest.fixture(scope="module")
def reference(data):
    """What each case makes of the plain array."""
    values = {case.name: case.values(case.fit(*data), data[0]) for case in CASES}
    assert all(np.std(found) > 0.01 for found in values.values())
    return values


def strided(X):
    wide = np.full((2 * len(X), 2 * X.shape[1] + 1), np.nan)
    wide[::2, 1::2] = X
    return wide[::2, 1::2]


def frozen(X):
    X = X.copy()
    X.setflags(write=False)
    return X


REPRESENTATIONS = {
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "big-endian": lambda X: X.astype(">f8"),
    "int64": lambda X: X.astype(np.int64),
    "int8": lambda X: X.astype(np.int8),
    "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "csr float64": sp.csr_matrix,
    "csc int64": lambda X: sp.csc_array(X.astype(np.int64)),
    "frame": lambda X: pd.DataFrame(X, columns=["a", "b", "c"]),
    "frame of mixed types": lambda X: pd.DataFrame(
        {"a": X[:, 0], "b": X[:, 1].astype(np.int32), "c": X[:, 2].astype(np.float32)}
    ),
    "Fortran": np.asfortranarray,
    "strided": strided,
    "reversed twice": lambda X: X[::-1].copy()[::-1],
    "read-only": frozen,
    "lists": lambda X: X.tolist(),
}


@pytest.mark.parametrize("kind", REPRESENTATIONS)
@ALL
def test_equal_numbers_give_equal_bits(case, kind, data, reference):
    X, values = data
    other = REPRESENTATIONS[kind](X)
    found = case.values(case.fit(other, values), other)
    expected = reference[case.name]
    assert found.shape == expected.shape
    assert np.isfinite(found).all()
    # Probabilities are double, so that they add up to one.
    if "float32" in kind and case.name not in ("process", "features", "classifier", "hinge"):
        assert found.dtype == np.float32
    else:
        assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected.astype(found.dtype))


@SUPERVISED
def test_targets_may_be_of_any_type(case, data, reference):
    X, values = data
    y = case.y(values)
    for other in (y.tolist(), pd.Series(y, index=np.arange(len(y))[::-1]), np.repeat(y, 2)[::2]):
        found = case.values(clone(case.estimator).fit(X, other), X)
        np.testing.assert_array_equal(found, reference[case.name])


@ALL
def test_one_column(case, data):
    X, values = data[0][:, :1], np.sin(data[0][:, 0] / 8)
    found = case.values(fitted := case.fit(X, values), X)
    assert np.isfinite(found).all()
    if case.targets and case.name not in ("stream", "quantiles"):
        assert fitted.score(X, case.y(values)) > 0.6
    # A function of the column: equal rows have equal values.
    _, first, back = np.unique(X[:, 0], return_index=True, return_inverse=True)
    np.testing.assert_array_equal(found, found[first][back])


@ALL
def test_a_constant_column_says_nothing(case, data):
    """Whatever the constant is: kernels that see differences alone do not see it."""
    X, values = data
    at = [
        case.values(case.fit(wide, values), wide)
        for constant in (0.0, -7.0, 1e4)
        for wide in [np.column_stack([X, np.full(len(X), constant)])]
    ]
    assert np.isfinite(at).all()
    for other in at[1:]:
        np.testing.assert_allclose(other, at[0], rtol=1e-4, atol=1e-4)


@ALL
def test_repeated_rows(case, data, reference):
    """Every row twice is every row once for a fit without a random part in the rows."""
    X, values = data
    twice = np.repeat(X, 2, axis=0), np.repeat(values, 2)
    found = case.values(fitted := case.fit(*twice), X)
    assert np.isfinite(found).all()
    if case.weights and case.counts:
        heavy = case.fit(X, values, sample_weight=np.full(len(X), 2.0))
        np.testing.assert_array_equal(found, case.values(heavy, X))
    if case.name == "process":
        np.testing.assert_allclose(found, reference[case.name], atol=0.2)
    assert fitted.n_features_in_ == 3


@ALL
def test_rows_that_are_all_equal(case, data):
    """There is nothing to learn but what a constant can be: mean, median, quantiles, shares."""
    values = data[1]
    X = np.full((len(values), 2), 3.0)
    fitted = case.fit(X, values)
    found, far = case.values(fitted, X), case.values(fitted, X + np.array([1e3, -1e3]))
    assert np.isfinite(found).all()
    assert np.isfinite(far).all()
    np.testing.assert_array_equal(found, np.broadcast_to(found[:1], found.shape))
    if case.centre is not None:
        y = case.y(values) if case.targets else values
        np.testing.assert_allclose(found[0], case.centre(y), atol=0.05 * (1 + np.std(y)))


@ALL
def test_three_rows(case):
    X, values = np.array([[0.0, 1.0], [2.0, 0.0], [4.0, 5.0]]), np.array([-1.0, 0.0, 1.0])
    if isinstance(case, TwoSamples):
        with pytest.raises(InvalidInput, match="two rows of positive weight"):
            case.fit(X, values)
        return
    fitted = case.fit(X, values)
    found = case.values(fitted, X)
    assert len(found) == 3
    assert np.isfinite(found).all()
    assert np.isfinite(case.values(fitted, 100 * X)).all()


@ALL
def test_one_row(case):
    X, values = np.array([[1.0, 2.0]]), np.array([0.7])
    if case.targets == "labels":
        with pytest.raises(InvalidInput, match="only one class"):
            case.fit(X, values)
        return
    if isinstance(case, TwoSamples):
        with pytest.raises(ValueError, match="0 sample"):
            case.fit(X, values)
        return
    fitted = case.fit(X, values)
    found = case.values(fitted, np.array([[1.0, 2.0], [-50.0, 1e6]]))
    assert found.shape[0] == 2
    assert np.isfinite(found).all()
    if case.targets:
        np.testing.assert_allclose(found[0], case.y(values)[0], rtol=0.02)


@ALL
def test_no_row_at_all_is_refused(case, data):
    with pytest.raises(ValueError, match="0 sample"):
        case.fit(data[0][:0], data[1][:0])


@pytest.mark.parametrize(
    ("offset", "scale"),
    [
        (0.0, 2.0**-20),
        (0.0, 2.0**20),
        (2.0**20, 1.0),
        ((2.0**20, 0.0, 0.0), (1.0, 2.0**-20, 2.0**20)),
    ],
    ids=["small", "large", "far", "mixed"],
)
@ALL
def test_units_of_columns(case, offset, scale, data, reference):
    """Columns around 10⁶ ± 20, in millionths, in millions: single precision holds these exactly."""
    X, values = data
    moved = X * scale + offset
    assert np.array_equal(moved.astype(np.float32), moved)
    fitted = case.fit(moved, values)
    found = case.values(fitted, moved)
    assert np.isfinite(found).all()
    if np.ndim(scale) == 0 and case.name != "features":
        np.testing.assert_allclose(found, reference[case.name], atol=0.05)
    elif case.targets and case.name != "stream":
        same = fitted.score(moved, case.y(values))
        assert same > case.fit(X, values).score(X, case.y(values)) - 0.15


@SUPERVISED
def test_targets_that_never_change(case, data):
    X, _ = data
    constant = np.full(len(X), 0.3)
    if case.targets == "labels":
        with pytest.raises(InvalidInput, match=r"only one class in the data"):
            case.fit(X, constant)
        return
    for value in (0.0, 0.3, 1e6):
        y = np.full(len(X), value)
        found = case.values(clone(case.estimator).fit(X, y), np.vstack([X, X + 100]))
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
@NUMBERS
def test_units_of_targets(case, unit, data):
    """Predictions are in the units of the targets; so are δ and ε, which is why huber is told."""
    X, values = data
    estimator = clone(case.estimator)
    if case.name == "huber":
        estimator.set_params(delta=1.35 * unit)
    expected = case.values(case.fit(X, values), X)
    found = case.values(estimator.fit(X, values * unit), X) / unit
    np.testing.assert_allclose(found, expected, atol=1e-3)


@NUMBERS
def test_targets_far_from_zero(case, data):
    """2¹³ is far for targets of size one, whose steps are then 2⁻¹⁰ in single precision."""
    X, values = data
    values = np.round(values * 1024) / 1024
    expected = case.values(case.fit(X, values), X)
    found = case.values(case.fit(X, values + 8192), X) - 8192
    np.testing.assert_allclose(found, expected, atol=0.02)


@WEIGHTED
def test_rows_without_weight_are_not_there(case, data):
    X, values = data
    weights = np.where(np.arange(len(X)) % 4 == 1, 0.0, 1.5)
    kept = weights > 0
    # What is not there may be nonsense.
    values = np.where(kept, values, 0.1)
    X = np.where(kept[:, None], X, 1e5)
    found = case.values(case.fit(X, values, sample_weight=weights), X[kept])
    expected = case.values(case.fit(X[kept], values[kept], sample_weight=weights[kept]), X[kept])
    if case.name == "stream":
        np.testing.assert_allclose(found, expected, atol=1e-4)
    else:
        np.testing.assert_array_equal(found, expected)


@WEIGHTED
def test_the_unit_of_weights(case, data):
    """Weights of any size are taken; a common factor is a number of repetitions, no more."""
    X, values = data
    for factor in (1e-6, 1e6):
        fitted = case.fit(X, values, sample_weight=np.full(len(X), factor))
        assert np.isfinite(case.values(fitted, X)).all()


def test_weights_are_refused_where_there_are_none(data):
    """A process has the noise of each row instead; a transformer has nothing to weigh."""
    for case in CASES:
        if not case.weights:
            with pytest.raises(TypeError, match=re.escape("sample_weight")):
                case.fit(*data, sample_weight=np.ones(72))


def test_class_weights(data):
    X, values = data
    labels = np.array(["low", "middle", "high"])[CASES[0].y(values)]

    def proba(class_weight, **weights):
        machine = KernelClassifier(class_weight=class_weight, **QUICK)
        return machine.fit(X, labels, **weights).predict_proba(X)

    heavy = {"low": 1.0, "middle": 2.5, "high": 0.5}
    each = np.array([heavy[label] for label in labels])
    np.testing.assert_array_equal(proba(heavy), proba(None, sample_weight=each))
    np.testing.assert_array_equal(
        proba(heavy, sample_weight=each), proba(None, sample_weight=each.astype("f4") ** 2)
    )
    names, counts = np.unique(labels, return_counts=True)
    balance = dict(zip(names, 72 / (3 * counts), strict=True))
    np.testing.assert_allclose(proba("balanced"), proba(balance), atol=1e-6)
    assert proba({"low": 100.0})[:, 1].mean() > proba(None)[:, 1].mean()


def test_a_class_without_weight(data):
    """It keeps its place among the classes, and next to no probability."""
    X, values = data
    labels = CASES[0].y(values)
    for settings in (
        {"class_weight": {0: 0.0}},
        {"sample_weight": (labels > 0).astype(float)},
    ):
        weights = {k: v for k, v in settings.items() if k == "sample_weight"}
        machine = KernelClassifier(class_weight=settings.get("class_weight"), **QUICK)
        machine.fit(X, labels, **weights)
        probabilities = machine.predict_proba(X)
        assert machine.classes_.tolist() == [0, 1, 2]
        assert np.isfinite(probabilities).all()
        assert (probabilities[:, 0] < 0.05).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("loss", ["square", "absolute", "huber", "epsilon_insensitive"])
def test_several_targets(loss, data):
    """Each column in units of its own, one of them constant."""
    X, values = data
    Y = np.column_stack([values, 1e4 * values + 3e4, np.full(len(X), 7.0)])
    machine = KernelRegressor(loss=loss, delta=1e5, epsilon=0.0, **QUICK).fit(X, Y)
    found = machine.predict(sp.csr_array(X))
    assert found.shape == Y.shape
    np.testing.assert_allclose(found[:, 1] / 1e4 - 3, found[:, 0], atol=0.1)
    np.testing.assert_allclose(found[:, 2], 7, rtol=1e-4)
    assert np.corrcoef(found[:, 0], values)[0, 1] > 0.8
