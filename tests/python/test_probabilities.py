"""Probabilities of classes add up to one, in double precision, whatever the rows are."""

import numpy as np
import pytest
import scipy.sparse as sp

from riesz import (
    BayesianLogisticRegression,
    ConstrainedKernelClassifier,
    InvariantClassifier,
    KernelClassifier,
    OnlineKernelClassifier,
)

SETTINGS = {"block_size": 64, "max_blocks": 3, "random_state": 0, "n_jobs": 1}
CLASSIFIERS = [
    *(KernelClassifier(loss=loss, **SETTINGS) for loss in ("auto", "softmax", "logistic")),
    *(KernelClassifier(loss=loss, **SETTINGS) for loss in ("hinge", "squared_hinge")),
    KernelClassifier(solver="stream", **SETTINGS),
    OnlineKernelClassifier(random_state=0, n_jobs=1),
    ConstrainedKernelClassifier(random_state=0, n_jobs=1),
    InvariantClassifier(random_state=0, n_jobs=1),
    BayesianLogisticRegression(n_particles=100, random_state=0, n_jobs=1),
]


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
def test_rows_add_up_to_one(estimator, classes):
    rng = np.random.default_rng(0)
    y = np.arange(210) % classes
    X = np.column_stack([np.cos(y), np.sin(y)]) + 0.3 * rng.normal(size=(210, 2))
    estimator = estimator.fit(X, y)
    # Rows like those learnt from, and rows that no class is near.
    rows = np.vstack([X, 1e3 * X, 1e-9 * X])
    kinds = [rows, rows.astype(np.float32)]
    if estimator.__sklearn_tags__().input_tags.sparse:
        kinds += [sp.csr_array(kind) for kind in kinds]
    for kind in kinds:
        p = estimator.predict_proba(kind)
        assert p.dtype == np.float64
        assert np.abs(p.sum(axis=1) - 1).max() <= 1e-12
        assert p.min() >= 0
    assert (estimator.classes_[p.argmax(axis=1)] == estimator.predict(rows)).mean() > 0.99
