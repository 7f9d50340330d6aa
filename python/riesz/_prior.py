"""Priors: distributions by parameter name, or one object for all parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from riesz._arguments import shown
from riesz._errors import InvalidInput
from riesz._transforms import Array, Interval, Layout, Ordered, Simplex, Transform, transform_of

# The share of draws that rounding may put on a bound.
_ON_BOUND = 1e-3


@dataclass
class _Parameter:
    """One distribution and where its numbers are."""

    name: str
    distribution: Any
    scalar: bool
    transforms: list[Transform]

    @property
    def width(self) -> int:
        return sum(transform.width for transform in self.transforms)


class Prior:
    """The prior of all parameters, with bounded ones transformed to the whole line.

    Rows of ``theta`` hold the parameters in the order of their names, rows of ``u`` what stands for
    them without bounds.
    """

    def __init__(self, prior: Any, constraints: Mapping[str, Any] | None) -> None:
        if not isinstance(constraints, Mapping | None):
            raise InvalidInput(f"constraints = {shown(constraints)} should be a dictionary or None")
        constraints = dict(constraints or {})
        given = prior if isinstance(prior, Mapping) else {"theta": prior}
        if not given:
            raise InvalidInput("prior has no parameters")
        self.parameters = [
            _parameter(str(name), distribution, constraints.pop(name, None))
            for name, distribution in given.items()
        ]
        if constraints:
            raise InvalidInput(f"constraints name {sorted(constraints)}, which prior does not")
        names: list[str] = []
        columns: dict[str, tuple[int, int, bool]] = {}
        for p in self.parameters:
            columns[p.name] = (len(names), len(names) + p.width, p.scalar)
            names += [p.name] if p.scalar else [f"{p.name}[{j}]" for j in range(p.width)]
        self.layout = Layout(names, columns, [t for p in self.parameters for t in p.transforms])
        self.dimension = sum(transform.free for transform in self.layout.transforms)

    def sample(self, count: int, seed: int) -> Array:
        """Return draws as rows of ``u``."""
        rng = np.random.Generator(np.random.Philox(key=seed))
        # SciPy drops the first axis of a single multivariate draw.
        drawn = [
            np.asarray(p.distribution.rvs(size=count, random_state=rng), dtype=np.float64)
            for p in self.parameters
        ]
        rows = [
            values.reshape(count, p.width) for values, p in zip(drawn, self.parameters, strict=True)
        ]
        for values, p in zip(rows, self.parameters, strict=True):
            _check_draws(p, values)
        # A draw that rounding put on a bound is brought back inside.
        u = self.layout.to_free(self.layout.within(np.hstack(rows)))
        return np.ascontiguousarray(u)

    def logpdf(self, theta: Array) -> Array:
        """Return the log-density of every row of ``theta``."""
        total = np.zeros(len(theta))
        for parameter in self.parameters:
            first, last, scalar = self.layout.columns[parameter.name]
            values = theta[:, first] if scalar else theta[:, first:last]
            total += _logpdf(parameter, values)
        return total


def _parameter(name: str, distribution: Any, constraint: Any) -> _Parameter:
    """Look at a distribution: how many numbers it draws, and where they lie."""
    if hasattr(distribution, "pmf"):
        raise InvalidInput(
            f"the prior of {name} is discrete; parameters have densities, sum discrete ones out in "
            "the likelihood"
        )
    if not hasattr(distribution, "logpdf") or not hasattr(distribution, "rvs"):
        raise InvalidInput(
            f"the prior of {name} needs the methods logpdf and rvs, as a frozen distribution of "
            f"scipy.stats has; found {type(distribution).__name__}"
        )
    probe = np.asarray(
        distribution.rvs(size=2, random_state=np.random.default_rng(0)), dtype=np.float64
    )
    if probe.ndim not in (1, 2) or len(probe) != 2:
        raise InvalidInput(
            f"rvs(size=2) of the prior of {name} has shape {probe.shape}; expected (2,) for one "
            "number or (2, d) for several"
        )
    scalar = probe.ndim == 1
    width = 1 if scalar else probe.shape[1]
    if constraint is not None:
        found = _Parameter(name, distribution, scalar, transform_of(constraint, name, width))
        if isinstance(found.transforms[0], Ordered):
            _check_exchangeable(found, probe)
        return found
    if scalar and hasattr(distribution, "support"):
        low, high = (float(bound) for bound in distribution.support())
        return _Parameter(name, distribution, scalar, [Interval(low, high)])
    if type(distribution).__name__ == "dirichlet_frozen":
        return _Parameter(name, distribution, scalar, [Simplex(width)])
    return _Parameter(name, distribution, scalar, [Interval(-np.inf, np.inf)] * width)


def _check_exchangeable(parameter: _Parameter, probe: Array) -> None:
    """Refuse a prior that is not the same in any order: sorted draws would not be its draws."""
    forth, back = (parameter.distribution.logpdf(x) for x in (probe, probe[:, ::-1]))
    if not np.allclose(forth, back):
        raise InvalidInput(
            f"the prior of {parameter.name}, which is ordered, changes with the order of its "
            "numbers; give one that does not"
        )


def _check_draws(parameter: _Parameter, values: Array) -> None:
    """Refuse draws that are no numbers or outside their bounds, and a prior that rounding changes.

    Draws on a bound stand for a density so high next to it that float64 cannot tell where: a few do
    no harm, many are another prior.
    """
    if np.isnan(values).any():
        raise InvalidInput(f"the prior of {parameter.name} draws NaN")
    first = 0
    for transform in parameter.transforms:
        block = values[:, first : first + transform.width]
        first += transform.width
        outside, beyond = transform.outside(block), transform.beyond(block)
        if beyond.any():
            raise InvalidInput(
                f"the prior of {parameter.name} draws {block[beyond.argmax()].tolist()}, outside "
                f"its bounds {transform}; give constraints that it keeps"
            )
        if outside.sum() > _ON_BOUND * len(values) + 1:
            raise InvalidInput(
                f"the prior of {parameter.name} puts {outside.mean():.0%} of its draws closer to a "
                f"bound of {transform} than float64 can tell; take a prior with less mass there, "
                "or a parameter such as its logarithm"
            )


def _logpdf(parameter: _Parameter, values: Array) -> Array:
    rows = len(values)
    if isinstance(parameter.transforms[0], Simplex):
        # SciPy wants parts in columns, adding up to one exactly.
        values = (values / values.sum(axis=1, keepdims=True)).T
    found = np.asarray(parameter.distribution.logpdf(values), dtype=np.float64).reshape(-1)
    if found.shape != (rows,):
        raise InvalidInput(
            f"logpdf of the prior of {parameter.name} has shape {found.shape} for {rows} particles"
        )
    if isinstance(parameter.transforms[0], Ordered):
        # Numbers in order stand for all of their orders.
        found = found + gammaln(parameter.width + 1)
    return found
