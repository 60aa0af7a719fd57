"""The example, as a newcomer runs it: killed in between, and nothing is lost or counted twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from milepost.db import Connection
from tests.waiting import wait_until

ROOT = Path(__file__).parents[4]


def start(url: str, place: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "MILEPOST_URL": url, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, *arguments], cwd=place, env=environment, stdout=subprocess.PIPE, text=True
    )


def said(url: str, place: Path, *arguments: str) -> str:
    process = start(url, place, *arguments)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output


def test_balances_survive_a_kill(url: str, conn: Connection, tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "balances.py")
    total = 0
    for _ in range(2):
        output = said(url, tmp_path, script, "500")
        total += int(re.findall(r"(\d+) in all", output)[0])
    run = ("-m", "milepost.cli", "run", "examples.balances:mp")
    with start(url, tmp_path, *run) as process:
        try:
            wait_until(lambda: _stored(conn) > 0, 30)
        finally:
            process.send_signal(signal.SIGKILL)
    output = said(url, tmp_path, script, "500")
    total += int(re.findall(r"(\d+) in all", output)[0])
    said(url, tmp_path, *run, "--until", "caught_up")
    assert said(url, tmp_path, script).strip() == f"50 accounts hold {total}"


def _stored(conn: Connection) -> int:
    row = conn.execute('select max("position") from milepost.checkpoints').fetchone()
    return 0 if row is None or row[0] is None else int(row[0])
