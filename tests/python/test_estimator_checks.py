"""scikit-learn's own checks, with the default constructor."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from riesz import GaussianProcessRegressor, KernelClassifier, KernelRegressor


@parametrize_with_checks([KernelClassifier(), KernelRegressor(), GaussianProcessRegressor()])
def test_estimator(estimator, check):
    check(estimator)
