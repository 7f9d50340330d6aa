"""Parameters with bounds as functions of parameters without."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from riesz._errors import InvalidInput

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Numbers between two bounds, either of which may be infinite."""

    low: float
    high: float

    # Numbers of the parameter, and of what stands for it.
    width = 1
    free = 1

    def within(self, x: Array) -> Array:
        """Return numbers that rounding put on a bound as the next ones inside."""
        low, high = np.nextafter(self.low, np.inf), np.nextafter(self.high, -np.inf)
        if np.isinf(self.low) and np.isinf(self.high):
            return x
        inside: Array = np.clip(
            x, low if np.isfinite(self.low) else None, high if np.isfinite(self.high) else None
        )
        return inside

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Return which rows are not strictly between the bounds, or no numbers."""
        finite = np.isfinite(self.low) | np.isfinite(self.high)
        inside = (x > self.low) & (x < self.high) if finite else np.isfinite(x)
        return ~inside[:, 0]

    def beyond(self, x: Array) -> NDArray[np.bool_]:
        """Return which rows are past a bound by more than rounding."""
        slack = 4 * np.spacing(np.abs(x))
        past: NDArray[np.bool_] = (x + slack < self.low) | (x - slack > self.high)
        return past[:, 0]

    def to_bounded(self, u: Array) -> Array:
        """Return the parameter, which is never on a bound."""
        if np.isfinite(self.low) and np.isfinite(self.high):
            # From the nearer bound, so that what is close to it is not lost to rounding.
            part = (self.high - self.low) * expit(-np.abs(u))
            return self.within(np.where(u < 0, self.low + part, self.high - part))
        if np.isfinite(self.low):
            return self.within(self.low + np.exp(u))
        return self.within(self.high - np.exp(u)) if np.isfinite(self.high) else u

    def to_free(self, x: Array) -> Array:
        """Return what stands for the parameter; it is not finite on a bound or outside."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if np.isfinite(self.low) and np.isfinite(self.high):
                free: Array = np.log(x - self.low) - np.log(self.high - x)
                return free
            if np.isfinite(self.low):
                return np.log(x - self.low)
            return np.log(self.high - x) if np.isfinite(self.high) else x

    def log_jacobian(self, u: Array) -> Array:
        """Return log |dx/du|, one number per row."""
        u = u[:, 0]
        if np.isfinite(self.low) and np.isfinite(self.high):
            slope: Array = np.log(self.high - self.low) + log_expit(u) + log_expit(-u)
            return slope
        return u if np.isfinite(self.low) or np.isfinite(self.high) else np.zeros(len(u))


@dataclass(frozen=True)
class Simplex:
    """Positive numbers that add up to one, by breaking a stick."""

    width: int

    @property
    def free(self) -> int:
        """One number less than there are parts."""
        return self.width - 1

    def _shares(self, u: Array) -> Array:
        # Equal parts lie at zero.
        return u - np.log(np.arange(self.free, 0, -1))

    def within(self, x: Array) -> Array:
        """Return parts that rounding made zero as the smallest there are."""
        return np.maximum(x, np.finfo(np.float64).tiny)

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Return which rows have a part that is not positive."""
        return np.asarray(~(x > 0).all(axis=1))

    def beyond(self, x: Array) -> NDArray[np.bool_]:
        """Return which rows have a part below zero, or do not add up to one but for rounding."""
        return np.asarray((x < 0).any(axis=1) | (np.abs(x.sum(axis=1) - 1) > 1e-9))

    def to_bounded(self, u: Array) -> Array:
        """Return the parts, none of which is zero."""
        shares = self._shares(u)
        rest = np.cumprod(expit(-shares), axis=1)
        left = np.hstack([np.ones((len(u), 1)), rest[:, :-1]])
        return self.within(np.hstack([expit(shares) * left, rest[:, -1:]]))

    def to_free(self, x: Array) -> Array:
        """Return what stands for the parts."""
        # What is left after part k: a sum of small numbers, no difference of large ones.
        rest = np.cumsum(x[:, :0:-1], axis=1)[:, ::-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            free: Array = np.log(x[:, :-1]) - np.log(rest) + np.log(np.arange(self.free, 0, -1))
            return free

    def log_jacobian(self, u: Array) -> Array:
        """Return log |dx/du| of the first parts, one number per row."""
        shares = self._shares(u)
        # Part k is share_k of what is left, and share_k (1 - share_k) its slope.
        log_left = np.cumsum(log_expit(-shares), axis=1) - log_expit(-shares)
        slopes: Array = (log_expit(shares) + log_expit(-shares) + log_left).sum(axis=1)
        return slopes


@dataclass(frozen=True)
class Ordered:
    """Numbers in increasing order: the first, and the logarithms of the distances."""

    width: int

    @property
    def free(self) -> int:
        """As many numbers as there are."""
        return self.width

    def within(self, x: Array) -> Array:
        """Return the numbers in order: a prior that does not know of it draws them in any."""
        return np.sort(x, axis=1)

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Return which rows have equal numbers, or no numbers."""
        return np.asarray(~(np.diff(np.sort(x, axis=1), axis=1) > 0).all(axis=1))

    def beyond(self, x: Array) -> NDArray[np.bool_]:
        """Return which rows are no numbers."""
        return np.asarray(~np.isfinite(x).all(axis=1))

    def to_bounded(self, u: Array) -> Array:
        """Return the numbers in order."""
        return np.cumsum(np.hstack([u[:, :1], np.exp(u[:, 1:])]), axis=1)

    def to_free(self, x: Array) -> Array:
        """Return what stands for the numbers; it is not finite where they are not in order."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.hstack([x[:, :1], np.log(np.diff(x, axis=1))])

    def log_jacobian(self, u: Array) -> Array:
        """Return log |dx/du|, one number per row."""
        slopes: Array = u[:, 1:].sum(axis=1)
        return slopes


Transform = Interval | Simplex | Ordered

# Constraints of all numbers of a parameter together.
_JOINT: dict[str, type[Simplex] | type[Ordered]] = {"simplex": Simplex, "ordered": Ordered}
_NAMED = {
    "real": Interval(-np.inf, np.inf),
    "positive": Interval(0, np.inf),
    "unit": Interval(0, 1),
}


def transform_of(constraint: Any, name: str, width: int) -> list[Transform]:
    """Return the transforms of a parameter of ``width`` numbers under a constraint a user gave."""
    if isinstance(constraint, str):
        if constraint in _JOINT:
            return [_JOINT[constraint](width)]
        if constraint in _NAMED:
            return [_NAMED[constraint]] * width
    elif isinstance(constraint, tuple) and len(constraint) == 2:
        low, high = (
            np.inf * sign if bound is None else float(bound)
            for sign, bound in zip((-1, 1), constraint, strict=True)
        )
        if low < high:
            return [Interval(low, high)] * width
    raise InvalidInput(
        f"the constraint {constraint!r} of {name} is unknown; expected real, positive, unit, "
        "simplex, ordered or a pair (low, high)"
    )


class Layout:
    """Names of columns and what keeps them within their bounds."""

    def __init__(
        self,
        names: list[str],
        columns: dict[str, tuple[int, int, bool]],
        transforms: list[Transform],
    ) -> None:
        self.names = names
        self.columns = columns
        self.transforms = transforms
        self.unbounded = all(t == Interval(-np.inf, np.inf) for t in transforms)

    @classmethod
    def free(cls, names: list[str]) -> "Layout":
        """Numbers without bounds."""
        columns = {name: (j, j + 1, True) for j, name in enumerate(names)}
        return cls(names, columns, [Interval(-np.inf, np.inf)] * len(names))

    def _blocks(self, values: Array, bounded: bool) -> list[tuple[Transform, Array]]:
        blocks, first = [], 0
        for transform in self.transforms:
            width = transform.width if bounded else transform.free
            blocks.append((transform, values[:, first : first + width]))
            first += width
        return blocks

    def within(self, theta: Array) -> Array:
        """Return parameters that rounding put on a bound as the next ones inside."""
        if self.unbounded:
            return theta
        return np.hstack([t.within(block) for t, block in self._blocks(theta, bounded=True)])

    def to_bounded(self, u: Array) -> Array:
        if self.unbounded:
            return u
        return np.hstack([t.to_bounded(block) for t, block in self._blocks(u, bounded=False)])

    def to_free(self, theta: Array) -> Array:
        if self.unbounded:
            return theta
        return np.hstack([t.to_free(block) for t, block in self._blocks(theta, bounded=True)])

    def log_jacobian(self, u: Array) -> Array:
        if self.unbounded:
            return np.zeros(len(u))
        parts = [t.log_jacobian(block) for t, block in self._blocks(u, bounded=False)]
        total: Array = np.sum(parts, axis=0)
        return total

    def check(self, free: int) -> None:
        """Refuse a layout that is not one of so many numbers without bounds."""
        widths = [transform.width for transform in self.transforms]
        numbers = sum(transform.free for transform in self.transforms)
        if min(widths, default=0) < 1 or numbers != free or sum(widths) != len(self.names):
            raise InvalidInput(
                f"not a valid riesz file: names and bounds of {len(self.names)} parameters, which"
                f" are {numbers} numbers without bounds, for a posterior of {free}"
            )
        for name, (first, last, _) in self.columns.items():
            if not 0 <= first < last <= len(self.names):
                raise InvalidInput(f"not a valid riesz file: {name!r} is columns {first} to {last}")

    def to_json(self) -> dict[str, Any]:
        transforms = [
            {"low": _finite(t.low), "high": _finite(t.high)}
            if isinstance(t, Interval)
            else {type(t).__name__.lower(): t.width}
            for t in self.transforms
        ]
        return {"names": self.names, "columns": self.columns, "transforms": transforms}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Layout":
        transforms: list[Transform] = [
            next(_JOINT[name](int(t[name])) for name in t)
            if t.keys() <= _JOINT.keys() and t
            else Interval(
                -np.inf if t["low"] is None else float(t["low"]),
                np.inf if t["high"] is None else float(t["high"]),
            )
            for t in value["transforms"]
        ]
        columns = {str(k): (int(a), int(b), bool(c)) for k, (a, b, c) in value["columns"].items()}
        return cls([str(name) for name in value["names"]], columns, transforms)


def _finite(bound: float) -> float | None:
    return bound if np.isfinite(bound) else None
