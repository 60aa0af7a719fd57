"""Tasks from put to done, on a server."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from threading import get_ident
from typing import Any

import pytest

from milepost import SUPPLIED, Job, Milepost, Repeat, TakenJob, db
from milepost.db import AsyncConnection, Connection
from milepost.errors import InvalidArguments, JobFailed
from milepost.queue import admin
from tests.integration.queue.jobs import column, status
from tests.integration.queue.worker.working import is_empty, working
from tests.waiting import wait_until

KEPT = timedelta(hours=1)


def test_a_task_is_put_in_the_callers_transaction_and_its_handle_has_the_result(
    mp: Milepost, conn: Connection
) -> None:
    @mp.task(keep_for=KEPT)
    def add(a: int, b: int = 1) -> int:
        return a + b

    with conn.transaction(force_rollback=True):
        add.put(conn, 1)
    assert is_empty(conn)
    with conn.transaction():
        handle = add.put(conn, a=20, b=22)
    with working(mp.workers["tasks"]):
        assert handle.wait() == 42
    assert handle.result() == 42
    assert mp.result(handle.id) == 42


def test_wrong_arguments_leave_the_transaction_as_it_was(mp: Milepost, conn: Connection) -> None:
    @mp.task
    def send(order: int) -> None: ...

    with conn.transaction():
        send.put(conn, order=1)
        with pytest.raises(InvalidArguments):
            send.put(conn, order="two")  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="psycopg connection"):
            send.put(1, order=2)  # type: ignore[call-overload]
    assert [job.content for job in admin.list_jobs(conn, mp.schema)] == [
        b'{"task":"send","arguments":{"order":1}}'
    ]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_channel_has_tasks_with_and_without_a_transaction(
    mp: Milepost, conn: Connection, is_async: bool
) -> None:
    conn.execute("create table sent (number integer)")
    seen: list[str] = []
    if is_async:

        @mp.task
        async def store(tx: AsyncConnection, number: int) -> None:
            await tx.execute("insert into sent values (%s)", [number])

        @mp.task
        async def note(job: TakenJob, text: str) -> None:
            seen.append(f"{text} {job.attempt}")

        puts: Any = (store, note)
    else:

        @mp.task(name="store")
        def store_now(tx: Connection, number: int) -> None:
            tx.execute("insert into sent values (%s)", [number])

        @mp.task(name="note")
        def note_now(job: TakenJob, text: str) -> None:
            seen.append(f"{text} {job.attempt}")

        puts = (store_now, note_now)
    for number in range(3):
        puts[0].put(conn, number)
        puts[1].put(conn, text="noted")
    with working(mp.workers["tasks"]):
        wait_until(lambda: is_empty(conn))
    assert sorted(conn.execute("select number from sent").fetchall()) == [(0,), (1,), (2,)]
    assert seen == ["noted 1"] * 3


def test_a_task_without_a_transaction_holds_none_open_beside_one_that_has(
    mp: Milepost, conn: Connection
) -> None:
    """Else a long task would keep a transaction open for as long as it runs. By one handler: others
    that are woken may open one for a moment, and find that there is nothing to do."""
    mp.task_channel("tasks", concurrency=1)
    found: list[int] = []

    @mp.task
    def store(tx: Connection) -> None: ...

    @mp.task
    def look() -> None:
        rows = conn.execute(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and state = 'idle in transaction'"
        ).fetchall()
        found.append(rows[0][0])

    look.put(conn)
    with working(mp.workers["tasks"]):
        wait_until(lambda: is_empty(conn))
    assert found == [0]


def test_a_worker_of_all_channels_beside_tasks_ends_the_run_before_it_starts(mp: Milepost) -> None:
    @mp.task
    def send() -> None: ...

    @mp.worker("*")
    def handle(job: TakenJob) -> None: ...

    with pytest.raises(
        ValueError, match=r"The worker of '\*' would take jobs of the channel 'tasks'"
    ):
        mp.run(until="drained")
    mp.run(["tasks"], until="drained")


def test_an_unknown_task_is_dead_with_its_content_and_can_be_retried_when_it_is_known(
    mp: Milepost, conn: Connection, url: str
) -> None:
    @mp.task
    def old() -> None: ...

    newer = Milepost(url)

    @newer.task(keep_for=KEPT)
    def new(number: int) -> int:
        return number

    handle = new.put(conn, 5)
    with working(mp.workers["tasks"]):
        wait_until(lambda: status(conn, handle.id) == "dead")
    error = column(conn, handle.id, "last_error")
    assert "'new', which is not known here" in error
    assert f"milepost queue retry {handle.id}" in error
    with pytest.raises(JobFailed, match="UnknownTask"):
        handle.result()
    admin.retry(conn, mp.schema, [handle.id])
    with working(newer.workers["tasks"]):
        assert handle.wait() == 5


def test_a_task_whose_signature_changed_is_dead_and_not_retried(
    mp: Milepost, conn: Connection
) -> None:
    @mp.task
    def send(order: int) -> None: ...

    (id_,) = mp.put(conn, Job("tasks", {"task": "send", "arguments": {"number": 1}}))
    with working(mp.workers["tasks"]):
        wait_until(lambda: status(conn, id_) == "dead")
    assert column(conn, id_, "failures") == 1
    assert "send(order: 'int')" in column(conn, id_, "last_error")


def test_async_callers_put_and_wait(mp: Milepost, conn: Connection, url: str) -> None:
    @mp.task(keep_for=KEPT)
    async def add(a: int) -> int:
        return a + 1

    async def call() -> Any:
        async with await db.connect_async(url) as own:
            handle = await add.put(own, 1)
        return await handle.wait_async(), await handle.result_async()

    with working(mp.workers["tasks"]):
        assert asyncio.run(call()) == (2, 2)


def test_options_of_a_put(mp: Milepost, conn: Connection) -> None:
    @mp.task
    def send(order: int) -> None: ...

    first = send.options(unique_key="order-1", run_at=timedelta(hours=1), priority=5).put(conn, 1)
    assert send.options(unique_key="order-1").put(conn, order=1) == first
    assert column(conn, first.id, "priority") == 5
    assert status(conn, first.id) == "scheduled"


def test_a_task_can_be_scheduled(mp: Milepost, conn: Connection) -> None:
    threads: list[int] = []

    @mp.task
    def tick(number: int) -> None:
        threads.append(number)

    mp.schedule("ticks", Repeat(every=timedelta(seconds=0.05)), tick.job(number=3))
    with working(*mp.members()):
        wait_until(lambda: len(threads) >= 2)
    assert set(threads) == {3}


def test_a_task_is_given_a_resource_that_lives_as_long_as_the_worker(
    mp: Milepost, conn: Connection
) -> None:
    opened: list[str] = []

    @mp.resource
    def client() -> Any:
        opened.append("opened")
        yield f"client of {get_ident()}"
        opened.append("closed")

    @mp.task(keep_for=KEPT)
    def send(order: int, *, client: str = SUPPLIED) -> str:
        return client

    handles = [send.put(conn, order=n) for n in range(3)]
    with working(mp.workers["tasks"]):
        clients = {handle.wait() for handle in handles}
        assert opened == ["opened"]
    assert len(clients) == 1
    assert opened == ["opened", "closed"]
