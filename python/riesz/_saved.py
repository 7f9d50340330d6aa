"""Estimators in model files."""

import json
import os
from typing import Any, Generic, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from riesz._coding import Coding, checked
from riesz._errors import InvalidInput
from riesz._settings import LOCAL

_Model = TypeVar("_Model")
_Self = TypeVar("_Self", bound="Saved[Any]")


class Saved(BaseEstimator, Generic[_Model]):
    """An estimator around one fitted model: parameters and columns are kept beside it."""

    # The class of the fitted model, which is kept in `_model`.
    _kind: Any
    _model: _Model
    # Of every column with a name, "number" or "boolean".
    _feature_types: list[str] | None = None
    # What becomes of every column, where some are categories or may be missing.
    _codings: list[Coding] | None = None
    # The name of the column that was learnt, where the command line fitted.
    _target: str | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a model file.

        The file holds what was learnt, the parameters, and names and types of the columns, not how
        it was worked: ``n_jobs``, ``verbose`` and ``checkpoint`` are the defaults after loading.

        Parameters
        ----------
        path : path
            The file; it is written atomically.
        """
        check_is_fitted(self)
        try:
            note = json.dumps(self._note(), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{error}; a model file holds plain values, pickle the rest"
            ) from None
        model: Any = self._model
        model.save(path, note)

    @classmethod
    def load(cls: type[_Self], path: str | os.PathLike[str]) -> _Self:
        """Read an estimator from a model file; nothing in the file is executed.

        Parameters
        ----------
        path : path
            A file written by :meth:`save`; those of kernel machines also by ``riesz fit``, those of
            online ones by ``riesz stream``.

        Returns
        -------
        estimator
            Fitted, as it was saved.
        """
        model, text = cls._kind.load(path)
        try:
            return cls._restored(model, json.loads(text) or {})
        except InvalidInput:
            raise
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"not a valid riesz file: {path}: {error!r}") from None

    @classmethod
    def _restored(cls: type[_Self], model: Any, note: dict[str, Any]) -> _Self:
        estimator = cls()
        estimator._read_task(model, note)
        estimator._read_note(note, model.summary()["columns"])
        return estimator._fitted(model)

    def _read_note(self, note: dict[str, Any], columns: int) -> None:
        """Set parameters and columns, of which the model has so many."""
        parameters = note.get("parameters", {}).items()
        self.set_params(**{name: value for name, value in parameters if name not in LOCAL})
        if codings := note.get("codings"):
            self._codings = checked(codings, columns)
            columns = len(codings)
        self.n_features_in_ = columns
        self._target = note.get("target")
        features = note.get("columns", [])
        if features:
            if len(features) != columns:
                raise InvalidInput(
                    f"not a valid riesz file: {len(features)} columns have names, the model has"
                    f" {columns}"
                )
            self.feature_names_in_ = np.array([each["name"] for each in features], dtype=object)
            self._feature_types = [each["type"] for each in features]

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        """Set what describes the task beside the parameters, or refuse a model of another."""

    def _note(self) -> dict[str, Any]:
        """Return what `save` adds to the model, as values JSON knows."""
        parameters = {
            name: plain(value)
            for name, value in self.get_params(deep=False).items()
            if name not in LOCAL
        }
        if not isinstance(parameters.get("random_state"), int | None):
            parameters["random_state"] = self.seed_
        note: dict[str, Any] = {"parameters": parameters}
        if hasattr(self, "feature_names_in_"):
            types = self._feature_types or ["number"] * self.n_features_in_
            note["columns"] = [
                {"name": name, "type": kind}
                for name, kind in zip(self.feature_names_in_.tolist(), types, strict=True)
            ]
        if self._codings is not None:
            note["codings"] = self._codings
        if self._target is not None:
            note["target"] = self._target
        return note

    def _fitted(self: _Self, model: Any) -> _Self:
        """Keep the model and show what it is."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")


def plain(value: Any) -> Any:
    """Return a parameter as a value JSON knows, where there is one."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return os.fspath(value) if isinstance(value, os.PathLike) else value
