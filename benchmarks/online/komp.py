"""POLK beside a NumPy version of itself, over numbers of atoms, and on an endless stream.

    python benchmarks/online/komp.py speed
    python benchmarks/online/komp.py one
    python benchmarks/online/komp.py endless --samples 10000000
    python benchmarks/online/komp.py endless --samples 10000000 --turning

Five classes in the plane (experiment C1), softmax loss, constant steps. `speed` has a narrow kernel
and keeps so many atoms that every step appends one and removes one; the NumPy version has the same
inverse Gram matrix with rank-one updates. Both have one thread. `one` is the processor time of
`learn_one` and `predict_one` on dictionaries, with 200 atoms and with random features. `endless`
has the settings of C1 and shows memory and the drift of the inverse; with `--turning` the classes
turn once around their centre in a million samples, so that atoms come and go without end. A JSON
line per measurement goes to benchmarks/online/results.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402

from riesz import OnlineKernelClassifier  # noqa: E402

RESULTS = Path(__file__).parent / "results"
CLASSES = 5
BANDWIDTH = 0.6
NARROW = 0.1


def stream(n: int, seed: int, turn: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes of a mixture of fifteen components, turned by an angle."""
    means = np.random.default_rng(17).normal(scale=0.2, size=(15, 2))
    angle = 2 * np.pi * (np.arange(15) // 3) / CLASSES
    means += np.c_[np.cos(angle), np.sin(angle)]
    rng = np.random.default_rng(seed)
    component = rng.integers(0, 15, n)
    rows = means[component] + 0.25 * rng.normal(size=(n, 2))
    cosine, sine = np.cos(turn), np.sin(turn)
    return rows @ np.array([[cosine, sine], [-sine, cosine]]), component // 3


class Polk:
    """Functional SGD with KOMP, in NumPy: the inverse by rank-one updates, at most `most` atoms."""

    def __init__(self, step: float, ridge: float, parsimony: float, most: int) -> None:
        self.step, self.ridge, self.most = step, ridge, most
        self.budget = (parsimony * step**2) ** 2
        self.points, self.weights = np.zeros((0, 2)), np.zeros((0, CLASSES))
        self.inverse = np.zeros((0, 0))

    def learn(self, x: np.ndarray, y: int) -> None:
        k = np.exp(-((self.points - x) ** 2).sum(1) / (2 * NARROW**2))
        scores = k @ self.weights
        p = np.exp(scores - scores.max())
        p /= p.sum()
        p[y] -= 1
        self.weights *= 1 - self.step * self.ridge
        b = self.inverse @ k
        s = 1 - k @ b
        m = len(k)
        inverse = np.empty((m + 1, m + 1))
        inverse[:m, :m] = self.inverse + np.outer(b, b / s)
        inverse[m, :m] = inverse[:m, m] = -b / s
        inverse[m, m] = 1 / s
        self.inverse = inverse
        self.points = np.vstack([self.points, x])
        self.weights = np.vstack([self.weights, -self.step * p])
        self.compress()

    def compress(self) -> None:
        left = self.budget
        while len(self.points):
            costs = (self.weights**2).sum(1) / np.diag(self.inverse)
            j = costs.argmin()
            if costs[j] > left and len(self.points) <= self.most:
                return
            left -= costs[j]
            column = self.inverse[:, j]
            kept = np.arange(len(self.points)) != j
            self.weights = (self.weights - np.outer(column / column[j], self.weights[j]))[kept]
            self.inverse = (self.inverse - np.outer(column, column / column[j]))[np.ix_(kept, kept)]
            self.points = self.points[kept]


def timed(rows: np.ndarray, labels: np.ndarray, most: int, count: int) -> dict[str, float]:
    """Return what a sample takes at `most` atoms, of NumPy up to 400."""
    settings = {"kernel": "gaussian", "bandwidth": NARROW, "scaling": "none", "ridge": 1e-5}
    model = OnlineKernelClassifier(
        memory="dictionary",
        drop="komp",
        parsimony=0.0,
        budget=most,
        learning_rate=0.02,
        random_state=0,
        n_jobs=1,
        **settings,
    )
    warm = 4 * most
    model.partial_fit(rows[:warm], labels[:warm], classes=np.arange(CLASSES))
    begun = time.perf_counter()
    model.partial_fit(rows[warm : warm + count], labels[warm : warm + count])
    own = (time.perf_counter() - begun) / count
    test, truth = stream(4000, 99)
    row = {
        "atoms": model.n_atoms_,
        "riesz_microseconds": 1e6 * own,
        "riesz_accuracy": model.score(test, truth),
    }
    if most > 400:
        return row
    peer = Polk(0.02, 1e-5, 0.0, most)
    for x, y in zip(rows[:warm], labels[:warm], strict=True):
        peer.learn(x, y)
    few = max(count // 20, 200)
    begun = time.perf_counter()
    for x, y in zip(rows[warm : warm + few], labels[warm : warm + few], strict=True):
        peer.learn(x, y)
    theirs = (time.perf_counter() - begun) / few
    k = np.exp(-((test[:, None] - peer.points) ** 2).sum(2) / (2 * NARROW**2))
    return row | {
        "numpy_microseconds": 1e6 * theirs,
        "ratio": theirs / own,
        "numpy_accuracy": float(np.mean((k @ peer.weights).argmax(1) == truth)),
    }


def speed(repeats: int) -> None:
    for repeat in range(repeats):
        rows, labels = stream(40_000, repeat)
        before = None
        for most in (50, 100, 200, 400, 800, 1600):
            row = {"what": "speed", "repeat": repeat, **timed(rows, labels, most, 4000)}
            row["doubling"] = before and row["riesz_microseconds"] / before
            before = row["riesz_microseconds"]
            write(row)


def one() -> None:
    rows, labels = stream(12_000, 0)
    dictionaries = [{"east": float(x), "north": float(y)} for x, y in rows]
    for name, settings in (
        ("komp, 200 atoms", {"memory": "dictionary", "drop": "komp", "parsimony": 0.0}),
        ("oldest, 200 atoms", {"memory": "dictionary"}),
        ("1,024 features", {"budget": "auto"}),
    ):
        model = OnlineKernelClassifier(
            **({"budget": 200} | settings), bandwidth=NARROW, scaling="none", random_state=0
        )
        pairs = list(zip(dictionaries, labels.tolist(), strict=True))
        for x, y in pairs[:2000]:
            model.learn_one(x, y)
        begun = time.process_time()
        for x, y in pairs[2000:]:
            model.learn_one(x, y)
        learnt = time.process_time()
        for x, _ in pairs[2000:]:
            model.predict_one(x)
        spent = learnt - begun, time.process_time() - learnt
        learn, predict = (1e6 * seconds / (len(pairs) - 2000) for seconds in spent)
        facts = {"what": "one", "kept": name, "atoms": model.n_atoms_}
        write(facts | {"learn_one_microseconds": learn, "predict_one_microseconds": predict})


def endless(samples: int, turning: bool) -> None:
    model = OnlineKernelClassifier(
        bandwidth=BANDWIDTH,
        scaling="none",
        ridge=1e-5,
        memory="dictionary",
        drop="komp",
        parsimony=5.0,
        learning_rate=0.02,
        random_state=0,
        n_jobs=1,
    )
    begun, chunk, part = time.perf_counter(), 250_000, 1000
    for k in range(samples // chunk):
        for i in range(k * chunk, (k + 1) * chunk, part):
            turn = 2e-6 * np.pi * i * turning
            rows, labels = stream(part, i, turn)
            model.partial_fit(rows, labels, classes=np.arange(CLASSES))
        test, truth = stream(10_000, 1 << 40, turn)
        summary = model._model.summary()
        write(
            {
                "what": "turning" if turning else "endless",
                "samples": model.n_seen_,
                "seconds": round(time.perf_counter() - begun, 1),
                "atoms": model.n_atoms_,
                "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "inverse_drift": summary["inverse_drift"],
                "changes": summary["inverse_changes"],
                "refreshes": summary["inverse_refreshes"],
                "accuracy": model.score(test, truth),
            }
        )


def write(row: dict[str, object]) -> None:
    text = json.dumps(row)
    print(text, flush=True)
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "komp.jsonl").open("a") as file:
        file.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["speed", "one", "endless"])
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--turning", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.what == "speed":
        speed(arguments.repeats)
    elif arguments.what == "one":
        one()
    else:
        endless(arguments.samples, arguments.turning)


if __name__ == "__main__":
    main()
