"""Control whose cost is how far it moves the dynamics."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._evaluated import Evaluated
from riesz._transitions import finite_of, flags_of, same_rows

# Desirabilities below, which the learnt function may have, count as this: no cost exceeds 27.7.
_LEAST = 1e-12
# Groups of transitions at most, and rows of a group at least, to see how far Z can be told.
_MOST_GROUPS, _LEAST_ROWS = 64, 100


@documented
class LinearlySolvableControl(Evaluated):
    """Optimal control from transitions of the passive dynamics (linearly solvable MDPs).

    The controller chooses the distribution u of the next state and pays ``q(s)`` and the divergence
    ``KL(u || p)`` from the passive dynamics p at each step, until the end, where it pays a final
    cost. With the cost to go ``V = -log Z``, the desirability Z solves the linear equation
    ``Z(s) = exp(-q(s)) E_p[Z(s') | s]``, ``Z = exp(-final cost)`` at the end, and the best control
    is ``u(s' | s)`` in proportion to ``p(s' | s) Z(s')``. The equation is solved as that of policy
    evaluation is, whose features these are.

    Parameters
    ----------
    $value_function
    $run
    $verbose

    Attributes
    ----------
    $evaluated
    n_episodes_ : int
        Ends of the log, and the transitions after the last of them.
    reach_ : float
        Costs to go above are not told by the log: Z solves its equation there no longer.

    Notes
    -----
    Desirabilities that the learnt function puts below 1e-12 count as 1e-12 where a cost or a
    control is asked for.

    Examples
    --------
    A walk on 0, ..., 4 that ends at either side, free of cost on the left and at cost 1 on the
    right; each step costs 0.1:

    >>> import numpy as np
    >>> from riesz import LinearlySolvableControl
    >>> rng = np.random.default_rng(0)
    >>> states = rng.integers(1, 4, size=20_000)
    >>> after = states + rng.choice([-1, 1], size=20_000)
    >>> ends = (after == 0) | (after == 4)
    >>> control = LinearlySolvableControl(random_state=0)
    >>> control = control.fit(states, np.full(20_000, 0.1), after, ends, after == 4)
    >>> control.control([[1, 3]]).round(1)  # from 2: rather to the left
    array([[0.6, 0.4]])
    """

    _task = "linearly_solvable_control"

    def __init__(
        self,
        *,
        features: str = "auto",
        n_features: int | None = None,
        kernel: str = "gaussian",
        bandwidth: str | float = "auto",
        ridge: float | None = None,
        dual_ridge: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.n_features = n_features
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.ridge = ridge
        self.dual_ridge = dual_ridge
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        states: ArrayLike,
        costs: ArrayLike,
        next_states: ArrayLike,
        terminals: ArrayLike,
        final_costs: ArrayLike | None = None,
    ) -> "LinearlySolvableControl":
        """Learn from transitions of the passive dynamics.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.
        costs : array-like of shape (n,)
            The costs ``q(s)`` of being there for a step, zero at least.
        next_states : array-like of shape (n,) or (n, d)
            States that followed.
        terminals : array-like of bool of shape (n,)
            Whether the process ended with the transition.
        final_costs : array-like of shape (n,), optional
            What the end costs, where it is one; zero unless given.

        Returns
        -------
        self
        """
        q, ends = finite_of("costs", costs), flags_of("terminals", terminals)
        if (q < 0).any():
            row = int((q < 0).argmax())
            raise InvalidInput(f"costs contains {q[row]} at row {row}; costs are zero at least")
        last = np.zeros_like(q) if final_costs is None else finite_of("final_costs", final_costs)
        for name, found in (("costs", q), ("terminals", ends), ("final_costs", last)):
            same_rows(name, found, states)
        if not ends.any():
            raise InvalidInput(
                "none of terminals is true: costs are paid until the end, and no transition reaches"
                " it; give transitions some of which do"
            )
        with np.errstate(over="ignore"):
            rewards = np.where(ends, np.exp(-q - last), 0.0).astype(np.float32)
        if not np.isfinite(rewards).all():
            raise InvalidInput("final_costs are too low: exp(-final_costs) is infinite")
        evaluation = self._learn(
            states,
            rewards,
            next_states,
            ends,
            settings={"method": "dual_embedding", "discount": 1.0},
            discounts=np.exp(-q).astype(np.float32),
        )
        self._fitted(evaluation)
        following = np.where(ends, np.exp(-last), self._model_value(next_states, "next_states"))
        self.reach_ = _reach(self.desirability(states), np.exp(-q) * following)
        return self

    def _note(self) -> dict[str, Any]:
        return super()._note() | {"reach": None if np.isinf(self.reach_) else self.reach_}

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        super()._read_task(model, note)
        reach = note.get("reach")
        self.reach_ = np.inf if reach is None else float(reach)

    def desirability(self, states: ArrayLike) -> NDArray[np.float64]:
        """Return ``Z(s)`` as it was learnt.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.

        Returns
        -------
        ndarray of shape (n,)
        """
        values: NDArray[np.float64] = self._model_value(states, "states")
        return values

    def value(self, states: ArrayLike) -> NDArray[np.float64]:
        """Return the cost to go of the best control, ``-log Z(s)``.

        Z is learnt to an absolute accuracy, so that large costs are told less well than small ones:
        a warning says where they are above `reach_`.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.

        Returns
        -------
        ndarray of shape (n,)
            NaN for states of a table that no transition leaves, where there is nothing to go.
        """
        z = self._reliable(states, "states")
        costs: NDArray[np.float64] = -np.log(np.maximum(z, _LEAST))
        return np.where(self._never_left(z), np.nan, costs)

    def control(
        self,
        candidates: ArrayLike,
        *,
        terminals: ArrayLike | None = None,
        final_costs: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Return the best probabilities of next states drawn from the passive dynamics.

        Parameters
        ----------
        candidates : array-like of shape (n, k, d), or (n, k) for states of one column
            For each of n states, k draws of what follows it.
        terminals : array-like of bool of shape (n, k), optional
            Whether the process ends there; nowhere unless given. Candidates of a table that the log
            never leaves need it.
        final_costs : array-like of shape (n, k), optional
            What the end costs, where it is one; zero unless given.

        Returns
        -------
        ndarray of shape (n, k)
            Each row sums to one.
        """
        points = np.asarray(candidates)
        if points.ndim == 2:
            points = points[:, :, None]
        if points.ndim != 3:
            raise InvalidInput(f"candidates has shape {points.shape}; expected (n, k, d)")
        shape = points.shape[:2]
        flat = points.reshape(-1, points.shape[2])
        z = self._reliable(flat, "candidates", terminals).reshape(shape)
        unknown = self._never_left(z)
        if terminals is not None:
            last = (
                np.zeros(shape)
                if final_costs is None
                else _shaped("final_costs", final_costs, shape)
            )
            ends = flags_of("terminals", np.ravel(_shaped("terminals", terminals, shape)))
            z = np.where(ends.reshape(shape), np.exp(-last), z)
            unknown &= ~ends.reshape(shape)
        elif final_costs is not None:
            raise InvalidInput("final_costs are for candidates that end: give terminals")
        if unknown.any():
            row, column = np.argwhere(unknown)[0]
            raise InvalidInput(
                f"candidates has {points[row, column, 0]} at row {row}, a state that no transition"
                " of the log leaves: say by terminals whether the process ends there"
            )
        z = np.maximum(z, _LEAST)
        shares: NDArray[np.float64] = z / z.sum(axis=1, keepdims=True)
        return shares

    def _model_value(self, states: ArrayLike, name: str) -> Any:
        return self._model.value(self._states(states, name), n_jobs=self.n_jobs)

    def _never_left(self, z: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether states of a table have no transition of their own: their Z was never moved."""
        return np.asarray((z == 0) & (self.bandwidth_ is None))

    def _reliable(
        self, states: ArrayLike, name: str, ends: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Return Z; warn where that of a state that goes on is too small to be told."""
        z: NDArray[np.float64] = self._model_value(states, name)
        lost = (-np.log(np.maximum(z, _LEAST)) > self.reach_) & ~self._never_left(z)
        if ends is not None and np.size(ends) == len(lost):
            lost &= ~np.ravel(ends).astype(bool)
        if lost.any():
            warnings.warn(
                f"{lost.sum()} of {len(lost)} {name} have costs above {self.reach_:.1f} (reach_),"
                " which this log does not tell: more transitions, or more functions (n_features),"
                " reach further",
                stacklevel=3,
            )
        return z


def _reach(z: NDArray[np.float64], following: NDArray[np.float64]) -> float:
    """Return the cost -log Z above which Z(s) = exp(-q) E[Z(s') | s] does not hold.

    Transitions are grouped by Z(s). In a group where it holds, Z and `following`, exp(-q) Z(s'),
    have the same mean, but for a quarter of it and three standard errors. Where many have the same
    Z, chance decides which group they are in, not their place in the log.
    """
    order = np.random.default_rng(0).permutation(len(z))
    order = order[np.argsort(-z[order], kind="stable")]
    groups = max(1, min(_MOST_GROUPS, len(z) // _LEAST_ROWS))
    for group in np.array_split(order, groups):
        rest = z[group] - following[group]
        off = abs(rest.mean()) - 3 * rest.std() / np.sqrt(len(group))
        if z[group].mean() <= 0 or off > z[group].mean() / 4:
            return float(-np.log(max(z[group[0]], _LEAST)))
    return float(np.inf)


def _shaped(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    found = np.asarray(values)
    if found.shape != shape:
        raise InvalidInput(f"{name} has shape {found.shape}; expected {shape}")
    return found
