"""Markov decision processes to simulate."""

import numbers
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riesz import _riesz
from riesz._arguments import shown
from riesz._errors import InvalidInput


class Transitions(NamedTuple):
    """Transitions, a row each."""

    states: NDArray[np.float64]
    actions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    next_states: NDArray[np.float64]
    terminated: NDArray[np.bool_]


class Environment:
    """A Markov decision process with continuous states and actions, and a policy of it.

    A step is ``s' = m(s, a) + noise``, with a reward ``R(s)``; constants are those of
    ``docs/environments.md``. Every method works on many rows at a time, and depends on its
    arguments alone: the same seed gives the same bits on any number of threads. Draws of different
    methods are independent also under one seed. `riesz.environments` has the same processes for
    Gymnasium.

    Parameters
    ----------
    name : {"navigation", "cart_pole_swing_up", "puma560"}
        Which one.
    n_jobs : int, optional
        Threads; all cores unless given.

    Attributes
    ----------
    name : str
        Its name.
    state_columns : int
        Columns of a state.
    action_columns : int
        Columns of an action.
    discount : float
        The discount of the text.
    action_limits : ndarray of shape (action_columns,)
        The largest size of each action. What goes beyond is cut off, as an actuator does.

    Examples
    --------
    >>> from riesz import Environment
    >>> navigation = Environment("navigation")
    >>> seen = navigation.transitions(1000, seed=0)
    >>> seen.states.shape, bool(seen.terminated.any())
    ((1000, 2), False)
    >>> value, error = navigation.values([[0.0, 0.0]], rollouts=1000, seed=0)
    >>> bool(1 < value[0] < 1.2)
    True
    """

    def __init__(self, name: str, n_jobs: int | None = None) -> None:
        if not isinstance(name, str):
            raise InvalidInput(f"name = {shown(name)} should be a string")
        self._core = _riesz.Environment.named(name)
        summary = self._core.summary()
        self.name: str = summary["name"]
        self.n_jobs = n_jobs
        self.state_columns: int = summary["state_columns"]
        self.action_columns: int = summary["action_columns"]
        self.discount: float = summary["discount"]
        self.action_limits: NDArray[np.float64] = np.array(summary["action_limits"])

    def __repr__(self) -> str:
        return f"Environment({self.name!r})"

    def __reduce__(self) -> tuple[type, tuple[str, int | None]]:
        return type(self), (self.name, self.n_jobs)

    def reset(self, n: int, *, seed: int, episode: int = 0) -> NDArray[np.float64]:
        """Return the first states of `n` episodes, one a row; another `episode` has others."""
        return self._core.reset(
            whole("n", n),
            seed=whole("seed", seed),
            episode=whole("episode", episode),
            n_jobs=self.n_jobs,
        )

    def sample(self, n: int, *, seed: int) -> NDArray[np.float64]:
        """Return `n` states of the law that the states of transitions have."""
        return self._core.sample(whole("n", n), seed=whole("seed", seed), n_jobs=self.n_jobs)

    def actions(self, states: ArrayLike) -> NDArray[np.float64]:
        """Return the actions of the policy, cut off at their limits."""
        return self._core.actions(table("states", states), n_jobs=self.n_jobs)

    def step(
        self, states: ArrayLike, actions: ArrayLike, *, seed: int, step: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """Return next states, rewards, and whether the next states are terminal.

        The noise of a row depends on the seed, the number of the step and that of the row.
        """
        return self._core.step(
            table("states", states),
            table("actions", actions),
            seed=whole("seed", seed),
            step=whole("step", step),
            n_jobs=self.n_jobs,
        )

    def transitions(self, n: int, *, seed: int) -> Transitions:
        """Return `n` independent transitions under the policy, from states of `sample`."""
        number, start = whole("n", n), whole("seed", seed)
        (states, actions), (next_states, rewards, terminated) = self._core.transitions(
            number, seed=start, n_jobs=self.n_jobs
        )
        return Transitions(states, actions, rewards, next_states, terminated)

    def next_states(self, states: ArrayLike, k: int, *, seed: int) -> NDArray[np.float64]:
        """Return `k` independent next states of each state under the policy, of shape (n, k, d).

        Expectations over them, with two halves multiplied where a square is wanted, are free of the
        bias of a single next state.
        """
        return self._core.next_states(
            table("states", states), whole("k", k), seed=whole("seed", seed), n_jobs=self.n_jobs
        )

    def values(
        self,
        states: ArrayLike,
        *,
        rollouts: int,
        seed: int,
        steps: int | None = None,
        discount: float | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the values of states under the policy and their standard errors, by simulation.

        Parameters
        ----------
        states : array-like of shape (n, state_columns)
            Where the rollouts begin.
        rollouts : int
            Rollouts of each state, at least two.
        seed : int
            Seed of the rollouts.
        steps : int, optional
            Steps of each; the first t with ``discount ** t <= 1e-4`` unless given.
        discount : float, optional
            That of the environment unless given.
        """
        if discount is not None and not isinstance(discount, numbers.Real):
            raise InvalidInput(f"discount = {shown(discount)} should be a number")
        return self._core.values(
            table("states", states),
            rollouts=whole("rollouts", rollouts),
            steps=None if steps is None else whole("steps", steps),
            discount=None if discount is None else float(discount),
            seed=whole("seed", seed),
            n_jobs=self.n_jobs,
        )


def whole(name: str, value: Any) -> int:
    """Return a whole number that fits into 64 bits without a sign."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise InvalidInput(f"{name} = {shown(value)} should be a whole number")
    if not 0 <= int(value) < 1 << 64:
        raise InvalidInput(f"{name} = {shown(value)} is outside [0, 2^64)")
    return int(value)


def numbers_of(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return an array of numbers in double precision; Rust refuses those that are not finite."""
    try:
        return np.asarray(values, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} = {shown(values)} should be an array of numbers") from None


def table(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return an array of two dimensions."""
    rows = numbers_of(name, values)
    if rows.ndim != 2:
        raise InvalidInput(f"{name} has {rows.ndim} dimensions, expected 2: a row for each state")
    return rows
