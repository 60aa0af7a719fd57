from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.cli.commands.run import load
from milepost.errors import AppNotFound, NoSparkSession

_BY_NAME = """\
from pyspark.sql import functions as f

from milepost import Milepost

mp = Milepost()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("MILEPOST_URL", "postgresql://nobody@localhost:1/nowhere")
    yield tmp_path / "needing.py"
    sys.modules.pop("needing", None)


@pytest.mark.parametrize(
    "line", ["doubled = f.col('total') * 2", "with_tax = f.pandas_udf('double')(lambda x: x)"]
)
def test_a_module_that_needs_a_session_is_told_how_to_write_it(module: Path, line: str) -> None:
    """In a process of its own: tests of Spark may have left a session in this one."""
    if "pandas" in line:
        pytest.importorskip("pandas")
    module.write_text(_BY_NAME + line + "\n")
    done = subprocess.run(
        [sys.executable, "-c", f"from {load.__module__} import load; load('needing:mp')"],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"{NoSparkSession.__module__}.{NoSparkSession.__name__}: ")
    assert f"needing.py, line 6, in <module>: {line}" in said
    assert "@pandas_udf(DoubleType())" in said


@pytest.mark.parametrize(
    "name", ["../../etc/passwd:x", "a/b:mp", ".app:mp", ":mp", "app:", "a b:c"]
)
def test_what_names_no_module_is_refused(name: str) -> None:
    with pytest.raises(AppNotFound, match="is not of the form MODULE:NAME"):
        load(name)


def test_another_error_of_a_module_stays_as_it_is(module: Path) -> None:
    module.write_text("raise RuntimeError('of its own')\n")
    with pytest.raises(RuntimeError, match="of its own"):
        load("needing:mp")
