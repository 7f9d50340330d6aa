"""Quantiles beside scikit-learn's gradient boosting.

    python benchmarks/functions/quantiles.py --only california kin40k

Per data set and model one line for each quantile: pinball loss (targets of unit variance) and the
share of test targets below, with the seconds of the fit of all quantiles together. Default
constructors.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import mean_pinball_loss

import data as sets
from data import Split

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
LOADERS = {"california": sets._california, "kin40k": sets._uci("kin40k")}


def riesz(split: Split, seed: int) -> Callable[[Any], Any]:
    """All quantiles at once."""
    from riesz import KernelQuantileRegressor

    model = KernelQuantileRegressor(quantiles=LEVELS, random_state=seed)
    return model.fit(split.X_train, split.y_train).predict


def boosting(split: Split, seed: int) -> Callable[[Any], Any]:
    """One model for each quantile."""
    from sklearn.ensemble import GradientBoostingRegressor

    models = [
        GradientBoostingRegressor(loss="quantile", alpha=q, random_state=seed) for q in LEVELS
    ]
    for model in models:
        model.fit(split.X_train, split.y_train)
    return lambda X: np.stack([model.predict(X) for model in models], axis=1)


def histogram(split: Split, seed: int) -> Callable[[Any], Any]:
    """One model for each quantile, on binned columns."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    models = [
        HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=seed)
        for q in LEVELS
    ]
    for model in models:
        model.fit(split.X_train, split.y_train)
    return lambda X: np.stack([model.predict(X) for model in models], axis=1)


MODELS = {"riesz": riesz, "boosting": boosting, "histogram": histogram}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = os.environ.get("RIESZ_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(root), help="folder of the data sets")
    parser.add_argument("--only", nargs="*", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="append the lines as JSON")
    arguments = parser.parse_args()
    for name in arguments.only:
        split = LOADERS[name](arguments.data)
        for model in arguments.models:
            start = time.perf_counter()
            predict = MODELS[model](split, arguments.seed)
            seconds = time.perf_counter() - start
            values = predict(split.X_test)
            for k, level in enumerate(LEVELS):
                loss = mean_pinball_loss(split.y_test, values[:, k], alpha=level)
                below = float(np.mean(split.y_test <= values[:, k]))
                print(f"{name:<12}{model:<10}{level:>6}{loss:>9.4f}{below:>8.3f}{seconds:>8.1f} s")
                if arguments.out:
                    line = {"data": name, "model": model, "level": level, "pinball": loss}
                    line |= {"below": below, "fit_s": seconds}
                    with arguments.out.open("a") as file:
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
