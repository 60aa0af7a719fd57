"""A model in memory whose process is killed is rebuilt from the stored position: at least once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from milepost.db import Connection
from tests import zygote
from tests.integration.processors import sessions
from tests.integration.processors.conftest import Put
from tests.integration.processors.segments.claiming import expire_all
from tests.integration.processors.self_checkpointing import application
from tests.integration.processors.self_checkpointing.application import (
    BATCH_SIZE,
    EVERY,
    NAME,
    TABLE,
)
from tests.integration.processors.self_checkpointing.conftest import Stored
from tests.waiting import wait_until
from tests.zygote import Process


@contextmanager
def started(url: str, stall_at: int) -> Iterator[Process]:
    command = ["python", "-m", application.__name__, url, str(stall_at)]
    with zygote.started(command, has_output=True) as process:
        yield process


def lines_until(process: Process, last: str) -> list[str]:
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line.strip())
        if said[-1] == last:
            return said
    raise AssertionError(f"ended with {process.wait()} after {said}")


def kill(process: Process, conn: Connection) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    # A heartbeat that was sent before would extend the claims after all.
    wait_until(lambda: sessions.count(conn, NAME) == 0)
    expire_all(conn)


def test_what_was_in_memory_when_it_was_killed_comes_again(
    url: str, conn: Connection, put: Put, stored: Stored
) -> None:
    conn.execute(TABLE)
    positions = put(100)
    stall_at = EVERY + 2 * BATCH_SIZE
    with started(url, stall_at) as process:
        lines_until(process, "stalled")
        kill(process, conn)
    assert stored(processor=NAME) == positions[EVERY - 1]  # a genuine resume point, and no more

    with started(url, 0) as process:
        said = lines_until(process, f"handled {positions[-1]}")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert said[0] == f"claimed {positions[EVERY - 1]}"
    assert said[1:] == [f"handled {position}" for position in positions[EVERY:]]
    # Released in order, so the snapshot holds everything, each message once.
    assert conn.execute("select sum from snapshots").fetchone() == (sum(range(1, 101)),)
    assert stored(processor=NAME) >= positions[-1]


def test_a_kill_before_the_first_checkpoint_begins_from_the_beginning(
    url: str, conn: Connection, put: Put, stored: Stored
) -> None:
    conn.execute(TABLE)
    positions = put(40)
    with started(url, BATCH_SIZE) as process:
        lines_until(process, "stalled")
        kill(process, conn)
    assert conn.execute("select count(*) from snapshots").fetchone() == (0,)
    with started(url, 0) as process:
        said = lines_until(process, f"handled {positions[-1]}")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert said[1:] == [f"handled {position}" for position in positions]
    assert conn.execute("select sum from snapshots").fetchone() == (sum(range(1, 41)),)
