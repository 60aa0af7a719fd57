"""The example with real flights, on the first few thousand of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from milepost import Milepost

ROOT = Path(__file__).parents[2]


def run_example(url: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.flights", "--flights", "3000"],
        cwd=directory,
        env={**os.environ, "MILEPOST_URL": url, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.soak
def test_every_number_of_the_pipelines_equals_that_of_pandas(
    empty_database: str, tmp_path: Path
) -> None:
    result = run_example(empty_database, tmp_path)
    assert result.returncode == 0, result
    assert "every number equals pandas'" in result.stdout
    assert (tmp_path / "flights.png").read_bytes().startswith(b"\x89PNG")
    appended = len(list(Milepost(empty_database).read(topics=["flights"])))
    assert appended > 3000
