"""Arguments that are no settings of the compiled part, checked and named where they are wrong."""

import numbers
import operator
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from riesz._errors import InvalidInput


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the name of an argument before what NumPy and scikit-learn say of it."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        plain = type(error) in (TypeError, ValueError, OverflowError)
        if plain and not re.search(rf"\b{name}\b", str(error)):
            raise type(error)(f"{name}: {error}") from None
        raise


def count(name: str, value: Any, least: int = 0) -> int:
    """Return a whole number that is no larger than an array can be."""
    try:
        whole = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} = {shown(value)} should be a whole number") from None
    if not least <= whole < 1 << 62:
        raise InvalidInput(f"{name} = {shown(value)} is outside [{least}, 2^62)")
    return whole


def number(name: str, value: Any) -> float:
    """Return a number, or what Rust names as outside its range."""
    if not isinstance(value, numbers.Real):
        raise InvalidInput(f"{name} = {shown(value)} should be a number")
    with named(name):
        return float(value)


def positive(name: str, value: Any) -> float:
    """Return a number above zero."""
    found = number(name, value)
    if 0 < found < np.inf:
        return found
    raise InvalidInput(f"{name} = {shown(value)} is outside (0, inf)")


def flag(name: str, value: Any) -> bool:
    """Return True or False."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise InvalidInput(f"{name} = {shown(value)} should be True or False")


def level(name: str, value: Any) -> int:
    """Return how much is to be told."""
    if isinstance(value, numbers.Real) and value == value:
        near: Any = max(-1.0, min(3.0, value))  # an integer may be too large for a float
        return max(0, min(2, int(near)))
    raise InvalidInput(f"{name} = {shown(value)} should be 0, 1 or 2")


def shown(value: Any) -> str:
    """Return a value as part of a message, shortened."""
    try:
        text = repr(value)
    except ValueError:  # integers of thousands of digits
        text = f"a number of {value.bit_length()} bits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def seed_of(random_state: int | np.random.RandomState | None, name: str = "random_state") -> int:
    """Return an integer as it is, and 64 random bits for anything else."""
    if isinstance(random_state, numbers.Integral):
        seed = int(random_state)
        if not 0 <= seed < 1 << 64:
            raise InvalidInput(f"{name} = {shown(random_state)} is outside [0, 2^64)")
        return seed
    try:
        generator = check_random_state(random_state)
    except ValueError:
        raise InvalidInput(
            f"{name} = {shown(random_state)} should be a whole number, a RandomState or None"
        ) from None
    bits: np.uint64 = generator.randint(0, 2**64, dtype=np.uint64)
    return int(bits)
