"""Logistic regression on a million rows of ten columns: a callback, riesz's own model, SGLD.

python million.py --out results/….jsonl

One row of JSON per method: ``looks`` at all data by one particle, ``error``, the largest
|mean error| / sd, ``sd``, the ratio of deviations that is farthest from one, and ``seconds``. The
reference is the normal distribution about the mode: of a million rows the posterior differs from it
by a thousandth of a deviation or so. Stochastic gradient Langevin dynamics has gradients, of 1,000
rows a step, with control variates at the mode (which costs it 20 looks of Newton's method); its
largest step is the one that leaves the deviations right within a tenth.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from riesz import BayesianLogisticRegression, ParticleMirrorDescent
from scipy.special import expit

ROWS, COLUMNS, SCALE = 1_000_000, 10, 5.0
NEWTON = 20
# Steps of SGLD, rows of each, and step sizes in units of the posterior's variances.
STEPS, BATCH, SIZES = 20_000, 1_000, (0.5, 0.2, 0.1, 0.05)


class Normal:
    """Independent normal numbers."""

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Return the log-density of rows."""
        return -0.5 * (x**2).sum(axis=1) / SCALE**2 - COLUMNS * np.log(SCALE * np.sqrt(2 * np.pi))

    def rvs(self, size: int, random_state: np.random.Generator) -> np.ndarray:
        """Return rows."""
        return random_state.normal(scale=SCALE, size=(size, COLUMNS))


def compared(
    name: str, samples: np.ndarray, weights: np.ndarray, mode: np.ndarray, sd: np.ndarray
) -> dict:
    """Return the largest errors."""
    mean = weights @ samples
    ratio = np.sqrt(weights @ (samples - mean) ** 2) / sd
    return {
        "problem": "million",
        "method": name,
        "error": float(np.max(np.abs(mean - mode) / sd)),
        "sd": float(ratio[np.argmax(np.abs(np.log(ratio)))]),
    }


def langevin(
    Z: np.ndarray, mode: np.ndarray, covariance: np.ndarray, size: float
) -> tuple[np.ndarray, float]:
    """Return the second half of a chain, and its looks at all data; preconditioned."""
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(covariance)
    at_mode = Z.T @ expit(-(Z @ mode)) - mode / SCALE**2
    theta, kept = mode.copy(), []
    for step in range(STEPS):
        rows = Z[rng.integers(0, ROWS, BATCH)]
        difference = rows.T @ (expit(-(rows @ theta)) - expit(-(rows @ mode)))
        gradient = at_mode + ROWS / BATCH * difference - (theta - mode) / SCALE**2
        noise = np.sqrt(size) * (root @ rng.normal(size=COLUMNS))
        theta = theta + 0.5 * size * covariance @ gradient + noise
        if step >= STEPS // 2:
            kept.append(theta)
    return np.array(kept), NEWTON + STEPS * BATCH / ROWS


def rows() -> Iterator[dict]:
    """Fit by each method."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    beta = rng.normal(size=COLUMNS) / 3
    y = np.where(rng.random(ROWS) < expit(X @ beta), 1.0, -1.0)
    Z = X * y[:, None]
    mode = np.zeros(COLUMNS)
    for _ in range(NEWTON):
        p = expit(-(Z @ mode))
        hessian = (X * (p * (1 - p))[:, None]).T @ X + np.eye(COLUMNS) / SCALE**2
        mode += np.linalg.solve(hessian, Z.T @ p - mode / SCALE**2)
    covariance = np.linalg.inv(hessian)
    sd = np.sqrt(np.diag(covariance))

    begin = time.perf_counter()
    # In columns of unit variance and with an intercept, which of columns without mean is apart.
    found = BayesianLogisticRegression(prior_scale=SCALE, random_state=0).fit(X, y).posterior_
    samples = found.samples[:, 1:] / X.std(axis=0)
    row = compared("riesz.BayesianLogisticRegression", samples, found.weights, mode, sd)
    yield row | {
        "looks": round(found.n_evaluations / ROWS),
        "seconds": round(time.perf_counter() - begin, 1),
    }

    for size in SIZES:
        begin = time.perf_counter()
        chain, looks = langevin(Z, mode, covariance, size)
        equal = np.full(len(chain), 1 / len(chain))
        row = compared(f"SGLD with control variates, step {size}", chain, equal, mode, sd)
        yield row | {"looks": looks, "seconds": round(time.perf_counter() - begin, 1)}
        if abs(np.log(row["sd"])) < 0.1:
            break

    largest = 0

    def log_likelihood(theta: np.ndarray, batch: np.ndarray) -> np.ndarray:
        nonlocal largest
        largest = max(largest, 8 * len(theta) * len(batch))
        return -np.logaddexp(0, -(theta @ batch.T)).sum(axis=1)

    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ParticleMirrorDescent(log_likelihood, Normal(), random_state=0).fit(Z)
    row = compared("riesz.ParticleMirrorDescent", found.samples, found.weights, mode, sd)
    yield row | {
        "looks": round(found.n_evaluations / ROWS),
        "seconds": round(time.perf_counter() - begin, 1),
        "warnings": found.warnings,
        "largest_answer_bytes": largest,
    }


def main() -> None:
    """Fit by each method, a row each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for row in rows():
        print(row, flush=True)
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
