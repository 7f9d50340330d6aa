"""Control by smoothed Bellman error embedding."""

import json
import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riesz._arguments import count, flag, level, seed_of, shown
from riesz._errors import InvalidInput
from riesz._learning import Learning
from riesz._riesz import Agent
from riesz._spaces import as_actions, is_one, rows_of
from riesz._transitions import ends_of, finite_of, logged, same_rows, table_of


class SBEED(Learning):
    """A policy for a Gymnasium environment, by smoothed Bellman error embedding.

    SBEED looks for the value function V and the policy that satisfy the entropy-smoothed Bellman
    equation ``V(s) = R(s, a) + gamma E[V(s')] - temperature log pi(a|s)`` for every state and
    action, so that steps of any policy can be learnt from, by ``min over V, pi of max over rho of
    E[(delta - V(s))^2] - dual_weight E[(delta - rho(s, a))^2]`` with
    ``delta = R + gamma V(s') - temperature log pi(a|s)``. The methods are those that users of
    Stable-Baselines3 know, and its `evaluate_policy` and callbacks work with it.

    Parameters
    ----------
    policy : {"RbfPolicy", "MlpPolicy"}
        Whether policy, V and rho are linear in random Fourier features and the columns of the
        state, or networks of two tanh layers of 64.
    env : str, gymnasium.Env, gymnasium.vector.VectorEnv, callable or None
        The environment: a name or a function, of which `n_envs` are made; an environment, or a
        vector of them, Stable-Baselines3's too; or None, to learn from logged steps with
        :meth:`fit`.
    gamma : float, optional
        The discount; 0.99.
    window : int, optional
        Steps that delta looks ahead; 200.
    trace : float, optional
        Weight of eligibility traces within a window, 0.95; 1 is the form of so many steps.
    temperature : float, optional
        The weight of the entropy, in units of the deviation of the return; 0.001.
    dual_weight : float, optional
        How much of the variance of delta the dual function rho takes away, from 0 (path
        consistency learning) to 1 (exact, also where transitions are random); 0.1.
    n_steps : int, optional
        Steps of each environment between two updates; 2,000 of all environments together.
    n_envs : int, default=10
        Environments that are made where `env` is a name or a function.
    staggered : bool, optional
        Whether environments that are made here, and have a time limit, break their first episodes
        off at different times, so that not all episodes begin together for good. True, but not as
        published.
    buffer_size : int, optional
        Steps that are remembered; 4,000, or those of two updates where they are more. As many as
        one update collects (2,000, or `n_envs` times `n_steps`) is the on-policy variant.
    iterations : int, optional
        Iterations of an update: V, rho, and a step of the policy; 2.
    divergence : float or (float, float), optional
        How far a step of the policy may go, in Kullback-Leibler divergence; from the first number
        at the start of learning to the second at its end; (0.01, 0.001).
    policy_step : float, optional
        A fixed number of natural gradients in place of `divergence`, as published.
    most_ratio : float, optional
        The most that a step counts for being likelier under the policy than when it was taken; 2.
    log_std : (float, float, float), optional
        Logarithm of the standard deviation of actions at first, and its bounds, in units in which
        the bounds of actions are -1 and 1; (-0.5, -1.5, 0).
    last_log_std : float, optional
        Where its upper bound ends, falling evenly in the course of learning; -1.5. Not as
        published, where it stays.
    n_features : int or (int, int, int), optional
        Random features of policy, V and rho, multiples of 64; (128, 192, 128).
    damping : float, optional
        Added to the Fisher information of the policy; 0.001. In the stabilised form a Gaussian
        policy on features takes, unless given, the largest of five numbers from 0.001 to 10 whose
        steps, by the other half of the data, gain within 5 % of the best.
    learning_rate : float, optional
        Adam's, for networks and moving targets; 0.001.
    dual_actions : {"first", "window"}, optional
        Whether rho looks at the first action of a window (the default), which is exact, or at all,
        as published.
    score : {"first", "window"}, optional
        Whether the policy answers for the first action of a window (the default), or for all, as
        published.
    target : {"frozen", "moving", "saddle"}, optional
        Whether V is regressed on delta with V(s') as it was (the default), follows the published
        gradient, or is solved for at the saddle point.
    normalize : bool or (bool, bool), default=True
        Whether observations are standardised, and rewards divided by the deviation of the return.
    form : {"stabilised", "published"}, default="stabilised"
        Which settings those not given are: the recipe that was measured best, which are the numbers
        above, or the thesis's.
    seed : int, optional
        The seed of everything; random unless given.
    tensorboard_log : path, optional
        A folder for TensorBoard, which must be installed.
    n_jobs : int, optional
        Threads; all cores unless given.
    verbose : int, default=0
        1 prints a table after every tenth update, 2 after every one.

    Attributes
    ----------
    num_timesteps : int
        Steps taken so far.
    observation_space, action_space : gymnasium.spaces.Space
        Those of the environment.
    episodes_ : list of (int, float, int)
        Steps so far, return and length of every finished episode of the last `learn`.

    Examples
    --------
    >>> from riesz import SBEED
    >>> model = SBEED("RbfPolicy", "CartPole-v1", seed=0).learn(4_000)
    >>> action, _ = model.predict([0.0, 0.0, 0.1, 0.0], deterministic=True)
    >>> int(action)
    1
    """

    def __init__(
        self,
        policy: str,
        env: Any,
        *,
        gamma: float | None = None,
        window: int | None = None,
        trace: float | None = None,
        temperature: float | None = None,
        dual_weight: float | None = None,
        n_steps: int | None = None,
        n_envs: int = 10,
        staggered: bool | None = None,
        buffer_size: int | None = None,
        iterations: int | None = None,
        divergence: float | tuple[float, float] | None = None,
        policy_step: float | None = None,
        most_ratio: float | None = None,
        log_std: tuple[float, float, float] | None = None,
        last_log_std: float | None = None,
        n_features: int | tuple[int, int, int] | None = None,
        damping: float | None = None,
        learning_rate: float | None = None,
        dual_actions: str | None = None,
        score: str | None = None,
        target: str | None = None,
        normalize: bool | tuple[bool, bool] = True,
        form: str = "stabilised",
        seed: int | None = None,
        tensorboard_log: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        given = dict(locals())
        for name in ("self", "env", "tensorboard_log", "n_jobs", "verbose", "seed"):
            del given[name]
        self.verbose = level("verbose", verbose)
        self.n_jobs = n_jobs
        self.tensorboard_log = tensorboard_log
        self._begin(given, seed_of(seed, "seed"))
        if env is not None:
            self.set_env(env)

    def predict(
        self,
        observation: ArrayLike,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """Return actions for one observation or a batch, and the `state` as it was given.

        Parameters
        ----------
        observation : array-like
            An observation of the space, or several along a first axis.
        state, episode_start : object, optional
            Those of recurrent policies, which this is not.
        deterministic : bool, default=False
            Whether the likeliest action is taken in place of a draw.
        """
        agent = self._known()
        rows = rows_of(self.observation_space, observation)
        draw = None
        if not flag("deterministic", deterministic):
            draw, self._predictions = self._predictions, self._predictions + 1
        actions = as_actions(self.action_space, agent.predict(rows, draw))
        return (actions[0] if is_one(self.observation_space, observation) else actions), state

    def values(self, observations: ArrayLike) -> NDArray[np.float64]:
        """Return V of observations, in the units of the rewards."""
        return self._known().values(rows_of(self.observation_space, observations))

    def fit(
        self,
        states: Any,
        actions: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        next_states: ArrayLike | None = None,
        terminals: ArrayLike | None = None,
        truncations: ArrayLike | None = None,
        *,
        log_probabilities: ArrayLike | None = None,
        updates: int = 100,
    ) -> "SBEED":
        """Learn from logged steps, in their order, without an environment.

        Parameters
        ----------
        states : array-like of shape (n, d), or Minari data set
            Observations; a data set holds all that follows.
        actions : array-like of shape (n,) or (n, p)
            Actions that were taken. Where no environment says what they are, integers of shape (n,)
            are numbers of actions, 0, 1, 2, ...; others are quantities.
        rewards : array-like of shape (n,)
            Rewards.
        next_states : array-like of shape (n, d)
            Observations that followed.
        terminals : array-like of bool of shape (n,)
            Whether the task ended there, after which nothing is earned.
        truncations : array-like of bool of shape (n,), optional
            Whether the log breaks off there without the task's end, as at a time limit; where
            ``terminals`` is true too, the task ended.
        log_probabilities : array-like of shape (n,), optional
            Logarithms of the probabilities of the actions under the policy that took them; of
            quantities, of their densities, in units in which the bounds of actions are -1 and 1.
        updates : int, default=100
            Updates, each of `iterations` iterations over all steps that `buffer_size` has room for;
            unless given and without an environment, it has room for all.

        Returns
        -------
        self
        """
        if hasattr(states, "iterate_episodes"):
            log = logged(states)
            return self.fit(**log, log_probabilities=log_probabilities, updates=updates)
        every = count("updates", updates, 1)
        space = self.observation_space if self._agent is not None else _columns_of(states)
        rows, following = (
            rows_of(space, _given(name, values), name)
            for name, values in (("states", states), ("next_states", next_states))
        )
        taken = table_of("actions", _given("actions", actions)).astype(np.float64)
        earned = finite_of("rewards", _given("rewards", rewards))
        ends, breaks = ends_of(_given("terminals", terminals), truncations)
        cut = np.zeros_like(ends) if breaks is None else breaks
        columns: dict[str, NDArray[Any]] = {
            "next_states": following,
            "actions": taken,
            "rewards": earned,
        }
        columns |= {"terminals": ends, "truncations": cut}
        logs = None
        if log_probabilities is not None:
            logs = columns["log_probabilities"] = finite_of("log_probabilities", log_probabilities)
        for name, column in columns.items():
            same_rows(name, column, rows)
        if self._agent is None:
            actions_space = _actions_of(np.asarray(actions), taken)
            _check_logarithms(actions_space, logs)
            self._changes.setdefault("capacity", len(rows))
            self._set_spaces(space, actions_space, 1)
        else:
            _check_logarithms(self.action_space, logs)
        agent = self._known()
        # Each environment has an equal part of the memory: so it has of the log.
        lanes = agent.summary()["environments"]
        owners = [i * lanes // len(rows) for i in range(len(rows))]
        drawn = agent.drawn(np.ascontiguousarray(taken))
        agent.break_off()
        agent.observe(owners, rows, drawn, logs, earned, following, ends, cut)
        self._observations = None
        for update in range(every):
            agent.learn((update + 1) / every, n_jobs=self.n_jobs)
        return self

    def save(self, path: str | os.PathLike[str], *, replay: bool = False) -> None:
        """Write the model to a file.

        Parameters
        ----------
        path : path
            The file; it is written atomically.
        replay : bool, default=False
            Whether the steps that the model remembers are part of it, as learning goes on with.
        """
        agent = self._known()
        kept = agent if flag("replay", replay) else agent.without_replay()
        kept.save(path, json.dumps(self._note(self.num_timesteps)))

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None) -> "SBEED":
        """Read a model from a file; nothing in the file is executed.

        Parameters
        ----------
        path : path
            A file written by :meth:`save`, or a checkpoint.
        env : environment, optional
            To go on learning in.
        """
        agent, text = Agent.load(path)
        model = cls.__new__(cls)
        try:
            model._restore(agent, json.loads(text))
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"not a valid riesz file: {path}: {error!r}") from None
        if env is not None:
            model.set_env(env)
        return model

    def _restore(self, agent: Agent | None, note: dict[str, Any]) -> None:
        self._begin(note["parameters"], int(note["seed"]))
        if agent is not None:
            self._take(agent, note)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the environments."""
        local = {name: getattr(self, name) for name in _LOCAL}
        if self._agent is None:
            return {"note": {"parameters": self._given, "seed": self.seed}, "local": local}
        note = self._note(self.num_timesteps)
        return {"agent": self._agent.to_bytes(), "note": note, "local": local}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["local"])
        agent = Agent.from_bytes(state["agent"]) if "agent" in state else None
        self._restore(agent, state["note"])


# Values of actions that are rather numbers of actions than quantities, at most.
_FEW = 32
# What the logarithm of a probability of one may be above zero.
_ROUNDING = 1e-5
# How it is worked, which is no part of a file.
_LOCAL = ("n_jobs", "tensorboard_log", "verbose")


def _given(name: str, values: Any) -> Any:
    if values is None:
        raise InvalidInput(f"{name} is missing: logged steps have one for every row")
    return values


def _columns_of(states: Any) -> Any:
    """Return the space of logged observations."""
    from gymnasium import spaces

    table_of("states", _given("states", states))
    return spaces.Box(-np.inf, np.inf, np.shape(states)[1:], dtype=np.float32)


def _check_logarithms(actions: Any, logs: NDArray[np.float64] | None) -> None:
    """Refuse what no probability of an action that is one of several has as its logarithm."""
    from gymnasium import spaces

    if logs is None or not isinstance(actions, spaces.Discrete) or (logs <= _ROUNDING).all():
        return
    row = int((logs > _ROUNDING).argmax())
    raise InvalidInput(
        f"log_probabilities contains {logs[row]:g} at row {row}, and logarithms of probabilities"
        " are zero at most: give np.log(probabilities)"
    )


def _actions_of(actions: NDArray[Any], taken: NDArray[np.float64]) -> Any:
    """Return the space of logged actions."""
    from gymnasium import spaces

    if actions.ndim == 1 and actions.dtype.kind in "iub":
        return spaces.Discrete(max(2, int(actions.max()) + 1))
    if taken.shape[1] == 1 and len(found := np.unique(taken)) <= _FEW and (found % 1 == 0).all():
        warnings.warn(
            f"actions are few whole numbers, {shown(found.tolist())}, but {actions.dtype} of shape"
            f" {actions.shape}, and so taken for quantities; for actions that are numbered give the"
            " integers 0, 1, 2, ... in one dimension: np.ravel(actions).astype(int) where they"
            " begin with 0",
            UserWarning,
            stacklevel=3,
        )
    low, high = taken.min(axis=0), taken.max(axis=0)
    return spaces.Box(low, np.maximum(high, low + 1e-6), dtype=np.float64)
