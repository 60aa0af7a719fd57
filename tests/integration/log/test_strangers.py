"""Advisory locks have no owner: any role that may connect can take one that looks like ours. It
stops neither readers nor appenders nor processors by that. Where we wait, the time is limited.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import LockNotAvailable

from milepost import Message, Milepost, Newer, Position, RecordedMessage, append, log
from milepost.db import Connection, one
from milepost.errors import MigrationBlocked
from tests.integration.log.conftest import OpenSession
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("order", ["append"])
FUNCTIONS = [
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
]


@pytest.fixture
def key(conn: Connection) -> int:
    """Of the floor 0; a stranger may not even look up the table."""
    oid = one(conn.execute("select 'milepost.messages'::regclass::oid::bigint").fetchone())[0]
    return int(oid) << 32


@pytest.fixture
def stranger(conn: Connection, url: str) -> Iterator[Connection]:
    """A role that may connect, and nothing else."""
    conn.execute("drop role if exists milepost_stranger")
    conn.execute("create role milepost_stranger login")
    with psycopg.connect(make_conninfo(url, user="milepost_stranger"), autocommit=True) as own:
        yield own
    conn.execute("drop role milepost_stranger")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_whoever_takes_a_lock_like_a_floor_stops_no_reader(
    conn: Connection, mp: Milepost, stranger: Connection, key: int, function: str
) -> None:
    first = append(conn, Message("T", {}))
    with stranger.transaction():
        stranger.execute(f"select {function}(%s)".encode(), [key])
        second = append(conn, Message("T", {}))
        assert [message.position for message in mp.read()] == first + second
        assert not log.horizon(conn).is_held
        assert conn.execute("select * from milepost.horizon_holders()").fetchall() == []


def test_whoever_waits_for_a_lock_like_a_floor_stops_nobody(
    session: OpenSession, mp: Milepost, stranger: Connection, key: int
) -> None:
    appender, other = session(), session()
    appender.execute("begin")
    (first,) = append(appender, Message("T", {}))
    waiting = threading.Thread(target=take_in_vain, args=(stranger, key))
    waiting.start()
    asked = "select wait_event from pg_stat_activity where pid = %s"
    pid = stranger.info.backend_pid
    wait_until(lambda: other.execute(asked, [pid]).fetchone() == ("advisory",))
    other.execute("set statement_timeout = '30s'")
    (second,) = append(other, Message("T", {}))
    stranger.cancel_safe()
    waiting.join()
    appender.execute("commit")
    assert [message.position for message in mp.read()] == [first, second]


def take_in_vain(conn: Connection, key: int) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        conn.execute("select pg_advisory_lock(%s)", [key])


@pytest.mark.parametrize("function", ["pg_advisory_lock", "pg_advisory_xact_lock"])
def test_whoever_takes_the_keys_of_appenders_keeps_none_waiting(
    session: OpenSession, mp: Milepost, stranger: Connection, key: int, function: str
) -> None:
    """Each takes the next lower floor that it can have, which holds back what it draws."""
    appender, other = session(), session()
    appender.execute("set statement_timeout = '30s'")
    with stranger.transaction():
        for floor in (*range(20), *range(2**32 - 20, 2**32)):
            stranger.execute(f"select {function}(%s)".encode(), [key | floor])
        appender.execute("begin")
        (first,) = append(appender, Message("T", {}))
        (second,) = append(other, Message("T", {}))
        assert list(mp.read()) == []
        appender.execute("commit")
        assert [message.position for message in mp.read()] == [first, second]


def test_a_prepared_transaction_holds_the_horizon_until_it_ends(
    conn: Connection, session: OpenSession, mp: Milepost
) -> None:
    """It has both locks, though no session."""
    preparing = session()
    preparing.execute("set milepost.notify = off")  # with NOTIFY there is no second phase
    preparing.execute("begin")
    first = append(preparing, Message("T", {}))
    preparing.execute("prepare transaction 'in two phases'")
    preparing.close()
    second = append(conn, Message("T", {}))
    assert list(mp.read()) == []
    assert log.horizon(conn).is_held
    conn.execute("commit prepared 'in two phases'")
    assert [message.position for message in mp.read()] == first + second


def test_whoever_takes_the_lock_of_a_key_is_named_in_the_error(
    conn: Connection, mp: Milepost, stranger: Connection
) -> None:
    mp.migrate(key_index=True)
    number = one(
        conn.execute(
            "select 'milepost.messages_position_seq'::regclass::bigint << 32"
            " | (hashtext('k') & 4294967295)"
        ).fetchone()
    )[0]
    stranger.execute("select pg_advisory_lock(%s)", [number])
    who = rf"pid {stranger.info.backend_pid} \(role milepost_stranger"
    condition = Newer(key="k", after=Position.BEGINNING)
    with conn.transaction():
        conn.execute("set local lock_timeout = '50ms'")
        with pytest.raises(LockNotAvailable, match=who), conn.transaction():
            append(conn, Message("T", {}, key="k"), unless=condition)
        assert conn.execute("show lock_timeout").fetchone() == ("50ms",)
    with pytest.raises(LockNotAvailable, match=f"something is locked by {who}"):
        conn.execute("select milepost.await_lock(%s, 'something', seconds => 1)", [number])
    append(conn, Message("T", {}, key="other"), unless=Newer(key="other", after=condition.after))
    stranger.execute("select pg_advisory_unlock_all()")
    append(conn, Message("T", {}, key="k"), unless=condition)


def test_whoever_takes_the_turn_of_a_processor_stops_no_instance(
    conn: Connection, mp: Milepost, stranger: Connection
) -> None:
    high, low = one(
        conn.execute(
            "select (hashed >> 32)::integer, (hashed << 32 >> 32)::integer from"
            " hashtextextended('mail 1', 'milepost.processors'::regclass::oid::bigint) as hashed"
        ).fetchone()
    )
    stranger.execute("select pg_advisory_lock(%s, %s)", [high, low])
    positions, handled = append(conn, Message("T", {})), list[Position]()

    @mp.processor("mail", delivery="at_least_once", handle="message")
    def mail(message: RecordedMessage) -> None:
        handled.append(message.position)

    mail.run("caught_up")
    assert handled == positions


def test_whoever_takes_the_lock_of_migrations_is_named_in_the_error(
    mp: Milepost, stranger: Connection
) -> None:
    stranger.execute("select pg_advisory_lock(hashtextextended('milepost.migrate.milepost', 0))")
    with pytest.raises(MigrationBlocked) as caught:
        mp.migrate(wait_seconds=0.5)
    (blocker,) = caught.value.blockers
    assert str(blocker).startswith(f"pid {stranger.info.backend_pid} (")
    assert str(blocker).endswith("on the lock of migrations")
