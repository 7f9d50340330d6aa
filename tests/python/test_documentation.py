"""What users read: every parameter, in a signature and in words."""

import copy
import doctest
import inspect
import re

import pytest
from sklearn.base import clone

import riesz
from riesz import (
    ConstrainedKernelClassifier,
    ConstrainedKernelRegressor,
    DensityRatioEstimator,
    GaussianProcessRegressor,
    HittingTime,
    InvariantClassifier,
    InvariantRegressor,
    KernelClassifier,
    KernelNoveltyDetector,
    KernelQuantileRegressor,
    KernelRegressor,
    LatentDirichletAllocation,
    LinearlySolvableControl,
    OnlineKernelClassifier,
    OnlineKernelRegressor,
    PolicyEvaluator,
    PolicyIteration,
    RandomFeatures,
)

ESTIMATORS = [
    ConstrainedKernelClassifier,
    ConstrainedKernelRegressor,
    DensityRatioEstimator,
    GaussianProcessRegressor,
    HittingTime,
    InvariantClassifier,
    InvariantRegressor,
    KernelClassifier,
    KernelNoveltyDetector,
    KernelQuantileRegressor,
    KernelRegressor,
    LatentDirichletAllocation,
    LinearlySolvableControl,
    OnlineKernelClassifier,
    OnlineKernelRegressor,
    PolicyEvaluator,
    PolicyIteration,
    RandomFeatures,
]
SHARED = 23
# scikit-learn's class takes the number of topics by position too.
POSITIONAL = [
    (LatentDirichletAllocation, "n_components"),
    (PolicyEvaluator, "method"),
    (PolicyIteration, "method"),
]


def section(cls, title):
    """Return the names that a section of a docstring describes."""
    text = re.split(rf"^{title}\n-+$", inspect.getdoc(cls), flags=re.MULTILINE)[1]
    text = re.split(r"^\w+\n-+$", text, flags=re.MULTILINE)[0]
    return re.findall(r"^(\w+) : .+\n    \S", text, flags=re.MULTILINE)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_parameter_is_in_the_signature_and_described_once(cls):
    parameters = inspect.signature(cls).parameters
    described = section(cls, "Parameters")
    assert sorted(described) == sorted(parameters) == cls._get_param_names()
    for parameter in parameters.values():
        if (cls, parameter.name) not in POSITIONAL:
            assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default is not parameter.empty
        assert parameter.annotation is not parameter.empty
    assert "$" not in cls.__doc__


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_default_is_the_one_described(cls):
    for name, parameter in inspect.signature(cls).parameters.items():
        line = re.search(rf"^{name} : (.+)$", inspect.getdoc(cls), flags=re.MULTILINE)[1]
        if stated := re.search(r"default=(.+)$", line):
            assert eval(stated[1]) == parameter.default, name
        else:
            assert parameter.default is None, name


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_fitted_attribute_is_described(cls):
    X = [[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [3.0, 1.0], [4.0, 2.0], [5.0, 1.0]]
    ends = [0, 1, 0, 1, 0, 1]
    data = {
        DensityRatioEstimator: (X, X[::-1]),
        HittingTime: (X, X[::-1], ends),
        LinearlySolvableControl: (X, ends, X[::-1], ends),
        PolicyEvaluator: (X, None, ends, X[::-1], ends),
        PolicyIteration: (X, ends, ends, X[::-1], ends),
    }
    estimator = cls(random_state=0, n_jobs=1).fit(*data.get(cls, (X, ends)))
    fitted = {name for name in vars(estimator) if name.endswith("_") and name[0] != "_"}
    missing = fitted - {"n_features_in_", *section(cls, "Attributes")}
    assert not missing


@pytest.mark.parametrize("cls", [KernelClassifier, KernelQuantileRegressor, KernelRegressor])
def test_the_shared_parameters_are_the_same_everywhere(cls):
    shared = list(inspect.signature(KernelRegressor).parameters.values())[:SHARED]
    assert [parameter.name for parameter in shared][-1] == "verbose"
    assert list(inspect.signature(cls).parameters.values())[:SHARED] == shared


@pytest.mark.parametrize("cls", [KernelClassifier, KernelQuantileRegressor, KernelRegressor])
def test_estimators_compare_and_print_as_estimators_do(cls):
    estimator = cls(max_blocks=3)
    assert estimator != clone(estimator)
    assert len({estimator, copy.copy(estimator)}) == 2
    assert repr(estimator) == f"{cls.__name__}(max_blocks=3)"
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_block'"):
        cls(max_block=3)
    with pytest.raises(TypeError, match="positional"):
        cls("gaussian")


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_examples_say_what_they_say(cls):
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for example in finder.find(cls, cls.__name__, globs={"riesz": riesz}):
        assert runner.run(example).failed == 0
