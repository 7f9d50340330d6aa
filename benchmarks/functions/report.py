"""Tables from raw rows: medians with their spread, and ratios against riesz.

A ratio is the peer's median divided by riesz's: above 1 means that riesz is faster or smaller.
The error's centre is the mean (over seeds, for random methods); for times and memory the median.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, median
from typing import Any

Row = dict[str, Any]
HEADER = (
    "method", "error", "fit s", "fit CPU s", "predict s", "peak MB", "above data MB",
    "fit ÷ riesz", "CPU ÷ riesz", "memory ÷ riesz", "runs",
)  # fmt: skip
MEASURED = ("fit_s", "fit_cpu_s", "predict_s", "peak_mb", "extra_mb")
RATIOS = ("fit_s", "fit_cpu_s", "extra_mb")


def read(path: Path) -> list[Row]:
    """The rows of a raw file; the first describes the machine."""
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def _number(value: float) -> str:
    """Three significant digits, no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"


def _spread(values: list[float], centre: Callable[[list[float]], float], show: Any) -> str:
    """Centre and, with more than one value, minimum and maximum."""
    if len(values) == 1:
        return str(show(values[0]))
    return f"{show(centre(values))} ({show(min(values))}–{show(max(values))})"


def _error(rows: list[Row]) -> str:
    """Per cent of wrong labels, or RMSE with R2."""
    errors = [row["error"] for row in rows]
    if "r2" not in rows[0]:
        return _spread(errors, mean, lambda value: f"{100 * value:.2f}") + " %"
    text = _spread(errors, mean, lambda value: f"{value:.4f}")
    return f"{text}, R² {mean(row['r2'] for row in rows):.4f}"


def _median(rows: list[Row], field: str) -> float:
    return median(row[field] for row in rows)


def _ratio(rows: list[Row], base: list[Row], field: str) -> str:
    """Ratio of two medians, as text."""
    below = _median(base, field) if base else 0.0
    return f"{_median(rows, field) / below:.2f}" if below > 0 else "–"


def _good(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if "failure" not in row]


def _by_label(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["label"], []).append(row)
    return groups


def _line(label: str, rows: list[Row], base: list[Row]) -> list[str]:
    """One table line; a method that never succeeded shows why."""
    good = _good(rows)
    name = label + (" †" if "reused" in rows[0] else "")
    if not good:
        return [name, f"failed: {rows[0]['failure']}", *["–"] * (len(HEADER) - 3), f"0/{len(rows)}"]
    spreads = [_spread([row[field] for row in good], median, _number) for field in MEASURED]
    ratios = [_ratio(good, base, field) for field in RATIOS]
    count = str(len(good)) if len(good) == len(rows) else f"{len(good)}/{len(rows)}"
    return [name, _error(good), *spreads, *ratios, count]


def _table(header: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    header = list(header)
    cells = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def _reuse_notes(rows: list[Row]) -> list[str]:
    """Say plainly which rows were not measured in this run."""
    notes = []
    for label, group in _by_label(rows).items():
        if "reused" in group[0]:
            mark = group[0]["reused"]
            notes.append(
                f"† **{label} was not measured in this run**: taken from {mark['file']} of"
                f" {mark['date']}, {mark['cpu']}; its ratios compare two runs."
            )
    return notes


def _experiment(name: str, rows: list[Row]) -> str:
    groups = _by_label(rows)
    base = _good(groups.get("riesz", []))
    table = _table(HEADER, (_line(label, group, base) for label, group in groups.items()))
    counts = sorted({row["rows"] for row in _good(rows)})
    title = f"## {name}" + (
        f" ({', '.join(f'{n:,}' for n in counts)} training rows)" * bool(counts)
    )
    return "\n\n".join([title, table, *_reuse_notes(rows)])


def _matched(groups: dict[str, list[Row]]) -> str:
    """Time and memory at the error of Nystroem + ridge."""
    ours, theirs = _good(groups.get("riesz-matched", [])), _good(groups.get("nystroem-ridge", []))
    if not ours or not theirs:
        return ""
    errors = mean(row["error"] for row in ours), mean(row["error"] for row in theirs)
    verdict = "at or below" if errors[0] <= errors[1] else "**above, so not a fair row:**"
    blocks = ours[0]["settings"]["max_blocks"]
    ratios = [f"{what} {_ratio(theirs, ours, field)}" for what, field in _MATCHED_FIELDS]
    return (
        f"**At Nystroem + ridge's error:** riesz with max_blocks={blocks} has"
        f" {100 * errors[0]:.2f} %, {verdict} {100 * errors[1]:.2f} %."
        f" Nystroem + ridge ÷ riesz: {', '.join(ratios)}."
    )


_MATCHED_FIELDS = (
    ("fit", "fit_s"),
    ("CPU", "fit_cpu_s"),
    ("predict", "predict_s"),
    ("memory above data", "extra_mb"),
)


def _scaling(groups: dict[str, list[Row]]) -> str:
    """Growth of the fit when rows or blocks double, everything else fixed."""

    def growth(title: str, small: str, large: str) -> list[str]:
        below, above = (_good(groups.get(f"riesz-{label}", [])) for label in (small, large))
        if not below or not above:
            return [title, "–", "–"]
        return [title, _ratio(above, below, "fit_s"), _ratio(above, below, "fit_cpu_s")]

    lines = [
        growth("rows double", "half-rows", "base"),
        growth("blocks double", "base", "double-blocks"),
    ]
    return _table(("fixed bandwidth", "fit s grows by", "CPU s grows by"), lines)


def _agreement(rows: list[Row]) -> str:
    if not rows:
        return ""
    rms, largest = ([row[field] for row in rows] for field in ("rms", "largest"))
    return (
        f"**Agreement with KernelRidge** on the test rows, {len(rows)} seeds: root mean square"
        f" difference {_spread(rms, median, _number)}, largest {_spread(largest, median, _number)}"
        " (targets have deviation 1)."
    )


def _preamble(machine: Row) -> str:
    packages = ", ".join(f"{name} {text}" for name, text in machine["packages"].items() if text)
    quick = "**Quick run on few rows: a smoke test, not a measurement.**\n\n" * machine["quick"]
    return (
        f"# Part I, functions: riesz and its peers, {machine['date']}\n\n{quick}"
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB;"
        f" {machine['threads']} threads for every method. Python {machine['python']}, {packages};"
        f" commit {machine['commit']}.\n\n"
        "Error: mean (min–max); the rest: median (min–max). Each run is a fresh process, methods"
        " alternate. Ratios are peer ÷ riesz: above 1, riesz is faster or smaller."
        " Memory ratios use the peak above the loaded data."
    )


def markdown(rows: list[Row]) -> str:
    """The whole report."""
    machine, *rest = rows
    runs = [row for row in rest if row["kind"] == "run"]
    parts = [_preamble(machine)]
    for name in dict.fromkeys(row["experiment"] for row in runs):
        chosen = [row for row in runs if row["experiment"] == name]
        parts.append(_experiment(name, chosen))
        groups = _by_label(chosen)
        if name == "mnist":
            parts.append(_matched(groups))
        elif name == "scaling":
            parts.append(_scaling(groups))
        elif name == "krr":
            parts.append(_agreement([row for row in rest if row["kind"] == "agreement"]))
    return "\n\n".join(part for part in parts if part) + "\n"


def progress(row: Row) -> str:
    """One line about one repetition."""
    head = f"{row['experiment']} {row['label']} #{row['repetition']}:"
    if "failure" in row:
        return f"{head} {row['failure']}"
    return (
        f"{head} error {row['error']:.4f}, fit {row['fit_s']:.2f} s (CPU {row['fit_cpu_s']:.2f} s),"
        f" predict {row['predict_s']:.2f} s, +{row['extra_mb']:.0f} MB"
    )
