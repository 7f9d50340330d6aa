"""Every parameter of every estimator with values that make no sense, each case answered for.

``python tests/python/bad_arguments.py`` runs the whole matrix, one process per estimator, and
prints what was counted; the suite runs a part of it.
"""

import inspect
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import stats

import riesz

# Seconds after which a case counts as hanging, and the most address space of a process. A fit that
# was asked for billions of steps is interrupted before, as a user would: one that cannot be hangs.
PATIENCE = 20
LONG = 5
MEMORY = 8 << 30
# A value that may be wrong for any parameter, by the text it is reported with.
NUMBERS = (
    *(
        0,
        1,
        -1,
        7,
        2**31 - 1,
        2**31,
        2**32,
        2**40,
        2**53,
        2**62,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
    ),
    *(2**100, 10**400, -2, -(2**31), -(2**63), -(2**64), -(10**400)),
    *(0.0, -0.0, 0.5, -0.5, 1.5, 1e-308, 5e-324, 1e-30, 1e30, 1e300, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf"), 1j, True, False),
    *(np.float32("nan"), np.float64("inf"), np.int64(-1), np.uint64(2**64 - 1), np.int8(0)),
    *(
        np.bool_(True),
        np.array(3),
        np.array(np.nan),
        Decimal("NaN"),
        Decimal("0.5"),
        Fraction(1, 3),
    ),
)
OTHERS = (
    *("", " ", "nonsense", "auto", "é", "\0", "nan", "-1", "a" * 10_000, b"x", b""),
    *(None, ..., object(), int, len, NotImplemented),
    *(
        [],
        (),
        {},
        set(),
        [[]],
        [None],
        ["nonsense"],
        [0],
        [-1, 0],
        [float("nan")],
        [2**62],
        [1] * 1000,
    ),
    *({"nonsense": 1}, {1: 2}, {"value": -1}, {"fixed": float("nan")}, {"theta": None}, (1, 0)),
    *(np.array([]), np.array([1.0, 2.0]), np.zeros((2, 2)), np.array(["a"]), np.array([None])),
)
VALUES = (*NUMBERS, *OTHERS)

_rng = np.random.default_rng(0)
X = _rng.normal(size=(40, 3))
Y = X[:, 0] + 0.1 * _rng.normal(size=40)
LABELS = (Y > 0).astype(int)
COUNTS = _rng.poisson(1.0, size=(30, 8)).astype(float)
_WIDE = sp.csr_array((np.ones(3), ([0, 1, 2], [0, 5, 2**31 - 2])), shape=(40, 2**31 - 1))
# What is no table of the rows that an estimator was or will be fitted on.
TABLES = (
    *(np.zeros((0, 3)), np.zeros((40, 0)), np.zeros((0, 0)), np.zeros(40), np.zeros((2, 2, 2))),
    *(np.where(X > 2, np.nan, X), X * np.inf, X[:-1], X[:, :2], X[:1], X.T, X[::-1], X * 1e300),
    *(X.astype(complex), X.astype(object), X.astype(str), X.astype(np.float16), X > 0),
    *(np.full((40, 3), None), [["a"] * 3] * 40, [[1, 2, 3], [4, 5]], -X, X * 1e-300, X[:0]),
    *(sp.csr_array(X), sp.coo_array(X), sp.csr_array((40, 3)), _WIDE, sp.csr_array((40, 2**40))),
    *(sp.csr_array((40, 100_000)), np.lib.stride_tricks.as_strided(X, (40, 3), (0, 0))),
    *(X.astype(">f8"), np.asfortranarray(X), np.ma.masked_array(X, X > 0), X.astype("M8[s]")),
)


def _log_likelihood(theta: Any, batch: Any) -> Any:
    return -0.5 * ((np.asarray(batch)[:, 0] - theta[:, :1]) ** 2).sum(axis=1)


@dataclass
class Subject:
    """Something public that takes arguments: how to call it well."""

    make: Callable[..., Any]
    base: dict[str, Any]
    data: dict[str, Any] = field(default_factory=lambda: {"X": X, "y": Y})
    # Methods of what was fitted, with arguments that are right.
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Whether `fit` returns what the methods belong to, as it does everywhere.
    function: bool = False
    only: tuple[str, ...] = ()

    def parameters(self) -> list[str]:
        """Return the names of what can be told."""
        names = [name for name in inspect.signature(self.make).parameters if name not in self.data]
        return list(self.only) or names

    def fitted(self, settings: dict[str, Any], data: dict[str, Any]) -> Any:
        if self.function:
            return self.make(**(self.data | data), **(self.base | settings))
        return self.make(**(self.base | settings)).fit(**(self.data | data))


_MACHINE = {"block_size": 64, "max_blocks": 3, "max_time": 1.0, "random_state": 0, "n_jobs": 1}
_ROWS = {"X": X}
_SCORED = {"X": X, "y": Y, "sample_weight": np.ones(40)}
_POSTERIOR = {"n_particles": 60, "max_time": 1.0, "random_state": 0, "n_jobs": 1}
_TASK = {"X": X, "y": LABELS}
_PAPER = ("strategy", "density_steps", "initial_particles", "n_steps", "step", "delay", "decay")
_PAPER += ("bandwidth", "bandwidth_bound", "smoothness", "batch_size", "n_particles")
_STREAM = (
    "theta",
    "delay",
    "averaging",
    "projection",
    "batch_size",
    "passes",
    "block_size",
    "ridge",
)
_OF_POSTERIOR = {
    "sample": {"n": 3, "random_state": 0},
    "resample": {"n": 3, "random_state": 0},
    "quantile": {"q": 0.5},
    "logpdf": {"theta": np.zeros((2, 1))},
    "expect": {"f": np.sin},
    "save": {"path": "posterior"},
}
_MODEL = {"log_likelihood": _log_likelihood, "prior": {"theta": stats.norm(0, 1)}}
_TWO = {"X_numerator": X, "X_denominator": X + 0.1}
_WEIGHT = {"sample_weight": np.ones(40)}

_STEPS = {"states": X, "next_states": X[::-1].copy()}
_ENDS = {"terminals": np.arange(40) % 5 == 4}
_LOGGED = _STEPS | {"actions": X[:, :1].copy(), "rewards": Y} | _ENDS

SUBJECTS = {
    "BayesianLogisticRegression": Subject(
        riesz.BayesianLogisticRegression,
        _POSTERIOR,
        {"X": X[:20, :1], "y": LABELS[:20]},
        {"predict": {"X": X[:, :1]}, "predict_proba": {"X": X[:, :1]}, "save": {"path": "model"}},
    ),
    "DensityRatioEstimator": Subject(
        riesz.DensityRatioEstimator,
        _MACHINE,
        _TWO | {"sample_weight_numerator": np.ones(40), "sample_weight_denominator": np.ones(40)},
        {"predict": _ROWS, "log_ratio": _ROWS, "divergence": _TWO | {"kind": "kl"}},
    ),
    "GaussianProcessRegressor": Subject(
        riesz.GaussianProcessRegressor,
        {"random_state": 0, "n_jobs": 1, "max_time": 1.0},
        methods={
            "predict": _ROWS | {"return_std": False, "return_cov": True, "latent": False},
            "sample_y": _ROWS
            | {"n_samples": 1, "random_state": 0, "latent": False, "method": "auto"},
            "partial_fit": {"X": X, "y": Y},
            "save": {"path": "model"},
        },
    ),
    "GaussianProcessRegressor, inducing": Subject(
        riesz.GaussianProcessRegressor,
        {"random_state": 0, "n_jobs": 1, "max_time": 1.0, "approximation": "inducing"},
        methods={"sample_y": _ROWS | {"n_samples": 1, "random_state": 0, "method": "auto"}},
        only=("inducing", "neighbours", "learning_rows", "signal", "noise", "length_scales"),
    ),
    "HittingTime": Subject(
        riesz.HittingTime,
        {"random_state": 0, "n_jobs": 1},
        _STEPS | {"arrived": np.arange(40) % 5 == 4},
        {"expected": {"states": X}, "save": {"path": "model"}},
    ),
    "InvariantClassifier": Subject(
        riesz.InvariantClassifier,
        {"n_test_samples": 2, "random_state": 0, "n_jobs": 1},
        _TASK,
        {
            "predict": _ROWS,
            "predict_proba": _ROWS,
            "decision_function": _ROWS,
            "save": {"path": "model"},
        },
    ),
    "InvariantRegressor": Subject(
        riesz.InvariantRegressor,
        {"n_test_samples": 2, "random_state": 0, "n_jobs": 1},
        methods={"predict": _ROWS, "save": {"path": "model"}},
    ),
    "KernelClassifier": Subject(
        riesz.KernelClassifier,
        _MACHINE,
        _TASK | _WEIGHT,
        {
            "predict": _ROWS,
            "predict_proba": _ROWS,
            "decision_function": _ROWS,
            "partial_fit": _TASK | _WEIGHT | {"classes": [0, 1]},
            "save": {"path": "model"},
        },
    ),
    "KernelDensity": Subject(
        riesz.KernelDensity,
        {"n_jobs": 1},
        {"X": X} | _WEIGHT,
        {"score_samples": _ROWS, "score": _ROWS, "sample": {"n_samples": 2, "random_state": 0}},
    ),
    "KernelNoveltyDetector": Subject(
        riesz.KernelNoveltyDetector,
        {"n_components": 16, "random_state": 0, "n_jobs": 1},
        {"X": X} | _WEIGHT,
        {"predict": _ROWS, "score_samples": _ROWS, "decision_function": _ROWS},
    ),
    "KernelQuantileRegressor": Subject(
        riesz.KernelQuantileRegressor,
        _MACHINE,
        _SCORED,
        {"predict": _ROWS, "partial_fit": _SCORED, "save": {"path": "model"}},
    ),
    "KernelRegressor": Subject(
        riesz.KernelRegressor,
        _MACHINE,
        _SCORED,
        {"predict": _ROWS, "partial_fit": _SCORED, "save": {"path": "model"}},
    ),
    "KernelRegressor, stream": Subject(
        riesz.KernelRegressor, _MACHINE | {"solver": "stream"}, _SCORED, only=_STREAM
    ),
    "KernelRegressor, ridge": Subject(
        riesz.KernelRegressor,
        _MACHINE | {"solver": "ridge", "ridge": 1e-3},
        _SCORED,
        only=("ridge", "damping", "block_size", "max_blocks", "sweeps", "bandwidth", "kernel"),
    ),
    "LatentDirichletAllocation": Subject(
        riesz.LatentDirichletAllocation,
        {"n_components": 3, "max_iter": 2, "random_state": 0, "n_jobs": 1},
        {"X": COUNTS},
        {"transform": {"X": COUNTS}, "perplexity": {"X": COUNTS}, "partial_fit": {"X": COUNTS}},
    ),
    "ConstrainedKernelClassifier": Subject(
        riesz.ConstrainedKernelClassifier,
        {"random_state": 0, "n_jobs": 1, "constraints": [riesz.CVaR(0.9, 2.0)]},
        _TASK | _WEIGHT,
        {"predict": _ROWS, "partial_fit": _TASK | _WEIGHT | {"classes": [0, 1]}},
    ),
    "OnlineKernelClassifier": Subject(
        riesz.OnlineKernelClassifier,
        {"random_state": 0, "n_jobs": 1},
        _TASK | _WEIGHT,
        {
            "predict": _ROWS,
            "predict_proba": _ROWS,
            "partial_fit": _TASK | _WEIGHT | {"classes": [0, 1]},
            "regret": _TASK | {"values": np.zeros(40)} | _WEIGHT,
        },
    ),
    "LinearlySolvableControl": Subject(
        riesz.LinearlySolvableControl,
        {"random_state": 0, "n_jobs": 1},
        _STEPS | {"costs": np.abs(Y)} | _ENDS | {"final_costs": np.abs(Y)},
        {"value": {"states": X}, "control": {"candidates": X.reshape(20, 2, 3)}},
    ),
    "OnlineKernelRegressor": Subject(
        riesz.OnlineKernelRegressor,
        {"random_state": 0, "n_jobs": 1},
        _SCORED,
        {"predict": _ROWS, "partial_fit": _SCORED, "regret": _SCORED | {"values": np.zeros(40)}},
    ),
    "ParticleMirrorDescent": Subject(
        riesz.ParticleMirrorDescent, _POSTERIOR | _MODEL, {"data": X}, _OF_POSTERIOR
    ),
    "ParticleMirrorDescent, paper": Subject(
        riesz.ParticleMirrorDescent,
        _POSTERIOR | _MODEL | {"mode": "paper"},
        {"data": X},
        _OF_POSTERIOR,
        only=_PAPER,
    ),
    "PolicyEvaluator": Subject(
        riesz.PolicyEvaluator,
        {"max_time": 1.0, "random_state": 0, "n_jobs": 1},
        _LOGGED | {"truncations": np.zeros(40, dtype=bool), "weights": np.ones(40)},
        {
            "value": {"states": X, "return_std": True},
            "estimate": {"initial_states": X, "confidence": 0.9},
            "save": {"path": "model"},
        },
    ),
    "PolicyEvaluator, steps": Subject(
        riesz.PolicyEvaluator,
        {"method": "embedding_sgd", "max_time": 1.0, "random_state": 0, "n_jobs": 1},
        _LOGGED,
        only=(
            "batch_size",
            "n_passes",
            "step",
            "dual_step",
            "published",
            "centred",
            "max_time",
            "checkpoint",
        ),
    ),
    "PolicyIteration": Subject(
        riesz.PolicyIteration,
        {"tol": 1.0, "random_state": 0, "n_jobs": 1},
        _LOGGED | {"actions": np.arange(40) % 2, "truncations": np.zeros(40, dtype=bool)},
        {
            "predict": {"states": X},
            "policy": {"states": X},
            "action_values": {"states": X},
            "value": {"states": X},
            "save": {"path": "model"},
        },
    ),
    "RandomFeatures": Subject(
        riesz.RandomFeatures,
        {"n_components": 16, "random_state": 0, "n_jobs": 1},
        _ROWS,
        {"transform": _ROWS},
    ),
    "SparseGaussianProcessRegressor": Subject(
        riesz.SparseGaussianProcessRegressor,
        {"n_inducing": 8, "n_particles": 2, "max_time": 1.0, "random_state": 0, "n_jobs": 1},
        _SCORED,
        {
            "predict": _ROWS | {"return_std": False, "return_cov": True, "latent": False},
            "sample_y": _ROWS | {"n_samples": 1, "random_state": 0, "latent": False},
            "partial_fit": _SCORED,
        },
    ),
    "posterior_variances": Subject(
        riesz.posterior_variances,
        {"noise": 0.1, "n_blocks": 2, "block_size": 64, "random_state": 0, "n_jobs": 1},
        {"X": X, "X_test": X[:3]},
        function=True,
    ),
    "posterior_variances, operator": Subject(
        riesz.posterior_variances,
        {"noise": 0.1, "n_blocks": 2, "block_size": 64, "random_state": 0, "n_jobs": 1}
        | {"method": "operator"},
        {"X": X, "X_test": X[:3]},
        function=True,
        only=("n_blocks", "block_size", "batch_size", "step", "delay", "noise", "bandwidth"),
    ),
}


@dataclass(frozen=True)
class Case:
    """One argument of one call with a value that may be wrong."""

    # "" for the constructor.
    method: str
    name: str
    value: Any

    def text(self) -> str:
        """Return the case in few words."""
        value = self.value
        if sp.issparse(value) or (isinstance(value, np.ndarray) and value.size > 4):
            found = f"{type(value).__name__} {value.dtype} {value.shape}"
        else:
            found = f"{type(value).__name__} {repr(value)[:40]}"
        return f"{self.method or 'constructor'}({self.name}={found})"


def cases(subject: Subject) -> list[Case]:
    """Return all cases of an estimator, arguments of its constructor first."""
    found = [Case("", name, value) for name in subject.parameters() for value in VALUES]
    calls = {"fit": subject.data} | subject.methods
    for method, arguments in calls.items():
        for name, right in arguments.items():
            table = isinstance(right, np.ndarray)
            found += [Case(method, name, value) for value in VALUES + (TABLES if table else ())]
    return found


def attempt(subject: Subject, case: Case) -> None:
    """Make the call of a case, and use what comes of it."""
    if not case.method:
        found = subject.fitted({case.name: case.value}, {})
        for method in ("predict", "transform", "score_samples", "mean"):
            if hasattr(found, method) and not subject.function:
                getattr(found, method)(*list(subject.data.values())[: method != "mean"])
                break
    elif case.method == "fit":
        subject.fitted({}, {case.name: case.value})
    else:
        arguments = subject.methods[case.method] | {case.name: case.value}
        getattr(_fitted(subject, case.method), case.method)(**arguments)


_KEPT: dict[int, Any] = {}


def _fitted(subject: Subject, method: str) -> Any:
    """Return something fitted, anew where the method would change it."""
    if method == "partial_fit":
        return subject.fitted({}, {})
    if id(subject) not in _KEPT:
        _KEPT[id(subject)] = subject.fitted({}, {})
    return _KEPT[id(subject)]


def outcome(subject: Subject, case: Case) -> dict[str, Any]:
    """Return how a call ended: well, or with an exception and what it says."""
    signal.alarm(LONG)
    try:
        attempt(subject, case)
        signal.alarm(0)
    except BaseException as error:
        signal.alarm(0)
        message = f"{error} {' '.join(getattr(error, '__notes__', ()))}"
        named = re.search(rf"\b{re.escape(case.name)}\b", message) is not None
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return {"error": kinds[0], "kinds": kinds, "message": message[:300], "named": named}
    return {"error": None}


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt("it was asked for much and is interrupted")


def child(name: str, stride: int, first: int) -> None:
    """Run cases from the first on, telling which before and how it ended after."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _interrupt)
    subject = SUBJECTS[name]
    for index, case in enumerate(cases(subject)[::stride]):
        if index >= first:
            print(index, flush=True)
            print(json.dumps(outcome(subject, case)), flush=True)


def run(name: str, stride: int = 1) -> list[dict[str, Any]]:
    """Return how every case of an estimator ended, by processes of its own."""
    wanted = cases(SUBJECTS[name])[::stride]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        while len(found) < len(wanted):
            command = [
                sys.executable,
                os.path.abspath(__file__),
                name,
                str(stride),
                str(len(found)),
            ]
            found += _until_it_dies(command, folder, len(wanted) - len(found))
    return [result | {"case": case.text()} for result, case in zip(found, wanted, strict=True)]


def _until_it_dies(command: list[str], folder: str, count: int) -> list[dict[str, Any]]:
    """Return how cases ended until one of them took the process with it."""
    found: list[dict[str, Any]] = []
    with (
        open(os.path.join(folder, "stderr"), "wb") as errors,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        assert process.stdout is not None
        started = False
        while len(found) < count:
            # The first line comes after all has been imported.
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE if started else 120)
            line = process.stdout.readline() if ready else b""
            if not line:
                process.kill()
                with open(os.path.join(folder, "stderr"), "rb") as written:
                    said = written.read().decode(errors="replace")[-300:]
                found.append({"error": "abort" if ready else "hang", "message": said})
                break
            started = True
            if line.startswith(b"{"):
                found.append(json.loads(line))
    return found


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts that matter, and the cases behind those that should be zero."""
    ended = Counter(result["error"] or "accepted" for result in results)
    raised = [r for r in results if "kinds" in r]
    unnamed = [r for r in raised if not r["named"]]
    return {
        "cases": len(results),
        "ended": dict(ended.most_common()),
        "bad": [r for r in results if is_bad(r)],
        "unnamed": unnamed,
        "named": 1 - len(unnamed) / max(1, len(raised)),
    }


def is_bad(result: dict[str, Any]) -> bool:
    """Whether a case ended as none may: a process that died or hung, or a panic."""
    kinds = {"abort", "hang", "PanicException", "SystemError"}
    return bool(kinds & {result["error"], *result.get("kinds", ())})


if __name__ == "__main__":
    if len(sys.argv) > 3:
        child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        everything = []
        stride = int(os.environ.get("STRIDE", "1"))
        for subject_name in sys.argv[1:] or SUBJECTS:
            results = run(subject_name, stride)
            everything += results
            counted = summary(results)
            print(subject_name, counted["cases"], f"{counted['named']:.3f}", counted["ended"])
            for result in counted["bad"]:
                print("   BAD", result["error"], result["case"], result["message"][-200:])
            with open(f"bad_arguments_{subject_name.replace(', ', '_')}.json", "w") as file:
                json.dump(results, file)
        total = summary(everything)
        print(total["cases"], len(total["bad"]), f"{total['named']:.4f}", total["ended"])
