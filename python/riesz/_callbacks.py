"""Who is told while a model learns: callbacks, a log, a progress bar, TensorBoard."""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from riesz._arguments import shown
from riesz._errors import InvalidInput


class Callback:
    """Functions, and callbacks as Stable-Baselines3 has them, called as it calls them."""

    def __init__(self, functions: list[Callable[..., Any]], others: list[Any]) -> None:
        self._functions, self._others = functions, others

    def training_start(self, names: dict[str, Any], others: dict[str, Any]) -> None:
        for each in self._others:
            each.on_training_start(names, others)

    def rollout_start(self) -> None:
        for each in self._others:
            each.on_rollout_start()

    def step(self, names: dict[str, Any]) -> bool:
        """Tell of a step of all environments; return whether to go on."""
        going_on = [each(names, globals()) is not False for each in self._functions]
        for each in self._others:
            each.update_locals(names)
            going_on.append(each.on_step() is not False)
        return all(going_on)

    def rollout_end(self) -> None:
        for each in self._others:
            each.on_rollout_end()

    def training_end(self) -> None:
        for each in self._others:
            each.on_training_end()


def as_callback(callback: Any, model: Any) -> Callback:
    """Return what a user gave as one callback."""
    given = callback if isinstance(callback, list | tuple) else [callback]
    functions: list[Callable[..., Any]] = []
    others: list[Any] = []
    for each in given:
        if hasattr(each, "on_step") and hasattr(each, "init_callback"):
            each.init_callback(model)
            others.append(each)
        elif callable(each):
            functions.append(each)
        elif each is not None:
            raise InvalidInput(f"callback = {shown(each)} should be a function or a callback")
    return Callback(functions, others)


class Journal:
    """Named numbers, shown as a table, in TensorBoard and behind a progress bar."""

    def __init__(self, folder: str | os.PathLike[str] | None, verbose: int) -> None:
        self._folder, self._verbose = folder, verbose
        self.name_to_value: dict[str, float] = {}
        self._writer: Any = None
        self._bar: Any = None
        self._updates, self._started = 0, time.monotonic()

    def begin(self, name: str, most: int, interval: int | None, bar: bool) -> None:
        """Begin a run."""
        self._interval = interval or {0: 1, 1: 10, 2: 1}[self._verbose]
        self._updates, self._started, self._most = 0, time.monotonic(), most
        self._bar = bar
        if self._folder is not None:
            try:
                from tensorboard.summary import Writer
            except ImportError as error:
                raise ImportError(
                    f"tensorboard_log needs TensorBoard: pip install tensorboard ({error})"
                ) from error
            self._writer = Writer(_next_run(os.fspath(self._folder), name))

    def record(self, key: str, value: Any, exclude: Any = None) -> None:
        """Take note of a number."""
        self.name_to_value[key] = value

    def updated(self, steps: int) -> None:
        """Show the numbers of an update that is over."""
        self._updates += 1
        seconds = time.monotonic() - self._started
        self.record("time/seconds", seconds)
        if self._bar:
            _show_bar(steps, self._most, seconds, self.name_to_value.get("rollout/ep_rew_mean"))
        if self._updates % self._interval == 0:
            self.dump(steps)

    def dump(self, step: int = 0) -> None:
        """Write the numbers that were noted, as those of a step."""
        numbers = {k: v for k, v in self.name_to_value.items() if isinstance(v, int | float)}
        if self._writer is not None:
            for key, value in numbers.items():
                self._writer.add_scalar(key, value, step)
        if self._verbose > 0:
            rows = {"time/total_timesteps": step, **numbers}
            width = max(map(len, rows))
            print(
                "\n".join(f"{key:<{width}}  {value:.6g}" for key, value in rows.items()), flush=True
            )
            print("-" * (width + 14), flush=True)

    def close(self) -> None:
        """End a run."""
        if self._bar:
            sys.stderr.write("\n")
            sys.stderr.flush()
        if self._writer is not None:
            self._writer.flush()
            self._writer.close()
            self._writer = None


def _show_bar(steps: int, most: int, seconds: float, mean: float | None) -> None:
    filled = 24 * min(steps, most) // max(most, 1)
    line = f"[{'#' * filled:<24}] {steps}/{most} steps, {seconds:.0f} s"
    line += "" if mean is None else f", mean return {mean:.5g}"
    sys.stderr.write(f"\r{line:<78}")
    sys.stderr.flush()


def _next_run(folder: str, name: str) -> str:
    """Return the folder of the next run of a name, as name_1 or name_2."""
    number = 1
    while os.path.exists(os.path.join(folder, f"{name}_{number}")):
        number += 1
    return os.path.join(folder, f"{name}_{number}")
