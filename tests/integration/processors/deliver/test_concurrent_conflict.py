from __future__ import annotations

import threading

from milepost import Message, Milepost, RecordedMessage
from milepost.db import Connection
from milepost.errors import CompetingInstance
from tests.waiting import wait_until


def test_a_conflict_that_the_interval_finds_stops_a_processor_that_is_to_stop(
    mp: Milepost, conn: Connection
) -> None:
    @mp.processor(
        "p", delivery="at_least_once", handle="message", concurrency=2, on_conflict="stop",
        checkpoint_every=0, checkpoint_seconds=0.1, poll_seconds=0.05,
    )  # fmt: skip
    def handle(message: RecordedMessage) -> None: ...

    stop, errors = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            handle.run(stop=stop)
        except BaseException as error:  # noqa: BLE001 - for the test to look at
            errors.append(error)

    (first,) = mp.append(conn, Message("T", {}))
    running = threading.Thread(target=run)
    running.start()
    try:
        wait_until(lambda: (found := handle.position()) is not None and found >= first)
        conn.execute("update milepost.checkpoints set position = 100000, owner = 'other'")
        mp.append(conn, Message("T", {}))
        running.join(60)
    finally:
        stop.set()
        running.join(20)
    (error,) = errors
    assert isinstance(error, CompetingInstance)
    assert error.other == "other"
