"""How many threads ``n_jobs=None`` means."""

import os
import sys


def limit() -> int | None:
    """Return the ``n_jobs`` that None stands for; None for all cores that the process may use.

    The first of these that there is:

    1. the environment variable ``RAYON_NUM_THREADS``, then ``OMP_NUM_THREADS``. joblib sets the
       latter in the processes it starts, so that they share the cores, and so do batch systems;
    2. one, in a thread that joblib started: the others are at work beside it;
    3. the ``n_jobs`` of a ``joblib.parallel_config`` around the call;
    4. all cores.
    """
    for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS"):
        # OpenMP allows one number for each level of nesting.
        first = os.environ.get(name, "").split(",")[0].strip()
        if first.isascii() and first.isdigit() and int(first) > 0:
            return int(first)
    # Without joblib, nobody is its worker.
    parallel = sys.modules.get("joblib.parallel")
    if parallel is None:
        return None
    backend, configured = parallel.get_active_backend()
    n_jobs: int | None = 1 if backend.nesting_level else configured
    return n_jobs
