"""Ctrl-C ends a command without a traceback, also while it imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.sql import LogOrder

HANGS = "import os, time\nos.write(1, b'!')\ntime.sleep(3600)\n"
SCRIPT = Path(sys.executable).with_name("milepost")


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.mark.parametrize("program", [[str(SCRIPT)], [sys.executable, "-m", "milepost.cli"]])
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("psycopg", ["migrate"]),
        ("typer", ["migrate"]),
        ("slow_application", ["run", "slow_application:mp"]),
    ],
)
def test_ctrl_c_while_it_imports(
    tmp_path: Path, url: str, program: list[str], module: str, arguments: list[str]
) -> None:
    """What Milepost needs first, what its command line needs, and the user's own module."""
    (tmp_path / f"{module}.py").write_text(HANGS)
    process = subprocess.Popen(
        [*program, *arguments],
        env=os.environ | {"PYTHONPATH": str(tmp_path), "MILEPOST_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"!"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode in (-signal.SIGINT, 130), said) == (True, b"")
