"""Compare riesz with its peers on the same data, machine and threads, in one run.

    python benchmarks/functions/run.py --only mnist,a9a --repeats 3 --threads 2

Every fit runs in a fresh process (`child.py` says what is measured there). The peers take turns
within each repetition (A B C A B C), so that whatever else the machine does hits all alike. Every
repetition goes to `results/<date>.jsonl` as it is measured, the tables to `results/<date>.md`.

Stock `SVC` needs long: `--peers` leaves entries out, `--reuse FILE` takes the rows of the peers in
`--reuse-peers` from an earlier raw file; the tables mark such rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import agreement
import report
from data import REGRESSION
from machine import describe
from plan import EXTRA, MAIN, Entry, data_of, entries

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache"
DEFAULT_DATA = HERE.parent.parent.parent / "shared" / "data"
PREDICTIONS = CACHE / "predictions"
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
QUICK_TRAIN, QUICK_TEST = 2000, 1000
Row = dict[str, Any]


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _folder(text: str | Path) -> Path:
    return Path(text).resolve()


def parser() -> argparse.ArgumentParser:
    """The command line."""
    self = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = self.add_argument
    data = os.environ.get("RIESZ_DATA") or DEFAULT_DATA
    add(
        "--data",
        type=_folder,
        default=_folder(data),
        help="folder of the data sets (or RIESZ_DATA)",
    )
    add("--only", type=_names, default=["main", "extra"], help="experiments, or main, extra")
    add("--peers", type=_names, help="labels of the rows to measure; riesz means all of ours")
    add("--repeats", type=int, default=3, help="repetitions of each deterministic method")
    add("--seeds", type=int, default=5, help="repetitions of each random method, seeds 0, 1, ...")
    add("--threads", type=int, default=2)
    add("--quick", action="store_true", help=f"only {QUICK_TRAIN} training rows: a smoke test")
    add("--matched-blocks", type=int, default=18, help="max_blocks of the riesz-matched row")
    add("--timeout", type=float, default=7200, help="seconds after which a fit is given up")
    add("--reuse", type=Path, help="raw file of an earlier run")
    add("--reuse-peers", type=_names, default=["sklearn-svc"], help="labels taken from --reuse")
    return self


def selected(options: argparse.Namespace) -> dict[str, list[Entry]]:
    """The experiments asked for, each with its entries."""
    groups = {"main": MAIN, "extra": EXTRA}
    names = [name for word in options.only for name in groups.get(word, (word,))]
    unknown = sorted(set(names) - set(MAIN) - set(EXTRA))
    if unknown:
        raise SystemExit(f"unknown experiment {', '.join(unknown)}; known: {MAIN + EXTRA}")

    def wanted(entry: Entry) -> bool:
        peers = options.peers
        return not peers or entry.label in peers or (entry.ours and "riesz" in peers)

    plans = {name: entries(name, options.matched_blocks) for name in dict.fromkeys(names)}
    return {name: [entry for entry in plan if wanted(entry)] for name, plan in plans.items()}


def prepare(name: str, data: Path) -> dict[str, Any]:
    """Fill the cache in a process of its own, so that this one stays small."""
    code = (
        "import sys, json, data, pathlib as p;"
        "print(json.dumps(data.prepare(sys.argv[1], p.Path(sys.argv[2]), p.Path(sys.argv[3]))))"
    )
    command = [sys.executable, "-c", code, name, str(data), str(CACHE)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    meta: dict[str, Any] = json.loads(done.stdout)
    return meta


def _key(options: argparse.Namespace, name: str, entry: Entry) -> Row:
    """What identifies a row: rows of another run are only reused when all of it agrees."""
    return {
        "kind": "run",
        "experiment": name,
        "label": entry.label,
        "peer": entry.peer,
        "settings": dict(entry.settings),
        "fraction": entry.fraction,
        "threads": options.threads,
        "quick": options.quick,
    }


def measure(job: Row, threads: int, timeout: float) -> Row:
    """One fit in a fresh process."""
    environment = os.environ | {name: str(threads) for name in THREAD_VARIABLES}
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "row.json"
        command = [
            sys.executable,
            str(HERE / "child.py"),
            json.dumps(job | {"result": str(result)}),
        ]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return {"failure": f"given up after {timeout:g} s"}
        if result.is_file():
            row: Row = json.loads(result.read_text())
            return row
        return {
            "failure": f"exit {done.returncode}: {(done.stderr.splitlines() or [''])[-1][:200]}"
        }


def _job(options: argparse.Namespace, name: str, entry: Entry, seed: int, available: int) -> Row:
    """The measured process's orders; only `krr` keeps its predictions, to be compared."""
    rows = min(available, QUICK_TRAIN) if options.quick else available
    rows = int(rows * entry.fraction)
    save = agreement.prediction_file(PREDICTIONS, entry.label, seed) if name == "krr" else None
    return {
        "folder": str(CACHE / data_of(name)),
        "peer": entry.peer,
        "settings": dict(entry.settings),
        "regression": name in REGRESSION,
        "threads": options.threads,
        "seed": seed,
        "train_rows": None if rows == available else rows,
        "test_rows": QUICK_TEST if options.quick else None,
        "save": str(save) if save else None,
    }


def _reused(options: argparse.Namespace, key: Row) -> list[Row]:
    """Rows of the earlier file that stand for this entry, marked with where they came from."""
    if not options.reuse or key["label"] not in options.reuse_peers:
        return []
    machine, *rows = report.read(options.reuse)
    mark = {"file": options.reuse.name, "date": machine["date"], "cpu": machine["cpu"]}
    same = [row for row in rows if all(row.get(field) == key[field] for field in key)]
    return [{"reused": mark} | row for row in same if "failure" not in row]


def _schedule(options: argparse.Namespace, plan: list[Entry]) -> Iterator[tuple[int, Entry]]:
    """Repetitions outside, entries inside: A B C A B C."""
    counts = [max(options.repeats, options.seeds) if e.seeded else options.repeats for e in plan]
    for repetition in range(max(counts, default=0)):
        for entry, count in zip(plan, counts, strict=True):
            if repetition < count:
                yield repetition, entry


def run_experiment(
    options: argparse.Namespace, name: str, plan: list[Entry], available: int
) -> Iterator[Row]:
    """The rows of one experiment: the reused ones, then each repetition as it is measured."""
    agreement.clear(PREDICTIONS)
    fresh = []
    for entry in plan:
        reused = _reused(options, _key(options, name, entry))
        yield from reused
        if not reused:
            fresh.append(entry)
    for repetition, entry in _schedule(options, fresh):
        job = _job(options, name, entry, repetition, available)
        row = measure(job, options.threads, options.timeout)
        row = _key(options, name, entry) | {"repetition": repetition} | row
        print(report.progress(row), file=sys.stderr, flush=True)
        yield row
    if name == "krr":
        yield from agreement.compare(PREDICTIONS)


def _stem(quick: bool) -> Path:
    """A name of today's date that is not taken yet."""
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d") + ("-quick" if quick else "")
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        stem = HERE / "results" / f"{today}{suffix}"
        if not stem.with_suffix(".jsonl").exists():
            return stem
    raise SystemExit("too many results of today")


def main() -> None:
    """Measure what the command line asks for, then print and write the tables."""
    options = parser().parse_args()
    plans = selected(options)
    stem = _stem(options.quick)
    stem.parent.mkdir(exist_ok=True)
    CACHE.mkdir(exist_ok=True)
    rows = {name: prepare(data_of(name), options.data)["y_train"][0] for name in plans}
    facts = describe() | {
        "kind": "machine",
        "date": datetime.now(timezone.utc).isoformat(timespec="minutes"),
        "threads": options.threads,
        "repeats": options.repeats,
        "seeds": options.seeds,
        "quick": options.quick,
    }
    with stem.with_suffix(".jsonl").open("w") as raw:
        raw.write(json.dumps(facts) + "\n")
        for name, plan in plans.items():
            for row in run_experiment(options, name, plan, rows[name]):
                raw.write(json.dumps(row) + "\n")
                raw.flush()
    text = report.markdown(report.read(stem.with_suffix(".jsonl")))
    stem.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
