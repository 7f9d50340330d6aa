"""Dual embedding and its neighbours in NumPy: the reference and the baseline of the timings.

    python benchmarks/dynamics/numpy_reference.py navigation --seeds 3
    python benchmarks/dynamics/numpy_reference.py noisy-inputs --seeds 3
    python benchmarks/dynamics/numpy_reference.py timing --rows 1000000 --features 512

What a careful scientist writes: double precision, minibatches and chunks in matrix products, one
thread of BLAS unless the environment says otherwise. Square loss; the dual is u = v(x) - y in the
iterations and u itself, free, in the closed form.

- `navigation` evaluates the policy of the navigation task from 50,000 transitions: mean squared
  Bellman error (unbiased, by the product of two halves) and root mean square error of the value
  against `exact_value`.
- `noisy-inputs` learns a function of one variable from inputs with noise.
- `timing` gives seconds, of the clock and of the processor, for the closed form and for
  Embedding-SGD over a stream of transitions, in NumPy and in riesz by turns.

One JSON object per line, appended to `--out`.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from navigation import DISCOUNT, START_VARIANCE, Value, bellman_error, exact_value, sample  # noqa: E402

Array = NDArray[np.float64]
Row = dict[str, Any]

# --- spaces ---------------------------------------------------------------------------------------


class RandomFeatures:
    """sqrt(2/D) cos(w.x + b), w ~ N(0, I / bandwidth^2): the Gaussian kernel in D features."""

    def __init__(self, columns: int, count: int, bandwidth: float, seed: int) -> None:
        """Draw frequencies and phases."""
        rng = np.random.default_rng([seed, 1])
        self.frequencies = rng.standard_normal((columns, count)) / bandwidth
        self.phases = rng.uniform(0, 2 * np.pi, count)
        self.count = count

    def __call__(self, x: Array) -> Array:
        """Features of rows."""
        angles = x @ self.frequencies
        angles += self.phases
        np.cos(angles, out=angles)
        angles *= np.sqrt(2.0 / self.count)
        return angles


class Dictionary:
    """Gaussian kernels at fixed centres, whitened: coefficients have the norm of its space.

    A step along these features is the functional gradient, projected on the span of the dictionary.
    """

    def __init__(self, centres: Array, bandwidth: float, jitter: float = 1e-6) -> None:
        """Factorise the kernel of the centres."""
        self.centres, self.bandwidth = centres, bandwidth
        self.count = len(centres)
        values, vectors = np.linalg.eigh(self._kernel(centres) + jitter * np.eye(self.count))
        self.whitening = vectors / np.sqrt(values)

    def _kernel(self, x: Array) -> Array:
        squares = (x**2).sum(axis=1)[:, None] + (self.centres**2).sum(axis=1)
        return np.exp((2 * x @ self.centres.T - squares) / (2 * self.bandwidth**2))

    def __call__(self, x: Array) -> Array:
        """Features of rows."""
        return self._kernel(x) @ self.whitening

    def blurred(self, x: Array, deviation: float) -> Array:
        """E[features of x + N(0, deviation^2 I)], exactly."""
        wide = self.bandwidth**2 + deviation**2
        squares = (x**2).sum(axis=1)[:, None] + (self.centres**2).sum(axis=1)
        kernel = np.exp((2 * x @ self.centres.T - squares) / (2 * wide))
        return (self.bandwidth**2 / wide) ** (x.shape[1] / 2) * kernel @ self.whitening


Space = RandomFeatures | Dictionary


def linear(space: Space, weights: Array) -> Value:
    """The function of these weights."""
    return lambda x: space(x) @ weights


# --- closed forms ---------------------------------------------------------------------------------


class Sums:
    """Means that closed forms need: G = E[phi phi'], B = E[phi psi'], E[phi y].

    In policy evaluation psi = gamma phi(s') - phi(s) and y = -r, with f = r + psi.theta.
    """

    def __init__(self, dual: int, primal: int) -> None:
        """Nothing yet."""
        self.gram = np.zeros((dual, dual))
        self.cross = np.zeros((dual, primal))
        self.target = np.zeros(dual)
        self.rows = 0

    def add(self, phi: Array, psi: Array, y: Array) -> None:
        """Add a chunk."""
        self.gram += phi.T @ phi
        self.cross += phi.T @ psi
        self.target += phi.T @ y
        self.rows += len(y)

    def saddle(self, primal_ridge: float, dual_ridge: float) -> Array:
        """theta = (B' G^-1 B + l1 I)^-1 B' G^-1 E[phi y], G with the dual's ridge."""
        gram = self.gram / self.rows + dual_ridge * np.eye(len(self.gram))
        cross = self.cross / self.rows
        both = np.linalg.solve(gram, np.column_stack([cross, self.target / self.rows]))
        normal = cross.T @ both
        return np.linalg.solve(
            normal[:, :-1] + primal_ridge * np.eye(cross.shape[1]), normal[:, -1]
        )

    def lstd(self, ridge: float) -> Array:
        """theta = (-B + l I)^-1 E[phi r]: the same space for both."""
        return np.linalg.solve(
            -self.cross / self.rows + ridge * np.eye(len(self.gram)), -self.target / self.rows
        )


def accumulate(
    primal: Space, dual: Space, transitions: tuple[Array, Array, Array], chunk: int = 8192
) -> Sums:
    """Sums of policy evaluation over transitions."""
    states, rewards, following = transitions
    sums = Sums(dual.count, primal.count)
    for start in range(0, len(rewards), chunk):
        part = slice(start, start + chunk)
        here = primal(states[part])
        phi = here if dual is primal else dual(states[part])
        psi = primal(following[part])
        psi *= DISCOUNT
        psi -= here
        sums.add(phi, psi, -rewards[part])
    return sums


# --- iterations -----------------------------------------------------------------------------------


def embedding_sgd(
    primal: Space,
    dual: Space,
    transitions: tuple[Array, Array, Array],
    steps: tuple[float, float],
    *,
    batch: int = 20,
    dual_ridge: float = 1e-4,
    paper: bool = False,
) -> Array:
    """Algorithm 4 for policy evaluation: f = r + gamma V(s') - V(s), y = 0, u = v(s).

    Constant steps and the mean of the last half; `paper` has steps / sqrt(i) and the mean weighted
    by them.
    """
    states, rewards, following = transitions
    theta, omega = np.zeros(primal.count), np.zeros(dual.count)
    total, weight = np.zeros(primal.count), 0.0
    count = len(rewards) // batch
    for i in range(count):
        part = slice(i * batch, (i + 1) * batch)
        phi = dual(states[part])
        psi = DISCOUNT * primal(following[part]) - primal(states[part])
        u = phi @ omega
        excess = rewards[part] + psi @ theta - u
        scale = 1 / np.sqrt(i + 1) if paper else 1.0
        theta = theta - scale * steps[0] * (u @ psi) / batch
        omega = omega + scale * steps[1] * (excess @ phi / batch - dual_ridge * omega)
        kept = scale if paper else float(2 * i >= count)
        total += kept * theta
        weight += kept
    return total / weight


def temporal_difference(
    space: Space, transitions: tuple[Array, Array, Array], step: float, batch: int = 20
) -> Array:
    """TD(0): theta += step (r + gamma V(s') - V(s)) phi(s), the mean of the last half."""
    states, rewards, following = transitions
    theta, total = np.zeros(space.count), np.zeros(space.count)
    count = len(rewards) // batch
    for i in range(count):
        part = slice(i * batch, (i + 1) * batch)
        phi = space(states[part])
        error = rewards[part] + (DISCOUNT * space(following[part]) - phi) @ theta
        theta = theta + step * error @ phi / batch
        total += theta * (2 * i >= count)
    return total / (count - (count + 1) // 2)


def residual_gradient(
    space: Space, transitions: tuple[Array, Array, Array], step: float, batch: int = 20
) -> Array:
    """Gradient of the squared temporal difference, with one next state: biased."""
    states, rewards, following = transitions
    theta, total = np.zeros(space.count), np.zeros(space.count)
    count = len(rewards) // batch
    for i in range(count):
        part = slice(i * batch, (i + 1) * batch)
        psi = DISCOUNT * space(following[part]) - space(states[part])
        theta = theta - step * (rewards[part] + psi @ theta) @ psi / batch
        total += theta * (2 * i >= count)
    return total / (count - (count + 1) // 2)


def gtd2(
    space: Space,
    transitions: tuple[Array, Array, Array],
    steps: tuple[float, float],
    batch: int = 20,
) -> Array:
    """GTD2: Embedding-SGD with one basis for both functions and no ridge."""
    return embedding_sgd(space, space, transitions, steps, batch=batch, dual_ridge=0.0)


# --- a function of one variable, from inputs with noise -------------------------------------------

INPUT_NOISE = 0.05


def target(x: Array) -> Array:
    """3x^2 + (sin 3.53 pi x + cos 7.7 pi x) exp(-1.6 pi |x|)."""
    wave = np.sin(3.53 * np.pi * x) + np.cos(7.7 * np.pi * x)
    return 3 * x**2 + wave * np.exp(-1.6 * np.pi * np.abs(x))


def noisy_inputs(count: int, copies: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Inputs x ~ U(-1/2, 1/2), labels with noise 0.1, and `copies` of z ~ N(x, 0.05^2) each."""
    x = rng.uniform(-0.5, 0.5, count)
    z = x[:, None] + INPUT_NOISE * rng.standard_normal((count, copies))
    return x[:, None], z, target(x) + 0.1 * rng.standard_normal(count)


def noisy_spaces() -> tuple[Dictionary, Dictionary]:
    """Of f and of v: 41 centres on [-0.8, 0.8], bandwidths 0.05 and 0.1."""
    centres = np.linspace(-0.8, 0.8, 41)[:, None]
    return Dictionary(centres, 0.05), Dictionary(centres, 0.1)


def mean_features(space: Dictionary, z: Array) -> Array:
    """Features of each row's copies, averaged."""
    return space(z.reshape(-1, 1)).reshape(*z.shape, space.count).mean(axis=1)


def noisy_sgd(
    data: tuple[Array, Array, Array],
    method: str,
    steps: tuple[float, float] = (0.3, 1.0),
    batch: int = 50,
    dual_ridge: float = 1e-4,
) -> Array:
    """Embedding-SGD with u = v(x) - y, the sample average's gradient, or virtual samples."""
    x, z, y = data
    primal, dual = noisy_spaces()
    theta, omega = np.zeros(primal.count), np.zeros(dual.count)
    total, count = np.zeros(primal.count), len(y) // batch
    for i in range(count):
        part = slice(i * batch, (i + 1) * batch)
        if method == "virtual samples":
            psi = primal(z[part].reshape(-1, 1))
            u = psi @ theta - np.repeat(y[part], z.shape[1])
        else:
            psi = mean_features(primal, z[part])
            u = psi @ theta - y[part]
        if method == "embedding-sgd":
            phi = dual(x[part])
            v = phi @ omega
            change = (psi @ theta - v) @ phi / batch - dual_ridge * omega
            u, omega = v - y[part], omega + steps[1] * change
        theta = theta - steps[0] * u @ psi / len(u)
        total += theta * (2 * i >= count)
    return total / (count - (count + 1) // 2)


def noisy_closed(data: tuple[Array, Array, Array], ridge: float = 1e-6) -> Array:
    """The closed form with a free u(x)."""
    x, z, y = data
    primal, dual = noisy_spaces()
    sums = Sums(dual.count, primal.count)
    for start in range(0, len(y), 8192):
        part = slice(start, start + 8192)
        sums.add(dual(x[part]), mean_features(primal, z[part]), y[part])
    return sums.saddle(ridge, ridge)


def noisy_rows(seed: int, _options: Any) -> Iterator[Row]:
    """Mean squared error of E[f(z)|x] on [-1/2, 1/2], by method."""
    places = np.linspace(-0.5, 0.5, 401)[:, None]
    blurred = noisy_spaces()[0].blurred(places, INPUT_NOISE)
    truth = target(places[:, 0])
    methods: dict[str, Callable[..., Array]] = {
        name: functools.partial(noisy_sgd, method=name)
        for name in ("embedding-sgd", "sample average", "virtual samples")
    }
    methods |= {"closed form": noisy_closed}
    for copies in (10, 1):
        data = noisy_inputs(100_000, copies, np.random.default_rng([seed, copies]))
        for name, fit in methods.items():
            row, theta = timed(lambda fit=fit, data=data: fit(data))
            error = float(np.mean((blurred @ theta - truth) ** 2))
            yield {"method": name, "copies": copies, "mse": error} | row


# --- navigation and timings -----------------------------------------------------------------------


def timed(call: Callable[[], Any]) -> tuple[Row, Any]:
    """Seconds of a call, and what it returned."""
    start = time.perf_counter(), time.process_time()
    found = call()
    wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    return {"wall_s": round(wall, 4), "cpu_s": round(cpu, 4)}, found


def navigation_rows(seed: int, options: Any) -> Iterator[Row]:
    """Bellman error and error of the value, by method, on one dictionary of the first states."""
    transitions = sample(options.transitions, np.random.default_rng(seed))
    test = np.sqrt(START_VARIANCE) * np.random.default_rng([seed, 3]).standard_normal((1000, 2))
    truth = exact_value(test)
    space = Dictionary(transitions[0][: options.centres], options.bandwidth)
    small = RandomFeatures(2, 256, 0.1, seed)
    methods: dict[str, tuple[Space, Callable[[], Array]]] = {
        "closed form": (
            space, lambda: accumulate(space, space, transitions).saddle(1e-9, 1e-8)
        ),
        "lstd": (space, lambda: accumulate(space, space, transitions).lstd(1e-8)),
        "embedding-sgd": (space, lambda: embedding_sgd(space, space, transitions, (3, 3))),
        "embedding-sgd, paper": (
            space, lambda: embedding_sgd(space, space, transitions, (30, 10), paper=True)
        ),
        "td": (space, lambda: temporal_difference(space, transitions, 3.0)),
        "residual gradient": (space, lambda: residual_gradient(space, transitions, 1.0)),
        "gtd2, 256 random features": (small, lambda: gtd2(small, transitions, (1, 1))),
    }  # fmt: skip
    for name, (basis, fit) in methods.items():
        row, theta = timed(fit)
        value = linear(basis, theta)
        error = float(np.sqrt(np.mean((value(test) - truth) ** 2)))
        bellman = bellman_error(value, test, np.random.default_rng([seed, 4]))
        yield {"method": name, "msbe": bellman, "value_rmse": error} | row


def timing_rows(seed: int, options: Any) -> Iterator[Row]:
    """Seconds of the closed form and of Embedding-SGD, NumPy and riesz by turns.

    Without the drawing of transitions. What riesz does has standard errors of the values beside
    it, and the closed form a choice of ridges; both have the same random features and bandwidth.
    """
    from riesz import PolicyEvaluator

    space = RandomFeatures(2, options.features, 0.07, seed)
    states, rewards, following = transitions = sample(options.rows, np.random.default_rng(seed))
    ends = np.zeros(options.rows, dtype=bool)
    known = {"rows": options.rows, "features": options.features}

    def riesz(threads: int, **settings: Any) -> Row:
        evaluator = PolicyEvaluator(
            discount=DISCOUNT, features="random", n_features=options.features, random_state=seed,
            bandwidth=0.07 / np.sqrt(START_VARIANCE), n_jobs=threads, **settings,
        )  # fmt: skip
        row, _ = timed(lambda: evaluator.fit(states, None, rewards, following, ends))
        return {"library": "riesz", "threads": threads} | row

    row, _ = timed(lambda: accumulate(space, space, transitions).saddle(1e-7, 1e-8))
    yield {"method": "closed form", "library": "numpy", "threads": 1} | known | row
    for threads in (1, 2):
        yield {"method": "closed form"} | known | riesz(threads)
    row, _ = timed(lambda: embedding_sgd(space, space, transitions, (1, 1)))
    yield {"method": "embedding-sgd", "library": "numpy", "threads": 1} | known | row
    for threads in (1, 2):
        yield {"method": "embedding-sgd"} | known | riesz(threads, method="embedding_sgd")


ENTRIES = {"navigation": navigation_rows, "noisy-inputs": noisy_rows, "timing": timing_rows}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("entry", choices=list(ENTRIES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--transitions", type=int, default=50_000)
    parser.add_argument("--centres", type=int, default=400)
    parser.add_argument("--bandwidth", type=float, default=0.1)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the timing")
    parser.add_argument("--features", type=int, default=512, help="of the timing")
    parser.add_argument("--out", type=Path, help="append rows here")
    options = parser.parse_args()
    for seed in range(options.seeds):
        for row in ENTRIES[options.entry](seed, options):
            line = json.dumps({"entry": options.entry, "seed": seed} | row)
            print(line, flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
