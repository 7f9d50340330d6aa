"""Other processes, other threads and full disks."""

import ctypes
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy import stats
from sklearn.model_selection import GridSearchCV

import riesz
from riesz._threads import limit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes and disks of Linux")

MATRIX = Path(__file__).with_name("process_matrix.py")
WAYS = [
    "threads",
    "joblib threads",
    "fork",
    "fork beside a fit",
    "multiprocessing fork",
    "multiprocessing pool",
    "forkserver",
    "spawn",
    "loky",
]


def environment():
    """The environment without limits on threads: there should be some."""
    return {name: value for name, value in os.environ.items() if not name.endswith("NUM_THREADS")}


@pytest.fixture(scope="module")
def matrix():
    rounds = os.environ.get("RIESZ_MATRIX_ROUNDS", "1")
    done = subprocess.run(
        [sys.executable, str(MATRIX), "--rounds", rounds],
        capture_output=True,
        text=True,
        check=False,
        timeout=600 * int(rounds),
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_every_estimator_answers_alike_elsewhere(matrix, way):
    found = matrix["ways"][way]
    assert found["cases"] >= 60
    assert not found["failures"]


def test_threads_are_our_own_and_few(matrix):
    assert matrix["foreign threads"] == 0, "rayon's global pool, which no child can use"
    # Eight idle pools at most, of two threads here or of all cores.
    assert matrix["own threads"] <= 7 * 2 + max(2, os.cpu_count() or 2)


def threads_of_riesz():
    names = (path.read_text() for path in Path("/proc/self/task").glob("*/comm"))
    return sum(name.startswith("riesz-") for name in names)


class Counting(riesz.KernelRegressor):
    """The score is the number of threads that the process has for it."""

    def score(self, X, y, sample_weight=None):
        super().score(X, y, sample_weight)
        return threads_of_riesz()


def test_a_search_in_two_processes_shares_the_cores(monkeypatch):
    for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    X = np.random.default_rng(0).normal(size=(300, 2))
    estimator = Counting(max_blocks=2, block_size=64, random_state=0)
    grid = {"bandwidth": [0.5, 1.0, 2.0, 4.0]}
    search = GridSearchCV(estimator, grid, cv=2, n_jobs=2, refit=False).fit(X, X[:, 0])
    found = {*search.cv_results_["split0_test_score"], *search.cv_results_["split1_test_score"]}
    assert found == {max(joblib.cpu_count() // 2, 1)}


def test_workers_that_are_threads_have_one_each(monkeypatch):
    for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    parallel = joblib.Parallel(n_jobs=2, backend="threading")
    assert parallel(joblib.delayed(limit)() for _ in range(4)) == [1, 1, 1, 1]


def test_what_no_number_of_jobs_means(monkeypatch):
    for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert limit() is None
    with joblib.parallel_config(n_jobs=3):
        assert limit() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert limit() == 4
    monkeypatch.setenv("RAYON_NUM_THREADS", "5")
    assert limit() == 5
    for nonsense in ("0", "-1", "many", ""):
        monkeypatch.setenv("RAYON_NUM_THREADS", nonsense)
        assert limit() == 4


@pytest.mark.parametrize("n_jobs", [0, 5_000, 2**40])
def test_numbers_of_jobs_that_make_no_sense_are_refused(n_jobs):
    with pytest.raises(riesz.InvalidInput, match=f"n_jobs = {n_jobs} is outside"):
        riesz.KernelRegressor(n_jobs=n_jobs).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])


def test_a_kernel_may_fit_something_itself():
    """On one core, where the thread that calls the kernel is the only one there is."""
    script = """
        import os
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        import numpy as np
        from riesz import KernelDensity, KernelRegressor
        def kernel(X, seed, n_features):
            density = KernelDensity(bandwidth=1.0).fit(X[:50])
            inner = KernelRegressor(bandwidth=1.0, block_size=64, max_blocks=1, random_state=0)
            known = inner.fit(X[:20], X[:20, 0]).predict(X)
            rows = np.exp(density.score_samples(X)) + 0 * known
            frequencies = np.random.default_rng(seed).normal(size=(X.shape[1], n_features))
            return np.cos(X @ frequencies + rows[:, None])
        X = np.random.default_rng(0).normal(size=(200, 2))
        settings = dict(block_size=64, max_blocks=2, random_state=0)
        print(KernelRegressor(kernel=kernel, **settings).fit(X, X[:, 0]).score(X, X[:, 0]) > 0)
    """
    done = python(script, "")
    assert done.stdout.strip() == "True", done.stderr


def python(script, folder):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


# A small model is saved, then there is no room for a large one.
SAVES = """
    import os, resource, sys
    import numpy as np
    import riesz
    folder = sys.argv[1]
    path = os.path.join(folder, "model.riesz")
    X = np.random.default_rng(0).normal(size=(300, 2))
    def fit(blocks):
        settings = dict(bandwidth=1.0, block_size=512, max_blocks=blocks, random_state=0)
        return riesz.KernelRegressor(**settings).fit(X, X[:, 0])
    fit(1).save(path)
    before = open(path, "rb").read()
    large = fit(16)
    {limit}
    try:
        large.save(path)
    except OSError as error:
        print(error.filename)
    assert open(path, "rb").read() == before
    print(sorted(os.listdir(folder)))
"""


def test_a_file_too_large_leaves_the_old_one(tmp_path):
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100,) * 2)"
    done = python(SAVES.replace("{limit}", limit), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(tmp_path / "model.riesz"), "['model.riesz']"]


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 kB, where it may be mounted."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = os.fsencode(tmp_path)
    if libc.mount(b"tmpfs", folder, b"tmpfs", 0, b"size=64k") != 0:
        pytest.skip("a disk cannot be mounted here")

    def remount():
        read_only_and_remount = 1 | 32
        assert libc.mount(b"tmpfs", folder, b"tmpfs", read_only_and_remount, b"size=64k") == 0

    yield tmp_path, remount
    libc.umount2(folder, 2)


def test_a_full_disk_leaves_the_old_file(small_disk):
    folder, _ = small_disk
    # What is left of 64 kB would do for the small model, not for the large one.
    limit = 'open(folder + "/rest", "wb").write(bytes(45_000))'
    done = python(SAVES.replace("{limit}", limit), folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(folder / "model.riesz"), "['model.riesz', 'rest']"]


def test_a_read_only_folder_keeps_its_files(small_disk):
    folder, remount = small_disk
    X = np.random.default_rng(0).normal(size=(60, 2))
    machine = riesz.KernelRegressor(random_state=0, block_size=64, max_blocks=2).fit(X, X[:, 0])
    machine.save(folder / "model.riesz")
    before = (folder / "model.riesz").read_bytes()
    remount()
    with pytest.raises(OSError, match="Read-only") as raised:
        machine.save(folder / "model.riesz")
    assert raised.value.filename == folder / "model.riesz"
    assert (folder / "model.riesz").read_bytes() == before
    assert os.listdir(folder) == ["model.riesz"]
    for path in (folder / "checkpoint", folder / "new" / "checkpoint"):
        with pytest.raises(OSError, match="Read-only") as raised:
            machine.set_params(checkpoint=path, max_blocks=10**6).fit(X, X[:, 0])
        assert raised.value.filename == path


def test_a_checkpoint_is_not_a_folder_nor_within_a_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    (tmp_path / "file").write_text("no folder")
    asked = []

    def log_likelihood(theta, batch):
        asked.append(len(batch))
        return np.zeros(len(theta))

    posterior = riesz.ParticleMirrorDescent(log_likelihood, {"mu": stats.norm(0, 1)})
    for path in (tmp_path, tmp_path / "file" / "checkpoint"):
        for fit in (
            lambda path=path: riesz.KernelRegressor(checkpoint=path).fit(X, X[:, 0]),
            lambda path=path: posterior.set_params(checkpoint=path).fit(X[:, 0]),
        ):
            with pytest.raises(OSError, match=r"folder|directory") as raised:
                fit()
            assert str(path) in str(raised.value)
    assert not asked
