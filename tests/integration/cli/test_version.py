from __future__ import annotations

import tomllib
from pathlib import Path

import milepost
from tests.integration.cli.command import Cli

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_the_version_is_the_projects() -> None:
    version = tomllib.loads(PROJECT.read_text())["project"]["version"]
    assert milepost.__version__ == version
    result = Cli("postgresql://unused").run("--version")
    assert (result.code, result.stdout, result.stderr) == (0, f"milepost {version}\n", "")
