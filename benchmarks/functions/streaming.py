"""Streaming learners side by side: one pass over the same rows in the same random order.

    python benchmarks/functions/streaming.py --only mnist,a9a --seeds 3 --threads 2

`riesz` is `KernelClassifier` or `KernelRegressor` with `solver="stream"` and nothing else set: one
`fit`, then a second pass by `partial_fit` over the rows in another order. `rbf-sgd` is 1,024 random
Fourier features with gamma="scale" and one epoch of scikit-learn's SGD, on columns as they are and
standardised, over a grid of penalties and steps. `river` is river's linear learners, row by row, on
standardised columns. Columns are standardised for the peers by all training rows, which a stream
could not know. The table gives for each peer the setting with the lowest *test* error, chosen after
the fact in its favour; the raw rows have every setting.

River learns a row in Python: it gets at most `--river-rows` rows and the raw rows say how many.
`--scales` repeats riesz's pass with the targets of regressions multiplied by each number.
Errors are shares of wrong labels, or root mean squared errors over the test targets' deviation.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from child import pin, score
from data import REGRESSION, Split, load
from run import CACHE, DEFAULT_DATA, QUICK_TEST, QUICK_TRAIN, THREAD_VARIABLES, prepare

HERE = Path(__file__).resolve().parent
SETS = ("a9a", "mnist", "covtype", "kin40k", "usps", "pol", "elevators", "california")
FIELDS = (
    "data", "model", "setting", "seed", "passes", "rows", "columns", "error", "fit_s", "predict_s",
)  # fmt: skip
Row = dict[str, Any]
Predict = Callable[[Any], Any]


# --- the learners: each yields a setting, its passes so far and a prediction ----------------------


def riesz(split: Split, regression: bool, seed: int, options: Any) -> Iterator[Row]:
    """The default constructor; a second pass; other units of the targets."""
    from riesz import KernelClassifier, KernelRegressor

    build = KernelRegressor if regression else KernelClassifier
    settings = {"solver": "stream", "random_state": seed, "n_jobs": options.threads}
    X, y = split.X_train, split.y_train
    model = build(**settings)
    yield timed("default", lambda: model.fit(X, y).predict, split, regression)
    order = np.random.default_rng(seed + 1).permutation(len(y))
    second = timed(
        "default", lambda: model.partial_fit(X[order], y[order]).predict, split, regression
    )
    yield second | {"passes": 2}
    for scale in options.scales if regression else ():

        def scaled(scale: float = scale) -> Predict:
            other = build(**settings).fit(X, y * scale)
            return lambda rows: other.predict(rows) / scale

        yield timed(f"targets x {scale:g}", scaled, split, regression)


def rbf_sgd(split: Split, regression: bool, seed: int, _options: Any) -> Iterator[Row]:
    """Random Fourier features and one epoch of SGD; the features' time counts for every setting."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    common = {"max_iter": 1, "tol": None, "shuffle": False, "random_state": seed}
    if regression:
        grid = [{"alpha": a, "eta0": e} for a in (1e-6, 1e-4) for e in (0.01, 0.1, 0.5)]
        build: Any = SGDRegressor
    else:
        losses = ("log_loss", "hinge")
        grid = [{"loss": loss, "alpha": a} for loss in losses for a in (1e-6, 1e-5, 1e-4)]
        build = SGDClassifier
    for columns, part in (("raw", split), ("standardised", standardised(split))):
        start = time.perf_counter()
        features = RBFSampler(gamma="scale", n_components=1024, random_state=seed)
        features.fit(part.X_train)
        transformed = features.transform(part.X_train).astype(np.float32)
        seconds = time.perf_counter() - start

        for setting in grid:

            def fit(setting: Row = setting, Z: Any = transformed, map_: Any = features) -> Predict:
                model = build(**setting, **common).fit(Z, split.y_train)
                return lambda rows: model.predict(map_.transform(rows).astype(np.float32))

            name = " ".join([columns, *(f"{key}={value}" for key, value in setting.items())])
            row = timed(name, fit, part, regression)
            yield row | {"fit_s": row["fit_s"] + seconds}


def river(split: Split, regression: bool, _seed: int, options: Any) -> Iterator[Row]:
    """river's linear learners on standardised columns."""
    from river import linear_model, multiclass

    if regression:
        names = ("LinearRegression", "PARegressor", "BayesianLinearRegression")
        models = {name: getattr(linear_model, name)() for name in names}
    elif len(np.unique(split.y_train)) == 2:
        names = ("LogisticRegression", "PAClassifier", "ALMAClassifier")
        models = {name: getattr(linear_model, name)() for name in names}
    else:
        one = multiclass.OneVsRestClassifier(linear_model.PAClassifier())
        models = {"SoftmaxRegression": linear_model.SoftmaxRegression(), "OneVsRest PA": one}
    part = standardised(split)
    cells = max(options.river_cells // part.X_train.shape[1], 1)
    rows = min(len(part.y_train), options.river_rows, cells)
    kind: Any = float if regression else int
    if not regression and len(np.unique(part.y_train)) == 2:
        kind = bool

    def predict(model: Any) -> Predict:
        def answer(X: Any) -> Any:
            values = [model.predict_one(dict(enumerate(row))) for row in X.tolist()]
            return np.array([0 if value is None else value for value in values], dtype=float)

        return answer

    for name, model in models.items():

        def fit(model: Any = model) -> Predict:
            for row, target in zip(part.X_train[:rows], part.y_train[:rows], strict=True):
                model.learn_one(dict(enumerate(row.tolist())), kind(target))
            return predict(model)

        yield timed(name, fit, part, regression) | {"rows": rows}


MODELS = {"riesz": riesz, "rbf-sgd": rbf_sgd, "river": river}


# --- measuring ------------------------------------------------------------------------------------


def timed(setting: str, fit: Callable[[], Predict], split: Split, regression: bool) -> Row:
    """Seconds of one pass and of the prediction, and the error on the test rows."""
    start = time.perf_counter()
    predict = fit()
    between = time.perf_counter()
    prediction = predict(split.X_test)
    end = time.perf_counter()
    error = score(split.y_test, prediction, regression)["error"]
    if regression:
        error /= float(np.std(split.y_test))
    row = {"setting": setting, "passes": 1, "rows": len(split.y_train), "error": error}
    return row | {"fit_s": between - start, "predict_s": end - between}


def standardised(split: Split) -> Split:
    """Columns in deviations of the training rows."""
    mean, deviation = split.X_train.mean(axis=0), split.X_train.std(axis=0)
    deviation[deviation == 0] = 1
    return split._replace(
        X_train=(split.X_train - mean) / deviation, X_test=(split.X_test - mean) / deviation
    )


def measure(name: str, options: Any) -> Iterator[Row]:
    """All rows of one data set: seeds outside, learners inside."""
    limits = (QUICK_TRAIN, QUICK_TEST) if options.quick else (None, None)
    split = load(CACHE / name, *limits)
    regression = name in REGRESSION
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        order = np.random.default_rng(seed).permutation(len(split.y_train))
        part = split._replace(X_train=split.X_train[order], y_train=split.y_train[order])
        for model in options.models:
            key = {"data": name, "model": model, "seed": seed, "columns": part.X_train.shape[1]}
            for row in MODELS[model](part, regression, seed, options):
                print(_line(key | row), file=sys.stderr, flush=True)
                yield key | row


# --- reporting ------------------------------------------------------------------------------------


def _error(name: str, error: float) -> str:
    return f"{error:.4f}" if name in REGRESSION else f"{error:.2%}"


def _line(row: Row) -> str:
    error = _error(row["data"], row["error"])
    return (
        f"{row['data']:<12}{row['model']:<9}seed {row['seed']}  pass {row['passes']}  {error:<9}"
        f"fit {row['fit_s']:.1f} s  {row['setting']}"
    )


def table(rows: list[Row]) -> str:
    """Per data set and learner the mean error over seeds, for the best setting of each peer."""
    lines = ["| data | learner | error | fit | setting |", "| --- | --- | --- | --- | --- |"]
    groups: dict[tuple[str, str, int], dict[str, list[Row]]] = {}
    for row in rows:
        # Other units of the targets are rows of their own, not settings to choose from.
        own = row["setting"] if row["setting"].startswith("targets") else ""
        key = (row["data"], f"{row['model']} {own}".strip(), row["passes"])
        groups.setdefault(key, {}).setdefault(row["setting"], []).append(row)
    for (name, learner, passes), settings in groups.items():
        means = {key: float(np.mean([r["error"] for r in same])) for key, same in settings.items()}
        best = min(means, key=means.__getitem__)
        seconds = float(np.median([row["fit_s"] for row in settings[best]]))
        seen = settings[best][0]["rows"]
        note = f"{best}, {seen:,} rows" + (", second pass" if passes == 2 else "")
        lines.append(
            f"| {name} | {learner} | {_error(name, means[best])} | {seconds:.1f} s | {note} |"
        )
    return "\n".join(lines)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    self = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = self.add_argument
    data = Path(os.environ.get("RIESZ_DATA") or DEFAULT_DATA).resolve()
    add("--data", type=Path, default=data, help="folder of the data sets (or RIESZ_DATA)")
    add("--only", type=_names, default=list(SETS), help=f"data sets, of {', '.join(SETS)}")
    add("--models", type=_names, default=list(MODELS), help=f"of {', '.join(MODELS)}")
    add("--seeds", type=int, default=3)
    add("--first-seed", type=int, default=0)
    add("--threads", type=int, default=2)
    add("--scales", type=float, nargs="*", default=[1e-6, 1e6], help="units of the targets")
    add("--river-rows", type=int, default=200_000, help="most rows that river learns from")
    add("--river-cells", type=int, default=8_000_000, help="most rows times columns for river")
    add("--quick", action="store_true", help=f"only {QUICK_TRAIN} training rows: a smoke test")
    add("--out", type=Path, help="raw rows; results/streaming.csv, or none with --quick")
    add("--append", action="store_true", help="keep the rows already in that file")
    return self


def main() -> None:
    """Measure what the command line asks for, write the raw rows and print the table."""
    options = parser().parse_args()
    unknown = sorted({*options.only} - {*SETS} | {*options.models} - {*MODELS})
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {SETS} and {tuple(MODELS)}")
    pin(options.threads)
    CACHE.mkdir(exist_ok=True)
    for name in options.only:
        prepare(name, options.data)
    out = options.out or (None if options.quick else HERE / "results" / "streaming.csv")
    fresh = out is not None and not (options.append and out.is_file())
    rows: list[Row] = []
    with open(out or os.devnull, "w" if fresh else "a", newline="") as file:
        raw = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if fresh:
            raw.writeheader()
        for name in options.only:
            for row in measure(name, options):
                rows.append(row)
                digits = {key: f"{row[key]:.6g}" for key in ("error", "fit_s", "predict_s")}
                raw.writerow(row | digits)
                file.flush()
    print(table(rows))


if __name__ == "__main__":
    if any(name not in os.environ for name in THREAD_VARIABLES):
        threads = str(parser().parse_args().threads)
        os.environ.update({name: threads for name in THREAD_VARIABLES})
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()
