"""Posteriors of models in Python, beside closed forms."""

import pickle
import subprocess
import sys
import warnings
from types import ModuleType

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import riesz
from riesz import BayesianLogisticRegression, InvalidInput, ParticleMirrorDescent
from riesz._prior import Prior
from riesz._riesz import leave_one_out
from riesz._transforms import Interval, Ordered, Simplex

DATA = np.random.default_rng(0).normal(1, 2, size=200)


def log_likelihood(theta, batch):
    """x ~ N(theta, 2^2)."""
    return stats.norm.logpdf(batch, theta[:, :1], 2).sum(axis=1)


PRIOR = {"mu": stats.norm(0, 3)}


def fit(**parameters):
    settings = {"random_state": 0, "n_particles": 500, **parameters}
    return ParticleMirrorDescent(log_likelihood, PRIOR, **settings).fit(DATA)


@pytest.fixture(scope="module")
def posterior():
    return fit()


def exact():
    """Return mean and deviation of the posterior, and the log-evidence."""
    precision = 1 / 9 + len(DATA) / 4
    mean = DATA.sum() / 4 / precision
    covariance = 4 * np.eye(len(DATA)) + 9
    evidence = stats.multivariate_normal.logpdf(DATA, np.zeros(len(DATA)), covariance)
    return mean, precision**-0.5, evidence


def test_a_conjugate_posterior_is_recovered(posterior):
    mean, deviation, evidence = exact()
    value, error = posterior.expect(lambda theta: theta[:, 0])
    assert abs(value - mean) < 4 * error < 0.2 * deviation
    assert abs(posterior.std()[0] / deviation - 1) < 0.15  # four errors of 500 draws
    assert abs(posterior.log_evidence - evidence) < 4 * posterior.log_evidence_error + 1e-3
    grid = mean + deviation * np.linspace(-2, 2, 9)
    expected = stats.norm.logpdf(grid, mean, deviation)
    assert np.abs(posterior.logpdf(grid[:, None]) - expected).max() < 0.4
    assert not posterior.warnings


@pytest.mark.parametrize("batch_size", [20, 30])  # 30 does not divide 200
def test_paper_mode_with_particles_of_the_prior(batch_size):
    found = fit(mode="paper", strategy="particles", batch_size=batch_size, n_particles=20_000)
    mean, deviation, evidence = exact()
    value, error = found.expect(lambda theta: theta[:, 0])
    assert abs(value - mean) < 4 * error < 0.2 * deviation
    assert abs(found.log_evidence - evidence) < 4 * found.log_evidence_error < 0.2


# A share t0 / (t0 + t) of the likelihood is missing after t steps of 1 / (t0 + t): that shifts the
# mean by 0.01 deviations here and widens the posterior by 1 %.
@pytest.mark.parametrize("strategy", ["density", "density_then_particles"])
@pytest.mark.parametrize("growth", [{}, {"initial_particles": 500}])
def test_paper_mode_with_densities(strategy, growth):
    settings = {"batch_size": 20, "n_particles": 4000, "delay": 5, "n_steps": 200, **growth}
    found = fit(mode="paper", strategy=strategy, **settings)
    mean, deviation, _ = exact()
    assert abs(found.mean()[0] - mean) < 0.15 * deviation
    assert 0.9 < found.std()[0] / deviation < 1.2
    assert found.log_evidence is None
    assert found.history[0]["particles"] == growth.get("initial_particles", 4000)
    assert found.history[-1]["particles"] == 4000


def test_the_published_bandwidth_widens_the_posterior():
    settings = {"mode": "paper", "strategy": "density", "batch_size": 200, "delay": 1}
    _, deviation, _ = exact()
    wide, bounded = (
        fit(bandwidth_bound=bound, n_steps=60, n_particles=3000, **settings).std()[0] / deviation
        for bound in (np.inf, 0.1)
    )
    assert wide > 1.3 > 1.15 > bounded


def test_bounded_parameters_carry_their_jacobian():
    counts = np.repeat([0, 1, 2], [30, 50, 20])
    prior = {"p": stats.dirichlet([1, 2, 3])}

    def likelihood(theta, batch):
        return np.log(theta)[:, batch].sum(axis=1)

    found = ParticleMirrorDescent(likelihood, prior, random_state=0, n_particles=1000).fit(counts)
    after = np.array([31, 52, 23])
    assert found["p"].shape == (1000, 3)
    np.testing.assert_allclose(found["p"].sum(axis=1), 1)
    spread = stats.dirichlet(after).var() ** 0.5
    assert (np.abs(found.mean() - after / after.sum()) < 5 * spread / 1000**0.5).all()

    def log_beta(a):
        return gammaln(a).sum() - gammaln(a.sum())

    evidence = log_beta(after) - log_beta(np.array([1, 2, 3]))
    assert abs(found.log_evidence - evidence) < 5 * found.log_evidence_error


@pytest.mark.parametrize(
    "transform",
    [Interval(-1, 2), Interval(3, np.inf), Interval(-np.inf, 1), Simplex(4), Ordered(3)],
)
def test_transforms_are_inverse_and_their_jacobian_is_the_derivative(transform):
    u = np.random.default_rng(0).normal(size=(5, transform.free))
    x = transform.to_bounded(u)
    np.testing.assert_allclose(transform.to_free(x), u, atol=1e-9)
    for i in range(len(u)):
        columns = []
        for j in range(transform.free):
            shift = np.zeros((1, transform.free))
            shift[0, j] = 1e-6
            up, down = (transform.to_bounded(u[i : i + 1] + s * shift)[0] for s in (1, -1))
            columns.append((up - down)[: transform.free] / 2e-6)
        expected = np.linalg.slogdet(np.array(columns))[1]
        assert abs(transform.log_jacobian(u[i : i + 1])[0] - expected) < 1e-6


def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(posterior):
    assert np.array_equal(posterior.samples, fit(n_jobs=1).samples)
    assert not np.array_equal(posterior.samples, fit(random_state=1).samples)


def test_files_and_pickles(posterior, tmp_path):
    posterior.save(tmp_path / "p.riesz")
    again = riesz.load(tmp_path / "p.riesz")
    assert np.array_equal(again.samples, posterior.samples)
    assert again.log_evidence == posterior.log_evidence
    assert np.array_equal(again.logpdf([[1.0]]), posterior.logpdf([[1.0]]))
    bytes_of = pickle.dumps(posterior._particles)
    assert np.array_equal(pickle.loads(bytes_of).positions(), posterior._particles.positions())


def test_draws(posterior):
    mean, deviation, _ = exact()
    for drawn in (posterior.resample(2000, 0), posterior.sample(2000, 0)):
        assert drawn.shape == (2000, 1)
        assert abs(drawn.mean() - mean) < 0.2 * deviation
    low, high = posterior.quantile([0.05, 0.95])[:, 0]
    assert abs((high - low) / deviation / 3.29 - 1) < 0.15
    assert "mu" in posterior.summary()
    assert sum(group["weight"] for group in posterior.groups()) == pytest.approx(1)


def test_leave_one_out_is_that_of_the_closed_form():
    def terms(theta, batch):
        return stats.norm.logpdf(batch, theta[:, :1], 2)

    model = ParticleMirrorDescent(terms, PRIOR, pointwise=True, random_state=0, n_particles=2000)
    scores = model.fit(DATA).loo()
    precision = 1 / 9 + (len(DATA) - 1) / 4
    mean = (DATA.sum() - DATA) / 4 / precision
    expected = stats.norm.logpdf(DATA, mean, (4 + 1 / precision) ** 0.5)
    np.testing.assert_allclose(scores.pointwise, expected, atol=5e-3)
    assert scores.elpd == pytest.approx(expected.sum(), abs=0.1)
    with pytest.raises(InvalidInput, match="pointwise=True"):
        fit().loo()


def test_leave_one_out_looks_at_some_observations_at_a_time(monkeypatch):
    def terms(theta, batch):
        return stats.norm.logpdf(batch, theta[:, :1], 2)

    found = ParticleMirrorDescent(terms, PRIOR, pointwise=True, random_state=0).fit(DATA)
    whole = found.loo()
    asked = []
    inner = found._pointwise.__self__.function

    def counted(theta, batch):
        asked.append(len(batch))
        return inner(theta, batch)

    found._pointwise.__self__.function = counted
    monkeypatch.setattr(riesz._particle_mirror_descent, "_POINTWISE_PIECE", 2000 * 30)
    pieces = found.loo()
    assert asked == [30] * 6 + [20]
    np.testing.assert_array_equal(pieces.pointwise, whole.pointwise)
    np.testing.assert_array_equal(pieces.pareto_k, whole.pareto_k)
    assert pieces.elpd == whole.elpd


def test_inference_data_has_draws_of_equal_weight():
    arviz = pytest.importorskip("arviz")

    def terms(theta, batch):
        return stats.norm.logpdf(batch, theta[:, :1], 2)

    # Importance weights of draws from the prior: a few hundred of 2,000 are effective.
    settings = {"mode": "paper", "strategy": "particles", "batch_size": 200, "n_particles": 20_000}
    model = ParticleMirrorDescent(terms, PRIOR, pointwise=True, random_state=0, **settings)
    found = model.fit(DATA)
    assert found.ess < 0.2 * len(found)
    data = found.to_inference_data()
    drawn = np.asarray(data.posterior["mu"])
    assert drawn.shape == (4, round(found.ess) // 4)
    mean, deviation, _ = exact()
    # Resampling adds its own error to that of the particles: together four errors of as many draws.
    assert abs(drawn.mean() - mean) < 4 * deviation * np.sqrt(2 / found.ess)
    assert abs(drawn.std() / deviation - 1) < 4 * np.sqrt(1 / found.ess)
    # Chains of shuffled draws are as good as independent.
    assert np.abs(drawn.mean(axis=1) - drawn.mean()).max() < 4 * deviation * np.sqrt(4 / found.ess)
    assert data.log_likelihood["data"].shape == (*drawn.shape, len(DATA))
    theirs, ours = arviz.loo(data), found.loo()
    # The sum of 200 terms, each of which errs by 0.005 at most.
    assert float(getattr(theirs, "elpd_loo", None) or theirs.elpd) == pytest.approx(
        ours.elpd, abs=0.5
    )
    assert found.to_inference_data(n=40).posterior["mu"].shape == (4, 10)


def test_inference_data_too_large_is_refused(monkeypatch):
    handed = []
    arviz = ModuleType("arviz")
    arviz.from_dict = lambda **groups: handed.append(groups)
    monkeypatch.setitem(sys.modules, "arviz", arviz)

    def terms(theta, batch):
        return stats.norm.logpdf(batch, theta[:, :1], 2)

    found = ParticleMirrorDescent(terms, PRIOR, pointwise=True, random_state=0).fit(DATA)
    monkeypatch.setattr(riesz._posterior, "_MOST_TERMS", 200 * 100)
    with pytest.raises(InvalidInput, match="n=100 at most, or loo"):
        found.to_inference_data()
    found.to_inference_data(n=100)
    (groups,) = handed
    mu, each = groups["posterior"]["mu"], groups["log_likelihood"]["data"]
    assert mu.shape == (4, 25)
    np.testing.assert_allclose(each, stats.norm.logpdf(DATA, mu[..., None], 2))
    monkeypatch.setattr(riesz._posterior, "_MOST_TERMS", 3 * 200)
    with pytest.raises(InvalidInput, match=r"at once; take loo\(\)"):
        found.to_inference_data(n=4)


def test_a_figure_shows_itself(posterior, tmp_path):
    pytest.importorskip("matplotlib")
    figure = posterior.plot(tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    # What a notebook asks an object for; pyplot is not loaded for it.
    code = (
        "import sys, riesz._figure as f; figure = f.Figure(); figure.subplots(); "
        "assert figure._repr_png_().startswith(b'\\x89PNG'); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(InvalidInput, match="no columns"):
        posterior.plot(names=["nu"])


def test_ordered_numbers_are_order_statistics(tmp_path):
    prior = {"x": stats.multivariate_normal(np.zeros(3))}
    model = ParticleMirrorDescent(
        lambda theta, batch: np.zeros(len(theta)),
        prior,
        constraints={"x": "ordered"},
        random_state=0,
    )
    found = model.fit(np.zeros(1))
    # The mean of the largest of three normal numbers is 3/(2 sqrt(pi)).
    expected = np.array([-1, 0, 1]) * 1.5 / np.sqrt(np.pi)
    value, error = found.expect(lambda theta: theta)
    assert (np.abs(value - expected) < 4 * error).all()
    assert abs(found.log_evidence) < 4 * found.log_evidence_error + 1e-3
    assert (np.diff(found["x"], axis=1) > 0).all()
    found.save(tmp_path / "ordered.riesz")
    again = riesz.Posterior.load(tmp_path / "ordered.riesz")
    assert np.array_equal(again.samples, found.samples)
    uneven = {"x": stats.multivariate_normal([0.0, 1.0])}
    with pytest.raises(InvalidInput, match="changes with the order"):
        ParticleMirrorDescent(model.log_likelihood, uneven, constraints={"x": "ordered"}).fit(
            np.zeros(1)
        )


def test_leaving_out_is_judged_without_the_weights_of_the_particles():
    rng = np.random.default_rng(0)
    weights = np.exp(rng.normal(0, 1, 4000))  # a tail of their own
    terms = np.ascontiguousarray(
        stats.norm.logpdf(rng.normal(size=3), rng.normal(size=(4000, 1)), 3)
    )
    _, shapes = leave_one_out(np.log(weights), terms)
    # The ratios exp((x - theta)²/18) have a tail of shape 1/9, and the estimate from the 190
    # largest, drawn to one half a little, errs by 0.08.
    assert shapes.max() < 0.4


def test_a_likelihood_is_never_asked_about_more_than_256_megabytes():
    asked = []

    def sizes(theta, batch):
        asked.append(len(theta) * len(batch))
        return -0.5 * len(batch) * (theta[:, 0] - 0.5) ** 2

    found = ParticleMirrorDescent(sizes, PRIOR, random_state=0).fit(np.zeros(100_000))
    assert 8 * max(asked) <= 256_000_000 < 8 * 2000 * 100_000
    assert found.n_evaluations / 100_000 < 6000
    assert abs(found.mean()[0] - 0.5) < 4 / np.sqrt(100_000 * 1000)


def test_a_summary_is_a_table(posterior):
    table = posterior.summary()
    assert table["mu"]["mean"] == pytest.approx(posterior.mean()[0])
    assert list(table["mu"]) == ["mean", "std", "5 %", "50 %", "95 %"]
    assert str(table).splitlines()[1].startswith("mu ")


def test_predictive_draws(posterior):
    mean, deviation, _ = exact()
    drawn = posterior.sample_predictive(lambda theta, rng: rng.normal(theta[:, 0], 2), 4000, 0)
    assert drawn.shape == (4000,)
    # Four errors of 4,000 draws.
    assert abs(drawn.mean() - mean) < 4 * np.hypot(2, deviation) / np.sqrt(4000)
    with pytest.raises(InvalidInput, match="draw = None should be a function"):
        posterior.sample_predictive(None)


def test_data_of_every_kind():
    pandas = pytest.importorskip("pandas")

    def of_column(theta, batch):
        return log_likelihood(theta, np.asarray(batch["x"]))

    def of_first(theta, batch):
        return log_likelihood(theta, np.asarray(batch[0]))

    kinds = [
        (log_likelihood, DATA),
        (lambda theta, batch: log_likelihood(theta, np.array(batch)), list(DATA)),
        (of_column, pandas.DataFrame({"x": DATA})),
        (of_column, {"x": DATA}),
        (of_first, (DATA, DATA)),
    ]
    settings = {"n_particles": 100, "random_state": 0}
    found = [ParticleMirrorDescent(f, PRIOR, **settings).fit(d).samples for f, d in kinds]
    assert all(np.array_equal(samples, found[0]) for samples in found)


class Pair:
    """A normal number and an exponential one; what further attributes are given."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def logpdf(self, theta):
        return stats.norm.logpdf(theta[:, 0], 0, 3) + stats.expon.logpdf(theta[:, 1])

    def rvs(self, size, random_state):
        return np.column_stack(
            [random_state.normal(0, 3, size), random_state.exponential(size=size)]
        )


def test_an_object_may_name_and_bound_its_columns(tmp_path):
    def both(theta, batch):
        return stats.norm.logpdf(batch, theta[:, :1], theta[:, 1:]).sum(axis=1)

    named = Pair(columns=["mu", "sigma"], bounds=["real", (0, None)])
    found = ParticleMirrorDescent(both, named, random_state=0).fit(DATA)
    dictionary = {"mu": stats.norm(0, 3), "sigma": stats.expon()}
    other = ParticleMirrorDescent(both, dictionary, random_state=0).fit(DATA)
    assert found.names == ["mu", "sigma"]
    assert found["sigma"].shape == (2000,)
    assert found["sigma"].min() > 0
    # A thousand effective draws on both sides.
    assert (np.abs(found.mean() - other.mean()) < 0.15 * other.std()).all()
    error = np.hypot(found.log_evidence_error, other.log_evidence_error)
    assert abs(found.log_evidence - other.log_evidence) < 4 * error + 1e-3
    found.save(tmp_path / "p.riesz")
    assert riesz.load(tmp_path / "p.riesz").names == found.names


@pytest.mark.skipif(not hasattr(stats, "Normal"), reason="SciPy 1.15 has newer distributions")
def test_newer_distributions_are_priors(tmp_path):
    prior = {
        "mu": stats.Normal(mu=0.0, sigma=3.0),
        "sigma": stats.truncate(stats.Normal(mu=0.0, sigma=5.0), lb=0.5, ub=4.0),
        "beta": stats.Normal(mu=np.array([-1.0, 1.0])),
    }
    free = ParticleMirrorDescent(lambda theta, batch: np.zeros(len(theta)), prior, random_state=0)
    found = free.set_params(checkpoint=tmp_path / "c.riesz").fit(np.zeros(1))
    assert found.names == ["mu", "sigma", "beta[0]", "beta[1]"]
    assert 0.5 < found["sigma"].min() < found["sigma"].max() < 4.0
    assert abs(found.log_evidence) < 4 * found.log_evidence_error + 1e-3
    value, error = found.expect(lambda theta: theta)
    expected = [0.0, prior["sigma"].mean(), -1.0, 1.0]
    assert (np.abs(value - expected) < 4 * error).all()
    # What it is does not change with its use.
    one = Prior({"mu": prior["mu"]}, None).parameters[0]
    same = Prior({"mu": stats.Normal(mu=0.0, sigma=3.0)}, None).parameters[0]
    wider = Prior({"mu": stats.Normal(mu=0.0, sigma=3.1)}, None).parameters[0]
    assert one.fingerprint() == same.fingerprint() != wider.fingerprint()
    if hasattr(stats, "Binomial"):
        with pytest.raises(InvalidInput, match="discrete"):
            Prior({"k": stats.Binomial(n=10, p=0.5)}, None)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda theta, batch: np.full(len(theta), np.nan), "particle 0 is NaN .* batch of 16"),
        (lambda theta, batch: np.zeros((len(theta), 1)), r"shape \((\d+), 1\) for \1 particles"),
        (lambda theta, batch: np.full(len(theta), -np.inf), "density above zero"),
    ],
)
def test_faulty_likelihoods_are_explained(function, message):
    with pytest.raises(InvalidInput, match=message):
        ParticleMirrorDescent(function, PRIOR, random_state=0).fit(DATA)


def test_what_a_likelihood_raises_is_raised_with_the_particle():
    def broken(theta, batch):
        if (theta > 4).any():
            raise RuntimeError("too large")
        return np.zeros(len(theta))

    with pytest.raises(RuntimeError, match="too large") as caught:
        ParticleMirrorDescent(broken, PRIOR, random_state=0).fit(DATA)
    if sys.version_info >= (3, 11):  # exceptions have notes since
        (note,) = caught.value.__notes__
        assert all(part in note for part in ("particle", "mu = ", "batch of"))


class Draws:
    """Methods of the names that SciPy's newer distributions have, with other arguments."""

    def sample(self, n, random_state=0):
        return np.zeros((n, 1))

    def logpdf(self, x):
        return np.zeros(len(x))

    def support(self):
        return 0.0, 1.0


@pytest.mark.parametrize(
    ("prior", "constraints", "message"),
    [
        ({"k": stats.poisson(3)}, None, "discrete"),
        ({"mu": 3.0}, None, "logpdf and rvs"),
        ({}, None, "no parameters"),
        (PRIOR, {"sigma": "positive"}, "sigma"),
        (PRIOR, {"mu": "round"}, "round"),
        (Pair(columns=["a", "a"]), None, "should be a list of 2 different names"),
        (Pair(columns="ab"), None, "should be a list of 2 different names"),
        (Pair(bounds=["real"]), None, "bounds .* list of 2 items"),
        (Pair(bounds=["real", (1, 0)]), None, r"constraint \(1, 0\) of theta\[1\] is unknown"),
        (Pair(bounds=["simplex", None]), None, "give it in constraints"),
        (Pair(bounds=["real", "real"]), {"theta": "real"}, "bounds of its own"),
        ({"b": Pair(columns=["mu", "b"]), **PRIOR}, None, "'mu'. twice"),
        (
            {"p": Pair(columns=["b[0]", "x"]), "b": stats.multivariate_normal(np.zeros(2))},
            None,
            r"'b\[0\]'. twice",
        ),
        ({"mu": Draws()}, None, "logpdf and rvs"),
        ({"mu": Draws}, None, "logpdf and rvs"),
    ],
)
def test_faulty_priors_are_explained(prior, constraints, message):
    with pytest.raises(InvalidInput, match=message):
        ParticleMirrorDescent(log_likelihood, prior, constraints=constraints).fit(DATA)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "papers"}, "adaptive, paper"),
        ({"n_particles": 3}, "n_particles"),
        ({"renewal": "never"}, "auto, draws, moves"),
        ({"mode": "paper", "strategy": "both"}, "density_then_particles"),
        ({"mode": "paper", "checkpoint": "x"}, "checkpoint"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InvalidInput, match=message):
        fit(**settings)


def test_a_collapse_cannot_be_missed():
    def narrow(theta, batch):
        return -0.5e8 * theta[:, 0] ** 2 * len(batch)

    # Particles from the prior alone: the nearest to zero takes all the weight.
    model = ParticleMirrorDescent(
        narrow, PRIOR, random_state=0, n_particles=200, mode="paper", strategy="particles"
    )
    with pytest.warns(riesz.CollapseWarning) as caught:
        found = model.fit(np.zeros(1))
    assert any("are effective" in str(warning.message) for warning in caught)
    assert "WARNING" in repr(found)


def test_logistic_regression_agrees_with_the_mode_of_its_posterior():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * [1, 2, 3] + 5
    eta = (X - 5) @ [1, -0.5, 0.2] + 0.3
    y = np.where(rng.random(2000) < 1 / (1 + np.exp(-eta)), "yes", "no")
    model = BayesianLogisticRegression(random_state=0, n_particles=500).fit(X, y)
    # The prior N(0, 1) of standardised coefficients is a penalty of one half.
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    peer = LogisticRegression(C=1.0, tol=1e-8).fit(rows, y)
    deviation = model.posterior_.std()[1:]
    found = model.coef_[0] * X.std(axis=0)
    assert (np.abs(found - peer.coef_[0]) < 0.4 * deviation).all()
    assert np.abs(model.predict_proba(X) - peer.predict_proba(rows)).max() < 0.02
    assert set(model.predict(X)) == {"yes", "no"}


def test_logistic_regression_of_several_classes_and_its_file(tmp_path):
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", riesz.CollapseWarning)
        model = BayesianLogisticRegression(random_state=0, n_particles=500).fit(X, y)
    assert model.score(X, y) > 0.93
    model.save(tmp_path / "m.riesz")
    again = riesz.load(tmp_path / "m.riesz")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(InvalidInput, match="at least two"):
        BayesianLogisticRegression().fit(X[:50], y[:50])


@pytest.mark.parametrize("classes", [2, 3])
def test_draws_about_the_mode_are_the_posterior(classes):
    """With Newton's method and without: the same means, deviations and evidence."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = np.digitize(X[:, 0] - X[:, 1] + rng.logistic(size=150), [0.0, 1.5][: classes - 1])
    found = {}
    for laplace in (True, False):
        model = BayesianLogisticRegression(laplace=laplace, random_state=0).fit(X, y)
        found[laplace] = model.posterior_
    own, other = found[True], found[False]
    assert {stage["kind"] for stage in own.history} == {"draws"}
    assert all(stage["island"] is None for stage in own.history)
    assert own.n_passes < 0.5 * other.n_passes
    assert not own.warnings
    apart = (own.mean() - other.mean()) / other.std()
    # A thousand effective draws on both sides: 0.045 deviations, the largest of a dozen.
    assert np.abs(apart).max() < 0.15
    assert np.abs(own.std() / other.std() - 1).max() < 0.1
    error = np.hypot(own.log_evidence_error, other.log_evidence_error)
    assert abs(own.log_evidence - other.log_evidence) < 4 * error + 0.01


@pytest.mark.filterwarnings("ignore::riesz.CollapseWarning")
def test_a_mode_that_says_little_is_not_relied_upon():
    """Thirty columns and twenty rows that they separate: the posterior is nearly the prior, cut."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 30))
    y = X[:, 0] > 0
    settings = {"prior_scale": 3.0, "n_particles": 300, "random_state": 0}
    ours, plain = (
        BayesianLogisticRegression(laplace=laplace, **settings).fit(X, y).posterior_
        for laplace in (True, False)
    )
    assert any(stage["island"] is not None for stage in ours.history)
    np.testing.assert_array_equal(ours.mean(), plain.mean())
