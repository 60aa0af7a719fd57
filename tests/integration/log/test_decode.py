"""Rows become messages one by one, whatever the connection they came over is set to."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from uuid import UUID

import pytest
from psycopg.adapt import Loader
from psycopg.pq import Format

from milepost import Message, Milepost, Position, append
from milepost.db import Connection
from milepost.errors import UnreadableMessage
from milepost.log import Reader
from milepost.records import RawMessage, RecordedMessage
from tests.integration.log.conftest import OpenSession
from tests.undecodable import append_undecodable


@pytest.fixture
def only_new_objects() -> Iterator[None]:
    """`gc.get_objects()` shows what is made from here on: all others may be half a million."""
    gc.freeze()
    yield
    gc.unfreeze()


def alive() -> int:
    return sum(type(each) is RecordedMessage for each in gc.get_objects())


@pytest.mark.usefixtures("only_new_objects")
def test_messages_that_are_not_kept_are_freed_one_by_one(mp: Milepost, conn: Connection) -> None:
    append(conn, *(Message("T", {"n": n}) for n in range(50)))
    most = 0
    with mp.reader() as reader:
        for _ in reader.messages():
            most = max(most, alive())
    assert 1 <= most <= 2  # this one, and the one before it while this one is made


def test_an_iterator_stays_before_a_message_that_cannot_be_decoded(
    mp: Milepost, conn: Connection
) -> None:
    before = mp.append(conn, Message("T", 1), Message("T", 2))
    odd = append_undecodable(conn)
    after = mp.append(conn, Message("T", 3))
    with mp.reader() as reader:
        for expected in (before, []):
            seen: list[Position] = []
            with pytest.raises(UnreadableMessage):
                seen.extend(message.position for message in reader.messages())
            assert seen == expected
            assert reader.after == before[-1]
        reader.after = odd
        assert [message.position for message in reader.messages()] == after


def test_an_iterator_that_keeps_raw_messages_goes_on(
    conn: Connection, session: OpenSession
) -> None:
    kinds = [RecordedMessage, RawMessage, RecordedMessage, RawMessage]
    for kind in kinds:
        if kind is RawMessage:
            append_undecodable(conn)
        else:
            append(conn, Message("T", {}))
    for batch_size in (1, 2, 3, 4, 5):
        reader = Reader(session(), batch_size=batch_size, keeps_raw=True)
        assert [type(message) for message in reader.messages()] == kinds


def test_json_that_only_the_slower_decoder_takes_leaves_the_others_as_they_are(
    mp: Milepost, conn: Connection
) -> None:
    append(conn, Message("T", {"n": 1}))
    conn.execute("""insert into milepost.messages (type, data) values ('T', '"\\ud800"')""")
    append(conn, Message("T", {"n": 2}))
    assert [message.data for message in mp.read()] == [{"n": 1}, "\ud800", {"n": 2}]


class Spoiling(Loader):
    format = Format.BINARY

    def load(self, data: object) -> str:
        return "spoiled"


def test_a_users_own_loaders_do_not_change_messages(conn: Connection, session: OpenSession) -> None:
    (position,) = append(conn, Message("T", {"n": 1}, key="k", metadata={"m": 1}))
    reading = session()
    for name in ("text", "json", "uuid", "int8", "timestamptz"):
        reading.adapters.register_loader(name, Spoiling)
    (message,) = Reader(reading).messages()
    assert (message.type, message.data, message.key) == ("T", {"n": 1}, "k")
    assert (message.metadata, message.position) == ({"m": 1}, position)
    assert isinstance(message.id, UUID)


def test_messages_are_appended_in_a_pipeline(mp: Milepost, conn: Connection) -> None:
    with conn.pipeline():
        mp.append(conn, Message("T", {"n": 1}))
        mp.append(conn)
    assert [message.data for message in mp.read()] == [{"n": 1}]


def test_a_reader_reads_in_a_pipeline(conn: Connection, session: OpenSession) -> None:
    appended = append(conn, Message("T", {}), Message("T", {}))
    reader = Reader(session())
    with reader.conn.pipeline():
        assert [message.position for message in reader.messages()] == appended
        assert reader.read().messages == []
