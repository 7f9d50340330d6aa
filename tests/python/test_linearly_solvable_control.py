"""Linearly solvable control, against linear algebra."""

import numpy as np
import pytest

import riesz
from riesz import InvalidInput, LinearlySolvableControl

# Passive dynamics in tenths: three states and two ends, of which the last costs more.
P = np.array([[3, 3, 2, 2, 0], [1, 4, 3, 1, 1], [2, 2, 2, 1, 3]]) / 10
COSTS = np.array([0.1, 0.5, 0.3])
FINAL = np.array([0.0, 0.0, 0.0, 0.2, 1.5])
ROWS = np.array([(s, t) for s in range(3) for t in range(5) for _ in range(round(100 * P[s, t]))])
S, T = np.random.default_rng(0).permutation(ROWS).T
ENDS = T >= 3


def exact():
    """Return Z at all five: Z = exp(-q) P Z, given at the ends."""
    last = np.exp(-FINAL[3:])
    shrunk = np.exp(-COSTS)[:, None] * P
    inside = np.linalg.solve(np.eye(3) - shrunk[:, :3], shrunk[:, 3:] @ last)
    return np.concatenate([inside, last])


def fitted(**settings):
    control = LinearlySolvableControl(**({"ridge": 0.0, "dual_ridge": 0.0} | settings))
    return control.fit(S, COSTS[S], np.where(ENDS, 0, T), ENDS, FINAL[T])


def test_desirability_and_cost_to_go():
    found = fitted()
    assert np.allclose(found.desirability([0, 1, 2]), exact()[:3], rtol=1e-4)
    assert np.allclose(found.value([0, 1, 2]), -np.log(exact()[:3]), atol=1e-4)


def test_the_control_solves_the_bellman_equation():
    """V(s) = q(s) + KL(u || p) + E_u V(s') for the control u in proportion to p Z."""
    found = fitted()
    value = -np.log(exact())
    for s in range(3):
        # Ten candidates in proportion to the passive dynamics.
        candidates = np.repeat(np.arange(5), np.round(10 * P[s]).astype(int))
        ends = candidates >= 3
        shares = found.control(
            [np.where(ends, 0, candidates)], terminals=[ends], final_costs=[FINAL[candidates]]
        )[0]
        assert shares.sum() == pytest.approx(1)
        u = np.bincount(candidates, weights=shares, minlength=5)
        some = P[s] > 0
        divergence = (u[some] * np.log(u[some] / P[s][some])).sum()
        assert COSTS[s] + divergence + u @ value == pytest.approx(value[s], abs=1e-3)
    inside = found.control([[0, 1], [2, 1]])
    assert np.allclose(inside[0], exact()[:2] / exact()[:2].sum(), atol=1e-4)


def test_continuous_states():
    """A drifting walk to the right end: cost q a step and z = exp(-q) E z has z = exp(-k s).

    Steps of 0.1 with probability one: Z(s) = exp(-0.2 n) for n steps that are left.
    """
    states = np.repeat(np.arange(10) / 10, 60)
    ends = states > 0.85
    found = LinearlySolvableControl(random_state=0, n_features=64).fit(
        states, np.full(600, 0.2), states + 0.1, ends
    )
    at = np.array([0.0, 0.4, 0.8])
    assert np.allclose(found.value(at), 0.2 * (10 - 10 * at), atol=0.05)
    shares = found.control(np.array([[[0.3], [0.5]]]))
    assert np.allclose(shares, [[1 / (1 + np.exp(0.4)), 1 / (1 + np.exp(-0.4))]], atol=0.02)


def test_files(tmp_path):
    found = fitted()
    found.save(tmp_path / "model.riesz")
    copy = riesz.load(tmp_path / "model.riesz")
    assert type(copy) is LinearlySolvableControl
    assert copy._model.to_bytes() == found._model.to_bytes()
    assert np.array_equal(copy.value([0, 1, 2]), found.value([0, 1, 2]))


def walk(scale=1):
    """Return transitions of a walk on 0, ..., 30 that ends at either end and costs 1 a step."""
    rng = np.random.default_rng(0)
    here = rng.integers(1, 30, 30_000)
    after = here + rng.choice([-1, 1], 30_000)
    return here / scale, np.ones(30_000), after / scale, (after == 0) | (after == 30)


def test_goals_have_no_cost_to_go_and_need_terminals():
    found = LinearlySolvableControl(random_state=0, n_jobs=1).fit(
        *(column if column.dtype == bool else column.astype(int) for column in walk())
    )
    assert np.isnan(found.value([0, 30])).all()
    with pytest.raises(InvalidInput, match=r"candidates has 0 at row 0, .* say by terminals"):
        found.control([[0, 2]])
    shares = found.control([[0, 2]], terminals=[[True, False]])[0]
    z = np.exp(-found.value([2])[0])
    assert shares == pytest.approx([1 / (1 + z), z / (1 + z)])


def test_costs_that_cannot_be_told_are_warned_of():
    """Z of the middle is 3e-11, far below what a function of a kernel is known to."""
    found = LinearlySolvableControl(random_state=0, n_jobs=1).fit(*walk(30))
    # Z(i) = exp(-1) (Z(i - 1) + Z(i + 1)) / 2 is exp(-k i), cosh k = e, far from the other end.
    assert found.value([[1 / 30]])[0] == pytest.approx(np.arccosh(np.e), rel=0.02)
    with pytest.warns(UserWarning, match=r"1 of 1 states have costs above .* \(reach_\)"):
        found.value([[0.5]])
    assert 1.7 < found.reach_ < 12
    # Told where they are below; a table tells all of them.
    within = np.arange(1, int(found.reach_ / np.arccosh(np.e)))
    assert np.allclose(found.value(within / 30), within * np.arccosh(np.e), atol=0.3)
    assert fitted().reach_ == np.inf


BAD = {
    "none of terminals is true": lambda: LinearlySolvableControl().fit(
        S, COSTS[S], T, np.zeros(len(S))
    ),
    "costs contains -0.1 at row 0": lambda: LinearlySolvableControl().fit(
        S, np.full(len(S), -0.1), T, ENDS
    ),
    "costs contains nan at row 0": lambda: LinearlySolvableControl().fit(
        S, np.full(len(S), np.nan), T, ENDS
    ),
    "costs has 3 rows": lambda: LinearlySolvableControl().fit(S, COSTS, T, ENDS),
    "final_costs has 5 rows": lambda: LinearlySolvableControl().fit(S, COSTS[S], T, ENDS, FINAL),
    "final_costs are too low": lambda: LinearlySolvableControl().fit(
        S, COSTS[S], T, ENDS, np.full(len(S), -1e3)
    ),
    "terminals should be": lambda: LinearlySolvableControl().fit(S, COSTS[S], T, T),
    "candidates has shape": lambda: fitted().control([1, 2]),
    "give terminals": lambda: fitted().control([[1, 2]], final_costs=[[0, 0]]),
    "terminals has shape": lambda: fitted().control([[1, 2]], terminals=[True]),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message):
    with pytest.raises(InvalidInput, match=message.replace(".", r"\.")):
        BAD[message]()
