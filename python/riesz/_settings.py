"""Parameters of estimators as settings of the compiled part."""

from typing import Any

from sklearn.base import BaseEstimator

from riesz._arguments import seed_of

# How an estimator works rather than what it learns.
_WORKING = frozenset({"n_jobs", "verbose"})
# What Rust does not see.
_FOR_PYTHON = _WORKING | {"categorical_features"}
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
    left_out = _FOR_PYTHON.union(without)
    settings = {name: value for name, value in parameters.items() if name not in left_out}
    if "random_state" in settings:
        settings["random_state"] = seed_of(settings["random_state"])
    return settings | others
