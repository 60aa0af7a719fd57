"""The first Ctrl-C stops in order, the second one ends immediately."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from milepost import Job, Milepost
from milepost.db import Connection
from milepost.sql import LogOrder

PATIENCE_SECONDS = 60.0


@pytest.fixture
def order() -> LogOrder:
    return "append"


def test_a_second_ctrl_c_ends_the_process(mp: Milepost, url: str, conn: Connection) -> None:
    mp.put(conn, Job("c"))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.runtime.interrupted", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            said = process.stderr.readline() + process.stderr.readline()
            assert "Press Ctrl-C again to end immediately." in said
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 130
            assert "Ended by the second Ctrl-C." in process.stderr.read()
        finally:
            process.kill()
