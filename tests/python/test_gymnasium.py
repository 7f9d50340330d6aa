"""The environments as Gymnasium sees them."""

import copy
import subprocess
import sys
import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402

import riesz  # noqa: E402
import riesz.environments  # noqa: E402

IDS = ["riesz/Navigation-v0", "riesz/CartPoleSwingUp-v0", "riesz/Puma560-v0"]
NAMES = dict(zip(IDS, ["navigation", "cart_pole_swing_up", "puma560"], strict=True))


@pytest.fixture(params=IDS)
def name(request):
    return request.param


def test_gymnasium_has_nothing_against_it(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(gymnasium.make(name).unwrapped)
    # States have no bounds, and forces are in newtons rather than in [-1, 1].
    allowed = ("observation space minimum", "observation space maximum", "normalized space")
    texts = [str(warning.message) for warning in caught]
    assert [text for text in texts if not any(words in text for words in allowed)] == []


def test_a_seed_decides_about_an_episode(name):
    def episode(seed):
        env = gymnasium.make(name)
        env.action_space.seed(1)
        first, info = env.reset(seed=seed)
        steps = [env.step(env.action_space.sample()) for _ in range(20)]
        assert info == {}
        return np.array([first, *(s[0] for s in steps)]), [s[1] for s in steps]

    for a, b in zip(episode(5), episode(5), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (episode(5)[0] != episode(6)[0]).any()


def test_episodes_are_truncated_and_never_terminated(name):
    env = gymnasium.make(name)
    env.reset(seed=0)
    ends = [env.step(np.zeros(env.action_space.shape))[2:4] for _ in range(200)]
    assert ends == [(False, False)] * 199 + [(False, True)]


def test_steps_are_those_of_the_environment(name):
    """One row of Gymnasium is one row of `Environment`, at the seed that the generator draws."""
    env, core = gymnasium.make(name).unwrapped, riesz.Environment(NAMES[name])
    state, _ = env.reset(seed=3)
    seed = int(np.random.Generator(np.random.PCG64(3)).integers(1 << 64, dtype=np.uint64))
    np.testing.assert_array_equal(state[None], core.reset(1, seed=seed))
    for t in range(5):
        action = core.actions(state[None])
        expected, rewards, _ = core.step(state[None], action, seed=seed, step=t)
        state, reward, *_ = env.step(action[0])
        np.testing.assert_array_equal(state, expected[0])
        assert reward == rewards[0]


def test_a_copy_goes_on_alike(name):
    env = gymnasium.make(name).unwrapped
    env.reset(seed=0)
    other, action = copy.deepcopy(env), np.zeros(env.action_space.shape)
    np.testing.assert_array_equal(env.step(action)[0], other.step(action)[0])


def test_many_rows(name):
    def course(n_jobs):
        envs = gymnasium.make_vec(name, num_envs=7, max_episode_steps=3, n_jobs=n_jobs)
        assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        assert envs.observation_space.shape == (7, *envs.single_observation_space.shape)
        first, _ = envs.reset(seed=1)
        steps = [envs.step(np.zeros(envs.action_space.shape)) for _ in range(8)]
        return first, steps

    (first, steps), (again, others) = course(None), course(1)
    np.testing.assert_array_equal(first, again)
    for a, b in zip(steps, others, strict=True):
        for x, y in zip(a[:4], b[:4], strict=True):
            np.testing.assert_array_equal(x, y)
    # Three steps, then a step that begins anew and earns nothing.
    assert [step[3].all() for step in steps] == [step[3].any() for step in steps]
    assert [bool(step[3][0]) for step in steps] == [t % 4 == 2 for t in range(8)]
    for t, (states, rewards, terminated, _, _) in enumerate(steps):
        assert not terminated.any()
        assert (rewards == 0).all() == (t % 4 == 3)
        assert len(np.unique(states[:, 0])) == 7
    core = riesz.Environment(NAMES[name])
    spread = np.abs(core.reset(10_000, seed=0)).max(0) * 1.5
    assert (np.abs(steps[3][0]) <= spread).all()


def test_rows_one_by_one():
    envs = gymnasium.make_vec(IDS[0], num_envs=2, vectorization_mode="sync")
    states, _ = envs.reset(seed=0)
    assert states.shape == (2, 2)
    envs.close()


def test_bad_input(name):
    env = gymnasium.make(name).unwrapped
    right = np.zeros(env.action_space.shape)
    with pytest.raises(gymnasium.error.ResetNeeded, match="before reset"):
        env.step(right)
    with pytest.raises(gymnasium.error.Error, match="Seed must be a python integer"):
        env.reset(seed="a")
    with pytest.raises(riesz.InvalidInput, match=r"options = \{'x': 1\}"):
        env.reset(options={"x": 1})
    env.reset(seed=0)
    for wrong in (0.0, [right], np.zeros(7)):
        with pytest.raises(riesz.InvalidInput, match=r"action has shape .* expected"):
            env.step(wrong)
    with pytest.raises(riesz.InvalidInput, match="actions contains NaN"):
        env.step(np.full_like(right, np.nan))
    with pytest.raises(riesz.InvalidInput, match="should be an array of numbers"):
        env.step(["x"] * len(right))
    envs = gymnasium.make_vec(name, num_envs=3)
    with pytest.raises(gymnasium.error.ResetNeeded, match="before reset"):
        envs.step(np.zeros((3, len(right))))
    envs.reset(seed=0)
    with pytest.raises(riesz.InvalidInput, match=r"actions has shape \(2,"):
        envs.step(np.zeros((2, len(right))))
    for setting in ("num_envs", "max_episode_steps"):
        with pytest.raises(riesz.InvalidInput, match=f"{setting} = 0"):
            riesz.environments.NavigationVector(**{setting: 0})


@pytest.mark.parametrize(
    "script",
    [
        "import gymnasium, riesz; gymnasium.make('riesz/Puma560-v0')",
        "import riesz, gymnasium; gymnasium.make('riesz/Puma560-v0')",
        "import gymnasium; gymnasium.make('riesz:riesz/Puma560-v0')",
        "import riesz.environments; import gymnasium; gymnasium.make('riesz/Puma560-v0')",
        "import riesz, sys; assert 'gymnasium' not in sys.modules",
        "import gymnasium, riesz, sys; assert 'sklearn' not in sys.modules",
        "import sys; sys.modules['gymnasium'] = None; import riesz; riesz.Environment('puma560')",
        "import riesz, sys; a = sys.meta_path[:]; import gymnasium; assert a != sys.meta_path",
    ],
)
def test_imports_in_any_order(script):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("content", "script", "printed"),
    [
        ("register = 'old'", "import riesz, gymnasium; print(gymnasium.register)", "old"),
        ("raise ImportError('broken')", "import riesz, gymnasium", "ImportError: broken"),
    ],
)
def test_another_gymnasium_is_left_alone(tmp_path, content, script, printed):
    (tmp_path / "gymnasium.py").write_text(content)
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {script}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert printed in done.stdout + done.stderr
