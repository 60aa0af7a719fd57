"""Wake-ups: one a transaction at most, at commit, and only hints."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from milepost import Message, Milepost, append
from milepost.db import Connection
from tests.following import following
from tests.integration.log.conftest import OpenSession
from tests.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Listener:
    """Notifications come in the order of commits, so that one of our own marks the end."""

    conn: Connection
    sender: Connection

    def heard(self) -> int:
        """How many notifications came since the last call."""
        self.sender.execute("select pg_notify('milepost', 'the end')")
        payloads: list[str] = []
        for notification in self.conn.notifies():
            if notification.payload == "the end":
                return len(payloads)
            payloads.append(notification.payload)
        raise AssertionError("the connection was closed")


@pytest.fixture
def listener(session: OpenSession) -> Listener:
    conn = session()
    conn.execute("listen milepost")
    return Listener(conn, session())


def test_a_transaction_notifies_once_however_often_it_appends(
    conn: Connection, listener: Listener
) -> None:
    with conn.transaction():
        append(conn, Message("A", {}), Message("B", {}))
        append(conn, *(Message("Many", {}) for _ in range(300)))
        with conn.transaction():
            append(conn, Message("C", {}))
    assert listener.heard() == 1


def test_every_way_to_append_notifies(conn: Connection, listener: Listener) -> None:
    append(conn, Message("A", {}))
    conn.execute("insert into milepost.messages (type, data) values ('B', '{}')")
    conn.execute("select milepost.append('C', '{}')")
    conn.execute("""select milepost.append_many('[{"type": "D", "data": 1}]')""")
    with conn.cursor().copy("copy milepost.messages (type, data) from stdin") as copy:
        copy.write_row(("E", "{}"))
    assert listener.heard() == 5


def test_nothing_is_notified_before_commit_or_after_rollback(
    conn: Connection, listener: Listener
) -> None:
    with conn.transaction(force_rollback=True):
        append(conn, Message("A", {}))
        assert listener.heard() == 0
    assert listener.heard() == 0
    with conn.transaction():
        append(conn, Message("B", {}))
        assert listener.heard() == 0
    assert listener.heard() == 1


def test_a_rolled_back_savepoint_takes_its_notification_along_and_the_next_append_sends_one(
    conn: Connection, listener: Listener
) -> None:
    with conn.transaction():
        with conn.transaction(force_rollback=True):
            append(conn, Message("Undone", {}))
        append(conn, Message("Kept", {}))
    assert listener.heard() == 1
    with conn.transaction(), conn.transaction(force_rollback=True):
        append(conn, Message("Undone", {}))
    assert listener.heard() == 0


def test_notifications_can_be_turned_off_for_a_session_a_transaction_or_a_database(
    conn: Connection, listener: Listener, session: OpenSession
) -> None:
    with conn.transaction():
        conn.execute("set local milepost.notify = off")
        append(conn, Message("A", {}))
    assert listener.heard() == 0
    append(conn, Message("B", {}))
    assert listener.heard() == 1
    conn.execute("set milepost.notify = off")
    append(conn, Message("C", {}))
    assert listener.heard() == 0
    conn.execute(f'alter database "{conn.info.dbname}" set milepost.notify = off')
    append(session(), Message("D", {}))
    assert listener.heard() == 0


@pytest.mark.parametrize("order", ["append"])
def test_of_the_appenders_in_flight_one_notifies(session: OpenSession, listener: Listener) -> None:
    first, second, third = session(), session(), session()
    for conn in (first, second, third):
        conn.execute("begin")
        append(conn, Message("T", {}))
    second.execute("commit")
    third.execute("commit")
    assert listener.heard() == 0
    first.execute("commit")
    assert listener.heard() == 1
    append(second, Message("T", {}))
    assert listener.heard() == 1


@pytest.mark.parametrize("order", ["transaction"])
def test_in_transaction_order_every_transaction_notifies(
    session: OpenSession, listener: Listener
) -> None:
    """A reader cannot see what is in flight there, and would sleep through it."""
    first, second = session(), session()
    for conn in (first, second):
        conn.execute("begin")
        append(conn, Message("T", {}))
    second.execute("commit")
    assert listener.heard() == 1
    first.execute("commit")
    assert listener.heard() == 1


def test_a_following_reader_sees_what_committed_without_a_notification_of_its_own(
    mp: Milepost, url: str, session: OpenSession
) -> None:
    first, second = session(), session()
    with following(mp, url) as reader:
        reader.until_it_found_nothing()
        for conn, kind in [(first, "First"), (second, "Second")]:
            conn.execute("begin")
            append(conn, Message(kind, {}))
        second.execute("commit")
        first.execute("commit")
        assert reader.types(2) == ["First", "Second"]


def test_a_following_reader_sees_an_appender_that_was_in_flight_when_it_woke(
    mp: Milepost, url: str, session: OpenSession
) -> None:
    """The second appender got no notification to send, and ends after the first one's."""
    first, second = session(), session()
    with following(mp, url) as reader:
        reader.until_it_found_nothing()
        for conn, kind in [(first, "First"), (second, "Second")]:
            conn.execute("begin")
            append(conn, Message(kind, {}))
        first.execute("commit")
        assert reader.types(1) == ["First"]
        second.execute("commit")
        assert reader.types(1) == ["Second"]


@pytest.mark.parametrize("order", ["append"])
def test_a_following_reader_sees_an_appender_that_had_drawn_nothing_yet_when_it_woke(
    mp: Milepost, url: str, session: OpenSession, conn: Connection
) -> None:
    """COPY takes its floor when it begins and draws a position when the first row comes."""
    first, slow = session(), session()
    with following(mp, url) as reader:
        reader.until_it_found_nothing()
        first.execute("begin")
        append(first, Message("First", {}))
        with slow.cursor().copy("copy milepost.messages (type, data) from stdin") as copy:
            wait_until(lambda: appenders_in_flight(conn) == 2)
            first.execute("commit")
            assert reader.types(1) == ["First"]
            copy.write_row(("Slow", "{}"))
        assert reader.types(1) == ["Slow"]


def appenders_in_flight(conn: Connection) -> int:
    return len(conn.execute("select from milepost.horizon_holders()").fetchall())
