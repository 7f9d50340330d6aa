"""Random transformations that should not change what is learnt."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from riesz._arguments import count, flag, number, shown
from riesz._errors import InvalidInput

# Rows that are transformed at once where a transformation needs several arrays as large as they.
_TILE = 1024


class Augmenter(ABC):
    """A transformation of rows and the numbers it is drawn with, apart from each other.

    ``augmenter(X, rng)`` transforms every row by a draw of its own. Predictions transform all rows
    by one and the same draw, so that a row is predicted alike whatever rows it comes with.
    """

    def __call__(self, X: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float32]:
        """Return a sample of every row."""
        return self._transform(X, self._draw(X.shape[0], X.shape[1], rng))

    def common(self, X: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float32]:
        """Return a sample of every row, all by the same draw."""
        return self._transform(X, self._draw(1, X.shape[1], rng))

    def fitted(self, X: NDArray[Any]) -> "Augmenter":
        """Return what rows such as these are transformed by; parameters are checked."""
        self._check(X.shape[1])
        return self

    def described(self) -> dict[str, Any]:
        """Return the name and the parameters, as values JSON knows."""
        names = (name for name, kind in NAMED.items() if kind is type(self))
        return {"name": next(names), "parameters": asdict(self)}  # type: ignore[call-overload]

    @abstractmethod
    def _check(self, columns: int) -> None:
        """Refuse parameters out of range, and rows of so many columns."""

    @abstractmethod
    def _draw(self, n: int, columns: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the random numbers of n transformations."""

    @abstractmethod
    def _transform(self, X: NDArray[Any], drawn: NDArray[Any]) -> NDArray[np.float32]:
        """Transform rows, by one draw each or all by one."""


@dataclass(frozen=True)
class GaussianNoise(Augmenter):
    """Normal noise on every column, ``z = x + scale * e``.

    Parameters
    ----------
    scale : float or sequence of float, default=0.1
        Standard deviation of the noise, one for all columns or one for each.
    relative : bool, default=True
        Whether ``scale`` is in units of the standard deviation of each column in the rows that are
        learnt from.
    """

    scale: float | Sequence[float] = 0.1
    relative: bool = True

    def fitted(self, X: NDArray[Any]) -> "GaussianNoise":
        self._check(X.shape[1])
        if not self.relative:
            return self
        scale = np.asarray(self.scale) * np.std(X, axis=0, dtype=np.float64)
        return replace(self, scale=tuple(scale.tolist()), relative=False)

    def _check(self, columns: int) -> None:
        flag("relative", self.relative)
        scales = [self.scale] if np.ndim(self.scale) == 0 else list(self.scale)  # type: ignore[arg-type]
        for scale in scales:
            _not_negative("scale", scale)
        if np.ndim(self.scale) and len(scales) != columns:
            raise InvalidInput(f"scale has {len(scales)} numbers, X has {columns} columns")

    def _draw(self, n: int, columns: int, rng: np.random.Generator) -> NDArray[Any]:
        return rng.standard_normal((n, columns), dtype=np.float32)

    def _transform(self, X: NDArray[Any], drawn: NDArray[Any]) -> NDArray[np.float32]:
        noisy: NDArray[Any] = X + np.asarray(self.scale, dtype=np.float32) * drawn
        return noisy.astype(np.float32)


@dataclass(frozen=True)
class CoulombPermutation(Augmenter):
    """A random order of the atoms of a molecule, given by its Coulomb matrix.

    A row is an m x m matrix, row-major, with zeros for atoms that a molecule does not have. Atoms
    are sorted by the norm of their row plus normal noise, largest first, missing ones last
    (Montavon et al., 2012).

    Parameters
    ----------
    noise : float, default=1.0
        Standard deviation of the noise, in the units of the matrix; 0 sorts by the norms alone.
    """

    noise: float = 1.0

    def _check(self, columns: int) -> None:
        _not_negative("noise", self.noise)
        if math.isqrt(columns) ** 2 != columns:
            raise InvalidInput(f"a Coulomb matrix is square; X has {columns} columns")

    def _draw(self, n: int, columns: int, rng: np.random.Generator) -> NDArray[Any]:
        return rng.standard_normal((n, math.isqrt(columns)), dtype=np.float32)

    def _transform(self, X: NDArray[Any], drawn: NDArray[Any]) -> NDArray[np.float32]:
        atoms = math.isqrt(X.shape[1])
        matrices = X.reshape(-1, atoms, atoms)
        norms = np.sqrt(np.sum(np.square(matrices, dtype=np.float64), axis=2))
        keys = np.where(norms > 0, norms + self.noise * drawn, -np.inf)
        order = np.argsort(-keys, axis=1, kind="stable")
        rows = np.take_along_axis(matrices, order[:, :, None], axis=1)
        both = np.take_along_axis(rows, order[:, None, :], axis=2)
        return both.reshape(X.shape).astype(np.float32)


class _Images(Augmenter):
    """What transformations of images share: a row is an image, row-major."""

    shape: tuple[int, int] | None

    def _size(self, columns: int) -> tuple[int, int]:
        """Return height and width."""
        shape: Any = self.shape
        side = math.isqrt(columns)
        if shape is None and side * side == columns:
            return side, side
        if shape is None:
            raise InvalidInput(f"X has {columns} columns, no square; give the shape of the images")
        if np.ndim(shape) != 1 or len(shape) != 2:
            raise InvalidInput(f"shape = {shown(shape)} should be (height, width)")
        height, width = (count("shape", side, 1) for side in shape)
        if height * width != columns:
            raise InvalidInput(f"shape = {shown(shape)} has not the {columns} columns of X")
        return height, width

    @abstractmethod
    def _places(
        self, y: NDArray[Any], x: NDArray[Any], drawn: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return where the pixels at (y, x), seen from the centre, come from."""

    def _transform(self, X: NDArray[Any], drawn: NDArray[Any]) -> NDArray[np.float32]:
        height, width = self._size(X.shape[1])
        y, x = np.mgrid[:height, :width].astype(np.float32)
        middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
        out = np.empty(X.shape, dtype=np.float32)
        for start in range(0, X.shape[0], _TILE):
            tile = slice(start, start + _TILE)
            own = drawn if len(drawn) == 1 else drawn[tile]
            from_y, from_x = self._places(y - middle_y, x - middle_x, own)
            images = X[tile].reshape(-1, height, width)
            values = _bilinear(images, from_y + middle_y, from_x + middle_x)
            out[tile] = values.reshape(len(images), -1)
        return out


@dataclass(frozen=True)
class ImageShift(_Images):
    """A small shift of an image, by parts of pixels too; what comes from outside is zero.

    Parameters
    ----------
    pixels : float, default=1.0
        Shifts are uniform between minus and plus so many pixels, in both directions.
    shape : (height, width), optional
        Of the images; that of a square unless given.
    """

    pixels: float = 1.0
    shape: tuple[int, int] | None = None

    def _check(self, columns: int) -> None:
        _not_negative("pixels", self.pixels)
        self._size(columns)

    def _draw(self, n: int, columns: int, rng: np.random.Generator) -> NDArray[Any]:
        return rng.uniform(-self.pixels, self.pixels, size=(n, 2, 1, 1)).astype(np.float32)

    def _places(
        self, y: NDArray[Any], x: NDArray[Any], drawn: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        return y - drawn[:, 0], x - drawn[:, 1]


@dataclass(frozen=True)
class ImageRotation(_Images):
    """A small rotation of an image about its centre; what comes from outside is zero.

    Parameters
    ----------
    degrees : float, default=10.0
        Angles are uniform between minus and plus so many degrees.
    shape : (height, width), optional
        Of the images; that of a square unless given.
    """

    degrees: float = 10.0
    shape: tuple[int, int] | None = None

    def _check(self, columns: int) -> None:
        _not_negative("degrees", self.degrees)
        self._size(columns)

    def _draw(self, n: int, columns: int, rng: np.random.Generator) -> NDArray[Any]:
        angles = np.radians(rng.uniform(-self.degrees, self.degrees, size=(n, 1, 1)))
        return angles.astype(np.float32)

    def _places(
        self, y: NDArray[Any], x: NDArray[Any], drawn: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        sine, cosine = np.sin(drawn), np.cos(drawn)
        return cosine * y - sine * x, sine * y + cosine * x


# A function of rows and a generator that returns samples of the rows.
Function: TypeAlias = Callable[[NDArray[Any], np.random.Generator], Any]

NAMED: dict[str, type[Augmenter]] = {
    "gaussian_noise": GaussianNoise,
    "coulomb_permutation": CoulombPermutation,
    "image_shift": ImageShift,
    "image_rotation": ImageRotation,
}


def augmenter_of(augmenter: Any, X: NDArray[Any]) -> Function:
    """Return what transforms rows such as these, from a parameter of an estimator."""
    if isinstance(augmenter, str):
        if augmenter not in NAMED:
            known = ", ".join(NAMED)
            raise InvalidInput(
                f"augmenter = {shown(augmenter)} is unknown; expected one of {known}"
            )
        augmenter = NAMED[augmenter]()
    if isinstance(augmenter, Augmenter):
        try:
            return augmenter.fitted(X)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"augmenter = {shown(augmenter)}: {error}") from None
    if not callable(augmenter):
        raise InvalidInput(
            f"augmenter = {shown(augmenter)} should be a function of X and a generator, an"
            " augmenter of riesz or the name of one"
        )
    return augmenter  # type: ignore[no-any-return]


def restored(described: dict[str, Any]) -> Augmenter:
    """Return the augmenter that was described."""
    parameters = described["parameters"].items()
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in parameters}
    return NAMED[described["name"]](**given)


def sampled(
    augmenter: Function, X: NDArray[np.float32], rng: np.random.Generator, *, common: bool = False
) -> NDArray[np.float32]:
    """Return samples of rows; an augmenter that goes wrong is named."""
    draw = augmenter.common if common and isinstance(augmenter, Augmenter) else augmenter
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.ascontiguousarray(draw(X.copy(), rng), dtype=np.float32)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise InvalidInput(f"augmenter = {shown(augmenter)} failed: {what}") from error
    if found.shape != X.shape:
        raise InvalidInput(
            f"augmenter = {shown(augmenter)} returned an array of shape {found.shape} for X of"
            f" shape {X.shape}; they should be the same"
        )
    refuse_missing(f"what augmenter = {shown(augmenter)} returned", found)
    return found


def refuse_missing(what: str, X: NDArray[Any]) -> None:
    """Refuse NaN and infinities by row and column."""
    finite = np.isfinite(X)
    if not finite.all():
        row, column = divmod(int(np.argmin(finite)), X.shape[1])
        value = "NaN" if np.isnan(X[row, column]) else X[row, column]
        raise InvalidInput(f"{what} contains {value} at row {row}, column {column}")


def _not_negative(name: str, value: Any) -> None:
    if not 0 <= number(name, value) < np.inf:
        raise InvalidInput(f"{name} = {shown(value)} is outside [0, inf)")


def _bilinear(images: NDArray[Any], y: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
    """Return images at real places by bilinear interpolation, zero outside."""
    n, height, width = images.shape
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    y, x = np.clip(y + 1, 0, height + 1), np.clip(x + 1, 0, width + 1)
    top, left = np.minimum(y.astype(np.intp), height), np.minimum(x.astype(np.intp), width)
    down, right = y - top, x - left
    each = np.arange(n)[:, None, None]
    upper = (1 - right) * padded[each, top, left] + right * padded[each, top, left + 1]
    lower = (1 - right) * padded[each, top + 1, left] + right * padded[each, top + 1, left + 1]
    values: NDArray[Any] = (1 - down) * upper + down * lower
    return values
