"""Whether the Python of Spark's workers can read the source. A session that Milepost has not
started may name another one: Spark's default is the `python3` of PATH, whatever runs the driver."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from milepost.errors import WorkersPython

if TYPE_CHECKING:
    from pyspark import SparkContext

_PROBE = (
    "import sys, milepost, psycopg, pyarrow, adbc_driver_postgresql; print(*sys.version_info[:2])"
)
_PROBE_SECONDS = 60.0


def refuse_other_python(context: SparkContext) -> None:
    """Only where workers run on this machine: elsewhere they have other paths."""
    if not str(context.master).startswith("local"):
        return
    problem = problem_of(context.pythonExec)
    if problem is not None:
        found = shutil.which(context.pythonExec) or context.pythonExec
        raise WorkersPython(found, problem, sys.executable)


@cache
def problem_of(program: str) -> str | None:
    """None if it is the Python of this process, or one that is as good."""
    found = shutil.which(program)
    if found is None:
        return "which does not exist"
    if _place(found) == _place(sys.executable):
        return None
    answer = subprocess.run(
        [found, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
    )
    if answer.returncode != 0:
        said = answer.stderr.strip().splitlines()
        return f"which cannot read the source ({said[-1] if said else answer.returncode})"
    wanted, is_version = sys.version_info[:2], tuple(map(int, answer.stdout.split()))
    if is_version == wanted:
        return None
    versions = [".".join(map(str, version)) for version in (is_version, wanted)]
    return f"which is Python {versions[0]}, while the driver is Python {versions[1]}"


def _place(program: str) -> tuple[Path, Path]:
    """Of an environment: its `python` and `python3` are one file, which others may link to, too."""
    return Path(program).parent.resolve(), Path(program).resolve()
