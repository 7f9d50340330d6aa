"""Parameters of SBEED, as settings of the compiled part."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from riesz._arguments import count, flag, number, shown
from riesz._errors import InvalidInput
from riesz._riesz import Agent

# Where each parameter stands among the settings.
_COUNTS = {"window": "horizon.steps", "iterations": "iterations", "buffer_size": "capacity"}
_NUMBERS = {
    "gamma": "horizon.discount",
    "trace": "horizon.trace",
    "temperature": "smoothing.temperature",
    "dual_weight": "smoothing.dual_weight",
    "damping": "damping",
    "most_ratio": "most_ratio",
    "last_log_std": "last_log_deviation",
}
_CHOICES = {
    "policy": ("RbfPolicy", "MlpPolicy"),
    "form": ("stabilised", "published"),
    "dual_actions": ("first", "window"),
    "score": ("first", "window"),
    "target": ("frozen", "moving", "saddle"),
}
# Those that say what the settings are changes of.
_FORM = ("policy", "form")
# What the compiled part calls what has another name here.
_NAMES = {"discount": "gamma", "steps": "window"}
# Features come in blocks.
_BLOCK = 64


def changes(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from those of a form, by their places."""
    found: dict[str, Any] = {}
    for name, choices in _CHOICES.items():
        if given[name] is None and name not in _FORM:
            continue
        if not isinstance(given[name], str) or given[name] not in choices:
            raise InvalidInput(f"{name} = {shown(given[name])} is not one of {', '.join(choices)}")
        if name not in _FORM:
            found[name] = given[name]
    for name, place in _COUNTS.items():
        if given[name] is not None:
            found[place] = count(name, given[name])
    for name, place in _NUMBERS.items():
        if given.get(name) is not None:
            found[place] = _finite(name, given[name])
    if given["log_std"] is not None:
        found["log_deviation"] = _several("log_std", given["log_std"], 3)
    pair = _sequence("normalize", given["normalize"], 2, repeat=True)
    found["standardised"] = [flag("normalize", each) for each in pair]
    return found | _step(given) | _functions(given)


def _step(given: dict[str, Any]) -> dict[str, Any]:
    """Return how far the policy moves."""
    if given["divergence"] is not None and given["policy_step"] is not None:
        raise InvalidInput("divergence and policy_step are two ways to move: give one of them")
    if given["divergence"] is not None:
        return {"step": {"divergence": _several("divergence", given["divergence"], 2, repeat=True)}}
    if given["policy_step"] is not None:
        return {"step": {"fixed": _finite("policy_step", given["policy_step"])}}
    return {}


def _functions(given: dict[str, Any]) -> dict[str, Any]:
    """Return what policy, V and rho are."""
    networks = given["policy"] == "MlpPolicy"
    critics_are_networks = networks or given["form"] == "published"
    parts: tuple[str, ...] = ("policy", "value.form", "dual.form")
    found: dict[str, Any] = {}
    if networks:
        found |= {part: {"network": {"hidden": [64, 64]}} for part in parts}
        # Twenty of Adam's steps from where the last update ended are as good as five times as many.
        found |= {f"{part}.sweeps": 1 for part in ("value", "dual")}
        found |= {f"{part}.descent.1": 3e-3 for part in ("value", "dual")}
    if given["n_features"] is not None:
        if networks:
            raise InvalidInput("n_features: networks have none; they are those of RbfPolicy")
        if critics_are_networks:
            parts = ("policy",)
        sizes = _sequence("n_features", given["n_features"], len(parts), repeat=True)
        for part, size in zip(parts, sizes, strict=True):
            found[f"{part}.features.count"] = count("n_features", size, 1)
            if size % _BLOCK:
                raise InvalidInput(f"n_features = {shown(size)} is not a multiple of {_BLOCK}")
    if given["learning_rate"] is not None:
        if not critics_are_networks and given["target"] != "moving":
            raise InvalidInput(
                "learning_rate: nothing is learnt by Adam here, but networks and moving targets are"
            )
        rate = _finite("learning_rate", given["learning_rate"])
        found |= {f"{part}.descent.1": rate for part in ("value", "dual")}
    return found


def _finite(name: str, value: Any) -> float:
    found = number(name, value)
    if not np.isfinite(found):
        raise InvalidInput(f"{name} = {shown(value)} is outside (-inf, inf)")
    return found


def _several(name: str, value: Any, size: int, *, repeat: bool = False) -> list[float]:
    return [_finite(name, each) for each in _sequence(name, value, size, repeat=repeat)]


def _sequence(name: str, value: Any, size: int, *, repeat: bool = False) -> list[Any]:
    if isinstance(value, Iterable) and not isinstance(value, str):
        found = list(value)
    else:
        found = [value] * size if repeat else []
    if len(found) != size:
        raise InvalidInput(f"{name} = {shown(value)} should be {'one or ' * repeat}{size} values")
    return found


def agent_of(
    form: str, columns: int, actions: tuple[Any, Any], seed: int, settings: dict[str, Any]
) -> Agent:
    """Return an agent that knows nothing; what is wrong with a parameter is said by its name."""
    try:
        return Agent(form, columns, actions, seed, json.dumps(settings))
    except InvalidInput as error:
        text = str(error)
        for own, name in _NAMES.items():
            text = text.replace(f"{own} =", f"{name} =")
        raise InvalidInput(text) from None
