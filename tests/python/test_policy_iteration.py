"""Policies from logs: against exact policy iteration."""

from types import SimpleNamespace

import numpy as np
import pytest
from decision_process import DISCOUNT, REWARDS, STATES, arguments, exact, log
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import riesz
from riesz import InvalidInput, PolicyEvaluator, PolicyIteration


def iteration(**settings):
    return PolicyIteration(**({"discount": DISCOUNT, "random_state": 0} | settings))


def best_policy():
    """Return the best policy of the process, by exact policy iteration."""
    policy = np.full(REWARDS.shape, 1 / REWARDS.shape[1])
    for _ in range(100):
        policy = np.eye(REWARDS.shape[1])[exact(policy)[1].argmax(axis=1)]
    return policy


@pytest.mark.parametrize("method", ["dual_embedding", "lstd", "fitted_q", "kernel_mdp"])
def test_the_best_policy_is_found(method):
    best = best_policy()
    found = iteration(method=method, ridge=0.0, dual_ridge=0.0).fit(*arguments(log()))
    assert (found.predict(STATES) == best.argmax(axis=1)).all()
    assert (found.policy(STATES) == best).all()
    values, of_actions = exact(best)
    assert np.allclose(found.action_values(STATES), of_actions, atol=1e-3)
    assert np.allclose(found.value(STATES), values, atol=1e-3)
    assert found.n_iter_ == len(found.changes_)
    assert found.changes_[-1] == 0.0
    assert found.n_actions_ == best.shape[1]
    states, actions, *others = arguments(log())
    floats = iteration(method=method, ridge=0.0, dual_ridge=0.0).fit(states, actions / 1.0, *others)
    assert (floats.policy(STATES) == best).all()


def test_a_policy_of_quantities_reaches_the_middle():
    """Steps of +-0.1 with noise on [-1, 1]; the middle pays. It pays to go there."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, 5000)
    actions = rng.integers(2, size=5000)
    after = np.clip(states + 0.1 * (2 * actions - 1) + 0.02 * rng.normal(size=5000), -1, 1)
    rewards = np.exp(-20 * states**2)
    ends = np.zeros(5000, dtype=bool)
    found = iteration(discount=0.95).fit(states, actions, rewards, after, ends)
    grid = np.linspace(-0.9, 0.9, 19)
    outside = np.abs(grid) > 0.15
    assert (found.predict(grid)[outside] == (grid[outside] < 0)).all()
    # What it finds is what evaluating the policy that it found finds.
    evaluator = PolicyEvaluator(discount=0.95, policy=found.policy, random_state=0)
    evaluator.fit(states, actions, rewards, after, ends)
    assert np.allclose(evaluator.value(grid), found.value(grid), rtol=0.05)


def test_files_and_data_sets(tmp_path):
    arrays = arguments(log())
    found = iteration(exploration=0.1).fit(*arrays)
    found.save(tmp_path / "model.riesz")
    for read in (PolicyIteration.load, riesz.load):
        copy = read(tmp_path / "model.riesz")
        assert type(copy) is PolicyIteration
        assert (copy.policy(STATES) == found.policy(STATES)).all()
        assert copy.changes_ == found.changes_
    with pytest.raises(InvalidInput, match="another task, 'policy_iteration'"):
        PolicyEvaluator.load(tmp_path / "model.riesz")
    states, actions, rewards, following, _ = arrays
    episode = SimpleNamespace(
        observations=np.append(states, following[-1]), actions=actions, rewards=rewards,
        terminations=np.zeros(len(states), bool), truncations=np.zeros(len(states), bool),
    )  # fmt: skip
    dataset = SimpleNamespace(iterate_episodes=lambda: [episode])
    assert iteration().fit(dataset).predict(STATES).shape == (len(STATES),)
    with pytest.raises(InvalidInput, match="its own actions"):
        iteration().fit(dataset, actions)


def test_bad_input_is_named():
    states, actions, rewards, following, ends = arguments(log())

    def with_value(value):
        return np.where(np.arange(len(actions)) == 2, value, actions)

    cases = {
        "actions is missing": (states, None, rewards, following, ends),
        "whole numbers 0, 1, 2": (states, actions + 0.5, rewards, following, ends),
        "actions contains nan at row 2": (states, with_value(np.nan), rewards, following, ends),
        "actions contains inf at row 2": (states, with_value(np.inf), rewards, following, ends),
        "actions contains 2000 at row 2": (states, with_value(2e3), rewards, following, ends),
        "actions contains 1000.* at row 2": (states, with_value(1e300), rewards, following, ends),
        "rewards": (states, actions, rewards[:5], following, ends),
        "actions = -1 .*from 0 to n_actions - 1": (states, actions - 1, rewards, following, ends),
    }
    for message, given in cases.items():
        with pytest.raises(InvalidInput, match=message):
            iteration().fit(*given)
    with pytest.raises(
        InvalidInput, match="every row of truncations is true in terminals too, row 0"
    ):
        iteration().fit(states, actions, rewards, following, ~ends, truncations=~ends)
    for settings, message in [
        ({"method": "td"}, "closed forms"),
        ({"exploration": 1.5}, "exploration"),
        ({"n_actions": 1}, "actions = 1 .*from 0 to n_actions - 1"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            iteration(**settings).fit(states, actions, rewards, following, ends)


def test_a_policy_that_does_not_settle_is_warned_of():
    """Both actions do the same: which is better is noise, and stays so."""
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(500, 2)), rng.integers(2, size=500)
    rewards, after = rng.normal(size=500), rng.normal(size=(500, 2))
    with pytest.warns(ConvergenceWarning, match="still changed after"):
        iteration(max_iter=2).fit(states, actions, rewards, after, np.zeros(500, dtype=bool))


def test_a_policy_that_was_improved_once_is_warned_of():
    with pytest.warns(ConvergenceWarning, match=r"once \(max_iter = 1\).* raise max_iter") as told:
        found = iteration(max_iter=1).fit(*arguments(log()))
    assert told[0].filename == __file__
    assert found.changes_ == [1.0]


def test_nothing_is_answered_before_a_fit():
    for name in ("predict", "policy", "action_values", "value"):
        with pytest.raises(NotFittedError):
            getattr(iteration(), name)(STATES)
