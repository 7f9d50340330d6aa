"""Posteriors by particle mirror descent beside tempered SMC and variational inference.

python posterior.py mixture --seeds 10 --out results/….jsonl
python posterior.py modes --seeds 40
python posterior.py callback
python posterior.py logistic
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from riesz import BayesianLogisticRegression, KernelDensity, ParticleMirrorDescent
from scipy import stats
from scipy.special import log_softmax, logsumexp

PARTICLES = 1_500
SIDE = 241
# Moves of tempered SMC at each temperature.
STEPS = 10


def mixture_data() -> np.ndarray:
    """Return 1,000 observations of the tied mixture at theta = (1, -2)."""
    rng = np.random.default_rng(2018)
    return np.where(rng.random(1_000) < 0.5, 1.0, -1.0) + 2.5 * rng.standard_normal(1_000)


def mixture_log_likelihood(theta: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Return log p(batch | theta), x ~ N(theta_1, 2.5^2)/2 + N(theta_1 + theta_2, 2.5^2)/2."""
    a = -0.5 * ((batch - theta[:, :1]) / 2.5) ** 2
    b = -0.5 * ((batch - theta[:, :1] - theta[:, 1:]) / 2.5) ** 2
    return (np.logaddexp(a, b) - np.log(2 * 2.5 * np.sqrt(2 * np.pi))).sum(axis=1)


class Truth:
    """The posterior of the mixture on a grid."""

    def __init__(self, x: np.ndarray) -> None:
        """Evaluate the posterior of ``x``."""
        first, second = np.linspace(-3, 3, SIDE), np.linspace(-4.5, 4.5, SIDE)
        self.step = np.array([first[1] - first[0], second[1] - second[0]])
        self.grid = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)
        pieces = [mixture_log_likelihood(g, x) for g in np.array_split(self.grid, 60)]
        joint = np.concatenate(pieces) + stats.norm.logpdf(self.grid).sum(axis=1)
        self.log_evidence = logsumexp(joint) + np.log(self.step).sum()
        self.mass = np.exp(joint - logsumexp(joint))
        self.left = self.mass[self.grid[:, 1] < 0].sum()

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws, uniform within a cell."""
        cells = self.grid[rng.choice(len(self.grid), n, p=self.mass)]
        return cells + (rng.random((n, 2)) - 0.5) * self.step

    def total_variation(self, samples: np.ndarray, weights: np.ndarray) -> float:
        """Return the distance of a density through weighted samples: the same for all methods.

        Two kernel densities, one per mode, shaped by the mode's covariance.
        """
        density = np.full(len(self.grid), -np.inf)
        for side in (samples[:, 1] < 0, samples[:, 1] >= 0):
            if weights[side].sum() > 0 and side.sum() > 2:
                kde = KernelDensity(bandwidth="silverman", shape="covariance")
                kde.fit(samples[side], sample_weight=weights[side])
                part = kde.score_samples(self.grid) + np.log(weights[side].sum())
                density = np.logaddexp(density, part)
        return 0.5 * float(np.abs(np.exp(log_softmax(density)) - self.mass).sum())


def row(
    truth: Truth, method: str, seed: int, samples, weights, evidence, evaluations, seconds
) -> dict:
    """Return a line of results."""
    weights = weights / weights.sum()
    return {
        "problem": "mixture",
        "method": method,
        "seed": seed,
        "total_variation": truth.total_variation(samples, weights),
        "mass_error": float(weights[samples[:, 1] < 0].sum() - truth.left),
        "evidence_error": None if evidence is None else float(evidence - truth.log_evidence),
        "evaluations": evaluations,
        "seconds": seconds,
    }


def mixture(seeds: int):
    """Yield rows of the tied mixture."""
    x = mixture_data()
    truth = Truth(x)
    prior = {"first": stats.norm(0, 1), "second": stats.norm(0, 1)}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        ones = np.ones(PARTICLES)
        yield row(truth, "exact draws", seed, truth.draw(PARTICLES, rng), ones, None, 0, 0.0)
        begin = time.perf_counter()
        sampler = ParticleMirrorDescent(
            mixture_log_likelihood, prior, n_particles=PARTICLES, random_state=seed
        )
        posterior = sampler.fit(x)
        seconds = time.perf_counter() - begin
        found = posterior.samples, posterior.weights, posterior.log_evidence
        yield row(truth, "riesz", seed, *found, posterior.n_evaluations, seconds)
        found = tempered(x, seed, STEPS)
        yield row(truth, f"blackjax tempered smc, {STEPS} steps", seed, *found)


def tempered(x: np.ndarray, seed: int, steps: int):
    """Return samples, weights, evidence, evaluations and seconds of BlackJAX's tempered SMC."""
    import blackjax
    import blackjax.smc.resampling as resampling
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    data = jnp.asarray(x)

    def likelihood(theta):
        a = -0.5 * ((data - theta[0]) / 2.5) ** 2
        b = -0.5 * ((data - theta[0] - theta[1]) / 2.5) ** 2
        return jnp.sum(jnp.logaddexp(a, b) - jnp.log(2 * 2.5 * jnp.sqrt(2 * jnp.pi)))

    def prior(theta):
        return jnp.sum(-0.5 * theta**2 - 0.5 * jnp.log(2 * jnp.pi))

    key = jax.random.PRNGKey(seed)
    key, first = jax.random.split(key)
    state = jax.random.normal(first, (PARTICLES, 2))
    evaluations, evidence, temperature = 0, 0.0, 0.0
    begin = time.perf_counter()
    kernel = blackjax.additive_step_random_walk
    scale = 1.0
    while temperature < 1.0:
        deviation = jnp.cov(state.particles.T if hasattr(state, "particles") else state.T)
        sigma = jnp.linalg.cholesky(deviation + 1e-10 * jnp.eye(2)) * (2.38 / jnp.sqrt(2.0)) * scale

        def step(rng, s, logdensity, sigma):
            walk = kernel(logdensity, blackjax.mcmc.random_walk.normal(sigma))
            return walk.step(rng, s)

        algorithm = blackjax.adaptive_tempered_smc(
            prior,
            likelihood,
            step,
            kernel.init,
            {"sigma": sigma[None]},
            resampling.systematic,
            0.5,
            num_mcmc_steps=steps,
        )
        if not hasattr(state, "particles"):
            state = algorithm.init(state)
        key, now = jax.random.split(key)
        state, info = jax.jit(algorithm.step)(now, state)
        temperature = float(getattr(state, "tempering_param", getattr(state, "lmbda", 1.0)))
        evidence += float(info.log_likelihood_increment)
        # One look for the temperature, and one for each move.
        evaluations += PARTICLES * len(x) * (1 + steps)
    samples = np.asarray(state.particles)
    seconds = time.perf_counter() - begin
    return samples, np.asarray(state.weights), evidence, evaluations, seconds


def modes(seeds: int):
    """Yield rows of posteriors with 2 to 8 separated modes in 2 to 5 dimensions."""
    for seed in range(seeds):
        rng = np.random.default_rng(1_000 + seed)
        d, k = 2 + seed % 4, 2 + seed % 7
        centres: list[np.ndarray] = []
        while len(centres) < k:
            centre = rng.uniform(-8, 8, size=d)
            if all(np.linalg.norm(centre - other) > 4 for other in centres):
                centres.append(centre)
        middle = np.array(centres)
        width = rng.uniform(0.3, 0.8, size=k)
        share = rng.uniform(0.5, 1.5, size=k)
        share /= share.sum()

        def log_posterior(theta, middle=middle, width=width, share=share, d=d):
            square = ((theta[:, None] - middle) ** 2).sum(axis=2) / width**2
            return logsumexp(
                -0.5 * square - d * np.log(width * np.sqrt(2 * np.pi)), b=share, axis=1
            )

        def log_likelihood(theta, _, log_posterior=log_posterior):
            return log_posterior(theta) - stats.norm.logpdf(theta, 0, 5).sum(axis=1)

        prior = {f"x{j}": stats.norm(0, 5) for j in range(d)}
        begin = time.perf_counter()
        posterior = ParticleMirrorDescent(log_likelihood, prior, random_state=seed).fit(np.zeros(1))
        nearest = ((posterior.samples[:, None] - middle) ** 2).sum(axis=2).argmin(axis=1)
        found = np.array([posterior.weights[nearest == c].sum() for c in range(k)])
        yield {
            "problem": "modes",
            "seed": seed,
            "dimension": d,
            "modes": k,
            "largest_mass_error": float(np.abs(found - share).max()),
            "evidence_error": posterior.log_evidence,
            "evaluations": posterior.n_evaluations,
            "warned": len(posterior.warnings),
            "seconds": time.perf_counter() - begin,
        }


def callback(_: int):
    """Yield what a call costs beside a likelihood that takes a millisecond."""
    spent = {"calls": 0, "seconds": 0.0}

    def log_likelihood(theta, batch):
        begin = time.perf_counter()
        while time.perf_counter() - begin < 1e-3:
            pass
        out = -0.5 * ((batch.mean() - theta[:, 0]) ** 2) * len(batch)
        spent["calls"] += 1
        spent["seconds"] += time.perf_counter() - begin
        return out

    from riesz._particle_mirror_descent import _Model
    from riesz._prior import Prior
    from riesz._riesz import ParticlePosterior

    model = _Model(log_likelihood, Prior({"mu": stats.norm()}, None), np.zeros(1_000), False)
    settings = ParticleMirrorDescent(log_likelihood, None, mode="paper", n_particles=100)
    settings.set_params(strategy="particles", batch_size=10, n_steps=1_000, random_state=0)
    begin = time.perf_counter()
    ParticlePosterior.fit(model, 1, 1_000, settings=settings._settings())
    total = time.perf_counter() - begin
    overhead = (total - spent["seconds"]) / total
    yield {"problem": "callback", "calls": spent["calls"], "seconds": total, "overhead": overhead}


def pca(path: Path) -> dict[str, np.ndarray]:
    """Return MNIST 8 against 6 in its first 50 principal components."""
    import gzip

    def idx(name: str) -> np.ndarray:
        with gzip.open(next(path.glob(f"{name}*"))) as file:
            raw = file.read()
        shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)

    out = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        x, y = idx(f"{name}-images").reshape(-1, 784) / 255.0, idx(f"{name}-labels")
        keep = np.isin(y, [6, 8])
        out[part], out[f"{part}_y"] = x[keep], (y[keep] == 8).astype(int)
    mean = out["train"].mean(axis=0)
    basis = np.linalg.eigh(np.cov((out["train"] - mean).T))[1][:, ::-1][:, :50]
    return {k: (v - mean) @ basis if v.ndim == 2 else v for k, v in out.items()}


def logistic(seeds: int, data: Path):
    """Yield rows of Bayesian logistic regression, MNIST 8 against 6."""
    sets = pca(data / "mnist")
    x, y, x_test, y_test = (sets[k] for k in ("train", "train_y", "test", "test_y"))

    def scored(method: str, seed: int, p: np.ndarray, seconds: float, **more):
        right = np.where(y_test == 1, p, 1 - p)
        return {
            "problem": "logistic",
            "method": method,
            "seed": seed,
            "accuracy": float(np.mean((p > 0.5) == y_test)),
            "log_score": float(np.mean(np.log(right))),
            "seconds": seconds,
            **more,
        }

    for seed in range(seeds):
        begin = time.perf_counter()
        model = BayesianLogisticRegression(random_state=seed).fit(x, y)
        seconds = time.perf_counter() - begin
        posterior = model.posterior_
        r_hat = None if posterior.r_hat is None else float(posterior.r_hat.max())
        more = {
            "passes_of_particles": posterior.n_passes,
            "ess": posterior.ess,
            "r_hat": r_hat,
            "warnings": posterior.warnings,
        }
        yield scored("riesz", seed, model.predict_proba(x_test)[:, 1], seconds, **more)
        try:
            p, seconds = variational(x, y, x_test, seed)
        except ImportError as missing:
            print(f"without the peer: {missing}")
            continue
        yield scored("numpyro mean-field svi", seed, p, seconds)


def variational(x, y, x_test, seed: int):
    """Return probabilities and seconds of NumPyro's mean-field variational inference."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    mean, deviation = x.mean(axis=0), x.std(axis=0)
    rows = jnp.asarray((x - mean) / deviation)

    def model(rows, y=None):
        intercept = numpyro.sample("intercept", dist.Normal(0, 1))
        coefficients = numpyro.sample("b", dist.Normal(0, 1).expand([rows.shape[1]]).to_event(1))
        with numpyro.plate("rows", rows.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=intercept + rows @ coefficients), obs=y)

    begin = time.perf_counter()
    guide = AutoNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.01), Trace_ELBO(num_particles=4))
    result = svi.run(jax.random.PRNGKey(seed), 5_000, rows, jnp.asarray(y), progress_bar=False)
    drawn = guide.sample_posterior(
        jax.random.PRNGKey(seed + 1), result.params, sample_shape=(2_000,)
    )
    seconds = time.perf_counter() - begin
    eta = (
        np.asarray(drawn["intercept"])[:, None]
        + np.asarray(drawn["b"]) @ ((x_test - mean) / deviation).T
    )
    return (1 / (1 + np.exp(-eta))).mean(axis=0), seconds


def main() -> None:
    """Run one problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=["mixture", "modes", "callback", "logistic"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.problem == "logistic":
        rows = logistic(arguments.seeds, arguments.data)
    else:
        rows = globals()[arguments.problem](arguments.seeds)
    for line in rows:
        text = json.dumps(line)
        print(text, flush=True)
        if arguments.out:
            with arguments.out.open("a") as file:
                file.write(text + "\n")


if __name__ == "__main__":
    main()
