"""The blocks of docs/sqlalchemy.md are one program, which runs on a fresh database."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg

from milepost import Milepost
from tests.integration.drivers.kinds import as_url

DOCUMENT = Path(__file__).parents[3] / "docs" / "sqlalchemy.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_its_blocks_run_from_top_to_bottom(empty_database: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("\n".join(BLOCK.findall(DOCUMENT.read_text())))
    environ = {**os.environ, "MILEPOST_URL": as_url(empty_database)}
    subprocess.run(
        [sys.executable, "-W", "error", program], env=environ, check=True, timeout=120, cwd=tmp_path
    )
    messages = list(Milepost(empty_database).read())
    assert len([m for m in messages if m.type == "Counted"]) == 1000
    assert [m.data for m in messages if m.type == "OrderPlaced"] == [
        {"order": 1}, {"order": 7}, {"total": 8}, {"total": 9}, {"order": 10},
    ]  # fmt: skip
    with psycopg.connect(empty_database) as conn:
        totals = conn.execute("select total from orders order by id").fetchall()
    assert totals == [(42,), (7,), (8,), (9,)]
