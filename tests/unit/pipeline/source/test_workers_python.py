from __future__ import annotations

import sys
from pathlib import Path

import pytest

from milepost.pipeline.source.workers_python import problem_of


def program(directory: Path, script: str) -> str:
    file = directory / "python3"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


def test_the_python_of_this_process_is_right() -> None:
    assert problem_of(sys.executable) is None
    assert problem_of(str(Path(sys.executable).with_name("python3"))) is None


def test_one_that_is_as_good_is_right_too(tmp_path: Path) -> None:
    major, minor = sys.version_info[:2]
    assert problem_of(program(tmp_path, f"echo {major} {minor}")) is None


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 3 9", "is Python 3.9, while the driver is Python 3."),
        (
            "echo \"ModuleNotFoundError: No module named 'milepost'\" >&2; exit 1",
            "No module named 'milepost'",
        ),
    ],
)
def test_another_one_is_a_problem(tmp_path: Path, script: str, said: str) -> None:
    assert said in str(problem_of(program(tmp_path, script)))


def test_so_is_one_that_is_not_there() -> None:
    assert problem_of("/nowhere/python3") == "which does not exist"
