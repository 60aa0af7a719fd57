"""The first Ctrl-C stops in order, the second one ends immediately."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter

import pytest

from milepost import Job, Milepost
from milepost.db import Connection
from milepost.sql import LogOrder
from tests import zygote

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


@pytest.mark.parametrize("way", ["group", "parent"])
def test_signals_in_quick_succession_are_one_stop(way: str) -> None:
    """`timeout`, and supervisors that signal the group, send several. A handler that is interrupted
    by the next one holds no lock that this one waits for."""
    stops = 200
    module = "tests.integration.runtime.signalled"
    with zygote.started(["python", "-m", module, way, str(stops)], has_output=True) as process:
        assert process.stdout is not None
        ended = Counter(process.stdout.read().split())
    # The last of them may find a process that has stopped already, and is about to end.
    assert set(ended) <= {"0", str(-signal.SIGTERM)}, ended
    assert ended.total() == stops
