"""Priors: distributions by parameter name, or one object for all parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from riesz._arguments import shown
from riesz._errors import InvalidInput
from riesz._fingerprint import fingerprint
from riesz._transforms import Array, Interval, Layout, Ordered, Simplex, Transform, transform_of

# The share of draws that rounding may put on a bound.
_ON_BOUND = 1e-3


class _Newer:
    """One of SciPy's newer distributions (``scipy.stats.Normal``) with the methods of the older."""

    def __init__(self, distribution: Any) -> None:
        self.distribution = distribution

    def rvs(self, size: int, random_state: np.random.Generator) -> Any:
        return self.distribution.sample(shape=(size,), rng=random_state)

    def logpdf(self, x: Array) -> Array:
        # Of several numbers each has a distribution of its own.
        found = np.asarray(self.distribution.logpdf(x))
        return found.sum(axis=1) if found.ndim == 2 else found

    def support(self) -> Any:
        return self.distribution.support()

    def is_discrete(self) -> bool:
        """Tell whether the density at its own draws is infinite: both kinds have all methods."""
        draws = self.distribution.sample(shape=(2,), rng=np.random.default_rng(0))
        return bool(np.all(np.asarray(self.distribution.logpdf(draws)) == np.inf))


@dataclass
class _Parameter:
    """One distribution and where its numbers are."""

    name: str
    distribution: Any
    scalar: bool
    transforms: list[Transform]
    # Names of its numbers where the distribution gives them.
    columns: list[str] | None = None

    @property
    def width(self) -> int:
        return sum(transform.width for transform in self.transforms)

    def fingerprint(self) -> str:
        """Return text that differs wherever two distributions do."""
        if not isinstance(self.distribution, _Newer):
            return fingerprint(self.distribution)
        # Its attributes change with its use.
        draws = self.distribution.rvs(16, np.random.Generator(np.random.Philox(key=0)))
        kind = repr(self.distribution.distribution)
        return fingerprint([kind, self.distribution.logpdf(draws), draws])


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
            first = len(names)
            if p.columns is not None:
                found = {name: (first + j, first + j + 1, True) for j, name in enumerate(p.columns)}
                names += p.columns
            else:
                found = {p.name: (first, first + p.width, p.scalar)}
                names += [p.name] if p.scalar else [f"{p.name}[{j}]" for j in range(p.width)]
            own, others = names[first:], names[:first]
            if twice := sorted((found.keys() & columns.keys()) | (set(own) & set(others))):
                raise InvalidInput(f"prior names {twice} twice; give every column one name")
            columns |= found
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
        total, first = np.zeros(len(theta)), 0
        for parameter in self.parameters:
            last = first + parameter.width
            values = theta[:, first] if parameter.scalar else theta[:, first:last]
            total += _logpdf(parameter, values)
            first = last
        return total


def _is_newer(distribution: Any) -> bool:
    """Tell SciPy's newer distributions from all else that draws samples."""
    if isinstance(distribution, type) or hasattr(distribution, "rvs"):
        return False
    kinds = (kind.__module__ for kind in type(distribution).__mro__)
    methods = all(hasattr(distribution, name) for name in ("logpdf", "sample", "support"))
    return methods and any(kind.startswith("scipy.stats") for kind in kinds)


def _parameter(name: str, distribution: Any, constraint: Any) -> _Parameter:
    """Look at a distribution: how many numbers it draws, and where they lie."""
    if _is_newer(distribution):
        distribution = _Newer(distribution)
        discrete = distribution.is_discrete()
    else:
        discrete = hasattr(distribution, "pmf")
    if discrete:
        raise InvalidInput(
            f"the prior of {name} is discrete; parameters have densities, sum discrete ones out in "
            "the likelihood"
        )
    given = distribution.distribution if isinstance(distribution, _Newer) else distribution
    if not hasattr(given, "logpdf") or not hasattr(distribution, "rvs"):
        raise InvalidInput(
            f"the prior of {name} needs the methods logpdf and rvs, as a frozen distribution of "
            f"scipy.stats has, or logpdf and sample, as its newer ones have; found "
            f"{type(given).__name__}"
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
    columns = _columns(distribution, name, width)
    bounds = getattr(distribution, "bounds", None)
    if constraint is not None and bounds is not None:
        raise InvalidInput(
            f"the prior of {name} has bounds of its own, and constraints name it too; give one"
        )
    if constraint is not None:
        transforms = transform_of(constraint, name, width)
    elif bounds is not None:
        transforms = _bounds(bounds, columns or [f"{name}[{j}]" for j in range(width)], name)
    elif hasattr(distribution, "support") and (scalar or isinstance(distribution, _Newer)):
        low, high = (np.broadcast_to(bound, width) for bound in distribution.support())
        transforms = [Interval(float(a), float(b)) for a, b in zip(low, high, strict=True)]
    elif type(distribution).__name__ == "dirichlet_frozen":
        transforms = [Simplex(width)]
    else:
        transforms = [Interval(-np.inf, np.inf)] * width
    found = _Parameter(name, distribution, scalar, transforms, columns)
    if isinstance(transforms[0], Ordered):
        _check_exchangeable(found, probe)
    return found


def _columns(distribution: Any, name: str, width: int) -> list[str] | None:
    """Return the names that an object gives its numbers."""
    columns = getattr(distribution, "columns", None)
    if columns is None:
        return None
    names = list(columns) if isinstance(columns, list | tuple) else []
    if (
        len(names) != width
        or len(set(names)) != width
        or not all(isinstance(c, str) and c for c in names)
    ):
        raise InvalidInput(
            f"columns = {shown(columns)} of the prior of {name} should be a list of {width} "
            "different names, one for each number that rvs draws"
        )
    return names


def _bounds(bounds: Any, columns: list[str], name: str) -> list[Transform]:
    """Return what an object says of where its numbers lie."""
    if not isinstance(bounds, list | tuple) or len(bounds) != len(columns):
        raise InvalidInput(
            f"bounds = {shown(bounds)} of the prior of {name} should be a list of {len(columns)} "
            'items, one for each number that rvs draws: "real", "positive", "unit" or a pair '
            "(low, high) with None for no bound"
        )
    found: list[Transform] = []
    for bound, column in zip(bounds, columns, strict=True):
        if isinstance(bound, str) and bound in ("simplex", "ordered"):
            raise InvalidInput(
                f"the bound {bound!r} of {column} is one of several numbers together; give it in "
                f'constraints, as {{"{name}": "{bound}"}}'
            )
        found += transform_of(bound, column, 1)
    return found


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
