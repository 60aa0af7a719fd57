"""The README's examples are programs that run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.db import Connection

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("order", ["append"])
def test_the_first_example_runs_twice(url: str, conn: Connection, tmp_path: Path) -> None:
    first, _ = examples()
    for appended in (1, 2):
        assert run(first, url, tmp_path).count("OrderPlaced") == appended
    assert conn.execute("select sum(total) from revenue").fetchone() == (84,)


@pytest.mark.soak
@pytest.mark.parametrize("order", ["append"])
def test_the_second_example_goes_on_from_the_first(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    output = run("\n".join(examples()), url, tmp_path)
    assert output.count("mail to ada@example.com") == 1
    assert conn.execute("select id, total from by_order").fetchall() == [(1, 42)]


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)


def run(program: str, url: str, directory: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"MILEPOST_URL": url},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
