"""Online kernel machines under constraints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from riesz._constraints import Constraint, constraint_of_settings, passed, settings_of_constraint
from riesz._documentation import documented
from riesz._online import OnlineKernelClassifier, OnlineKernelMachine, OnlineKernelRegressor
from riesz._riesz import Online
from riesz._settings import settings_of

_Self = TypeVar("_Self", bound="ConstrainedKernelMachine")


@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedKernelMachine(OnlineKernelMachine):
    """What the two share: constraints, multipliers, and the constraints in files."""

    memory: str = "dictionary"
    constraints: Sequence[Constraint] = ()
    published: bool = False
    dual_ridge: float = 0.01
    penalty: float | None = None
    multiplier_limit: float = 1000.0

    def _learn(
        self,
        X: NDArray[Any],
        y: NDArray[np.float32],
        weights: NDArray[np.float32] | None,
        classes: int | None,
        *,
        anew: bool,
    ) -> Online:
        if not anew:
            self._model.set_constraints(passed(self.constraints))
        return super()._learn(X, y, weights, classes, anew=anew)

    def _settings(self, classes: int | None) -> dict[str, Any]:
        return settings_of(self, classes=classes, constraints=passed(self.constraints))

    def _fitted(self: _Self, model: Online) -> _Self:
        states = np.array(model.constraints(), dtype=np.float64).reshape(-1, 3)
        self.multipliers_, self.auxiliaries_, self.constraint_values_ = states.T
        return super()._fitted(model)

    def _note(self) -> dict[str, Any]:
        note = super()._note()
        constraints = [settings_of_constraint(each) for each in self.constraints]
        note["parameters"]["constraints"] = constraints
        return note

    def _read_note(self, note: dict[str, Any], columns: int) -> None:
        super()._read_note(note, columns)
        self.constraints = [constraint_of_settings(each) for each in self.constraints]  # type: ignore[arg-type]


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedKernelRegressor(ConstrainedKernelMachine, OnlineKernelRegressor):
    """Regression online under constraints, by a projected stochastic primal-dual method.

    Every row is predicted, then learnt from; each constraint has a multiplier that grows while it
    is violated and by which it pushes against the loss. Atoms are merged into others where that
    changes the function little (KOMP).

    Parameters
    ----------
    loss : str, default="auto"
        $losses_of_numbers
        "auto" is "square".
    $constrained
    $constrained_online

    Attributes
    ----------
    $constrained_fitted
    $online_fitted

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import ConstrainedKernelRegressor, MeanConstraint
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(4000, 1))
    >>> def cautious(values, target):
    ...     return values[0] + 0.2, [1.0]
    >>> model = ConstrainedKernelRegressor(constraints=[MeanConstraint(cautious)])
    >>> bool(model.fit(X, np.sin(X[:, 0])).predict(X).mean() < -0.15)
    True
    """


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedKernelClassifier(ConstrainedKernelMachine, OnlineKernelClassifier):
    """Classification online under constraints, by a projected stochastic primal-dual method.

    A bound on the mean of the worst losses (:class:`riesz.CVaR`) makes a classifier withhold
    confidence where classes overlap.

    Parameters
    ----------
    loss : str, default="auto"
        $losses_of_classes
        "auto" is "softmax"; margins ("hinge" and its like) have no probabilities.
    $constrained
    $constrained_online

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    $constrained_fitted
    $online_fitted

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import ConstrainedKernelClassifier, CVaR
    >>> X = np.random.default_rng(0).normal(size=(4000, 2))
    >>> y = np.where(X[:, 0] + 0.5 * X[::-1, 1] > 0, "right", "left")
    >>> model = ConstrainedKernelClassifier(constraints=[CVaR(0.9, 1.2)]).fit(X, y)
    >>> model.multipliers_.shape
    (1,)
    """
