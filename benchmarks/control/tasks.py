"""The tasks of S1, learners of them, and evaluations on the way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

Row = dict[str, Any]
EVALUATIONS = 20


class Task(NamedTuple):
    """How many steps are learnt from and at which discount."""

    steps: int
    gamma: float


# Discounts as published where 0.99 hides the reward: swimming pays late.
TASKS = {
    "Pendulum-v1": Task(100_000, 0.99),
    "InvertedDoublePendulum-v5": Task(1_000_000, 0.99),
    "Swimmer-v5": Task(1_000_000, 0.995),
    "Hopper-v5": Task(1_000_000, 0.995),
    "HalfCheetah-v5": Task(1_000_000, 0.995),
}
# Tasks whose actions are to be picked, which not every peer can.
DISCRETE = {"CartPole-v1": Task(100_000, 0.99), "Acrobot-v1": Task(100_000, 0.99)}


def evaluate(model: Any, task: str, episodes: int = 10) -> float:
    """The mean return of the deterministic policy over episodes with fixed seeds."""
    env, totals = gymnasium.make(task), []
    for seed in range(episodes):
        seen, total, over = env.reset(seed=10_000 + seed)[0], 0.0, False
        while not over:
            action, _ = model.predict(seen, deterministic=True)
            seen, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        totals.append(total)
    env.close()
    return float(np.mean(totals))


class Watch:
    """Evaluates every 5 % of the steps; the seconds of evaluation do not count."""

    def __init__(self, task: str, steps: int, wanted: Callable[[int], bool]) -> None:  # noqa: D107
        self._task, self._every, self._wanted = task, steps // EVALUATIONS, wanted
        self._start = time.perf_counter(), time.process_time()
        self.rows: list[Row] = []

    def __call__(self, model: Any) -> Row | None:
        """Evaluate where that is due and not known; return what was found."""
        point = model.num_timesteps // self._every
        if point == 0 or not self._wanted(point) or any(r["point"] == point for r in self.rows):
            return None
        now = time.perf_counter(), time.process_time()
        clock, processor = (b - a for a, b in zip(self._start, now, strict=True))
        value = evaluate(model, self._task)
        spent = time.perf_counter() - now[0], time.process_time() - now[1]
        self._start = self._start[0] + spent[0], self._start[1] + spent[1]
        row = {"point": point, "steps": model.num_timesteps, "return": round(value, 3)}
        self.rows.append(row | {"clock": round(clock, 2), "cpu": round(processor, 2)})
        return self.rows[-1]


def rows_of(paths: list[Path]) -> list[Row]:
    """All rows of files, as far as they exist."""
    return [json.loads(line) for path in paths if path.exists() for line in path.open()]


def append(path: Path, row: Row) -> None:
    """Add a row to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


# --- learners -------------------------------------------------------------------------------------


def riesz(
    task: str, steps: int, seed: int, told: Callable[[Any], Any], folder: Path, **settings: Any
) -> None:
    """SBEED; what was learnt is kept in `folder`, from which an interrupted run goes on."""
    from riesz import SBEED

    name = "-".join(
        [task, str(steps), str(seed), *(f"{k}={v}" for k, v in sorted(settings.items()))]
    )
    folder.mkdir(parents=True, exist_ok=True)
    model = SBEED("RbfPolicy", task, seed=seed, **settings)
    model.learn(
        steps,
        lambda names, _: told(names["self"]) is not False,
        checkpoint=folder / f"{name}.riesz",
        checkpoint_every=steps // EVALUATIONS,
    )


def stable_baselines(name: str) -> Callable[..., None]:
    """TRPO, DDPG or SAC at its own defaults but for the discount."""

    def learn(
        task: str, steps: int, seed: int, told: Callable[[Any], Any], folder: Path, gamma: float
    ) -> None:
        import sb3_contrib
        import stable_baselines3
        import torch

        torch.set_num_threads(1)
        kind = getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)
        model = kind("MlpPolicy", task, gamma=gamma, seed=seed, device="cpu")
        model.learn(steps, lambda names, _: told(names["self"]) is not False)

    return learn


LEARNERS: dict[str, Callable[..., None]] = {
    "riesz": riesz,
    **{name: stable_baselines(name) for name in ("TRPO", "DDPG", "SAC")},
}


def curve(
    learner: str, task: str, seed: int, steps: int, out: Path, known: Row, settings: Row
) -> Iterator[Row]:
    """Learn, and append a row to `out` for every evaluation that it has not."""
    key = {"learner": learner, "task": task, "seed": seed, "total": steps, **known}
    done = {row["point"] for row in rows_of([out]) if key.items() <= row.items()}
    if len(done) == EVALUATIONS:
        return
    watch = Watch(task, steps, lambda point: point not in done)

    def told(model: Any) -> None:
        found = watch(model)
        if found is not None:
            append(out, key | found)

    LEARNERS[learner](task, steps, seed, told, out.parent / "unfinished", **settings)
    yield from (key | row for row in watch.rows)
