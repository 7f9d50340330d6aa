"""Any estimator from its file."""

import json
import os
from typing import Any

from riesz._bayesian_logistic_regression import BayesianLogisticRegression
from riesz._classifier import KernelClassifier
from riesz._constrained import ConstrainedKernelClassifier, ConstrainedKernelRegressor
from riesz._density_ratio import DensityRatioEstimator
from riesz._errors import InvalidInput
from riesz._gaussian_process import GaussianProcessRegressor
from riesz._hitting_time import HittingTime
from riesz._invariance import InvariantClassifier, InvariantRegressor
from riesz._kernel_density import KernelDensity
from riesz._kernel_machine import loss_name
from riesz._linearly_solvable_control import LinearlySolvableControl
from riesz._novelty_detector import KernelNoveltyDetector
from riesz._online import OnlineKernelClassifier, OnlineKernelRegressor
from riesz._policy_evaluator import PolicyEvaluator
from riesz._policy_iteration import PolicyIteration
from riesz._posterior import Posterior
from riesz._quantile_regressor import KernelQuantileRegressor
from riesz._regressor import KernelRegressor
from riesz._riesz import Evaluation, Invariant, Machine, Online, ParticlePosterior, file_kind
from riesz._sbeed import SBEED
from riesz._sparse_gaussian_process import SparseGaussianProcessRegressor
from riesz._topics import LatentDirichletAllocation

_CLASSES: dict[str | None, Any] = {
    "density_ratio": DensityRatioEstimator,
    "gaussian_process": GaussianProcessRegressor,
    "hitting_time": HittingTime,
    "kernel_density": KernelDensity,
    "novelty": KernelNoveltyDetector,
    "sbeed": SBEED,
    "topics": LatentDirichletAllocation,
    "sparse_gaussian_process": SparseGaussianProcessRegressor,
}
# What was fitted, and the classes with labels and without.
_PAIRS: dict[str | None, tuple[Any, Any, Any]] = {
    "invariance": (Invariant, InvariantClassifier, InvariantRegressor),
    "online": (Online, OnlineKernelClassifier, OnlineKernelRegressor),
}

_TASKS: dict[str | None, Any] = {
    each._task: each
    for each in (HittingTime, LinearlySolvableControl, PolicyEvaluator, PolicyIteration)
}


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator of any class from a model file; nothing in the file is executed.

    Parameters
    ----------
    path : path
        A file written by ``save``, ``riesz fit`` or ``riesz stream``.

    Returns
    -------
    estimator
        Fitted, as it was saved.
    """
    kind = file_kind(path)
    if kind in _CLASSES:
        return _CLASSES[kind].load(path)
    if kind == "posterior":
        return _posterior(path)
    if kind == "policy_evaluation":
        note = json.loads(Evaluation.load(path)[1]) or {}
        return _TASKS.get(note.get("task"), PolicyEvaluator).load(path)
    if kind in _PAIRS:
        stored, labelled, plain = _PAIRS[kind]
        model, text = stored.load(path)
        note = json.loads(text) or {}
        if "constraints" in note.get("parameters", {}):
            labelled, plain = ConstrainedKernelClassifier, ConstrainedKernelRegressor
        # A file of the command line has no note, but says how many classes there are.
        return (labelled if "classes" in note | model.summary() else plain).load(path)
    if kind != "model":
        raise InvalidInput(f"{os.fspath(path)} holds a {kind}, which is no model")
    summary = Machine.load(path)[0].summary()
    if "classification" in summary["task"]:
        return KernelClassifier.load(path)
    quantiles = loss_name(summary) == "quantile"
    return (KernelQuantileRegressor if quantiles else KernelRegressor).load(path)


def _posterior(path: str | os.PathLike[str]) -> Any:
    """Read a posterior, or the estimator around one."""
    note = json.loads(ParticlePosterior.load(path)[1]) or {}
    return (BayesianLogisticRegression if "classes" in note else Posterior).load(path)
