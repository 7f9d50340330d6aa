"""The league: default constructors of riesz and its peers on many sets.

    python benchmarks/league/run.py [--data FOLDER] [--splits 10] [--only SET ...] [--peers ...]

Every measurement is a line of results/league.jsonl (or `--results`) as soon as it is made; a second
run does what is missing. `--report` prints the table of what is there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from peers import PEERS, Peer
from sets import Table, tables

RESULTS = Path(__file__).parent / "results" / "league.jsonl"


def measured(table: Table, number: int, peer: Peer) -> dict[str, Any]:
    """Error (classes) or root mean square error over the deviation (numbers), and seconds.

    Seconds are those of a clock, processor seconds those of all threads: other work on the machine
    makes the former longer and leaves the latter.
    """
    train, test = table.split(number)
    start, cpu_start = time.perf_counter(), time.process_time()
    answer = peer(table.X[train], table.y[train], table.X[test], table.task)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    truth = table.y[test]
    if table.task == "classification":
        error = float(np.mean(answer != truth))
    else:
        error = float(np.sqrt(np.mean((answer - truth) ** 2)) / table.y[train].std())
    times = {"seconds": round(seconds, 3), "cpu_seconds": round(cpu_seconds, 3)}
    return {"error": error, **times, "rows": len(train)}


def report(lines: list[dict[str, Any]]) -> str:
    """A table of mean errors over the splits that all peers of a set have, and the mean ranks."""
    errors: dict[tuple[str, str], dict[str, dict[int, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for line in lines:
        errors[line["set"], line["task"]][line["peer"]][line["split"]] = line["error"]
    names = [name for name in PEERS if any(name in found for found in errors.values())]
    text = [f"| set | task | {' | '.join(names)} |", "| --- " * (len(names) + 2) + "|"]
    ranks: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (name, task), found in errors.items():
        common = sorted(set.intersection(*(set(splits) for splits in found.values())))
        if not common:
            continue
        means = {peer: float(np.mean([v[n] for n in common])) for peer, v in found.items()}
        cells = [f"{means[peer]:.4f}" if peer in means else "" for peer in names]
        text.append(f"| {name} | {task} | {' | '.join(cells)} |")
        for peer, mean in means.items():
            others = [v for other, v in means.items() if other != peer]
            rank = 1 + sum(v < mean for v in others) + 0.5 * sum(v == mean for v in others)
            ranks[task][peer].append(rank)
    for task, found in ranks.items():
        cells = [f"{np.mean(found[peer]):.2f}" if peer in found else "" for peer in names]
        text.append(f"| mean rank | {task} | {' | '.join(cells)} |")
    return "\n".join(text)


def main() -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    results: Path = arguments.results
    lines = (
        [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    )
    done = {(line["set"], line["split"], line["peer"]) for line in lines}
    chosen = arguments.peers or list(PEERS)
    for table in [] if arguments.report else tables(arguments.data, arguments.splits):
        if arguments.only and table.name not in arguments.only:
            continue
        for number, name in ((n, p) for n in range(table.splits) for p in chosen):
            if (table.name, number, name) in done:
                continue
            try:
                found = measured(table, number, PEERS[name])
            except ImportError as missing:
                print(f"{name} is not installed: {missing}")
                continue
            line = {"set": table.name, "task": table.task, "split": number, "peer": name, **found}
            lines.append(line)
            with results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)
    print(report(lines))


if __name__ == "__main__":
    main()
