"""Where a processor stands: caught up, past a position, or waited for."""

from __future__ import annotations

import threading

import pytest

from milepost import Message, Milepost, Position, RecordedMessage
from milepost.db import Connection
from milepost.errors import WaitTimedOut
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all, running


def test_a_processor_is_callable_as_its_handler(mp: Milepost) -> None:
    processor = mp.processor("plain")(lambda messages, tx: [messages, tx])
    assert processor("messages", "tx") == ["messages", "tx"]


def test_a_processor_that_never_ran_has_no_position_and_is_not_caught_up(mp: Milepost) -> None:
    processor = mp.processor("new")(leave_all)
    assert processor.position() is None
    assert not processor.caught_up()


def test_caught_up_means_that_nothing_it_reads_is_left(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    processor = mp.processor("picky", topics=["wanted"])(leave_all)
    processor.run(until="caught_up")
    assert processor.caught_up()
    put(1, topic="unwanted")
    assert processor.caught_up(), "only what it does not read is left"
    put(1, topic="wanted")
    assert not processor.caught_up()
    processor.run(until="caught_up")
    assert processor.caught_up()


def test_run_until_caught_up_handles_everything_and_ends(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    processor = mp.processor("ending", batch_size=10)(leave_all)
    positions = put(30)
    processor.run(until="caught_up")
    assert effects.positions() == positions
    assert processor.caught_up()


@pytest.mark.parametrize("segments", [None, 2])
def test_messages_that_come_while_it_catches_up_are_handled_too(
    mp: Milepost, effects: Effects, put: Put, segments: int | None
) -> None:
    late: list[Position] = []
    lock = threading.Lock()  # two segments may be handled at once, and only one is to append

    def handle(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        with lock:
            if not late:
                late.extend(put(15))

    positions = put(30)
    mp.processor("ending", batch_size=20, segments=segments)(handle).run(until="caught_up")
    assert sorted(effects.positions()) == [*positions, *late]


def test_waiting_for_a_position_is_reading_ones_own_writes(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    processor = mp.processor("followed")(leave_all)
    with running(processor):
        for n in range(1, 6):
            (position,) = put(1)
            processor.wait_for(position, timeout=30)
            assert effects.count() == n
            assert effects.positions()[-1] == position


def test_waiting_for_a_message_that_is_filtered_out_ends_too(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    processor = mp.processor("picky", topics=["wanted"])(leave_all)
    processor.run(until="caught_up")
    (position,) = put(1, topic="unwanted")
    processor.wait_for(position, timeout=30)  # though nobody runs
    put(1, topic="wanted")
    (later,) = put(1, topic="unwanted")
    with pytest.raises(WaitTimedOut):
        processor.wait_for(later, timeout=0.05)
    processor.run(until="caught_up")
    processor.wait_for(later, timeout=30)
    assert effects.count() == 1


def test_waiting_gives_up_with_an_error_that_says_where_the_processor_stands(
    mp: Milepost, put: Put
) -> None:
    release = threading.Event()

    @mp.processor("stuck", batch_size=1)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        assert release.wait(30)

    (position,) = put(1)
    with running(keep):
        with pytest.raises(WaitTimedOut, match=f"'stuck'.*{position} after 0.1 s") as caught:
            keep.wait_for(position, timeout=0.1)
        assert caught.value.processor == "stuck"
        release.set()
        keep.wait_for(position, timeout=30)


def test_waiting_for_a_message_in_flight_ends_when_it_is_handled(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    processor = mp.processor("followed")(leave_all)
    with running(processor):
        with Milepost(url).connect() as other, other.transaction():
            (position,) = append_one(mp, other)
            with pytest.raises(WaitTimedOut):
                processor.wait_for(position, timeout=0.1)
        processor.wait_for(position, timeout=30)
    assert effects.positions() == [position]


def append_one(mp: Milepost, conn: Connection) -> list[Position]:
    return mp.append(conn, Message("Counted", {"number": 1}))
