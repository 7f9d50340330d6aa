"""GPyTorch's two approximations for many rows, trained as its own examples train them.

SGPR (Titsias 2009) climbs the collapsed bound on all rows at once; SVGP (Hensman et al. 2013) the
uncollapsed one on batches. Both: a Gaussian kernel with one length scale per column, a constant
mean, 512 inducing points that start at random rows and move, hyper-parameters that start where
those of the scikit-learn peer do, Adam. Single precision is GPyTorch's own; where a Cholesky factor
fails there, double precision is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from data import Array

INDUCING = 512
SGPR_ITERATIONS, SGPR_RATE = 100, 0.1
SVGP_EPOCHS, SVGP_RATE, SVGP_BATCH = 30, 0.01, 1024
TEST_BATCH = 1000

Predict = Callable[[Array], tuple[Array, Array]]


def sgpr(X: Array, y: Array, seed: int) -> Predict:
    """Inducing points on all rows."""
    return _in_either_precision(_sgpr, X, y, seed)


def svgp(X: Array, y: Array, seed: int) -> Predict:
    """Inducing points and a normal variational distribution, by batches."""
    return _in_either_precision(_svgp, X, y, seed)


def _in_either_precision(
    fit: Callable[[Any, Any, int], tuple[Any, Any]], X: Array, y: Array, seed: int
) -> Predict:
    """Fit, in double precision where single precision breaks down; predictions alike."""
    import torch
    from linear_operator.utils.errors import NanError, NotPSDError

    def fitted(dtype: Any) -> Predict:
        torch.manual_seed(seed)
        model, likelihood = fit(torch.tensor(X, dtype=dtype), torch.tensor(y, dtype=dtype), seed)
        return _predictor(model, likelihood, dtype)

    failures = (NanError, NotPSDError, torch.linalg.LinAlgError, FloatingPointError)
    try:
        predict = fitted(torch.float32)
        predict(X[:2] + 1e-3)  # fills the caches of the posterior, which belong to the fit
    except failures as error:
        print(f"  single precision failed ({type(error).__name__}), trying double", flush=True)
        predict = fitted(torch.float64)
        predict(X[:2] + 1e-3)
    return predict


def _predictor(model: Any, likelihood: Any, dtype: Any) -> Predict:
    import torch

    model.eval()
    likelihood.eval()

    def predict(Z: Array) -> tuple[Array, Array]:
        means, deviations = [], []
        with torch.no_grad():
            for rows in torch.split(torch.tensor(Z, dtype=dtype), TEST_BATCH):
                found = likelihood(model(rows))
                means.append(found.mean.double().numpy())
                deviations.append(found.variance.double().sqrt().numpy())
        mean, deviation = np.concatenate(means), np.concatenate(deviations)
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
            raise FloatingPointError("predictions are not finite")
        return mean, deviation

    return predict


def _parts(X: Any, seed: int) -> tuple[Any, Any, Any]:
    """Kernel, likelihood and inducing points at their starts."""
    import gpytorch
    import torch

    d = X.shape[1]
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=d))
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    kernel, likelihood = kernel.to(X.dtype), likelihood.to(X.dtype)
    kernel.outputscale = 1.0
    kernel.base_kernel.lengthscale = torch.full((1, d), d**0.5, dtype=X.dtype)
    likelihood.noise = 0.1
    order = np.random.RandomState(seed).permutation(len(X))[:INDUCING]
    return kernel, likelihood, X[torch.from_numpy(order)].clone()


def _sgpr(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
    import gpytorch
    import torch

    kernel, likelihood, inducing = _parts(X, seed)

    class Model(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                kernel, inducing_points=inducing, likelihood=likelihood
            )

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model = Model().to(X.dtype)
    model.train()
    likelihood.train()
    bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=SGPR_RATE)
    for _ in range(SGPR_ITERATIONS):
        optimizer.zero_grad()
        _descend(-bound(model(X), y), optimizer)
    return model, likelihood


def _svgp(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
    import gpytorch
    import torch

    kernel, likelihood, inducing = _parts(X, seed)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            variational = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
            strategy = gpytorch.variational.VariationalStrategy(
                self, inducing, variational, learn_inducing_locations=True
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = kernel

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model = Model().to(X.dtype)
    model.train()
    likelihood.train()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    both = [{"params": model.parameters()}, {"params": likelihood.parameters()}]
    optimizer = torch.optim.Adam(both, lr=SVGP_RATE)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(SVGP_EPOCHS):
        for rows in torch.split(torch.randperm(len(y), generator=generator), SVGP_BATCH):
            optimizer.zero_grad()
            _descend(-bound(model(X[rows]), y[rows]), optimizer)
    return model, likelihood


def _descend(loss: Any, optimizer: Any) -> None:
    import torch

    loss = loss.sum()
    if not torch.isfinite(loss):
        raise FloatingPointError("the loss is not finite")
    loss.backward()
    optimizer.step()
