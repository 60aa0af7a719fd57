"""Message handlers on Spark while they run: paused, and through a crash of the server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from milepost import Milepost, RecordedMessage, Retry
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.embedded import EmbeddedServer
from milepost.errors import UnfitPooler
from milepost.pipeline.engine.driver import RoundsSession
from milepost.processors import Processor, admin
from milepost.processors.set_aside.dead_letters import list_dead_letters, request_retry
from tests.pipeline.crashing import crash, locked, wait_for_merge
from tests.pipeline.engine.spark_runner import spark_runner
from tests.pipeline.running import place, rows
from tests.waiting import wait_until

MAKE = "create table noted (key text, total int)"
NOTED = "select total from noted order by total"
KEY = CheckpointKey("noting")
CHECKED = "select setting from pg_settings where name = 'client_connection_check_interval'"
NO_RETRY = Retry(limit=0)
STATE = "select state from milepost.processors"


def note(messages: list[RecordedMessage], tx: Connection) -> None:
    for message in messages:
        row = (message.key, message.data["total"])
        tx.execute("insert into noted (key, total) values (%s, %s)", row)


@contextmanager
def running(processor: Processor, spark: SparkSession) -> Iterator[None]:
    runner = spark_runner(processor, spark)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            runner.run()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        runner.stop.set()
        thread.join(60)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("order", ["append"])
def test_it_is_paused_and_resumed(mp: Milepost, conn: Connection, spark: SparkSession) -> None:
    conn.execute(MAKE)
    processor = mp.processor("noting", segments=2, engine="spark")(note)
    place(mp, 0, 20)
    with running(processor, spark):
        wait_until(processor.caught_up)
        admin.set_paused(conn, "milepost", KEY, is_paused=True)
        wait_until(lambda: rows(mp, STATE) == [("paused",)])
        before = processor.position()
        place(mp, 20, 20)
        assert not processor.caught_up()
        assert processor.position() == before
        admin.set_paused(conn, "milepost", KEY, is_paused=False)
        wait_until(processor.caught_up)
    assert rows(mp, NOTED) == [(n,) for n in range(40)]


@pytest.mark.parametrize("order", ["append"])
def test_a_requested_retry_is_followed_while_there_is_nothing_else_to_do(
    mp: Milepost, conn: Connection, spark: SparkSession
) -> None:
    conn.execute(MAKE)
    conn.execute("create table gate (is_open bool)")

    @mp.processor(
        "noting", segments=2, handle="message", engine="spark", on_failure="skip", retry=NO_RETRY
    )
    def noting(message: RecordedMessage, tx: Connection) -> None:
        if message.data["total"] == 7 and tx.execute("select 1 from gate").fetchone() is None:
            raise ValueError("not yet")
        note([message], tx)

    place(mp, 0, 20)
    with running(noting, spark):
        wait_until(noting.caught_up)
        (letter,) = list_dead_letters(conn, "milepost")
        conn.execute("insert into gate values (true)")
        assert request_retry(conn, "milepost", [letter.id]) == 1
        wait_until(lambda: rows(mp, NOTED) == [(n,) for n in range(20)])
    assert list_dead_letters(conn, "milepost") == []


@pytest.mark.parametrize("order", ["append"])
def test_parking_through_a_pooler_is_refused(url: str, mp: Milepost, spark: SparkSession) -> None:
    pooled = Milepost(f"{url} pgbouncer=true")
    processor = pooled.processor("noting", segments=2, engine="spark", on_failure="park")(note)
    with pytest.raises(UnfitPooler, match=r"'noting' parks what fails.*in session mode"):
        spark_runner(processor, spark).run("caught_up")
    assert rows(mp, STATE) == []


@pytest.mark.parametrize("order", ["append"])
def test_the_server_notices_when_a_driver_or_a_task_is_gone(
    mp: Milepost, conn: Connection, spark: SparkSession
) -> None:
    conn.execute("create table found (setting text)")

    @mp.processor("noting", segments=2, engine="spark")
    def noting(messages: list[RecordedMessage], tx: Connection) -> None:
        tx.execute(f"insert into found {CHECKED}")

    place(mp, 0, 20)
    runner = spark_runner(noting, spark)
    session = runner.supervisor.make_session()
    assert isinstance(session, RoundsSession)
    session.open()
    with session, session.lease as lent:
        assert lent.execute(CHECKED).fetchone() == ("2000",)
    runner.run("caught_up")
    assert rows(mp, "select distinct setting from found") == [("2000",)]


@pytest.mark.timeout(400)
def test_a_crash_in_the_middle_of_a_batch_changes_nothing_twice(
    own_server: EmbeddedServer, spark: SparkSession
) -> None:
    url = own_server.start()
    mp = Milepost(url)
    mp.migrate()
    with mp.connect() as conn:
        conn.execute(MAKE)
    processor = mp.processor("noting", segments=2, batch_size=7, engine="spark")(note)
    place(mp, 0, 20)
    with running(processor, spark):
        wait_until(processor.caught_up)
        with locked(url, "noted"):  # where the effects go, after the checkpoint
            place(mp, 20, 40)
            wait_for_merge(url, "milepost")
            crash(own_server)
        own_server.start()
        wait_until(processor.caught_up, 100)
    assert rows(mp, NOTED) == [(n,) for n in range(60)]
