"""Posteriors of models of one's own."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from riesz._arguments import count, flag, named, seed_of, shown
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._fingerprint import fingerprint
from riesz._posterior import CollapseWarning, Posterior
from riesz._prior import Prior
from riesz._progress import progress
from riesz._riesz import ParticlePosterior
from riesz._transforms import Array, Layout

# Particles times observations that a likelihood is asked about at once: 256 MB of numbers, and
# 32 MB where it returns one for each.
_PIECE = 32_000_000
_POINTWISE_PIECE = 1 << 22


@dataclass(eq=False, repr=False)
class MirrorDescentSettings(BaseEstimator):
    """What every posterior by particle mirror descent can be told."""

    _: KW_ONLY
    n_particles: int = 2000
    mode: str = "adaptive"
    n_islands: int = 2
    batch_size: int | None = None
    growth: float = 2.0
    effective: float = 0.3
    defensive: float = 0.1
    renewal: str = "auto"
    laplace: bool = True
    final_stage: bool = True
    strategy: str = "density_then_particles"
    density_steps: int | None = None
    initial_particles: int | None = None
    n_steps: int | None = None
    step: float = 1.0
    delay: float = 0.0
    decay: float = 1.0
    bandwidth: float = 1.0
    bandwidth_bound: float = 0.1
    smoothness: float = 2.0
    max_time: float | None = None
    checkpoint: str | os.PathLike[str] | None = None
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0

    def _settings(self) -> dict[str, Any]:
        if not isinstance(self.mode, str) or self.mode not in ("adaptive", "paper"):
            raise InvalidInput(
                f"mode = {shown(self.mode)} is unknown; expected one of adaptive, paper"
            )
        if self.mode == "paper" and self.checkpoint is not None:
            raise InvalidInput("checkpoint belongs to mode='adaptive'")
        names = [name for name in MirrorDescentSettings.__dataclass_fields__ if name != "_"]
        given = {name: getattr(self, name) for name in names}
        settings = {name: value for name, value in given.items() if value is not None}
        steps = count("density_steps", settings.pop("density_steps", 50))
        if isinstance(self.strategy, str) and self.strategy == "density_then_particles":
            settings["strategy"] = {self.strategy: steps}
        return settings | {"random_state": seed_of(self.random_state)}

    def _posterior(
        self, particles: ParticlePosterior, layout: Layout, pointwise: Any = None
    ) -> Posterior:
        """Wrap what was fitted, and say aloud what is wrong with it."""
        posterior = Posterior(particles, layout, pointwise)
        for message in posterior.warnings:
            warnings.warn(message, CollapseWarning, stacklevel=3)
        return posterior


@documented
@dataclass(eq=False, repr=False)
class ParticleMirrorDescent(MirrorDescentSettings):
    """The posterior of a model of your own, from values of its likelihood alone.

    No gradients are needed, data are looked at in batches, several modes are found and weighed, and
    the evidence comes with an error bar. The default is tempered importance sampling with batches
    of data in place of temperatures, each batch a step of mirror descent: it follows the posterior
    of more and more of the data, drawing particles anew from a density through them where few are
    effective; a last stage draws all of them anew and weighs them by all data. ``mode="paper"`` is
    the published algorithm.

    Parameters
    ----------
    log_likelihood : callable
        ``log_likelihood(theta, batch)`` with ``theta`` of shape (m, d), parameters in the order of
        ``prior``, and ``batch`` some of the data, returns for each row of ``theta`` the sum of
        ``log p(x | theta)`` over the batch: shape (m,). With ``pointwise=True`` it returns the
        terms, shape (m, len(batch)). NumPy, JAX and Torch arrays will do. ``m * len(batch)`` is at
        most 32 million, 256 MB of numbers: larger batches come in parts, whose sums are added.
    prior : dict or object
        Distributions of ``scipy.stats`` by parameter name, frozen or of the newer kind
        (``scipy.stats.Normal()``); or one object with ``logpdf(theta)`` and
        ``rvs(size, random_state)`` for all parameters. Such an object may have ``columns``, a list
        of their names, and ``bounds``, a list with "real", "positive", "unit" or a pair
        (low, high) for each. Parameters with bounds are transformed, Jacobian included.
    $mirror_descent
    pointwise : bool, default=False
        Whether the likelihood returns terms; then the posterior has leave-one-out scores.
    constraints : dict, optional
        Bounds by parameter name where the distribution does not tell them: "real", "positive",
        "unit", "simplex", "ordered" (increasing numbers, of a prior that is the same in any order)
        or a pair (low, high) with None for no bound.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from riesz import ParticleMirrorDescent
    >>> data = np.random.default_rng(0).normal(3, 2, size=500)
    >>> def log_likelihood(theta, batch):
    ...     mu, sigma = theta[:, :1], theta[:, 1:]
    ...     return stats.norm.logpdf(batch, mu, sigma).sum(axis=1)
    >>> prior = {"mu": stats.norm(0, 10), "sigma": stats.halfnorm(scale=5)}
    >>> posterior = ParticleMirrorDescent(log_likelihood, prior, random_state=0).fit(data)
    >>> mean, error = posterior.expect(lambda theta: theta[:, 0])
    >>> bool(abs(mean - data.mean()) < 0.05)
    True
    """

    log_likelihood: Callable[[Any, Any], Any]
    prior: Any
    _: KW_ONLY
    pointwise: bool = False
    constraints: Mapping[str, Any] | None = None

    def fit(self, data: Any) -> Posterior:
        """Return the posterior.

        Parameters
        ----------
        data : array, DataFrame, sparse array, tuple or dict of arrays, or sequence
            Observations along the first axis. Batches are of the same kind.

        Returns
        -------
        Posterior
        """
        if not callable(self.log_likelihood):
            raise InvalidInput("log_likelihood should be a function of theta and a batch")
        prior = Prior(self.prior, self.constraints)
        model = _Model(self.log_likelihood, prior, data, flag("pointwise", self.pointwise))
        with progress(self.verbose) as observer:
            particles = ParticlePosterior.fit(
                model,
                prior.dimension,
                model.observations,
                settings=self._settings(),
                n_jobs=self.n_jobs,
                observer=observer,
            )
        pointwise = model.terms if self.pointwise else None
        return self._posterior(particles, prior.layout, pointwise)


class _Model:
    """A user's functions as the compiled part calls them, with what goes wrong explained."""

    def __init__(
        self, function: Callable[[Any, Any], Any], prior: Prior, data: Any, pointwise: bool
    ) -> None:
        self.function = function
        self.prior = prior
        self.data = data
        self.pointwise = pointwise
        self.observations = _length(data)

    def sample_prior(self, count: int, seed: int) -> Array:
        return self.prior.sample(count, seed)

    def fingerprint(self) -> dict[str, str]:
        """Return what tells this model and its data from others, part by part."""
        priors = {f"prior of {p.name}": p.fingerprint() for p in self.prior.parameters}
        return {
            "data": fingerprint(self.data),
            "log_likelihood": fingerprint(self.function),
            "pointwise": str(bool(self.pointwise)),
            "constraints": fingerprint(self.prior.layout.to_json()),
            **priors,
        }

    def log_prior(self, u: Array) -> Array:
        with np.errstate(over="ignore"):
            theta = self.prior.layout.to_bounded(u)
            found = self.prior.logpdf(theta) + self.prior.layout.log_jacobian(u)
        # Where the transformation overflows there is no density.
        found[~np.isfinite(theta).all(axis=1)] = -np.inf
        return np.ascontiguousarray(found)

    def log_likelihood(self, u: Array, indices: Any) -> Array:
        theta = self.prior.layout.to_bounded(u)
        total = np.zeros(len(theta))
        for piece in self._pieces(len(theta), indices):
            shape = (len(theta), len(piece)) if self.pointwise else (len(theta),)
            found = self._call(theta, take(self.data, piece), len(piece), shape)
            total += found.sum(axis=1) if self.pointwise else found
        return total

    def terms(self, theta: Array) -> Iterator[Array]:
        """Yield log p(x_n | theta_i) for all particles and some of the observations, in order."""
        for piece in self._pieces(len(theta), np.arange(self.observations)):
            yield self._call(theta, take(self.data, piece), len(piece), (len(theta), len(piece)))

    def _pieces(self, particles: int, indices: Any) -> list[Any]:
        most = _POINTWISE_PIECE if self.pointwise else _PIECE
        step = max(1, most // max(particles, 1))
        return [indices[i : i + step] for i in range(0, len(indices), step)]

    def _call(self, theta: Array, batch: Any, rows: int, shape: tuple[int, ...]) -> Array:
        try:
            found = _array(self.function(theta, batch))
        except Exception as error:
            self._explain(error, theta, batch, rows)
            raise
        if found.shape != shape:
            per = (
                "one row per particle and one column per observation"
                if len(shape) == 2
                else "one number per particle"
            )
            raise InvalidInput(
                f"log_likelihood returned shape {found.shape} for {len(theta)} particles and a "
                f"batch of {rows} observations; expected {shape}, {per}"
            )
        return found

    def _explain(self, error: Exception, theta: Array, batch: Any, rows: int) -> None:
        """Say which particle it was, by asking about one at a time."""
        where = f"all {len(theta)} particles together, though none of them alone"
        for i in range(len(theta)):
            try:
                self.function(theta[i : i + 1], batch)
            except Exception:
                values = ", ".join(
                    f"{name} = {value:.6g}"
                    for name, value in zip(self.prior.layout.names, theta[i], strict=True)
                )
                where = f"particle {i} ({values})"
                break
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"in log_likelihood of {where}, on a batch of {rows} observations")


def _array(values: Any) -> Array:
    """Return what a likelihood returned as an array, from JAX and Torch too."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def _length(data: Any) -> int:
    """Return the number of observations."""
    if isinstance(data, Mapping):
        parts: Sequence[Any] = list(data.values())
    else:
        parts = list(data) if isinstance(data, tuple) else [data]
    with named("data"):
        lengths = {part.shape[0] if getattr(part, "shape", ()) else len(part) for part in parts}
    if len(lengths) != 1:
        raise InvalidInput(
            f"the arrays of data have {sorted(lengths)} rows; expected as many in each"
        )
    return int(lengths.pop())


def take(data: Any, indices: Any) -> Any:
    """Return the observations at ``indices``, of the kind data are."""
    if isinstance(data, Mapping):
        return {name: take(part, indices) for name, part in data.items()}
    if isinstance(data, tuple):
        return tuple(take(part, indices) for part in data)
    if hasattr(data, "iloc"):
        return data.iloc[indices]
    if hasattr(data, "shape"):
        return data[indices]
    return [data[i] for i in indices]
