"""A policy from logged transitions, by its values."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from riesz._arguments import count, number, shown
from riesz._documentation import documented
from riesz._errors import InvalidInput
from riesz._evaluated import Evaluated
from riesz._riesz import Evaluation
from riesz._rows import sample_weights
from riesz._transitions import MOST_ACTIONS, ends_of, log_of, numbers_of_actions, table_of


@documented
class PolicyIteration(Evaluated):
    """A policy from logged transitions: evaluated, improved, and so on until it stays the same.

    ``Q(s, a)``, what an action is worth where the policy goes on afterwards, is learnt from the
    log; the policy then takes the action of the largest value, and is evaluated again
    (policy iteration with dual embeddings). Whoever made the log, its transitions serve every
    policy: no weights are needed, but actions that were never tried are never taken.

    Parameters
    ----------
    method : {"dual_embedding", "lstd", "kernel_mdp", "fitted_q"}, default="dual_embedding"
        How values are found, as in :class:`PolicyEvaluator`.
    discount : float, default=0.99
        The discount of rewards; one where episodes end.
    $value_function
    exploration : float, default=0.0
        How often the policy takes an action at random, whichever is best.
    n_actions : int, optional
        The number of actions, 0, 1, 2, ...; one more than the largest of the log unless given.
    max_iter : int, default=20
        Most evaluations.
    tol : float, default=0.01
        It ends where the best action has changed after at most this share of the transitions.
    $run
    $verbose

    Attributes
    ----------
    $evaluated
    n_episodes_ : int
        Episodes of the log; transitions where nothing says that one ends.
    n_actions_ : int
        Actions.
    n_iter_ : int
        Evaluations.
    changes_ : list of float
        After each of them, the share of transitions after which another action is best than
        before; the first is one. A last value above ``tol`` says that the policy still changed.

    Notes
    -----
    The policy is greedy for the values of the last evaluation. Where values of two actions are
    closer than what the log can tell, it goes on changing from one evaluation to the next: fitting
    then warns.

    Values flatter a policy that was chosen by the same log: evaluate it on another one,
    ``PolicyEvaluator(policy=iteration.policy)``, before it is relied upon.

    Examples
    --------
    A corridor 0, ..., 4 with a prize at its right end; actions go left and right, and the log
    tried them at random:

    >>> import numpy as np
    >>> from riesz import PolicyIteration
    >>> rng = np.random.default_rng(0)
    >>> states, actions = rng.integers(4, size=2000), rng.integers(2, size=2000)
    >>> after = np.maximum(states + 2 * actions - 1, 0)
    >>> iteration = PolicyIteration(discount=0.9, random_state=0)
    >>> iteration = iteration.fit(states, actions, after == 4, after, after == 4)
    >>> iteration.predict([0, 1, 2, 3])
    array([1, 1, 1, 1])
    >>> iteration.value([0, 1, 2, 3]).round(2)
    array([0.73, 0.81, 0.9 , 1.  ])
    """

    _task = "policy_iteration"

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
        exploration: float = 0.0,
        n_actions: int | None = None,
        max_iter: int = 20,
        tol: float = 0.01,
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
        self.exploration = exploration
        self.n_actions = n_actions
        self.max_iter = max_iter
        self.tol = tol
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
    ) -> "PolicyIteration":
        """Find a policy.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d), or a data set
            States. A data set, anything with ``iterate_episodes``, has all that follows, which is
            then not to be given.
        actions : array-like of whole numbers of shape (n,)
            Actions that were taken, 0, 1, 2, ....
        rewards : array-like of shape (n,)
            Rewards.
        next_states : array-like of shape (n,) or (n, d)
            States that followed.
        terminals : array-like of bool of shape (n,)
            Whether the process ended with the transition: nothing is earned afterwards.
        truncations : array-like of bool of shape (n,), optional
            Whether an episode was cut short after the transition, while the process went on; where
            ``terminals`` is true too, the process ended.

        Returns
        -------
        self
        """
        arrays: dict[str, Any] = {
            "actions": actions,
            "rewards": rewards,
            "next_states": next_states,
            "terminals": terminals,
            "truncations": truncations,
        }
        needed = ("actions", "rewards", "next_states", "terminals")
        states, arrays = log_of(states, arrays, needed)
        taken = numbers_of_actions(arrays["actions"])
        most = int(taken.max(initial=0)) + 1
        if most > MOST_ACTIONS and self.n_actions is None:
            raise InvalidInput(
                f"actions contains {shown(most - 1)} at row {int(taken.argmax())}, and they are"
                f" numbered from 0 to {MOST_ACTIONS - 1} at most; actions that are quantities are"
                " for SBEED"
            )
        ends, cut = ends_of(arrays["terminals"], arrays["truncations"])
        evaluation = self._learn(
            states,
            sample_weights(arrays["rewards"], "rewards"),
            arrays["next_states"],
            ends,
            without=("exploration", "n_actions", "max_iter", "tol"),
            settings={},
            learn=Evaluation.improve,
            actions=table_of("actions", taken),
            truncations=cut,
            n_actions=most if self.n_actions is None else count("n_actions", self.n_actions, 1),
            exploration=number("exploration", self.exploration),
            rounds=count("max_iter", self.max_iter, 1),
            tolerance=number("tol", self.tol),
        )
        self._fitted(evaluation)
        if self.changes_[-1] > self.tol:
            warnings.warn(self._unsettled(), ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, states: ArrayLike) -> NDArray[np.int64]:
        """Return the best action at each state.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.

        Returns
        -------
        ndarray of int of shape (n,)
        """
        rows = self._states(states)
        actions: NDArray[np.int64] = self._model.best_actions(rows, n_jobs=self.n_jobs)
        return actions

    def policy(self, states: ArrayLike) -> NDArray[np.float32]:
        """Return the probabilities of the actions, what ``PolicyEvaluator(policy=...)`` takes.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.

        Returns
        -------
        ndarray of shape (n, n_actions_)
        """
        rows = self._states(states)
        shares: NDArray[np.float32] = self._model.improved_policy(rows, n_jobs=self.n_jobs)
        return shares

    def action_values(self, states: ArrayLike) -> NDArray[np.float64]:
        """Return ``Q(s, a)`` of every action; of one that the log does not have it says nothing.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.

        Returns
        -------
        ndarray of shape (n, n_actions_)
        """
        rows = self._states(states)
        values: NDArray[np.float64] = self._model.action_values(
            rows, self.n_actions_, n_jobs=self.n_jobs
        )
        return values

    def value(self, states: ArrayLike) -> NDArray[np.float64]:
        """Return the value of states: of the best action there, but for exploration.

        What follows that action is worth what the last evaluation found. Where the policy has
        settled, that is its own value.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.

        Returns
        -------
        ndarray of shape (n,)
        """
        values: NDArray[np.float64] = (self.policy(states) * self.action_values(states)).sum(axis=1)
        return values

    def _unsettled(self) -> str:
        """Return what there is to say of a policy that still changed."""
        if self.n_iter_ == 1:
            return (
                "the policy was improved once (max_iter = 1), and nothing says that it would stay"
                " the same: raise max_iter"
            )
        return (
            f"the policy still changed after {self.changes_[-1]:.1%} of the transitions in the last"
            f" of {self.n_iter_} evaluations (max_iter = {self.max_iter}). Raise max_iter where"
            " these shares still fall, see changes_; else values are too noisy to tell actions"
            " apart there: give more transitions, a wider bandwidth or a larger ridge"
        )

    def _fitted(self, model: Any) -> "PolicyIteration":
        super()._fitted(model)
        self.changes_ = model.summary()["changes"]
        if not self.changes_:
            raise InvalidInput("the file holds values of a policy that was given, not sought")
        self.n_iter_ = len(self.changes_)
        self.n_actions_ = self._arguments["one_of"]
        return self
