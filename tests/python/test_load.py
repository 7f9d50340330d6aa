"""Any estimator from its file."""

import numpy as np
import pytest

import riesz

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)

FITTED = [
    riesz.KernelClassifier(random_state=0).fit(X, Y > 0),
    riesz.KernelRegressor(random_state=0).fit(X, Y),
    riesz.KernelQuantileRegressor(random_state=0).fit(X, Y),
    riesz.GaussianProcessRegressor(random_state=0).fit(X, Y),
    riesz.KernelNoveltyDetector(random_state=0).fit(X),
    riesz.DensityRatioEstimator(random_state=0).fit(X[:30], X[30:]),
    riesz.InvariantRegressor(random_state=0).fit(X, Y),
    riesz.InvariantClassifier(random_state=0).fit(X, Y > 0),
]


@pytest.mark.parametrize("estimator", FITTED, ids=lambda e: type(e).__name__)
def test_every_class_is_recognised(estimator, tmp_path):
    estimator.save(tmp_path / "model.riesz")
    copy = riesz.load(tmp_path / "model.riesz")
    assert type(copy) is type(estimator)
    assert np.array_equal(copy.predict(X), estimator.predict(X))


@pytest.mark.parametrize("estimator", FITTED, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("other", FITTED, ids=lambda e: type(e).__name__)
def test_the_wrong_class_says_what_the_file_holds(estimator, other, tmp_path):
    if type(estimator) is type(other):
        return
    estimator.save(tmp_path / "model.riesz")
    with pytest.raises(riesz.InvalidInput, match=r"the file holds .*(riesz.load|Kernel.*load)"):
        type(other).load(tmp_path / "model.riesz")


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        riesz.load(tmp_path / "nothing")
    (tmp_path / "text").write_text("not a model")
    with pytest.raises(riesz.InvalidInput, match="not a valid riesz file"):
        riesz.load(tmp_path / "text")
