"""A message that cannot be decoded fails like one that its handler cannot handle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from milepost import Checkpointing, Message, Milepost, Position, RecordedMessage, Retry, sql
from milepost.db import AsyncConnection, Connection
from milepost.errors import CannotDecode, HandlerFailed
from milepost.processors import Processor
from milepost.processors.admin import find
from milepost.processors.self_checkpointing.reconcile import LATEST, Report
from milepost.processors.set_aside.dead_letters import list_dead_letters, request_retry
from milepost.processors.set_aside.skip import skip
from milepost.records import Segment
from tests.integration.processors.running import running
from tests.undecodable import KINDS, append_undecodable
from tests.waiting import wait_until

SCHEMA = sql.DEFAULT_SCHEMA
PATIENT = Retry(limit=5, first_seconds=60.0, jitter=0.0)  # a retry of what is hopeless would show
pytestmark = pytest.mark.usefixtures("quick_orders")


class Seen:
    """Handlers of all kinds that note what they are given."""

    def __init__(self) -> None:
        self.positions: list[Position] = []

    def batch(self, messages: list[RecordedMessage], *_: object) -> None:
        self.positions += [message.position for message in messages]

    async def batch_async(self, messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        self.batch(messages)

    def one(self, message: RecordedMessage, *_: object) -> None:
        self.positions.append(message.position)


Make = Callable[..., Processor]


def exactly_once(mp: Milepost, seen: Seen, **options: object) -> Processor:
    return mp.processor("p", retry=PATIENT, **options)(seen.batch)  # type: ignore[arg-type]


def exactly_once_async(mp: Milepost, seen: Seen, **options: object) -> Processor:
    return mp.processor("p", retry=PATIENT, **options)(seen.batch_async)  # type: ignore[arg-type]


def at_least_once(mp: Milepost, seen: Seen, **options: object) -> Processor:
    return exactly_once(mp, seen, delivery="at_least_once", **options)


def concurrent(mp: Milepost, seen: Seen, **options: object) -> Processor:
    options |= {"delivery": "at_least_once", "handle": "message", "concurrency": 3}
    return mp.processor("p", retry=PATIENT, **options)(seen.one)  # type: ignore[arg-type]


def segmented(mp: Milepost, seen: Seen, **options: object) -> Processor:
    return exactly_once(mp, seen, segments=2, **options)


def segmented_loose(mp: Milepost, seen: Seen, **options: object) -> Processor:
    return at_least_once(mp, seen, segments=2, **options)


def two_handlers(mp: Milepost, seen: Seen, **options: object) -> Processor:
    processor = exactly_once(mp, Seen(), **options)
    processor.handler(seen.batch)
    return processor


def auto(mp: Milepost, seen: Seen, **options: object) -> Processor:
    processor = exactly_once(mp, seen, **options)
    processor.handler(Durable(Seen()))
    return processor


class Durable(Checkpointing):
    """Makes durable whatever it was given, as soon as it is asked."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def __call__(self, messages: list[RecordedMessage]) -> None:
        self.seen.batch(messages)

    def on_checkpoint_advanced(self, segment: Segment, position: Position) -> Report:
        return LATEST

    def on_segment_released(self, segment: Segment, up_to: Position) -> Report:
        return LATEST


MAKES = [
    exactly_once, exactly_once_async, at_least_once, concurrent, segmented,
    segmented_loose, two_handlers, auto,
]  # fmt: skip
ways = pytest.mark.parametrize("make", MAKES)


def fill(mp: Milepost, conn: Connection, kind: str = "digits") -> tuple[list[Position], Position]:
    """Readable ones around an odd one, all of one key; the readable ones, and the odd one."""
    before = mp.append(conn, *(Message("T", n, key="k") for n in range(3)))
    odd = append_undecodable(conn, kind, key="k")
    return before + mp.append(conn, *(Message("T", n, key="k") for n in range(3))), odd


@ways
def test_the_processor_stops_before_it_and_can_be_told_to_skip_it(
    mp: Milepost, conn: Connection, make: Make
) -> None:
    seen = Seen()
    processor = make(mp, seen)
    readable, odd = fill(mp, conn)
    with pytest.raises(CannotDecode, match=f"skip p --at {odd}") as caught:
        processor.run(until="caught_up")
    assert isinstance(caught.value, HandlerFailed)
    assert caught.value.position == str(odd)
    assert "digits" in caught.value.cause
    assert odd not in seen.positions
    assert skip(conn, SCHEMA, find(conn, SCHEMA, "p"), odd).position == odd
    processor.run(until="caught_up")
    assert list(dict.fromkeys(seen.positions)) == readable
    (letter,) = list_dead_letters(conn, SCHEMA)
    assert letter.at == odd


@ways
def test_it_is_skipped_where_what_fails_is(mp: Milepost, conn: Connection, make: Make) -> None:
    seen = Seen()
    readable, odd = fill(mp, conn)
    processor = make(mp, seen, on_failure="skip")
    processor.run(until="caught_up")
    assert sorted(seen.positions) == readable
    (letter,) = list_dead_letters(conn, SCHEMA)
    assert (letter.at, letter.attempts) == (odd, 1)
    assert letter.error.startswith("UnreadableMessage: ")
    assert str(odd) in letter.error


@pytest.mark.parametrize("make", [make for make in MAKES if make is not concurrent])
def test_it_is_parked_with_its_key(mp: Milepost, conn: Connection, make: Make) -> None:
    seen = Seen()
    readable, odd = fill(mp, conn)
    second = append_undecodable(conn, key="k")
    (other,) = mp.append(conn, Message("T", 1, key="other"))
    processor = make(mp, seen, on_failure="park")
    processor.run(until="caught_up")
    assert sorted(seen.positions) == [*readable[:3], other]
    parked = [letter.at for letter in list_dead_letters(conn, SCHEMA)]
    assert parked == [odd, *readable[3:], second]


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_cannot_be_decoded_is_set_aside(mp: Milepost, conn: Connection, kind: str) -> None:
    seen = Seen()
    readable, odd = fill(mp, conn, kind)
    exactly_once(mp, seen, on_failure="skip").run(until="caught_up")
    assert seen.positions == readable
    (letter,) = list_dead_letters(conn, SCHEMA)
    assert letter.at == odd


@pytest.mark.parametrize("on_failure", ["skip", "park"])
@pytest.mark.parametrize("segments", [None, 2])
def test_a_retry_of_it_fails_alone_and_once_it_is_rewritten_succeeds(
    mp: Milepost, conn: Connection, on_failure: str, segments: int | None
) -> None:
    seen = Seen()
    odd = append_undecodable(conn, key="k")
    processor = exactly_once(mp, seen, on_failure=on_failure, segments=segments)
    processor.run(until="caught_up")
    (letter,) = list_dead_letters(conn, SCHEMA)
    with running(processor):
        request_retry(conn, SCHEMA, [letter.id])
        wait_until(lambda: list_dead_letters(conn, SCHEMA)[0].attempts == 2)
        conn.execute("update milepost.dead_letters set data = '1'")
        request_retry(conn, SCHEMA, [letter.id])
        wait_until(lambda: not list_dead_letters(conn, SCHEMA))
    assert seen.positions == [odd]


def test_a_deferred_processor_stops_at_it_and_goes_on_once_it_is_set_aside(
    mp: Milepost, conn: Connection
) -> None:
    """Its checkpoint moves later, so skipping moves none."""
    seen = Seen()
    processor = mp.processor("p", delivery="at_least_once", retry=PATIENT)(Durable(seen))
    readable, odd = fill(mp, conn)
    with pytest.raises(CannotDecode, match=f"skip p --at {odd}"):
        processor.run(until="caught_up")
    assert seen.positions == readable[:3]
    assert skip(conn, SCHEMA, find(conn, SCHEMA, "p"), odd).position == odd
    processor.run(until="caught_up")
    assert list(dict.fromkeys(seen.positions)) == readable
    assert processor.position() == readable[-1]


def test_a_dead_letter_shows_what_was_written(mp: Milepost, conn: Connection) -> None:
    append_undecodable(conn, "infinity")
    exactly_once(mp, Seen(), on_failure="skip").run(until="caught_up")
    (letter,) = list_dead_letters(conn, SCHEMA)
    assert (letter.recorded_at, letter.raw_data, letter.data) == ("infinity", b"{}", {})
