"""The value of a policy from logged transitions."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from riesz._arguments import count, flag, number
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._evaluated import Evaluated
from riesz._riesz import Evaluation
from riesz._rows import sample_weights
from riesz._transitions import (
    are_numbered,
    certain,
    check_numbered,
    ends_of,
    log_of,
    probabilities_of,
    table_of,
)

# Most points of a curve that is drawn.
_POINTS = 1024
# Methods that look at whole episodes, and weigh them.
_OF_EPISODES = ("importance_sampling", "per_decision", "weighted_per_decision", "doubly_robust")


@dataclass(frozen=True)
class PolicyValue:
    """The expected value where episodes begin, and an interval.

    Attributes
    ----------
    value : float
        The estimate.
    low, high : float
        The ends of the interval.
    confidence : float
        The share of logs whose interval holds the value, to first order: intervals know neither of
        steps that have not converged nor of weights that no episode of the log has.
    """

    value: float
    low: float
    high: float
    confidence: float


@documented
class PolicyEvaluator(Evaluated):
    """The value of a policy, ``V(s) = E[sum_t discount^t r_t | s_0 = s]``, from logged transitions.

    V is right where ``E[r + discount V(s') - V(s) | s] = 0`` for every s, and a logged transition
    has one s' alone. The default solves the saddle point of that equation over V and a dual
    function in closed form; the other methods are there to compare. From what the policy does
    after each transition, ``Q(s, a)`` is learnt in the same way.

    Parameters
    ----------
    method : {"dual_embedding", "embedding_sgd", "lstd", "td", "gtd2", "residual_gradient", \
"kernel_mdp", "fitted_q", "importance_sampling", "per_decision", "weighted_per_decision", \
"doubly_robust"}, default="dual_embedding"
        "dual_embedding" is the saddle point, "embedding_sgd" the same by stochastic gradients;
        "lstd" least squares of temporal differences; "td", "gtd2" and "residual_gradient" take
        steps; "kernel_mdp" is a model of the transitions, "fitted_q" regression again and again.
        The last four look at whole episodes, in the order of the log, and weights: importance
        sampling of returns, of rewards, the same over the sum of its weights, and a value
        function corrected by it.
    discount : float, default=0.99
        The discount of rewards; one where episodes end.
    $value_function
    policy : callable, optional
        The policy to evaluate: takes states as they were given, and returns the actions it takes
        there or, where actions are numbered, the probability of each, of shape (n, actions). It
        is asked at ``next_states`` of a fit and wherever a value is. It is not in a model file.
    batch_size : int, default=20
        Transitions of a step, for methods that take steps.
    n_passes : int, default=1
        Passes over the transitions, likewise.
    step : float, default=0.3
        Step size of V, likewise, in units of about where steps become unstable; for a network, of
        a thousandth, by Adam.
    dual_step : float, default=0.3
        Step size of the dual function ("embedding_sgd", "gtd2"), in the same units; for a network,
        of a hundredth.
    published : bool, default=False
        Whether steps fall like ``1 / sqrt(t)`` and iterates are averaged with these weights, as
        published, rather than constant steps and the average of the last half.
    centred : bool, default=False
        Whether steps learn V beside the constant that solves the equation among constants, which
        is the mean reward over ``1 - discount`` where nothing ends. Where the states of the log are
        those that the policy visits, this is the mean of V, which steps are slowest to learn;
        elsewhere it misleads them. Not with ``published``.
    n_iterations : int, default=1000
        Steps of "fitted_q".
    n_bootstrap : int, default=1000
        Bootstrap samples of an interval.
    max_time : float, optional
        Most seconds of methods that take steps.
    checkpoint : path, optional
        File from which interrupted steps are resumed, removed when the fit is complete. It is
        written every 30 seconds, or as often as ``RIESZ_CHECKPOINT_SECONDS`` in the environment
        says, and refused by a fit of other transitions or settings, which are named. Methods that
        are solved at once have none.
    $run
    $verbose

    Attributes
    ----------
    $evaluated
    n_episodes_ : int
        Episodes of the log; transitions where nothing says that one ends.
    history_ : list of tuple
        Of methods that take steps: how many were taken, and the mean objective of those since the
        last entry.

    Notes
    -----
    Where the log is of another policy, values of states need weights, the ratios
    ``pi(a | s) / pi_b(a | s)``, and values of actions need what the policy does at ``next_states``
    (``policy``, ``next_actions`` or ``next_action_probabilities``) and no weights. Actions of type
    integer are one of 0, 1, 2, ...; so are those that ``policy`` or ``next_action_probabilities``
    has probabilities of, whatever their type. Others are quantities.

    An episode that was cut short has not ended: the last transition of one that ended is True in
    ``terminals``, of one that was cut short in ``truncations``.

    Standard errors and intervals are those of independent episodes, to first order; they know
    nothing of what the features cannot say.

    Examples
    --------
    Two states, the second of which pays one, each followed by either:

    >>> import numpy as np
    >>> from riesz import PolicyEvaluator
    >>> states = np.random.default_rng(0).integers(2, size=4001)
    >>> log = states[:-1], None, states[:-1] == 1, states[1:], np.zeros(4000, dtype=bool)
    >>> evaluator = PolicyEvaluator(discount=0.5, random_state=0).fit(*log)
    >>> evaluator.value([0, 1]).round(1)
    array([0.5, 1.5])
    >>> found = evaluator.estimate([0])
    >>> bool(found.low < 0.5 < found.high)
    True
    """

    def __init__(
        self,
        method: str = "dual_embedding",
        *,
        discount: float = 0.99,
        features: str = "auto",
        n_features: int | None = None,
        kernel: str = "gaussian",
        bandwidth: str | float = "auto",
        ridge: float | None = None,
        dual_ridge: float | None = None,
        policy: Callable[[Any], Any] | None = None,
        batch_size: int = 20,
        n_passes: int = 1,
        step: float = 0.3,
        dual_step: float = 0.3,
        published: bool = False,
        centred: bool = False,
        n_iterations: int = 1000,
        n_bootstrap: int = 1000,
        max_time: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.discount = discount
        self.features = features
        self.n_features = n_features
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.ridge = ridge
        self.dual_ridge = dual_ridge
        self.policy = policy
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.step = step
        self.dual_step = dual_step
        self.published = published
        self.centred = centred
        self.n_iterations = n_iterations
        self.n_bootstrap = n_bootstrap
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        states: Any,
        actions: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        next_states: ArrayLike | None = None,
        terminals: ArrayLike | None = None,
        *,
        truncations: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        next_actions: ArrayLike | None = None,
        next_action_probabilities: ArrayLike | None = None,
    ) -> "PolicyEvaluator":
        """Evaluate a policy on logged transitions, which are in the order of time.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d), or a Minari data set
            States. A data set, anything with ``iterate_episodes``, has all that follows up to
            ``truncations``, which are then not to be given.
        actions : array-like of shape (n,) or (n, k), optional
            Actions that were taken; needed where values of actions are learnt.
        rewards : array-like of shape (n,)
            Rewards.
        next_states : array-like of shape (n,) or (n, d)
            States that followed.
        terminals : array-like of bool of shape (n,)
            Whether the process ended with the transition: nothing is earned afterwards.
        truncations : array-like of bool of shape (n,), optional
            Whether an episode was cut short after the transition, while the process went on; where
            ``terminals`` is true too, the process ended.
        weights : array-like of shape (n,), optional
            Ratios ``pi(a | s) / pi_b(a | s)`` where the log is of another policy ``pi_b``: for
            values of states, and for methods that look at whole episodes.
        next_actions : array-like of shape (n,) or (n, k), optional
            An action of the policy at each of ``next_states``, in place of ``policy``.
        next_action_probabilities : array-like of shape (n, actions), optional
            The probabilities of its actions there, in place of ``policy``.

        Returns
        -------
        self
        """
        return self._take(
            Evaluation.fit,
            states,
            actions=actions,
            rewards=rewards,
            next_states=next_states,
            terminals=terminals,
            truncations=truncations,
            weights=weights,
            next_actions=next_actions,
            next_action_probabilities=next_action_probabilities,
        )

    def partial_fit(
        self,
        states: Any,
        actions: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        next_states: ArrayLike | None = None,
        terminals: ArrayLike | None = None,
        *,
        truncations: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        next_actions: ArrayLike | None = None,
        next_action_probabilities: ArrayLike | None = None,
    ) -> "PolicyEvaluator":
        """Learn from further transitions of a log that is too long for memory, five at least.

        For methods that are solved from sums over transitions: "dual_embedding", "lstd",
        "kernel_mdp" and "fitted_q". The first call settles the functions that the value is a
        combination of, by its transitions; the values after the last are those of a fit on all
        of them with these functions. What a call has of an episode counts as one. Standard errors
        are from the residuals of each call's transitions at the value that was known then.

        Parameters
        ----------
        states, actions, rewards, next_states, terminals, truncations : array-like
            Transitions, as in :meth:`fit`. States of a table are at most those of the first call,
            or ``n_features`` where that is more.
        weights, next_actions, next_action_probabilities : array-like, optional
            As in :meth:`fit`.

        Returns
        -------
        self
        """
        return self._take(
            self._further if hasattr(self, "_model") else Evaluation.begin,
            states,
            actions=actions,
            rewards=rewards,
            next_states=next_states,
            terminals=terminals,
            truncations=truncations,
            weights=weights,
            next_actions=next_actions,
            next_action_probabilities=next_action_probabilities,
        )

    def value(
        self,
        states: ArrayLike,
        *,
        actions: ArrayLike | None = None,
        probabilities: ArrayLike | None = None,
        return_std: bool = False,
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return values of states under the policy.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.
        actions : array-like of shape (n,) or (n, k), optional
            What the policy does there, where values of actions were learnt and there is no
            ``policy``.
        probabilities : array-like of shape (n, actions), optional
            The same as probabilities of the actions.
        return_std : bool, default=False
            Whether to return standard errors beside them.

        Returns
        -------
        ndarray of shape (n,), or two of them
        """
        with_errors = flag("return_std", return_std)
        at = self._states(states), *self._choice(states, actions, probabilities)
        values = self._model.value(*at, n_jobs=self.n_jobs)
        if not with_errors:
            return values  # type: ignore[no-any-return]
        return values, self._model.standard_errors(*at, n_jobs=self.n_jobs)

    def action_value(self, states: ArrayLike, actions: ArrayLike) -> NDArray[np.float64]:
        """Return values of actions, ``Q(s, a)``, where they were learnt.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.
        actions : array-like of shape (n,) or (n, k)
            An action at each.

        Returns
        -------
        ndarray of shape (n,)
        """
        rows = self._states(states)
        if self._arguments == "state":
            raise InvalidInput(
                "values of states were learnt, not of actions: fit with policy, next_actions or"
                " next_action_probabilities"
            )
        taken = table_of("actions", actions)
        values: NDArray[np.float64] = self._model.value(rows, taken, n_jobs=self.n_jobs)
        return values

    def estimate(
        self,
        initial_states: ArrayLike | None = None,
        *,
        actions: ArrayLike | None = None,
        probabilities: ArrayLike | None = None,
        confidence: float = 0.9,
    ) -> PolicyValue:
        """Return the mean value where episodes begin, with a bootstrap interval.

        Parameters
        ----------
        initial_states : array-like of shape (m,) or (m, d), optional
            A sample of the states that episodes begin with, which is drawn anew in every bootstrap
            sample: where it is few or a grid, repeat its rows for an interval that is of the log
            alone. Methods that look at whole episodes know where those of the log begin, and take
            none.
        actions, probabilities : array-like, optional
            What the policy does there, as in :meth:`value`.
        confidence : float, default=0.9
            The share of logs whose interval should hold the value.

        Returns
        -------
        PolicyValue
        """
        check_is_fitted(self)
        level = number("confidence", confidence)
        at: tuple[Any, ...] = ()
        if initial_states is not None:
            if self.method in _OF_EPISODES:
                raise InvalidInput(
                    f"initial_states: method = {self.method!r} knows where the episodes of the log"
                    " begin, and has its value there alone; give none"
                )
            rows = self._states(initial_states, "initial_states")
            at = rows, *self._choice(initial_states, actions, probabilities)
        value, low, high = self._model.estimate(*at, confidence=level, n_jobs=self.n_jobs)
        return PolicyValue(value, low, high, level)

    def plot(
        self,
        states: ArrayLike | None = None,
        columns: tuple[int, int] = (0, 1),
        path: str | os.PathLike[str] | None = None,
        *,
        resolution: int = 64,
    ) -> Any:
        """Draw the value over one or two columns of the states, or how it was learnt.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d), optional
            States whose range is drawn; other columns are at their median. Of states of one column
            the value is a curve through at most 1,024 of them, with a band of two standard errors
            where these are known. Without states the convergence of a method that takes steps is
            drawn: its objective, ``history_``.
        columns : pair of int, default=(0, 1)
            The columns of states that have several.
        path : path, optional
            Where to write the picture; the figure is returned in any case.
        resolution : int, default=64
            Values along each side of a plane.

        Returns
        -------
        matplotlib.figure.Figure
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise InvalidInput("plot needs Matplotlib: pip install matplotlib") from None
        figure = Figure(layout="constrained")
        axes = figure.subplots()
        if states is None:
            self._draw_convergence(axes)
        else:
            self._draw_value(figure, axes, states, columns, resolution)
        if path is not None:
            figure.savefig(path)
        return figure

    def _draw_convergence(self, axes: Any) -> None:
        check_is_fitted(self)
        if not self.history_:
            raise InvalidInput(
                f"method = {self.method!r} is solved at once and has no steps to draw: give states,"
                " to draw the value"
            )
        axes.plot(*zip(*self.history_, strict=True))
        axes.set(xlabel="steps", ylabel="objective")

    def _draw_value(
        self, figure: Any, axes: Any, states: ArrayLike, columns: Any, resolution: int
    ) -> None:
        rows = np.asarray(self._states(states), dtype=np.float64)
        names = getattr(self, "feature_names_in_", [f"state {k}" for k in range(rows.shape[1])])
        if rows.shape[1] == 1 and tuple(columns) == (0, 1):
            self._draw_curve(axes, states, rows[:, 0])
            axes.set(xlabel=names[0], ylabel="value")
            return
        side = count("resolution", resolution, 2)
        x, y = (count("columns", column) for column in columns)
        if x == y or max(x, y) >= rows.shape[1]:
            raise InvalidInput(f"columns = {columns} should be two of the {rows.shape[1]} columns")
        ends = [np.linspace(rows[:, k].min(), rows[:, k].max(), side) for k in (x, y)]
        grid = np.tile(np.median(rows, axis=0), (side * side, 1))
        grid[:, x], grid[:, y] = (axis.ravel() for axis in np.meshgrid(*ends))
        values = np.reshape(self.value(grid), (side, side))
        figure.colorbar(axes.pcolormesh(*ends, values, shading="gouraud"), label="value")
        axes.set(xlabel=names[x], ylabel=names[y])

    def _draw_curve(self, axes: Any, states: ArrayLike, column: NDArray[np.float64]) -> None:
        x, places = np.unique(column, return_index=True)
        some = np.unique(np.linspace(0, len(x) - 1, _POINTS).astype(np.intp))
        x, at = x[some], _safe_indexing(states, places[some])  # as they were given, for the policy
        values = np.asarray(self.value(at))
        axes.plot(x, values)
        try:
            errors = np.asarray(self.value(at, return_std=True)[1])
        except InvalidInput:  # of values in a space that has none
            return
        axes.fill_between(x, values - 2 * errors, values + 2 * errors, alpha=0.3, linewidth=0)

    def _take(
        self,
        learn: Callable[..., Evaluation],
        states: Any,
        *,
        weights: ArrayLike | None,
        next_actions: ArrayLike | None,
        next_action_probabilities: ArrayLike | None,
        **arrays: Any,
    ) -> "PolicyEvaluator":
        """Learn from transitions, or from a data set of them."""
        states, arrays = log_of(states, arrays, ("rewards", "next_states", "terminals"))
        ends, cut = ends_of(arrays["terminals"], arrays["truncations"])
        following = self._following(
            arrays["actions"], arrays["next_states"], next_actions, next_action_probabilities
        )
        of_actions = not following.keys().isdisjoint(("next_actions", "next_action_probabilities"))
        if weights is not None and of_actions and self.method not in _OF_EPISODES:
            raise InvalidInput(
                f"weights would not be used by method = {self.method!r}: from what the policy does"
                " at next_states values of actions are learnt, which need none. Give no weights; or"
                " give them without policy, next_actions and next_action_probabilities, to learn"
                " values of states"
            )
        evaluation = self._learn(
            states,
            sample_weights(arrays["rewards"], "rewards"),
            arrays["next_states"],
            ends,
            without=("policy",),
            settings={},
            table="next_actions" not in following,
            learn=learn,
            truncations=cut,
            weights=sample_weights(weights, "weights"),
            **following,
        )
        return self._fitted(evaluation)

    def _fitted(self, model: Evaluation) -> "PolicyEvaluator":
        super()._fitted(model)
        self.history_ = model.summary()["history"]
        return self

    def _following(
        self,
        actions: ArrayLike | None,
        next_states: Any,
        next_actions: ArrayLike | None,
        probabilities: ArrayLike | None,
    ) -> dict[str, Any]:
        """Return actions and what the policy does after each transition, where that is known."""
        if next_actions is not None and probabilities is not None:
            raise InvalidInput("give next_actions or next_action_probabilities, not both")
        taken = None if actions is None else table_of("actions", actions)
        following = {} if taken is None else {"actions": taken}
        name = "next_actions" if probabilities is None else "next_action_probabilities"
        if next_actions is None and probabilities is None:
            if self.policy is None:
                return following
            name, answer = "policy", self._asked(next_states)
            # One column cannot stand beside several: these are probabilities.
            if _are_several(answer) and taken is not None and taken.shape[1] == 1:
                probabilities = answer
            else:
                next_actions = answer
        if taken is None:
            raise InvalidInput(f"actions is missing: {name} is for values of actions")
        if probabilities is not None:
            shares = probabilities_of(name, probabilities)
            # Floats too, as tables have them whose columns had missing values once.
            check_numbered(taken, shares.shape[1], name)
            following["next_action_probabilities"] = shares
        elif next_actions is not None and are_numbered(actions):
            following["next_action_probabilities"] = certain(name, next_actions, taken)
        elif next_actions is not None:
            following["next_actions"] = table_of(name, next_actions)
            found, expected = following["next_actions"].shape[1], taken.shape[1]
            if found != expected:
                raise InvalidInput(
                    f"{name}: actions of {found} columns, those of the log {expected}"
                )
        return following

    def _choice(
        self, states: Any, actions: ArrayLike | None, probabilities: ArrayLike | None
    ) -> tuple[NDArray[Any] | None, NDArray[np.float32] | None]:
        """Return what is done at states, as actions or as probabilities."""
        if actions is not None and probabilities is not None:
            raise InvalidInput("give actions or probabilities, not both")
        name = ""
        if actions is None and probabilities is None and self._arguments != "state":
            if self.policy is None:
                raise InvalidInput(
                    "values of actions were learnt: give actions or probabilities of the policy at"
                    " these states, or set policy, which a file does not hold"
                )
            name, answer = "policy", self._asked(states)
            if "one_of" in self._arguments and _are_several(answer):
                probabilities = answer
            else:
                actions = answer
        if probabilities is None:
            return None if actions is None else table_of(name or "actions", actions), None
        shares = probabilities_of(name or "probabilities", probabilities)
        if "one_of" in self._arguments and shares.shape[1] != self._arguments["one_of"]:
            raise InvalidInput(
                f"{name or 'probabilities'}: expected a probability for each of"
                f" {self._arguments['one_of']} actions, found {shares.shape[1]}"
            )
        return None, shares

    def _asked(self, states: Any) -> NDArray[Any]:
        """Return what the policy answers, an action or a row for each state."""
        if not callable(self.policy):
            raise InvalidInput("policy should be a function of states, or None")
        given = states if hasattr(states, "shape") else np.asarray(states)
        answer = np.asarray(self.policy(given))
        if answer.shape[:1] != given.shape[:1]:
            raise InvalidInput(
                f"policy returned an array of shape {answer.shape} for {given.shape[0]} states; it"
                " should return an action, or the probabilities of all, for each of them"
            )
        return answer

    def _note(self) -> dict[str, Any]:
        note = super()._note()
        del note["parameters"]["policy"]
        return note

    def _read_task(self, model: Any, note: dict[str, Any]) -> None:
        super()._read_task(model, note)
        if "parameters" not in note:  # of the command line
            summary = model.summary()
            self.set_params(method=summary["method"], discount=summary["discount"])


def _are_several(answer: NDArray[Any]) -> bool:
    """Whether a policy answered in several columns."""
    return answer.ndim == 2 and answer.shape[1] > 1
