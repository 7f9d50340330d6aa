"""S1: learning curves of SBEED beside TRPO, DDPG and SAC, at equal discounts.

    python benchmarks/control/s1.py --tasks Pendulum-v1 --learners riesz --seeds 5
    python benchmarks/control/s1.py --report benchmarks/control/results/*-s1.jsonl

Every learner has the defaults of its library, but for the discount, which is the task's
(`tasks.TASKS`); `--own-discount` leaves riesz its own. The deterministic policy is evaluated every
5 % of the steps, over ten episodes with the same seeds for all. One JSON object per evaluation is
appended to `--out`: rows that are there are not measured again, and riesz goes on from a checkpoint
where it was interrupted (its seconds are then those since). Seconds leave evaluations out.

`--report` prints the interquartile mean of the last four evaluations over seeds, with a 95 % band
from 10,000 bootstrap samples of seeds, as a Markdown table, and draws the curves, `--picture`.
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

import report
import tasks

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Measure, or report what was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add, every = parser.add_argument, tasks.TASKS | tasks.DISCRETE
    add("--tasks", nargs="*", default=list(tasks.TASKS), choices=list(every))
    add("--learners", nargs="*", default=list(tasks.LEARNERS), choices=list(tasks.LEARNERS))
    add("--seeds", type=int, default=5)
    add("--first-seed", type=int, default=0)
    add("--steps", type=int, help="instead of the task's")
    add("--own-discount", action="store_true", help="of riesz, instead of the task's")
    add("--threads", type=int, default=1, help="of riesz")
    add("--out", type=Path, default=RESULTS / f"{date.today()}-s1.jsonl")
    add("--report", nargs="*", type=Path, help="make table and picture from these files")
    add("--picture", type=Path, help="an SVG or PNG for the curves")
    options = parser.parse_args()
    if options.report:
        report.print_and_draw(tasks.rows_of(options.report), ("task", "learner"), options.picture)
        return
    for task in options.tasks:
        steps, gamma = every[task]
        for learner in options.learners:
            own = options.own_discount and learner == "riesz"
            settings = {} if own else {"gamma": gamma}
            known = {"gamma": settings.get("gamma", "default")}
            if learner == "riesz":
                settings["n_jobs"] = options.threads
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                arguments = (seed, options.steps or steps, options.out, known, settings)
                for row in tasks.curve(learner, task, *arguments):
                    print(row, flush=True)


if __name__ == "__main__":
    main()
