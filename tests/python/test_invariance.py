"""Learning with invariance: augmenters, what is learnt, and what goes wrong."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import riesz
from riesz import (
    CoulombPermutation,
    GaussianNoise,
    ImageRotation,
    ImageShift,
    InvalidInput,
    InvariantClassifier,
    InvariantRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
SHIPPED = [GaussianNoise(), CoulombPermutation(), ImageShift(), ImageRotation()]


def target(x):
    """Return the function of the text."""
    waves = np.sin(3.53 * np.pi * x) + np.cos(7.7 * np.pi * x)
    return 3 * x**2 + waves * np.exp(-1.6 * np.pi * np.abs(x))


def jitter(X, rng):
    return X + 0.05 * rng.normal(size=X.shape)


def test_the_mean_over_samples_is_the_target():
    """A function of noisy inputs is not its values there: plain regression on them has 0.07."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-0.5, 0.5, size=(4000, 1))
    y = target(x[:, 0]) + 0.1 * rng.normal(size=4000)
    noise = GaussianNoise(0.05, relative=False)
    model = InvariantRegressor(
        augmenter=noise, n_test_samples=400, n_features=64, random_state=0
    ).fit(x, y)
    grid = np.linspace(-0.45, 0.45, 91)[:, None]
    error = np.mean((model.predict(grid) - target(grid[:, 0])) ** 2)
    assert error < 0.005
    f = model._model.evaluate(grid.astype(np.float32))[:, 0]
    assert np.mean((f - target(grid[:, 0])) ** 2) > 10 * error


@pytest.mark.parametrize("augmenter", [*SHIPPED, jitter, "image_shift"], ids=str)
def test_the_seed_decides(augmenter):
    model = InvariantRegressor(augmenter=augmenter, random_state=3)
    first, second = clone(model).fit(X, Y), clone(model).fit(X, Y)
    assert np.array_equal(first.predict(X), second.predict(X))
    other = model.set_params(random_state=4).fit(X, Y)
    assert not np.array_equal(first.predict(X), other.predict(X))


@pytest.mark.parametrize("augmenter", SHIPPED, ids=str)
def test_rows_are_predicted_alike_in_any_company(augmenter):
    model = InvariantRegressor(augmenter=augmenter, random_state=0).fit(X, Y)
    alone = np.concatenate([model.predict(X[i : i + 1]) for i in range(10)])
    assert np.allclose(model.predict(X)[:10], alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("augmenter", SHIPPED, ids=str)
@pytest.mark.parametrize("cls", [InvariantRegressor, InvariantClassifier])
def test_files_and_pickles(cls, augmenter, tmp_path):
    model = cls(augmenter=augmenter, random_state=0).fit(
        X, Y if cls is InvariantRegressor else Y > 0
    )
    model.save(tmp_path / "model")
    for copy in (riesz.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert type(copy) is cls
        assert copy.augmenter == augmenter
        assert copy.augmenter_ == model.augmenter_
        assert np.array_equal(copy.predict(X), model.predict(X))
    copy.set_params(random_state=0).fit(X, Y if cls is InvariantRegressor else Y > 0)


def test_functions_have_no_file_but_a_pickle(tmp_path):
    model = InvariantRegressor(augmenter=jitter, random_state=0).fit(X, Y)
    with pytest.raises(InvalidInput, match=r"cannot hold augmenter = <function jitter.*pickle"):
        model.save(tmp_path / "model")
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(X), model.predict(X))


def fails(X, rng):
    raise RuntimeError("no such molecule")


@pytest.mark.parametrize(
    ("augmenter", "message"),
    [
        (
            lambda X, rng: X[:, :2],
            r"augmenter = <function .* shape \(60, 2\) for X of shape \(60, 4\)",
        ),
        (lambda X, rng: X * np.nan, r"augmenter = <function .* contains NaN at row 0, column 0"),
        (lambda X, rng: None, "augmenter = <function .* failed|contains NaN|shape"),
        (fails, "augmenter = <function fails .* failed: RuntimeError: no such molecule"),
        (lambda X: X, "augmenter = <function .* failed: TypeError"),
        ("rotation", "augmenter = 'rotation' is unknown; expected one of gaussian_noise"),
        (3, "augmenter = 3 should be"),
        (GaussianNoise(-1.0), r"augmenter = .*scale = -1.0 is outside \[0, inf\)"),
        (GaussianNoise((1.0, 2.0)), "augmenter = .*scale has 2 numbers, X has 4 columns"),
        (CoulombPermutation(np.nan), "augmenter = .*noise = nan is outside"),
        (
            ImageShift(1.0, shape=(3, 2)),
            r"augmenter = .*shape = \(3, 2\) has not the 4 columns of X",
        ),
        (ImageRotation("far"), "augmenter = .*degrees = 'far' should be a number"),
    ],
)
def test_an_augmenter_that_goes_wrong_is_named(augmenter, message):
    with pytest.raises(InvalidInput, match=message):
        InvariantRegressor(augmenter=augmenter, random_state=0).fit(X, Y)


def test_matrices_and_images_are_square_unless_told():
    for augmenter, message in ((CoulombPermutation(), "square"), (ImageShift(), "give the shape")):
        with pytest.raises(InvalidInput, match=message):
            InvariantRegressor(augmenter=augmenter).fit(X[:, :3], Y)
    InvariantRegressor(augmenter=ImageShift(shape=(1, 3))).fit(X[:, :3], Y)


def test_other_arguments_are_named():
    for name, value in {"n_samples": 0, "n_test_samples": -1, "n_features": 0, "ridge": -1}.items():
        with pytest.raises(InvalidInput, match=rf"\b{name}\b"):
            InvariantRegressor(**{name: value}).fit(X, Y)
    with pytest.raises(MemoryError, match="n_samples"):
        InvariantRegressor(n_samples=2**40).fit(X, Y)
    with pytest.raises(InvalidInput, match="y has 59 rows, expected 60"):
        InvariantRegressor().fit(X, Y[:-1])
    with pytest.raises(InvalidInput, match="X contains NaN at row 7, column 2"):
        InvariantRegressor().fit(np.where(np.arange(240).reshape(60, 4) == 30, np.nan, X), Y)
    with pytest.raises(InvalidInput, match="only one class"):
        InvariantClassifier().fit(X, np.ones(60))


def test_noise_is_relative_to_columns():
    rows = (X * [1, 10, 100, 0]).astype(np.float32)
    scale = np.array(GaussianNoise(0.5).fitted(rows).scale)
    assert np.allclose(scale, 0.5 * rows.std(axis=0), rtol=1e-5)
    many = np.repeat(rows[:1], 20_000, axis=0)
    noisy = GaussianNoise(tuple(scale), relative=False)(many, np.random.default_rng(0))
    assert np.allclose((noisy - many).std(axis=0), scale, rtol=0.05)


def test_permuted_matrices_are_those_of_the_same_molecule():
    atoms = 6
    charges = np.array([[6.0, 1, 1, 8, 7, 0]])
    matrix = charges[:, :, None] * charges[:, None, :]
    rows = np.repeat(matrix.reshape(1, -1), 50, axis=0)
    permuted = CoulombPermutation(30.0)(rows, RNG).reshape(-1, atoms, atoms)
    assert np.allclose(np.sort(permuted.reshape(50, -1)), np.sort(rows))
    assert np.allclose(permuted, permuted.transpose(0, 2, 1))
    assert (permuted[:, -1] == 0).all()
    assert len(np.unique(permuted[:, 0, 0])) > 1
    ordered = CoulombPermutation(0.0)(rows, RNG).reshape(-1, atoms, atoms)
    assert np.allclose(ordered[:, np.arange(6), np.arange(6)], [[64, 49, 36, 1, 1, 0]] * 50)


def test_images_move_by_what_was_drawn():
    image = np.zeros((1, 5, 5), dtype=np.float32)
    image[0, 2, 3] = 1.0
    rows = image.reshape(1, -1)
    half = np.array([0.5, 1.0], dtype=np.float32).reshape(1, 2, 1, 1)
    shifted = ImageShift()._transform(rows, half).reshape(5, 5)
    assert np.allclose(shifted[2:4, 4], 0.5)
    quarter = np.full((1, 1, 1), np.pi / 2, dtype=np.float32)
    turned = ImageRotation()._transform(rows, quarter).reshape(5, 5)
    assert np.isclose(turned.sum(), 1.0, atol=1e-5)
    assert np.isclose(max(turned[1, 2], turned[3, 2]), 1.0, atol=1e-5)
    assert np.allclose(ImageShift(0.0)(rows, RNG), rows)
    assert np.allclose(ImageRotation(0.0)(rows, RNG), rows, atol=1e-6)
    many = RNG.uniform(size=(2100, 25)).astype(np.float32)
    drawn = ImageShift(2.0)._draw(2100, 25, RNG)
    whole = ImageShift(2.0)._transform(many, drawn)
    assert np.allclose(whole[2000:], ImageShift(2.0)._transform(many[2000:], drawn[2000:]))


def test_shifted_digits_are_recognised():
    """Learnt with shifts, digits that were shifted are told apart better than without."""
    digits, labels = load_digits(return_X_y=True)
    moved = ImageShift(1.0)(digits[1000:], np.random.default_rng(1))
    settings = {"n_features": 256, "random_state": 0, "n_samples": 5, "bandwidth": "median"}
    shifts = InvariantClassifier(augmenter=ImageShift(1.0), **settings)
    noise = InvariantClassifier(augmenter=GaussianNoise(0.01), **settings)
    with_shifts = shifts.fit(digits[:1000], labels[:1000]).score(moved, labels[1000:])
    without = noise.fit(digits[:1000], labels[:1000]).score(moved, labels[1000:])
    assert with_shifts > without + 0.2


def test_probabilities_are_shares():
    labels = np.array(["a", "b", "c"])[np.arange(60) % 3]
    model = InvariantClassifier(random_state=0).fit(X, labels)
    shares = model.predict_proba(5 * X)
    assert shares.min() >= 0
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.array_equal(model.classes_[shares.argmax(axis=1)], model.predict(5 * X))
    two = InvariantClassifier(random_state=0).fit(X, Y > 0)
    assert np.array_equal(two.decision_function(X) > 0, two.predict(X))


def test_the_logistic_loss_has_the_probabilities():
    """Labels with known probabilities, of inputs known up to noise."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, size=(4000, 1))
    p = 1 / (1 + np.exp(-4 * np.sin(3 * x[:, 0])))
    labels = np.where(rng.random(4000) < p, "yes", "no")
    model = InvariantClassifier(
        loss="logistic",
        augmenter=GaussianNoise(0.05, relative=False),
        n_features=64,
        n_passes=20,
        random_state=0,
    ).fit(x, labels)
    grid = np.linspace(-0.9, 0.9, 61)[:, None]
    found = model.predict_proba(grid)
    assert np.allclose(found.sum(axis=1), 1)
    error = found[:, 1] - 1 / (1 + np.exp(-4 * np.sin(3 * grid[:, 0])))
    assert np.sqrt(np.mean(error**2)) < 0.05
    assert np.array_equal(model.classes_[found.argmax(axis=1)], model.predict(grid))
    assert np.array_equal(model.decision_function(grid) > 0, found[:, 1] > 0.5)


def test_digits_by_the_logistic_loss(tmp_path):
    digits, labels = load_digits(return_X_y=True)
    model = InvariantClassifier(
        loss="logistic", augmenter=ImageShift(0.5), n_features=256, n_samples=2, random_state=0
    ).fit(digits[:1000], labels[:1000])
    assert model.score(digits[1000:], labels[1000:]) > 0.9
    model.save(tmp_path / "digits.riesz")
    copy = riesz.load(tmp_path / "digits.riesz")
    assert np.array_equal(copy.predict_proba(digits[:9]), model.predict_proba(digits[:9]))
    with pytest.raises(InvalidInput, match='loss = "hinge" is unknown; expected one of square'):
        InvariantClassifier(loss="hinge").fit(X, Y > 0)
    with pytest.raises(InvalidInput, match="n_passes = 0 is outside"):
        InvariantClassifier(n_passes=0).fit(X, Y > 0)


def test_several_targets():
    model = InvariantRegressor(bandwidth=2.0, ridge=1e-6, dual_ridge=1e-6, random_state=0)
    alone = clone(model).fit(X, Y).predict(X)
    both = clone(model).fit(X, np.stack([Y, 7 - 3 * Y], axis=1)).predict(X)
    assert both.shape == (60, 2)
    assert np.allclose(both, np.stack([alone, 7 - 3 * alone], axis=1), atol=1e-3)


def test_progress_is_told(capsys):
    InvariantRegressor(verbose=2, random_state=0).fit(X, Y)
    told = capsys.readouterr().err
    assert "choosing the bandwidth" in told
    assert "solving" in told
