from __future__ import annotations

import logging

import pytest

from milepost import Message, Milepost, RecordedMessage
from milepost.db import Connection
from tests.integration.processors.running import running
from tests.waiting import wait_until


def test_a_conflict_that_the_interval_finds_makes_the_instance_a_standby(
    mp: Milepost, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "milepost.processors")

    @mp.processor(
        "p", delivery="at_least_once", handle="message", concurrency=2,
        checkpoint_every=0, checkpoint_seconds=0.1, poll_seconds=0.05,
    )  # fmt: skip
    def handle(message: RecordedMessage) -> None: ...

    (first,) = mp.append(conn, Message("T", {}))
    with running(handle):
        wait_until(lambda: (found := handle.position()) is not None and found >= first)
        conn.execute("update milepost.checkpoints set position = 100000, owner = 'other'")
        mp.append(conn, Message("T", {}))
        wait_until(lambda: "state=standby" in caplog.text)
