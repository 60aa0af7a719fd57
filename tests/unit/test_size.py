"""The size of the house, in one table. A test fails when something outgrows its budget: raise that
line in the commit that needs it, with the reason in the commit's body. Lower it when code goes.

`python -m tests.unit.test_size` prints what there is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import milepost
from milepost import errors, processors, queue
from milepost.cli.app import app_for
from milepost.pipeline import definition as pipelines

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
SQL = SOURCE / "milepost" / "sql"
LONG_FILE = 450
BUDGET = {
    "milepost/*.py: lines": 4500,
    "milepost/archive: lines": 2400,
    "milepost/archive: files": 20,
    "milepost/checkpoints: lines": 800,
    "milepost/checkpoints: files": 7,
    "milepost/cli: lines": 4350,
    "milepost/cli: files": 37,
    "milepost/contrib: lines": 1250,
    "milepost/contrib: files": 23,
    "milepost/drivers: lines": 1400,
    "milepost/drivers: files": 13,
    "milepost/embedded: lines": 850,
    "milepost/embedded: files": 9,
    "milepost/graph: lines": 300,
    "milepost/graph: files": 4,
    "milepost/health: lines": 1050,
    "milepost/health: files": 9,
    "milepost/log: lines": 2350,
    "milepost/log: files": 16,
    "milepost/observe: lines": 1000,
    "milepost/observe: files": 6,
    "milepost/pipeline: lines": 10_250,
    "milepost/pipeline: files": 93,
    "milepost/processors: lines": 7300,
    "milepost/processors: files": 51,
    "milepost/queue: lines": 6500,
    "milepost/queue: files": 48,
    "milepost/runtime: lines": 1950,
    "milepost/runtime: files": 15,
    "milepost/sql: lines": 100,
    "milepost/sql: files": 1,
    "milepost/telemetry: lines": 550,
    "milepost/telemetry: files": 5,
    "milepost/testing: lines": 2000,
    "milepost/testing: files": 17,
    "milepost/ui: lines": 4100,
    "milepost/ui: files": 42,
    "milepost_demo: lines": 1250,
    "milepost_demo: files": 14,
    "milepost_pytest: lines": 200,
    "milepost_pytest: files": 1,
    "src: lines": 53_900,
    "src: files": 450,
    "src: files of more than 450 lines": 3,
    "sql: lines": 13_050,
    "sql: query files": 302,
    "sql: functions": 233,
    "tests: lines": 82_200,
    "src: import lines in 1,000": 103,
    "src: files with TYPE_CHECKING in 100": 65,
    "src: class names that occur twice": 43,
    "src: docstrings in dialect": 415,
    "names in milepost": 47,
    "methods of Milepost": 43,
    "options of @mp.processor": 21,
    "options of @mp.pipeline": 15,
    "options of @mp.worker": 10,
    "classes of errors": 166,
    "commands": 69,
    "options of commands": 371,
}
DIALECT = re.compile(r"(Of|What|As|Those|With)\b")


def measured() -> dict[str, int]:
    return dict([*_rooms(), *_totals(), *_joints(), *_surface()])


def _rooms() -> Iterator[tuple[str, int]]:
    folders = [f for f in (SOURCE / "milepost").iterdir() if f.is_dir() and any(f.glob("*.py"))]
    packages = [f for f in SOURCE.iterdir() if f.name != "milepost" and any(f.glob("*.py"))]
    yield "milepost/*.py: lines", _lines(sorted((SOURCE / "milepost").glob("*.py")))
    for room in sorted(f for f in (*folders, *packages) if f.name != "__pycache__"):
        files = sorted(room.rglob("*.py"))
        yield f"{room.relative_to(SOURCE)}: lines", _lines(files)
        yield f"{room.relative_to(SOURCE)}: files", len(files)


def _totals() -> Iterator[tuple[str, int]]:
    files = _sources()
    yield "src: lines", _lines(files)
    yield "src: files", len(files)
    yield f"src: files of more than {LONG_FILE} lines", sum(_lines([f]) > LONG_FILE for f in files)
    by_hand = list(SQL.rglob("*.sql"))
    yield "sql: lines", _lines(by_hand)
    yield "sql: query files", len(list((SQL / "queries").glob("*.sql")))
    yield "sql: functions", sum(f.read_text().count("create or replace function") for f in by_hand)
    yield "tests: lines", _lines(sorted((ROOT / "tests").rglob("*.py")))


def _joints() -> Iterator[tuple[str, int]]:
    trees = [ast.parse(f.read_text()) for f in _sources()]
    imports = sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    guarded = sum("TYPE_CHECKING" in f.read_text() for f in _sources())
    names = [n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    yield "src: import lines in 1,000", round(1000 * imports / _lines(_sources()))
    yield "src: files with TYPE_CHECKING in 100", round(100 * guarded / len(_sources()))
    yield "src: class names that occur twice", len({n for n in names if names.count(n) > 1})
    yield "src: docstrings in dialect", sum(map(_in_dialect, trees))


def _surface() -> Iterator[tuple[str, int]]:
    yield "names in milepost", len(milepost.__all__)
    yield "methods of Milepost", len([n for n in vars(milepost.Milepost) if n[0] != "_"])
    yield "options of @mp.processor", len(processors.Options.__annotations__)
    yield "options of @mp.pipeline", len(pipelines.Options.__annotations__) + len(["sink"])
    yield "options of @mp.worker", len(queue.Options.__annotations__)
    yield "classes of errors", sum(isinstance(each, type) for each in vars(errors).values())
    commands = list(_commands(typer.main.get_command(app_for([]))))
    yield "commands", len(commands)
    yield "options of commands", sum(len(command.params) for command in commands)


def _commands(command: Any) -> Iterator[Any]:
    if not hasattr(command, "commands"):
        yield command
    for each in getattr(command, "commands", {}).values():
        yield from _commands(each)


def _in_dialect(tree: ast.Module) -> int:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, documented)]
    return sum(bool(DIALECT.match(ast.get_docstring(node) or "")) for node in nodes)


@cache
def _sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def _lines(files: list[Path]) -> int:
    return sum(f.read_text().count("\n") for f in files)


MEASURED = measured()


@pytest.mark.parametrize("what", sorted({*MEASURED, *BUDGET}))
def test_the_house_does_not_grow(what: str) -> None:
    assert what in BUDGET, f"add {what!r}: {MEASURED[what]} to BUDGET"
    assert what in MEASURED, f"{what!r} is gone: take it out of BUDGET"
    assert MEASURED[what] <= BUDGET[what], "smaller, or a raised budget with its reason"


if __name__ == "__main__":
    for what, size in MEASURED.items():
        print(f"{size:7,}  of {BUDGET.get(what, 0):7,}  {what}")  # noqa: T201
