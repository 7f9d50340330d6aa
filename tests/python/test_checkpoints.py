"""A checkpoint of one fit is refused by every other, which is told what differs."""

import functools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats

from riesz import (
    BayesianLogisticRegression,
    InvalidInput,
    KernelClassifier,
    KernelRegressor,
    ParticleMirrorDescent,
)
from riesz._fingerprint import fingerprint

ROWS = 300
RNG = np.random.default_rng(0)
DATA = RNG.normal(3, 1, size=ROWS)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Write a checkpoint after every stage."""
    monkeypatch.setenv("RIESZ_CHECKPOINT_SECONDS", "0")


def log_likelihood(theta, batch):
    return stats.norm.logpdf(np.asarray(batch)[None, :], theta[:, :1], 1.0).sum(axis=1)


def other_likelihood(theta, batch):
    return stats.norm.logpdf(np.asarray(batch)[None, :], theta[:, :1], 2.0).sum(axis=1)


def until(function, calls):
    """Return a function that is interrupted in one of its calls."""
    count = 0

    def limited(*arguments):
        nonlocal count
        count += 1
        if count > calls:
            raise KeyboardInterrupt
        return function(*arguments)

    return limited


SETTINGS = {"n_particles": 200, "random_state": 0, "n_jobs": 1}
PRIOR = {"mu": stats.norm(0, 5)}


def posterior_of(path, data=DATA, likelihood=log_likelihood, prior=PRIOR, **settings):
    model = ParticleMirrorDescent(likelihood, prior, checkpoint=path, **(SETTINGS | settings))
    return model.fit(data)


def interrupt(monkeypatch, path, fit):
    """Run a fit until it has been asked for its third stage."""
    from riesz import _particle_mirror_descent as module

    called = module._Model.log_likelihood
    monkeypatch.setattr(module._Model, "log_likelihood", until(called, 4))
    with pytest.raises(KeyboardInterrupt):
        fit(path)
    monkeypatch.setattr(module._Model, "log_likelihood", called)
    assert path.exists()


def changed(index, value):
    data = DATA.copy()
    data[index] = value
    return data


# One observation changed anywhere, two sign bits, order, type, length, and their container.
OTHER_DATA = {
    **{f"observation {i}": changed(i, DATA[i] + 1e-9) for i in range(0, ROWS, 7)},
    **{f"sign of {i}": changed([i, i + 1], -DATA[[i, i + 1]]) for i in range(0, ROWS - 1, 13)},
    **{f"swap {i}": changed([i, 299], DATA[[299, i]]) for i in range(0, ROWS - 1, 29)},
    "order": DATA[::-1].copy(),
    "sorted": np.sort(DATA),
    "type": DATA.astype(np.float32),
    "bytes": DATA.astype(">f8"),
    "longer": np.append(DATA, 3.0),
    "shorter": DATA[:-1],
    "most": np.concatenate([DATA[:16], 5 + DATA[16:]]),
    "nan": changed(7, np.nan),
    "list": DATA.tolist(),
    "frame": pd.Series(DATA),
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    path = tmp_path_factory.mktemp("posterior") / "begun"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIESZ_CHECKPOINT_SECONDS", "0")
        interrupt(patch, path, posterior_of)
    return path.read_bytes()


@pytest.fixture
def checkpoint(begun, tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(begun)
    return path


def test_the_same_fit_goes_on_to_the_same_posterior(checkpoint):
    resumed = posterior_of(checkpoint)
    assert not checkpoint.exists()
    np.testing.assert_array_equal(resumed.samples, posterior_of(None).samples)


@pytest.mark.parametrize("name", OTHER_DATA)
def test_other_data_are_refused(checkpoint, name):
    with pytest.raises(
        InvalidInput, match=r"does not belong to this fit: these parts differ: .*data"
    ):
        posterior_of(checkpoint, OTHER_DATA[name])
    assert checkpoint.exists()


SIGMA = 1.0


def with_global(theta, batch):
    return stats.norm.logpdf(np.asarray(batch)[None, :], theta[:, :1], SIGMA).sum(axis=1)


OTHER_MODELS = {
    "prior of mu": {"prior": {"mu": stats.norm(0, 5.000001)}},
    "prior of mu ": {"prior": {"mu": stats.t(5, 0, 5)}},
    "prior of nu": {"prior": {"nu": stats.norm(0, 5)}},
    "log_likelihood": {"likelihood": other_likelihood},
    "log_likelihood ": {"likelihood": functools.partial(log_likelihood)},
    "constraints": {"constraints": {"mu": (-100, 100)}},
    "n_particles": {"n_particles": 201},
    "n_islands": {"n_islands": 3},
    "batch_size": {"batch_size": 17},
    "random_state": {"random_state": 1},
    "random_state ": {"random_state": None},
    "growth": {"growth": 2.5},
    "effective": {"effective": 0.4},
    "defensive": {"defensive": 0.2},
    "renewal": {"renewal": "moves"},
    "final_stage": {"final_stage": False},
}


@pytest.mark.parametrize("name", OTHER_MODELS)
def test_other_models_and_settings_are_refused(checkpoint, name):
    with pytest.raises(InvalidInput, match=rf"does not belong to this fit: .*\b{name.strip()}\b"):
        posterior_of(checkpoint, **OTHER_MODELS[name])


def test_what_changes_nothing_is_taken(checkpoint):
    resumed = posterior_of(checkpoint, n_jobs=2, max_time=1e6, verbose=0)
    np.testing.assert_array_equal(resumed.samples, posterior_of(None).samples)


def test_a_changed_constant_is_another_likelihood():
    first = fingerprint(with_global)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "SIGMA", 2.0)
        assert fingerprint(with_global) != first
    assert fingerprint(with_global) == first


# Pairs that differ.
UNLIKE = [
    (np.zeros(3), np.zeros((3, 1))),
    (np.zeros(3), np.array([0.0, -0.0, 0.0])),
    ({"a": 1, "b": 2}, {"b": 1, "a": 2}),
    (("ab", "c"), ("a", "bc")),
    (sp.csr_array(np.eye(3)), sp.csr_array(2 * np.eye(3))),
    (pd.DataFrame({"a": [1.0]}), pd.DataFrame({"b": [1.0]})),
    (pd.DataFrame({"a": ["x"]}), pd.DataFrame({"a": ["y"]})),
    (stats.norm(0, 1), stats.norm(0, scale=2)),
    (
        stats.multivariate_normal([0, 0], np.eye(2)),
        stats.multivariate_normal([0, 0], 2 * np.eye(2)),
    ),
    (stats.dirichlet([1, 2]), stats.dirichlet([1, 3])),
    (lambda x, k=1: x * k, lambda x, k=2: x * k),
    (np.array([1, "a"], dtype=object), np.array([2, "a"], dtype=object)),
    ({1, 2}, {1, 3}),
]


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_what_differs_has_another_fingerprint(one, other):
    assert fingerprint(one) == fingerprint(one)
    assert fingerprint(one) != fingerprint(other)


def rows(count=2200):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(count, 3))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=count)


def regressor(path, X, y, weights=None, **settings):
    given = {"max_blocks": 6, "block_size": 64, "bandwidth": 1.0, "random_state": 0, "n_jobs": 1}
    return KernelRegressor(checkpoint=path, **(given | settings)).fit(X, y, weights)


def classifier(path, X, y, weights=None, **settings):
    given = {"max_blocks": 6, "block_size": 64, "bandwidth": 1.0, "random_state": 0, "n_jobs": 1}
    return KernelClassifier(checkpoint=path, **(given | settings)).fit(X, y > 0, weights)


def bayesian(path, X, y, weights=None, **settings):
    given = {"n_particles": 100, "laplace": False, "random_state": 0, "n_jobs": 1}
    return BayesianLogisticRegression(checkpoint=path, **(given | settings)).fit(X, y > 0)


@pytest.fixture(scope="module")
def interrupted_fits(tmp_path_factory):
    """Return checkpoints of fits that ran out of patience after some blocks."""
    found = {}
    folder = tmp_path_factory.mktemp("fits")
    for name, fit in {"r": regressor, "c": classifier, "b": bayesian}.items():
        path = folder / name
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RIESZ_CHECKPOINT_SECONDS", "0")
            module = (
                f"riesz.{'_bayesian_logistic_regression' if name == 'b' else '_kernel_machine'}"
            )
            patch.setattr(f"{module}.progress", lambda _: _Stopping())
            with pytest.raises(KeyboardInterrupt):
                fit(path, *rows())
        found[name] = path.read_bytes()
    return found


class _Stopping:
    """Progress that interrupts a fit after a few reports."""

    def __init__(self, reports=3):
        self.reports = reports

    def __enter__(self):
        return until(lambda *_: None, self.reports)

    def __exit__(self, *_):
        return False


def rows_changed(i, j, amount):
    X, y = rows()
    X[i, j] += amount
    return X, y


FITS = {"r": regressor, "c": classifier, "b": bayesian}
OTHER_ROWS = {
    **{f"X[{i}]": (rows_changed(i, i % 3, 0.5), "X") for i in range(0, 2200, 97)},
    "sign": ((-rows()[0], rows()[1]), "X"),
    "order": ((rows()[0][::-1].copy(), rows()[1][::-1].copy()), "X"),
    "fewer": ((rows()[0][:-1], rows()[1][:-1]), "X"),
    "y": ((rows()[0], -rows()[1]), "y"),
}


@pytest.mark.parametrize("kind", FITS)
@pytest.mark.parametrize("name", OTHER_ROWS)
def test_other_rows_are_refused(interrupted_fits, tmp_path, kind, name):
    (X, y), what = OTHER_ROWS[name]
    path = tmp_path / "checkpoint"
    path.write_bytes(interrupted_fits[kind])
    with pytest.raises(InvalidInput, match=rf"does not belong to this fit: .*\b{what}\b"):
        FITS[kind](path, X, y)


@pytest.mark.parametrize("kind", FITS)
def test_the_same_rows_go_on_to_the_same_bits(interrupted_fits, tmp_path, kind):
    path = tmp_path / "checkpoint"
    path.write_bytes(interrupted_fits[kind])
    X, y = rows()
    method = "predict" if kind == "r" else "predict_proba"
    resumed, straight = (getattr(FITS[kind](p, X, y), method)(X) for p in (path, None))
    np.testing.assert_array_equal(resumed, straight)


def test_a_limit_of_time_does_not_change_what_sweeps_go_on_from(tmp_path, monkeypatch):
    """What was chosen before them is chosen again, though the time is up: else the coefficients
    of a checkpoint would meet another kernel."""
    X, y = rows(4_000)
    path, settings = tmp_path / "checkpoint", {"random_state": 0, "n_jobs": 1}
    with monkeypatch.context() as patch:
        patch.setenv("RIESZ_CHECKPOINT_SECONDS", "0")
        # Blocks and trials are reported too: until there is a sweep.
        for reports in range(20, 2_000, 20):
            stopping = _Stopping(reports)
            patch.setattr("riesz._kernel_machine.progress", lambda _, stop=stopping: stop)
            with pytest.raises(KeyboardInterrupt):
                KernelRegressor(checkpoint=path, **settings).fit(X, y)
            if path.exists():
                break
    assert path.exists()
    limited = KernelRegressor(checkpoint=path, max_time=0.05, **settings).fit(X, y)
    assert limited.score(X, y) > 0.95


SETTINGS_OF_MACHINES = {
    "ridge": 1e-3,
    "damping": 0.5,
    "block_size": 128,
    "max_blocks": 7,
    "bandwidth": 1.5,
    "kernel": "laplacian",
    "scaling": "none",
    "early_stopping": False,
    "random_state": 1,
    "sweeps": 1,
    "projection": "dense",
    "loss": "huber",
}


@pytest.mark.parametrize("name", SETTINGS_OF_MACHINES)
def test_other_settings_of_machines_are_refused(interrupted_fits, tmp_path, name):
    path = tmp_path / "checkpoint"
    path.write_bytes(interrupted_fits["r"])
    with pytest.raises(InvalidInput, match=rf"its settings differ: .*\b{name}\b"):
        regressor(path, *rows(), **{name: SETTINGS_OF_MACHINES[name]})


def test_other_weights_are_refused(interrupted_fits, tmp_path):
    path = tmp_path / "checkpoint"
    weights = np.ones(2200)
    weights[2100] = 2
    for kind in ("r", "c"):
        path.write_bytes(interrupted_fits[kind])
        with pytest.raises(InvalidInput, match="these parts differ: sample_weight"):
            FITS[kind](path, *rows(), weights)


def test_another_prior_of_coefficients_is_refused(interrupted_fits, tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(interrupted_fits["b"])
    with pytest.raises(InvalidInput, match="prior_scale"):
        bayesian(path, *rows(), prior_scale=2.0)


def test_an_interval_that_is_none_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("RIESZ_CHECKPOINT_SECONDS", "often")
    with pytest.raises(InvalidInput, match='RIESZ_CHECKPOINT_SECONDS = "often"'):
        posterior_of(tmp_path / "x")
