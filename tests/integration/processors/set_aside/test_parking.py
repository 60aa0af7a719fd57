"""on_failure="park": the failing message and the later ones of its key wait, others flow."""

from __future__ import annotations

import time
from collections import Counter

import psycopg
import pytest

from milepost import Milepost, RecordedMessage, sql
from milepost.db import Connection
from milepost.errors import ParkingFull
from milepost.processors.set_aside.dead_letters import dead_letter, drop, list_dead_letters
from milepost.runtime import Timing
from tests.integration.processors.running import running
from tests.integration.processors.set_aside.picky import SCHEMA, Picky, Table, pairs
from tests.waiting import wait_until

COUNT_DELETED = """
    create function count_deleted() returns trigger language plpgsql as $$
    begin insert into drained select count(*) from gone; return null; end $$
"""
pytestmark = [
    pytest.mark.usefixtures("quick_orders"),
]
ways = [
    pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"]),
    pytest.mark.parametrize("colour", ["def", "async"]),
    pytest.mark.parametrize("handle", ["batch", "message"]),
]


def in_every_way(test: object) -> object:
    for mark in ways:
        test = mark(test)
    return test


@in_every_way
def test_a_failing_key_waits_in_order_while_others_flow(
    mp: Milepost, picky: Picky, table: Table, delivery: str, colour: str, handle: str
) -> None:
    picky.disliked = {"bad"}
    positions = table.append(("a", 1), ("bad", 1), ("b", 1), ("bad", 2), ("a", 2))
    processor = picky.processor(mp, delivery, colour, handle)
    processor.run(until="caught_up")
    positions += table.append(("bad", 3), ("b", 2), ("bad", 4))
    calls = picky.calls
    processor.run(until="caught_up")
    assert picky.calls == calls + 1, "a parked key is not handed to the handler"
    if delivery == "exactly_once":
        assert table.seen_of("a") == table.seen_of("b") == [1, 2]
    assert set(table.seen_of("a")) == set(table.seen_of("b")) == {1, 2}
    assert table.seen_of("bad") == []
    assert table.parked() == ["bad"]
    assert table.letters() == pairs("bad", [1, 2, 3, 4])
    assert processor.position() == positions[-1]


@in_every_way
def test_a_retried_key_is_handled_in_order_and_flows_again(
    mp: Milepost, picky: Picky, table: Table, delivery: str, colour: str, handle: str
) -> None:
    picky.disliked = {"bad"}
    table.append(("bad", 1), ("a", 1), ("bad", 2), ("bad", 3))
    processor = picky.processor(mp, delivery, colour, handle)
    processor.run(until="caught_up")
    picky.disliked.clear()
    with running(processor):
        assert table.retry("bad") == 3
        wait_until(table.is_empty)
        table.append(("bad", 4))
        wait_until(lambda: 4 in table.seen_of("bad"))
    assert table.seen_of("bad") == [1, 2, 3, 4]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_key_is_drained_in_batches_and_after_a_failure_one_by_one(
    mp: Milepost, conn: Connection, picky: Picky, table: Table, delivery: str, colour: str
) -> None:
    picky.disliked = {"bad"}
    table.append(*pairs("bad", range(1, 201)))
    patient = Milepost(mp._url, timing=Timing(orders_seconds=0.02, retry_seconds=600.0))
    processor = picky.processor(patient, delivery, colour)
    processor.run(until="caught_up")
    picky.disliked_numbers = {150}
    picky.disliked.clear()
    conn.execute("create table drained as select 0 as letters with no data")
    conn.execute(COUNT_DELETED)
    conn.execute(
        "create trigger counted after delete on milepost.dead_letters "
        "referencing old table as gone for each statement execute function count_deleted()"
    )
    with running(processor):
        table.retry("bad")
        wait_until(lambda: table.letters() == pairs("bad", range(150, 201)))
        if delivery == "exactly_once":
            assert table.seen_of("bad") == [*range(1, 150)]
        wait_until(lambda: _attempts(conn, list_dead_letters(conn, SCHEMA)[0].id) == 1)
        picky.disliked_numbers.clear()
        table.retry("bad")
        wait_until(table.is_empty)
    assert sorted(set(table.seen_of("bad"))) == [*range(1, 201)]
    sizes = [row[0] for row in conn.execute("select letters from drained where letters > 0")]
    # Without the failure, 1 + 2 + ... + 64 are 127; then those of the batch that failed, alone.
    assert sizes[:7] == [1, 2, 4, 8, 16, 32, 64]
    assert set(sizes[7:30]) == {1}
    assert sizes[-6:] == [1, 2, 4, 8, 16, 20]
    assert sum(sizes) == 200


def test_a_retry_that_takes_long_is_done_before_it_has_caught_up(
    mp: Milepost, picky: Picky, table: Table
) -> None:
    picky.disliked = {"bad"}
    table.append(*pairs("bad", [1, 2, 3]))
    picky.processor(mp).run(until="caught_up")
    table.retry("bad")

    hasty = Milepost(mp._url, timing=Timing(retry_seconds=0.05))

    @hasty.processor("picky", on_failure="park")
    def slow(messages: list[RecordedMessage], tx: Connection) -> None:
        time.sleep(0.1)

    slow.run(until="caught_up")
    assert table.is_empty()


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_retry_that_fails_leaves_the_rest_parked_and_counts(
    mp: Milepost, conn: Connection, picky: Picky, table: Table, delivery: str
) -> None:
    picky.disliked = {"bad"}
    table.append(("bad", 1), ("bad", 2))
    processor = picky.processor(mp, delivery)
    processor.run(until="caught_up")
    first, second = list_dead_letters(conn, SCHEMA)
    assert (first.error, first.attempts) == ("RuntimeError: no bad", 1)
    assert (second.error, second.attempts) == ("held back: its key is parked", 0)
    with running(processor):
        table.retry("bad")
        wait_until(lambda: _attempts(conn, first.id) == 2)
        table.append(("a", 1), ("bad", 3))
        wait_until(lambda: table.seen_of("a") == [1])
    assert table.letters() == pairs("bad", [1, 2, 3])
    assert table.seen_of("bad") == []
    again = dead_letter(conn, SCHEMA, first.id)
    assert again is not None
    assert again.retry_requested_at is None


def _attempts(conn: Connection, id_: int) -> int:
    found = dead_letter(conn, SCHEMA, id_)
    assert found is not None
    return found.attempts


def test_a_retry_of_one_letter_means_its_key_and_of_no_other(
    mp: Milepost, picky: Picky, table: Table, conn: Connection
) -> None:
    picky.disliked = {"bad", "worse"}
    table.append(("bad", 1), ("worse", 1), ("bad", 2), ("worse", 2))
    processor = picky.processor(mp)
    processor.run(until="caught_up")
    picky.disliked.clear()
    (letter,) = [each for each in list_dead_letters(conn, SCHEMA) if each.data == {"n": 2}][:1]
    with running(processor):
        conn.execute("select milepost.request_retry(%s)", [[letter.id]])
        wait_until(lambda: table.parked() == ["worse"])
    assert table.seen_of("bad") == [1, 2]
    assert table.letters() == pairs("worse", [1, 2])


def test_a_message_without_a_key_is_set_aside_alone(
    mp: Milepost, picky: Picky, table: Table
) -> None:
    picky.disliked = {None}
    table.append((None, 1))
    processor = picky.processor(mp)
    processor.run(until="caught_up")
    picky.disliked.clear()
    table.append((None, 2))
    processor.run(until="caught_up")
    assert table.seen() == pairs(None, [2])
    assert (table.letters(), table.parked()) == (pairs(None, [1]), [])
    with running(processor):
        table.retry(None)
        wait_until(table.is_empty)
    assert table.seen() == pairs(None, [2, 1])


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("segments", [None, 2])
def test_a_limit_of_parked_messages_stops_the_processor_loudly(
    mp: Milepost, conn: Connection, picky: Picky, table: Table, delivery: str, segments: int | None
) -> None:
    picky.disliked = {"bad", "worse"}
    processor = picky.processor(mp, delivery, max_parked=3, segments=segments)
    before = table.append(("bad", 1), ("worse", 1), ("bad", 2), ("a", 1))
    processor.run(until="caught_up")
    table.append(("worse", 2), ("a", 2))
    with pytest.raises(ParkingFull, match="the oldest key is 'bad'") as caught:
        processor.run(until="caught_up")
    assert (caught.value.limit, caught.value.oldest_key) == (3, "bad")
    assert processor.position() == before[-1]
    assert len(table.letters()) == 3
    assert conn.execute("select state from milepost.processors").fetchone() == ("failed",)
    picky.disliked.clear()
    table.retry("worse")
    processor.run(until="caught_up")
    assert table.seen_of("worse") == [1, 2]
    assert table.parked() == ["bad"]


def test_messages_without_a_key_count_towards_the_limit(
    mp: Milepost, picky: Picky, table: Table
) -> None:
    picky.disliked = {None}
    table.append((None, 1), (None, 2), (None, 3))
    processor = picky.processor(mp, max_parked=2)
    with pytest.raises(ParkingFull, match="none has a key"):
        processor.run(until="caught_up")
    assert len(table.letters()) == 2


def test_dropping_the_last_letter_of_a_key_lets_it_flow(
    mp: Milepost, conn: Connection, picky: Picky, table: Table
) -> None:
    picky.disliked = {"bad"}
    table.append(("bad", 1), ("bad", 2))
    processor = picky.processor(mp)
    processor.run(until="caught_up")
    first, second = list_dead_letters(conn, SCHEMA)
    assert drop(conn, SCHEMA, [first.id]) == 1
    assert table.parked() == ["bad"]
    assert drop(conn, SCHEMA, [second.id, first.id]) == 1
    assert table.parked() == []
    picky.disliked.clear()
    table.append(("bad", 3))
    processor.run(until="caught_up")
    assert table.seen_of("bad") == [3]


def test_another_version_of_the_processor_parks_for_itself(
    url: str, mp: Milepost, picky: Picky, table: Table
) -> None:
    picky.disliked = {"bad"}
    table.append(("bad", 1), ("bad", 2))
    picky.processor(mp).run(until="caught_up")
    picky.disliked.clear()
    picky.processor(Milepost(url), version=2).run(until="caught_up")
    assert table.seen_of("bad") == [1, 2]
    assert table.letters() == pairs("bad", [1, 2])


def test_a_parked_message_and_the_checkpoint_past_it_are_one_transaction(
    mp: Milepost, conn: Connection, picky: Picky, table: Table
) -> None:
    picky.disliked = {"bad"}
    positions = table.append(("a", 1), ("bad", 1))
    conn.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'no room'; end $$"
    )
    conn.execute(
        "create trigger refuse before insert on milepost.dead_letters "
        "for each row execute function refuse()"
    )
    processor = picky.processor(mp)
    with pytest.raises(psycopg.errors.RaiseException, match="no room"):
        processor.run(until="caught_up")
    assert processor.position() == positions[0]
    assert table.parked() == []


def test_a_key_longer_than_an_index_entry_can_be_parked(
    mp: Milepost, picky: Picky, table: Table
) -> None:
    long = "".join(chr(0x20000 + n * 7 % 40_000) for n in range(1024))  # 4 bytes each
    picky.disliked = {long}
    table.append((long, 1), (long, 2))
    processor = picky.processor(mp)
    processor.run(until="caught_up")
    assert table.letters() == pairs(long, [1, 2])
    picky.disliked.clear()
    table.retry(long)
    processor.run(until="caught_up")
    assert table.seen_of(long) == [1, 2]


def test_nothing_is_asked_about_parked_keys_while_there_are_none(
    mp: Milepost, picky: Picky, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    query = sql.query

    def counting(name: str, schema: str = SCHEMA) -> bytes:
        asked[name] += 1
        return query(name, schema)

    monkeypatch.setattr(sql, "query", counting)
    table.append(*pairs("a", range(20)))
    processor = picky.processor(mp, batch_size=5)
    processor.run(until="caught_up")
    assert asked["store_checkpoint_parking"] >= 4
    assert asked["parked_among"] == 0
    picky.disliked = {"bad"}
    table.append(("bad", 1), ("b", 1))
    processor.run(until="caught_up")
    asked.clear()
    table.append(*pairs("a", range(10)))
    processor.run(until="caught_up")
    assert asked["parked_among"] == 2, "once a batch, while one is parked"


def test_another_instance_knows_at_once_what_was_parked(
    url: str, mp: Milepost, picky: Picky, table: Table
) -> None:
    picky.disliked = {"bad"}
    table.append(("a", 1))
    first = picky.processor(mp, batch_size=1)
    first.run(until="caught_up")
    with running(picky.processor(Milepost(url))):
        table.append(("a", 2))
        wait_until(lambda: table.seen_of("a") == [1, 2])
        table.append(("bad", 1))
        first.run(until="caught_up")  # either of them parks it
        table.append(("bad", 2), ("a", 3))
        wait_until(lambda: table.seen_of("a") == [1, 2, 3])
    assert table.letters() == pairs("bad", [1, 2])
    assert table.seen_of("bad") == []
