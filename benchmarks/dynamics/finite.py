"""Random finite decision processes, logs of a behaviour policy, and exact and tabular values.

The plug-in estimate solves the empirical process: with counts N(s,a,s') and mean rewards, V is
sum_a pi(a|s) (R + gamma sum_s' N(s,a,s')/N(s,a) V(s')). It is what fitted Q evaluation converges
to on a table. LSTD weights transitions by pi/pi_b and pools the actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass
class Process:
    """Transitions P(s,a,s'), mean rewards R(s,a), two policies, a law of initial states."""

    transitions: Array
    rewards: Array
    discount: float
    behaviour: Array
    target: Array
    start: Array

    @property
    def value(self) -> Array:
        """V of the target policy, by a linear solve."""
        step = np.einsum("sa,sat->st", self.target, self.transitions)
        gain = (self.target * self.rewards).sum(axis=1)
        return np.linalg.solve(np.eye(len(gain)) - self.discount * step, gain)

    @property
    def truth(self) -> float:
        """V averaged over initial states."""
        return float(self.start @ self.value)


def draw(rng: np.random.Generator) -> Process:
    """10 to 30 states, 2 to 5 actions, rewards in [-1, 1], discount 0.9 to 0.97."""
    states, actions = int(rng.integers(10, 31)), int(rng.integers(2, 6))
    uniform = rng.uniform(0.3, 0.7)
    other = rng.dirichlet(np.ones(actions), size=states)
    return Process(
        transitions=rng.dirichlet(np.full(states, 0.3), size=(states, actions)),
        rewards=rng.uniform(-1, 1, (states, actions)),
        discount=float(rng.uniform(0.9, 0.97)),
        behaviour=uniform / actions + (1 - uniform) * other,
        target=rng.dirichlet(np.ones(actions), size=states),
        start=rng.dirichlet(np.ones(states)),
    )


class Log(NamedTuple):
    """Episodes of equal length, one a row; all are cut off at the horizon and none terminates."""

    states: Integers
    actions: Integers
    rewards: Array
    following: Integers

    def episodes(self, index: Integers) -> Log:
        """Some of the episodes, with repetition."""
        return Log(*(column[index] for column in self))


def _choose(cumulative: Array, rng: np.random.Generator) -> Integers:
    places = (rng.random((len(cumulative), 1)) > cumulative).sum(axis=1)
    return np.minimum(places, cumulative.shape[1] - 1)


def record(process: Process, episodes: int, horizon: int, rng: np.random.Generator) -> Log:
    """Follow the behaviour policy; rewards have noise of deviation 0.1."""
    law, policy = process.transitions.cumsum(axis=-1), process.behaviour.cumsum(axis=-1)
    states = rng.choice(len(process.start), episodes, p=process.start)
    steps = []
    for _ in range(horizon):
        actions = _choose(policy[states], rng)
        following = _choose(law[states, actions], rng)
        noise = 0.1 * rng.standard_normal(episodes)
        steps.append((states, actions, process.rewards[states, actions] + noise, following))
        states = following
    return Log(*(np.stack(column, axis=1) for column in zip(*steps, strict=True)))


class Fit(NamedTuple):
    """V, Q where there is one, the estimate and each episode's influence on it."""

    value: Array
    action_value: Array | None
    estimate: float
    influence: Array


def plug_in(process: Process, log: Log) -> Fit:
    """The empirical process; a pair never seen leaves its action out of the policy."""
    states, actions = process.target.shape
    pairs = log.states * actions + log.actions
    counts = np.bincount(pairs.ravel(), minlength=states * actions).astype(float)
    rows = np.maximum(counts, 1)
    moves = np.bincount((pairs * states + log.following).ravel(), minlength=len(counts) * states)
    moves = moves.reshape(-1, states) / rows[:, None]
    gains = np.bincount(pairs.ravel(), log.rewards.ravel(), len(counts)) / rows
    policy = process.target * (counts > 0).reshape(states, actions)
    policy /= np.maximum(policy.sum(axis=1, keepdims=True), 1e-300)
    step = np.einsum("sa,sat->st", policy, moves.reshape(states, actions, states))
    system = np.eye(states) - process.discount * step
    value = np.linalg.solve(system, (policy * gains.reshape(states, actions)).sum(axis=1))
    action_value = gains + process.discount * moves @ value
    first, episodes = log.states[:, 0], len(log.states)
    visits = np.linalg.solve(system.T, np.bincount(first, minlength=states) / episodes)
    ratio = (visits[:, None] * policy).ravel() / rows * episodes
    errors = log.rewards + process.discount * value[log.following] - action_value[pairs]
    estimate = float(value[first].mean())
    influence = value[first] - estimate + (ratio[pairs] * errors).sum(axis=1)
    return Fit(value, action_value.reshape(states, actions), estimate, influence)


def lstd(process: Process, log: Log) -> Fit:
    """Transitions weighted by pi/pi_b; a state never left has the value 0."""
    states = len(process.start)
    weights = (process.target / process.behaviour)[log.states, log.actions]
    here, flat = log.states.ravel(), weights.ravel()
    counts = np.bincount(here, flat, states)
    moves = np.bincount(here * states + log.following.ravel(), flat, states**2)
    gains = np.bincount(here, flat * log.rewards.ravel(), states)
    system = np.diag(np.where(counts > 0, counts, 1.0))
    system -= process.discount * moves.reshape(states, states)
    value = np.linalg.solve(system, gains)
    first, episodes = log.states[:, 0], len(log.states)
    dual = episodes * np.linalg.solve(system.T, np.bincount(first, minlength=states) / episodes)
    errors = log.rewards + process.discount * value[log.following] - value[log.states]
    estimate = float(value[first].mean())
    influence = value[first] - estimate + (dual[log.states] * weights * errors).sum(axis=1)
    return Fit(value, None, estimate, influence)


def deviation(fit: Fit) -> float:
    """The sandwich's standard error: of the mean of the episodes' influences."""
    return float(fit.influence.std(ddof=1) / np.sqrt(len(fit.influence)))


METHODS = {"plug-in": plug_in, "lstd": lstd}


def intervals(
    process: Process, log: Log, method: str, rng: np.random.Generator, resamples: int = 200
) -> dict[str, tuple[float, float, float]]:
    """Estimate, low and high of 90 % intervals, by name of the construction."""
    fit = METHODS[method](process, log)
    centre, error, z = fit.estimate, deviation(fit), NormalDist().inv_cdf(0.95)
    episodes = len(log.states)
    values, ratios = [], []
    for _ in range(resamples):
        again = METHODS[method](process, log.episodes(rng.integers(0, episodes, episodes)))
        values.append(again.estimate)
        ratios.append((again.estimate - centre) / deviation(again))
    low, high = np.quantile(values, [0.05, 0.95])
    spread = float(np.std(values, ddof=1))
    left, right = np.quantile(ratios, [0.05, 0.95])
    return {
        "sandwich": (centre, centre - z * error, centre + z * error),
        "percentile": (centre, low, high),
        "basic": (centre, 2 * centre - high, 2 * centre - low),
        "bootstrap deviation": (centre, centre - z * spread, centre + z * spread),
        "studentised": (centre, centre - right * error, centre - left * error),
    }
