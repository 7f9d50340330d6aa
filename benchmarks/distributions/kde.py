"""Weighted kernel densities beside SciPy's and scikit-learn's: seconds and largest error.

    python benchmarks/distributions/kde.py --columns 2 --rows 50000 --peer-queries 50000

Normal rows with exponential weights, as many queries as rows, Scott's bandwidth for all. Times are
those of the evaluation, fit excluded for the peers and included for riesz; one thread unless the
model's name says otherwise. ``cpu`` is processor time, which other work on the machine disturbs
less than ``wall``. With ``--peer-queries`` below the number of rows, peers get that many queries
and their time is scaled up, which the row says; their time is linear in queries. Errors of the
logarithm are against double precision, pair by pair, at 300 queries. One JSON object per line.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from riesz import KernelDensity, simd_path
from scipy.special import logsumexp
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity as Tree

Evaluate = Callable[[Any], Any]


def riesz(jobs: int, rtol: float = 1e-6) -> Callable[[Any, Any, float], Evaluate]:
    """The default constructor, with its fit among what is measured."""

    def model(X: Any, weights: Any, bandwidth: float) -> Evaluate:
        density = KernelDensity(bandwidth=bandwidth, rtol=rtol, n_jobs=jobs)
        return lambda queries: density.fit(X, sample_weight=weights).score_samples(queries)

    return model


def scipy(log: bool) -> Callable[[Any, Any, float], Evaluate]:
    """SciPy's, with the round kernel of the others."""

    def model(X: Any, weights: Any, bandwidth: float) -> Evaluate:
        density = gaussian_kde(X.T, weights=weights)
        density.set_bandwidth(1.0)
        density._data_covariance = np.eye(X.shape[1])
        density._data_cho_cov = np.eye(X.shape[1])
        density.set_bandwidth(bandwidth)
        return lambda queries: density.logpdf(queries.T) if log else np.log(density(queries.T))

    return model


def tree(X: Any, weights: Any, bandwidth: float) -> Evaluate:
    """scikit-learn's, exact."""
    return Tree(bandwidth=bandwidth).fit(X, sample_weight=weights).score_samples


MODELS = {
    "riesz": riesz(1),
    "riesz, two threads": riesz(2),
    "riesz, rtol=1e-3": riesz(1, 1e-3),
    "riesz, double precision": riesz(1, 0.0),
    "SciPy logpdf": scipy(True),
    "SciPy evaluate": scipy(False),
    "scikit-learn": tree,
}


def exact(X: Any, weights: Any, bandwidth: float, queries: Any) -> Any:
    """The logarithm of the density in double precision, one query at a time."""
    norm = np.log(weights.sum()) + X.shape[1] * np.log(np.sqrt(2 * np.pi) * bandwidth)
    squares = (((X - query) / bandwidth) ** 2 for query in queries)
    return np.array([logsumexp(-0.5 * s.sum(1), b=weights) - norm for s in squares])


def measure(name: str, d: int, n: int, peer_queries: int, repeats: int) -> dict[str, Any]:
    """One row."""
    rng = np.random.default_rng(0)
    X, queries, weights = rng.normal(size=(n, d)), rng.normal(size=(n, d)), rng.exponential(size=n)
    bandwidth = n ** (-1 / (d + 4))
    count = n if name.startswith("riesz") else min(n, peer_queries)
    evaluate = MODELS[name](X, weights, bandwidth)
    wall, cpu = [], []
    for _ in range(repeats if name.startswith("riesz") else 1):
        start = time.perf_counter(), time.process_time()
        found = evaluate(queries[:count])
        wall.append((time.perf_counter() - start[0]) * n / count)
        cpu.append((time.process_time() - start[1]) * n / count)
    error = np.abs(found[:300] - exact(X, weights, bandwidth, queries[: min(300, count)])).max()
    row = {"model": name, "columns": d, "rows": n, "queries": n, "queries_measured": count}
    row |= {"wall": round(min(wall), 5), "cpu": round(min(cpu), 5), "error": float(f"{error:.2g}")}
    return row


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--columns", nargs="*", type=int, default=[1, 2, 3, 5, 10, 20, 50])
    parser.add_argument("--rows", nargs="*", type=int, default=[1_000, 10_000, 50_000])
    parser.add_argument("--peer-queries", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for d in options.columns:
        for n in options.rows:
            for name in options.models:
                row = measure(name, d, n, options.peer_queries, options.repeats)
                print(json.dumps(row | {"path": simd_path()}), flush=True)


if __name__ == "__main__":
    main()
