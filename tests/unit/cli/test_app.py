from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from milepost.cli.app import app_for

COMMANDS = [
    "migrate", "append", "read", "run", "status", "doctor", "metrics", "ui", "rebase", "grant",
    "demo",
    "processors", "queue", "channels", "schedules", "pipelines", "dead-letters", "retention",
    "archive", "embedded",
]  # fmt: skip


def known(words: list[str]) -> list[str]:
    commands: dict[str, object] = get_command(app_for(words)).commands  # type: ignore[attr-defined]
    return list(commands)


@pytest.mark.parametrize("words", [[], ["--help"], ["--debug"], ["redd"]])
def test_without_a_known_command_all_are_there_to_be_listed_or_suggested(words: list[str]) -> None:
    assert known(words) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_only_the_command_that_is_asked_for_is_made(name: str) -> None:
    assert known(["--debug", name, "--help"]) == [name]
    assert CliRunner().invoke(app_for([name, "--help"]), [name, "--help"]).exit_code == 0


def test_a_command_without_spark_does_not_import_it() -> None:
    code = (
        "import sys; from milepost.cli.app import app_for; app_for(['read']);"
        "sys.exit('pyspark' in sys.modules or 'milepost_demo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
