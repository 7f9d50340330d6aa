"""BlackJAX's tempered SMC on the posteriors of reference.py, with more and more moves a stage.

python tempered.py sblrc arK --posteriordb FOLDER --out results/….jsonl

Random-walk moves by 2.38/√d of the particles' covariance, in coordinates without bounds. The next
temperature leaves half of the particles effective; it is found here, since ``ess_solver`` of
BlackJAX 1.3 looks at the inverses of the weights and takes needlessly small steps. One row of JSON
per fit: ``looks`` at all data by one particle, ``error``, the largest |mean error| / sd, and ``sd``
as in reference.py. Steps double until the error is that of 2,000 exact draws or so.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from riesz._prior import Prior

from reference import MODELS, Database, Problem, long_importance

PARTICLES = 2_000
STEPS = (5, 10, 20, 40, 80)
# Errors of some numbers of 2,000 exact draws are rarely larger.
SMALL = 0.07


def next_temperature(values: np.ndarray, weights: np.ndarray, temperature: float) -> float:
    """Return the largest temperature up to one that leaves half of the particles effective."""

    def effective(step: float) -> float:
        w = np.exp(step * (values - values.max()))
        return float((weights @ w) ** 2 / (weights @ w**2))

    low, high = 0.0, 1.0 - temperature
    if effective(high) >= 0.5:
        return 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective(middle) >= 0.5 else (low, middle)
    return temperature + low


def tempered(problem: Problem, seed: int, steps: int, size: int) -> tuple[np.ndarray, int, float]:
    """Return particles in their own units, looks and seconds."""
    import blackjax
    import blackjax.smc.resampling as resampling
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    prior = Prior(problem.prior, None)
    layout = prior.layout

    def ask(values: np.ndarray, of: str) -> np.ndarray:
        u = np.asarray(values).reshape(-1, values.shape[-1])
        theta = layout.to_bounded(u)
        with np.errstate(all="ignore"):
            if of == "prior":
                found = prior.logpdf(theta) + layout.log_jacobian(u)
            else:
                found = problem.likelihood(theta, problem.data)
        found = np.where(np.isfinite(found), found, -1e300)
        return found.reshape(values.shape[:-1])

    def density(of: str):
        def value(u):
            shape = jax.ShapeDtypeStruct((), jnp.float64)
            return jax.pure_callback(
                lambda v: ask(np.asarray(v), of), shape, u, vmap_method="expand_dims"
            )

        return value

    start = prior.sample(size, seed)
    d = start.shape[1]
    key = jax.random.PRNGKey(seed)
    kernel, state, looks, temperature = blackjax.additive_step_random_walk, None, 0, 0.0
    begin = time.perf_counter()
    while temperature < 1.0:
        now = start if state is None else np.asarray(state.particles)
        weights = np.full(size, 1 / size) if state is None else np.asarray(state.weights)
        temperature = next_temperature(ask(now, "likelihood"), weights, temperature)
        covariance = np.atleast_2d(np.cov(now.T, aweights=weights))
        covariance += 1e-10 * np.diag(np.diag(covariance))
        sigma = jnp.asarray(np.linalg.cholesky(covariance) * 2.38 / np.sqrt(d))

        def step(rng, s, logdensity, sigma):
            walk = kernel(logdensity, blackjax.mcmc.random_walk.normal(sigma))
            return walk.step(rng, s)

        algorithm = blackjax.tempered_smc(
            density("prior"),
            density("likelihood"),
            step,
            kernel.init,
            {"sigma": sigma[None]},
            resampling.systematic,
            num_mcmc_steps=steps,
        )
        if state is None:
            state = algorithm.init(jnp.asarray(start))
        key, own = jax.random.split(key)
        state, _ = jax.jit(algorithm.step)(own, state, temperature)
        looks += size * (1 + steps)
    theta = layout.to_bounded(np.asarray(state.particles))
    weights = np.asarray(state.weights)
    order = np.random.default_rng(seed).choice(size, size, p=weights / weights.sum())
    return theta[order], looks, time.perf_counter() - begin


def main() -> None:
    """Fit what is asked for, a row each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--particles", type=int, default=PARTICLES)
    parser.add_argument("--posteriordb", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    database = Database(options.posteriordb)
    for name in options.names:
        source, data, build, scale = MODELS[name]
        problem = build(database.data(data), scale)
        mean, deviation, _ = long_importance(problem, problem.reference(database.draws(source)))
        for seed in range(options.seeds):
            for steps in STEPS:
                theta, looks, seconds = tempered(problem, seed, steps, options.particles)
                values = theta if problem.of is None else problem.of(theta)
                ratio = values.std(axis=0) / deviation
                row = {
                    "problem": name,
                    "method": f"blackjax tempered smc, {steps} steps",
                    "particles": options.particles,
                    "seed": seed,
                    "error": float(np.max(np.abs(values.mean(axis=0) - mean) / deviation)),
                    "sd": float(ratio[np.argmax(np.abs(np.log(ratio)))]),
                    "looks": looks,
                    "seconds": round(seconds, 2),
                }
                print(row, flush=True)
                if options.out:
                    with options.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                if row["error"] <= SMALL and abs(np.log(row["sd"])) < 0.1:
                    break


if __name__ == "__main__":
    main()
