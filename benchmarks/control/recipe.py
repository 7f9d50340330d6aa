"""What each part of the recipe of SBEED changes (docs/departures.md, section w); riesz only.

    python benchmarks/control/recipe.py --tasks Pendulum-v1 HalfCheetah-v5 --seeds 1 --steps 100000
    python benchmarks/control/recipe.py --report benchmarks/control/results/*-recipe.jsonl

One part at a time is as in `CHANGES`, all else stays at its default but for the discount, which is
the task's. Rows, checkpoints and the report are those of `s1.py`.
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import Any

import report
import tasks

CHANGES: dict[str, dict[str, Any]] = {
    "default": {},
    "damping 0.001": {"damping": 0.001},
    "damping 10": {"damping": 10.0},
    "10,000 steps, 3 iterations": {"buffer_size": 10_000, "iterations": 3},
    "temperature 0.01": {"temperature": 0.01},
    "deviation from e^-2.5": {"log_std": (-0.5, -2.5, 0.0)},
    "deviation up to 1 throughout": {"last_log_std": 0.0},
    "episodes begin together": {"staggered": False},
}


def main() -> None:
    """Measure, or report what was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--tasks", nargs="*", default=["Hopper-v5"], choices=list(tasks.TASKS))
    add("--changes", nargs="*", default=list(CHANGES), choices=list(CHANGES))
    add("--seeds", type=int, default=2)
    add("--first-seed", type=int, default=0)
    add("--steps", type=int, default=200_000)
    add("--threads", type=int, default=1)
    add("--out", type=Path, default=Path(__file__).parent / f"results/{date.today()}-recipe.jsonl")
    add("--report", nargs="*", type=Path, help="make table and picture from these files")
    add("--picture", type=Path, help="an SVG or PNG for the curves")
    options = parser.parse_args()
    if options.report:
        rows = tasks.rows_of(options.report)
        report.print_and_draw(rows, ("task", "change"), options.picture)
        return
    for task in options.tasks:
        gamma = tasks.TASKS[task].gamma
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for change in options.changes:
                settings = {"gamma": gamma, "n_jobs": options.threads, **CHANGES[change]}
                known = {"gamma": gamma, "change": change}
                arguments = (task, seed, options.steps, options.out, known, settings)
                for row in tasks.curve("riesz", *arguments):
                    print(row, flush=True)


if __name__ == "__main__":
    main()
