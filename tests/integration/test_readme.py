"""The README's first example is a program that runs."""

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
    (example,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    for appended in (1, 2):
        result = subprocess.run(
            [sys.executable, "-c", example],
            env=os.environ | {"MILEPOST_URL": url},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert result.stdout.count("OrderPlaced") == appended
        assert result.stdout.count("mail to ada@example.com") == 1
    assert conn.execute("select sum(total) from revenue").fetchone() == (84,)
