"""Expected hitting times and stationary distributions."""

import os
import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, column_or_1d

from riesz._arguments import named, seed_of
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._evaluated import Evaluated
from riesz._labels import noted, read_noted
from riesz._riesz import Chain, Evaluation, file_kind
from riesz._tables import is_missing
from riesz._transitions import flags_of, in_columns, same_rows


class _ChainOrEvaluation:
    """The models there are: one of a finite chain, one of any other."""

    @staticmethod
    def load(path: str | os.PathLike[str]) -> tuple[Any, str]:
        """Read the model and its note."""
        return (Chain if file_kind(path) == "hitting_time" else Evaluation).load(path)


@documented
class HittingTime(Evaluated):
    """Expected steps until a Markov chain reaches a state, from transitions.

    For a finite chain, whose states may be labels of any type, ``h(s, t)`` is the mean number of
    steps, one at least, from s until t is reached. It solves
    ``E[h(s, t) - 1[s' != t] h(s', t) | s] = 1`` for all s and t, and ``1 / h(t, t)`` is the
    stationary distribution. For any other chain, ``h(s)`` is the mean number of steps until
    a set is reached, the value of reward one and discount one that ends there.

    Parameters
    ----------
    $value_function
    $run
    $verbose

    Attributes
    ----------
    states_ : ndarray
        The states of a finite chain, sorted.
    $evaluated
    n_episodes_ : int
        Arrivals at the set, and the transitions after the last of them.

    Notes
    -----
    A finite chain must lead from every state to every other; then the times are those of the chain
    with the shares of transitions that were observed, and no parameter but ``n_jobs`` matters.
    Attributes but ``states_`` are there for times to a set.

    Examples
    --------
    >>> from riesz import HittingTime
    >>> walk = list("abcbabcbabcbab")
    >>> chain = HittingTime().fit(walk[:-1], walk[1:])
    >>> chain.expected("a", "c")
    4.0
    >>> chain.stationary().round(2)
    array([0.25, 0.5 , 0.25])
    """

    _kind = _ChainOrEvaluation
    _task = "hitting_time"

    def __init__(
        self,
        *,
        features: str = "auto",
        n_features: int | None = None,
        kernel: str = "gaussian",
        bandwidth: str | float = "auto",
        ridge: float | None = None,
        dual_ridge: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.n_features = n_features
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.ridge = ridge
        self.dual_ridge = dual_ridge
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, states: ArrayLike, next_states: ArrayLike, arrived: ArrayLike | None = None
    ) -> "HittingTime":
        """Learn from transitions.

        Parameters
        ----------
        states : array-like of shape (n,), or (n, d) for times to a set
            States.
        next_states : array-like of the same shape
            States that followed.
        arrived : array-like of bool of shape (n,), optional
            Whether ``next_states`` are in the set. Unless given, times between all states of a
            finite chain are learnt.

        Returns
        -------
        self
        """
        if arrived is not None:
            ends = flags_of("arrived", arrived)
            same_rows("arrived", ends, states)
            if not ends.any():
                raise InvalidInput(
                    "none of arrived is true: no transition reaches the set, and steps until then"
                    " cannot be told; give transitions some of which do"
                )
            ones = np.ones(len(ends), dtype=np.float32)
            settings = {"method": "dual_embedding", "discount": 1.0}
            return self._fitted(self._learn(states, ones, next_states, ends, settings=settings))
        before, after = _labels("states", states), _labels("next_states", next_states)
        with named("states"):
            every = np.concatenate([before, after])
        try:
            labels, places = np.unique(every, return_inverse=True)
        except TypeError:
            types = sorted({type(label).__name__ for label in every})
            raise InvalidInput(
                f"states and next_states hold labels of the types {', '.join(types)}, which have no"
                " order: give labels of one type"
            ) from None
        numbers: NDArray[np.uint32] = places.astype(np.uint32)
        try:
            chain = Chain.fit(numbers[: len(before)], numbers[len(before) :], n_jobs=self.n_jobs)
        except InvalidInput as error:  # which knows states by their numbers
            text = re.sub(r"\bstate (\d+)", lambda found: _shown(labels[int(found[1])]), str(error))
            raise InvalidInput(text) from None
        self.states_ = labels
        self.n_features_in_ = 1
        self.seed_ = seed_of(self.random_state)
        return self._fitted(chain)

    def expected(self, states: ArrayLike, targets: ArrayLike | None = None) -> Any:
        """Return the expected number of steps.

        Parameters
        ----------
        states : label or array-like of labels, or array-like of shape (n,) or (n, d)
            From where.
        targets : label or array-like of labels
            To which state of a finite chain; not given for times to a set.

        Returns
        -------
        float, or ndarray of the shape of states and targets together
        """
        check_is_fitted(self)
        if not isinstance(self._model, Chain):
            if targets is not None:
                raise InvalidInput("targets: times to one set were learnt; give states alone")
            return self._model.value(self._states(states), n_jobs=self.n_jobs)
        if targets is None:
            raise InvalidInput("targets is missing: times between all states were learnt")
        pair = self._positions("states", states), self._positions("targets", targets)
        with named("targets"):
            sources, ends = np.broadcast_arrays(*pair)
        times = self._model.expected(sources.ravel(), ends.ravel()).reshape(sources.shape)
        return times if times.ndim else float(times)

    def stationary(self) -> NDArray[np.float64]:
        """Return the stationary distribution of a finite chain, in the order of ``states_``.

        Returns
        -------
        ndarray of shape (states,)
        """
        check_is_fitted(self)
        if not isinstance(self._model, Chain):
            raise InvalidInput("times to a set were learnt: fit without arrived")
        return self._model.stationary()

    def _positions(self, name: str, labels: ArrayLike) -> NDArray[np.uint32]:
        """Return the number of each label."""
        with named(name):
            found = np.asarray(labels)
            places = np.searchsorted(self.states_, found).clip(max=len(self.states_) - 1)
        unknown = np.atleast_1d(self.states_[places] != found)
        if unknown.any():
            label = np.atleast_1d(found).ravel()[unknown.ravel().argmax()]
            raise InvalidInput(f"{name}: {_shown(label)} was not seen")
        return np.asarray(places, dtype=np.uint32)

    def _fitted(self, model: Any) -> "HittingTime":
        if not isinstance(model, Chain):
            return super()._fitted(model)
        self._model = model
        return self

    def _note(self) -> dict[str, Any]:
        note = super()._note()
        if isinstance(self._model, Chain):
            note["states"] = noted(self.states_)
        return note

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        super()._read_task(model, note)
        if isinstance(model, Chain):
            self.states_ = read_noted(note["states"], model.summary()["states"])


def _labels(name: str, states: ArrayLike) -> NDArray[Any]:
    columns = in_columns(name, states).shape[1]
    if columns > 1:
        raise InvalidInput(
            f"{name} has {columns} columns: give arrived, for times until a set is reached; times"
            " between all states are for one column of labels"
        )
    with named(name):
        labels: NDArray[Any] = column_or_1d(states)
    if labels.dtype.kind == "f":
        missing = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        missing = np.fromiter(map(is_missing, labels), bool, len(labels))
    else:
        return labels
    if missing.any():
        row = int(missing.argmax())
        raise InvalidInput(f"{name} contains {labels[row]} at row {row}; remove such transitions")
    return labels


def _shown(label: Any) -> str:
    return f"state {label.item() if isinstance(label, np.generic) else label!r}"
