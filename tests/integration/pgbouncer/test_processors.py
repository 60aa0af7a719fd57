"""Processors through PgBouncer in transaction mode: they poll, and effects happen exactly once."""

from __future__ import annotations

import logging
from threading import Lock

import pytest

from milepost import Message, Milepost, Position, RecordedMessage, Retry
from milepost.checkpoints import CheckpointKey
from milepost.db import AsyncConnection, Connection
from milepost.errors import InvalidOption, UnfitPooler
from milepost.pipeline.sinks import Append
from milepost.processors import Processor
from milepost.processors.turn import Turns, is_free
from milepost.runtime import Runtime
from tests.integration.processors.running import running
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
QUICK = Retry(limit=2, first_seconds=0.001, longest_seconds=0.01)
INSERT = "insert into effects values (%s, %s)"


@pytest.fixture
def effects(conn: Connection) -> Connection:
    conn.execute(
        "create table effects (transaction_id bigint, position bigint, "
        "number bigint generated always as identity)"
    )
    return conn


def fill(mp: Milepost, conn: Connection, count: int) -> list[Position]:
    """In many transactions, so that there are many batches."""
    found: list[Position] = []
    for start in range(0, count, 50):
        batch = [Message("Counted", {"n": n}, key=f"k{n % 11}") for n in range(start, start + 50)]
        found.extend(mp.append(conn, *batch))
    return found


def positions(conn: Connection) -> list[Position]:
    rows = conn.execute("select transaction_id, position from effects order by number").fetchall()
    return [Position(*row) for row in rows]


def parts(message: RecordedMessage) -> tuple[int, int]:
    return message.position.transaction_id, message.position.position


def test_effects_happen_once_and_in_order(pooled: Milepost, effects: Connection) -> None:
    @pooled.processor("keep", batch_size=20, poll_seconds=0.05)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        tx.cursor().executemany(INSERT, [parts(message) for message in messages])

    expected = fill(pooled, effects, 500)
    keep.run(until="caught_up")
    assert positions(effects) == expected
    with running(keep, keep):  # one works, the other one stands by
        expected += fill(pooled, effects, 500)
        wait_until(lambda: len(positions(effects)) >= len(expected))
    assert positions(effects) == expected


def test_coroutines_are_processors_too(pooled: Milepost, effects: Connection) -> None:
    @pooled.processor("keep", batch_size=20)
    async def keep(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        await tx.cursor().executemany(INSERT, [parts(message) for message in messages])

    expected = fill(pooled, effects, 300)
    keep.run(until="caught_up")
    assert positions(effects) == expected


def test_instances_share_segments(pooled: Milepost, effects: Connection) -> None:
    @pooled.processor("keep", segments=4, batch_size=20, poll_seconds=0.05)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        tx.cursor().executemany(INSERT, [parts(message) for message in messages])

    with running(keep, keep):
        expected = fill(pooled, effects, 1000)
        wait_until(lambda: len(positions(effects)) >= len(expected))
    assert sorted(positions(effects)) == expected


def test_several_at_once_without_a_transaction(pooled: Milepost, effects: Connection) -> None:
    seen: list[Position] = []
    lock = Lock()

    @pooled.processor("mail", delivery="at_least_once", handle="message", concurrency=4)
    def mail(message: RecordedMessage) -> None:
        with lock:
            seen.append(message.position)

    expected = fill(pooled, effects, 300)
    mail.run(until="caught_up")
    assert sorted(seen) == expected


def test_what_fails_is_set_aside(pooled: Milepost, effects: Connection) -> None:
    @pooled.processor("keep", handle="message", on_failure="skip", retry=QUICK)
    def keep(message: RecordedMessage, tx: Connection) -> None:
        tx.execute(INSERT, parts(message))
        if message.data["n"] % 50 == 7:
            raise ValueError("never")

    expected = fill(pooled, effects, 100)
    keep.run(until="caught_up")
    assert positions(effects) == [p for n, p in enumerate(expected) if n % 50 != 7]
    row = effects.execute("select count(*) from milepost.dead_letters").fetchone()
    assert row == (2,)


@pytest.mark.parametrize("segments", [None, 2])
def test_parking_is_refused(pooled: Milepost, segments: int | None) -> None:
    @pooled.processor("keep", handle="message", on_failure="park", segments=segments)
    def keep(message: RecordedMessage, tx: Connection) -> None: ...

    with pytest.raises(UnfitPooler, match=r"'keep' parks what fails.*in session mode"):
        keep.run(until="caught_up")


def test_pipelines_are_refused_before_spark_starts(pooled: Milepost) -> None:
    pipeline = pooled.pipeline("table", sink=Append("table"))(lambda messages: messages)
    with pytest.raises(InvalidOption, match=r"pgbouncer=true.*connect to the server itself"):
        pipeline.run(until="caught_up")


@pytest.mark.parametrize("concurrency", [None, 3])
def test_at_least_once_one_instance_works_and_the_other_one_takes_over(
    pooled: Milepost, pooled_url: str, effects: Connection, concurrency: int | None
) -> None:
    """The turn is a lock of a transaction: no session is ours here."""
    seen: list[tuple[str, Position]] = []
    lock = Lock()

    def instance(name: str) -> Processor:
        def mail(message: RecordedMessage) -> None:
            with lock:
                seen.append((name, message.position))

        return Milepost(pooled_url).processor(
            "mail", delivery="at_least_once", handle="message", concurrency=concurrency,
            batch_size=20, poll_seconds=0.05,
        )(mail)  # fmt: skip

    def handled() -> list[Position]:
        with lock:
            return sorted(position for _, position in seen)

    expected = fill(pooled, effects, 200)
    with running(instance("first")) as (first,):
        wait_until(lambda: handled() == expected)
        with running(instance("second")):
            expected += fill(pooled, effects, 200)
            wait_until(lambda: handled() == expected)
            first.stop.set()
            assert first.ends() is None
            expected += fill(pooled, effects, 100)
            wait_until(lambda: len(handled()) >= len(expected))
    assert handled() == expected
    assert [name for name, _ in seen] == ["first"] * 400 + ["second"] * 100


def end_turn(conn: Connection) -> None:
    """As an operator does, or a time limit."""
    ended = conn.execute(
        "select pg_terminate_backend(pid, 60000) from pg_locks where locktype = 'advisory' "
        "and objsubid = 2 and database = "
        "(select oid from pg_database where datname = current_database())"
    ).fetchall()
    assert ended == [(True,)]


def test_a_turn_that_was_ended_is_closed_all_the_same(pooled_url: str, conn: Connection) -> None:
    """Or a stop would fail: PgBouncer's last words come beside the answer to the rollback."""
    turns, key = Turns(Runtime(pooled_url, "milepost")), CheckpointKey("mail")
    assert turns.take(key, "me")
    assert not is_free(conn, "milepost", key)
    end_turn(conn)
    turns.release(key, "me")
    assert turns.take(key, "me")
    turns.release(key, "me")


def test_an_instance_whose_turn_is_ended_notices_it_though_it_has_nothing_to_do(
    pooled: Milepost, effects: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing but the turn uses that connection."""
    caplog.set_level(logging.INFO, "milepost.processors")
    seen: set[Position] = set()

    @pooled.processor("mail", delivery="at_least_once", handle="message", poll_seconds=0.05)
    def mail(message: RecordedMessage) -> None:
        seen.add(message.position)

    expected = set(fill(pooled, effects, 50))
    with running(mail):
        wait_until(lambda: seen == expected)
        end_turn(effects)
        wait_until(lambda: "state=reconnecting" in caplog.text)
        expected |= set(fill(pooled, effects, 50))
        wait_until(lambda: seen == expected)
