"""Hitting times and stationary distributions, against linear algebra."""

import pickle

import numpy as np
import pytest

import riesz
from riesz import HittingTime, InvalidInput

# Shares of a chain in tenths, and transitions that have exactly these.
P = np.array([[1, 6, 3, 0], [2, 2, 2, 4], [0, 5, 0, 5], [7, 0, 2, 1]]) / 10
PAIRS = np.array([(s, t) for s in range(4) for t in range(4) for _ in range(round(10 * P[s, t]))])
NAMES = np.array(["north", "south", "east", "west"])


def exact():
    """Return h, column by column: (I - P without what leads to t) h = 1."""
    columns = [np.linalg.solve(np.eye(4) - P * (np.arange(4) != t), np.ones(4)) for t in range(4)]
    return np.stack(columns, axis=1)


def test_times_between_all_states_of_a_chain():
    found = HittingTime().fit(PAIRS[:, 0], PAIRS[:, 1])
    times = found.expected(np.arange(4)[:, None], np.arange(4))
    assert times.shape == (4, 4)
    assert np.allclose(times, exact(), rtol=1e-6)
    shares = found.stationary()
    assert np.allclose(shares @ P, shares, rtol=1e-6)
    assert shares.sum() == pytest.approx(1)
    assert np.allclose(shares * times.diagonal(), 1)
    assert isinstance(found.expected(0, 1), float)


def test_states_may_be_labels():
    found = HittingTime().fit(NAMES[PAIRS[:, 0]], NAMES[PAIRS[:, 1]].tolist())
    assert found.states_.tolist() == sorted(NAMES)
    order = np.argsort(NAMES)
    assert np.allclose(
        found.expected(NAMES[order][:, None], NAMES[order]), exact()[order][:, order]
    )
    assert found.expected("north", "west") == pytest.approx(exact()[0, 3])
    with pytest.raises(InvalidInput, match="targets: state 'up' was not seen"):
        found.expected("north", "up")
    with pytest.raises(InvalidInput, match="targets is missing"):
        found.expected("north")


def test_chains_that_are_not_irreducible_are_refused_by_label():
    with pytest.raises(InvalidInput, match="no transition leaves state 'c'"):
        HittingTime().fit(list("ab"), list("bc"))
    with pytest.raises(InvalidInput, match="from state 'b' to state 'a'"):
        HittingTime().fit(list("aab"), list("abb"))
    with pytest.raises(InvalidInput, match="next_states"):
        HittingTime().fit([0, 1], [1])
    with pytest.raises(InvalidInput, match="states contains nan at row 1"):
        HittingTime().fit([0.0, np.nan], [1.0, 0.0])
    for missing in (None, np.nan):
        labels = np.array(["a", missing], dtype=object)
        with pytest.raises(InvalidInput, match=f"next_states contains {missing} at row 1"):
            HittingTime().fit(["a", "b"], labels)
    with pytest.raises(InvalidInput, match="of the types int, str, which have no order"):
        HittingTime().fit(np.array(["a", 1], dtype=object), np.array([1, "a"], dtype=object))
    with pytest.raises(InvalidInput, match="states has 2 columns: give arrived"):
        HittingTime().fit(np.zeros((4, 2)), np.ones((4, 2)))


def test_times_to_a_set():
    """The same chain to one state, and a walk on the line whose time is known.

    From s in (-1, 1) in steps of +-0.1 the time to leave is (1 - s^2) / 0.01, as for steps that
    end on the border; all of 0.1 apart do.
    """
    arrived = PAIRS[:, 1] == 2
    many = np.repeat(PAIRS, 10, axis=0)
    found = HittingTime(ridge=0.0, dual_ridge=0.0).fit(
        many[:, 0], many[:, 1], np.repeat(arrived, 10)
    )
    assert np.allclose(found.expected(np.arange(4)), exact()[:, 2], rtol=1e-4)
    with pytest.raises(InvalidInput, match="without arrived"):
        found.stationary()
    with pytest.raises(InvalidInput, match="targets"):
        found.expected(0, 1)
    with pytest.raises(InvalidInput, match="arrived has 3 rows"):
        HittingTime().fit([0, 1], [1, 0], [True, False, True])
    with pytest.raises(InvalidInput, match="none of arrived is true"):
        HittingTime().fit([0, 1, 0, 1], [1, 0, 1, 0], [False] * 4)
    with pytest.raises(InvalidInput, match="states contains 'a' at row 1 and should be numbers"):
        HittingTime().fit(["0", "a"], ["1", "0"], [True, False])
    with pytest.raises(InvalidInput, match="next_states contains 'b' at row 0 and should be"):
        HittingTime().fit([0, 1], np.array(["b", 0], dtype=object), [True, False])

    sites = np.repeat(np.arange(-9, 10), 40) / 10
    after = sites + np.tile([0.1, -0.1], 380)
    walk = HittingTime(random_state=0, n_features=64).fit(sites, after, np.abs(after) > 0.95)
    middle = np.array([-0.5, 0.0, 0.7])
    assert np.allclose(walk.expected(middle), (1 - middle**2) / 0.01, rtol=0.05)


def test_pickles_and_files(tmp_path):
    chain = HittingTime(random_state=np.random.RandomState(0)).fit(
        NAMES[PAIRS[:, 0]], NAMES[PAIRS[:, 1]]
    )
    to_set = HittingTime(random_state=0).fit(PAIRS[:, 0], PAIRS[:, 1], PAIRS[:, 1] == 2)
    for found, question in ((chain, ("north", "west")), (to_set, ([0, 1],))):
        found.save(tmp_path / "model.riesz")
        copies = [
            pickle.loads(pickle.dumps(found)),
            riesz.load(tmp_path / "model.riesz"),
            HittingTime.load(tmp_path / "model.riesz"),
        ]
        for copy in copies:
            assert type(copy) is HittingTime
            assert copy._model.to_bytes() == found._model.to_bytes()
            assert np.array_equal(copy.expected(*question), found.expected(*question))
    with pytest.raises(InvalidInput, match="another task, 'hitting_time'"):
        riesz.PolicyEvaluator.load(tmp_path / "model.riesz")
