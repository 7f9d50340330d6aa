"""Densities that break samplers, each with what is known of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit, gammaln, logsumexp

ONE = np.zeros(1)


class Box:
    """Uniform in a cube."""

    def __init__(self, half: float, d: int) -> None:
        """Take half of a side."""
        self.half, self.d = half, d

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Return the log-density of rows."""
        inside = (np.abs(x) <= self.half).all(axis=1)
        return np.where(inside, -self.d * np.log(2 * self.half), -np.inf)

    def rvs(self, size: int, random_state: np.random.Generator) -> np.ndarray:
        """Return rows."""
        return random_state.uniform(-self.half, self.half, size=(size, self.d))


class Gaussian:
    """Independent normal numbers."""

    def __init__(self, scale: float, d: int) -> None:
        """Take one scale for all."""
        self.scale, self.d = scale, d

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Return the log-density of rows."""
        return stats.norm.logpdf(x, scale=self.scale).sum(axis=1)

    def rvs(self, size: int, random_state: np.random.Generator) -> np.ndarray:
        """Return rows."""
        return random_state.normal(scale=self.scale, size=(size, self.d))


@dataclass
class Shape:
    """A posterior of one observation, or of several, with its truth."""

    likelihood: Callable[[np.ndarray, Any], np.ndarray]
    prior: Any
    mean: np.ndarray
    deviation: np.ndarray
    evidence: float | None
    data: Any = None
    # What is compared, of the particles.
    of: Callable[[np.ndarray], np.ndarray] = lambda theta: theta

    def __post_init__(self) -> None:
        """One observation unless data are given."""
        self.data = ONE if self.data is None else self.data


def correlated(d: int) -> Shape:
    """A Gaussian of correlation 0.95 between all coordinates, wide normal prior of scale 10."""
    covariance = 0.05 * np.eye(d) + 0.95
    precision = np.linalg.inv(covariance)
    centre = np.linspace(-1, 1, d)
    posterior = np.linalg.inv(precision + np.eye(d) / 100)
    mean = posterior @ precision @ centre

    def likelihood(theta, batch):
        z = theta - centre
        return -0.5 * ((z @ precision) * z).sum(axis=1)

    log_normaliser = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    total = stats.multivariate_normal(centre, covariance + 100 * np.eye(d)).logpdf(np.zeros(d))
    evidence = float(total + log_normaliser)
    return Shape(likelihood, Gaussian(10, d), mean, np.sqrt(np.diag(posterior)), evidence)


def funnel(d: int) -> Shape:
    """Neal's funnel as a likelihood, in a box of half-side 30 for v and 150 for the rest."""
    width = np.r_[30.0, np.full(d - 1, 150.0)]

    def likelihood(theta, batch):
        v, x = theta[:, 0] * 30, theta[:, 1:] * 150
        return stats.norm.logpdf(v, 0, 3) + stats.norm.logpdf(x, 0, np.exp(v / 2)[:, None]).sum(
            axis=1
        )

    # Only v is compared: the deviations of the others are infinite in all but name.
    truth = np.zeros(1), np.full(1, 3.0)
    evidence = -float(np.log(2 * width).sum())
    return Shape(likelihood, Box(1.0, d), *truth, evidence, of=lambda theta: 30 * theta[:, :1])


def banana(d: int) -> Shape:
    """x_1 ~ N(0, 20), x_2 ~ N((x_1² - 20)/10, 1), the rest standard normal."""

    def likelihood(theta, batch):
        a, b = theta[:, 0], theta[:, 1]
        found = stats.norm.logpdf(a, 0, np.sqrt(20)) + stats.norm.logpdf(b, 0.1 * (a**2 - 20), 1)
        return found + stats.norm.logpdf(theta[:, 2:]).sum(axis=1)

    deviation = np.ones(d)
    deviation[:2] = np.sqrt(20), np.sqrt(1 + 0.01 * 2 * 400)
    return Shape(likelihood, Box(40.0, d), np.zeros(d), deviation, -d * float(np.log(80)))


def ring() -> Shape:
    """A ring of radius 5 and width 0.1 in the plane."""

    def likelihood(theta, batch):
        return stats.norm.logpdf(np.hypot(*theta.T), 5, 0.1)

    evidence = float(np.log(2 * np.pi * 5 / 400))
    deviation = np.full(2, np.sqrt((25 + 0.03) / 2))
    return Shape(likelihood, Box(10.0, 2), np.zeros(2), deviation, evidence)


def modes() -> Shape:
    """Twenty-five Gaussians on a grid."""
    centres = np.stack(np.meshgrid(*[np.arange(-8, 9, 4.0)] * 2), axis=-1).reshape(-1, 2)

    def likelihood(theta, batch):
        squares = ((theta[:, None] - centres) ** 2).sum(axis=2)
        return logsumexp(-0.5 * squares / 0.04, axis=1) - np.log(25 * 2 * np.pi * 0.04)

    deviation = np.full(2, np.sqrt(32 + 0.04))
    return Shape(likelihood, Box(12.0, 2), np.zeros(2), deviation, -2 * float(np.log(24)))


def simplex(parts: int) -> Shape:
    """Counts of so many classes under a flat Dirichlet prior."""
    counts = np.arange(parts) % 5 + 1.0
    alpha = counts + 1

    def likelihood(theta, batch):
        return np.log(theta) @ counts

    total = alpha.sum()
    mean = alpha / total
    deviation = np.sqrt(mean * (1 - mean) / (total + 1))
    evidence = gammaln(parts) + gammaln(alpha).sum() - gammaln(total)
    return Shape(
        likelihood, {"p": stats.dirichlet(np.ones(parts))}, mean, deviation, float(evidence)
    )


def ordered(d: int) -> Shape:
    """Standard normal numbers in increasing order, by a hard zero: order statistics."""

    def likelihood(theta, batch):
        return np.where((np.diff(theta, axis=1) > 0).all(axis=1), 0.0, -np.inf)

    draws = np.sort(np.random.default_rng(0).normal(size=(400_000, d)), axis=1)
    truth = draws.mean(axis=0), draws.std(axis=0)
    return Shape(likelihood, Gaussian(1, d), *truth, -float(gammaln(d + 1)))


def correlations() -> Shape:
    """Three correlations, uniform where the matrix is positive definite, by a hard zero."""

    def inside(theta):
        a, b, c = theta.T
        return 1 + 2 * a * b * c - a**2 - b**2 - c**2 > 0

    def likelihood(theta, batch):
        return np.where(inside(theta), 2 * theta[:, 0], -np.inf)

    points = np.random.default_rng(0).uniform(-1, 1, size=(2_000_000, 3))
    points = points[inside(points)]
    w = np.exp(2 * points[:, :1])
    mean = (w * points).sum(axis=0) / w.sum()
    deviation = np.sqrt((w * (points - mean) ** 2).sum(axis=0) / w.sum())
    evidence = float(np.log(w.sum() / 2_000_000))
    return Shape(likelihood, Box(1.0, 3), mean, deviation, evidence)


def sampled(
    likelihood: Callable[[np.ndarray, Any], np.ndarray], prior: Any, data: Any, draws: int, at: list
) -> Shape:
    """A posterior whose truth is an importance sample about modes of given covariances."""
    kernels = [stats.multivariate_t(mode, 1.1 * cov, df=10, seed=2) for mode, cov in at]
    theta = np.concatenate([kernel.rvs(draws // len(at)) for kernel in kernels])
    rows = len(data[0])
    parts = np.array_split(theta, max(1, len(theta) * rows // 2_000_000))
    found = np.concatenate([likelihood(part, data) for part in parts]) + prior.logpdf(theta)
    density = logsumexp([kernel.logpdf(theta) for kernel in kernels], axis=0) - np.log(len(at))
    total = logsumexp(found - density)
    w = np.exp(found - density - total)
    mean = w @ theta
    deviation = np.sqrt(w @ (theta - mean) ** 2)
    return Shape(likelihood, prior, mean, deviation, float(total - np.log(len(theta))), data)


def logistic(rows: int, d: int, draws: int = 20_000) -> Shape:
    """Logistic regression; its truth is an importance sample about Laplace's approximation."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, d))
    beta = rng.normal(size=d) / np.sqrt(d)
    y = np.where(rng.random(rows) < expit(x @ beta), 1.0, -1.0)
    mode = np.zeros(d)
    for _ in range(30):
        p = expit(-y * (x @ mode))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(d) / 25
        mode += np.linalg.solve(hessian, x.T @ (y * p) - mode / 25)

    def likelihood(theta, batch):
        a, b = batch
        return -np.logaddexp(0.0, -(theta @ a.T) * b).sum(axis=1)

    return sampled(likelihood, Gaussian(5, d), (x, y), draws, [(mode, np.linalg.inv(hessian))])


def signs(rows: int, d: int) -> Shape:
    """Squares of a linear function, with noise: of many rows two narrow modes, of unequal mass.

    The prior is about a point that is a little nearer to one of them, which has 0.73 of the mass.
    """
    rng = np.random.default_rng(4)
    x = rng.normal(size=(rows, d))
    beta = rng.normal(size=d)
    beta /= np.linalg.norm(beta)
    noise = 3.0
    y = (x @ beta) ** 2 + noise * rng.normal(size=rows)
    mode = beta.copy()
    for _ in range(30):
        fitted = x @ mode
        slope = 2 * fitted[:, None] * x
        hessian = slope.T @ slope / noise**2 + np.eye(d)
        mode += np.linalg.solve(hessian, slope.T @ (y - fitted**2) / noise**2 - mode)
    shift = 0.5 * mode / (mode @ mode)

    class Shifted(Gaussian):
        """Normal numbers about a point: the modes' masses are as exp(2 shift . mode) = e to one."""

        def logpdf(self, theta):
            return super().logpdf(theta - shift)

        def rvs(self, size, random_state):
            return super().rvs(size, random_state) + shift

    def likelihood(theta, batch):
        a, b = batch
        squares = ((b - (theta @ a.T) ** 2) ** 2).sum(axis=1)
        return -0.5 * squares / noise**2 - len(b) * np.log(noise * np.sqrt(2 * np.pi))

    covariance = np.linalg.inv(hessian)
    at = [(mode, covariance), (-mode, covariance)]
    return sampled(likelihood, Shifted(1, d), (x, y), 4_000, at)


def labels() -> Shape:
    """The means of three components of equal shares: six modes of equal mass."""
    rng = np.random.default_rng(3)
    data = np.concatenate([rng.normal(c, 1, 60) for c in (-4, 0, 4)])

    def likelihood(theta, batch):
        terms = stats.norm.logpdf(batch[None, :, None], theta[:, None], 1)
        return logsumexp(terms, axis=2).sum(axis=1) - len(batch) * np.log(3)

    # Each mean is about -4, 0 and 4 with equal mass; its deviation about sqrt(32/3).
    centres = np.sort(np.array([data[60 * j : 60 * j + 60].mean() for j in range(3)]))
    truth = np.full(3, centres.mean()), np.full(3, np.sqrt(centres.var() + 1 / 55))
    return Shape(likelihood, Gaussian(10, 3), *truth, None, data)


SHAPES: dict[str, Callable[[], Shape]] = {
    **{f"gaussian{d}": (lambda d=d: correlated(d)) for d in (2, 5, 10, 20, 30, 50)},
    **{f"funnel{d}": (lambda d=d: funnel(d)) for d in (2, 5, 10)},
    **{f"banana{d}": (lambda d=d: banana(d)) for d in (2, 10, 20)},
    "ring": ring,
    "modes25": modes,
    "labels": labels,
    "simplex5": lambda: simplex(5),
    "simplex25": lambda: simplex(25),
    "ordered4": lambda: ordered(4),
    "ordered6": lambda: ordered(6),
    "correlations": correlations,
    "logistic20": lambda: logistic(500, 20),
    "logistic10": lambda: logistic(5_000, 10),
    # Many rows, which the stages need not all see.
    "logistic100000": lambda: logistic(100_000, 10, 4_000),
    "signs": lambda: signs(10_000, 4),
}
