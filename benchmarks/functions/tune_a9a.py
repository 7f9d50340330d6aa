"""Find C and gamma for the SVC peers on a9a: 3-fold cross-validation on the training rows only.

    python benchmarks/functions/tune_a9a.py

Two stages with scikit-learn-intelex's `SVC`: a grid on the first 8,000 rows, then the best pairs
on all of them. Run once, not with every benchmark; the winner stands in `plan.py`.
"""

from __future__ import annotations

import itertools

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearnex.svm import SVC

from data import load, prepare
from run import CACHE, parser

GRID = {"C": (3.0, 10.0, 30.0), "gamma": (0.003, 0.01, 0.03)}
SCREENING_ROWS, FINALISTS = 8000, 3


def main() -> None:
    """Print the cross-validated error of every pair tried, then the winner."""
    options = parser().parse_args()
    prepare("a9a", options.data, CACHE)
    X, y, *_ = load(CACHE / "a9a")
    folds = StratifiedKFold(3, shuffle=True, random_state=0)

    def error(pair: tuple[float, float], rows: int) -> float:
        model = SVC(C=pair[0], gamma=pair[1], cache_size=1000, n_jobs=options.threads)
        value = 1 - float(np.mean(cross_val_score(model, X[:rows], y[:rows], cv=folds)))
        print(f"{rows:,} rows, C={pair[0]:g}, gamma={pair[1]:g}: {value:.3%}", flush=True)
        return value

    pairs = list(itertools.product(*GRID.values()))
    screening = {pair: error(pair, SCREENING_ROWS) for pair in pairs}
    finalists = sorted(pairs, key=screening.__getitem__)[:FINALISTS]
    final = {pair: error(pair, len(y)) for pair in finalists}
    best = min(final, key=final.__getitem__)
    print(f"best: C={best[0]:g}, gamma={best[1]:g}: {final[best]:.3%}")


if __name__ == "__main__":
    main()
