"""scikit-learn's own checks, with the default constructor."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from riesz import KernelClassifier, KernelRegressor, RandomFeatures


@parametrize_with_checks([KernelClassifier(), KernelRegressor(), RandomFeatures()])
def test_estimator(estimator, check):
    check(estimator)
