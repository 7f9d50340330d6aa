"""Environments of Gymnasium side by side."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from riesz._arguments import count, shown
from riesz._errors import InvalidInput
from riesz._spaces import Rows, rows_of

# Most environments side by side that an agent has room for.
_MOST = 1 << 16


class Step(NamedTuple):
    """What a step led to, a row for each environment that took one."""

    environments: list[int]
    next_observations: Rows
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class Lanes(Protocol):
    """Environments that are stepped together."""

    observation_space: Any
    action_space: Any
    n_envs: int
    env: Any

    def reset(self, seeds: Sequence[int]) -> Rows:
        """Begin episodes anew, with a seed for each environment."""

    def step(self, actions: NDArray[Any]) -> tuple[Step, Rows]:
        """Take a step; return what it led to, and the observations to act on next."""

    def episodes(self) -> list[tuple[float, int]]:
        """Return sums of rewards and lengths of episodes that have ended since the last call."""


def lanes_of(env: Any, n_envs: int, *, staggered: bool) -> Lanes:
    """Return the environments that a user means.

    Those that are made here break their first episodes off at different times where `staggered`.
    """
    try:
        import gymnasium
        from gymnasium.vector import VectorEnv
    except ImportError as error:
        raise ImportError(f"SBEED needs Gymnasium: pip install gymnasium ({error})") from error
    if isinstance(env, VectorEnv):
        return _Vector(env)
    if isinstance(env, gymnasium.Env):
        return _Singles([env])
    if hasattr(env, "step_async") and hasattr(env, "num_envs"):
        return _StableBaselines(env)
    if count("n_envs", n_envs, 1) > _MOST:
        raise InvalidInput(f"n_envs = {shown(n_envs)} is outside [1, 2^16]")
    if isinstance(env, str):
        try:
            return _Singles([gymnasium.make(env) for _ in range(n_envs)], staggered=staggered)
        except gymnasium.error.Error as error:
            raise InvalidInput(f"env = {shown(env)}: {error}") from None
    if callable(env):
        return _Singles([env() for _ in range(n_envs)], staggered=staggered)
    raise InvalidInput(
        f"env = {shown(env)} should be the name of an environment, a gymnasium.Env or VectorEnv, a"
        " VecEnv of Stable-Baselines3, or a function that makes one"
    )


class _Counted:
    """Sums of rewards and lengths of episodes."""

    def __init__(self, n_envs: int) -> None:
        self._sums, self._lengths = np.zeros(n_envs), np.zeros(n_envs, dtype=np.int64)
        self._ended: list[tuple[float, int]] = []

    def begin(self) -> None:
        self._sums[:], self._lengths[:] = 0, 0

    def count(self, environments: list[int], rewards: Any, ended: Any) -> None:
        for i, reward, end in zip(environments, rewards, ended, strict=True):
            self._sums[i] += reward
            self._lengths[i] += 1
            if end:
                self._ended.append((float(self._sums[i]), int(self._lengths[i])))
                self.forget(i)

    def forget(self, i: int) -> None:
        self._sums[i], self._lengths[i] = 0, 0

    def episodes(self) -> list[tuple[float, int]]:
        ended, self._ended = self._ended, []
        return ended


class _Singles(_Counted):
    """Single environments, one after the other.

    Where episodes have a time limit and they are `staggered`, the first of environment i is broken
    off after i/n of it, i = 1, ..., n - 1: else episodes that all last as long would begin together
    for good, and most updates see no beginning at all.
    """

    def __init__(self, environments: list[Any], *, staggered: bool = False) -> None:
        super().__init__(len(environments))
        self._environments = environments
        self.env = environments[0]
        self.observation_space = self.env.observation_space
        self.action_space = self.env.action_space
        self.n_envs = len(environments)
        # Steps until the first episode of each is broken off; none where zero.
        self._first = [0] * self.n_envs
        for i, env in enumerate(environments[:-1] if staggered else []):
            limit = getattr(getattr(env, "spec", None), "max_episode_steps", None) or 0
            self._first[i] = (i + 1) * limit // self.n_envs
        self._left = [0] * self.n_envs

    def reset(self, seeds: Sequence[int]) -> Rows:
        self.begin()
        self._left = list(self._first)
        pairs = zip(self._environments, seeds, strict=True)
        return self._rows([env.reset(seed=seed)[0] for env, seed in pairs])

    def step(self, actions: NDArray[Any]) -> tuple[Step, Rows]:
        following: list[Any] = []
        now: list[Any] = []
        results: list[tuple[float, bool, bool, bool]] = []
        for i, (env, action) in enumerate(zip(self._environments, actions, strict=True)):
            seen, reward, terminated, truncated, _ = env.step(action)
            following.append(seen)
            ended = bool(terminated or truncated)
            self._left[i] = 0 if ended else self._left[i] - 1
            broken = not ended and self._left[i] == 0
            results.append((float(reward), bool(terminated), bool(truncated), broken))
            now.append(env.reset()[0] if ended or broken else seen)
        rewards, ends, cuts, broken_all = map(np.array, zip(*results, strict=True))
        environments = list(range(self.n_envs))
        self.count(environments, rewards, ends | cuts)
        for place in np.flatnonzero(broken_all):
            self.forget(int(place))
        step = Step(environments, self._rows(following), rewards, ends, cuts | broken_all)
        return step, self._rows(now)

    def _rows(self, observations: list[Any]) -> Rows:
        return rows_of(self.observation_space, observations)


class _Vector(_Counted):
    """A vector environment of Gymnasium, whichever way it begins episodes anew."""

    def __init__(self, env: Any) -> None:
        from gymnasium.vector import AutoresetMode

        super().__init__(env.num_envs)
        self.env = env
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self.n_envs = env.num_envs
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        if mode == AutoresetMode.DISABLED:
            raise InvalidInput("env: its autoreset_mode is DISABLED; make it with another")
        self._later = mode == AutoresetMode.NEXT_STEP
        self._ended_before = np.zeros(self.n_envs, dtype=bool)

    def reset(self, seeds: Sequence[int]) -> Rows:
        self.begin()
        self._ended_before[:] = False
        # One seed for all: not every vector environment takes one for each.
        return rows_of(self.observation_space, self.env.reset(seed=seeds[0])[0])

    def step(self, actions: NDArray[Any]) -> tuple[Step, Rows]:
        seen, rewards, terminated, truncated, info = self.env.step(actions)
        now = rows_of(self.observation_space, seen)
        following = now.copy()
        ended = np.asarray(terminated) | np.asarray(truncated)
        if not self._later and ended.any():
            final = info["final_obs"]
            for i in np.flatnonzero(ended):
                following[i] = rows_of(self.observation_space, final[i])[0]
        # With NEXT_STEP the step after an end begins an episode, whatever the action: it is none.
        taken = np.flatnonzero(~self._ended_before).tolist()
        if self._later:
            self._ended_before = ended
        columns = (np.asarray(rewards, dtype=np.float64), terminated, truncated)
        kept = [np.ascontiguousarray(np.asarray(column)[taken]) for column in columns]
        self.count(taken, kept[0], ended[taken])
        return Step(taken, np.ascontiguousarray(following[taken]), *kept), now


class _StableBaselines(_Counted):
    """A vector environment of Stable-Baselines3, which begins episodes anew in the same step."""

    def __init__(self, env: Any) -> None:
        super().__init__(env.num_envs)
        self.env = env
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.n_envs = env.num_envs

    def reset(self, seeds: Sequence[int]) -> Rows:
        self.begin()
        self.env.seed(seeds[0])
        return rows_of(self.observation_space, self.env.reset())

    def step(self, actions: NDArray[Any]) -> tuple[Step, Rows]:
        seen, rewards, dones, infos = self.env.step(actions)
        now = rows_of(self.observation_space, seen)
        following, truncated = now.copy(), np.zeros(self.n_envs, dtype=bool)
        for i in np.flatnonzero(dones):
            following[i] = rows_of(self.observation_space, infos[i]["terminal_observation"])[0]
            truncated[i] = infos[i].get("TimeLimit.truncated", False)
        everyone = list(range(self.n_envs))
        terminated = np.asarray(dones, dtype=bool) & ~truncated
        self.count(everyone, rewards, dones)
        earned = np.asarray(rewards, dtype=np.float64)
        return Step(everyone, following, earned, terminated, truncated), now
