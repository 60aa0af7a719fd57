"""Reading: in order, filtered without moving anything, from wherever a reader starts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg
import pytest

from milepost import Message, Milepost, Position, Segment, append, key_hash, log
from milepost.db import Connection
from milepost.errors import UnsafeIsolation
from milepost.log import Selection, read_batch
from tests.integration.log.conftest import OpenSession
from tests.waiting import wait_until

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "key_hash.json").read_text("utf-8")
)


def mixed(count: int) -> list[Message]:
    return [
        Message(f"Type{n % 3}", {"n": n}, topic=f"topic{n % 2}", key=f"key{n}" if n % 5 else None)
        for n in range(count)
    ]


def record(conn: Connection, kind: str, minutes: int) -> None:
    conn.execute(
        "insert into milepost.messages (type, data, recorded_at) values (%s, '{}', %s)",
        [kind, NOON + timedelta(minutes=minutes)],
    )


def types_read(mp: Milepost, start: log.Start = "beginning") -> list[str]:
    return [message.type for message in mp.read(start)]


@pytest.mark.parametrize(
    ("selection", "is_wanted"),
    [
        (Selection(topics=["topic1"]), lambda m: m.topic == "topic1"),
        (Selection(types=["Type0", "Type2"]), lambda m: m.type != "Type1"),
        (
            Selection(topics=["topic0"], types=["Type1"]),
            lambda m: (m.topic, m.type) == ("topic0", "Type1"),
        ),
        (Selection(segment=Segment(1, 3)), lambda m: Segment(1, 3).holds(m.key)),
        (
            Selection(["topic0"], ["Type0"], Segment(0, 1)),
            lambda m: (m.topic, m.type) == ("topic0", "Type0") and Segment(0, 1).holds(m.key),
        ),
        (Selection(segment=Segment.WHOLE), lambda _: True),
        (Selection(topics=[]), lambda _: False),
        (Selection(topics=["no such topic"]), lambda _: False),
    ],
)
@pytest.mark.parametrize("batch_size", [7, 1000])
def test_a_filter_takes_messages_out_and_keeps_the_order(
    selection: Selection, is_wanted: Any, batch_size: int, mp: Milepost, conn: Connection
) -> None:
    messages = mixed(250)
    append(conn, *messages)
    read = mp.read(
        topics=selection.topics,
        types=selection.types,
        segment=selection.segment,
        batch_size=batch_size,
    )
    assert [m.id for m in read] == [m.id for m in messages if is_wanted(m)]


def test_sql_read_filters_alike(conn: Connection) -> None:
    messages = mixed(60)
    append(conn, *messages)
    rows = conn.execute(
        "select id from milepost.read(topics => '{topic1}', types => '{Type0,Type2}', "
        "segment => row(0, 1)::milepost.segment)"
    ).fetchall()
    wanted = [m for m in messages if m.topic == "topic1" and m.type != "Type1"]
    assert [row[0] for row in rows] == [m.id for m in wanted if Segment(0, 1).holds(m.key)]


def test_sql_read_pages_through_the_log(conn: Connection) -> None:
    positions = append(conn, *mixed(25))
    after, read = Position.BEGINNING, []
    while True:
        rows = conn.execute(
            "select transaction_id, position from milepost.read("
            "row(%s, %s)::milepost.position, max_count => 10)",
            [after.transaction_id, after.position],
        ).fetchall()
        if not rows:
            break
        read += [Position(*row) for row in rows]
        after = read[-1]
    assert read == positions


def test_a_reader_passes_what_was_filtered_out(mp: Milepost, conn: Connection) -> None:
    last = append(conn, *mixed(30))[-1]
    with mp.reader(topics=["no such topic"]) as reader:
        batch = reader.read()
    assert batch.messages == []
    assert batch.reached >= last


def test_a_reader_passes_what_was_filtered_out_after_its_last_message(
    mp: Milepost, conn: Connection
) -> None:
    append(conn, Message("Wanted", {}))
    last = append(conn, *mixed(5))[-1]
    with mp.reader(types=["Wanted"], batch_size=1) as reader:
        first, second = reader.read(), reader.read()
    assert ([m.type for m in first.messages], second.messages) == (["Wanted"], [])
    assert second.reached >= last


def test_segments_partition_the_messages(mp: Milepost, conn: Connection) -> None:
    messages = mixed(250)
    append(conn, *messages)
    parts = [{m.id for m in mp.read(segment=Segment(n, 7))} for n in range(8)]
    assert set.union(*parts) == {m.id for m in messages}
    assert sum(map(len, parts)) == len(messages)
    assert all(parts)


def test_messages_without_a_key_are_in_the_first_segment(mp: Milepost, conn: Connection) -> None:
    append(conn, Message("Keyless", {}))
    assert [m.type for m in mp.read(segment=Segment(0, 1023))] == ["Keyless"]


@pytest.mark.parametrize("order", ["append"])
def test_sql_and_python_hash_keys_as_the_shared_vectors_say(conn: Connection) -> None:
    for vector in VECTORS:
        row = conn.execute("select milepost.key_hash(%s)", [vector["key"]]).fetchone()
        assert row == (vector["hash"],), vector
        assert key_hash(vector["key"]) == vector["hash"], vector


def test_reading_from_the_beginning_sees_everything(mp: Milepost, conn: Connection) -> None:
    append(conn, Message("Old", {}))
    assert types_read(mp, "beginning") == ["Old"]


def test_reading_from_a_position_sees_what_comes_after_it(mp: Milepost, conn: Connection) -> None:
    positions = append(conn, Message("A", {}), Message("B", {}), Message("C", {}))
    assert types_read(mp, positions[0]) == ["B", "C"]
    assert types_read(mp, positions[2]) == []


def test_reading_from_the_end_sees_only_what_comes_later(mp: Milepost, conn: Connection) -> None:
    append(conn, Message("Old", {}))
    with mp.reader("end") as reader:
        assert reader.read().messages == []
        append(conn, Message("New", {}))
        assert [m.type for m in reader.read().messages] == ["New"]


def test_the_end_does_not_skip_a_message_in_flight_below_the_newest(
    mp: Milepost, conn: Connection, session: OpenSession
) -> None:
    in_flight = session()
    in_flight.execute("begin")
    append(in_flight, Message("In flight", {}))
    append(conn, Message("Newest", {}))
    with mp.reader("end") as reader:
        in_flight.execute("commit")
        wait_until(lambda: types_read(mp, reader.after) == ["In flight", "Newest"])


def test_reading_from_a_time_sees_what_was_recorded_then_or_later(
    mp: Milepost, conn: Connection
) -> None:
    for minutes in range(5):
        record(conn, f"T{minutes}", minutes)
    assert types_read(mp, NOON + timedelta(minutes=2)) == ["T2", "T3", "T4"]
    assert types_read(mp, NOON + timedelta(minutes=3, seconds=1)) == ["T4"]
    assert types_read(mp, NOON - timedelta(days=1)) == ["T0", "T1", "T2", "T3", "T4"]
    assert types_read(mp, NOON + timedelta(days=1)) == []


def test_a_time_zone_of_the_callers_means_the_same_instant(mp: Milepost, conn: Connection) -> None:
    record(conn, "Before", 0)
    record(conn, "After", 10)
    start = (NOON + timedelta(minutes=5)).astimezone(timezone(timedelta(hours=9)))
    assert types_read(mp, start) == ["After"]


def test_a_time_sees_everything_from_then_on_even_where_clocks_disagreed(
    mp: Milepost, conn: Connection
) -> None:
    """Times need not follow positions: whatever follows the first one late enough is read."""
    for kind, minutes in [("A", 0), ("B", 10), ("C", 5), ("D", 11)]:
        record(conn, kind, minutes)
    assert types_read(mp, NOON + timedelta(minutes=8)) == ["B", "C", "D"]


def test_a_time_does_not_skip_a_message_in_flight_below_the_first_one_found(
    mp: Milepost, conn: Connection, session: OpenSession
) -> None:
    record(conn, "Before", 0)
    in_flight = session()
    in_flight.execute("begin")
    record(in_flight, "In flight", 6)
    record(conn, "Committed", 5)
    with mp.reader(NOON + timedelta(minutes=5)) as reader:
        in_flight.execute("commit")
        wait_until(lambda: types_read(mp, reader.after) == ["In flight", "Committed"])


def test_a_future_time_does_not_skip_a_message_in_flight(
    mp: Milepost, conn: Connection, session: OpenSession
) -> None:
    in_flight = session()
    in_flight.execute("begin")
    append(in_flight, Message("In flight", {}))
    append(conn, Message("Committed", {}))
    with mp.reader(datetime.now(UTC) + timedelta(days=1)) as reader:
        in_flight.execute("commit")
        wait_until(lambda: types_read(mp, reader.after) == ["In flight", "Committed"])


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize("start", ["start", "", 5, None])
def test_an_unknown_start_is_refused(start: Any, mp: Milepost) -> None:
    with pytest.raises(ValueError, match="expected 'beginning', 'end'"):
        list(mp.read(start))


@pytest.mark.parametrize("order", ["append"])
def test_a_time_without_a_time_zone_is_refused(mp: Milepost) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        list(mp.read(NOON.replace(tzinfo=None)))


ABOVE_READ_COMMITTED = [
    psycopg.IsolationLevel.REPEATABLE_READ,
    psycopg.IsolationLevel.SERIALIZABLE,
]
READING = [
    "select milepost.horizon()",
    "select milepost.read()",
    "select milepost.read(up_to => row(0, 1)::milepost.position)",
    "select milepost.position_at(now())",
]


@pytest.mark.parametrize("level", ABOVE_READ_COMMITTED)
@pytest.mark.parametrize("statement", READING)
def test_sql_refuses_to_read_above_read_committed(
    level: psycopg.IsolationLevel, statement: str, conn: Connection
) -> None:
    conn.isolation_level = level
    with pytest.raises(psycopg.Error) as caught, conn.transaction():
        conn.execute(statement)
    assert caught.value.sqlstate == "MP001"


@pytest.mark.parametrize("level", ABOVE_READ_COMMITTED)
def test_python_refuses_to_read_above_read_committed(
    level: psycopg.IsolationLevel, conn: Connection
) -> None:
    safe = log.horizon(conn)
    conn.isolation_level = level
    with pytest.raises(UnsafeIsolation, match="READ COMMITTED"), conn.transaction():
        log.horizon(conn)
    append(conn, Message("T", {}))
    later = log.Horizon(Position(safe.position.transaction_id + 10**6, 10**6), is_held=False)
    with pytest.raises(UnsafeIsolation, match="READ COMMITTED"), conn.transaction():
        read_batch(conn, Position.BEGINNING, later)


def test_a_range_reads_the_same_rows_whenever_it_is_replayed(
    conn: Connection, session: OpenSession
) -> None:
    append(conn, *mixed(20))
    in_flight = session()
    in_flight.execute("begin")
    append(in_flight, Message("In flight", {}))
    append(conn, *mixed(20))
    bound = log.horizon(conn)
    first = read_batch(conn, Position.BEGINNING, bound)
    in_flight.execute("commit")
    append(conn, *mixed(250))
    assert read_batch(conn, Position.BEGINNING, bound) == first
    assert len(first.messages) == 20
