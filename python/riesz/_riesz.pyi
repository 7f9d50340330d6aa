import os
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

class _Csr(Protocol):
    """A sparse matrix by rows, as SciPy has it."""

    format: str
    shape: tuple[int, int]
    indptr: NDArray[np.int32] | NDArray[np.int64]
    indices: NDArray[np.int32] | NDArray[np.int64]
    data: NDArray[np.float32] | NDArray[np.float64]

class FileRows:
    @staticmethod
    def collect(
        paths: list[str | os.PathLike[str]],
        target: int | str | None = None,
        *,
        memory: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
    ) -> FileRows: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def codings(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def path(self) -> str | None: ...
    def numbers(self) -> NDArray[np.float32]: ...
    def labels(self) -> tuple[list[str], NDArray[np.uint32]]: ...

class FileParts:
    @staticmethod
    def open(
        paths: list[str | os.PathLike[str]],
        columns: int,
        names: list[str],
        unread: str | None = None,
        codings: str = "[]",
    ) -> FileParts: ...
    def read(self) -> NDArray[np.float32] | None: ...

_Table: TypeAlias = NDArray[np.float32] | NDArray[np.float64] | _Csr | FileRows
_Kernel: TypeAlias = str | Callable[[Any, int, int], Any]

__version__: str

def main(argv: list[str]) -> int: ...
def simd_path() -> str: ...
def loss_names(classification: bool) -> list[str]: ...
def file_kind(path: str | os.PathLike[str]) -> str | None: ...
def classes_in_files(
    paths: list[str | os.PathLike[str]], target: int | str | None = None
) -> list[str]: ...
def stream_files(
    paths: list[str | os.PathLike[str]],
    target: int | str | None = None,
    *,
    settings: dict[str, Any],
    classes: list[str],
    memory: int | None = None,
    n_jobs: int | None = None,
    observer: Callable[[str, int, int, float, float | None, float | None, float], object]
    | None = None,
) -> tuple[Machine, tuple[list[str], int, str, str]]: ...
def fit_features(
    x: _Table,
    *,
    kernel: _Kernel,
    bandwidth: str | float,
    n_components: int,
    seed: int,
    n_jobs: int | None = None,
) -> tuple[float, list[float]]: ...
def transform_features(
    x: _Table,
    *,
    kernel: _Kernel,
    bandwidth: float,
    shift: list[float],
    n_components: int,
    seed: int,
    n_jobs: int | None = None,
) -> NDArray[np.float32]: ...
def variances_by_ridge(
    x: _Table,
    test: _Table,
    *,
    kernel: _Kernel,
    bandwidth: float,
    noise: float,
    n_blocks: int,
    block_size: int,
    seed: int,
    n_jobs: int | None = None,
) -> NDArray[np.float64]: ...
def variances_by_operator(
    x: _Table,
    test: _Table,
    *,
    kernel: _Kernel,
    bandwidth: float,
    noise: float,
    n_blocks: int,
    block_size: int,
    batch_size: int,
    step: float,
    delay: float,
    seed: int,
    n_jobs: int | None = None,
) -> NDArray[np.float64]: ...

class Agent:
    def __init__(
        self,
        form: str,
        columns: int,
        actions: tuple[list[float], list[float]] | tuple[int, int],
        seed: int,
        changes: str,
    ) -> None: ...
    def act(
        self, observations: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
    def predict(
        self, observations: NDArray[np.float32], draw: int | None = None
    ) -> NDArray[np.float64]: ...
    def values(self, observations: NDArray[np.float32]) -> NDArray[np.float64]: ...
    def observe(
        self,
        environments: list[int],
        observations: NDArray[np.float32],
        actions: NDArray[np.float64],
        log_probabilities: NDArray[np.float64] | None,
        rewards: NDArray[np.float64],
        next_observations: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> None: ...
    def drawn(self, taken: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def break_off(self) -> None: ...
    def learn(self, progress: float, *, n_jobs: int | None = None) -> list[dict[str, float]]: ...
    def without_replay(self) -> Agent: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Agent: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Agent, str]: ...

class Chain:
    @staticmethod
    def fit(
        states: NDArray[np.uint32],
        next_states: NDArray[np.uint32],
        *,
        n_jobs: int | None = None,
    ) -> Chain: ...
    def expected(
        self, states: NDArray[np.uint32], targets: NDArray[np.uint32]
    ) -> NDArray[np.float64]: ...
    def stationary(self) -> NDArray[np.float64]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Chain: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Chain, str]: ...

class Density:
    @staticmethod
    def fit(
        x: _Table,
        weights: NDArray[np.float64] | None = None,
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
    ) -> Density: ...
    def log_density(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float64]: ...
    def sample(self, count: int, seed: int) -> NDArray[np.float64]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Density: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Density, str]: ...

class Detector:
    @staticmethod
    def fit(
        x: _Table,
        weights: NDArray[np.float32] | None = None,
        *,
        settings: dict[str, Any],
        stream: bool = False,
        n_jobs: int | None = None,
    ) -> Detector: ...
    def partial_fit(
        self,
        x: _Table,
        weights: NDArray[np.float32] | None = None,
        *,
        n_jobs: int | None = None,
    ) -> None: ...
    def scores(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float32]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Detector: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Detector, str]: ...

class Evaluation:
    @staticmethod
    def fit(
        states: _Table,
        rewards: NDArray[np.float32],
        next_states: _Table,
        terminals: NDArray[np.bool_],
        *,
        settings: dict[str, Any],
        actions: _Table | None = None,
        truncations: NDArray[np.bool_] | None = None,
        discounts: NDArray[np.float32] | None = None,
        weights: NDArray[np.float32] | None = None,
        next_actions: _Table | None = None,
        next_action_probabilities: NDArray[np.float32] | None = None,
        n_jobs: int | None = None,
        observer: Callable[..., None] | None = None,
    ) -> Evaluation: ...
    @staticmethod
    def begin(
        states: _Table,
        rewards: NDArray[np.float32],
        next_states: _Table,
        terminals: NDArray[np.bool_],
        *,
        settings: dict[str, Any],
        actions: _Table | None = None,
        truncations: NDArray[np.bool_] | None = None,
        discounts: NDArray[np.float32] | None = None,
        weights: NDArray[np.float32] | None = None,
        next_actions: _Table | None = None,
        next_action_probabilities: NDArray[np.float32] | None = None,
        n_jobs: int | None = None,
        observer: Callable[..., None] | None = None,
    ) -> Evaluation: ...
    @staticmethod
    def improve(
        states: _Table,
        rewards: NDArray[np.float32],
        next_states: _Table,
        terminals: NDArray[np.bool_],
        *,
        settings: dict[str, Any],
        actions: _Table,
        n_actions: int,
        exploration: float,
        rounds: int,
        tolerance: float,
        truncations: NDArray[np.bool_] | None = None,
        n_jobs: int | None = None,
        observer: Callable[..., None] | None = None,
    ) -> Evaluation: ...
    def action_values(
        self, states: _Table, count: int, *, n_jobs: int | None = None
    ) -> NDArray[np.float64]: ...
    def improved_policy(
        self, states: _Table, *, n_jobs: int | None = None
    ) -> NDArray[np.float32]: ...
    def best_actions(self, states: _Table, *, n_jobs: int | None = None) -> NDArray[np.int64]: ...
    def partial_fit(
        self,
        states: _Table,
        rewards: NDArray[np.float32],
        next_states: _Table,
        terminals: NDArray[np.bool_],
        *,
        actions: _Table | None = None,
        truncations: NDArray[np.bool_] | None = None,
        discounts: NDArray[np.float32] | None = None,
        weights: NDArray[np.float32] | None = None,
        next_actions: _Table | None = None,
        next_action_probabilities: NDArray[np.float32] | None = None,
        n_jobs: int | None = None,
        observer: Callable[..., None] | None = None,
    ) -> None: ...
    def value(
        self,
        states: _Table,
        actions: _Table | None = None,
        probabilities: NDArray[np.float32] | None = None,
        *,
        n_jobs: int | None = None,
    ) -> NDArray[np.float64]: ...
    def standard_errors(
        self,
        states: _Table,
        actions: _Table | None = None,
        probabilities: NDArray[np.float32] | None = None,
        *,
        n_jobs: int | None = None,
    ) -> NDArray[np.float64]: ...
    def estimate(
        self,
        states: _Table | None = None,
        actions: _Table | None = None,
        probabilities: NDArray[np.float32] | None = None,
        *,
        confidence: float,
        n_jobs: int | None = None,
    ) -> tuple[float, float, float]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Evaluation: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Evaluation, str]: ...

class Machine:
    @staticmethod
    def fit(
        x: _Table,
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        settings: dict[str, Any],
        streaming: bool = False,
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> Machine: ...
    def partial_fit(
        self,
        x: _Table,
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> None: ...
    def decision(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float32]: ...
    def predict(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float32]: ...
    def classes(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.uint32]: ...
    def probabilities(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float64]: ...
    def summary(self) -> dict[str, Any]: ...
    @property
    def kernel_name(self) -> str: ...
    def metric(self) -> NDArray[np.float64] | None: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes, kernel: _Kernel | None = None) -> Machine: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Machine, str]: ...
    @property
    def kernel(self) -> _Kernel | None: ...
    @property
    def class_names(self) -> list[str]: ...
    @class_names.setter
    def class_names(self, names: list[str]) -> None: ...

class SparseProcess:
    @staticmethod
    def fit(
        x: _Table,
        y: NDArray[np.float64],
        weights: NDArray[np.float64] | None = None,
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> SparseProcess: ...
    def extend(
        self,
        x: _Table,
        y: NDArray[np.float64],
        weights: NDArray[np.float64] | None = None,
        *,
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> None: ...
    def marginals(
        self, x: _Table, *, n_jobs: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def joint(
        self, x: _Table, *, n_jobs: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def sample(
        self,
        x: _Table,
        count: int,
        seed: int,
        *,
        noisy: bool,
        n_jobs: int | None = None,
    ) -> NDArray[np.float64]: ...
    def inducing(self) -> NDArray[np.float64]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> SparseProcess: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[SparseProcess, str]: ...

class Process:
    @staticmethod
    def fit(
        x: _Table,
        y: NDArray[np.float64],
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> Process: ...
    def extend(
        self,
        x: _Table,
        y: NDArray[np.float64],
        *,
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> None: ...
    def mean(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float64]: ...
    def marginals(
        self, x: _Table, *, n_jobs: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def joint(
        self, x: _Table, *, n_jobs: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def sample(
        self,
        x: _Table,
        count: int,
        seed: int,
        *,
        method: str,
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
        numerator: _Table,
        denominator: _Table,
        numerator_weights: NDArray[np.float32] | None = None,
        denominator_weights: NDArray[np.float32] | None = None,
        *,
        settings: dict[str, Any],
        stream: bool = False,
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> Ratio: ...
    def partial_fit(
        self,
        numerator: _Table,
        denominator: _Table,
        numerator_weights: NDArray[np.float32] | None = None,
        denominator_weights: NDArray[np.float32] | None = None,
        *,
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> None: ...
    def metric(self) -> NDArray[np.float64] | None: ...
    def log_ratio(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float32]: ...
    def ratio(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float32]: ...
    def divergences(
        self,
        numerator: _Table,
        denominator: _Table,
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

class Topics:
    @staticmethod
    def fit(
        x: _Table,
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
        observer: Callable[[str, int, int, float, float | None, float | None, float], object]
        | None = None,
    ) -> Topics: ...
    @staticmethod
    def begin(x: _Table, *, settings: dict[str, Any], n_jobs: int | None = None) -> Topics: ...
    def partial_fit(self, x: _Table, *, n_jobs: int | None = None) -> None: ...
    def transform(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float32]: ...
    def bound(self, x: _Table, *, n_jobs: int | None = None) -> float: ...
    def perplexity(self, x: _Table, *, n_jobs: int | None = None) -> float: ...
    def completion_perplexity(
        self, observed: _Table, held_out: _Table, *, n_jobs: int | None = None
    ) -> float: ...
    def components(self) -> NDArray[np.float64]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Topics: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Topics, str]: ...

def leave_one_out(
    log_weights: NDArray[np.float64],
    pointwise: NDArray[np.float64],
    *,
    n_jobs: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

class Online:
    @staticmethod
    def begin(
        x: _Table,
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
        observer: Callable[..., object] | None = None,
    ) -> Online: ...
    def learn(
        self,
        x: _Table,
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        n_jobs: int | None = None,
        observer: Callable[..., object] | None = None,
    ) -> None: ...
    @staticmethod
    def begin_one(
        x: list[float], y: float, weight: float, *, settings: dict[str, Any]
    ) -> Online: ...
    def learn_one(self, x: list[float], y: float, weight: float) -> None: ...
    def decision_one(self, x: list[float]) -> list[float]: ...
    def predict_one(self, x: list[float]) -> list[float]: ...
    def probabilities_one(self, x: list[float]) -> list[float]: ...
    def grow_classes(self, classes: int) -> None: ...
    def add_columns(self, places: list[int]) -> bool: ...
    def learn_telling(
        self,
        x: _Table,
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        n_jobs: int | None = None,
    ) -> NDArray[np.float32]: ...
    @property
    def class_names(self) -> list[str]: ...
    @class_names.setter
    def class_names(self, names: list[str]) -> None: ...
    def decision(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float32]: ...
    def predict(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float32]: ...
    def probabilities(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float64]: ...
    def regret(
        self,
        x: _Table,
        y: NDArray[np.float32],
        values: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
    ) -> float: ...
    def set_constraints(self, constraints: list[tuple[str, Callable[..., Any] | None]]) -> None: ...
    def constraints(self) -> list[tuple[float, float, float]]: ...
    def points(self) -> NDArray[np.float32]: ...
    def weights(self) -> NDArray[np.float64]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Online: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Online, str]: ...

class Invariant:
    @staticmethod
    def fit(
        x: _Table,
        samples: list[NDArray[np.float32]],
        y: NDArray[np.float32],
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
        observer: Callable[..., object] | None = None,
    ) -> Invariant: ...
    @staticmethod
    def check_room(samples: int, rows: int, columns: int) -> None: ...
    def evaluate(self, x: _Table, *, n_jobs: int | None = None) -> NDArray[np.float32]: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Invariant: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Invariant, str]: ...

class ParticlePosterior:
    @staticmethod
    def fit(
        model: Any,
        dimension: int,
        observations: int,
        *,
        settings: dict[str, Any],
        n_jobs: int | None = None,
        observer: Callable[..., None] | None = None,
    ) -> ParticlePosterior: ...
    @staticmethod
    def fit_linear(
        x: NDArray[np.float64],
        y: NDArray[np.float64],
        *,
        family: str,
        classes: int,
        prior_scale: float,
        settings: dict[str, Any],
        n_jobs: int | None = None,
        observer: Callable[..., None] | None = None,
    ) -> ParticlePosterior: ...
    def positions(self) -> NDArray[np.float64]: ...
    def log_weights(self) -> NDArray[np.float64]: ...
    def report(self) -> dict[str, Any]: ...
    def warnings(self) -> list[str]: ...
    def log_density(
        self, points: NDArray[np.float64], *, n_jobs: int | None = None
    ) -> NDArray[np.float64]: ...
    def draw(self, count: int, seed: int) -> NDArray[np.float64]: ...
    def resample(self, count: int, seed: int) -> NDArray[np.int64]: ...
    def groups(self) -> list[tuple[float, list[float], list[float]]]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> ParticlePosterior: ...
    def save(self, path: str | os.PathLike[str], note: str) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[ParticlePosterior, str]: ...

class Environment:
    @staticmethod
    def named(name: str) -> Environment: ...
    def summary(self) -> dict[str, Any]: ...
    def reset(
        self, n: int, *, seed: int, episode: int = 0, n_jobs: int | None = None
    ) -> NDArray[np.float64]: ...
    def sample(self, n: int, *, seed: int, n_jobs: int | None = None) -> NDArray[np.float64]: ...
    def actions(
        self, states: NDArray[np.float64], *, n_jobs: int | None = None
    ) -> NDArray[np.float64]: ...
    def step(
        self,
        states: NDArray[np.float64],
        actions: NDArray[np.float64],
        *,
        seed: int,
        step: int = 0,
        n_jobs: int | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]: ...
    def transitions(
        self, n: int, *, seed: int, n_jobs: int | None = None
    ) -> tuple[
        tuple[NDArray[np.float64], NDArray[np.float64]],
        tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]],
    ]: ...
    def next_states(
        self, states: NDArray[np.float64], k: int, *, seed: int, n_jobs: int | None = None
    ) -> NDArray[np.float64]: ...
    def values(
        self,
        states: NDArray[np.float64],
        *,
        rollouts: int,
        steps: int | None = None,
        discount: float | None = None,
        seed: int,
        n_jobs: int | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
