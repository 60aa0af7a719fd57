"""A reader follows the log: by wake-up, by poll, and by looking again while something is held."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from milepost import Message, Milepost, Position, append
from milepost.db import Connection
from milepost.errors import BeyondHorizon, RangeRemoved
from milepost.log import Reader
from milepost.sql import LogOrder
from tests.archiving import remove
from tests.following import NEVER_SECONDS, following
from tests.integration.log.conftest import OpenSession


def test_messages_appended_later_arrive_by_wake_up(
    mp: Milepost, url: str, conn: Connection
) -> None:
    with following(mp, url, poll_seconds=NEVER_SECONDS) as reader:
        reader.until_it_found_nothing()
        for kind in ("First", "Second", "Third"):
            append(conn, Message(kind, {}))
            assert reader.types(1) == [kind]


def test_messages_appended_later_without_wake_up_arrive_by_poll(
    mp: Milepost, url: str, conn: Connection
) -> None:
    conn.execute("set milepost.notify = off")
    with following(mp, url, poll_seconds=0.02) as reader:
        reader.until_it_found_nothing()
        append(conn, Message("First", {}))
        assert reader.types(1) == ["First"]
        reader.until_it_found_nothing()
        append(conn, Message("Second", {}))
        assert reader.types(1) == ["Second"]


def test_what_the_horizon_held_back_arrives_when_the_holder_rolls_back_without_a_wake_up(
    mp: Milepost, url: str, session: OpenSession, conn: Connection
) -> None:
    holder = session()
    holder.execute("begin")
    append(holder, Message("Undone", {}))
    conn.execute("set milepost.notify = off")
    append(conn, Message("Held", {}))
    with following(mp, url, poll_seconds=NEVER_SECONDS) as reader:
        reader.until_it_found_nothing()
        reader.until_it_found_nothing()
        holder.execute("rollback")
        assert reader.types(1) == ["Held"]


@pytest.mark.parametrize("order", ["transaction"])
def test_what_a_stranger_held_back_arrives_when_the_stranger_ends(
    mp: Milepost, url: str, session: OpenSession, conn: Connection
) -> None:
    stranger = session()
    stranger.execute("begin")
    stranger.execute("create table unrelated (n integer)")
    with following(mp, url, poll_seconds=NEVER_SECONDS) as reader:
        reader.until_it_found_nothing()
        append(conn, Message("Held", {}))
        reader.until_it_found_nothing()
        stranger.execute("rollback")
        assert reader.types(1) == ["Held"]


def test_full_batches_do_not_wait(mp: Milepost, conn: Connection) -> None:
    conn.execute("set milepost.notify = off")
    appended = append(conn, *(Message("T", {"n": n}) for n in range(50)))
    reading = mp.read(follow=True, batch_size=1, poll_seconds=NEVER_SECONDS)
    read = list(itertools.islice(reading, 50))
    reading.close()  # type: ignore[attr-defined]  # an Iterator by name, a generator in fact
    assert [message.position for message in read] == appended


def test_a_wake_up_that_came_during_another_statement_is_not_lost(
    conn: Connection, session: OpenSession
) -> None:
    reader = Reader(session())
    reader.listen()
    reader.read()
    append(conn, Message("T", {}))
    reader.conn.execute("select 1")  # the driver takes in the notification here
    reader.wait(NEVER_SECONDS)
    assert [message.type for message in reader.read().messages] == ["T"]


def test_an_iterator_without_follow_ends_at_the_horizon(mp: Milepost, conn: Connection) -> None:
    append(conn, *(Message("T", {"n": n}) for n in range(7)))
    for batch_size in (1, 3, 7, 8):
        read = [message.data["n"] for message in mp.read(batch_size=batch_size)]
        assert read == list(range(7))


def test_a_reader_goes_on_from_the_position_of_any_message(mp: Milepost, conn: Connection) -> None:
    appended = append(conn, *(Message("T", {"n": n}) for n in range(5)))
    for index, position in enumerate(appended):
        assert [m.position for m in mp.read(position)] == appended[index + 1 :]


def test_a_reader_keeps_no_transaction_open(conn: Connection, session: OpenSession) -> None:
    append(conn, *(Message("T", {}) for _ in range(3)))
    reader = Reader(session(), batch_size=1)
    reader.listen()
    for _ in range(4):
        reader.read()
        assert reader.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_a_reader_refuses_a_connection_that_is_not_in_autocommit_mode(url: str) -> None:
    with psycopg.connect(url) as conn, pytest.raises(ValueError, match="autocommit"):
        Reader(conn)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_reader_refuses_an_empty_batch_size(conn: Connection, batch_size: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Reader(conn, batch_size=batch_size)


def test_a_batch_says_how_far_it_reached(conn: Connection, session: OpenSession) -> None:
    appended = append(conn, *(Message("T", {"n": n}) for n in range(3)))
    reader = Reader(session(), batch_size=2)
    first, second, third = reader.read(), reader.read(), reader.read()
    assert (first.is_full, first.reached) == (True, appended[1])
    assert (second.is_full, [m.position for m in second.messages]) == (False, appended[2:])
    assert second.reached >= appended[2]
    assert third.messages == []
    assert third.reached >= second.reached > Position.BEGINNING


def test_a_position_above_everything_that_was_given_is_refused(
    mp: Milepost, conn: Connection, order: LogOrder
) -> None:
    """Of another server: nothing would be read there, for ever."""
    (newest,) = append(conn, Message("T", {}))
    above = {
        "append": [Position(0, newest.position + 1), Position(1, 1)],
        "transaction": [Position(newest.transaction_id + 1_000_000, 1)],
    }
    for position in above[order]:
        with pytest.raises(BeyondHorizon, match="Connect to the right server") as caught:
            list(mp.read(position))
        assert (caught.value.position, caught.value.horizon) == (position, newest)


def test_a_position_that_was_rolled_back_is_not(mp: Milepost, conn: Connection) -> None:
    append(conn, Message("T", {}))
    with conn.transaction(force_rollback=True):
        *_, undone = append(conn, *(Message("Undone", n) for n in range(300)))
    with mp.reader(undone) as reader:
        assert reader.read().messages == []


def test_a_position_before_what_was_removed_is_refused_with_the_one_to_continue_from(
    mp: Milepost, conn: Connection
) -> None:
    (removed, kept) = append(conn, Message("T", {}), Message("T", {}))
    remove(conn, removed)
    with pytest.raises(RangeRemoved) as caught:
        list(mp.read())
    assert caught.value.position == Position.BEGINNING
    assert caught.value.continue_from == removed
    assert [message.position for message in mp.read(removed)] == [kept]
