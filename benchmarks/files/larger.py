"""A folder of Parquet files of four times the memory there is.

    python benchmarks/files/larger.py [--megabytes 160] [--kills 20] [--folder FOLDER]

Rows of 256 columns and two classes are written as Parquet files of four times `megabytes` of
decoded float32. `riesz fit` learns from them, by block descent and as a stream, once in memory and
once within `megabytes`: block descent of address space (`ulimit -v`), the stream of memory (a
control group, which takes rights that root has). The error on held-out rows, the peak of the memory
and, for block descent, the bytes of the model are compared. Then the fit within the limit is
killed `kills` times at random moments and resumed from its checkpoint. One line each is appended to
results/larger.jsonl. Address space counts what is reserved: glibc is told to keep one arena, of
which each reserves 64 MB. A stream multiplies matrices by faer, which reserves twice the last cache
of the processor for each thread and touches little of it; hence the control group.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

COLUMNS, CLASSES, FILES = 256, 2, 8
RESULTS = Path(__file__).parent / "results" / "larger.jsonl"
SETTINGS = [
    "--target",
    "y",
    "--task",
    "classification",
    "--bandwidth",
    "scale",
    "--scaling",
    "none",
    "--block-size",
    "64",
    "--max-blocks",
    "4",
    "--seed",
    "1",
]


def rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows around random centres in the first columns, and noise in the others."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(8 * CLASSES, COLUMNS)) * 0.2
    which = rng.integers(8 * CLASSES, size=count)
    X = rng.standard_normal(size=(count, COLUMNS), dtype=np.float32)
    X += centres[which].astype(np.float32)
    return X, which % CLASSES


def make(folder: Path, megabytes: int) -> None:
    """Write the folder and a test file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 4 * megabytes * 1_000_000 // (4 * COLUMNS) // FILES
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "train").mkdir(parents=True)
    names = [f"c{j}" for j in range(COLUMNS)]
    for part in range(FILES + 1):
        X, y = rows(count if part < FILES else 20_000, part)
        table = pa.table({name: X[:, j] for j, name in enumerate(names)} | {"y": y})
        path = folder / (f"train/{part}.parquet" if part < FILES else "test.parquet")
        pq.write_table(table, path, row_group_size=20_000, use_dictionary=["y"])


@contextmanager
def control_group(limit: int) -> Iterator[Path]:
    """Make a control group of so much memory, of either version, for as long as it is used."""
    first = Path("/sys/fs/cgroup/memory")
    group = (first if first.exists() else first.parent) / f"riesz-larger-{os.getpid()}"
    group.mkdir()
    try:
        name = "memory.limit_in_bytes" if first.exists() else "memory.max"
        (group / name).write_text(str(limit))
        yield group
    finally:
        group.rmdir()


def fit(
    riesz: str,
    folder: Path,
    arguments: list[str],
    limit: int | None = None,
    group: Path | None = None,
) -> dict:
    """Run a fit, within a limit of the address space or in a group, and return what it took."""

    def within() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    command = [riesz, "--threads", "2", "fit", str(folder / "train"), *SETTINGS, *arguments]
    command += ["--test", str(folder / "test.parquet"), "--model", str(folder / "model")]
    environment = os.environ | {"MALLOC_ARENA_MAX": "1"}
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, preexec_fn=within, env=environment, text=True
    ) as child:
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)} failed")
    error = float(re.search(r"test\s+([\d.]+) %", output).group(1))
    return {
        "error": error,
        "peak_mb": usage.ru_maxrss / 1024,
        "wall": time.perf_counter() - started,
        "cpu": usage.ru_utime + usage.ru_stime,
    }


def kill(riesz: str, folder: Path, limit: int, kills: int, seconds: float) -> int:
    """Kill fits at random moments; return how many left a checkpoint."""
    resumed, done, rng = 0, 0, random.Random(5)
    checkpoint = folder / "checkpoint"
    command = [
        riesz,
        "--threads",
        "2",
        "fit",
        str(folder / "train"),
        *SETTINGS,
        "--quiet",
        "--cache",
        str(folder / "cache"),
        "--checkpoint",
        str(checkpoint),
        "--checkpoint-every",
        "0",
        "--model",
        str(folder / "killed"),
    ]
    environment = os.environ | {"MALLOC_ARENA_MAX": "1"}
    while done < kills:
        with subprocess.Popen(
            command,
            env=environment,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        ) as child:
            try:
                child.wait(rng.uniform(0.1, 0.9) * seconds)
                checkpoint.unlink(missing_ok=True)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                done += 1
                resumed += checkpoint.exists()
    subprocess.run(
        command,
        check=True,
        env=environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    return resumed


def main() -> None:
    """Compare, kill and write down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/riesz-larger"))
    parser.add_argument("--megabytes", type=int, default=160)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--keep", action="store_true", help="use the files that are there")
    parser.add_argument("--riesz", default="riesz")
    arguments = parser.parse_args()
    folder, limit = arguments.folder, arguments.megabytes * 1_000_000
    if not arguments.keep:
        make(folder, arguments.megabytes)
    decoded = 4 * arguments.megabytes

    def note(row: dict) -> None:
        RESULTS.parent.mkdir(exist_ok=True)
        row = {"decoded_mb": decoded, "limit_mb": arguments.megabytes} | row
        with RESULTS.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(json.dumps(row))

    memory = fit(arguments.riesz, folder, ["--memory", "100G"])
    whole = (folder / "model").read_bytes()
    note({"solver": "block", "where": "memory"} | memory)
    cache = ["--cache", str(folder / "cache")]
    for where, more in (("disk, temporary", []), ("disk, made", cache), ("disk, found", cache)):
        disk = fit(arguments.riesz, folder, more, limit)
        same = (folder / "model").read_bytes() == whole
        note({"solver": "block", "where": where, "same_bytes": same} | disk)
    resumed = kill(arguments.riesz, folder, limit, arguments.kills, disk["wall"])
    same = (folder / "killed").read_bytes() == whole
    note(
        {
            "solver": "block",
            "where": "disk, killed",
            "kills": arguments.kills,
            "resumed": resumed,
            "same_bytes": same,
        }
    )
    stream = ["--solver", "stream"]
    found = fit(arguments.riesz, folder, [*stream, "--memory", "100G", *cache])
    note({"solver": "stream", "where": "memory", "limit_mb": None} | found)
    with control_group(limit) as group:
        straight = fit(arguments.riesz, folder, stream, group=group)
    note({"solver": "stream", "where": "straight through"} | straight)


if __name__ == "__main__":
    main()
