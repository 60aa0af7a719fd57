"""Every message is read once and in order, wherever it is: in the table, in a file, or in both."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from milepost import Message, Milepost, Position, append
from milepost.db import Connection
from milepost.errors import PositionLost, RangeRemoved, UnreadableMessage
from milepost.log import Horizon, Reader, Selection, read_batch, start_position
from milepost.records import RawMessage, RecordedMessage, Segment
from tests.archiving import Archive
from tests.undecodable import KINDS, append_undecodable

TOPICS, TYPES, KEYS = ("orders", "bills"), ("Placed", "Paid", "Sent"), ("a", "b", "c", None)


def numbered(conn: Connection, count: int) -> list[Position]:
    return append(
        conn,
        *(
            Message(
                TYPES[n % 3],
                {"n": n, "text": "grüße"},
                key=KEYS[n % 4],
                topic=TOPICS[n % 2],
                metadata={"of": n},
            )
            for n in range(count)
        ),
    )


def read(conn: Connection, after: Position = Position.BEGINNING) -> list[RecordedMessage]:
    return list(Reader(conn, after).messages())


@pytest.mark.parametrize("removed", [0, 3, 10, 15, 25, 30])
def test_the_log_is_the_same_wherever_its_messages_are(
    conn: Connection, archive: Archive, removed: int
) -> None:
    positions = numbered(conn, 30)
    before = read(conn)
    archive.archive(positions[9])
    archive.archive(positions[24])
    if removed > 25:
        archive.archive(positions[-1])
    if removed:
        archive.remove(positions[removed - 1])
    for first in range(30):
        assert read(conn, positions[first]) == before[first + 1 :]
    assert read(conn) == before


@pytest.mark.parametrize("batch_size", [1, 2, 7, 1000])
def test_batches_of_any_size(conn: Connection, archive: Archive, batch_size: int) -> None:
    positions = numbered(conn, 30)
    before = read(conn)
    archive.move(positions[7])
    archive.move(positions[19])
    archive.join(archive.files(), rows_per_group=6)
    reader, found = Reader(conn, batch_size=batch_size), []
    while True:
        batch = reader.read()
        assert len(batch.messages) <= batch_size
        found += batch.messages
        if not batch.is_full:
            break
    assert found == before
    assert batch.reached == positions[-1]


@pytest.mark.parametrize(
    "selection",
    [
        Selection(topics=["bills"]),
        Selection(types=["Paid", "Sent"]),
        Selection(topics=["orders"], types=["Paid"], segment=Segment(1, 1)),
        Selection(segment=Segment(2, 3)),
        Selection(topics=["nothing"]),
        Selection(types=[]),
    ],
)
def test_filters(conn: Connection, archive: Archive, selection: Selection) -> None:
    positions = numbered(conn, 40)
    before = list(Reader(conn, selection=selection).messages())
    archive.move(positions[13])
    archive.move(positions[29])
    archive.join(archive.files()[1:], rows_per_group=5)
    assert list(Reader(conn, selection=selection).messages()) == before
    assert list(Reader(conn, selection=selection, batch_size=3).messages()) == before


def test_a_horizon_within_a_file_ends_the_batch(conn: Connection, archive: Archive) -> None:
    """As for a segment that catches up with the others."""
    positions = numbered(conn, 30)
    archive.move()
    limit = Horizon(positions[12], is_held=False)
    batch = read_batch(conn, positions[2], limit)
    assert [message.position for message in batch.messages] == positions[3:13]
    assert (batch.reached, batch.is_full) == (positions[12], False)


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_decoded_is_the_same_in_a_file(
    conn: Connection, archive: Archive, kind: str
) -> None:
    numbered(conn, 2)
    odd = append_undecodable(conn, kind, key="odd")
    positions = numbered(conn, 2)
    reader = Reader(conn, keeps_raw=True)
    before, raw = list(reader.messages()), reader.raw(odd)
    archive.move()
    after = list(Reader(conn, keeps_raw=True).messages())
    assert after == before
    assert isinstance(after[2], RawMessage)
    assert reader.raw(odd) == raw
    assert reader.raw(positions[0]) == replace(
        reader.raw(positions[0]), raw_data=b'{"n":0,"text":"gr\xc3\xbc\xc3\x9fe"}'
    )
    stopping = Reader(conn)
    assert len(stopping.read().messages) == 2
    with pytest.raises(UnreadableMessage):
        stopping.read()
    stopping.after = odd
    assert [message.position for message in stopping.messages()] == positions


def test_there_is_no_message_where_none_was_appended(conn: Connection, archive: Archive) -> None:
    (first,) = numbered(conn, 1)
    archive.move()
    with pytest.raises(ValueError, match="no message at position"):
        Reader(conn).raw(Position(first.transaction_id, first.position + 1000))


def test_what_was_removed_without_an_archive_is_refused(conn: Connection, archive: Archive) -> None:
    positions = numbered(conn, 30)
    archive.remove(positions[9])
    archive.move(positions[19])
    for after in (Position.BEGINNING, positions[0], positions[8]):
        with pytest.raises(RangeRemoved, match="Start from"):
            read(conn, after)
    assert [message.position for message in read(conn, positions[9])] == positions[10:]


def test_a_transaction_is_not_broken_by_a_range_that_is_archived(
    conn: Connection, archive: Archive
) -> None:
    positions = numbered(conn, 30)
    archive.move(positions[19])
    conn.execute("create table noted (n integer)")
    with conn.transaction():
        conn.execute("insert into noted values (1)")
        found = read(conn)
        conn.execute("insert into noted values (2)")
    assert len(found) == 30
    assert conn.execute("select count(*) from noted").fetchone() == (2,)


def test_a_position_that_was_lost_is_refused_in_a_file_too(
    conn: Connection, archive: Archive
) -> None:
    positions = numbered(conn, 10)
    conn.execute(
        "insert into milepost.lost_positions values (%s, %s, %s, %s)",
        [*_pair(positions[3]), *_pair(positions[6])],
    )
    archive.move()
    with pytest.raises(PositionLost):
        read(conn, positions[5])
    assert len(read(conn, positions[3])) == 6
    assert len(read(conn)) == 10


def _pair(position: Position) -> tuple[int, int]:
    return position.transaction_id, position.position


DAY = datetime(2026, 3, 1, tzinfo=UTC)
# Of the messages in order: not monotonic, and odd.
TIMES = (
    "2026-03-01 03:00+00", "2026-03-01 01:00+00", "-infinity", "0044-03-15 12:00+00 BC",
    "2026-03-01 05:00+00", "2026-03-01 02:00+00", "20000-01-01 00:00+00", "2026-03-01 09:00+00",
    "2026-03-01 04:00+00", "infinity", "2026-03-01 08:00+00",
)  # fmt: skip


@pytest.mark.parametrize("is_odd", [False, True])
def test_a_time_means_the_same_position_wherever_messages_are(
    conn: Connection, archive: Archive, is_odd: bool
) -> None:
    positions = numbered(conn, len(TIMES))
    for position, time in zip(positions, TIMES, strict=True):
        plain = time.startswith("2026") or is_odd
        conn.execute(
            "update milepost.messages set recorded_at = %s "
            "where transaction_id = %s and position = %s",
            [time if plain else "2026-03-01 00:30+00", *_pair(position)],
        )
    starts = [DAY + timedelta(minutes=minutes) for minutes in range(-30, 660, 30)]
    starts += [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
    starts.append(datetime(2026, 3, 1, 6, tzinfo=timezone(timedelta(hours=2))))
    before = [start_position(conn, start) for start in starts]
    for number in range(len(positions)):
        archive.archive(positions[number])
        for kept in (number - 1, number):
            if kept >= 0:
                archive.remove(positions[kept])
            assert [start_position(conn, start) for start in starts] == before
    archive.join(archive.files(), rows_per_group=4)
    assert [start_position(conn, start) for start in starts] == before


def test_reading_through_the_application(mp: Milepost, conn: Connection, archive: Archive) -> None:
    positions = numbered(conn, 30)
    before = list(mp.read())
    middle = before[14].recorded_at
    expected = list(mp.read(middle))
    archive.move(positions[22])
    assert list(mp.read()) == before
    assert list(mp.read(middle)) == expected
    assert list(mp.read(topics=["bills"])) == [m for m in before if m.topic == "bills"]
    with mp.reader(positions[3], segment=Segment(0, 1), batch_size=4) as reader:
        found = list(reader.messages())
    assert found == [m for m in before[4:] if Segment(0, 1).holds(m.key)]
