"""Density ratios against closed forms and against logistic regression: python density_ratio.py.

Three pairs of distributions whose ratio is known; mean square errors on fresh rows, of the log
ratio under p and under q and of the ratio under q, and the two divergences beside the truth. The
errors of `riesz` on the Gaussian pair come at several sizes, with the slope in log-log scale.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import riesz
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

Rows = NDArray[np.float64]
TEST_ROWS = 4000
TRUTH_ROWS = 400_000


class Pair(NamedTuple):
    """Two distributions one can draw from, and the log of their ratio."""

    numerator: Callable[[np.random.Generator, int], Rows]
    denominator: Callable[[np.random.Generator, int], Rows]
    log_ratio: Callable[[Rows], Rows]

    def divergences(self) -> tuple[float, float]:
        """Return KL(p||q) and half the variance of the ratio under q, by Monte Carlo under p."""
        f = self.log_ratio(self.numerator(np.random.default_rng(99), TRUTH_ROWS))
        return float(f.mean()), float(0.5 * np.exp(f).mean() - 0.5)


def log_normal(x: Rows, mean: Rows, deviation: float) -> Rows:
    """Return log densities of an isotropic normal distribution."""
    d = x.shape[1]
    square = ((x - mean) ** 2).sum(axis=1) / deviation**2
    return -0.5 * square - d * np.log(deviation) - 0.5 * d * np.log(2 * np.pi)


def gaussians(d: int) -> Pair:
    """Return a normal distribution that is shifted and narrower than the standard one."""
    mean = np.zeros(d)
    mean[0] = 0.7
    return Pair(
        lambda rng, n: mean + 0.8 * rng.normal(size=(n, d)),
        lambda rng, n: rng.normal(size=(n, d)),
        lambda x: log_normal(x, mean, 0.8) - log_normal(x, np.zeros(d), 1.0),
    )


def mixture(d: int) -> Pair:
    """Return four normal distributions around random centres against a broad one."""
    centres = 1.5 * np.random.default_rng(1).normal(size=(4, d))
    narrow, broad = (0.6, 2.4) if d < 5 else (0.9, 2.0)

    def log_p(x: Rows) -> Rows:
        each = [log_normal(x, centre, narrow) for centre in centres]
        return np.asarray(logsumexp(each, axis=0) - np.log(4))

    return Pair(
        lambda rng, n: centres[rng.integers(0, 4, n)] + narrow * rng.normal(size=(n, d)),
        lambda rng, n: broad * rng.normal(size=(n, d)),
        lambda x: log_p(x) - log_normal(x, np.zeros(d), broad),
    )


PAIRS = {
    "gaussians, d=1": gaussians(1),
    "gaussians, d=2": gaussians(2),
    "gaussians, d=5": gaussians(5),
    "mixture, d=2": mixture(2),
    "mixture, d=5": mixture(5),
}


def by_classifier(model: Any, p: Rows, q: Rows) -> Callable[[Rows], Rows]:
    """Return the log odds of a classifier, corrected for the sizes of the samples."""
    model.fit(np.r_[p, q], np.r_[np.ones(len(p)), np.zeros(len(q))])

    def log_ratio(x: Rows) -> Rows:
        odds = np.clip(model.predict_proba(x), 1e-12, None)
        return np.asarray(np.log(odds[:, 1]) - np.log(odds[:, 0]) + np.log(len(q) / len(p)))

    return log_ratio


def linear(degree: int, p: Rows, q: Rows) -> Callable[[Rows], Rows]:
    """Return the log ratio of a logistic regression on polynomials."""
    model = make_pipeline(
        StandardScaler(),
        PolynomialFeatures(degree, include_bias=False),
        LogisticRegression(max_iter=1000),
    )
    return by_classifier(model, p, q)


def kernel_logistic(p: Rows, q: Rows, seed: int) -> Callable[[Rows], Rows]:
    """Return the log odds of the kernel classifier with the logistic loss."""
    return by_classifier(riesz.KernelClassifier(loss="logistic", random_state=seed), p, q)


METHODS = [
    "riesz logistic",
    "riesz kl",
    "riesz least_squares",
    "kernel classifier",
    "logistic regression",
    "logistic regression, degree 2",
]


def fitted(method: str, p: Rows, q: Rows, seed: int) -> tuple[Callable[[Rows], Rows], Any]:
    """Return an estimated log ratio, and the estimator where it is the one under test."""
    if method.startswith("riesz"):
        loss = method.split()[1]
        estimator = riesz.DensityRatioEstimator(loss=loss, random_state=seed).fit(p, q)
        return estimator.log_ratio, estimator
    if method == "kernel classifier":
        return kernel_logistic(p, q, seed), None
    return linear(2 if method.endswith("2") else 1, p, q), None


def measure(name: str, method: str, n: int, repetitions: int) -> dict[str, Any]:
    """Fit and judge on fresh rows, averaged over repetitions."""
    pair, records = PAIRS[name], []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        p, q = pair.numerator(rng, n), pair.denominator(rng, n)
        rows_p, rows_q = pair.numerator(rng, TEST_ROWS), pair.denominator(rng, TEST_ROWS)
        started = time.perf_counter()
        log_ratio, estimator = fitted(method, p, q, seed)
        record = {"seconds": time.perf_counter() - started}
        record["log_p"] = np.mean((log_ratio(rows_p) - pair.log_ratio(rows_p)) ** 2)
        record["log_q"] = np.mean((log_ratio(rows_q) - pair.log_ratio(rows_q)) ** 2)
        error = np.exp(log_ratio(rows_q)) - np.exp(pair.log_ratio(rows_q))
        record["ratio_q"] = np.mean(error**2)
        if estimator is not None:
            record["kl"] = estimator.divergence(kind="kl")
            record["pearson"] = estimator.divergence(kind="pearson")
            record["blocks"] = estimator.n_blocks_
            record["bandwidth"] = estimator.bandwidth_
        records.append(record)
    means = {key: float(np.mean([r[key] for r in records])) for key in records[0]}
    return {"pair": name, "method": method, "n": n, "repetitions": repetitions} | means


def show(record: dict[str, Any]) -> None:
    """Print one line of the table."""
    number = "{:9.4f}".format
    cells = [number(record[key]) for key in ("log_p", "log_q", "ratio_q")]
    cells += [number(record[key]) if key in record else " " * 9 for key in ("kl", "pearson")]
    cells += [f"{record['seconds']:7.2f}"]
    print(f"{record['pair']:15} {record['method']:30} {record['n']:6}", *cells, flush=True)


def plan(arguments: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """Say what to measure: the rate of the default first, then all methods at the given sizes."""
    for name in arguments.pairs:
        for n in arguments.sizes:
            methods = METHODS if n in arguments.compare else METHODS[:1]
            for method in methods:
                yield name, method, n


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=[100, 300, 1000, 3000, 10000, 30000]
    )
    parser.add_argument("--compare", nargs="+", type=int, default=[100, 1000, 10000])
    parser.add_argument(
        "--repetitions", type=int, default=5, help="up to 1,000 rows; one fifth above"
    )
    parser.add_argument("--out", type=Path, help="append JSON lines to this file")
    arguments = parser.parse_args()
    print(f"{'':15} {'':30} {'n':>6}     log p     log q   ratio q        kl   pearson seconds")
    records = []
    for name, method, n in plan(arguments):
        many = arguments.repetitions if n <= 1000 else max(1, arguments.repetitions // 5)
        records.append(measure(name, method, n, many))
        show(records[-1])
        if arguments.out:
            with arguments.out.open("a") as file:
                file.write(json.dumps({"version": riesz.__version__} | records[-1]) + "\n")
    for name in arguments.pairs:
        kl, pearson = PAIRS[name].divergences()
        own = [r for r in records if r["pair"] == name and r["method"] == METHODS[0]]
        line = f"{name}: KL {kl:.4f}, Pearson {pearson:.4f}"
        if len(own) > 1:
            sizes = np.log([r["n"] for r in own])
            for key in ("log_p", "log_q", "ratio_q"):
                slope = np.polyfit(sizes, np.log([r[key] for r in own]), 1)[0]
                line += f", slope of {key} {slope:.2f}"
        print(line)


if __name__ == "__main__":
    main()
