"""What the kernel machines share as scikit-learn estimators."""

import json
import numbers
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from riesz._errors import InvalidInput
from riesz._progress import progress
from riesz._riesz import Machine

_Self = TypeVar("_Self", bound="KernelMachine")

# A name, or a function of an array, a seed and a number of features that returns features.
Kernel: TypeAlias = str | Callable[[Any, int, int], Any]

# How arrays, dense or sparse by rows, reach Rust, which borrows them and names the row and column
# of what is not finite.
ROWS = {
    "accept_sparse": "csr",
    "dtype": (np.float64, np.float32),
    "order": "C",
    "ensure_all_finite": False,
}


# A dataclass writes the constructor: explicit, as scikit-learn and editors want it, from parameters
# that are declared once. Equality and text stay those of estimators.
@dataclass(kw_only=True, eq=False, repr=False)
class KernelMachine(BaseEstimator):
    """What the estimators share: parameters, validation, the fitted machine and its file."""

    kernel: Kernel = "gaussian"
    bandwidth: str | float = "auto"
    scaling: str = "auto"
    solver: str = "auto"
    ridge: float | None = None
    damping: float | None = None
    block_size: int | None = None
    max_blocks: int | None = None
    sweeps: int = 0
    early_stopping: bool = True
    max_time: float | None = None
    batch_size: int = 1024
    projection: str | None = None
    checkpoint: str | os.PathLike[str] | None = None
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a model file, which the ``riesz`` command reads too.

        A kernel that is a function has no place in a file: pickle such an estimator.

        Parameters
        ----------
        path : path
            The file; it is written atomically.
        """
        check_is_fitted(self)
        if callable(self._machine.kernel):
            raise InvalidInput(
                f"a model file cannot hold kernel = {self._machine.kernel!r}; pickle the estimator,"
                " or fit it with a kernel that has a name"
            )
        try:
            note = json.dumps(self._note(), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{error}; a model file holds plain values, pickle the rest"
            ) from None
        self._machine.save(path, note)

    @classmethod
    def load(cls: type[_Self], path: str | os.PathLike[str]) -> _Self:
        """Read an estimator from a model file; nothing in the file is executed.

        Parameters
        ----------
        path : path
            A file written by :meth:`save` or by ``riesz fit``.

        Returns
        -------
        estimator
            Fitted, ready to predict or to learn more by :meth:`partial_fit`.
        """
        machine, text = Machine.load(path)
        try:
            return cls._restored(machine, json.loads(text) or {})
        except InvalidInput:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"not a valid riesz file: {path}: {error!r}") from None

    @classmethod
    def _restored(cls: type[_Self], machine: Machine, note: dict[str, Any]) -> _Self:
        summary = machine.summary()
        estimator = cls()
        estimator._read_task(summary, machine.class_names, note)
        estimator.set_params(**note.get("parameters", {}))
        estimator.n_features_in_ = summary["columns"]
        if "feature_names" in note:
            estimator.feature_names_in_ = np.array(note["feature_names"], dtype=object)
        return estimator._fitted(machine)

    def _note(self) -> dict[str, Any]:
        """Return what `save` adds to the machine, as values JSON knows."""
        parameters = {name: plain(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(parameters["random_state"], int | None):
            parameters["random_state"] = self.seed_
        note: dict[str, Any] = {"parameters": parameters}
        if hasattr(self, "feature_names_in_"):
            note["feature_names"] = self.feature_names_in_.tolist()
        return note

    def _read_task(
        self, summary: dict[str, Any], class_names: list[str], note: dict[str, Any]
    ) -> None:
        """Set what describes the targets, or refuse a machine of the other task."""
        raise NotImplementedError

    def _learn(
        self,
        X: NDArray[Any],
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None,
        classes: int | None,
        *,
        streaming: bool,
    ) -> Machine:
        """Fit a machine, or start one that streams."""
        settings = self._settings() | {
            "random_state": seed_of(self.random_state),
            "classes": classes,
        }
        learn = Machine.begin if streaming else Machine.fit
        with progress(self.verbose) as observer:
            return learn(X, y, weights, settings=settings, n_jobs=self.n_jobs, observer=observer)

    def _settings(self) -> dict[str, Any]:
        """Return the parameters, of which Rust reads those that it knows by the same name."""
        return dict(self.get_params(deep=False))

    def _learn_more(
        self, X: NDArray[Any], y: NDArray[np.float32], weights: NDArray[np.float32] | None
    ) -> Machine:
        with progress(self.verbose) as observer:
            self._machine.partial_fit(X, y, weights, n_jobs=self.n_jobs, observer=observer)
        return self._machine

    def _fitted(self: _Self, machine: Machine) -> _Self:
        """Keep the machine and show what it is."""
        summary = machine.summary()
        self._machine = machine
        self.bandwidth_ = summary["bandwidth"]
        self.scaling_ = summary["scaling"]
        self.loss_ = loss_name(summary)
        self.n_blocks_ = summary["blocks"]
        self.history_ = summary["history"]
        self.seed_ = summary["seed"]
        return self

    def _data(
        self, X: ArrayLike, y: ArrayLike, y_type: type | None, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Check rows and targets; Rust compares their lengths."""
        targets = {"dtype": y_type, "order": "C", "ensure_2d": False, "ensure_all_finite": False}
        data: tuple[NDArray[Any], NDArray[Any]] = validate_data(
            self, X, y, reset=reset, validate_separately=(ROWS, targets)
        )
        return data

    def _rows(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        rows: NDArray[Any] = validate_data(self, X, reset=False, **ROWS)
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_machine")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def sample_weights(sample_weight: ArrayLike | None) -> NDArray[np.float32] | None:
    """Return weights as Rust borrows them."""
    if sample_weight is None:
        return None
    weights: NDArray[np.float32] = column_or_1d(sample_weight, dtype=np.float32)
    return np.ascontiguousarray(weights)


def loss_name(summary: dict[str, Any]) -> str:
    """Return the name of the loss, which stands before its parameters where it has some."""
    loss: str | dict[str, Any] = summary["loss"]
    return loss if isinstance(loss, str) else next(iter(loss))


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """Return an integer as it is, and 64 random bits for anything else."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    bits: np.uint64 = check_random_state(random_state).randint(0, 2**64, dtype=np.uint64)
    return int(bits)


def plain(value: Any) -> Any:
    """Return a parameter as a value JSON knows, where there is one."""
    if isinstance(value, np.generic):
        return value.item()
    return os.fspath(value) if isinstance(value, os.PathLike) else value
