"""Kernel machines that learn by stochastic optimisation in function space."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from riesz._errors import FitError, InvalidInput, RieszError
from riesz._registration import register_now_or_later
from riesz._riesz import __version__, simd_path

if TYPE_CHECKING:
    from riesz._augmenters import CoulombPermutation, GaussianNoise, ImageRotation, ImageShift
    from riesz._bayesian_logistic_regression import BayesianLogisticRegression
    from riesz._classifier import KernelClassifier
    from riesz._constrained import ConstrainedKernelClassifier, ConstrainedKernelRegressor
    from riesz._constraints import ChanceConstraint, CVaR, LossAbove, MeanConstraint
    from riesz._density_ratio import DensityRatioEstimator
    from riesz._environment import Environment
    from riesz._features import RandomFeatures
    from riesz._gaussian_process import GaussianProcessRegressor
    from riesz._hitting_time import HittingTime
    from riesz._invariance import InvariantClassifier, InvariantRegressor
    from riesz._kernel_density import KernelDensity
    from riesz._linearly_solvable_control import LinearlySolvableControl
    from riesz._load import load
    from riesz._novelty_detector import KernelNoveltyDetector
    from riesz._particle_mirror_descent import ParticleMirrorDescent
    from riesz._policy_evaluator import PolicyEvaluator, PolicyValue
    from riesz._policy_iteration import PolicyIteration
    from riesz._posterior import CollapseWarning, Posterior
    from riesz._posterior_variances import posterior_variances
    from riesz._quantile_regressor import KernelQuantileRegressor
    from riesz._regressor import KernelRegressor
    from riesz._sbeed import SBEED
    from riesz._sparse_gaussian_process import SparseGaussianProcessRegressor
    from riesz._topics import LatentDirichletAllocation

__all__ = [
    "SBEED",
    "BayesianLogisticRegression",
    "CVaR",
    "ChanceConstraint",
    "CollapseWarning",
    "ConstrainedKernelClassifier",
    "ConstrainedKernelRegressor",
    "CoulombPermutation",
    "DensityRatioEstimator",
    "Environment",
    "FitError",
    "GaussianNoise",
    "GaussianProcessRegressor",
    "HittingTime",
    "ImageRotation",
    "ImageShift",
    "InvalidInput",
    "InvariantClassifier",
    "InvariantRegressor",
    "KernelClassifier",
    "KernelDensity",
    "KernelNoveltyDetector",
    "KernelQuantileRegressor",
    "KernelRegressor",
    "LatentDirichletAllocation",
    "LinearlySolvableControl",
    "LossAbove",
    "MeanConstraint",
    "OnlineKernelClassifier",
    "OnlineKernelRegressor",
    "ParticleMirrorDescent",
    "PolicyEvaluator",
    "PolicyIteration",
    "PolicyValue",
    "Posterior",
    "RandomFeatures",
    "RieszError",
    "SparseGaussianProcessRegressor",
    "__version__",
    "load",
    "posterior_variances",
    "simd_path",
]

# scikit-learn takes a second to import, which the command line should not wait for.
_LATER = {
    "Posterior": "_posterior",
    "ParticleMirrorDescent": "_particle_mirror_descent",
    "CollapseWarning": "_posterior",
    "BayesianLogisticRegression": "_bayesian_logistic_regression",
    "CVaR": "_constraints",
    "ChanceConstraint": "_constraints",
    "ConstrainedKernelClassifier": "_constrained",
    "ConstrainedKernelRegressor": "_constrained",
    "CoulombPermutation": "_augmenters",
    "DensityRatioEstimator": "_density_ratio",
    "Environment": "_environment",
    "GaussianNoise": "_augmenters",
    "GaussianProcessRegressor": "_gaussian_process",
    "HittingTime": "_hitting_time",
    "ImageRotation": "_augmenters",
    "ImageShift": "_augmenters",
    "InvariantClassifier": "_invariance",
    "InvariantRegressor": "_invariance",
    "KernelClassifier": "_classifier",
    "KernelDensity": "_kernel_density",
    "KernelNoveltyDetector": "_novelty_detector",
    "KernelQuantileRegressor": "_quantile_regressor",
    "KernelRegressor": "_regressor",
    "LatentDirichletAllocation": "_topics",
    "LinearlySolvableControl": "_linearly_solvable_control",
    "LossAbove": "_constraints",
    "MeanConstraint": "_constraints",
    "OnlineKernelClassifier": "_online",
    "OnlineKernelRegressor": "_online",
    "PolicyEvaluator": "_policy_evaluator",
    "PolicyIteration": "_policy_iteration",
    "PolicyValue": "_policy_evaluator",
    "RandomFeatures": "_features",
    "SBEED": "_sbeed",
    "SparseGaussianProcessRegressor": "_sparse_gaussian_process",
    "load": "_load",
    "posterior_variances": "_posterior_variances",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"riesz.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


register_now_or_later()
