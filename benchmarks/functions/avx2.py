"""MNIST by riesz and by scikit-learn-intelex, neither with more than AVX2.

    python benchmarks/functions/avx2.py --data FOLDER [--repeats 3] [--out results/….jsonl]

For machines that have more, to see what those see that have not: riesz is told by `RIESZ_SIMD`,
oneDAL by its `Environment::setCpuId` and by MKL's variable. Each fit is a process of its own, in
turn; a row of JSON for each has the error, and seconds to fit and to predict.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from data import load, prepare
from plan import MNIST_GAMMA

AVX2 = 4  # daal::CpuType::avx2


def limit_onedal() -> None:
    """Keep oneDAL from instructions beyond AVX2; scikit-learn-intelex has loaded what it needs."""
    folder = Path(sys.prefix) / "lib"
    library = ctypes.CDLL(str(next(folder.glob("libonedal_core.so.*"))), mode=ctypes.RTLD_GLOBAL)
    scope = "_ZN4daal8services10interface111Environment"
    instance = getattr(library, f"{scope}11getInstanceEv")
    instance.restype = ctypes.c_void_p
    choose = getattr(library, f"{scope}8setCpuIdEi")
    choose.argtypes = [ctypes.c_void_p, ctypes.c_int]
    choose(instance(), AVX2)


def machine(name: str, seed: int) -> Any:
    """One of the two, not fitted."""
    if name == "riesz":
        from riesz import KernelClassifier, _riesz

        assert _riesz.simd_path() == "avx2"
        return KernelClassifier(random_state=seed)
    from sklearnex.svm import SVC

    limit_onedal()
    return SVC(C=10.0, gamma=MNIST_GAMMA)


def measure(name: str, seed: int, cache: Path) -> dict[str, Any]:
    """Fit and predict once."""
    split, estimator = load(cache / "mnist"), machine(name, seed)
    begin = time.perf_counter()
    found = estimator.fit(split.X_train, split.y_train)
    fitted = time.perf_counter()
    answer = found.predict(split.X_test)
    done = time.perf_counter()
    return {
        "experiment": "mnist, avx2",
        "entry": name,
        "repetition": seed,
        "error": float(np.mean(answer != split.y_test)),
        "fit": round(fitted - begin, 2),
        "predict": round(done - fitted, 3),
    }


def main() -> None:
    """Measure both in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, seed, cache = options.child
        print(json.dumps(measure(name, int(seed), Path(cache))))
        return
    limits = {"RIESZ_SIMD": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    with tempfile.TemporaryDirectory() as cache:
        prepare("mnist", options.data, Path(cache))
        for seed in range(options.repeats):
            for name in ("riesz", "sklearnex-svc"):
                command = [sys.executable, __file__, "--child", name, str(seed), cache]
                child = subprocess.run(
                    command, env=os.environ | limits, check=True, capture_output=True, text=True
                )
                row = child.stdout.splitlines()[-1]
                print(row, flush=True)
                if options.out:
                    with options.out.open("a") as file:
                        file.write(row + "\n")


if __name__ == "__main__":
    main()
