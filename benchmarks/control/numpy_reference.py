"""An update of SBEED in NumPy, on features, for a Gaussian policy: the same steps as riesz takes.

Features are single precision and so are the products with them; sums along windows are recurrences,
by `scipy.signal.lfilter` over environments that have no ends among their steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.signal import lfilter

Array = NDArray[Any]


class Settings(NamedTuple):
    """The defaults of riesz, with as many features for every function."""

    features: int = 128
    gamma: float = 0.99
    window: int = 200
    trace: float = 0.95
    temperature: float = 0.01
    dual_weight: float = 0.1
    damping: float = 1e-3
    ridge: float = 1e-3
    sweeps: int = 5
    iterations: int = 3
    divergence: float = 0.005
    most_ratio: float = 2.0


class Features:
    """Random Fourier features, the columns and a constant, with the factor of a regression."""

    def __init__(self, rows: Array, count: int, bandwidth: float, rng: Any) -> None:  # noqa: D107
        directions = rng.standard_normal((rows.shape[1], count)).astype(np.float32) / bandwidth
        self._map = directions, rng.uniform(0, 2 * np.pi, count).astype(np.float32)

    def __call__(self, rows: Array) -> Array:
        """φ of rows, n×m."""
        directions, phases = self._map
        waves = np.sqrt(2 / len(phases), dtype=np.float32) * np.cos(rows @ directions + phases)
        return np.hstack([waves, rows, np.ones((len(rows), 1), np.float32)])


def factor(phi: Array, ridge: float) -> Any:
    """E[φφᵀ] + νI, factorised."""
    moments = (phi.T @ phi).astype(np.float64) / len(phi)
    return cho_factor(moments + ridge * np.eye(len(moments)))


def solve(factorised: Any, phi: Array, targets: Array) -> Array:
    """The regression of targets on φ."""
    right = phi.T @ targets.astype(np.float32) / np.float32(len(phi))
    return cho_solve(factorised, right.astype(np.float64)).astype(np.float32)


class Update:
    """An update on rows of (environments, steps) that do not end."""

    def __init__(self, settings: Settings, columns: int, seed: int) -> None:  # noqa: D107
        self._settings = settings
        rng = np.random.default_rng(seed)
        state, pair = np.zeros((1, columns)), np.zeros((1, columns + 1))
        median = np.sqrt(2.0 * columns)
        self._policy = Features(state, settings.features, 1.5 * median, rng)
        self._value = Features(state, settings.features, 0.6 * median, rng)
        self._dual = Features(pair, settings.features, median, rng)
        size = settings.features + columns + 1
        self._theta, self._w = np.zeros((2, size), np.float32)
        self._log_std = -0.5

    def _delta(self, gains: Array, following: Array) -> Array:
        s = self._settings
        decay, last = s.trace * s.gamma, (s.trace * s.gamma) ** s.window
        terms = gains + s.gamma * (1 - s.trace) * following
        terms[:, -1] = gains[:, -1] + s.gamma * following[:, -1]
        sums = lfilter([1.0], [1.0, -decay], terms[:, ::-1])[:, ::-1]
        delta = sums.copy()
        ahead = following[:, s.window - 1 : -1] - sums[:, s.window :]
        delta[:, : -s.window] += last * ahead
        return delta

    def _log(self, mean: Array, actions: Array) -> Array:
        z = (actions - mean) / np.exp(self._log_std)
        return -0.5 * z * z - self._log_std - 0.5 * np.log(2 * np.pi)

    def __call__(
        self, states: Array, beyond: Array, actions: Array, rewards: Array, log: Array
    ) -> None:
        """Learn from states (lanes, steps, d), those after the last, actions, rewards and log β."""
        s = self._settings
        lanes, steps, columns = states.shape
        flat = states.reshape(-1, columns)
        phi = self._policy(flat)
        psi = self._value(np.vstack([flat, beyond]))
        pairs = self._dual(np.hstack([flat, actions.reshape(-1, 1)]))
        n = len(flat)
        fisher = factor(phi, s.damping / s.features)
        value = factor(psi[:n], s.ridge / s.features)
        dual = factor(pairs, s.ridge / s.features)
        for _ in range(s.iterations):
            mean = (phi @ self._theta).reshape(lanes, steps)
            now = self._log(mean, actions)
            gains = rewards - s.temperature * now
            for _ in range(s.sweeps):
                following = self._following(psi, lanes, steps)
                self._w = solve(value, psi[:n], self._delta(gains, following).ravel())
            values = (psi[:n] @ self._w).reshape(lanes, steps)
            delta = self._delta(gains, self._following(psi, lanes, steps))
            extra = solve(dual, pairs, (delta - values).ravel())
            rho = values + (pairs @ extra).reshape(lanes, steps)
            advantage = (1 - s.dual_weight) * delta + s.dual_weight * rho - values
            ratio = np.minimum(np.exp(now - log), s.most_ratio)
            weights = ratio * (advantage - advantage.mean())
            self._move(fisher, phi, (actions - mean).ravel(), weights.ravel())

    def _following(self, psi: Array, lanes: int, steps: int) -> Array:
        every = psi @ self._w
        inside = every[: lanes * steps].reshape(lanes, steps)[:, 1:]
        return np.hstack([inside, every[lanes * steps :, None]])

    def _move(self, fisher: Any, phi: Array, errors: Array, weights: Array) -> None:
        """A step of natural gradient, halved until the divergence is within its bound."""
        s = self._settings
        variance = np.exp(2 * self._log_std)
        direction = solve(fisher, phi, weights * errors)
        log_std = 0.5 * float(np.mean(weights * (errors**2 / variance - 1)))
        moved = phi @ direction
        square = float(np.mean(moved**2)) / variance + 2 * log_std**2
        size = min(np.sqrt(2 * s.divergence / square), 1 / s.temperature)
        for _ in range(12):
            new = np.clip(self._log_std + size * log_std, -2.5, 0.0)
            ahead = 0.5 * np.exp(-2 * new) * (variance + size**2 * np.mean(moved**2))
            if ahead - 0.5 + new - self._log_std <= 1.5 * s.divergence:
                self._theta, self._log_std = self._theta + np.float32(size) * direction, new
                return
            size *= 0.5
