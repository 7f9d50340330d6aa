"""Constraints that hold in expectation while a function is learnt."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riesz._errors import InvalidInput

# (values, target) -> (g, slope of g in the values)
Function: TypeAlias = Callable[[NDArray[np.float32], Any], tuple[float, ArrayLike]]


@dataclass(frozen=True)
class LossAbove:
    """How far a loss is above a threshold, as the quantity of a constraint.

    Parameters
    ----------
    threshold : float
        What is subtracted from the loss, in the units of the targets.
    loss : str, optional
        The loss, with its parameter after "=" where it has one; that which is learnt with if not
        given.

    Examples
    --------
    >>> from riesz import ChanceConstraint, LossAbove
    >>> ChanceConstraint(LossAbove(2.0), 0.1)
    ChanceConstraint(g=LossAbove(threshold=2.0, loss=None), probability=0.1, generator='hinge')
    """

    threshold: float
    loss: str | None = None


@dataclass(frozen=True)
class CVaR:
    """The mean of the worst losses is at most a bound.

    Parameters
    ----------
    level : float
        The share of losses that is not among the worst: 0.95 bounds the mean of the worst
        twentieth.
    bound : float
        The bound, in the units of the loss.
    loss : str, optional
        The loss, with its parameter after "=" where it has one; that which is learnt with if not
        given.

    Examples
    --------
    >>> from riesz import CVaR
    >>> CVaR(0.95, 1.35)
    CVaR(level=0.95, bound=1.35, loss=None)
    """

    level: float
    bound: float
    loss: str | None = None


@dataclass(frozen=True)
class ChanceConstraint:
    """Something bad, g > 0, happens with at most a given probability.

    Its convex form is conservative: the frequency of g > 0 stays below the probability.

    Parameters
    ----------
    g : LossAbove or callable
        The quantity. A function (values, target) returns g and its slope in the values: those are
        the scores of a row (one number for a regression), and the target is a number or the place
        of the label in ``classes_``. It should be convex in the values.
    probability : float
        The probability.
    generator : {"hinge", "square", "exponential"}, default="hinge"
        The convex form; the first is the tightest.

    Examples
    --------
    >>> from riesz import ChanceConstraint
    >>> def too_low(values, target):
    ...     return target - 1.0 - values[0], [-1.0]
    >>> ChanceConstraint(too_low, 0.1).probability
    0.1
    """

    g: LossAbove | Function | str
    probability: float
    generator: str = "hinge"


@dataclass(frozen=True)
class MeanConstraint:
    """A quantity is at most zero in the mean.

    Parameters
    ----------
    g : LossAbove or callable
        The quantity, as of :class:`ChanceConstraint`.

    Examples
    --------
    >>> from riesz import LossAbove, MeanConstraint
    >>> MeanConstraint(LossAbove(0.5, "absolute"))
    MeanConstraint(g=LossAbove(threshold=0.5, loss='absolute'))
    """

    g: LossAbove | Function | str


Constraint: TypeAlias = CVaR | ChanceConstraint | MeanConstraint


def settings_of_constraint(constraint: Constraint) -> dict[str, Any]:
    """Return a constraint as the compiled part reads it; functions by their names."""
    match constraint:
        case CVaR(level, bound, loss):
            return {"cvar": {"level": _number(level), "bound": _number(bound), "loss": _text(loss)}}
        case ChanceConstraint(g, probability, generator):
            return {
                "chance": {
                    "quantity": _quantity(g),
                    "probability": _number(probability),
                    "generator": _text(generator),
                }
            }
        case MeanConstraint(g):
            return {"mean": {"quantity": _quantity(g)}}
    raise InvalidInput(
        f"constraints has {constraint!r}, which is no CVaR, ChanceConstraint or MeanConstraint"
    )


def constraint_of_settings(settings: dict[str, Any]) -> Constraint:
    """Return the constraint of such settings, with the names of functions in their place."""
    ((kind, fields),) = settings.items()
    if kind == "cvar":
        return CVaR(**fields)
    ((name, value),) = fields.pop("quantity").items()
    g = LossAbove(**value) if name == "loss_above" else str(value)
    return ChanceConstraint(g, **fields) if kind == "chance" else MeanConstraint(g)


def passed(constraints: Any) -> list[tuple[str, Function | None]]:
    """Return constraints as the compiled part takes them."""
    if isinstance(constraints, CVaR | ChanceConstraint | MeanConstraint):
        raise InvalidInput("constraints is a list, even of one")
    try:
        each = list(constraints)
    except TypeError:
        raise InvalidInput(f"constraints = {constraints!r} should be a list") from None
    return [(json.dumps(settings_of_constraint(one)), _function(one)) for one in each]


def _function(constraint: Constraint) -> Function | None:
    g = getattr(constraint, "g", None)
    return g if callable(g) else None


def _quantity(g: Any) -> dict[str, Any]:
    if isinstance(g, LossAbove):
        return {"loss_above": {"threshold": _number(g.threshold), "loss": _text(g.loss)}}
    if isinstance(g, str):
        return {"user": g}
    if callable(g):
        return {"user": getattr(g, "__qualname__", type(g).__qualname__)}
    raise InvalidInput(f"g = {g!r} of a constraint should be LossAbove or a function")


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"{value!r} in constraints should be a finite number")
    return number


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise InvalidInput(f"{value!r} in constraints should be a name")
