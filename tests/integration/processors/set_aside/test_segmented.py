"""Parking where instances share segments: keys stay with their segment, and so do their retries."""

from __future__ import annotations

import pytest

from milepost import Milepost, RecordedMessage, Segment, db
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.processors.segments.operations import merge, split
from tests.integration.processors.running import running
from tests.integration.processors.set_aside.picky import NEVER_AGAIN, SCHEMA, Picky, Table, pairs
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("quick_orders"),
]
KEYS = [f"key-{n}" for n in range(12)]
BAD = {f"key-{n}" for n in range(0, 12, 3)}
both_deliveries = pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])


def append(table: Table, numbers: range) -> None:
    for n in numbers:
        table.append(*((key, n) for key in KEYS))


def distinct(numbers: list[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


def check(table: Table, delivery: str, until: int) -> None:
    """Every message in the order of its key; once, where that is promised."""
    for key in KEYS:
        seen = table.seen_of(key)
        assert (seen if delivery == "exactly_once" else distinct(seen)) == list(range(until)), key


@both_deliveries
def test_parked_keys_are_drained_in_order_by_two_instances(
    url: str, mp: Milepost, picky: Picky, table: Table, delivery: str
) -> None:
    picky.disliked = set(BAD)
    instances = [
        picky.processor(each, delivery, segments=4, batch_size=5) for each in (mp, Milepost(url))
    ]
    with running(*instances):
        append(table, range(3))
        wait_until(lambda: len(table.letters()) == 3 * len(BAD))
        append(table, range(3, 6))
        wait_until(lambda: len(table.letters()) == 6 * len(BAD))
        assert not [key for key, _ in table.seen() if key in BAD]
        picky.disliked.clear()
        table.retry(*BAD)
        append(table, range(6, 9))
        wait_until(table.is_empty)
        append(table, range(9, 10))
        wait_until(lambda: len(set(table.seen())) == 10 * len(KEYS))
    check(table, delivery, until=10)


@both_deliveries
def test_splits_and_merges_leave_parked_keys_parked_and_in_order(
    url: str, mp: Milepost, picky: Picky, table: Table, delivery: str
) -> None:
    picky.disliked = set(BAD)
    key = CheckpointKey("picky")
    instances = [
        picky.processor(each, delivery, segments=4, batch_size=5) for each in (mp, Milepost(url))
    ]
    with running(*instances):
        append(table, range(3))
        wait_until(lambda: len(table.letters()) == 3 * len(BAD))
        for segment in range(4):
            split(lambda: db.connect(url), SCHEMA, key, segment)
        append(table, range(3, 6))
        wait_until(lambda: len(table.letters()) == 6 * len(BAD))
        picky.disliked.clear()
        table.retry(*BAD)
        for segment in range(4):
            merge(lambda: db.connect(url), SCHEMA, key, segment)
        append(table, range(6, 9))
        wait_until(table.is_empty)
        wait_until(lambda: len(set(table.seen())) == 9 * len(KEYS))
    check(table, delivery, until=9)


def test_a_retry_is_handled_under_the_claim_of_its_keys_segment(
    url: str, mp: Milepost, table: Table, conn: Connection
) -> None:
    is_mended = False
    retried: list[tuple[str | None, Segment]] = []

    def handle(messages: list[RecordedMessage], tx: Connection, segment: Segment) -> None:
        if not is_mended:
            raise RuntimeError("not yet")
        retried.extend((message.key, segment) for message in messages)

    options = {"segments": 4, "on_failure": "park", "retry": NEVER_AGAIN, "poll_seconds": 0.05}
    instances = [each.processor("picky", **options)(handle) for each in (mp, Milepost(url))]  # type: ignore[arg-type]  # keywords
    with running(*instances):
        append(table, range(2))
        wait_until(lambda: len(table.letters()) == 2 * len(KEYS))
        is_mended = True
        table.retry(*KEYS)
        wait_until(table.is_empty)
    assert len(retried) == 2 * len(KEYS)
    assert all(segment.holds(key) and segment.mask == 3 for key, segment in retried)


def test_retries_asked_for_while_nothing_ran_are_done_at_the_next_start(
    mp: Milepost, picky: Picky, table: Table
) -> None:
    picky.disliked = {"bad", None}
    table.append(("bad", 1), (None, 1), ("bad", 2))
    processor = picky.processor(mp, segments=4)
    processor.run(until="caught_up")
    assert len(table.letters()) == 3
    picky.disliked.clear()
    table.retry("bad", None)
    processor.run(until="caught_up")
    assert table.is_empty()
    assert (table.seen_of("bad"), table.seen_of(None)) == ([1, 2], [1])
    assert set(table.seen()) == {*pairs("bad", [1, 2]), (None, 1)}
