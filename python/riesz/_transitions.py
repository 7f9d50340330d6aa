"""Logged transitions, as arrays that Rust borrows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, column_or_1d

from riesz._arguments import named, shown
from riesz._errors import InvalidInput
from riesz._rows import ROWS

# Most actions that are told by number: above, columns of numbers say more.
MOST_ACTIONS = 1024
# How far a sum of probabilities may be from one.
_ROUNDING = 1e-3
# Most states that have a value each unless a table is asked for.
_MOST_STATES = 4096


def in_columns(name: str, values: Any) -> Any:
    """Return numbers with one column where they have none."""
    if getattr(values, "ndim", 0) == 0:
        with named(name):
            values = np.asarray(values)
    return np.asarray(values)[:, None] if values.ndim == 1 else values


def numbers_in_columns(name: str, states: Any) -> Any:
    """Return states with one column where they have none; labels are refused."""
    columns = in_columns(name, states)
    if isinstance(columns, np.ndarray) and columns.dtype.kind in "OSU":
        try:
            columns.astype(np.float64)
        except (TypeError, ValueError):
            row = next(row for row, values in enumerate(columns) if not _are_numbers(values))
            value = columns[row].tolist()
            raise InvalidInput(
                f"{name} contains {shown(value[0] if len(value) == 1 else value)} at row {row} and"
                " should be numbers: give every label a number 0, 1, 2, ..., the same wherever it"
                " occurs"
            ) from None
    return columns


def _are_numbers(values: NDArray[Any]) -> bool:
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def table_of(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return rows beside those of an estimator, a column each where they have none."""
    columns = in_columns(name, values)
    if getattr(columns, "dtype", None) is not None and columns.dtype.kind in "OSU":
        raise InvalidInput(f"{name} should be numbers: give labels the numbers 0, 1, 2, ...")
    with named(name):
        rows: NDArray[Any] = check_array(columns, input_name=name, **ROWS)
    return rows


def flags_of(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Return truth values, which may be told as 1 and 0."""
    with named(name):
        flags = column_or_1d(values)
    if flags.dtype.kind != "b" and not (flags.dtype.kind in "iuf" and np.isin(flags, (0, 1)).all()):
        raise InvalidInput(f"{name} should be True or False, or 1 or 0, for every transition")
    return np.ascontiguousarray(flags, dtype=np.bool_)


def ends_of(
    terminals: ArrayLike, truncations: ArrayLike | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Return where the process ended, and where the log was cut short while it went on.

    A task may end at the very step of its time limit: then it ended. Where every row that was cut
    short ended too, terminals are true at the end of every episode, whatever ended it.
    """
    ends = flags_of("terminals", terminals)
    if truncations is None:
        return ends, None
    cut = flags_of("truncations", truncations)
    if len(ends) != len(cut):
        return ends, cut
    if cut.any() and (ends | ~cut).all():
        raise InvalidInput(
            f"every row of truncations is true in terminals too, row {int(cut.argmax())} first: if"
            " terminals are true wherever an episode stops, give terminals & ~truncations; if all"
            " of these episodes did end, give no truncations"
        )
    return ends, cut & ~ends


def finite_of(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return a finite number for each row."""
    with named(name):
        found: NDArray[np.float64] = column_or_1d(values, dtype=np.float64)
    if not np.isfinite(found).all():
        row = int((~np.isfinite(found)).argmax())
        raise InvalidInput(f"{name} contains {found[row]} at row {row}")
    return found


def same_rows(name: str, found: NDArray[Any], states: Any) -> None:
    """Refuse what has not one row for each state."""
    expected = in_columns("states", states).shape[0]
    if len(found) != expected:
        raise InvalidInput(f"{name} has {len(found)} rows, expected {expected}")


def are_numbered(values: Any) -> bool:
    """Whether values are whole numbers, one for each row."""
    array = np.asarray(values)
    one = array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)
    return one and array.dtype.kind in "biu"


def check_numbered(actions: Any, count: int, source: str | None = None) -> None:
    """Refuse logged actions, in columns, that are not the numbers 0, 1, ..., `count` - 1.

    `source` is the argument that has a column of probabilities for each of them, where one has.
    """
    table = actions.toarray() if hasattr(actions, "toarray") else actions
    if table.shape[1] != 1:
        raise InvalidInput(
            f"actions has {table.shape[1]} columns, and {source} has probabilities of actions that"
            " are numbered: give one column of the numbers 0, 1, 2, ..."
        )
    numbers = finite_of("actions", table[:, 0])
    broken = numbers != np.floor(numbers)
    if broken.any():
        row = int(broken.argmax())
        raise InvalidInput(
            f"actions contains {numbers[row]} at row {row}, and {source} has probabilities of"
            f" {count} actions: number these 0, 1, ... (np.rint(actions).astype(int) where they are"
            " nearly whole); for quantities give actions of the policy in place of probabilities"
        )
    outside = (numbers < 0) | (numbers >= count)
    if outside.any():
        row = int(outside.argmax())
        remedy = "or floats where they are quantities"
        if source is not None:
            remedy = f"in the order of the columns of {source}"
        raise InvalidInput(
            f"actions contains {numbers[row]:g} at row {row}, and actions are numbered from 0: give"
            f" the numbers 0 to {count - 1}, {remedy}"
        )


def numbers_of_actions(actions: ArrayLike) -> NDArray[Any]:
    """Return numbers of actions, which may be floats: tables have them so if some were missing."""
    with named("actions"):
        taken = np.asarray(actions)
    if taken.dtype.kind == "f" and (taken.ndim == 1 or taken.shape[1:] == (1,)):
        numbers = finite_of("actions", taken)
        if (numbers == np.floor(numbers)).all():
            return numbers
    if not are_numbered(taken):
        raise InvalidInput(
            "actions should be one column of whole numbers 0, 1, 2, ...: give labels the numbers 0,"
            " 1, 2, ...; actions that are quantities are for SBEED"
        )
    return taken


def have_a_table(states: Any) -> bool:
    """Whether there are few states, 0, 1, 2, ..., so that each can have a value of its own."""
    if not are_numbered(states):
        return False
    array = np.asarray(states)
    return array.size > 0 and bool(array.min() >= 0 and array.max() < _MOST_STATES)


def certain(name: str, actions: ArrayLike, taken: ArrayLike) -> NDArray[np.float32]:
    """Return the probabilities of actions that are certain, among these and those taken."""
    check_numbered(in_columns("actions", taken), MOST_ACTIONS)
    numbers = finite_of(name, actions)
    count = int(max(numbers.max(initial=0), np.max(np.asarray(taken), initial=0))) + 1
    if (numbers < 0).any() or (numbers != np.floor(numbers)).any() or count > MOST_ACTIONS:
        raise InvalidInput(
            f"{name} should be whole numbers from 0 to {MOST_ACTIONS - 1}, as actions are; give"
            " actions that are quantities as floats"
        )
    return np.eye(count, dtype=np.float32)[numbers.astype(np.intp)]


def probabilities_of(name: str, values: ArrayLike) -> NDArray[np.float32]:
    """Return the probability of each action, a row for each state."""
    with named(name):
        found: NDArray[np.float32] = check_array(
            values, dtype=np.float32, order="C", ensure_all_finite=False, input_name=name
        )
    # Those that are NaN are none either.
    some = (found >= 0).all(axis=1) & (np.abs(found.sum(axis=1) - 1) <= _ROUNDING)
    if not some.all():
        row = int((~some).argmax())
        shares = shown(found[row].astype(np.float64).round(4).tolist())
        raise InvalidInput(
            f"{name}: row {row} is no distribution, {shares}; probabilities are zero at least and"
            " sum to one"
        )
    return found


def logged(dataset: Any) -> dict[str, Any]:
    """Return the transitions of a data set of episodes, as Minari has them."""
    parts: dict[str, list[Any]] = {}
    for episode in dataset.iterate_episodes():
        seen = episode.observations
        if not isinstance(seen, np.ndarray):
            raise InvalidInput(
                f"states: observations are of type {type(seen).__name__}; make arrays of them"
            )
        steps = {
            "states": seen[:-1],
            "actions": episode.actions,
            "rewards": episode.rewards,
            "next_states": seen[1:],
            "terminals": episode.terminations,
            # What ends at the limit of time is recorded as both, and did end.
            "truncations": np.where(episode.terminations, False, episode.truncations),
        }
        for name, values in steps.items():
            parts.setdefault(name, []).append(np.asarray(values))
    if not parts:
        raise InvalidInput("states: the data set has no episodes")
    return {name: np.concatenate(values) for name, values in parts.items()}


def log_of(
    states: Any, arrays: dict[str, Any], needed: tuple[str, ...]
) -> tuple[Any, dict[str, Any]]:
    """Return states and arrays as given, or as a data set has them; those needed are there."""
    if hasattr(states, "iterate_episodes"):
        given = [name for name, values in arrays.items() if values is not None]
        if given:
            raise InvalidInput(f"a data set has its own {', '.join(given)}: give none")
        arrays = logged(states)
        states = arrays.pop("states")
    for name in needed:
        if arrays[name] is None:
            raise InvalidInput(f"{name} is missing")
    return states, arrays
