"""S2: what λ, η and k change, on Swimmer; riesz only.

    python benchmarks/control/s2.py --seeds 5
    python benchmarks/control/s2.py --report benchmarks/control/results/*-s2.jsonl

One parameter at a time takes the values of `GRIDS`, the others stay at their defaults; γ = 0.995 as
published. Without traces (`trace=1`) the window is the k of the text; so it is here for k alone.
Rows, checkpoints and the report are those of `s1.py`.
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

import report
import tasks

TASK = "Swimmer-v5"
GRIDS = {
    "temperature": (0.0001, 0.001, 0.01, 0.1),
    "dual_weight": (0.0, 0.1, 0.5, 1.0),
    "window": (1, 10, 20, 100),
}


def main() -> None:
    """Measure, or report what was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--parameters", nargs="*", default=list(GRIDS), choices=list(GRIDS))
    add("--seeds", type=int, default=5)
    add("--first-seed", type=int, default=0)
    add("--steps", type=int, default=200_000)
    add("--threads", type=int, default=1)
    add("--out", type=Path, default=Path(__file__).parent / f"results/{date.today()}-s2.jsonl")
    add("--report", nargs="*", type=Path, help="make table and picture from these files")
    add("--picture", type=Path, help="an SVG or PNG for the curves")
    options = parser.parse_args()
    if options.report:
        rows = tasks.rows_of(options.report)
        report.print_and_draw(rows, ("parameter", "value"), options.picture)
        return
    gamma = tasks.TASKS[TASK].gamma
    for parameter in options.parameters:
        for value in GRIDS[parameter]:
            settings = {"gamma": gamma, "n_jobs": options.threads, parameter: value}
            if parameter == "window":
                settings["trace"] = 1.0
            known = {"gamma": gamma, "parameter": parameter, "value": value}
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                arguments = (TASK, seed, options.steps, options.out, known, settings)
                for row in tasks.curve("riesz", *arguments):
                    print(row, flush=True)


if __name__ == "__main__":
    main()
