"""Parameters of estimators as settings of the compiled part."""

import numbers
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

# How an estimator works rather than what it learns.
_WORKING = frozenset({"n_jobs", "verbose"})
# What is of the machine that fitted, not of the model: no file says how many threads a process
# starts or where it writes.
LOCAL = _WORKING | {"checkpoint"}


def settings_of(
    estimator: BaseEstimator, without: tuple[str, ...] = (), **others: Any
) -> dict[str, Any]:
    """Return the parameters of an estimator, with `others` in place of some or beside them.

    Parameters in `without` are for Python alone.

    Rust reads a setting by the name of the parameter and refuses a name that it does not know, so
    that a parameter is declared once here and once there.
    """
    parameters = estimator.get_params(deep=False)
    left_out = _WORKING.union(without)
    settings = {name: value for name, value in parameters.items() if name not in left_out}
    if "random_state" in settings:
        settings["random_state"] = seed_of(settings["random_state"])
    return settings | others


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """Return an integer as it is, and 64 random bits for anything else."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    bits: np.uint64 = check_random_state(random_state).randint(0, 2**64, dtype=np.uint64)
    return int(bits)
