"""Kernel machines that learn by stochastic optimisation in function space."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from riesz._errors import FitError, InvalidInput, RieszError
from riesz._riesz import __version__, simd_path

if TYPE_CHECKING:
    from riesz._classifier import KernelClassifier
    from riesz._density_ratio import DensityRatioEstimator
    from riesz._features import RandomFeatures
    from riesz._gaussian_process import GaussianProcessRegressor
    from riesz._load import load
    from riesz._novelty_detector import KernelNoveltyDetector
    from riesz._quantile_regressor import KernelQuantileRegressor
    from riesz._regressor import KernelRegressor
    from riesz._sparse_gaussian_process import SparseGaussianProcessRegressor

__all__ = [
    "DensityRatioEstimator",
    "FitError",
    "GaussianProcessRegressor",
    "InvalidInput",
    "KernelClassifier",
    "KernelNoveltyDetector",
    "KernelQuantileRegressor",
    "KernelRegressor",
    "RandomFeatures",
    "RieszError",
    "SparseGaussianProcessRegressor",
    "__version__",
    "load",
    "simd_path",
]

# scikit-learn takes a second to import, which the command line should not wait for.
_LATER = {
    "DensityRatioEstimator": "_density_ratio",
    "GaussianProcessRegressor": "_gaussian_process",
    "KernelClassifier": "_classifier",
    "KernelNoveltyDetector": "_novelty_detector",
    "KernelQuantileRegressor": "_quantile_regressor",
    "KernelRegressor": "_regressor",
    "RandomFeatures": "_features",
    "SparseGaussianProcessRegressor": "_sparse_gaussian_process",
    "load": "_load",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"riesz.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
