"""Rows that come one by one, as dictionaries: the protocol of river."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from riesz._errors import InvalidInput
from riesz._riesz import Online
from riesz._rows import Rows
from riesz._saved import Saved
from riesz._settings import settings_of

Row = Mapping[Any, Any]


def _order(name: Hashable) -> tuple[str, str]:
    """Return the key by which columns are sorted, whatever the order of a dictionary."""
    return type(name).__name__, str(name)


class OneByOne(Rows, Saved[Online]):
    """An estimator of arrays that also learns from dictionaries, one at a time.

    Features are columns, sorted by name. A feature that a row lacks is zero there; one that appears
    among the first 1,024 rows was zero so far, and one that appears later is ignored.
    """

    _single = True
    # Names of the columns, in their order, and the same as a set.
    _names: list[Any]
    _known_names: set[Any]

    def _learn_row(self, x: Row, y: float, weight: float, classes: int | None) -> None:
        if not self.__sklearn_is_fitted__():
            if not x:
                raise InvalidInput("the first row has no features")
            names = sorted(x, key=_order)
            row = [x[name] for name in names]
            with _Named(x):
                model = Online.begin_one(row, y, weight, settings=self._settings(classes))
            self._name_columns(names)
        else:
            model = self._model
            row = self._row(x, grow=True)
            with _Named(x):
                model.learn_one(row, y, weight)
        self._fitted(model)

    def _settings(self, classes: int | None) -> dict[str, Any]:
        """Return the parameters as settings of the compiled part."""
        return settings_of(self, classes=classes)

    def _row(self, x: Row, *, grow: bool = False) -> list[Any]:
        """Return the features of a row in the order of the columns."""
        try:
            names = self._names
        except AttributeError:
            names = self._read_names()
        if len(x) == len(names):
            try:
                return [x[name] for name in names]
            except KeyError:
                pass
        if grow and not self._known_names.issuperset(x):
            self._add_columns(x)
        return [x.get(name, 0.0) for name in self._names]

    def _add_columns(self, x: Row) -> None:
        names = sorted(self._known_names.union(x), key=_order)
        places = [place for place, name in enumerate(names) if name not in self._known_names]
        if self._model.add_columns(places):
            self._name_columns(names)

    def _name_columns(self, names: Iterable[Any]) -> None:
        self._names = list(names)
        self._known_names = set(self._names)
        self.n_features_in_ = len(self._names)
        self.feature_names_in_ = np.array([str(name) for name in self._names], dtype=object)

    def _read_names(self) -> list[Any]:
        """Return the names of columns that came as an array, or from a file."""
        check_is_fitted(self)
        named: Any = getattr(self, "feature_names_in_", range(self.n_features_in_))
        self._names, self._known_names = list(named), set(named)
        return self._names


class _Named:
    """Names the feature that is no number in errors."""

    def __init__(self, x: Row) -> None:
        self._x = x

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, TypeError | InvalidInput):
            for name, value in self._x.items():
                if isinstance(value, str | bytes) or value is None or not np.isfinite(value):
                    raise InvalidInput(f"feature {name!r} = {value!r} is not a number") from None
