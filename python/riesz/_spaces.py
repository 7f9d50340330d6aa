"""Observations and actions of Gymnasium's spaces as rows of numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from riesz._arguments import named, shown
from riesz._errors import InvalidInput

Rows = NDArray[np.float32]

# JSON has no infinities: bounds beyond this are none.
_MOST = 1e308


def observation_columns(space: Any) -> int:
    """Return how many numbers an observation becomes."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        return int(np.prod(space.shape, dtype=np.int64))
    raise InvalidInput(
        f"env: observations are a {type(space).__name__}; wrap the environment in"
        " gymnasium.wrappers.FlattenObservation to make them rows of numbers"
    )


def action_bounds(space: Any) -> tuple[Any, Any]:
    """Return the bounds of numbers, or how many actions there are and the first of them."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return int(space.n), int(space.start)
    if not isinstance(space, spaces.Box):
        raise InvalidInput(
            f"env: actions are a {type(space).__name__}; they should be a Box or Discrete"
        )
    low, high = (np.ravel(bound).astype(np.float64).tolist() for bound in (space.low, space.high))
    return low, high


def rows_of(space: Any, observations: Any, name: str = "observations") -> Rows:
    """Return an observation of a space, or several, as rows of numbers."""
    from gymnasium import spaces

    shape = space.shape or ()
    with named(name):
        array = np.asarray(observations)
        if array.dtype.kind not in "biuf":
            array = array.astype(np.float64)
    if array.shape[array.ndim - len(shape) :] != shape or array.ndim > len(shape) + 1:
        raise InvalidInput(f"{name} have shape {array.shape}, expected {shape} or {('n', *shape)}")
    if isinstance(space, spaces.Discrete):
        numbers = array.reshape(-1) - int(space.start)
        if not np.isin(numbers, range(int(space.n))).all():
            raise InvalidInput(f"{name}: {shown(array.tolist())} are not all in {space}")
        return np.eye(int(space.n), dtype=np.float32)[numbers.astype(np.int64)]
    return np.ascontiguousarray(array.reshape(-1, observation_columns(space)), dtype=np.float32)


def is_one(space: Any, observations: Any) -> bool:
    """Whether there is a single observation, and no row of them."""
    return np.ndim(observations) == len(space.shape or ())


def as_actions(space: Any, taken: NDArray[np.float64]) -> NDArray[Any]:
    """Return actions as a space has them, one for each row."""
    actions: NDArray[Any] = taken.reshape(-1, *space.shape)
    if space.dtype.kind in "iu":
        actions = np.rint(actions)
    actions = actions.astype(space.dtype)
    # Rounding to fewer digits may lead beyond a bound.
    return np.clip(actions, space.low, space.high) if hasattr(space, "low") else actions


def space_note(space: Any) -> dict[str, Any]:
    """Return a space as values JSON knows; how many values each column has is not among them."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return {"n": int(space.n), "start": int(space.start)}
    if not isinstance(space, spaces.Box):
        top = space.nvec - 1 if hasattr(space, "nvec") else 1
        space = spaces.Box(0, np.broadcast_to(top, space.shape), dtype=space.dtype.type)
    bounds = [
        np.clip(np.ravel(bound).astype(np.float64), -_MOST, _MOST).tolist()
        for bound in (space.low, space.high)
    ]
    shape, dtype = list(space.shape), space.dtype.name
    return {"low": bounds[0], "high": bounds[1], "shape": shape, "dtype": dtype}


def read_space(note: dict[str, Any]) -> Any:
    """Return the space that was written down."""
    from gymnasium import spaces

    if "n" in note:
        return spaces.Discrete(int(note["n"]), start=int(note["start"]))
    dtype = np.dtype(note["dtype"])
    low, high = (np.array(note[side]).reshape(note["shape"]) for side in ("low", "high"))
    low = np.where(low <= -_MOST, -np.inf, low).astype(dtype)
    return spaces.Box(low, np.where(high >= _MOST, np.inf, high).astype(dtype), dtype=dtype.type)
