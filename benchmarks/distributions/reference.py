"""Posteriors of posteriordb and hard shapes, with default arguments: right, warned, or wrong.

python reference.py                         # everything, three seeds
python reference.py arK gp_regr --seeds 5   # some of them
python reference.py shapes --seeds 20

Data and reference draws are read from GitHub, or from a clone given by --posteriordb. Flat priors
of posteriordb are replaced by wide ones (column ``scale`` of MODELS). One row of JSON per fit:
``error``, the largest |mean error| / sd over the parameters, ``sd``, the ratio of deviations that
is farthest from one, ``evidence`` with its stated error beside the reference of a long importance
sampler, likelihoods in looks at all data by one particle, seconds, and the warnings.
"""

import argparse
import io
import json
import subprocess
import time
import urllib.request
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from riesz import ParticleMirrorDescent
from riesz._prior import Prior
from scipy import stats
from scipy.special import logsumexp

from hard_shapes import SHAPES

COMMIT = "28f8d3d6e975315f42aa274a8399f21e07a43b30"
ADDRESS = f"https://raw.githubusercontent.com/stan-dev/posteriordb/{COMMIT}/posterior_database"
# Draws of the reference at a time, and how many of all must be effective.
DRAWS, ENOUGH = 40_000, 2_000
# More are drawn until the standard error of the log-evidence is as small as this, so often at most.
SMALL, MOST = 0.002, 16


class Problem(NamedTuple):
    """A posterior and what is known of it."""

    likelihood: Callable[[np.ndarray, Any], np.ndarray]
    prior: dict[str, Any]
    data: Any
    # Draws of the reference as rows in the order of the prior, or of what is compared.
    reference: Callable[[dict[str, np.ndarray]], np.ndarray]
    # What is compared, of the particles, where it is not the parameters themselves.
    of: Callable[[np.ndarray], np.ndarray] | None = None


class Normals:
    """Independent normal parameters."""

    def __init__(self, scale: float, d: int) -> None:
        """Take one scale for all."""
        self.scale, self.d = scale, d

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Return the log-density of rows."""
        return stats.norm.logpdf(x, scale=self.scale).sum(axis=1)

    def rvs(self, size: int, random_state: np.random.Generator) -> np.ndarray:
        """Return rows."""
        return random_state.normal(scale=self.scale, size=(size, self.d))


class Database:
    """Files of posteriordb."""

    def __init__(self, folder: Path | None) -> None:
        """Read from a clone, or from GitHub."""
        self.folder = folder

    def read(self, path: str) -> bytes:
        """Return one file."""
        if self.folder is None:
            with urllib.request.urlopen(f"{ADDRESS}/{path}") as answer:
                return answer.read()
        command = ["git", "-C", str(self.folder), "show", f"HEAD:posterior_database/{path}"]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def unzipped(self, path: str) -> Any:
        """Return the JSON in an archive."""
        with zipfile.ZipFile(io.BytesIO(self.read(path))) as archive:
            return json.loads(archive.read(archive.namelist()[0]))

    def data(self, name: str) -> dict[str, Any]:
        """Return data as arrays."""
        values = self.unzipped(f"data/data/{name}.json.zip")
        return {k: np.asarray(v, dtype=float) for k, v in values.items()}

    def draws(self, name: str) -> dict[str, np.ndarray]:
        """Return reference draws by column."""
        chains = self.unzipped(f"reference_posteriors/draws/draws/{name}.json.zip")
        return {k: np.concatenate([c[k] for c in chains]) for k in chains[0]}


def columns(draws: dict[str, np.ndarray], *names: str) -> np.ndarray:
    """Return parameters as columns, all numbers of each."""
    found = []
    for name in names:
        keys = [k for k in draws if k == name or k.startswith(name + "[")]
        found += [draws[k] for k in keys]
    return np.stack(found, axis=1)


def linear(theta: np.ndarray, batch: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the log-likelihood of y ~ N(X beta, sigma^2), columns (beta, sigma)."""
    x, y = batch
    beta, sigma = theta[:, :-1], theta[:, -1:]
    squares = ((y - beta @ x.T) / sigma) ** 2
    return -0.5 * squares.sum(axis=1) - len(y) * np.log(sigma[:, 0] * np.sqrt(2 * np.pi))


def regression(
    x: list[Any], y: np.ndarray, scale: float, sigma: Any = None, names=("beta", "sigma")
):
    """Return a linear regression with normal coefficients."""
    x = np.stack(np.broadcast_arrays(*x), axis=1)
    prior = {"beta": Normals(scale, x.shape[1]), "sigma": sigma or stats.halfnorm(scale=scale)}
    return Problem(linear, prior, (x, y), lambda draws: columns(draws, *names))


def cauchy(scale: float):
    """Return the positive half of a Cauchy distribution."""
    return stats.halfcauchy(scale=scale)


def ark(data, scale):
    """Autoregression: rows (1, y_{t-1}, ..., y_{t-K})."""
    y, k = data["y"], int(data["K"])
    lags = [y[k - j - 1 : len(y) - j - 1] for j in range(k)]
    return regression([1.0, *lags], y[k:], 10, cauchy(2.5), ("alpha", "beta", "sigma"))


def blr(data, scale):
    """Bayesian linear regression."""
    return regression(list(data["X"].T), data["y"], 10, stats.halfnorm(scale=10))


def logearn(data, scale):
    """Log-earnings on height, sex and both."""
    height, male = data["height"], data["male"]
    return regression([1.0, height, male, height * male], np.log(data["earn"]), scale)


def earn_height(data, scale):
    """Earnings on height."""
    return regression([1.0, data["height"]], data["earn"], scale)


MESQUITE = ["diam1", "diam2", "canopy_height", "total_height", "density"]


def mesquite(data, scale):
    """Weight of mesquite bushes."""
    return regression([1.0, *(data[k] for k in MESQUITE), data["group"]], data["weight"], scale)


def logmesquite(data, scale):
    """Their log-weight by logarithms."""
    x = [np.log(data[k]) for k in MESQUITE]
    return regression([1.0, *x, data["group"]], np.log(data["weight"]), scale)


def kidscore(data, scale):
    """Test scores on mother's education, intelligence and both."""
    hs, iq = data["mom_hs"], data["mom_iq"]
    return regression([1.0, hs, iq, hs * iq], data["kid_score"], scale, cauchy(2.5))


def mom_work(data, scale):
    """Test scores by mother's work."""
    work = [data["mom_work"] == j for j in (2, 3, 4)]
    return regression([1.0, *work], data["kid_score"], scale)


def nes(data, scale):
    """Party identification."""
    age = [data["age_discrete"] == j for j in (2, 3, 4)]
    rest = [data[k] for k in ("educ1", "gender", "income")]
    x = [1.0, data["real_ideo"], data["race_adj"], *age, *rest]
    return regression(x, data["partyid7"], scale)


def kilpisjarvi(data, scale):
    """Summer temperatures in Lapland; a prior on each coefficient of posteriordb's own."""
    x = np.stack([np.ones_like(data["x"]), data["x"]], axis=1)
    prior = {
        "alpha": stats.norm(data["pmualpha"], data["psalpha"]),
        "beta": stats.norm(data["pmubeta"], data["psbeta"]),
        "sigma": stats.halfnorm(scale=scale),
    }
    return Problem(linear, prior, (x, data["y"]), lambda draws: columns(draws, *prior))


def diamonds(data, scale):
    """Log-prices of diamonds: 24 coefficients."""
    x = data["X"][:, 1:] - data["X"][:, 1:].mean(axis=0)
    x = np.hstack([x, np.ones((len(x), 1))])
    prior = {
        "b": Normals(1, x.shape[1] - 1),
        "Intercept": stats.t(3, 8, 10),
        "sigma": stats.foldnorm(0, scale=10),
    }
    return Problem(linear, prior, (x, data["Y"]), lambda draws: columns(draws, *prior))


def joint(function):
    """Return a likelihood of one row: the observations are one, such as a series."""
    return lambda theta, batch: function(theta)


def arma(data, scale):
    """ARMA(1, 1)."""
    y = data["y"]

    def likelihood(theta):
        mu, phi, psi, sigma = theta.T
        error = y[0] - mu - phi * mu
        squares = error**2
        for t in range(1, len(y)):
            error = y[t] - mu - phi * y[t - 1] - psi * error
            squares = squares + error**2
        with np.errstate(over="ignore", invalid="ignore"):
            found = -0.5 * squares / sigma**2 - len(y) * np.log(sigma * np.sqrt(2 * np.pi))
        return np.where(np.isfinite(found), found, -np.inf)

    prior = {"mu": stats.norm(0, 10), "phi": stats.norm(0, 2), "theta": stats.norm(0, 2)}
    prior["sigma"] = cauchy(2.5)
    return Problem(joint(likelihood), prior, np.zeros(1), lambda draws: columns(draws, *prior))


def garch(data, scale):
    """GARCH(1, 1); alpha1 + beta1 below one by a hard zero."""
    y, first = data["y"], float(data["sigma1"])

    def likelihood(theta):
        mu, alpha0, alpha1, beta1 = theta.T
        variance = np.full(len(theta), first**2)
        total = stats.norm.logpdf(y[0], mu, first)
        for t in range(1, len(y)):
            variance = alpha0 + alpha1 * (y[t - 1] - mu) ** 2 + beta1 * variance
            total = total - 0.5 * ((y[t] - mu) ** 2 / variance + np.log(2 * np.pi * variance))
        return np.where(alpha1 + beta1 < 1, total, -np.inf)

    unit = stats.uniform(0, 1)
    prior = {"mu": stats.norm(0, scale), "alpha0": stats.halfnorm(scale=scale)}
    prior |= {"alpha1": unit, "beta1": unit}
    return Problem(joint(likelihood), prior, np.zeros(1), lambda draws: columns(draws, *prior))


def squared_exponential(x, alpha, rho, diagonal):
    """Return covariance matrices, one per row of parameters."""
    squares = (x[:, None] - x) ** 2
    kernel = np.exp(-0.5 * squares / rho[:, None, None] ** 2) * alpha[:, None, None] ** 2
    return kernel + diagonal[:, None, None] * np.eye(len(x))


def gp_regr(data, scale):
    """Hyper-parameters of a Gaussian process."""

    def likelihood(theta):
        factor = np.linalg.cholesky(
            squared_exponential(data["x"], theta[:, 1], theta[:, 0], theta[:, 2])
        )
        white = np.linalg.solve(
            factor, np.broadcast_to(data["y"], theta.shape[:1] + data["y"].shape)[..., None]
        )
        determinant = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        return (
            -0.5 * (white**2).sum(axis=(1, 2))
            - determinant
            - 0.5 * len(data["y"]) * np.log(2 * np.pi)
        )

    prior = {"rho": stats.gamma(25, scale=0.25), "alpha": stats.halfnorm(scale=2)}
    prior["sigma"] = stats.halfnorm(scale=1)
    return Problem(joint(likelihood), prior, np.zeros(1), lambda draws: columns(draws, *prior))


def gp_pois(data, scale):
    """Poisson regression on a Gaussian process, in posteriordb's own coordinates."""
    x, k = data["x"], data["k"]

    def process(theta):
        jitter = 1e-10 * np.maximum(1, theta[:, 1] ** 2)
        factor = np.linalg.cholesky(squared_exponential(x, theta[:, 1], theta[:, 0], jitter))
        return (factor @ theta[:, 2:, None])[..., 0]

    def likelihood(theta):
        f = process(theta)
        with np.errstate(over="ignore"):
            found = stats.poisson.logpmf(k, 1) + k * f - np.exp(f) + 1.0
        return np.maximum(found.sum(axis=1), -1e300)

    prior = {"rho": stats.gamma(25, scale=0.25), "alpha": stats.halfnorm(scale=2)}
    prior["f_tilde"] = Normals(1, len(x))
    return Problem(
        joint(likelihood),
        prior,
        np.zeros(1),
        lambda draws: columns(draws, "rho", "alpha", "f"),
        lambda theta: np.hstack([theta[:, :2], process(theta)]),
    )


def lotka_volterra(data, scale):
    """Lynx and hares: an ODE by Runge and Kutta's method, twenty steps a year."""
    y = np.log(np.vstack([data["y_init"], data["y"]]))

    def slope(z, p):
        u, v = z
        return np.stack([(p[0] - p[1] * v) * u, (-p[2] + p[3] * u) * v])

    def likelihood(theta):
        p, z, sigma = theta[:, :4].T, theta[:, 4:6].T, theta[:, 6:].T
        h, states = 0.05, [z]
        with np.errstate(all="ignore"):
            for _ in range(len(y) - 1):
                for _ in range(20):
                    a = slope(z, p)
                    b = slope(z + 0.5 * h * a, p)
                    c = slope(z + 0.5 * h * b, p)
                    z = z + h / 6 * (a + 2 * b + 2 * c + slope(z + h * c, p))
                states.append(z)
            path = np.log(np.array(states))
            found = stats.norm.logpdf(y[:, :, None], path, sigma).sum(axis=(0, 1)) - y.sum()
        return np.where(np.isfinite(found), found, -np.inf)

    def positive(centre, deviation):
        return stats.truncnorm(-centre / deviation, np.inf, centre, deviation)

    big, small = positive(1, 0.5), positive(0.05, 0.05)
    prior = dict(zip(["a", "b", "c", "d"], [big, small, big, small], strict=True))
    for i in range(2):
        prior[f"z{i}"] = stats.lognorm(1, scale=10)
    for i in range(2):
        prior[f"s{i}"] = stats.lognorm(1, scale=np.exp(-1))
    return Problem(
        joint(likelihood),
        prior,
        np.zeros(1),
        lambda draws: columns(draws, "theta", "z_init", "sigma"),
    )


def eight_schools(data, scale):
    """Eight schools, not centred."""
    prior = {"trans": Normals(1, 8), "mu": stats.norm(0, 5), "tau": cauchy(5)}

    def likelihood(theta, batch):
        y, sigma, j = batch
        effect = theta[:, 8:9] + theta[:, 9:] * theta[:, j.astype(int)]
        return stats.norm.logpdf(y, effect, sigma).sum(axis=1)

    def reference(draws):
        mu, tau = columns(draws, "mu"), columns(draws, "tau")
        return np.hstack([(columns(draws, "theta") - mu) / tau, mu, tau])

    return Problem(likelihood, prior, (data["y"], data["sigma"], np.arange(8.0)), reference)


def gauss_mix(data, scale):
    """Two components, means in order by a hard zero."""

    def likelihood(theta, batch):
        a, b, s, t, p = (theta[:, [j]] for j in range(5))
        first = np.log(p) + stats.norm.logpdf(batch, a, s)
        second = np.log1p(-p) + stats.norm.logpdf(batch, b, t)
        found = np.logaddexp(first, second).sum(axis=1)
        return np.where((a < b)[:, 0], found, -np.inf)

    half = stats.halfnorm(scale=2)
    prior = {
        "a": stats.norm(0, 2),
        "b": stats.norm(0, 2),
        "s": half,
        "t": half,
        "p": stats.beta(5, 5),
    }
    return Problem(
        likelihood, prior, data["y"], lambda draws: columns(draws, "mu", "sigma", "theta")
    )


# Name, name of posteriordb, data, builder, scale of what is flat there.
MODELS = {
    "arK": ("arK-arK", "arK", ark, 10),
    "sblrc": ("sblrc-blr", "sblrc", blr, 10),
    "sblri": ("sblri-blr", "sblri", blr, 10),
    "logearn": ("earnings-logearn_interaction", "earnings", logearn, 100),
    "earn_height": ("earnings-earn_height", "earnings", earn_height, 1e6),
    "mesquite": ("mesquite-mesquite", "mesquite", mesquite, 1e4),
    "logmesquite": ("mesquite-logmesquite", "mesquite", logmesquite, 100),
    "kidscore": ("kidiq-kidscore_interaction", "kidiq", kidscore, 1000),
    "mom_work": ("kidiq_with_mom_work-kidscore_mom_work", "kidiq_with_mom_work", mom_work, 1000),
    "nes1976": ("nes1976-nes", "nes1976", nes, 100),
    "nes2000": ("nes2000-nes", "nes2000", nes, 100),
    "kilpisjarvi": ("kilpisjarvi_mod-kilpisjarvi", "kilpisjarvi_mod", kilpisjarvi, 100),
    "arma": ("arma-arma11", "arma", arma, 10),
    "garch": ("garch-garch11", "garch", garch, 30),
    "gp_regr": ("gp_pois_regr-gp_regr", "gp_pois_regr", gp_regr, 1),
    "gp_pois": ("gp_pois_regr-gp_pois_regr", "gp_pois_regr", gp_pois, 1),
    "lotka_volterra": ("hudson_lynx_hare-lotka_volterra", "hudson_lynx_hare", lotka_volterra, 1),
    "eight_schools": ("eight_schools-eight_schools_noncentered", "eight_schools", eight_schools, 1),
    "gauss_mix": ("low_dim_gauss_mix-low_dim_gauss_mix", "low_dim_gauss_mix", gauss_mix, 1),
    "diamonds": ("diamonds-diamonds", "diamonds", diamonds, 1),
}


def long_importance(
    problem: Problem, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Return means, deviations and the log-evidence by importance sampling from a t distribution.

    Its location and shape are those of the reference draws, in coordinates without bounds. Where
    few draws are effective, means are those of the reference draws and the evidence is unknown.
    """
    if problem.of is not None:
        return draws.mean(axis=0), draws.std(axis=0), None
    prior = Prior(problem.prior, None)
    free = prior.layout.to_free(draws)
    centre, scale = free.mean(axis=0), free.std(axis=0)
    t = stats.multivariate_t(shape=1.1 * np.corrcoef(free.T), df=7, seed=1, allow_singular=True)
    parts, logs = [], []
    for _ in range(MOST):
        z = t.rvs(DRAWS)
        u = centre + scale * z
        parts.append(prior.layout.to_bounded(u))
        pieces = [problem.likelihood(p, problem.data) for p in np.array_split(parts[-1], 80)]
        density = np.concatenate(pieces) + prior.logpdf(parts[-1]) + prior.layout.log_jacobian(u)
        logs.append(density - t.logpdf(z) + np.log(scale).sum())
        weights = np.concatenate(logs)
        weights[~np.isfinite(weights)] = -np.inf
        total = logsumexp(weights)
        w = np.exp(weights - total)
        effective = 1 / (w**2).sum()
        if 1 / effective - 1 / len(w) < SMALL**2 or effective * MOST < ENOUGH:
            break
    theta = np.concatenate(parts)
    if effective < ENOUGH:
        return draws.mean(axis=0), draws.std(axis=0), None
    mean = w @ theta
    return mean, np.sqrt(w @ (theta - mean) ** 2), float(total - np.log(len(w)))


def fitted(likelihood: Any, prior: Any, data: Any, seed: int, **options: Any) -> tuple[Any, dict]:
    """Return a posterior of the default arguments, and what it cost."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ParticleMirrorDescent(likelihood, prior, random_state=seed, **options).fit(data)
    cost = {
        "looks": round(found.n_evaluations / found.n_observations),
        "seconds": round(time.perf_counter() - begin, 2),
        "ess": round(found.ess),
        "pareto_k": found.pareto_k,
        "r_hat": None if found.r_hat is None else float(found.r_hat.max()),
        "evidence": found.log_evidence,
        "evidence_error": found.log_evidence_error,
        "warnings": found.warnings,
    }
    return found, cost


def compared(found: Any, values: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> dict:
    """Return the largest errors of mean and deviation of values at the particles."""
    w = found.weights[:, None]
    own = (w * values).sum(axis=0)
    ratio = np.sqrt((w * (values - own) ** 2).sum(axis=0)) / deviation
    return {
        "d": found.samples.shape[1],
        "error": float(np.max(np.abs(own - mean) / deviation)),
        "sd": float(ratio[np.argmax(np.abs(np.log(ratio)))]),
    }


def reference_rows(names: list[str], seeds: int, database: Database) -> Iterator[dict]:
    """Fit the posteriors of posteriordb."""
    for name in names:
        source, data, build, scale = MODELS[name]
        problem = build(database.data(data), scale)
        draws = problem.reference(database.draws(source))
        mean, deviation, evidence = long_importance(problem, draws)
        for seed in range(seeds):
            found, cost = fitted(problem.likelihood, problem.prior, problem.data, seed)
            values = found.samples if problem.of is None else problem.of(found.samples)
            row = {"problem": name, "seed": seed} | compared(found, values, mean, deviation)
            yield row | {"reference_evidence": evidence} | cost


def shape_rows(names: list[str], seeds: int) -> Iterator[dict]:
    """Fit the hard shapes."""
    for name in names:
        shape = SHAPES[name]()
        for seed in range(seeds):
            found, cost = fitted(shape.likelihood, shape.prior, shape.data, seed)
            values = shape.of(found.samples)
            row = {"problem": name, "seed": seed}
            row |= compared(found, values, shape.mean, shape.deviation)
            yield row | {"reference_evidence": shape.evidence} | cost


def verdict(row: dict) -> str:
    """Return right, warned or wrong: 0.2 deviations, and deviations within a tenth."""
    if row["warnings"]:
        return "warned"
    right = row["error"] <= 0.2 and abs(np.log(row["sd"])) <= np.log(1.1)
    truth, value = row["reference_evidence"], row["evidence"]
    if value is not None and truth is not None:
        right &= abs(value - truth) <= 3 * row["evidence_error"] + 0.03
    return "right" if right else "WRONG"


def main() -> None:
    """Fit what is asked for, a row each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--posteriordb", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = options.names or [*MODELS, *SHAPES]
    names = [n for name in names for n in (SHAPES if name == "shapes" else [name])]
    database = Database(options.posteriordb)
    rows = [n for n in names if n in MODELS], [n for n in names if n in SHAPES]
    stages = reference_rows(rows[0], options.seeds, database), shape_rows(rows[1], options.seeds)
    for row in (row for stage in stages for row in stage):
        row = row | {"verdict": verdict(row)}
        off = None
        if row["evidence"] is not None and row["reference_evidence"] is not None:
            off = round(row["evidence"] - row["reference_evidence"], 3)
        print(
            f"{row['problem']:15} {row['seed']} {row['verdict']:6} error {row['error']:.3f} "
            f"sd {row['sd']:.3f} evidence off {off} ± {row['evidence_error'] or 0:.3f} "
            f"looks {row['looks']} {row['seconds']} s "
            f"ess {row['ess']} k {row['pareto_k'] or 0:.2f} r {row['r_hat'] or 0:.2f} "
            f"{len(row['warnings'])} warnings",
            flush=True,
        )
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
