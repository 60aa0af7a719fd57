"""A reset of all segments at once: whoever has them gives them up first."""

from __future__ import annotations

import threading

import pytest

from milepost import Message, Milepost, Position, RecordedMessage, db, key_hash
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.errors import ResetRefused
from milepost.processors import Processor
from milepost.processors.segments.operations import merge
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all, running
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("quick_orders", "long_operator_claims"),
]
SCHEMA = "milepost"
KEY = CheckpointKey("filling")


def filling(mp: Milepost, **options: object) -> Processor:
    processor = mp.processor("filling", segments=4, poll_seconds=0.05, **options)(leave_all)  # type: ignore[arg-type]  # keywords

    @processor.on_reset
    def empty(tx: Connection, to: Position) -> None:
        tx.execute("truncate effects")

    return processor


def reset(processor: Processor) -> None:
    with db.connect(processor.runtime.url) as own:
        processor.reset("beginning", own)


def test_a_reset_reaches_every_segment_of_every_instance(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    mailed: list[Position] = []
    replayed: list[Position] = []
    instances = [filling(each, batch_size=7) for each in (mp, Milepost(url))]
    for processor in instances:

        @processor.handler.skip_on_replay
        def mail(messages: list[RecordedMessage], tx: Connection) -> None:
            mailed.extend(message.position for message in messages)

        @processor.handler
        def note(messages: list[RecordedMessage], tx: Connection) -> None:
            replayed.extend(message.position for message in messages if message.replaying)

    with running(*instances):
        positions = put(100, keys=20)
        effects.wait_for(100)
        wait_until(instances[0].caught_up)
        reset(instances[0])
        wait_until(lambda: effects.count() == 100)
        positions += put(20, keys=20)
        wait_until(lambda: effects.count() == 120)
        wait_until(instances[0].caught_up)
    assert sorted(effects.positions()) == positions
    assert sorted(mailed) == positions, "once, although most were delivered twice"
    assert sorted(replayed) == positions[:100]


def test_a_reset_in_the_middle_of_a_slow_batch_waits_for_it(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    has_begun, is_released = threading.Event(), threading.Event()
    processor = filling(mp, batch_size=3)

    @processor.handler
    def wait(messages: list[RecordedMessage], tx: Connection) -> None:
        has_begun.set()
        assert is_released.wait(30)

    positions = put(40, keys=20)
    with running(processor):
        assert has_begun.wait(30)
        resetting = threading.Thread(target=reset, args=(processor,))
        resetting.start()
        wait_until(lambda: _wanted(conn) == 4)
        is_released.set()
        resetting.join()
        wait_until(lambda: processor.caught_up() and effects.count() == 40)
    assert sorted(effects.positions()) == positions


def _wanted(conn: Connection) -> int:
    row = conn.execute("select count(wanted_by) from milepost.segments").fetchone()
    assert row is not None
    return int(row[0])


def test_a_reset_that_is_rolled_back_has_changed_nothing(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    processor = filling(mp)
    positions = put(20, keys=20)
    processor.run(until="caught_up")
    with db.connect(processor.runtime.url) as own, own.transaction(force_rollback=True):
        processor.reset("beginning", own)
        assert own.execute("select count(*) from effects").fetchone() == (0,)
    assert sorted(effects.positions()) == positions
    assert processor.position() == positions[-1]
    assert conn.execute("select count(*) from milepost.replays").fetchone() == (0,)


def test_segments_that_are_not_claimed_are_not_reset(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    processor = filling(mp)
    positions = put(4)
    processor.run(until="caught_up")
    with pytest.raises(ResetRefused, match="not all of its segments"), db.translated(SCHEMA):
        conn.execute("select milepost.reset_processor('filling', 1, row(0, 0), 'somebody')")
    assert processor.position() == positions[-1]


def numbered(mp: Milepost, conn: Connection, count: int) -> list[Position]:
    return mp.append(conn, *(Message("Done", {"n": n}, key=f"key-{n}") for n in range(count)))


def test_what_a_lagging_segment_had_not_handled_is_no_replay(
    url: str, mp: Milepost, conn: Connection
) -> None:
    """Each segment is marked up to where it was itself; also halves that were merged since."""
    seen: dict[int, bool] = {}

    @mp.processor("filling", segments=4)
    def note(messages: list[RecordedMessage], tx: Connection) -> None:
        seen.update((message.data["n"], message.replaying) for message in messages)

    positions = numbered(mp, conn, 80)
    note.run(until="caught_up")
    at = {0: 20, 1: 40, 2: 60, 3: 79}
    for segment, n in at.items():
        conn.execute(
            "update milepost.checkpoints set position = %s where segment = %s",
            [positions[n].position, segment],
        )
    merge(lambda: db.connect(url), SCHEMA, KEY, 0)
    reset(note)
    seen.clear()
    note.run(until="caught_up")
    expected = {n: n <= at[key_hash(f"key-{n}") & 3] for n in range(80)}
    assert seen == expected
