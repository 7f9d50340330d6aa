"""The program that checks the order of modules finds what is out of order."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs" / "check-order"

PAGE = """
```text
crates/riesz/src/
  solver/    uses what is below
  loss/      in the middle
  error.rs   at the bottom
docs/        another folder
```
"""


def check(folder, **files):
    sources = {
        "solver/mod.rs": "",
        "loss/mod.rs": "",
        "error.rs": "",
        "lib.rs": "use crate::solver;",
    }
    sources |= {name.replace("__", "/") + ".rs": text for name, text in files.items()}
    (folder / "docs").mkdir()
    (folder / "docs/architecture.md").write_text(PAGE)
    for name, text in sources.items():
        path = folder / "crates/riesz/src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [sys.executable, str(PROGRAM), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_is_in_order_passes(tmp_path):
    answer = check(
        tmp_path,
        solver__mod="use crate::{error::Error, loss::{self, Loss}};\n",
        loss__mod='//! See crate::solver.\nuse crate::error;\nconst A: &str = "crate::solver";\n',
    )
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("loss__mod", "use crate::error::Error;\nuse crate::solver::Step;\n", 2),
        ("loss__mod", "use crate::{\n    error,\n    solver::{Step, Other},\n};\n", 3),
        ("loss__huber", "\nfn f() { crate::solver::step(); }\n", 2),
        ("loss__mod", "use super::solver::Step;\n", 1),
        ("loss__huber", "use super::super::solver::Step;\n", 1),
        ("error", "use crate::loss::Loss;\n", 1),
        ("loss__mod", "#[cfg(test)]\nmod tests { use crate::solver; }\nuse crate::solver;\n", 3),
    ],
)
def test_an_upward_use_is_found(tmp_path, name, text, line):
    answer = check(tmp_path, **{name: text})
    assert answer.returncode == 1
    assert f"{name.replace('__', '/')}.rs:{line}: " in answer.stderr
    assert "which stands above it" in answer.stderr


def test_tests_are_exempt(tmp_path):
    answer = check(
        tmp_path,
        loss__mod="#[cfg(test)]\nmod laws;\n#[cfg(test)]\nmod tests { use crate::solver::Step; }\n",
        loss__laws="use crate::solver::Step;\n",
    )
    assert (answer.returncode, answer.stderr) == (0, "")


def test_the_list_is_complete(tmp_path):
    answer = check(tmp_path, space__mod="")
    assert "space: not in the list" in answer.stderr
