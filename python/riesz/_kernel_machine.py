"""What the kernel machines share as scikit-learn estimators."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from riesz._arguments import count
from riesz._coding import grouped
from riesz._errors import InvalidInput
from riesz._files import Paths, describe, listed
from riesz._progress import progress
from riesz._riesz import FileRows, Machine, stream_files
from riesz._rows import Rows
from riesz._saved import Saved
from riesz._settings import settings_of

_Self = TypeVar("_Self", bound="KernelMachine")

# A name, or a function of an array, a seed and a number of features that returns features.
Kernel: TypeAlias = str | Callable[[Any, int, int], Any]


# A dataclass writes the constructor: explicit, as scikit-learn and editors want it, from parameters
# that are declared once. Equality and text stay those of estimators.
@dataclass(kw_only=True, eq=False, repr=False)
class KernelMachine(Rows, Saved[Machine]):
    """What the estimators share: parameters, validation, the fitted machine and its file."""

    kernel: Kernel = "auto"
    metric: str = "auto"
    bandwidth: str | float = "auto"
    scaling: str = "auto"
    categorical_features: Any = "from_dtype"
    solver: str = "auto"
    ridge: float | None = None
    damping: float | None = None
    block_size: int | None = None
    max_blocks: int | None = None
    sweeps: int = 0
    early_stopping: bool = True
    max_time: float | None = None
    batch_size: int = 512
    passes: int = 1
    theta: float | None = None
    delay: float | None = None
    averaging: float | None = None
    projection: str | None = None
    checkpoint: str | os.PathLike[str] | None = None
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0

    _kind = Machine
    _single = True

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a model file, which the ``riesz`` command reads too.

        A kernel that is a function has no place in a file: pickle such an estimator.

        Parameters
        ----------
        path : path
            The file; it is written atomically.
        """
        check_is_fitted(self)
        if callable(self._model.kernel):
            raise InvalidInput(
                f"a model file cannot hold kernel = {self._model.kernel!r}; pickle the estimator,"
                " or fit it with a kernel that has a name"
            )
        super().save(path)

    def _stream_files(
        self,
        paths: Paths,
        target: int | str | None,
        classes: list[str],
        memory: int | None,
    ) -> Machine:
        """Learn from files as they are read."""
        settings = self._settings() | {"classes": len(classes) or None}
        with progress(self.verbose) as observer:
            machine, described = stream_files(
                listed(paths),
                target,
                settings=settings,
                classes=classes,
                memory=None if memory is None else count("memory", memory, least=1),
                n_jobs=self.n_jobs,
                observer=observer,
            )
        describe(self, *described)
        return machine

    def _learn(
        self,
        X: NDArray[Any] | FileRows,
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None,
        classes: int | None,
        *,
        streaming: bool,
    ) -> Machine:
        """Fit a machine, or start one that streams."""
        settings = self._settings() | {"classes": classes}
        with progress(self.verbose) as observer:
            return Machine.fit(
                X,
                y,
                weights,
                settings=settings,
                streaming=streaming,
                n_jobs=self.n_jobs,
                observer=observer,
            )

    def _settings(self) -> dict[str, Any]:
        """Return the parameters as settings of Rust."""
        return settings_of(self)

    def _learn_more(
        self, X: NDArray[Any], y: NDArray[np.float32], weights: NDArray[np.float32] | None
    ) -> Machine:
        with progress(self.verbose) as observer:
            self._model.partial_fit(X, y, weights, n_jobs=self.n_jobs, observer=observer)
        return self._model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _fitted(self: _Self, machine: Machine) -> _Self:
        """Keep the machine and show what it is."""
        summary = machine.summary()
        self._model = machine
        self.kernel_ = machine.kernel_name
        self.bandwidth_ = summary["bandwidth"]
        self.metric_ = machine.metric()
        self.__dict__.pop("feature_importances_", None)
        if summary["importances"] is not None:
            self.feature_importances_ = grouped(self._codings, np.array(summary["importances"]))
        self.scaling_ = summary["scaling"]
        self.loss_ = loss_name(summary)
        self.n_blocks_ = summary["blocks"]
        self.history_ = summary["history"]
        self.seed_ = summary["seed"]
        return self


def loss_name(summary: dict[str, Any]) -> str:
    """Return the name of the loss, which stands before its parameters where it has some."""
    loss: str | dict[str, Any] = summary["loss"]
    return loss if isinstance(loss, str) else next(iter(loss))
