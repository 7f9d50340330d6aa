"""SBEED: who is told while it learns, what it says of mistakes, and what users read of it."""

import doctest
import inspect
import math
import re

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402
from small_environments import Bandit, Counting, Failing  # noqa: E402
from test_documentation import section  # noqa: E402

from riesz import SBEED, InvalidInput  # noqa: E402

SMALL = {"n_features": 64, "n_envs": 2, "n_steps": 20, "seed": 0, "n_jobs": 1}


def small(env=Counting, **changed):
    return SBEED("RbfPolicy", env, **SMALL | changed)


# Who is told.


def test_a_function_is_told_of_every_step_and_may_stop():
    seen = []

    def callback(names, _):
        assert names["self"].num_timesteps == 2 * (len(seen) + 1)
        assert names["dones"].shape == names["rewards"].shape == (2,)
        seen.append(names["rewards"])
        return len(seen) < 25

    model = small().learn(1000, callback)
    assert len(seen) == 25
    assert model.num_timesteps == 50
    assert model.learn(20, [None, lambda *_: None]).num_timesteps == 40


def test_tables_and_bars(capsys):
    small(verbose=2).learn(80, progress_bar=True)
    out, err = capsys.readouterr()
    assert out.count("rollout/ep_rew_mean") == 2
    assert "train/explained_variance" in out
    assert "80/80 steps" in err
    small(verbose=1).learn(80, log_interval=2)
    assert capsys.readouterr().out.count("total_timesteps") == 1


def test_callbacks_of_stable_baselines(tmp_path):
    callbacks = pytest.importorskip("stable_baselines3.common.callbacks")

    class Count(callbacks.BaseCallback):
        steps = rollouts = 0

        def _on_step(self):
            self.steps += 1
            assert self.num_timesteps == 2 * self.steps
            assert self.locals["dones"].shape == (2,)
            return True

        def _on_rollout_end(self):
            self.rollouts += 1

    counted, every = Count(), Count()
    every._on_step = lambda: True
    chained = [
        counted,
        callbacks.EveryNTimesteps(20, every),
        callbacks.CheckpointCallback(10, str(tmp_path), name_prefix="m"),
    ]
    model = small().learn(80, callbacks.CallbackList(chained))
    assert (counted.steps, counted.rollouts, every.n_calls) == (40, 2, 4)
    assert SBEED.load(tmp_path / "m_40_steps.zip").num_timesteps == 40
    stop = callbacks.StopTrainingOnRewardThreshold(-1.0)
    judge = callbacks.EvalCallback(
        gymnasium.wrappers.RecordEpisodeStatistics(Counting()),
        callback_on_new_best=stop,
        eval_freq=15,
        best_model_save_path=str(tmp_path),
        warn=False,
        verbose=0,
    )
    with pytest.warns(UserWarning, match=r"not of the same type|not wrapped"):
        model.learn(200, judge)
    assert model.num_timesteps == 30
    assert model.logger.name_to_value["eval/mean_reward"] >= 15
    SBEED.load(tmp_path / "best_model")


def test_stable_baselines_evaluates_it():
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    for env in (Counting(), Bandit(), Bandit(spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2,)))):
        model = SBEED("RbfPolicy", env, **SMALL).learn(40)
        mean, deviation = evaluation.evaluate_policy(model, env, n_eval_episodes=4, warn=False)
        assert math.isfinite(mean)
        assert deviation >= 0


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = small(tensorboard_log=tmp_path)
    model.learn(80, tb_log_name="run")
    model.learn(40, tb_log_name="run", reset_num_timesteps=False)
    assert {path.name for path in tmp_path.iterdir()} == {"run_1", "run_2"}
    events = EventAccumulator(str(tmp_path / "run_1"))
    events.Reload()
    assert "train/objective" in events.Tags()["tensors"] + events.Tags()["scalars"]


def test_without_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorboard.summary", None)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        small(tensorboard_log=tmp_path).learn(40)


# Environments that go wrong.


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("raise", RuntimeError, "the motor is off"),
        ("reward", InvalidInput, "rewards contains NaN"),
        ("observation", InvalidInput, "observations contains NaN"),
    ],
)
def test_what_was_learnt_outlasts_an_environment(how, error, message):
    made = []

    def make():
        made.append(Failing(length=50))
        return made[-1]

    model = small(make)
    made[1].at, made[1].how = 50, how
    with pytest.raises(error, match=message):
        model.learn(200)
    assert model.num_timesteps == 98
    assert model._agent.summary()["updates"] == 2
    values = model.values(np.zeros((1, 3)))
    model.learn(80, reset_num_timesteps=False)
    assert model.num_timesteps == 178
    assert model._agent.summary()["remembered"] == 178
    assert model.values(np.zeros((1, 3))) != values


WRONG_ENVIRONMENTS = {
    "observations are a Dict": Bandit(spaces.Dict({"a": spaces.Discrete(2)})),
    "observations are a Text": Bandit(spaces.Text(4)),
    "actions are a MultiBinary": Bandit(None, spaces.MultiBinary(3)),
    "actions need finite bounds": Bandit(None, spaces.Box(-np.inf, np.inf, (1,))),
    "the number of actions = 1": Bandit(None, spaces.Discrete(1)),
    "autoreset_mode is DISABLED": SyncVectorEnv([Bandit], autoreset_mode=AutoresetMode.DISABLED),
    "env = 7 should be": 7,
    "env = 'Nowhere-v0'": "Nowhere-v0",
}


@pytest.mark.parametrize("message", WRONG_ENVIRONMENTS)
def test_environments_that_do_not_fit(message):
    with pytest.raises(InvalidInput, match=message):
        SBEED("RbfPolicy", WRONG_ENVIRONMENTS[message])


def test_environments_of_other_shapes(tmp_path):
    model = small().learn(40)
    model.save(tmp_path / "m")
    others = {
        "observations of 3 numbers": Bandit(spaces.Box(-1, 1, (2,)), spaces.Discrete(2)),
        "actions": Bandit(spaces.Box(-1, 1, (3,)), spaces.Discrete(3)),
        "from 2 environments": Counting(),
    }
    for message, env in others.items():
        with pytest.raises(InvalidInput, match=message):
            model.set_env(env)
        with pytest.raises(InvalidInput, match=message):
            SBEED.load(tmp_path / "m", env=env)
    assert model.learn(40).num_timesteps == 40
    for wrong in ([0.0, 1.0], np.zeros((2, 2)), np.zeros((1, 1, 3))):
        with pytest.raises(InvalidInput, match="observations have shape"):
            model.predict(wrong)
    with pytest.raises(InvalidInput, match="observations contains NaN"):
        model.predict([0.0, np.nan, 0.0])
    with pytest.raises(ValueError, match="observations"):
        model.predict(["a", "b", "c"])


def test_files_that_are_damaged(tmp_path):
    small().learn(40).save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    (tmp_path / "cut").write_bytes(content[: len(content) // 2])
    other = re.sub(rb'(\bn\\*": *)2', rb"\g<1>3", content)
    assert other != content
    (tmp_path / "other").write_bytes(other)
    for name in ("cut", "other"):
        with pytest.raises(InvalidInput):
            SBEED.load(tmp_path / name)


# Parameters.

WRONG = {
    "policy": ["Rbf", 3, None, ["RbfPolicy"]],
    "form": ["new", None, 1],
    "gamma": [1.0, -0.1, math.nan, math.inf, "a", [0.9]],
    "window": [0, -1, 2.5, "a"],
    "trace": [-0.1, 1.1, math.nan, "a"],
    "temperature": [-1.0, math.nan, math.inf, "a"],
    "dual_weight": [-0.1, 1.1, math.nan],
    "n_steps": [0, -1, 1.5, "a"],
    "n_envs": [0, -1, 1.5, 2**40, "a"],
    "staggered": [1, "yes", (True,)],
    "buffer_size": [0, 1, -1, 2**61, 1.5],
    "iterations": [0, -1, 1.5],
    "divergence": [0.0, -1.0, math.nan, (0.1,), (0.1, 0.0), (0.1, 0.1, 0.1), "a"],
    "policy_step": [0.0, -1.0, math.nan, "a"],
    "most_ratio": [0.0, -1.0, math.inf],
    "log_std": [(0.0, 1.0, 2.0), (0.0, -1.0), 0.0, (0.0, -math.inf, 0.0), "abc"],
    "last_log_std": [math.nan, math.inf, 1e3, "a"],
    "n_features": [0, -64, 65, 64.5, (64, 64), math.inf, "a"],
    "damping": [-1.0, math.nan],
    "learning_rate": [0.0, -1.0, math.nan, 1e-3],
    "dual_actions": ["last", 1],
    "score": ["last", 1],
    "target": ["fixed", 1],
    "normalize": [1, "yes", (True,), (True, False, True), (True, 2)],
    "seed": [-1, 2**64, 1.5, "a"],
    "verbose": ["a", math.nan],
}
CASES = [(name, value) for name, values in WRONG.items() for value in values]


@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{n}={v!r}"[:30] for n, v in CASES])
def test_a_parameter_that_is_wrong_is_named(name, value):
    networks = {"policy": "MlpPolicy", "n_features": None}
    settings = {"policy": "RbfPolicy", **SMALL}
    if name == "learning_rate" and value != 1e-3:
        settings |= networks
    with pytest.raises((InvalidInput, MemoryError), match=rf"\b{name}\b"):
        SBEED(env=Counting, **settings | {name: value})


def test_parameters_that_contradict_each_other():
    with pytest.raises(InvalidInput, match="divergence and policy_step"):
        small(divergence=0.01, policy_step=0.1)
    with pytest.raises(InvalidInput, match="n_features: networks"):
        SBEED("MlpPolicy", Counting, **SMALL)
    with pytest.raises(InvalidInput, match="env is missing"):
        SBEED("RbfPolicy", None).predict([0.0])


@pytest.mark.parametrize(
    "settings",
    [
        {"form": "published"},
        {"form": "published", "policy": "MlpPolicy", "n_features": None},
        {"target": "moving", "learning_rate": 1e-3},
        {"dual_actions": "window", "score": "window", "window": 3, "trace": 1.0},
        {"target": "saddle", "dual_weight": 1.0},
        {"dual_weight": 0.0, "normalize": False},
        {"divergence": (0.02, 0.01), "n_features": (64, 128, 64)},
    ],
)
def test_every_form_learns(settings):
    settings = {"policy": "RbfPolicy", **SMALL, **settings}
    model = SBEED(env=lambda: Bandit(None, spaces.Box(-1, 1, (1,))), **settings).learn(80)
    assert np.isfinite(model.values([5, 6, 7])).all()


LOG = {
    "states": np.zeros((6, 2)),
    "actions": np.arange(6) % 2,
    "rewards": np.ones(6),
    "next_states": np.zeros((6, 2)),
    "terminals": np.zeros(6, bool),
    "truncations": np.zeros(6, bool),
    "log_probabilities": np.zeros(6),
}
WRONG_LOGS = [
    *((name, value[:-1]) for name, value in LOG.items()),
    *((name, None) for name in list(LOG)[:5]),
    ("states", np.full((6, 2), np.nan)),
    ("states", [["a", "b"]] * 6),
    ("next_states", np.zeros((6, 3))),
    ("rewards", [np.nan] * 6),
    ("terminals", [2] * 6),
    ("actions", [-1] * 6),
    ("log_probabilities", [0.5] * 6),
    ("updates", 0),
]


@pytest.mark.parametrize(("name", "value"), WRONG_LOGS)
def test_logs_that_are_wrong(name, value):
    model = SBEED("RbfPolicy", None, n_features=64, seed=0)
    with pytest.raises(ValueError, match=rf"{name}|observations|action\b|next_states"):
        model.fit(**LOG | {name: value}, **{} if name == "updates" else {"updates": 1})
    if name != "actions":
        model.fit(**LOG, updates=1)


def test_what_ended_was_not_cut_short():
    model = SBEED("RbfPolicy", None, n_features=64, seed=0)
    both = np.arange(6) == 4
    with pytest.raises(
        InvalidInput, match="every row of truncations is true in terminals too, row 4"
    ):
        model.fit(**LOG | {"terminals": both, "truncations": both}, updates=1)
    # One that ended at its time limit, beside one that was cut short, ended.
    cut, more = np.arange(6) == 1, LOG | {"terminals": both}
    found = [
        SBEED("RbfPolicy", None, n_features=64, seed=0).fit(
            **more | {"truncations": cuts}, updates=1
        )
        for cuts in (cut, cut | both)
    ]
    assert found[0]._agent.to_bytes() == found[1]._agent.to_bytes()


def test_densities_may_be_above_one_and_probabilities_may_not():
    given = LOG | {"log_probabilities": np.log([0.5, 0.5, 2.0, 0.5, 0.5, 0.5])}
    model = SBEED("RbfPolicy", None, n_features=64, seed=0)
    for _ in range(2):  # before the space of the actions is known, and after
        with pytest.raises(InvalidInput, match=r"0\.693147 at row 2.* give np\.log\(prob"):
            model.fit(**given, updates=1)
        model.fit(**LOG, updates=1)
    quantities = SBEED("RbfPolicy", None, n_features=64, seed=0)
    quantities.fit(**given | {"actions": np.linspace(-0.5, 0.5, 6)}, updates=1)


def test_the_last_update_of_a_log_has_the_last_deviation():
    for updates in (1, 3):
        model = SBEED("RbfPolicy", None, n_features=64, seed=0, last_log_std=-1.5)
        model.fit(**LOG | {"actions": np.linspace(-0.5, 0.5, 6)}, updates=updates)
        assert max(model._agent.summary()["log_std"]) <= -1.5


@pytest.mark.parametrize("actions", [np.arange(6) % 2 * 1.0, (np.arange(6) % 2)[:, None]])
def test_numbers_of_actions_that_look_like_quantities_are_warned_of(actions):
    model = SBEED("RbfPolicy", None, n_features=64, seed=0)
    with pytest.warns(UserWarning, match=r"taken for quantities; .* the integers 0, 1, 2") as told:
        model.fit(**LOG | {"actions": actions}, updates=1)
    assert told[0].filename == __file__
    assert isinstance(model.action_space, spaces.Box)
    # Where a space says what they are, and where they are quantities, there is nothing to say.
    model.fit(**LOG | {"actions": actions}, updates=1)
    quantities = SBEED("RbfPolicy", None, n_features=64, seed=0)
    quantities.fit(**LOG | {"actions": actions + 0.5}, updates=1)


# What users read.

DOCUMENTED = {
    "gamma": 0.99,
    "window": 200,
    "trace": 0.95,
    "temperature": 0.001,
    "dual_weight": 0.1,
    "buffer_size": 4_000,
    "iterations": 2,
    "divergence": (0.01, 0.001),
    "most_ratio": 2.0,
    "log_std": (-0.5, -1.5, 0.0),
    "last_log_std": -1.5,
    "n_features": (128, 192, 128),
    "dual_actions": "first",
    "score": "first",
    "target": "frozen",
}


def test_defaults_are_those_of_the_documentation():
    plain = SBEED("RbfPolicy", Counting, seed=0)
    told = SBEED("RbfPolicy", Counting, seed=0, **DOCUMENTED)
    assert plain._agent.to_bytes() == told._agent.to_bytes()
    text = re.sub(r"(\d),(\d{3})", r"\1\2", inspect.getdoc(SBEED))
    for name, value in DOCUMENTED.items():
        entry = text.split(f"\n{name} : ")[1].split(" : ")[0]
        shown = re.escape(str(value).replace(".0", ""))
        assert re.search(rf"{shown}\b|{shown}\.|{shown};", entry.replace(".0", "")), name


def test_its_example_says_what_it_says():
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for example in finder.find(SBEED, "SBEED"):
        assert runner.run(example).failed == 0
    assert runner.tries == 4


def test_every_parameter_is_described_with_its_default():
    parameters = inspect.signature(SBEED).parameters
    assert sorted(section(SBEED, "Parameters")) == sorted(parameters)
    text = inspect.getdoc(SBEED)
    for name, parameter in parameters.items():
        assert parameter.annotation is not parameter.empty
        if name in ("policy", "env"):
            continue
        assert parameter.kind is parameter.KEYWORD_ONLY
        line = re.search(rf"^{name} : (.+)$", text, flags=re.MULTILINE)[1]
        stated = re.search(r"default=(.+)$", line)
        assert (eval(stated[1]) if stated else None) == parameter.default, name
    public = {name for name in vars(small()) if not name.startswith("_")}
    described = set(re.findall(r"\w+", text.split("Attributes\n")[1].split("Examples\n")[0]))
    assert {"num_timesteps", "episodes_", "observation_space", "action_space"} <= described & public
    for name in ("learn", "fit", "predict", "save", "load", "set_env"):
        method = getattr(SBEED, name)
        described = section(method, "Parameters")
        own = [p for p in inspect.signature(method).parameters if p not in ("self", "state")]
        assert [p for p in own if p not in ("episode_start",)] == [
            p for p in described if p not in ("state", "episode_start")
        ], name
