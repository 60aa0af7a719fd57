"""Workers whose connections are cut, at random and at the worst moments."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from pathlib import Path
from typing import Literal

import pytest

from milepost import Job, Message, Milepost, Retry, TakenJob
from milepost.db import AsyncConnection, Connection
from milepost.queue.worker.calling.handler_pool import HandlerPool
from tests.integration.processors import sessions
from tests.integration.processors.proxy import Mischief, proxy_to
from tests.integration.queue.worker.working import PATIENCE_SECONDS, is_empty, working
from tests.waiting import wait_until

SOON = Retry(limit=1000, first_seconds=0.01, longest_seconds=0.05)


@pytest.mark.parametrize("is_async", [False, True])
def test_every_job_is_completed_once_whatever_connections_are_cut(
    mp: Milepost, conn: Connection, is_async: bool
) -> None:
    """Effects are in the transaction that completes: exactly one a job."""

    def send(job: TakenJob, tx: Connection) -> None:
        mp.append(tx, Message("Sent", job.content))

    async def send_async(job: TakenJob, tx: AsyncConnection) -> None:
        await mp.append(tx, Message("Sent", job.content))

    worker = mp.worker("emails", lock=1.0, concurrency=4, retry=SOON)(
        send_async if is_async else send
    )
    mp.put(conn, *(Job("emails", n, max_attempts=1000) for n in range(1500)))
    with working(worker):
        wait_until(lambda: next(mp.read(), None))
        end = time.monotonic() + 4
        while time.monotonic() < end and not is_empty(conn):
            sessions.terminate(conn, "emails", most=2)
            time.sleep(random.uniform(0.05, 0.3))
        wait_until(lambda: is_empty(conn), 120)
    assert sorted(message.data for message in mp.read()) == list(range(1500))


def test_a_result_is_sent_again_until_the_server_is_back(mp: Milepost, conn: Connection) -> None:
    """All connections are cut while the handler is at work: it is not run a second time."""
    begun, is_free = threading.Event(), threading.Event()
    attempts: list[int] = []

    @mp.worker("emails", lock=60.0)
    def send(job: TakenJob) -> None:
        attempts.append(job.attempt)
        begun.set()
        assert is_free.wait(PATIENCE_SECONDS)

    mp.put(conn, Job("emails"))
    with working(send):
        assert begun.wait(PATIENCE_SECONDS)
        assert sessions.terminate(conn, "emails") >= 1
        is_free.set()
        wait_until(lambda: is_empty(conn))
    assert attempts == [1]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_connection_that_was_lost_between_jobs_is_no_failure_of_the_next_one(
    mp: Milepost, conn: Connection, is_async: bool
) -> None:
    """Each handler has a connection of its own; a job that met one dead connection after the
    other would wait longer every time."""
    handlers = 3
    gate = threading.Barrier(handlers)

    def send(job: TakenJob, tx: Connection) -> None:
        if job.content == "together":
            gate.wait(PATIENCE_SECONDS)
        mp.append(tx, Message("Sent", job.failures))

    async def send_async(job: TakenJob, tx: AsyncConnection) -> None:
        if job.content == "together":
            await asyncio.to_thread(gate.wait, PATIENCE_SECONDS)
        await mp.append(tx, Message("Sent", job.failures))

    worker = mp.worker("emails", concurrency=handlers)(send_async if is_async else send)
    with working(worker):
        mp.put(conn, *[Job("emails", "together")] * handlers)
        wait_until(lambda: is_empty(conn))
        assert sessions.terminate(conn, "emails") > handlers
        mp.put(conn, *[Job("emails", "alone")] * 20)
        wait_until(lambda: is_empty(conn))
    assert [message.data for message in mp.read()] == [0] * (handlers + 20)


@pytest.mark.parametrize("handle", ["job", "batch"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_connection_that_is_lost_before_a_job_was_found_ends_nothing(
    mp: Milepost,
    conn: Connection,
    monkeypatch: pytest.MonkeyPatch,
    is_async: bool,
    handle: Literal["job", "batch"],
) -> None:
    """The transaction is open, another handler was quicker, and its empty commit fails."""
    find = HandlerPool._next
    cuts: list[int] = []

    def find_nothing_first(self: HandlerPool) -> TakenJob | None:
        if not cuts:
            cuts.append(sessions.terminate(conn, "emails"))
            return None
        return find(self)

    def send(_given: object, tx: Connection) -> None:
        mp.append(tx, Message("Sent", {}))

    async def send_async(_given: object, tx: AsyncConnection) -> None:
        await mp.append(tx, Message("Sent", {}))

    monkeypatch.setattr(HandlerPool, "_next", find_nothing_first)
    worker = mp.worker("emails", concurrency=1, handle=handle, lock=1.0)(
        send_async if is_async else send
    )
    mp.put(conn, Job("emails"))
    with working(worker):
        wait_until(lambda: is_empty(conn))
    assert cuts[0] >= 1
    assert [message.type for message in mp.read()] == ["Sent"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_task_without_a_transaction_outlives_the_one_that_was_opened(
    mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    """Tasks of one channel share their connections, also with a task that needs none."""
    find = HandlerPool._next
    cuts: list[int] = []
    calls: list[str] = []

    def find_and_cut(self: HandlerPool) -> TakenJob | None:
        if (job := find(self)) is not None and not cuts:
            cuts.append(sessions.terminate(conn, "emails"))
        return job

    if is_async:

        @mp.task(channel="emails")
        async def with_tx_async(tx: AsyncConnection) -> None: ...

        @mp.task(channel="emails")
        async def alone_async() -> None:
            calls.append("alone")

        alone_async.put(conn)
    else:

        @mp.task(channel="emails")
        def with_tx(tx: Connection) -> None: ...

        @mp.task(channel="emails")
        def alone() -> None:
            calls.append("alone")

        alone.put(conn)
    monkeypatch.setattr(HandlerPool, "_next", find_and_cut)
    with working(mp.workers["emails"]):
        wait_until(lambda: is_empty(conn))
    assert cuts[0] >= 1
    assert calls == ["alone"]


@pytest.mark.parametrize("mischief", [Mischief.LOSE_COMMIT, Mischief.LOSE_ANSWER])
def test_a_lost_commit_of_a_handler_is_neither_lost_nor_doubled(
    mp: Milepost, url: str, conn: Connection, tmp_path: Path, mischief: Mischief
) -> None:
    with proxy_to(url, tmp_path) as proxy:
        far = Milepost(proxy.url)

        @far.worker("emails", concurrency=1, poll_seconds=0.1)
        def send(job: TakenJob, tx: Connection) -> None:
            far.append(tx, Message("Sent", job.content))
            if job.attempt == 1:
                proxy.arm(mischief)

        mp.put(conn, Job("emails", 1))
        with working(send):
            wait_until(lambda: is_empty(conn))
        assert proxy.cut == 1
    assert [message.data for message in mp.read()] == [1]
