"""The environments of riesz for Gymnasium, which this module needs.

``gymnasium.make`` and ``gymnasium.make_vec`` know them as ``riesz/Navigation-v0``,
``riesz/CartPoleSwingUp-v0`` and ``riesz/Puma560-v0`` once riesz has been imported.

Observations are states in double precision, and the tasks have no end: ``terminated`` is always
false, and an episode is truncated after 200 steps. `riesz.Environment` has the policies that are
evaluated, independent transitions and values.
"""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from riesz._arguments import shown
from riesz._environment import Environment, numbers_of, whole
from riesz._errors import InvalidInput
from riesz._registration import STEPS

__all__ = [
    "CartPoleSwingUp",
    "CartPoleSwingUpVector",
    "Navigation",
    "NavigationVector",
    "Puma560",
    "Puma560Vector",
]


class _Single(gymnasium.Env[NDArray[np.float64], NDArray[np.float64]]):
    """One row of an environment."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's declaration)
    _name: ClassVar[str]

    def __init__(self) -> None:
        self._environment = Environment(self._name, n_jobs=1)
        self.observation_space, self.action_space = _spaces(self._environment)
        self._states: NDArray[np.float64] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return a first state; a seed decides about it and about all noise that follows."""
        _without(options)
        super().reset(seed=seed)
        self._seed, self._step = _drawn(self.np_random), 0
        self._states = self._environment.reset(1, seed=self._seed)
        return self._states[0].copy(), {}

    def step(
        self, action: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Return the next state, the reward of this one, and that neither is an end."""
        if self._states is None:
            raise ResetNeeded("step was called before reset")
        taken = _shaped("action", action, self.action_space.shape)[np.newaxis]
        self._states, rewards, terminated = self._environment.step(
            self._states, taken, seed=self._seed, step=self._step
        )
        self._step += 1
        return self._states[0].copy(), float(rewards[0]), bool(terminated[0]), False, {}


class _Many(VectorEnv[NDArray[np.float64], NDArray[np.float64], NDArray[Any]]):
    """Many rows of an environment, each of which begins anew in the step after its last.

    Parameters
    ----------
    num_envs : int, default=1
        Rows.
    max_episode_steps : int, default=200
        Steps after which an episode is truncated.
    n_jobs : int, optional
        Threads; all cores unless given.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium's declaration)
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }
    _name: ClassVar[str]

    def __init__(
        self, num_envs: int = 1, max_episode_steps: int = STEPS, n_jobs: int | None = None
    ) -> None:
        self.num_envs = whole("num_envs", num_envs)
        self.max_episode_steps = whole("max_episode_steps", max_episode_steps)
        for name in ("num_envs", "max_episode_steps"):
            if getattr(self, name) == 0:
                raise InvalidInput(f"{name} = 0 should be at least 1")
        self._environment = Environment(self._name, n_jobs=n_jobs)
        self.single_observation_space, self.single_action_space = _spaces(self._environment)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._states: NDArray[np.float64] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return first states; a seed decides about them and about all noise that follows."""
        _without(options)
        super().reset(seed=seed)
        self._seed, self._step = _drawn(self.np_random), 0
        self._states = self._environment.reset(self.num_envs, seed=self._seed)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        return self._states.copy(), {}

    def step(
        self, actions: NDArray[np.float64]
    ) -> tuple[
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.bool_],
        NDArray[np.bool_],
        dict[str, Any],
    ]:
        """Return next states, rewards, terminations and truncations of all rows."""
        if self._states is None:
            raise ResetNeeded("step was called before reset")
        taken = _shaped("actions", actions, self.action_space.shape)
        states, rewards, terminated = self._environment.step(
            self._states, taken, seed=self._seed, step=self._step
        )
        self._step += 1
        self._lengths += 1
        truncated = self._lengths >= self.max_episode_steps
        if self._ended.any():
            begun = self._environment.reset(self.num_envs, seed=self._seed, episode=self._step)
            states[self._ended] = begun[self._ended]
            rewards[self._ended] = 0.0
            terminated[self._ended] = truncated[self._ended] = False
            self._lengths[self._ended] = 0
        self._states, self._ended = states, terminated | truncated
        return states.copy(), rewards, terminated, truncated, {}


def _spaces(environment: Environment) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    limits = environment.action_limits
    states = spaces.Box(-np.inf, np.inf, (environment.state_columns,), np.float64)
    return states, spaces.Box(-limits, limits, dtype=np.float64)


def _drawn(generator: np.random.Generator) -> int:
    return int(generator.integers(1 << 64, dtype=np.uint64))


def _without(options: dict[str, Any] | None) -> None:
    if options:
        raise InvalidInput(f"options = {shown(options)}; these environments have none")


def _shaped(name: str, values: ArrayLike, shape: tuple[int, ...] | None) -> NDArray[np.float64]:
    array = numbers_of(name, values)
    if array.shape != shape:
        raise InvalidInput(f"{name} has shape {array.shape}, expected {shape}")
    return array


class Navigation(_Single):
    """A point in the plane that is rewarded near the origin; an action is a move."""

    _name = "navigation"


class NavigationVector(_Many):
    """Many points of `Navigation`."""

    _name = "navigation"


class CartPoleSwingUp(_Single):
    """A rod on a cart, hanging at first, which costs least where it stands; a force is given.

    The state is (position, velocity, angular velocity, angle), the angle pi where the rod stands.
    """

    _name = "cart_pole_swing_up"


class CartPoleSwingUpVector(_Many):
    """Many rods of `CartPoleSwingUp`."""

    _name = "cart_pole_swing_up"


class Puma560(_Single):
    """An arm of six joints that is to come to rest in a pose; an action is six torques.

    The state is six angles and six angular velocities.
    """

    _name = "puma560"


class Puma560Vector(_Many):
    """Many arms of `Puma560`."""

    _name = "puma560"
