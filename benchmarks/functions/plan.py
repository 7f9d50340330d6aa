"""Which estimator meets which data set, with which settings.

An `Entry` is one row of a table. Entries marked `seeded` are random: repetition r uses seed r and
they are repeated `--seeds` times, the others `--repeats` times. An entry whose label starts with
`riesz` is ours; the one called `riesz` is the default constructor (in `krr`: the ridge solver).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MNIST_GAMMA = 0.02
# Found by tune_a9a.py: 3-fold cross-validated error 15.26 % on the training rows. The valley is
# flat along C gamma = 0.1 (C=10, gamma=0.01: 15.29 %; C=3, gamma=0.03: 15.35 %), and the winner
# lies at the grid's edge.
A9A_C, A9A_GAMMA = 30.0, 0.003
COVTYPE_GAMMA = 4.0  # a guess, not tuned
KRR_ALPHA, KRR_GAMMA = 0.1, 0.05
KERNEL_RIDGE = {"alpha": 0.1, "gamma": None}  # gamma None: 1 / columns
FEATURES = 1024
# alpha = nu n = 0.06: 2.16 % error at full size, seed 0
NYSTROEM = {"gamma": MNIST_GAMMA, "components": 5000, "nu": 1e-6}
SCALING_BLOCKS = 20

MAIN = ("mnist", "covtype", "a9a", "krr", "scaling")
EXTRA = ("usps", "digits", "covtype7", "california", "kin40k", "pol", "elevators")


@dataclass(frozen=True)
class Entry:
    """One row: `peer` names a function of `peers.py`; `fraction` of the training rows is used."""

    label: str
    peer: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeded: bool = False
    fraction: float = 1.0

    @property
    def ours(self) -> bool:
        """Whether this is riesz."""
        return self.label.startswith("riesz")


def data_of(name: str) -> str:
    """The data set an experiment reads."""
    return "mnist" if name == "scaling" else name


def _riesz(peer: str = "riesz_classifier") -> Entry:
    return Entry("riesz", peer, seeded=True)


def _mnist(matched_blocks: int) -> list[Entry]:
    svc = {"C": 10.0, "gamma": MNIST_GAMMA}
    matched = {"max_blocks": matched_blocks}
    random_svc = {"gamma": MNIST_GAMMA, "components": FEATURES, "C": 1.0}
    return [
        _riesz(),
        Entry("riesz-matched", "riesz_classifier", matched, seeded=True),
        Entry("sklearn-svc", "sklearn_svc", svc),
        Entry("sklearnex-svc", "sklearnex_svc", svc),
        Entry("nystroem-ridge", "nystroem_ridge", NYSTROEM, seeded=True),
        Entry("rbf-linearsvc", "rbf_linear_svc", random_svc, seeded=True),
    ]


def _covtype() -> list[Entry]:
    random = {"gamma": COVTYPE_GAMMA, "components": FEATURES}
    return [
        _riesz(),
        Entry("rbf-linearsvc", "rbf_linear_svc", random | {"C": 1.0}, seeded=True),
        Entry("rbf-sgd", "rbf_sgd", random | {"alpha": 1e-6}, seeded=True),
    ]


def _a9a() -> list[Entry]:
    svc = {"C": A9A_C, "gamma": A9A_GAMMA}
    random = {"gamma": A9A_GAMMA, "components": FEATURES, "C": 1.0}
    return [
        _riesz(),
        Entry("sklearn-svc", "sklearn_svc", svc),
        Entry("sklearnex-svc", "sklearnex_svc", svc),
        Entry("rbf-linearsvc", "rbf_linear_svc", random, seeded=True),
    ]


def _krr() -> list[Entry]:
    settings = {"alpha": KRR_ALPHA, "gamma": KRR_GAMMA}
    return [
        Entry("riesz", "riesz_ridge", settings, seeded=True),
        Entry("kernel-ridge", "kernel_ridge", settings),
    ]


def _scaling() -> list[Entry]:
    def entry(label: str, blocks: int, fraction: float) -> Entry:
        settings = {"gamma": MNIST_GAMMA, "max_blocks": blocks}
        return Entry(f"riesz-{label}", "riesz_classifier", settings, fraction=fraction)

    return [
        entry("half-rows", SCALING_BLOCKS, 0.5),
        entry("base", SCALING_BLOCKS, 1.0),
        entry("double-blocks", 2 * SCALING_BLOCKS, 1.0),
    ]


def _classification() -> list[Entry]:
    return [
        _riesz(),
        Entry("sklearnex-svc", "sklearnex_svc", {"C": 10.0, "gamma": "scale"}),
        Entry("boosting", "boosting_classifier"),
    ]


def _regression(name: str) -> list[Entry]:
    svr = {"C": 10.0, "gamma": "scale", "epsilon": 0.05}
    entries = [
        _riesz("riesz_regressor"),
        Entry("sklearnex-svr", "sklearnex_svr", svr),
        Entry("boosting", "boosting_regressor"),
    ]
    if name != "kin40k":  # 36,000 rows: the kernel matrix alone would be 10 GB
        entries.insert(2, Entry("kernel-ridge", "kernel_ridge", KERNEL_RIDGE))
    return entries


def entries(name: str, matched_blocks: int) -> list[Entry]:
    """The rows of experiment `name`."""
    if name == "mnist":
        return _mnist(matched_blocks)
    if name in ("usps", "digits", "covtype7"):
        return _classification()
    if name in EXTRA:
        return _regression(name)
    return {"covtype": _covtype, "a9a": _a9a, "krr": _krr, "scaling": _scaling}[name]()
