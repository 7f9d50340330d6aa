"""Sparse Gaussian processes beside GPyTorch's SVGP, with the same fixed hyper-parameters.

    python benchmarks/distributions/sparse_gp.py --only kin40k --split 0 --seed 0 --threads 2

Published splits of the UCI collection, columns and target standardised. Signal, noise and length
scales are learnt once, by riesz's exact process on 3,000 training rows, and fixed for every model
but `default`, which learns its own. All have 512 inducing inputs. Models:

- riesz: `SparseGaussianProcessRegressor` with 16 particles, one pass;
- paper: the same with `mode="paper"`, the published recursion;
- default: its default constructor, hyper-parameters and all;
- svgp: GPyTorch's SVGP (Hensman et al. 2013) as its tutorial has it: Adam, inducing inputs that
  start at random rows and are learnt, rows in batches of 1,024, the rate cut twice.

One JSON line per model: root mean square error, mean negative log density of the test targets,
their share inside central 95 % intervals, the seconds (of the clock, and of all processors
together) of the fit, of one pass over the rows and of prediction. SVGP has its curve, too.
They are appended to the file `--out`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "functions"))

from data import Array, Split
from gaussian_process import split_of

SETS = ("kin40k", "keggdirected")
MODELS = ("riesz", "paper", "default", "svgp")
INDUCING, PARTICLES = 512, 16
LEARNING_ROWS = 3000
SVGP_RATE, SVGP_BATCH = 0.01, 1024
SVGP_CUTS = (0.5, 0.8)  # of the epochs, after which the rate is multiplied by
SVGP_CUT = 0.3
INFINITE = 1e6  # length scale of a column that says nothing, in deviations


def hyperparameters(data: Split, threads: int | None) -> dict[str, Any]:
    """Signal, noise and length scales of an exact process on some training rows."""
    from riesz import GaussianProcessRegressor

    rows = np.random.RandomState(0).permutation(len(data.X_train))[:LEARNING_ROWS]
    process = GaussianProcessRegressor(
        random_state=0, n_jobs=threads, learning_rows=2000, approximation="exact"
    ).fit(data.X_train[rows], data.y_train[rows])
    scales = np.minimum(process.length_scales_, INFINITE)
    return {"signal": process.signal_, "noise": process.noise_, "length_scale": scales.tolist()}


def scores(data: Split, mean: Array, std: Array) -> dict[str, float]:
    """How good predictions of the test targets are."""
    z = (data.y_test - mean) / std
    return {
        "rmse": float(np.sqrt(np.mean((data.y_test - mean) ** 2))),
        "nlpd": float(np.mean(0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi))),
        "covered": float(np.mean(np.abs(z) < 1.959964)),
    }


class Clock:
    """Seconds of the clock and of all processors."""

    def __init__(self) -> None:
        """Start."""
        self.start = time.perf_counter(), time.process_time()

    def read(self, name: str) -> dict[str, float]:
        """Return both since the last reading."""
        now = time.perf_counter(), time.process_time()
        wall, cpu = (b - a for a, b in zip(self.start, now, strict=True))
        self.start = now
        return {f"{name}_s": wall, f"{name}_cpu_s": cpu}


def riesz(
    data: Split, model: str, hyper: dict[str, Any], seed: int, threads: int | None
) -> dict[str, Any]:
    """One pass of the particles."""
    from riesz import SparseGaussianProcessRegressor

    settings: dict[str, Any] = {} if model == "default" else dict(hyper)
    if model == "paper":
        settings["mode"] = "paper"
    clock = Clock()
    process = SparseGaussianProcessRegressor(
        n_inducing=INDUCING, n_particles=PARTICLES, random_state=seed, n_jobs=threads, **settings
    ).fit(data.X_train, data.y_train)
    times = clock.read("fit")
    if model != "default":  # the fit is the pass, with the choice of inputs and all else
        times |= {"pass_s": times["fit_s"], "pass_cpu_s": times["fit_cpu_s"]}
    mean, std = process.predict(data.X_test, return_std=True)
    times |= clock.read("predict")
    found = {
        "ess": process.ess_,
        "exponent": process.exponent_,
        "log_evidence": process.log_evidence_,
    }
    return scores(data, mean, std) | times | found


def svgp(
    data: Split, hyper: dict[str, Any], seed: int, threads: int | None, epochs: int
) -> dict[str, Any]:
    """GPyTorch's SVGP, with its curve."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(seed)
    X, y, Z = (
        torch.tensor(values, dtype=torch.float32)
        for values in (data.X_train, data.y_train, data.X_test)
    )
    model, likelihood, bound = _svgp_parts(X, hyper)
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=SVGP_RATE)
    cuts = [int(epochs * cut) for cut in SVGP_CUTS]
    rate = torch.optim.lr_scheduler.MultiStepLR(optimizer, cuts, gamma=SVGP_CUT)
    curve, fit = [], np.zeros(2)
    predicted: dict[str, float] = {}
    for epoch in range(epochs):
        model.train()
        clock = Clock()
        for rows in torch.split(torch.randperm(len(y)), SVGP_BATCH):
            optimizer.zero_grad()
            loss = -bound(model(X[rows]), y[rows])
            loss.backward()
            optimizer.step()
        rate.step()
        fit += list(clock.read("fit").values())
        model.eval()
        with torch.no_grad():
            found = likelihood(model(Z))
            mean, std = found.mean.double().numpy(), found.variance.double().sqrt().numpy()
        predicted = clock.read("predict")
        curve.append({"epoch": epoch + 1} | scores(data, mean, std))
    times = {"fit_s": fit[0], "fit_cpu_s": fit[1]}
    times |= {"pass_s": fit[0] / epochs, "pass_cpu_s": fit[1] / epochs}
    return (
        {k: v for k, v in curve[-1].items() if k != "epoch"} | times | predicted | {"curve": curve}
    )


def _svgp_parts(X: Any, hyper: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Model, likelihood and bound, with the hyper-parameters fixed."""
    import gpytorch
    import torch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
    kernel.outputscale = hyper["signal"]
    kernel.base_kernel.lengthscale = torch.tensor([hyper["length_scale"]], dtype=X.dtype)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = hyper["noise"]
    inducing = X[torch.randperm(len(X))[:INDUCING]].clone()

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            variational = gpytorch.variational.CholeskyVariationalDistribution(INDUCING)
            super().__init__(
                gpytorch.variational.VariationalStrategy(
                    self, inducing, variational, learn_inducing_locations=True
                )
            )
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = kernel

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model = Model()
    for part in (kernel, likelihood):
        for parameter in part.parameters():
            parameter.requires_grad_(False)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    return model, likelihood.eval(), bound


def versions() -> dict[str, str]:
    """What is compared."""
    found = {}
    for name in ("numpy", "torch", "gpytorch"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = os.environ.get("RIESZ_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(folder), help="folder of the data sets")
    parser.add_argument("--only", nargs="*", default=SETS)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=MODELS)
    parser.add_argument("--split", nargs="*", type=int, default=[0])
    parser.add_argument("--seed", nargs="*", type=int, default=[0])
    parser.add_argument("--threads", type=int, help="all cores unless given")
    parser.add_argument("--epochs", type=int, default=20, help="of SVGP")
    parser.add_argument("--out", type=Path, help="append the lines as JSON")
    asked = parser.parse_args()
    for name in asked.only:
        for split in asked.split:
            data = split_of(asked.data, name, split)
            hyper = hyperparameters(data, asked.threads)
            for seed in asked.seed:
                for model in asked.models:
                    if model == "svgp":
                        found = svgp(data, hyper, seed, asked.threads, asked.epochs)
                    else:
                        found = riesz(data, model, hyper, seed, asked.threads)
                    line = {"data": name, "split": split, "seed": seed, "model": model}
                    line |= {"threads": asked.threads} | found | {"versions": versions()}
                    show = {k: round(v, 4) for k, v in found.items() if isinstance(v, float)}
                    print(name, split, seed, model, show, flush=True)
                    if asked.out:
                        with asked.out.open("a") as file:
                            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
