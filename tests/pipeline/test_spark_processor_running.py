"""Message handlers on Spark while they run: paused, and through a crash of the server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from pyspark.sql import SparkSession

from milepost import Milepost, RecordedMessage
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.embedded import EmbeddedServer
from milepost.pipeline.rounds import Rounds
from milepost.processors import Processor, admin
from milepost.processors.runner import Runner
from tests.pipeline.crashing import crash, locked, wait_for_merge
from tests.pipeline.running import place, rows
from tests.waiting import wait_until

MAKE = "create table noted (key text, total int)"
NOTED = "select total from noted order by total"
KEY = CheckpointKey("noting")
STATE = "select state from milepost.processors"


def note(messages: list[RecordedMessage], tx: Connection) -> None:
    for message in messages:
        row = (message.key, message.data["total"])
        tx.execute("insert into noted (key, total) values (%s, %s)", row)


@contextmanager
def running(processor: Processor, spark: SparkSession) -> Iterator[None]:
    stop, make = threading.Event(), partial(Rounds, spark)
    runner = Runner(processor.definition, processor.url, processor.schema, stop, make_session=make)
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
        stop.set()
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
