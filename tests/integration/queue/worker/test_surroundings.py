"""Hooks around jobs, and resources that live as long as a worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from milepost import Job, Milepost, Retry, TakenJob
from milepost.db import AsyncConnection, Connection
from milepost.errors import ResourceFailed
from tests.integration.queue.jobs import status
from tests.integration.queue.worker.working import Working, is_empty, statuses, working
from tests.waiting import wait_until

SOON = Retry(first_seconds=0.01, longest_seconds=0.05)
KEPT = timedelta(hours=1)


def test_hooks_are_called_around_the_jobs_of_their_channels(mp: Milepost, conn: Connection) -> None:
    notes: list[str] = []

    @mp.around
    def outer(job: TakenJob, call: Any) -> Any:
        notes.append(f"outer {job.channel}")
        try:
            return call()
        finally:
            notes.append("outer ends")

    @mp.around(channel="emails")
    def inner(job: TakenJob, call: Any) -> Any:
        notes.append("inner")
        return call() + 1

    @mp.worker("*", concurrency=1)
    def handle(job: TakenJob) -> int:
        notes.append("handler")
        return 1

    (first,) = mp.put(conn, Job("emails", keep_for=KEPT))
    with working(handle):
        assert mp.wait_for_result(first) == 2
        (second,) = mp.put(conn, Job("others", keep_for=KEPT))
        assert mp.wait_for_result(second) == 1
    assert notes == [
        "outer emails", "inner", "handler", "outer ends", "outer others", "handler", "outer ends",
    ]  # fmt: skip


def test_a_hook_that_raises_fails_the_job_and_undoes_its_effects(
    mp: Milepost, conn: Connection
) -> None:
    conn.execute("create table sent (attempt integer)")

    @mp.around
    async def trace(job: TakenJob, call: Any) -> Any:
        result = await call()
        if job.attempt == 1:
            raise TimeoutError("after the handler")
        return result

    @mp.worker("emails", retry=SOON)
    async def send(job: TakenJob, tx: AsyncConnection) -> None:
        await tx.execute("insert into sent values (%s)", [job.attempt])

    mp.put(conn, Job("emails"))
    with working(send):
        wait_until(lambda: is_empty(conn))
    assert conn.execute("select attempt from sent").fetchall() == [(2,)]


def test_a_hook_of_a_batching_handler_is_given_the_list(mp: Milepost, conn: Connection) -> None:
    sizes: list[int] = []

    @mp.around
    def count(jobs: list[TakenJob], call: Any) -> Any:
        sizes.append(len(jobs))
        return call()

    @mp.worker("emails", handle="batch", batch=10)
    def send(jobs: list[TakenJob], tx: Connection) -> None: ...

    with conn.transaction():
        mp.put(conn, *(Job("emails") for _ in range(5)))
    with working(send):
        wait_until(lambda: is_empty(conn))
    assert sum(sizes) == 5


def test_an_async_resource_is_opened_on_the_loop_of_its_handlers_and_closed_at_the_end(
    mp: Milepost, conn: Connection
) -> None:
    loops: list[Any] = []
    notes: list[str] = []

    @mp.resource
    async def client() -> AsyncIterator[str]:
        loops.append(asyncio.get_running_loop())
        notes.append("opened")
        yield "client"
        await asyncio.sleep(0)
        notes.append("closed")

    @mp.resource(name="model")
    def load() -> Iterator[str]:
        yield "model"

    @mp.worker("emails")
    async def send(job: TakenJob, model: str, tx: AsyncConnection, client: str) -> str:
        loops.append(asyncio.get_running_loop())
        return f"{client} {model}"

    (id_,) = mp.put(conn, Job("emails", keep_for=KEPT))
    with working(send):
        assert mp.wait_for_result(id_) == "client model"
        assert notes == ["opened"]
    assert notes == ["opened", "closed"]
    assert loops[0] is loops[1]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_at_opening_ends_the_worker_before_it_takes_a_job(
    mp: Milepost, conn: Connection, is_async: bool
) -> None:
    if is_async:

        @mp.resource(name="client")
        async def async_client() -> AsyncIterator[str]:
            raise ConnectionError("no route")
            yield ""

        @mp.worker("emails")
        async def send_async(job: TakenJob, *, client: str) -> None: ...

    else:

        @mp.resource
        def client() -> Iterator[str]:
            raise ConnectionError("no route")
            yield ""

        @mp.worker("emails")
        def send(job: TakenJob, *, client: str) -> None: ...

    mp.put(conn, Job("emails"))
    error = Working(mp.workers["emails"]).ends()
    assert isinstance(error, ResourceFailed)
    assert "no route" in str(error)
    assert statuses(conn) == [("ready", 0, 0)]


def test_no_job_is_taken_while_an_async_resource_is_being_opened(
    mp: Milepost, conn: Connection
) -> None:
    begun, is_free = threading.Event(), threading.Event()

    @mp.resource
    async def model() -> AsyncIterator[str]:
        begun.set()
        await asyncio.to_thread(is_free.wait, 30)
        yield "model"

    @mp.worker("emails")
    async def send(job: TakenJob, *, model: str) -> None: ...

    (id_,) = mp.put(conn, Job("emails"))
    with working(send):
        assert begun.wait(30)
        assert status(conn, id_) == "ready"
        is_free.set()
        wait_until(lambda: is_empty(conn))


def test_a_handler_with_an_unknown_parameter_ends_the_run_before_it_starts(mp: Milepost) -> None:
    @mp.worker("emails")
    def send(job: TakenJob, *, client: str) -> None: ...

    with pytest.raises(TypeError, match=r"cannot start: there is nothing to give for client of"):
        mp.run()


def test_a_hook_of_the_other_colour_ends_the_run_before_it_starts(mp: Milepost) -> None:
    @mp.around
    def trace(job: TakenJob, call: Any) -> Any:
        return call()

    @mp.worker("emails")
    async def send(job: TakenJob) -> None: ...

    with pytest.raises(TypeError, match="Register one that is async def as well"):
        mp.run()
