"""A row that Python cannot decode is a failure of that message, never of its readers."""

from __future__ import annotations

import pytest

from milepost import Message, Milepost
from milepost.db import Connection
from milepost.errors import UnreadableMessage
from milepost.log.read import Horizon, read_batch
from milepost.records import Position, RawMessage
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
