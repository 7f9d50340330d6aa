"""Values of policies from logs: against linear algebra, and against the formulas in NumPy."""

import contextlib
import pickle
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from decision_process import (
    DISCOUNT,
    LOGGED,
    NEXT,
    POLICY,
    REWARDS,
    STATES,
    arguments,
    episodes,
    exact,
    exact_of_episodes,
    log,
)
from sklearn.exceptions import ConvergenceWarning

import riesz
from riesz import InvalidInput, PolicyEvaluator

SOLVERS = ["dual_embedding", "lstd", "fitted_q", "kernel_mdp"]
STEPS = ["embedding_sgd", "td", "gtd2"]
OF_EPISODES = ["importance_sampling", "per_decision", "weighted_per_decision"]


def evaluator(method="dual_embedding", **settings):
    return PolicyEvaluator(method, **({"discount": DISCOUNT, "random_state": 0} | settings))


def plain(method="dual_embedding", **settings):
    """Return an evaluator without penalties, whose answer is that of linear algebra."""
    return evaluator(method, **({"ridge": 0.0, "dual_ridge": 0.0} | settings))


@pytest.mark.parametrize("method", SOLVERS)
def test_values_of_states_are_those_of_linear_algebra(method):
    on = plain(method).fit(*arguments(log(POLICY)))
    assert np.allclose(on.value(STATES), exact()[0], atol=1e-4)
    logged = log()
    off = plain(method).fit(*arguments(logged), weights=logged.weights)
    assert np.allclose(off.value(STATES), exact()[0], atol=1e-4)
    # Without weights it is the logged policy that is evaluated.
    own = plain(method).fit(*arguments(logged))
    assert np.allclose(own.value(STATES), exact(LOGGED)[0], atol=1e-4)
    assert np.abs(exact(LOGGED)[0] - exact()[0]).max() > 0.3


@pytest.mark.parametrize("method", SOLVERS)
def test_values_of_actions_are_those_of_linear_algebra(method):
    logged = log()
    found = plain(method).fit(
        *arguments(logged), next_action_probabilities=logged.next_action_probabilities
    )
    value, of_actions = exact()
    for action in range(2):
        q = found.action_value(STATES, np.full(4, action))
        assert np.allclose(q, of_actions[:, action], atol=1e-4)
    assert np.allclose(found.value(STATES, probabilities=POLICY), value, atol=1e-4)
    assert np.allclose(found.value(STATES, actions=[1, 0, 1, 0]), of_actions[STATES, [1, 0, 1, 0]])


def test_a_policy_may_be_a_function():
    logged = log()
    asked = []

    def policy(states):
        asked.append(states)
        return POLICY[states]

    found = plain(policy=policy).fit(*arguments(logged))
    assert np.allclose(found.value(STATES), exact()[0], atol=1e-4)
    assert [len(states) for states in asked] == [len(logged.states), 4]
    assert found.estimate([0, 1]).value == pytest.approx(exact()[0][:2].mean(), abs=1e-4)

    # One that is certain of its actions: numbers in place of probabilities.
    greedy = np.eye(2)[[0, 1, 1, 0]]
    certain = plain(policy=lambda states: np.array([0, 1, 1, 0])[states]).fit(*arguments(logged))
    assert np.allclose(certain.value(STATES), exact(greedy)[0], atol=1e-4)
    given = plain().fit(*arguments(logged), next_actions=np.array([0, 1, 1, 0])[logged.next_states])
    assert np.array_equal(
        given.action_value(STATES, [1] * 4), certain.action_value(STATES, [1] * 4)
    )


def test_numbers_of_actions_may_be_floats():
    """As tables have them whose columns had missing values once: the same bits."""
    logged = log()
    states, actions, *others = arguments(logged)
    given = {"next_action_probabilities": logged.next_action_probabilities}
    for policy, more in ((exact_policy, {}), (None, given)):
        whole = evaluator(policy=policy).fit(states, actions, *others, **more)
        for column in (actions / 1.0, (actions / 1.0)[:, None]):
            floats = evaluator(policy=policy).fit(states, column, *others, **more)
            assert floats._model.to_bytes() == whole._model.to_bytes()


def error_of_steps(method, **settings):
    found = evaluator(method, ridge=0.0, **settings).fit(*arguments(log(POLICY, copies=20)))
    return np.abs(found.value(STATES) - exact()[0]).max() / np.abs(exact()[0]).max()


@pytest.mark.parametrize("method", STEPS)
def test_steps_lead_to_the_value(method):
    """The noise of constant steps is a few per cent."""
    assert error_of_steps(method, n_passes=20) < 0.1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", STEPS)
def test_published_steps_lead_there_slowly(method):
    """The error falls like one over the root of steps: by half for four times as many."""
    steps = {"published": True, "step": 1.5, "dual_step": 3.0}
    few, many = (error_of_steps(method, n_passes=n_passes, **steps) for n_passes in (20, 80))
    assert 0.35 < many / few < 0.65


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", STEPS)
def test_centred_steps_know_the_mean_of_the_value(method):
    """Of a long log of the policy the constant is the mean of V, which few steps do not reach."""
    rng = np.random.default_rng(0)
    mean = np.einsum("sa,sat->st", POLICY, NEXT)
    states = [0]
    for _ in range(4000):
        states.append(rng.choice(4, p=mean[states[-1]]))
    s = np.array(states)
    value = np.linalg.solve(np.eye(4) - 0.99 * mean, REWARDS.mean(axis=1))
    transitions = s[:-1], None, REWARDS.mean(axis=1)[s[:-1]], s[1:], np.zeros(4000, dtype=bool)

    def error(**settings):
        found = evaluator(method, discount=0.99, **settings).fit(*transitions)
        return np.abs(found.value(STATES) - value).max()

    assert error(centred=True) < 0.2 * error()


def test_steps_in_other_spaces_lead_to_the_value():
    states, _, rewards, after, ends = system(20_000, seed=3)
    at = np.linspace(-0.4, 0.4, 9)
    for features, method, step in [
        ("growing", "embedding_sgd", 0.3),
        ("growing", "td", 0.3),
        ("network", "td", 1.0),
        ("network", "embedding_sgd", 0.3),
    ]:
        found = evaluator(method, features=features, discount=0.5, n_passes=4, step=step).fit(
            states, None, rewards, after, ends
        )
        slope = 1 / (1 - 0.5 * 0.9)
        assert np.abs(found.value(at) - slope * at).max() < 0.15, (features, method)
        assert len(found.history_) >= 100
        with pytest.raises(InvalidInput, match="standard errors and intervals are known of"):
            found.value(at, return_std=True)
        with pytest.raises(InvalidInput, match="standard errors and intervals are known of"):
            found.estimate(at)


@pytest.mark.parametrize("features", ["growing", "network"])
def test_spaces_take_actions_files_and_threads(features, tmp_path):
    logged = log()
    settings = {"features": features, "n_features": 64, "n_jobs": 1}
    found = evaluator("td", **settings).fit(
        *arguments(logged), next_action_probabilities=logged.next_action_probabilities
    )
    two = evaluator("td", **(settings | {"n_jobs": 2})).fit(
        *arguments(logged), next_action_probabilities=logged.next_action_probabilities
    )
    assert found._model.to_bytes() == two._model.to_bytes()
    q = np.stack([found.action_value(STATES, [a] * 4) for a in range(2)], axis=1)
    value = found.value(STATES, probabilities=POLICY)
    assert np.allclose(value, (POLICY * q).sum(axis=1), atol=1e-5)
    found.save(tmp_path / "model.riesz")
    copy = riesz.load(tmp_path / "model.riesz")
    assert copy._model.to_bytes() == found._model.to_bytes()
    assert np.array_equal(copy.value(STATES, probabilities=POLICY), value)
    assert copy.history_ == found.history_


def parts_of(logged, count):
    """Return the transitions in so many parts, as arguments of a fit."""
    return zip(*(np.array_split(column, count) for column in arguments(logged)), strict=True)


@pytest.mark.parametrize("method", SOLVERS)
def test_a_log_in_parts_has_the_value_of_the_whole(method, tmp_path):
    """Rewards and the discount are sums of powers of two, so that sums have no rounding."""
    logged = log(POLICY)
    whole = plain(method, discount=0.5).fit(*arguments(logged))
    stream = plain(method, discount=0.5)
    for part in parts_of(logged, 5):
        stream.partial_fit(*part)
    assert np.allclose(stream.value(STATES), whole.value(STATES), rtol=0, atol=1e-10)
    assert stream.n_episodes_ == whole.n_episodes_ == len(logged.states)
    value, error = stream.value(STATES, return_std=True)
    assert np.allclose(error, whole.value(STATES, return_std=True)[1], rtol=0.25)

    # A file goes on where the stream was.
    first, *others = parts_of(logged, 5)
    begun = plain(method, discount=0.5).partial_fit(*first)
    begun.save(tmp_path / "begun.riesz")
    copy = riesz.load(tmp_path / "begun.riesz")
    for part in others:
        copy.partial_fit(*part)
    assert np.array_equal(copy.value(STATES), value)
    assert np.array_equal(copy.value(STATES, return_std=True)[1], error)


def test_parts_of_states_in_the_plane():
    """The first part settles the kernels, and ridges are chosen again after every part."""
    states, _, rewards, after, ends = system(20_000, seed=3)
    stream = evaluator(discount=0.9)
    for some in np.array_split(np.arange(20_000), 4):
        stream.partial_fit(states[some], None, rewards[some], after[some], ends[some])
    at = np.linspace(-0.4, 0.4, 9)
    assert np.abs(stream.value(at) - at / 0.19).max() < 0.2
    again = evaluator(discount=0.9, n_jobs=1)
    for some in np.array_split(np.arange(20_000), 4):
        again.partial_fit(states[some], None, rewards[some], after[some], ends[some])
    assert again._model.to_bytes() == stream._model.to_bytes()


def test_the_residual_gradient_is_biased_as_it_is_known_to_be():
    """It minimises the mean of squared residuals, whose minimiser least squares finds."""
    logged = log(POLICY, copies=20)
    found = evaluator("residual_gradient", n_passes=20).fit(*arguments(logged)).value(STATES)
    rows = np.eye(4)[logged.states] - DISCOUNT * np.eye(4)[logged.next_states]
    expected = np.linalg.lstsq(rows, logged.rewards)[0]
    assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()
    assert np.abs(expected - exact()[0]).max() > 0.2


def by_numpy(method, logged, values=None):
    """Return what each episode says, or one number for all of them together."""
    found, sums, masses = [], np.zeros(6), np.zeros(6)
    for rows in np.split(np.arange(len(logged.states)), logged.starts[1:]):
        ratios, rewards = np.cumprod(logged.weights[rows]), logged.rewards[rows]
        powers = DISCOUNT ** np.arange(len(rows))
        if method == "importance_sampling":
            found.append(ratios[-1] * powers @ rewards)
        elif method == "per_decision":
            found.append(powers * ratios @ rewards)
        elif method == "weighted_per_decision":
            last = np.pad(ratios, (0, 6 - len(rows)), mode="edge")
            sums += np.pad(powers * ratios * rewards, (0, 6 - len(rows)))
            masses += last
        else:
            start, own, after = values
            after = np.where(logged.terminals[rows], 0.0, after[rows])
            before = np.concatenate([[1.0], ratios[:-1]])
            scale = before if start is None else ratios
            first = own[rows[0]] if start is None else start[rows[0]]
            corrections = ratios * (rewards + DISCOUNT * after) - scale * own[rows]
            found.append(first + powers @ corrections)
    return np.array(found) if found else (sums / masses).sum()


@pytest.mark.parametrize("method", OF_EPISODES)
def test_importance_sampling_is_its_formula_and_right(method):
    logged = episodes(4000, seed=1)
    estimate = (
        evaluator(method).fit(*arguments(logged), weights=logged.weights).estimate(confidence=0.99)
    )
    by_hand = by_numpy(method, logged)
    assert estimate.value == pytest.approx(by_hand.mean(), rel=1e-5)
    # Its mean is the value; an interval of 99 % has 2.6 standard errors on each side.
    truth = exact_of_episodes()
    if by_hand.ndim:
        error = by_hand.std() / np.sqrt(len(by_hand))
        assert abs(estimate.value - truth) < 4 * error
        assert estimate.high - estimate.low == pytest.approx(2 * 2.576 * error, rel=0.15)
    assert estimate.low < truth < estimate.high
    assert estimate.confidence == 0.99


@pytest.mark.parametrize("of_actions", [False, True])
def test_doubly_robust_estimates_are_their_formula_and_right(of_actions):
    """With values of states, and with those of actions, at which the log's own start counts."""
    logged = episodes(4000, seed=2)
    more = {"next_action_probabilities": logged.next_action_probabilities} if of_actions else {}
    found = evaluator("doubly_robust").fit(*arguments(logged), weights=logged.weights, **more)
    if of_actions:
        own = found.action_value(logged.states, logged.actions)
        after = found.value(logged.next_states, probabilities=POLICY[logged.next_states])
        values = logged.weights * own, own, after
    else:
        own = found.value(logged.states)
        values = None, own, found.value(logged.next_states)
    by_hand = by_numpy("doubly_robust", logged, values)
    estimate = found.estimate()
    assert estimate.value == pytest.approx(by_hand.mean(), rel=1e-4)
    error = by_hand.std() / np.sqrt(len(by_hand))
    assert abs(estimate.value - exact_of_episodes()) < 4 * error
    # It varies less than what it corrects.
    assert by_hand.std() < by_numpy("importance_sampling", logged).std()


def system(n, seed, decay=0.9, noise=0.1):
    """Return transitions s' = 0.9 s + noise with reward s, whose V is s / (1 - 0.9 * 0.9)."""
    rng = np.random.default_rng(seed)
    states = rng.normal(0, 0.25, size=(n, 1))
    after = decay * states + rng.normal(0, noise, size=(n, 1))
    return states, None, states[:, 0], after, np.zeros(n, dtype=bool)


@pytest.mark.parametrize("features", ["linear", "atoms", "random"])
def test_values_of_a_linear_system(features):
    """The error of a slope is 0.9 V' 0.1 / (0.25 (1 - 0.81) sqrt(n)), five of them allowed."""
    n, slope = 20_000, 1 / 0.19
    found = evaluator(features=features, discount=0.9, n_jobs=2).fit(*system(n, seed=3))
    at = np.linspace(-0.4, 0.4, 9)
    tolerance = 5 * 0.9 * slope * 0.1 / (0.25 * 0.19 * np.sqrt(n))
    # Functions without a shape have some more freedom to err: twice as much.
    allowed = (1 if features == "linear" else 2) * tolerance * 0.4
    assert np.abs(found.value(at) - slope * at).max() < allowed + 0.05
    values, errors = found.value(at, return_std=True)
    assert values.shape == errors.shape == (9,)
    assert (errors > 0).all()
    assert (errors < allowed).all()


def test_actions_that_are_quantities():
    """s' = 0.5 s + a, reward s, and the policy a = 0.4 s: V = s / (1 - 0.9 * 0.9)."""
    rng = np.random.default_rng(4)
    states = rng.normal(size=(5000, 1))
    actions = rng.normal(size=(5000, 1))
    after = 0.5 * states + actions
    found = evaluator(features="linear", discount=0.9, policy=lambda states: 0.4 * states).fit(
        states, actions, states[:, 0], after, np.zeros(5000, dtype=bool)
    )
    at = np.array([[-1.0], [0.5]])
    assert np.allclose(found.value(at), at[:, 0] / 0.19, atol=1e-3)
    q = found.action_value(at, [1.0, 0.0])
    assert np.allclose(q, at[:, 0] + 0.9 * (0.5 * at[:, 0] + [1.0, 0.0]) / 0.19, atol=1e-3)


def test_intervals_hold_the_value_as_often_as_they_say():
    """Of 40 intervals of 90 %, fewer than 30 hold it in one of 5,000 such tests."""
    held = 0
    rng = np.random.default_rng(5)
    truth = exact()[0].mean()
    for seed in range(40):
        s = rng.integers(4, size=2000)
        a = (rng.random(2000) < LOGGED[s, 1]).astype(int)
        t = (rng.random((2000, 1)) > NEXT[s, a].cumsum(axis=1)).sum(axis=1).clip(max=3)
        found = evaluator(random_state=seed).fit(
            s,
            a,
            REWARDS[s, a] + rng.normal(size=2000),
            t,
            np.zeros(2000, dtype=bool),
            weights=POLICY[s, a] / LOGGED[s, a],
        )
        # As many states of each: their mean is the truth's.
        interval = found.estimate(np.repeat(STATES, 10_000))
        held += interval.low < truth < interval.high
    assert held >= 30


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_same_seed_has_the_same_bits_on_any_number_of_threads():
    data = system(6000, seed=6)
    settings = {"discount": 0.9, "n_features": 300, "bandwidth": 1.0, "n_iterations": 20}
    for method in ("dual_embedding", "lstd", "fitted_q", "embedding_sgd"):
        first, second = (
            evaluator(method, n_jobs=n_jobs, **settings).fit(*data) for n_jobs in (1, 2)
        )
        assert first._model.to_bytes() == second._model.to_bytes()
        assert np.array_equal(first.value(data[0]), second.value(data[0]))
        other = evaluator(method, **settings, random_state=1).fit(*data)
        assert not np.array_equal(first.value(data[0]), other.value(data[0]))


def test_pickles_and_files_hold_everything_but_the_policy(tmp_path):
    logged = log()
    found = evaluator(policy=exact_policy, n_bootstrap=50).fit(*arguments(logged))
    again = pickle.loads(pickle.dumps(found))
    assert again._model.to_bytes() == found._model.to_bytes()
    assert np.array_equal(again.value(STATES), found.value(STATES))
    found.save(tmp_path / "model.riesz")
    for read in (PolicyEvaluator.load, riesz.load):
        copy = read(tmp_path / "model.riesz")
        assert isinstance(copy, PolicyEvaluator)
        assert copy._model.to_bytes() == found._model.to_bytes()
        assert copy.get_params() == found.get_params() | {"policy": None}
        assert np.array_equal(copy.value(STATES, probabilities=POLICY), found.value(STATES))
        assert copy.estimate([0], probabilities=POLICY[:1]) == found.estimate([0])
        with pytest.raises(InvalidInput, match=r"probabilities.*policy, which a file does not"):
            copy.value(STATES)
        for name in ("ridge_", "dual_ridge_", "n_features_", "n_episodes_", "held_out_error_"):
            assert getattr(copy, name) == getattr(found, name), name
    copy.save(tmp_path / "again.riesz")
    assert (tmp_path / "again.riesz").read_bytes() == (tmp_path / "model.riesz").read_bytes()


def exact_policy(states):
    return POLICY[states]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["per_decision", "doubly_robust", "td"])
def test_files_of_other_methods(method, tmp_path):
    logged = episodes(50, seed=3)
    found = evaluator(method).fit(*arguments(logged), weights=logged.weights)
    found.save(tmp_path / "model.riesz")
    copy = riesz.load(tmp_path / "model.riesz")
    assert copy.estimate(None if method != "td" else [0]) == found.estimate(
        None if method != "td" else [0]
    )


def data_set(logged):
    """Return episodes as Minari has them, and truncations, of which the last episode has one."""
    ends = np.append(logged.starts[1:], len(logged.states))
    parts = []
    for start, end in zip(logged.starts, ends, strict=True):
        rows = slice(start, end)
        cut = np.zeros(end - start, dtype=bool)
        parts.append(
            SimpleNamespace(
                observations=np.append(logged.states[rows], logged.next_states[end - 1]),
                actions=logged.actions[rows],
                rewards=logged.rewards[rows],
                terminations=logged.terminals[rows].copy(),
                truncations=cut,
            )
        )
    parts[-1].terminations[-1], parts[-1].truncations[-1] = False, True
    return SimpleNamespace(iterate_episodes=lambda: iter(parts)), parts


def test_a_minari_data_set_is_its_episodes():
    logged = episodes(60, seed=7)
    dataset, parts = data_set(logged)
    found = evaluator().fit(dataset, weights=logged.weights)
    ends, cut = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("terminations", "truncations")
    )
    expected = evaluator().fit(
        logged.states,
        logged.actions,
        logged.rewards,
        logged.next_states,
        ends,
        truncations=cut,
        weights=logged.weights,
    )
    assert found._model.to_bytes() == expected._model.to_bytes()
    assert found.n_episodes_ == 60
    # What was cut short goes on: an end there gives another value.
    ended = evaluator().fit(*arguments(logged), weights=logged.weights)
    assert not np.array_equal(ended.value(STATES), found.value(STATES))
    with pytest.raises(InvalidInput, match="its own rewards"):
        evaluator().fit(dataset, rewards=logged.rewards)
    # What ends at the limit of time, which data sets have as both, ends.
    parts[-1].terminations[-1] = True
    both = evaluator().fit(dataset, weights=logged.weights)
    assert np.array_equal(both.value(STATES), ended.value(STATES))
    parts[0].observations = {"position": parts[0].observations}
    with pytest.raises(InvalidInput, match="observations are of type dict"):
        evaluator().fit(dataset)
    with pytest.raises(InvalidInput, match="no episodes"):
        evaluator().fit(SimpleNamespace(iterate_episodes=lambda: iter(())))


def test_columns_have_names_and_flags_may_be_numbers():
    pd = pytest.importorskip("pandas")
    states, _, rewards, after, ends = system(400, seed=8)
    frames = [pd.DataFrame({"position": part[:, 0]}) for part in (states, after)]
    found = evaluator(discount=0.9).fit(frames[0], None, rewards, frames[1], ends.astype(int))
    assert found.feature_names_in_.tolist() == ["position"]
    expected = evaluator(discount=0.9).fit(states, None, rewards, after, ends)
    assert np.array_equal(found.value(frames[0]), expected.value(states))
    with pytest.raises(ValueError, match="next_states"):
        evaluator().fit(frames[0], None, rewards, frames[1].rename(columns=str.upper), ends)


def test_what_the_fit_chose():
    states, *others = system(2000, seed=9)
    found = evaluator(discount=0.9).fit(states, *others)
    assert found.n_features_ > 1
    assert found.bandwidth_ > 0
    assert found.ridge_ >= 0
    assert found.dual_ridge_ >= 0
    assert found.held_out_error_ >= 0
    assert found.seed_ == 0
    assert found.n_episodes_ == 2000
    table = evaluator().fit(*arguments(log()))
    assert (table.n_features_, table.bandwidth_) == (4, None)
    assert evaluator(features="atoms", n_features=3).fit(*arguments(log())).n_features_ <= 4


LOG = log()
BAD = {
    "rewards has 159 rows": lambda: evaluator().fit(
        LOG.states[:160], None, LOG.rewards[:159], LOG.next_states[:160], LOG.terminals[:160]
    ),
    "next_states has": lambda: evaluator().fit(
        LOG.states, None, LOG.rewards, LOG.next_states[1:], LOG.terminals
    ),
    "weights has 3 rows": lambda: evaluator().fit(*arguments(LOG), weights=[1.0, 1.0, 1.0]),
    "discount = 1 needs": lambda: evaluator(discount=1.0).fit(*arguments(LOG)),
    "discount = 1.5 is outside": lambda: evaluator(discount=1.5).fit(*arguments(LOG)),
    "weights has inf at row 2": lambda: evaluator().fit(
        *arguments(LOG), weights=np.where(np.arange(len(LOG.states)) == 2, np.inf, 1.0)
    ),
    "weights are all zero": lambda: evaluator().fit(
        *arguments(LOG), weights=np.zeros(len(LOG.states))
    ),
    "rewards": lambda: evaluator().fit(
        LOG.states, None, LOG.rewards * np.nan, LOG.next_states, LOG.terminals
    ),
    "states": lambda: evaluator().fit(
        LOG.states * np.nan, None, LOG.rewards, LOG.next_states, LOG.terminals
    ),
    "terminals should be True or False": lambda: evaluator().fit(
        LOG.states, None, LOG.rewards, LOG.next_states, LOG.rewards
    ),
    "truncations should be True or False": lambda: evaluator().fit(
        *arguments(LOG), truncations=np.full(len(LOG.states), "no")
    ),
    "every row of truncations is true in terminals too, row 4 first": lambda: evaluator().fit(
        LOG.states,
        None,
        LOG.rewards,
        LOG.next_states,
        np.arange(len(LOG.states)) >= 3,
        truncations=np.arange(len(LOG.states)) >= 4,
    ),
    "weights would not be used by method = 'dual_embedding'": lambda: evaluator(
        policy=exact_policy
    ).fit(*arguments(LOG), weights=LOG.weights),
    "weights would not be used by method = 'td'": lambda: evaluator("td").fit(
        *arguments(LOG),
        weights=LOG.weights,
        next_action_probabilities=LOG.next_action_probabilities,
    ),
    "rewards is missing": lambda: evaluator().fit(LOG.states),
    "terminals is missing": lambda: evaluator().fit(LOG.states, None, LOG.rewards, LOG.next_states),
    'method = "magic" is unknown; expected one of dual_embedding, embedding_sgd': lambda: evaluator(
        "magic"
    ).fit(*arguments(LOG)),
    'features = "some" is unknown': lambda: evaluator(features="some").fit(*arguments(LOG)),
    "n_passes = 0 is outside": lambda: evaluator(n_passes=0).fit(*arguments(LOG)),
    "checkpoint is for methods that take steps": lambda: evaluator(checkpoint="steps").fit(
        *arguments(LOG)
    ),
    "centred = true needs published = false": lambda: evaluator(
        "td", centred=True, published=True
    ).fit(*arguments(LOG)),
    "are learnt by steps": lambda: evaluator(features="network").fit(*arguments(LOG)),
    "partial_fit adds to the sums": lambda: evaluator("td").partial_fit(*arguments(LOG)),
    "that began with partial_fit": lambda: (
        evaluator().fit(*arguments(LOG)).partial_fit(*arguments(LOG))
    ),
    "of the same states and actions": lambda: (
        evaluator()
        .partial_fit(*arguments(LOG))
        .partial_fit(*arguments(LOG), next_actions=LOG.actions)
    ),
    "state = 4 is outside": lambda: (
        evaluator()
        .partial_fit(*arguments(LOG))
        .partial_fit(LOG.states + 1, None, LOG.rewards, LOG.next_states, LOG.terminals)
    ),
    "needs episodes": lambda: evaluator("per_decision").fit(*arguments(LOG)),
    "gives one number": lambda: (
        evaluator("per_decision").fit(*arguments(episodes(9, 0))).value(STATES)
    ),
    "initial_states": lambda: evaluator().fit(*arguments(LOG)).estimate(),
    "confidence = 2 is outside": lambda: (
        evaluator().fit(*arguments(LOG)).estimate([0], confidence=2)
    ),
    "give no actions": lambda: evaluator().fit(*arguments(LOG)).value([0], actions=[0]),
    "not of actions": lambda: evaluator().fit(*arguments(LOG)).action_value([0], [0]),
    "actions is missing": lambda: evaluator(policy=exact_policy).fit(
        LOG.states, None, LOG.rewards, LOG.next_states, LOG.terminals
    ),
    "numbered from 0: give the numbers 0 to 1, in the order of the columns of policy": lambda: (
        evaluator(policy=exact_policy).fit(
            LOG.states, LOG.actions + 1, LOG.rewards, LOG.next_states, LOG.terminals
        )
    ),
    "actions contains -1 at row 0, and actions are numbered from 0": lambda: evaluator().fit(
        LOG.states,
        2 * LOG.actions - 1,
        LOG.rewards,
        LOG.next_states,
        LOG.terminals,
        next_action_probabilities=LOG.next_action_probabilities,
    ),
    "numbers 0 to 1023, or floats where they are quantities": lambda: evaluator().fit(
        LOG.states,
        2 * LOG.actions - 1,
        LOG.rewards,
        LOG.next_states,
        LOG.terminals,
        next_actions=LOG.actions,
    ),
    "actions contains 0.5 at row 0, and policy has probabilities of 2 actions": lambda: evaluator(
        policy=exact_policy
    ).fit(LOG.states, LOG.actions + 0.5, LOG.rewards, LOG.next_states, LOG.terminals),
    "actions contains nan at row 0": lambda: evaluator(policy=exact_policy).fit(
        LOG.states, LOG.actions * np.nan, LOG.rewards, LOG.next_states, LOG.terminals
    ),
    "actions has 2 columns, and next_action_probabilities has": lambda: evaluator().fit(
        LOG.states,
        np.stack([LOG.actions, LOG.actions], axis=1),
        LOG.rewards,
        LOG.next_states,
        LOG.terminals,
        next_action_probabilities=LOG.next_action_probabilities,
    ),
    "next_actions should be whole numbers from 0": lambda: evaluator().fit(
        *arguments(LOG), next_actions=LOG.actions - 1
    ),
    "actions should be numbers": lambda: evaluator().fit(
        LOG.states, LOG.actions.astype(str), LOG.rewards, LOG.next_states, LOG.terminals
    ),
    "next_actions or next_action_probabilities": lambda: evaluator().fit(
        *arguments(LOG),
        next_actions=LOG.actions,
        next_action_probabilities=LOG.next_action_probabilities,
    ),
    "next_action_probabilities: row 0 is no distribution": lambda: evaluator().fit(
        *arguments(LOG), next_action_probabilities=2 * LOG.next_action_probabilities
    ),
    "policy: row 0 is no distribution": lambda: evaluator(policy=lambda s: 2 * POLICY[s]).fit(
        *arguments(LOG)
    ),
    "policy returned an array of shape (3, 2) for": lambda: evaluator(
        policy=lambda _: POLICY[:3]
    ).fit(*arguments(LOG)),
    "policy returned an array of shape () for": lambda: evaluator(policy=lambda _: 1).fit(
        *arguments(LOG)
    ),
    "policy: actions of 3 columns, those of the log 2": lambda: evaluator(
        policy=lambda s: np.zeros((len(s), 3))
    ).fit(
        LOG.states,
        np.zeros((len(LOG.states), 2)),
        LOG.rewards,
        LOG.next_states,
        LOG.terminals,
    ),
    "policy: expected a probability for each of 2 actions, found 3": lambda: (
        evaluator(policy=exact_policy)
        .fit(*arguments(LOG))
        .set_params(policy=lambda s: np.full((len(s), 3), 1 / 3))
        .value(STATES)
    ),
    "policy returned an array of shape (1,) for 4 states": lambda: (
        evaluator(policy=exact_policy)
        .fit(*arguments(LOG))
        .set_params(policy=lambda _: [0])
        .value(STATES)
    ),
    "probabilities: row 1 is no distribution, [nan, 1.0]": lambda: (
        evaluator(policy=exact_policy)
        .fit(*arguments(LOG))
        .value([0, 1], probabilities=[[0.0, 1.0], [np.nan, 1.0]])
    ),
    "states contains 'a' at row 0 and should be numbers": lambda: (
        evaluator().fit(*arguments(LOG)).value(["a", "b"])
    ),
    "policy should be a function": lambda: evaluator(policy="best").fit(*arguments(LOG)),
    "X has 2 features": lambda: evaluator().fit(*arguments(LOG)).value(np.zeros((3, 2))),
    "whole numbers from 0": lambda: evaluator(features="table").fit(
        LOG.states - 1, None, LOG.rewards, LOG.next_states, LOG.terminals
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        BAD[message]()


def test_the_value_is_drawn_over_a_plane(tmp_path, monkeypatch):
    rng = np.random.default_rng(10)
    states = rng.normal(size=(500, 3))
    found = evaluator(features="linear").fit(
        states, None, states[:, 0], 0.5 * states, np.zeros(500, dtype=bool)
    )
    with monkeypatch.context() as hidden:
        hidden.setitem(sys.modules, "matplotlib.figure", None)
        with pytest.raises(InvalidInput, match="pip install matplotlib"):
            found.plot(states)
    pytest.importorskip("matplotlib")
    figure = found.plot(states, (0, 2), tmp_path / "value.png", resolution=8)
    assert (tmp_path / "value.png").stat().st_size > 0
    assert figure.axes[0].get_xlabel() == "state 0"
    with pytest.raises(InvalidInput, match="columns"):
        found.plot(states, (0, 3))
    with pytest.raises(InvalidInput, match="has no steps to draw"):
        found.plot()


def test_the_value_of_one_column_is_a_curve_with_a_band(tmp_path):
    pytest.importorskip("matplotlib")
    states, *others = system(400, seed=8)
    found = evaluator(discount=0.9).fit(states, *others)
    axes = found.plot(states, path=tmp_path / "curve.png").axes[0]
    assert (tmp_path / "curve.png").stat().st_size > 0
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("state 0", "value")
    x = np.sort(states[:, 0])
    value, error = found.value(x, return_std=True)
    assert np.array_equal(axes.lines[0].get_xydata(), np.stack([x, value], axis=1))
    band = axes.collections[0].get_paths()[0].vertices
    for side in (-2, 2):
        edge = np.stack([x, value + side * error], axis=1)
        assert np.isclose(edge[:, None], band).all(axis=2).any(axis=1).all()
    with pytest.raises(InvalidInput, match="two of the 1 columns"):
        found.plot(states, (0, 2))

    # A policy is asked at states as they were given; of many the curve has some.
    logged = log()
    of_actions = evaluator(policy=exact_policy).fit(*arguments(logged))
    line = of_actions.plot(logged.states).axes[0].lines[0]
    assert np.allclose(line.get_ydata(), of_actions.value(STATES))
    many = found.plot(np.linspace(-0.4, 0.4, 5000)).axes[0].lines[0].get_xdata()
    assert (len(many), many[0], many[-1]) == (1024, -0.4, 0.4)

    # Where no standard errors are known there is no band.
    network = evaluator("td", features="network", discount=0.9).fit(states, *others)
    axes = network.plot(states).axes[0]
    assert (len(axes.lines), len(axes.collections)) == (1, 0)


def test_convergence_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    found = evaluator("td", n_passes=3).fit(*arguments(LOG))
    steps, objective = zip(*found.history_, strict=True)
    assert steps[-1] == 3 * -(-len(LOG.states) // 20)
    assert np.mean(objective[-5:]) < np.mean(objective[:5])
    figure = found.plot(path=tmp_path / "convergence.png")
    assert (tmp_path / "convergence.png").stat().st_size > 0
    assert figure.axes[0].get_xlabel() == "steps"
    assert np.array_equal(figure.axes[0].lines[0].get_xdata(), steps)


def test_progress_is_told(capsys):
    evaluator(verbose=2).fit(*arguments(LOG))
    assert "solving" in capsys.readouterr().err
    evaluator("td", verbose=2, n_passes=2).fit(*arguments(LOG))
    assert "fitting 2/" in capsys.readouterr().err


@pytest.mark.parametrize("features", ["table", "random", "growing", "network"])
@pytest.mark.parametrize("method", ["embedding_sgd", "td"])
def test_interrupted_steps_go_on_to_the_same_bits(method, features, tmp_path, monkeypatch):
    monkeypatch.setenv("RIESZ_CHECKPOINT_SECONDS", "0")
    settings = {"features": features, "n_passes": 40, "n_features": 64, "bandwidth": 1.0}
    logged = log(copies=1)
    path = tmp_path / "steps"
    expected = evaluator(method, **settings).fit(*arguments(logged))

    def interrupted(count):
        def progress(*told):
            if told[0] == "fit" and told[1] == count:
                raise KeyboardInterrupt

        return contextlib.nullcontext(progress)

    for count in (2, 100):
        with monkeypatch.context() as patch:
            patch.setattr(riesz._evaluated, "progress", lambda _, count=count: interrupted(count))
            with pytest.raises(KeyboardInterrupt):
                evaluator(method, checkpoint=path, **settings).fit(*arguments(logged))
        assert path.exists()
    kept = path.read_bytes()
    found = evaluator(method, checkpoint=path, **settings).fit(*arguments(logged))
    assert not path.exists()
    assert found.history_ == expected.history_
    assert np.array_equal(found.value(STATES), expected.value(STATES))

    path.write_bytes(kept)
    with pytest.raises(InvalidInput, match=r"its settings differ: .*step"):
        evaluator(method, checkpoint=path, **settings, step=0.1).fit(*arguments(logged))
    with pytest.raises(InvalidInput, match="these parts differ: rewards"):
        evaluator(method, checkpoint=path, **settings).fit(
            logged.states, logged.actions, -logged.rewards, logged.next_states, logged.terminals
        )


def test_a_policy_that_takes_what_was_never_logged_is_refused():
    rng = np.random.default_rng(0)
    states, following = rng.normal(size=(2, 60, 2))
    actions, ends = rng.integers(2, size=60), np.zeros(60, dtype=bool)
    evaluator = PolicyEvaluator(discount=0.9, policy=lambda s: np.full(len(s), 2))
    with pytest.raises(InvalidInput, match=r"action 2 after row 0.*no transition of the log"):
        evaluator.fit(states, actions, actions, following, ends)
    # Where nothing follows nothing is taken.
    evaluator.fit(states, actions, actions, following, ~ends)


def test_the_bandwidth_of_many_columns_is_not_a_matter_of_luck():
    """On an arm of twelve columns, narrow kernels are wild: they must not win by a low estimate.

    V deviates by about 6.5 over the states; kernels much narrower than the distance of the states
    have errors of that size, those of the median distance a twentieth of it.
    """
    arm = riesz.Environment("puma560", n_jobs=1)

    def visited(n, seed):
        states, rows = arm.reset(n // 100, seed=seed), []
        for step in range(100):
            after, rewards, ends = arm.step(states, arm.actions(states), seed=seed, step=step)
            rows.append((states, rewards, after, ends))
            states = after
        return [np.concatenate(column) for column in zip(*rows, strict=True)]

    test = visited(200, 1_000_000)[0]
    truth, _ = arm.values(test, rollouts=50, seed=5)
    for seed in range(4):
        states, rewards, after, ends = visited(5000, seed)
        found = PolicyEvaluator(discount=arm.discount, random_state=seed)
        found.fit(states, None, rewards, after, ends)
        error = np.sqrt(np.mean((found.value(test) - truth) ** 2))
        assert error < 0.1 * truth.std(), (seed, found.bandwidth_, error)


def test_kernels_that_overlap_do_not_bias_values():
    """Wide kernels in one column are nearly dependent: what rounding adds must not be learnt.

    A walk that pays where it is, and is pushed up by an action that the policy always takes and the
    log took three times in ten; the truth is played. With the noise of dependent kernels among the
    features, values were less than half of it.
    """
    rng = np.random.default_rng(0)

    def step(x, a):
        noise = rng.normal(size=(2, len(x)))
        after = np.clip(0.8 * x + 0.3 * a + 0.2 * noise[0], -1, 1)
        return 1 + 0.5 * x - 0.4 * a + 0.3 * noise[1], after, rng.random(len(x)) < 0.05

    states = rng.uniform(-1, 1, 8000)
    actions = (rng.random(8000) < 0.3).astype(int)
    rewards, after, ends = step(states, actions)
    found = PolicyEvaluator(
        discount=0.95, policy=lambda x: np.tile([0.0, 1.0], (len(x), 1)), random_state=0
    )
    found.fit(states[:, None], actions, rewards, after[:, None], ends)
    starts = np.array([-0.9, 0.0, 0.9])
    x, total, weight = np.repeat(starts, 4000), np.zeros(12_000), np.ones(12_000)
    for _ in range(120):
        earned, x, over = step(x, np.ones(len(x)))
        total, weight = total + weight * earned, weight * 0.95 * ~over
    played = total.reshape(3, -1).mean(axis=1)
    value, error = found.value(starts[:, None], return_std=True)
    assert (abs(value - played) < 0.1 * played).all(), (value, error, played)


@pytest.mark.parametrize("method", ["td", "embedding_sgd"])
def test_standard_errors_of_steps_know_rare_states(method):
    """A state that three transitions of 30,000 have: its errors are of the size of a solved one.

    Those of steps are first-order ones about another value function, so the size is all they share.
    """
    rng = np.random.default_rng(0)
    states = np.where(np.arange(30_000) % 10_000 == 0, 3, rng.integers(3, size=30_000))
    after = rng.integers(3, size=30_000)
    log = states, None, rng.normal(size=30_000), after, np.zeros(30_000, dtype=bool)
    solved = PolicyEvaluator("lstd", discount=0.5, random_state=0).fit(*log)
    stepped = PolicyEvaluator(method, discount=0.5, random_state=0).fit(*log)
    expected, found = (each.value(STATES, return_std=True)[1] for each in (solved, stepped))
    assert (found < 3 * expected).all(), (found, expected)
    assert (found > expected / 3).all(), (found, expected)


@pytest.mark.parametrize("method", ["td", "embedding_sgd"])
def test_standard_errors_of_steps_are_those_of_a_solution(method):
    """Of random features they come from a sample of the transitions, scores from all of them."""
    data = system(40_000, seed=4)
    settings = {"features": "random", "n_features": 64, "bandwidth": 2.0, "ridge": 1e-4}
    states = np.linspace(-0.4, 0.4, 9)[:, None]
    solved = evaluator("lstd", **settings).fit(*data).value(states, return_std=True)[1]
    stepped = evaluator(method, **settings | {"ridge": None}, n_passes=20).fit(*data)
    ratio = stepped.value(states, return_std=True)[1] / solved
    assert (ratio > 0.5).all(), ratio
    assert (ratio < 2).all(), ratio


# What numbers do not say.


@pytest.mark.parametrize("method", [*OF_EPISODES, "doubly_robust"])
def test_a_policy_alone_does_not_weigh_episodes(method):
    logged = episodes(50, seed=1)
    more = {"next_action_probabilities": logged.next_action_probabilities}
    with pytest.raises(InvalidInput, match="give weights, ones where the log is of the policy"):
        evaluator(method).fit(*arguments(logged), **more)
    found = evaluator(method).fit(*arguments(logged), weights=logged.weights, **more)
    with pytest.raises(InvalidInput, match="knows where the episodes of the log begin"):
        found.estimate(STATES)


@pytest.mark.parametrize("method", OF_EPISODES)
def test_episodes_that_were_cut_short_are_warned_of(method):
    ends, cuts = np.zeros(20, dtype=bool), np.arange(20) % 5 == 4
    states = np.arange(20) % 3
    log = states, None, np.ones(20), states, ends
    with pytest.warns(UserWarning, match="4 of 4 episodes were cut short"):
        found = evaluator(method, discount=0.9).fit(*log, truncations=cuts)
    # What five steps earn, and no more.
    assert found.estimate().value == pytest.approx((1 - 0.9**5) / 0.1)
    # Nothing is said where what follows hardly counts, or is learnt.
    evaluator(method, discount=0.3).fit(*log, truncations=cuts)
    evaluator("doubly_robust", discount=0.9).fit(*log, truncations=cuts)


def test_steps_that_have_not_converged_are_warned_of(tmp_path):
    data = system(5_000, seed=3)
    with pytest.warns(ConvergenceWarning, match="Raise n_passes, or use dual_embedding"):
        few = evaluator("embedding_sgd", discount=0.9).fit(*data)
    many = evaluator("embedding_sgd", discount=0.9, n_passes=100).fit(*data)
    truth = data[0][:, 0] / 0.19
    errors = [np.abs(each.value(data[0]) - truth).mean() / truth.std() for each in (few, many)]
    assert errors[0] > 0.4, errors
    assert errors[1] < 0.1, errors
    # A file that is read has said it already.
    few.save(tmp_path / "m")
    riesz.load(tmp_path / "m")


def test_states_that_go_on_and_are_never_left_are_warned_of():
    """A chain 0, 1, 2, 3 whose end is marked as a cut, not as an end."""
    states = np.tile([0, 1, 2], 50)
    log = states, None, np.ones(150), states + 1
    with pytest.warns(UserWarning, match="lead to state 3 and none leaves it"):
        evaluator(discount=0.9).fit(*log, np.zeros(150, bool), truncations=states == 2)
    ended = evaluator(discount=0.9).fit(*log, states == 2)
    assert np.allclose(ended.value([0, 1, 2]), [2.71, 1.9, 1.0], atol=1e-2)
