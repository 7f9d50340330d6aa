"""What estimators around a value function share."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from riesz._errors import InvalidInput
from riesz._progress import progress
from riesz._riesz import Evaluation
from riesz._rows import Rows, rows_of
from riesz._saved import Saved
from riesz._settings import settings_of
from riesz._transitions import flags_of, have_a_table, numbers_in_columns

_Self = TypeVar("_Self", bound="Evaluated")


class Evaluated(Rows, Saved[Any]):
    """An estimator of a value function: V solves ``E[r + discount V(s') - V(s) | s] = 0``."""

    _kind: Any = Evaluation
    # What the value is of, in files.
    _task = "policy"
    features: str
    n_jobs: int | None
    verbose: int

    def _learn(
        self,
        states: ArrayLike,
        rewards: NDArray[Any] | None,
        next_states: ArrayLike,
        terminals: ArrayLike,
        *,
        without: tuple[str, ...] = (),
        settings: dict[str, Any],
        table: bool = True,
        learn: Callable[..., Evaluation] = Evaluation.fit,
        **others: Any,
    ) -> Evaluation:
        """Fit a value function; "auto" is a table where states allow it and `table` does.

        `learn` is what takes the transitions: those of a fit, or the first or further ones of a
        stream.
        """
        if rewards is None:
            raise InvalidInput("rewards is missing")
        first = learn != self._further
        rows = rows_of(self, numbers_in_columns("states", states), reset=first, name="states")
        following = numbers_in_columns("next_states", next_states)
        after = rows_of(self, following, reset=False, name="next_states")
        features = self.features
        if isinstance(features, str) and features == "auto":
            features = "table" if table and have_a_table(states) else "atoms"
        with progress(self.verbose) as observer:
            evaluation = learn(
                rows,
                rewards,
                after,
                flags_of("terminals", terminals),
                settings=settings_of(self, without, features=features, **settings),
                n_jobs=self.n_jobs,
                observer=observer,
                **others,
            )
        for kind, text in evaluation.summary()["remarks"]:
            category = ConvergenceWarning if kind == "unconverged" else UserWarning
            warnings.warn(text, category, stacklevel=4)
        return evaluation

    def _further(self, *arrays: Any, settings: dict[str, Any], **others: Any) -> Evaluation:
        """Learn from further transitions of a stream, whose settings are those of the first."""
        self._model.partial_fit(*arrays, **others)
        return self._model  # type: ignore[no-any-return]

    def _states(self, states: ArrayLike, name: str = "states") -> NDArray[Any]:
        """Check states for a fitted estimator."""
        return self._rows(numbers_in_columns(name, states), name)

    def _fitted(self: _Self, model: Any) -> _Self:
        summary = model.summary()
        ridges = summary["ridges"] or {"primal": None, "dual": None}
        self._model = model
        self._arguments = summary["arguments"]
        self.bandwidth_ = summary["bandwidth"]
        self.ridge_ = ridges["primal"]
        self.dual_ridge_ = ridges["dual"]
        self.held_out_error_ = summary["held_out_error"]
        self.n_features_ = summary["features"]
        self.n_episodes_ = summary["episodes"]
        self.seed_ = summary["seed"]
        return self

    def _note(self) -> dict[str, Any]:
        return super()._note() | {"task": self._task}

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        found = note.get("task", "policy")
        if found != self._task:
            raise InvalidInput(
                f"the file holds a value function of another task, {found!r}; use riesz.load"
            )
