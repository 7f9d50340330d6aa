"""Environments, many rows at a time."""

import copy
import doctest
import pickle

import numpy as np
import pytest

from riesz import Environment, InvalidInput, _environment

NAMES = ["navigation", "cart_pole_swing_up", "puma560"]
SHAPES = {"navigation": (2, 2), "cart_pole_swing_up": (4, 1), "puma560": (12, 6)}


@pytest.fixture(params=NAMES)
def environment(request):
    return Environment(request.param)


def test_shapes(environment):
    d, p = SHAPES[environment.name]
    assert (environment.state_columns, environment.action_columns) == (d, p)
    assert environment.action_limits.shape == (p,)
    seen = environment.transitions(30, seed=1)
    assert [a.shape for a in seen] == [(30, d), (30, p), (30,), (30, d), (30,)]
    assert seen.terminated.dtype == bool
    assert not seen.terminated.any()
    assert environment.reset(5, seed=1).shape == environment.sample(5, seed=1).shape == (5, d)
    assert environment.next_states(seen.states, 4, seed=1).shape == (30, 4, d)
    values, errors = environment.values(seen.states, rollouts=3, steps=5, seed=1)
    assert values.shape == errors.shape == (30,)
    assert (errors > 0).all()


def test_a_seed_decides_about_every_draw_on_any_number_of_threads(environment):
    def all_of(environment, seed):
        seen = environment.transitions(100, seed=seed)
        following = environment.next_states(seen.states, 3, seed=seed)
        values = environment.values(seen.states, rollouts=3, steps=4, seed=seed)
        return [*seen, following, *values, environment.reset(100, seed=seed)]

    first = all_of(environment, 7)
    for other in (Environment(environment.name, n_jobs=1), copy.deepcopy(environment)):
        for a, b in zip(first, all_of(other, 7), strict=True):
            np.testing.assert_array_equal(a, b)
    assert (first[0] != all_of(environment, 8)[0]).all()
    again = pickle.loads(pickle.dumps(environment))
    assert (again.name, repr(again)) == (environment.name, repr(environment))


def test_transitions_are_samples_actions_and_a_step(environment):
    seen = environment.transitions(50, seed=3)
    np.testing.assert_array_equal(seen.states, environment.sample(50, seed=3))
    np.testing.assert_array_equal(seen.actions, environment.actions(seen.states))
    next_states, rewards, _ = environment.step(seen.states, seen.actions, seed=3)
    np.testing.assert_array_equal(seen.next_states, next_states)
    np.testing.assert_array_equal(seen.rewards, rewards)
    later, same, _ = environment.step(seen.states, seen.actions, seed=3, step=1)
    assert (later != next_states).all()
    np.testing.assert_array_equal(rewards, same)


def test_navigation_against_numpy():
    navigation = Environment("navigation")
    seen = navigation.transitions(50_000, seed=0)
    reward = np.exp(-100 * (seen.states**2).sum(1))
    np.testing.assert_allclose(seen.rewards, reward, rtol=1e-12)
    np.testing.assert_allclose(seen.actions, -0.2 * seen.states * reward[:, None], rtol=1e-12)
    noise = seen.next_states - seen.states - seen.actions
    # Five standard deviations of a mean and of a variance.
    for rows, variance in ((seen.states, 0.2), (noise, 0.1)):
        assert np.abs(rows.mean(0)).max() < 5 * np.sqrt(variance / 50_000)
        assert np.abs((rows**2).mean(0) - variance).max() < 5 * variance * np.sqrt(2 / 50_000)


def test_values_by_rollouts_of_our_own():
    """The same mean as rollouts by `step`, within five standard errors of both."""
    environment = Environment("cart_pole_swing_up")
    start = environment.sample(1, seed=5)
    value, error = environment.values(start, rollouts=400, steps=20, seed=6)
    states, total = np.repeat(start, 400, axis=0), np.zeros(400)
    for t in range(20):
        states, rewards, _ = environment.step(states, environment.actions(states), seed=7, step=t)
        total += environment.discount**t * rewards
    assert abs(total.mean() - value[0]) < 5 * np.hypot(error[0], total.std() / 20)


def test_the_policy_of_the_arm_reaches_its_goal():
    arm = Environment("puma560")
    states = arm.reset(20, seed=0)
    first = arm.step(states, arm.actions(states), seed=0)[1]
    for t in range(100):
        states, rewards, _ = arm.step(states, arm.actions(states), seed=1, step=t)
    assert rewards.mean() > -0.3 > -1.5 > first.mean()


def test_rows_of_any_layout_and_precision(environment):
    states = environment.sample(10, seed=0).astype(np.float32)
    expected = environment.actions(states.astype(np.float64))
    for same in (states, np.asfortranarray(states), states.tolist(), states[::-1][::-1]):
        np.testing.assert_array_equal(environment.actions(same), expected)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e: Environment("pong"), 'environment = "pong" is unknown.*navigation'),
        (lambda e: Environment(3), "name = 3 should be a string"),
        (lambda e: e.sample(-1, seed=0), r"n = -1 is outside"),
        (lambda e: e.sample(2.5, seed=0), "n = 2.5 should be a whole number"),
        (lambda e: e.sample(2, seed="a"), "seed = 'a' should be a whole number"),
        (lambda e: e.sample(2, seed=None), "seed = None should be a whole number"),
        (lambda e: e.sample(2, seed=True), "seed = True should be a whole number"),
        (lambda e: e.sample(2, seed=1 << 64), "is outside"),
        (lambda e: e.actions([0.0, 0.0]), "states has 1 dimensions, expected 2"),
        (lambda e: e.actions([[0.0, 0.0, 0.0]]), "states has 3 columns, expected 2"),
        (lambda e: e.actions([["x", "y"]]), "should be an array of numbers"),
        (lambda e: e.actions([[0.0, np.nan]]), "states contains NaN at row 0, column 1"),
        (lambda e: e.step([[0.0, 0.0]], [[1.0]], seed=0), "actions has 1 columns, expected 2"),
        (lambda e: e.step([[0.0, 0.0]], [[np.nan, 0]], seed=0), "actions contains NaN"),
        (lambda e: e.step([[0.0, 0.0]], [[0, 0]] * 2, seed=0), "actions has 2 rows, expected 1"),
        (lambda e: e.next_states([[0.0, 0.0]], 0, seed=0), "the number of samples = 0"),
        (lambda e: e.values([[0.0, 0.0]], rollouts=1, seed=0), "rollouts = 1 is outside"),
        (lambda e: e.values([[0.0, 0.0]], rollouts=2, discount=1, seed=0), "discount = 1"),
        (lambda e: e.values([[0.0, 0.0]], rollouts=2, discount="x", seed=0), "discount = 'x'"),
        (lambda e: e.values([[0.0, 0.0]], rollouts=2, steps=0, seed=0), "steps = 0"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InvalidInput, match=words):
        call(Environment("navigation"))


def test_too_many_rows():
    with pytest.raises((InvalidInput, MemoryError), match="the number of rows"):
        Environment("puma560").transitions(1 << 40, seed=0)


def test_the_example_says_what_it_says():
    assert doctest.testmod(_environment) == (0, 6)
