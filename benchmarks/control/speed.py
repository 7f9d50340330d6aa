"""Seconds: an update beside the same in NumPy, and the time to swing a pendulum up.

    python benchmarks/control/speed.py update --repeats 10 --iterations 1
    python benchmarks/control/speed.py pendulum --learner riesz --seed 0
    python benchmarks/control/speed.py pendulum --learner SAC --seed 0

`update`: iterations over 20,000 steps of ten environments with three columns and one action, with
128 features for each of policy, V and ρ, which are computed anew; riesz and NumPy take turns in the
same process, with the same number of threads. NumPy has one damping, riesz chooses among five. The
seconds of the processor tell more than those of the clock where the machine has other work.
`pendulum`: clock seconds until the mean of an evaluation over ten episodes reaches −200, evaluated
every 5,000 steps, evaluations not counted. One JSON object per measurement is appended to `--out`.
"""

from __future__ import annotations

import argparse
import os
import time
from datetime import date
from pathlib import Path
from typing import Any

STEPS, LANES = 20_000, 10
GOAL = -200.0


def update(options: Any) -> dict[str, Any]:
    """Median milliseconds of an update, by turns."""
    import numpy as np
    from riesz import SBEED

    from numpy_reference import Settings, Update

    rng = np.random.default_rng(0)
    shape = (LANES, STEPS // LANES)
    states = rng.standard_normal((*shape, 3)).astype(np.float32)
    beyond = rng.standard_normal((LANES, 3)).astype(np.float32)
    actions, rewards = rng.normal(0, 0.6, shape), rng.standard_normal(shape)
    log = -0.5 * (actions / np.exp(-0.5)) ** 2 + 0.5 - 0.5 * np.log(2 * np.pi)
    s = Settings(iterations=options.iterations)
    model = SBEED(
        "RbfPolicy", "Pendulum-v1", seed=0, n_features=128, buffer_size=STEPS, n_envs=LANES,
        divergence=s.divergence, temperature=s.temperature, iterations=s.iterations,
        n_jobs=options.threads,
    )  # fmt: skip
    following = np.concatenate([states[:, 1:], beyond[:, None]], axis=1)
    ends = np.zeros(STEPS, dtype=bool)
    model._agent.observe(
        np.repeat(np.arange(LANES), STEPS // LANES).tolist(),
        states.reshape(-1, 3), actions.reshape(-1, 1), log.ravel(), rewards.ravel(),
        following.reshape(-1, 3), ends, ends,
    )  # fmt: skip
    reference = Update(s, 3, 0)
    both = {
        "riesz": lambda: model._agent.learn(0.0, n_jobs=options.threads),
        "numpy": lambda: reference(states, beyond, actions, rewards, log),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in both}
    for _ in range(options.repeats + 1):
        for name, call in both.items():
            start = time.perf_counter(), time.process_time()
            call()
            found[name].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    row = {"what": "update", "steps": STEPS, "features": s.features, "iterations": s.iterations}
    for name, times in found.items():
        # The first of each makes threads and features.
        clock, processor = 1e3 * np.array(times[1:]).T
        row[name] = {
            "clock_ms": round(float(np.median(clock)), 2),
            "least_clock_ms": round(float(clock.min()), 2),
            "cpu_ms": round(float(np.median(processor)), 2),
        }
    return row | {"threads": options.threads, "repeats": options.repeats}


def pendulum(options: Any) -> dict[str, Any]:
    """Seconds until the goal is reached."""
    import tasks

    watch = tasks.Watch("Pendulum-v1", 5_000 * tasks.EVALUATIONS, lambda point: True)
    settings: dict[str, Any] = {"n_jobs": options.threads}
    if options.learner != "riesz":
        settings = {"gamma": 0.99}

    def told(model: Any) -> bool:
        found = watch(model)
        return found is None or found["return"] < GOAL

    folder = Path(options.scratch)
    tasks.LEARNERS[options.learner](
        "Pendulum-v1", options.steps, options.seed, told, folder, **settings
    )
    last = watch.rows[-1]
    row = {"what": "pendulum", "learner": options.learner, "seed": options.seed}
    return row | {"reached": last["return"] >= GOAL, "threads": options.threads} | last


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("what", choices=["update", "pendulum"])
    add("--threads", type=int, default=2)
    add("--repeats", type=int, default=10)
    add("--iterations", type=int, default=3, help="of an update")
    add("--learner", default="riesz", choices=["riesz", "SAC", "TRPO", "DDPG"])
    add("--seed", type=int, default=0)
    add("--steps", type=int, default=100_000, help="most steps to the goal")
    add("--scratch", default="benchmarks/control/results/unfinished")
    add("--out", type=Path, default=Path(__file__).parent / f"results/{date.today()}-speed.jsonl")
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    import tasks

    row = {"update": update, "pendulum": pendulum}[options.what](options)
    print(row)
    tasks.append(options.out, row)


if __name__ == "__main__":
    main()
