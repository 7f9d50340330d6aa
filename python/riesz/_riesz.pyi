import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

def main(argv: list[str]) -> int: ...
def simd_path() -> str: ...
def fit_features(
    x: NDArray[np.float32] | NDArray[np.float64],
    *,
    kernel: str,
    bandwidth: str | float,
    n_components: int,
    seed: int,
    n_jobs: int | None = None,
) -> tuple[float, list[float]]: ...
def transform_features(
    x: NDArray[np.float32] | NDArray[np.float64],
    *,
    kernel: str,
    bandwidth: float,
    shift: list[float],
    n_components: int,
    seed: int,
    n_jobs: int | None = None,
) -> NDArray[np.float32]: ...

class Machine:
    @staticmethod
    def fit(
        x: NDArray[np.float32] | NDArray[np.float64],
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> Machine: ...
    @staticmethod
    def begin(
        x: NDArray[np.float32] | NDArray[np.float64],
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> Machine: ...
    def partial_fit(
        self,
        x: NDArray[np.float32] | NDArray[np.float64],
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> None: ...
    def decision(
        self, x: NDArray[np.float32] | NDArray[np.float64], *, n_jobs: int | None = None
    ) -> NDArray[np.float32]: ...
    def predict(
        self, x: NDArray[np.float32] | NDArray[np.float64], *, n_jobs: int | None = None
    ) -> NDArray[np.float32]: ...
    def classes(
        self, x: NDArray[np.float32] | NDArray[np.float64], *, n_jobs: int | None = None
    ) -> NDArray[np.uint32]: ...
    def probabilities(
        self, x: NDArray[np.float32] | NDArray[np.float64], *, n_jobs: int | None = None
    ) -> NDArray[np.float32]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Machine: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Machine, str]: ...
    @property
    def class_names(self) -> list[str]: ...
    @class_names.setter
    def class_names(self, names: list[str]) -> None: ...

class Process:
    @staticmethod
    def fit(
        x: NDArray[np.float32] | NDArray[np.float64],
        y: NDArray[np.float64],
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
    ) -> Process: ...
    def extend(
        self,
        x: NDArray[np.float32] | NDArray[np.float64],
        y: NDArray[np.float64],
        *,
        n_jobs: int | None = None,
    ) -> None: ...
    def mean(
        self, x: NDArray[np.float32] | NDArray[np.float64], *, n_jobs: int | None = None
    ) -> NDArray[np.float64]: ...
    def marginals(
        self, x: NDArray[np.float32] | NDArray[np.float64], *, n_jobs: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def joint(
        self, x: NDArray[np.float32] | NDArray[np.float64], *, n_jobs: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def sample(
        self,
        x: NDArray[np.float32] | NDArray[np.float64],
        count: int,
        seed: int,
        *,
        noisy: bool,
        n_jobs: int | None = None,
    ) -> NDArray[np.float64]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Process: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Process, str]: ...

class Ratio:
    @staticmethod
    def fit(
        numerator: NDArray[np.float32] | NDArray[np.float64],
        denominator: NDArray[np.float32] | NDArray[np.float64],
        numerator_weights: NDArray[np.float32] | None = None,
        denominator_weights: NDArray[np.float32] | None = None,
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> Ratio: ...
    def log_ratio(
        self, x: NDArray[np.float32] | NDArray[np.float64], *, n_jobs: int | None = None
    ) -> NDArray[np.float32]: ...
    def ratio(
        self, x: NDArray[np.float32] | NDArray[np.float64], *, n_jobs: int | None = None
    ) -> NDArray[np.float32]: ...
    def divergences(
        self,
        numerator: NDArray[np.float32] | NDArray[np.float64],
        denominator: NDArray[np.float32] | NDArray[np.float64],
        *,
        n_jobs: int | None = None,
    ) -> tuple[float, float]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Ratio: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Ratio, str]: ...
