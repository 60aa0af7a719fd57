"""Processors of every kind go over the boundary between files and table: every message once, in
order, from the beginning, after a reset, and with everything in the archive."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from milepost import Milepost, Position, RecordedMessage, Segment
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import AsyncConnection, Connection
from milepost.errors import RangeRemoved, WaitTimedOut
from milepost.processors import admin
from milepost.processors.segments.operations import list_segments
from milepost.sql import LogOrder
from tests.archiving import Archive
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all, running
from tests.integration.processors.self_checkpointing.models import Model

COUNT = 60


@pytest.fixture(params=["append", "transaction"])
def order(request: pytest.FixtureRequest) -> LogOrder:
    chosen: LogOrder = request.param
    return chosen


@pytest.fixture
def positions(put: Put, archive: Archive) -> list[Position]:
    """Two files, of which the second has small row groups, and a third that is still in the
    table, as the rest is."""
    found = [position for _ in range(COUNT // 10) for position in put(10)]
    archive.move(found[17])
    archive.move(found[39])
    archive.join(archive.files()[1:], rows_per_group=5)
    archive.archive(found[49])
    return found


@pytest.mark.parametrize("removed", [40, 45, 60])
@pytest.mark.parametrize("batch_size", [1, 7, 500])
def test_a_plain_processor(
    mp: Milepost,
    positions: list[Position],
    archive: Archive,
    effects: Effects,
    batch_size: int,
    removed: int,
) -> None:
    archive.archive()
    archive.remove(positions[removed - 1])
    mp.processor("plain", batch_size=batch_size)(leave_all).run(until="caught_up")
    assert effects.positions() == positions


@pytest.mark.parametrize("options", [{}, {"topics": ["default"]}, {"topics": ["other"]}])
def test_filters(
    mp: Milepost,
    positions: list[Position],
    archive: Archive,
    effects: Effects,
    put: Put,
    options: dict[str, Any],
) -> None:
    others = put(10, topic="other")
    archive.move()
    processor = mp.processor("filtered", batch_size=7, **options)(leave_all)
    processor.run(until="caught_up")
    expected = {"default": positions, "other": others}
    topics = options.get("topics", ["default", "other"])
    assert effects.positions() == [p for topic in topics for p in expected[topic]]
    assert processor.position() == others[-1]
    assert processor.caught_up()


def test_a_processor_that_runs_goes_on_in_the_table(
    mp: Milepost, positions: list[Position], archive: Archive, effects: Effects, put: Put
) -> None:
    archive.move()
    with running(mp.processor("running", batch_size=7)(leave_all)):
        effects.wait_for(COUNT)
        positions += put(10)
        effects.wait_for(COUNT + 10)
    assert effects.positions() == positions


def test_an_async_processor(
    mp: Milepost, positions: list[Position], archive: Archive, effects: Effects
) -> None:
    archive.move()

    @mp.processor("async", batch_size=11)
    async def handle(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            await tx.execute(
                "insert into effects (transaction_id, position) values (%s, %s)",
                [message.position.transaction_id, message.position.position],
            )

    handle.run(until="caught_up")
    assert effects.positions() == positions


@pytest.mark.parametrize("concurrency", [1, 4])
def test_at_least_once(
    mp: Milepost, positions: list[Position], archive: Archive, concurrency: int
) -> None:
    archive.move()
    seen: dict[str | None, list[Position]] = {}

    @mp.processor(
        "outside",
        delivery="at_least_once",
        handle="message",
        batch_size=7,
        concurrency=concurrency,
    )
    def handle(message: RecordedMessage) -> None:
        seen.setdefault(message.key, []).append(message.position)

    handle.run(until="caught_up")
    assert sorted(position for each in seen.values() for position in each) == positions
    assert all(each == sorted(each) for each in seen.values())


@pytest.mark.parametrize("concurrency", [1, 4])
def test_segments(
    mp: Milepost,
    positions: list[Position],
    archive: Archive,
    effects: Effects,
    put: Put,
    concurrency: int,
) -> None:
    archive.move()
    processor = mp.processor("segmented", segments=4, batch_size=7, concurrency=concurrency)(
        leave_all
    )
    processor.run(until="caught_up")
    assert Counter(effects.positions()) == Counter(positions)
    positions += put(10)
    archive.move()
    processor.run(until="caught_up")
    assert Counter(effects.positions()) == Counter(positions)


def test_segments_that_are_behind_catch_up_in_the_archive(
    mp: Milepost, conn: Connection, positions: list[Position], archive: Archive, effects: Effects
) -> None:
    """Each reads for itself until it is where the others are."""
    archive.move()
    processor = mp.processor("segmented", segments=4, batch_size=3)(leave_all)
    processor.run(until="caught_up")
    done = effects.count()
    ids = [status.id for status in list_segments(conn, "milepost", CheckpointKey("segmented"))]
    for segment, place in zip(ids, (None, 5, 30, 50), strict=True):
        at = Position.BEGINNING if place is None else positions[place]
        conn.execute(
            "update milepost.checkpoints set transaction_id = %s, position = %s "
            "where processor = 'segmented' and segment = %s",
            [at.transaction_id, at.position, segment],
        )
    before = conn.execute(
        "select s.id, s.mask, c.transaction_id, c.position from milepost.segments as s "
        "join milepost.checkpoints as c on c.processor = s.processor and c.segment = s.id"
    ).fetchall()
    messages = list(mp.read())
    expected = [
        message.position
        for id_, mask, *at in before
        for message in messages
        if Segment(id_, mask).holds(message.key) and message.position > Position(*at)
    ]
    processor.run(until="caught_up")
    assert Counter(effects.positions()[done:]) == Counter(expected)


def test_reset_to_the_beginning_delivers_everything_again(
    mp: Milepost, positions: list[Position], archive: Archive, effects: Effects
) -> None:
    seen: list[tuple[Position, bool]] = []

    @mp.processor("again", batch_size=7)
    def handle(messages: list[RecordedMessage], tx: Connection) -> None:
        seen.extend((message.position, message.replaying) for message in messages)
        leave_all(messages, tx)

    handle.run(until="caught_up")
    archive.move()
    handle.reset("beginning", archive.conn)
    handle.run(until="caught_up")
    assert seen == [(p, False) for p in positions] + [(p, True) for p in positions]
    handle.reset(positions[20], archive.conn)
    handle.run(until="caught_up")
    assert effects.positions() == positions * 2 + positions[21:]


def test_reset_to_a_time_that_is_archived(
    mp: Milepost, positions: list[Position], archive: Archive, effects: Effects
) -> None:
    messages = list(mp.read())
    processor = mp.processor("again")(leave_all)
    processor.run(until="caught_up")
    archive.move()
    assert processor.reset(messages[25].recorded_at, archive.conn) == positions[24]
    processor.run(until="caught_up")
    assert effects.positions() == positions + positions[25:]


@pytest.mark.parametrize("start", ["beginning", "time"])
@pytest.mark.parametrize("segments", [None, 2])
def test_start_from(
    mp: Milepost,
    positions: list[Position],
    archive: Archive,
    effects: Effects,
    start: str,
    segments: int | None,
) -> None:
    time = list(mp.read())[25].recorded_at
    archive.move()
    start_from: Any = time if start == "time" else "beginning"
    processor = mp.processor("new", start_from=start_from, segments=segments)(leave_all)
    processor.run(until="caught_up")
    expected = positions[25:] if start == "time" else positions
    assert Counter(effects.positions()) == Counter(expected)


def test_where_there_is_no_archive_a_processor_is_refused(
    mp: Milepost, archive: Archive, put: Put, effects: Effects
) -> None:
    positions = put(10)
    archive.remove(positions[4])
    with pytest.raises(RangeRemoved, match="Start from"):
        mp.processor("refused")(leave_all).run(until="caught_up")
    mp.processor("rest", start_from=positions[4])(leave_all).run(until="caught_up")
    assert effects.positions() == positions[5:]


def test_waiting_for_a_processor_that_is_behind_in_the_archive(
    mp: Milepost, positions: list[Position], archive: Archive, put: Put
) -> None:
    """What lies between its checkpoint and a position is looked up, file after file."""
    others = put(10, topic="other")
    archive.move()
    archive.join(archive.files()[2:], rows_per_group=3)
    reading = mp.processor("other", topics=["other"], start_from=positions[3])(leave_all)
    with mp.connect() as conn:
        store = PostgresCheckpointStore(conn)
        store.first(CheckpointKey("other"), lambda: positions[3], "somebody")
    reading.wait_for(positions[-1], timeout=0)
    assert not reading.caught_up()
    with pytest.raises(WaitTimedOut):
        reading.wait_for(others[0], timeout=0)


def test_the_lag_counts_what_is_archived(
    mp: Milepost, conn: Connection, put: Put, archive: Archive
) -> None:
    def lag() -> tuple[int, bool]:
        (status,) = admin.list_processors(conn, "milepost", "lagging")
        return status.lag_messages, status.is_lag_exact

    positions = put(30)
    for place in (9, 19):
        archive.archive(positions[place])
    conn.execute("insert into milepost.processors (name, version) values ('lagging', 1)")
    assert lag() == (30, True)
    archive.remove(positions[9])
    assert lag() == (30, True)
    archive.remove(positions[14])
    assert lag() == (25, False), "part of a file: at least those of whole files"
    archive.remove(positions[19])
    assert lag() == (30, True)
    (status,) = admin.list_processors(conn, "milepost", "lagging", max_counted=5)
    assert (status.lag_messages, status.is_lag_exact) == (30, False), "estimated by positions"
    conn.execute("update milepost.processors set topics = '{other}' where name = 'lagging'")
    assert lag() == (0, True)
    conn.execute("update milepost.processors set topics = '{default}' where name = 'lagging'")
    assert lag() == (30, True)
    conn.execute("update milepost.processors set types = '{Counted,Other}' where name = 'lagging'")
    assert lag() == (30, True)


@pytest.mark.usefixtures("long_operator_claims")
def test_the_lag_of_segments_counts_what_is_archived(
    mp: Milepost, conn: Connection, put: Put, archive: Archive
) -> None:
    positions = put(40, keys=40)
    processor = mp.processor("lagging", segments=2)(leave_all_of)
    processor.run(until="caught_up")
    archive.archive(positions[29])
    archive.move()
    processor.reset("beginning", conn)
    found = list_segments(conn, "milepost", CheckpointKey("lagging"))
    assert [status.lag_messages for status in found] == [20, 20]
    assert all(status.lag_seconds > 0 for status in found)
    (status,) = admin.list_processors(conn, "milepost", "lagging")
    assert (status.lag_messages, status.is_lag_exact) == (40, True)
    assert status.lag_seconds > 0


def leave_all_of(messages: list[RecordedMessage], tx: Connection) -> None:
    """Nothing: only the checkpoint counts."""


def test_self_checkpointing_handlers(
    mp: Milepost, positions: list[Position], archive: Archive
) -> None:
    archive.move()
    model = Model()
    processor = mp.processor("model", delivery="at_least_once", batch_size=7, segments=2)(model)
    processor.run(until="caught_up")
    assert sorted(model.positions()) == positions
    assert (processor.position() or Position.BEGINNING) >= positions[-1]
