"""SBEED: what it learns, from which steps, and that files and threads change none of its bits."""

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402
from small_environments import Bandit, Constant, Counting, Episodes  # noqa: E402

import riesz  # noqa: E402
from riesz import SBEED, InvalidInput  # noqa: E402

SMALL = {"n_features": 64, "n_envs": 2, "n_steps": 20, "seed": 0, "n_jobs": 1}
PAIR = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([1.0, 3.0], np.float32))
SPACES = {
    "numbers": (spaces.Box(-1, 1, (2,)), PAIR),
    "a table of actions": (spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2, 2), np.float64)),
    "whole numbers of actions": (spaces.Box(0, 255, (2, 2), np.uint8), spaces.Box(0, 4, (1,), int)),
    "numbered": (spaces.Discrete(3), spaces.Discrete(3)),
    "numbered from elsewhere": (spaces.Discrete(3, start=5), spaces.Discrete(3, start=-1)),
    "bits": (spaces.MultiBinary(3), spaces.Discrete(2)),
    "several numbers": (spaces.MultiDiscrete([2, 3]), spaces.Discrete(2)),
}


def bandit(*given):
    return SBEED("RbfPolicy", lambda: Bandit(*given), **SMALL)


def agent_bytes(model):
    return model._agent.to_bytes()


def returns(model, name, episodes=10):
    env = gymnasium.make(name)
    totals = []
    for seed in range(episodes):
        seen, total, over = env.reset(seed=1000 + seed)[0], 0.0, False
        while not over:
            seen, reward, terminated, truncated, _ = env.step(
                model.predict(seen, deterministic=True)[0]
            )
            total, over = total + reward, terminated or truncated
        totals.append(total)
    return np.array(totals)


@pytest.mark.parametrize("kind", SPACES)
def test_actions_are_those_of_the_space(kind, tmp_path):
    observations, actions = SPACES[kind]
    model = bandit(observations, actions).learn(80)
    seen = observations.sample()
    many = np.stack([observations.sample() for _ in range(4)])
    for deterministic in (True, False):
        action, state = model.predict(seen, deterministic=deterministic)
        assert actions.contains(action)
        assert state is None
        several, state = model.predict(many, "kept", deterministic=deterministic)
        assert all(actions.contains(each) for each in several)
        assert state == "kept"
        assert several.shape == (4, *actions.shape)
    assert model.values(many).shape == (4,)
    model.save(tmp_path / "m")
    again = SBEED.load(tmp_path / "m", env=lambda: Bandit(observations, actions))
    np.testing.assert_array_equal(
        again.predict(many, deterministic=True)[0], model.predict(many, deterministic=True)[0]
    )
    again.learn(40)


class Recorder:
    """An agent that writes down what it is told."""

    def __init__(self, agent):
        self._agent, self.steps = agent, []

    def observe(self, rows, observations, actions, logs, rewards, following, ends, cuts):
        self.steps += zip(rows, observations, rewards, following, ends, cuts, strict=True)
        self._agent.observe(rows, observations, actions, logs, rewards, following, ends, cuts)

    def __getattr__(self, name):
        return getattr(self._agent, name)


def vector(mode):
    def make(makers):
        return SyncVectorEnv(makers, autoreset_mode=mode)

    return make


def baselines(makers):
    return pytest.importorskip("stable_baselines3.common.vec_env").DummyVecEnv(makers)


@pytest.mark.parametrize("ending", ["terminated", "truncated"])
@pytest.mark.parametrize("kind", ["one", "several", "next_step", "same_step", "baselines"])
def test_steps_are_those_that_were_taken(kind, ending):
    makers = [lambda: Counting(4, ending=ending), lambda: Counting(7, ending=ending)]
    env = {
        "one": lambda: makers[0](),
        "several": lambda: iter([make() for make in makers]).__next__,
        "next_step": lambda: vector(AutoresetMode.NEXT_STEP)(makers),
        "same_step": lambda: vector(AutoresetMode.SAME_STEP)(makers),
        "baselines": lambda: baselines(makers),
    }[kind]()
    model = SBEED("RbfPolicy", env, **SMALL)
    model._agent = recorder = Recorder(model._agent)
    model.learn(100)
    assert len(recorder.steps) == model.num_timesteps >= 100
    lengths = {}
    for lane, (number, episode, t), reward, (after, same, later), end, cut in recorder.steps:
        assert (after, same, later) == (number, episode, t + 1)
        assert reward in (t + 1, t + 2)
        length = lengths.setdefault(lane, [4, 7][lane])
        over = t + 1 == length
        assert (bool(end), bool(cut)) == (
            over and ending != "truncated",
            over and ending != "terminated",
        )
    for lane in lengths:
        own = [row[1][2] for row in recorder.steps if row[0] == lane]
        assert own == [t % lengths[lane] for t in range(len(own))]
    assert {length for _, _, length in model.episodes_} <= {4, 7}
    assert sum(length for *_, length in model.episodes_) <= model.num_timesteps


def recorded(length, limit, **settings):
    """Return a model of environments with a time limit that are made by name, and its steps."""
    gymnasium.register("Counting-v0", Counting, max_episode_steps=limit, kwargs={"length": length})
    try:
        model = SBEED("RbfPolicy", "Counting-v0", **SMALL | settings)
    finally:
        del gymnasium.registry["Counting-v0"]
    model._agent = recorder = Recorder(model._agent)
    return model.learn(200), recorder.steps


def test_episodes_of_equal_length_do_not_begin_together():
    """First episodes are broken off after 1/n, 2/n, ... of the time limit, whole ones follow."""
    model, steps = recorded(100, 12, n_envs=4)
    for lane in range(4):
        own, first = [row for row in steps if row[0] == lane], 3 * (lane + 1)
        places = [t if t < first else (t - first) % 12 for t in range(len(own))]
        assert [row[1][2] for row in own] == places
        # Broken off, not over: what follows is the state that was reached, not a beginning.
        assert all(row[3][2] == row[1][2] + 1 and not row[4] for row in own)
        assert [t + 1 for t, row in enumerate(own) if row[5]][:2] == [first, first + 12]
    assert {length for _, _, length in model.episodes_} == {12}


@pytest.mark.parametrize("settings", [{"staggered": False}, {"form": "published"}])
def test_first_episodes_are_whole_where_asked_for(settings):
    _, steps = recorded(100, 12, **settings)
    for lane in range(2):
        own = [row[1][2] for row in steps if row[0] == lane]
        assert own == [t % 12 for t in range(len(own))]


def test_an_episode_that_ended_by_itself_is_not_broken_off_later():
    _, steps = recorded(3, 40)
    assert not any(cut for *_, cut in steps)


@pytest.mark.parametrize(("ending", "value"), [("terminated", 1.0), ("truncated", 2.0)])
def test_only_what_was_broken_off_goes_on(ending, value):
    """V = R where the task ends, and R/(1 - gamma) where it is only broken off."""
    model = SBEED(
        "RbfPolicy",
        lambda: Constant(ending=ending),
        gamma=0.5,
        temperature=1e-6,
        normalize=(True, False),
        **SMALL,
    ).learn(200)
    assert model.values([[0.5]])[0] == pytest.approx(value, rel=0.01)


def test_a_bandit_is_learnt():
    settings = SMALL | {"n_steps": 50, "buffer_size": 500, "divergence": 0.05}
    model = SBEED("RbfPolicy", Bandit, **settings).learn(3_000)
    actions, _ = model.predict([5, 6, 7], deterministic=True)
    assert actions.tolist() == [1, -1, 0]


def test_cart_pole_is_learnt():
    model = SBEED("RbfPolicy", "CartPole-v1", seed=3, n_jobs=1).learn(20_000)
    assert returns(model, "CartPole-v1").mean() >= 475
    steps, totals, lengths = np.array(model.episodes_).T
    assert (totals == lengths).all()
    assert (np.diff(steps) >= 0).all()


def test_networks_learn_too():
    settings = {"n_envs": 2, "n_steps": 50, "buffer_size": 200, "iterations": 1, "seed": 0}
    model = SBEED("MlpPolicy", Bandit, **settings, divergence=0.2, n_jobs=1).learn(2_000)
    assert model.predict([5, 6, 7], deterministic=True)[0].tolist() == [1, -1, 0]


# The same bits.


def test_a_seed_decides_about_every_bit(tmp_path):
    files = []
    for i, (seed, n_jobs) in enumerate([(1, 1), (1, 2), (2, 1)]):
        model = SBEED("RbfPolicy", Counting, **SMALL | {"seed": seed, "n_jobs": n_jobs})
        Counting.made = 0
        model.set_env(Counting)
        model.learn(120).save(tmp_path / str(i), replay=True)
        files.append((tmp_path / str(i)).read_bytes())
    assert files[0] == files[1] != files[2]


class Interrupted(Exception):
    pass


class Stop:
    """A callback of Stable-Baselines3's kind that raises at one of its calls."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def init_callback(self, model):
        pass

    def _called(self, *_):
        self.calls += 1
        if self.calls == self.at:
            raise Interrupted
        return True

    on_training_start = on_rollout_start = on_step = on_rollout_end = on_training_end = _called
    update_locals = lambda self, names: None  # noqa: E731


@pytest.mark.parametrize("at", [1, 2, 30, 45, 67, 90, 112, 133])
@pytest.mark.parametrize("in_a_new_process", [True, False])
def test_an_interrupted_run_goes_on_to_the_same_bits(at, in_a_new_process, tmp_path):
    def fresh():
        return SBEED("RbfPolicy", "CartPole-v1", **SMALL)

    how = {"total_timesteps": 240, "checkpoint": tmp_path / "c", "checkpoint_every": 80}
    whole = fresh().learn(**how)
    assert not (tmp_path / "c").exists()
    model = fresh()
    with pytest.raises(Interrupted):
        model.learn(**how, callback=Stop(at))
    assert (tmp_path / "c").exists() == (model.num_timesteps > 80)
    if in_a_new_process:
        model = fresh()
    elif not (tmp_path / "c").exists():
        return  # it goes on from where it stands, which is elsewhere
    model.learn(**how)
    assert not (tmp_path / "c").exists()
    assert agent_bytes(model) == agent_bytes(whole)
    assert model.num_timesteps == whole.num_timesteps == 240


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    how = {"total_timesteps": 240, "checkpoint": tmp_path / "c", "checkpoint_every": 80}
    with pytest.raises(Interrupted):
        bandit().learn(**how, callback=Stop(100))
    for changed, word in [({"seed": 5}, "seed"), ({"gamma": 0.5}, "parameters")]:
        with pytest.raises(InvalidInput, match=f"another run: .*{word}"):
            SBEED("RbfPolicy", Bandit, **SMALL | changed).learn(**how)
    with pytest.raises(InvalidInput, match="total_timesteps differ"):
        bandit().learn(**how | {"total_timesteps": 300})
    assert (tmp_path / "c").exists()


# Files.


def test_files(tmp_path):
    model = SBEED("RbfPolicy", "CartPole-v1", **SMALL).learn(100)
    seen = [[0.0, 0.1, 0.0, -0.1], [0.1, 0.0, 0.2, 0.0]]
    for replay in (True, False):
        model.save(tmp_path / "m", replay=replay)
        for again in (SBEED.load(tmp_path / "m"), riesz.load(tmp_path / "m")):
            assert type(again) is SBEED
            assert again.num_timesteps == 120
            assert again.observation_space.shape == (4,)
            assert again.action_space == model.action_space
            np.testing.assert_array_equal(again.values(seen), model.values(seen))
            remembered = again._agent.summary()["remembered"]
            assert remembered == (120 if replay else 0)
            with pytest.raises(InvalidInput, match="env is missing"):
                again.learn(10)
    on = SBEED.load(tmp_path / "m", env="CartPole-v1").learn(80, reset_num_timesteps=False)
    assert on.num_timesteps == 200


def test_what_is_loaded_or_given_an_environment_begins_episodes_anew(tmp_path):
    """Otherwise a step would seem to lead to the first of another episode."""
    model = SBEED("RbfPolicy", lambda: Counting(1000), **SMALL).learn(40)
    model.save(tmp_path / "m", replay=True)
    loaded = SBEED.load(tmp_path / "m", env=lambda: Counting(1000))
    model.set_env(lambda: Counting(1000))
    for each in (loaded, model):
        each._agent = agent = Breaking()
        with pytest.raises(Interrupted):
            each.learn(40)
        assert agent.calls == ["break_off"]


class Breaking:
    """An agent that notes when episodes are broken off, and goes no further."""

    def __init__(self):
        self.calls = []

    def break_off(self):
        self.calls.append("break_off")

    def act(self, observations):
        raise Interrupted


def test_pickles_hold_all_but_the_environments():
    for model in (bandit().learn(80), SBEED("RbfPolicy", None, seed=1, verbose=1, n_jobs=2)):
        for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert again.get_env() is None
            assert (again.seed, again.verbose, again.n_jobs) == (
                model.seed,
                model.verbose,
                model.n_jobs,
            )
            if model._agent is not None:
                assert agent_bytes(again) == agent_bytes(model)
                again.set_env(Bandit)
                again.learn(40, reset_num_timesteps=False)
                assert again.num_timesteps == model.num_timesteps + 40


# Logged steps.


def log(n=400, seed=0):
    """Steps of a point that is pushed: it should be at zero."""
    rng = np.random.default_rng(seed)
    states, actions = rng.uniform(-1, 1, (2, n, 1))
    following = np.clip(states + 0.5 * actions, -1, 1)
    rewards = -(following[:, 0] ** 2)
    return states, actions, rewards, following, np.zeros(n, bool), np.ones(n, bool)


def test_logged_steps_teach():
    states, actions, *rest = log(2000)
    model = SBEED("RbfPolicy", None, gamma=0.5, window=1, n_features=64, seed=0, n_jobs=2)
    model.fit(states, actions, *rest, log_probabilities=np.full(2000, -np.log(2.0)), updates=60)
    found = model.predict([[-0.6], [0.0], [0.6]], deterministic=True)[0][:, 0]
    assert found[0] > 0.5
    assert abs(found[1]) < 0.3
    assert found[2] < -0.5


def test_episodes_of_minari_are_steps():
    states, actions, rewards, following, ends, cuts = log(60)
    parts = [
        SimpleNamespace(
            observations=np.array([states[i], following[i]], np.float32),
            actions=actions[i : i + 1],
            rewards=rewards[i : i + 1],
            terminations=ends[i : i + 1],
            truncations=cuts[i : i + 1],
        )
        for i in range(60)
    ]
    settings = {"seed": 0, "n_features": 64, "n_jobs": 1}
    plain = SBEED("RbfPolicy", None, **settings)
    plain.fit(states, actions, rewards, following, ends, cuts, updates=2)
    told = SBEED("RbfPolicy", None, **settings).fit(Episodes(parts), updates=2)
    assert agent_bytes(plain) == agent_bytes(told)


def test_a_log_has_the_spaces_of_the_environment_where_there_is_one():
    model = bandit()
    seen = np.arange(60) % 3 + 5
    taken = np.arange(60) % 2
    model.fit(seen, taken, taken == 0, seen, np.ones(60, bool), updates=2)
    assert model._agent.summary()["remembered"] == 60
    assert model.learn(40).num_timesteps == 40
    with pytest.raises(InvalidInput, match=r"states: .* are not all in Discrete"):
        model.fit(seen + 1, taken, taken, seen, taken == taken)


def test_after_a_log_an_environment():
    seen = np.zeros((30, 3))
    taken = np.arange(30) % 2
    model = SBEED("RbfPolicy", None, **SMALL).fit(seen, taken, taken, seen, taken == 1, updates=1)
    model.set_env(Counting)
    assert model.learn(60).num_timesteps == 60
