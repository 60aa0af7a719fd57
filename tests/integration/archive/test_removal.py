"""Removing many messages: in steps that nobody has to wait for, and the space is used again."""

from __future__ import annotations

from typing import Any

import psutil
import pytest
from psycopg.errors import LockNotAvailable

from milepost import Message, Milepost, Position, RecordedMessage, append
from milepost.archive import remove_old, retention
from milepost.checkpoints import Answer, CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection, one
from milepost.log import Reader

MANY = 100_000
FILL = """
insert into milepost.messages (type, data)
select 'T', json_build_object('n', n, 'text', repeat('x', 200))
from generate_series(1, %s) as n
"""
STEP = "select number from milepost.remove_messages(%s, milepost.horizon())"
SIZE = "select pg_table_size('milepost.messages') + pg_indexes_size('milepost.messages')"


def ignore(messages: list[RecordedMessage], tx: Connection) -> None:
    """As a processor that has handled everything."""


def test_only_a_reset_waits_for_a_step(mp: Milepost, conn: Connection) -> None:
    """Whoever has to wait for a lock here is refused."""
    conn.execute(FILL, [MANY])
    mp.processor("p", start_from="end")(ignore).run(until="caught_up")
    end = mp.horizon()
    with mp.connect() as remover, remover.transaction():
        remover.execute(STEP, [retention.LARGEST_STEP])
        conn.execute("set lock_timeout = '1ms'")
        (last,) = append(conn, Message("T", {}))
        conn.execute("insert into milepost.messages (type, data) values ('T', '{}')")
        assert len(Reader(conn, Position.BEGINNING, batch_size=10).read().messages) == 10
        store = PostgresCheckpointStore(conn, "milepost")
        assert store.store(CheckpointKey("p"), end, last) is Answer.STORED
        store.first(CheckpointKey("q"), mp.horizon, "somebody")
        conn.execute("select * from milepost.retention_gates()")
        with pytest.raises(LockNotAvailable):
            conn.execute("select milepost.reset_processor('p', 1, row(%s, %s))",
                         [end.transaction_id, end.position])  # fmt: skip


def test_a_step_takes_milliseconds(
    mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the server's own work: how long others keep it waiting says nothing about a step."""
    if not conn.info.host.startswith("/"):
        pytest.skip("the server may be another machine's, and its processes are not to be seen")
    conn.execute(FILL, [MANY])
    conn.execute("vacuum analyze milepost.messages")
    steps: list[int] = []
    remove = retention._remove_some

    def counted(*arguments: Any) -> tuple[int, ...]:
        number, *removed = remove(*arguments)
        steps.append(number)
        return number, *removed

    monkeypatch.setattr(retention, "_remove_some", counted)
    mp.retention(keep_messages=0, no_archive=True)
    before = worked_seconds(conn)
    assert remove_old(conn).number == MANY
    assert len(steps) > MANY / retention.LARGEST_STEP
    assert (worked_seconds(conn) - before) / len(steps) < 0.05


def worked_seconds(conn: Connection) -> float:
    """By the process of this session, in all."""
    times = psutil.Process(conn.info.backend_pid).cpu_times()
    return float(times.user + times.system)


def test_more_than_is_examined_at_once_is_removed(
    mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn.execute(FILL, [1000])
    monkeypatch.setattr(retention, "MAX_WALKED", 100)
    mp.retention(keep_messages=50, no_archive=True)
    assert remove_old(conn).number == 950
    assert remove_old(conn).number == 0


def test_it_ends_when_it_is_over(mp: Milepost, conn: Connection) -> None:
    conn.execute(FILL, [1000])
    mp.retention(keep_messages=0, no_archive=True)
    assert remove_old(conn, is_over=lambda: True).number == retention.FIRST_STEP


def test_the_space_is_used_again(mp: Milepost, conn: Connection) -> None:
    mp.retention(keep_messages=1000, no_archive=True)
    sizes = []
    for _ in range(6):
        conn.execute(FILL, [20_000])
        remove_old(conn)
        conn.execute("vacuum milepost.messages")
        sizes.append(int(one(conn.execute(SIZE).fetchone())[0]))
    assert max(sizes[2:]) <= 1.1 * sizes[1]
