"""Online kernel machines under constraints: they hold, are restored, and errors name them."""

import pickle

import numpy as np
import pytest

import riesz
from riesz import (
    ChanceConstraint,
    ConstrainedKernelClassifier,
    ConstrainedKernelRegressor,
    CVaR,
    InvalidInput,
    LossAbove,
    MeanConstraint,
    OnlineKernelRegressor,
)

LEVEL = 0.95


def low(values, target):
    """Return how far a prediction is above -0.2, and its slope."""
    return values[0] + 0.2, [1.0]


@pytest.fixture(scope="module")
def waves():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(6000, 1))
    return X, np.sin(X[:, 0]) + 0.2 * rng.normal(size=6000)


@pytest.fixture(scope="module")
def rings():
    """Three overlapping clouds."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 12000)
    angle = 2 * np.pi * labels / 3
    X = np.c_[np.cos(angle), np.sin(angle)] + 0.6 * rng.normal(size=(12000, 2))
    return X, np.array(["a", "b", "c"])[labels]


def tail(model, X, labels):
    """Return the mean of the worst log-losses."""
    places = np.searchsorted(model.classes_, labels)
    losses = np.sort(-np.log(model.predict_proba(X)[np.arange(len(X)), places]))
    return losses[int(LEVEL * len(losses)) :].mean()


def test_a_bound_on_the_worst_losses_is_kept_and_costs_little(rings):
    X, labels = rings
    learnt, kept = slice(0, 8000), slice(8000, None)
    free = ConstrainedKernelClassifier(random_state=0).fit(X[learnt], labels[learnt])
    bound = 0.9 * tail(free, X[kept], labels[kept])
    model = ConstrainedKernelClassifier(constraints=[CVaR(LEVEL, bound)], random_state=0)
    model.fit(X[learnt], labels[learnt])
    # The worst losses are means of 200 numbers that deviate by about a third of the bound.
    assert tail(model, X[kept], labels[kept]) < bound * (1 + 0.07)
    assert model.multipliers_[0] > 0
    accuracies = [each.score(X[kept], labels[kept]) for each in (free, model)]
    assert accuracies[1] > accuracies[0] - 0.02


def test_several_constraints_of_users_hold(waves):
    X, y = waves
    rare = ChanceConstraint(LossAbove(2.0), 0.2)
    model = ConstrainedKernelRegressor(constraints=[MeanConstraint(low), rare], random_state=0)
    model.fit(X, y)
    assert model.predict(X).mean() < -0.15
    assert model.multipliers_[0] > 0.05 > model.multipliers_[1]
    assert np.mean(0.5 * (model.predict(X) - y) ** 2 > 2.0) < 0.2


def test_a_constraint_may_be_on_another_loss(waves):
    X, y = waves
    for loss in ("absolute", "huber=2"):
        model = ConstrainedKernelRegressor(constraints=[CVaR(0.9, 5.0, loss)], random_state=0)
        assert model.fit(X[:200], y[:200]).constraint_values_[0] <= 0


def test_without_constraints_it_is_an_online_machine(waves):
    X, y = waves
    settings = {"memory": "dictionary", "learning_rate": 0.05, "random_state": 0}
    one = OnlineKernelRegressor(drop="komp", **settings).fit(X, y)
    two = ConstrainedKernelRegressor(**settings).fit(X, y)
    assert np.array_equal(one.predict(X), two.predict(X))
    assert one.n_atoms_ < 200


def test_compression_costs_little_and_saves_much(waves):
    X, y = waves
    truth = np.sin(X[:, 0])
    settings = {"memory": "dictionary", "learning_rate": 0.05, "random_state": 0}
    whole = OnlineKernelRegressor(budget=None, **settings).fit(X, y)
    few = OnlineKernelRegressor(drop="komp", parsimony=1.0, **settings).fit(X, y)
    errors = [np.sqrt(np.mean((model.predict(X) - truth) ** 2)) for model in (whole, few)]
    assert whole.n_atoms_ == 6000 > 20 * few.n_atoms_
    assert errors[1] < errors[0] + 0.02


@pytest.mark.parametrize("way", ["file", "pickle"])
def test_learning_goes_on_after_being_restored(waves, tmp_path, way):
    X, y = waves
    constraints = [CVaR(0.9, 0.1), MeanConstraint(low)]
    model = ConstrainedKernelRegressor(constraints=constraints, random_state=0).fit(
        X[:500], y[:500]
    )
    if way == "file":
        model.save(tmp_path / "model")
        again = riesz.load(tmp_path / "model")
        assert isinstance(again, ConstrainedKernelRegressor)
        with pytest.raises(InvalidInput, match="low is a function, which no file holds"):
            again.partial_fit(X[500:510], y[500:510])
        again = riesz.load(tmp_path / "model").set_params(constraints=constraints)
    else:
        again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.multipliers_, model.multipliers_)
    for each in (model, again):
        each.partial_fit(X[500:1000], y[500:1000])
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_bound_that_cannot_be_met_is_an_error(waves):
    model = ConstrainedKernelRegressor(
        constraints=[CVaR(0.9, 1e-4)], multiplier_limit=0.1, random_state=0
    )
    with pytest.raises(riesz.RieszError, match=r"multiplier of constraint 1.*raise the bound"):
        model.fit(*waves)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (CVaR(0.9, 1.0), "constraints is a list"),
        (3, "constraints = 3"),
        (["cvar"], "constraints has 'cvar'"),
        ([CVaR(1.0, 1.0)], "level"),
        ([CVaR(0.9, float("nan"))], "nan in constraints"),
        ([CVaR("x", 1.0)], "'x' in constraints"),
        ([CVaR(0.9, 1.0, "hinge")], "hinge is for classification"),
        ([CVaR(0.9, 1.0, "hing")], "hing"),
        ([ChanceConstraint(LossAbove(1.0), 0.0)], "probability"),
        ([ChanceConstraint(LossAbove(1.0), 0.1, "linear")], "linear"),
        ([MeanConstraint(2)], "g = 2"),
        ([MeanConstraint(lambda values, target: 1.0)], "g and its slope"),
        ([MeanConstraint(lambda values, target: (1.0, [1.0, 2.0]))], "slope of 2 numbers"),
        ([MeanConstraint(lambda values, target: (np.nan, [1.0]))], "not finite"),
        ([MeanConstraint(lambda values, target: 1 / 0)], "division by zero"),
    ],
)
def test_bad_constraints_are_refused_by_name(waves, constraints, message):
    X, y = waves
    with pytest.raises((ValueError, ZeroDivisionError, riesz.RieszError), match=message):
        ConstrainedKernelRegressor(constraints=constraints).fit(X[:50], y[:50])
