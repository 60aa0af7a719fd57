"""Jobs are put in the caller's transaction, by whichever way is fastest."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg.rows import dict_row

from milepost import db
from milepost.db import Connection, one
from milepost.errors import (
    ChannelFull,
    ConnectionUnusable,
    InvalidJob,
    ReadOnlyServer,
    ReadOnlyTransaction,
)
from milepost.queue import Policy, put, set_channel
from milepost.queue.put import PUT_AT_MOST
from milepost.queue.verbs import take
from milepost.records import Job, TakenJob
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.jobs import column, status, statuses

# One call, one statement of arrays, several.
COUNTS = [1, 3, PUT_AT_MOST + 1]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("count", COUNTS)
def test_jobs_come_back_in_the_order_in_which_they_were_put(conn: Connection, count: int) -> None:
    ids = put(conn, *(Job("letters", {"number": n}) for n in range(count)))
    assert ids == sorted(ids)
    assert len(set(ids)) == count
    jobs = take(conn, count)
    assert [job.id for job in jobs] == ids
    assert [job.content for job in jobs] == [{"number": n} for n in range(count)]


@pytest.mark.parametrize("count", COUNTS)
def test_a_connection_that_gives_dicts_puts_alike(conn: Connection, url: str, count: int) -> None:
    async def putting() -> list[int]:
        async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as theirs:
            return await put(theirs, *(Job("letters") for _ in range(count)))

    with psycopg.connect(url, row_factory=dict_row) as theirs:
        ids = put(theirs, *(Job("letters") for _ in range(count)))
    ids += asyncio.run(putting())
    assert [job.id for job in take(conn, 2 * count)] == ids


@pytest.mark.parametrize("count", COUNTS)
def test_every_field_arrives(conn: Connection, count: int) -> None:
    jobs = [
        Job("c", b"\x00\xff", priority=-3, max_attempts=2, state=[1], keep_for=timedelta(hours=1))
        for _ in range(count)
    ]
    put(conn, *jobs)
    for job in take(conn, count):
        assert (job.raw, job.priority, job.max_attempts, job.state) == (b"\x00\xff", -3, 2, [1])
        assert job.is_kept
        assert column(conn, job.id, "keep_for") == "01:00:00"
        assert (job.attempt, job.failures) == (1, 0)


@pytest.mark.parametrize("count", COUNTS)
def test_jobs_exist_only_if_the_transaction_commits(
    conn: Connection, session: OpenSession, count: int
) -> None:
    jobs = [Job("c") for _ in range(count)]
    with conn.transaction(force_rollback=True):
        put(conn, *jobs)
        assert not statuses(session())
    assert not statuses(conn)
    with conn.transaction():
        put(conn, *jobs)
    assert statuses(session()) == {"ready": count}


@pytest.mark.parametrize("count", COUNTS)
def test_a_transaction_that_psycopg_opens_is_left_to_the_caller(url: str, count: int) -> None:
    with psycopg.connect(url) as conn:
        put(conn, *(Job("c") for _ in range(count)))
        conn.rollback()
        assert not statuses(conn)


@pytest.mark.parametrize("count", COUNTS)
def test_coroutines_put_as_well(url: str, conn: Connection, count: int) -> None:
    async def put_all() -> list[int]:
        async with await db.connect_async(url) as connection:
            return await put(connection, *(Job("c", n) for n in range(count)))

    ids = asyncio.run(put_all())
    assert [(job.id, job.content) for job in take(conn, count)] == list(
        zip(ids, range(count), strict=True)
    )


@pytest.mark.parametrize("count", COUNTS)
def test_a_delay_is_counted_by_the_servers_clock(conn: Connection, count: int) -> None:
    ids = put(conn, *(Job("c", run_at=timedelta(hours=1)) for _ in range(count)))
    row = conn.execute(
        "select count(*) from milepost.jobs where id = any(%s) and status = 'scheduled' "
        "and run_at - clock_timestamp() between interval '59 min' and interval '1 hour'",
        [ids],
    )
    assert one(row.fetchone())[0] == count
    assert not take(conn, count)


@pytest.mark.parametrize("count", COUNTS)
def test_a_time_that_is_past_makes_a_job_ready(conn: Connection, count: int) -> None:
    times: list[datetime | timedelta] = [datetime(2020, 1, 1, tzinfo=UTC), timedelta(seconds=-1)]
    ids = put(conn, *(Job("c", run_at=times[n % 2]) for n in range(count)))
    assert {status(conn, id_) for id_ in ids} == {"ready"}


@pytest.mark.parametrize("count", COUNTS)
def test_a_job_is_due_in_its_turn(conn: Connection, count: int) -> None:
    put(conn, *(Job("c", run_at=timedelta(milliseconds=5)) for _ in range(count)))
    taken: list[TakenJob] = []
    while len(taken) < count:
        taken += take(conn, count)
    assert statuses(conn) == {"running": count}


def test_nothing_is_put_by_putting_nothing(conn: Connection) -> None:
    assert put(conn) == []


BAD_JOBS = {
    "channel": Job(""),
    "channel of a kind": Job(1),  # type: ignore[arg-type]
    "channel's length": Job("x" * 256),
    "channel with NUL": Job("a\0"),
    "channel with half a character": Job("\ud800"),
    "content": Job("c", object()),
    "content that is infinite": Job("c", {"a": [float("inf")]}),
    "state": Job("c", state=object()),
    "run_at without a zone": Job("c", run_at=datetime(2020, 1, 1)),
    "run_at of a kind": Job("c", run_at=3),  # type: ignore[arg-type]
    "priority": Job("c", priority=2**15),
    "max_attempts": Job("c", max_attempts=0),
    "unique_key": Job("c", unique_key=""),
    "keep_for": Job("c", keep_for=timedelta(0)),
    "keep_for of a kind": Job("c", keep_for=60),  # type: ignore[arg-type]
    "unique_for of a kind": Job("c", unique_key="k", unique_for=1.5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", BAD_JOBS)
@pytest.mark.parametrize("count", COUNTS)
def test_a_bad_job_is_refused_before_anything_is_sent(
    conn: Connection, case: str, count: int
) -> None:
    with conn.transaction():
        with pytest.raises(InvalidJob) as refused:
            put(conn, *(Job("c") for _ in range(count - 1)), BAD_JOBS[case])
        assert refused.value.field == case.split("'")[0].split()[0]
        put(conn, Job("c"))
    assert statuses(conn) == {"ready": 1}


@pytest.mark.parametrize("count", COUNTS)
def test_what_is_not_a_job_is_refused_by_its_name(conn: Connection, count: int) -> None:
    others = [{"channel": "c"}, "c", TakenJob(1, "c", 1, 0, 1, 0, LONG_AGO, b"", None, None, False)]
    for other in others:
        with pytest.raises(TypeError, match=f"{type(other).__name__}, expected a milepost.Job"):
            put(conn, *(Job("c") for _ in range(count - 1)), other)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="Pass the connection or Session first"):
        put(*(Job("c") for _ in range(count)))  # type: ignore[call-overload]
    assert not statuses(conn)


@pytest.mark.parametrize("count", COUNTS)
def test_a_full_channel_refuses_and_says_so(conn: Connection, count: int) -> None:
    set_channel(conn, "small", Policy(max_size=count))
    put(conn, *(Job("small") for _ in range(count)))
    with pytest.raises(ChannelFull, match=f"small is full: it holds {count} jobs of at most"):
        put(conn, *(Job("small") for _ in range(count)))
    assert statuses(conn) == {"ready": count}
    put(conn, *(Job("other") for _ in range(count)))


def test_scheduled_and_running_jobs_fill_a_channel_and_finished_ones_do_not(
    conn: Connection,
) -> None:
    set_channel(conn, "small", Policy(max_size=2))
    put(conn, Job("small"), Job("small", run_at=timedelta(hours=1)))
    with pytest.raises(ChannelFull):
        put(conn, Job("small"))
    (job,) = take(conn, 1)
    with pytest.raises(ChannelFull):
        put(conn, Job("small"))
    conn.execute("select milepost.fail(array[%s], array[1], finals => array[true])", [job.id])
    put(conn, Job("small"))
    assert statuses(conn) == {"dead": 1, "scheduled": 1, "ready": 1}


def test_a_put_with_the_same_key_into_a_full_channel_answers_with_the_first(
    conn: Connection,
) -> None:
    set_channel(conn, "small", Policy(max_size=1))
    first = put(conn, Job("small", unique_key="k"))
    assert put(conn, Job("small", unique_key="k")) == first


@pytest.mark.parametrize("count", COUNTS)
def test_a_failed_transaction_is_refused(conn: Connection, count: int) -> None:
    with conn.transaction(force_rollback=True):
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("select 1 / 0")
        with pytest.raises(ConnectionUnusable):
            put(conn, *(Job("c") for _ in range(count)))


@pytest.mark.parametrize("count", COUNTS)
def test_a_read_only_transaction_is_told_from_a_read_only_server(
    conn: Connection, count: int
) -> None:
    conn.read_only = True
    with (
        pytest.raises(ReadOnlyTransaction, match="begin one that may write"),
        conn.transaction(),
    ):
        put(conn, *(Job("c") for _ in range(count)))
    conn.read_only = None
    conn.execute("set default_transaction_read_only = on")
    with pytest.raises(ReadOnlyServer, match="default_transaction_read_only is on"):
        put(conn, *(Job("c") for _ in range(count)))
    assert statuses(conn) == {}


def test_plain_sql_puts_with_its_defaults(conn: Connection) -> None:
    conn.execute("select milepost.put('c', 'true')")
    conn.execute("select milepost.put_many(array['c', 'c'], array['1', '2'])")
    assert [job.content for job in take(conn, 5)] == [True, 1, 2]
