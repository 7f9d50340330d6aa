"""Tables and pictures of learning curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = dict[str, Any]
Array = NDArray[np.float64]
LAST = 4  # evaluations that the table averages
RESAMPLES = 10_000


def interquartile_mean(values: Array) -> Array:
    """The mean of the middle half of the last axis; ends count by the part that is inside."""
    ordered = np.sort(values, axis=-1)
    n = ordered.shape[-1]
    edges = np.arange(n + 1) / n
    weights = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0, None)
    return (ordered * weights).sum(axis=-1) / weights.sum()


def band(values: Array) -> tuple[float, float]:
    """A 95 % band of the interquartile mean, from bootstrap samples of seeds."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(values, size=(RESAMPLES, len(values)))
    low, high = np.percentile(interquartile_mean(drawn), (2.5, 97.5))
    return float(low), float(high)


def groups_of(rows: list[Row], names: tuple[str, str]) -> dict[tuple[Any, Any], list[Row]]:
    """Rows by two of their entries."""
    groups: dict[tuple[Any, Any], list[Row]] = {}
    for row in rows:
        groups.setdefault((row[names[0]], row[names[1]]), []).append(row)
    return groups


def curves_of(rows: list[Row]) -> dict[int, list[Row]]:
    """The evaluations of each seed, in their order: of whole runs, and while there is none of all.

    Parts of runs end where the shortest does.
    """
    curves: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["point"]):
        curves.setdefault(row["seed"], []).append(row)
    whole = {seed: own for seed, own in curves.items() if own[-1]["steps"] >= own[-1]["total"]}
    last = min(own[-1]["point"] for own in curves.values())
    cut = {seed: [r for r in own if r["point"] <= last] for seed, own in curves.items()}
    return whole or cut


def line(key: tuple[Any, Any], rows: list[Row]) -> str:
    """A line of the table."""
    curves = curves_of(rows)
    finals = np.array([np.mean([r["return"] for r in own[-LAST:]]) for own in curves.values()])
    steps = next(iter(curves.values()))[-1]["steps"]
    low, high = band(finals)
    seeds = " ".join(f"{value:.0f}" for value in finals)
    seconds = np.median([own[-1]["cpu"] for own in curves.values()])
    numbers = f"{interquartile_mean(finals):.1f} | {low:.1f} … {high:.1f} | {seeds} | {seconds:.0f}"
    return f"| {key[0]} | {key[1]} | {steps:,} | {numbers} |"


def table(rows: list[Row], names: tuple[str, str]) -> str:
    """Final returns by task and learner."""
    head = f"| {names[0]} | {names[1]} | steps | return | 95 % band | seeds | CPU s |"
    lines = [line(key, own) for key, own in groups_of(rows, names).items()]
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- | --- |", *lines])


def draw(rows: list[Row], names: tuple[str, str], path: Path) -> None:
    """Interquartile means with bands over seeds, a panel for each task."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = groups_of(rows, names)
    panels = list(dict.fromkeys(first for first, _ in groups))
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(4 * len(panels), 3.2), squeeze=False, layout="constrained"
    )
    for panel, axis in zip(panels, axes[0], strict=True):
        for (first, label), own in groups.items():
            if first != panel:
                continue
            points: dict[int, list[Row]] = {}
            for row in (row for curve in curves_of(own).values() for row in curve):
                points.setdefault(row["point"], []).append(row)
            values = [np.array([row["return"] for row in each]) for each in points.values()]
            steps = [np.mean([row["steps"] for row in each]) for each in points.values()]
            bands = np.array([band(each) for each in values]).T
            axis.plot(steps, [interquartile_mean(each) for each in values], label=str(label))
            axis.fill_between(steps, *bands, alpha=0.2, linewidth=0)
        axis.set(title=str(panel), xlabel="steps", ylabel="return")
        axis.legend(frameon=False)
    figure.savefig(path)


def print_and_draw(rows: list[Row], names: tuple[str, str], picture: Path | None) -> None:
    """The table, and the picture where one is asked for."""
    print(table(rows, names))
    if picture is not None:
        draw(rows, names, picture)
