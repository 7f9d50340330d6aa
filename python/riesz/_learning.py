"""Learning in environments, in the manner of Stable-Baselines3."""

import json
import os
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from riesz._arguments import count, flag
from riesz._callbacks import Callback, Journal, as_callback
from riesz._errors import InvalidInput
from riesz._lanes import Lanes, lanes_of
from riesz._riesz import Agent
from riesz._saved import plain
from riesz._sbeed_settings import agent_of, changes
from riesz._spaces import action_bounds, as_actions, observation_columns, read_space, space_note

_Self = TypeVar("_Self", bound="Learning")

# Steps of all environments between two updates, unless n_steps says how many of each.
_COLLECTED = 2_000
# Steps that are remembered at least, unless buffer_size says how many.
_REMEMBERED = 2 * _COLLECTED


class Learning:
    """An agent, the environments it acts in, and where both of them stand."""

    tensorboard_log: str | os.PathLike[str] | None = None
    verbose: int = 0
    n_jobs: int | None = None
    observation_space: Any
    action_space: Any

    def _begin(self, given: dict[str, Any], seed: int) -> None:
        self._given, self.seed = given, seed
        self._changes = changes(given)
        self._n_steps = None if given["n_steps"] is None else count("n_steps", given["n_steps"], 1)
        self._agent: Agent | None = None
        self._lanes: Lanes | None = None
        # Where the environments stand; None where they are to begin anew.
        self._observations: NDArray[np.float32] | None = None
        self.num_timesteps, self._resets, self._predictions = 0, 0, 0
        self.episodes_: list[tuple[int, float, int]] = []
        self.logger = Journal(self.tensorboard_log, self.verbose)

    def get_env(self) -> Any:
        """Return the environment, or the first of those that were made."""
        return None if self._lanes is None else self._lanes.env

    def get_vec_normalize_env(self) -> None:
        """Return None: what is normalised is so within the model."""

    def set_env(self, env: Any) -> None:
        """Learn in another environment, with the same observations and actions.

        Parameters
        ----------
        env : str, gymnasium.Env, gymnasium.vector.VectorEnv or callable
            The environment, or what as many of them as the model learns from are made by.
        """
        known = self._given["n_envs"]
        if self._agent is not None:
            known = self._agent.summary()["environments"]
        staggered = self._given.get("staggered")
        if staggered is None:
            staggered = self._given["form"] == "stabilised"
        lanes = lanes_of(env, known, staggered=flag("staggered", staggered))
        self._set_spaces(lanes.observation_space, lanes.action_space, lanes.n_envs)
        self._lanes, self._observations = lanes, None

    def _set_spaces(self, observations: Any, actions: Any, environments: int) -> None:
        columns, bounds = observation_columns(observations), action_bounds(actions)
        if self._agent is None:
            settings = {**self._changes, "environments": environments}
            if self._n_steps is not None and self._given["form"] == "stabilised":
                settings.setdefault("capacity", max(_REMEMBERED, 2 * self._n_steps * environments))
            self._agent = agent_of(self._given["form"], columns, bounds, self.seed, settings)
        summary = self._agent.summary()
        own: Any = summary.get("box", summary.get("discrete"))
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

    def _known(self) -> Agent:
        if self._agent is None:
            raise InvalidInput("env is missing: the model has neither seen one nor logged steps")
        return self._agent

    def learn(
        self: _Self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = None,
        tb_log_name: str = "SBEED",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100_000,
    ) -> _Self:
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
        if self._lanes is None:
            raise InvalidInput("env is missing: give one to SBEED or set_env, or use fit")
        most = count("total_timesteps", total_timesteps, 1)
        every = count("checkpoint_every", checkpoint_every, 1)
        interval = None if log_interval is None else count("log_interval", log_interval, 1)
        if reset_num_timesteps:
            self.num_timesteps, self.episodes_ = 0, []
        else:
            most += self.num_timesteps
        first = self.num_timesteps
        if checkpoint is not None and os.path.exists(checkpoint):
            self._resume(checkpoint, most)
        told = as_callback(callback, self)
        self.logger.begin(tb_log_name, most, interval, flag("progress_bar", progress_bar))
        try:
            told.training_start(locals(), globals())
            self._learn(most, first, told, checkpoint, every)
            told.training_end()
        except BaseException:
            self._observations = None  # who knows where the environments stand
            raise
        finally:
            self.logger.close()
        if checkpoint is not None and os.path.exists(checkpoint):
            os.remove(checkpoint)
        return self

    def _learn(self, most: int, first: int, told: Callback, checkpoint: Any, every: int) -> None:
        agent, saved = self._known(), self.num_timesteps
        while self.num_timesteps < most and self._collect(told):
            behind = min(1.0, (self.num_timesteps - first) / (most - first))
            self._log(agent.learn(behind, n_jobs=self.n_jobs)[-1])
            if checkpoint is not None and saved + every <= self.num_timesteps < most:
                saved, self._observations = self.num_timesteps, None
                agent.save(checkpoint, json.dumps(self._note(most)))

    def _collect(self, told: Callback) -> bool:
        """Take the steps of one update; return whether to go on."""
        assert self._lanes is not None
        lanes, agent = self._lanes, self._known()
        if self._observations is None:
            agent.break_off()
            self._observations = lanes.reset(self._seeds(lanes.n_envs))
        told.rollout_start()
        going_on = True
        for _ in range(self._n_steps or max(1, _COLLECTED // lanes.n_envs)):
            drawn, logs, taken = agent.act(self._observations)
            step, now = lanes.step(as_actions(self.action_space, taken))
            rows, rewards = step.environments, step.rewards
            dones = step.terminated | step.truncated
            agent.observe(
                rows,
                np.ascontiguousarray(self._observations[rows]),
                np.ascontiguousarray(drawn[rows]),
                np.ascontiguousarray(logs[rows]),
                rewards,
                step.next_observations,
                step.terminated,
                step.truncated,
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

    def _log(self, facts: dict[str, float]) -> None:
        assert self._lanes is not None
        ended = self._lanes.episodes()
        self.episodes_ += [(self.num_timesteps, total, length) for total, length in ended]
        if ended:
            self.logger.record("rollout/ep_rew_mean", float(np.mean([total for total, _ in ended])))
            self.logger.record("rollout/ep_len_mean", float(np.mean([size for _, size in ended])))
        for name, value in facts.items():
            self.logger.record(f"train/{name}", value)
        deviations = self._known().summary()["log_std"]
        if deviations is not None:
            self.logger.record("train/std", float(np.exp(deviations).mean()))
        self.logger.updated(self.num_timesteps)

    # Files.

    def _note(self, most: int) -> dict[str, Any]:
        """Return where learning of so many steps stands, as values JSON knows."""
        return {
            "parameters": {name: _plain(value) for name, value in self._given.items()},
            "seed": self.seed,
            "num_timesteps": self.num_timesteps,
            "total_timesteps": most,
            "resets": self._resets,
            "observations": space_note(self.observation_space),
            "actions": space_note(self.action_space),
        }

    def _take(self, agent: Agent, note: dict[str, Any]) -> None:
        """Go on with an agent from a file, where it stood."""
        observations, actions = (read_space(note[name]) for name in ("observations", "actions"))
        summary = agent.summary()
        own: Any = summary.get("box", summary.get("discrete"))
        if (summary["columns"], *own) != (
            observation_columns(observations),
            *action_bounds(actions),
        ):
            raise ValueError("spaces of other columns than the model's")
        self.observation_space, self.action_space = observations, actions
        self.num_timesteps, self._resets = int(note["num_timesteps"]), int(note["resets"])
        self._agent, self._observations = agent, None

    def _resume(self, path: str | os.PathLike[str], most: int) -> None:
        agent, text = Agent.load(path)
        note, own = json.loads(text), self._note(most)
        names = ("parameters", "seed", "total_timesteps", "observations", "actions")
        differing = [name for name in names if note.get(name) != own[name]]
        if differing:
            raise InvalidInput(
                f"checkpoint = {os.fspath(path)} belongs to another run: {', '.join(differing)}"
                " differ; delete it or learn with the settings that wrote it"
            )
        self._take(agent, note)


def _plain(value: Any) -> Any:
    return [plain(each) for each in value] if isinstance(value, tuple | list) else plain(value)
