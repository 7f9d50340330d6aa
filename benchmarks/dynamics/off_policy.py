"""Off-policy evaluation on random finite processes, beside d3rlpy's FQE and SCOPE-RL's estimators.

    python benchmarks/dynamics/off_policy.py --processes 200 --estimators riesz scope-rl numpy
    python benchmarks/dynamics/off_policy.py --processes 20 --estimators d3rlpy
    python benchmarks/dynamics/off_policy.py --intervals --estimators numpy

Each process has its own states, actions, discount and policies (`finite.draw`); its log has
`--episodes` episodes of the behaviour policy, all cut off after `--horizon` steps, which ends no
process. The truth is the target policy's discounted value over the law of initial states, from a
linear solve. Estimators see the same log, the target policy and the behaviour policy's
probabilities.

- `riesz`: `PolicyEvaluator` by each of its methods, on a table of states;
- `numpy`: the empirical process and LSTD, with intervals from the sandwich (`finite`);
- `d3rlpy`: DiscreteFQE on one-hot states, one hidden layer. It asks an algorithm for the next
  action, so the target policy samples it. Each episode carries its last state, without which
  d3rlpy drops the last transition of an episode that was cut off;
- `scope-rl`: its estimators. They sum rewards to the horizon, so two rows each: as they are, and
  `+ tail`, where the last reward of an episode has gamma V(last state) added. Q and V come from
  the table (`numpy`'s); with d3rlpy among the estimators DM, DR and SNDR on its Q follow as well.

Intervals are at 90 %. `--intervals` compares constructions for the tabular estimates instead. One
JSON object per process is appended to `--out`: for each estimator its value, low, high, and seconds
of clock and processor, or why it failed. The table gives root mean square error, bias, coverage and
processor seconds; `--read` makes it from files instead, of the processes that are in all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import finite  # noqa: E402

Row = dict[str, Any]
Estimate = tuple[float, float | None, float | None]
Named = tuple[str, list[float | None] | str]  # value, low, high, clock, processor; or a failure

OF_EPISODES = ("importance_sampling", "per_decision", "weighted_per_decision", "doubly_robust")
RIESZ = (
    "dual_embedding", "lstd", "fitted_q", "td", "gtd2", "residual_gradient", "kernel_mdp",
    *OF_EPISODES,
)  # fmt: skip
SCOPE_RL = {
    "TIS": "TrajectoryWiseImportanceSampling",
    "PDIS": "PerDecisionImportanceSampling",
    "SNTIS": "SelfNormalizedTIS",
    "SNPDIS": "SelfNormalizedPDIS",
    "DM": "DirectMethod",
    "DR": "DoublyRobust",
    "SNDR": "SelfNormalizedDR",
}


def timed(name: str, call: Callable[[], Estimate]) -> Named:
    """What a call found and its seconds; a failure is recorded, not hidden."""
    start = time.perf_counter(), time.process_time()
    try:
        found = call()
    except Exception as error:
        return name, f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start[0], time.process_time() - start[1]
    return name, [None if x is None else float(f"{x:.6g}") for x in (*found, *seconds)]


# --- riesz ----------------------------------------------------------------------------------------


def riesz(process: finite.Process, log: finite.Log, seed: int, options: Any) -> Iterator[Named]:
    """Every method of `PolicyEvaluator`."""
    from riesz import PolicyEvaluator

    episodes, horizon = log.states.shape
    ends = np.zeros((episodes, horizon), dtype=bool)
    ends[:, -1] = True
    weights = (process.target / process.behaviour)[log.states, log.actions]
    flat = [column.ravel() for column in log]

    def estimate(method: str) -> Estimate:
        model = PolicyEvaluator(
            method=method, features="table", discount=process.discount, random_state=seed
        ).fit(
            *flat,
            np.zeros(ends.size, dtype=bool),
            truncations=ends.ravel(),
            # The others learn values of actions, which need none.
            weights=weights.ravel() if method in OF_EPISODES else None,
            next_action_probabilities=process.target[log.following.ravel()],
        )
        starts = log.states[:, 0]
        begin = () if method in OF_EPISODES else (starts,)
        chances = None if method in OF_EPISODES else process.target[starts]
        found = model.estimate(*begin, probabilities=chances, confidence=0.9)
        return found.value, found.low, found.high

    for method in options.methods:
        yield timed(f"riesz {method}", lambda method=method: estimate(method))


# --- tabular --------------------------------------------------------------------------------------


def tabular(process: finite.Process, log: finite.Log, seed: int, options: Any) -> Iterator[Named]:
    """The empirical process and LSTD, or all constructions of their intervals."""

    def sandwich(method: str) -> Estimate:
        fit = finite.METHODS[method](process, log)
        margin = 1.6448536 * finite.deviation(fit)
        return fit.estimate, fit.estimate - margin, fit.estimate + margin

    for method in finite.METHODS:
        if not options.intervals:
            yield timed(f"numpy {method}, sandwich", lambda method=method: sandwich(method))
            continue
        rng = np.random.default_rng([seed, 2])
        found = finite.intervals(process, log, method, rng, options.resamples)
        for construction, interval in found.items():
            yield timed(f"numpy {method}, {construction}", lambda interval=interval: interval)


# --- SCOPE-RL -------------------------------------------------------------------------------------


def scope_rl(process: finite.Process, log: finite.Log, seed: int, options: Any) -> Iterator[Named]:
    """Its estimators on the tabular Q."""
    fit = finite.plug_in(process, log)
    yield from _scope_rl(process, log, seed, options, fit.action_value, "tabular Q", SCOPE_RL)


def _scope_rl(
    process: finite.Process,
    log: finite.Log,
    seed: int,
    options: Any,
    q: Any,
    source: str,
    names: Any,
) -> Iterator[Named]:
    from scope_rl.ope import discrete

    horizon = log.states.shape[1]
    states, actions = log.states.ravel(), log.actions.ravel()
    value = (q * process.target).sum(axis=1)
    tail = log.rewards.copy()
    tail[:, -1] += process.discount * value[log.following[:, -1]]
    common = {
        "step_per_trajectory": horizon,
        "action": actions,
        "pscore": process.behaviour[states, actions],
        "evaluation_policy_action_dist": process.target[states],
        "state_action_value_prediction": q[states],
        "gamma": process.discount,
    }

    def estimate(name: str, rewards: Any) -> Estimate:
        model = getattr(discrete, SCOPE_RL[name])()
        given = common | {"reward": rewards.ravel()}
        found = model.estimate_interval(
            **given, alpha=0.1, n_bootstrap_samples=options.resamples, random_state=seed
        )
        low, high = (found[f"90.0% CI ({side})"] for side in ("lower", "upper"))
        return float(model.estimate_policy_value(**given)), float(low), float(high)

    for name in names:
        on = f" on {source}" if name in ("DM", "DR", "SNDR") else ""
        yield timed(f"scope-rl {name}{on}", lambda name=name: estimate(name, log.rewards))
        if name != "DM":
            yield timed(f"scope-rl {name}{on} + tail", lambda name=name: estimate(name, tail))


# --- d3rlpy ---------------------------------------------------------------------------------------


def d3rlpy(process: finite.Process, log: finite.Log, seed: int, options: Any) -> Iterator[Named]:
    """DiscreteFQE, then SCOPE-RL's estimators on its Q where that package is installed."""
    q: Any = None

    def estimate() -> Estimate:
        nonlocal q
        q = fitted_q(process, log, seed, options)
        value = (q * process.target).sum(axis=1)
        return float(value[log.states[:, 0]].mean()), None, None

    yield timed("d3rlpy DiscreteFQE", estimate)
    if q is not None and "scope-rl" in options.estimators:
        names = ("DM", "DR", "SNDR")
        yield from _scope_rl(process, log, seed, options, q, "d3rlpy's Q", names)


def fitted_q(process: finite.Process, log: finite.Log, seed: int, options: Any) -> Any:
    """Q(s, a) over the table, from DiscreteFQE."""
    import d3rlpy as package
    import torch
    from d3rlpy.dataset import MDPDataset
    from d3rlpy.logging import NoopAdapterFactory
    from d3rlpy.models.encoders import VectorEncoderFactory
    from d3rlpy.ope import DiscreteFQE, FQEConfig

    package.seed(seed)
    torch.set_num_threads(1)
    states, actions = process.target.shape
    episodes = len(log.states)
    one_hot = np.eye(states, dtype=np.float32)
    policy = torch.as_tensor(process.target)

    class Target:
        """What FQE asks of an algorithm: the next action, here a sample of the target policy."""

        impl: Any

        def predict_best_action(self, x: Any) -> Any:
            return torch.multinomial(policy[x.argmax(dim=1)], 1)[:, 0]

    target = Target()
    target.impl = target
    places = np.column_stack([log.states, log.following[:, -1]])
    padded = np.zeros((episodes, 1))
    ends = np.zeros(places.shape, dtype=np.float32)
    ends[:, -1] = 1
    with contextlib.redirect_stdout(io.StringIO()):
        data = MDPDataset(
            observations=one_hot[places.ravel()],
            actions=np.hstack([log.actions, padded.astype(int)]).reshape(-1, 1),
            rewards=np.hstack([log.rewards, padded]).astype(np.float32).reshape(-1, 1),
            terminals=np.zeros(ends.size, dtype=np.float32),
            timeouts=ends.ravel(),
            action_space=package.ActionSpace.DISCRETE,
            action_size=actions,
        )
    config = FQEConfig(
        learning_rate=options.rate,
        batch_size=options.batch,
        gamma=process.discount,
        target_update_interval=options.target_interval,
        encoder_factory=VectorEncoderFactory(hidden_units=[64]),
    )
    model = DiscreteFQE(algo=target, config=config)
    with contextlib.redirect_stdout(io.StringIO()):
        model.fit(
            data,
            n_steps=options.steps,
            n_steps_per_epoch=options.steps,
            show_progress=False,
            logger_adapter=NoopAdapterFactory(),
            save_interval=10**9,
        )
    pairs = [model.predict_value(one_hot, np.full(states, action)) for action in range(actions)]
    return np.stack(pairs, axis=1).astype(float)


ESTIMATORS = {"riesz": riesz, "numpy": tabular, "scope-rl": scope_rl, "d3rlpy": d3rlpy}


# --- reporting ------------------------------------------------------------------------------------


def measure(options: Any) -> Iterator[Row]:
    """One row a process."""
    for seed in range(options.first_seed, options.first_seed + options.processes):
        rng = np.random.default_rng(seed)
        process = finite.draw(rng)
        log = finite.record(process, options.episodes, options.horizon, rng)
        states, actions = process.target.shape
        row = {"seed": seed, "states": states, "actions": actions, "discount": process.discount}
        row |= {"episodes": options.episodes, "horizon": options.horizon, "truth": process.truth}
        found = (ESTIMATORS[name](process, log, seed, options) for name in options.estimators)
        yield row | {"estimates": dict(pair for pairs in found for pair in pairs)}


def read(paths: list[Path]) -> list[Row]:
    """Rows of files, joined by process; those that a file lacks are left out."""
    files = [{row["seed"]: row for row in map(json.loads, path.open())} for path in paths]
    rows = []
    for seed in sorted(set.intersection(*map(set, files))):
        parts = [file[seed] for file in files]
        estimates = {name: x for part in parts for name, x in part["estimates"].items()}
        rows.append(parts[0] | {"estimates": estimates})
    return rows


def summary(name: str, rows: list[Row]) -> str:
    """An estimator's line of the table."""
    pairs = [(row["truth"], row["estimates"][name]) for row in rows if name in row["estimates"]]
    good = [(truth, found) for truth, found in pairs if not isinstance(found, str)]
    if not good:
        return f"| {name} | failed: {pairs[0][1]} |"
    errors = np.array([found[0] - truth for truth, found in good])
    cells = [f"{len(good)}", f"{np.sqrt(np.mean(errors**2)):.4f}", f"{errors.mean():+.4f}"]
    bounds = [(truth, *found[1:3]) for truth, found in good if found[1] is not None]
    if bounds:
        cells.append(f"{np.mean([low <= truth <= high for truth, low, high in bounds]):.1%}")
        cells.append(f"{np.mean([high - low for _, low, high in bounds]):.3f}")
    else:
        cells += ["–", "–"]
    cells.append(f"{np.mean([found[4] for _, found in good]):.3f}")
    return f"| {name} | " + " | ".join(cells) + " |"


def table(rows: list[Row]) -> str:
    """Errors, coverage and seconds by estimator."""
    names = dict.fromkeys(name for row in rows for name in row["estimates"])
    lines = [
        "| estimator | processes | RMSE | bias | 90 % covers | mean width | CPU s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join(lines + [summary(name, rows) for name in names])


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--processes", type=int, default=200)
    add("--first-seed", type=int, default=0)
    add("--episodes", type=int, default=300)
    add("--horizon", type=int, default=30)
    add("--estimators", nargs="*", default=["riesz", "numpy", "scope-rl"], choices=list(ESTIMATORS))
    add("--methods", nargs="*", default=list(RIESZ), help="of riesz")
    add("--intervals", action="store_true", help="constructions of the tabular intervals")
    add("--resamples", type=int, default=200, help="of the bootstraps")
    add("--steps", type=int, default=3000, help="of d3rlpy")
    add("--batch", type=int, default=100, help="of d3rlpy")
    add("--rate", type=float, default=1e-3, help="of d3rlpy")
    add("--target-interval", type=int, default=30, help="of d3rlpy")
    add("--read", nargs="*", type=Path, help="make the table from these files")
    add("--out", type=Path, help="append raw rows here")
    options = parser.parse_args()
    if options.read:
        print(table(read(options.read)))
        return
    warnings.simplefilter("ignore")
    rows = []
    for row in measure(options):
        rows.append(row)
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
