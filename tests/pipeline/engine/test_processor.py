"""Message handlers on Spark: a task for each segment, each effect once, in the order of its key."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, local
from typing import Any

import pytest
from pyspark.sql import SparkSession

from milepost import Message, Milepost, RecordedMessage, append, on
from milepost.checkpoints import CheckpointKey
from milepost.db import AsyncConnection, Connection
from milepost.errors import CannotDecode, HandlerFailed, TransactionEnded
from milepost.log import Batch, read_batch
from milepost.pipeline.engine import segment_task
from milepost.pipeline.engine.segment_task import Order, work_off
from milepost.processors import Processor
from milepost.processors.progress import standings
from milepost.processors.set_aside.skip import skip
from milepost.records import Segment
from milepost.retry import Retry
from tests.chaos.processors.sabotage import STORE_WITHOUT_COMPARING
from tests.pipeline.engine.spark_runner import spark_runner
from tests.undecodable import append_undecodable

pytestmark = pytest.mark.parametrize("order", ["append"])
KEYS = 12
NO_RETRY = Retry(limit=0)
MAKE = "create table seen (id bigint generated always as identity, key text, number int)"
SEEN = "select key, array_agg(number order by id) from seen group by key order by key"


@pytest.fixture(autouse=True)
def _table(conn: Connection) -> None:
    conn.execute(MAKE)


def note(messages: list[RecordedMessage], tx: Connection) -> None:
    for message in messages:
        row = (message.key, message.data["number"])
        tx.execute("insert into seen (key, number) values (%s, %s)", row)


def place(mp: Milepost, first: int, count: int) -> None:
    numbers = range(first, first + count)
    messages = [Message("Noted", {"number": n}, key=f"key-{n % KEYS:02}") for n in numbers]
    with mp.connect() as conn:
        append(conn, *messages)


def expected(count: int) -> list[tuple[str, list[int]]]:
    return [(f"key-{k:02}", list(range(k, count, KEYS))) for k in range(KEYS)]


def catch_up(processor: Processor, spark: SparkSession) -> None:
    spark_runner(processor, spark).run("caught_up")


def test_every_effect_happens_once_in_the_order_of_its_key(
    mp: Milepost, conn: Connection, spark: SparkSession
) -> None:
    processor = mp.processor("noted", segments=4, batch_size=20, engine="spark")(note)
    place(mp, 0, 150)
    catch_up(processor, spark)
    place(mp, 150, 150)
    catch_up(processor, spark)
    assert conn.execute(SEEN).fetchall() == expected(300)
    assert processor.caught_up()
    assert len(standings(conn, "milepost", processor.definition.options.key)) == 4


def test_an_async_handler_runs_alike(mp: Milepost, conn: Connection, spark: SparkSession) -> None:
    @mp.processor("noted", segments=2, engine="spark")
    async def noting(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            row = (message.key, message.data["number"])
            await tx.execute("insert into seen (key, number) values (%s, %s)", row)

    place(mp, 0, 60)
    catch_up(noting, spark)
    assert conn.execute(SEEN).fetchall() == expected(60)


def test_a_task_that_dies_in_mid_batch_is_retried_and_nothing_happens_twice(
    mp: Milepost, conn: Connection, spark: SparkSession, tmp_path: Path
) -> None:
    died = tmp_path / "died"

    @mp.processor("noted", segments=2, batch_size=10, engine="spark")
    def noting(messages: list[RecordedMessage], tx: Connection) -> None:
        note(messages, tx)
        if messages[0].data["number"] > 60 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    place(mp, 0, 120)
    catch_up(noting, spark)
    assert died.exists()
    assert conn.execute(SEEN).fetchall() == expected(120)


@pytest.fixture
def _side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks begin at the same checkpoint: neither reads its first batch before the other. And
    both go on to the end, however busy the machine is."""
    both_have_begun, met = Barrier(2), local()

    def read_side_by_side(*arguments: Any, **keywords: Any) -> Batch:
        if not hasattr(met, "is_over"):
            both_have_begun.wait(60)
            met.is_over = True
        return read_batch(*arguments, **keywords)

    monkeypatch.setattr(segment_task, "read_batch", read_side_by_side)
    monkeypatch.setattr(segment_task, "TASK_SECONDS", 200.0)


def twins(mp: Milepost, conn: Connection) -> list[tuple[str, list[int]]]:
    """The same task twice at the same time, as speculation has it."""

    def slowly(messages: list[RecordedMessage], tx: Connection) -> None:
        note(messages, tx)
        time.sleep(0.01)  # so that they stay side by side for a while

    processor = mp.processor("noted", segments=1, batch_size=5, engine="spark")(slowly)
    place(mp, 0, 120)
    conn.execute("select milepost.create_segments('noted', 1, 1, '(0,0)')")
    order = Order(processor.definition, processor.runtime.url, "milepost", "test", mp.horizon())
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(work_off, order, Segment.WHOLE) for _ in range(2)]
    assert all(each.result().failed is None for each in both)
    found: list[tuple[str, list[int]]] = conn.execute(SEEN).fetchall()
    return found


@pytest.mark.usefixtures("_side_by_side")
def test_a_task_that_runs_twice_at_once_changes_nothing_twice(
    mp: Milepost, conn: Connection
) -> None:
    assert twins(mp, conn) == expected(120)


@pytest.mark.usefixtures("_side_by_side")
def test_without_the_comparison_twins_do_everything_twice(mp: Milepost, conn: Connection) -> None:
    conn.execute(STORE_WITHOUT_COMPARING)
    assert twins(mp, conn) != expected(120)


def test_a_failing_handler_stops_it_in_words_and_the_other_segments_went_on(
    mp: Milepost, conn: Connection, spark: SparkSession
) -> None:
    @mp.processor("noted", segments=4, handle="message", engine="spark", retry=NO_RETRY)
    def noting(message: RecordedMessage, tx: Connection) -> None:
        if message.data["number"] == 30:
            raise ValueError("thirty is too much")
        note([message], tx)

    place(mp, 0, 60)
    with pytest.raises(HandlerFailed, match="thirty is too much") as caught:
        catch_up(noting, spark)
    assert caught.value.attempts == 1
    found = dict(conn.execute(SEEN).fetchall())
    assert found["key-06"] == [6, 18]  # 30 is the third of its key
    assert sum(map(len, found.values())) > 30
    state = conn.execute("select state, last_error from milepost.processors").fetchone()
    assert state is not None
    assert (state[0], "thirty" in state[1]) == ("failed", True)


def test_a_message_may_be_set_aside(mp: Milepost, conn: Connection, spark: SparkSession) -> None:
    @mp.processor("noted", segments=2, engine="spark", on_failure="skip", retry=NO_RETRY)
    def noting(messages: list[RecordedMessage], tx: Connection) -> None:
        if any(message.data["number"] == 30 for message in messages):
            raise ValueError("not thirty")
        note(messages, tx)

    place(mp, 0, 60)
    catch_up(noting, spark)
    assert conn.execute("select count(*), bool_or(number = 30) from seen").fetchone() == (59, False)
    assert conn.execute("select count(*) from milepost.dead_letters").fetchone() == (1,)


def test_a_message_that_cannot_be_decoded_stops_it_or_is_set_aside(
    mp: Milepost, conn: Connection, spark: SparkSession
) -> None:
    @mp.processor("noted", segments=2, engine="spark", on_failure="stop", retry=NO_RETRY)
    def noting(messages: list[RecordedMessage], tx: Connection) -> None:
        note(messages, tx)

    place(mp, 0, 20)
    odd = append_undecodable(conn, key="key-00")
    with pytest.raises(CannotDecode, match=f"skip noted --at {odd}"):
        catch_up(noting, spark)
    skip(conn, "milepost", CheckpointKey("noted"), odd)
    catch_up(noting, spark)
    assert conn.execute("select count(*) from seen").fetchone() == (20,)


def test_a_handler_that_commits_and_fails_then_stops_it(
    mp: Milepost, conn: Connection, spark: SparkSession
) -> None:
    @mp.processor("noted", segments=1, engine="spark", retry=NO_RETRY)
    def noting(messages: list[RecordedMessage], tx: Connection) -> None:
        tx.execute("commit")
        raise ValueError("too late")

    place(mp, 0, 5)
    with pytest.raises(TransactionEnded, match="too late"):
        catch_up(noting, spark)


class Accounts:
    """Handlers by type, which travel to the executors as one object."""

    @on("Opened")
    def open(self, messages: list[RecordedMessage], tx: Connection) -> None:
        note(messages, tx)

    @on("Closed")
    def close(self, messages: list[RecordedMessage], tx: Connection) -> None:
        note(messages, tx)


def test_handlers_by_type_keep_the_order_of_a_key(
    mp: Milepost, conn: Connection, spark: SparkSession
) -> None:
    processor = mp.processor("accounts", segments=4, batch_size=20, engine="spark")(Accounts())
    types = ("Opened", "Closed", "Other")
    numbers = [(type_, f"key-{n % KEYS:02}", n // KEYS) for n in range(60) for type_ in types]
    append(conn, *(Message(type_, {"number": n}, key=key) for type_, key, n in numbers))
    catch_up(processor, spark)
    assert conn.execute(SEEN).fetchall() == [
        (f"key-{k:02}", [n for n in range(5) for _ in range(2)]) for k in range(KEYS)
    ]
    assert processor.caught_up()
