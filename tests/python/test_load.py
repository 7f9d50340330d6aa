"""Any estimator from its file."""

import subprocess
import sys

import numpy as np
import pandas as pd
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


def command(*arguments, folder, text=None):
    line = [sys.executable, "-m", "riesz", *arguments]
    done = subprocess.run(line, cwd=folder, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("classes", [True, False])
def test_an_online_model_moves_between_python_and_the_command_line(tmp_path, classes):
    targets = np.where(Y > 0, "up", "down") if classes else Y
    table = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    table.assign(y=targets).to_csv(tmp_path / "rows.csv", index=False)
    rows = (tmp_path / "rows.csv").read_text()
    command("stream", "--model", "cli", folder=tmp_path, text=rows)
    model = riesz.load(tmp_path / "cli")
    kind = riesz.OnlineKernelClassifier if classes else riesz.OnlineKernelRegressor
    assert type(model) is kind
    assert model.n_seen_ == len(X)
    if classes:
        assert set(model.classes_) == {"up", "down"}
    model.partial_fit(table, targets).save(tmp_path / "python")
    for name in ("cli", "python"):
        said = command("predict", name, "rows.csv", folder=tmp_path).split()[1:]
        found = riesz.load(tmp_path / name).predict(table)
        if classes:
            assert said == found.tolist()
        else:
            np.testing.assert_allclose(np.array(said, float), found, rtol=1e-4, atol=1e-5)
        assert "rows" in command("info", name, folder=tmp_path)


def test_the_command_line_reads_a_constrained_model(tmp_path):
    labels = np.where(Y > 0, "up", "down")
    constraints = [riesz.CVaR(0.9, 2.0)]
    model = riesz.ConstrainedKernelClassifier(constraints=constraints, random_state=0)
    model.fit(X, labels).save(tmp_path / "model")
    info = command("info", "model", folder=tmp_path)
    assert "2 classes (down, up)" in info
    assert "constraint" in info
    pd.DataFrame(X).add_prefix("c").to_csv(tmp_path / "rows.csv", index=False)
    said = command("predict", "model", "rows.csv", folder=tmp_path).split()[1:]
    assert said == model.predict(X).tolist()
    assert riesz.load(tmp_path / "model").multipliers_.tolist() == model.multipliers_.tolist()
