"""Progress of a fit on the standard error."""

import math
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from riesz._arguments import level

Observer = Callable[[str, int, int, float, float | None, float | None, float], None]

_BAR = 24
_PHASES = {
    "race": "choosing the bandwidth",
    "fit": "fitting",
    "absorb": "learning the held-out rows",
    "ridge": "solving",
    "stream": "streaming",
    "posterior": "following the posterior",
    "hyperparameters": "learning the hyper-parameters",
}


@contextmanager
def progress(verbose: int) -> Iterator[Observer | None]:
    """Yield what a fit reports to: nothing, one line that is rewritten, or a line per block."""
    told = level("verbose", verbose)
    if told == 0:
        yield None
    elif told == 1:
        try:
            yield _rewrite
        finally:
            sys.stderr.write("\n")
            sys.stderr.flush()
    else:
        yield _append


def _rewrite(phase: str, done: int, most: int, *measures: Any) -> None:
    filled = _BAR * min(done, most) // max(most, 1)
    line = f"[{'#' * filled:<{_BAR}}] {_describe(phase, done, most, *measures)}"
    width = shutil.get_terminal_size().columns - 1
    sys.stderr.write(f"\r{line[:width]:<{width}}")
    sys.stderr.flush()


def _append(phase: str, done: int, most: int, *measures: Any) -> None:
    sys.stderr.write(f"{_describe(phase, done, most, *measures)}\n")
    sys.stderr.flush()


def _describe(
    phase: str,
    done: int,
    most: int,
    loss: float,
    held_out_loss: float | None,
    held_out_error: float | None,
    seconds: float,
) -> str:
    parts = [f"{_PHASES[phase]} {done}/{most}" if most else _PHASES[phase]]
    if not math.isnan(loss):
        parts.append(f"loss {loss:.4g}")
    if held_out_loss is not None:
        parts.append(f"held-out loss {held_out_loss:.4g}")
    if held_out_error is not None:
        parts.append(f"held-out error {held_out_error:.2%}")
    return ", ".join([*parts, f"{seconds:.1f} s"])
