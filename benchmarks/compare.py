"""Two builds of riesz side by side: has a change cost speed or accuracy?

    python benchmarks/compare.py old=/path/to/old/python new=python --only mnist,kde --repeats 3

Each build is a folder that holds the package `riesz` with its compiled module. Every task is run in
a fresh process with the default constructor, the builds in turn (old new old new …) on the same
`--threads` cores, so that whatever else the machine does hits both alike. `--path` sets
RIESZ_SIMD. One JSON object per run goes to `--out` as it is measured; the table at the end has the
median seconds of fit and prediction, their ratio, and the error of both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "functions"), str(HERE / "distributions")]

from child import pin, score  # noqa: E402
from data import REGRESSION, load, prepare  # noqa: E402
from run import CACHE, DEFAULT_DATA, THREAD_VARIABLES  # noqa: E402

Row = dict[str, Any]
MACHINES = ("mnist", "covtype", "a9a", "usps", "kin40k", "pol", "elevators")


def clock(row: Row, name: str, work: Callable[[], Any]) -> Any:
    """Run `work` and record its seconds."""
    begun = time.perf_counter()
    result = work()
    row[f"{name}_s"] = time.perf_counter() - begun
    return result


def machine(name: str, options: argparse.Namespace, row: Row) -> None:
    """A kernel machine on a data set of the benchmark."""
    from riesz import KernelClassifier, KernelRegressor

    split, regression = load(options.cache / name), name in REGRESSION
    build = KernelRegressor if regression else KernelClassifier
    model = build(random_state=options.seed, n_jobs=options.threads)
    clock(row, "fit", lambda: model.fit(split.X_train, split.y_train))
    predicted = clock(row, "predict", lambda: model.predict(split.X_test))
    row.update(score(split.y_test, predicted, regression))


def process(name: str, options: argparse.Namespace, row: Row) -> None:
    """A Gaussian process on split 1 of a published set."""
    from gaussian_process import split_of

    from riesz import GaussianProcessRegressor

    split = split_of(Path(options.data), name, 1)
    model = GaussianProcessRegressor(random_state=options.seed, n_jobs=options.threads)
    clock(row, "fit", lambda: model.fit(split.X_train, split.y_train))
    mean = clock(row, "predict", lambda: model.predict(split.X_test, return_std=True))[0]
    row["error"] = float(np.sqrt(np.mean((mean - split.y_test) ** 2)))


def density(columns: int, options: argparse.Namespace, row: Row) -> None:
    """Weighted logarithms of a kernel density, 50,000 rows at 50,000 queries."""
    from riesz import KernelDensity

    random = np.random.default_rng(options.seed)
    rows, queries = random.normal(size=(2, 50_000, columns))
    model = KernelDensity(bandwidth=50_000 ** (-1 / (columns + 4)), n_jobs=options.threads)
    clock(row, "fit", lambda: model.fit(rows, sample_weight=random.exponential(size=50_000)))
    values = clock(row, "predict", lambda: model.score_samples(queries))
    row["error"] = -float(np.mean(values))


def topics(name: str, options: argparse.Namespace, row: Row) -> None:
    """One hundred topics, ten passes, perplexity of the held-out halves of test documents."""
    os.environ["RIESZ_DATA"] = str(options.data)
    import corpora
    from lda import completion

    from riesz import LatentDirichletAllocation

    corpus = corpora.load(name)
    model = LatentDirichletAllocation(
        n_components=100, max_iter=10, random_state=options.seed, n_jobs=options.threads
    )
    clock(row, "fit", lambda: model.fit(corpus.train))
    theta = clock(row, "predict", lambda: model.transform(corpus.observed))
    beta = model.components_ / model.components_.sum(axis=1, keepdims=True)
    row["error"] = completion(theta, beta, corpus.held_out)


TASKS: dict[str, tuple[Callable[..., None], Any]] = {
    **{name: (machine, name) for name in MACHINES},
    "process-kin40k": (process, "kin40k"),
    "process-pol": (process, "pol"),
    "kde-2": (density, 2),
    "kde-5": (density, 5),
    "lda-20ng": (topics, "20ng"),
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    self = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = self.add_argument
    add("builds", nargs="+", metavar="NAME=FOLDER")
    add("--only", default=",".join(TASKS), help="tasks, of " + ",".join(TASKS))
    add("--repeats", type=int, default=3)
    add("--threads", type=int, default=2)
    add("--first-core", type=int, default=0, help="the first of the cores to use")
    add("--path", help="RIESZ_SIMD, such as avx2")
    add("--seed", type=int, default=0)
    add("--data", type=Path, default=os.environ.get("RIESZ_DATA") or DEFAULT_DATA)
    add("--cache", type=Path, default=CACHE)
    add("--out", type=Path, default=Path("compare.jsonl"))
    add("--child", help=argparse.SUPPRESS)
    return self


def child(options: argparse.Namespace) -> None:
    """Measure one task in this process."""
    from riesz import simd_path

    work, argument = TASKS[options.child]
    row: Row = {"path": simd_path()}
    work(argument, options, row)
    print(json.dumps(row))


def measure(build: str, task: str, options: argparse.Namespace) -> Row:
    """One run in a fresh process."""
    name, folder = build.split("=", 1)
    threads = dict.fromkeys(THREAD_VARIABLES, str(options.threads))
    environment = os.environ | threads | {"PYTHONPATH": str(Path(folder).resolve())}
    if options.path:
        environment["RIESZ_SIMD"] = options.path
    command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:], "--child", task]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    row: Row = {"task": task, "build": name, "seed": options.seed, "threads": options.threads}
    if run.returncode:
        return row | {"failed": run.stderr.strip().splitlines()[-1:]}
    return row | json.loads(run.stdout.strip().splitlines()[-1])


def table(rows: list[Row]) -> str:
    """Medians per task and build, and ratios to the first build."""
    lines = ["| task | path | build | fit, s | predict, s | error |", "|" + " --- |" * 6]
    for task, path in dict.fromkeys((row["task"], row.get("path")) for row in rows):
        first: dict[str, float] = {}
        for build in dict.fromkeys(row["build"] for row in rows):
            own = [r for r in rows if (r["task"], r["build"], r.get("path")) == (task, build, path)]
            cells = []
            for key in ("fit_s", "predict_s", "error"):
                values = [row[key] for row in own if key in row]
                middle = median(values) if values else float("nan")
                ratio = middle / first.setdefault(key, middle) if middle else 1.0
                cells.append(f"{middle:.4g} ({ratio:.3f})")
            lines.append(f"| {task} | {path} | {build} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run every task on every build in turn."""
    options = parser().parse_args()
    if options.child:
        return child(options)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[options.first_core :])
    pin(options.threads)  # the processes that measure inherit it
    rows: list[Row] = []
    for task in options.only.split(","):
        if task in MACHINES:
            prepare(task, Path(options.data), options.cache)
        for _repeat in range(options.repeats):
            for build in options.builds:
                rows.append(measure(build, task, options))
                with options.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))
    return None


if __name__ == "__main__":
    main()
