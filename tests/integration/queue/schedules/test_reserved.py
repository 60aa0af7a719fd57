"""Internal channels: no pattern matches them, and nobody puts into them or limits them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from milepost import Job, Milepost, TakenJob, put
from milepost.db import Connection
from milepost.errors import ReservedChannel
from milepost.queue import Policy, pause_channel, set_channel
from milepost.queue.verbs import take
from milepost.queue.worker.idle import is_drained
from tests.integration.queue.schedules.scheduling import put_jobs

INTERNAL = "milepost.schedules"


@pytest.fixture
def internal(conn: Connection) -> int:
    """A job that somebody has inserted into an internal channel."""
    row = conn.execute(
        "insert into milepost.jobs (channel, content) values (%s, '1') returning id", [INTERNAL]
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("pattern", ["*", "m*", "milepost*", "milepost.*", "milepost.sch*"])
def test_no_pattern_takes_from_an_internal_channel(
    conn: Connection, internal: int, pattern: str
) -> None:
    put(conn, Job("milepost"), Job("mileposts"), Job("zebra"))
    taken = conn.execute("select channel from milepost.take(10, pattern => %s)", [pattern])
    assert INTERNAL not in {channel for (channel,) in taken}
    assert INTERNAL not in {job.channel for job in take(conn, 10, pattern=pattern)}
    status = conn.execute("select status::text from milepost.jobs where id = %s", [internal])
    assert status.fetchone() == ("ready",)


def test_take_without_a_pattern_takes_all_but_internal_ones(
    conn: Connection, internal: int
) -> None:
    put(conn, Job("a"), Job("milepost"), Job("milepos"), Job("z"))
    taken = conn.execute("select channel from milepost.take(10)").fetchall()
    assert sorted(taken) == [("a",), ("milepos",), ("milepost",), ("z",)]


def test_a_worker_for_all_channels_leaves_schedules_alone(
    mp: Milepost, conn: Connection, internal: int
) -> None:
    seen: list[str] = []

    @mp.worker("*")
    def work(job: TakenJob) -> None:
        seen.append(job.channel)

    put(conn, Job("a"))
    work.run("drained")
    assert seen == ["a"]
    assert work.caught_up()
    assert put_jobs(conn, INTERNAL) == 1


def test_a_pattern_is_drained_whatever_is_in_internal_channels(
    conn: Connection, internal: int
) -> None:
    assert is_drained(conn, "milepost", "*")
    assert is_drained(conn, "milepost", "milepost.*")
    assert not is_drained(conn, "milepost", INTERNAL)


REFUSED: dict[str, Callable[[Connection], Any]] = {
    "put": lambda conn: put(conn, Job("milepost.schedules", 1)),
    "put several": lambda conn: put(conn, Job("a"), Job("milepost.x")),
    "put many": lambda conn: put(conn, *[Job("milepost.x") for _ in range(300)]),
    "set_channel": lambda conn: set_channel(conn, "milepost.x", Policy(max_size=1)),
    "pause_channel": lambda conn: pause_channel(conn, "milepost.x"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_python_refuses_internal_channels(conn: Connection, what: str) -> None:
    with pytest.raises(ReservedChannel, match=r"is reserved: names that begin with 'milepost\.'"):
        REFUSED[what](conn)
    assert conn.execute("select from milepost.jobs").fetchone() is None


@pytest.mark.parametrize(
    "statement",
    [
        "select milepost.put('milepost.x', '1')",
        "select milepost.put('milepost.schedules', '1')",
        "select milepost.put('milepost.schedules', '1', unique_key => 'k')",
        "select milepost.put('milepost.schedules', '{}', unique_key => 'k')",
        "select milepost.put('milepost.schedules', '{\"cron\": \"* * * * *\"}')",
        "select milepost.put_bytes('milepost.schedules', '\\xff', unique_key => 'k')",
        "select milepost.put_many(array['a', 'milepost.x'], array['1', '1'])",
        "select milepost.put_many(array['milepost.x'], array['1'], unique_keys => array['k'])",
        "select milepost.set_channel('milepost.schedules', 1)",
        "select milepost.pause_channel('milepost.schedules')",
    ],
)
def test_sql_refuses_internal_channels(conn: Connection, statement: str) -> None:
    with pytest.raises(psycopg.Error, match="is reserved") as refused:
        conn.execute(statement.encode())
    assert refused.value.sqlstate == ReservedChannel.sqlstate
    assert conn.execute("select from milepost.jobs").fetchone() is None
    assert conn.execute("select from milepost.channels").fetchone() is None


def test_there_are_no_workers_for_internal_channels(mp: Milepost) -> None:
    for channel in ("milepost.schedules", "milepost.*"):
        with pytest.raises(ValueError, match="for internal use"):
            mp.worker(channel)(print)
