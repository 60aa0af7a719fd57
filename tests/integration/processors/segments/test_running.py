"""A segmented processor runs as any other: every message once, in the order of its key."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from milepost import Message, Milepost, RecordedMessage
from milepost.db import AsyncConnection, Connection, one
from milepost.errors import HasSegments, WaitTimedOut
from milepost.records import Position
from milepost.runtime import Timing
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, Instance, leave_all, running
from tests.waiting import wait_until

NAME = "shared"


def do_nothing(messages: list[RecordedMessage], tx: Connection) -> None:
    """Nothing."""


def test_every_message_is_handled_once_and_it_ends_when_caught_up(
    mp: Milepost, put: Put, effects: Effects
) -> None:
    positions = put(300, keys=50)
    processor = mp.processor(NAME, segments=8, batch_size=10)(leave_all)
    processor.run(until="caught_up")
    assert sorted(effects.positions()) == positions
    at = processor.position()
    assert at is not None
    assert at >= positions[-1]
    assert processor.caught_up()


@pytest.mark.parametrize("segments", [1, 2, 3, 7, 16])
def test_any_number_of_segments(mp: Milepost, put: Put, effects: Effects, segments: int) -> None:
    positions = put(200, keys=50)
    mp.processor(NAME, segments=segments)(leave_all).run(until="caught_up")
    assert sorted(effects.positions()) == positions


def test_messages_of_one_key_stay_in_order(mp: Milepost, put: Put, conn: Connection) -> None:
    seen: dict[str | None, list[Position]] = defaultdict(list)

    @mp.processor(NAME, segments=4, batch_size=7)
    def note(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            seen[message.key].append(message.position)

    put(500, keys=20)
    note.run(until="caught_up")
    assert sum(map(len, seen.values())) == 500
    assert all(positions == sorted(positions) for positions in seen.values())


def test_one_call_holds_messages_of_one_segment_and_no_more_than_a_batch(
    mp: Milepost, put: Put
) -> None:
    calls: list[list[RecordedMessage]] = []

    @mp.processor(NAME, segments=4, batch_size=9, delivery="at_least_once")
    def note(messages: list[RecordedMessage], segment: object) -> None:
        calls.append(messages)
        assert all(segment.holds(m.key) for m in messages)  # type: ignore[attr-defined]

    put(300, keys=60)
    note.run(until="caught_up")
    assert max(len(call) for call in calls) == 9


def test_messages_without_a_key_go_to_one_segment(mp: Milepost, conn: Connection) -> None:
    seen: set[int] = set()

    @mp.processor(NAME, segments=8, delivery="at_least_once")
    def note(messages: list[RecordedMessage], segment: object) -> None:
        seen.add(segment.id)  # type: ignore[attr-defined]

    mp.append(conn, *(Message("Keyless", n) for n in range(50)))
    note.run(until="caught_up")
    assert seen == {0}


def test_an_async_handler_shares_the_transaction(mp: Milepost, put: Put, effects: Effects) -> None:
    async def leave(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            at = message.position
            await tx.execute(
                "insert into effects (transaction_id, position) values (%s, %s)",
                [at.transaction_id, at.position],
            )
            await asyncio.sleep(0)

    positions = put(100, keys=30)
    mp.processor(NAME, segments=4, batch_size=5)(leave).run(until="caught_up")
    assert sorted(effects.positions()) == positions


def test_messages_that_come_while_it_runs_are_handled(
    mp: Milepost, put: Put, effects: Effects
) -> None:
    processor = mp.processor(NAME, segments=4)(leave_all)
    with running(processor):
        for _ in range(5):
            processor.wait_for(put(20, keys=20)[-1], timeout=30)
    assert effects.count() == 100


def test_wait_for_looks_at_every_segment(mp: Milepost, put: Put) -> None:
    processor = mp.processor(NAME, segments=4)(do_nothing)
    positions = put(40, keys=40)
    with pytest.raises(WaitTimedOut):
        processor.wait_for(positions[-1], timeout=0.05)
    processor.run(until="caught_up")
    processor.wait_for(positions[-1], timeout=0.05)


def test_a_filter_never_stops_the_checkpoints(mp: Milepost, put: Put, effects: Effects) -> None:
    processor = mp.processor(NAME, segments=4, topics=["wanted"])(leave_all)
    put(50, topic="other")
    wanted = put(3, topic="wanted")
    last = put(50, topic="other")[-1]
    processor.run(until="caught_up")
    assert effects.positions() == wanted or sorted(effects.positions()) == wanted
    at = processor.position()
    assert at is not None
    assert at >= last


CHECKPOINTS = """
select count(*), count(distinct xmin::text) from milepost.checkpoints where "position" >= %s
"""


def test_what_is_filtered_out_is_passed_by_all_segments_in_one_transaction(
    url: str, conn: Connection, put: Put
) -> None:
    """Not by each in its own. One whose checkpoint is locked holds up no other, and follows."""
    mp, segments = Milepost(url, timing=Timing(advance_seconds=0.1)), 16

    def passed(last: Position) -> tuple[int, int]:
        return one(conn.execute(CHECKPOINTS, [last.position]).fetchone())  # type: ignore[no-any-return]

    processor = mp.processor(NAME, topics=["wanted"], segments=segments)(leave_all)
    with running(processor), mp.connect() as other:
        (last,) = put(1, topic="unwanted")
        wait_until(lambda: passed(last)[0] == segments)
        with other.transaction():
            other.execute("select from milepost.checkpoints where segment = 3 for update")
            (last,) = put(1, topic="unwanted")
            wait_until(lambda: passed(last)[0] == segments - 1)
            assert passed(last)[1] <= 2  # the feed may deal while the first are stored
        wait_until(lambda: passed(last)[0] == segments)


def test_a_segment_that_was_taken_away_is_fenced_beside_the_others(
    url: str, conn: Connection, put: Put
) -> None:
    mp = Milepost(url, timing=Timing(advance_seconds=0.1, beat_seconds=3600.0))
    processor = mp.processor(NAME, topics=["wanted"], segments=4, claim_seconds=3600)(leave_all)
    with running(processor):
        (last,) = put(1, topic="unwanted")
        query = CHECKPOINTS.encode()
        wait_until(lambda: one(conn.execute(query, [last.position]).fetchone())[0] == 4)
        conn.execute("update milepost.checkpoints set epoch = epoch + 1 where segment = 2")
        (last,) = put(1, topic="unwanted")
        wait_until(lambda: one(conn.execute(query, [last.position]).fetchone())[0] == 3)
        (behind,) = conn.execute(
            'select segment from milepost.checkpoints where "position" < %s', [last.position]
        ).fetchall()
        assert behind == (2,)


def test_start_from_the_end(mp: Milepost, put: Put, effects: Effects) -> None:
    put(10)
    processor = mp.processor(NAME, segments=4, start_from="end")(leave_all)
    processor.run(until="caught_up")
    assert effects.count() == 0
    later = put(10)
    processor.run(until="caught_up")
    assert sorted(effects.positions()) == later


def test_segments_inherit_where_an_unsegmented_processor_stood(
    mp: Milepost, put: Put, effects: Effects, url: str
) -> None:
    put(30)
    mp.processor(NAME)(leave_all).run(until="caught_up")
    more = put(30, keys=20)
    Milepost(url).processor(NAME, segments=4)(leave_all).run(until="caught_up")
    assert effects.count() == 60
    assert sorted(effects.positions())[30:] == more


def test_an_unsegmented_start_of_a_segmented_processor_is_refused(
    mp: Milepost, put: Put, url: str
) -> None:
    put(3)
    mp.processor(NAME, segments=3)(do_nothing).run(until="caught_up")
    with pytest.raises(HasSegments) as refused:
        Milepost(url).processor(NAME)(do_nothing).run(until="caught_up")
    assert refused.value.segments == 3


def test_an_unsegmented_instance_ends_when_another_gives_the_processor_segments(
    mp: Milepost, put: Put, effects: Effects, conn: Connection, url: str
) -> None:
    put(5)
    old = Instance(mp.processor(NAME, poll_seconds=0.1)(leave_all))
    effects.wait_for(5)
    with running(Milepost(url).processor(NAME, segments=2)(leave_all)):
        wait_until(lambda: conn.execute("select from milepost.segments").fetchone() is not None)
        put(20, keys=20)
        effects.wait_for(25)
        assert isinstance(old.ends(), HasSegments)
    assert effects.count() == 25
