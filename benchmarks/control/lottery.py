"""A task with random transitions, where the dual decides: return against η.

    python benchmarks/control/lottery.py --seeds 3

In the first state the safe action earns 1 and ends the episode; the risky one leads into a corridor
of five steps with a prize of 5 at its end with probability 0.4, and ends the episode with nothing
otherwise: it is worth 2. Without the dual the variance of V(s') is part of the objective, V of the
corridor is pulled towards the zero that follows the other branch, and the risky action looks worse
than it is. `saddle` solves (6.10) for V; with frozen targets V(s') is not differentiated, and there
is no such bias for any η. Rewards are left in their units and K = 1. One JSON object per run is
appended to `--out`.
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from riesz import SBEED

import tasks

CORRIDOR, PRIZE, CHANCE = 5, 5.0, 0.4
SAFE, RISKY = 0, 1


class Lottery(gymnasium.Env):
    """States 0, where an action is chosen, and 1 to 5, the corridor."""

    observation_space = spaces.Discrete(CORRIDOR + 1)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Begin at the choice."""
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Choose, or walk on."""
        if self.place == 0 and action == SAFE:
            return 0, 1.0, True, False, {}
        if self.place == 0 and self.np_random.random() >= CHANCE:
            return 0, 0.0, True, False, {}
        if self.place == CORRIDOR:
            return 0, PRIZE, True, False, {}
        self.place += 1
        return self.place, 0.0, False, False, {}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--targets", nargs="*", default=["saddle", "frozen"])
    add("--dual-weights", nargs="*", type=float, default=[0.0, 0.5, 0.9, 1.0])
    add("--seeds", type=int, default=3)
    add("--steps", type=int, default=10_000)
    add("--out", type=Path, default=Path(__file__).parent / f"results/{date.today()}-lottery.jsonl")
    options = parser.parse_args()
    print("| target | η | chance of the risky action | return | V of the corridor |")
    print("| --- | --- | --- | --- | --- |")
    for target in options.targets:
        for weight in options.dual_weights:
            rows = []
            for seed in range(options.seeds):
                model = SBEED(
                    "RbfPolicy", Lottery, seed=seed, window=1, n_steps=100, dual_weight=weight,
                    target=target, normalize=False, n_features=64, n_jobs=1, divergence=0.02,
                    temperature=0.01, iterations=3, buffer_size=10_000,
                ).learn(options.steps)  # fmt: skip
                risky = float(np.mean(model.predict(np.zeros(1000, int))[0] == RISKY))
                value = float(model.values([1])[0])
                row = {
                    "target": target,
                    "dual_weight": weight,
                    "seed": seed,
                    "steps": options.steps,
                }
                rows.append(row | {"risky": risky, "value": value})
                tasks.append(options.out, rows[-1])
            risky, value = (np.mean([row[name] for row in rows]) for name in ("risky", "value"))
            earned = risky * CHANCE * PRIZE + (1 - risky)
            print(f"| {target} | {weight} | {risky:.2f} | {earned:.2f} | {value:.2f} |", flush=True)


if __name__ == "__main__":
    main()
