"""A row that Python cannot decode is a failure of that message, never of its readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from milepost import Message, Milepost, db
from milepost.db import AsyncConnection, Connection
from milepost.errors import UnreadableMessage
from milepost.log import subscriptions
from milepost.log.read import Horizon, appended, read_batch
from milepost.records import Position, RawMessage, RecordedMessage
from tests.undecodable import DIGITS, KINDS, append_undecodable


@pytest.mark.parametrize("kind", KINDS)
def test_all_before_it_is_read_and_the_error_says_where_to_go_on(
    mp: Milepost, conn: Connection, kind: str
) -> None:
    before = mp.append(conn, Message("T", 1), Message("T", 2))
    odd = append_undecodable(conn, kind)
    after = mp.append(conn, Message("T", 3))
    seen: list[Position] = []
    with pytest.raises(UnreadableMessage) as caught:
        seen.extend(message.position for message in mp.read())
    assert seen == before
    assert caught.value.position == odd
    assert str(odd) in str(caught.value)
    assert KINDS[kind][0] in caught.value.reason
    assert [message.position for message in mp.read(caught.value.position)] == after


def test_a_reader_stays_before_it_until_it_is_told_to_go_on(mp: Milepost, conn: Connection) -> None:
    odd = append_undecodable(conn)
    (after,) = mp.append(conn, Message("T", 1))
    with mp.reader() as reader:
        for _ in range(2):
            with pytest.raises(UnreadableMessage):
                reader.read()
            assert reader.after < odd
        reader.after = odd
        assert [message.position for message in reader.read().messages] == [after]


def test_the_others_of_its_batch_are_what_they_are(mp: Milepost, conn: Connection) -> None:
    mp.append(conn, Message("T", {"a": [1, "é"]}, key="k", metadata={"m": 1}))
    expected = list(mp.read())
    odd = append_undecodable(conn, key="k")
    limit = Horizon(odd, is_held=False)
    batch = read_batch(conn, Position.BEGINNING, limit)
    assert batch.messages[:1] == expected
    raw = batch.messages[1]
    assert isinstance(raw, RawMessage)
    assert (raw.position, raw.key, raw.type, raw.raw_data) == (odd, "k", "Odd", DIGITS.encode())


def test_a_filter_that_leaves_it_out_never_meets_it(mp: Milepost, conn: Connection) -> None:
    append_undecodable(conn)
    expected = mp.append(conn, Message("T", 1))
    assert [message.position for message in mp.read(types=["T"])] == expected


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is appended in Python can be decoded in Python; so it is spoiled on its way back."""

    def spoil(positions: list[Position], schema: str) -> db.Statement:
        query, parameters = appended(positions, schema)
        return query.replace(b"metadata", b"repeat('1', 5000)::json"), parameters

    monkeypatch.setattr(subscriptions, "appended", spoil)


@pytest.mark.usefixtures("spoiled")
def test_an_append_whose_subscriber_cannot_be_given_it_writes_nothing(
    mp: Milepost, conn: Connection
) -> None:
    calls: list[object] = []
    subscribe(mp, lambda messages: calls.append(messages))
    with pytest.raises(UnreadableMessage, match="digits"):
        mp.append(conn, Message("T", 1))
    assert calls == []
    assert list(mp.read()) == []


@pytest.mark.usefixtures("spoiled")
def test_the_same_on_an_async_connection(mp: Milepost, url: str) -> None:
    async def keep(messages: list[RecordedMessage], conn: AsyncConnection) -> None:
        raise AssertionError

    async def attempt() -> None:
        conn = await db.connect_async(url)
        with pytest.raises(UnreadableMessage, match="digits"):
            await mp.append(conn, Message("T", 1))
        await conn.close()

    mp.subscribe(keep)
    asyncio.run(attempt())
    assert list(mp.read()) == []


def subscribe(mp: Milepost, handler: Callable[[list[RecordedMessage]], None]) -> None:
    mp.subscribe(lambda messages, _: handler(messages))
