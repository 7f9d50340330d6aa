"""scikit-learn's own checks, with the default constructor and with other losses."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from riesz import (
    BayesianLogisticRegression,
    ConstrainedKernelClassifier,
    ConstrainedKernelRegressor,
    CVaR,
    GaussianProcessRegressor,
    InvariantClassifier,
    InvariantRegressor,
    KernelClassifier,
    KernelDensity,
    KernelNoveltyDetector,
    KernelQuantileRegressor,
    KernelRegressor,
    LatentDirichletAllocation,
    OnlineKernelClassifier,
    OnlineKernelRegressor,
    RandomFeatures,
    SparseGaussianProcessRegressor,
)


def expected_failures(estimator):
    """Return what a check takes for granted and an estimator does not promise."""
    if isinstance(estimator, KernelQuantileRegressor) and estimator.quantiles != 0.5:
        checks = "regressors_train", "estimator_sparse_matrix", "estimator_sparse_array"
        reason = "predictions have a column for each quantile"
        return {f"check_{name}": reason for name in checks}
    if isinstance(estimator, SparseGaussianProcessRegressor):
        checks = (
            "sample_weight_equivalence_on_dense_data",
            "sample_weight_equivalence_on_sparse_data",
        )
        reason = "hyper-parameters are learnt from rows, whatever their weights"
        return {f"check_{name}": reason for name in checks}
    if isinstance(estimator, OnlineKernelClassifier | OnlineKernelRegressor):
        checks = (
            "sample_weight_equivalence_on_dense_data",
            "sample_weight_equivalence_on_sparse_data",
        )
        reason = "a row of weight two is one step twice as long, not two steps"
        return {f"check_{name}": reason for name in checks}
    if getattr(estimator, "loss", None) == "poisson":
        return {"check_regressor_multioutput": "its targets are negative, whatever the tags say"}
    return {}


# A hundred particles for fifteen parameters may well be too few, which is not what is checked here.
@pytest.mark.filterwarnings("ignore::riesz._posterior.CollapseWarning")
@parametrize_with_checks(
    [
        KernelClassifier(),
        KernelClassifier(loss="crammer_singer"),
        KernelRegressor(),
        KernelRegressor(loss="huber"),
        KernelRegressor(loss="epsilon_insensitive"),
        KernelRegressor(loss="absolute"),
        KernelRegressor(loss="poisson"),
        KernelQuantileRegressor(),
        KernelQuantileRegressor(quantiles=0.5),
        RandomFeatures(),
        KernelDensity(),
        KernelNoveltyDetector(),
        GaussianProcessRegressor(),
        LatentDirichletAllocation(),
        BayesianLogisticRegression(n_particles=100),
        SparseGaussianProcessRegressor(),
        OnlineKernelClassifier(),
        OnlineKernelRegressor(),
        ConstrainedKernelClassifier(constraints=[CVaR(0.9, 5.0)]),
        ConstrainedKernelRegressor(constraints=[CVaR(0.9, 5.0)]),
        InvariantClassifier(),
        InvariantClassifier(loss="logistic"),
        InvariantRegressor(),
    ],
    expected_failed_checks=expected_failures,
)
def test_estimator(estimator, check):
    check(estimator)
