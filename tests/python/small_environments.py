"""Environments whose observations and values tell when something is wrong."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Counting(gymnasium.Env):
    """Observations are (environment, episode, step), rewards the step plus the action.

    An episode has `length` steps.
    """

    made = 0

    def __init__(self, length=5, *, ending="terminated"):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,))
        self.action_space = spaces.Discrete(2)
        self.length, self.ending = length, ending
        self.number, Counting.made = Counting.made, Counting.made + 1
        self.episode = -1

    def _seen(self):
        return np.array([self.number, self.episode, self.t], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.episode = 0, self.episode + 1
        return self._seen(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        assert self.t < self.length, "a step after the end"
        self.t += 1
        over = self.t == self.length
        reward = float(self.t) + float(action)
        ended = over and self.ending == "terminated"
        return self._seen(), reward, ended, over and not ended, {}


class Constant(gymnasium.Env):
    """One state, reward 1, and episodes of one step that are over or broken off."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, *, ending):
        self.ending = ending

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([0.5], dtype=np.float32), {}

    def step(self, action):
        ends = self.ending == "terminated", self.ending == "truncated"
        return np.array([0.5], dtype=np.float32), 1.0, *ends, {}


class Bandit(gymnasium.Env):
    """One step, rewarded where the action is that of the observation; any kind of spaces."""

    def __init__(self, observations=None, actions=None):
        self.observation_space = observations or spaces.Discrete(3, start=5)
        self.action_space = actions or spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.seen = self.observation_space.sample()
        return self.seen, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        if isinstance(self.action_space, spaces.Discrete):
            wanted = int(np.ravel(self.seen)[0]) % 3 - 1 + int(self.action_space.start) + 1
            reward = float(action == wanted)
        else:
            reward = -float(np.sum((action - 0.5 * np.ravel(self.seen)[0]) ** 2))
        return self.observation_space.sample(), reward, True, False, {}


class Failing(Counting):
    """Raises, or says NaN, at a step."""

    at, how = 0, "raise"

    def __init__(self, **settings):
        super().__init__(**settings)
        self.taken = 0

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        self.taken += 1
        if self.taken == self.at:
            if self.how == "raise":
                raise RuntimeError("the motor is off")
            if self.how == "reward":
                reward = np.nan
            else:
                seen = seen * np.nan
        return seen, reward, terminated, truncated, info


class Episodes:
    """A data set as Minari has them."""

    def __init__(self, episodes):
        self._episodes = episodes

    def iterate_episodes(self):
        return iter(self._episodes)
