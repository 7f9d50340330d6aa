"""What only a process of its own can show: signals, memory, the command."""

import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pytest

import riesz

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and memory")


def python(script, **options):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("solver", ["block", "stream"])
def test_an_interrupt_arrives_within_a_second(solver):
    script = f"""
        import sys
        import numpy as np
        from riesz import KernelRegressor
        X = np.random.default_rng(0).normal(size=(20_000, 20)).astype(np.float32)
        machine = KernelRegressor(
            solver={solver!r}, bandwidth=3.0, block_size=512, max_blocks=1_000_000, batch_size=1,
            early_stopping=False, verbose=2,
        )
        try:
            machine.fit(X, X[:, 0])
        except KeyboardInterrupt:
            sys.exit(3)
    """
    with python(script) as process:
        try:
            for line in process.stderr:
                if line.startswith(("fitting", "streaming")):
                    break
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
            waited = time.monotonic() - sent
        finally:
            process.kill()
    assert process.returncode == 3
    assert waited < 1, f"{waited:.2f} s"


@pytest.mark.parametrize("name", ["GaussianProcessRegressor", "SparseGaussianProcessRegressor"])
def test_an_interrupt_ends_the_fit_of_a_gaussian_process(name):
    script = f"""
        import sys
        import numpy as np
        from riesz import {name} as Regressor
        X = np.random.default_rng(0).normal(size=(20_000, 8))
        try:
            Regressor(learning_rows=4000, verbose=2).fit(X, np.sin(X).sum(axis=1))
        except KeyboardInterrupt:
            sys.exit(3)
    """
    with python(script) as process:
        try:
            for line in process.stderr:
                if line.startswith("learning"):
                    break
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            waited = time.monotonic() - sent
        finally:
            process.kill()
    assert process.returncode == 3
    assert waited < 5, f"{waited:.2f} s"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_not_copied(dtype):
    script = f"""
        import resource
        import numpy as np
        from riesz import KernelRegressor
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        settings = dict(bandwidth=20.0, scaling="none", max_blocks=1, block_size=1024)
        def fit(X):
            return KernelRegressor(**settings).fit(X, X[:, 0]).predict(X)
        fit(np.ones((3000, 10), {dtype!r}))
        X = np.zeros((60_000, 512), {dtype!r})
        X += np.arange(512, dtype={dtype!r}) % 7
        before = peak()
        fit(X)
        print((peak() - before) * 1024 / X.nbytes)
    """
    with python(script) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    # A copy in single precision would take 100 or 50 percent.
    assert float(out) < 0.4, f"the fit took {float(out):.0%} of the room of the rows"


@pytest.mark.parametrize(
    "arguments", [["-m", "riesz"], ["-c", "import riesz._command as c; c.main()"]]
)
def test_the_command_is_installed(arguments):
    done = subprocess.run(
        [sys.executable, *arguments, "--version"], capture_output=True, text=True, check=False
    )
    assert riesz.__version__ in done.stdout


def test_the_command_does_not_wait_for_scikit_learn():
    script = """
        import sys
        import riesz._command
        print("sklearn" in sys.modules, "KernelRegressor" in dir(riesz))
    """
    with python(script) as process:
        assert process.communicate()[0].split() == ["False", "True"]


def test_models_of_the_command_are_read(blobs, tmp_path):
    X, y = blobs
    labels = np.array(["ash", "birch", "cedar"])[y]
    rows = [f"{a!r},{b!r},{label}" for (a, b), label in zip(X.tolist(), labels, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["east,north,tree", *rows]) + "\n")
    command = [sys.executable, "-m", "riesz", "fit", "data.csv", "--model", "model"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    machine = riesz.KernelClassifier.load(tmp_path / "model")
    assert machine.classes_.tolist() == ["ash", "birch", "cedar"]
    rows = pd.DataFrame(X, columns=["east", "north"])
    assert machine.score(rows, labels) > 0.85
