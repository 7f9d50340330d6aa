"""Arguments that make no sense end with an exception that names them, never with the process.

A part of the matrix of ``bad_arguments.py``, and the mistakes that once ended a process.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from bad_arguments import SUBJECTS, run, summary
from scipy import stats

from riesz import (
    BayesianLogisticRegression,
    GaussianProcessRegressor,
    InvalidInput,
    KernelDensity,
    KernelRegressor,
    ParticleMirrorDescent,
    RandomFeatures,
    SparseGaussianProcessRegressor,
)

# Every so many cases, so that all of them take less than a minute.
STRIDE = 89

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0]


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_part_of_the_matrix(name):
    found = summary(run(name, STRIDE))
    assert found["cases"] > 5
    assert found["bad"] == []
    assert found["named"] >= 0.8, found["unnamed"]


@pytest.mark.parametrize("name", SUBJECTS)
def test_arguments_that_are_right_are_taken(name):
    """Otherwise every case would end with the same error."""
    subject = SUBJECTS[name]
    fitted = subject.fitted({}, {})
    for method, arguments in subject.methods.items():
        if method == "partial_fit":
            getattr(subject.fitted({}, {}), method)(**arguments)
        elif method != "save":
            getattr(fitted, method)(**arguments)


def process():
    return GaussianProcessRegressor(random_state=0, n_jobs=1).fit(X, Y)


def posterior():
    def log_likelihood(theta, batch):
        return -0.5 * ((batch[None, :] - theta[:, :1]) ** 2).sum(axis=1)

    model = ParticleMirrorDescent(
        log_likelihood, {"mu": stats.norm()}, n_particles=60, random_state=0, n_jobs=1
    )
    return model.fit(Y)


WIDE = [sp.csr_array((40, columns)) for columns in (2**31 - 1, 2**40)]
MISTAKES = {
    "block_size": lambda: KernelRegressor(block_size=0).fit(X, Y),
    "neighbours": lambda: GaussianProcessRegressor(
        approximation="inducing", neighbours=2**62, random_state=0
    ).fit(X, Y),
    "n_particles": lambda: BayesianLogisticRegression(n_particles=2**62).fit(X, Y > 0),
    "n_particles, fewer": lambda: BayesianLogisticRegression(n_particles=2**30).fit(X, Y > 0),
    "n": lambda: posterior().sample(2**61),
    "n, addresses": lambda: posterior().sample(2**40),
    "n, resampled": lambda: posterior().resample(2**61),
    "n_samples": lambda: process().sample_y(X, 2**40),
    "n_samples, functions": lambda: process().sample_y(X, 2**40, method="functions"),
    "n_samples, sparse": lambda: (
        SparseGaussianProcessRegressor(n_inducing=8, random_state=0).fit(X, Y).sample_y(X, 2**40)
    ),
    "n_samples, density": lambda: KernelDensity().fit(X).sample(2**61),
    "n_components": lambda: RandomFeatures(n_components=2**61).fit(X),
    "X": lambda: GaussianProcessRegressor().fit(WIDE[1], Y),
    "X, density": lambda: KernelDensity().fit(WIDE[1]),
    "X, machine": lambda: KernelRegressor().fit(WIDE[1], Y),
    "X, features": lambda: RandomFeatures().fit(WIDE[0]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_sizes_are_checked_before_they_are_asked_for(name):
    if name == "neighbours":
        # There are as many neighbours as rows.
        MISTAKES[name]()
        return
    with pytest.raises((InvalidInput, MemoryError), match=rf"\b{name.split(',')[0]}\b"):
        MISTAKES[name]()


def test_a_covariance_says_what_it_needs():
    rows = np.zeros((200_000, 3))
    with pytest.raises(MemoryError, match=r"covariances of the rows of X need 5.* GiB of memory"):
        process().predict(rows, return_cov=True)
