"""Kernel machines that learn by stochastic optimisation in function space."""

from typing import TYPE_CHECKING, Any

from riesz._errors import FitError, InvalidInput, RieszError
from riesz._riesz import __version__, simd_path

if TYPE_CHECKING:
    from riesz._classifier import KernelClassifier
    from riesz._density_ratio import DensityRatioEstimator
    from riesz._features import RandomFeatures
    from riesz._gaussian_process import GaussianProcessRegressor
    from riesz._quantile_regressor import KernelQuantileRegressor
    from riesz._regressor import KernelRegressor

__all__ = [
    "DensityRatioEstimator",
    "FitError",
    "GaussianProcessRegressor",
    "InvalidInput",
    "KernelClassifier",
    "KernelQuantileRegressor",
    "KernelRegressor",
    "RandomFeatures",
    "RieszError",
    "__version__",
    "simd_path",
]


def __getattr__(name: str) -> Any:
    # scikit-learn takes a second to import, which the command line should not wait for.
    if name == "KernelClassifier":
        from riesz._classifier import KernelClassifier

        return KernelClassifier
    if name == "DensityRatioEstimator":
        from riesz._density_ratio import DensityRatioEstimator

        return DensityRatioEstimator
    if name == "GaussianProcessRegressor":
        from riesz._gaussian_process import GaussianProcessRegressor

        return GaussianProcessRegressor
    if name == "KernelQuantileRegressor":
        from riesz._quantile_regressor import KernelQuantileRegressor

        return KernelQuantileRegressor
    if name == "KernelRegressor":
        from riesz._regressor import KernelRegressor

        return KernelRegressor
    if name == "RandomFeatures":
        from riesz._features import RandomFeatures

        return RandomFeatures
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
