"""Online kernel machines as estimators of river, for its pipelines and evaluations.

    from river import datasets, evaluate, metrics, preprocessing
    from riesz.river import OnlineKernelClassifier

    model = preprocessing.StandardScaler() | OnlineKernelClassifier(seed=0)
    evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())

The estimators of the same names in `riesz` have the same methods, `learn_one` and its like; those
of this module are also estimators by river's own classes, which its evaluations ask for.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from river import base

import riesz

__all__ = ["OnlineKernelClassifier", "OnlineKernelRegressor"]

_Row = Mapping[Any, Any]


class _Wrapped(base.Base):
    """What the two share."""

    _wrapped: Any

    def __init__(
        self,
        loss: str = "auto",
        kernel: str = "gaussian",
        bandwidth: str | float = "auto",
        scaling: str = "auto",
        memory: str = "features",
        step: str | float = "auto",
        ridge: float = 1e-4,
        budget: str | int | None = "auto",
        drop: str | None = None,
        seed: int | None = None,
    ) -> None:
        self.loss = loss
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.scaling = scaling
        self.memory = memory
        self.step = step
        self.ridge = ridge
        self.budget = budget
        self.drop = drop
        self.seed = seed
        parameters = dict(self._get_params())
        self.model = self._wrapped(random_state=parameters.pop("seed"), **parameters)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"memory": "dictionary", "budget": 128}


class OnlineKernelClassifier(_Wrapped, base.Classifier):
    """Classification online: `riesz.OnlineKernelClassifier`, whose parameters it has.

    Parameters
    ----------
    loss, kernel, bandwidth, scaling, memory, step, ridge, budget, drop
        As of `riesz.OnlineKernelClassifier`.
    seed
        Its `random_state`.
    """

    _wrapped = riesz.OnlineKernelClassifier

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: _Row, y: Any, w: float = 1.0) -> None:
        """Learn from one row."""
        self.model.learn_one(x, y, w)

    def predict_one(self, x: _Row, **_: Any) -> Any:
        """Return the most likely label, None before any is learnt from."""
        return self.model.predict_one(x)

    def predict_proba_one(self, x: _Row, **_: Any) -> dict[Any, float]:
        """Return the probability of each label seen."""
        probabilities: dict[Any, float] = self.model.predict_proba_one(x)
        return probabilities


class OnlineKernelRegressor(_Wrapped, base.Regressor):
    """Regression online: `riesz.OnlineKernelRegressor`, whose parameters it has.

    Parameters
    ----------
    loss, kernel, bandwidth, scaling, memory, step, ridge, budget, drop
        As of `riesz.OnlineKernelRegressor`.
    seed
        Its `random_state`.
    """

    _wrapped = riesz.OnlineKernelRegressor

    def learn_one(self, x: _Row, y: float, w: float = 1.0) -> None:
        """Learn from one row."""
        self.model.learn_one(x, y, w)

    def predict_one(self, x: _Row) -> float:
        """Return the prediction, zero before any row is learnt from."""
        prediction: float = self.model.predict_one(x)
        return prediction
