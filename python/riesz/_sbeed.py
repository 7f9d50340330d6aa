"""Control by smoothed Bellman error embedding."""

import json
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riesz._arguments import count, flag, level, number, seed_of, shown
from riesz._callbacks import Callback, Journal, as_callback
from riesz._errors import InvalidInput
from riesz._lanes import (
    Lanes,
    action_bounds,
    lanes_of,
    observation_columns,
    one_or_many,
    rows_of,
)
from riesz._riesz import Agent
from riesz._transitions import finite_of, flags_of, logged, table_of

# Where each parameter stands among the settings.
_PLACES = {
    "gamma": "horizon.discount",
    "window": "horizon.steps",
    "trace": "horizon.trace",
    "temperature": "smoothing.temperature",
    "dual_weight": "smoothing.dual_weight",
    "damping": "damping",
    "dual_actions": "dual_actions",
    "score": "score",
    "target": "target",
    "most_ratio": "most_ratio",
    "iterations": "iterations",
    "buffer_size": "capacity",
}
# What the compiled part calls what has another name here.
_NAMES = {"discount": "gamma", "steps": "window", "block_size": "n_features"}
_POLICIES = ("RbfPolicy", "MlpPolicy")


class SBEED:
    """A policy for a Gymnasium environment, by smoothed Bellman error embedding.

    SBEED looks for the value function V and the policy that satisfy the entropy-smoothed Bellman
    equation ``V(s) = R(s, a) + gamma E[V(s')] - temperature log pi(a|s)`` for every state and
    action, so that steps of any policy can be learnt from, by ``min over V, pi of max over rho of
    E[(delta - V(s))^2] - dual_weight E[(delta - rho(s, a))^2]`` with
    ``delta = R + gamma V(s') - temperature log pi(a|s)``. The methods are those that users of
    Stable-Baselines3 know, and its `evaluate_policy` and callbacks work with it.

    Parameters
    ----------
    policy : {"RbfPolicy", "MlpPolicy"}
        Whether policy, V and rho are linear in random Fourier features and the columns of the
        state, or networks of two tanh layers of 64.
    env : str, gymnasium.Env, gymnasium.vector.VectorEnv, callable or None
        The environment: a name or a function, of which `n_envs` are made; an environment; or
        None, to learn from logged steps with :meth:`fit`.
    gamma : float, optional
        The discount.
    window : int, optional
        Steps that delta looks ahead.
    trace : float, optional
        Weight of eligibility traces within a window; 1 is the form of so many steps.
    temperature : float, optional
        The weight of the entropy, in units of the deviation of the return.
    dual_weight : float, optional
        How much of the variance of delta the dual function rho takes away, from 0 (path
        consistency learning) to 1 (exact, also where transitions are random).
    n_steps : int, optional
        Steps of each environment between two updates.
    n_envs : int, default=10
        Environments that are made where `env` is a name or a function.
    buffer_size : int, optional
        Steps that are remembered.
    iterations : int, optional
        Iterations of an update: V, rho, and a step of the policy.
    divergence : float or (float, float), optional
        How far a step of the policy may go, in Kullback-Leibler divergence; from the first number
        at the start of learning to the second at its end.
    policy_step : float, optional
        A fixed number of natural gradients in place of `divergence`, as published.
    most_ratio : float, optional
        The most that a step counts for being likelier under the policy than when it was taken.
    log_std : (float, float, float), optional
        Logarithm of the standard deviation of actions at first, and its bounds.
    n_features : int or (int, int, int), optional
        Random features of policy, V and rho, multiples of 64.
    damping : float, optional
        Added to the Fisher information of the policy.
    learning_rate : float, optional
        Adam's, for networks.
    dual_actions : {"first", "window"}, optional
        Whether rho looks at the first action of a window, which is exact, or at all, as published.
    score : {"first", "window"}, optional
        Whether the policy answers for the first action of a window, or for all, as published.
    target : {"frozen", "moving", "saddle"}, optional
        Whether V is regressed on delta with V(s') as it was, follows the published gradient, or is
        solved for at the saddle point.
    normalize : bool or (bool, bool), default=True
        Whether observations are standardised, and rewards divided by the deviation of the return.
    form : {"stabilised", "published"}, default="stabilised"
        Which settings those not given are: the recipe that was measured best, or the thesis's.
    seed : int, optional
        The seed of everything; random unless given.
    tensorboard_log : path, optional
        A folder for TensorBoard, which must be installed.
    n_jobs : int, optional
        Threads; all cores unless given.
    verbose : int, default=0
        1 prints a table after every tenth update, 2 after every one.

    Attributes
    ----------
    num_timesteps : int
        Steps taken so far.
    observation_space, action_space : gymnasium.spaces.Space
        Those of the environment.
    episodes_ : list of (int, float, int)
        Steps so far, return and length of every finished episode of the last `learn`.

    Examples
    --------
    >>> from riesz import SBEED
    >>> model = SBEED("RbfPolicy", "CartPole-v1", seed=0).learn(10_000)
    >>> action, _ = model.predict([0.0, 0.0, 0.1, 0.0], deterministic=True)
    >>> int(action)
    1
    """

    def __init__(
        self,
        policy: str,
        env: Any,
        *,
        gamma: float | None = None,
        window: int | None = None,
        trace: float | None = None,
        temperature: float | None = None,
        dual_weight: float | None = None,
        n_steps: int | None = None,
        n_envs: int = 10,
        buffer_size: int | None = None,
        iterations: int | None = None,
        divergence: float | tuple[float, float] | None = None,
        policy_step: float | None = None,
        most_ratio: float | None = None,
        log_std: tuple[float, float, float] | None = None,
        n_features: int | tuple[int, int, int] | None = None,
        damping: float | None = None,
        learning_rate: float | None = None,
        dual_actions: str | None = None,
        score: str | None = None,
        target: str | None = None,
        normalize: bool | tuple[bool, bool] = True,
        form: str = "stabilised",
        seed: int | None = None,
        tensorboard_log: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        given = dict(locals())
        for name in ("self", "env", "tensorboard_log", "n_jobs", "verbose", "seed"):
            del given[name]
        self.verbose = level("verbose", verbose)
        self.n_jobs = n_jobs
        self.tensorboard_log = tensorboard_log
        self._begin(given, seed_of(seed))
        if env is not None:
            self.set_env(env)

    def _begin(self, given: dict[str, Any], seed: int) -> None:
        self._given, self.seed = given, seed
        if given["policy"] not in _POLICIES:
            raise InvalidInput(f"policy = {shown(given['policy'])} is not one of {', '.join(_POLICIES)}")
        self._changes = _changes(given)
        self._n_steps = None if given["n_steps"] is None else count("n_steps", given["n_steps"], 1)
        self._agent: Agent | None = None
        self._lanes: Lanes | None = None
        self._observations: NDArray[np.float32] | None = None
        self.num_timesteps, self._resets, self._predictions = 0, 0, 0
        self.episodes_: list[tuple[int, float, int]] = []
        self.logger = Journal(self.tensorboard_log, self.verbose)

    # What Stable-Baselines3 asks of a model.

    def get_env(self) -> Any:
        """Return the environment, or the first of those that were made."""
        return None if self._lanes is None else self._lanes.env

    def get_vec_normalize_env(self) -> None:
        """Return None: what is normalised is so within the model."""

    def set_env(self, env: Any) -> None:
        """Learn in another environment, with the same observations and actions."""
        lanes = lanes_of(env, self._given["n_envs"])
        self._set_spaces(lanes.observation_space, lanes.action_space, lanes.n_envs)
        self._lanes, self._observations = lanes, None

    def _set_spaces(self, observations: Any, actions: Any, environments: int) -> None:
        columns, bounds = observation_columns(observations), action_bounds(actions)
        if self._agent is None:
            changes = {**self._changes, "environments": environments}
            self._agent = self._new(columns, bounds, changes)
        summary = self._agent.summary()
        own = summary.get("box", summary.get("discrete"))
        if summary["columns"] != columns or tuple(own) != tuple(bounds):
            raise InvalidInput(
                f"env: the model has observations of {summary['columns']} numbers and actions"
                f" {own}, the environment {columns} and {bounds}"
            )
        if summary["environments"] != environments:
            raise InvalidInput(
                f"env: the model learns from {summary['environments']} environments side by side,"
                f" here are {environments}"
            )
        self.observation_space, self.action_space = observations, actions

    def _new(self, columns: int, bounds: Any, changes: dict[str, Any]) -> Agent:
        try:
            return Agent(self._given["form"], columns, bounds, self.seed, json.dumps(changes))
        except InvalidInput as error:
            text = str(error)
            for own, name in _NAMES.items():
                text = text.replace(f"{own} =", f"{name} =")
            raise InvalidInput(text) from None

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = None,
        tb_log_name: str = "SBEED",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100_000,
    ) -> "SBEED":
        """Act in the environment and learn from it.

        Parameters
        ----------
        total_timesteps : int
            Steps to take, over all environments; some more, to the end of the last update.
        callback : callable, callback of Stable-Baselines3 or list of them, optional
            Called after every step of all environments; learning ends where it returns False.
        log_interval : int, optional
            Updates between two entries of the log.
        tb_log_name : str, default="SBEED"
            The name of the run in TensorBoard.
        reset_num_timesteps : bool, default=True
            Whether steps are counted from zero; else the call goes on where the last ended.
        progress_bar : bool, default=False
            Whether a bar is shown.
        checkpoint : path, optional
            A file to go on from where it exists; removed in the end. At a checkpoint every
            environment begins an episode anew, so that a run that was interrupted and goes on
            learns the same to the last bit.
        checkpoint_every : int, default=100_000
            Steps between two checkpoints.

        Returns
        -------
        self
        """
        if self._lanes is None or self._agent is None:
            raise InvalidInput("env is missing: give one to SBEED or set_env, or use fit")
        most = count("total_timesteps", total_timesteps, 1)
        every = count("checkpoint_every", checkpoint_every, 1)
        if reset_num_timesteps:
            self.num_timesteps, self.episodes_ = 0, []
        else:
            most += self.num_timesteps
        first = self.num_timesteps
        if checkpoint is not None and os.path.exists(checkpoint):
            self._resume(checkpoint, most)
        told = as_callback(callback, self)
        self.logger.begin(tb_log_name, most, log_interval, flag("progress_bar", progress_bar))
        told.training_start(locals(), globals())
        try:
            self._learn(most, first, told, checkpoint, every)
        except BaseException:
            self._agent.break_off()  # and the environments begin anew when learning goes on
            self._observations = None
            raise
        finally:
            self.logger.close()
        told.training_end()
        if checkpoint is not None and os.path.exists(checkpoint):
            os.remove(checkpoint)
        return self

    def _learn(
        self, most: int, first: int, told: Callback, checkpoint: Any, every: int
    ) -> None:
        assert self._agent is not None
        saved = self.num_timesteps
        while self.num_timesteps < most:
            if not self._collect(told):
                return
            behind = min(1.0, (self.num_timesteps - first) / max(1, most - first))
            facts = self._agent.learn(behind, n_jobs=self.n_jobs)
            self._log(facts)
            if checkpoint is not None and self.num_timesteps - saved >= every and self.num_timesteps < most:
                saved = self.num_timesteps
                self._agent.break_off()
                self._observations = None
                self._agent.save(checkpoint, json.dumps(self._note(most)))

    def _collect(self, told: Callback) -> bool:
        """Take the steps of one update; return whether to go on."""
        assert self._lanes is not None and self._agent is not None
        lanes, agent = self._lanes, self._agent
        if self._observations is None:
            self._observations = lanes.reset(self._seeds(lanes.n_envs))
        told.rollout_start()
        steps = self._n_steps or max(1, 2_000 // lanes.n_envs)
        going_on = True
        for _ in range(steps):
            drawn, logs, taken = agent.act(self._observations)
            step, now = lanes.step(self._as_actions(taken))
            rows = step.environments
            whole = len(rows) == lanes.n_envs
            agent.observe(
                rows,
                self._observations if whole else np.ascontiguousarray(self._observations[rows]),
                drawn if whole else np.ascontiguousarray(drawn[rows]),
                logs if whole else np.ascontiguousarray(logs[rows]),
                *(step.rewards, step.next_observations, step.terminated, step.truncated),
            )
            self._observations = now
            self.num_timesteps += len(rows)
            going_on = told.step(locals())
            if not going_on:
                break
        told.rollout_end()
        return going_on

    def _seeds(self, environments: int) -> list[int]:
        """Return the seeds of one beginning of all environments."""
        sequence = np.random.SeedSequence([self.seed & 0xFFFFFFFF, self.seed >> 32, self._resets])
        self._resets += 1
        return [int(word) >> 1 for word in sequence.generate_state(environments)]

    def _as_actions(self, taken: NDArray[np.float64]) -> NDArray[Any]:
        """Return actions as the space of the environment has them, a row for each observation."""
        space = self.action_space
        if not space.shape:
            return taken[:, 0].astype(space.dtype)
        rows = taken.reshape(-1, *space.shape).astype(space.dtype)
        return np.clip(rows, space.low, space.high)

    def _log(self, facts: list[dict[str, float]]) -> None:
        assert self._lanes is not None and self._agent is not None
        ended = self._lanes.episodes()
        self.episodes_ += [(self.num_timesteps, total, length) for total, length in ended]
        if ended:
            self.logger.record("rollout/ep_rew_mean", float(np.mean([total for total, _ in ended])))
            self.logger.record("rollout/ep_len_mean", float(np.mean([size for _, size in ended])))
        for name, value in facts[-1].items():
            self.logger.record(f"train/{name}", value)
        deviations = self._agent.summary()["log_std"]
        if deviations is not None:
            self.logger.record("train/std", float(np.exp(deviations).mean()))
        self.logger.updated(self.num_timesteps)

    def predict(
        self,
        observation: ArrayLike,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """Return actions for one observation or a batch, and the `state` as it was given.

        Parameters
        ----------
        observation : array-like
            An observation of the space, or several along a first axis.
        state, episode_start : object, optional
            Those of recurrent policies, which this is not.
        deterministic : bool, default=False
            Whether the likeliest action is taken in place of a draw.
        """
        agent = self._known()
        rows = rows_of(self.observation_space, observation)
        draw = None
        if not flag("deterministic", deterministic):
            draw, self._predictions = self._predictions, self._predictions + 1
        actions = self._as_actions(agent.predict(rows, draw))
        return (actions[0] if one_or_many(self.observation_space, observation) else actions), state

    def values(self, observations: ArrayLike) -> NDArray[np.float64]:
        """Return V of observations, in the units of the rewards."""
        return self._known().values(rows_of(self.observation_space, observations))

    def _known(self) -> Agent:
        if self._agent is None:
            raise InvalidInput("env is missing: the model has neither seen one nor logged steps")
        return self._agent

    def fit(
        self,
        states: Any,
        actions: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        next_states: ArrayLike | None = None,
        terminals: ArrayLike | None = None,
        truncations: ArrayLike | None = None,
        *,
        log_probabilities: ArrayLike | None = None,
        updates: int = 100,
    ) -> "SBEED":
        """Learn from logged steps, in their order, without an environment.

        Parameters
        ----------
        states : array-like of shape (n, d), or Minari data set
            Observations; a data set holds all that follows.
        actions : array-like of shape (n,) or (n, p)
            Actions that were taken: whole numbers, or columns of numbers.
        rewards : array-like of shape (n,)
            Rewards.
        next_states : array-like of shape (n, d)
            Observations that followed.
        terminals : array-like of bool of shape (n,)
            Whether the task ended there, after which nothing is earned.
        truncations : array-like of bool of shape (n,), optional
            Whether the log breaks off there without the task's end, as at a time limit.
        log_probabilities : array-like of shape (n,), optional
            Log-densities of the actions under the policy that took them, in units in which the
            bounds of actions are -1 and 1.
        updates : int, default=100
            Updates, each of `iterations` iterations over all steps.

        Returns
        -------
        self
        """
        if hasattr(states, "iterate_episodes"):
            log = logged(states)
            return self.fit(**log, log_probabilities=log_probabilities, updates=updates)
        rows = np.ascontiguousarray(table_of("states", states), dtype=np.float32)
        following = np.ascontiguousarray(table_of("next_states", next_states), dtype=np.float32)
        taken = table_of("actions", actions).astype(np.float64)
        ends = flags_of("terminals", terminals)
        cut = np.zeros_like(ends) if truncations is None else flags_of("truncations", truncations)
        self._set_logged(rows, np.asarray(actions), taken)
        agent = self._known()
        logs = None if log_probabilities is None else finite_of("log_probabilities", log_probabilities)
        drawn = agent.drawn(np.ascontiguousarray(taken))
        agent.observe(
            [0] * len(rows), rows, drawn, logs, finite_of("rewards", rewards), following, ends, cut
        )
        agent.break_off()
        every = count("updates", updates, 1)
        for update in range(every):
            agent.learn(update / every, n_jobs=self.n_jobs)
        return self

    def _set_logged(self, rows: NDArray[Any], actions: NDArray[Any], taken: NDArray[Any]) -> None:
        """Make an agent for logged steps where there is none: spaces are those of the log."""
        from gymnasium import spaces

        if self._agent is not None:
            return
        self.observation_space = spaces.Box(-np.inf, np.inf, (rows.shape[1],))
        if actions.ndim == 1 and actions.dtype.kind in "iub":
            self.action_space = spaces.Discrete(max(2, int(actions.max(initial=0)) + 1))
        else:
            low, high = taken.min(axis=0), taken.max(axis=0)
            self.action_space = spaces.Box(low, np.maximum(high, low + 1e-6), dtype=np.float64)
        self._changes.setdefault("capacity", max(len(rows), 1))
        self._set_spaces(self.observation_space, self.action_space, 1)

    def save(self, path: str | os.PathLike[str], *, replay: bool = False) -> None:
        """Write the model to a file.

        Parameters
        ----------
        path : path
            The file; it is written atomically.
        replay : bool, default=False
            Whether the steps that the model remembers are part of it, as learning goes on with.
        """
        agent = self._known()
        kept = agent if flag("replay", replay) else agent.without_replay()
        kept.save(path, json.dumps(self._note(self.num_timesteps)))

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None) -> "SBEED":
        """Read a model from a file; nothing in the file is executed.

        Parameters
        ----------
        path : path
            A file written by :meth:`save`, or a checkpoint.
        env : environment, optional
            To go on learning in.
        """
        agent, text = Agent.load(path)
        model = cls.__new__(cls)
        model.verbose, model.n_jobs, model.tensorboard_log = 0, None, None
        try:
            note = json.loads(text)
            model._begin(note["parameters"], int(note["seed"]))
            model._take(agent, note)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidInput(f"not a valid riesz file: {path}: {error!r}") from None
        if env is not None:
            model.set_env(env)
        return model

    def _note(self, most: int) -> dict[str, Any]:
        parameters = {name: _plain(value) for name, value in self._given.items()}
        return {
            "parameters": parameters,
            "seed": self.seed,
            "num_timesteps": self.num_timesteps,
            "total_timesteps": most,
            "resets": self._resets,
            "observations": _space_note(self.observation_space),
            "actions": _space_note(self.action_space),
        }

    def _take(self, agent: Agent, note: dict[str, Any]) -> None:
        """Go on with an agent from a file."""
        self._agent = agent
        self.num_timesteps, self._resets = int(note["num_timesteps"]), int(note["resets"])
        self.observation_space = _read_space(note["observations"])
        self.action_space = _read_space(note["actions"])

    def _resume(self, path: str | os.PathLike[str], most: int) -> None:
        agent, text = Agent.load(path)
        note = json.loads(text)
        own = self._note(most)
        names = ("parameters", "seed", "total_timesteps", "observations", "actions")
        differing = [name for name in names if note.get(name) != json.loads(json.dumps(own[name]))]
        if differing:
            raise InvalidInput(
                f"checkpoint = {os.fspath(path)} belongs to another run: {', '.join(differing)}"
                " differ; delete it or learn with the settings that wrote it"
            )
        self._take(agent, note)
        self._observations = None


def _changes(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given, by their places."""
    changes: dict[str, Any] = {}
    for name, place in _PLACES.items():
        value = given[name]
        if value is not None:
            whole = name in ("window", "iterations", "buffer_size")
            text = name in ("dual_actions", "score", "target")
            changes[place] = count(name, value) if whole else value if text else number(name, value)
    if given["divergence"] is not None:
        bounds = _numbers("divergence", given["divergence"], 2, repeat=True)
        changes["step"] = {"divergence": bounds}
    if given["policy_step"] is not None:
        changes["step"] = {"fixed": number("policy_step", given["policy_step"])}
    if given["log_std"] is not None:
        changes["log_deviation"] = _numbers("log_std", given["log_std"], 3)
    normalize = given["normalize"]
    pair = normalize if isinstance(normalize, tuple | list) else (normalize, normalize)
    if len(pair) != 2:
        raise InvalidInput(f"normalize = {shown(normalize)} should be one or two truth values")
    changes["standardised"] = [flag("normalize", each) for each in pair]
    parts = ("policy", "value.form", "dual.form")
    if given["policy"] == "MlpPolicy":
        changes |= {part: {"network": {"hidden": [64, 64]}} for part in parts}
    if given["n_features"] is not None:
        if given["policy"] == "MlpPolicy":
            raise InvalidInput("n_features: networks have none; they are those of RbfPolicy")
        sizes = _numbers("n_features", given["n_features"], 3, repeat=True)
        for part, size in zip(parts, sizes, strict=True):
            changes[f"{part}.features.count"] = count("n_features", int(size), 1)
    if given["learning_rate"] is not None:
        rate = number("learning_rate", given["learning_rate"])
        changes |= {f"{part}.descent.1": rate for part in ("value", "dual")}
    return changes


def _numbers(name: str, value: Any, size: int, *, repeat: bool = False) -> list[float]:
    if repeat and np.ndim(value) == 0:
        value = [value] * size
    if np.ndim(value) != 1 or len(value) != size:
        raise InvalidInput(f"{name} = {shown(value)} should be {size} numbers")
    return [number(name, each) for each in value]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value


def _space_note(space: Any) -> dict[str, Any]:
    """Return a space as values JSON knows; bounds of observations do not matter."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return {"n": int(space.n), "start": int(space.start)}
    bounds = [np.ravel(bound).astype(np.float64) for bound in (_low(space), _high(space))]
    finite = [np.clip(bound, -1e308, 1e308).tolist() for bound in bounds]
    return {"low": finite[0], "high": finite[1], "shape": list(space.shape), "dtype": space.dtype.name}


def _low(space: Any) -> NDArray[Any]:
    return space.low if hasattr(space, "low") else np.zeros(space.shape)


def _high(space: Any) -> NDArray[Any]:
    return space.high if hasattr(space, "high") else np.ones(space.shape)


def _read_space(note: dict[str, Any]) -> Any:
    from gymnasium import spaces

    if "n" in note:
        return spaces.Discrete(int(note["n"]), start=int(note["start"]))
    low, high = (np.array(note[bound]).reshape(note["shape"]) for bound in ("low", "high"))
    beyond = np.abs(low) >= 1e308
    low, high = np.where(beyond, -np.inf, low), np.where(np.abs(high) >= 1e308, np.inf, high)
    return spaces.Box(low, high, dtype=np.dtype(note["dtype"]).type)
