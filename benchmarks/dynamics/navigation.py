"""The navigation task: transitions, the exact value of its policy, the Bellman error of another."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Value = Callable[[Array], Array]

DISCOUNT = 0.9
START_VARIANCE = 0.2
STEP_VARIANCE = 0.1


def reward(states: Array) -> Array:
    """R(s) = exp(-100 |s|^2)."""
    return np.exp(-100.0 * (states**2).sum(axis=-1))


def mean_next(states: Array) -> Array:
    """s + a(s) with a(s) = -0.2 s R(s)."""
    return states * (1.0 - 0.2 * reward(states))[..., None]


def next_states(states: Array, rng: np.random.Generator) -> Array:
    """s' ~ N(s + a(s), 0.1 I)."""
    return mean_next(states) + np.sqrt(STEP_VARIANCE) * rng.standard_normal(states.shape)


def sample(count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """States s ~ N(0, 0.2 I), rewards R(s) and next states."""
    states = np.sqrt(START_VARIANCE) * rng.standard_normal((count, 2))
    return states, reward(states), next_states(states, rng)


@functools.cache
def _smoothed(side: int, half: float) -> tuple[Array, float]:
    """E[V(m + noise)] over a grid of means m: V = R + gamma P V by iteration, to 1e-10."""
    from scipy.ndimage import map_coordinates

    line = np.linspace(-half, half, side)
    step = line[1] - line[0]
    kernel = np.exp(-((line[:, None] - line) ** 2) / (2 * STEP_VARIANCE))
    kernel *= step / np.sqrt(2 * np.pi * STEP_VARIANCE)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)
    gain = reward(grid)
    moved = gain > 1e-14
    places = ((mean_next(grid[moved]) + half) / step).T
    smooth = np.zeros((side, side))
    change = np.inf
    while change > 1e-10:
        after = smooth.copy()
        after[moved] = map_coordinates(smooth, places, order=3, mode="nearest")
        updated = kernel @ (gain + DISCOUNT * after) @ kernel.T
        change = float(np.abs(updated - smooth).max())
        smooth = updated
    return smooth, step


def exact_value(states: Array, side: int = 241, half: float = 6.0) -> Array:
    """V of the navigation policy, by quadrature on a grid; its error is below 1e-5."""
    from scipy.ndimage import map_coordinates

    smooth, step = _smoothed(side, half)
    places = ((mean_next(states) + half) / step).T
    return reward(states) + DISCOUNT * map_coordinates(smooth, places, order=3, mode="nearest")


def bellman_error(value: Value, states: Array, rng: np.random.Generator) -> float:
    """E[(R + gamma E[V(s')] - V)^2], free of bias: the product of two halves of 100 next states."""
    fixed = reward(states) - value(states)
    halves = []
    for _ in range(2):
        mean = sum(value(next_states(states, rng)) for _ in range(50)) / 50
        halves.append(fixed + DISCOUNT * mean)
    return float(np.mean(halves[0] * halves[1]))
