"""What is known after the data: weighted particles with names."""

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riesz._arguments import count, named, seed_of, shown
from riesz._errors import InvalidInput
from riesz._riesz import ParticlePosterior, leave_one_out
from riesz._transforms import Array, Layout

# Most log-likelihoods of draws times observations that are kept at once: 4 GB.
_MOST_TERMS = 500_000_000


class CollapseWarning(UserWarning):
    """A posterior that should not be used as it is."""


class Expectation(NamedTuple):
    """A posterior mean and its Monte Carlo error."""

    value: Any
    error: Any


class LeaveOneOut(NamedTuple):
    """Leave-one-out cross-validation by importance sampling."""

    elpd: float
    error: float
    pointwise: NDArray[np.float64]
    pareto_k: NDArray[np.float64]


class Summary(dict[str, dict[str, float]]):
    """A table: for every parameter its statistics by name, printed a row each.

    ``pandas.DataFrame(summary).T`` is the same as a data frame.
    """

    COLUMNS = ("mean", "std", "5 %", "50 %", "95 %")

    def __repr__(self) -> str:
        width = max(9, *(len(name) for name in self))
        lines = [f"{'':{width}} " + " ".join(f"{column:>10}" for column in self.COLUMNS)]
        for name, row in self.items():
            lines.append(f"{name:{width}} " + " ".join(f"{v:10.4g}" for v in row.values()))
        return "\n".join(lines)

    __str__ = __repr__


def _mean(weights: Array, values: Array) -> Array:
    """Return a weighted mean, about one of the values: weights add up to one only to rounding."""
    centre = values[int(weights.argmax())]
    centre = np.where(np.isfinite(centre), centre, 0.0)
    mean: Array = centre + (weights * (values - centre)).sum(axis=0)
    return mean


class Posterior:
    """A posterior: weighted particles, a density, the evidence, and whether to trust them.

    Attributes
    ----------
    names : list of str
        Names of the columns of ``samples``.
    samples : ndarray of shape (m, d)
        Particles.
    log_weights : ndarray of shape (m,)
        Logarithms of their weights, which sum to one.
    ess : float
        How many independent draws the particles are worth.
    pareto_k : float or None
        Shape of the tail of the weights: means are to be trusted below 0.7. After Metropolis moves
        that of draws from a density through the particles: above 0.7 they do not confirm them. None
        where four in five particles are effective.
    r_hat : ndarray of shape (d,) or None
        Agreement by free parameter (before bounds), in mean and spread, 1 where there is: of the
        islands after Metropolis moves, else of the two halves of the draws. None for one
        island, and for fewer than 200 effective draws.
    log_evidence, log_evidence_error : float or None
        ``log p(data)`` and its standard error. None where the algorithm gives none (paper mode with
        densities, or with steps other than ``1 / t``), and after Metropolis moves where draws from
        a density through the particles, between which and them bridge sampling finds it, do not
        confirm them or leave an error above 0.5.
    n_evaluations : int
        Likelihoods of single observations that were evaluated.
    history : list of dict
        The stages.
    warnings : list of str
        What speaks against using it.
    """

    def __init__(self, particles: ParticlePosterior, layout: Layout, pointwise: Any = None) -> None:
        self._particles = particles
        self._layout = layout
        self._pointwise = pointwise
        report = particles.report()
        self.names = layout.names
        self.log_weights = particles.log_weights()
        self.samples = layout.to_bounded(particles.positions())
        self.ess: float = report["effective_size"]
        self.pareto_k: float | None = report["pareto_k"]
        self.r_hat = None if report["r_hat"] is None else np.array(report["r_hat"])
        evidence = report["evidence"]
        self.log_evidence = None if evidence is None else evidence["value"]
        self.log_evidence_error = None if evidence is None else evidence["error"]
        self.n_evaluations: int = report["evaluations"]
        self.n_observations: int = report["observations"]
        self.history: list[dict[str, Any]] = report["history"]
        self.seed: int = report["seed"]
        self.warnings = particles.warnings()

    @property
    def weights(self) -> Array:
        """Weights of the particles, which sum to one."""
        return np.exp(self.log_weights)

    @property
    def n_passes(self) -> float:
        """Likelihood evaluations in units of one look at all data by as many particles."""
        return self.n_evaluations / (len(self.samples) * max(self.n_observations, 1))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, name: str) -> Array:
        """Return the particles of one parameter, as columns where it has several numbers."""
        return self._column(self.samples, name)

    def _column(self, rows: Array, name: str) -> Array:
        if name not in self._layout.columns:
            raise KeyError(f"{name!r} is no parameter; there are {list(self._layout.columns)}")
        first, last, scalar = self._layout.columns[name]
        return rows[:, first] if scalar else rows[:, first:last]

    def expect(self, f: Callable[[Array], Any]) -> Expectation:
        """Return the mean of ``f(samples)`` and its Monte Carlo error.

        Parameters
        ----------
        f : callable
            Takes all particles, returns a number (or an array) for each.
        """
        if not callable(f):
            raise InvalidInput(f"f = {shown(f)} should be a function of the particles")
        with named("f"):
            values = np.asarray(f(self.samples), dtype=np.float64)
        if values.shape[:1] != (len(self),):
            raise InvalidInput(
                f"f returned shape {values.shape} for {len(self)} particles; the first axis must "
                "be that of the particles"
            )
        w = self.weights.reshape(-1, *([1] * (values.ndim - 1)))
        mean = _mean(w, values)
        spread = ((w * (values - mean)) ** 2).sum(axis=0)
        # Positions of chains are worth less than their weights say.
        worth = max(1.0, 1.0 / np.sum(self.weights**2) / self.ess)
        error = np.sqrt(spread * worth)
        return Expectation(mean[()], error[()])

    def mean(self) -> Array:
        """Return the mean of every parameter."""
        return _mean(self.weights[:, None], self.samples)

    def std(self) -> Array:
        """Return the standard deviation of every parameter."""
        return np.sqrt(self.weights @ (self.samples - self.mean()) ** 2)

    def quantile(self, q: ArrayLike) -> Array:
        """Return quantiles, one row per level and one column per parameter."""
        with named("q"):
            q = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if q.ndim != 1 or not np.all((q >= 0) & (q <= 1)):
            raise InvalidInput(f"q = {shown(q.tolist())} is outside [0, 1]")
        out = np.empty((len(q), self.samples.shape[1]))
        for j, column in enumerate(self.samples.T):
            order = np.argsort(column, kind="stable")
            below = np.cumsum(self.weights[order]) - 0.5 * self.weights[order]
            out[:, j] = np.interp(q, below, column[order])
        return out

    def resample(self, n: int, random_state: Any = None) -> Array:
        """Return ``n`` particles of equal weight, by systematic resampling, in random order."""
        return self.samples[self._particles.resample(count("n", n), seed_of(random_state))]

    def sample(self, n: int, random_state: Any = None) -> Array:
        """Return ``n`` new points drawn from the density through the particles."""
        return self._layout.to_bounded(self._particles.draw(count("n", n), seed_of(random_state)))

    def logpdf(self, theta: ArrayLike) -> Array:
        """Return the log-density at points, by kernels through the particles.

        Parameters
        ----------
        theta : array-like of shape (n, d) or (d,)
            Points. Where a parameter is a simplex, the density is that of its first parts.
        """
        with named("theta"):
            points = np.atleast_2d(np.asarray(theta, dtype=np.float64))
        if points.ndim != 2 or points.shape[1] != len(self.names):
            raise InvalidInput(f"theta has shape {points.shape}, expected (n, {len(self.names)})")
        u = self._layout.to_free(points)
        inside = np.isfinite(u).all(axis=1)
        out = np.full(len(points), -np.inf)
        if inside.any():
            u = np.ascontiguousarray(u[inside])
            out[inside] = self._particles.log_density(u) - self._layout.log_jacobian(u)
        return out

    def groups(self) -> list[dict[str, Any]]:
        """Return the groups of particles: weight, and mean and covariance before bounds."""
        found = []
        for weight, mean, covariance in self._particles.groups():
            d = len(mean)
            found.append(
                {
                    "weight": weight,
                    "mean": np.array(mean),
                    "covariance": np.reshape(covariance, (d, d)),
                }
            )
        return found

    def loo(self) -> LeaveOneOut:
        """Return leave-one-out cross-validation of the model, for ``pointwise=True``.

        Returns
        -------
        LeaveOneOut
            ``elpd``, the sum of ``log p(x_n | others)``, its ``error``, the terms, and for each the
            shape of its weights: those above 0.7 are not to be trusted.
        """
        if self._pointwise is None:
            raise InvalidInput("leave-one-out scores need a likelihood with pointwise=True")
        pieces = (np.ascontiguousarray(values) for values in self._pointwise(self.samples))
        found = [leave_one_out(self.log_weights, values) for values in pieces]
        scores, shapes = (np.concatenate(part) for part in zip(*found, strict=True))
        error = float(np.sqrt(len(scores) * np.var(scores)))
        return LeaveOneOut(float(scores.sum()), error, scores, shapes)

    def summary(self) -> Summary:
        """Return mean, deviation and quantiles of every parameter as a table."""
        statistics = [self.mean(), self.std(), *self.quantile([0.05, 0.5, 0.95])]
        rows = np.stack(statistics, axis=1).tolist()
        named_rows = [dict(zip(Summary.COLUMNS, row, strict=True)) for row in rows]
        return Summary(zip(self.names, named_rows, strict=True))

    def __repr__(self) -> str:
        parts = [f"{len(self)} particles", f"{len(self.names)} parameters", f"ess {self.ess:.0f}"]
        if self.pareto_k is not None:
            parts.append(f"pareto_k {self.pareto_k:.2f}")
        if self.r_hat is not None:
            parts.append(f"r_hat {self.r_hat.max():.3f}")
        if self.log_evidence is not None:
            parts.append(f"log_evidence {self.log_evidence:.2f} ± {self.log_evidence_error:.2f}")
        text = f"Posterior({', '.join(parts)})"
        return "\n".join([text, *(f"WARNING: {warning}" for warning in self.warnings)])

    def sample_predictive(
        self,
        draw: Callable[[Array, np.random.Generator], Any],
        n: int = 1000,
        random_state: Any = None,
    ) -> Any:
        """Return draws from the posterior predictive distribution.

        Parameters
        ----------
        draw : callable
            ``draw(theta, rng)`` with ``theta`` of shape (n, d) returns a draw of new data for each
            row.
        n : int, default=1000
            Parameters that are drawn, by weight.
        """
        if not callable(draw):
            raise InvalidInput(
                f"draw = {shown(draw)} should be a function of theta and a generator"
            )
        seed = seed_of(random_state)
        theta = self.samples[self._particles.resample(count("n", n), seed)]
        with named("draw"):
            return draw(theta, np.random.Generator(np.random.Philox(key=seed)))

    def to_inference_data(self, n: int | None = None, random_state: Any = 0) -> Any:
        """Return draws of equal weight as ArviZ's ``InferenceData``, in four chains.

        With ``pointwise=True`` it holds the log-likelihood of every observation, for ``az.loo``.

        Parameters
        ----------
        n : int, optional
            Draws; as many as the particles are worth, ``ess``, unless given: more would look like
            draws that there are not.
        """
        try:
            import arviz
        except ImportError:
            raise InvalidInput("to_inference_data needs ArviZ: pip install arviz") from None
        length = max(1, round(self.ess if n is None else count("n", n)) // 4)
        drawn = self.resample(4 * length, random_state)

        def chains(rows: Array) -> Array:
            return rows.reshape(4, length, *rows.shape[1:])

        values = {name: chains(self._column(drawn, name)) for name in self._layout.columns}
        groups = {"posterior": values}
        if self._pointwise is not None:
            groups["log_likelihood"] = {"data": chains(self._terms(drawn))}
        try:
            return arviz.from_dict(**groups)
        except TypeError:  # ArviZ 1.0 takes the groups in one dictionary
            return arviz.from_dict(groups)

    def _terms(self, drawn: Array) -> Array:
        """Return the log-likelihood of every observation at every draw."""
        assert self._pointwise is not None
        numbers = len(drawn) * self.n_observations
        if numbers > _MOST_TERMS:
            most = _MOST_TERMS // self.n_observations // 4 * 4
            fewer = f"take fewer draws, n={most} at most, or " if most else "take "
            raise InvalidInput(
                f"the log-likelihoods of {self.n_observations} observations in {len(drawn)} "
                f"draws are {8e-9 * numbers:.0f} GB, which ArviZ wants at once; {fewer}loo(), "
                "which looks at some observations at a time"
            )
        terms, first = np.empty((len(drawn), self.n_observations)), 0
        for piece in self._pointwise(drawn):
            terms[:, first : first + piece.shape[1]] = piece
            first += piece.shape[1]
        return terms

    def plot(
        self, path: str | os.PathLike[str] | None = None, names: list[str] | None = None
    ) -> Any:
        """Draw marginals and pairs of parameters.

        A notebook shows the figure; ``pyplot`` is not needed.

        Parameters
        ----------
        path : path, optional
            Where to write the picture; the figure is returned in any case.
        names : list of str, optional
            Columns to draw; the first six unless given.
        """
        try:
            from riesz._figure import Figure
        except ImportError:
            raise InvalidInput("plot needs Matplotlib: pip install matplotlib") from None
        chosen = list(names or self.names[:6])
        missing = [name for name in chosen if name not in self.names]
        if missing:
            raise InvalidInput(f"{missing} are no columns; there are {self.names}")
        columns = [self.samples[:, self.names.index(name)] for name in chosen]
        # What has no weight to speak of does not stretch an axis.
        low, high = self.quantile([5e-4, 1 - 5e-4])
        ranges = [(low[j], high[j]) for j in map(self.names.index, chosen)]
        figure = Figure(
            figsize=(2.2 * len(chosen) + 1, 2.2 * len(chosen) + 1), layout="constrained"
        )
        axes = figure.subplots(len(chosen), len(chosen), squeeze=False)
        for i, row in enumerate(axes):
            for j, axis in enumerate(row):
                if j > i:
                    axis.set_axis_off()
                elif i == j:
                    axis.hist(
                        columns[i], bins=50, range=ranges[i], weights=self.weights, density=True
                    )
                else:
                    span = [ranges[j], ranges[i]]
                    axis.hist2d(
                        columns[j], columns[i], 50, span, weights=self.weights, cmap="Blues"
                    )
                if i == len(chosen) - 1:
                    axis.set_xlabel(chosen[j])
                if j == 0:
                    axis.set_ylabel(chosen[i])
        if path is not None:
            figure.savefig(path)
        return figure

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior to a file."""
        self._particles.save(path, json.dumps({"layout": self._layout.to_json()}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Posterior":
        """Read a posterior from a file; nothing in the file is executed."""
        particles, note = ParticlePosterior.load(path)
        try:
            layout = Layout.from_json(json.loads(note)["layout"])
            layout.check(particles.positions().shape[1])
            return cls(particles, layout)
        except InvalidInput:
            raise
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"not a valid riesz file: {path}: {error!r}") from None
