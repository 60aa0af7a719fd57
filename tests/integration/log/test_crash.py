"""The server is killed and forgets what it had not written: no reader has passed what comes then.

A reader here keeps its position in memory, as `milepost read` in a shell, a Spark offset or a
handler's own store do. What it was told must be true after the crash too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost import Message, Milepost, Position, append, db
from milepost.embedded import EmbeddedServer
from milepost.sql import LogOrder
from tests.crashing import crash_and_start, hold_writer, lazy_server, migrated_database

# As it was: what is drawn counts, whether or not it came to anything.
TO_THE_LAST_DRAW = """
create or replace function milepost.last_message(up_to milepost.position)
returns milepost.position language sql volatile return up_to
"""
COMMIT_WITHOUT_WAITING = "set synchronous_commit = off"


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    with lazy_server() as started:
        yield started


@pytest.fixture
def own_url(own_server: EmbeddedServer, order: LogOrder) -> str:
    return migrated_database(own_server, order)


def reached_before_a_crash(server: EmbeddedServer, url: str) -> Position:
    """How far a reader came, where a message was followed by many that were rolled back."""
    with db.connect(url) as conn:
        append(conn, Message("Kept", {}))
        writer = hold_writer(conn)
        try:
            for _ in range(150):
                with conn.transaction(force_rollback=True):
                    append(conn, Message("Undone", {}))
            with Milepost(url).reader() as reader:
                assert [message.type for message in reader.messages()] == ["Kept"]
                assert reader.read().messages == []
        finally:
            crash_and_start(server, writer)
    return reader.after


def types_read(url: str, start: Position) -> list[str]:
    return [message.type for message in Milepost(url).read(start)]


def test_what_is_appended_after_a_crash_lies_ahead_of_every_reader(
    own_server: EmbeddedServer, own_url: str
) -> None:
    reached = reached_before_a_crash(own_server, own_url)
    with db.connect(own_url) as conn:
        append(conn, Message("After the crash", {}))
    assert types_read(own_url, reached) == ["After the crash"]


def test_a_reader_that_counts_what_was_drawn_would_miss_it(
    own_server: EmbeddedServer, own_url: str
) -> None:
    """So that the test above means something."""
    with db.connect(own_url) as conn:
        conn.execute(TO_THE_LAST_DRAW)
    reached = reached_before_a_crash(own_server, own_url)
    with db.connect(own_url) as conn:
        (new,) = append(conn, Message("After the crash", {}))
    assert new <= reached


def test_a_message_that_was_read_is_there_after_a_crash(
    own_server: EmbeddedServer, own_url: str
) -> None:
    """Also where the appender does not want to wait for the disk: it does."""
    with db.connect(own_url) as conn:
        append(conn, Message("Before", {}))
        writer = hold_writer(conn)
        try:
            conn.execute(COMMIT_WITHOUT_WAITING)
            (position,) = append(conn, Message("In a hurry", {}))
            assert types_read(own_url, Position.BEGINNING) == ["Before", "In a hurry"]
        finally:
            crash_and_start(own_server, writer)
    assert types_read(own_url, Position.BEGINNING) == ["Before", "In a hurry"]
    with db.connect(own_url) as conn:
        assert append(conn, Message("After", {}))[0] > position


def test_what_else_the_appender_commits_without_waiting_stays_its_own_choice(
    own_url: str,
) -> None:
    with db.connect(own_url) as conn:
        conn.execute(COMMIT_WITHOUT_WAITING)
        with conn.transaction():
            append(conn, Message("T", {}))
            assert conn.execute("show synchronous_commit").fetchone() == ("local",)
        assert conn.execute("show synchronous_commit").fetchone() == ("off",)
