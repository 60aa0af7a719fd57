"""The table of connections in docs/production.md, against what the server sees of each row.

Handlers wait for each other once, so that every connection is open at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from milepost import Job, Message, Milepost, Repeat, Retry, TakenJob, append, put
from milepost.archive import FileSize
from milepost.archive.filing import Filing
from milepost.db import one
from milepost.queue import Policy, set_channel
from milepost.runtime import Timing
from milepost.sql import LogOrder
from tests.connections import TEST, Gate, budget, documented, watching
from tests.integration.archive.archiving import Running
from tests.integration.cli.command import Cli
from tests.integration.processors.running import running
from tests.integration.queue.worker.working import working
from tests.waiting import wait_until

MESSAGES = 200
SEGMENTS = 8
THREADS = 3
SPARK = ("a pipeline's driver", "its executors", "a processor on Spark")  # see tests/pipeline


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.fixture
def timing() -> Timing:
    """Workers soon report how many jobs they do."""
    return Timing(report_seconds=0.05)


@pytest.fixture
def messages(url: str) -> None:
    """Through a connection that is not counted, with keys of every segment."""
    with psycopg.connect(url, application_name=TEST) as conn:
        append(conn, *(Message("T", {}, key=f"key-{n}") for n in range(MESSAGES)))


@pytest.fixture
def jobs(url: str) -> None:
    with psycopg.connect(url, application_name=TEST) as conn:
        put(conn, *(Job("work", n) for n in range(10 * THREADS)))


def handler_of(enter: Callable[[Any], None], *, is_async: bool) -> Callable[..., Any]:
    def handle(work: Any, tx: Any) -> None:
        enter(work)

    async def handle_async(work: Any, tx: Any) -> None:
        await asyncio.to_thread(enter, work)

    return handle_async if is_async else handle


def job_handler_of(enter: Callable[[Any], None], *, is_async: bool) -> Callable[..., Any]:
    """Without `tx`."""
    handle = handler_of(enter, is_async=is_async)
    return partial(handle, tx=None)


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize(
    ("row", "is_async"),
    [("a processor", False), ("a processor, exactly once, `async def`", True)],
)
def test_a_processor(mp: Milepost, url: str, row: str, is_async: bool) -> None:
    processor = mp.processor("p")(handler_of(lambda _: None, is_async=is_async))
    with watching(url) as watch, running(processor):
        wait_until(lambda: watch.most >= budget(row) and has_handled_all(url))
    assert watch.most == budget(row)


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize(
    ("row", "is_async"),
    [
        ("a processor with segments", False),
        ("a processor with segments, exactly once, `async def`", True),
    ],
)
def test_a_processor_with_segments(mp: Milepost, url: str, row: str, is_async: bool) -> None:
    define = mp.processor("p", segments=SEGMENTS, concurrency=THREADS, batch_size=10)
    gate = Gate(THREADS)
    processor = define(handler_of(lambda _: gate.enter(), is_async=is_async))
    expected = budget(row, threads=THREADS)
    with watching(url) as watch, running(processor):
        wait_until(lambda: watch.most >= expected and has_handled_all(url))
    assert watch.most == expected


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
@pytest.mark.parametrize("row", ["a worker, `handler(job)`", "a worker, `handler(job, tx)`"])
def test_a_worker(mp: Milepost, url: str, row: str, is_async: bool) -> None:
    gate = Gate(THREADS)

    def enter(job: TakenJob) -> None:
        gate.enter()
        if job.content == 0 and job.failures == 0:
            raise ValueError("settled on its own connection, also if there is a `tx`")

    define = mp.worker("work", concurrency=THREADS, retry=Retry(first_seconds=0.01))
    make = handler_of if "tx" in row else job_handler_of
    worker = define(make(enter, is_async=is_async))
    expected = budget(row, concurrency=THREADS)
    with watching(url) as watch, working(worker):
        wait_until(lambda: has_no_jobs(url) and has_reported(url, "work"))
        wait_until(lambda: watch.most >= expected)
    assert watch.most == expected


def test_schedules(mp: Milepost, url: str) -> None:
    """One of them fails, which is noted on the same connection."""
    mp.schedule("often", Repeat(every=timedelta(seconds=0.1)), Job("chores"))
    mp.schedule("full", Repeat(every=timedelta(seconds=0.1)), Job("full"))
    with psycopg.connect(url, application_name=TEST) as conn:
        set_channel(conn, "full", Policy(max_size=1))
        put(conn, Job("full"))
    (scheduler,) = mp.members()
    expected = budget("all schedules of an application")
    with watching(url) as watch, working(scheduler):
        wait_until(lambda: is_true(url, "select max(failures) > 1 from milepost.schedules"))
        wait_until(lambda: is_true(url, "select count(*) > 5 from milepost.jobs"))
        wait_until(lambda: watch.most >= expected)
    assert watch.most == expected


@pytest.mark.usefixtures("messages")
def test_the_archiver(
    mp: Milepost, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held while it reads: before that, the driver opens a connection for its types."""
    mp.retention(archive=str(tmp_path))
    small = Milepost(url, max_connections=5)
    archiver = small.archiver(FileSize(least_messages=1))
    monkeypatch.setattr(Filing, "_refuse_stopped", lambda filing: filing.stop.wait())
    archiving = Running(lambda stop: archiver.run("stopped", stop))
    count = "select count(*) = %s from pg_stat_activity where datname = current_database() and "
    others = "application_name <> %s and backend_type = 'client backend'"
    wait_until(lambda: is_true(url, count + others, budget("the archiver"), TEST))
    assert small._runtime.connections._open == budget("the archiver")
    archiving.end()
    assert small._runtime.connections._open == 0


@pytest.mark.usefixtures("messages")
def test_a_reader(url: str) -> None:
    with watching(url) as watch, Cli(url).start("read", "--from", "beginning", "--follow") as read:
        assert read.stdout is not None
        for _ in range(MESSAGES):
            assert read.stdout.readline()
        wait_until(lambda: watch.most > 0)
        read.terminate()
    assert watch.most == budget("a reader, `milepost read`")


def test_every_row_of_the_table_is_tested() -> None:
    tested = {
        "a processor",
        "a processor, exactly once, `async def`",
        "a processor with segments",
        "a processor with segments, exactly once, `async def`",
        "a worker, `handler(job)`",
        "a worker, `handler(job, tx)`",
        "all schedules of an application",
        "the archiver",
        "a reader, `milepost read`",
    }
    assert documented().keys() == tested | set(SPARK)


def has_handled_all(url: str) -> bool:
    """Every checkpoint there is has reached the newest message, or what lies behind it."""
    return is_true(url, 'select min("position") >= %s from milepost.checkpoints', MESSAGES)


def has_no_jobs(url: str) -> bool:
    return is_true(url, "select count(*) = 0 from milepost.jobs")


def has_reported(url: str, channel: str) -> bool:
    """How many jobs it does: on the connection of the heartbeats."""
    return is_true(
        url, "select count(*) > 0 from milepost.channel_rates where channel = %s", channel
    )


def is_true(url: str, query: str, *parameters: Any) -> bool:
    with psycopg.connect(url, application_name=TEST) as conn:
        return one(conn.execute(query.encode(), parameters).fetchone())[0] is True
