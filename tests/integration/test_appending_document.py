"""What docs/appending.md says is entered, is entered here, in order and on one database."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from milepost import Milepost
from milepost.db import Connection
from tests.integration.cli.command import Cli

DOCUMENT = Path(__file__).parents[2] / "docs" / "appending.md"
BLOCK = re.compile(r"^```(python|sql|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("order", ["append"])
def test_every_block_runs(url: str, conn: Connection, mp: Milepost) -> None:
    blocks = BLOCK.findall(DOCUMENT.read_text())
    assert {language for language, _ in blocks} == {"python", "sql", "sh"}
    printed = [_enter(url, line) for line in _lines(blocks, "sh")[:1]]
    program = "\n".join(text for language, text in blocks if language == "python")
    subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"MILEPOST_URL": url}, check=True
    )
    printed += [_enter(url, line) for line in _lines(blocks, "sh")[1:]]
    for statement in _lines(blocks, "sql"):
        conn.execute(statement.encode())
    assert printed[0].count("applied index") == 2
    assert printed[1].count('"key":"order-1"') == 2
    assert [each.type for each in mp.read(key="order-7")] == ["OrderPacked", "OrderPaid"]


def _lines(blocks: list[tuple[str, str]], language: str) -> list[str]:
    return [line for found, text in blocks if found == language for line in text.splitlines()]


def _enter(url: str, line: str) -> str:
    result = Cli(url).run(*shlex.split(line)[1:])
    assert result.code == 0, result.stderr
    return result.stdout
