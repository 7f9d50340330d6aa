"""Gaussian processes beside their peers on the published splits of the UCI collection.

    python benchmarks/functions/gaussian_process.py --only kin40k --splits 0 1 2 --threads 2

Per data set, split and model one line: root mean square error and mean negative log density of the
test targets (both for targets of deviation 1), the share of them inside central 95 % intervals, and
the seconds (of the clock, and of all processors together) of fit and prediction. Peers:

- part: scikit-learn's exact process on a random part of the rows;
- inducing: inducing points on all rows (Titsias' posterior) with the hyper-parameters learnt there;
- sgpr, svgp: GPyTorch with 512 inducing points (`gpytorch_peers.py`).

All use as many threads as asked for. A model that fails has a line that says why.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gpytorch_peers
from data import Array, Split, _open, _standardised

SETS = ("elevators", "pol", "kin40k")
PART = 1000  # rows scikit-learn learns from; its time grows with their cube


def split_of(root: Path, name: str, split: int) -> Split:
    """Training and test rows of a published split, standardised by the training rows."""
    folder = f"uci_regression/{name}"
    table = np.loadtxt(io.BytesIO(_open(root, f"{folder}/data.csv.gz")), delimiter=",")
    mask = np.loadtxt(io.BytesIO(_open(root, f"{folder}/test_mask.csv.gz")), delimiter=",")
    test = mask[:, split] > 0
    columns, target = table[:, :-1], table[:, -1]
    return _standardised(columns, target, np.flatnonzero(~test), np.flatnonzero(test), np.float64)


Predict = Callable[[Array], tuple[Array, Array]]


def riesz(X: Array, y: Array, seed: int, threads: int | None = None) -> Predict:
    """The default constructor."""
    from riesz import GaussianProcessRegressor

    model = GaussianProcessRegressor(random_state=seed, n_jobs=threads).fit(X, y)
    return lambda Z: model.predict(Z, return_std=True)


def part_of_the_rows(X: Array, y: Array, seed: int) -> Predict:
    """An exact process on a random part of the rows."""
    model = _peer(X, y, seed)
    return lambda Z: model.predict(Z, return_std=True)


def inducing_points(X: Array, y: Array, seed: int) -> Predict:
    """Titsias' posterior: A = I + V V' / noise with V = inv(L) K_un."""
    kernel = _peer(X, y, seed).kernel_
    smooth, noise = kernel.k1, kernel.k2.noise_level
    U = X[np.random.RandomState(seed + 1).permutation(len(X))[:PART]]
    L = np.linalg.cholesky(smooth(U) + 1e-6 * smooth.k1.constant_value * np.eye(len(U)))
    A, b = np.eye(len(U)), np.zeros(len(U))
    for rows in np.array_split(np.arange(len(X)), max(1, len(X) // 4096)):
        V = np.linalg.solve(L, smooth(U, X[rows]))
        A += V @ V.T / noise
        b += V @ y[rows] / noise
    R = np.linalg.cholesky(A)
    weights = np.linalg.solve(R.T, np.linalg.solve(R, b))

    def predict(Z: Array) -> tuple[Array, Array]:
        V = np.linalg.solve(L, smooth(U, Z))
        S = np.linalg.solve(R, V)
        variance = smooth.k1.constant_value - (V**2).sum(0) + (S**2).sum(0) + noise
        return weights @ V, np.sqrt(variance)

    return predict


def _peer(X: Array, y: Array, seed: int) -> object:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    d = X.shape[1]
    scales = RBF([np.sqrt(d)] * d, length_scale_bounds=(1e-2, 1e3))
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * scales + WhiteKernel(0.1, (1e-6, 10.0))
    rows = np.random.RandomState(seed).permutation(len(X))[:PART]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column without a say ends at the bound
        return GaussianProcessRegressor(kernel).fit(X[rows], y[rows])


MODELS = {
    "riesz": riesz,
    "part": part_of_the_rows,
    "inducing": inducing_points,
    "sgpr": gpytorch_peers.sgpr,
    "svgp": gpytorch_peers.svgp,
}


def measure(model: str, data: Split, seed: int, threads: int | None) -> dict[str, Any]:
    """Fit, predict, compare."""
    fit = MODELS[model]
    more = {"threads": threads} if model == "riesz" else {}
    start, start_cpu = time.perf_counter(), time.process_time()
    predict = fit(data.X_train, data.y_train, seed, **more)
    fitted, fitted_cpu = time.perf_counter(), time.process_time()
    mean, std = predict(data.X_test)
    done, done_cpu = time.perf_counter(), time.process_time()
    z = (data.y_test - mean) / std
    return {
        "rmse": float(np.sqrt(np.mean((data.y_test - mean) ** 2))),
        "nlpd": float(np.mean(0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi))),
        "covered": float(np.mean(np.abs(z) < 1.959964)),
        "fit_s": fitted - start,
        "predict_s": done - fitted,
        "fit_cpu_s": fitted_cpu - start_cpu,
        "predict_cpu_s": done_cpu - fitted_cpu,
    }


def limit_threads(threads: int | None, models: list[str]) -> None:
    """As many threads as asked for, in NumPy's and PyTorch's libraries too."""
    if threads is None:
        return
    from threadpoolctl import threadpool_limits

    if {"sgpr", "svgp"} & set(models):
        import torch

        torch.set_num_threads(threads)
    threadpool_limits(threads)


def versions() -> dict[str, str]:
    """What is compared."""
    found = {}
    for name in ("numpy", "scikit-learn", "torch", "gpytorch"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = os.environ.get("RIESZ_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(data), help="folder of the data sets")
    parser.add_argument("--only", nargs="*", default=SETS)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--splits", nargs="*", type=int, default=[0])
    parser.add_argument("--threads", type=int, help="all cores unless given")
    parser.add_argument("--out", type=Path, help="append the lines as JSON")
    arguments = parser.parse_args()
    limit_threads(arguments.threads, arguments.models)
    print(
        f"{'data':<12}{'split':>6} {'model':<10}{'rmse':>8}{'nlpd':>9}{'in 95 %':>9}"
        f"{'fit s':>8}{'cpu s':>8}{'predict':>8}"
    )
    for name in arguments.only:
        for split in arguments.splits:
            data = split_of(arguments.data, name, split)
            for model in arguments.models:
                line = {"data": name, "split": split, "model": model, "threads": arguments.threads}
                line |= attempt(model, name, data, split, arguments.threads)
                if arguments.out:
                    with arguments.out.open("a") as file:
                        file.write(json.dumps(line | {"versions": versions()}) + "\n")


def attempt(model: str, name: str, data: Split, split: int, threads: int | None) -> dict[str, Any]:
    """Measure and print; what fails is a result too."""
    try:
        found = measure(model, data, split, threads)
    except Exception as error:  # any peer, any reason
        failure = f"{type(error).__name__}: {error}"
        print(f"{name:<12}{split:>6} {model:<10} failed: {failure}", flush=True)
        return {"failed": failure}
    print(
        f"{name:<12}{split:>6} {model:<10}{found['rmse']:>8.4f}{found['nlpd']:>9.4f}"
        f"{found['covered']:>9.3f}{found['fit_s']:>8.1f}{found['fit_cpu_s']:>8.1f}"
        f"{found['predict_s']:>8.1f}",
        flush=True,
    )
    return found


if __name__ == "__main__":
    main()
