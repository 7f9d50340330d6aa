"""Priors of every kind at every location and scale, beside answers by quadrature or in closed form.

Each case ends with the right answer, or with an error or warning that names what is wrong.
"""

import warnings

import numpy as np
import pytest
from scipy import stats

from riesz import CollapseWarning, InvalidInput, ParticleMirrorDescent
from riesz._transforms import Interval, Simplex

SCALES = (1e-6, 1e-3, 1.0, 1e3, 1e6)
LOCATIONS = (0.0, 1e-6, -1e-3, 1.0, -1e3, 1e6)
SETTINGS = {"n_particles": 1000, "random_state": 0, "n_jobs": 1}

# Shapes of one parameter by name, with a location and a scale.
FAMILIES = {
    "normal": stats.norm,
    "student": lambda a, s: stats.t(3, a, s),
    "cauchy": stats.cauchy,
    "laplace": stats.laplace,
    "logistic": stats.logistic,
    "skewed": lambda a, s: stats.skewnorm(4, a, s),
    "uniform": stats.uniform,
    "beta": lambda a, s: stats.beta(2, 3, a, s),
    "arcsine": lambda a, s: stats.beta(0.5, 0.5, a, s),
    "triangle": lambda a, s: stats.triang(0.3, a, s),
    "truncated": lambda a, s: stats.truncnorm(-1, 2, a, s),
    "gamma": lambda a, s: stats.gamma(2, a, s),
    "half-normal": stats.halfnorm,
    "half-Cauchy": stats.halfcauchy,
    "exponential": stats.expon,
    "log-normal": lambda a, s: stats.lognorm(1, a, s),
    "inverse gamma": lambda a, s: stats.invgamma(3, a, s),
    "Pareto": lambda a, s: stats.pareto(3, a, s),
    "Weibull": lambda a, s: stats.weibull_min(1.5, a, s),
    "reversed Weibull": lambda a, s: stats.weibull_max(1.5, a, s),
}


def by_quadrature(prior, x, noise):
    """Return mean, deviation and log-evidence of theta where x ~ N(theta, noise^2)."""
    spread = noise / np.sqrt(len(x))
    low, high = prior.support()
    ends = max(low, x.mean() - 12 * spread), min(high, x.mean() + 12 * spread)
    # Midpoints, in units of the spread from the mean, keep what is far from zero exact.
    edges = np.linspace((ends[0] - x.mean()) / spread, (ends[1] - x.mean()) / spread, 200_001)
    z = (edges[1:] + edges[:-1]) / 2
    with np.errstate(divide="ignore"):
        log_density = prior.logpdf(x.mean() + spread * z) - 0.5 * z**2
    top = log_density.max()
    mass = np.exp(log_density - top)
    mean = np.average(z, weights=mass)
    deviation = np.sqrt(np.average((z - mean) ** 2, weights=mass))
    rest = stats.norm.logpdf(x, x.mean(), noise).sum()
    return mean, deviation, np.log(mass.sum() * (z[1] - z[0]) * spread) + top + rest, spread


def observed(prior, scale, count=40):
    """Return observations of a draw from the middle of the prior."""
    rng = np.random.default_rng(5)
    noise = 0.5 * scale
    return prior.ppf(0.6) + noise * rng.normal(size=count), noise


def posterior_of(prior, x, noise, **settings):
    def log_likelihood(theta, batch):
        return stats.norm.logpdf(batch[None, :], theta[:, :1], noise).sum(axis=1)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CollapseWarning)
        model = ParticleMirrorDescent(log_likelihood, {"theta": prior}, **(SETTINGS | settings))
        posterior = model.fit(x)
    return posterior, [w for w in caught if issubclass(w.category, CollapseWarning)]


def verdict(family, location, scale):
    """Return "right", "told" or what is wrong."""
    prior = FAMILIES[family](location, scale)
    x, noise = observed(prior, scale)
    try:
        posterior, told = posterior_of(prior, x, noise)
    except InvalidInput as error:
        return "told" if "theta" in str(error) else f"no name: {error}"
    if told:
        return "told"
    mean, deviation, evidence, spread = by_quadrature(prior, x, noise)
    found = (posterior.mean()[0] - x.mean()) / spread
    tolerance = 5 / np.sqrt(posterior.ess)
    # Next to a location the numbers are some 1e-16 of it apart.
    grain = np.spacing(abs(location) + scale) / spread
    if abs(found - mean) > tolerance * deviation + 2 * grain:
        return f"mean {found} for {mean} ± {deviation}"
    if abs(posterior.std()[0] / spread / deviation - 1) > tolerance + 2 * grain:
        return f"deviation {posterior.std()[0] / spread} for {deviation}"
    if abs(posterior.log_evidence - evidence) > 5 * posterior.log_evidence_error + 0.05 + grain:
        return f"evidence {posterior.log_evidence} for {evidence}"
    return "right"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_location_and_scale(family):
    """A part of the matrix; all of it is run by ``python tests/python/test_priors.py``."""
    ends = [(a, s) for a in (0.0, -1e3, 1e6) for s in (1e-6, 1.0, 1e6)]
    found = {case: verdict(family, *case) for case in ends}
    wrong = {case: said for case, said in found.items() if said not in ("right", "told")}
    assert not wrong
    # A prior may be refused where its numbers are so far apart that rounding changes it.
    told = [(a, s) for (a, s), said in found.items() if said == "told"]
    assert all(np.spacing(abs(a)) > 1e-5 * s for a, s in told), told


def test_far_from_zero():
    """N(5000, 1000), which was N(700, 0) once."""
    x = np.random.default_rng(0).normal(5000, 10, size=300)
    posterior, told = posterior_of(stats.norm(5000, 1000), x, 10.0)
    assert not told
    assert posterior.mean()[0] == pytest.approx(x.mean(), abs=0.2)
    assert posterior.std()[0] == pytest.approx(10 / np.sqrt(300), rel=0.15)


@pytest.mark.parametrize("ratio", [1e-6, 1e-4, 1e4, 1e6])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_data_that_say_much_more_or_less_than_the_prior(ratio, scale):
    prior = stats.norm(3 * scale, scale)
    x = 3.5 * scale + ratio * scale * np.random.default_rng(1).normal(size=40)
    posterior, told = posterior_of(prior, x, ratio * scale)
    precision = 1 + 40 / ratio**2
    mean = (3 + 40 * (x.mean() / scale) / ratio**2) / precision
    deviation = 1 / np.sqrt(precision)
    tolerance = 5 / np.sqrt(posterior.ess)
    assert told or abs(posterior.mean()[0] / scale - mean) < tolerance * deviation + 1e-12
    assert told or abs(posterior.std()[0] / scale / deviation - 1) < tolerance


@pytest.mark.parametrize("units", [(1e-6, 1e6), (1e6, 1e-6), (1e-6, 1e-6), (1e6, 1e6)])
def test_parameters_in_units_far_apart(units):
    a, b = units
    rng = np.random.default_rng(2)
    data = np.column_stack([rng.normal(2 * a, a, 200), rng.normal(-b, b, 200)])

    def log_likelihood(theta, batch):
        z = (batch[None] - theta[:, None]) / np.array(units)
        return -0.5 * (z**2).sum(axis=(1, 2)) - len(batch) * np.log(2 * np.pi * a * b)

    prior = {"one": stats.norm(0, 10 * a), "two": stats.norm(0, 10 * b)}
    posterior = ParticleMirrorDescent(log_likelihood, prior, **SETTINGS).fit(data)
    assert posterior.warnings == []
    error = np.abs(posterior.mean() - data.mean(axis=0) * 200 / 200.01) / np.array(units)
    assert (error < 0.02).all()
    np.testing.assert_allclose(posterior.std() / units, 1 / np.sqrt(200.01), rtol=0.15)


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("scale", SCALES)
def test_gamma_rates(shape, scale):
    """Conjugate: theta ~ Gamma(shape, scale), x ~ Exponential(rate theta)."""
    x = np.random.default_rng(3).exponential(1 / (scale * shape), size=60)

    def log_likelihood(theta, batch):
        return len(batch) * np.log(theta[:, 0]) - theta[:, 0] * batch.sum()

    prior = {"theta": stats.gamma(shape, scale=scale)}
    posterior = ParticleMirrorDescent(log_likelihood, prior, **SETTINGS).fit(x)
    exact = stats.gamma(shape + 60, scale=1 / (1 / scale + x.sum()))
    tolerance = 5 / np.sqrt(posterior.ess)
    assert abs(posterior.mean()[0] - exact.mean()) < tolerance * exact.std()
    assert abs(posterior.std()[0] / exact.std() - 1) < tolerance


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("strength", [1e-1, 1.0, 1e3, 1e6])
def test_simplices(parts, strength):
    """Conjugate: shares ~ Dirichlet, counts of draws."""
    alpha = strength * np.arange(1, parts + 1) / parts
    data = np.random.default_rng(4).choice(parts, p=alpha / alpha.sum(), size=200)

    def log_likelihood(theta, batch):
        with np.errstate(divide="ignore"):
            return np.log(theta) @ np.bincount(batch, minlength=parts)

    prior = {"share": stats.dirichlet(alpha)}
    posterior = ParticleMirrorDescent(log_likelihood, prior, **SETTINGS).fit(data)
    exact = stats.dirichlet(alpha + np.bincount(data, minlength=parts))
    tolerance = 5 / np.sqrt(posterior.ess)
    assert (np.abs(posterior.mean() - exact.mean()) < tolerance * np.sqrt(exact.var())).all()
    np.testing.assert_allclose(posterior.std(), np.sqrt(exact.var()), rtol=tolerance)


@pytest.mark.parametrize(
    "prior",
    [stats.beta(0.01, 0.01), stats.gamma(0.001), stats.beta(0.01, 1, 1e6, 1)],
)
def test_priors_that_rounding_changes_are_refused(prior):
    with pytest.raises(InvalidInput, match=r"prior of theta puts .* closer to a bound"):
        posterior_of(prior, np.ones(5), 1.0)


def test_priors_outside_their_constraints_are_refused():
    with pytest.raises(InvalidInput, match=r"prior of theta draws .* outside its bounds"):
        posterior_of(stats.norm(0, 1), np.ones(5), 1.0, constraints={"theta": "positive"})


class NoNumbers:
    def rvs(self, size, random_state):
        return np.full(size, np.nan)

    def logpdf(self, x):
        return np.zeros(len(x))


def test_draws_that_are_no_numbers_are_refused():
    with pytest.raises(InvalidInput, match="prior of theta draws NaN"):
        posterior_of(NoNumbers(), np.ones(5), 1.0)


@pytest.mark.parametrize(
    "bounds", [(0, 1), (-1e6, 1e6), (1e6, 1e6 + 1e-6), (0, np.inf), (5, np.inf)]
)
@pytest.mark.parametrize("u", [-1e4, -800.0, -30.0, 0.0, 30.0, 600.0])
def test_no_parameter_is_on_a_bound(bounds, u):
    transform = Interval(*map(float, bounds))
    x = transform.to_bounded(np.array([[u]]))
    assert bounds[0] < x[0, 0] < bounds[1]
    assert np.isfinite(transform.to_free(x)).all()


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-3.0, 1e6), (0.0, np.inf), (-np.inf, 2.0)])
def test_transforms_undo_each_other(bounds):
    transform = Interval(*bounds)
    u = np.linspace(-12, 12, 101)[:, None]
    np.testing.assert_allclose(transform.to_free(transform.to_bounded(u)), u, atol=1e-3)
    simplex = Simplex(4)
    free = np.random.default_rng(0).normal(size=(50, 3)) * 5
    parts = simplex.to_bounded(free)
    np.testing.assert_allclose(parts.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(simplex.to_free(parts), free, rtol=1e-6, atol=1e-9)


if __name__ == "__main__":
    from collections import Counter

    counts: Counter[str] = Counter()
    for case in [(f, a, s) for f in FAMILIES for a in LOCATIONS for s in SCALES]:
        said = verdict(*case)
        counts[said if said in ("right", "told") else "wrong"] += 1
        if said != "right":
            print(*case, said)
    print(dict(counts))
