"""Type checkers know the arguments of a task: mypy passes what fits, and finds what does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TASKS = """
from datetime import timedelta

from milepost import SUPPLIED, Milepost, TakenJob
from milepost.db import AsyncConnection, Connection

mp = Milepost("postgresql://nowhere/nothing")


@mp.task
def send(order: int, to: str = "all") -> str:
    return f"{order} {to}"


@mp.task(channel="stored", keep_for=timedelta(hours=1))
def store(tx: Connection, order: int) -> None: ...


@mp.task(channel="stored")
def look(job: TakenJob, tx: Connection, order: int) -> None: ...


@mp.task(channel="async")
async def fetch(tx: AsyncConnection, url: str, *, client: list[int] = SUPPLIED) -> int:
    return len(client)


def use(conn: Connection) -> None:
    text: str = send(1, to="me")
    number: int = send.put(conn, 1, to="me").id
    store.put(conn, order=number)
    look.options(priority=1).put(conn, 1)
    fetch.put(conn, url=text)
    mp.put(conn, send.job(order=1))


async def use_async(conn: AsyncConnection) -> None:
    handle = await fetch.put(conn, "url")
    print(await handle.wait_async(5))
"""
WRONG = [
    'send.put(conn, "one")',
    "send.put(conn)",
    "send.put(conn, order=1, cc=2)",
    "store.put(conn, order='one')",
    "look.job(order='one')",
    "look.options(size=1)",
    "send.put(order=1)",
]


def test_mypy_knows_the_arguments_of_tasks(tmp_path: Path) -> None:
    lines = "".join(f"    {statement}\n" for statement in WRONG)
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(TASKS)
    wrong.write_text(f"{TASKS}\n\ndef misuse(conn: Connection) -> None:\n{lines}")
    first = TASKS.count("\n") + 4
    found = checked(right, wrong)
    errors = [line for line in found.splitlines() if ": error: " in line]
    assert {Path(error.split(":")[0]).name for error in errors} == {"wrong.py"}, found
    numbers = {int(error.split(":")[1]) for error in errors}
    assert numbers == set(range(first, first + len(WRONG))), found


def checked(*files: Path) -> str:
    """With the settings and the cache of `make check`."""
    pytest.importorskip("mypy")
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--no-error-summary",
            "--hide-error-context",
            *map(str, files),
        ],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    return run.stdout
